//! Opens as much as possible of a damaged tree for a repair. Damaged maplets are rebuilt from the
//! keys of their runs. Runs without a readable footer, and everything below a damaged trunk node,
//! are dropped and reported.
//!
//! The repair has two steps, because the extents in use must be known before anything is written.
//! [`TreeSalvage::survey`] only reads. [`TreeSalvage::open`] then writes new maplets without
//! overwriting existing data. The next checkpoint rewrites all trunk nodes and releases their old
//! space.

use super::format::TreeRoot;
use super::open::TrunkOpener;
use super::reachable::{ExtentSums, ReachableStructures, merged, root_place};
use crate::maplet::{Maplet, MapletMergeProgress, MapletMerger, MapletSource, MapletSpec, WrittenMaplet};
use crate::run::{IndexedRun, RunViolation};
use crate::tiered::trunk::{RunKey, TreeOptions, Trunk, TrunkExtents, all_nodes};
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::blob::extents_of;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::{CheckReadTotals, DataFiles};
use alluvium_storage::Result;
use alluvium_storage::extents::{AllocationClass, Extent, ReachableExtent};
use alluvium_storage::store::Store;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// A key range that has lost some or all of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRange {
    pub range: KeyRange,
    /// What was lost, and why.
    pub what: String,
}

/// The damage to the structures that are needed to open a tree.
#[derive(Debug)]
pub struct TreeSalvage {
    names: ReachableStructures,
    maplets: HashSet<RunKey>,
    runs: HashSet<RunKey>,
    nodes: bool,
    reached: Vec<ReachableExtent>,
    lost: Vec<LostRange>,
    mended: Vec<String>,
}

impl TreeSalvage {
    /// Reads a tree's trunk and every footer and maplet reachable from its root, and determines
    /// which are damaged.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) if the root of the trunk is damaged,
    /// because then nothing is reachable.
    pub fn survey(files: DataFiles<'_>, root: &[u8]) -> Result<TreeSalvage> {
        let mut names = ReachableStructures::default();
        names.read(files, root);
        let all = KeyRange::everything();
        if let Some(root) = names.damaged.iter().position(|damaged| damaged.range == all) {
            return Err(names.damaged.swap_remove(root).error);
        }
        let mut salvage = TreeSalvage {
            maplets: HashSet::new(),
            runs: HashSet::new(),
            nodes: !names.damaged.is_empty(),
            reached: Vec::new(),
            lost: Vec::new(),
            mended: Vec::new(),
            names,
        };
        salvage.look(files);
        Ok(salvage)
    }

    fn look(&mut self, files: DataFiles<'_>) {
        let mut sums = ExtentSums::default();
        for damaged in &self.names.damaged {
            self.lost.push(LostRange {
                range: damaged.range.clone(),
                what: format!("all but the newest writes ({})", damaged.error),
            });
        }
        for (key, (pointer, needs)) in &self.names.runs {
            match IndexedRun::open_from(files, pointer, Purpose::Recovery) {
                Ok(run) => sums.add_run(&run, needs),
                Err(error) => {
                    self.runs.insert(*key);
                    self.lost.extend(merged(needs).into_iter().map(|range| LostRange {
                        range,
                        what: format!("the records of one run, so older ones may reappear ({error})"),
                    }));
                }
            }
        }
        for (key, (pointer, group)) in &self.names.maplets {
            let wrong = match Maplet::open_from(files, pointer, Purpose::Recovery) {
                Ok(maplet) => {
                    let wrong = maplet
                        .check_from(files, &mut CheckReadTotals::default())
                        .into_iter()
                        .next();
                    if wrong.is_none() {
                        sums.add_maplet(&maplet);
                    }
                    wrong.map(|violation| violation.to_string())
                }
                Err(error) => Some(error.to_string()),
            };
            if let Some(wrong) = wrong {
                self.maplets.insert(*key);
                self.mended.push(format!(
                    "the maplet of group {group} was rebuilt from its runs; it was damaged: {wrong}"
                ));
            }
        }
        sums.add_trunk(&self.names);
        self.reached = sums.reached();
    }

