//! The miniature database: a log, memtables, and a hashed structure below them.

use super::ops::{decode, encode};
use super::story::{Flaw, trouble};
use alluvium_base::message::LAST;
use alluvium_base::{Message, Sequence};
use alluvium_dictionary::contract::{
    Dictionary as _, Incorporate, Lookup as _, Progress, Reader as _, Scan as _, Step,
};
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::home::Home;
use alluvium_dictionary::horizon::Horizon;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::lookup;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::{MemtableEntry, MemtableList, Memtables};
use alluvium_dictionary::merge::Append;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::{KeyspaceRules, OneKeyspace};
use alluvium_dictionary::share::Share;
use alluvium_hashes::hashed::{Hashed, HashedOptions};
use alluvium_sim::ops::Op;
use alluvium_sim::{Durability, Trouble, World};
use alluvium_storage::extents::{Class, ReclaimLimit};
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_storage::{Directories, Result, log};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Bytes of a memtable: far more than makes it full, since a log that is replayed fills one.
const ROOM: usize = 1 << 20;
/// Bytes of keys and values that make it full.
const FULL: u64 = 8 << 10;
/// Records of a slice when the caller waits for the end.
const ALL: usize = 100_000;

/// Memtables above the structure.
#[derive(Debug, Default)]
struct Stack(Mutex<MemtableList>);

impl Stack {
    /// These are the memtables from now on, newest first, each with what it lies above.
    fn set<'m>(&self, memtables: impl IntoIterator<Item = (&'m Arc<Memtable>, Sequence)>) {
        let entry = |(memtable, base): (&Arc<Memtable>, _)| MemtableEntry {
            memtable: Arc::clone(memtable),
            base,
        };
        *self.0.lock().unwrap() = Arc::new(memtables.into_iter().map(entry).collect());
    }
}

impl Memtables for Stack {
    fn newest_first(&self) -> MemtableList {
        Arc::clone(&self.0.lock().unwrap())
    }
}

pub(crate) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn word(durability: Durability) -> log::Durability {
    match durability {
        Durability::Memory => log::Durability::Memory,
        Durability::Process => log::Durability::Process,
        Durability::Disk => log::Durability::Disk,
    }
}

fn insert(memtable: &Memtable, op: &Op, at: Sequence) {
    match op {
        Op::Put { key, value } => memtable.insert(key, Message::put(at, value)),
        Op::Delete { key } => memtable.insert(key, Message::delete(at)),
        Op::Merge { key, operand } => memtable.insert(key, Message::merge(at, operand)),
        Op::DeleteRange { start, end } => memtable.delete_range(start, end, at),
    }
    .expect("a memtable has room for all of the log");
}

fn size(op: &Op) -> u64 {
    let (key, operand) = match op {
        Op::Put { key, value } => (key.len(), value.len()),
        Op::Delete { key } => (key.len(), 0),
        Op::Merge { key, operand } => (key.len(), operand.len()),
        Op::DeleteRange { start, end } => (start.len(), end.len()),
    };
    (key + operand) as u64
}

/// A memtable that takes no more writes.
pub(super) struct Sealed {
    memtable: Arc<Memtable>,
    base: Sequence,
    cut: Sequence,
    writing: Option<Box<dyn Incorporate>>,
}

/// A state that a slow reader reads, and what was there when it was taken.
struct Snapshot {
    at: Sequence,
    pairs: Pairs,
}

// What is under way goes before the structure, and the structure before the store.
pub(crate) struct Db {
    pub(super) steps: [Option<Box<dyn Step>>; 2],
    pub(super) sealed: Option<Sealed>,
    pub(super) hashed: Hashed,
    pub(super) home: Home,
    memtable: Arc<Memtable>,
    /// The memtable holds what was committed above this.
    base: Sequence,
    stack: Arc<Stack>,
    filled: u64,
    /// The sequence of the next write.
    pub(super) next: Sequence,
    /// The last sequence of each commit since the store was opened, and its number in the ledger.
    pub(super) commits: Vec<(Sequence, usize)>,
    snapshot: Option<Snapshot>,
    flaw: Flaw,
    /// Merges that had ended when it was last looked at.
    merges: u64,
}

