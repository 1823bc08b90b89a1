//! Tests of the structure by comparison with a model of every version, including checkpoints,
//! crashes and full disks.

mod expiring;
mod stands;
mod versions;

use super::*;
use alluvium_base::Message;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use alluvium_dictionary::check_report::CheckLevel;
use alluvium_dictionary::contract::{
    Dictionary, DictionaryScan as _, OrderedDictionary, PointLookup, StepProgress,
};
use alluvium_dictionary::horizon::GcHorizon;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::memtables::{MemtableEntry, MemtableList, MemtableOwner};
use alluvium_dictionary::merge::{AppendOperator, MergeDirection};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::{KeyspaceRules, OneKeyspace};
use alluvium_sim::environment::{number, points};
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::log::LogOptions;
use alluvium_storage::store::{Store, StoreOptions};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use versions::rewrite;

/// The kind of tree, what it does with under-full nodes, and how its nodes divide their space.
type Sort = (TreeKind, UnderfullPolicy, EpsilonMode);

const BEPS: Sort = (TreeKind::Beps, UnderfullPolicy::Never, EpsilonMode::Fixed);
const KINDS: [Sort; 3] = [
    BEPS,
    (TreeKind::Bplus, UnderfullPolicy::UnderFull, EpsilonMode::Fixed),
    (TreeKind::Beps, UnderfullPolicy::UnderFull, EpsilonMode::Adaptive),
];

fn options((kind, merging, epsilon): Sort) -> PagedOptions {
    PagedOptions {
        kind,
        merging,
        epsilon,
        node_bytes: 1024,
        epsilon_percent: 50,
        key_bytes: 16,
        value_bytes: 40,
        buffer_bytes: 24 << 10,
    }
}

fn home_of(store: Store) -> StructureContext {
    let rules = KeyspaceRules {
        operator: Some(Arc::new(AppendOperator)),
        ..KeyspaceRules::default()
    };
    StructureContext {
        store: Arc::new(store),
        schema: Arc::new(OneKeyspace::new(rules)),
        horizon: Arc::new(GcHorizon::default()),
    }
}

/// Use a small log, because each opening maps, clears and reads whole log segments.
fn store_options() -> StoreOptions {
    StoreOptions {
        log: LogOptions::with_limit(1 << 20),
        ..StoreOptions::default()
    }
}

fn home(directory: Arc<dyn Directory>) -> StructureContext {
    home_of(Store::create(directory, &store_options(), b"").unwrap())
}

/// Opens the tree whose root is in the store's superblock. Returns `None` if the superblock has no
/// root.
fn reopen(directory: Arc<dyn Directory>, kind: Sort) -> Option<PagedDictionary> {
    let opening = Store::open(directory, &store_options()).unwrap();
    let home = home_of(opening.replay(&mut |_| Ok(())).unwrap());
    let superblock = home.store.superblock();
    if superblock.payload.is_empty() {
        return None;
    }
    Some(PagedDictionary::open(home, &options(kind), &superblock.payload, superblock.cut).unwrap())
}

fn checkpoint(paged: &PagedDictionary) {
    let store = &paged.shared.home.store;
    paged.prepare().unwrap();
    let cut = paged.checkpoint_root().unwrap();
    let checkpoint = store.begin_checkpoint().unwrap();
    let (root, at) = (cut.root.clone(), cut.at);
    drop(cut);
    checkpoint.finish(&root, at).unwrap();
}

type State = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug)]
struct List(MemtableList);

impl MemtableOwner for List {
    fn newest_first(&self) -> MemtableList {
        Arc::clone(&self.0)
    }
}

fn no_memtables() -> Arc<dyn MemtableOwner> {
    Arc::new(List(Arc::default()))
}

fn get(paged: &PagedDictionary, key: &[u8], at: SequenceNumber) -> Option<Vec<u8>> {
    let mut gather = LookupState::new(at, 0, Some(&AppendOperator));
    lookup::gather(&paged.reader(), LookupKey::new(key), &mut gather).unwrap();
    gather.finish()
}

fn walk(
    paged: &PagedDictionary,
    memtables: Arc<dyn MemtableOwner>,
    direction: MergeDirection,
    at: SequenceNumber,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut scan = paged.scan(memtables, KeyRange::everything(), direction, at, 0);
    let mut pairs = Vec::new();
    while let Some((key, value)) = scan.next().unwrap() {
        pairs.push((key.to_vec(), value.to_vec()));
    }
    pairs
}

