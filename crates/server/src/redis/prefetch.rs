//! Reads the records of a batch before its commands run.

use crate::error::CommandError;
use crate::store::model::format::InnerKey;
use crate::store::{CommandTransaction, ReadReservation};
use alluvium::{MultiGetFuture, Value};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A batch's pending read and its memory charge.
pub(super) struct PendingRead {
    pub(super) reading: MultiGetFuture,
    pub(super) memory: ReadReservation,
    /// The stored number of the records' database.
    pub(super) number: u8,
}

/// The result of a completed read of a batch.
pub(super) struct ReadResult {
    pub(super) values: alluvium::Result<Vec<Option<Value>>>,
    /// The database's stored number at the time of the read.
    pub(super) number: u8,
}

/// The result of an attempt to prefetch records.
pub(super) enum PrefetchOutcome {
    /// All records are in the transaction, or the commands need none.
    Known,
    /// The records must be read from the device. Contains the pending read with its memory charge.
    Waits(Box<PendingRead>),
    /// The memory budget of the clients is exhausted.
    NoRoom,
}

/// Prefetches records for a transaction's commands. If this must wait for the device, returns the
/// pending read.
pub(super) fn read_ahead(
    transaction: &mut CommandTransaction<'_>,
    records: Vec<InnerKey>,
    read: Option<ReadResult>,
    needs_locks: bool,
    context: &mut Context<'_>,
) -> Result<PrefetchOutcome, CommandError> {
    if records.is_empty() {
        return Ok(PrefetchOutcome::Known);
    }
    let gathered = transaction.store.gather(transaction.database, &records);
    let Some(space) = gathered.space else {
        let none = records.iter().map(|_| None).collect();
        transaction.has_read(records, none);
        return Ok(PrefetchOutcome::Known);
    };
    // Discard the result if the database was swapped after it was read (S24).
    let read = read.filter(|read| read.number == transaction.database);
    match read.map(|read| read.values) {
        // The read has brought these records into memory, but they may have changed before the
        // locks were acquired. Read them again.
        Some(result) if needs_locks => {
            result?;
            transaction.prefetch(records)?;
        }
        Some(result) => transaction.has_read(records, result?),
        None => {
            // If all records are in memory, the first poll returns them. Memory is charged only if
            // values must be read from the device.
            let mut reading = space.multi_get_async(&gathered.names);
            match Pin::new(&mut reading).poll(context) {
                Poll::Ready(values) => transaction.has_read(records, values?),
                Poll::Pending => {
                    let Some(memory) = transaction.store.room_to_read(records.len()) else {
                        return Ok(PrefetchOutcome::NoRoom);
                    };
                    return Ok(PrefetchOutcome::Waits(Box::new(PendingRead {
                        reading,
                        memory,
                        number: transaction.database,
                    })));
                }
            }
        }
    }
    Ok(PrefetchOutcome::Known)
}
