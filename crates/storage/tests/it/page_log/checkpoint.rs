//! Checkpoints of the miniature store, which write changed leaves and a new root, and release the
//! nodes that these replace.

use super::bytes::{Pairs, Placed, decode_pairs, encode_pairs, encode_place, encode_root, pair_len};
use super::flaw::Flaw;
use super::mini::{Mini, Tree};
use alluvium_base::Purpose;
use alluvium_sim::Coverage;
use alluvium_storage::extents::{AllocationClass, Extent, ReclaimLimit};
use alluvium_storage::node::{MAX_PAGES, NodeWriter, WriterOptions, WriterOutput};
use alluvium_storage::{NodeCodec, NodePointer, Result};
use std::collections::BTreeMap;

/// Maximum size in bytes of a leaf with more than one pair.
const LEAF_BYTES: usize = 3900;

/// Number of units in an extent of ballast. When two such extents are free, the file shrinks.
const BALLAST_UNITS: u32 = 14;

/// A leaf of the new tree, which was kept or newly written.
enum Leaf {
    Kept(Placed),
    Written(NodePointer),
}

/// The leaves once a checkpoint has written the changed ones.
struct Fresh {
    leaves: Vec<(Vec<u8>, Leaf)>,
    replaced: Vec<Placed>,
}

/// The new tree, and the nodes and extents that it adds and removes.
struct Next {
    tree: Tree,
    replaced: Vec<Placed>,
    dropped: Option<Extent>,
    extents: Vec<(Extent, u64)>,
}

type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

impl Mini {
    pub(crate) fn checkpoint(&mut self, coverage: &Coverage) -> Result<()> {
        self.settle()?;
        let cut = self.last();
        let file_before = self.store.usage().0.total().file_bytes;
        let map_before = self.store.superblock().map.file;
        let next = self.write_tree(&self.changes())?;
        for (extent, _) in &next.extents {
            let reused =
                (extent.start..extent.end()).any(|unit| self.released.contains(&(extent.tier, unit)));
            coverage.add("extent reuse", u64::from(reused));
        }
        let mut payload = Vec::new();
        if let Some(root) = &next.tree.root {
            encode_place(root, &mut payload);
        }
        self.memtable.clear();
        self.tree = next.tree;
        self.retire(&next.replaced, next.dropped);
        let cut = if self.flaw == Flaw::CutsTooLow {
            // A cut must never decrease, because the log has already released what lies below it.
            cut.saturating_sub(1).max(self.store.superblock().cut)
        } else {
            cut
        };
        if self.flaw == Flaw::ReleasesTheLogFirst {
            self.store.log().release(cut)?;
        }
        let checkpoint = self.store.begin_checkpoint()?;
        if self.flaw == Flaw::ReusesEarly {
            self.reuse_early(checkpoint.generation())?;
        }
        checkpoint.finish(&payload, cut)?;
        coverage.hit("checkpoint");
        let now = self.store.usage().0.total().file_bytes;
        coverage.add("growth", u64::from(now > file_before));
        coverage.add(
            "map rewritten",
            u64::from(self.store.superblock().map.file != map_before),
        );
        Ok(())
    }

    /// The flaw: a generation under construction is reported as durable, and another step writes to
    /// the space that it freed.
    fn reuse_early(&self, generation: u64) -> Result<()> {
        self.store.extents().made_durable(generation);
        for _ in 0..3 {
            self.store.reclaim(ReclaimLimit::default())?;
        }
        let options = WriterOptions {
            extent_units: 1,
            class: AllocationClass::Freeing,
            ..self.writer_options(generation)
        };
        let mut writer = self.store.node_writer(options)?;
        writer.add(&vec![0xdd; self.store.page_size().node_bytes(MAX_PAGES)])?;
        for (extent, _) in writer.finish()?.extents {
            self.store.extents().abandon(extent);
        }
        Ok(())
    }

    /// Returns the writes committed since the last checkpoint.
    fn changes(&self) -> Changes {
        let mut changes = self.memtable.clone();
        match self.flaw {
            Flaw::CutsTooHigh => {
                changes.pop_last();
            }
            Flaw::ForgetsDeletes => changes.retain(|_, value| value.is_some()),
            _ => {}
        }
        changes
    }

