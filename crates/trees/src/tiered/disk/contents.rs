//! Checks everything that readers of a tree can reach: trunk nodes, footers, index nodes, leaves,
//! values and maplets. Maplets and runs are read one at a time, in device order. The check collects
//! damage in a list and continues.
//!
//! The check needs memory for the locations of all structures, for one open run or maplet at a
//! time, and for a few mebibytes of nodes.

use super::reachable::{ReachableStructures, merged, tell_damage};
use crate::maplet::Maplet;
use crate::run::IndexedRun;
use crate::tiered::trunk::{MapletGroup, TrunkNode};
use alluvium_base::Purpose;
use alluvium_dictionary::check_report::{CheckFindings, CheckProgress};
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::read::DataFiles;
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of keys looked up in a maplet in one batch. The keys of a batch are sorted by
/// maplet page.
const KEYS_AT_ONCE: usize = 16 << 10;
/// Approximate maximum total size of a batch's keys, in bytes.
const KEY_BYTES_AT_ONCE: usize = 1 << 20;

/// Checks everything reachable from a tree's root. The data files must not be written during the
/// check. `live_bytes` is the approximate amount of live data in bytes, used for progress reports.
/// `tell` may abort the check by returning an error.
///
/// # Errors
/// Errors of `tell`. Unreadable data is part of the result, not an error.
pub fn check_files(
    files: DataFiles<'_>,
    root: &[u8],
    live_bytes: u64,
    tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
) -> Result<CheckFindings> {
    let mut names = ReachableStructures::default();
    names.read(files, root);
    let mut check = TreeContentsChecker::new(files, live_bytes, tell);
    check.all(&mut names, None)?;
    Ok(check.findings)
}

/// Checks everything reachable from the current version and from the durable generation.
pub(super) fn check_contents(
    store: &Store,
    nodes: &[Arc<TrunkNode>],
    durable: Option<&[u8]>,
    tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
) -> Result<CheckFindings> {
    let files = DataFiles::of(store);
    let mut names = ReachableStructures::default();
    let mut groups = HashMap::new();
    for node in nodes {
        names.add_node(node);
        for (part, _) in node.uses() {
            groups
                .entry(part.group.id)
                .or_insert_with(|| Arc::clone(&part.group));
        }
    }
    // Also check the durable generation, because the next open reads it if the process exits now,
    // whether by a crash or a clean shutdown.
    if let Some(root) = durable {
        names.read(files, root);
    }
    for pointer in nodes.iter().filter_map(|node| node.stored.at()) {
        names.read_again(files, &pointer);
    }
    let live_bytes = store.extents().usage().total().live_bytes;
    let mut check = TreeContentsChecker::new(files, live_bytes, tell);
    check.all(&mut names, Some((store, &groups)))?;
    Ok(check.findings)
}

/// An open store, and the groups of the tree's current version.
type OpenGroups<'o> = Option<(&'o Store, &'o HashMap<u64, Arc<MapletGroup>>)>;

struct TreeContentsChecker<'c> {
    files: DataFiles<'c>,
    findings: CheckFindings,
    total_bytes: u64,
    tell: &'c mut dyn FnMut(CheckProgress) -> Result<()>,
}

