//! Creates and recovers stores. Recovery opens the newest checkpoint, and then replays the log
//! records after it.

use super::Engine;
use super::commit::{ApplyError, apply, memtable_bytes};
use super::commit_record::CommitRecord;
use super::conditional_locks::ConditionalLocks;
use super::counters::EngineCounters;
use super::ingest::IngestRegistry;
use super::memory::StoreMemoryBudget;
use super::open_transactions::OpenTransactions;
use super::queue::{MemtableQueue, MemtableRetention};
use super::record_cache::RecordCache;
use super::snapshots::SnapshotRegistry;
use super::steps::BackgroundWork;
use super::structures::{DictionaryOptions, DictionarySet, HeldWrites, catalog};
use super::throttle::WriteThrottle;
use super::time::ReadingTime;
use super::transaction_locks::TransactionLocks;
use super::unlogged_voids::UnloggedVoids;
use super::visible_sequence::VisibleSequence;
use crate::advise::advice::TrialHistory;
use crate::advise::choices;
use crate::advise::forecast::ForecastHistory;
use crate::advise::workload::WorkloadMonitor;
use crate::engine::lost_commits::LostCommits;
use crate::error::Result;
use crate::options::devices;
use crate::options::kind::{DictionaryPlace, StructureKind};
use crate::options::store::{ExistencePolicy, ResolvedOptions};
use crate::options::{Durability, Options};
use crate::schema::catalog::{CommitKeyspaces, KeyspaceCatalog};
use crate::schema::format::{self, CatalogRecord, LogWrite, LogWriteIter};
use crate::schema::manifest;
use crate::schema::manifest::reachability::DamageSurvey;
use alluvium_base::{SequenceNumber, message};
use alluvium_dictionary::memtables::MemtableOwner as _;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::read::DataFiles;
use alluvium_storage::log::{LogRecord, RepairReport};
use alluvium_storage::store::{Store, StoreOpening, StoreOptions};
use alluvium_storage::{DiskLocation, Epochs, Error, OnDiskObject as Kind, TierDirectories, superblock};
use alluvium_trees::tiered::{LostRange, TreeSalvage};
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// Describes a repair in which the catalog, part of which was lost in the tree, was rewritten from
/// its second copy.
const CATALOG_RESTORED: &str = "the list of keyspaces and named snapshots was restored from its second copy";

impl Engine {
    pub(crate) fn open(
        directories: TierDirectories,
        options: &Options,
        existing: ExistencePolicy,
    ) -> Result<Engine> {
        let directory = Arc::clone(directories.first());
        let _span = tracing::info_span!("open", store = %directory.describe()).entered();
        let mut plan = options.plan()?;
        if options.takes_measured {
            plan.device = devices::measured(&*directory)?;
        }
        let store_options = store_options(&plan);
        let exists = match existing {
            ExistencePolicy::Open | ExistencePolicy::ReadOnly => true,
            ExistencePolicy::Create => false,
            ExistencePolicy::OpenOrCreate => superblock::exists(&*directory)?,
        };
        let catalog = Arc::new(KeyspaceCatalog::new(&options.operators, &options.filters));
        let how = DictionaryOptions {
            shape: plan.scale.shape,
            filters: plan.scale.filters,
            schema: Arc::clone(&catalog) as Arc<_>,
            paged_bytes: paged_bytes(&plan),
        };
        if !exists {
            let store = Arc::new(Store::create(directories, &store_options, b"")?);
            let dictionaries = DictionarySet::create(&store, &how);
            let queue = MemtableQueue::new(plan.scale.memtable, 0);
            return Engine::assemble(store, dictionaries, catalog, options, plan, queue, 0);
        }
        let opening = match existing {
            // A read-only opening writes nothing, so it does not need the extent map.
            ExistencePolicy::ReadOnly => {
                let mut opening = Store::open_without_map(directories, &store_options)?;
                if let Some(damage) = rebuild_map(&mut opening)? {
                    tracing::warn!("the extent map is damaged, so the store is read without it: {damage}");
                }
                opening
            }
            _ => Store::open(directories, &store_options)?,
        };
        let recovery = tracing::info_span!("recovery", commits = tracing::field::Empty).entered();
        let cut = opening.superblock().cut;
        let mut replay = LogReplay::after(cut, &plan);
        let store = opening.replay(&mut |record| replay.take(&record))?;
        recovery.record("commits", replay.last - cut);
        drop(recovery);
        if let Some(lost) = store.log().lost_tail() {
            tracing::warn!("{}", LostCommits::new(lost));
        }
        let mut engine = Engine::replayed(store, replay, catalog, &how, options, plan)?;
        engine.reads_only = existing == ExistencePolicy::ReadOnly;
        if engine.dictionaries.has_left_damage && !engine.reads_only {
            // This checkpoint removes the damaged pages from the manifest. New pages are created
            // for the next paged keyspace.
            match engine.checkpoint_now() {
                Err(error) if error.is_full() => {}
                other => other?,
            }
        }
        Ok(engine)
    }

