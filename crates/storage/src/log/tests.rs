//! Tests of the whole log.

use super::*;
use alluvium_device::memory::MemoryDirectory;

fn memory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

fn small() -> LogOptions {
    LogOptions {
        limit_bytes: 16 * 4096,
        segment_bytes: 4096,
        reserve_bytes: 4096,
        lanes: 2,
        access: Access::Mapped,
        identity: 7,
    }
}

type Replayed = Vec<(u64, u32, Vec<u8>)>;

fn reopen(directory: &Arc<dyn Directory>, options: LogOptions, from: u64) -> Result<(Log, Replayed)> {
    let mut seen = Vec::new();
    let log = Log::open(directory, options, from, 1, 0, &mut |record| {
        seen.push((record.first, record.count, record.payload.to_vec()));
        Ok(())
    })?;
    Ok((log, seen))
}

#[test]
fn what_was_appended_is_replayed_with_both_ways_of_writing() {
    for access in [Access::Mapped, Access::Written] {
        let directory = memory();
        let options = LogOptions { access, ..small() };
        let log = Log::create(&directory, options, 1).unwrap();
        let mut expected = Vec::new();
        let mut next = 1;
        for turn in 0..100u32 {
            let payload = vec![turn as u8; (turn as usize * 37) % 700];
            let count = turn % 3 + 1;
            let durability = [Durability::Memory, Durability::Process, Durability::Disk][turn as usize % 3];
            log.append(next, count, &payload, durability).unwrap();
            expected.push((next, count, payload));
            next += u64::from(count);
        }
        assert_eq!(log.check().unwrap(), []);
        drop(log);
        // Everything but what waits in a buffer survives; a clean close empties it.
        let (log, seen) = reopen(&directory, options, 0).unwrap();
        assert!(expected.starts_with(&seen[..seen.len() - 1]), "{access:?}");
        log.close().unwrap();
    }
}
