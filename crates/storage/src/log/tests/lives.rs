//! Tests of two processes in a row. In the first, an operation fails or records are lost. The
//! second reopens the log and acknowledges more records, and then the power fails.

use super::super::*;
use super::story::{Crash, Model, Story, open_image};
use super::{Replayed, reopen, small};
use alluvium_device::simulated::{Corruption, CrashSurvival, InjectedFault, SimDirectory};
use alluvium_device::{BootId, DeviceOperation};
use fastrand::Rng;

/// Returns the number of simulated machines for each test.
fn worlds() -> u64 {
    std::env::var("ALLUVIUM_LOG_WORLDS").map_or(40, |count| count.parse().unwrap())
}

const ALL: [LogDurability; 3] = [LogDurability::Memory, LogDurability::Process, LogDurability::Disk];

fn log_in(directory: &SimDirectory, options: LogOptions) -> Result<(WriteAheadLog, Replayed)> {
    let shared: Arc<dyn Directory> = Arc::new(directory.reopen());
    reopen(&shared, options, 0, 1)
}

fn created(seed: u64, options: LogOptions) -> (SimDirectory, WriteAheadLog) {
    let directory = SimDirectory::new(seed);
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    let log = WriteAheadLog::create(&shared, options, 1).unwrap();
    (directory, log)
}

/// Runs the second process: it acknowledges records of one durability and loses power, and then the
/// surviving records are checked.
fn acknowledge_and_lose_power(
    directory: &SimDirectory,
    options: LogOptions,
    durability: LogDurability,
    seed: u64,
) {
    let context = format!("seed {seed} {:?} {durability:?}", options.access);
    let (log, _) = log_in(directory, options).unwrap_or_else(|error| panic!("{context}: {error}"));
    let next = log.completed() + 1;
    log.append(next, 1, b"second life", durability).unwrap();
    let synced = log.synced();
    assert!(durability != LogDurability::Disk || synced == next);
    drop(log);
    let survivals = CrashSurvival::POWER_LOSS;
    let image = directory.image(survivals[seed as usize % survivals.len()], seed);
    let (log, replayed) = log_in(&image, options).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(
        log.completed() >= synced,
        "{context}: {} of {synced}",
        log.completed()
    );
    let whole: Vec<u64> = (1..=log.completed()).collect();
    let found: Vec<u64> = replayed.iter().map(|(first, ..)| *first).collect();
    assert_eq!(found, whole, "{context}: a prefix");
}

#[test]
fn what_is_acknowledged_after_a_failed_sync_and_a_reopening_survives() {
    for seed in 0..worlds() {
        for access in [SegmentAccess::Mapped, SegmentAccess::Written] {
            for durability in ALL {
                let options = LogOptions { access, ..small() };
                let (directory, log) = created(seed, options);
                log.append(1, 1, b"one", LogDurability::Disk).unwrap();
                for sequence in 2..12 {
                    log.append(sequence, 1, &[2; 300], LogDurability::Process)
                        .unwrap();
                }
                directory.inject(InjectedFault::failing(DeviceOperation::Sync).at(1 + seed % 3));
                let failed = log.append(12, 1, b"lost", LogDurability::Disk);
                directory.clear_faults();
                assert!(seed % 3 > 0 || failed.is_err());
                drop(log);
                acknowledge_and_lose_power(&directory, options, durability, seed);
            }
        }
    }
}

#[test]
fn a_log_on_a_full_disk_opens_as_it_is_and_takes_nothing_before_there_is_room() {
    for seed in 0..worlds() {
        for access in [SegmentAccess::Mapped, SegmentAccess::Written] {
            let options = LogOptions { access, ..small() };
            let (directory, log) = created(seed, options);
            for sequence in 1..=5 {
                log.append(sequence, 1, &[1; 100], LogDurability::Process)
                    .unwrap();
            }
            drop(log);
            for _ in 0..2 {
                directory.inject(InjectedFault::full(DeviceOperation::Write).sticky());
                let (log, replayed) = log_in(&directory, options).unwrap();
                assert_eq!((replayed.len(), log.completed()), (5, 5));
                let refused = log.append(6, 1, b"no", LogDurability::Process);
                assert!(refused.unwrap_err().is_full());
                assert!(log.sync_all().unwrap_err().is_full());
                drop(log);
                directory.clear_faults();
            }
            acknowledge_and_lose_power(&directory, options, LogDurability::Disk, seed);
        }
    }
}

