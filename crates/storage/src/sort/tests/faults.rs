//! Tests of devices that fail, are full, or return flipped bits, and of files left behind by a
//! crash.

use super::*;
use alluvium_device::DeviceOperation;
use alluvium_device::simulated::{CrashSurvival, InjectedFault, SimDirectory};

fn names(directory: &dyn Directory) -> Vec<String> {
    directory.list().unwrap()
}

fn sort_on(directory: &SimDirectory, pairs: &Pairs) -> Result<Pairs> {
    sorted(
        Arc::new(directory.clone()),
        options(SortRecordLayout::Variable, EqualKeyPolicy::KeepAll),
        pairs,
    )
}

#[test]
fn a_failure_of_any_operation_is_an_error_and_leaves_nothing() {
    let pairs = pairs(11, 9000, 30);
    let wanted = expected(pairs.clone(), EqualKeyPolicy::KeepAll);
    let operations = [
        DeviceOperation::Create,
        DeviceOperation::Remove,
        DeviceOperation::Grow,
        DeviceOperation::Write,
        DeviceOperation::Read,
        DeviceOperation::List,
    ];
    for operation in operations {
        let mut hit = 0;
        for call in (1..).step_by(if operation == DeviceOperation::Read { 5 } else { 1 }) {
            let directory = SimDirectory::new(call);
            directory.inject(InjectedFault::failing(operation).at(call));
            let outcome = sort_on(&directory, &pairs);
            if directory.faults_hit() == 0 {
                assert!(outcome.unwrap() == wanted);
                break;
            }
            hit += 1;
            assert!(matches!(outcome, Err(Error::Device(_))), "{operation} {call}");
            // A file that could not be unlinked is removed when a spool with the same name is next
            // created (Q2).
            assert!(sort_on(&directory.reopen(), &pairs).unwrap() == wanted);
            assert_eq!(names(&directory.reopen()), Vec::<String>::new());
            assert_eq!(directory.used(), 0, "{operation} {call}");
        }
        assert!(hit > 0, "{operation} was never made to fail");
    }
}

#[test]
fn a_full_disk_is_found_before_a_run_is_written() {
    let pairs = pairs(12, 9000, 30);
    let wanted = expected(pairs.clone(), EqualKeyPolicy::KeepAll);
    let mut full = 0;
    for capacity in (0..).step_by(96 << 10) {
        let directory = SimDirectory::new(1);
        directory.set_capacity(capacity);
        match sort_on(&directory, &pairs) {
            Ok(found) => {
                assert!(found == wanted);
                break;
            }
            Err(error) => assert!(error.is_full(), "{error}"),
        }
        full += 1;
        assert_eq!(directory.used(), 0, "temporary files go");
        directory.set_capacity(1 << 40);
        assert!(sort_on(&directory, &pairs).unwrap() == wanted);
    }
    assert!(full > 3, "{full} capacities were too small");
}

