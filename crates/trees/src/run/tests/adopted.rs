//! Tests that the leaf keys in an index are correct, and that leaves are the same with and without
//! them.

use super::*;
use crate::run::adopt::{LeafDescriptor, LeafDescriptorIter};
use alluvium_dictionary::read::{CheckReadTotals, DataFiles};

fn options_with(leaf_keys: bool) -> RunOptions {
    RunOptions {
        leaf_pages: Some(1),
        value_threshold: Some(4000),
        leaf_keys,
        ..options()
    }
}

/// Returns records of 1,300 bytes with the given numbers as keys. A leaf has three of them.
fn model(numbers: impl Iterator<Item = u32>) -> Model {
    let key = |number: u32| format!("{number:08}").into_bytes();
    let record = |number| ((key(number), Reverse(1)), put([7; 1300]));
    numbers.map(record).collect()
}

fn leaves(store: &Store, run: &IndexedRun) -> Vec<LeafDescriptor> {
    let mut leaves = LeafDescriptorIter::new(run, store, b"", Purpose::Other).unwrap();
    std::iter::from_fn(|| leaves.next().unwrap()).collect()
}

#[test]
fn an_index_says_the_keys_of_its_leaves_and_the_leaves_are_those_of_one_that_does_not() {
    let store = store();
    let model = model((0..2000).map(|number| 3 * number));
    let [without, with] = [false, true].map(|leaf_keys| run_of(&store, &options_with(leaf_keys), &model));
    let (plain, exact) = (leaves(&store, &without), leaves(&store, &with));
    assert!(plain.len() == exact.len() && plain.len() > 400, "{}", plain.len());
    let keys: Vec<&Vec<u8>> = model.keys().map(|(key, _)| key).collect();
    let mut at = 0;
    for (plain, exact) in plain.iter().zip(&exact) {
        assert_eq!(
            plain.pointer().checksum,
            exact.pointer().checksum,
            "the same leaf"
        );
        assert_eq!(plain.last(), None);
        let last = at + exact.records() as usize - 1;
        assert_eq!((exact.low(), exact.last()), (&**keys[at], Some(&**keys[last])));
        assert!(plain.low() <= exact.low() && plain.end().is_none_or(|end| end > &**keys[last]));
        at = last + 1;
    }
    assert_eq!(at, keys.len());
    assert!(plain[plain.len() - 1].end().is_none() && exact[exact.len() - 1].end().is_some());
    for run in [&without, &with] {
        assert!(run.check(&store).is_empty());
        assert_eq!(find(&store, run, b"00000003", MAX_SEQUENCE).unwrap().len(), 1);
    }
}

#[test]
fn leaves_between_each_others_keys_are_taken_over_and_their_keys_are_said_again() {
    let store = store();
    // The leaves of the two runs alternate.
    let stretch = |of: u32| (0..300u32).filter(move |number| number / 3 % 2 == of);
    let models = [0, 1].map(|of| model(stretch(of)));
    let runs = models
        .each_ref()
        .map(|model| run_of(&store, &options_with(true), model));
    let mut all: Vec<(LeafDescriptor, &IndexedRun)> = Vec::new();
    for run in &runs {
        all.extend(leaves(&store, run).into_iter().map(|leaf| (leaf, run)));
    }
    all.sort_by(|one, other| one.0.low().cmp(other.0.low()));
    assert!(
        all.iter().all(|(leaf, _)| leaf.records() == 3),
        "a leaf a stretch"
    );
    let mut builder = RunBuilder::new(&store, &options_with(true)).unwrap();
    for run in &runs {
        builder.inherit_from(run, &KeyRange::everything());
    }
    for (leaf, run) in &all {
        builder.adopt(leaf, run).unwrap();
    }
    assert_eq!(
        builder.last_key(),
        Some(&b"00000299"[..]),
        "the last key is known"
    );
    (0..300).for_each(|number| builder.hash_adopted(format!("{number:08}").as_bytes()));
    let built = builder.finish().unwrap().unwrap();
    store.extents().install(&built.extents);
    let both = model(0..300);
    assert!(built.run.check(&store).is_empty());
    for (key, _) in both.keys() {
        assert_eq!(find(&store, &built.run, key, MAX_SEQUENCE).unwrap().len(), 1);
    }
    let said = leaves(&store, &built.run);
    for ((was, _), is) in all.iter().zip(&said) {
        assert_eq!((was.low(), was.last()), (is.low(), is.last()));
        assert_eq!(was.pointer(), is.pointer());
    }
    assert_eq!(said.len(), all.len());
}

#[test]
fn leaves_whose_keys_are_not_known_are_taken_over_by_their_bounds() {
    let store = store();
    let numbers = 0..300;
    let run = run_of(&store, &options_with(false), &model(numbers.clone()));
    let all = leaves(&store, &run);
    let mut builder = RunBuilder::new(&store, &options_with(true)).unwrap();
    builder.inherit_from(&run, &KeyRange::everything());
    let (last, others) = all.split_last().unwrap();
    for leaf in others {
        builder.adopt(leaf, &run).unwrap();
    }
    let adopted: u64 = others.iter().map(LeafDescriptor::records).sum();
    numbers
        .take(adopted as usize)
        .for_each(|number| builder.hash_adopted(format!("{number:08}").as_bytes()));
    for ((key, _), owned) in model(adopted as u32..300) {
        builder.push(&key, record(1, &owned)).unwrap();
    }
    let built = builder.finish().unwrap().unwrap();
    store.extents().install(&built.extents);
    assert!(built.run.check(&store).is_empty());
    let said = leaves(&store, &built.run);
    assert_eq!(said.len(), all.len());
    assert!(said[0].last().is_none(), "the run before does not say its keys");
    assert!(last.records() > 0 && find(&store, &built.run, b"00000299", MAX_SEQUENCE).unwrap().len() == 1);
}

#[test]
fn long_keys_are_not_said() {
    let store = store_with(4096, 4 << 20);
    let long = |number: u32| {
        let key = [format!("{number:08}").into_bytes(), vec![b'k'; 20_000]].concat();
        ((key, Reverse(1)), put("value"))
    };
    let model: Model = (0..60).map(long).collect();
    let [without, with] = [false, true].map(|leaf_keys| {
        let options = RunOptions {
            leaf_keys,
            ..options()
        };
        let run = run_of(&store, &options, &model);
        let (all, mut read) = ([KeyRange::everything()], CheckReadTotals::default());
        let found = run.check_within(DataFiles::of(&store), &all, &mut |_| (), &mut read);
        assert!(found.is_empty(), "{found:?}");
        (run, read.index.bytes)
    });
    assert_eq!(with.1, without.1, "they take nothing");
    assert!(leaves(&store, &with.0)[0].last().is_none());
}

#[test]
fn a_check_finds_keys_that_are_not_those_of_their_leaf() {
    let store = store();
    let model = model(0..300);
    let mut builder = RunBuilder::new(&store, &options_with(true)).unwrap();
    for ((key, Reverse(sequence)), owned) in &model {
        builder.push(key, record(*sequence, owned)).unwrap();
        if **key == *b"00000100" {
            assert_eq!(
                builder.current.first_key, b"00000099",
                "it is the second key of its leaf"
            );
            builder.current.first_key = b"000000981".to_vec();
        }
    }
    let built = builder.finish().unwrap().unwrap();
    store.extents().install(&built.extents);
    let found = built.run.check(&store);
    assert!(
        !found.is_empty() && format!("{found:?}").contains("(I4)"),
        "{found:?}"
    );
}
