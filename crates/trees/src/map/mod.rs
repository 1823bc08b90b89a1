//! An ordered map in memory: the simplest dictionary. Each checkpoint writes the whole map.
//!
//! It is meant for small data sets, and for tests of the contract between the store and its
//! dictionaries. Every change copies the list of keys.
//!
//! A map can also be volatile, in which case a checkpoint writes an empty map.
//!
//! *Scope*: which messages of each key readers may still need; how they are read and written.
//!
//! *Must not depend on*: threads, clocks, transactions; who assigns sequence numbers; when a
//! memtable is sealed; when a checkpoint is due.
//!
//! Invariants:
//!
//! - **P1** A version never changes. A lookup, and each call of a scan, reads only one version.
//! - **P2** A version has every message for its keys that a reader at or above the horizon may
//!   need. A range delete is stored as a delete of each key that it covers.
//! - **P3** A key's messages are ordered from newest to oldest. None of them has a sequence number
//!   above the version's cut, which is the sequence number up to which the version contains all
//!   commits.

mod check;
mod contract;
pub mod format;
mod incorporate;
mod ingest;
mod read;
mod scan;

pub use alluvium_dictionary::structure_context::StructureContext;
pub use check::{check_files, reached};
pub(crate) use incorporate::newest_first;
pub use incorporate::{MapIncorporation, MapRewrite};
pub use ingest::MemoryIngest;
pub(crate) use ingest::{MemoryLayer, MemoryLayerTarget};
pub use read::MapReader;
pub use scan::MapIter;
pub(crate) use scan::in_memtable;

use alluvium_base::{Message, MessageKind, SequenceNumber};
use alluvium_dictionary::checkpoint_root::CheckpointRoot;
use alluvium_dictionary::versioned::{self, RootWriter, VersionCell, VersionStamp};
use alluvium_storage::{DiskLocation, OnDiskObject, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Maximum size in bytes of encoded contents that are stored in the checkpoint root itself. Larger
/// contents are stored in separate nodes.
const INLINE: usize = 8 << 10;

/// A message for a key in the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapRecord {
    /// The sequence number of the commit that wrote the message. It is zero once the number no
    /// longer matters to any reader.
    pub sequence: SequenceNumber,
    pub kind: MessageKind,
    /// The time at which a put expires, in milliseconds; 0 if it never expires.
    pub expires_ms: u64,
    pub operand: Box<[u8]>,
}

impl MapRecord {
    pub(crate) fn message(&self) -> Message<'_> {
        Message {
            sequence: self.sequence,
            kind: self.kind,
            expires_ms: self.expires_ms,
            operand: &self.operand,
        }
    }
}

/// The keys of a map, each with its messages from newest to oldest.
pub type MapRecords = BTreeMap<Arc<[u8]>, Arc<[MapRecord]>>;

/// A version: an immutable state of the map (P1).
#[derive(Debug, Default)]
pub struct MapVersion {
    stamp: VersionStamp,
    keys: MapRecords,
    /// Total bytes of all keys and operands.
    bytes: u64,
    /// The time in milliseconds at which enough values will have expired to justify a rewrite;
    /// `u64::MAX` if too few values ever expire.
    stale_from_ms: u64,
}

impl versioned::StructureVersion for MapVersion {
    fn stamp(&self) -> &VersionStamp {
        &self.stamp
    }
}

/// Whether the contents of a map outlast the closing of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MapLifetime {
    /// Checkpoints write the contents of the map.
    BeyondOpening,
    /// Checkpoints write an empty map instead of the contents.
    WhileOpen,
}

/// An ordered map in memory. All methods may be called from any thread. Clones refer to the same
/// map.
#[derive(Clone)]
pub struct OrderedMap {
    shared: Arc<MapInner>,
}

struct MapInner {
    home: StructureContext,
    lasts: MapLifetime,
    versions: VersionCell<MapVersion>,
    /// Writes the checkpoint root. The mutex is locked during every change of the map.
    root: Mutex<RootWriter>,
    /// Whether a rewrite of the whole map has been requested.
    is_stale: AtomicBool,
}

impl fmt::Debug for OrderedMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.shared.versions.peek();
        f.debug_struct("OrderedMap")
            .field("keys", &version.keys.len())
            .field("cut", &version.stamp.cut)
            .finish_non_exhaustive()
    }
}

impl OrderedMap {
    /// Creates an empty map that counts as containing all commits up to `cut`. None of these
    /// commits may have written to the map.
    ///
    /// ```
    /// use alluvium_base::{Message, message::MAX_SEQUENCE};
    /// use alluvium_device::memory::MemoryDirectory;
    /// use alluvium_dictionary::contract::{Dictionary, PointLookup};
    /// use alluvium_dictionary::key::LookupKey;
    /// use alluvium_dictionary::lookup;
    /// use alluvium_dictionary::lookup_state::LookupState;
    /// use alluvium_dictionary::memtable::Memtable;
    /// use alluvium_dictionary::memtable_slice::MemtableSlice;
    /// use alluvium_dictionary::rules::OneKeyspace;
    /// use alluvium_storage::extents::AllocationClass;
    /// use alluvium_storage::store::{Store, StoreOptions};
    /// use alluvium_trees::map::{OrderedMap, StructureContext};
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
    /// let map = OrderedMap::create(home.clone(), 0);
    /// let memtable = Memtable::new(1 << 20);
    /// memtable
    ///     .insert(b"Elbe", Message::put(1, b"1094 km"))
    ///     .unwrap();
    /// let mut taking = map.incorporate(
    ///     MemtableSlice::whole(Arc::new(memtable), 1),
    ///     AllocationClass::Normal,
    /// )?;
    /// taking.poll(usize::MAX)?;
    /// taking.publish()?;
    /// let root = map.checkpoint_root()?.root;
    /// let map = OrderedMap::open(home, &root, 1)?;
    /// let mut gather = LookupState::new(MAX_SEQUENCE, 0, None);
    /// lookup::gather(&map.reader(), LookupKey::new(b"Elbe"), &mut gather)?;
    /// assert_eq!(gather.finish().unwrap(), b"1094 km");
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    #[must_use]
    pub fn create(home: StructureContext, cut: SequenceNumber) -> OrderedMap {
        let version = MapVersion {
            stamp: VersionStamp::first(cut),
            ..MapVersion::default()
        };
        OrderedMap::assemble(home, version, RootWriter::default(), MapLifetime::BeyondOpening)
    }

