//! The search for one key in one version. It proceeds from the root to a leaf, newest part first,
//! until a message determines the result. If a node is not cached, the search stops, and resumes
//! once the node has been read.

use crate::maplet::{self, Maplet};
use crate::tiered::trunk::{AbsentKeys, MapletGroup, StackEntry, TreeVersion, TrunkNode, TrunkPart};
use alluvium_dictionary::fetch::NodeFetch;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::KeyState;
use alluvium_dictionary::merge::MergeOperator;
use alluvium_dictionary::value_log;
use alluvium_filters::{self as filters, PageLookup};
use alluvium_storage::{Error, Result};
use std::ops::ControlFlow;
use std::task::{Poll, ready};

/// The progress of a search for a key. It is valid for one version only.
#[derive(Debug, Default)]
pub struct TreeSearch {
    /// Maplet results for consecutive parts of the path: `asked` parts, beginning with part
    /// `first`.
    hits: maplet::MapletAnswers,
    first: usize,
    asked: usize,
    /// Whether the root filter excludes the key. `None` until the filter has been queried.
    is_denied: Option<bool>,
    /// Number of the path's parts that have been searched completely.
    layer: usize,
    /// Number of runs in the next part that have been searched completely.
    runs: usize,
    /// Number of records of the next run that have already been read.
    records: usize,
}

/// The path of a key from the root to its leaf: the parts that may contain the key, newest first,
/// and the maplet pages of these parts from part `first` on. A batched search runs each of its
/// steps for all keys before the next step, so that cache misses overlap.
pub(super) struct LookupPath<'v, 'f> {
    parts: maplet::PathVec<&'v TrunkPart>,
    /// Number of parts whose maplets are probed: all parts, or all but the last.
    asked: usize,
    absent: &'v AbsentKeys,
    hash: u64,
    pages: maplet::PathPages<'f>,
    first: usize,
}

impl<'v, 'f> LookupPath<'v, 'f> {
    /// Returns the path of a key in a version. If the last part is a single run, its maplet is
    /// probed only while lookups of absent keys are common.
    pub(super) fn of(
        version: &'v TreeVersion,
        key: LookupKey<'_>,
        search: &mut TreeSearch,
        absent: &'v AbsentKeys,
    ) -> LookupPath<'v, 'f> {
        let hash = key.hash();
        let ask = || {
            version
                .digest
                .as_ref()
                .is_some_and(|digest| !digest.may_hold(hash))
        };
        let is_denied = *search.is_denied.get_or_insert_with(ask);
        let parts = path(&version.root, key.bytes(), is_denied);
        let skips = ends_in_one_run(&parts) && !absent.are_common();
        LookupPath {
            asked: parts.len() - usize::from(skips),
            parts,
            absent,
            hash,
            pages: maplet::PathPages::default(),
            first: 0,
        }
    }

    /// Returns the number of parts on the path.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    /// Determines which maplet pages the search needs next, if any.
    pub(super) fn locate<F: NodeFetch>(&mut self, search: &TreeSearch, fetch: &F) {
        if search.layer < self.asked && !search.knows(search.layer) {
            self.locate_from(search.layer, fetch);
        }
    }

    fn locate_from<F: NodeFetch>(&mut self, first: usize, fetch: &F) {
        debug_assert!(first < self.asked && self.pages.are_unknown(), "once");
        self.first = first;
        self.pages
            .locate(maplets(&self.parts[first..self.asked]), self.hash, fetch);
    }

    /// Prefetches the memory that is needed to find the pages in the cache.
    pub(super) fn approach<F: NodeFetch>(&self, fetch: &F) {
        self.pages.approach(fetch);
    }

    /// Takes the pages from the cache, and returns whether all of them were there.
    pub(super) fn take<F: NodeFetch>(&mut self, fetch: &'f F) -> bool {
        self.pages
            .take(maplets(&self.parts[self.first..]), self.hash, fetch)
    }
}

