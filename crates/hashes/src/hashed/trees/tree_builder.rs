//! Adding a leaf to the tree of the first level. A root that reaches λ children becomes a child of
//! the next level's root unchanged; only a new root is written there, from the hashes in the
//! digests below.

use super::hashes::DigestMerger;
use super::tree::{LevelTree, RoutingChild, RoutingNode};
use super::{HashLayout, ListHeader, RoutingList, RoutingListCursor, RoutingListWriter, WrittenRoutingList};
use crate::hashed::lists::{PageSource, PrefixSketch};
use crate::hashed::state::{LevelRun, PartitionLevel};
use alluvium_base::Purpose;
use alluvium_storage::Result;
use alluvium_storage::node::WriterOptions;
use alluvium_storage::store::Store;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of pages of an old root read together.
const AHEAD: u64 = 16;

/// Result of adding a leaf: the leaf's lists and those above it are written, but not yet part of a
/// structure.
#[derive(Debug)]
pub(in crate::hashed) struct RoutingTree {
    written: Vec<WrittenRoutingList>,
    root: RoutingNode,
    is_settled: bool,
}

impl RoutingTree {
    /// Returns the tree of a run that a rebuild has written.
    pub(in crate::hashed) fn settled(node: WrittenRoutingList) -> RoutingTree {
        let head = node.stored().head();
        let list = node.stored().clone();
        RoutingTree {
            root: RoutingNode::new(head.cut, head.height, Some(list), vec![RoutingChild::Leaf(None)]),
            written: vec![node],
            is_settled: true,
        }
    }

    /// Returns the number of list entries written.
    pub(in crate::hashed) fn entries(&self) -> u64 {
        self.written
            .iter()
            .map(|written| written.stored().entries())
            .sum()
    }
}

/// Adds a leaf to the trees. If it is dropped unfinished, its space is freed.
#[derive(Debug)]
pub(in crate::hashed) struct RoutingTreeBuilder {
    store: Arc<Store>,
    options: WriterOptions,
    cut: HashLayout,
    /// Previous roots; that of level i has height i + 1.
    roots: Vec<Option<RoutingNode>>,
    /// Height of the root being written.
    height: u8,
    /// The new child of that root.
    child: RoutingChild,
    root: Option<Box<RootBuilder>>,
    written: Vec<WrittenRoutingList>,
}

/// Writes a new root from the entries of the old one and the hashes of a new child.
#[derive(Debug)]
struct RootBuilder {
    old: Option<RoutingListCursor<'static>>,
    /// Next entry of the old root.
    head: Option<PrefixSketch>,
    hashes: DigestMerger,
    /// Next hash of the new child.
    arriving: Option<u64>,
    node: RoutingListWriter,
    /// New digest of the child, if its hashes are rewritten.
    digest: Option<RoutingListWriter>,
    child: usize,
    twins: DuplicateEstimator,
    hidden: u64,
}

/// Counts keys that also have a record in an older child.
///
/// Entries with the same prefix and the same sketch usually belong to the same key. The expected
/// number of random matches is computed and subtracted.
#[derive(Debug, Default)]
struct DuplicateEstimator {
    prefix: u64,
    /// Number of entries of the old root with the prefix, by sketch.
    sketches: BTreeMap<u64, u64>,
    entries: u64,
    found: u64,
    pairs: u64,
}

impl DuplicateEstimator {
    fn at(&mut self, prefix: u64) {
        if self.prefix != prefix {
            self.prefix = prefix;
            self.sketches.clear();
            self.entries = 0;
        }
    }

    fn old(&mut self, prefix: u64, sketch: u64) {
        self.at(prefix);
        *self.sketches.entry(sketch).or_default() += 1;
        self.entries += 1;
    }

    fn arrives(&mut self, prefix: u64, sketch: u64) {
        self.at(prefix);
        let same = self.sketches.get(&sketch).copied().unwrap_or(0);
        self.found += u64::from(same > 0);
        self.pairs += self.entries.saturating_sub(same);
    }

    /// Returns the estimated number of such keys, for sketches with two characters of `bits` bits.
    fn count(&self, bits: u8) -> u64 {
        self.found.saturating_sub(self.pairs >> (2 * bits))
    }
}