#[test]
fn flipped_bits_are_found() {
    let pairs = pairs(13, 6000, 30);
    let wanted = expected(pairs.clone(), EqualKeyPolicy::KeepAll);
    let mut found = 0;
    for call in 1.. {
        let directory = SimDirectory::new(call);
        directory.inject(InjectedFault::flipped_bits(1).at(call));
        let outcome = sort_on(&directory, &pairs);
        if directory.faults_hit() == 0 {
            break;
        }
        match outcome {
            // The bits after a frame's records have no meaning, so flipping them has no effect.
            Ok(outcome) => assert!(outcome == wanted),
            Err(error @ Error::Damaged { .. }) => {
                let text = error.to_string();
                assert!(text.contains("test.") && text.contains("offset"), "{text}");
                found += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(found > 30, "{found} flipped bits were found");
}

#[test]
fn what_a_crash_leaves_is_removed_by_the_next_opening() {
    let pairs = pairs(14, 6000, 30);
    let options = options(SortRecordLayout::Variable, EqualKeyPolicy::KeepAll);
    let directory = SimDirectory::new(3);
    let mut sorter = ExternalSorter::new(Arc::new(directory.clone()), "test", options).unwrap();
    for (at, (key, value)) in pairs.iter().enumerate() {
        sorter.push(key, value).unwrap();
        if !at.is_multiple_of(400) {
            continue;
        }
        for survival in [CrashSurvival::None, CrashSurvival::Process] {
            let image = directory.image(survival, at as u64);
            SortSpool::new(Arc::new(image.clone()), "test", options).unwrap();
            assert_eq!(names(&image), Vec::<String>::new());
            assert_eq!(image.used(), 0);
        }
    }
    // A crash between creating and unlinking a file leaves the file behind. Files with other names
    // must not be removed.
    let other = SimDirectory::new(4);
    for name in ["test.7.sorting", "test.x.sorting", "test.7", "tests.7.sorting"] {
        other.create(name, alluvium_device::FileOptions::DIRECT).unwrap();
    }
    SortSpool::new(Arc::new(other.clone()), "test", options).unwrap();
    assert_eq!(names(&other), ["test.7", "test.x.sorting", "tests.7.sorting"]);
}

#[test]
fn chunks_may_be_sorted_and_written_in_any_order_by_several_threads() {
    let pairs = pairs(15, 20_000, 5);
    let options = options(SortRecordLayout::Variable, EqualKeyPolicy::KeepAll);
    let spool = SortSpool::new(Arc::new(MemoryDirectory::new()), "test", options).unwrap();
    let mut chunks = vec![spool.chunk()];
    for (key, value) in &pairs {
        let last = chunks.last_mut().unwrap();
        if last.push(key, value).unwrap() == PushOutcome::Full {
            let mut next = spool.chunk();
            assert_eq!(next.push(key, value).unwrap(), PushOutcome::Taken);
            chunks.push(next);
        }
    }
    chunks.reverse();
    let half = chunks.split_off(chunks.len() / 2);
    let spool = &spool;
    let inputs = std::thread::scope(|scope| {
        let workers = [chunks, half].map(|chunks| {
            scope.spawn(move || {
                let sort = |chunk: SortChunk| SortedInput::Run(spool.write(chunk.sort()).unwrap());
                chunks.into_iter().map(sort).collect::<Vec<_>>()
            })
        });
        workers
            .map(|worker| worker.join().unwrap())
            .into_iter()
            .flatten()
            .collect()
    });
    let mut passes = spool.passes(inputs);
    let mut groups = 0;
    while let Some(group) = passes.group() {
        passes.put(group.merge(spool).unwrap());
        groups += 1;
    }
    assert!(groups > 0, "several passes");
    assert!(drain(passes.finish().unwrap()).unwrap() == expected(pairs, EqualKeyPolicy::KeepAll));
}

#[test]
fn impossible_options_and_records_are_refused() {
    let good = options(SortRecordLayout::Variable, EqualKeyPolicy::KeepAll);
    let open = |options| SortSpool::new(Arc::new(MemoryDirectory::new()), "test", options);
    let fixed = |record_bytes, key_offset, key_bytes| SortOptions {
        layout: SortRecordLayout::Fixed {
            record_bytes,
            key_offset,
            key_bytes,
        },
        ..good
    };
    for bad in [
        SortOptions {
            memory_bytes: 100,
            ..good
        },
        SortOptions {
            frame_bytes: Some(5000),
            ..good
        },
        SortOptions {
            frame_bytes: Some(16 << 10),
            ..good
        },
        fixed(0, 0, 0),
        fixed(8, 4, 5),
        fixed(8, u32::MAX, u32::MAX),
    ] {
        assert!(matches!(open(bad), Err(Error::BadOption { .. })), "{bad:?}");
    }
    assert!(matches!(open(fixed(9000, 0, 8)), Err(Error::TooLong { .. })));
    let mut chunk = open(good).unwrap().chunk();
    assert!(matches!(chunk.push(&[0; 9000], b""), Err(Error::TooLong { .. })));
    assert!(chunk.is_empty());
}
