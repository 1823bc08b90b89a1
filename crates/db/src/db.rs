//! The store handle, from which all other handles are obtained.

use crate::advise::advice::{CacheAdvice, Trial};
use crate::advise::choices::SettingChoice;
use crate::advise::forecast::Forecast;
use crate::advise::workload::KeyspaceRequests;
use crate::background::worker::BackgroundWorkers;
use crate::engine::check::CheckReport;
use crate::engine::latencies::LatencyRecorders;
use crate::engine::lost_commits::LostCommits;
use crate::engine::progress::Progress;
use crate::engine::{CommitRecord, Engine, SliceOutcome};
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::keyspace::reads::Reads;
use crate::keyspace::snapshot::Snapshot;
use crate::options::kind::StructureKind;
use crate::options::store::ExistencePolicy;
use crate::options::{KeyspaceOptions, OpenMode, Options};
use crate::read::futures::WriteFuture;
use crate::read::pin::SnapshotPin;
use crate::schema::catalog::{CommitKeyspaces, KeyspaceCatalog, KeyspaceDefinition};
use crate::schema::format::{self, KeyspaceId};
use crate::shared::SharedStore;
use crate::write::async_commit::AsyncCommitter;
use crate::write::batch::WriteBatch;
use alluvium_base::MessageKind;
use alluvium_storage::TierDirectories;
use alluvium_trees::paged::PagedOutline;
use alluvium_trees::tiered::{CheckLevel, Outline, OutlineRun};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Maximum length of the name of a keyspace or a snapshot, in bytes.
pub const MAX_NAME: usize = 1024;

/// A handle to an open store. Handles are cheap to clone and can be used from any thread. Dropping
/// the last one closes the store.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let path = place.path().join("store");
/// use alluvium::Db;
/// let db = Db::open(&path)?;
/// let rivers = db.keyspace("rivers")?;
/// rivers.put("Elbe", "1094 km")?;
/// for pair in rivers.iter() {
///     let (key, value) = pair?;
///     assert_eq!((&key[..], &value[..]), (&b"Elbe"[..], &b"1094 km"[..]));
/// }
/// db.close()?;
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone)]
pub struct Db {
    shared: Arc<SharedStore>,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db")
            .field("engine", &self.shared.engine)
            .finish_non_exhaustive()
    }
}

