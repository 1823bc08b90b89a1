//! Tests of the log as a whole.

mod basic;
mod crash;
mod damage;
mod faults;
mod history;
mod lives;
mod lost;
mod space;
mod story;
mod threads;

use super::*;
use alluvium_device::memory::MemoryDirectory;

fn memory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

/// Returns options with sixteen one-page segments and two lanes, so that rare events happen often.
fn small() -> LogOptions {
    LogOptions {
        limit_bytes: 16 * 4096,
        segment_bytes: 4096,
        reserve_bytes: 4096,
        lanes: 2,
        access: SegmentAccess::Mapped,
        starts_small: false,
        stored_bytes: 0,
        identity: 7,
    }
}

/// Returns options for a log whose segments grow from one page to four.
fn growing() -> LogOptions {
    LogOptions {
        limit_bytes: 10 * (16 << 10),
        segment_bytes: 16 << 10,
        reserve_bytes: 16 << 10,
        starts_small: true,
        ..small()
    }
}

type Replayed = Vec<(u64, u32, Vec<u8>)>;

/// Opens the log of a store whose superblock has `generation` and contains everything up to `from`.
fn reopen(
    directory: &Arc<dyn Directory>,
    options: LogOptions,
    from: u64,
    generation: u64,
) -> Result<(WriteAheadLog, Replayed)> {
    let mut seen = Vec::new();
    let log = WriteAheadLog::open(directory, options, from, generation, 0, &mut |record| {
        seen.push((record.first, record.count, record.payload.to_vec()));
        Ok(())
    })?;
    Ok((log, seen))
}