    /// Writes the changes and installs them. A failure leaves the tree unchanged.
    fn write_tree(&self, changes: &Changes) -> Result<Next> {
        let generation = self.store.superblock().generation;
        let options = self.writer_options(generation);
        let mut writer = self.store.node_writer(options)?;
        let fresh = self.write_leaves(&mut writer, changes)?;
        let written = self.store.poison_on_error(writer.finish())?;
        let leaves = place_leaves(fresh.leaves, &written);
        let mut extents = written.extents;
        let (ballast, dropped) = self.next_ballast(generation, &mut extents);
        let mut tree = Tree {
            root: None,
            leaves,
            ballast,
        };
        // The root has a writer of its own, because it must name the leaves' extents.
        match self.write_root(
            &tree,
            WriterOptions {
                tier: 0,
                extent_units: 1,
                ..options
            },
        ) {
            Ok((root, home)) => {
                tree.root = Some(root);
                extents.extend(home);
            }
            Err(error) => {
                extents
                    .iter()
                    .for_each(|(extent, _)| self.store.extents().abandon(*extent));
                return Err(error);
            }
        }
        self.install(&tree, &extents);
        let replaced = fresh.replaced.into_iter().chain(self.tree.root).collect();
        Ok(Next {
            tree,
            replaced,
            dropped,
            extents,
        })
    }

    /// Returns the last tier, which holds the leaves.
    fn leaf_tier(&self) -> u8 {
        self.store.tiers().count() as u8 - 1
    }

    fn writer_options(&self, generation: u64) -> WriterOptions {
        let codecs = [NodeCodec::None, NodeCodec::Lz4, NodeCodec::None, NodeCodec::Zstd];
        WriterOptions {
            tier: self.leaf_tier(),
            page_size: self.store.page_size(),
            codec: codecs[generation as usize % codecs.len()],
            birth: generation + 1,
            purpose: Purpose::Incorporate,
            class: AllocationClass::Freeing,
            extent_units: 1 + u32::from(generation.is_multiple_of(5)),
        }
    }

    fn write_root(&self, tree: &Tree, options: WriterOptions) -> Result<(Placed, Vec<(Extent, u64)>)> {
        let mut writer = self.store.node_writer(options)?;
        let bytes = encode_root(&tree.leaves, &tree.ballast);
        let pointer = writer.add(&padded(bytes, self.store.page_size().bytes()))?;
        let written = self.store.poison_on_error(writer.finish())?;
        Ok((
            Placed {
                pointer,
                extent: extent_of(&pointer, &written.extents),
            },
            written.extents,
        ))
    }

    /// Allocates a large extent at every third checkpoint. If there are then more than two, the
    /// oldest is released.
    fn next_ballast(
        &self,
        generation: u64,
        extents: &mut Vec<(Extent, u64)>,
    ) -> (Vec<Extent>, Option<Extent>) {
        let mut ballast = self.tree.ballast.clone();
        if !generation.is_multiple_of(3) {
            return (ballast, None);
        }
        if let Ok(extent) =
            self.store
                .extents()
                .allocate(self.leaf_tier(), BALLAST_UNITS, AllocationClass::Normal)
        {
            extents.push((extent, 0));
            ballast.push(extent);
        }
        let dropped = (ballast.len() > 2).then(|| ballast.remove(0));
        (ballast, dropped)
    }

    /// Installs the new extents, each with one reference for each node of the new tree that it
    /// holds. The installation itself adds the first reference.
    fn install(&self, tree: &Tree, extents: &[(Extent, u64)]) {
        if self.flaw == Flaw::ForgetsToInstall {
            return;
        }
        self.store.extents().install(extents);
        for (extent, _) in extents {
            let nodes = tree.leaves.iter().map(|(_, leaf)| leaf).chain(&tree.root);
            let nodes = nodes.filter(|placed| placed.extent == *extent).count();
            for _ in 1..nodes {
                self.store.extents().retain(*extent);
            }
        }
    }