fn require(paged: &PagedDictionary, memtables: &Arc<dyn MemtableOwner>, at: SequenceNumber, state: &State) {
    let mut pairs = walk(paged, Arc::clone(memtables), MergeDirection::Forward, at);
    let wanted: Vec<(Vec<u8>, Vec<u8>)> = state.clone().into_iter().collect();
    assert_eq!(pairs, wanted, "at {at}");
    pairs.reverse();
    assert_eq!(
        walk(paged, Arc::clone(memtables), MergeDirection::Backward, at),
        pairs,
        "at {at}"
    );
}

fn sound(paged: &PagedDictionary) {
    let examined = paged
        .check(CheckLevel::Everything, &[], None, &mut |_| Ok(()))
        .unwrap();
    assert_eq!(examined.findings.found, [""; 0]);
}

/// The model, which generates messages and computes the resulting states.
struct World {
    rng: fastrand::Rng,
    sequence: SequenceNumber,
    state: State,
    /// The state that each open snapshot must see.
    snapshots: BTreeMap<SequenceNumber, State>,
}

impl World {
    fn new(seed: u64) -> World {
        World {
            rng: fastrand::Rng::with_seed(seed),
            sequence: 0,
            state: State::new(),
            snapshots: BTreeMap::new(),
        }
    }

    fn key(&mut self) -> Vec<u8> {
        format!("{:03}", self.rng.usize(..150)).into_bytes()
    }

    /// Returns a memtable with `count` commits.
    fn memtable(&mut self, count: usize) -> Arc<Memtable> {
        let memtable = Memtable::new(1 << 20);
        for _ in 0..count {
            self.sequence += 1;
            let (key, sequence) = (self.key(), self.sequence);
            match self.rng.u8(..20) {
                0 => {
                    let end = self.key();
                    memtable.delete_range(&key, &end, sequence).unwrap();
                    if key < end {
                        self.state.retain(|own, _| *own < key || *own >= end);
                    }
                }
                1..=4 => {
                    memtable.insert(&key, Message::delete(sequence)).unwrap();
                    self.state.remove(&key);
                }
                5..=9 => {
                    memtable.insert(&key, Message::merge(sequence, b"+m")).unwrap();
                    self.state.entry(key).or_default().extend(b"+m");
                }
                _ => {
                    // Some values do not fit into a node, and some not even into one page.
                    let len = [3, 9, 20, 90, 2500][self.rng.usize(..5)];
                    let value = vec![self.rng.u8(b'a'..=b'z'); len];
                    memtable.insert(&key, Message::put(sequence, &value)).unwrap();
                    self.state.insert(key, value);
                }
            }
        }
        Arc::new(memtable)
    }

    /// Opens or closes a snapshot at random, and raises the horizon accordingly.
    fn snapshots(&mut self, horizon: &GcHorizon) {
        match self.rng.u8(..4) {
            0 => {
                self.snapshots.insert(self.sequence, self.state.clone());
            }
            1 => {
                self.snapshots.pop_first();
            }
            _ => {}
        }
        horizon.raise_past(self.snapshots.keys().copied(), self.sequence);
    }

    fn take(&self, paged: &PagedDictionary, memtable: &Arc<Memtable>) {
        let share = MemtableSlice::whole(Arc::clone(memtable), self.sequence);
        let mut taking = paged.incorporate(share, AllocationClass::Normal).unwrap();
        assert_eq!(taking.poll(100).unwrap(), StepProgress::Done);
        taking.publish().unwrap();
    }

    fn require(&mut self, paged: &PagedDictionary) {
        let none = no_memtables();
        for (at, state) in &self.snapshots {
            require(paged, &none, *at, state);
        }
        require(paged, &none, MAX_SEQUENCE, &self.state);
        for _ in 0..20 {
            let key = self.key();
            assert_eq!(get(paged, &key, MAX_SEQUENCE), self.state.get(&key).cloned());
        }
    }
}

#[test]
fn what_a_tree_was_made_with_is_read_from_its_file() {
    for kind in KINDS {
        let directory: Arc<dyn Directory> = Arc::new(SimDirectory::new(3));
        let paged = PagedDictionary::create(home(Arc::clone(&directory)), options(kind), 0).unwrap();
        checkpoint(&paged);
        drop(paged);
        let opening = Store::open(directory, &store_options()).unwrap();
        let home = home_of(opening.replay(&mut |_| Ok(())).unwrap());
        let superblock = home.store.superblock();
        // The options of an existing tree determine only its memory, because everything else is
        // stored with it.
        let others = PagedOptions::default();
        let paged = PagedDictionary::open(home, &others, &superblock.payload, superblock.cut).unwrap();
        assert!(paged.is_built_as(&options(kind)), "{kind:?}");
        let found = paged.options();
        assert_eq!((found.kind, found.merging, found.epsilon), kind);
    }
}

