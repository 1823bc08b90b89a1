//! Tests of trees: comparison with an ordered map, damage, crashes, and the steps of searches.

mod damage;
mod steps;

use super::*;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{Directory, FileOptions};
use alluvium_model::SplitMix64;
use alluvium_storage::Error;
use std::collections::BTreeMap;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// Draws records with keys and values of the shape's lengths.
fn draw(shape: &PdamShape, count: usize, random: &mut SplitMix64) -> Records {
    let mut part = |bytes: u32| (0..bytes).map(|_| random.bits() as u8).collect::<Vec<u8>>();
    let mut records = Records::new();
    while records.len() < count {
        records.insert(part(shape.key_bytes()), part(shape.value_bytes()));
    }
    records
}

fn file() -> Arc<dyn Device> {
    MemoryDirectory::new()
        .create("tree", FileOptions::DIRECT)
        .unwrap()
}

fn build(shape: PdamShape, records: &Records) -> Arc<dyn Device> {
    let file = file();
    PdamTree::build(Arc::clone(&file), shape, 7, records).unwrap();
    file
}

fn shapes() -> [PdamShape; 5] {
    let shape = |block, nodes, key, value| PdamShape::new(block, nodes, key, value).unwrap();
    [
        shape(512, 1, 8, 8),
        shape(512, 8, 8, 0),
        shape(512, 3, 9, 31),
        shape(1024, 5, 200, 1),
        shape(512, 2, 126, 126),
    ]
}

#[test]
fn a_tree_answers_like_an_ordered_map() {
    let mut random = SplitMix64::from_seed(1);
    for shape in shapes() {
        for count in [0, 1, 2, 17, 300, 2500] {
            let records = draw(&shape, count, &mut random);
            let tree = PdamTree::open(build(shape, &records)).unwrap();
            assert_eq!(tree.keys(), count as u64);
            let examined = tree.check().unwrap();
            assert_eq!((examined.keys, examined.damage.len()), (count as u64, 0));
            for (key, value) in &records {
                assert_eq!(tree.get(key).unwrap().as_deref(), Some(&value[..]), "{shape:?}");
            }
            let there = records.keys().step_by(1 + count / 30).cloned();
            let absent = draw(&shape, 50, &mut random).into_keys();
            for key in &absent.chain(there).collect::<Vec<_>>() {
                let wanted = records.get(key);
                assert_eq!(tree.get(key).unwrap().as_deref(), wanted.map(|value| &value[..]));
                let found = tree.scan(key, 1 + random.below(40) as u32).unwrap().take(60);
                let found: Vec<_> = found.map(Result::unwrap).collect();
                let wanted: Vec<_> = records.range(key.clone()..).take(60).collect();
                assert_eq!(found.len(), wanted.len());
                for (found, wanted) in found.iter().zip(wanted) {
                    assert_eq!((&*found.0, &*found.1), (&wanted.0[..], &wanted.1[..]));
                }
            }
        }
    }
}

#[test]
fn clients_that_search_together_get_each_their_own_answer() {
    let shape = PdamShape::new(512, 8, 8, 8).unwrap();
    let mut random = SplitMix64::from_seed(2);
    let records = draw(&shape, 20_000, &mut random);
    let keys: Vec<&Vec<u8>> = records.keys().collect();
    let tree = PdamTree::open(build(shape, &records)).unwrap();
    for ahead in [ReadAhead::None, ReadAhead::Node, ReadAhead::Shared] {
        let mut readers = ReaderScheduler::new(&tree, ahead, 8, RemainderPolicy::InTurn).unwrap();
        let mut asked: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        let mut answered = 0;
        while answered < 2000 {
            // Clients join and leave: their number changes from step to step.
            let clients = 1 + (answered / 100) % 11;
            for reader in (0..clients)
                .filter(|reader| !asked.contains_key(reader))
                .collect::<Vec<_>>()
            {
                let mut key = keys[random.below(keys.len())].clone();
                key[7] ^= random.below(2) as u8;
                readers.seek(reader, &key).unwrap();
                asked.insert(reader, key);
            }
            for (reader, value) in readers.step().unwrap() {
                let key = asked.remove(&reader).expect("an answer to a question");
                assert_eq!(value.as_deref(), records.get(&key).map(|value| &value[..]));
                answered += 1;
            }
            assert_eq!(readers.waiting(), asked.len());
        }
        assert!(readers.blocks() <= 8 * readers.steps(), "PD2");
    }
}

