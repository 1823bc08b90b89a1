//! Makes each sync, write and file growth fail in turn, and fills the disk.

use super::super::*;
use super::story::{Crash, Story, open_image};
use super::{reopen, small};
use alluvium_device::DeviceOperation;
use alluvium_device::simulated::{CrashSurvival, InjectedFault, SimDirectory};

/// Returns a log on a simulated machine.
fn simulated(options: LogOptions) -> (SimDirectory, WriteAheadLog) {
    let directory = SimDirectory::new(1);
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    let log = WriteAheadLog::create(&shared, options, 1).unwrap();
    (directory, log)
}

/// Runs a story until a device operation fails, and then checks the log. Returns whether any
/// operation failed.
fn live_with(seed: u64, options: LogOptions, fault: &InjectedFault) -> bool {
    let mut story = Story::new(seed, options);
    story.directory.inject(fault.clone());
    let context = format!("seed {seed}, {fault:?}");
    let mut failed = None;
    for _ in 0..60 {
        if let Err(error) = story.step() {
            failed = Some(error);
            break;
        }
    }
    let Some(error) = failed else {
        return false;
    };
    assert!(
        matches!(error, Error::Device(alluvium_device::Error::Io { .. })),
        "{context}: {error}"
    );
    // If opening failed, there is no log to check.
    if let Some(log) = &story.log {
        let (synced, next) = (log.synced(), log.completed() + 1);
        story.directory.clear_faults();
        for refused in [
            log.append(next, 1, b"no more", LogDurability::Process),
            log.append(next, 1, b"no more", LogDurability::Disk),
            log.sync_all().map(|_| ()),
            log.note_generation(1 << 40),
            log.release(0),
            log.prepare().map(|_| ()),
            log.clone().close(),
        ] {
            assert!(
                matches!(refused, Err(Error::Poisoned { .. })),
                "{context}: {refused:?}"
            );
        }
        assert_eq!(
            log.synced(),
            synced,
            "{context}: nothing is acknowledged any more"
        );
    }
    story.directory.clear_faults();
    let model = story.model.lock().clone();
    for survival in [CrashSurvival::Process, CrashSurvival::None, CrashSurvival::Random] {
        let image = story.directory.image(survival, seed);
        let (log, replayed) =
            open_image(&image, options, &model).unwrap_or_else(|error| panic!("{context}: {error}"));
        model.judge(Crash::of(survival), &replayed, log.completed(), &context);
    }
    true
}

#[test]
fn a_failed_sync_at_every_index_poisons_and_loses_nothing_told() {
    for (seed, access) in [
        (1, SegmentAccess::Mapped),
        (2, SegmentAccess::Written),
        (3, SegmentAccess::Mapped),
    ] {
        let options = LogOptions { access, ..small() };
        let hits = (1..60).take_while(|&call| {
            live_with(
                seed,
                options,
                &InjectedFault::failing(DeviceOperation::Sync).at(call),
            )
        });
        assert!(hits.count() > 15);
        for call in 1..8 {
            live_with(
                seed,
                options,
                &InjectedFault::failing(DeviceOperation::SyncDirectory).at(call),
            );
        }
    }
}

#[test]
fn a_failed_write_or_other_change_at_every_index_poisons_and_loses_nothing_told() {
    let options = LogOptions {
        access: SegmentAccess::Written,
        ..small()
    };
    let mut hits = 0;
    for operation in [
        DeviceOperation::Write,
        DeviceOperation::Grow,
        DeviceOperation::PunchHole,
        DeviceOperation::Create,
        DeviceOperation::Remove,
    ] {
        for call in 1..40 {
            hits += usize::from(live_with(
                call,
                options,
                &InjectedFault::failing(operation).at(call),
            ));
        }
    }
    assert!(hits > 40, "{hits}");
}

