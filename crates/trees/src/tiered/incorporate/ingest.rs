//! Ingest: runs that are built outside of the tree, from records that come in order, and become its
//! newest bundle at once.

use crate::maplet::{self, Maplet};
use crate::run::{Builder, Built};
use crate::tiered::compact::compaction_bytes;
use crate::tiered::trunk::{Group, Part, Rank, Trunk};
use alluvium_base::{Message, Purpose, Sequence};
use alluvium_dictionary::record::Record;
use alluvium_dictionary::rules::Keyspace;
use alluvium_storage::extents::Class;
use alluvium_storage::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Records that come in the order of their keys, on their way into a tree. Each push is a slice of
/// the work; between two of them, and from one thread to another, it can be kept as long as one
/// likes. Dropped, it leaves nothing behind, and nor does a crash before it is attached.
///
/// All its records have one sequence number, which is known only when it is attached. In its runs
/// it is 0; the trunk says what it is where it names them (T10).
///
/// ```
/// use alluvium_base::message::LAST;
/// use alluvium_device::memory::MemoryDirectory;
/// use alluvium_storage::extents::Class;
/// use alluvium_storage::store::{Store, StoreOptions};
/// use alluvium_trees::tiered::{Tree, TreeOptions};
/// use std::sync::Arc;
/// let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
/// let tree = Tree::create(Arc::new(store), TreeOptions::default());
/// let mut ingest = tree.ingest(Class::Normal)?;
/// ingest.push(b"lake", b"Como", 0)?;
/// ingest.push(b"river", b"Oder", 0)?;
/// assert!(ingest.push(b"pond", b"", 0).is_err(), "out of order");
/// assert_eq!(tree.get(b"river", LAST, 0)?, None);
/// ingest.attach(1)?;
/// assert_eq!(tree.get(b"river", LAST, 0)?, Some(b"Oder".to_vec()));
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Debug)]
pub struct Ingest {
    trunk: Arc<Trunk>,
    class: Class,
    keyspace: Keyspace,
    builder: Option<Builder>,
    /// Bytes of the keys and values that the builder has taken, and how many records.
    filled: u64,
    building: u64,
    written: Vec<(Built, maplet::Written)>,
    /// Memory of those.
    opened_bytes: u64,
    last: Option<Vec<u8>>,
    records: u64,
    bytes: u64,
}

impl Ingest {
    /// Begins an ingest. `class` says whether it may use the reserve of space.
    ///
    /// # Errors
    /// [`Error::Poisoned`] when the store refuses changes.
    pub(crate) fn new(trunk: &Arc<Trunk>, class: Class) -> Result<Ingest> {
        trunk.store.health()?;
        Ok(Ingest {
            trunk: Arc::clone(trunk),
            class,
            keyspace: Keyspace::new(&trunk.options.schema),
            builder: None,
            filled: 0,
            building: 0,
            written: Vec::new(),
            opened_bytes: 0,
            last: None,
            records: 0,
            bytes: 0,
        })
    }

    /// Takes a put; `expires_ms` is 0 when it never expires.
    ///
    /// # Errors
    /// [`Error::BadOption`] when the key is not above the one before; nothing was taken then.
    /// [`Error::Full`] when the store is full, and as the device says: the ingest can only be
    /// dropped then.
    ///
    /// # Panics
    /// As [`Builder::push`], when a key or a value is too long.
    pub fn push(&mut self, key: &[u8], value: &[u8], expires_ms: u64) -> Result<()> {
        if let Some(last) = self.last.as_deref().filter(|last| *last >= key) {
            let (key, last) = (key.escape_ascii(), last.escape_ascii());
            return Err(Error::BadOption {
                option: "order of an ingest's keys",
                why: format!(
                    "\"{key}\" comes after \"{last}\": sort them, and leave out all but one of equal ones"
                ),
            });
        }
        let result = self.take(key, value, expires_ms);
        self.trunk.judge(result)
    }