    /// Releases the references of nodes that are no longer in the tree.
    fn retire(&mut self, replaced: &[Placed], dropped: Option<Extent>) {
        if self.flaw == Flaw::ForgetsToRelease {
            return;
        }
        let epoch = match self.flaw {
            Flaw::ReleasesAtAnOldEpoch => 0,
            _ => self.store.epochs().current(),
        };
        let nodes = replaced
            .iter()
            .map(|placed| (placed.extent, placed.pointer.read_len() as u64));
        for (extent, bytes) in nodes.chain(dropped.map(|extent| (extent, 0))) {
            self.store.extents().sub_live(extent, bytes);
            if self.store.extents().release(extent, epoch) {
                let units = extent.start..extent.end();
                self.released.extend(units.map(|unit| (extent.tier, unit)));
            }
        }
    }

    /// Writes each leaf whose key range has changes.
    fn write_leaves(&self, writer: &mut NodeWriter, changes: &Changes) -> Result<Fresh> {
        let old = &self.tree.leaves;
        let mut fresh = Fresh {
            leaves: Vec::new(),
            replaced: Vec::new(),
        };
        for at in 0..old.len().max(1) {
            // The first leaf's range begins before every key.
            let from = if at == 0 { Vec::new() } else { old[at].0.clone() };
            let to = old.get(at + 1).map(|(first, _)| first.clone());
            let mut changed = changes
                .range(from..)
                .take_while(|(key, _)| to.as_ref().is_none_or(|to| *key < to))
                .peekable();
            if changed.peek().is_none() {
                let kept = old
                    .get(at)
                    .map(|(first, placed)| (first.clone(), Leaf::Kept(*placed)));
                fresh.leaves.extend(kept);
                continue;
            }
            let mut pairs = BTreeMap::new();
            if let Some((_, placed)) = old.get(at) {
                let bytes = self.read(&placed.pointer, Purpose::Incorporate)?;
                pairs.extend(decode_pairs(&bytes, &placed.pointer.place())?);
                fresh.replaced.push(*placed);
            }
            for (key, value) in changed {
                match value {
                    Some(_) => pairs.insert(key.clone(), value.clone()),
                    None => pairs.remove(key),
                };
            }
            for leaf in cut(pairs.into_iter().collect()) {
                let bytes = encode_pairs(leaf.iter().map(|(key, value)| (&key[..], value.as_deref())));
                let pointer = writer.add(&padded(bytes, self.store.page_size().bytes()))?;
                fresh.leaves.push((leaf[0].0.clone(), Leaf::Written(pointer)));
            }
        }
        Ok(fresh)
    }
}

/// Splits pairs into leaves.
fn cut(pairs: Pairs) -> Vec<Pairs> {
    let mut leaves: Vec<Pairs> = Vec::new();
    let mut room = 0;
    for (key, value) in pairs {
        let len = pair_len(&key, value.as_deref());
        if leaves.is_empty() || room < len {
            leaves.push(Vec::new());
            room = LEAF_BYTES;
        }
        room = room.saturating_sub(len);
        leaves.last_mut().expect("there is a leaf").push((key, value));
    }
    leaves
}

/// Pads to whole pages.
fn padded(mut bytes: Vec<u8>, page: usize) -> Vec<u8> {
    let len = bytes.len().next_multiple_of(page);
    assert!(len <= page * usize::from(MAX_PAGES), "a node of {len} bytes");
    bytes.resize(len, 0);
    bytes
}

fn extent_of(pointer: &NodePointer, extents: &[(Extent, u64)]) -> Extent {
    let home = extents
        .iter()
        .find(|(extent, _)| extent.range().contains(&pointer.offset));
    home.expect("a written node is in a written extent").0
}

/// Assigns its extent to each written leaf.
fn place_leaves(leaves: Vec<(Vec<u8>, Leaf)>, written: &WriterOutput) -> Vec<(Vec<u8>, Placed)> {
    let placed = leaves.into_iter().map(|(first, leaf)| match leaf {
        Leaf::Kept(placed) => (first, placed),
        Leaf::Written(pointer) => {
            let extent = extent_of(&pointer, &written.extents);
            (first, Placed { pointer, extent })
        }
    });
    placed.collect()
}
