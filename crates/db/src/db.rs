//! The store handle, which all other handles are obtained from.

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
use crate::options::{Structure, ValueOrder};
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
/// the last handle closes the store.
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
    /// Opens the store in a directory with the default [`Options`], or creates one if there is
    /// none.
    ///
    /// # Errors
    /// The same errors as [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        Options::new().open(path)
    }

    /// Opens an existing store read-only. No file in its directory is changed, so it may be on a
    /// read-only medium. The log is replayed into memory, and the replayed records stay there while
    /// the store is open.
    ///
    /// Any number of processes can have the store open for reading at once. Each sees the state in
    /// which it opened the store. A store cannot be open for reading and for writing at the same
    /// time.
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
    /// The errors of [`Options::open`]; [`ErrorKind::Locked`](crate::ErrorKind::Locked) if a
    /// process has the store open for writing.
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
                published: parking_lot::Mutex::default(),
                engine,
                workers: Arc::new(workers),
                reactor: Arc::default(),
                recorders: LatencyRecorders::default(),
                closing: Arc::default(),
            }),
        })
    }

    /// Returns whether two handles belong to the same open store.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// let one = alluvium::Db::open(place.path().join("one"))?;
    /// let other = alluvium::Db::open(place.path().join("other"))?;
    /// assert!(one.is_same_store(&one.clone()));
    /// assert!(!one.is_same_store(&other));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn is_same_store(&self, other: &Db) -> bool {
        self.shared().number() == other.shared().number()
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

    /// Returns the keyspace with this name, creating it if it does not exist.
    ///
    /// # Errors
    /// If the keyspace has to be created: [`Error::TooLong`]; [`Error::BadOption`] if the name is
    /// empty or contains a control character; the errors of [`Keyspace::put`].
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let definition = match self.catalog().get(name) {
            Some(definition) => definition,
            None => self.find_or_create(name, StructureKind::Tiered, &KeyspaceOptions::new())?,
        };
        Ok(self.handle(definition))
    }

    /// Returns the keyspace with this name, creating it with these options if it does not exist. An
    /// existing keyspace must have been created with the same options, because they cannot be
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
    /// # Errors
    /// The errors of [`Db::keyspace`]; [`Error::OptionsDiffer`] if the keyspace exists with other
    /// options; [`Error::SharedOptionsDiffer`] if a new paged or volatile keyspace conflicts with
    /// options shared by existing ones; [`Error::NotRegistered`]; [`Error::BadOption`] if the value
    /// threshold exceeds four pages, if the structure's options are invalid, or if the store has 64
    /// other sets of options for this structure.
    pub fn keyspace_with(&self, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
        let definition = self.find_or_create(name, options.structure.kind(), options)?;
        definition.options.require(name, options)?;
        Ok(self.handle(definition))
    }

    /// Like [`Db::keyspace_with`], but creates the keyspace in the given structure.
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
        self.check_new(name, structure, options)?;
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
        // Register the keyspace before its first write, because compactions look up its merge
        // operator, and the dictionaries its structure.
        let dictionaries = &self.engine().dictionaries;
        dictionaries.place(&definition)?;
        // The structure may have allocated memory, so shrink the caches by that much.
        self.engine().fit_memory()?;
        self.catalog().prepare(&definition);
        let created = self.shared.commit(&commit, CommitKeyspaces::Catalog, None);
        created.inspect_err(|_| dictionaries.note_dropped(id, self.engine().visible()))?;
        self.catalog().add(name, Arc::clone(&definition));
        Ok(definition)
    }

    /// Returns an error unless a keyspace with this name and these options can be created.
    fn check_new(&self, name: &str, structure: StructureKind, options: &KeyspaceOptions) -> Result<()> {
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
        if options.value_order == ValueOrder::Gathered && options.structure != Structure::Tiered {
            let why = format!(
                "{} gathers no values: use the tiered tree, or levels with values=moved",
                options.structure
            );
            return Err(Error::BadOption {
                option: "value order",
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
        self.engine().dictionaries.admit(&options.structure)
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
    /// [`Error::NoSuchKeyspace`]; [`Error::KeyspaceExists`]; the errors of [`Keyspace::put`].
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

    /// Drops a keyspace and all its records. The call writes one small log record, and the space is
    /// freed in the background. Afterwards, operations on handles to the keyspace fail.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; the errors of [`Keyspace::delete`].
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let _schema = self.engine().schema.lock();
        let definition = self.catalog().get(name).ok_or_else(|| no_such(name))?;
        self.catalog().begin_drop(&definition);
        // Wait for writers that did not see the drop. They must have their sequence numbers before
        // the range is deleted, so that the range delete covers their writes.
        self.engine().wait_for_writers();
        let mut commit = CommitRecord::default();
        commit.add(&[], &format::keyspace_key(name), MessageKind::Delete, 0, &[]);
        format::encode_range(&mut commit.record, &definition.prefix, &definition.end);
        commit.count += 1;
        self.shared
            .commit(&commit, CommitKeyspaces::Catalog, None)
            .inspect_err(|_| definition.revive())?;
        self.catalog().remove(name);
        // The visible commits include the drop, after which nothing writes to the keyspace.
        let (engine, last) = (self.engine(), self.engine().visible());
        engine.dictionaries.note_dropped(definition.id, last);
        Ok(())
    }

    /// Writes a batch atomically.
    ///
    /// # Errors
    /// The errors of [`Keyspace::put`]; [`Error::OtherStore`] if the batch was filled for another
    /// store; [`Error::KeyspaceDropped`] if one of its keyspaces was dropped after the batch was
    /// filled, in which case none of its writes takes effect.
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        if batch.store.is_some_and(|store| store != self.shared.number()) {
            return Err(Error::OtherStore);
        }
        self.shared
            .commit(&batch.commit, batch.owners(), batch.durability)
            .map(|_| ())
    }

    /// Returns a future that writes a batch atomically, like [`Db::write`]. The future is ready
    /// once the write is acknowledged. Pending futures share log syncs, so a thousand concurrent
    /// durable writes take little longer than a single one.
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
    /// The same errors as [`Db::write`].
    pub fn write_async(&self, batch: WriteBatch) -> WriteFuture {
        let batch = match batch.store {
            Some(store) if store != self.shared.number() => Err(Error::OtherStore),
            _ => Ok(batch),
        };
        WriteFuture::new(&self.shared, batch)
    }

    /// Syncs the log, so that every acknowledged write survives a loss of power. Writes of open
    /// transactions are not included: nothing in a transaction is durable before its commit.
    ///
    /// # Errors
    /// I/O errors, after which the store rejects writes until it is reopened.
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

    /// Creates a named snapshot of the current state of all keyspaces. It survives reopening the
    /// store and exists until [`Db::remove_snapshot`] is called.
    ///
    /// # Errors
    /// [`Error::SnapshotExists`]; [`Error::TooLong`]; the errors of [`Keyspace::put`].
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
        // The named snapshot needs its own reference, because the handle returned below releases
        // one when it is dropped.
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

    /// Returns the names of all named snapshots, in order, and their sequence numbers.
    #[must_use]
    pub fn snapshots(&self) -> Vec<(String, u64)> {
        self.catalog().snapshots().into_iter().collect()
    }

    /// Removes a named snapshot. Handles to it stay valid until they are dropped. The versions that
    /// it retained are freed once the removal is durable: after [`Db::sync`], after a checkpoint,
    /// or within [`Options::sync_interval`].
    ///
    /// # Errors
    /// [`Error::NoSuchSnapshot`]; the errors of [`Keyspace::delete`].
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
    /// The store takes checkpoints on its own; an explicit call is useful, for instance, before
    /// measuring the size on disk.
    ///
    /// # Errors
    /// I/O errors; [`Error::is_full`].
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.healthy()?;
        self.engine().health()?;
        self.engine().checkpoint_everything()
    }

    /// Compacts the whole store: removes old versions and tombstones, and applies compaction
    /// filters to every value. Background compactions run only where they should save more work
    /// than they cost, but this call rewrites all data regardless of cost.
    ///
    /// # Errors
    /// I/O errors; [`Error::is_full`].
    pub fn compact(&self) -> Result<()> {
        self.shared.healthy()?;
        self.engine().health()?;
        self.engine().compact()
    }

    /// Reads the whole store and returns one sentence per defect, and one per tier after the first
    /// that cannot be read. An empty list means that the store is intact. Reads and writes continue
    /// during the check, but background work pauses.
    ///
    /// # Errors
    /// I/O errors. Damage is not an error; it is reported in the list.
    pub fn check(&self) -> Result<Vec<String>> {
        Ok(self.check_report(|_| ())?.into_sentences())
    }

    /// Like [`Db::check`], but also calls `progress` as the check advances, and reports how much
    /// data of each structure was read.
    ///
    /// The check reads everything that a lookup or an opening of the store could reach: leaves,
    /// index nodes, values outside leaves, maplets, the trunk, the manifest, the extent map, all
    /// copies of the superblock, and the log. It bypasses the cache and reads from the device. It
    /// does not stop at the first damage but lists all of it.
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
    /// The same errors as [`Db::check`].
    pub fn check_report(&self, mut progress: impl FnMut(Progress)) -> Result<CheckReport> {
        self.engine().is_open()?;
        self.engine().check(CheckLevel::Everything, &mut progress)
    }

    /// Verifies only the extent allocation: which extents are in use, and which structure uses
    /// each. Unlike [`Db::check`], the call reads almost nothing from the device. Returns one
    /// sentence per defect.
    ///
    /// # Errors
    /// The same errors as [`Db::check`].
    pub fn check_structure(&self) -> Result<Vec<String>> {
        Ok(self.check_structure_report()?.into_sentences())
    }

    /// Like [`Db::check_structure`], but reports unreadable tiers separately from defects.
    ///
    /// # Errors
    /// The same errors as [`Db::check`].
    pub fn check_structure_report(&self) -> Result<CheckReport> {
        self.engine().is_open()?;
        self.engine().check(CheckLevel::Trunk, &mut |_| ())
    }

    /// Returns the commits that had been written to the log but were missing when the store was
    /// opened, or `None` if none were missing. The notes of a [`CheckReport`] mention them too.
    ///
    /// A store with missing commits opens only if a loss of power may explain them, because the log
    /// was last written during another boot of the machine or another mount of the file system.
    /// Otherwise the log must have been damaged, and the store does not open.
    #[must_use]
    pub fn lost_commits(&self) -> Option<LostCommits> {
        self.engine().store.log().lost_tail().map(LostCommits::new)
    }

    /// Does about a millisecond of background work on the calling thread, and returns whether there
    /// was any to do. For programs that open the store without background threads.
    ///
    /// # Errors
    /// I/O errors.
    pub fn work(&self) -> Result<bool> {
        self.engine().health()?;
        self.engine().note_hour();
        self.engine().watch_trial()?;
        Ok(self.engine().work()? == SliceOutcome::Something)
    }

    /// Changes the store's memory limit, in bytes. The caches are resized immediately. Memtables
    /// and the log keep their sizes until the store is reopened.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the limit is below what the memtables and the log need.
    pub fn set_memory(&self, bytes: u64) -> Result<()> {
        self.engine().is_open()?;
        self.engine().set_memory(bytes)
    }

    /// Sets how many bytes of memory used outside the store count towards its memory limit. The
    /// caches shrink by this amount, but not below a sixteenth of the limit; memtables and the log
    /// keep their sizes. Each call replaces the previous value.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn set_external_memory(&self, bytes: u64) -> Result<()> {
        self.engine().is_open()?;
        self.engine().set_external_memory(bytes)
    }

    /// Returns the hourly number of requests to each keyspace since the store was opened, estimated
    /// from a sample of one request in 64. Keyspaces without a sampled request are omitted.
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

    /// Compares the structure's predicted cost with the measured cost, both since the store was
    /// opened and for each completed hour: see [`Forecast`]. Returns `None` if no request has been
    /// sampled yet. The call uses some milliseconds of processor time, or up to a second for a
    /// large store.
    ///
    /// # Errors
    /// [`Error::Closed`]; the errors of [`Keyspace::approximate_len`].
    pub fn forecast(&self) -> Result<Option<Forecast>> {
        self.engine().forecast()
    }

    /// Returns the settings that the store chose when it was opened and those that it would choose
    /// for new keyspaces, each with its reason.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let path = place.path().join("store");
    /// let db = alluvium::Options::new().memory(64 << 20).open(&path)?;
    /// let choices = db.choices();
    /// let memory = choices.iter().find(|choice| choice.name == "memory").unwrap();
    /// assert_eq!(memory.to_string(), "memory: 67108864 bytes (set by `Options::memory`)");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn choices(&self) -> Vec<SettingChoice> {
        self.engine().choices()
    }

    /// Returns the record cache's share of cache memory that minimises the predicted cost of the
    /// requests since the store was opened. Returns `None` if the current share should stay because
    /// no other share is cheaper by more than the uncertainty of the model, if no request was
    /// sampled, or if the structure has no cost model.
    ///
    /// # Errors
    /// The same errors as [`Db::forecast`].
    pub fn advise(&self) -> Result<Option<CacheAdvice>> {
        self.engine().is_open()?;
        self.engine().advise()
    }

    /// Predicts how much lookups would read from the device if the record cache had the share
    /// `record_share` of cache memory. Returns `None` if no request was sampled or the structure
    /// has no cost model.
    ///
    /// # Errors
    /// [`Error::BadOption`] unless the share is from 0 to 0.75; the errors of [`Db::forecast`].
    pub fn advice_for(&self, record_share: f64) -> Result<Option<CacheAdvice>> {
        self.engine().is_open()?;
        self.engine().advice_for(record_share)
    }

    /// Sets the record cache's share of cache memory to the advised value and monitors the effect.
    /// If lookups then read more than the upper bound of the prediction, or more than before, the
    /// change is reverted within a minute. Otherwise the new share stays in effect until the store
    /// is closed. [`Db::trials`] returns the outcome.
    ///
    /// A background thread monitors the change. In a store without background threads
    /// ([`Options::workers`] is 0), calls of [`Db::work`] do so instead.
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
    /// [`Error::BadOption`] if another change is still being monitored, or if the share or the
    /// prediction is invalid; [`Error::ReadOnly`], [`Error::Closed`].
    pub fn apply_advice(&self, advice: &CacheAdvice) -> Result<()> {
        self.engine().apply_advice(advice)
    }

    /// Returns up to 16 of the latest changes made by [`Db::apply_advice`], oldest first, with
    /// their outcomes. The list is lost when the store is closed.
    #[must_use]
    pub fn trials(&self) -> Vec<Trial> {
        self.engine().trials.list()
    }

    /// Returns a [`Reads`], which lets one thread read many keys concurrently without an async
    /// executor.
    #[must_use]
    pub fn reads<T>(&self) -> Reads<T> {
        Reads::new(&self.shared)
    }

    /// Returns a plain-text drawing of the tree, with one line per trunk node and one per child of
    /// the node, which shows the child's runs. Each key starts with the number of its keyspace. If
    /// the store has levels, their runs follow: see [`Db::outline_levels`]. If the store has paged
    /// keyspaces, one line per level of their tree follows: see [`Db::outline_pages`]. If the store
    /// has several tiers, their contents follow: see [`Db::outline_tiers`].
    #[must_use]
    pub fn draw(&self) -> String {
        let mut drawing = self.engine().dictionaries.tree.draw();
        drawing.extend(self.outline_levels().iter().map(ToString::to_string));
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

    /// Describes the pages that are updated in place: the nodes of each level, their fill factors,
    /// pending messages, and free pages. Returns `None` if the store has no paged keyspace. The
    /// call reads every node and blocks flushes until it returns.
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

    /// Returns the shape of the tree as plain data: the trunk nodes, their pivots and bundles, the
    /// runs in the bundles, and the running compactions. Each key starts with the number of its
    /// keyspace. The call copies the keys of the trunk and reads nothing from the device.
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

    /// Returns the run with this group number and this index in the group, both taken from
    /// [`Db::outline`]. Returns `None` if the run is no longer part of the tree.
    #[must_use]
    pub fn outline_run(&self, group: u64, place: usize) -> Option<OutlineRun> {
        self.engine().dictionaries.tree.outline_run(group, place)
    }

    /// Returns the sequence number of the last visible commit.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.engine().visible()
    }

    /// Closes the store. All writes in memory are flushed to disk first, so that the next opening
    /// is fast. Afterwards, operations on other handles fail. Dropping the last handle also closes
    /// the store, but cannot report an error. If code that the store itself runs, such as a waker,
    /// makes the call, it returns at once, and another thread closes the store.
    ///
    /// # Errors
    /// I/O errors. No acknowledged write is lost.
    pub fn close(self) -> Result<()> {
        self.shared.close()
    }

    /// Abandons the store as if the process had crashed: no handle writes anything afterwards.
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

/// Returns an error if a new name is too long, empty, or contains a control character, which would
/// make lists of names ambiguous. Existing keyspaces with such names remain usable and can be
/// renamed.
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
