//! Extent reference counts. A run's extents are released individually, each as soon as no pivot is
//! left whose range needs it.
//!
//! A pivot uses the maplet of each part in its stack. Of the part's runs, it uses the extents whose
//! keys overlap the range in which the part's records are visible. A compaction uses its inputs in
//! the same way, as long as its result can still be installed. The counts cover only the current
//! version. A reader of an older version is protected by its epoch guard, because an extent is
//! released together with the current epoch.

use super::node::{TrunkNode, TrunkPart};
use crate::run::IndexedRun;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::NodePointer;
use alluvium_storage::extents::{Extent, UNIT};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Identifies a run by the location of its footer, the generation in which its writing began, and
/// its checksum. Location and generation alone would be ambiguous: when a run is released, a
/// compaction that began in the same generation may be given the same space.
pub(crate) type RunKey = (u8, u64, u64, u64);

pub(crate) fn key_of(pointer: &NodePointer) -> RunKey {
    (pointer.tier, pointer.offset, pointer.birth, pointer.checksum)
}

#[derive(Debug)]
struct RunUses {
    run: IndexedRun,
    /// Number of part uses that refer to the run, including those that need none of its extents.
    parts: u32,
    /// For each of the run's extents, the number of uses that need it.
    counts: Vec<u32>,
    /// For each of the run's extents, whether it has been released.
    gone: Vec<bool>,
    /// Memory of the run in bytes.
    memory: u64,
}

impl RunUses {
    /// Returns the memory of the counts in bytes, including their entry in the table.
    fn counts_bytes(&self) -> u64 {
        (size_of::<(RunKey, RunUses)>() + self.counts.len() * 5) as u64
    }
}

/// The reference counts of the current version and of running compactions.
#[derive(Debug, Default)]
pub(crate) struct UseCounts {
    runs: HashMap<RunKey, RunUses>,
    groups: HashMap<u64, (TrunkPart, u32)>,
    /// Runs whose counts have changed since the last sweep.
    touched_runs: HashSet<RunKey>,
    touched_groups: HashSet<u64>,
    /// For each extent that any run in use refers to, what all these runs together need of it.
    live: HashMap<Extent, ExtentNeed>,
    memory: ReferencedMemory,
}

/// How much of an extent the runs in use need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ExtentNeed {
    /// Number of needed bytes. A run may contribute zero, because its share of a well-compressed
    /// node may be less than one byte and round down.
    bytes: u64,
    /// Number of references from runs to the extent. A run that lists the extent several times
    /// counts several times.
    runs: u32,
}

/// Memory in bytes of all runs and maplets in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReferencedMemory {
    pub(crate) runs: u64,
    pub(crate) maplets: u64,
    /// Estimated memory of the counts themselves.
    pub(crate) counts: u64,
}

impl UseCounts {
    /// Counts one use of a part in a range.
    pub(super) fn acquire(&mut self, part: &TrunkPart, range: &KeyRange) {
        self.touch(part);
        for (_, run) in part.group.runs() {
            let (memory, live) = (&mut self.memory, &mut self.live);
            let uses = self.runs.entry(key_of(run.pointer())).or_insert_with(|| {
                let uses = RunUses {
                    run: run.clone(),
                    parts: 0,
                    counts: vec![0; run.extents().len()],
                    gone: vec![false; run.extents().len()],
                    memory: run.memory_bytes() as u64,
                };
                memory.runs += uses.memory;
                memory.counts += uses.counts_bytes();
                for used in run.extents() {
                    let needed = live.entry(used.extent).or_default();
                    needed.bytes += used.live;
                    needed.runs += 1;
                }
                uses
            });
            debug_assert_eq!(uses.counts.len(), run.extents().len(), "one run");
            uses.parts += 1;
            for (index, _) in run.extents_for(range) {
                assert!(
                    !uses.gone[index],
                    "an extent of the run at {:?} is used again after its last use",
                    run.pointer()
                );
                uses.counts[index] += 1;
            }
        }
        let memory = &mut self.memory;
        let (_, count) = self.groups.entry(part.group.id).or_insert_with(|| {
            memory.maplets += part.group.maplet.memory_bytes();
            (part.clone(), 0)
        });
        *count += 1;
    }