#[test]
fn another_boot_id_over_the_same_page_cache_makes_nothing_durable() {
    for seed in 0..worlds() {
        for access in [SegmentAccess::Mapped, SegmentAccess::Written] {
            for durability in ALL {
                let options = LogOptions { access, ..small() };
                let (directory, log) = created(seed, options);
                for sequence in 1..=5 {
                    log.append(sequence, 1, &[1; 100], LogDurability::Process)
                        .unwrap();
                }
                drop(log);
                directory.set_boot_id(BootId([seed as u8 | 1; 16]));
                let (log, replayed) = log_in(&directory, options).unwrap();
                assert_eq!((replayed.len(), log.completed(), log.synced()), (5, 5, 0));
                drop(log);
                directory.set_boot_id(BootId([seed as u8 & 0xfe; 16]));
                acknowledge_and_lose_power(&directory, options, durability, seed);
            }
        }
    }
}

#[test]
fn a_page_cache_that_is_lost_on_the_same_boot_leaves_a_prefix_or_an_error() {
    let (mut opened, mut refused) = (0, 0);
    for seed in 0..15 * worlds() {
        let options = LogOptions { lanes: 3, ..small() };
        let (directory, log) = created(seed, options);
        for sequence in 1..=20 {
            write_as((sequence + seed) as usize % 3);
            log.append(sequence, 1, &[1; 100], LogDurability::Process)
                .unwrap();
        }
        drop(log);
        let image = directory.image(CrashSurvival::Random, seed);
        image.set_boot_id(directory.boot_id());
        match log_in(&image, options) {
            Ok((log, replayed)) => {
                let found: Vec<u64> = replayed.iter().map(|(first, ..)| *first).collect();
                assert_eq!(found, (1..=log.completed()).collect::<Vec<_>>(), "seed {seed}");
                opened += 1;
            }
            Err(error) => {
                assert!(matches!(error, Error::Corrupt { .. }), "seed {seed}: {error}");
                assert!(error.to_string().contains("log-"), "{error}");
                refused += 1;
            }
        }
        // The log is opened on another boot, and also on the same boot after the file system was
        // remounted.
        let image = directory.image(CrashSurvival::Random, seed);
        log_in(&image, options).unwrap();
    }
    assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused");
}

/// Returns the log of a process that was killed after acknowledging records, either with `Process`
/// durability or, if `sync` is set, with a sync of all of them.
fn killed(seed: u64, sync: bool, idle: bool) -> (SimDirectory, Model) {
    let mut story = Story::new(seed, LogOptions { lanes: 3, ..small() });
    for _ in 0..60 {
        story.step().unwrap();
    }
    story.settle().unwrap();
    if sync {
        story.log().sync_all().unwrap();
    }
    while idle && story.log().prepare().unwrap() == PrepareProgress::Worked {}
    story.log = None;
    let model = story.model.lock().clone();
    (story.directory.clone(), model)
}

fn names(directory: &SimDirectory) -> Vec<(String, u64)> {
    let names = directory.list().unwrap().into_iter();
    let len = |name: &str| {
        let file = directory.open(name, alluvium_device::FileOptions::BUFFERED);
        file.unwrap().len()
    };
    names.map(|name| (name.clone(), len(&name))).collect()
}

#[test]
fn the_mark_follows_a_busy_log_and_is_no_reason_to_prepare_again() {
    let options = LogOptions {
        limit_bytes: 16 * (64 << 10),
        segment_bytes: 64 << 10,
        reserve_bytes: 64 << 10,
        lanes: 1,
        ..small()
    };
    let (directory, log) = created(1, options);
    log.append(1, 1, b"takes a segment", LogDurability::Process)
        .unwrap();
    while log.prepare().unwrap() == PrepareProgress::Worked {}
    let mark = || {
        let file = directory.open("log-mark", alluvium_device::FileOptions::BUFFERED);
        let file = file.unwrap();
        file.read_at(0, file.len() as usize, alluvium_base::Purpose::Log)
            .unwrap()
            .to_vec()
    };
    for number in 2..=20 {
        let before = mark();
        log.append(number, 1, b"record", LogDurability::Process).unwrap();
        assert_eq!(log.prepare().unwrap(), PrepareProgress::Idle, "record {number}");
        assert_ne!(mark(), before, "record {number} is named");
    }
}

