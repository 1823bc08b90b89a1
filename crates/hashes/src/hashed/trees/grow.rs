//! A leaf comes to the tree of the first level. A root that has λ children then becomes a child of
//! the next level's, as it is: what is written is a new root there, of the hashes that the
//! digests below hand up.

use super::hashes::Hashes;
use super::tree::{Child, Planted, Tree};
use super::{Cursor, Cut, Head, List, Writer, Written};
use crate::hashed::lists::{Origin, Sketch};
use crate::hashed::state::{Level, LevelRun};
use alluvium_base::Purpose;
use alluvium_storage::Result;
use alluvium_storage::node::WriterOptions;
use alluvium_storage::store::Store;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pages of an old root that are read together.
const AHEAD: u64 = 16;

/// What a leaf has come to: it and what is above it are written, and not part of a structure.
#[derive(Debug)]
pub(in crate::hashed) struct Grown {
    written: Vec<Written>,
    root: Tree,
    is_settled: bool,
}

impl Grown {
    /// Returns the tree of a run that a rebuild has made.
    pub(in crate::hashed) fn settled(node: Written) -> Grown {
        let head = node.stored().head();
        let list = node.stored().clone();
        Grown {
            root: Tree::new(head.cut, head.height, Some(list), vec![Child::Leaf(None)]),
            written: vec![node],
            is_settled: true,
        }
    }

    /// Returns how many entries of lists were written.
    pub(in crate::hashed) fn entries(&self) -> u64 {
        self.written
            .iter()
            .map(|written| written.stored().entries())
            .sum()
    }
}

/// A tree on its way. Dropped unfinished, it leaves nothing.
#[derive(Debug)]
pub(in crate::hashed) struct Growing {
    store: Arc<Store>,
    options: WriterOptions,
    cut: Cut,
    /// The roots before: that of level i has height i + 1.
    roots: Vec<Option<Tree>>,
    /// The height of the root that is being written.
    height: u8,
    /// What comes to it.
    child: Child,
    root: Option<Box<Root>>,
    written: Vec<Written>,
}

/// A root that is being written.
#[derive(Debug)]
struct Root {
    old: Option<Cursor<'static>>,
    /// The next entry of the old root.
    head: Option<Sketch>,
    hashes: Hashes,
    /// The next of them.
    arriving: Option<u64>,
    node: Writer,
    /// Where the arriving tree has its hashes from now on.
    digest: Option<Writer>,
    child: usize,
    twins: Twins,
    hidden: u64,
}

/// Counts keys of which an older child has a record, too.
///
/// Entries of one prefix whose sketches are the same are of one key but for chance: how often that
/// is to be expected is counted, and taken off.
#[derive(Debug, Default)]
struct Twins {
    prefix: u64,
    /// How many entries of the old root have the prefix, by sketch.
    sketches: BTreeMap<u64, u64>,
    entries: u64,
    found: u64,
    pairs: u64,
}

impl Twins {
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

    /// Returns how many are twins, of sketches with two characters of `bits` bits.
    fn count(&self, bits: u8) -> u64 {
        self.found.saturating_sub(self.pairs >> (2 * bits))
    }
}

