//! What versions of keys cost.

use super::*;

#[test]
fn nested_range_deletes_are_one_message_for_each_reader() {
    let memtable = Memtable::new(1 << 20);
    let key = |number: u64| format!("{number:04}").into_bytes();
    let mut sequence = 10;
    for number in 0..500 {
        sequence += 1;
        memtable
            .delete_range(&key(number), &key(2000 - number), sequence)
            .unwrap();
    }
    let horizon = Horizon::default();
    horizon.raise_past([10, 100], sequence);
    let rule = horizon.rule(alluvium_dictionary::merge::Older::None);
    let messages = crate::map::newest_first(&memtable, &key(1000), &rule);
    let sequences: Vec<Sequence> = messages.iter().map(|message| message.sequence).collect();
    assert_eq!(sequences, [sequence, 100], "the newest that each reader sees");
    // What is above the newest reader may be told apart by one that comes.
    let horizon = Horizon::default();
    horizon.raise_past([10, 100], sequence - 2);
    let rule = horizon.rule(alluvium_dictionary::merge::Older::None);
    let messages = crate::map::newest_first(&memtable, &key(1000), &rule);
    let sequences: Vec<Sequence> = messages.iter().map(|message| message.sequence).collect();
    assert_eq!(sequences, [sequence, sequence - 1, sequence - 2, 100]);
}

#[test]
fn ranges_that_touch_or_overlap_are_read_once() {
    let range = |low: &[u8], high: Option<&[u8]>| KeyRange::new(low, high);
    let joined = apply::joined(vec![
        range(b"k", Some(b"m")),
        range(b"a", Some(b"c")),
        range(b"b", Some(b"bb")),
        range(b"c", Some(b"d")),
        range(b"x", None),
        range(b"y", Some(b"z")),
    ]);
    let wanted = [
        range(b"a", Some(b"d")),
        range(b"k", Some(b"m")),
        range(b"x", None),
    ];
    assert_eq!(joined, wanted);
}
