//! The store: the handle that everything else comes from.

use crate::batch::WriteBatch;
use crate::catalog::{Catalog, Definition, Owners};
use crate::changes::Changes;
use crate::check::CheckReport;
use crate::committer::Committer;
use crate::engine::{Advice, Choice, Commit, Engine, Forecast, Trial, Worked};
use crate::format::{self, KeyspaceId};
use crate::futures::Write;
use crate::keyspace_options::KeyspaceOptions;
use crate::lost_commits::LostCommits;
use crate::options::{Existing, OpenMode, Options};
use crate::pin::Pinned;
use crate::progress::Progress;
use crate::reads::Reads;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::stats::{DiskSpace, Distributions, Recorders, Stats};
use crate::structure::Structure;
use crate::tiers;
use crate::worker::Workers;
use crate::workload::KeyspaceSeen;
use crate::{Error, Keyspace, Result, TierOutline};
use alluvium_base::Kind;
use alluvium_storage::Directories;
use alluvium_trees::paged::PagedOutline;
use alluvium_trees::tiered::{Depth, Outline, OutlineRun};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The longest name of a keyspace or a snapshot, in bytes.
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
    shared: Arc<Shared>,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db")
            .field("engine", &self.shared.engine)
            .finish_non_exhaustive()
    }
}