    /// Opens as much of a damaged store as possible, starting from the newest generation before
    /// `than`, or from the newest one if `than` is `None`.
    pub(crate) fn repair(
        directories: TierDirectories,
        options: &Options,
        than: Option<u64>,
    ) -> Result<(Engine, StoreSalvage)> {
        let plan = options.plan()?;
        let catalog = Arc::new(KeyspaceCatalog::new(&options.operators, &options.filters));
        let how = DictionaryOptions {
            shape: plan.scale.shape,
            filters: plan.scale.filters,
            schema: Arc::clone(&catalog) as Arc<_>,
            paged_bytes: paged_bytes(&plan),
        };
        let mut opening = match than {
            None => Store::open_without_map(directories, &store_options(&plan))?,
            Some(than) => Store::open_older(directories, &store_options(&plan), than)?,
        };
        let (surveyed, map_damage) = survey(&mut opening)?;
        let (generation, cut) = (opening.superblock().generation, opening.superblock().cut);
        let mut replay = LogReplay::after(cut, &plan);
        let (store, report) = opening.repair(&mut |record| replay.take(&record))?;
        let (store, mut salvaged) = (
            Arc::new(store),
            StoreSalvage {
                generation,
                cut,
                report,
                map_damage,
                ..StoreSalvage::default()
            },
        );
        let dictionaries;
        (dictionaries, salvaged.lost, salvaged.mended) =
            DictionarySet::open_salvaged(&store, &how, surveyed)?;
        let engine = Engine::replayed_into(store, dictionaries, replay, catalog, options, plan)?;
        if engine.restore_catalog()? {
            salvaged.mended.push(CATALOG_RESTORED.to_owned());
        }
        if !salvaged.lost.is_empty() || !salvaged.mended.is_empty() {
            // The dictionaries on disk still refer to damaged nodes. The checkpoint removes these
            // references.
            engine.checkpoint_now()?;
        }
        Ok((engine, salvaged))
    }

    /// Creates the engine from the dictionaries on disk and the memtables that hold the replayed
    /// log.
    fn replayed(
        store: Store,
        replay: LogReplay,
        catalog: Arc<KeyspaceCatalog>,
        how: &DictionaryOptions,
        options: &Options,
        plan: ResolvedOptions,
    ) -> Result<Engine> {
        let store = Arc::new(store);
        let dictionaries = DictionarySet::open(&store, how)?;
        Engine::replayed_into(store, dictionaries, replay, catalog, options, plan)
    }

    fn replayed_into(
        store: Arc<Store>,
        dictionaries: DictionarySet,
        replay: LogReplay,
        catalog: Arc<KeyspaceCatalog>,
        options: &Options,
        plan: ResolvedOptions,
    ) -> Result<Engine> {
        let last = replay.last.max(store.log().completed());
        let is_at_rest = last == dictionaries.cut();
        replay.queue.skip_to(last);
        if let Some(held) = dictionaries.take_held() {
            hold_below(&replay.queue, &held)?;
        }
        let removals = replay.removals;
        let mut engine = Engine::assemble(store, dictionaries, catalog, options, plan, replay.queue, last)?;
        for removed in removals {
            engine.keep_removed_snapshots(removed)?;
        }
        let catalog = Arc::clone(&engine.catalog);
        let is_there = |id| catalog.by_id(id).is_some();
        if is_at_rest {
            engine.dictionaries.forget_others(is_there)?;
        }
        engine.dictionaries.note_missing(is_there, last);
        Ok(engine)
    }

