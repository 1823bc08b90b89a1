//! What the manifest of data files leads to, whether or not the store is open.

use super::{Entry, Manifest, read};
use crate::format;
use crate::structure::Structure;
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

/// What is damaged of what an opening needs.
#[derive(Debug, Default)]
pub(crate) struct Surveyed {
    /// Of the tree, if there is one.
    pub(crate) tree: Option<Salvage>,
    /// Keyspaces of a map that cannot be read: it is given up.
    pub(crate) map: Vec<Lost>,
    /// Keyspaces of levels whose runs cannot all be opened: they are given up.
    pub(crate) levels: Vec<Lost>,
    /// Keyspaces of a hashed structure of which it is not known which runs there are: they are
    /// given up.
    pub(crate) hashed: Vec<Lost>,
    /// What keyspaces of a hashed structure lose with runs that cannot be opened.
    pub(crate) hashed_runs: Vec<Lost>,
    /// How many routing filters of a hashed structure cannot be opened: it does without them.
    pub(crate) hashed_filters: u64,
    /// Whether no page can be read, of those that are written in place: they are given up. They
    /// are looked at when they are opened.
    pub(crate) has_lost_pages: bool,
    /// The extents that what is sound needs.
    pub(crate) reached: Vec<Reached>,
}

/// Every extent that a payload leads to, with its references and live bytes: what the extent map
/// says, found without it.
pub(crate) fn reached(files: Files<'_>, payload: &[u8]) -> Result<Vec<Reached>> {
    let (manifest, nodes) = read(files, payload, Purpose::Recovery)?;
    let mut all = blob::reached(nodes, []);
    for entry in &manifest.dictionaries {
        all.extend((of(known(entry)?).reached)(files, &entry.root)?);
    }
    Ok(in_order(all))
}

/// Looks for damage to what a payload leads to, and changes nothing.
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

/// Says what is lost with a dictionary that keeps its records as a whole.
pub(crate) fn lost(manifest: &Manifest, entry: &Entry, error: &Error) -> Vec<Lost> {
    of_each(manifest, entry, &format!("all but the newest writes ({error})"))
}

/// Says that of each keyspace of a dictionary the same is lost.
fn of_each(manifest: &Manifest, entry: &Entry, what: &str) -> Vec<Lost> {
    let own = manifest.keyspaces.iter().filter(|(_, id)| **id == entry.id);
    let lost = own.map(|(&keyspace, _)| Lost {
        range: KeyRange::new(&format::prefix(keyspace), Some(&format::prefix(keyspace + 1))),
        what: what.to_owned(),
    });
    lost.collect()
}

/// Checks what a payload leads to, in data files that are not written meanwhile, and in files
/// beside them in their first `directory`; `live_bytes` is how much there is, about. `tell` may end
/// it by failing.
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

/// The error for a dictionary of a kind that this version does not know, where the names of
/// keyspaces cannot be read.
fn unknown(entry: &Entry) -> Error {
    let file = format!("the manifest's dictionary {}", entry.id);
    Error::NewerFormat {
        place: Place::new(alluvium_storage::Structure::Superblock, file, 0),
        found: u32::from(entry.kind),
        supported: u32::from(Structure::Volatile.kind()),
    }
}

/// Functions that tell how far a check has come.
type Tell<'t> = dyn FnMut(Checked) -> Result<()> + 't;

/// Checks what a root leads to, which has some live bytes.
type Check = fn(Files<'_>, &Arc<dyn Directory>, &[u8], u64, &mut Tell<'_>) -> Result<Findings>;

/// What can be asked of a structure's root, whether or not the store is open.
struct Roots {
    /// Returns every extent that it leads to.
    reached: fn(Files<'_>, &[u8]) -> Result<Vec<Reached>>,
    /// Looks for damage, and returns the extents that what is sound needs.
    survey: fn(Files<'_>, &Manifest, &Entry, &mut Surveyed) -> Result<Vec<Reached>>,
    check: Check,
}

fn of(structure: Structure) -> Roots {
    match structure {
        Structure::Tiered => Roots {
            reached: tiered::reached,
            survey: survey_tree,
            check: |files, _, root, live_bytes, tell| tiered::check_files(files, root, live_bytes, tell),
        },
        Structure::Levels => Roots {
            reached: levels::reached,
            survey: |files, manifest, entry, surveyed| {
                let reached = levels::reached(files, &entry.root);
                or_lost(reached, manifest, entry, &mut surveyed.levels)
            },
            check: |files, _, root, live_bytes, tell| levels::check_files(files, root, live_bytes, tell),
        },
        Structure::Hashed => Roots {
            reached: hashed::reached,
            survey: survey_hashed,
            check: |files, _, root, live_bytes, tell| hashed::check_files(files, root, live_bytes, tell),
        },
        // Their file is beside the extents, and is opened for a survey.
        Structure::Paged => Roots {
            reached: |_, _| Ok(Vec::new()),
            survey: |_, _, _, _| Ok(Vec::new()),
            check: |_, directory, root, _, _| paged::check_files(directory, root),
        },
        // What there was is gone in any case.
        Structure::Volatile => Roots {
            survey: |_, _, _, _| Ok(Vec::new()),
            ..of(Structure::Map)
        },
        Structure::Map => Roots {
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

/// Where the root is damaged, a dictionary is lost as a whole.
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