impl Db {
    /// Opens the store in a directory, or creates one there, with the defaults of [`Options`].
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        Options::new().open(path)
    }

    /// Opens an existing store for reading only. Nothing in its directory is changed, so the medium
    /// may be read-only. The log is replayed into memory and stays there.
    ///
    /// Any number of programs can have the store open like this at the same time. Each sees what
    /// was there when it opened the store. A program that has it open for writing excludes them,
    /// and they exclude it.
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
    /// As [`Options::open`]; [`ErrorKind::Locked`](crate::ErrorKind::Locked) when a program has it
    /// open for writing.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Db> {
        Options::new().mode(OpenMode::ReadOnly).open(path)
    }

    pub(crate) fn open_in(
        directories: impl Into<Directories>,
        options: &Options,
        existing: Existing,
    ) -> Result<Db> {
        let engine = Arc::new(Engine::open(directories.into(), options, existing)?);
        let workers = Workers::start(
            &engine,
            engine.plan.workers,
            options.sync_interval,
            options.background,
        );
        Ok(Db {
            shared: Arc::new(Shared {
                committer: Committer::new(&engine),
                engine,
                workers: Arc::new(workers),
                reactor: Arc::default(),
                recorders: Recorders::default(),
                closing: Arc::default(),
            }),
        })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn catalog(&self) -> &Catalog {
        &self.shared.engine.catalog
    }

    fn handle(&self, definition: Arc<Definition>) -> Keyspace {
        Keyspace::new(Arc::clone(&self.shared), definition)
    }

    /// Returns the keyspace with this name, and creates it if it does not exist.
    ///
    /// # Errors
    /// When it is created: [`Error::TooLong`], [`Error::BadOption`] for a name that is empty or has
    /// a control character; as [`Keyspace::put`].
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let definition = match self.catalog().get(name) {
            Some(definition) => definition,
            None => self.find_or_create(name, Structure::Tiered, &KeyspaceOptions::new())?,
        };
        Ok(self.handle(definition))
    }

    /// Returns the keyspace with this name, and creates it with these options if it does not exist.
    /// An existing keyspace must have the same options, because they cannot be changed.
    /// [`Db::keyspace`] accepts any.
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
    /// As [`Db::keyspace`], [`Error::OptionsDiffer`], [`Error::SharedOptionsDiffer`] for a new one,
    /// [`Error::NotRegistered`], [`Error::BadOption`] for a value threshold above four pages, and
    /// for a structure that cannot be.
    pub fn keyspace_with(&self, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
        let definition = self.find_or_create(name, options.structure.kind(), options)?;
        definition.options.require(name, options)?;
        Ok(self.handle(definition))
    }

    /// As [`Db::keyspace_with`], in a structure of the caller's choice.
    pub(crate) fn keyspace_in(
        &self,
        name: &str,
        structure: Structure,
        options: &KeyspaceOptions,
    ) -> Result<Keyspace> {
        let definition = self.find_or_create(name, structure, options)?;
        definition.options.require(name, options)?;
        Ok(self.handle(definition))
    }

    fn find_or_create(
        &self,
        name: &str,
        structure: Structure,
        options: &KeyspaceOptions,
    ) -> Result<Arc<Definition>> {
        checked_name(name)?;
        let _schema = self.engine().schema.lock();
        if let Some(definition) = self.catalog().get(name) {
            return Ok(definition);
        }
        options.structure.validate()?;
        let most = 4 * self.engine().store.page_size().bytes();
        if let Some(bytes) = options.value_threshold.filter(|&bytes| bytes as usize > most) {
            let why = format!("{bytes} bytes is more than {most}, four pages");
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
                "a volatile keyspace of {bytes} bytes is more than half of the memory of the store, {budget} bytes: give the store more (`Options::memory`), or the keyspace less"
            );
            return Err(Error::BadOption {
                option: "structure",
                why,
            });
        }
        if structure == Structure::Paged {
            self.engine().dictionaries.require_pages(|| name.to_owned())?;
        }
        let id = self.catalog().next();
        if id == KeyspaceId::MAX {
            let why = "every number of a keyspace has been used: export the keyspaces, and import them into another store"
                .to_owned();
            return Err(Error::BadOption {
                option: "keyspace",
                why,
            });
        }
        let definition = self.catalog().define(id, name, structure, options)?;
        let mut commit = Commit::default();
        commit.add(
            &[],
            &format::keyspace_key(name),
            Kind::Put,
            0,
            &format::encode_keyspace(id, structure.kind(), options),
        );
        commit.add(
            &[],
            &format::next_key(),
            Kind::Put,
            0,
            &format::encode_next(id + 1),
        );
        // Before the first write to it, so that compactions know how to fold its merges, and where
        // it goes.
        self.engine().dictionaries.place(&definition)?;
        // The structure may have taken memory: the caches give way.
        self.engine().fit_memory()?;
        self.catalog().prepare(&definition);
        self.shared.commit(&commit, Owners::Catalog, None)?;
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
        let mut commit = Commit::default();
        let kind = definition.structure.kind();
        let value = format::encode_keyspace(definition.id, kind, &definition.options);
        commit.add(&[], &format::keyspace_key(from), Kind::Delete, 0, &[]);
        commit.add(&[], &format::keyspace_key(to), Kind::Put, 0, &value);
        self.shared.commit(&commit, Owners::Catalog, None)?;
        self.catalog().rename(from, to);
        Ok(())
    }

    /// Drops a keyspace with everything in it. This writes one small record; the space is freed in
    /// the background. Handles to the keyspace fail from now on.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`], as [`Keyspace::delete`].
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let _schema = self.engine().schema.lock();
        let definition = self.catalog().get(name).ok_or_else(|| no_such(name))?;
        self.catalog().begin_drop(&definition);
        // A writer that has not seen the drop has its place before the range is deleted.
        self.engine().wait_for_writers();
        let mut commit = Commit::default();
        commit.add(&[], &format::keyspace_key(name), Kind::Delete, 0, &[]);
        format::encode_range(&mut commit.record, &definition.prefix, &definition.end);
        commit.count += 1;
        self.shared
            .commit(&commit, Owners::Catalog, None)
            .inspect_err(|_| definition.revive())?;
        self.catalog().remove(name);
        Ok(())
    }

    /// Writes a batch atomically: all of it or nothing.
    ///
    /// # Errors
    /// As [`Keyspace::put`], [`Error::OtherStore`]. [`Error::KeyspaceDropped`] when one of its
    /// keyspaces was dropped since the batch was filled:
    /// nothing of it is written then.
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        if batch.store.is_some_and(|store| store != self.shared.number()) {
            return Err(Error::OtherStore);
        }
        self.shared
            .commit(&batch.commit, batch.owners(), batch.durability)
            .map(|_| ())
    }

    /// Returns a future of an atomic write: see [`Db::write`]. The future is ready once the write
    /// is acknowledged. Writes whose futures wait at the same time share syncs, so a thousand
    /// durable writes take little longer than one.
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
    pub fn write_async(&self, batch: WriteBatch) -> Write {
        let batch = match batch.store {
            Some(store) if store != self.shared.number() => Err(Error::OtherStore),
            _ => Ok(batch),
        };
        Write::new(&self.shared, batch)
    }

    /// Makes every acknowledged write survive a loss of power.
    ///
    /// # Errors
    /// As the device says: after a failure the store takes no writes until it is opened again.
    pub fn sync(&self) -> Result<()> {
        self.shared.healthy()?;
        self.engine().health()?;
        self.engine().sync()
    }

    /// Returns a snapshot of all keyspaces as they are now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Pinned::now(&self.shared))
    }

    /// Keeps all keyspaces as they are now under a name, until [`Db::remove_snapshot`]. A named
    /// snapshot survives closing and opening the store.
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
        let pinned = Pinned::now(&self.shared);
        let mut commit = Commit::default();
        let at = format::encode_snapshot(pinned.sequence());
        commit.add(&[], &format::snapshot_key(name), Kind::Put, 0, &at);
        self.shared.commit(&commit, Owners::Catalog, None)?;
        // The name's own hold on it, beside the handle's.
        self.engine().open_snapshot_at(pinned.sequence());
        self.catalog().add_snapshot(name, pinned.sequence());
        Ok(Snapshot::new(pinned))
    }

    /// Returns the snapshot that is kept under a name.
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
        Ok(Snapshot::new(Pinned::at(&self.shared, at)))
    }

    /// Returns the names of all kept snapshots, in order, each with the number of its last commit.
    #[must_use]
    pub fn snapshots(&self) -> Vec<(String, u64)> {
        self.catalog().snapshots().into_iter().collect()
    }

    /// Removes a named snapshot. Handles to it stay valid until they are dropped. The versions it
    /// kept are freed once the removal survives a loss of power: after [`Db::sync`], after a
    /// checkpoint, or within [`Options::sync_interval`].
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
        let mut commit = Commit::default();
        commit.add(&[], &format::snapshot_key(name), Kind::Delete, 0, &[]);
        let removed = self.shared.commit(&commit, Owners::Catalog, None)?;
        self.catalog().remove_snapshot(name);
        self.engine().leave_snapshot(at, removed);
        Ok(())
    }

    /// Writes every acknowledged write into the tree and makes it durable, which empties the log.
    /// The store does this by itself; call it before measuring the size on disk, for instance.
    ///
    /// # Errors
    /// As the device says; [`Error::is_full`].
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.healthy()?;
        self.engine().health()?;
        self.engine().checkpoint_everything()
    }

    /// Compacts the whole store: removes old versions and deleted records, and asks compaction
    /// filters about every value. The store compacts what is worth it by itself; this call rewrites
    /// everything once.
    ///
    /// # Errors
    /// As the device says; [`Error::is_full`].
    pub fn compact(&self) -> Result<()> {
        self.shared.healthy()?;
        self.engine().health()?;
        self.engine().compact()
    }

    /// Copies the store into another directory while reads and writes go on. Returns the sequence
    /// number of the last commit in the copy.
    ///
    /// The directory must be empty; it is created if it does not exist. The copy holds every commit
    /// that was acknowledged before the call, is durable when the call returns, and opens like any
    /// other store. Everything a reader of the copy can reach is read and compared with its
    /// checksums, so damage is not copied along.
    ///
    /// On file systems that can share blocks between files (XFS, Btrfs) only that reading costs
    /// time. Elsewhere the space in use is read and written; free space is not. Space that is freed
    /// during the copy is reused only afterwards. An interrupted copy does not open as a store;
    /// copying into the same directory again starts over.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let (path, backup) = (place.path().join("store"), place.path().join("backup"));
    /// let db = alluvium::Db::open(&path)?;
    /// db.keyspace("rivers")?.put("Elbe", "1094 km")?;
    /// db.checkpoint_to(&backup)?;
    /// let copy = alluvium::Db::open(&backup)?;
    /// assert_eq!(copy.keyspace("rivers")?.get("Elbe")?.unwrap(), b"1094 km");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadCopy`] when what was copied is damaged; [`Error::Storage`] when the directory
    /// holds files, or as the devices say. What was copied is removed then, as far as possible.
    pub fn checkpoint_to(&self, path: impl AsRef<Path>) -> Result<u64> {
        self.checkpoint_to_with(path, |_| ())
    }

    /// Like [`Db::checkpoint_to`], and reports progress.
    ///
    /// # Errors
    /// As [`Db::checkpoint_to`].
    pub fn checkpoint_to_with(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(Progress),
    ) -> Result<u64> {
        let store = &self.engine().store;
        let target = tiers::of_copy(path.as_ref(), &[], store.tiers().count())?;
        let cut = self.back_up(&target.directories, &mut progress)?;
        target.note()?;
        Ok(cut)
    }

    /// Copies the store and checks the copy: see [`Db::checkpoint_to`].
    pub(crate) fn back_up(&self, target: &Directories, progress: &mut dyn FnMut(Progress)) -> Result<u64> {
        self.shared.healthy()?;
        self.engine().back_up(target, progress)
    }

    /// Copies the store without checking the copy.
    pub(crate) fn copy_to_in(&self, target: &Directories, progress: &mut dyn FnMut(Progress)) -> Result<u64> {
        self.shared.healthy()?;
        self.engine().copy_to(target, progress)
    }

    /// Reads the whole store and returns a sentence for everything that is wrong, and for each
    /// further tier that cannot be read; an empty list means that it is whole. Reads and writes go
    /// on meanwhile; background work pauses.
    ///
    /// # Errors
    /// As the device says. What is damaged is reported, not returned.
    pub fn check(&self) -> Result<Vec<String>> {
        Ok(self.check_report(|_| ())?.into_sentences())
    }

    /// Like [`Db::check`]; also reports progress, and returns how much was read of each structure.
    ///
    /// Everything a reader could reach is read from the device, past the cache: leaves, index
    /// nodes, values outside leaves, maplets, the trunk, the manifest, the extent map, all copies
    /// of the superblock, and the log. Damage to one of them is listed, and the rest is read all
    /// the same.
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
        self.engine().check(Depth::Everything, &mut progress)
    }

    /// Like [`Db::check`], but checks the structure only: which extents are in use, and by what. It
    /// reads almost nothing.
    ///
    /// # Errors
    /// As [`Db::check`].
    pub fn check_structure(&self) -> Result<Vec<String>> {
        Ok(self.check_structure_report()?.into_sentences())
    }

    /// Like [`Db::check_structure`], and keeps apart which tiers could not be read.
    ///
    /// # Errors
    /// As [`Db::check`].
    pub fn check_structure_report(&self) -> Result<CheckReport> {
        self.engine().is_open()?;
        self.engine().check(Depth::Trunk, &mut |_| ())
    }

    /// Returns the commits that were written to the log and were gone when this handle's store was
    /// opened; none if all are there. Checks list them among their notes.
    ///
    /// The store opens without them only where a loss of power may have taken them: on a boot or a
    /// mount that did not write the log. Where they can only be damaged, it does not open.
    #[must_use]
    pub fn lost_commits(&self) -> Option<LostCommits> {
        self.engine().store.log().lost_tail().map(LostCommits::new)
    }

    /// Does about a millisecond of background work on this thread. Returns whether there was any.
    /// For programs that open the store without workers.
    ///
    /// # Errors
    /// As the device says.
    pub fn work(&self) -> Result<bool> {
        self.engine().health()?;
        self.engine().note_hour();
        self.engine().watch_trial()?;
        Ok(self.engine().work()? == Worked::Something)
    }

    /// Changes the memory limit of the store, in bytes. Caches follow at once. Memtables and log
    /// keep the size that they were opened with until the next opening.
    ///
    /// # Errors
    /// [`Error::BadOption`] when that is too little for what the memtables and the log take.
    pub fn set_memory(&self, bytes: u64) -> Result<()> {
        self.engine().is_open()?;
        self.engine().set_memory(bytes)
    }

    /// Counts memory that the program holds beside the store within the store's limit, in bytes.
    /// Caches shrink by as much, down to a sixteenth of the limit; memtables and log do not. Each
    /// call replaces the one before.
    ///
    /// # Errors
    /// As the store says when it is closed.
    pub fn count_memory_beside(&self, bytes: u64) -> Result<()> {
        self.engine().is_open()?;
        self.engine().count_memory_beside(bytes)
    }

    /// Returns the space on the file system that the store lies on.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn disk_space(&self) -> Result<DiskSpace> {
        let space = self.engine().store.disk_space()?;
        Ok(DiskSpace {
            free_bytes: space.free,
            total_bytes: space.total,
        })
    }

    /// Returns counters of what the store has done since it was opened, and the sizes of what it
    /// holds.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine().stats(&self.shared.recorders)
    }

    /// Returns what was asked of each keyspace since the store was opened, by hour, as a sample of
    /// one request in 64 tells. Keyspaces of which nothing was seen are left out.
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
    pub fn workload(&self) -> Vec<KeyspaceSeen> {
        self.engine().workload()
    }

    /// Returns what the store should cost by the model of its structure, beside what it does cost,
    /// since it was opened and in each hour that has ended: see [`Forecast`]. None before a request
    /// was seen. This takes some milliseconds of a processor, up to a second for a large store.
    ///
    /// # Errors
    /// [`Error::Closed`]; as [`Keyspace::approximate_len`].
    pub fn forecast(&self) -> Result<Option<Forecast>> {
        self.engine().forecast()
    }

    /// Returns what the store has chosen when it was opened, and what it chooses for new keyspaces,
    /// with reasons.
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
    pub fn choices(&self) -> Vec<Choice> {
        self.engine().choices()
    }

    /// Returns the share of the caches' memory for records that would cost least for what was seen
    /// since the store was opened. None means to leave it: nothing is cheaper by more than the
    /// uncertainty of the model, nothing was seen yet, or no model knows the structure.
    ///
    /// # Errors
    /// As [`Db::forecast`].
    pub fn advise(&self) -> Result<Option<Advice>> {
        self.engine().is_open()?;
        self.engine().advise()
    }

    /// Returns what lookups should read from the device if records had this share of the caches'
    /// memory; none as in [`Db::advise`].
    ///
    /// # Errors
    /// [`Error::BadOption`] for a share that is not from 0 to 0.75; as [`Db::forecast`].
    pub fn advice_for(&self, record_share: f64) -> Result<Option<Advice>> {
        self.engine().is_open()?;
        self.engine().advice_for(record_share)
    }

    /// Changes the share of records as an advice says, and watches what comes of it. When lookups
    /// read more than the band of the advice allows, or more than before, the change is taken back,
    /// within a minute. Otherwise it stays until the store is closed. [`Db::trials`] tells.
    ///
    /// A background thread watches. In a store without [`Options::workers`], each call of
    /// [`Db::work`] does.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// # let rivers = db.keyspace("rivers")?;
    /// # for river in 0..10_000u32 { rivers.put(river.to_be_bytes(), "long")?; }
    /// use alluvium::Outcome;
    /// if let Some(advice) = db.advice_for(0.5)? {
    ///     db.apply_advice(&advice)?;
    ///     assert_eq!(db.trials()[0].outcome, Outcome::Watched);
    /// }
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadOption`] while another change is watched, and for a share or a band that is
    /// none; [`Error::ReadOnly`], [`Error::Closed`].
    pub fn apply_advice(&self, advice: &Advice) -> Result<()> {
        self.engine().apply_advice(advice)
    }

    /// Returns the last changes that [`Db::apply_advice`] made, oldest first, 16 at most, and what
    /// became of each. They are forgotten when the store is closed.
    #[must_use]
    pub fn trials(&self) -> Vec<Trial> {
        self.engine().trials.list()
    }

    /// Returns a window for reading many keys at a time on one thread, without an executor: see
    /// [`Reads`].
    #[must_use]
    pub fn reads<T>(&self) -> Reads<T> {
        Reads::new(&self.shared)
    }

    /// Returns a drawing of the tree in plain text: each line is a node of the trunk or one of its
    /// children, with its runs. Keys start with the number of their keyspace. Where keyspaces are
    /// in pages, a line for each level of their tree follows: see [`Db::outline_pages`]; where the
    /// store has several tiers, what lies on each: see [`Db::outline_tiers`].
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

    /// Returns each tier of the store, with the runs that need something of it. Nothing is read.
    #[must_use]
    pub fn outline_tiers(&self) -> Vec<TierOutline> {
        self.engine().outline_tiers()
    }

    /// Returns how the pages are used that are written in place: nodes of each level, how full they
    /// are, messages that wait, free pages. None where no keyspace is in pages. This reads every
    /// node, and memtables wait meanwhile.
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
    /// As the device says; damage.
    pub fn outline_pages(&self) -> Result<Option<PagedOutline>> {
        self.engine().dictionaries.outline_pages()
    }

    /// Returns the shape of the tree as plain data: nodes of the trunk, their pivots and bundles,
    /// the runs in them, compactions in progress. Keys start with the number of their keyspace.
    /// This copies the trunk's keys and reads nothing from the device.
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

    /// Returns a run of the tree by the number of its group and its place in the group, both from
    /// [`Db::outline`]; `None` if the tree no longer has it.
    #[must_use]
    pub fn outline_run(&self, group: u64, place: usize) -> Option<OutlineRun> {
        self.engine().dictionaries.tree.outline_run(group, place)
    }

    /// Returns the distributions of latencies since the store was opened, in more detail than
    /// [`Db::stats`]. The difference of two gives the percentiles of the time between.
    #[must_use]
    pub fn distributions(&self) -> Distributions {
        self.shared.recorders.distributions()
    }

    /// Returns the commits after a sequence number, in commit order, as long as the log still has
    /// them. A follower uses this to keep another store, an index or a cache up to date. It starts
    /// with a copy of the store ([`Db::checkpoint_to`] returns its number), or at [`Db::sequence`],
    /// and remembers the last number that it has processed.
    ///
    /// Checkpoints shorten the log. [`Options::keep_log`] keeps more of it, up to a number of
    /// bytes. A follower that has fallen behind gets an error, and so does one that missed commits
    /// while the store was closed.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let path = place.path().join("store");
    /// use alluvium::{Change, Options};
    /// let db = Options::new().keep_log(16 << 20).open(&path)?;
    /// let rivers = db.keyspace("rivers")?;
    /// let mut changes = db.changes_since(db.sequence())?;
    /// rivers.put("Elbe", "1094 km")?;
    /// let set = changes.next().expect("a commit came")?;
    /// assert!(matches!(&set.changes[..], [Change::Put { key, .. }] if key == b"Elbe"));
    /// assert_eq!(set.sequence, db.sequence());
    /// assert!(changes.next().is_none(), "for now");
    /// rivers.delete("Elbe")?;
    /// assert!(changes.next().is_some(), "it goes on where it was");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ChangesGone`], which says from which number on the log has everything; as the
    /// device says.
    pub fn changes_since(&self, sequence: u64) -> Result<Changes> {
        Changes::new(&self.shared, sequence)
    }

    /// Returns the sequence number of the last visible commit.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.engine().visible()
    }

    /// Closes the store: writes everything in memory to the disk, so that the next opening is fast.
    /// Other handles fail from now on. Dropping the last handle does the same, but cannot report an
    /// error. Where code that the store calls closes it, such as a waker, the call returns at once,
    /// and another thread closes the store.
    ///
    /// # Errors
    /// As the device says. Nothing that was acknowledged is lost.
    pub fn close(self) -> Result<()> {
        self.shared.close()
    }

    /// Ends the store as if its process had died: no handle writes anything more.
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

/// Refuses names that cannot be told apart where they are listed, and those that are too long. What
/// is there under such a name stays, and can be renamed.
fn checked_name(name: &str) -> Result<()> {
    let why = match name {
        "" => Some("a name has one character at least".to_owned()),
        name if name.chars().any(char::is_control) => Some(format!(
            "{name:?} has a control character, which lists of names cannot show: leave it out"
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
