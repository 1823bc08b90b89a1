//! Ingest: layers of runs that are built outside of the tree, and become its newest bundles at
//! once.

use crate::layers::{How, LayerWalk, Layers, Piece};
use crate::merge_memory::merge_bytes;
use crate::tiered::trunk::{Group, Part, Rank, Trunk};
use alluvium_base::{Message, Purpose, Sequence};
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::Result;
use alluvium_storage::extents::Class;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Messages that come in layers, on their way into a tree. Each push is a slice of the work;
/// between two of them, and from one thread to another, it can be kept as long as one likes.
/// Dropped, it leaves nothing behind, and nor does a crash before it is attached.
///
/// The sequence numbers of its messages are known only when it is attached. In its runs they are 0;
/// the trunk says what they are where it names the runs (T10).
///
/// ```
/// use alluvium_base::Message;
/// use alluvium_base::message::LAST;
/// use alluvium_device::memory::MemoryDirectory;
/// use alluvium_storage::extents::Class;
/// use alluvium_storage::store::{Store, StoreOptions};
/// use alluvium_trees::tiered::{Tree, TreeOptions};
/// use std::sync::Arc;
/// let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
/// let tree = Tree::create(Arc::new(store), TreeOptions::default());
/// let mut ingest = tree.ingest(Class::Normal)?;
/// ingest.push(b"lake", Message::put(0, b"Como"))?;
/// ingest.push(b"river", Message::put(0, b"Oder"))?;
/// assert!(ingest.push(b"pond", Message::put(0, b"")).is_err(), "out of order");
/// ingest.end_layer()?;
/// ingest.push(b"lake", Message::delete(0))?;
/// ingest.end_layer()?;
/// assert_eq!(tree.get(b"river", LAST, 0)?, None);
/// ingest.attach(1)?;
/// assert_eq!(tree.get(b"river", LAST, 0)?, Some(b"Oder".to_vec()));
/// assert_eq!(tree.get(b"lake", 1, 0)?, Some(b"Como".to_vec()));
/// assert_eq!(tree.get(b"lake", 2, 0)?, None);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Debug)]
pub struct Ingest {
    trunk: Arc<Trunk>,
    layers: Layers,
}

impl Ingest {
    /// Begins an ingest. `class` says whether it may use the reserve of space.
    ///
    /// # Errors
    /// [`Error::Poisoned`](alluvium_storage::Error::Poisoned) when the store refuses changes.
    pub(crate) fn new(trunk: &Arc<Trunk>, class: Class) -> Result<Ingest> {
        trunk.store.health()?;
        let layers = Layers::new(How {
            store: Arc::clone(&trunk.store),
            schema: Arc::clone(&trunk.options.schema),
            run: trunk.run_options(Purpose::Incorporate, class, 0),
            maplet: trunk.maplet_spec(Purpose::Incorporate, class, 0),
            is_placed: trunk.options.compacted_tier.is_none(),
            // Runs no larger than a leaf of the tree are taken over by leaves as they are.
            run_bytes: trunk.options.shape.node_bytes(),
        });
        Ok(Ingest {
            trunk: Arc::clone(trunk),
            layers,
        })
    }

    /// Adds a message to the newest layer. Its sequence number is not used.
    ///
    /// # Errors
    /// [`Error::BadOption`](alluvium_storage::Error::BadOption) when the key is not above the one
    /// before; nothing was taken then. [`Error::Full`](alluvium_storage::Error::Full) when the
    /// store is full, and as the device says: the ingest can only be dropped then.
    ///
    /// # Panics
    /// As [`Builder::push`](crate::run::Builder::push), when a key or a value is too long; where
    /// the layer has deleted ranges.
    pub fn push(&mut self, key: &[u8], message: Message<'_>) -> Result<()> {
        let result = self.layers.push(key, message);
        self.trunk.judge(result)
    }

    /// Adds a deleted range to the newest layer.
    ///
    /// # Panics
    /// Where the layer has messages.
    pub fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        self.layers.delete_range(start, end);
    }

    /// Ends the newest layer. What comes next is newer than it.
    ///
    /// # Errors
    /// As [`Ingest::push`].
    pub fn end_layer(&mut self) -> Result<()> {
        let result = self.layers.end_layer();
        self.trunk.judge(result)
    }

    /// Returns how many layers have ended.
    #[must_use]
    pub fn layers(&self) -> u64 {
        self.layers.len()
    }

    /// Drops all but the `layers` oldest layers.
    pub fn keep(&mut self, layers: u64) {
        self.layers.keep(layers);
    }

    /// Hands what ended layers say of a key to `gather`, newest first. Layer `n` has the sequence
    /// number `n + 1` there.
    ///
    /// # Errors
    /// As the device says; damage.
    pub fn gather(&self, key: Key<'_>, gather: &mut Gather<'_>) -> Result<()> {
        self.layers.gather(key, gather)
    }

    /// Returns a walk over the keys of a range that ended layers have messages of.
    pub(crate) fn walk(&self, range: &KeyRange, direction: Direction) -> LayerWalk {
        self.layers.walk(range, direction)
    }

    /// Returns how many messages were taken.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.layers.records()
    }

    /// Returns the bytes of keys and values taken so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.layers.bytes()
    }

    /// Returns the bytes of memory that it takes, about.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let building = match self.layers.building() {
            0 => 0,
            records => merge_bytes(self.trunk.store.device(), 0, self.bytes(), records, 0),
        };
        building + self.layers.memory_bytes()
    }

    /// Makes the layers part of the tree, as the commits from `first` on, the oldest layer first.
    /// The tree's cut is the last of them then. What was added since a layer has ended is one more.
    ///
    /// # Errors
    /// [`Error::Full`](alluvium_storage::Error::Full) when the store is full, and as the device
    /// says: nothing has changed then.
    ///
    /// # Panics
    /// When `first` does not follow the tree's cut: whatever was written before must be in the
    /// tree.
    pub fn attach(mut self, first: Sequence) -> Result<()> {
        let result = self.install(first);
        self.trunk.judge(result)
    }

    fn install(&mut self, first: Sequence) -> Result<()> {
        let trunk = &self.trunk;
        assert_eq!(
            trunk.peek().cut + 1,
            first,
            "an ingest is attached when all that was written before is in the tree"
        );
        if self.layers.is_open() {
            self.layers.end_layer()?;
        }
        self.layers.write_deleted_ranges(first)?;
        let last = first + self.layers.len().max(1) - 1;
        let part = |(layer, piece): (u64, &Piece)| {
            let run = piece.built.run.clone().based(first + layer);
            let maplet = piece.maplet.maplet.clone();
            Part {
                group: Arc::new(Group::new(trunk.next_group(), [Some(run)], maplet)),
                clip: None,
            }
        };
        let parts: Vec<Part> = self.layers.pieces().map(part).collect();
        debug_assert!(
            parts
                .iter()
                .all(|part| part.group.runs().all(|(_, run)| run.base() <= last)),
            "no layer is above the cut"
        );
        let at_once = trunk.options.shape.fanout;
        trunk.change(Some(last), |_, shaper, root| {
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
            for (_, piece) in self.layers.pieces() {
                trunk.install_extents(&piece.built.run, &piece.built.extents, &piece.maplet.extents);
            }
            Ok(Some(root))
        })?;
        let handed = self.layers.hand_over();
        let bytes = handed
            .iter()
            .map(|piece| piece.built.run.summary().bytes + piece.maplet.maplet.bytes());
        let tallies = &self.trunk.tallies;
        tallies
            .incorporated_bytes
            .fetch_add(bytes.sum(), Ordering::Relaxed);
        Ok(())
    }
}