/// Probes the maplets of many paths in one batch. The pages of the paths must already have been
/// obtained. Afterwards, each search knows which runs of its path may contain its key.
pub(super) fn ask_together<'s>(
    ways: &[LookupPath<'_, '_>],
    searches: impl Iterator<Item = &'s mut TreeSearch>,
) {
    let mut searches: Vec<&mut TreeSearch> = searches.collect();
    let (mut probes, mut askers) = (Vec::new(), Vec::new());
    for (asker, (way, search)) in ways.iter().zip(&mut searches).enumerate() {
        let pages = way.pages.probes(maplets(&way.parts[way.first..]), way.hash);
        for (place, probe) in pages.enumerate() {
            if place == 0 {
                (search.first, search.asked) = (way.first, 0);
            }
            probes.push(probe);
            askers.push((asker, place));
        }
    }
    filters::lookup_many(&probes, |probe, found| {
        debug_assert!(probe < askers.len(), "an asker for each probe");
        let (asker, place) = askers[probe];
        searches[asker].store_answer(place, found);
    });
}

/// Returns whether the oldest part of a path is a single run.
fn ends_in_one_run(parts: &[&TrunkPart]) -> bool {
    parts.last().is_some_and(|part| part.group.runs.len() == 1)
}

fn maplets<'v>(parts: &[&'v TrunkPart]) -> impl Iterator<Item = &'v Maplet> {
    parts.iter().map(|part| &part.group.maplet)
}

/// Returns the parts on a key's path in which records of the key are visible, newest first. If
/// `is_denied` is set, the root filter excludes the key, so the bundles of the root are skipped.
fn path<'v>(root: &'v TrunkNode, key: &[u8], is_denied: bool) -> maplet::PathVec<&'v TrunkPart> {
    let (mut node, mut parts) = (root, maplet::PathVec::new());
    let mut add = |layer: StackEntry<'v>| {
        if layer.part.counts_for(key) {
            parts.push(layer.part);
        }
    };
    loop {
        let pivot = node.pivot_for(key);
        if !(is_denied && std::ptr::eq(node, root)) {
            node.pending(pivot).rev().for_each(&mut add);
        }
        node.own(pivot).rev().for_each(&mut add);
        match node.pivots[pivot].child.as_deref() {
            Some(child) => node = child,
            None => return parts,
        }
    }
}

impl TreeSearch {
    /// Resets the search to its beginning, keeping its memory for reuse.
    pub(super) fn restart(&mut self) {
        (self.asked, self.layer, self.runs, self.records) = (0, 0, 0, 0);
        self.is_denied = None;
    }

    /// Adds the version's messages for the key to `known`, until they determine the result or the
    /// path ends.
    pub(super) fn go_on<F: NodeFetch>(
        &mut self,
        version: &TreeVersion,
        key: LookupKey<'_>,
        known: &mut KeyState,
        operator: Option<&dyn MergeOperator>,
        fetch: &F,
        absent: &AbsentKeys,
    ) -> Poll<Result<()>> {
        let mut way = LookupPath::of(version, key, self, absent);
        self.search_path(&mut way, key, known, operator, fetch)
    }