fn home(store: Store) -> Home {
    Home {
        store: Arc::new(store),
        schema: Arc::new(OneKeyspace::new(KeyspaceRules {
            operator: Some(Arc::new(Append)),
            value_threshold: Some(200),
            ..KeyspaceRules::default()
        })),
        horizon: Arc::new(Horizon::default()),
    }
}

impl Db {
    pub(super) fn create(
        directories: Directories,
        options: &StoreOptions,
        hashed: HashedOptions,
        flaw: Flaw,
    ) -> Result<Db> {
        let home = home(Store::create(directories, options, b"")?);
        let hashed = Hashed::create(home.clone(), hashed, 0)?;
        Ok(Db::assemble(home, hashed, Memtable::new(ROOM), 0, 1, flaw))
    }

    /// Superblock, log from the cut, hashed.
    pub(super) fn open(
        directories: Directories,
        options: &StoreOptions,
        hashed: &HashedOptions,
        flaw: Flaw,
    ) -> Result<Db> {
        let opening = Store::open(directories, options)?;
        let cut = opening.superblock().cut;
        let memtable = Memtable::new(ROOM);
        let (mut last, mut filled) = (cut, 0);
        let store = opening.replay(&mut |record| {
            let is_skipped = flaw == Flaw::ReplaysOneLess && record.first == cut + 1;
            for (op, at) in decode(record.payload)?.iter().zip(record.first..) {
                let is_forgotten = flaw == Flaw::ForgetsDeletes && matches!(op, Op::Delete { .. });
                if at > cut && !is_skipped && !is_forgotten {
                    insert(&memtable, op, at);
                    filled += size(op);
                }
            }
            last = record.first + u64::from(record.count) - 1;
            Ok(())
        })?;
        let next = store.log().completed().max(last) + 1;
        let home = home(store);
        let saved = home.store.superblock();
        let hashed = match saved.payload.is_empty() {
            true => Hashed::create(home.clone(), hashed.clone(), 0)?,
            false => Hashed::open(home.clone(), hashed, &saved.payload, saved.cut)?,
        };
        Ok(Db::assemble(home, hashed, memtable, filled, next, flaw))
    }

    fn assemble(
        home: Home,
        hashed: Hashed,
        memtable: Memtable,
        filled: u64,
        next: Sequence,
        flaw: Flaw,
    ) -> Db {
        let db = Db {
            steps: [None, None],
            sealed: None,
            base: hashed.cut(),
            hashed,
            home,
            memtable: Arc::new(memtable),
            stack: Arc::default(),
            filled,
            next,
            commits: Vec::new(),
            snapshot: None,
            flaw,
            merges: 0,
        };
        db.restack();
        db
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        &self.home.store
    }

    /// The last sequence that was committed.
    pub(super) fn last(&self) -> Sequence {
        self.next - 1
    }

    pub(super) fn under_way(&self) -> Vec<&dyn Step> {
        self.steps.iter().flatten().map(|step| &**step).collect()
    }

    /// One commit: a record of the log, then the memtable.
    pub(super) fn commit(&mut self, ops: &[Op], durability: Durability) -> Result<()> {
        let durability = match self.flaw {
            Flaw::AcknowledgesEarly if durability == Durability::Disk => Durability::Process,
            _ => durability,
        };
        self.store().health()?;
        let first = self.next;
        let result = self
            .store()
            .log()
            .append(first, ops.len() as u32, &encode(ops), word(durability));
        self.store().judge(result)?;
        for (op, at) in ops.iter().zip(first..) {
            insert(&self.memtable, op, at);
            self.filled += size(op);
        }
        self.next = first + ops.len() as u64;
        Ok(())
    }

    fn restack(&self) {
        let sealed = self.sealed.iter().map(|sealed| (&sealed.memtable, sealed.base));
        self.stack
            .set(std::iter::once((&self.memtable, self.base)).chain(sealed));
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut gather = Gather::new(LAST, 0, Some(&Append));
        let list = self.stack.newest_first();
        let reader = self.hashed.reader();
        let key = Key::new(key);
        for entry in list.iter().filter(|entry| entry.base >= reader.cut()) {
            gather.memtable(&entry.memtable, key);
        }
        lookup::gather(&reader, key, &mut gather)?;
        Ok(gather.finish())
    }

