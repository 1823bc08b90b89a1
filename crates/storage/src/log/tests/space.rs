//! Tests of the size limit, release, recycling, long records, gaps (on the same boot and on another
//! one), and generations.

use super::super::*;
use super::{memory, reopen, small};
use crate::watermark::WINDOW;
use alluvium_base::Purpose;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use alluvium_device::{AlignedBuffer, FileOptions};

fn fill(log: &WriteAheadLog, next: &mut u64, len: usize) -> Error {
    loop {
        match log.append(*next, 1, &vec![*next as u8; len], LogDurability::Process) {
            Ok(()) => *next += 1,
            Err(error) => return error,
        }
    }
}

#[test]
fn the_limit_is_kept_and_a_release_makes_room() {
    let directory = memory();
    let log = WriteAheadLog::create(&directory, small(), 1).unwrap();
    let mut next = 1;
    for generation in 2..40 {
        let error = fill(&log, &mut next, 300);
        assert!(matches!(error, Error::LogFull { reserve: true, .. }), "{error}");
        let usage = log.usage();
        assert!(usage.live_bytes <= usage.limit_bytes - 4096, "{usage:?}");
        assert!(usage.disk_bytes <= usage.limit_bytes + 2 * 4096, "{usage:?}");
        assert!(usage.resident_bytes >= usage.live_bytes);
        // The sequence numbers that did not fit can still be appended.
        log.append_as(
            next,
            1,
            b"essential",
            LogDurability::Process,
            AppendPriority::Essential,
        )
        .unwrap();
        next += 1;
        log.note_generation(generation).unwrap();
        log.release(next - 1).unwrap();
        assert!(log.usage().live_bytes <= 2 * 4096, "{:?}", log.usage());
        if generation % 3 == 0 {
            while log.prepare().unwrap() == PrepareProgress::Worked {}
        }
        assert_eq!(log.check().unwrap(), []);
    }
    // The files of released segments are reused.
    let files = directory.list().unwrap().len() as u64;
    assert!(files <= small().limit_bytes / 4096 + 4, "{files} files");
}

#[test]
fn a_record_longer_than_the_limit_is_taken_while_half_of_the_limit_is_free() {
    let directory = memory();
    let log = WriteAheadLog::create(&directory, small(), 1).unwrap();
    let long = vec![7; small().limit_bytes as usize * 2];
    let mut next = 1;
    for _ in 0..3 {
        log.append(next, 1, &long, LogDurability::Process).unwrap();
        next += 1;
        let refused = log.append(next, 1, &long, LogDurability::Process).unwrap_err();
        assert!(matches!(refused, Error::LogFull { .. }), "{refused}");
        // No other record can exceed the limit before this one is released.
        let refused = fill(&log, &mut next, 300);
        assert!(matches!(refused, Error::LogFull { .. }), "{refused}");
        log.void(next, 1).unwrap();
        next += 1;
        log.release(next - 1).unwrap();
        assert!(log.usage().live_bytes <= small().limit_bytes, "{:?}", log.usage());
    }
    let first = next;
    let refused = fill(&log, &mut next, 300);
    assert!(matches!(refused, Error::LogFull { .. }), "{refused}");
    assert!(log.append(next, 1, &long, LogDurability::Process).is_err());
    assert_eq!(log.check().unwrap(), []);
    drop(log);
    let (_, replayed) = reopen(&directory, small(), first - 1, 1).unwrap();
    assert_eq!(replayed.len() as u64, next - first);
}