    /// Creates an empty volatile map. Checkpoints write an empty map instead of its contents, so it
    /// is empty again after the store has been reopened.
    #[must_use]
    pub fn create_volatile(home: StructureContext, cut: SequenceNumber) -> OrderedMap {
        let version = MapVersion {
            stamp: VersionStamp::first(cut),
            ..MapVersion::default()
        };
        OrderedMap::assemble(home, version, RootWriter::default(), MapLifetime::WhileOpen)
    }

    /// Opens the map that a checkpoint root refers to. The checkpoint contains all commits up to
    /// `cut`.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) if the root or the contents are
    /// damaged; I/O errors.
    pub fn open(home: StructureContext, root: &[u8], cut: SequenceNumber) -> Result<OrderedMap> {
        let (root, keys) = RootWriter::open(&home.store, root, &place(), format::decode)?;
        let version = MapVersion {
            stamp: VersionStamp::first(cut),
            bytes: keys.iter().map(|(key, entries)| bytes_of(key, entries)).sum(),
            stale_from_ms: stale_from_ms(&keys),
            keys,
        };
        Ok(OrderedMap::assemble(
            home,
            version,
            root,
            MapLifetime::BeyondOpening,
        ))
    }

    fn assemble(
        home: StructureContext,
        version: MapVersion,
        root: RootWriter,
        lasts: MapLifetime,
    ) -> OrderedMap {
        OrderedMap {
            shared: Arc::new(MapInner {
                home,
                lasts,
                versions: VersionCell::new(version),
                root: Mutex::new(root),
                is_stale: AtomicBool::new(false),
            }),
        }
    }

    fn version(&self) -> Arc<MapVersion> {
        self.shared.versions.load()
    }

    /// Changes the map: `change` modifies a copy of the current keys and messages, which is
    /// published as a new version before this function returns. `cut` is the cut of the new
    /// version; `None` keeps the current cut.
    fn change<T>(&self, cut: Option<SequenceNumber>, change: impl FnOnce(&mut MapRecords) -> T) -> T {
        let _root = self.shared.root.lock();
        let old = self.version();
        let mut keys = old.keys.clone();
        let result = change(&mut keys);
        let cut = cut.unwrap_or(old.stamp.cut);
        let version = MapVersion {
            stamp: match keys == old.keys {
                true => old.stamp.advanced(cut),
                false => old.stamp.changed(cut),
            },
            bytes: keys.iter().map(|(key, entries)| bytes_of(key, entries)).sum(),
            stale_from_ms: stale_from_ms(&keys),
            keys,
        };
        debug_assert!(
            version.keys.values().all(|entries| !entries.is_empty()),
            "a key without messages is not kept"
        );
        debug_assert!(
            version.keys.values().all(|entries| entries[0].sequence <= cut),
            "no message is above the cut (P3)"
        );
        self.shared.versions.publish(version);
        result
    }

    /// Writes the checkpoint root of the current version, unless it has already been written. The
    /// returned [`CheckpointRoot`] keeps the mutex locked, so the map cannot change until the
    /// returned value is dropped.
    fn write_checkpoint_root(&self) -> Result<CheckpointRoot<'_>> {
        let mut writer = self.shared.root.lock();
        let version = self.version();
        let encode = || match self.shared.lasts {
            MapLifetime::BeyondOpening => format::encode(&version.keys),
            MapLifetime::WhileOpen => format::encode(&MapRecords::new()),
        };
        let root = writer
            .write(&self.shared.home.store, &version.stamp, INLINE, encode)?
            .to_vec();
        Ok(CheckpointRoot::new(root, version.stamp.cut, writer))
    }
}

/// A rewrite is due once one in this many keys has an expired value. Rewriting earlier would not
/// pay, because a rewrite copies the list of all keys.
const EXPIRED_PART: usize = 8;

/// Returns the time in milliseconds from which a rewrite is justified, or `u64::MAX` if it never
/// will be.
fn stale_from_ms(keys: &MapRecords) -> u64 {
    let expiry = |entries: &Arc<[MapRecord]>| {
        let expiring = entries.iter().filter(|entry| entry.expires_ms != 0);
        expiring.map(|entry| entry.expires_ms).min()
    };
    let mut expiries: Vec<u64> = keys.values().filter_map(expiry).collect();
    let wanted = keys.len().div_ceil(EXPIRED_PART);
    if wanted == 0 || expiries.len() < wanted {
        return u64::MAX;
    }
    debug_assert!(expiries.iter().all(|expiry| *expiry > 0), "0 means never");
    *expiries.select_nth_unstable(wanted - 1).1
}

fn bytes_of(key: &[u8], entries: &[MapRecord]) -> u64 {
    let operands: usize = entries.iter().map(|entry| entry.operand.len()).sum();
    (key.len() + operands) as u64
}

/// The location of the map's root for error messages. The owner of the map stores the root.
fn place() -> DiskLocation {
    DiskLocation::new(OnDiskObject::Node, "the root of a map", 0)
}
