//! Compares all read paths with the model.

use super::model::{Model, ModelKeyspace, Pair};
use super::ops::{Edge, KeyNumber, KeyspaceNumber, Read, View, Walk, Way};
use super::plan::KeyspacePlan;
use super::world::{Outcome, World, told};
use alluvium::{Iter, Keyspace, Snapshot, UnorderedScan, Value};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;

type Found = alluvium::Result<(Vec<u8>, Value)>;

/// Formats a key and its value, truncating long ones.
pub(super) fn show(key: &[u8], value: Option<&[u8]>) -> String {
    let begin = |bytes: &[u8]| match bytes.len() {
        0..33 => format!("\"{}\"", bytes.escape_ascii()),
        len => format!("\"{}…\" ({len} bytes)", bytes[..24].escape_ascii()),
    };
    format!("{} = {}", begin(key), value.map_or("nothing".to_owned(), begin))
}

/// Compares the value found for a key with the expected one.
pub(super) fn same(key: &[u8], found: Option<&[u8]>, expected: Option<&[u8]>) -> Outcome {
    match found == expected {
        true => Ok(()),
        false => Err(format!(
            "found {}, expected {}",
            show(key, found),
            show(key, expected)
        )),
    }
}

fn show_pair(pair: Option<&Pair>) -> String {
    pair.map_or("the end".to_owned(), |(key, value)| show(key, Some(value)))
}

/// Compares two lists of pairs in key order.
pub(super) fn same_pairs(found: &[Pair], expected: &[Pair]) -> Outcome {
    let at = found
        .iter()
        .zip(expected)
        .take_while(|(one, other)| one == other)
        .count();
    match at == found.len().max(expected.len()) {
        true => Ok(()),
        false => Err(format!(
            "found {} keys, expected {}; the first difference: found {}, expected {}",
            found.len(),
            expected.len(),
            show_pair(found.get(at)),
            show_pair(expected.get(at))
        )),
    }
}

/// Collects the pairs of an iteration in key order. An ordered iteration is not sorted again.
pub(super) fn gathered(walk: impl Iterator<Item = Found>, plan: &KeyspacePlan) -> Outcome<Vec<Pair>> {
    let pairs = walk.map(|found| told("a walk", found).map(|(key, value)| (key, value.into_vec())));
    let mut pairs = pairs.collect::<Outcome<Vec<Pair>>>()?;
    if !plan.is_ordered() {
        pairs.sort();
    }
    Ok(pairs)
}

/// Compares an iteration from both ends, limited to a number of keys.
pub(super) fn compare(
    mut walk: impl DoubleEndedIterator<Item = Found>,
    mut left: VecDeque<Pair>,
    way: Way,
    most: usize,
) -> Outcome {
    let mut random = fastrand::Rng::with_seed(match way {
        Way::Both(seed) => seed,
        Way::Forward | Way::Backward => 0,
    });
    for at in 0..most {
        let is_forward = way == Way::Forward || (way != Way::Backward && random.bool());
        let (found, expected) = match is_forward {
            true => (walk.next(), left.pop_front()),
            false => (walk.next_back(), left.pop_back()),
        };
        let found = told("a walk", found.transpose())?.map(|(key, value)| (key, value.into_vec()));
        if found != expected {
            let (found, expected) = (show_pair(found.as_ref()), show_pair(expected.as_ref()));
            let end = if is_forward { "front" } else { "back" };
            return Err(format!(
                "a walk, key {at}, from the {end}: found {found}, expected {expected}"
            ));
        }
        if found.is_none() {
            break;
        }
    }
    Ok(())
}

/// Returns a range bound in the form that iterators take.
fn bound(edge: Edge, key: &[u8], is_low: bool) -> Bound<&[u8]> {
    match (edge, is_low) {
        (Edge::Whole, _) => Bound::Unbounded,
        (Edge::At(_), true) | (Edge::Behind(_), false) => Bound::Included(key),
        (Edge::At(_), false) | (Edge::Behind(_), true) => Bound::Excluded(key),
    }
}