impl RootBuilder {
    /// Writes up to `most` entries. Returns whether all are written.
    fn go_on(&mut self, most: usize) -> Result<bool> {
        for _ in 0..most {
            if self.arriving.is_none() {
                self.arriving = self.hashes.next()?;
            }
            let head = self.node.head();
            let entry = self.arriving.map(|hash| head.entry(hash, self.child));
            match (self.head, entry) {
                // The old root's entries of a prefix are older, and precede the new ones (V2).
                (Some(old), entry) if entry.is_none_or(|entry| old.prefix <= entry.prefix) => {
                    self.take_old(old)?;
                }
                (_, Some(entry)) => self.take(entry)?,
                (_, None) => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Writes the entry of the new child's next hash, and the hash to the digest.
    fn take(&mut self, entry: PrefixSketch) -> Result<()> {
        let hash = self.arriving.take().expect("the entry is of a hash");
        self.twins
            .arrives(entry.prefix, entry.payload & self.sketch_mask());
        self.node.push(entry)?;
        match &mut self.digest {
            Some(digest) => digest.push(digest.head().entry(hash, 0)),
            None => Ok(()),
        }
    }

    fn sketch_mask(&self) -> u64 {
        (1 << (2 * self.node.head().cut.character_bits)) - 1
    }

    fn take_old(&mut self, old: PrefixSketch) -> Result<()> {
        self.twins.old(old.prefix, old.payload & self.sketch_mask());
        self.node.push(old)?;
        self.head = match &mut self.old {
            Some(cursor) => cursor.next()?,
            None => None,
        };
        Ok(())
    }
}

impl RoutingTreeBuilder {
    /// Starts adding a leaf with this digest to the trees of the levels.
    pub(in crate::hashed) fn new(
        store: &Arc<Store>,
        options: WriterOptions,
        levels: &[PartitionLevel],
        digest: WrittenRoutingList,
    ) -> Result<RoutingTreeBuilder> {
        let trees = levels.iter().map(|level| level.tree.as_ref());
        let growing = trees.take_while(|tree| tree.is_none_or(|tree| !tree.is_settled));
        let mut growing = RoutingTreeBuilder {
            store: Arc::clone(store),
            options,
            cut: digest.stored().head().cut,
            roots: growing.map(|tree| tree.map(|tree| tree.root.clone())).collect(),
            height: 1,
            child: RoutingChild::Leaf(Some(digest.stored().clone())),
            root: None,
            written: vec![digest],
        };
        growing.begin()?;
        Ok(growing)
    }

    fn old(&mut self) -> Option<RoutingNode> {
        self.roots.get_mut(usize::from(self.height) - 1)?.take()
    }

    /// Returns the digests with the hashes of the new child.
    fn sources(&self) -> Option<Vec<RoutingList>> {
        match &self.child {
            RoutingChild::Leaf(digest) => digest.clone().map(|digest| vec![digest]),
            RoutingChild::Node(tree) => tree.digests(self.cut.source_height(tree.height)),
        }
    }

    /// Starts the root of a height. It has no node if one of its inputs is missing.
    fn begin(&mut self) -> Result<()> {
        let old = self
            .roots
            .get(usize::from(self.height) - 1)
            .and_then(Option::as_ref);
        let Some(sources) = self.sources() else {
            return Ok(());
        };
        if old.is_some_and(|old| old.node.is_none()) {
            return Ok(());
        }
        let child = old.map_or(0, |old| old.children.len());
        let hashes = DigestMerger::new(&self.store, &sources, self.cut.prefix_bits(self.height))?;
        let old = old.and_then(|old| old.node.clone());
        let arriving = hashes.len();
        let expected = arriving + old.as_ref().map_or(0, RoutingList::entries);
        let head = ListHeader {
            cut: self.cut,
            height: self.height,
            children: child as u16 + 1,
        };
        let full = self.height - 1;
        let digest = ListHeader {
            height: full,
            children: 0,
            ..head
        };
        let open = |list| {
            RoutingListCursor::new(
                PageSource::Store(Arc::clone(&self.store)),
                list,
                Purpose::Compact,
                AHEAD,
            )
        };
        let writer = |head, expected| RoutingListWriter::new(&self.store, self.options, head, expected);
        let below = match &self.child {
            RoutingChild::Leaf(_) => 0,
            RoutingChild::Node(tree) => tree.hidden(),
        };
        let mut root = RootBuilder {
            hidden: below + old.as_ref().map_or(0, RoutingList::hidden),
            old: old.as_ref().map(open),
            head: None,
            hashes,
            arriving: None,
            node: writer(head, expected)?,
            digest: match self.cut.is_queued(full) {
                true => Some(writer(digest, arriving)?),
                false => None,
            },
            child,
            twins: DuplicateEstimator::default(),
        };
        if let Some(old) = &mut root.old {
            root.head = old.next()?;
        }
        self.root = Some(Box::new(root));
        Ok(())
    }

    /// Writes up to `most` entries. Returns the result once it is complete.
    ///
    /// # Errors
    /// A full disk; I/O errors; damage of the input.
    pub(in crate::hashed) fn go_on(&mut self, most: usize) -> Result<Option<RoutingTree>> {
        if let Some(root) = &mut self.root
            && !root.go_on(most)?
        {
            return Ok(None);
        }
        let node = self.root.take().map(|root| self.end(*root)).transpose()?;
        let mut children = self.old().map_or(Vec::new(), |old| old.children);
        children.push(std::mem::replace(&mut self.child, RoutingChild::Leaf(None)));
        let root = RoutingNode::new(self.cut, self.height, node, children);
        if root.children.len() < self.cut.lambda() as usize {
            return Ok(Some(RoutingTree {
                written: std::mem::take(&mut self.written),
                root,
                is_settled: false,
            }));
        }
        assert!(
            self.cut.fits(self.height + 1),
            "a part is rebuilt before its trees are as high as hashes allow"
        );
        self.child = RoutingChild::Node(Arc::new(root));
        self.height += 1;
        self.begin()?;
        Ok(None)
    }

    /// Finishes a root. If its child's hashes were rewritten, the digests below are dropped.
    fn end(&mut self, root: RootBuilder) -> Result<RoutingList> {
        let hidden = root.hidden + root.twins.count(self.cut.character_bits);
        let node = root.node.finish(hidden)?;
        if let Some(digest) = root.digest {
            let digest = digest.finish(0)?;
            let list = digest.stored().clone();
            self.written.push(digest);
            if let RoutingChild::Node(tree) = &self.child {
                self.child = RoutingChild::Node(Arc::new(RoutingNode {
                    digest: Some(list),
                    ..tree.without_digests()
                }));
            }
        }
        let list = node.stored().clone();
        self.written.push(node);
        Ok(list)
    }
}

/// Returns the levels of a part with an additional run, and installs the data written for it in the
/// generation in progress. Existing lists and runs are not rewritten.
pub(in crate::hashed) fn install(
    levels: &[PartitionLevel],
    run: LevelRun,
    grown: RoutingTree,
) -> Vec<PartitionLevel> {
    let RoutingTree {
        written,
        root,
        is_settled,
    } = grown;
    let mut kept: Vec<&RoutingList> = Vec::new();
    root.each_list(&mut |list| kept.push(list));
    // A digest that was replaced by a higher one in the same step is discarded.
    let stays = |written: &WrittenRoutingList| {
        kept.iter()
            .any(|list| list.pointer() == written.stored().pointer())
    };
    let (stay, _): (Vec<WrittenRoutingList>, Vec<WrittenRoutingList>) = written.into_iter().partition(stays);
    for written in stay {
        written.install();
    }
    if is_settled {
        let runs = vec![run];
        return vec![PartitionLevel {
            tree: Some(LevelTree::new(root, true, &runs)),
            runs,
            ..PartitionLevel::default()
        }];
    }
    let (settled, growing): (Vec<PartitionLevel>, Vec<PartitionLevel>) = levels
        .iter()
        .cloned()
        .partition(|level| level.tree.as_ref().is_some_and(|tree| tree.is_settled));
    let (mut all, into) = (growing, usize::from(root.height) - 1);
    all.resize_with(all.len().max(into + 1), PartitionLevel::default);
    let mut runs = std::mem::take(&mut all[into].runs);
    for level in (0..into).rev() {
        runs.extend(std::mem::take(&mut all[level]).runs);
    }
    runs.push(run);
    all[into] = PartitionLevel {
        tree: Some(LevelTree::new(root, false, &runs)),
        runs,
        ..PartitionLevel::default()
    };
    all.extend(settled);
    all
}