    fn assemble(
        store: Arc<Store>,
        dictionaries: DictionarySet,
        catalog: Arc<KeyspaceCatalog>,
        options: &Options,
        plan: ResolvedOptions,
        queue: MemtableQueue,
        last: SequenceNumber,
    ) -> Result<Engine> {
        let covered = dictionaries.cut();
        let read_by = store.log().time_ms().max(dictionaries.time_ms);
        store.log().note_time(read_by);
        let engine = Engine {
            store,
            dictionaries,
            catalog,
            plan,
            durability: options.durability,
            time: ReadingTime::new(Arc::clone(&options.clock), read_by),
            queue: Arc::new(queue),
            visible: VisibleSequence::new(last),
            writers: Epochs::new(),
            stripes: ConditionalLocks::default(),
            snapshots: SnapshotRegistry::default(),
            transactions: OpenTransactions::default(),
            locks: TransactionLocks::default(),
            ingests: IngestRegistry::default(),
            committed_keys: Arc::default(),
            records: RecordCache::new(plan.records, covered),
            budget: StoreMemoryBudget::new(plan.memory, plan.record_share),
            work: BackgroundWork::new(covered),
            throttle: WriteThrottle::default(),
            counters: EngineCounters::default(),
            workload_monitor: WorkloadMonitor::default(),
            trials: TrialHistory::default(),
            chosen: choices::of(options, &plan),
            chosen_structure: OnceLock::new(),
            forecasts: ForecastHistory::new((options.clock)()),
            unlogged_voids: UnloggedVoids::default(),
            schema: Mutex::new(()),
            copying: RwLock::new(()),
            closed: AtomicBool::new(false),
            reads_only: false,
        };
        engine.store.log().retain(options.keep_log);
        engine.store.set_copies(options.copy_hot);
        engine.load_catalog()?;
        let name_of = |number| engine.catalog.by_id(number).map(|definition| definition.name());
        engine.dictionaries.require_known(name_of)?;
        Ok(engine)
    }

    /// Loads the catalog. Fails if the manifest does not agree with the catalog as of the durable
    /// generation.
    fn load_catalog(&self) -> Result<()> {
        let cut = self.dictionaries.cut();
        let durable = self.catalog_at(cut)?;
        for (key, value) in &durable {
            if let CatalogRecord::Keyspace {
                name,
                id,
                kind,
                options,
            } = decoded(key, value)?
            {
                let structure = StructureKind::of_keyspace(kind, &name)?;
                let dictionaries = &self.dictionaries;
                dictionaries.require_placed(id, structure, &options.structure)?;
            }
        }
        let copy = &self.dictionaries.second_catalog;
        if copy.get().is_some_and(|second| second != durable) {
            tracing::warn!("the two copies of the list of keyspaces differ; the first one is used");
        }
        copy.set(Some(durable));
        let visible = self.visible();
        for (key, value) in &self.catalog_at(visible)? {
            let record = decoded(key, value)?;
            if let CatalogRecord::Snapshot { name, at } = &record
                && *at > visible
            {
                let found = format!("snapshot \"{name}\" at commit {at}, but the last commit is {visible}");
                let place = DiskLocation::new(Kind::Node, "the catalog", 0);
                return Err(Error::corrupt(place, "a snapshot of an existing commit", found).into());
            }
            if let Some(definition) = self.catalog.load(record)? {
                self.dictionaries.place(&definition)?;
            }
        }
        for at in self.catalog.snapshots().into_values() {
            self.open_snapshot_at(at);
        }
        Ok(())
    }

    /// Pins the versions of the named snapshots that commit `removed` removed. This commit is in
    /// the log but may not be durable yet, in which case a power failure may bring the snapshots
    /// back.
    fn keep_removed_snapshots(&self, removed: SequenceNumber) -> Result<()> {
        let now = self.catalog.snapshots();
        for (key, value) in &self.catalog_at(removed - 1)? {
            if let CatalogRecord::Snapshot { name, at } = decoded(key, value)?
                && now.get(&name) != Some(&at)
            {
                self.open_snapshot_at(at);
                self.leave_snapshot(at, removed);
            }
        }
        Ok(())
    }

    /// Returns the catalog's records as of commit `at`, which must not be below the dictionaries'
    /// cut. They are read from the tree, or from the second copy if they are damaged in the tree.
    fn catalog_at(&self, at: SequenceNumber) -> Result<catalog::CatalogRecords> {
        let copy = &self.dictionaries.second_catalog;
        let second = || copy.at(&self.queue.newest_first(), self.dictionaries.cut(), at);
        if copy.is_used()
            && let Some(records) = second()
        {
            return Ok(records);
        }
        match self.catalog_in_tree(at) {
            // The first copy is not read again, so this warning is logged only once.
            Err(damage) if damage.is_damage() && copy.replace_first() => {
                tracing::warn!(
                    "the first copy of the list of keyspaces cannot be read, so the second one is used: {damage}"
                );
                second().ok_or(damage)
            }
            read => read,
        }
    }

    fn catalog_in_tree(&self, at: SequenceNumber) -> Result<catalog::CatalogRecords> {
        let mut found = catalog::CatalogRecords::new();
        let mut records = self.scan(
            DictionaryPlace::TREE,
            catalog::range(),
            MergeDirection::Forward,
            at,
        );
        while let Some((key, value)) = records.next()? {
            found.insert(key.to_vec(), value.to_vec());
        }
        Ok(found)
    }

