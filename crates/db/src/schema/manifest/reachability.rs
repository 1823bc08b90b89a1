//! Traverses all data that can be reached from the manifest, in both open and closed stores.

use super::{DictionaryEntry, Manifest, read};
use crate::options::kind::{DictionaryId, StructureKind};
use crate::schema::format;
use alluvium_base::Purpose;
use alluvium_device::Directory;
use alluvium_dictionary::blob;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::DataFiles;
use alluvium_hashes::hashed;
use alluvium_storage::extents::ReachableExtent;
use alluvium_storage::{DiskLocation, Error, Result};
use alluvium_trees::tiered::{self, CheckFindings, CheckProgress, LostRange, TreeSalvage};
use alluvium_trees::{levels, map, paged};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Damage found in the data needed to open a store.
#[derive(Debug, Default)]
pub(crate) struct DamageSurvey {
    /// What can be salvaged of the tree, or `None` if it need not be salvaged.
    pub(crate) tree: Option<TreeSalvage>,
    /// Keyspaces of an unreadable ordered map, which is discarded.
    pub(crate) map: Vec<LostRange>,
    /// Keyspaces of levels with a run that cannot be opened. These levels are discarded.
    pub(crate) levels: Vec<LostRange>,
    /// Keyspaces of hashed structures with an unreadable list of runs. These structures are
    /// discarded.
    pub(crate) hashed: Vec<LostRange>,
    /// Keyspace data lost with the runs of hashed structures that cannot be opened.
    pub(crate) hashed_runs: Vec<LostRange>,
    /// Number of routing filters of hashed structures that cannot be opened. The structures work
    /// without them.
    pub(crate) hashed_filters: u64,
    /// The levels and hashed structures that are discarded.
    pub(crate) discarded: BTreeSet<DictionaryId>,
    /// The hashed structures that have lost only runs or filters.
    pub(crate) salvaged: BTreeSet<DictionaryId>,
    /// Set when the in-place pages are opened, if none of them can be read. The pages are then
    /// discarded.
    pub(crate) has_lost_pages: bool,
    /// The extents of undamaged data.
    pub(crate) reached: Vec<ReachableExtent>,
}

/// Returns every extent that can be reached from a superblock payload, with its reference count and
/// its live bytes. This is what the extent map should contain, computed without using the extent
/// map.
pub(crate) fn reached(files: DataFiles<'_>, payload: &[u8]) -> Result<Vec<ReachableExtent>> {
    let (manifest, nodes) = read(files, payload, Purpose::Recovery)?;
    let mut all = blob::reached(nodes, []);
    for entry in &manifest.dictionaries {
        all.extend((of(known(entry)?).reached)(files, &entry.root)?);
    }
    Ok(in_order(all))
}

/// Searches the data that can be reached from a superblock payload for damage. Changes nothing.
pub(crate) fn survey(files: DataFiles<'_>, payload: &[u8]) -> Result<DamageSurvey> {
    let (manifest, nodes) = read(files, payload, Purpose::Recovery)?;
    let mut surveyed = DamageSurvey::default();
    let mut all = blob::reached(nodes, []);
    for entry in &manifest.dictionaries {
        all.extend((of(known(entry)?).survey)(
            files,
            &manifest,
            entry,
            &mut surveyed,
        )?);
    }
    surveyed.reached = in_order(all);
    Ok(surveyed)
}

/// Describes the loss of a dictionary that can only be opened as a whole, with one lost range per
/// keyspace.
pub(crate) fn lost(manifest: &Manifest, entry: &DictionaryEntry, error: &Error) -> Vec<LostRange> {
    of_each(manifest, entry, &format!("all but the newest writes ({error})"))
}

/// Returns a lost range for each keyspace of a dictionary, all with the description `what`.
fn of_each(manifest: &Manifest, entry: &DictionaryEntry, what: &str) -> Vec<LostRange> {
    let own = manifest.keyspaces.iter().filter(|(_, id)| **id == entry.id);
    let lost = own.map(|(&keyspace, _)| LostRange {
        range: KeyRange::new(&format::prefix(keyspace), Some(&format::prefix(keyspace + 1))),
        what: what.to_owned(),
    });
    lost.collect()
}

/// Checks all data that can be reached from a superblock payload. This includes the data files,
/// which must not be written during the check, and other files in `directory`. `live_bytes` is the
/// approximate amount of data. `tell` receives progress reports and can abort the check by
/// returning an error.
pub(crate) fn check(
    files: DataFiles<'_>,
    directory: &Arc<dyn Directory>,
    payload: &[u8],
    live_bytes: u64,
    tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
) -> Result<CheckFindings> {
    let mut findings = CheckFindings::default();
    let manifest = match read(files, payload, Purpose::Check) {
        Ok((manifest, nodes)) => {
            nodes.iter().for_each(|node| findings.read.manifest.add(node));
            manifest
        }
        Err(error) => {
            findings.found.push(format!("manifest: {error}"));
            return Ok(findings);
        }
    };
    for entry in &manifest.dictionaries {
        let found = match known(entry) {
            Ok(structure) => (of(structure).check)(files, directory, &entry.root, live_bytes, tell)?,
            Err(error) => CheckFindings {
                found: vec![format!("manifest: {error}")],
                ..CheckFindings::default()
            },
        };
        findings.add(found);
    }
    Ok(findings)
}

fn known(entry: &DictionaryEntry) -> Result<StructureKind> {
    StructureKind::of(entry.kind).ok_or_else(|| unknown(entry))
}