impl<'c> TreeContentsChecker<'c> {
    fn new(
        files: DataFiles<'c>,
        total_bytes: u64,
        tell: &'c mut dyn FnMut(CheckProgress) -> Result<()>,
    ) -> TreeContentsChecker<'c> {
        TreeContentsChecker {
            files,
            findings: CheckFindings::default(),
            total_bytes,
            tell,
        }
    }

    fn told(&mut self) -> Result<()> {
        self.findings.bound();
        let done_bytes = self.findings.read.bytes();
        (self.tell)(CheckProgress {
            done_bytes,
            total_bytes: self.total_bytes.max(done_bytes),
        })
    }

    fn all(&mut self, names: &mut ReachableStructures, open: OpenGroups<'_>) -> Result<()> {
        tell_damage(names, &mut self.findings.found, &mut self.findings.read);
        self.told()?;
        for (pointer, group) in names.maplets.values() {
            let CheckFindings { found, read, .. } = &mut self.findings;
            // If the maplet is open, compare its in-memory state with the pages on the device.
            let opened = open.and_then(|(_, groups)| groups.get(group));
            let opened = opened.filter(|group| group.maplet.pointer() == pointer);
            let maplet = match opened {
                Some(group) => Ok(group.maplet.clone()),
                None => Maplet::open_from(self.files, pointer, Purpose::Check),
            };
            match maplet {
                Ok(maplet) => {
                    let said = maplet.check_from(self.files, read).into_iter();
                    let place = pointer.place();
                    found.extend(
                        said.map(|violation| format!("group {group}, maplet of {place}: {violation}")),
                    );
                }
                Err(error) => {
                    read.directories.add(pointer);
                    found.push(format!("group {group}, maplet: {error}"));
                }
            }
            self.told()?;
        }
        for (pointer, needs) in names.runs.values() {
            let CheckFindings { found, read, .. } = &mut self.findings;
            match IndexedRun::open_from(self.files, pointer, Purpose::Check) {
                Ok(run) => {
                    let mut lookups = MapletKeyBatch::of(open, needs);
                    let mut tell = |key: &[u8]| lookups.iter_mut().for_each(|one| one.key(key));
                    let said = run.check_within(self.files, &merged(needs), &mut tell, read);
                    let place = pointer.place();
                    found.extend(
                        said.into_iter()
                            .map(|violation| format!("run of {place}: {violation}")),
                    );
                    lookups.iter_mut().for_each(|one| one.flush());
                    found.extend(
                        lookups
                            .into_iter()
                            .flat_map(|one| one.missed)
                            .map(|missed| format!("run of {place}: {missed}")),
                    );
                }
                Err(error) => {
                    read.footers.add(pointer);
                    found.push(format!("run, footer: {error}"));
                }
            }
            self.told()?;
        }
        let (tell, found) = (&mut self.tell, &self.findings);
        let done_bytes = found.read.bytes();
        tell(CheckProgress {
            done_bytes,
            total_bytes: done_bytes,
        })
    }
}

/// Keys of a run to look up in the maplet of the run's group, which must contain them (T6). These
/// lookups go through the cache, because a separate check verifies the maplet's pages on the
/// device.
struct MapletKeyBatch<'l> {
    store: &'l Store,
    group: &'l MapletGroup,
    need: &'l super::reachable::RunNeed,
    place: u16,
    /// The maplet page, the hash, and the offset in `keys` of each key.
    pending: Vec<(u64, u64, usize)>,
    keys: Vec<u8>,
    missed: Vec<String>,
    /// Whether a maplet page could not be read. The error has already been reported.
    failed: bool,
}

/// Maximum number of missing keys reported for each run.
const MOST_MISSED: usize = 8;

impl<'l> MapletKeyBatch<'l> {
    fn of(open: OpenGroups<'l>, needs: &'l [super::reachable::RunNeed]) -> Vec<MapletKeyBatch<'l>> {
        let Some((store, groups)) = open else {
            return Vec::new();
        };
        let lookups = needs.iter().filter_map(|need| {
            Some(MapletKeyBatch {
                store,
                group: groups.get(&need.group)?,
                need,
                place: u16::try_from(need.place).ok()?,
                pending: Vec::new(),
                keys: Vec::new(),
                missed: Vec::new(),
                failed: false,
            })
        });
        lookups.collect()
    }

    fn key(&mut self, key: &[u8]) {
        if !self.need.range.contains(key) {
            return;
        }
        let hash = LookupKey::new(key).hash();
        self.pending
            .push((self.group.maplet.page(hash).offset, hash, self.keys.len()));
        self.keys.extend_from_slice(key);
        if self.pending.len() >= KEYS_AT_ONCE || self.keys.len() >= KEY_BYTES_AT_ONCE {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let ends: Vec<usize> = self.pending.iter().skip(1).map(|pending| pending.2).collect();
        let ends: HashMap<usize, usize> = self
            .pending
            .iter()
            .map(|pending| pending.2)
            .zip(ends.into_iter().chain([self.keys.len()]))
            .collect();
        self.pending.sort_unstable();
        let guard = self.store.epochs().pin();
        for (_, hash, at) in self.pending.drain(..) {
            if self.failed {
                break;
            }
            match self.group.maplet.lookup(hash, self.store.cache(), &guard) {
                Ok(hits) if hits.contains(&self.place) => {}
                Ok(_) if self.missed.len() < MOST_MISSED => {
                    let key = &self.keys[at..ends[&at]];
                    self.missed.push(format!(
                        "\"{}\" is not in the maplet of group {} under {} (T6)",
                        key.escape_ascii(),
                        self.group.id,
                        self.place
                    ));
                }
                Ok(_) => {}
                Err(Error::Corrupt { .. }) => self.failed = true,
                Err(error) => {
                    self.missed.push(error.to_string());
                    self.failed = true;
                }
            }
        }
        self.pending.clear();
        self.keys.clear();
    }
}