#[test]
fn a_failed_read_while_opening_is_an_error_and_changes_nothing() {
    let mut story = Story::new(5, small());
    for _ in 0..40 {
        story.step().unwrap();
    }
    story.log = None;
    let model = story.model.lock().clone();
    let mut failures = 0;
    for call in 1..60 {
        let image = story.directory.image(CrashSurvival::None, 0);
        image.inject(InjectedFault::failing(DeviceOperation::Read).at(call));
        if let Err(error) = open_image(&image, small(), &model) {
            assert!(matches!(error, Error::Device(_)), "{error}");
            failures += 1;
        }
        image.clear_faults();
        let (log, replayed) = open_image(&image, small(), &model).unwrap();
        model.judge(Crash::Power, &replayed, log.completed(), &format!("call {call}"));
    }
    assert!(failures > 5, "{failures}");
}

#[test]
fn bits_flipped_on_the_way_from_the_device_are_found() {
    let mut story = Story::new(6, small());
    for _ in 0..40 {
        story.step().unwrap();
    }
    story.settle().unwrap();
    story.log.take().unwrap().close().unwrap();
    let model = story.model.lock().clone();
    let (_, intact) = open_image(&story.directory.image(CrashSurvival::All, 0), small(), &model).unwrap();
    for call in 1..40 {
        let image = story.directory.image(CrashSurvival::All, call);
        image.inject(InjectedFault::flipped_bits(3).at(call));
        match open_image(&image, small(), &model) {
            Ok((_, replayed)) => assert!(replayed == intact, "call {call}"),
            Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "call {call}: {error}"),
        }
    }
}

#[test]
fn a_full_disk_is_an_error_before_anything_changes_and_passes() {
    for access in [SegmentAccess::Mapped, SegmentAccess::Written] {
        let options = LogOptions { access, ..small() };
        let (directory, log) = simulated(options);
        while log.prepare().unwrap() == PrepareProgress::Worked {}
        directory.set_capacity(directory.used());
        let mut next = 1;
        let full = loop {
            match log.append(next, 1, &[7; 500], LogDurability::Process) {
                Ok(()) => next += 1,
                Err(error) => break error,
            }
        };
        assert!(
            matches!(full, Error::Device(alluvium_device::Error::DiskFull { .. })),
            "{full}"
        );
        // Deletes can continue because they may use the reserve, and so may the records in which
        // checkpoints name their generation.
        log.append_as(
            next,
            1,
            b"a delete",
            LogDurability::Disk,
            AppendPriority::Essential,
        )
        .unwrap();
        next += 1;
        log.note_generation(2).unwrap();
        // A checkpoint frees space in the log without needing space on the disk.
        log.release(next - 1).unwrap();
        for _ in 0..20 {
            log.append(next, 1, &[8; 100], LogDurability::Disk).unwrap();
            next += 1;
        }
        assert_eq!(log.check().unwrap(), []);
        // The log can be opened even though the disk is full.
        drop(log);
        let image = directory.image(CrashSurvival::None, 0);
        image.set_capacity(0);
        let shared: Arc<dyn Directory> = Arc::new(image);
        let (log, seen) = reopen(&shared, options, next - 21, 2).unwrap();
        assert_eq!(seen.len(), 20);
        log.append_as(next, 1, b"on", LogDurability::Disk, AppendPriority::Essential)
            .unwrap();
    }
}

#[test]
fn a_disk_that_fills_up_at_any_moment_loses_nothing_told() {
    for access in [SegmentAccess::Mapped, SegmentAccess::Written] {
        let options = LogOptions { access, ..small() };
        for operation in [
            DeviceOperation::Grow,
            DeviceOperation::Write,
            DeviceOperation::Create,
        ] {
            for call in 1..25 {
                let mut story = Story::new(call, options);
                story.directory.inject(InjectedFault::full(operation).at(call));
                let context = format!("{access:?} {operation:?} {call}");
                let mut errors = 0;
                for _ in 0..80 {
                    if let Err(error) = story.step() {
                        assert!(error.is_full(), "{context}: {error}");
                        errors += 1;
                        story.directory.clear_faults();
                        story
                            .resume()
                            .unwrap_or_else(|error| panic!("{context}: {error}"));
                    }
                }
                assert!(errors <= 1, "{context}: one fault, {errors} errors");
                let model = story.model.lock().clone();
                let image = story.directory.image(CrashSurvival::Process, call);
                let (log, replayed) = open_image(&image, options, &model).unwrap();
                model.judge(Crash::Process, &replayed, log.completed(), &context);
            }
        }
    }
}
