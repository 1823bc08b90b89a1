//! Traversal of all data that the manifest references, for open and closed stores.

use super::{Entry, Manifest, read};
use crate::options::kind::Structure;
use crate::schema::format;
use alluvium_base::Purpose;
use alluvium_device::Directory;
use alluvium_dictionary::blob;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::Files;
use alluvium_hashes::hashed;
use alluvium_storage::extents::Reached;
use alluvium_storage::{Error, Place, Result};
use alluvium_trees::tiered::{self, Checked, Findings, Lost, Salvage};
use alluvium_trees::{levels, map, paged};
use std::sync::Arc;

/// Damage to the data that opening a store requires.
#[derive(Debug, Default)]
pub(crate) struct Surveyed {
    /// Damage of the tree, if any.
    pub(crate) tree: Option<Salvage>,
    /// Keyspaces of a map that cannot be read and is abandoned.
    pub(crate) map: Vec<Lost>,
    /// Keyspaces of levels with runs that cannot be opened; they are abandoned.
    pub(crate) levels: Vec<Lost>,
    /// Keyspaces of a hashed structure whose list of runs cannot be read; they are abandoned.
    pub(crate) hashed: Vec<Lost>,
    /// Data that keyspaces of a hashed structure lose with runs that cannot be opened.
    pub(crate) hashed_runs: Vec<Lost>,
    /// Number of routing filters of a hashed structure that cannot be opened; it works without
    /// them.
    pub(crate) hashed_filters: u64,
    /// Whether none of the pages that are updated in place can be read; they are abandoned.
    /// Determined when they are opened.
    pub(crate) has_lost_pages: bool,
    /// Extents that the intact data uses.
    pub(crate) reached: Vec<Reached>,
}

/// Returns every extent that a payload references, with its references and live bytes. This is the
/// contents of the extent map, computed without it.
pub(crate) fn reached(files: Files<'_>, payload: &[u8]) -> Result<Vec<Reached>> {
    let (manifest, nodes) = read(files, payload, Purpose::Recovery)?;
    let mut all = blob::reached(nodes, []);
    for entry in &manifest.dictionaries {
        all.extend((of(known(entry)?).reached)(files, &entry.root)?);
    }
    Ok(in_order(all))
}

/// Searches the referenced data for damage, and changes nothing.
pub(crate) fn survey(files: Files<'_>, payload: &[u8]) -> Result<Surveyed> {
    let (manifest, nodes) = read(files, payload, Purpose::Recovery)?;
    let mut surveyed = Surveyed::default();
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
pub(crate) fn lost(manifest: &Manifest, entry: &Entry, error: &Error) -> Vec<Lost> {
    of_each(manifest, entry, &format!("all but the newest writes ({error})"))
}

/// Reports the same loss for each keyspace of a dictionary.
fn of_each(manifest: &Manifest, entry: &Entry, what: &str) -> Vec<Lost> {
    let own = manifest.keyspaces.iter().filter(|(_, id)| **id == entry.id);
    let lost = own.map(|(&keyspace, _)| Lost {
        range: KeyRange::new(&format::prefix(keyspace), Some(&format::prefix(keyspace + 1))),
        what: what.to_owned(),
    });
    lost.collect()
}

/// Checks the data that a payload references, in data files that are not written concurrently and
/// in other files of their first `directory`. `live_bytes` is the approximate amount. `tell` can
/// abort the check by returning an error.
pub(crate) fn check(
    files: Files<'_>,
    directory: &Arc<dyn Directory>,
    payload: &[u8],
    live_bytes: u64,
    tell: &mut dyn FnMut(Checked) -> Result<()>,
) -> Result<Findings> {
    let mut findings = Findings::default();
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
            Err(error) => Findings {
                found: vec![format!("manifest: {error}")],
                ..Findings::default()
            },
        };
        findings.add(found);
    }
    Ok(findings)
}

fn known(entry: &Entry) -> Result<Structure> {
    Structure::of(entry.kind).ok_or_else(|| unknown(entry))
}

/// Returns the error for a dictionary of an unknown kind when keyspace names cannot be read.
fn unknown(entry: &Entry) -> Error {
    let file = format!("the manifest's dictionary {}", entry.id);
    Error::NewerFormat {
        place: Place::new(alluvium_storage::Structure::Superblock, file, 0),
        found: u32::from(entry.kind),
        supported: u32::from(Structure::Volatile.kind()),
    }
}

/// Reports the progress of a check.
type ProgressReport<'t> = dyn FnMut(Checked) -> Result<()> + 't;

/// Checks the data that a root references, which has a number of live bytes.
type RootCheck = fn(Files<'_>, &Arc<dyn Directory>, &[u8], u64, &mut ProgressReport<'_>) -> Result<Findings>;

/// Operations on the root of a structure, for open and closed stores.
struct RootFunctions {
    /// Returns every extent that the root references.
    reached: fn(Files<'_>, &[u8]) -> Result<Vec<Reached>>,
    /// Searches for damage, and returns the extents of the intact data.
    survey: fn(Files<'_>, &Manifest, &Entry, &mut Surveyed) -> Result<Vec<Reached>>,
    check: RootCheck,
}

fn of(structure: Structure) -> RootFunctions {
    match structure {
        Structure::Tiered => RootFunctions {
            reached: tiered::reached,
            survey: survey_tree,
            check: |files, _, root, live_bytes, tell| tiered::check_files(files, root, live_bytes, tell),
        },
        Structure::Levels => RootFunctions {
            reached: levels::reached,
            survey: |files, manifest, entry, surveyed| {
                let reached = levels::reached(files, &entry.root);
                or_lost(reached, manifest, entry, &mut surveyed.levels)
            },
            check: |files, _, root, live_bytes, tell| levels::check_files(files, root, live_bytes, tell),
        },
        Structure::Hashed => RootFunctions {
            reached: hashed::reached,
            survey: survey_hashed,
            check: |files, _, root, live_bytes, tell| hashed::check_files(files, root, live_bytes, tell),
        },
        // Pages are stored in a separate file, which is opened for a survey.
        Structure::Paged => RootFunctions {
            reached: |_, _| Ok(Vec::new()),
            survey: |_, _, _, _| Ok(Vec::new()),
            check: |_, directory, root, _, _| paged::check_files(directory, root),
        },
        // The data is lost at every closing.
        Structure::Volatile => RootFunctions {
            survey: |_, _, _, _| Ok(Vec::new()),
            ..of(Structure::Map)
        },
        Structure::Map => RootFunctions {
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
    files: Files<'_>,
    _: &Manifest,
    entry: &Entry,
    surveyed: &mut Surveyed,
) -> Result<Vec<Reached>> {
    let salvage = Salvage::survey(files, &entry.root)?;
    let reached = salvage.reached().to_vec();
    surveyed.tree = Some(salvage);
    Ok(reached)
}

fn survey_hashed(
    files: Files<'_>,
    manifest: &Manifest,
    entry: &Entry,
    surveyed: &mut Surveyed,
) -> Result<Vec<Reached>> {
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
    reached: Result<Vec<Reached>>,
    manifest: &Manifest,
    entry: &Entry,
    all: &mut Vec<Lost>,
) -> Result<Vec<Reached>> {
    match reached {
        Err(error @ Error::Corrupt { .. }) => {
            *all = lost(manifest, entry, &error);
            Ok(Vec::new())
        }
        other => other,
    }
}

fn in_order(mut all: Vec<Reached>) -> Vec<Reached> {
    all.sort_unstable_by_key(|reached| reached.extent);
    all
}