impl Db {
    /// Opens the store in a directory with the default [`Options`], or creates it if it does not
    /// exist.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        Options::new().open(path)
    }

    /// Opens an existing store for reading only. No file in its directory is changed, so the medium
    /// may be read-only. The log is replayed into memory, and its records stay there.
    ///
    /// Any number of processes can have the store open for reading at the same time. Each sees the
    /// state at the time of its opening. A process that has the store open for writing excludes
    /// readers, and readers exclude it.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let path = place.path().join("store");
    /// # alluvium::Db::open(&path)?.keyspace("rivers")?.put("Elbe", "1094 km")?;
    /// let db = alluvium::Db::open_read_only(&path)?;
    /// let rivers = db.existing_keyspace("rivers")?;
    /// assert_eq!(rivers.get("Elbe")?.unwrap(), b"1094 km");
    /// assert!(matches!(rivers.put("Oder", "840 km"), Err(alluvium::Error::ReadOnly)));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Options::open`]; [`ErrorKind::Locked`](crate::ErrorKind::Locked) if a process has the
    /// store open for writing.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Db> {
        Options::new().mode(OpenMode::ReadOnly).open(path)
    }

    pub(crate) fn open_in(
        directories: impl Into<TierDirectories>,
        options: &Options,
        existing: ExistencePolicy,
    ) -> Result<Db> {
        let engine = Arc::new(Engine::open(directories.into(), options, existing)?);
        let workers = BackgroundWorkers::start(
            &engine,
            engine.plan.workers,
            options.sync_interval,
            options.background,
        );
        Ok(Db {
            shared: Arc::new(SharedStore {
                committer: AsyncCommitter::new(&engine),
                engine,
                workers: Arc::new(workers),
                reactor: Arc::default(),
                recorders: LatencyRecorders::default(),
                closing: Arc::default(),
            }),
        })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    pub(crate) fn shared(&self) -> &Arc<SharedStore> {
        &self.shared
    }

    fn catalog(&self) -> &KeyspaceCatalog {
        &self.shared.engine.catalog
    }

    fn handle(&self, definition: Arc<KeyspaceDefinition>) -> Keyspace {
        Keyspace::new(Arc::clone(&self.shared), definition)
    }

    /// Returns the keyspace with this name, and creates it if it does not exist.
    ///
    /// # Errors
    /// If it must be created: [`Error::TooLong`]; [`Error::BadOption`] if the name is empty or
    /// contains a control character; as [`Keyspace::put`].
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let definition = match self.catalog().get(name) {
            Some(definition) => definition,
            None => self.find_or_create(name, StructureKind::Tiered, &KeyspaceOptions::new())?,
        };
        Ok(self.handle(definition))
    }

    /// Returns the keyspace with this name, and creates it with these options if it does not exist.
    /// An existing keyspace must have been created with the same options, because they cannot be
    /// changed. [`Db::keyspace`] does not compare options.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::{Error, KeyspaceOptions};
    /// let counts = KeyspaceOptions::new().merge_operator("add");
    /// db.keyspace_with("hits", &counts)?;
    /// assert!(db.keyspace_with("hits", &counts).is_ok());
    /// let others = KeyspaceOptions::new().merge_operator("append");
    /// assert!(matches!(db.keyspace_with("hits", &others), Err(Error::OptionsDiffer { .. })));
    /// assert_eq!(db.keyspace("hits")?.options(), &counts);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// As [`Db::keyspace`]; [`Error::OptionsDiffer`]; [`Error::SharedOptionsDiffer`] for a new
    /// keyspace; [`Error::NotRegistered`]; [`Error::BadOption`] if the value threshold exceeds four
    /// pages or the options of the structure are invalid.
    pub fn keyspace_with(&self, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
        let definition = self.find_or_create(name, options.structure.kind(), options)?;
        definition.options.require(name, options)?;
        Ok(self.handle(definition))
    }

    /// Like [`Db::keyspace_with`], with a structure that the caller chooses.
    pub(crate) fn keyspace_in(
        &self,
        name: &str,
        structure: StructureKind,
        options: &KeyspaceOptions,
    ) -> Result<Keyspace> {
        let definition = self.find_or_create(name, structure, options)?;
        definition.options.require(name, options)?;
        Ok(self.handle(definition))
    }

    fn find_or_create(
        &self,
        name: &str,
        structure: StructureKind,
        options: &KeyspaceOptions,
    ) -> Result<Arc<KeyspaceDefinition>> {
        checked_name(name)?;
        let _schema = self.engine().schema.lock();
        if let Some(definition) = self.catalog().get(name) {
            return Ok(definition);
        }
        options.structure.validate()?;
        let most = 4 * self.engine().store.page_size().bytes();
        if let Some(bytes) = options.value_threshold.filter(|&bytes| bytes as usize > most) {
            let why = format!(
                "{bytes} bytes exceeds the limit of {most}, which is four pages; choose a smaller threshold"
            );
            return Err(Error::BadOption {
                option: "value threshold",
                why,
            });
        }
        let budget = self.engine().memory_use().budget;
        if let Some(bytes) = options.structure.volatile()
            && budget > 0
            && bytes > budget / 2
        {
            let why = format!(
                "a volatile keyspace of {bytes} bytes exceeds half of the store's memory limit of {budget} bytes: raise that limit (`Options::memory`), or make the keyspace smaller"
            );
            return Err(Error::BadOption {
                option: "structure",
                why,
            });
        }
        if structure == StructureKind::Paged {
            self.engine().dictionaries.require_pages(|| name.to_owned())?;
        }
        let id = self.catalog().next();
        if id == KeyspaceId::MAX {
            let why = "all keyspace numbers of the store are used up: export the keyspaces, and import them into another store"
                .to_owned();
            return Err(Error::BadOption {
                option: "keyspace",
                why,
            });
        }
        let definition = self.catalog().define(id, name, structure, options)?;
        let mut commit = CommitRecord::default();
        commit.add(
            &[],
            &format::keyspace_key(name),
            MessageKind::Put,
            0,
            &format::encode_keyspace(id, structure.kind(), options),
        );
        commit.add(
            &[],
            &format::next_key(),
            MessageKind::Put,
            0,
            &format::encode_next(id + 1),
        );
        // Registered before the first write, so that compactions know its merge operator and the
        // dictionaries know its structure.
        self.engine().dictionaries.place(&definition)?;
        // The structure may have allocated memory; the caches shrink by that much.
        self.engine().fit_memory()?;
        self.catalog().prepare(&definition);
        self.shared.commit(&commit, CommitKeyspaces::Catalog, None)?;
        self.catalog().add(name, Arc::clone(&definition));
        Ok(definition)
    }

    /// Returns the keyspace with this name.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`].
    pub fn existing_keyspace(&self, name: &str) -> Result<Keyspace> {
        let definition = self.catalog().get(name).ok_or_else(|| no_such(name))?;
        Ok(self.handle(definition))
    }

    /// Returns the names of all keyspaces, in order.
    #[must_use]
    pub fn keyspaces(&self) -> Vec<String> {
        self.catalog().names()
    }

    /// Renames a keyspace. Handles to it stay valid.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`], [`Error::KeyspaceExists`], as [`Keyspace::put`].
    pub fn rename_keyspace(&self, from: &str, to: &str) -> Result<()> {
        checked_name(to)?;
        let _schema = self.engine().schema.lock();
        let definition = self.catalog().get(from).ok_or_else(|| no_such(from))?;
        if self.catalog().get(to).is_some() {
            return Err(Error::KeyspaceExists { name: to.to_owned() });
        }
        let mut commit = CommitRecord::default();
        let kind = definition.structure.kind();
        let value = format::encode_keyspace(definition.id, kind, &definition.options);
        commit.add(&[], &format::keyspace_key(from), MessageKind::Delete, 0, &[]);
        commit.add(&[], &format::keyspace_key(to), MessageKind::Put, 0, &value);
        self.shared.commit(&commit, CommitKeyspaces::Catalog, None)?;
        self.catalog().rename(from, to);
        Ok(())
    }

    /// Drops a keyspace and all its records. This writes one small record; the space is freed in
    /// the background. Operations on handles to the keyspace fail from now on.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`], as [`Keyspace::delete`].
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let _schema = self.engine().schema.lock();
        let definition = self.catalog().get(name).ok_or_else(|| no_such(name))?;
        self.catalog().begin_drop(&definition);
        // A writer that did not see the drop must have its sequence number before the range is
        // deleted.
        self.engine().wait_for_writers();
        let mut commit = CommitRecord::default();
        commit.add(&[], &format::keyspace_key(name), MessageKind::Delete, 0, &[]);
        format::encode_range(&mut commit.record, &definition.prefix, &definition.end);
        commit.count += 1;
        self.shared
            .commit(&commit, CommitKeyspaces::Catalog, None)
            .inspect_err(|_| definition.revive())?;
        self.catalog().remove(name);
        Ok(())
    }

    /// Writes a batch atomically.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; [`Error::OtherStore`]; [`Error::KeyspaceDropped`] if one of the
    /// keyspaces was dropped after the batch was filled. In that case nothing of the batch is
    /// written.
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        if batch.store.is_some_and(|store| store != self.shared.number()) {
            return Err(Error::OtherStore);
        }
        self.shared
            .commit(&batch.commit, batch.owners(), batch.durability)
            .map(|_| ())
    }

    /// Returns a future that writes a batch atomically: see [`Db::write`]. The future is ready once
    /// the write is acknowledged. Writes whose futures wait at the same time share syncs, so a
    /// thousand durable writes take little longer than one.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::{Durability, WriteBatch};
    /// let rivers = db.keyspace("rivers")?;
    /// let mut batch = WriteBatch::new().durability(Durability::Disk);
    /// batch.put(&rivers, "Elbe", "1094 km")?;
    /// pollster::block_on(db.write_async(batch))?;
    /// assert_eq!(rivers.get("Elbe")?.unwrap(), b"1094 km");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_async(&self, batch: WriteBatch) -> WriteFuture {
        let batch = match batch.store {
            Some(store) if store != self.shared.number() => Err(Error::OtherStore),
            _ => Ok(batch),
        };
        WriteFuture::new(&self.shared, batch)
    }

    /// Syncs the log, so that every acknowledged write survives a loss of power.
    ///
    /// # Errors
    /// I/O errors. After one, the store rejects writes until it is opened again.
    pub fn sync(&self) -> Result<()> {
        self.shared.healthy()?;
        self.engine().health()?;
        self.engine().sync()
    }

    /// Returns a snapshot of the current state of all keyspaces.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(SnapshotPin::now(&self.shared))
    }

    /// Creates a named snapshot of the current state of all keyspaces. It persists across openings
    /// of the store until [`Db::remove_snapshot`].
    ///
    /// # Errors
    /// [`Error::SnapshotExists`], [`Error::TooLong`], as [`Keyspace::put`].
    pub fn create_snapshot(&self, name: &str) -> Result<Snapshot> {
        checked_name(name)?;
        let _schema = self.engine().schema.lock();
        if self.catalog().snapshot(name).is_some() {
            return Err(Error::SnapshotExists {
                name: name.to_owned(),
            });
        }
        let pinned = SnapshotPin::now(&self.shared);
        let mut commit = CommitRecord::default();
        let at = format::encode_snapshot(pinned.sequence());
        commit.add(&[], &format::snapshot_key(name), MessageKind::Put, 0, &at);
        self.shared.commit(&commit, CommitKeyspaces::Catalog, None)?;
        // The named snapshot holds a reference separate from the handle's.
        self.engine().open_snapshot_at(pinned.sequence());
        self.catalog().add_snapshot(name, pinned.sequence());
        Ok(Snapshot::new(pinned))
    }

    /// Returns a handle to a named snapshot.
    ///
    /// # Errors
    /// [`Error::NoSuchSnapshot`].
    pub fn open_snapshot(&self, name: &str) -> Result<Snapshot> {
        let _schema = self.engine().schema.lock();
        let at = self
            .catalog()
            .snapshot(name)
            .ok_or_else(|| Error::NoSuchSnapshot {
                name: name.to_owned(),
            })?;
        Ok(Snapshot::new(SnapshotPin::at(&self.shared, at)))
    }

    /// Returns the names of all named snapshots, in order, each with its sequence number.
    #[must_use]
    pub fn snapshots(&self) -> Vec<(String, u64)> {
        self.catalog().snapshots().into_iter().collect()
    }

    /// Removes a named snapshot. Handles to it stay valid until they are dropped. The versions that
    /// it retained are freed once the removal is durable: after [`Db::sync`], after a checkpoint,
    /// or within [`Options::sync_interval`].
    ///
    /// # Errors
    /// [`Error::NoSuchSnapshot`], as [`Keyspace::delete`].
    pub fn remove_snapshot(&self, name: &str) -> Result<()> {
        let _schema = self.engine().schema.lock();
        let at = self
            .catalog()
            .snapshot(name)
            .ok_or_else(|| Error::NoSuchSnapshot {
                name: name.to_owned(),
            })?;
        let mut commit = CommitRecord::default();
        commit.add(&[], &format::snapshot_key(name), MessageKind::Delete, 0, &[]);
        let removed = self.shared.commit(&commit, CommitKeyspaces::Catalog, None)?;
        self.catalog().remove_snapshot(name);
        self.engine().leave_snapshot(at, removed);
        Ok(())
    }

    /// Flushes every acknowledged write into the tree and makes it durable, which empties the log.
    /// The store does this on its own; call it before measuring the size on disk, for instance.
    ///
    /// # Errors
    /// I/O errors; [`Error::is_full`].
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.healthy()?;
        self.engine().health()?;
        self.engine().checkpoint_everything()
    }

    /// Compacts the whole store: removes old versions and tombstones, and applies compaction
    /// filters to every value. Background compactions run only where they pay off; this call
    /// rewrites everything once.
    ///
    /// # Errors
    /// I/O errors; [`Error::is_full`].
    pub fn compact(&self) -> Result<()> {
        self.shared.healthy()?;
        self.engine().health()?;
        self.engine().compact()
    }

    /// Reads the whole store and returns one sentence for each defect and for each further tier
    /// that cannot be read. An empty list means that the store is intact. Reads and writes continue
    /// during the check; background work pauses.
    ///
    /// # Errors
    /// I/O errors. Damage is reported in the list and is not an error.
    pub fn check(&self) -> Result<Vec<String>> {
        Ok(self.check_report(|_| ())?.into_sentences())
    }

    /// Like [`Db::check`], and also reports progress and the amount read of each structure.
    ///
    /// The check reads everything that a reader could reach from the device, bypassing the cache:
    /// leaves, index nodes, values outside leaves, maplets, the trunk, the manifest, the extent
    /// map, all copies of the superblock, and the log. It continues after damage and lists all of
    /// it.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// # db.keyspace("rivers")?.put("Elbe", "1094 km")?;
    /// # db.checkpoint()?;
    /// let report = db.check_report(|progress| println!("{:.0} %", 100.0 * progress.fraction()))?;
    /// assert!(report.is_whole() && report.records > 0);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::check`].
    pub fn check_report(&self, mut progress: impl FnMut(Progress)) -> Result<CheckReport> {
        self.engine().is_open()?;
        self.engine().check(CheckLevel::Everything, &mut progress)
    }

    /// Like [`Db::check`], but verifies only the allocation of extents: which are in use, and by
    /// what. It reads almost nothing.
    ///
    /// # Errors
    /// As [`Db::check`].
    pub fn check_structure(&self) -> Result<Vec<String>> {
        Ok(self.check_structure_report()?.into_sentences())
    }

    /// Like [`Db::check_structure`], and reports unreadable tiers separately.
    ///
    /// # Errors
    /// As [`Db::check`].
    pub fn check_structure_report(&self) -> Result<CheckReport> {
        self.engine().is_open()?;
        self.engine().check(CheckLevel::Trunk, &mut |_| ())
    }

    /// Returns the commits that had been written to the log but were missing when the store was
    /// opened; `None` if there are none. Checks list them in their notes.
    ///
    /// The store opens without such commits only if a loss of power may explain them: the log was
    /// written during another boot or another mount. Otherwise they must be damaged, and the store
    /// does not open.
    #[must_use]
    pub fn lost_commits(&self) -> Option<LostCommits> {
        self.engine().store.log().lost_tail().map(LostCommits::new)
    }

    /// Does about a millisecond of background work on this thread. Returns whether there was any.
    /// Meant for programs that open the store without workers.
    ///
    /// # Errors
    /// I/O errors.
    pub fn work(&self) -> Result<bool> {
        self.engine().health()?;
        self.engine().note_hour();
        self.engine().watch_trial()?;
        Ok(self.engine().work()? == SliceOutcome::Something)
    }

    /// Changes the memory limit of the store, in bytes. Caches are resized at once. Memtables and
    /// the log keep their sizes until the next opening.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the limit is below what the memtables and the log need.
    pub fn set_memory(&self, bytes: u64) -> Result<()> {
        self.engine().is_open()?;
        self.engine().set_memory(bytes)
    }

    /// Sets the bytes of memory that the program uses outside the store and that count towards the
    /// store's limit. Caches shrink by this amount, down to a sixteenth of the limit; memtables and
    /// the log do not. Each call replaces the previous value.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn set_external_memory(&self, bytes: u64) -> Result<()> {
        self.engine().is_open()?;
        self.engine().set_external_memory(bytes)
    }

    /// Returns the requests to each keyspace since the store was opened, by hour, estimated from a
    /// sample of one request in 64. Keyspaces without sampled requests are omitted.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let rivers = db.keyspace("rivers")?;
    /// for river in 0..10_000u32 {
    ///     rivers.put(river.to_be_bytes(), "long")?;
    /// }
    /// let seen = &db.workload()[0];
    /// assert_eq!((&seen.keyspace[..], seen.key_bytes), ("rivers", 4.0));
    /// assert!((5_000..20_000).contains(&seen.total().puts));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn workload(&self) -> Vec<KeyspaceRequests> {
        self.engine().workload()
    }

    /// Returns the cost that the model of the structure predicts and the measured cost, since the
    /// store was opened and for each hour that has ended: see [`Forecast`]. Returns `None` before
    /// the first sampled request. The call uses some milliseconds of processor time, up to a second
    /// for a large store.
    ///
    /// # Errors
    /// [`Error::Closed`]; as [`Keyspace::approximate_len`].
    pub fn forecast(&self) -> Result<Option<Forecast>> {
        self.engine().forecast()
    }

    /// Returns the settings that the store chose when it was opened and those that it would choose
    /// for new keyspaces, with reasons.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let path = place.path().join("store");
    /// let db = alluvium::Options::new().memory(64 << 20).open(&path)?;
    /// let choices = db.choices();
    /// let memory = choices.iter().find(|choice| choice.name == "memory").unwrap();
    /// assert_eq!(memory.to_string(), "memory: 67108864 bytes (as `Options::memory` says)");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn choices(&self) -> Vec<SettingChoice> {
        self.engine().choices()
    }

    /// Returns the share of cache memory for the record cache that has the lowest predicted cost
    /// for the requests since the store was opened. Returns `None` if the current share should
    /// stay: no other share is cheaper by more than the uncertainty of the model, no request was
    /// sampled, or the structure has no model.
    ///
    /// # Errors
    /// As [`Db::forecast`].
    pub fn advise(&self) -> Result<Option<CacheAdvice>> {
        self.engine().is_open()?;
        self.engine().advise()
    }

    /// Returns the predicted device reads of lookups if the record cache had this share of cache
    /// memory. Returns `None` under the conditions of [`Db::advise`].
    ///
    /// # Errors
    /// [`Error::BadOption`] for a share that is not from 0 to 0.75; as [`Db::forecast`].
    pub fn advice_for(&self, record_share: f64) -> Result<Option<CacheAdvice>> {
        self.engine().is_open()?;
        self.engine().advice_for(record_share)
    }

    /// Sets the record cache's share of memory as advised, and monitors the effect. If lookups read
    /// more than the band of the advice allows, or more than before, the change is reverted within
    /// a minute. Otherwise it stays until the store is closed. [`Db::trials`] returns the outcome.
    ///
    /// A background thread monitors the trial. In a store without [`Options::workers`], each call
    /// of [`Db::work`] does.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// # let rivers = db.keyspace("rivers")?;
    /// # for river in 0..10_000u32 { rivers.put(river.to_be_bytes(), "long")?; }
    /// use alluvium::TrialOutcome;
    /// if let Some(advice) = db.advice_for(0.5)? {
    ///     db.apply_advice(&advice)?;
    ///     assert_eq!(db.trials()[0].outcome, TrialOutcome::Watched);
    /// }
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadOption`] while another change is being monitored, and for an invalid share or
    /// band; [`Error::ReadOnly`], [`Error::Closed`].
    pub fn apply_advice(&self, advice: &CacheAdvice) -> Result<()> {
        self.engine().apply_advice(advice)
    }

    /// Returns the latest changes made by [`Db::apply_advice`], oldest first, at most 16, each with
    /// its outcome. The list is lost when the store is closed.
    #[must_use]
    pub fn trials(&self) -> Vec<Trial> {
        self.engine().trials.list()
    }

    /// Returns a [`Reads`], which reads many keys concurrently on one thread without an executor.
    #[must_use]
    pub fn reads<T>(&self) -> Reads<T> {
        Reads::new(&self.shared)
    }

    /// Returns a drawing of the tree in plain text: one line for each node of the trunk and for
    /// each of its children, with its runs. Keys start with the number of their keyspace. If the
    /// store has paged keyspaces, one line for each level of their tree follows: see
    /// [`Db::outline_pages`]. If it has several tiers, the contents of each follow: see
    /// [`Db::outline_tiers`].
    #[must_use]
    pub fn draw(&self) -> String {
        let mut drawing = self.engine().dictionaries.tree.draw();
        match self.outline_pages() {
            Ok(None) => {}
            Ok(Some(pages)) => drawing.push_str(&pages.to_string()),
            Err(error) => drawing.push_str(&format!("pages: {error}\n")),
        }
        let tiers = self.outline_tiers();
        if tiers.len() > 1 {
            drawing.extend(tiers.iter().map(ToString::to_string));
        }
        drawing
    }

    /// Returns the use of the pages that are updated in place: nodes of each level, fill factors,
    /// pending messages, free pages. Returns `None` if no keyspace is paged. The call reads every
    /// node and blocks flushes while it runs.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::{KeyspaceOptions, PagedOptions, Structure};
    /// let paged = KeyspaceOptions::new().structure(Structure::Paged(PagedOptions::beps()));
    /// db.keyspace_with("counters", &paged)?.put("Elbe", "1094")?;
    /// db.checkpoint()?;
    /// let pages = db.outline_pages()?.expect("a keyspace is in pages");
    /// assert_eq!((pages.levels.len(), pages.levels[0].nodes), (1, 1));
    /// assert_eq!(pages.levels[0].entries, 1);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// I/O errors; damage.
    pub fn outline_pages(&self) -> Result<Option<PagedOutline>> {
        self.engine().dictionaries.outline_pages()
    }

    /// Returns the shape of the tree as plain data: nodes of the trunk, their pivots and bundles,
    /// the runs in them, and running compactions. Keys start with the number of their keyspace. The
    /// call copies the keys of the trunk and reads nothing from the device.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// db.keyspace("rivers")?.put("Elbe", "1094 km")?;
    /// db.checkpoint()?;
    /// let outline = db.outline();
    /// let pivot = &outline.root.pivots[0];
    /// let records: u64 = pivot.own.iter().chain(&pivot.pending).map(|layer| layer.records).sum();
    /// assert!(records >= 1);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn outline(&self) -> Outline {
        self.engine().dictionaries.tree.outline()
    }

    /// Returns a run of the tree by its group number and its index in the group, both from
    /// [`Db::outline`]; `None` if the run is no longer part of the tree.
    #[must_use]
    pub fn outline_run(&self, group: u64, place: usize) -> Option<OutlineRun> {
        self.engine().dictionaries.tree.outline_run(group, place)
    }

    /// Returns the sequence number of the last visible commit.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.engine().visible()
    }

    /// Closes the store: flushes memory to disk, so that the next opening is fast. Operations on
    /// other handles fail from now on. Dropping the last handle does the same, but cannot report an
    /// error. If code that the store calls, such as a waker, closes the store, the call returns at
    /// once and another thread closes the store.
    ///
    /// # Errors
    /// I/O errors. No acknowledged write is lost.
    pub fn close(self) -> Result<()> {
        self.shared.close()
    }

    /// Ends the store as if the process had died: no handle writes anything more.
    pub(crate) fn end_abruptly(&self) {
        self.shared.workers.stop();
        self.shared.engine.abandon();
    }
}

fn no_such(name: &str) -> Error {
    Error::NoSuchKeyspace {
        name: name.to_owned(),
    }
}

/// Rejects names that are too long, and names that lists cannot show unambiguously. Existing
/// keyspaces with such names stay usable and can be renamed.
fn checked_name(name: &str) -> Result<()> {
    let why = match name {
        "" => Some("the name is empty: give at least one character".to_owned()),
        name if name.chars().any(char::is_control) => Some(format!(
            "{name:?} contains a control character, which lists of names cannot show: remove it"
        )),
        _ => None,
    };
    if let Some(why) = why {
        return Err(Error::BadOption { option: "name", why });
    }
    if name.len() > MAX_NAME {
        return Err(Error::TooLong {
            what: "name",
            bytes: name.len(),
            most: MAX_NAME,
        });
    }
    Ok(())
}