#[test]
fn every_snapshot_reads_what_it_saw() {
    for (kind, seed) in KINDS.into_iter().cycle().zip(1..5) {
        let directory = Arc::new(MemoryDirectory::new());
        let mut paged = PagedDictionary::create(home(directory.clone()), options(kind), 0).unwrap();
        let mut world = World::new(seed);
        for round in 0..24 {
            let memtable = world.memtable(60);
            // After a memtable has been sealed and before it is written into the pages, readers see
            // it above them.
            let entry = MemtableEntry {
                memtable: Arc::clone(&memtable),
                base: paged.cut(),
            };
            let above: Arc<dyn MemtableOwner> = Arc::new(List(Arc::new(vec![entry])));
            require(&paged, &above, MAX_SEQUENCE, &world.state);
            world.snapshots(&paged.shared.home.horizon);
            world.take(&paged, &memtable);
            require(&paged, &above, MAX_SEQUENCE, &world.state);
            world.require(&paged);
            if round % 3 == 0 {
                rewrite(&paged);
                world.require(&paged);
            }
            if round % 4 == 3 {
                checkpoint(&paged);
            }
            if round % 8 == 7 {
                drop(paged);
                paged = reopen(directory.clone(), kind).unwrap();
                let horizon = &paged.shared.home.horizon;
                horizon.raise_past(world.snapshots.keys().copied(), world.sequence);
                world.require(&paged);
            }
            sound(&paged);
        }
        // Without snapshots, only one message of each key remains.
        world.snapshots.clear();
        paged.shared.home.horizon.raise(world.sequence);
        rewrite(&paged);
        assert_eq!(
            paged.approximate_len(&KeyRange::everything()).unwrap(),
            world.state.len() as u64
        );
        sound(&paged);
    }
}

#[test]
fn readers_between_two_slices_see_neither_more_nor_less() {
    for kind in KINDS {
        let paged =
            PagedDictionary::create(home(Arc::new(MemoryDirectory::new())), options(kind), 0).unwrap();
        let mut world = World::new(70);
        let first = world.memtable(300);
        world.take(&paged, &first);
        for _ in 0..6 {
            let before = world.state.clone();
            let at = world.sequence;
            world.snapshots.insert(at, before.clone());
            let memtable = world.memtable(400);
            let horizon = &paged.shared.home.horizon;
            horizon.raise_past([at], world.sequence);
            let entry = MemtableEntry {
                memtable: Arc::clone(&memtable),
                base: paged.cut(),
            };
            let above: Arc<dyn MemtableOwner> = Arc::new(List(Arc::new(vec![entry])));
            let running = AtomicBool::new(true);
            let walks = AtomicU64::new(0);
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    while running.load(Ordering::Acquire) || walks.load(Ordering::Acquire) < 2 {
                        require(&paged, &above, at, &before);
                        require(&paged, &above, MAX_SEQUENCE, &world.state);
                        walks.fetch_add(1, Ordering::AcqRel);
                    }
                });
                world.take(&paged, &memtable);
                running.store(false, Ordering::Release);
                reader.join().unwrap();
            });
            world.snapshots.clear();
        }
        sound(&paged);
    }
}

#[test]
fn a_change_that_is_half_done_shows_nowhere_and_is_done_again() {
    for kind in KINDS {
        let paged =
            PagedDictionary::create(home(Arc::new(MemoryDirectory::new())), options(kind), 0).unwrap();
        let mut world = World::new(40);
        let first = world.memtable(300);
        world.take(&paged, &first);
        let (at, before) = (world.sequence, world.state.clone());
        let memtable = world.memtable(300);
        let horizon = &paged.shared.home.horizon;
        horizon.raise_past([at], world.sequence);
        let mut keys = Vec::new();
        let mut cursor = memtable.cursor();
        cursor.first();
        while let Some(key) = cursor.key() {
            keys.push(key.to_vec());
            cursor.next();
        }
        keys.truncate(keys.len() / 2);
        let rule = horizon.rule(alluvium_dictionary::merge::OlderData::None);
        let change = |key: &Vec<u8>| {
            let newer = crate::map::newest_first(&memtable, key, &rule);
            paged.put_before(key, &newer, &rule)
        };
        paged
            .in_slices(&mut paged.shared.writer.lock(), &keys, change)
            .unwrap();
        let entry = MemtableEntry {
            memtable: Arc::clone(&memtable),
            base: paged.cut(),
        };
        let above: Arc<dyn MemtableOwner> = Arc::new(List(Arc::new(vec![entry])));
        require(&paged, &above, at, &before);
        require(&paged, &above, MAX_SEQUENCE, &world.state);
        for key in &keys {
            // Continue like a lookup that the memtable's messages did not resolve.
            let mut gather = LookupState::new(MAX_SEQUENCE, 0, Some(&AppendOperator));
            gather.memtable(&memtable, LookupKey::new(key));
            lookup::gather(&paged.reader(), LookupKey::new(key), &mut gather).unwrap();
            assert_eq!(gather.finish(), world.state.get(key).cloned());
        }
        world.take(&paged, &memtable);
        require(&paged, &no_memtables(), at, &before);
        world.require(&paged);
        sound(&paged);
    }
}

