use super::*;
use crate::db::Db;
use crate::options::Options;
use std::collections::BTreeMap;

fn store() -> (Db, Keyspace) {
    let db = Options::new().memory(64 << 20).in_memory().unwrap();
    let keyspace = db.keyspace("data").unwrap();
    (db, keyspace)
}

fn commit(db: &Db, set: &WriteSet) {
    let mut batch = WriteBatch::new();
    set.add_to(&mut batch).unwrap();
    db.write(&batch).unwrap();
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Applies one random write to both a set and the model.
fn write(random: &mut fastrand::Rng, set: &mut WriteSet, model: &mut Model) {
    let name = |random: &mut fastrand::Rng| vec![random.u8(..24), random.u8(..2)];
    match random.u8(..8) {
        0 => {
            let (start, end) = (name(random), name(random));
            let end = random.bool().then_some(end);
            set.delete_range(&start, end.as_deref());
            model.retain(|key, _| *key < start || end.as_ref().is_some_and(|end| key >= end));
        }
        1 | 2 => {
            let key = name(random);
            match random.bool() {
                true => set.delete(&key),
                false => set.write(&key, None, 0),
            }
            model.remove(&key);
        }
        _ => {
            let (key, value) = (name(random), vec![random.u8(..); random.usize(..9)]);
            match random.u8(..8) {
                0 => set.put(&key, value.clone()),
                _ => set.write(&key, Some(&value), 0),
            }
            model.insert(key, value);
        }
    }
}

/// Iterates over a range from both ends, choosing an end at random for each step. Returns the
/// records in key order.
fn walk(random: &mut fastrand::Rng, mut iter: WriteSetIter<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut front, mut back) = (Vec::new(), Vec::new());
    loop {
        let is_front = random.bool();
        let next = if is_front { iter.next() } else { iter.next_back() };
        let Some(pair) = next else { break };
        let (key, value) = pair.unwrap();
        if is_front {
            front.push((key, value.into_vec()));
        } else {
            back.push((key, value.into_vec()));
        }
    }
    assert!(iter.next().is_none() && iter.next_back().is_none());
    back.reverse();
    front.extend(back);
    front
}

#[test]
fn a_set_reads_and_commits_as_a_map_over_a_map() {
    let mut random = fastrand::Rng::with_seed(25);
    let (db, keyspace) = store();
    let mut model = Model::new();
    for turn in 0..60 {
        let before = (db.snapshot(), model.clone());
        let mut set = WriteSet::new(&keyspace);
        // A set keeps its writes in a list until it is first read. `blind` is the number of writes
        // before that. Some sets are never read.
        let (writes, blind) = (random.usize(..40), random.usize(..60));
        for number in 0..writes {
            write(&mut random, &mut set, &mut model);
            if number < blind {
                continue;
            }
            let name = [random.u8(..24), random.u8(..2)];
            let found = set.get(name).unwrap().map(Value::into_vec);
            assert_eq!(found.as_ref(), model.get(&name[..]), "{turn}");
            assert_eq!(set.get_in(&before.0, name).unwrap().map(Value::into_vec), found);
        }
        if random.u8(..3) == 0 {
            commit(&db, &set);
            continue;
        }
        let mut bounds = [vec![random.u8(..24)], vec![random.u8(..26)]];
        bounds.sort();
        let [low, high] = bounds;
        let expected = |range: Vec<(&Vec<u8>, &Vec<u8>)>| -> Vec<(Vec<u8>, Vec<u8>)> {
            range
                .into_iter()
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        let all = walk(&mut random, set.iter());
        assert_eq!(all, expected(model.iter().collect()), "{turn}");
        let some = walk(&mut random, set.range_in(&before.0, &low[..]..&high[..]));
        assert_eq!(some, expected(model.range(low..high).collect()), "{turn}");
        // Other readers must not have seen any of the writes.
        let seen: Vec<_> = keyspace.iter().map(|pair| pair.unwrap()).collect();
        let seen: Model = seen
            .into_iter()
            .map(|(key, value)| (key, value.into_vec()))
            .collect();
        assert_eq!(seen, before.1);
        commit(&db, &set);
    }
    assert!(model.len() > 5, "{model:?}");
}

#[test]
fn writes_in_their_order_are_counted_once_they_are_kept_by_key() {
    let (db, keyspace) = store();
    let mut set = WriteSet::new(&keyspace);
    for value in [b"1", b"2", b"3"] {
        set.write(b"a", Some(value), 0);
    }
    set.write(b"b", None, 0);
    assert!(set.writes.listed().is_some_and(|listed| listed.count == 4));
    let listed = set.memory();
    assert_eq!((set.len(), set.memory()), (2, listed), "a reader frees nothing");
    set.forget_overwritten();
    assert!(set.memory() < listed && set.writes.listed().is_none());
    let before = set.memory();
    set.write(b"a", Some(b"45"), 0);
    assert_eq!(set.memory(), before + 1);
    commit(&db, &set);
    assert_eq!(keyspace.get("a").unwrap().unwrap(), b"45");
    let mark = set.mark();
    set.write(b"c", Some(b"6"), 0);
    set.undo_to(mark);
    assert_eq!(set.len(), 2, "after a mark each write can be taken back");
}

#[test]
fn memory_is_that_of_what_is_still_there() {
    let (_db, keyspace) = store();
    let mut set = WriteSet::new(&keyspace);
    assert!(set.is_empty() && set.memory() == 0);
    set.put("a", vec![0; 1000]);
    let long = set.memory();
    assert!((1000..1400).contains(&long), "{long}");
    set.put("a", vec![0; 10]);
    set.put("b", vec![0; 10]);
    assert!(set.memory() < 500 && set.len() == 2);
    set.delete_range("a", Some(b"b"));
    set.delete_range("b", None);
    assert_eq!(set.len(), 1, "the ranges meet, and hide all writes");
    assert!(set.memory() < 200, "{}", set.memory());
    set.clear();
    assert!(set.is_empty() && set.memory() == 0);
}

#[test]
fn what_is_too_long_is_refused_when_the_set_is_added() {
    let (_db, keyspace) = store();
    let mut set = WriteSet::new(&keyspace);
    set.put(vec![0; crate::write::batch::MAX_KEY + 1], "");
    let refused = set.add_to(&mut WriteBatch::new());
    assert!(matches!(refused, Err(Error::TooLong { .. })));
}

#[test]
fn bounds_without_keys_are_walked_without_a_panic() {
    let (_db, keyspace) = store();
    let mut set = WriteSet::new(&keyspace);
    set.put("m", "1");
    set.delete_range("z", Some(b"a"));
    assert!(set.range("z".."a").next().is_none());
    let same = (Bound::Excluded("m"), Bound::Excluded("m"));
    assert!(set.range::<&str>(same).next().is_none());
    assert_eq!(set.range("m"..="m").count(), 1);
}

#[test]
fn a_put_that_expires_is_committed_with_its_expiry() {
    let (db, keyspace) = store();
    let mut set = WriteSet::new(&keyspace);
    let past = UNIX_EPOCH + Duration::from_secs(1);
    set.put_until("gone", "1", past);
    set.put_until("here", "2", SystemTime::now() + Duration::from_secs(3600));
    assert_eq!(set.own("gone"), Some(OwnWrite::Put(b"1")));
    commit(&db, &set);
    assert!(keyspace.get("gone").unwrap().is_none());
    assert_eq!(keyspace.get("here").unwrap().unwrap(), b"2");
}
