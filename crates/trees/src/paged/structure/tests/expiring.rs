//! Tests of values that expire and that merge operands apply to, by comparison with a model that
//! has a clock. They cover memtables, range deletes, snapshots, checkpoints, rewrites, and
//! processes that die.

use super::*;
use alluvium_dictionary::merge::{AddOperator, MergeOperator};

/// A key's state in the model: a value, which may expire, and the merge operands above it, combined
/// into one.
#[derive(Clone, Debug, Default)]
struct Known {
    base: Option<(Vec<u8>, u64)>,
    operands: Option<Vec<u8>>,
}

/// The expected result of a read: a value, no value, or an error because the operator rejects the
/// value.
type Answer = std::result::Result<Option<Vec<u8>>, ()>;

impl Known {
    fn answer(&self, operator: &dyn MergeOperator, now_ms: u64) -> Answer {
        let is_alive = |(_, expires_ms): &&(Vec<u8>, u64)| *expires_ms == 0 || *expires_ms > now_ms;
        match (self.base.as_ref().filter(is_alive), &self.operands) {
            (None, operands) => Ok(operands.clone()),
            (Some((base, _)), None) => Ok(Some(base.clone())),
            (Some((base, _)), Some(operands)) => {
                operator.check_base(base).map_err(|_| ())?;
                let mut value = base.clone();
                operator.fold(&mut value, operands);
                Ok(Some(value))
            }
        }
    }
}

type Keys = BTreeMap<Vec<u8>, Known>;

struct Clocked {
    rng: fastrand::Rng,
    operator: Arc<dyn MergeOperator>,
    sequence: SequenceNumber,
    now_ms: u64,
    keys: Keys,
    snapshots: BTreeMap<SequenceNumber, Keys>,
    /// The memtables since the last checkpoint.
    since: Vec<(Arc<Memtable>, SequenceNumber)>,
}

impl Clocked {
    fn key(&mut self) -> Vec<u8> {
        format!("{:02}", self.rng.usize(..24)).into_bytes()
    }

    fn home(&self, store: Store) -> StructureContext {
        let rules = KeyspaceRules {
            operator: Some(Arc::clone(&self.operator)),
            ..KeyspaceRules::default()
        };
        StructureContext {
            store: Arc::new(store),
            schema: Arc::new(OneKeyspace::new(rules)),
            horizon: Arc::new(GcHorizon::default()),
        }
    }

    fn commit(&mut self, memtable: &Memtable) {
        self.sequence += 1;
        self.now_ms += self.rng.u64(..3);
        let (key, sequence) = (self.key(), self.sequence);
        match self.rng.u8(..16) {
            0 => {
                let end = self.key();
                memtable.delete_range(&key, &end, sequence).unwrap();
                if key < end {
                    self.keys.retain(|own, _| *own < key || *own >= end);
                }
            }
            1 => {
                memtable.insert(&key, Message::delete(sequence)).unwrap();
                self.keys.remove(&key);
            }
            2..=8 => {
                let operand = self.rng.i64(-9..9).to_le_bytes();
                memtable.insert(&key, Message::merge(sequence, &operand)).unwrap();
                let known = self.keys.entry(key).or_default();
                match &mut known.operands {
                    None => known.operands = Some(operand.to_vec()),
                    Some(operands) => self.operator.fold(operands, &operand),
                }
            }
            kind => {
                let expires_ms = match kind {
                    9..=13 => self.now_ms + self.rng.u64(1..200),
                    _ => 0,
                };
                let len = [8, 8, 8, 3, 2500][self.rng.usize(..5)];
                let value = vec![self.rng.u8(..); len];
                let put = Message {
                    expires_ms,
                    ..Message::put(sequence, &value)
                };
                memtable.insert(&key, put).unwrap();
                let known = Known {
                    base: Some((value, expires_ms)),
                    operands: None,
                };
                self.keys.insert(key, known);
            }
        }
    }

    /// Opens or closes a snapshot at random, advances the clock of compactions, and raises the
    /// horizon.
    fn raise(&mut self, horizon: &GcHorizon) {
        match self.rng.u8(..4) {
            0 => {
                self.snapshots.insert(self.sequence, self.keys.clone());
            }
            1 => {
                let at = self.rng.usize(..self.snapshots.len().max(1));
                let at = self.snapshots.keys().nth(at).copied();
                at.and_then(|at| self.snapshots.remove(&at));
            }
            _ => {}
        }
        if self.rng.bool() {
            horizon.tick(self.now_ms);
        }
        horizon.raise_past(self.snapshots.keys().copied(), self.sequence);
    }

    fn require(&self, paged: &PagedDictionary, seed: u64) {
        let now = (MAX_SEQUENCE, &self.keys);
        let all = self.snapshots.iter().map(|(at, keys)| (*at, keys)).chain([now]);
        for (at, keys) in all {
            let mut refused = false;
            let mut wanted = Vec::new();
            for number in 0..24 {
                let key = format!("{number:02}").into_bytes();
                let mut gather = LookupState::new(at, self.now_ms, Some(&*self.operator));
                lookup::gather(&paged.reader(), LookupKey::new(&key), &mut gather).unwrap();
                let found = gather.answer(&key).map_err(|_| ());
                let known = keys.get(&key).cloned().unwrap_or_default();
                let answer = known.answer(&*self.operator, self.now_ms);
                assert_eq!(found, answer, "seed {seed}, key {number:02} at {at}");
                refused |= answer.is_err();
                wanted.extend(answer.ok().flatten().map(|value| (key, value)));
            }
            if refused {
                continue;
            }
            let everything = KeyRange::everything();
            let mut scan = paged.scan(
                no_memtables(),
                everything,
                MergeDirection::Backward,
                at,
                self.now_ms,
            );
            while let Some((key, value)) = scan.next().unwrap() {
                let last = wanted.pop();
                assert_eq!(last, Some((key.to_vec(), value.to_vec())), "seed {seed} at {at}");
            }
            assert!(wanted.is_empty(), "seed {seed} at {at}: {wanted:?}");
        }
    }