#[test]
fn a_load_becomes_part_of_it_at_once() {
    for kind in KINDS {
        let paged =
            PagedDictionary::create(home(Arc::new(MemoryDirectory::new())), options(kind), 0).unwrap();
        let mut world = World::new(3);
        let memtable = world.memtable(200);
        world.take(&paged, &memtable);
        let (before, at) = (world.state.clone(), world.sequence);
        paged.shared.home.horizon.raise(at);
        let mut load = paged.ingest(AllocationClass::Normal).unwrap();
        for number in 40..90 {
            let key = format!("{number:03}");
            load.push(key.as_bytes(), Message::put(0, b"loaded")).unwrap();
        }
        load.end_layer().unwrap();
        load.delete_range(b"060", b"070");
        load.end_layer().unwrap();
        load.push(b"050", Message::merge(0, b"!")).unwrap();
        load.attach(at + 1).unwrap();
        assert_eq!(paged.cut(), at + 3);
        require(&paged, &no_memtables(), at, &before);
        let mut wanted = before;
        wanted.extend((40..90).map(|number| (format!("{number:03}").into_bytes(), b"loaded".to_vec())));
        wanted.retain(|key, _| &**key < b"060" || &**key >= b"070");
        wanted.insert(b"050".to_vec(), b"loaded!".to_vec());
        require(&paged, &no_memtables(), MAX_SEQUENCE, &wanted);
        sound(&paged);
    }
}

/// Crashes before every `each`th device operation, and checks that exactly the state of the
/// superblock's cut can be opened. Returns the number of operations.
fn crashes(kind: Sort, seed: u64, each: u64) -> u64 {
    let directory = SimDirectory::new(seed);
    let paged = PagedDictionary::create(home(Arc::new(directory.clone())), options(kind), 0).unwrap();
    let states: Arc<Mutex<BTreeMap<SequenceNumber, State>>> = Arc::default();
    let points = Arc::new(AtomicU64::new(0));
    let (known, counted) = (Arc::clone(&states), Arc::clone(&points));
    directory.on_operation(move |point| {
        let number = counted.fetch_add(1, Ordering::Relaxed);
        if !number.is_multiple_of(each) {
            return;
        }
        let survival = CrashSurvival::ALL[(number / each) as usize % CrashSurvival::ALL.len()];
        let image = point.image(survival, seed ^ point.index);
        if let Some(paged) = reopen(Arc::new(image), kind) {
            let wanted = known.lock()[&paged.cut()].clone();
            require(&paged, &no_memtables(), MAX_SEQUENCE, &wanted);
            sound(&paged);
        }
    });
    let mut world = World::new(seed);
    for round in 0..9 {
        let memtable = world.memtable(40);
        states.lock().insert(world.sequence, world.state.clone());
        paged.shared.home.horizon.raise(world.sequence);
        world.take(&paged, &memtable);
        if round % 3 == 1 {
            // This root never becomes durable.
            drop(paged.checkpoint_root().unwrap());
        } else {
            checkpoint(&paged);
        }
    }
    points.load(Ordering::Relaxed)
}

#[test]
fn a_crash_at_every_operation_leaves_the_cut_of_the_superblock() {
    let wanted = points(1);
    let each = if wanted > 1 { 1 } else { 9 };
    let (mut judged, mut seed) = (0, number("ALLUVIUM_SIM_SEED", 11));
    while judged < wanted {
        for kind in KINDS {
            let points = crashes(kind, seed, each);
            assert!(points > 250, "{points} operations");
            judged += points / each;
            seed += 1;
        }
    }
    println!("{judged} images");
}

