use super::*;
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;

const SMALL: usize = 64 << 10;

fn options(layout: SortRecordLayout, equal: EqualKeyPolicy) -> SortOptions {
    SortOptions {
        equal,
        memory_bytes: SMALL,
        frame_bytes: Some(4096),
        ..SortOptions::new(layout)
    }
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn drain(mut merge: SortMerge) -> Result<Pairs> {
    let mut all = Vec::new();
    while let Some(record) = merge.next()? {
        all.push((record.key().to_vec(), record.value().to_vec()));
    }
    assert!(merge.next()?.is_none(), "the end stays the end");
    Ok(all)
}

/// Returns random pairs, whose keys include empty, equal and long keys, and keys with long common
/// prefixes.
fn pairs(seed: u64, count: usize, kinds: u32) -> Pairs {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count)
        .map(|at| {
            let mut key = match random.u32(0..kinds) {
                0 => Vec::new(),
                1 => b"a common beginning ".to_vec(),
                2 => vec![0; random.usize(0..12)],
                _ => format!("{:05}", random.u32(0..3000)).into_bytes(),
            };
            if random.u32(0..200) == 0 {
                key.resize(random.usize(0..7000), b'z');
            }
            key.extend((0..random.usize(0..3)).map(|_| random.u8(0..4)));
            (key, format!("value {at}").into_bytes())
        })
        .collect()
}

fn expected(mut pairs: Pairs, equal: EqualKeyPolicy) -> Pairs {
    pairs.sort_by(|one, other| one.0.cmp(&other.0));
    match equal {
        EqualKeyPolicy::KeepAll => {}
        EqualKeyPolicy::KeepFirst => pairs.dedup_by(|later, kept| later.0 == kept.0),
        EqualKeyPolicy::KeepLast => pairs.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(later, kept);
            }
            same
        }),
    }
    pairs
}

fn sorted(directory: Arc<dyn Directory>, options: SortOptions, pairs: &Pairs) -> Result<Pairs> {
    let mut sorter = ExternalSorter::new(directory, "test", options)?;
    for (key, value) in pairs {
        sorter.push(key, value)?;
    }
    drain(sorter.finish()?)
}

#[test]
fn records_come_as_a_stable_sort_gives_them() {
    for equal in [
        EqualKeyPolicy::KeepAll,
        EqualKeyPolicy::KeepFirst,
        EqualKeyPolicy::KeepLast,
    ] {
        for (seed, count) in [(1, 0), (2, 1), (3, 50), (4, 6000), (5, 20_000)] {
            let directory = Arc::new(MemoryDirectory::new());
            let pairs = pairs(seed, count, if seed.is_multiple_of(2) { 4 } else { 30 });
            let options = options(SortRecordLayout::Variable, equal);
            let found = sorted(Arc::clone(&directory) as _, options, &pairs).unwrap();
            let expected = expected(pairs, equal);
            assert!(found == expected, "{equal:?}, {count} records of seed {seed}");
            assert_eq!(directory.list().unwrap(), Vec::<String>::new(), "Q2");
        }
    }
}

#[test]
fn records_of_one_length_are_sorted_by_their_key_alone() {
    let layout = SortRecordLayout::Fixed {
        record_bytes: 24,
        key_offset: 8,
        key_bytes: 4,
    };
    let mut random = fastrand::Rng::with_seed(9);
    let mut records: Vec<Vec<u8>> = (0..30_000u64)
        .map(|at| {
            let mut record = at.to_be_bytes().to_vec();
            record.extend(random.u32(0..9000).to_le_bytes());
            record.resize(24, 7);
            record
        })
        .collect();
    let directory = Arc::new(MemoryDirectory::new());
    let mut sorter =
        ExternalSorter::new(directory, "test", options(layout, EqualKeyPolicy::KeepAll)).unwrap();
    for record in &records {
        sorter.push_record(record).unwrap();
    }
    let found = drain(sorter.finish().unwrap()).unwrap();
    records.sort_by(|one, other| one[8..12].cmp(&other[8..12]));
    assert!(found.iter().map(|(_, record)| record).eq(&records), "Q1");
    assert!(found.iter().all(|(key, record)| key == &record[8..12]));
}

mod faults;

#[test]
fn runs_have_their_parts_of_the_space_that_was_claimed() {
    let directory = Arc::new(MemoryDirectory::new());
    let options = options(SortRecordLayout::Variable, EqualKeyPolicy::KeepAll);
    let spool = SortSpool::new(Arc::clone(&directory) as _, "claimed", options).unwrap();
    assert_eq!(spool.claimed_bytes(), 0);
    spool.claim(40_000).unwrap();
    let claimed = spool.claimed_bytes();
    assert!((40_000..60_000).contains(&claimed), "{claimed}");
    assert_eq!(directory.list().unwrap(), Vec::<String>::new(), "Q2");
    let run = || {
        let mut chunk = spool.chunk();
        for number in 0..500u32 {
            let pushed = chunk.push(&number.to_be_bytes(), &[7; 36]).unwrap();
            assert_eq!(pushed, PushOutcome::Taken);
        }
        SortedInput::Run(spool.write(chunk.sort()).unwrap())
    };
    let mut runs = vec![run()];
    let left = spool.claimed_bytes();
    assert!((1..claimed - 20_000).contains(&left), "{left} of {claimed}");
    // Once the reserved space is used up, runs allocate their space when they are written.
    runs.extend([run(), run()]);
    assert_eq!(spool.claimed_bytes(), 0);
    let all = drain(spool.passes(runs).finish().unwrap()).unwrap();
    assert_eq!((all.len(), &all[2].0[..]), (1500, &0u32.to_be_bytes()[..]));
}