impl Root {
    /// Writes up to `most` entries. Returns whether that was all.
    fn go_on(&mut self, most: usize) -> Result<bool> {
        for _ in 0..most {
            if self.arriving.is_none() {
                self.arriving = self.hashes.next()?;
            }
            let head = self.node.head();
            let entry = self.arriving.map(|hash| head.entry(hash, self.child));
            match (self.head, entry) {
                // What the old root has of a prefix is older, and stays before what arrives (V2).
                (Some(old), entry) if entry.is_none_or(|entry| old.prefix <= entry.prefix) => {
                    self.take_old(old)?;
                }
                (_, Some(entry)) => self.take(entry)?,
                (_, None) => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Writes the entry of the hash that arrives, and the hash.
    fn take(&mut self, entry: Sketch) -> Result<()> {
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

    fn take_old(&mut self, old: Sketch) -> Result<()> {
        self.twins.old(old.prefix, old.payload & self.sketch_mask());
        self.node.push(old)?;
        self.head = match &mut self.old {
            Some(cursor) => cursor.next()?,
            None => None,
        };
        Ok(())
    }
}

impl Growing {
    /// Begins to add a leaf with this digest to the trees of levels.
    pub(in crate::hashed) fn new(
        store: &Arc<Store>,
        options: WriterOptions,
        levels: &[Level],
        digest: Written,
    ) -> Result<Growing> {
        let trees = levels.iter().map(|level| level.tree.as_ref());
        let growing = trees.take_while(|tree| tree.is_none_or(|tree| !tree.is_settled));
        let mut growing = Growing {
            store: Arc::clone(store),
            options,
            cut: digest.stored().head().cut,
            roots: growing.map(|tree| tree.map(|tree| tree.root.clone())).collect(),
            height: 1,
            child: Child::Leaf(Some(digest.stored().clone())),
            root: None,
            written: vec![digest],
        };
        growing.begin()?;
        Ok(growing)
    }

    fn old(&mut self) -> Option<Tree> {
        self.roots.get_mut(usize::from(self.height) - 1)?.take()
    }

    /// The digests that the arriving child hands up.
    fn sources(&self) -> Option<Vec<List>> {
        match &self.child {
            Child::Leaf(digest) => digest.clone().map(|digest| vec![digest]),
            Child::Node(tree) => tree.digests(self.cut.source_height(tree.height)),
        }
    }

    /// Begins the root of a height. It has no node where what it is made of is not all there.
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
        let hashes = Hashes::new(&self.store, &sources, self.cut.prefix_bits(self.height))?;
        let old = old.and_then(|old| old.node.clone());
        let arriving = hashes.len();
        let expected = arriving + old.as_ref().map_or(0, List::entries);
        let head = Head {
            cut: self.cut,
            height: self.height,
            children: child as u16 + 1,
        };
        let full = self.height - 1;
        let digest = Head {
            height: full,
            children: 0,
            ..head
        };
        let open = |list| {
            Cursor::new(
                Origin::Store(Arc::clone(&self.store)),
                list,
                Purpose::Compact,
                AHEAD,
            )
        };
        let writer = |head, expected| Writer::new(&self.store, self.options, head, expected);
        let below = match &self.child {
            Child::Leaf(_) => 0,
            Child::Node(tree) => tree.hidden(),
        };
        let mut root = Root {
            hidden: below + old.as_ref().map_or(0, List::hidden),
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
            twins: Twins::default(),
        };
        if let Some(old) = &mut root.old {
            root.head = old.next()?;
        }
        self.root = Some(Box::new(root));
        Ok(())
    }

    /// Writes up to `most` entries. Returns whether the trees are as they will be.
    ///
    /// # Errors
    /// A full disk; as the device says; damage of what is read.
    pub(in crate::hashed) fn go_on(&mut self, most: usize) -> Result<Option<Grown>> {
        if let Some(root) = &mut self.root
            && !root.go_on(most)?
        {
            return Ok(None);
        }
        let node = self.root.take().map(|root| self.end(*root)).transpose()?;
        let mut children = self.old().map_or(Vec::new(), |old| old.children);
        children.push(std::mem::replace(&mut self.child, Child::Leaf(None)));
        let root = Tree::new(self.cut, self.height, node, children);
        if root.children.len() < self.cut.lambda() as usize {
            return Ok(Some(Grown {
                written: std::mem::take(&mut self.written),
                root,
                is_settled: false,
            }));
        }
        assert!(
            self.cut.fits(self.height + 1),
            "a part is rebuilt before its trees are as high as hashes allow"
        );
        self.child = Child::Node(Arc::new(root));
        self.height += 1;
        self.begin()?;
        Ok(None)
    }

    /// Ends a root. Where its child's hashes were written again, the lists below go.
    fn end(&mut self, root: Root) -> Result<List> {
        let hidden = root.hidden + root.twins.count(self.cut.character_bits);
        let node = root.node.finish(hidden)?;
        if let Some(digest) = root.digest {
            let digest = digest.finish(0)?;
            let list = digest.stored().clone();
            self.written.push(digest);
            if let Child::Node(tree) = &self.child {
                self.child = Child::Node(Arc::new(Tree {
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

/// Returns the levels of a part with a further run, and makes what was written for it part of the
/// generation that is being built. Of what the levels above lead to, nothing is written again.
pub(in crate::hashed) fn install(levels: &[Level], run: LevelRun, grown: Grown) -> Vec<Level> {
    let Grown {
        written,
        root,
        is_settled,
    } = grown;
    let mut kept: Vec<&List> = Vec::new();
    root.each_list(&mut |list| kept.push(list));
    // A digest that a higher one replaced in the same step is given up.
    let stays = |written: &Written| {
        kept.iter()
            .any(|list| list.pointer() == written.stored().pointer())
    };
    let (stay, _): (Vec<Written>, Vec<Written>) = written.into_iter().partition(stays);
    for written in stay {
        written.install();
    }
    if is_settled {
        let runs = vec![run];
        return vec![Level {
            tree: Some(Planted::new(root, true, &runs)),
            runs,
            ..Level::default()
        }];
    }
    let (settled, growing): (Vec<Level>, Vec<Level>) = levels
        .iter()
        .cloned()
        .partition(|level| level.tree.as_ref().is_some_and(|tree| tree.is_settled));
    let (mut all, into) = (growing, usize::from(root.height) - 1);
    all.resize_with(all.len().max(into + 1), Level::default);
    let mut runs = std::mem::take(&mut all[into].runs);
    for level in (0..into).rev() {
        runs.extend(std::mem::take(&mut all[level]).runs);
    }
    runs.push(run);
    all[into] = Level {
        tree: Some(Planted::new(root, false, &runs)),
        runs,
        ..Level::default()
    };
    all.extend(settled);
    all
}