    /// Returns the run's extents in which all runs together need less than half of the bytes.
    pub(crate) fn sparse<'a>(&'a self, run: &'a IndexedRun) -> impl Iterator<Item = Extent> + 'a {
        let extents = run.extents().iter().map(|used| used.extent);
        extents.filter(|extent| 2 * self.live.get(extent).map_or(0, |needed| needed.bytes) < extent.bytes())
    }

    /// Returns the sparsest extents, sorted. Extents are taken in order of their needed share,
    /// smallest first, as long as their needed bytes fit into `budget`. In each returned extent, at
    /// least [`UNIT`] bytes and at least an eighth of the extent are not needed. The unfilled end
    /// of an otherwise dense extent does not meet these limits.
    pub(crate) fn sparsest(&self, budget: u64) -> Vec<Extent> {
        let dead = |extent: &Extent, needed: &ExtentNeed| extent.bytes().saturating_sub(needed.bytes);
        let is_sparse = |(extent, needed): &(&Extent, &ExtentNeed)| {
            let dead = dead(extent, needed);
            dead >= UNIT && 8 * dead >= extent.bytes()
        };
        let mut sparse: Vec<(u64, Extent, u64)> = self
            .live
            .iter()
            .filter(is_sparse)
            .map(|(extent, needed)| (1024 * needed.bytes / extent.bytes(), *extent, needed.bytes))
            .collect();
        sparse.sort_unstable();
        let mut left = budget;
        let fits = |&(_, _, needed): &(u64, Extent, u64)| {
            let fits = needed <= left;
            left = left.saturating_sub(needed);
            fits
        };
        let mut chosen: Vec<Extent> = sparse
            .into_iter()
            .take_while(fits)
            .map(|(_, extent, _)| extent)
            .collect();
        chosen.sort_unstable();
        chosen
    }