    /// Rewrites damaged runs without their unreadable parts. Returns the lost key ranges and
    /// descriptions of the repairs.
    pub(crate) fn repair_runs(&self) -> Result<(Vec<LostRange>, Vec<String>)> {
        let (mut lost, mut done) = self.dictionaries.repair_runs()?;
        let catalog = catalog::range();
        let is_of_catalog = |lost: &LostRange| !lost.range.intersect(&catalog).is_empty();
        let has_copy = lost.iter().any(is_of_catalog) && self.dictionaries.second_catalog.replace_first();
        if self.restore_catalog()? {
            done.push(CATALOG_RESTORED.to_owned());
        }
        if has_copy {
            // The second copy contains the entire catalog, so none of its keys are lost.
            for lost in &mut lost {
                if let Some(end) = catalog.high.clone().filter(|end| lost.range.low < *end) {
                    lost.range.low = end;
                }
            }
            lost.retain(|lost| !lost.range.is_empty());
        }
        if !done.is_empty() {
            // The runs on disk still refer to damaged nodes. The checkpoint removes these
            // references.
            self.checkpoint_now()?;
        }
        Ok((lost, done))
    }

    /// Rewrites the catalog from its second copy if part of it was lost in the tree. Returns
    /// whether it did.
    fn restore_catalog(&self) -> Result<bool> {
        if !self.dictionaries.second_catalog.is_used() {
            return Ok(false);
        }
        let visible = self.visible();
        let right = self.catalog_at(visible)?;
        let found = match self.catalog_in_tree(visible) {
            Err(damage) if damage.is_damage() => catalog::CatalogRecords::new(),
            found => found?,
        };
        if found == right {
            self.dictionaries.second_catalog.use_first_copy();
            return Ok(false);
        }
        let mut commit = CommitRecord::default();
        for key in found.keys().filter(|key| !right.contains_key(*key)) {
            commit.add(&[], key, message::MessageKind::Delete, 0, &[]);
        }
        for (key, value) in &right {
            commit.add(&[], key, message::MessageKind::Put, 0, value);
        }
        // The caller then makes a checkpoint of the tree without the damaged records.
        self.commit(&commit, CommitKeyspaces::Catalog, Durability::Disk)?;
        self.dictionaries.second_catalog.use_first_copy();
        Ok(true)
    }
}

fn decoded(key: &[u8], value: &[u8]) -> Result<CatalogRecord> {
    let record = format::decode_catalog(key, value);
    record.map_err(|found| {
        let place = DiskLocation::new(Kind::Node, "the catalog", 0);
        Error::corrupt(place, "a record of the catalog", found).into()
    })
}

/// Describes what was recovered from a damaged store and what was lost.
#[derive(Debug, Default)]
pub(crate) struct StoreSalvage {
    /// The generation that was opened, and the sequence number up to which it contains all commits.
    pub(crate) generation: u64,
    pub(crate) cut: SequenceNumber,
    /// Result of repairing the log.
    pub(crate) report: RepairReport,
    /// Description of the damage to the extent map, if the map was rebuilt.
    pub(crate) map_damage: Option<String>,
    /// Damaged key ranges, as internal keys of the tree.
    pub(crate) lost: Vec<LostRange>,
    /// Descriptions of the rebuilt parts of the tree.
    pub(crate) mended: Vec<String>,
}

/// Replays log records into memtables during recovery.
struct LogReplay {
    queue: MemtableQueue,
    last: SequenceNumber,
    /// Sequence numbers of commits that removed named snapshots.
    removals: Vec<SequenceNumber>,
}

impl LogReplay {
    fn after(cut: SequenceNumber, plan: &ResolvedOptions) -> LogReplay {
        LogReplay {
            queue: MemtableQueue::new(plan.scale.memtable, cut),
            last: cut,
            removals: Vec::new(),
        }
    }