    fn apply(&self, paged: &PagedDictionary, memtable: &Arc<Memtable>, cut: SequenceNumber) {
        let share = MemtableSlice::whole(Arc::clone(memtable), cut);
        let mut taking = paged.incorporate(share, AllocationClass::Normal).unwrap();
        assert_eq!(taking.poll(100).unwrap(), StepProgress::Done);
        taking.publish().unwrap();
    }

    /// Opens the last checkpoint, and writes the newer memtables into the pages again.
    fn reopen(&self, directory: Arc<dyn Directory>, kind: Sort) -> PagedDictionary {
        let opening = Store::open(directory, &store_options()).unwrap();
        let home = self.home(opening.replay(&mut |_| Ok(())).unwrap());
        let superblock = home.store.superblock();
        let paged = PagedDictionary::open(home, &options(kind), &superblock.payload, superblock.cut).unwrap();
        let horizon = &paged.shared.home.horizon;
        horizon.raise_past(self.snapshots.keys().copied(), self.sequence);
        for (memtable, cut) in self.since.iter().filter(|(_, cut)| *cut > paged.cut()) {
            self.apply(&paged, memtable, *cut);
        }
        paged
    }
}

/// Runs rewrites until none is due.
fn work(paged: &PagedDictionary) {
    paged.compact_part(b"").unwrap();
    let mut steps = 0;
    while let Some(mut step) = paged.next_step().unwrap() {
        while step.poll(40).unwrap() == StepProgress::More {}
        steps += 1;
    }
    assert!((1..4).contains(&steps), "{steps} rewrites");
}

fn history(kind: Sort, operator: Arc<dyn MergeOperator>, seed: u64) {
    let mut world = Clocked {
        rng: fastrand::Rng::with_seed(seed),
        operator,
        sequence: 0,
        now_ms: 1000,
        keys: Keys::new(),
        snapshots: BTreeMap::new(),
        since: Vec::new(),
    };
    let directory = Arc::new(MemoryDirectory::new());
    let store = Store::create(directory.clone(), &store_options(), b"").unwrap();
    let mut paged = PagedDictionary::create(world.home(store), options(kind), 0).unwrap();
    checkpoint(&paged);
    for _ in 0..60 {
        let memtable = Memtable::new(1 << 20);
        for _ in 0..world.rng.usize(1..20) {
            world.commit(&memtable);
        }
        let memtable = Arc::new(memtable);
        world.since.push((Arc::clone(&memtable), world.sequence));
        world.raise(&paged.shared.home.horizon);
        world.apply(&paged, &memtable, world.sequence);
        world.require(&paged, seed);
        match world.rng.u8(..8) {
            0 => work(&paged),
            1 | 2 => {
                checkpoint(&paged);
                world.since.clear();
            }
            3 => {
                drop(paged);
                paged = world.reopen(directory.clone(), kind);
            }
            _ => continue,
        }
        world.require(&paged, seed);
    }
    sound(&paged);
}

#[test]
fn values_that_expire_under_merges_are_read_by_everybody_as_they_were_written() {
    for (number, kind) in KINDS.into_iter().cycle().take(18).enumerate() {
        let operator: Arc<dyn MergeOperator> = match number / 3 % 2 {
            0 => Arc::new(AppendOperator),
            _ => Arc::new(AddOperator),
        };
        history(kind, operator, 100 + number as u64);
    }
}

#[test]
fn a_value_under_a_merge_of_the_same_number_is_read_and_written_with_one_of_its_own() {
    for kind in KINDS {
        let paged =
            PagedDictionary::create(home(Arc::new(MemoryDirectory::new())), options(kind), 0).unwrap();
        paged.raise(9);
        // Write a value in the format of earlier versions of the software.
        let left = b"\x00\x09\x02\x00\x01x\x09\x00\xd0\x0f\x01v";
        paged.shared.tree.write(b"a", Some(left)).unwrap();
        sound(&paged);
        let read = |now_ms| {
            let mut gather = LookupState::new(MAX_SEQUENCE, now_ms, Some(&AppendOperator));
            lookup::gather(&paged.reader(), LookupKey::new(b"a"), &mut gather).unwrap();
            gather.finish()
        };
        assert_eq!(read(0).as_deref(), Some(&b"vx"[..]));
        assert_eq!(read(2000).as_deref(), Some(&b"x"[..]));
        let memtable = Memtable::new(1 << 20);
        memtable.insert(b"a", Message::merge(10, b"y")).unwrap();
        paged.shared.home.horizon.raise(10);
        let share = MemtableSlice::whole(Arc::new(memtable), 10);
        let mut taking = paged.incorporate(share, AllocationClass::Normal).unwrap();
        taking.poll(1).unwrap();
        taking.publish().unwrap();
        work(&paged);
        sound(&paged);
        assert_eq!(read(0).as_deref(), Some(&b"vxy"[..]));
        assert_eq!(read(2000).as_deref(), Some(&b"xy"[..]));
    }
}
