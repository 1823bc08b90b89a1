//! The entry points of a hashed structure: creating and opening it, publishing versions, and
//! writing its root for a checkpoint.

use super::format::{HashedContents, LevelRunName};
use super::options::HashedOptions;
use super::routing::RoutingFilter;
use super::run::HashRun;
use super::salvage::ObjectName;
use super::state::{HashPartition, HashStore, HashedVersion, HashedWriterState, LevelRun, PartitionLevel};
use super::trees::names::TreeName;
use super::trees::{LevelTree, RoutingList};
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::checkpoint_root::CheckpointRoot;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::read::DataFiles;
use alluvium_dictionary::structure_context::{StructureContext, poison_on_error};
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_dictionary::versioned::{RootWriter, VersionCell, VersionStamp};
use alluvium_storage::extents::Extent;
use alluvium_storage::store::Store;
use alluvium_storage::{DiskLocation, Error, OnDiskObject, Result};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Maximum size of contents stored inline in the root, in bytes. Larger contents are written to
/// separate nodes.
const INLINE: usize = 4 << 10;

/// A hashed structure: hash stores, with a sorted store or a bundle below them. Clones share the
/// same structure. Any thread may call any method.
#[derive(Clone)]
pub struct HashedStructure {
    pub(super) shared: Arc<HashedCore>,
}

pub(super) struct HashedCore {
    pub(super) home: StructureContext,
    pub(super) options: HashedOptions,
    pub(super) versions: VersionCell<HashedVersion>,
    pub(super) kept: Mutex<HashedWriterState>,
    /// Whether space is scarce, so that every merge may allocate from the reserve.
    pub(super) is_scarce: AtomicBool,
}

impl fmt::Debug for HashedStructure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.shared.versions.peek();
        f.debug_struct("HashedStructure")
            .field("hash_stores", &version.young.len())
            .field("parts", &version.parts.len())
            .field("cut", &version.stamp.cut)
            .finish_non_exhaustive()
    }
}

