//! Tests of how much memory scans use, and of how much input merges read.

use super::*;
use alluvium_base::Purpose;
use alluvium_device::Directory;

#[test]
fn a_walk_over_long_values_holds_few_of_them() {
    const LONG: usize = 10_000;
    for options in forms() {
        let mut story = Story::of(options, 31);
        for _ in 0..2 {
            let memtable = Memtable::new(16 << 20);
            for number in 0..200u32 {
                let key = format!("{number:04}").into_bytes();
                let at = story.model.said.len() as u64 + 1;
                let value = vec![number as u8; LONG];
                memtable.insert(&key, Message::put(at, &value)).unwrap();
                story.model.said.push(Said::Put(key, value, 0));
            }
            story.take(Arc::new(memtable));
            story.merge(100_000);
        }
        let at = story.model.said.len() as u64;
        let list = Arc::new(List(MemtableList::default()));
        let mut walk = story.hashed.walk(list, KeyRange::everything(), at, 0);
        let mut found = std::collections::BTreeSet::new();
        while let Some((key, value)) = walk.next().unwrap() {
            assert_eq!(value.len(), LONG);
            assert!(found.insert(key.to_vec()), "no key comes twice");
            assert!(walk.decided_bytes() <= LONG, "{} bytes", walk.decided_bytes());
        }
        assert_eq!(found.len(), 200);
    }
}

/// The merge of a part reads only those leaves of each hash store that contain records of the part.
#[test]
fn a_merge_reads_the_leaves_of_its_part_alone() {
    let directory = MemoryDirectory::new();
    let counters = directory.counters().clone();
    let options = HashedOptions {
        parts_log: 4,
        least_young: 4,
        most_young: 8,
        ..HashedOptions::default()
    };
    let mut story = Story::on(
        home_in(Arc::new(directory), &StoreOptions::default()),
        options,
        37,
    );
    let before = counters.snapshot();
    let mut merged = 0;
    for round in 0..40u32 {
        let memtable = Memtable::new(16 << 20);
        for number in 0..1000u32 {
            let key = format!("{:04}", (number * 7 + round) % 4000).into_bytes();
            let at = story.model.said.len() as u64 + 1;
            let value = vec![round as u8; 100];
            memtable.insert(&key, Message::put(at, &value)).unwrap();
            story.model.said.push(Said::Put(key, value, 0));
        }
        story.take(Arc::new(memtable));
        story.merge(100_000);
        merged = story.hashed.stats().merged_records;
    }
    let read = counters.snapshot().since(&before).of(Purpose::Compact);
    let bytes = merged * 120;
    assert!(merged > 40_000, "{merged} records were merged");
    assert!(read.read_bytes < 3 * bytes, "{read:?} for {bytes} bytes");
    assert!(
        read.reads < read.read_bytes / 8192,
        "{read:?}: neighbours are read together"
    );
}