#[test]
fn a_deleted_segment_of_a_killed_log_is_never_silence() {
    let options = LogOptions { lanes: 3, ..small() };
    let (mut removed, mut found) = (0, 0);
    for seed in 0..worlds() / 4 {
        for (sync, idle) in [(false, false), (true, false), (false, true)] {
            let (directory, model) = killed(seed, sync, idle);
            let (_, intact) =
                open_image(&directory.image(CrashSurvival::Process, 0), options, &model).unwrap();
            for (name, _) in names(&directory) {
                let image = directory.image(CrashSurvival::Process, 0);
                image.corrupt(&name, &Corruption::Remove).unwrap();
                removed += 1;
                match open_image(&image, options, &model) {
                    Ok((_, replayed)) => assert_eq!(replayed, intact, "seed {seed} {name}"),
                    Err(Error::Corrupt { .. }) => found += 1,
                    Err(error) => panic!("seed {seed} {name}: {error}"),
                }
            }
        }
    }
    assert!(found * 4 > removed, "{found} of {removed}");
}

#[test]
fn a_zeroed_block_below_what_was_synced_or_marked_is_never_silence() {
    let options = LogOptions { lanes: 3, ..small() };
    let (mut zeroed, mut found) = (0, 0);
    for seed in 0..worlds() / 4 {
        for (sync, survival) in [
            (true, CrashSurvival::Process),
            (false, CrashSurvival::Process),
            // Records acknowledged by a sync must survive a power failure as well.
            (true, CrashSurvival::None),
        ] {
            let (directory, model) = killed(seed, sync, !sync);
            let (_, intact) = open_image(&directory.image(survival, 0), options, &model).unwrap();
            for (name, len) in names(&directory) {
                for block in (0..len).step_by(512) {
                    let image = directory.image(survival, 0);
                    let range = block..(block + 512).min(len);
                    if !image.corrupt(&name, &Corruption::Zero { range }).unwrap_or(false) {
                        continue;
                    }
                    zeroed += 1;
                    match open_image(&image, options, &model) {
                        Ok((_, replayed)) => {
                            assert_eq!(replayed, intact, "seed {seed} {sync} {survival:?} {name} {block}");
                        }
                        Err(Error::Corrupt { .. }) => found += 1,
                        Err(error) => panic!("seed {seed} {name}: {error}"),
                    }
                }
            }
        }
    }
    assert!(zeroed > 100 && found > 50, "{found} of {zeroed}");
}

#[test]
fn a_copied_directory_opens_wherever_it_is() {
    for seed in 0..worlds() / 4 {
        let options = LogOptions { lanes: 3, ..small() };
        let (directory, model) = killed(seed, seed % 2 == 0, false);
        for boot in [directory.boot_id(), BootId([9; 16])] {
            let copy = directory.image(CrashSurvival::All, seed);
            copy.set_boot_id(boot);
            let (log, replayed) = open_image(&copy, options, &model).unwrap();
            model.judge(Crash::Process, &replayed, log.completed(), "a copy");
        }
    }
}

#[test]
fn a_void_that_found_no_room_goes_before_what_is_appended_later() {
    let options = LogOptions { lanes: 1, ..small() };
    let (directory, log) = created(1, options);
    while log.prepare().unwrap() == PrepareProgress::Worked {}
    directory.set_capacity(directory.used());
    let mut next = 1;
    let claim = AppendPriority::Essential;
    while log
        .append_as(next, 1, &[7; 300], LogDurability::Process, claim)
        .is_ok()
    {
        next += 1;
    }
    // Append until not even a record of this size fits.
    while log.append_as(next, 1, b"", LogDurability::Process, claim).is_ok() {
        next += 1;
    }
    let refused = loop {
        match log.void(next, 1) {
            Ok(()) => next += 1,
            Err(error) => break error,
        }
    };
    assert!(refused.is_full(), "{refused}");
    directory.set_capacity(u64::MAX);
    log.append(next + 1, 1, b"above", LogDurability::Process).unwrap();
    assert_eq!(log.completed(), next + 1, "the void went first");
    log.void(next, 1).unwrap();
    let image = directory.image(CrashSurvival::Process, 1);
    let (log, replayed) = log_in(&image, options).unwrap();
    assert_eq!(log.completed(), next + 1);
    assert_eq!(replayed.last().unwrap().0, next + 1);
}