    /// Everything within a range, by one walk; an error in words when it is out of order.
    pub(super) fn walk(&self, range: &KeyRange) -> Result<std::result::Result<Pairs, String>> {
        self.walk_at(range, self.last())
    }

    fn walk_at(&self, range: &KeyRange, at: Sequence) -> Result<std::result::Result<Pairs, String>> {
        let stack: Arc<dyn Memtables> = Arc::<Stack>::clone(&self.stack);
        let mut walk = self.hashed.walk(stack, range.clone(), at, 0);
        let (mut pairs, mut last) = (Pairs::new(), None);
        while let Some((key, value)) = walk.next()? {
            let place = Some((self.hashed.hash_of(Key::new(key)), key.to_vec()));
            if last >= place {
                return Ok(Err(format!("{} is out of order", key.escape_ascii())));
            }
            pairs.insert(key.to_vec(), value.to_vec());
            last = place;
        }
        Ok(Ok(pairs))
    }

    /// Before a commit: a memtable that is full is sealed.
    pub(super) fn make_room(&mut self, world: &World) -> Result<()> {
        if self.filled < FULL {
            return Ok(());
        }
        self.seal(world)
    }

    fn seal(&mut self, world: &World) -> Result<()> {
        if self.flaw == Flaw::DropsTheMemtable {
            self.sealed = None;
        }
        while self.sealed.is_some() {
            self.poll_incorporation(ALL, world)?;
        }
        let cut = self.last();
        if cut > self.hashed.cut() {
            let fresh = Arc::new(Memtable::new(self.memtable.limit()));
            self.sealed = Some(Sealed {
                memtable: std::mem::replace(&mut self.memtable, fresh),
                base: std::mem::replace(&mut self.base, cut),
                cut,
                writing: None,
            });
            self.filled = 0;
        }
        self.restack();
        Ok(())
    }

    fn raise_horizon(&self) {
        let snapshot = self.snapshot.as_ref().map(|snapshot| snapshot.at);
        self.home.horizon.raise_past(snapshot, self.last());
    }

    fn poll_incorporation(&mut self, records: usize, world: &World) -> Result<()> {
        self.raise_horizon();
        world.ledger.amid(Some("crash in an incorporation"));
        let Some(sealed) = &mut self.sealed else {
            return Ok(());
        };
        let writing = match &mut sealed.writing {
            Some(writing) => writing,
            none => {
                let cut = match self.flaw {
                    Flaw::CutsTooHigh => sealed.cut + 1,
                    Flaw::CutsTooLow => sealed.cut - 1,
                    _ => sealed.cut,
                };
                let share = Share::whole(Arc::clone(&sealed.memtable), cut);
                none.insert(self.hashed.incorporate(share, Class::Normal)?)
            }
        };
        let result = writing.poll(records).and_then(|progress| match progress {
            Progress::More => Ok(false),
            Progress::Done => writing.publish().map(|()| true),
        });
        match result {
            Ok(true) => self.sealed = None,
            Ok(false) => {}
            Err(error) => {
                sealed.writing = None;
                return Err(error);
            }
        }
        world
            .coverage
            .add("incorporation", u64::from(self.sealed.is_none()));
        Ok(())
    }

    /// A slice of one of two merges.
    fn poll_step(&mut self, which: usize, records: usize, world: &World) -> Result<()> {
        self.raise_horizon();
        world.ledger.amid(Some("crash in a merge"));
        if self.steps[which].is_none() {
            self.steps[which] = self.hashed.next_step()?;
        }
        let Some(step) = &mut self.steps[which] else {
            return Ok(());
        };
        match step.poll(records) {
            Ok(Progress::More) => {}
            Ok(Progress::Done) => {
                self.steps[which] = None;
                world.coverage.hit("merge");
            }
            Err(error) => {
                self.steps[which] = None;
                return Err(error);
            }
        }
        if self.flaw == Flaw::ReusesEarly && self.steps[which].is_none() {
            let building = self.store().begin_checkpoint()?.generation();
            self.store().extents().made_durable(building);
            for _ in 0..3 {
                self.store().reclaim(ReclaimLimit::default())?;
            }
        }
        Ok(())
    }

