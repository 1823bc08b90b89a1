//! Tests of segments retained for readers that follow the log. Such a reader gets all records or is
//! told that some are no longer available. No file of a retained segment stays open.

use super::super::*;
use super::space::unmapped::Place;
use super::{memory, reopen, small};
use alluvium_device::DeviceOperation;
use alluvium_device::simulated::{CrashSurvival, InjectedFault, SimDirectory};

/// Returns every sequence number above `after`, in the order in which a reader that follows the log
/// gets them, or `None` if the log reports that some records are no longer available.
fn follow(log: &WriteAheadLog, mut after: u64, bytes: u64) -> Option<Vec<u64>> {
    let (mut seen, last) = (Vec::new(), log.completed());
    while after < last {
        let mut take = |record: LogRecord<'_>| seen.push(record.first);
        let reached = log.read_after(after, last, bytes, &mut take).unwrap()?;
        assert!(reached > after, "a follower gets on");
        after = reached;
    }
    Some(seen)
}

fn lives(log: &WriteAheadLog, keep: u64) {
    log.retain(keep);
    let mut next = 1;
    let mut gone = 0;
    for generation in 2..30 {
        for _ in 0..40 {
            write_as(next as usize % 3);
            log.append(next, 1, &[next as u8; 200], LogDurability::Process)
                .unwrap();
            next += 1;
        }
        log.note_generation(generation).unwrap();
        log.release(next - 1 - generation).unwrap();
        let last = next - 1;
        for after in (0..=last).step_by(61) {
            match follow(log, after, 9_000) {
                Some(seen) => assert_eq!(seen, (after + 1..=last).collect::<Vec<_>>(), "after {after}"),
                None => gone += 1,
            }
        }
        let all = follow(log, log.forgotten(), u64::MAX).unwrap();
        assert_eq!(all, (log.forgotten() + 1..=last).collect::<Vec<_>>());
    }
    assert!(gone > 0 || keep > 1 << 20, "something was given up");
}

#[test]
fn a_follower_gets_everything_or_hears_that_it_is_gone() {
    for keep in [0, 8 << 12, 1 << 30] {
        let options = LogOptions { lanes: 3, ..small() };
        let log = WriteAheadLog::create(&memory(), options, 1).unwrap();
        lives(&log, keep);
        assert_eq!(log.check().unwrap(), []);
    }
}

#[test]
fn what_is_kept_holds_no_open_file() {
    let directory = Arc::new(Place::of(memory()));
    let shared: Arc<dyn Directory> = Arc::clone(&directory) as _;
    let log = WriteAheadLog::create(&shared, small(), 1).unwrap();
    lives(&log, 1 << 30);
    let (open, files) = (directory.open_files(), directory.list().unwrap().len());
    let most = (small().limit_bytes / small().segment_bytes + 8) as usize;
    assert!(
        files > 2 * most && open < most,
        "{open} of {files} files are open"
    );
}

#[test]
fn too_many_open_files_are_no_failure_of_the_device() {
    for operation in [
        DeviceOperation::Create,
        DeviceOperation::Open,
        DeviceOperation::Map,
    ] {
        let directory = SimDirectory::new(1);
        let shared: Arc<dyn Directory> = Arc::new(directory.clone());
        let log = WriteAheadLog::create(&shared, small(), 1).unwrap();
        log.retain(4 << 12);
        directory.inject(InjectedFault::short(operation).sticky());
        let (mut next, mut refused) = (1, 0);
        for generation in 2..20 {
            for _ in 0..60 {
                match log.append(next, 1, &[1; 200], LogDurability::Process) {
                    Ok(()) => next += 1,
                    Err(error) => {
                        assert!(error.is_full(), "{operation}: {error}");
                        refused += 1;
                    }
                }
            }
            log.note_generation(generation).unwrap();
            log.release(next - 1).unwrap();
        }
        assert!(operation == DeviceOperation::Open || refused > 0, "{operation}");
        directory.clear_faults();
        log.append(next, 1, b"again", LogDurability::Disk).unwrap();
        assert_eq!(log.check().unwrap(), []);
    }
}

#[test]
fn a_follower_never_sees_what_lies_behind_a_cut_that_is_put_off() {
    let machine = SimDirectory::new(3);
    let shared: Arc<dyn Directory> = Arc::new(machine.clone());
    let log = WriteAheadLog::create(&shared, small(), 1).unwrap();
    log.append(1, 1, b"one", LogDurability::Process).unwrap();
    log.append(2, 1, b"two", LogDurability::Disk).unwrap();
    // Sequence number 3 was never appended, so record 4 is not valid.
    log.append(4, 1, b"four", LogDurability::Process).unwrap();
    let image = machine.image(CrashSurvival::Process, 1);
    let shared: Arc<dyn Directory> = Arc::new(image.clone());
    image.inject(InjectedFault::full(DeviceOperation::Write).sticky());
    let (log, _) = reopen(&shared, small(), 0, 1).unwrap();
    assert_eq!(
        (log.completed(), follow(&log, 0, u64::MAX)),
        (2, Some(vec![1, 2]))
    );
    assert!(
        log.append(3, 1, b"no", LogDurability::Process)
            .unwrap_err()
            .is_full()
    );
    assert_eq!(follow(&log, 0, u64::MAX), Some(vec![1, 2]));
    image.clear_faults();
    let payloads = |log: &WriteAheadLog| {
        let mut payloads = Vec::new();
        let mut take = |record: LogRecord<'_>| payloads.push((record.first, record.payload.to_vec()));
        log.read_after(2, log.completed(), u64::MAX, &mut take).unwrap();
        payloads
    };
    log.append(3, 1, b"another three", LogDurability::Process)
        .unwrap();
    assert_eq!(payloads(&log), [(3, b"another three".to_vec())]);
    log.append(4, 1, b"another four", LogDurability::Process).unwrap();
    let both = [(3, b"another three".to_vec()), (4, b"another four".to_vec())];
    assert_eq!(payloads(&log), both);
}
