//! Panics at every step of a device, a merge operator or a compaction filter. Afterwards the store
//! refuses changes and reports why. When reopened, it has all acknowledged writes.

use alluvium::simulation::{DirectoryOpener as _, StoreScale};
use alluvium::{
    BadOperand, CompactionFilter, Compression, Db, FilterCandidate, FilterVerdict, KeyspaceOptions,
    MergeOperator,
};
use alluvium::{Error, Keyspace, Options};
use alluvium_device::forward::{ForwardDevice, ForwardDirectory};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{Device, Directory, FileMapping, FileOptions, IoBatch, Result, Ticket};
use alluvium_sim::environment::effort;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Once};

/// Steps of a story.
const STEPS: usize = 600;

/// Message of every panic that these tests inject.
const TEXT: &str = "injected by a test";

/// Counts calls, and panics at one of them.
#[derive(Clone, Debug)]
struct Fuse {
    left: Arc<AtomicI64>,
}

impl Fuse {
    /// Returns a fuse that panics at call `at`, counted from zero, or never if `at` is negative.
    fn new(at: i64) -> Fuse {
        Fuse {
            left: Arc::new(AtomicI64::new(if at < 0 { i64::MAX } else { at })),
        }
    }

    fn call(&self) {
        assert!(self.left.fetch_sub(1, Ordering::Relaxed) != 0, "{TEXT}");
    }

    fn has_blown(&self) -> bool {
        self.left.load(Ordering::Relaxed) < 0
    }

    /// Returns how often a fuse that never panics was called.
    fn calls(&self) -> i64 {
        i64::MAX - self.left.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Fused {
    inner: Arc<MemoryDirectory>,
    fuse: Fuse,
}

#[derive(Debug)]
struct FusedFile {
    inner: Arc<dyn Device>,
    fuse: Fuse,
}

impl ForwardDirectory for Fused {
    fn inner(&self) -> &dyn Directory {
        &*self.inner
    }

    fn wrap(&self, inner: Arc<dyn Device>, _options: FileOptions) -> Arc<dyn Device> {
        let fuse = self.fuse.clone();
        Arc::new(FusedFile { inner, fuse })
    }

    fn create(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>> {
        self.fuse.call();
        Ok(self.wrap(self.inner.create(name, options)?, options))
    }

    fn open(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>> {
        self.fuse.call();
        Ok(self.wrap(self.inner.open(name, options)?, options))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.fuse.call();
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.fuse.call();
        self.inner.remove(name)
    }

    fn sync(&self) -> Result<()> {
        self.fuse.call();
        self.inner.sync()
    }
}

impl ForwardDevice for FusedFile {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn submit(&self, batch: IoBatch) -> Ticket {
        self.fuse.call();
        self.inner.submit(batch)
    }

    fn grow(&self, len: u64) -> Result<()> {
        self.fuse.call();
        self.inner.grow(len)
    }

    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.fuse.call();
        self.inner.allocate(range)
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.fuse.call();
        self.inner.truncate(len)
    }

    fn punch_hole(&self, range: Range<u64>) -> Result<()> {
        self.fuse.call();
        self.inner.punch_hole(range)
    }

    fn map(&self, range: Range<u64>) -> Result<FileMapping> {
        self.fuse.call();
        self.inner.map(range)
    }
}

/// A merge operator that appends, as a user might write it.
#[derive(Debug)]
struct Appends(Fuse);

impl MergeOperator for Appends {
    fn name(&self) -> &'static str {
        "appends"
    }

    fn check(&self, _operand: &[u8]) -> std::result::Result<(), BadOperand> {
        Ok(())
    }

    fn fold(&self, older: &mut Vec<u8>, newer: &[u8]) {
        self.0.call();
        older.extend_from_slice(newer);
    }
}

/// A compaction filter that keeps everything, as a user might write it.
#[derive(Debug)]
struct Keeps(Fuse);

impl CompactionFilter for Keeps {
    fn decide(&self, _candidate: &FilterCandidate<'_>) -> FilterVerdict {
        self.0.call();
        FilterVerdict::Keep
    }
}

/// One fuse for each component that may panic.
struct Fuses {
    device: Fuse,
    operator: Fuse,
    filter: Fuse,
}

impl Fuses {
    fn new(which: usize, at: i64) -> Fuses {
        let fuse = |number| Fuse::new(if number == which { at } else { -1 });
        Fuses {
            device: fuse(0),
            operator: fuse(1),
            filter: fuse(2),
        }
    }

    fn each(&self) -> [&Fuse; 3] {
        [&self.device, &self.operator, &self.filter]
    }

    fn has_blown(&self) -> bool {
        self.each().iter().any(|fuse| fuse.has_blown())
    }
}

fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload_as_str().unwrap_or_default();
            if !text.contains(TEXT) {
                before(info);
            }
        }));
    });
}