#[test]
fn a_repair_over_a_crafted_gap_writes_little() {
    use super::super::format::{RecordHeader, RecordKind, SegmentHeader};
    use alluvium_base::Purpose;
    use alluvium_device::{AlignedBuffer, FileOptions};
    let options = LogOptions { lanes: 1, ..small() };
    let (directory, log) = created(1, options);
    log.append(1, 1, b"one", LogDurability::Disk).unwrap();
    drop(log);
    let file = directory.open("log-0", FileOptions::BUFFERED).unwrap();
    let mut bytes = file.read_at(0, 4096, Purpose::Other).unwrap().to_vec();
    let format::DecodedHeader::Segment(header) = SegmentHeader::decode(&bytes[..512]) else {
        panic!("a header");
    };
    let record = RecordHeader {
        len: 0,
        count: 1,
        first: 1 << 61,
        synced: 1,
        complete: (1 << 61) - 65_536,
        kind: RecordKind::Data,
    };
    // This position follows the record that names the generation and the first data record.
    let at = 512 + 40 + 48;
    assert!(bytes[at..at + 40].iter().all(|&byte| byte == 0));
    bytes[at..at + 40].copy_from_slice(&record.encode(header.seed(), at as u64, b""));
    file.write_at(0, AlignedBuffer::padded(&bytes), Purpose::Other)
        .unwrap();
    drop(file);
    match log_in(&directory.image(CrashSurvival::Process, 1), options) {
        Err(Error::Corrupt { .. }) => {}
        other => panic!("{other:?}"),
    }
    let (log, _) = log_in(&directory.image(CrashSurvival::All, 1), options).unwrap();
    assert_eq!(log.completed(), 1, "another boot cuts there");
    let image = directory.image(CrashSurvival::Process, 1);
    let shared: Arc<dyn Directory> = Arc::new(image.clone());
    let (log, report) = WriteAheadLog::repair(&shared, options, 0, 1, &mut |_| Ok(())).unwrap();
    assert_eq!(report.missing, [(2, (1 << 61) - 1)]);
    assert!(image.used() <= options.limit_bytes, "{} bytes", image.used());
    log.append(log.completed() + 1, 1, b"on", LogDurability::Disk)
        .unwrap();
    drop(log);
    assert_eq!(log_in(&image, options).unwrap().1.len(), 3);
}

#[test]
fn stories_survive_a_fault_a_reopening_and_the_loss_of_power() {
    let mut hits = 0;
    for seed in 0..worlds() * 2 {
        let access = [SegmentAccess::Mapped, SegmentAccess::Written][seed as usize % 2];
        let options = LogOptions {
            access,
            lanes: 1 + seed as usize % 3,
            ..small()
        };
        let mut rng = Rng::with_seed(seed);
        let mut story = Story::new(seed, options);
        let operation = [
            DeviceOperation::Sync,
            DeviceOperation::Write,
            DeviceOperation::Grow,
        ][rng.usize(..3)];
        story
            .directory
            .inject(InjectedFault::failing(operation).at(rng.u64(1..25)));
        let failed = (0..60).any(|_| story.step().is_err());
        story.directory.clear_faults();
        hits += u64::from(failed);
        for life in 0..3 {
            let context = format!("seed {seed} life {life}");
            story
                .resume()
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            for _ in 0..rng.usize(1..15) {
                story.step().unwrap_or_else(|error| panic!("{context}: {error}"));
            }
            let survival = CrashSurvival::ALL[rng.usize(..CrashSurvival::ALL.len())];
            let image = story.directory.image(survival, rng.u64(..));
            let model = story.model.lock().clone();
            let (log, replayed) =
                open_image(&image, options, &model).unwrap_or_else(|error| panic!("{context}: {error}"));
            model.judge(Crash::of(survival), &replayed, log.completed(), &context);
        }
    }
    assert!(hits > worlds() / 2, "{hits}");
}