#[test]
fn what_is_out_of_order_or_of_another_length_is_refused() {
    let shape = PdamShape::new(512, 8, 2, 1).unwrap();
    let refused = |records: &[(&[u8], &[u8])]| {
        let file = file();
        match PdamTree::build(Arc::clone(&file), shape, 1, records.iter().copied()) {
            Err(Error::BadOption { option, why }) => {
                assert!(PdamTree::open(file).is_err(), "PD4: the file holds no tree");
                format!("{option}: {why}")
            }
            other => panic!("{other:?}"),
        }
    };
    for records in [
        [(&b"ba"[..], &b"1"[..]), (b"ab", b"2")],
        [(b"ab", b"1"), (b"ab", b"2")],
    ] {
        assert!(refused(&records).contains("records: the record with the key \"ab\" does not follow"));
    }
    assert!(refused(&[(b"abc", b"1")]).contains("has 3 and 1 bytes"));
    assert!(refused(&[(b"ab", b"")]).contains("has 2 and 0 bytes"));
    let file = file();
    PdamTree::build(Arc::clone(&file), shape, 1, [(b"ab", b"1")]).unwrap();
    let again = PdamTree::build(Arc::clone(&file), shape, 1, [(b"ab", b"1")]);
    assert!(again.unwrap_err().to_string().contains("name an empty file"));
    let tree = PdamTree::open(file).unwrap();
    assert!(tree.get(b"a").unwrap_err().to_string().contains("option key"));
    assert!(tree.scan(b"", 8).is_err());
}

#[test]
fn slots_that_do_not_suffice_or_do_not_divide_are_refused_with_the_reason() {
    let shape = PdamShape::new(512, 8, 8, 0).unwrap();
    let records = draw(&shape, 3000, &mut SplitMix64::from_seed(3));
    let tree = PdamTree::open(build(shape, &records)).unwrap();
    let new = |ahead, slots, remainder| ReaderScheduler::new(&tree, ahead, slots, remainder);
    assert!(new(ReadAhead::Shared, 0, RemainderPolicy::InTurn).is_err());
    let whole = new(ReadAhead::Node, 7, RemainderPolicy::InTurn)
        .unwrap_err()
        .to_string();
    assert!(whole.contains("a step has 7 blocks and a node 8"), "{whole}");
    let key = records.keys().next().unwrap();
    for clients in 1..=16 {
        let plan = |remainder| {
            let mut readers = new(ReadAhead::Shared, 8, remainder).unwrap();
            for reader in 0..clients {
                readers.seek(reader, key).unwrap();
            }
            readers.plan()
        };
        let runs = plan(RemainderPolicy::InTurn).unwrap();
        let each = runs.iter().map(|run| run.blocks.end - run.blocks.start);
        assert_eq!(each.clone().sum::<u64>(), 8, "PD2: all slots are used");
        let least = 8 / clients as u64;
        assert!(each.clone().all(|blocks| blocks == least || blocks == least + 1));
        let refused = plan(RemainderPolicy::Refused);
        assert_eq!(refused.is_ok(), [1, 2, 4, 8].contains(&clients), "{clients}");
        if let Err(error) = refused {
            let error = error.to_string();
            assert!(
                error.contains(&format!("do not divide by {clients} clients")),
                "{error}"
            );
        }
    }
    let mut readers = new(ReadAhead::Shared, 8, RemainderPolicy::InTurn).unwrap();
    assert!(
        readers
            .seek(1 << 16, key)
            .unwrap_err()
            .to_string()
            .contains("option reader")
    );
    assert!(readers.seek(0, b"short").is_err());
}
