//! Adds a leaf to the tree of the first level. If the root of a level then has λ children, it
//! becomes a child of the next level's root without changing itself. Only the next level's root is
//! rewritten, from its old entries and from the hashes in the digests below the new child.

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

/// Number of pages of the old root per batch.
const AHEAD: u64 = 16;

/// The tree after a leaf has been added. Its new lists have been written but are not part of a
/// structure yet.
#[derive(Debug)]
pub(in crate::hashed) struct RoutingTree {
    written: Vec<WrittenRoutingList>,
    root: RoutingNode,
    is_settled: bool,
}

impl RoutingTree {
    /// Returns the tree of a settled run, which a rebuild of the part has written. `node` is the
    /// node above the run.
    pub(in crate::hashed) fn settled(node: WrittenRoutingList) -> RoutingTree {
        let head = node.stored().head();
        let list = node.stored().clone();
        RoutingTree {
            root: RoutingNode::new(head.cut, head.height, Some(list), vec![RoutingChild::Leaf(None)]),
            written: vec![node],
            is_settled: true,
        }
    }

    /// Returns the number of entries in the new lists.
    pub(in crate::hashed) fn entries(&self) -> u64 {
        self.written
            .iter()
            .map(|written| written.stored().entries())
            .sum()
    }
}

/// Adds a leaf to the trees of a part. If it is dropped before it is finished, the space of the new
/// lists is freed.
#[derive(Debug)]
pub(in crate::hashed) struct RoutingTreeBuilder {
    store: Arc<Store>,
    options: WriterOptions,
    cut: HashLayout,
    /// Previous roots of the trees. The root at index i has height i + 1.
    roots: Vec<Option<RoutingNode>>,
    /// Height of the root being written.
    height: u8,
    /// The new child of the root being written.
    child: RoutingChild,
    root: Option<Box<RootBuilder>>,
    written: Vec<WrittenRoutingList>,
}

/// Writes a new root by merging the old root's entries with the hashes of a new child.
#[derive(Debug)]
struct RootBuilder {
    old: Option<RoutingListCursor<'static>>,
    /// Next entry of the old root, or `None` after the last one.
    head: Option<PrefixSketch>,
    hashes: DigestMerger,
    /// Next hash of the new child, if it has already been read.
    arriving: Option<u64>,
    node: RoutingListWriter,
    /// Writer of the child's new digest. `None` unless the hashes are rewritten at this height.
    digest: Option<RoutingListWriter>,
    child: usize,
    twins: DuplicateEstimator,
    hidden: u64,
}

/// Estimates how many keys of the new child also have a record in an older child.
///
/// Two entries with the same prefix and the same sketch usually belong to the same key, so the
/// estimate is the number of such matches, minus the number expected by chance.
#[derive(Debug, Default)]
struct DuplicateEstimator {
    prefix: u64,
    /// For each sketch, the number of old entries with the current prefix and this sketch.
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

    /// Returns the estimated number of keys that also have a record in an older child. A sketch
    /// consists of two characters of `bits` bits each.
    fn count(&self, bits: u8) -> u64 {
        self.found.saturating_sub(self.pairs >> (2 * bits))
    }
}

impl RootBuilder {
    /// Writes up to `most` entries. Returns whether all of them have been written.
    fn go_on(&mut self, most: usize) -> Result<bool> {
        for _ in 0..most {
            if self.arriving.is_none() {
                self.arriving = self.hashes.next()?;
            }
            let head = self.node.head();
            let entry = self.arriving.map(|hash| head.entry(hash, self.child));
            match (self.head, entry) {
                // The old root's entries with a prefix are older than the new ones, so they come
                // first (V2).
                (Some(old), entry) if entry.is_none_or(|entry| old.prefix <= entry.prefix) => {
                    self.take_old(old)?;
                }
                (_, Some(entry)) => self.take(entry)?,
                (_, None) => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Writes the entry for the next hash of the new child, and adds the hash to the new digest if
    /// there is one.
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
    /// Starts adding a leaf with the given digest to the trees of a part with the given levels.
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

    /// Returns the digests that supply the hashes of the new child, or `None` if one is missing.
    fn sources(&self) -> Option<Vec<RoutingList>> {
        match &self.child {
            RoutingChild::Leaf(digest) => digest.clone().map(|digest| vec![digest]),
            RoutingChild::Node(tree) => tree.digests(self.cut.source_height(tree.height)),
        }
    }

    /// Starts writing the root of the current height. If a list needed for it is missing, the root
    /// gets no list.
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

    /// Writes up to `most` entries. Returns the new tree once it is complete, and `None` until
    /// then.
    ///
    /// # Errors
    /// A full disk; I/O errors; damage to the lists being read.
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

    /// Completes a root's list and returns it. If the child's hashes were rewritten, the child gets
    /// the new digest, and the digests below it are dropped.
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

/// Returns the levels of a part with one more run, and marks the extents of the run's new lists as
/// used in the current generation. Existing lists and runs are not rewritten.
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
    // Discard a new digest that a higher one has already replaced in the same step.
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