impl HashedStructure {
    /// Creates an empty structure that is up to date with all commits up to `cut`, none of which
    /// may have changed a key of the structure.
    ///
    /// ```
    /// use alluvium_base::{Message, message::MAX_SEQUENCE};
    /// use alluvium_device::memory::MemoryDirectory;
    /// use alluvium_dictionary::contract::{Dictionary, PointLookup, StepProgress};
    /// use alluvium_dictionary::key::LookupKey;
    /// use alluvium_dictionary::lookup;
    /// use alluvium_dictionary::lookup_state::LookupState;
    /// use alluvium_dictionary::memtable::Memtable;
    /// use alluvium_dictionary::memtable_slice::MemtableSlice;
    /// use alluvium_dictionary::rules::OneKeyspace;
    /// use alluvium_dictionary::structure_context::StructureContext;
    /// use alluvium_hashes::hashed::{HashedOptions, HashedStructure};
    /// use alluvium_storage::extents::AllocationClass;
    /// use alluvium_storage::store::{Store, StoreOptions};
    /// use std::sync::Arc;
    ///
    /// let store = Store::create(
    ///     Arc::new(MemoryDirectory::new()),
    ///     &StoreOptions::default(),
    ///     b"",
    /// )?;
    /// let home = StructureContext {
    ///     store: Arc::new(store),
    ///     schema: Arc::new(OneKeyspace::default()),
    ///     horizon: Arc::default(),
    /// };
    /// let options = HashedOptions {
    ///     parts_log: 1,
    ///     ..HashedOptions::default()
    /// };
    /// let hashed = HashedStructure::create(home.clone(), options.clone(), 0)?;
    /// for at in 1..=4 {
    ///     let memtable = Memtable::new(1 << 20);
    ///     memtable
    ///         .insert(b"Elbe", Message::put(at, b"1094 km"))
    ///         .unwrap();
    ///     let mut taking = hashed.incorporate(
    ///         MemtableSlice::whole(Arc::new(memtable), at),
    ///         AllocationClass::Normal,
    ///     )?;
    ///     while taking.poll(1000)? == StepProgress::More {}
    ///     taking.publish()?;
    /// }
    /// assert_eq!(hashed.hash_store_count(), 4);
    /// for _part in 0..2 {
    ///     let mut merge = hashed
    ///         .next_step()?
    ///         .expect("four hash stores become part of the sorted store");
    ///     while merge.poll(1000)? == StepProgress::More {}
    /// }
    /// assert_eq!(hashed.hash_store_count(), 0);
    /// let root = hashed.checkpoint_root()?.root;
    /// let hashed = HashedStructure::open(home, &options, &root, 4)?;
    /// let mut gather = LookupState::new(MAX_SEQUENCE, 0, None);
    /// lookup::gather(&hashed.reader(), LookupKey::new(b"Elbe"), &mut gather)?;
    /// assert_eq!(gather.finish().unwrap(), b"1094 km");
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadOption`] if an option is invalid.
    pub fn create(
        home: StructureContext,
        options: HashedOptions,
        cut: SequenceNumber,
    ) -> Result<HashedStructure> {
        options.validate()?;
        let version = HashedVersion {
            stamp: VersionStamp::first(cut),
            parts: vec![Arc::default(); options.parts()],
            ..HashedVersion::default()
        };
        Ok(HashedStructure::assemble(
            home,
            options,
            version,
            HashedWriterState::default(),
        ))
    }

    /// Opens a structure from a root that a checkpoint returned. The structure contains every
    /// commit up to `cut`. Options marked *Creation* are read from the root, and their values in
    /// `options` are ignored.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the data is damaged; I/O errors.
    pub fn open(
        home: StructureContext,
        options: &HashedOptions,
        root: &[u8],
        cut: SequenceNumber,
    ) -> Result<HashedStructure> {
        let (home, options, version, kept) = read(home, options, root, cut, &mut |_, error| Err(error))?;
        Ok(HashedStructure::assemble(home, options, version, kept))
    }

    /// Opens a structure like [`HashedStructure::open`], but leaves out runs, filters and lists
    /// whose descriptions are damaged. [`survey`] lists the data that is lost with them. The next
    /// checkpoint contains only what remains.
    ///
    /// # Errors
    /// The same errors as [`HashedStructure::open`], but only if the contents, which list the runs,
    /// are damaged.
    ///
    /// [`survey`]: super::survey
    pub fn open_salvaged(
        home: StructureContext,
        options: &HashedOptions,
        root: &[u8],
        cut: SequenceNumber,
    ) -> Result<HashedStructure> {
        let mut has_lost = false;
        let mut lose = |_: ObjectName, error| match error {
            Error::Corrupt { .. } => {
                has_lost = true;
                Ok(())
            }
            other => Err(other),
        };
        let (home, options, mut version, kept) = read(home, options, root, cut, &mut lose)?;
        // Mark the contents as changed, because they no longer match the root.
        version.stamp.contents += u64::from(has_lost);
        Ok(HashedStructure::assemble(home, options, version, kept))
    }

    fn assemble(
        home: StructureContext,
        options: HashedOptions,
        version: HashedVersion,
        mut kept: HashedWriterState,
    ) -> HashedStructure {
        assert!(
            version.is_ordered(),
            "hash stores are in the order of their ages (W2)"
        );
        kept.wanted = vec![false; options.parts()];
        HashedStructure {
            shared: Arc::new(HashedCore {
                home,
                options,
                versions: VersionCell::new(version),
                kept: Mutex::new(kept),
                is_scarce: AtomicBool::new(false),
            }),
        }
    }

    #[must_use]
    pub fn options(&self) -> &HashedOptions {
        &self.shared.options
    }

    /// Returns the number of hash stores.
    #[must_use]
    pub fn hash_store_count(&self) -> usize {
        self.version().young.len()
    }

    /// Returns whether the structure has no runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.versions.peek().runs().next().is_none()
    }

    /// Returns the number of records in all parts, excluding hash stores.
    #[must_use]
    pub fn sorted_records(&self) -> u64 {
        let version = self.version();
        let runs = version.parts.iter().flat_map(|part| part.runs());
        runs.map(|run| run.run.records()).sum()
    }

    /// Returns the hash that this structure uses for a key.
    #[must_use]
    #[inline]
    pub fn hash_of(&self, key: LookupKey<'_>) -> u64 {
        self.shared.options.hash_of(key)
    }

    pub(super) fn version(&self) -> Arc<HashedVersion> {
        self.shared.versions.load()
    }

    pub(super) fn poison_on_error<T>(&self, result: Result<T>) -> Result<T> {
        poison_on_error(&self.shared.home.store, result)
    }

    /// Publishes a version with changed contents. Extents that only the previous version used are
    /// released once no reader can reach them. The caller must hold the lock on `kept`.
    pub(super) fn publish(&self, _kept: &mut HashedWriterState, mut version: HashedVersion) {
        let old = self.version();
        assert!(version.next_age >= old.next_age, "ages rise (W2)");
        let least = version.parts.iter().map(|part| part.upto).min().unwrap_or(0);
        version.young.retain(|young| young.age >= least);
        version.young = version.trimmed(&self.shared.options);
        assert!(
            version.is_ordered(),
            "hash stores are in the order of their ages (W2)"
        );
        let gone = released_extents(&old, &version);
        self.shared.versions.publish(version);
        let store = &self.shared.home.store;
        let epoch = store.epochs().current();
        for extent in gone {
            store.extents().release(extent, epoch);
        }
    }

    /// Raises the structure's cut without changing its contents.
    pub(super) fn raise_cut(&self, cut: SequenceNumber) {
        let _kept = self.shared.kept.lock();
        let old = self.version();
        self.shared.versions.publish(HashedVersion {
            stamp: old.stamp.advanced(cut),
            ..(*old).clone()
        });
    }

    /// Writes the root for the current contents unless it has already been written. The contents do
    /// not change until the returned value is dropped.
    pub(super) fn write_checkpoint_root(&self) -> Result<CheckpointRoot<'_>> {
        let HashedCore { home, options, .. } = &*self.shared;
        let mut kept = self.shared.kept.lock();
        let version = self.version();
        let encode = || HashedContents::of(&version, options).encode();
        let root = kept
            .root
            .write(&home.store, &version.stamp, INLINE, encode)?
            .to_vec();
        Ok(CheckpointRoot::new(root, version.stamp.cut, kept))
    }
}

/// Returns the extents of each run, filter and list in a version, keyed by the location of its
/// description.
fn places(version: &HashedVersion) -> Vec<((u8, u64, u32), Vec<Extent>)> {
    let place = |pointer: &ValuePointer| (pointer.node.tier, pointer.node.offset, pointer.at);
    let extents = |extents: &mut dyn Iterator<Item = (Extent, u64)>| -> Vec<Extent> {
        extents.map(|(extent, _)| extent).collect()
    };
    let runs = version.runs();
    let runs = runs.map(|run: &HashRun| (place(run.pointer()), extents(&mut run.extents())));
    let filters = version.filters();
    let filters = filters.map(|filter| (place(filter.pointer()), extents(&mut filter.extents())));
    let lists = version.lists().into_iter();
    let lists = lists.map(|list| (place(list.pointer()), extents(&mut list.extents())));
    lists.chain(filters).chain(runs).collect()
}

/// Returns the extents of all runs, filters and lists in `old` that are not in `new`.
fn released_extents(old: &HashedVersion, new: &HashedVersion) -> Vec<Extent> {
    let stay: BTreeSet<(u8, u64, u32)> = places(new).into_iter().map(|(place, _)| place).collect();
    let gone = places(old).into_iter().filter(|(place, _)| !stay.contains(place));
    gone.flat_map(|(_, extents)| extents).collect()
}

/// Callback for a run, filter or list that cannot be read. If it returns an error, the structure is
/// not opened and that error is returned.
type LossHandler<'l> = dyn FnMut(ObjectName, Error) -> Result<()> + 'l;

/// What an opened structure is assembled from.
type OpenedStructure = (StructureContext, HashedOptions, HashedVersion, HashedWriterState);

/// Reads the contents of a structure from its root and opens the runs, filters and lists. Calls
/// `lose` for each one that cannot be read.
fn read(
    home: StructureContext,
    options: &HashedOptions,
    root: &[u8],
    cut: SequenceNumber,
    lose: &mut LossHandler<'_>,
) -> Result<OpenedStructure> {
    let store = &home.store;
    let page_size = store.page_size();
    let (root, contents) = RootWriter::open(store, root, &place(), |bytes, place| {
        HashedContents::decode(bytes, place, page_size)
    })?;
    let options = HashedOptions {
        form: contents.form,
        seed: contents.seed,
        index: contents.index,
        parts_log: contents.parts_log,
        ..options.clone()
    };
    let opened = open_runs(store, &contents, lose)?;
    let young = opened.trimmed(&options);
    let version = HashedVersion {
        stamp: VersionStamp::first(cut),
        young,
        ..opened
    };
    let kept = HashedWriterState {
        root,
        ..HashedWriterState::default()
    };
    Ok((home, options, version, kept))
}

/// Opens the routing tree of a level. `runs` are the runs that could be opened, and `lost` are the
/// indexes of the others. Returns `None` if no run is left.
fn open_level_tree(
    store: &Arc<Store>,
    contents: &HashedContents,
    tree: &TreeName,
    (runs, lost): (&[LevelRun], &[usize]),
    lose: &mut dyn FnMut(Error) -> Result<()>,
) -> Result<Option<LevelTree>> {
    let holding = |tier, offset| store.extents().extent_at(tier, offset);
    let files = DataFiles::of(store);
    let bits = (contents.parts_log, contents.form.character_bits());
    let mut root = tree.open(bits.0, bits.1, &mut |pointer, head| {
        let list = RoutingList::open(files, pointer, Purpose::Recovery);
        match list.and_then(|list| list.required(head)?.mapped(holding)) {
            Ok(list) => Ok(Some(list)),
            Err(error) => lose(error).map(|()| None),
        }
    })?;
    for &run in lost.iter().rev() {
        root = root.without_leaf(run);
    }
    match runs.is_empty() {
        true => Ok(None),
        false => Ok(Some(LevelTree::new(root, tree.is_settled, runs))),
    }
}

/// Opens the runs and filters that the contents refer to.
fn open_runs(
    store: &Arc<Store>,
    contents: &HashedContents,
    lose: &mut LossHandler<'_>,
) -> Result<HashedVersion> {
    let holding = |tier, offset| store.extents().extent_at(tier, offset);
    let files = DataFiles::of(store);
    let open = |name, pointer: &ValuePointer, base, lose: &mut LossHandler<'_>| {
        let run = HashRun::open(files, pointer, base, Purpose::Recovery);
        let run = run.and_then(|run| run.seeded(contents.seed).mapped(holding));
        match run {
            Ok(run) => Ok(Some(run)),
            Err(error) => lose(name, error).map(|()| None),
        }
    };
    let mut version = HashedVersion {
        next_age: contents.next_age,
        ..HashedVersion::default()
    };
    for young in &contents.young {
        let run = open(ObjectName::Young, &young.run, young.base, lose)?;
        let kept = run.map(|run| Arc::new(HashStore { age: young.age, run }));
        version.young.extend(kept);
    }
    // A part that has lost a run no longer contains all data that it had merged, so lookups of its
    // hashes read all remaining hash stores again.
    let least = contents.parts.iter().map(|part| part.upto).min().unwrap_or(0);
    for (number, name) in contents.parts.iter().enumerate() {
        let (mut part, mut has_lost) = (HashPartition::default(), false);
        let mut filters = Vec::new();
        for (place, named) in name.levels.iter().enumerate() {
            let (mut level, mut lost) = (PartitionLevel::default(), Vec::new());
            for (place, LevelRunName { upto, run }) in named.runs.iter().enumerate() {
                let run = open(ObjectName::Part(number), run, 0, lose)?;
                let upto = *upto;
                lost.extend(run.is_none().then_some(place));
                level.runs.extend(run.map(|run| LevelRun { upto, run }));
            }
            if let Some(tree) = &named.tree {
                let lose = &mut |error| lose(ObjectName::List(number), error);
                level.tree = open_level_tree(store, contents, tree, (&level.runs, &lost), lose)?;
            }
            // A filter refers to runs by index, so it is unusable if a run of its level is lost.
            let is_whole = level.runs.len() == named.runs.len();
            has_lost |= !is_whole;
            filters.extend(named.filter.filter(|_| is_whole).map(|filter| (place, filter)));
            part.levels.push(level);
        }
        let newest = part.runs().next().map_or(0, |run| run.upto);
        part.upto = match has_lost && newest <= least {
            true => least,
            false => name.upto,
        };
        for (place, pointer) in filters {
            let filter = RoutingFilter::open(files, &pointer, Purpose::Recovery);
            let filter = filter.and_then(|filter| {
                let runs = part.levels[place].runs.len();
                filter.required(runs, contents.parts_log)?.mapped(holding)
            });
            match filter {
                Ok(filter) => part.levels[place].filter = Some(filter),
                Err(error) => lose(ObjectName::Filter(number), error)?,
            }
        }
        part.trim();
        version.parts.push(Arc::new(part));
    }
    Ok(version)
}

/// Returns the location of a structure's root, for error messages. The structure's owner stores the
/// root, so its real location is unknown here.
pub(super) fn place() -> DiskLocation {
    DiskLocation::new(OnDiskObject::Node, "the root of a hashed structure", 0)
}