#[test]
fn the_reserve_ends_too_and_notes_still_find_room() {
    let directory = memory();
    let log = WriteAheadLog::create(&directory, small(), 1).unwrap();
    let mut next = 1;
    fill(&log, &mut next, 300);
    let exhausted = loop {
        match log.append_as(
            next,
            1,
            &[1; 300],
            LogDurability::Process,
            AppendPriority::Essential,
        ) {
            Ok(()) => next += 1,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(exhausted, Error::LogFull { reserve: false, .. }),
        "{exhausted}"
    );
    log.void(next, 5).unwrap();
    next += 5;
    for generation in 2..60 {
        log.note_generation(generation).unwrap();
    }
    let error = log
        .append_as(
            next,
            1,
            &[1; 300],
            LogDurability::Process,
            AppendPriority::Essential,
        )
        .unwrap_err();
    assert!(error.is_full(), "what notes got is theirs: {error}");
    log.release(next - 1).unwrap();
    log.append(next, 1, &[1; 300], LogDurability::Disk).unwrap();
}

#[test]
fn what_a_checkpoint_has_overtaken_is_never_synced() {
    let directory = SimDirectory::new(1);
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    let log = WriteAheadLog::create(&shared, small(), 1).unwrap();
    for sequence in 1..=30 {
        log.append(sequence, 1, &[1; 400], LogDurability::Process)
            .unwrap();
    }
    assert_eq!(log.synced(), 0);
    log.note_generation(2).unwrap();
    let before = log.usage().syncs;
    log.release(30).unwrap();
    assert_eq!(log.synced(), 30, "the checkpoint holds it");
    assert_eq!(log.sync_all().unwrap(), 30);
    assert_eq!(log.usage().syncs, before);
    log.append(31, 1, b"new", LogDurability::Disk).unwrap();
    assert_eq!(log.usage().syncs, before + 1, "one segment, one sync");
}

#[test]
fn idle_slots_are_punched_and_used_again() {
    let directory = memory();
    let log = WriteAheadLog::create(&directory, small(), 1).unwrap();
    let mut next = 1;
    fill(&log, &mut next, 300);
    log.note_generation(2).unwrap();
    log.release(next - 1).unwrap();
    assert!(log.usage().free_slots > 4);
    for _ in 0..200 {
        log.prepare().unwrap();
    }
    let usage = log.usage();
    assert_eq!(usage.free_slots, 0, "{usage:?}");
    assert!(usage.punched_slots > 4, "{usage:?}");
    assert!(directory.counters().snapshot().total().punched_bytes > 4 * 4096);
    fill(&log, &mut next, 300);
    assert_eq!(log.usage().punched_slots, 0);
    assert_eq!(log.check().unwrap(), []);
}

#[test]
fn a_record_longer_than_a_segment_gets_one_of_its_own() {
    let directory = memory();
    let options = LogOptions::with_limit(64 << 20);
    let log = WriteAheadLog::create(&directory, options, 1).unwrap();
    let large: Vec<u8> = (0..16 << 20).map(|at: u32| (at ^ at >> 8) as u8).collect();
    log.append(1, 1, b"before", LogDurability::Process).unwrap();
    log.append(2, 7, &large, LogDurability::Disk).unwrap();
    log.append(9, 1, b"after", LogDurability::Process).unwrap();
    let files = directory.list().unwrap().len();
    drop(log);
    let (log, seen) = reopen(&directory, options, 0, 1).unwrap();
    assert!(seen[1].2 == large);
    assert_eq!(seen[2], (9, 1, b"after".to_vec()));
    log.note_generation(2).unwrap();
    log.release(9).unwrap();
    assert!(directory.list().unwrap().len() <= files, "its file is gone");
    let huge = vec![0; MAX_PAYLOAD as usize + 1];
    let error = log.append(10, 1, &huge, LogDurability::Process).unwrap_err();
    assert!(
        matches!(
            error,
            Error::BadOption {
                option: "log record",
                ..
            }
        ),
        "{error}"
    );
    log.append(10, 1, b"still open", LogDurability::Disk).unwrap();
}

/// Returns a log with the records 1, 2 and 4, where 4 is in the other lane. Record 3 was never
/// appended, so there is a gap.
fn with_a_gap() -> SimDirectory {
    let directory = SimDirectory::new(3);
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    let log = WriteAheadLog::create(&shared, small(), 1).unwrap();
    log.append(1, 1, b"one", LogDurability::Process).unwrap();
    log.append(2, 1, b"two", LogDurability::Disk).unwrap();
    log.append(4, 1, b"four", LogDurability::Process).unwrap();
    assert_eq!((log.completed(), log.synced()), (2, 2));
    directory
}

fn sequences(directory: &SimDirectory, from: u64) -> Result<(WriteAheadLog, Vec<u64>)> {
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    let (log, seen) = reopen(&shared, small(), from, 1)?;
    Ok((log, seen.into_iter().map(|(first, ..)| first).collect()))
}

#[test]
fn a_gap_above_all_watermarks_ends_the_log_on_any_boot() {
    let directory = with_a_gap();
    for survival in [CrashSurvival::Process, CrashSurvival::All] {
        let image = directory.image(survival, 1);
        // Cutting off the end of a segment needs no disk space.
        image.set_capacity(image.used());
        let (log, seen) = sequences(&image, 0).unwrap();
        assert_eq!((seen, log.completed()), (vec![1, 2], 2), "{survival:?}");
        image.set_capacity(u64::MAX);
        // Records that were cut off must never reappear, on the same boot or another one, even
        // though their sequence numbers are reused.
        log.append(3, 1, b"another three", LogDurability::Disk).unwrap();
        drop(log);
        for later in [CrashSurvival::Process, CrashSurvival::All, CrashSurvival::None] {
            let (log, seen) = sequences(&image.image(later, 3), 0).unwrap();
            assert_eq!(
                (seen, log.completed()),
                (vec![1, 2, 3], 3),
                "{survival:?} {later:?}"
            );
        }
    }
}

#[test]
fn a_gap_below_the_synced_watermark_is_damage_that_is_named() {
    let directory = with_a_gap();
    for (survival, known) in [(CrashSurvival::Process, 3), (CrashSurvival::All, 4)] {
        let shared: Arc<dyn Directory> = Arc::new(directory.image(survival, 1));
        let opened = WriteAheadLog::open(&shared, small(), 0, 1, known, &mut |_| Ok(()));
        match opened {
            Err(error @ Error::Corrupt { .. }) => {
                let text = error.to_string();
                assert!(text.contains("sequence 3") && text.contains("log-"), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_record_that_was_being_written_at_the_kill_is_no_damage() {
    let directory = SimDirectory::new(3);
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    let options = LogOptions { lanes: 1, ..small() };
    let log = WriteAheadLog::create(&shared, options, 1).unwrap();
    log.append(1, 1, &[1; 60], LogDurability::Process).unwrap();
    log.append(2, 1, &[2; 60], LogDurability::Process).unwrap();
    drop(log);
    // The last record begins at offset 512 + 40 + 104, and its payload begins 40 bytes later.
    for torn in (656..756).step_by(3) {
        let image = directory.image(CrashSurvival::Process, 1);
        let file = image.open("log-0", FileOptions::BUFFERED).unwrap();
        let mut bytes = file.read_at(0, 1024, Purpose::Other).unwrap().to_vec();
        bytes[torn..].fill(0);
        file.write_at(0, AlignedBuffer::padded(&bytes), Purpose::Other)
            .unwrap();
        drop(file);
        let shared: Arc<dyn Directory> = Arc::new(image);
        let (log, seen) = reopen(&shared, options, 0, 1).unwrap();
        assert_eq!((seen.len(), log.completed()), (1, 1), "torn at {torn}");
        log.append(2, 1, b"again", LogDurability::Disk).unwrap();
        drop(log);
        assert_eq!(reopen(&shared, options, 0, 1).unwrap().1[1].2, b"again");
    }
}

#[test]
fn an_older_superblock_than_the_log_has_seen_is_refused() {
    let directory = memory();
    let log = WriteAheadLog::create(&directory, small(), 3).unwrap();
    log.append(1, 1, b"one", LogDurability::Disk).unwrap();
    log.note_generation(4).unwrap();
    drop(log);
    let refused = reopen(&directory, small(), 0, 3);
    assert!(
        matches!(refused, Err(Error::OlderGeneration { opened: 3, named: 4 })),
        "{refused:?}"
    );
    // Some durable segment must always name the newest generation, no matter which segments are
    // recycled.
    let (log, _) = reopen(&directory, small(), 0, 4).unwrap();
    let mut next = 2;
    for generation in 5..30 {
        fill(&log, &mut next, 200);
        log.note_generation(generation).unwrap();
        log.release(next - 1).unwrap();
        while log.prepare().unwrap() == PrepareProgress::Worked {}
        let refused = {
            let names = directory.list().unwrap();
            let copy = memory();
            for name in names {
                let from = directory.open(&name, FileOptions::BUFFERED).unwrap();
                let to = copy.create(&name, FileOptions::BUFFERED).unwrap();
                to.grow(from.len()).unwrap();
                let bytes = from.read_at(0, from.len() as usize, Purpose::Other).unwrap();
                to.write_at(0, bytes, Purpose::Other).unwrap();
            }
            reopen(&copy, small(), next - 1, generation - 1)
        };
        assert!(
            matches!(refused, Err(Error::OlderGeneration { .. })),
            "{generation}: {refused:?}"
        );
    }
}

#[test]
fn records_at_or_below_the_checkpoint_are_not_replayed() {
    let directory = SimDirectory::new(9);
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    let log = WriteAheadLog::create(&shared, small(), 1).unwrap();
    for sequence in 1..=20 {
        log.append(sequence, 1, &[1; 100], LogDurability::Disk).unwrap();
    }
    drop(log);
    for from in 0..=20 {
        let (log, seen) = sequences(&directory.image(CrashSurvival::None, from), from).unwrap();
        assert_eq!(seen, (from + 1..=20).collect::<Vec<_>>());
        assert_eq!(log.completed(), 20);
        // This watermark is in the superblock or in the mark that the last sync wrote.
        assert!(log.synced() >= from.max(19), "{}", log.synced());
    }
    // The checkpoint is beyond the end of the log, as after all its segments were released.
    let (log, seen) = sequences(&directory.image(CrashSurvival::None, 1), 25).unwrap();
    assert_eq!((seen, log.completed()), (vec![], 25));
    log.append(26, 1, b"next", LogDurability::Disk).unwrap();
}

#[test]
fn an_error_of_the_replay_leaves_the_log_as_it_was() {
    let directory = with_a_gap();
    for stop in [1, 2] {
        let shared: Arc<dyn Directory> = Arc::new(directory.clone());
        let failed = WriteAheadLog::open(&shared, small(), 0, 1, 0, &mut |record| {
            if record.first == stop {
                let cause = "no".to_owned();
                return Err(Error::Poisoned { cause });
            }
            Ok(())
        });
        assert!(matches!(failed, Err(Error::Poisoned { .. })));
    }
    assert_eq!(sequences(&directory, 0).unwrap().1, [1, 2]);
}

/// Files that cannot be memory-mapped, with a count of the open ones.
pub(super) mod unmapped {
    use alluvium_device::forward::{ForwardDevice, ForwardDirectory};
    use alluvium_device::*;
    use parking_lot::Mutex;
    use std::sync::{Arc, Weak};
    #[derive(Debug)]
    struct Unmapped(Arc<dyn Device>);
    impl ForwardDevice for Unmapped {
        fn inner(&self) -> &dyn Device {
            &*self.0
        }
        fn map(&self, _range: std::ops::Range<u64>) -> Result<FileMapping> {
            Err(Error::Unsupported {
                operation: DeviceOperation::Map,
                file: self.0.name().to_owned(),
                why: "a test".to_owned(),
            })
        }
    }
    #[derive(Debug)]
    pub(in super::super) struct Place(Arc<dyn Directory>, Mutex<Vec<Weak<Unmapped>>>);
    impl Place {
        pub(in super::super) fn of(directory: Arc<dyn Directory>) -> Place {
            Place(directory, Mutex::default())
        }
        pub(in super::super) fn open_files(&self) -> usize {
            let mut files = self.1.lock();
            files.retain(|file| file.strong_count() > 0);
            files.len()
        }
    }
    impl ForwardDirectory for Place {
        fn inner(&self) -> &dyn Directory {
            &*self.0
        }
        fn wrap(&self, file: Arc<dyn Device>, _options: FileOptions) -> Arc<dyn Device> {
            let file = Arc::new(Unmapped(file));
            self.1.lock().push(Arc::downgrade(&file));
            file
        }
    }
}

#[test]
fn where_files_cannot_be_mapped_write_calls_are_used() {
    let directory: Arc<dyn Directory> = Arc::new(unmapped::Place::of(memory()));
    let log = WriteAheadLog::create(&directory, small(), 1).unwrap();
    for sequence in 1..=50 {
        log.append(sequence, 1, &[5; 200], LogDurability::Process)
            .unwrap();
    }
    assert_eq!(log.usage().resident_bytes, WINDOW * 8);
    drop(log);
    assert_eq!(reopen(&directory, small(), 0, 1).unwrap().1.len(), 50);
}

#[test]
fn a_note_does_not_keep_the_segment_of_a_long_record() {
    let directory = memory();
    let options = LogOptions { lanes: 1, ..small() };
    let log = WriteAheadLog::create(&directory, options, 1).unwrap();
    let long = vec![7; options.segment_bytes as usize * 5];
    log.append(1, 1, &long, LogDurability::Process).unwrap();
    let before = log.usage().live_bytes;
    log.note_generation(2).unwrap();
    log.release(1).unwrap();
    let after = log.usage().live_bytes;
    assert!(before > 5 * options.segment_bytes, "{before}");
    assert!(
        after <= options.segment_bytes,
        "nothing needs the log, {after} bytes are live"
    );
    // Later records can use the whole log again, and the generation record is found.
    log.append(2, 1, &long, LogDurability::Process).unwrap();
    drop(log);
    let (_, replayed) = reopen(&directory, options, 1, 2).unwrap();
    assert_eq!(replayed.len(), 1);
}

#[test]
fn a_log_that_starts_small_takes_about_what_it_holds_and_grows_to_whole_segments() {
    let options = LogOptions {
        starts_small: true,
        ..LogOptions::with_limit(32 << 20)
    };
    assert_eq!(options.segment_bytes, 1 << 20);
    let directory = memory();
    let prepared = |log: &WriteAheadLog| while log.prepare().unwrap() == PrepareProgress::Worked {};
    let lengths = || -> Vec<u64> {
        let names = directory.list().unwrap();
        let segments = names.iter().filter(|name| slot_of(name).is_some());
        let opened = segments.map(|name| directory.open(name, FileOptions::BUFFERED).unwrap());
        opened.map(|file| file.len()).collect()
    };
    let log = WriteAheadLog::create(&directory, options, 1).unwrap();
    log.append(1, 1, b"one", LogDurability::Disk).unwrap();
    prepared(&log);
    assert!(lengths().iter().sum::<u64>() <= 6 * (16 << 10), "{:?}", lengths());
    drop(log);
    // The same must hold for a process that writes little and keeps reopening the log.
    for next in 2..20 {
        let (log, replayed) = reopen(&directory, options, next - 2, next - 1).unwrap();
        assert_eq!(replayed.len(), 1);
        log.append(next, 1, &[1; 500], LogDurability::Disk).unwrap();
        prepared(&log);
        log.note_generation(next).unwrap();
        log.release(next - 1).unwrap();
    }
    assert!(
        lengths().iter().sum::<u64>() <= 12 * (16 << 10),
        "{:?}",
        lengths()
    );
    let (log, _) = reopen(&directory, options, 18, 19).unwrap();
    for next in 20..6000 {
        log.append(next, 1, &[2; 2000], LogDurability::Process).unwrap();
        prepared(&log);
    }
    assert!(lengths().contains(&(1 << 20)), "{:?}", lengths());
    let usage = log.usage();
    assert!(usage.disk_bytes <= 2 * usage.live_bytes, "{usage:?}");
    // A record longer than the existing segments gets a segment of its own.
    log.append(6000, 1, &[3; 900 << 10], LogDurability::Process)
        .unwrap();
    log.note_generation(20).unwrap();
    log.release(6000).unwrap();
    drop(log);
    // A large store has full-sized segments from the beginning. A small store returns the unused
    // space.
    let large = LogOptions {
        stored_bytes: 1 << 30,
        ..options
    };
    let (log, _) = reopen(&directory, large, 6000, 20).unwrap();
    log.append(6001, 1, b"next", LogDurability::Process).unwrap();
    prepared(&log);
    assert!(log.usage().disk_bytes >= 6 << 20, "{:?}", log.usage());
    drop(log);
    let (log, _) = reopen(&directory, options, 6001, 20).unwrap();
    prepared(&log);
    assert_eq!(log.check().unwrap(), []);
    assert!(lengths().iter().sum::<u64>() <= 4 << 20, "{:?}", lengths());
}
