//! Traversal of all data that the manifest references, for open and closed stores.

use super::{DictionaryEntry, Manifest, read};
use crate::options::kind::StructureKind;
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
use std::sync::Arc;

/// Damage to the data that opening a store requires.
#[derive(Debug, Default)]
pub(crate) struct DamageSurvey {
    /// Damage of the tree, if any.
    pub(crate) tree: Option<TreeSalvage>,
    /// Keyspaces of a map that cannot be read and is abandoned.
    pub(crate) map: Vec<LostRange>,
    /// Keyspaces of levels with runs that cannot be opened; they are abandoned.
    pub(crate) levels: Vec<LostRange>,
    /// Keyspaces of a hashed structure whose list of runs cannot be read; they are abandoned.
    pub(crate) hashed: Vec<LostRange>,
    /// Data that keyspaces of a hashed structure lose with runs that cannot be opened.
    pub(crate) hashed_runs: Vec<LostRange>,
    /// Number of routing filters of a hashed structure that cannot be opened; it works without
    /// them.
    pub(crate) hashed_filters: u64,
    /// Whether none of the pages that are updated in place can be read; they are abandoned.
    /// Determined when they are opened.
    pub(crate) has_lost_pages: bool,
    /// Extents that the intact data uses.
    pub(crate) reached: Vec<ReachableExtent>,
}

/// Returns every extent that a payload references, with its references and live bytes. This is the
/// contents of the extent map, computed without it.
pub(crate) fn reached(files: DataFiles<'_>, payload: &[u8]) -> Result<Vec<ReachableExtent>> {
    let (manifest, nodes) = read(files, payload, Purpose::Recovery)?;
    let mut all = blob::reached(nodes, []);
    for entry in &manifest.dictionaries {
        all.extend((of(known(entry)?).reached)(files, &entry.root)?);
    }
    Ok(in_order(all))
}

/// Searches the referenced data for damage, and changes nothing.
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

/// Reports the loss of a dictionary that can only be opened as a whole.
pub(crate) fn lost(manifest: &Manifest, entry: &DictionaryEntry, error: &Error) -> Vec<LostRange> {
    of_each(manifest, entry, &format!("all but the newest writes ({error})"))
}

/// Reports the same loss for each keyspace of a dictionary.
fn of_each(manifest: &Manifest, entry: &DictionaryEntry, what: &str) -> Vec<LostRange> {
    let own = manifest.keyspaces.iter().filter(|(_, id)| **id == entry.id);
    let lost = own.map(|(&keyspace, _)| LostRange {
        range: KeyRange::new(&format::prefix(keyspace), Some(&format::prefix(keyspace + 1))),
        what: what.to_owned(),
    });
    lost.collect()
}

/// Checks the data that a payload references, in data files that are not written concurrently and
/// in other files of their first `directory`. `live_bytes` is the approximate amount. `tell` can
/// abort the check by returning an error.
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

/// Returns the error for a dictionary of an unknown kind when keyspace names cannot be read.
fn unknown(entry: &DictionaryEntry) -> Error {
    let file = format!("the manifest's dictionary {}", entry.id);
    Error::NewerFormat {
        place: DiskLocation::new(alluvium_storage::OnDiskObject::Superblock, file, 0),
        found: u32::from(entry.kind),
        supported: u32::from(StructureKind::Volatile.kind()),
    }
}

/// Reports the progress of a check.
type ProgressReport<'t> = dyn FnMut(CheckProgress) -> Result<()> + 't;

/// Checks the data that a root references, which has a number of live bytes.
type RootCheck =
    fn(DataFiles<'_>, &Arc<dyn Directory>, &[u8], u64, &mut ProgressReport<'_>) -> Result<CheckFindings>;

/// Operations on the root of a structure, for open and closed stores.
struct RootFunctions {
    /// Returns every extent that the root references.
    reached: fn(DataFiles<'_>, &[u8]) -> Result<Vec<ReachableExtent>>,
    /// Searches for damage, and returns the extents of the intact data.
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
                or_lost(reached, manifest, entry, &mut surveyed.levels)
            },
            check: |files, _, root, live_bytes, tell| levels::check_files(files, root, live_bytes, tell),
        },
        StructureKind::Hashed => RootFunctions {
            reached: hashed::reached,
            survey: survey_hashed,
            check: |files, _, root, live_bytes, tell| hashed::check_files(files, root, live_bytes, tell),
        },
        // Pages are stored in a separate file, which is opened for a survey.
        StructureKind::Paged => RootFunctions {
            reached: |_, _| Ok(Vec::new()),
            survey: |_, _, _, _| Ok(Vec::new()),
            check: |_, directory, root, _, _| paged::check_files(directory, root),
        },
        // The data is lost at every closing.
        StructureKind::Volatile => RootFunctions {
            survey: |_, _, _, _| Ok(Vec::new()),
            ..of(StructureKind::Map)
        },
        StructureKind::Map => RootFunctions {
            reached: map::reached,
            survey: |files, manifest, entry, surveyed| {
                let reached = map::reached(files, &entry.root);
                or_lost(reached, manifest, entry, &mut surveyed.map)
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
        let lost = survey.lost.iter();
        let lost = lost.flat_map(|what| of_each(manifest, entry, what));
        surveyed.hashed_runs = lost.collect();
        surveyed.hashed_filters = survey.filters;
        survey.reached
    });
    or_lost(survey, manifest, entry, &mut surveyed.hashed)
}

/// Treats a dictionary with a damaged root as lost.
fn or_lost(
    reached: Result<Vec<ReachableExtent>>,
    manifest: &Manifest,
    entry: &DictionaryEntry,
    all: &mut Vec<LostRange>,
) -> Result<Vec<ReachableExtent>> {
    match reached {
        Err(error @ Error::Corrupt { .. }) => {
            *all = lost(manifest, entry, &error);
            Ok(Vec::new())
        }
        other => other,
    }
}

fn in_order(mut all: Vec<ReachableExtent>) -> Vec<ReachableExtent> {
    all.sort_unstable_by_key(|reached| reached.extent);
    all
}
