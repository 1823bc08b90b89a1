//! The dictionary: its state, and how it is created, opened, updated and committed.

use super::counters::AffineCounters;
use super::error::{Error, Result};
use super::format::{MOST_OWN, RootRecord};
use super::node::{BoxedBytes, InnerNode, MESSAGE_HEAD, PivotLocation, TreeMessage};
use super::options::AffineOptions;
use super::space::NodeSpace;
use alluvium_trees::paged::node::{MessageAction, UpdateOperator};
use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

/// An ordered dictionary with proven costs in the affine model.
///
/// Writes go to the root, in memory, and steps move them to disk. Committed writes survive a
/// crash; later writes do not.
///
/// ```
/// use research_trees::affine::{AffineOptions, AffineTree, MemorySpace};
/// use alluvium_trees::paged::node::ReplaceOperator;
/// use std::sync::Arc;
/// let options = AffineOptions { node_bytes: 8192, fanout: 8, ..AffineOptions::default() };
/// let mut tree = AffineTree::create(MemorySpace::new(1 << 20), options, Arc::new(ReplaceOperator))?;
/// tree.insert(b"Elbe", b"1094")?;
/// tree.insert(b"Oder", b"840")?;
/// tree.delete(b"Elbe")?;
/// assert_eq!(tree.get(b"Oder")?.unwrap(), b"840");
/// assert_eq!(tree.get(b"Elbe")?, None);
/// tree.commit(b"")?;
/// let space = tree.space().crashed();
/// let (tree, _) = AffineTree::open(space, 0, Arc::new(ReplaceOperator))?;
/// assert_eq!(tree.get(b"Oder")?.unwrap(), b"840");
/// # Ok::<(), research_trees::affine::Error>(())
/// ```
pub struct AffineTree<S> {
    pub(super) space: S,
    pub(super) options: AffineOptions,
    pub(super) operator: Arc<dyn UpdateOperator>,
    /// The root, which is always in memory, with the messages for its children.
    pub(super) root: InnerNode,
    /// The number of nodes at each height, leaves first.
    pub(super) levels: Vec<u64>,
    /// Nodes at this height and above are in memory.
    pub(super) resident_height: u8,
    /// The root's location in the last commit.
    pub(super) durable_root: Option<super::space::SpaceExtent>,
    pub(super) figures: AffineCounters,
    broken: OnceCell<String>,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushProgress {
    /// Messages were moved; another step may be necessary.
    Moved,
    /// There was nothing to do.
    Done,
}

impl<S: NodeSpace> AffineTree<S> {
    /// Creates an empty dictionary in a space and commits it.
    ///
    /// # Errors
    /// [`Error::BadOption`], or an error of the space.
    pub fn create(
        space: S,
        options: AffineOptions,
        operator: Arc<dyn UpdateOperator>,
    ) -> Result<AffineTree<S>> {
        let mut tree = AffineTree::empty(space, options.checked()?, operator);
        let leaf = tree.write_leaf(BoxedBytes::default(), &[])?;
        tree.root.children.push(leaf);
        tree.commit(b"")?;
        Ok(tree)
    }

    fn empty(space: S, options: AffineOptions, operator: Arc<dyn UpdateOperator>) -> AffineTree<S> {
        let root = InnerNode {
            height: 1,
            children: Vec::new(),
        };
        AffineTree {
            space,
            options,
            operator,
            root,
            levels: vec![0, 1],
            resident_height: 1,
            durable_root: None,
            figures: AffineCounters::default(),
            broken: OnceCell::new(),
        }
    }

    /// Opens a dictionary at its last commit, with the given memory for nodes of its upper
    /// levels. Also returns the bytes that its owner committed.
    ///
    /// # Errors
    /// [`Error::NotADictionary`], [`Error::Damaged`], or an error of the space.
    pub fn open(
        space: S,
        memory_bytes: u64,
        operator: Arc<dyn UpdateOperator>,
    ) -> Result<(AffineTree<S>, Vec<u8>)> {
        let bytes = space.root().ok_or_else(|| Error::NotADictionary {
            place: "the space".to_owned(),
            why: "nothing was committed in it".to_owned(),
        })?;
        let root = RootRecord::decode(&bytes, memory_bytes)?;
        let mut tree = AffineTree::empty(space, root.options, operator);
        let link = super::node::NodeLink {
            extent: root.extent,
            pivots: PivotLocation::Front(root.front.0, root.front.1),
        };
        let height = root.levels.len() as u8 - 1;
        tree.root = tree.load_root(&link, height)?;
        tree.levels = root.levels;
        tree.durable_root = Some(root.extent);
        tree.resident_height = height;
        tree.choose_resident()?;
        Ok((tree, root.own))
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`Error::TooLong`] for a pair that does not fit in a segment; [`Error::Poisoned`] after an
    /// earlier failure; or an error of the space, after which the dictionary refuses work.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(key, MessageAction::Insert, value)
    }

    /// Merges an operand into the value of a key with the operator, if the key exists (an upsert
    /// of the source).
    ///
    /// # Errors
    /// The errors of [`AffineTree::insert`]. If updates have made a value too long, the
    /// dictionary fails when the update reaches the leaf.
    pub fn update(&mut self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.write(key, MessageAction::Update, operand)
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// The errors of [`AffineTree::insert`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.write(key, MessageAction::Delete, &[])
    }