fn options(fuses: &Fuses, workers: usize) -> Options {
    let scale = StoreScale::small(0xa11, 6 << 10, 96 << 10);
    Options::new()
        .simulated(scale, || 1000)
        .workers(workers)
        .register_merge_operator(Arc::new(Appends(fuses.operator.clone())))
        .register_compaction_filter("keeps", Arc::new(Keeps(fuses.filter.clone())))
}

fn spaces(db: &Db) -> std::result::Result<[Keyspace; 2], Error> {
    let merged = KeyspaceOptions::new()
        .merge_operator("appends")
        .compression(Compression::Lz4);
    let filtered = KeyspaceOptions::new().compaction_filter("keeps");
    Ok([
        db.keyspace_with("merged", &merged)?,
        db.keyspace_with("filtered", &filtered)?,
    ])
}

type Model = [BTreeMap<Vec<u8>, Vec<u8>>; 2];

#[derive(Clone, Debug)]
enum Step {
    Put(usize, Vec<u8>, Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
    Delete(usize, Vec<u8>),
    DeleteRange(usize, Vec<u8>, Vec<u8>),
    Checkpoint,
    Compact,
}

impl Step {
    fn random(random: &mut fastrand::Rng) -> Step {
        let space = random.usize(..2);
        let key = |random: &mut fastrand::Rng| format!("{:03}", random.u32(..120)).into_bytes();
        let value = vec![random.u8(..); random.usize(..600)];
        match random.u8(..100) {
            0..50 => Step::Put(space, key(random), value),
            50..75 => {
                // Use few keys, so that several operands apply to the same key.
                let key = format!("{:03}", random.u32(..8)).into_bytes();
                Step::Merge(key, value[..value.len() / 8].to_vec())
            }
            75..85 => Step::Delete(space, key(random)),
            85..97 => {
                let (one, other) = (key(random), key(random));
                Step::DeleteRange(space, one.clone().min(other.clone()), one.max(other))
            }
            97..99 => Step::Checkpoint,
            _ => Step::Compact,
        }
    }

    fn apply(&self, model: &mut Model) {
        match self {
            Step::Put(space, key, value) => {
                model[*space].insert(key.clone(), value.clone());
            }
            Step::Merge(key, operand) => {
                let value = model[0].entry(key.clone()).or_default();
                value.extend_from_slice(operand);
            }
            Step::Delete(space, key) => {
                model[*space].remove(key);
            }
            Step::DeleteRange(space, start, end) => {
                model[*space].retain(|key, _| key < start || key >= end);
            }
            Step::Checkpoint | Step::Compact => {}
        }
    }

    fn run(&self, db: &Db, spaces: &[Keyspace; 2]) -> std::result::Result<(), Error> {
        match self {
            Step::Put(space, key, value) => spaces[*space].put(key, value),
            Step::Merge(key, operand) => spaces[0].merge(key, operand),
            Step::Delete(space, key) => spaces[*space].delete(key),
            Step::DeleteRange(space, start, end) => spaces[*space].delete_range(start, Some(end)),
            Step::Checkpoint => db.checkpoint(),
            Step::Compact => db.compact(),
        }
    }
}

/// Runs a function. Returns `None` if it panics.
fn survive<T>(run: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(run)).ok()
}

fn contents(spaces: &[Keyspace; 2]) -> Model {
    std::array::from_fn(|space| {
        let all = spaces[space].iter();
        all.map(|pair| pair.map(|(key, value)| (key, value.to_vec())).unwrap())
            .collect()
    })
}

/// Writes to a store until something panics or the story ends, and reopens the store. Returns the
/// fuses, with their call counts.
fn story(seed: u64, steps: usize, workers: usize, which: usize, at: i64) -> Fuses {
    silence();
    let name = format!("seed {seed}, {workers} workers, fuse {which} at {at}");
    let fuses = Fuses::new(which, at);
    let inner = Arc::new(MemoryDirectory::new());
    let directory = Arc::new(Fused {
        inner: Arc::clone(&inner),
        fuse: fuses.device.clone(),
    });
    let mut models = vec![Model::default()];
    let options_of = |fuses: &Fuses| options(fuses, workers);
    let opened = survive(|| {
        let db = options_of(&fuses).open_in(directory.clone())?;
        let spaces = spaces(&db)?;
        Ok::<_, Error>((db, spaces))
    });
    if let Some(Ok((db, spaces))) = opened {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut failed = false;
        for _ in 0..steps {
            let step = Step::random(&mut random);
            let model = models[0].clone();
            match survive(|| step.run(&db, &spaces)) {
                Some(Ok(())) => step.apply(&mut models[0]),
                Some(Err(error)) => {
                    let text = error.to_string();
                    assert!(
                        fuses.has_blown() && text.contains("panicked"),
                        "{name}: {step:?}: {text}"
                    );
                    failed = true;
                }
                None => failed = true,
            }
            if failed {
                assert!(fuses.has_blown(), "{name}");
                // The write may or may not be in the log.
                models = vec![model.clone(), model];
                step.apply(&mut models[1]);
                break;
            }
        }
        if failed {
            after_failure(&name, &fuses, &db, &spaces, &models, which == 1);
        }
        drop(spaces);
        let closed = survive(|| db.close());
        assert!(
            fuses.has_blown() || matches!(closed, Some(Ok(()))),
            "{name}: {closed:?}"
        );
    }
    let calm = Fuses::new(0, -1);
    let db = options_of(&calm)
        .open_in(inner)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let spaces = spaces(&db).unwrap();
    let found = contents(&spaces);
    assert!(
        models.contains(&found),
        "{name}: {} keys are there",
        found[0].len() + found[1].len()
    );
    assert_eq!(db.check().unwrap(), Vec::<String>::new(), "{name}");
    db.close().unwrap();
    fuses
}