    /// Records taken so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the bytes of keys and values taken so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the bytes of memory that it takes, about.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let building = self.builder.as_ref();
        building.map_or(0, |_| {
            compaction_bytes(self.trunk.store.device(), 0, self.building, 0)
        }) + self.opened_bytes
    }

    fn take(&mut self, key: &[u8], value: &[u8], expires_ms: u64) -> Result<()> {
        let len = (key.len() + value.len()) as u64;
        // Runs no larger than a leaf of the tree are taken over by leaves as they are.
        if self.filled > 0 && self.filled + len > self.trunk.options.shape.node_bytes() {
            self.close()?;
        }
        let builder = match &mut self.builder {
            Some(builder) => builder,
            none => {
                let options = self.trunk.run_options(Purpose::Incorporate, self.class);
                self.keyspace = Keyspace::new(&self.trunk.options.schema);
                none.insert(Builder::new(&self.trunk.store, &options)?)
            }
        };
        if let Some(rules) = self.keyspace.enter(key) {
            builder.begin_keyspace(rules.codec, rules.value_threshold)?;
        }
        let message = Message {
            expires_ms,
            ..Message::put(0, value)
        };
        builder.push(key, Record::from(message))?;
        let last = self.last.get_or_insert_with(Vec::new);
        last.clear();
        last.extend_from_slice(key);
        self.filled += len;
        self.building += 1;
        self.bytes += len;
        self.records += 1;
        Ok(())
    }

    /// Ends a run, and writes its maplet.
    fn close(&mut self) -> Result<()> {
        debug_assert_eq!(
            self.builder.is_some(),
            self.building > 0,
            "a run is begun with its first record"
        );
        self.filled = 0;
        self.building = 0;
        let Some(builder) = self.builder.take() else {
            return Ok(());
        };
        let Some(mut built) = builder.finish()? else {
            return Ok(());
        };
        let hashes = std::mem::take(&mut built.hashes);
        let spec = self.trunk.maplet_spec(Purpose::Incorporate, self.class);
        match Maplet::build(&self.trunk.store, &spec, hashes, 0) {
            Ok(written) => {
                self.opened_bytes += built.run.memory_bytes() as u64 + written.maplet.memory_bytes();
                self.written.push((built, written));
                Ok(())
            }
            Err(error) => {
                built.abandon(&self.trunk.store);
                Err(error)
            }
        }
    }

    /// All its records are in the tree from here on, as if they had been written at `sequence`,
    /// which becomes the tree's cut.
    ///
    /// # Errors
    /// [`Error::Full`] when the store is full, and as the device says: nothing has changed then.
    ///
    /// # Panics
    /// When `sequence` does not follow the tree's cut: whatever was written before must be in the
    /// tree.
    pub fn attach(mut self, sequence: Sequence) -> Result<()> {
        let result = self.close().and_then(|()| self.install(sequence));
        self.trunk.judge(result)
    }

    fn install(&mut self, sequence: Sequence) -> Result<()> {
        let (trunk, written) = (&self.trunk, &self.written);
        assert_eq!(
            trunk.peek().cut + 1,
            sequence,
            "an ingest is attached when all that was written before is in the tree"
        );
        let part = |(built, maplet): &(Built, maplet::Written)| {
            let run = built.run.clone().based(sequence);
            Part {
                group: Arc::new(Group::new(trunk.next_group(), [Some(run)], maplet.maplet.clone())),
                clip: None,
            }
        };
        let parts: Vec<Part> = written.iter().map(part).collect();
        let at_once = trunk.options.shape.fanout;
        trunk.change(Some(sequence), |_, shaper, root| {
            let mut root = root.draft();
            // Few at a time: each few sink before the next come, and no node ever lists all of
            // them.
            for parts in parts.chunks(at_once) {
                let received = shaper.receive(&root, parts.to_vec())?;
                let nodes = shaper.settle(received, Rank::Root)?;
                root = shaper.crown(nodes);
            }
            // Nothing can fail any more: what was written becomes part of the generation being
            // built.
            for (built, maplet) in written {
                trunk.install_extents(&built.run, &built.extents, &maplet.extents);
            }
            Ok(Some(root))
        })?;
        let bytes =
            |(built, written): (Built, maplet::Written)| built.run.summary().bytes + written.maplet.bytes();
        let bytes = self.written.drain(..).map(bytes).sum();
        let tallies = &self.trunk.tallies;
        tallies.incorporated_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        for (built, maplet) in self.written.drain(..) {
            built.abandon(&self.trunk.store);
            maplet.abandon(&self.trunk.store);
        }
    }
}