    /// Like [`TreeSearch::go_on`], but continues on a path for which maplet pages may already have
    /// been obtained.
    pub(super) fn search_path<'f, F: NodeFetch>(
        &mut self,
        way: &mut LookupPath<'_, 'f>,
        key: LookupKey<'_>,
        known: &mut KeyState,
        operator: Option<&dyn MergeOperator>,
        fetch: &'f F,
    ) -> Poll<Result<()>> {
        debug_assert!(
            self.layer <= way.parts.len(),
            "layer {} of {}",
            self.layer,
            way.parts.len()
        );
        while self.layer < way.parts.len() && !known.is_decided() {
            if !self.knows(self.layer) {
                ready!(self.ask_maplets(way, fetch))?;
            }
            ready!(self.ask_group(&way.parts[self.layer].group, key.bytes(), known, operator, fetch))?;
            self.layer += 1;
            self.runs = 0;
            if self.layer == way.parts.len() && ends_in_one_run(&way.parts) {
                way.absent.note(way.hash, !known.is_decided());
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Returns whether the search already knows which runs of a part may contain the key.
    fn knows(&self, layer: usize) -> bool {
        debug_assert!(self.asked <= self.hits.len(), "hits of each maplet asked");
        (self.first..self.first + self.asked).contains(&layer)
    }

    /// Stores the probe result of a part's maplet. A result that continues on another page is not
    /// stored; its maplet and those after it are probed again later.
    fn store_answer(&mut self, place: usize, found: PageLookup<'_>) {
        if let PageLookup::InPage(values) = found
            && place == self.asked
        {
            if self.hits.len() <= place {
                self.hits.resize_with(place + 1, maplet::MapletHits::default);
            }
            self.hits[place].set(values);
            self.asked += 1;
        }
    }

    /// Determines which runs of the next part, and possibly of later ones, may contain the key. If
    /// maplet pages must be read, one batch reads those of all remaining parts. Otherwise only the
    /// next part's maplet is probed.
    fn ask_maplets<'f, F: NodeFetch>(
        &mut self,
        way: &mut LookupPath<'_, 'f>,
        fetch: &'f F,
    ) -> Poll<Result<()>> {
        self.asked = 0;
        if self.layer == way.asked {
            debug_assert!(ends_in_one_run(&way.parts), "the only run may have the key");
            self.hits.resize_with(1, maplet::MapletHits::default);
            self.hits[0].set(std::iter::once(0));
            (self.first, self.asked) = (self.layer, 1);
            return Poll::Ready(Ok(()));
        }
        if !way.pages.are_here() {
            if way.pages.are_unknown() {
                way.locate_from(self.layer, fetch);
            }
            if !way.take(fetch) {
                let left: maplet::PathVec<&Maplet> = maplets(&way.parts[self.layer..way.asked]).collect();
                ready!(maplet::probe_path(&left, way.hash, fetch, &mut self.hits))?;
                (self.first, self.asked) = (self.layer, left.len());
                return Poll::Ready(Ok(()));
            }
        }
        self.hits.resize_with(1, maplet::MapletHits::default);
        debug_assert!(
            self.layer >= way.first,
            "layer {} of a way from {} on",
            self.layer,
            way.first
        );
        let page = way.pages.page(self.layer - way.first);
        let maplet = &way.parts[self.layer].group.maplet;
        ready!(maplet.collect_hits(page, way.hash, fetch, &mut self.hits[0]))?;
        (self.first, self.asked) = (self.layer, 1);
        Poll::Ready(Ok(()))
    }

    /// Searches the runs of a group that may contain the key, newest first.
    fn ask_group<F: NodeFetch>(
        &mut self,
        group: &MapletGroup,
        key: &[u8],
        known: &mut KeyState,
        operator: Option<&dyn MergeOperator>,
        fetch: &F,
    ) -> Poll<Result<()>> {
        debug_assert!(self.knows(self.layer), "a group is asked behind its maplet");
        let deletes = group.runs().any(|(_, run)| !run.range_deletes().is_empty());
        if !deletes {
            while let Some(&value) = self.hits[self.layer - self.first].get(self.runs)
                && !known.is_decided()
            {
                ready!(self.ask(group, usize::from(value), key, known, operator, fetch))?;
            }
            return Poll::Ready(Ok(()));
        }
        for (place, run) in group.runs().rev().skip(self.runs) {
            if known.is_decided() {
                break;
            }
            known.range_deleted(run.range_deletes().covering(key, known.at()));
            if self.hits[self.layer - self.first]
                .iter()
                .any(|&value| usize::from(value) == place)
            {
                ready!(self.ask(group, place, key, known, operator, fetch))?;
            } else {
                self.runs += 1;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Searches the run at `place` in the group. Skips the records that an earlier attempt has
    /// already read.
    fn ask<F: NodeFetch>(
        &mut self,
        group: &MapletGroup,
        place: usize,
        key: &[u8],
        known: &mut KeyState,
        operator: Option<&dyn MergeOperator>,
        fetch: &F,
    ) -> Poll<Result<()>> {
        let Some(run) = group.runs.get(place) else {
            let expected = format!("a maplet that tells {} runs apart", group.runs.len());
            let at = group.maplet.pointer().place();
            return Poll::Ready(Err(Error::corrupt(at, expected, format!("run {place}"))));
        };
        // A deleted run has no records for this key. The maplet may still refer to it, or may
        // contain another key with the same fingerprint.
        if let Some(run) = run.get() {
            // Skip the records that an earlier attempt read before it hit an uncached node.
            let mut taken = self.records;
            let records = &mut self.records;
            let asked = run.search(key, known.at(), fetch, |record| {
                if taken > 0 {
                    taken -= 1;
                    return Poll::Ready(Ok(ControlFlow::Continue(())));
                }
                let flow = ready!(known.record(&record, operator, |pointer, room| {
                    value_log::fetch_value(fetch, pointer, room)
                }))?;
                *records += 1;
                Poll::Ready(Ok(flow))
            });
            ready!(asked)?;
        }
        self.runs += 1;
        self.records = 0;
        Poll::Ready(Ok(()))
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use crate::tiered::{StepProgress, TieredTree, TreeOptions};
    use alluvium_base::Message;
    use alluvium_base::message::MAX_SEQUENCE;
    use alluvium_device::memory::MemoryDirectory;
    use alluvium_dictionary::memtable::Memtable;
    use alluvium_dictionary::merge::{AppendOperator, MergeDirection};
    use alluvium_dictionary::range::KeyRange;
    use alluvium_dictionary::rules::{KeyspaceRules, OneKeyspace};
    use alluvium_storage::extents::AllocationClass;
    use alluvium_storage::store::{Store, StoreOptions};
    use std::sync::Arc;

    fn tree() -> TieredTree {
        let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"");
        let rules = KeyspaceRules {
            operator: Some(Arc::new(AppendOperator)),
            ..KeyspaceRules::default()
        };
        let options = TreeOptions {
            schema: Arc::new(OneKeyspace::new(rules)),
            ..TreeOptions::default()
        };
        TieredTree::create(Arc::new(store.unwrap()), options)
    }

    fn write(tree: &TieredTree, messages: &[(&[u8], Message<'_>)]) {
        let memtable = Memtable::new(1 << 20);
        for (key, message) in messages {
            memtable.insert(key, *message).unwrap();
        }
        let cut = messages
            .iter()
            .map(|(_, message)| message.sequence)
            .max()
            .unwrap();
        tree.horizon().raise(cut);
        let mut step = tree
            .incorporate(Arc::new(memtable), cut, AllocationClass::Normal)
            .unwrap();
        while step.poll(100).unwrap() == StepProgress::More {}
    }

    /// Looks up a key in every available way, and asserts that all results are equal.
    fn found(tree: &TieredTree, key: &[u8]) -> Option<Vec<u8>> {
        let found = tree.get(key, MAX_SEQUENCE, 0).unwrap();
        assert_eq!(
            tree.multi_get(&[key, key], MAX_SEQUENCE, 0).unwrap(),
            [found.clone(), found.clone()]
        );
        assert_eq!(tree.lookup(key, MAX_SEQUENCE, 0).wait().unwrap(), found);
        let behind = [key, &[0]].concat();
        let mut iter = tree.iter(
            KeyRange::new(key, Some(&behind)),
            MergeDirection::Forward,
            MAX_SEQUENCE,
            0,
        );
        assert_eq!(iter.next().unwrap().map(|(_, value)| value.to_vec()), found);
        found
    }

    #[test]
    fn the_maplet_of_a_last_run_is_asked_while_absent_keys_are_common() {
        let tree = tree();
        let keys: Vec<[u8; 4]> = (0..1000u32).map(u32::to_be_bytes).collect();
        let older: Vec<_> = keys
            .iter()
            .map(|key| (&key[..], Message::put(1, b"old")))
            .collect();
        write(&tree, &older);
        write(
            &tree,
            &[
                (&[0, 0], Message::put(2, b"new")),
                (&[9], Message::put(3, b"new")),
            ],
        );
        let asks = || {
            let (version, absent) = (tree.version(), &tree.trunk.usage.absent);
            let way = LookupPath::of(
                &version,
                LookupKey::new(&keys[7]),
                &mut TreeSearch::default(),
                absent,
            );
            (way.asked, way.parts.len())
        };
        assert_eq!(asks(), (1, 2), "of two runs the newer");
        let all_are_there = || {
            let found = |key: &[u8; 4]| tree.get(key, MAX_SEQUENCE, 0).unwrap();
            assert!(keys.iter().all(|key| found(key).as_deref() == Some(b"old")));
        };
        all_are_there();
        for number in 0..100u32 {
            let absent = [&number.to_be_bytes()[..], b"?"].concat();
            assert_eq!(found(&tree, &absent), None);
        }
        assert_eq!(asks(), (2, 2), "absent keys are common");
        (0..20).for_each(|_| all_are_there());
        assert_eq!(asks(), (1, 2), "they no longer are");
    }

    #[test]
    fn every_run_of_a_group_that_may_have_a_key_is_asked() {
        const RUNS: u64 = 6;
        let tree = tree();
        let value = |number: u64| format!("{number},").into_bytes();
        for number in 1..=RUNS {
            let operand = value(number);
            write(&tree, &[(b"k", Message::merge(number, &operand))]);
        }
        // Combine the runs of all bundles into one group, like a compaction that leaves out older
        // parts.
        tree.trunk
            .change(None, |_, _, root| {
                let mut root = root.draft();
                let bundles = std::mem::take(&mut root.bundles);
                let parts = bundles.iter().flat_map(|bundle| &bundle.parts);
                let groups: Vec<&Arc<MapletGroup>> = parts.map(|part| &part.group).collect();
                let sources = groups
                    .iter()
                    .enumerate()
                    .map(|(place, group)| maplet::MapletSource {
                        maplet: group.maplet.clone(),
                        rewrite: [Some(place as u16)].into(),
                    });
                let spec = tree
                    .trunk
                    .maplet_spec(alluvium_base::Purpose::Other, AllocationClass::Normal, 0);
                let mut merger = maplet::MapletMerger::new(tree.store(), &spec, sources.collect(), None)?;
                let written = loop {
                    if let maplet::MapletMergeProgress::Done(written) = merger.step(1000)? {
                        break written;
                    }
                };
                tree.store().extents().install(&written.extents);
                let runs = groups.iter().map(|group| group.runs[0].get().cloned());
                let group = MapletGroup::new(tree.trunk.next_group(), runs, written.maplet.clone());
                let part = TrunkPart {
                    group: Arc::new(group),
                    clip: None,
                };
                root.bundles = vec![Arc::new(crate::tiered::trunk::TrunkBundle {
                    number: root.next - 1,
                    parts: vec![part],
                })];
                let pivot = &mut root.pivots[0];
                pivot.live = vec![vec![crate::run::RangeWeight::default()]];
                pivot.first = root.next - 1;
                Ok(Some(root))
            })
            .unwrap();
        let expected: Vec<u8> = (1..=RUNS).flat_map(value).collect();
        assert_eq!(found(&tree, b"k"), Some(expected));
    }

    #[test]
    fn what_came_from_one_of_two_nodes_counts_up_to_where_the_other_began() {
        let tree = tree();
        // The tree has two leaves. The second one starts at `m`.
        tree.trunk
            .change(None, |_, shaper, _| {
                let leaves = [KeyRange::new(b"", Some(b"m")), KeyRange::new(b"m", None)];
                Ok(Some(shaper.add_root_levels(leaves.map(TrunkNode::leaf).into())))
            })
            .unwrap();
        write(
            &tree,
            &[(b"a", Message::put(1, b"left")), (b"m", Message::put(2, b"old"))],
        );
        write(
            &tree,
            &[(b"m", Message::delete(3)), (b"z", Message::put(4, b"right"))],
        );
        // Compact the right leaf so that it no longer contains `m`. The data above the left leaf
        // still does.
        tree.compact_fully(b"m").unwrap();
        let mut others = Vec::new();
        while let Some(mut job) = tree.next_job().unwrap() {
            if job.describe().starts_with("compaction at height 0") {
                while job.poll(100).unwrap() == StepProgress::More {}
            } else {
                others.push(job);
            }
        }
        drop(others);
        tree.trunk
            .change(None, |_, shaper, root| {
                let mut root = root.draft();
                shaper.merge(&mut root, 0)?;
                Ok(Some(root))
            })
            .unwrap();
        let version = tree.version();
        let joined = version.root.pivots[0].child.as_deref().expect("one leaf is left");
        assert!(
            joined.stack(0).any(|layer| {
                let clip = layer.part.clip.as_deref();
                clip.is_some_and(|clip| clip.high.as_deref() == Some(b"m"))
                    && layer.part.group.runs().any(|(_, run)| run.high() >= &b"m"[..])
            }),
            "a run of the left one has `m`"
        );
        assert_eq!(found(&tree, b"m"), None);
        assert_eq!(found(&tree, b"a"), Some(b"left".to_vec()));
        assert_eq!(found(&tree, b"z"), Some(b"right".to_vec()));
    }
}
