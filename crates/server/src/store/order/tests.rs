//! Applies random changes to sorted sets in transactions that are committed or discarded, and
//! reopens the store in between. The chunk counts must always match the elements.

use super::*;
use crate::options::KeyLayout;
use crate::store::model::CollectionKind;
use crate::store::{KeyLockRequest, Mode, ServerStore};
use alluvium::simulation::SimulationOperations as _;
use alluvium::{Db, Options};
use std::collections::BTreeMap;
use std::path::Path;

fn open(place: &Path) -> (Db, ServerStore) {
    let db = Options::new().memory(64 << 20).open(place).unwrap();
    let store = ServerStore::open(&db, KeyLayout::AsStored).unwrap();
    (db, store)
}

/// The expected contents of a set: the score of each member.
type Model = BTreeMap<Vec<u8>, f64>;

const KEY: &[u8] = b"z";

fn member(random: &mut fastrand::Rng) -> Vec<u8> {
    format!("member {}", random.u32(..10_000)).into_bytes()
}

/// Applies random changes to a set, as ZADD and ZREM do.
fn change(
    transaction: &mut CommandTransaction<'_>,
    model: &mut Model,
    random: &mut fastrand::Rng,
    grows: bool,
) {
    let mut set = transaction
        .collection_or_new(KEY, CollectionKind::SortedSet)
        .unwrap();
    for _ in 0..random.usize(1..1_200) {
        let member = member(random);
        let place = |score| format::score_key(0, set.number, score, &member);
        if let Some(old) = model.get(&member).copied() {
            if grows && random.bool() {
                continue;
            }
            transaction.delete(place(old));
            transaction.delete(format::sorted_member_key(0, set.number, &member));
            transaction.count_removed(&set, &place(old)).unwrap();
            set.count -= 1;
            model.remove(&member);
        } else if grows || random.u8(..100) == 0 {
            let new = f64::from(random.u32(..500));
            transaction.put(format::sorted_member_key(0, set.number, &member), Vec::new(), 0);
            transaction.put(place(new), Vec::new(), 0);
            transaction.count_added(&set, &place(new)).unwrap();
            set.count += 1;
            model.insert(member, new);
        }
        if set.count == 0 {
            break;
        }
    }
    transaction.settle_order(&mut set).unwrap();
    transaction.save(KEY, &set);
}

/// Checks that every chunk count equals the number of elements from the chunk's start up to the
/// next chunk's start (S17). Returns whether the set has chunk counts.
fn check(store: &ServerStore, model: &Model) -> bool {
    let mut transaction = CommandTransaction::new(store, 0);
    let Some(set) = transaction.collection(KEY, CollectionKind::SortedSet).unwrap() else {
        assert!(model.is_empty());
        return false;
    };
    assert_eq!(set.count, model.len() as u64);
    let mut ranks: Vec<_> = model
        .iter()
        .map(|(member, score)| (score.to_bits(), member))
        .collect();
    ranks.sort_unstable();
    let stored = transaction.read_order(&set);
    if !set.is_counted {
        assert!(stored.is_err() && set.count <= COUNTED_FROM);
        return false;
    }
    let stored = stored.unwrap();
    let mut counts = vec![0; stored.len()];
    for &(score, member) in &ranks {
        let place = format::score_key(0, set.number, f64::from_bits(score), member);
        counts[stored.find(format::score_place(&place))] += 1;
    }
    let known: Vec<u32> = (0..stored.len()).map(|at| stored.count(at)).collect();
    assert_eq!(known, counts);
    for rank in [0, 1, ranks.len() / 3, ranks.len() / 2, ranks.len() - 1] {
        let (score, member) = ranks[rank];
        let place = format::score_key(0, set.number, f64::from_bits(score), member);
        assert_eq!(transaction.rank(&set, &place).unwrap(), rank as u64);
        for direction in [WalkDirection::Forward, WalkDirection::Backward] {
            let RankRange { start, end, skip } = transaction.beginning(&set, rank as u64, direction).unwrap();
            assert!(skip <= limit(set.count));
            let mut scan = transaction.scan(start, end, direction);
            for _ in 0..skip {
                scan.next().unwrap();
            }
            assert_eq!(scan.next().unwrap().unwrap().0[..], place[..]);
        }
    }
    true
}

#[test]
fn counts_are_those_of_the_elements_whatever_happens() {
    let mut random = fastrand::Rng::with_seed(5);
    let place = tempfile::tempdir().unwrap();
    let (mut db, mut store) = open(&place.path().join("store"));
    let mut model = Model::new();
    let (mut counted, mut uncounted) = (0, 0);
    for turn in 0..120 {
        let grows = turn % 60 < 30;
        let mut next = model.clone();
        let mut wanted = KeyLockRequest::default();
        wanted.key(0, KEY, Mode::Exclusive);
        let held = store.locks.lock(wanted);
        let mut transaction = CommandTransaction::new(&store, 0);
        for _ in 0..random.usize(1..3) {
            change(&mut transaction, &mut next, &mut random, grows);
        }
        // Some transactions are discarded without a commit.
        if random.u8(..5) > 0 {
            transaction.commit(&held).unwrap();
            model = next;
        }
        drop((transaction, held));
        if check(&store, &model) {
            counted += 1;
        } else {
            uncounted += 1;
        }
        if random.u8(..25) == 0 {
            // Simulate a crash: the store is not closed properly.
            db.abandon();
            drop((store, db));
            (db, store) = open(&place.path().join("store"));
        }
    }
    assert!(counted > 30 && uncounted > 10, "{counted} {uncounted}");
}

#[test]
fn a_set_without_counts_gets_them_when_a_rank_is_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let (db, store) = open(&place.path().join("store"));
    let held = store.locks.lock(KeyLockRequest::default());
    let mut transaction = CommandTransaction::new(&store, 0);
    let mut set = transaction
        .collection_or_new(KEY, CollectionKind::SortedSet)
        .unwrap();
    for index in 0..2 * COUNTED_FROM {
        let place = format::score_key(0, set.number, index as f64, b"m");
        transaction.put(place, Vec::new(), 0);
        set.count += 1;
    }
    transaction.save(KEY, &set);
    transaction.commit(&held).unwrap();
    drop(transaction);
    let mut transaction = CommandTransaction::new(&store, 0);
    let mut set = transaction
        .collection(KEY, CollectionKind::SortedSet)
        .unwrap()
        .unwrap();
    assert!(!set.is_counted);
    transaction.ensure_counted(KEY, &mut set).unwrap();
    let place = format::score_key(0, set.number, 5000.0, b"m");
    assert_eq!(transaction.rank(&set, &place).unwrap(), 5000);
    transaction.commit(&held).unwrap();
    drop(transaction);
    let set = CommandTransaction::new(&store, 0)
        .collection(KEY, CollectionKind::SortedSet)
        .unwrap()
        .unwrap();
    assert!(set.is_counted);
    assert_eq!(
        CommandTransaction::new(&store, 0)
            .read_order(&set)
            .unwrap()
            .total(),
        set.count
    );
    drop(held);
    drop((store, db));
}
