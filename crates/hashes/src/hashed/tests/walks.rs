//! What walks hold.

use super::*;

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
