//! Writing of a new sorted set, for ZRANGESTORE and set operations.

use super::Done;
use super::range::{Found, Wanted, find, visit};
use crate::error::Failure;
use crate::protocol::resp::{Args, Reply};
use crate::redis::args::name;
use crate::store::model::{Collection, Kind, format};
use crate::store::{Staging, Transaction};
use std::ops::ControlFlow;

/// A sorted set that is being written. Only a part of it is in memory.
pub(super) struct Making<'s> {
    set: Collection,
    database: u8,
    staging: Staging<'s>,
}

impl<'s> Making<'s> {
    pub(super) fn new(transaction: &mut Transaction<'s>) -> Result<Making<'s>, Failure> {
        let set = transaction.new_collection(Kind::SortedSet)?;
        let database = transaction.database;
        Ok(Making {
            set,
            database,
            staging: Staging::new(transaction, database, set.number),
        })
    }

    /// Adds a member that is not in the set yet.
    pub(super) fn add(&mut self, member: &[u8], score: f64) -> Done {
        let (database, number) = (self.database, self.set.number);
        let key = format::sorted_member_key(database, number, member);
        let place = format::score_key(database, number, score, member);
        self.set.count += 1;
        // Store minus zero as zero.
        self.staging
            .put(key, format::encode_score(score + 0.0).to_vec())?;
        self.staging.put(place, Vec::new())
    }

    /// Replaces the content of a key by the set. Returns the number of members.
    pub(super) fn finish(mut self, transaction: &mut Transaction<'s>, key: &[u8]) -> Result<u64, Failure> {
        self.staging.finish(transaction)?;
        transaction.remove(key)?;
        if self.set.count > 0 {
            super::save(transaction, key, &mut self.set)?;
        }
        Ok(self.set.count)
    }
}

pub(crate) fn zrange_store(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let wanted = Wanted::to_store(args)?;
    let key = name(args.at(1))?;
    let found = find(transaction, args.at(2), &wanted)?;
    let mut making = Making::new(transaction)?;
    match found {
        Found::Listed(members) => {
            for (member, score) in &members {
                making.add(member, *score)?;
            }
        }
        Found::Stretch(stretch) => {
            let mut result = Ok(());
            visit(transaction, &stretch, |member, score| {
                result = making.add(member, score);
                match result {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            })?;
            result?;
        }
    }
    let count = making.finish(transaction, key)?;
    reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}
