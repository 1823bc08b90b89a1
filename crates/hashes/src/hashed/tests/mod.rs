//! Tests that compare a hashed structure with a model, on a store in memory.

mod bundles;
mod collisions;
mod long;
mod mending;
mod neighbours;
mod steps;
mod tiers;
mod trees;
mod walks;

use super::{HashedForm, HashedOptions, HashedStructure, IndexKind, check_files, reached};
use alluvium_base::{Message, message::MAX_SEQUENCE};
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::check_report::CheckLevel;
use alluvium_dictionary::contract::{Dictionary, DictionaryScan, MaintenanceStep, PointLookup, StepProgress};
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::memtables::{MemtableEntry, MemtableList, MemtableOwner};
use alluvium_dictionary::merge::{AppendOperator, MergeDirection};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::DataFiles;
use alluvium_dictionary::rules::{KeyspaceRules, OneKeyspace};
use alluvium_dictionary::structure_context::StructureContext;
use alluvium_storage::TierDirectories;
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::store::{Store, StoreOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

fn home() -> StructureContext {
    home_in(Arc::new(MemoryDirectory::new()), &StoreOptions::default())
}

fn home_in(directories: impl Into<TierDirectories>, options: &StoreOptions) -> StructureContext {
    let store = Store::create(directories, options, b"").unwrap();
    let rules = KeyspaceRules {
        operator: Some(Arc::new(AppendOperator)),
        value_threshold: Some(200),
        ..KeyspaceRules::default()
    };
    StructureContext {
        store: Arc::new(store),
        schema: Arc::new(OneKeyspace::new(rules)),
        horizon: Arc::default(),
    }
}

fn small(index: IndexKind) -> HashedOptions {
    HashedOptions {
        index,
        parts_log: 2,
        least_young: 2,
        most_young: 4,
        ..HashedOptions::default()
    }
}

/// Options under which hash stores are joined, and parts are merged only on request.
fn joining(index: IndexKind) -> HashedOptions {
    HashedOptions {
        least_young: 6,
        most_young: 6,
        ..small(index)
    }
}

/// Options for a bundle of arrays with its own hash seed.
fn bundle(lambda: u16, refined: bool) -> HashedOptions {
    HashedOptions {
        form: HashedForm::Boa { lambda, refined },
        seed: 0x9e37_79b9_7f4a_7c15,
        ..small(IndexKind::PaCHash)
    }
}

/// Options for a bundle of trees.
fn grove(lambda: u16) -> HashedOptions {
    HashedOptions {
        form: HashedForm::Bot { lambda },
        ..bundle(lambda, true)
    }
}

/// Returns options for every form, with both kinds of filters and with few or many runs per level.
fn forms() -> Vec<HashedOptions> {
    vec![
        small(IndexKind::PaCHash),
        small(IndexKind::Trie),
        bundle(2, false),
        bundle(4, false),
        bundle(4, true),
        bundle(16, false),
        bundle(256, true),
        grove(2),
        grove(4),
        grove(16),
        grove(256),
    ]
}

/// A message in the model. Its position determines its sequence number.
#[derive(Clone, Debug)]
enum Said {
    Put(Vec<u8>, Vec<u8>, u64),
    Merge(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// All commits in order, from which the model can compute what a reader at any of them sees.
#[derive(Debug, Default)]
struct Model {
    said: Vec<Said>,
}

impl Model {
    fn at(&self, at: u64, now_ms: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut all: BTreeMap<Vec<u8>, (Vec<u8>, u64)> = BTreeMap::new();
        for said in &self.said[..at as usize] {
            match said {
                Said::Put(key, value, expires) => {
                    all.insert(key.clone(), (value.clone(), *expires));
                }
                Said::Merge(key, operand) => {
                    let old = all
                        .remove(key)
                        .filter(|(_, expires)| *expires == 0 || *expires > now_ms);
                    let mut value = old.map_or_else(Vec::new, |(value, _)| value);
                    value.extend(operand);
                    all.insert(key.clone(), (value, 0));
                }
                Said::Delete(key) => {
                    all.remove(key);
                }
                Said::DeleteRange(start, end) => all.retain(|key, _| key < start || key >= end),
            }
        }
        let lives = |(_, expires): &(Vec<u8>, u64)| *expires == 0 || *expires > now_ms;
        let living = all.into_iter().filter(|(_, found)| lives(found));
        living.map(|(key, (value, _))| (key, value)).collect()
    }
}

struct Story {
    home: StructureContext,
    hashed: HashedStructure,
    model: Model,
    random: fastrand::Rng,
    options: HashedOptions,
    now_ms: u64,
    snapshot: u64,
    steps: Vec<Box<dyn MaintenanceStep>>,
    /// Number of joins of hash stores that had been completed when the structure was last opened.
    joins: u64,
}

#[derive(Debug)]
struct List(MemtableList);

impl MemtableOwner for List {
    fn newest_first(&self) -> MemtableList {
        Arc::clone(&self.0)
    }
}

impl Story {
    fn of(options: HashedOptions, seed: u64) -> Story {
        Story::on(home(), options, seed)
    }

    fn on(home: StructureContext, options: HashedOptions, seed: u64) -> Story {
        Story {
            hashed: HashedStructure::create(home.clone(), options.clone(), 0).unwrap(),
            home,
            model: Model::default(),
            random: fastrand::Rng::with_seed(seed),
            options,
            now_ms: 10,
            snapshot: 0,
            steps: Vec::new(),
            joins: 0,
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.random.u32(..300);
        let mut key = format!("key {number:03}").into_bytes();
        if number % 50 == 7 {
            key.resize(5000, b'k');
        }
        key
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.random.u32(..20) {
            0 => self.random.usize(..3000),
            1 if self.random.u32(..20) == 0 => 70_000,
            _ => self.random.usize(..60),
        };
        vec![self.random.u8(..); len]
    }

    /// Inserts a random message into the memtable and appends it to the model.
    fn say(&mut self, memtable: &Memtable) -> bool {
        let at = self.model.said.len() as u64 + 1;
        let key = self.key();
        let said = match self.random.u32(..40) {
            0..25 => Said::Put(
                key,
                self.value(),
                if self.random.u32(..6) == 0 {
                    self.now_ms + 3
                } else {
                    0
                },
            ),
            25..32 => Said::Merge(key, vec![self.random.u8(..); 3]),
            32..39 => Said::Delete(key),
            _ => Said::DeleteRange(key.clone(), [&key[..6], b"9"].concat()),
        };
        let done = match &said {
            Said::Put(key, value, expires_ms) => {
                let put = Message {
                    expires_ms: *expires_ms,
                    ..Message::put(at, value)
                };
                memtable.insert(key, put)
            }
            Said::Merge(key, operand) => memtable.insert(key, Message::merge(at, operand)),
            Said::Delete(key) => memtable.insert(key, Message::delete(at)),
            Said::DeleteRange(start, end) => memtable.delete_range(start, end, at),
        };
        if done.is_ok() {
            self.model.said.push(said);
        }
        done.is_ok()
    }

    fn memtable(&mut self, messages: usize) -> Arc<Memtable> {
        let memtable = Memtable::new(4 << 20);
        (0..messages).all(|_| self.say(&memtable));
        Arc::new(memtable)
    }

    fn take(&mut self, memtable: Arc<Memtable>) {
        let cut = self.model.said.len() as u64;
        let mut taking = self
            .hashed
            .incorporate(MemtableSlice::whole(memtable, cut), AllocationClass::Normal)
            .unwrap();
        while taking.poll(self.random.usize(1..50)).unwrap() == StepProgress::More {}
        taking.publish().unwrap();
    }

    fn merge(&mut self, polls: usize) {
        for _ in 0..polls {
            if self.steps.is_empty() {
                self.steps.extend(self.hashed.next_step().unwrap());
            }
            let Some(step) = self.steps.last_mut() else { return };
            if step.poll(self.random.usize(1..80)).unwrap() == StepProgress::Done {
                self.steps.clear();
            }
        }
    }

    fn get(&self, key: &[u8], at: u64) -> Option<Vec<u8>> {
        let mut gather = LookupState::new(at, self.now_ms, Some(&AppendOperator));
        lookup::gather(&self.hashed.reader(), LookupKey::new(key), &mut gather).unwrap();
        gather.finish()
    }

    fn compare(&mut self) {
        let now = self.model.said.len() as u64;
        for at in [self.snapshot, now] {
            let expected = self.model.at(at, self.now_ms);
            for number in 0..310 {
                let mut key = format!("key {number:03}").into_bytes();
                if number % 50 == 7 && number < 300 {
                    key.resize(5000, b'k');
                }
                let found = self.get(&key, at);
                assert_eq!(found.as_ref(), expected.get(&key), "{number} at {at} of {now}");
            }
        }
        self.walk(&Arc::new(List(MemtableList::default())), now);
    }

    /// Checks that a scan returns every key once, in hash order, even if it is restarted along the
    /// way.
    fn walk(&mut self, memtables: &Arc<List>, at: u64) {
        let expected = self.model.at(at, self.now_ms);
        let memtables: Arc<dyn MemtableOwner> = memtables.clone();
        let begin = || {
            self.hashed
                .walk(Arc::clone(&memtables), KeyRange::everything(), at, self.now_ms)
        };
        let mut walk = begin();
        let (mut found, mut last) = (BTreeMap::new(), None);
        let mut count = 0;
        while let Some((key, value)) = walk.next().unwrap() {
            let (key, value) = (key.to_vec(), value.to_vec());
            let place = (self.hashed.hash_of(LookupKey::new(&key)), key.clone());
            assert!(
                last.as_ref().is_none_or(|last| *last < place),
                "keys ascend by hash"
            );
            last = Some(place);
            count += 1;
            if count % 37 == 0 {
                walk = begin();
                walk.seek(&key);
            }
            found.insert(key, value);
        }
        assert_eq!(found, expected);
        let low = b"key 1".to_vec();
        let mut part = self
            .hashed
            .walk(memtables, KeyRange::new(&low, Some(b"key 2")), at, self.now_ms);
        let mut keys = 0;
        while part.next().unwrap().is_some() {
            keys += 1;
        }
        assert_eq!(keys, expected.range(low..b"key 2".to_vec()).count());
    }

    fn check(&mut self) {
        let steps: Vec<&dyn MaintenanceStep> = self.steps.iter().map(|step| &**step).collect();
        let examined = self
            .hashed
            .check(CheckLevel::Everything, &steps, None, &mut |_| Ok(()))
            .unwrap();
        assert_eq!(examined.findings.into_sentences(), Vec::<String>::new());
        if steps.is_empty() {
            let reachable = examined.reachable.into_iter();
            assert_eq!(self.home.store.check(reachable).unwrap(), Vec::<String>::new());
        }
    }

    fn reopen(&mut self) {
        self.steps.clear();
        self.joins += self.hashed.shared.kept.lock().joins;
        let (root, at) = {
            let cut = self.hashed.checkpoint_root().unwrap();
            (cut.root.clone(), cut.at)
        };
        let files = DataFiles::of(&self.home.store);
        let found = check_files(files, &root, 0, &mut |_| Ok(())).unwrap();
        assert_eq!(found.into_sentences(), Vec::<String>::new());
        let live: u64 = reached(files, &root)
            .unwrap()
            .iter()
            .map(|reached| reached.live)
            .sum();
        assert!(live > 0 || self.model.said.is_empty() || self.hashed.hash_store_count() == 0);
        self.hashed = HashedStructure::open(self.home.clone(), &self.options, &root, at).unwrap();
    }
}

#[test]
fn a_structure_says_what_its_model_does_through_merges_snapshots_and_openings() {
    let rounds = std::env::var("ALLUVIUM_HASHED_ROUNDS").map_or(40, |rounds| rounds.parse().unwrap());
    let joining = [IndexKind::PaCHash, IndexKind::Trie].map(joining);
    for options in forms().into_iter().chain(joining) {
        says_what_its_model_does(Story::of(options, 11), rounds);
    }
}

fn says_what_its_model_does(mut story: Story, rounds: u64) {
    let options = story.options.clone();
    for round in 0..rounds {
        let messages = story.random.usize(1..250);
        let memtable = story.memtable(messages);
        if round % 5 == 0 {
            let base = story.hashed.cut();
            let entry = MemtableEntry {
                memtable: Arc::clone(&memtable),
                base,
            };
            let at = story.model.said.len() as u64;
            story.walk(&Arc::new(List(Arc::new(vec![entry]))), at);
        }
        story.take(memtable);
        let polls = story.random.usize(..40);
        story.merge(polls);
        let now = story.model.said.len() as u64;
        if round % 7 == 6 {
            story.snapshot = now;
        }
        if round % 3 == 0 {
            story.now_ms += 1;
            story.home.horizon.tick(story.now_ms);
        }
        let snapshot = story.snapshot;
        story.home.horizon.raise_past([snapshot], now);
        if round % 4 == 0 {
            story.compare();
            story.check();
        }
        if round % 9 == 8 {
            story.reopen();
            story.compare();
        }
        if round % 11 == 10 {
            story.hashed.compact_part(b"").unwrap();
        }
    }
    story.merge(100_000);
    story.compare();
    story.check();
    assert_eq!(story.hashed.shared.options, options);
    if options.form == HashedForm::Silt && options.least_young == options.most_young {
        let joins = story.joins + story.hashed.shared.kept.lock().joins;
        assert!(joins > 0, "hash stores were joined");
    }
}

#[test]
fn nothing_remains_of_what_was_deleted_once_all_is_merged() {
    for options in forms() {
        nothing_remains(Story::of(options, 3));
    }
}

fn nothing_remains(mut story: Story) {
    let memtable = story.memtable(400);
    story.take(memtable);
    let at = story.model.said.len() as u64 + 1;
    let deleting = Memtable::new(1 << 20);
    deleting.delete_range(b"key", b"kez", at).unwrap();
    story
        .model
        .said
        .push(Said::DeleteRange(b"key".to_vec(), b"kez".to_vec()));
    story.take(Arc::new(deleting));
    story.home.horizon.raise(at);
    story.hashed.compact_part(b"").unwrap();
    story.merge(100_000);
    story.compare();
    story.check();
    assert_eq!(story.hashed.hash_store_count(), 0);
    assert_eq!(story.hashed.sorted_records(), 0);
    let examined = story
        .hashed
        .check(CheckLevel::Trunk, &[], None, &mut |_| Ok(()))
        .unwrap();
    assert!(examined.reachable.is_empty(), "{:?}", examined.reachable);
}

/// Checks that the keys of an ingest's layers are returned in order, in both directions.
fn walks_of_layers(ingest: &dyn alluvium_dictionary::contract::BulkIngest) {
    for (direction, first) in [
        (MergeDirection::Forward, b"a0040"),
        (MergeDirection::Backward, b"a0079"),
    ] {
        let mut walk = ingest.walk(&KeyRange::new(b"a0040", Some(b"a0080")), direction);
        let (mut count, mut gather) = (0, LookupState::new(MAX_SEQUENCE, 0, Some(&AppendOperator)));
        while let Some(key) = walk.next(&mut gather).unwrap() {
            assert!(count > 0 || key == first);
            count += 1;
            gather.reset(MAX_SEQUENCE, 0, Some(&AppendOperator));
        }
        assert_eq!(count, 40);
        assert!(walk.is_deleted(b"a0055") && !walk.is_deleted(b"a0060"));
    }
}

/// Checks that the lookup of a key ends at a layer's range delete that covers it, with or without
/// newer operands.
fn ranges_decide_what_they_cover(ingest: &dyn alluvium_dictionary::contract::BulkIngest) {
    let is_decided = |key: &[u8]| {
        let mut gather = LookupState::new(MAX_SEQUENCE, 0, Some(&AppendOperator));
        ingest.gather(LookupKey::new(key), &mut gather).unwrap();
        gather.is_decided()
    };
    assert!(
        is_decided(b"a0050") && is_decided(b"a0056"),
        "nothing below counts"
    );
    assert!(!is_decided(b"c"), "the structure has the rest");
}

#[test]
fn layers_are_seen_before_and_after_they_are_attached() {
    for options in forms() {
        layers_are_seen(Story::of(options, 5));
    }
}

fn layers_are_seen(mut story: Story) {
    let mut ingest = story.hashed.ingest(AllocationClass::Normal).unwrap();
    for number in 0..200u32 {
        let key = format!("a{number:04}");
        ingest.push(key.as_bytes(), Message::put(0, b"old")).unwrap();
    }
    let again = ingest.push(b"a0001", Message::put(0, b""));
    assert!(again.is_err(), "out of order");
    ingest.end_layer().unwrap();
    ingest.delete_range(b"a0050", b"a0060");
    ingest.end_layer().unwrap();
    ingest.push(b"a0055", Message::put(0, b"new")).unwrap();
    ingest.push(b"a0056", Message::merge(0, b"+")).unwrap();
    ingest.push(b"a0070", Message::merge(0, b"+")).unwrap();
    ingest.end_layer().unwrap();
    ingest.push(b"b", Message::put(0, b"dropped")).unwrap();
    ingest.end_layer().unwrap();
    ingest.keep(3);
    assert_eq!((ingest.layers(), ingest.records()), (3, 203));
    let value = |key: &[u8]| {
        let mut gather = LookupState::new(MAX_SEQUENCE, 0, Some(&AppendOperator));
        ingest.gather(LookupKey::new(key), &mut gather).unwrap();
        gather.finish()
    };
    let expected: [(&[u8], Option<&[u8]>); 6] = [
        (b"a0049", Some(b"old")),
        (b"a0050", None),
        (b"a0055", Some(b"new")),
        (b"a0056", Some(b"+")),
        (b"a0070", Some(b"old+")),
        (b"b", None),
    ];
    for (key, expected) in expected {
        assert_eq!(value(key).as_deref(), expected);
    }
    ranges_decide_what_they_cover(&*ingest);
    walks_of_layers(&*ingest);
    ingest.attach(1).unwrap();
    assert_eq!(story.hashed.cut(), 3);
    for (key, expected) in expected {
        assert_eq!(story.get(key, 3).as_deref(), expected);
    }
    assert_eq!(
        story.get(b"a0050", 1).as_deref(),
        Some(&b"old"[..]),
        "before the delete"
    );
    assert_eq!(
        story.hashed.approximate_len(&KeyRange::everything()).unwrap(),
        203
    );
    let within = story
        .hashed
        .approximate_len(&KeyRange::new(b"a0050", Some(b"a0060")))
        .unwrap();
    assert!((5..20).contains(&within), "{within}");
    story.home.horizon.raise(3);
    story.hashed.compact_part(b"").unwrap();
    story.merge(100_000);
    assert_eq!(story.hashed.sorted_records(), 192);
    assert_eq!(story.get(b"a0055", 3).as_deref(), Some(&b"new"[..]));
    assert!(
        story
            .hashed
            .ingest(AllocationClass::Normal)
            .is_ok_and(|ingest| ingest.layers() == 0)
    );
    story.check();
}