    fn write(&mut self, key: &[u8], action: MessageAction, operand: &[u8]) -> Result<()> {
        self.enqueue_message(key, action, operand)?;
        while self.step()? == FlushProgress::Moved {}
        Ok(())
    }

    /// Adds a message to the root, in memory. [`AffineTree::step`] moves messages down. Until it
    /// has nothing to do, a buffer may exceed its limit (AF1).
    ///
    /// # Errors
    /// The errors of [`AffineTree::insert`].
    pub fn enqueue_message(&mut self, key: &[u8], action: MessageAction, operand: &[u8]) -> Result<()> {
        self.ensure_usable()?;
        let (len, limit) = (
            MESSAGE_HEAD + key.len() + operand.len(),
            self.options.pair_limit(),
        );
        if len > limit || key.len() > usize::from(u16::MAX) {
            return Err(Error::TooLong { len, limit });
        }
        let message = TreeMessage {
            key: key.into(),
            action,
            operand: operand.into(),
        };
        let at = self.root.find(key);
        let buffer = &mut self.root.children[at].buffer;
        let message = match buffer.get(key) {
            Some(older) => super::node::combine_messages(&*self.operator, older, message),
            None => message,
        };
        if message.bytes() > limit {
            let len = message.bytes();
            return Err(Error::TooLong { len, limit });
        }
        buffer.put(message);
        Ok(())
    }

    /// Flushes one child of the root whose buffer exceeds its limit, together with the flushes,
    /// splits and rebuilds that this causes below.
    ///
    /// # Errors
    /// Errors of the space, after which the dictionary refuses work.
    pub fn step(&mut self) -> Result<FlushProgress> {
        self.ensure_usable()?;
        let Some(at) = self.find_overfull_child(&self.root) else {
            return Ok(FlushProgress::Done);
        };
        let moved = self.flush_root(at);
        self.poison_on_error(moved)?;
        Ok(FlushProgress::Moved)
    }

    /// Makes all writes durable, with up to 512 bytes of the owner's data.
    ///
    /// # Errors
    /// Errors of the space: the previous commit remains valid, and the dictionary refuses work.
    ///
    /// # Panics
    /// When the owner's data is longer.
    pub fn commit(&mut self, own: &[u8]) -> Result<()> {
        assert!(own.len() <= MOST_OWN, "an owner has {MOST_OWN} bytes at most");
        self.ensure_usable()?;
        let done = self.write_out(own);
        self.poison_on_error(done)
    }

    fn write_out(&mut self, own: &[u8]) -> Result<()> {
        let mut root = std::mem::replace(
            &mut self.root,
            InnerNode {
                height: 1,
                children: Vec::new(),
            },
        );
        self.store_dirty(&mut root)?;
        let (link, _) = self.store_root(&root)?;
        self.root = root;
        let PivotLocation::Front(bytes, sum) = link.pivots else {
            unreachable!("the pivots of the root have no parent");
        };
        if let Some(before) = self.durable_root.take() {
            self.free(before);
        }
        let kept = RootRecord {
            options: self.options,
            extent: link.extent,
            front: (bytes, sum),
            levels: self.levels.clone(),
            own: own.to_vec(),
        };
        self.space.commit(&kept.encode())?;
        self.durable_root = Some(link.extent);
        Ok(())
    }

    #[must_use]
    pub fn space(&self) -> &S {
        &self.space
    }

    #[must_use]
    pub fn options(&self) -> &AffineOptions {
        &self.options
    }

    /// Returns the counters since the dictionary was opened.
    #[must_use]
    pub fn figures(&self) -> &AffineCounters {
        &self.figures
    }

    /// Returns the root's height: the number of levels below it.
    #[must_use]
    pub fn height(&self) -> u8 {
        self.root.height
    }

    /// Returns the number of nodes at each height, leaves first.
    #[must_use]
    pub fn levels(&self) -> &[u64] {
        &self.levels
    }

    /// Returns the lowest height whose nodes are in memory. With V2 and V3 a query performs one
    /// read for each level below it.
    #[must_use]
    pub fn resident_height(&self) -> u8 {
        self.resident_height
    }

    /// Returns an error if the dictionary is poisoned.
    pub(super) fn ensure_usable(&self) -> Result<()> {
        match self.broken.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
        }
    }

    /// Poisons the dictionary if a step failed: messages that the step removed from a node may be
    /// lost.
    pub(super) fn poison_on_error<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.broken.get_or_init(|| error.to_string());
        }
        result
    }

    /// Returns the child with the largest buffer, if the buffer exceeds the limit of a segment
    /// (AF1).
    pub(super) fn find_overfull_child(&self, node: &InnerNode) -> Option<usize> {
        let limit = self.options.segment_bytes();
        let sizes = node.children.iter().map(|child| child.buffer.bytes()).enumerate();
        let (at, most) = sizes.max_by_key(|&(at, bytes)| (bytes, std::cmp::Reverse(at)))?;
        (most > limit).then_some(at)
    }
}

impl<S> fmt::Debug for AffineTree<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AffineTree")
            .field("options", &self.options)
            .field("levels", &self.levels)
            .finish_non_exhaustive()
    }
}