/// Returns the error for a dictionary whose structure this version does not know, when keyspace
/// names cannot be read.
fn unknown(entry: &DictionaryEntry) -> Error {
    let file = format!("the manifest's dictionary {}", entry.id);
    Error::NewerFormat {
        place: DiskLocation::new(alluvium_storage::OnDiskObject::Superblock, file, 0),
        found: u32::from(entry.kind),
        supported: u32::from(StructureKind::Volatile.kind()),
    }
}

/// A function that receives the progress of a check and can abort it by returning an error.
type ProgressReport<'t> = dyn FnMut(CheckProgress) -> Result<()> + 't;

/// A function that checks the data that can be reached from a dictionary's root. The fourth
/// argument is the approximate amount of data, in live bytes.
type RootCheck =
    fn(DataFiles<'_>, &Arc<dyn Directory>, &[u8], u64, &mut ProgressReport<'_>) -> Result<CheckFindings>;

/// Operations on a structure's root that work on both open and closed stores.
struct RootFunctions {
    /// Returns every extent that can be reached from the root.
    reached: fn(DataFiles<'_>, &[u8]) -> Result<Vec<ReachableExtent>>,
    /// Searches the dictionary for damage and returns the extents of undamaged data.
    survey: fn(DataFiles<'_>, &Manifest, &DictionaryEntry, &mut DamageSurvey) -> Result<Vec<ReachableExtent>>,
    check: RootCheck,
}

fn of(structure: StructureKind) -> RootFunctions {
    match structure {
        StructureKind::Tiered => RootFunctions {
            reached: tiered::reached,
            survey: survey_tree,
            check: |files, _, root, live_bytes, tell| tiered::check_files(files, root, live_bytes, tell),
        },
        StructureKind::Levels => RootFunctions {
            reached: levels::reached,
            survey: |files, manifest, entry, surveyed| {
                let reached = levels::reached(files, &entry.root);
                let DamageSurvey {
                    levels, discarded, ..
                } = surveyed;
                or_lost(reached, (manifest, entry), levels, discarded)
            },
            check: |files, _, root, live_bytes, tell| levels::check_files(files, root, live_bytes, tell),
        },
        StructureKind::Hashed => RootFunctions {
            reached: hashed::reached,
            survey: survey_hashed,
            check: |files, _, root, live_bytes, tell| hashed::check_files(files, root, live_bytes, tell),
        },
        // In-place pages have a file of their own, which must be opened to find damage.
        StructureKind::Paged => RootFunctions {
            reached: |_, _| Ok(Vec::new()),
            survey: |_, _, _, _| Ok(Vec::new()),
            check: |_, directory, root, _, _| paged::check_files(directory, root),
        },
        // Volatile keyspaces lose all data whenever the store is closed.
        StructureKind::Volatile => RootFunctions {
            survey: |_, _, _, _| Ok(Vec::new()),
            ..of(StructureKind::Map)
        },
        StructureKind::Map => RootFunctions {
            reached: map::reached,
            survey: |files, manifest, entry, surveyed| {
                let reached = map::reached(files, &entry.root);
                let DamageSurvey { map, discarded, .. } = surveyed;
                or_lost(reached, (manifest, entry), map, discarded)
            },
            check: |files, _, root, _, _| Ok(map::check_files(files, root)),
        },
    }
}

fn survey_tree(
    files: DataFiles<'_>,
    _: &Manifest,
    entry: &DictionaryEntry,
    surveyed: &mut DamageSurvey,
) -> Result<Vec<ReachableExtent>> {
    let salvage = TreeSalvage::survey(files, &entry.root)?;
    let reached = salvage.reached().to_vec();
    surveyed.tree = Some(salvage);
    Ok(reached)
}

fn survey_hashed(
    files: DataFiles<'_>,
    manifest: &Manifest,
    entry: &DictionaryEntry,
    surveyed: &mut DamageSurvey,
) -> Result<Vec<ReachableExtent>> {
    let survey = hashed::survey(files, &entry.root).map(|survey| {
        if !survey.lost.is_empty() || survey.filters > 0 {
            surveyed.salvaged.insert(entry.id);
        }
        let lost = survey.lost.iter();
        let lost = lost.flat_map(|what| of_each(manifest, entry, what));
        surveyed.hashed_runs.extend(lost);
        surveyed.hashed_filters += survey.filters;
        survey.reached
    });
    let DamageSurvey {
        hashed, discarded, ..
    } = surveyed;
    or_lost(survey, (manifest, entry), hashed, discarded)
}

/// Returns the reachable extents of a dictionary. If its root is damaged, adds the dictionary to
/// `discarded` and all its keyspaces to `all` as lost, and returns no extents.
fn or_lost(
    reached: Result<Vec<ReachableExtent>>,
    (manifest, entry): (&Manifest, &DictionaryEntry),
    all: &mut Vec<LostRange>,
    discarded: &mut BTreeSet<DictionaryId>,
) -> Result<Vec<ReachableExtent>> {
    match reached {
        Err(error @ Error::Corrupt { .. }) => {
            all.extend(lost(manifest, entry, &error));
            discarded.insert(entry.id);
            Ok(Vec::new())
        }
        other => other,
    }
}

fn in_order(mut all: Vec<ReachableExtent>) -> Vec<ReachableExtent> {
    all.sort_unstable_by_key(|reached| reached.extent);
    all
}