/// A range in the forms that iterators and the model take.
pub(super) struct Range {
    edges: [Edge; 2],
    keys: [Vec<u8>; 2],
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

impl Range {
    pub(super) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let [low, high] = &self.keys;
        (bound(self.edges[0], low, true), bound(self.edges[1], high, false))
    }

    pub(super) fn of(&self, model: &ModelKeyspace, now_ms: u64) -> VecDeque<Pair> {
        model.pairs(&self.low, self.high.as_deref(), now_ms).into()
    }
}

/// An iterator that is held while the store changes.
#[derive(Debug)]
enum HeldWalk {
    Ordered(Iter),
    Unordered(UnorderedScan),
}

/// A held iterator and the pairs that existed when it was created. Keys whose values may expire are
/// skipped, because iterators also follow the clock.
pub(super) struct Held {
    keyspace: KeyspaceNumber,
    walk: HeldWalk,
    expiring: BTreeSet<Vec<u8>>,
    left: VecDeque<Pair>,
    /// Pairs found by an unordered iteration.
    found: Vec<Pair>,
}

impl Held {
    pub(super) fn new(
        number: KeyspaceNumber,
        keyspace: &Keyspace,
        plan: &KeyspacePlan,
        model: &ModelKeyspace,
        now_ms: u64,
    ) -> Held {
        let mut left = model.all(now_ms);
        let expires = |(key, _): &Pair| model.expires(key);
        let expiring = left
            .iter()
            .filter(|pair| expires(pair))
            .map(|(key, _)| key.clone());
        let expiring = expiring.collect();
        left.retain(|pair| !expires(pair));
        Held {
            keyspace: number,
            walk: match plan.is_ordered() {
                true => HeldWalk::Ordered(keyspace.iter()),
                false => HeldWalk::Unordered(keyspace.unordered()),
            },
            expiring,
            left: left.into(),
            found: Vec::new(),
        }
    }

    pub(super) fn keyspace(&self) -> KeyspaceNumber {
        self.keyspace
    }

    pub(super) fn go_on(&mut self, way: Way, count: usize) -> Outcome {
        let expiring = &self.expiring;
        let lasts = |found: &Found| !matches!(found, Ok((key, _)) if expiring.contains(key));
        match &mut self.walk {
            HeldWalk::Ordered(walk) => {
                let expected = self.left.clone();
                let count = count.min(expected.len() + 1);
                let mut taken = Taken { front: 0, back: 0 };
                let walk = Counted {
                    walk,
                    taken: &mut taken,
                    lasts,
                };
                compare(walk, expected, way, count).map_err(|why| format!("held: {why}"))?;
                self.left.drain(..taken.front.min(self.left.len()));
                self.left.truncate(self.left.len().saturating_sub(taken.back));
            }
            HeldWalk::Unordered(walk) => {
                for found in walk.by_ref().filter(lasts).take(count) {
                    let (key, value) = told("a held walk", found)?;
                    self.found.push((key, value.into_vec()));
                }
            }
        }
        Ok(())
    }

    /// Advances the iterator to its end and compares the result.
    pub(super) fn end(mut self) -> Outcome {
        self.go_on(Way::Forward, usize::MAX)?;
        if let HeldWalk::Unordered(_) = self.walk {
            self.found.sort();
            same_pairs(&self.found, self.left.make_contiguous()).map_err(|why| format!("held: {why}"))?;
        }
        Ok(())
    }
}

/// Number of keys consumed from each end.
struct Taken {
    front: usize,
    back: usize,
}

/// An iterator that counts the keys consumed from it, except those that may expire.
struct Counted<'w, L> {
    walk: &'w mut Iter,
    taken: &'w mut Taken,
    lasts: L,
}

impl<L: Fn(&Found) -> bool> Iterator for Counted<'_, L> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        let next = self.walk.find(&self.lasts);
        self.taken.front += usize::from(next.is_some());
        next
    }
}

impl<L: Fn(&Found) -> bool> DoubleEndedIterator for Counted<'_, L> {
    fn next_back(&mut self) -> Option<Found> {
        let next = self.walk.rfind(&self.lasts);
        self.taken.back += usize::from(next.is_some());
        next
    }
}