#[test]
fn options_and_keys_that_do_not_fit_are_refused_before_anything_is_written() {
    let directory = Arc::new(MemoryDirectory::new());
    let home = home(directory.clone());
    let before = directory.list().unwrap();
    let of = |change: &dyn Fn(&mut PagedOptions)| {
        let mut options = PagedOptions::default();
        change(&mut options);
        PagedDictionary::create(home.clone(), options, 0)
            .unwrap_err()
            .to_string()
    };
    for (why, error) in [
        ("give 0 to 1", of(&|options| options.epsilon_percent = 101)),
        ("make nodes smaller", of(&|options| options.buffer_bytes = 4096)),
        ("power of two", of(&|options| options.node_bytes = 4000)),
        ("too long for pages", of(&|options| options.key_bytes = 4000)),
        ("at least 24", of(&|options| options.value_bytes = 8)),
    ] {
        assert!(error.contains(why), "{error}");
    }
    assert_eq!(directory.list().unwrap(), before);
    let paged = PagedDictionary::create(home, options(BEPS), 0).unwrap();
    let memtable = Memtable::new(1 << 20);
    memtable.insert(b"a", Message::put(1, b"1")).unwrap();
    memtable.insert(&[b'b'; 17], Message::put(2, b"2")).unwrap();
    let mut taking = paged
        .incorporate(
            MemtableSlice::whole(Arc::new(memtable), 2),
            AllocationClass::Normal,
        )
        .unwrap();
    let error = taking.poll(1).unwrap_err().to_string();
    assert!(error.contains("17 bytes exceeds the limit of 16"), "{error}");
    assert_eq!(get(&paged, b"a", MAX_SEQUENCE), None);
    let memory = paged.pending_work().memory_bytes;
    assert!((1 << 10..=24 << 10).contains(&memory), "few pages: {memory}");
}

#[test]
fn a_full_disk_aborts_before_anything_is_there_and_damage_is_found() {
    for kind in KINDS {
        let directory = SimDirectory::new(7);
        let paged = PagedDictionary::create(home(Arc::new(directory.clone())), options(kind), 0).unwrap();
        let mut world = World::new(9);
        let memtable = world.memtable(300);
        world.take(&paged, &memtable);
        checkpoint(&paged);
        let before = world.state.clone();
        directory.set_capacity(directory.used());
        let mut error = None;
        let mut waiting = Vec::new();
        for _ in 0..60 {
            let memtable = world.memtable(100);
            let share = MemtableSlice::whole(Arc::clone(&memtable), world.sequence);
            waiting.push((memtable, world.sequence));
            let mut taking = paged.incorporate(share, AllocationClass::Normal).unwrap();
            let taken = taking.poll(1).and_then(|_| taking.publish());
            if let Err(full) = taken {
                error = Some(full);
                break;
            }
            waiting.clear();
        }
        let error = error.expect("the disk is full at last");
        assert_eq!(error.kind(), alluvium_base::ErrorKind::Full, "{error}");
        directory.set_capacity(u64::MAX);
        for (memtable, cut) in waiting {
            let mut taking = paged
                .incorporate(MemtableSlice::whole(memtable, cut), AllocationClass::Normal)
                .unwrap();
            taking.poll(1).unwrap();
            taking.publish().unwrap();
        }
        world.require(&paged);
        sound(&paged);
        drop(paged);
        let paged = reopen(Arc::new(directory.clone()), kind).unwrap();
        require(&paged, &no_memtables(), MAX_SEQUENCE, &before);
        checkpoint(&paged);
        drop(paged);
        damage(&directory, kind);
    }
}

/// Flips one bit of each page in turn. Each time, an error with the file's name or a finding of the
/// check must result.
fn damage(directory: &SimDirectory, kind: Sort) {
    use alluvium_base::Purpose;
    use alluvium_device::FileOptions;
    let len = directory.open(FILE, FileOptions::DIRECT).unwrap().len();
    for page in 0..6 {
        let at = 8192 + page * 1024;
        assert!(at < len, "the file has page {page}");
        let image = directory.image(CrashSurvival::ALL[0], page);
        let file = image.open(FILE, FileOptions::DIRECT).unwrap();
        let mut bytes = file.read_at(at, 1024, Purpose::Check).unwrap();
        bytes[300] ^= 4;
        file.write_at(at, bytes, Purpose::Check).unwrap();
        let opening = Store::open(Arc::new(image) as Arc<dyn Directory>, &store_options()).unwrap();
        let home = home_of(opening.replay(&mut |_| Ok(())).unwrap());
        let superblock = home.store.superblock();
        let found = match PagedDictionary::open(home, &options(kind), &superblock.payload, superblock.cut) {
            Err(error) => error.to_string(),
            Ok(paged) => {
                let examined = paged
                    .check(CheckLevel::Everything, &[], None, &mut |_| Ok(()))
                    .unwrap();
                examined.findings.found.concat()
            }
        };
        assert!(
            found.contains(FILE) && found.contains("checksum"),
            "page {page}: {found}"
        );
    }
}