    /// Returns whether any structure that is needed to open the tree is damaged.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.nodes || !self.runs.is_empty() || !self.maplets.is_empty()
    }

    /// Returns the extents of the trunk and of all undamaged structures.
    #[must_use]
    pub fn reached(&self) -> &[ReachableExtent] {
        &self.reached
    }

    #[must_use]
    pub fn lost(&self) -> &[LostRange] {
        &self.lost
    }

    /// Describes each repair that loses no data, in one sentence.
    #[must_use]
    pub fn mended(&self) -> &[String] {
        &self.mended
    }

    /// Rebuilds the damaged maplets. Returns each new maplet under the key of the damaged maplet
    /// that it replaces.
    fn maplets(&mut self, store: &Store, bits: u8) -> Result<BTreeMap<RunKey, Maplet>> {
        let mut made = BTreeMap::new();
        for (key, (damaged, group)) in &self.names.maplets {
            if !self.maplets.contains(key) {
                continue;
            }
            // A pointer to a tier that the store does not have is itself damaged, so use tier 0.
            let is_there = store.tiers().get(damaged.tier).is_ok();
            let spec = MapletSpec {
                fingerprint_bits: bits,
                purpose: Purpose::Recovery,
                class: AllocationClass::Freeing,
                tier: if is_there { damaged.tier } else { 0 },
            };
            let mut whole: Option<WrittenMaplet> = None;
            let mut places = BTreeSet::new();
            for (run_key, (pointer, needs)) in &self.names.runs {
                let of_group: Vec<_> = needs
                    .iter()
                    .filter(|need| need.group == *group)
                    .cloned()
                    .collect();
                let Some(place) = of_group.first().map(|need| need.place as u16) else {
                    continue;
                };
                if self.runs.contains(run_key) {
                    continue;
                }
                let run = IndexedRun::open(store, pointer, Purpose::Recovery)?;
                let mut hashes = Vec::new();
                let mut tell = |key: &[u8]| hashes.push(LookupKey::new(key).hash());
                let ranges = merged(&of_group);
                let wrong = run.check_within(
                    DataFiles::of(store),
                    &ranges,
                    &mut tell,
                    &mut CheckReadTotals::default(),
                );
                // Damaged nodes are reported later, when the run is rewritten without them.
                let is_told =
                    |wrong: &RunViolation| matches!(wrong, RunViolation::Unreadable { node: Some(_), .. });
                let wrong = wrong.iter().find(|wrong| !is_told(wrong));
                if let (Some(wrong), Some(low)) = (wrong, ranges.first()) {
                    // Lookups cannot find the unreadable records, because their keys are not in the
                    // new maplet.
                    let high = ranges.last().and_then(|last| last.high.clone());
                    self.lost.push(LostRange {
                        range: KeyRange {
                            low: low.low.clone(),
                            high,
                        },
                        what: format!("the records of a run that cannot be read ({wrong})"),
                    });
                }
                hashes.sort_unstable();
                hashes.dedup();
                whole = Some(match whole {
                    None => Maplet::build(store, &spec, hashes, place)?,
                    Some(before) => merge(store, &spec, before, &places, (hashes, place))?,
                });
                places.insert(place);
            }
            let written = match whole {
                Some(written) => written,
                None => Maplet::build(store, &spec, Vec::new(), 0)?,
            };
            store.extents().install(&written.extents);
            made.insert(*key, written.maplet);
        }
        Ok(made)
    }
}

/// Merges the hashes of another run into a maplet and returns the new maplet. The old one is
/// discarded.
fn merge(
    store: &Store,
    spec: &MapletSpec,
    before: WrittenMaplet,
    places: &BTreeSet<u16>,
    fresh: (Vec<u64>, u16),
) -> Result<WrittenMaplet> {
    let greatest = places.last().copied().unwrap_or(0);
    let source = MapletSource {
        maplet: before.maplet.clone(),
        rewrite: (0..=greatest).map(Some).collect(),
    };
    let mut merger = MapletMerger::new(store, spec, vec![source], Some(fresh))?;
    loop {
        if let MapletMergeProgress::Done(written) = merger.step(usize::MAX)? {
            before.abandon(store);
            return Ok(written);
        }
    }
}

impl TreeSalvage {
    /// Opens a damaged trunk. The store's extents must be those that [`TreeSalvage::reached`]
    /// returned. Returns the trunk, the key ranges that lost data, and descriptions of the repairs
    /// that lost none. The next checkpoint makes the repaired trunk durable.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) if the trunk cannot be opened even
    /// without the damaged parts; an error if the disk is full; I/O errors.
    pub(crate) fn open(
        mut self,
        store: &Arc<Store>,
        options: TreeOptions,
        root: &[u8],
        cut: SequenceNumber,
    ) -> Result<(Trunk, Vec<LostRange>, Vec<String>)> {
        let payload = TreeRoot::decode(root, &root_place(), store.page_size())?;
        let made = self.maplets(store, payload.fingerprint_bits);
        let made = store.poison_on_error(made)?;
        let old: Vec<(Extent, u64)> = extents_of(self.names.trunk.values());
        let root = TrunkOpener::salvaging(store, &self.runs, made).root(&payload)?;
        let options = TreeOptions {
            fingerprint_bits: payload.fingerprint_bits,
            ..options
        };
        // Make the next checkpoint rewrite all nodes.
        for node in all_nodes(&root) {
            node.stored.forget();
        }
        let extents = TrunkExtents::default();
        let trunk = Trunk::new(Arc::clone(store), options, root, cut, payload.next_group, extents);
        for (extent, _) in old {
            store.extents().release(extent, store.epochs().current());
        }
        Ok((trunk, self.lost, self.mended))
    }
}