    /// Makes a generation durable. When `sealing`, it holds every commit, and `covered` says the
    /// number of the newest.
    pub(super) fn checkpoint(&mut self, sealing: bool, covered: usize, world: &World) -> Result<()> {
        if sealing {
            self.seal(world)?;
            while self.sealed.is_some() {
                self.poll_incorporation(ALL, world)?;
            }
        }
        let at = self.hashed.cut();
        if self.flaw == Flaw::ReleasesTheLogFirst {
            self.store().log().release(at)?;
        }
        world.ledger.amid(Some("crash in a checkpoint"));
        let store = Arc::clone(&self.home.store);
        self.hashed.prepare()?;
        let cut = self.hashed.stand()?;
        let begun = store.begin_checkpoint()?;
        let (root, at) = (cut.root.clone(), cut.at);
        drop(cut);
        begun.finish(&root, at)?;
        world.coverage.hit("checkpoint");
        if sealing {
            world.ledger.cover(covered);
        } else if let Some((_, number)) = self.commits.iter().rfind(|(last, _)| *last <= at) {
            world.ledger.cover(*number);
        }
        Ok(())
    }

    pub(super) fn background(&mut self, choice: u32, world: &World) -> std::result::Result<(), Trouble> {
        let records = 1 + (choice >> 8) as usize % 160;
        match choice % 24 {
            0..10 => self.poll_step((choice >> 6) as usize % 2, records, world),
            10..14 => self.poll_incorporation(records, world),
            14..17 => self
                .store()
                .reclaim(ReclaimLimit {
                    extents: 64,
                    operations: 2,
                })
                .map(|reclaimed| {
                    let freed = u64::from(reclaimed.freed_bytes > 0);
                    world.coverage.add("extents freed", freed);
                }),
            17 => {
                let result = self.store().log().prepare();
                self.store().judge(result).map(|_| ())
            }
            18 => {
                self.steps[(choice >> 6) as usize % 2] = None;
                Ok(())
            }
            19 => self.hashed.compact_part(b""),
            20 => self.checkpoint(false, world.ledger.newest(), world),
            21 => (0..30).try_for_each(|turn| self.poll_step(turn % 2, ALL, world)),
            _ => return self.toggle_snapshot(world),
        }
        .map_err(trouble)
    }

    /// Begins or ends a read of the present state: it must find the state unchanged.
    fn toggle_snapshot(&mut self, world: &World) -> std::result::Result<(), Trouble> {
        let all = KeyRange::everything();
        let Some(snapshot) = self.snapshot.take() else {
            let pairs = self.walk(&all).map_err(trouble)?;
            self.snapshot = Some(Snapshot {
                at: self.last(),
                pairs: pairs.map_err(Trouble::wrong)?,
            });
            return Ok(());
        };
        let read = self.walk_at(&all, snapshot.at);
        let read = read.map_err(trouble)?.map_err(Trouble::wrong)?;
        if read == snapshot.pairs {
            world.coverage.hit("snapshot read to its end");
            return Ok(());
        }
        Err(Trouble::wrong(
            "a snapshot reads otherwise than when it was taken",
        ))
    }

    /// After an action: counts what merges have made, and says what is still under way.
    pub(super) fn count(&mut self, world: &World) {
        let is_merging = self.steps.iter().any(Option::is_some);
        world
            .ledger
            .amid(is_merging.then_some("crash between slices of a merge"));
        let stats = self.hashed.stats();
        let is_new = stats.merges > self.merges;
        self.merges = stats.merges;
        world
            .coverage
            .add("filter", u64::from(is_new && stats.filter_bytes > 0));
        world
            .coverage
            .add("second level", u64::from(is_new && stats.levels > 1));
        if is_new {
            let usage = self.store().extents().usage();
            let is_used = usage.tiers.get(1).is_some_and(|tier| tier.live_bytes > 0);
            world
                .coverage
                .add("written to the second tier", u64::from(is_used));
        }
    }
}