/// Checks that writes are refused with the reason. Reads may return correct data, an error, or the
/// operator's panic. Closing fails.
fn after_failure(
    name: &str,
    fuses: &Fuses,
    db: &Db,
    spaces: &[Keyspace; 2],
    models: &[Model],
    reads_may_panic: bool,
) {
    // A read that panics on the caller's thread does not affect the store.
    let refused = survive(|| spaces[1].put("new", "value")).expect("a refusal is no panic");
    let error = refused.expect_err(name).to_string();
    assert!(error.contains("panicked"), "{name}: {error}");
    assert!(db.checkpoint().is_err(), "{name}");
    for key in (0..120).map(|key| format!("{key:03}")) {
        for space in 0..2 {
            match survive(|| spaces[space].get(&key)) {
                Some(Ok(value)) => {
                    let value = value.as_deref();
                    let may_be =
                        |model: &Model| model[space].get(key.as_bytes()).map(|value| &value[..]) == value;
                    assert!(models.iter().any(may_be), "{name}: {key}");
                }
                Some(Err(_)) => {}
                None => assert!(reads_may_panic, "{name}: a read panicked"),
            }
        }
    }
    assert!(fuses.has_blown());
}

/// Number of stories with a panic for each component that may panic. The gate runs an eighth of
/// them.
const RUNS: i64 = 700;

/// Runs up to about `RUNS` stories over several seeds, with a panic of one kind at every call.
fn tell(which: usize, least_calls: i64) {
    let (mut told, runs) = (0, effort(RUNS / 8, RUNS));
    for seed in 0.. {
        let calls = story(seed, STEPS, 0, which, -1).each()[which].calls();
        assert!(calls >= least_calls, "fuse {which}: {calls} calls");
        // Spend at least half of the runs on each of two seeds.
        let step = (2 * calls / runs).max(1);
        for at in (0..calls).step_by(step as usize) {
            let fuses = story(seed, STEPS, 0, which, at);
            assert!(
                fuses.has_blown(),
                "seed {seed}, fuse {which}: call {at} of {calls}"
            );
            told += 1;
        }
        if told >= runs {
            return;
        }
    }
}

#[test]
fn a_panic_of_the_device_at_any_call_loses_nothing_and_is_told() {
    tell(0, 200);
}

#[test]
fn a_panic_of_a_merge_operator_at_any_call_loses_nothing_and_is_told() {
    tell(1, 10);
}

#[test]
fn a_panic_of_a_compaction_filter_at_any_call_loses_nothing_and_is_told() {
    tell(2, 10);
}

#[test]
fn a_panic_in_a_thread_of_the_background_loses_nothing_and_is_told() {
    for which in 0..3 {
        for at in 0..12 {
            story(at as u64, STEPS, 2, which, 5 + at * 17);
        }
    }
}

#[test]
fn a_panic_of_an_operator_in_a_read_does_nothing_to_the_store() {
    silence();
    let fuses = Fuses::new(1, 1);
    let db = options(&fuses, 0)
        .open_in(Arc::new(MemoryDirectory::new()))
        .unwrap();
    let spaces = spaces(&db).unwrap();
    for operand in ["a", "b", "c"] {
        spaces[0].merge("key", operand).unwrap();
    }
    let mut panics = 0;
    for _ in 0..4 {
        panics += u32::from(survive(|| spaces[0].get("key").unwrap()).is_none());
    }
    assert_eq!(panics, 1);
    assert_eq!(spaces[0].get("key").unwrap().unwrap(), b"abc");
    // A reader may have left the fold of the operands, but not of those that come later.
    spaces[0].merge("key", "d").unwrap();
    fuses.operator.left.store(0, Ordering::Relaxed);
    let changed = survive(|| spaces[0].compare_and_set("key", Some(&b"abcd"[..]), Some(&b"new"[..])));
    assert!(changed.is_none(), "the condition is asked of the operator");
    assert!(
        spaces[0]
            .compare_and_set("key", Some(&b"abcd"[..]), Some(&b"new"[..]))
            .unwrap()
    );
    db.checkpoint().unwrap();
    assert_eq!(spaces[0].get("key").unwrap().unwrap(), b"new");
    drop(spaces);
    db.close().unwrap();
}
