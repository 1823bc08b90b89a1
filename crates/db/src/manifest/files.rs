//! What the manifest of data files leads to, whether or not the store is open.

use super::{Entry, Manifest, read};
use crate::format;
use crate::structure::Structure;
use alluvium_base::Purpose;
use alluvium_device::Directory;
use alluvium_dictionary::blob::extents_of;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::Files;
use alluvium_hashes::hashed;
use alluvium_storage::extents::Reached;
use alluvium_storage::{Error, NodePointer, Place, Result};
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
    let mut all = of_manifest(nodes);
    for entry in &manifest.dictionaries {
        match known(entry)? {
            Structure::Tiered => all.extend(tiered::reached(files, &entry.root)?),
            Structure::Levels => all.extend(levels::reached(files, &entry.root)?),
            Structure::Hashed => all.extend(hashed::reached(files, &entry.root)?),
            // Their file is beside the extents.
            Structure::Paged => {}
            Structure::Volatile | Structure::Map => all.extend(map::reached(files, &entry.root)?),
        }
    }
    Ok(in_order(all))
}

/// Looks for damage to what a payload leads to, and changes nothing.
pub(crate) fn survey(files: Files<'_>, payload: &[u8]) -> Result<Surveyed> {
    let (manifest, nodes) = read(files, payload, Purpose::Recovery)?;
    let mut surveyed = Surveyed::default();
    let mut all = of_manifest(nodes);
    for entry in &manifest.dictionaries {
        match known(entry)? {
            Structure::Tiered => {
                let salvage = Salvage::survey(files, &entry.root)?;
                all.extend(salvage.reached().iter().cloned());
                surveyed.tree = Some(salvage);
            }
            Structure::Levels => match levels::reached(files, &entry.root) {
                Ok(reached) => all.extend(reached),
                Err(error @ Error::Corrupt { .. }) => surveyed.levels = lost(&manifest, entry, &error),
                Err(error) => return Err(error),
            },
            Structure::Hashed => match hashed::survey(files, &entry.root) {
                Ok(survey) => {
                    all.extend(survey.reached);
                    let lost = survey
                        .lost
                        .iter()
                        .flat_map(|what| of_each(&manifest, entry, what));
                    surveyed.hashed_runs = lost.collect();
                    surveyed.hashed_filters = survey.filters;
                }
                Err(error @ Error::Corrupt { .. }) => surveyed.hashed = lost(&manifest, entry, &error),
                Err(error) => return Err(error),
            },
            // What there was is gone in any case.
            Structure::Volatile => {}
            // They are opened for it, beside the extents.
            Structure::Paged => {}
            Structure::Map => match map::reached(files, &entry.root) {
                Ok(reached) => all.extend(reached),
                Err(error @ Error::Corrupt { .. }) => surveyed.map = lost(&manifest, entry, &error),
                Err(error) => return Err(error),
            },
        }
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
            Ok(Structure::Tiered) => tiered::check_files(files, &entry.root, live_bytes, tell)?,
            Ok(Structure::Levels) => levels::check_files(files, &entry.root, live_bytes, tell)?,
            Ok(Structure::Hashed) => hashed::check_files(files, &entry.root, live_bytes, tell)?,
            Ok(Structure::Paged) => paged::check_files(directory, &entry.root)?,
            Ok(Structure::Volatile | Structure::Map) => map::check_files(files, &entry.root),
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

/// The extents of a manifest that is apart.
fn of_manifest(mut nodes: Vec<NodePointer>) -> Vec<Reached> {
    nodes.sort_unstable_by_key(|node| (node.tier, node.offset));
    let extents = extents_of(nodes.iter()).into_iter();
    let reached = extents.map(|(extent, live)| Reached {
        extent,
        references: 1,
        live,
    });
    reached.collect()
}

fn in_order(mut all: Vec<Reached>) -> Vec<Reached> {
    all.sort_unstable_by_key(|reached| reached.extent);
    all
}