impl World<'_> {
    /// Performs a read and compares its result.
    pub(super) fn compare(&self, read: &Read) -> Outcome {
        match read {
            &Read::Get(view, of, key) => self.compare_get(view, of, key),
            &Read::Contains(of, key) => self.compare_contains(of, key),
            Read::GetMany(view, of, keys) => self.compare_many(*view, *of, keys),
            &Read::Walk(view, of, walk) => self.compare_walk(view, of, walk),
            &Read::Prefix(of, key, len, way) => self.compare_prefix(of, key, len, way),
            &Read::Unordered(view, of) => self.compare_unordered(view, of),
            &Read::Keyspace(of) => self.compare_keyspace(of),
            Read::All => self.compare_all(),
        }
    }

    pub(super) fn range(&self, of: KeyspaceNumber, walk: Walk) -> Range {
        let key = |edge| match edge {
            Edge::Whole => Vec::new(),
            Edge::At(number) | Edge::Behind(number) => self.key(of, number),
        };
        let behind = |edge| match edge {
            Edge::Whole => None,
            Edge::At(_) => Some(key(edge)),
            Edge::Behind(_) => Some([&key(edge)[..], &[0][..]].concat()),
        };
        Range {
            edges: [walk.low, walk.high],
            keys: [key(walk.low), key(walk.high)],
            low: behind(walk.low).unwrap_or_default(),
            high: behind(walk.high),
        }
    }

    fn value_in(&self, model: &Model, of: KeyspaceNumber, key: &[u8]) -> Option<Vec<u8>> {
        model.keyspace(of).get(key, self.now_ms())
    }

    fn compare_get(&self, view: View, of: KeyspaceNumber, key: KeyNumber) -> Outcome {
        let (keyspace, _) = self.keyspace(of);
        let key = self.key(of, key);
        let (snapshot, model) = self.viewed(view);
        let found = match snapshot {
            None => keyspace.get(&key),
            Some(snapshot) => snapshot.get(keyspace, &key),
        };
        let found = told("a get", found)?;
        same(&key, found.as_deref(), self.value_in(model, of, &key).as_deref())
    }

    fn compare_contains(&self, of: KeyspaceNumber, key: KeyNumber) -> Outcome {
        let (keyspace, _) = self.keyspace(of);
        let key = self.key(of, key);
        let expected = self.value_in(&self.model, of, &key);
        match told("a question for a key", keyspace.contains(&key))? == expected.is_some() {
            true => Ok(()),
            false => Err(format!(
                "the wrong answer where there is {}",
                show(&key, expected.as_deref())
            )),
        }
    }

    fn compare_many(&self, view: View, of: KeyspaceNumber, keys: &[KeyNumber]) -> Outcome {
        let (keyspace, _) = self.keyspace(of);
        let keys: Vec<Vec<u8>> = keys.iter().map(|&key| self.key(of, key)).collect();
        let (snapshot, model) = self.viewed(view);
        let found = match snapshot {
            None => keyspace.multi_get(&keys),
            Some(snapshot) => snapshot.multi_get(keyspace, &keys),
        };
        for (key, found) in keys.iter().zip(told("many gets", found)?) {
            same(key, found.as_deref(), self.value_in(model, of, key).as_deref())?;
        }
        Ok(())
    }

    fn compare_walk(&self, view: View, of: KeyspaceNumber, walk: Walk) -> Outcome {
        let (keyspace, plan) = self.keyspace(of);
        if !plan.is_ordered() {
            return Ok(());
        }
        let (snapshot, model) = self.viewed(view);
        let range = self.range(of, walk);
        let iter = match snapshot {
            None => keyspace.range::<&[u8]>(range.bounds()),
            Some(snapshot) => snapshot.range::<&[u8]>(keyspace, range.bounds()),
        };
        let expected = range.of(model.keyspace(of), self.now_ms());
        compare(iter, expected, walk.way, walk.most)
    }

    fn compare_prefix(&self, of: KeyspaceNumber, key: KeyNumber, len: usize, way: Way) -> Outcome {
        let (keyspace, plan) = self.keyspace(of);
        if !plan.is_ordered() {
            return Ok(());
        }
        let mut prefix = self.key(of, key);
        prefix.truncate(len);
        let mut expected = self.model.keyspace(of).pairs(&prefix, None, self.now_ms());
        expected.retain(|(key, _)| key.starts_with(&prefix));
        compare(keyspace.prefix(&prefix), expected.into(), way, usize::MAX)
    }

    fn compare_unordered(&self, view: View, of: KeyspaceNumber) -> Outcome {
        let (keyspace, plan) = self.keyspace(of);
        let (snapshot, model) = self.viewed(view);
        let walk = match snapshot {
            None => keyspace.unordered(),
            Some(snapshot) => snapshot.unordered(keyspace),
        };
        let found: Vec<Found> = walk.collect();
        // The iteration can resume after any of its keys.
        if let (None, Some(Ok((key, _)))) = (snapshot, found.get(found.len() / 2)) {
            let behind = keyspace.unordered().after(key).count();
            if behind != found.len() - found.len() / 2 - 1 {
                return Err(format!(
                    "{behind} keys are behind one in the middle of {}",
                    found.len()
                ));
            }
        }
        let found = gathered(found.into_iter(), plan)?;
        same_pairs(&found, &model.keyspace(of).all(self.now_ms()))
    }

    /// Returns all current pairs.
    pub(super) fn everything(&self) -> Outcome<Vec<Vec<Pair>>> {
        let all = (0..self.plan.keyspaces.len()).map(|number| {
            let (keyspace, plan) = self.keyspace(number);
            gathered(keyspace.unordered(), plan)
        });
        all.collect()
    }

    fn compare_keyspace(&self, of: KeyspaceNumber) -> Outcome {
        let (keyspace, plan) = self.keyspace(of);
        let expected = self.model.keyspace(of).all(self.now_ms());
        if !plan.is_ordered() {
            return same_pairs(&gathered(keyspace.unordered(), plan)?, &expected);
        }
        same_pairs(&gathered(keyspace.iter(), plan)?, &expected)?;
        let mut back = gathered(keyspace.iter().rev(), plan)?;
        back.reverse();
        same_pairs(&back, &expected).map_err(|why| format!("backwards: {why}"))?;
        let ends = [
            (keyspace.first(), expected.first()),
            (keyspace.last(), expected.last()),
        ];
        for (found, expected) in ends {
            let found = told("an end", found)?.map(|(key, value)| (key, value.into_vec()));
            if found.as_ref() != expected {
                let (found, expected) = (show_pair(found.as_ref()), show_pair(expected));
                return Err(format!("an end: found {found}, expected {expected}"));
            }
        }
        Ok(())
    }

    fn compare_snapshot(&self, snapshot: &Snapshot, model: &Model) -> Outcome {
        for number in 0..self.plan.keyspaces.len() {
            let (keyspace, plan) = self.keyspace(number);
            let found = match plan.is_ordered() {
                true => gathered(snapshot.iter(keyspace), plan)?,
                false => gathered(snapshot.unordered(keyspace), plan)?,
            };
            let expected = model.keyspace(number).all(self.now_ms());
            same_pairs(&found, &expected).map_err(|why| format!("keyspace {number}: {why}"))?;
        }
        Ok(())
    }

    /// Compares all keyspaces in every view.
    fn compare_all(&self) -> Outcome {
        for number in 0..self.plan.keyspaces.len() {
            let same = self.compare_keyspace(number);
            same.map_err(|why| format!("keyspace {number}: {why}"))?;
        }
        for (snapshot, model) in &self.snapshots {
            let same = self.compare_snapshot(snapshot, model);
            same.map_err(|why| format!("in a snapshot, {why}"))?;
        }
        for (name, model) in self.named() {
            let snapshot = told("a named snapshot", self.db().open_snapshot(name))?;
            let same = self.compare_snapshot(&snapshot, model);
            same.map_err(|why| format!("in the snapshot {name}, {why}"))?;
        }
        Ok(())
    }
}