    fn take(&mut self, record: &LogRecord<'_>) -> alluvium_storage::Result<()> {
        let damaged = |found: String| {
            let place = DiskLocation::new(Kind::LogRecord, format!("log, sequence {}", record.first), 0);
            Error::corrupt(place, "the writes of a commit", found)
        };
        let (mut writes, mut ranges) = (0, 0);
        for (sequence, write) in (record.first..).zip(LogWriteIter::new(record.payload)) {
            writes += 1;
            if let Ok(LogWrite::One {
                key,
                kind: message::MessageKind::Delete,
                ..
            }) = &write
                && format::is_snapshot_key(key)
            {
                self.removals.push(sequence);
            }
            if let Ok(write) = &write {
                write.check_keys().map_err(damaged)?;
                ranges += u64::from(matches!(write, LogWrite::Range { .. }));
            }
        }
        if writes != u64::from(record.count) {
            return Err(damaged(format!(
                "the record has {writes} writes, but {} sequence numbers",
                record.count
            )));
        }
        let bytes = memtable_bytes(record.payload.len() as u64, writes - ranges, ranges);
        // Sequence numbers missing from the log were voided, or belong to commits that were never
        // acknowledged.
        self.queue.skip_to(record.first - 1);
        let place = self.queue.assign(writes, bytes, || ());
        assert_eq!(
            place.first, record.first,
            "the log hands its records over in their order"
        );
        apply(&place.slot.memtable, record.payload, record.first).map_err(|unfit| match unfit {
            ApplyError::Damaged(found) => damaged(found),
            ApplyError::Full => damaged(format!("{bytes} bytes, too many for a memtable")),
        })?;
        self.last = record.first + writes - 1;
        Ok(())
    }
}

/// Adds a memtable that is older than all others, with the writes that a dictionary had not
/// received when the durable generation was made.
fn hold_below(queue: &MemtableQueue, held: &HeldWrites) -> alluvium_storage::Result<()> {
    let damaged = |found: String| {
        let place = DiskLocation::new(Kind::Superblock, "the manifest", 0);
        Error::corrupt(place, "writes that were not yet applied to the pages", found)
    };
    let behind = &held.behind;
    let bytes = behind.writes.len() as u64;
    let memtable = MemtableQueue::memtable_of(memtable_bytes(bytes, behind.count, behind.count));
    for write in behind.each() {
        let (sequence, record) = write.map_err(damaged)?;
        for write in LogWriteIter::new(record) {
            write.and_then(|write| write.check_keys()).map_err(damaged)?;
        }
        apply(&memtable, record, sequence).map_err(|unfit| match unfit {
            ApplyError::Damaged(found) => damaged(found),
            ApplyError::Full => damaged(format!("{bytes} bytes, too many for a memtable")),
        })?;
    }
    let hold = match held.is_aside {
        true => MemtableRetention::Forever,
        false => MemtableRetention::Ordinary,
    };
    queue.append_oldest(memtable, behind.cut, held.cut, hold);
    Ok(())
}

/// Searches the data needed to open the store for damage. If any is found, rebuilds the extent map
/// from the undamaged extents.
fn survey(opening: &mut StoreOpening) -> Result<(DamageSurvey, Option<String>)> {
    let superblock = opening.superblock();
    let files = DataFiles {
        tiers: opening.tiers(),
        page_size: superblock.page_size,
    };
    let mut surveyed = manifest::reachability::survey(files, &superblock.payload)?;
    surveyed.tree = surveyed.tree.filter(TreeSalvage::is_needed);
    let damage = opening.map_damage().map(ToString::to_string);
    if surveyed.tree.is_some()
        || !surveyed.discarded.is_empty()
        || !surveyed.salvaged.is_empty()
        || damage.is_some()
    {
        opening.rebuild_map(&surveyed.reached)?;
    }
    Ok((surveyed, damage))
}

/// If the extent map is damaged, rebuilds it from the extents reachable from the manifest, and
/// returns a description of the damage.
fn rebuild_map(opening: &mut StoreOpening) -> Result<Option<String>> {
    let Some(damage) = opening.map_damage().map(ToString::to_string) else {
        return Ok(None);
    };
    let superblock = opening.superblock();
    let files = DataFiles {
        tiers: opening.tiers(),
        page_size: superblock.page_size,
    };
    let reached = manifest::reachability::reached(files, &superblock.payload)?;
    opening.rebuild_map(&reached)?;
    Ok(Some(damage))
}

/// Minimum memory of the in-place page store, as a multiple of the memtable size. It matters in
/// simulations, which have no memory limit.
const PAGED_MEMTABLES: u64 = 2;

/// Returns the memory limit of the in-place page store in bytes, which is three eighths of the
/// store's memory limit. The caches shrink by the memory that it actually uses.
fn paged_bytes(plan: &ResolvedOptions) -> usize {
    (plan.memory / 8 * 3).max(PAGED_MEMTABLES * plan.scale.memtable) as usize
}

pub(super) fn store_options(plan: &ResolvedOptions) -> StoreOptions {
    let scale = &plan.scale;
    StoreOptions {
        id: scale.id,
        page_size: plan.page_size,
        device: plan.device,
        cache_bytes: scale.cache,
        extents: scale.extents,
        log: scale.log,
        ..StoreOptions::default()
    }
}
