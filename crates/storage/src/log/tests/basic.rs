//! Tests of a log without faults.

use super::super::*;
use super::{memory, reopen, small};

#[test]
fn what_was_appended_is_replayed_with_both_ways_of_writing() {
    for access in [SegmentAccess::Mapped, SegmentAccess::Written] {
        let directory = memory();
        let options = LogOptions { access, ..small() };
        let log = WriteAheadLog::create(&directory, options, 1).unwrap();
        let mut expected = Vec::new();
        let mut next = 1;
        for turn in 0..100u32 {
            let payload = vec![turn as u8; (turn as usize * 37) % 700];
            let count = turn % 3 + 1;
            let durability =
                [LogDurability::Memory, LogDurability::Process, LogDurability::Disk][turn as usize % 3];
            log.append(next, count, &payload, durability).unwrap();
            expected.push((next, count, payload));
            next += u64::from(count);
        }
        assert_eq!(log.check().unwrap(), []);
        log.close().unwrap();
        let (log, seen) = reopen(&directory, options, 0, 1).unwrap();
        assert_eq!(seen, expected, "{access:?}");
        assert_eq!(log.completed(), next - 1);
    }
}