    /// Returns the number of bytes that become free when the given uses of parts end: the total
    /// size of the extents that nothing else uses.
    #[must_use]
    pub(crate) fn freed_bytes<'a>(&self, parts: impl Iterator<Item = (&'a TrunkPart, KeyRange)>) -> u64 {
        let mut groups: HashMap<u64, (&TrunkPart, u32)> = HashMap::new();
        let mut extents: HashMap<(RunKey, usize), (Extent, u32)> = HashMap::new();
        for (part, range) in parts {
            groups.entry(part.group.id).or_insert((part, 0)).1 += 1;
            for (_, run) in part.group.runs() {
                for (index, used) in run.extents_for(&range) {
                    let key = (key_of(run.pointer()), index);
                    extents.entry(key).or_insert((used.extent, 0)).1 += 1;
                }
            }
        }
        let of_runs = extents.iter().filter(|((run, index), (extent, uses))| {
            let all = self.runs.get(run).map_or(0, |all| all.counts[*index]);
            all == *uses && self.live.get(extent).is_some_and(|needed| needed.runs == 1)
        });
        let of_maplets = groups
            .iter()
            .filter(|(id, (_, uses))| self.groups.get(id).is_some_and(|(_, all)| all == uses))
            .flat_map(|(_, (part, _))| part.group.maplet.extents());
        of_runs
            .map(|(_, (extent, ..))| *extent)
            .chain(of_maplets.map(|(extent, _)| extent))
            .map(|extent| extent.bytes())
            .sum()
    }

    /// Returns the memory of the runs and maplets in use, and of their counts.
    #[must_use]
    pub(crate) fn memory(&self) -> ReferencedMemory {
        self.memory
    }

    /// Ends one use of a part in a range. Extents that are left without users are returned by
    /// [`UseCounts::sweep`].
    pub(crate) fn release(&mut self, part: &TrunkPart, range: &KeyRange) {
        self.touch(part);
        for (_, run) in part.group.runs() {
            let uses = self
                .runs
                .get_mut(&key_of(run.pointer()))
                .expect("a run that is released was acquired");
            assert!(uses.parts > 0, "a run is released as often as acquired");
            uses.parts -= 1;
            for (index, _) in run.extents_for(range) {
                assert!(uses.counts[index] > 0, "an extent is released once");
                uses.counts[index] -= 1;
            }
        }
        self.groups
            .get_mut(&part.group.id)
            .expect("a group that is released was acquired")
            .1 -= 1;
    }

    /// Removes all uses by a node from the counts.
    pub(super) fn release_node(&mut self, node: &TrunkNode) {
        for (part, range) in node.uses() {
            self.release(part, &range);
        }
    }

    /// Adds all uses by a node to the counts.
    pub(super) fn acquire_node(&mut self, node: &TrunkNode) {
        for (part, range) in node.uses() {
            self.acquire(part, &range);
        }
    }

    fn touch(&mut self, part: &TrunkPart) {
        self.touched_groups.insert(part.group.id);
        self.touched_runs
            .extend(part.group.runs().map(|(_, run)| key_of(run.pointer())));
    }

    /// Returns the extents whose last use has ended since the last sweep. An extent is returned
    /// once for every run or maplet that referred to it.
    pub(crate) fn sweep(&mut self) -> Vec<Extent> {
        let mut dead = Vec::new();
        for key in self.touched_runs.drain() {
            let Some(uses) = self.runs.get_mut(&key) else {
                continue;
            };
            for (index, extent) in uses.run.extents().iter().enumerate() {
                if uses.counts[index] == 0 && !uses.gone[index] {
                    uses.gone[index] = true;
                    dead.push(extent.extent);
                }
            }
            if uses.parts == 0 {
                debug_assert!(uses.counts.iter().all(|count| *count == 0), "unused");
                assert!(self.memory.runs >= uses.memory, "memory is counted");
                self.memory.runs -= uses.memory;
                self.memory.counts -= uses.counts_bytes();
                for used in uses.run.extents() {
                    if let Entry::Occupied(mut entry) = self.live.entry(used.extent) {
                        let needed = entry.get_mut();
                        assert!(needed.runs > 0 && needed.bytes >= used.live);
                        needed.bytes -= used.live;
                        needed.runs -= 1;
                        if needed.runs == 0 {
                            entry.remove();
                        }
                    }
                }
                self.runs.remove(&key);
            }
        }
        for id in self.touched_groups.drain() {
            if self.groups.get(&id).is_some_and(|(_, count)| *count == 0) {
                let (part, _) = self.groups.remove(&id).expect("it was there a moment ago");
                debug_assert!(self.memory.maplets >= part.group.maplet.memory_bytes());
                self.memory.maplets -= part.group.maplet.memory_bytes();
                dead.extend(part.group.maplet.extents().map(|(extent, _)| extent));
            }
        }
        // Sort the extents, so that a simulation with a given seed does not depend on hash table
        // order.
        dead.sort_unstable();
        dead
    }

    /// Completes the opening of a tree. Extents that the on-disk trunk does not use were released
    /// before the trunk was written, and are not released again.
    pub(crate) fn begin(&mut self) {
        self.sweep();
    }

    /// Returns every extent in use, with the number of runs and maplets that refer to it.
    #[must_use]
    pub(crate) fn reachable(&self) -> HashMap<Extent, u32> {
        let mut reachable = HashMap::new();
        for uses in self.runs.values() {
            for (extent, gone) in uses.run.extents().iter().zip(&uses.gone) {
                if !gone {
                    *reachable.entry(extent.extent).or_default() += 1;
                }
            }
        }
        for (part, _) in self.groups.values() {
            for (extent, _) in part.group.maplet.extents() {
                *reachable.entry(extent).or_default() += 1;
            }
        }
        reachable
    }

    /// Returns the counts for the given nodes and compaction inputs, for comparison with the
    /// maintained counts.
    #[must_use]
    pub(crate) fn of<'a>(
        nodes: impl IntoIterator<Item = &'a TrunkNode>,
        pins: impl IntoIterator<Item = &'a (TrunkPart, KeyRange)>,
    ) -> UseCounts {
        let mut uses = UseCounts::default();
        for node in nodes {
            uses.acquire_node(node);
        }
        for (part, range) in pins {
            uses.acquire(part, range);
        }
        uses.sweep();
        uses
    }

    /// Describes each difference between the two sets of counts in one sentence.
    #[must_use]
    pub(crate) fn differences(&self, other: &UseCounts) -> Vec<String> {
        let mut found = Vec::new();
        if self.live != other.live {
            found.push("the needs of runs differ from the counted uses of extents".to_owned());
        }
        if self.memory != other.memory {
            found.push(format!(
                "memory is counted as {:?}, but {:?} was found",
                self.memory, other.memory
            ));
        }
        for key in self.runs.keys().chain(other.runs.keys()).collect::<BTreeSet<_>>() {
            let counts = |uses: &UseCounts| uses.runs.get(key).map(|uses| uses.counts.clone());
            let (mine, others) = (counts(self), counts(other));
            if mine != others {
                found.push(format!(
                    "run at {key:?}: {mine:?} uses are counted, but {others:?} were found"
                ));
            }
        }
        for id in self
            .groups
            .keys()
            .chain(other.groups.keys())
            .collect::<BTreeSet<_>>()
        {
            let count = |uses: &UseCounts| uses.groups.get(id).map_or(0, |(_, count)| *count);
            if count(self) != count(other) {
                let (mine, others) = (count(self), count(other));
                found.push(format!(
                    "group {id}: {mine} uses are counted, but {others} were found"
                ));
            }
        }
        found
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use crate::maplet::{Maplet, MapletSpec};
    use crate::run::{CursorAccess, RunBuilder, RunOptions};
    use crate::tiered::trunk::MapletGroup;
    use alluvium_base::{Message, Purpose};
    use alluvium_device::memory::MemoryDirectory;
    use alluvium_dictionary::merge::MergeDirection;
    use alluvium_storage::NodeCodec;
    use alluvium_storage::extents::AllocationClass;
    use alluvium_storage::store::{Store, StoreOptions};
    use std::sync::Arc;

    fn store() -> Store {
        Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"").unwrap()
    }

    /// Returns a part with a single run, to which `push` adds the records.
    fn part_of(store: &Store, id: u64, push: impl FnOnce(&mut RunBuilder)) -> TrunkPart {
        let mut options = RunOptions::new(Purpose::Other);
        (options.codec, options.value_threshold) = (NodeCodec::Zstd, Some(0));
        let mut builder = RunBuilder::new(store, &options).unwrap();
        push(&mut builder);
        let built = builder.finish().unwrap().expect("something was pushed");
        store.extents().install(&built.extents);
        let spec = MapletSpec {
            fingerprint_bits: 24,
            purpose: Purpose::Other,
            class: AllocationClass::Normal,
            tier: 0,
        };
        let written = Maplet::build(store, &spec, built.hashes, 0).unwrap();
        store.extents().install(&written.extents);
        TrunkPart {
            group: Arc::new(MapletGroup::new(id, [Some(built.run)], written.maplet)),
            clip: None,
        }
    }

    fn run_of(part: &TrunkPart) -> &IndexedRun {
        part.group.runs().next().expect("there is one").1
    }

    /// Returns two parts. The first has its values in a well-compressed node, and the second refers
    /// only to a very short value in that node.
    fn shared(store: &Store) -> (TrunkPart, TrunkPart) {
        let all = part_of(store, 1, |builder| {
            builder.push(b"b", Message::put(1, &[0; 3000]).into()).unwrap();
            builder.push(b"c", Message::put(2, b"x").into()).unwrap();
        });
        let tiny = part_of(store, 2, |builder| {
            let everything = KeyRange::everything();
            builder.inherit_from(run_of(&all), &everything);
            let mut cursor =
                run_of(&all).cursor(store, everything, MergeDirection::Forward, CursorAccess::Cached);
            cursor.seek(b"c").unwrap();
            builder.push(b"c", cursor.record()).unwrap();
        });
        (all, tiny)
    }

    fn counted(uses: &UseCounts, parts: &[&TrunkPart]) -> Vec<String> {
        let pins: Vec<(TrunkPart, KeyRange)> = parts
            .iter()
            .map(|&part| (part.clone(), KeyRange::everything()))
            .collect();
        uses.differences(&UseCounts::of([], &pins))
    }

    #[test]
    fn an_extent_is_counted_as_long_as_a_run_lists_it_however_little_of_it() {
        let store = store();
        let (all, tiny) = shared(&store);
        let inherited = run_of(&tiny).extents().iter().find(|used| used.inherited);
        let inherited = inherited.expect("the tiny value is passed on").clone();
        assert_eq!(inherited.live, 0, "its share of the node is less than a byte");
        let everything = KeyRange::everything();
        let mut uses = UseCounts::default();
        uses.acquire(&all, &everything);
        uses.acquire(&tiny, &everything);
        assert_eq!(counted(&uses, &[&all, &tiny]), Vec::<String>::new());
        uses.release(&all, &everything);
        assert!(
            uses.sweep().contains(&inherited.extent),
            "one reference to it is given up"
        );
        assert_eq!(counted(&uses, &[&tiny]), Vec::<String>::new());
        assert_eq!(uses.reachable().get(&inherited.extent), Some(&1));
        uses.release(&tiny, &everything);
        assert!(uses.sweep().contains(&inherited.extent));
        assert_eq!(counted(&uses, &[]), Vec::<String>::new());
        assert!(uses.live.is_empty() && uses.memory == ReferencedMemory::default());
    }

    #[test]
    fn the_emptiest_extents_are_chosen_within_a_budget_and_none_that_gives_little() {
        let mut uses = UseCounts::default();
        let extent = |number: u32, units: u32| Extent {
            tier: 0,
            start: 64 * number,
            units,
        };
        // For each extent, its length in units and its number of needed bytes.
        let cases = [
            (8, 5 * UNIT),
            (8, 2 * UNIT),
            (8, 7 * UNIT + 1),
            (1, 0),
            (1, 1),
            (64, 57 * UNIT),
        ];
        let extents: Vec<Extent> = (0..)
            .zip(cases)
            .map(|(number, (units, _))| extent(number, units))
            .collect();
        for (extent, (_, bytes)) in extents.iter().zip(cases) {
            uses.live.insert(*extent, ExtentNeed { bytes, runs: 1 });
        }
        let chosen = |budget: u64| -> Vec<usize> {
            let chosen = uses.sparsest(budget);
            let is_chosen = |number: &usize| chosen.contains(&extents[*number]);
            (0..extents.len()).filter(is_chosen).collect()
        };
        assert_eq!(chosen(u64::MAX), [0, 1, 3]);
        assert_eq!(chosen(7 * UNIT), [0, 1, 3]);
        assert_eq!(chosen(7 * UNIT - 1), [1, 3]);
        assert_eq!(chosen(UNIT), [3]);
        assert_eq!(chosen(0), [3], "what no run needs costs nothing");
    }

    #[test]
    fn what_another_run_lists_does_not_come_free_and_what_none_does_comes() {
        let store = store();
        let (all, tiny) = shared(&store);
        let everything = KeyRange::everything();
        let mut uses = UseCounts::default();
        uses.acquire(&all, &everything);
        let alone = |uses: &UseCounts, part: &TrunkPart| {
            uses.freed_bytes(std::iter::once((part, everything.clone())))
        };
        let bytes = |part: &TrunkPart, counts: &dyn Fn(&crate::run::ExtentUse) -> bool| -> u64 {
            let of_run = run_of(part).extents().iter().filter(|used| counts(used));
            let of_maplet = part.group.maplet.extents().map(|(extent, _)| extent.bytes());
            of_run.map(|used| used.extent.bytes()).chain(of_maplet).sum()
        };
        assert_eq!(alone(&uses, &all), bytes(&all, &|_| true));
        uses.acquire(&tiny, &everything);
        let inherited = run_of(&tiny)
            .extents()
            .iter()
            .find(|used| used.inherited)
            .unwrap();
        let others = |used: &crate::run::ExtentUse| used.extent != inherited.extent;
        assert_eq!(alone(&uses, &all), bytes(&all, &others));
        assert_eq!(alone(&uses, &tiny), bytes(&tiny, &others));
        uses.release(&all, &everything);
        uses.sweep();
        assert_eq!(alone(&uses, &tiny), bytes(&tiny, &|_| true));
    }
}
