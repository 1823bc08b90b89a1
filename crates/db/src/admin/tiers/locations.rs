//! Locates a store's tier directories, either at the paths that the program passes or at the paths
//! recorded in the store.

use crate::admin::path_checks;
use crate::error::{Error, Result};
use crate::options::TierOptions;
use alluvium_device::file::FileDirectory;
use alluvium_device::{Directory, FileAccessMode, OverlayDirectory};
use alluvium_storage::store::Store;
use alluvium_storage::superblock::{self, Superblock, SuperblockFile};
use alluvium_storage::tiers::list::{TierEntry, TierList};
use alluvium_storage::tiers::{MAX_TIERS, mark_of};
use alluvium_storage::{Error as Storage, TierDirectories};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directories of all tiers of a store, and their size limits.
#[derive(Clone, Debug)]
pub(crate) struct TierLocations {
    /// Directories in the order of the tiers.
    pub(crate) directories: TierDirectories,
    /// Maximum size in bytes of each tier after the first; `None` if the tier has no limit.
    pub(crate) limits: Vec<Option<u64>>,
    /// Whether each tier after the first is drained and therefore closed to new data.
    drained: Vec<bool>,
    /// Paths of the tiers after the first.
    paths: Vec<PathBuf>,
}

/// A tier after the first, with the directory that was found or created for it.
#[derive(Clone, Debug)]
struct LocatedTier {
    path: PathBuf,
    directory: Arc<dyn Directory>,
    max_bytes: Option<u64>,
    is_drained: bool,
}

impl TierLocations {
    fn new(first: FileDirectory, further: Vec<LocatedTier>) -> TierLocations {
        let mut directories = TierDirectories::from(Arc::new(first));
        let (mut limits, mut drained, mut paths) = (Vec::new(), Vec::new(), Vec::new());
        for LocatedTier {
            path,
            directory,
            max_bytes,
            is_drained,
        } in further
        {
            directories = directories.and(directory);
            limits.push(max_bytes);
            drained.push(is_drained);
            paths.push(path);
        }
        TierLocations {
            directories,
            limits,
            drained,
            paths,
        }
    }

    /// Closes to new data those tiers of an open store that an earlier session drained.
    pub(crate) fn close_drained(&self, store: &Store) {
        let numbered = (1..).zip(&self.drained);
        numbered
            .filter(|(_, drained)| **drained)
            .for_each(|(tier, _)| store.close_tier(tier));
    }

    /// Records the tier paths in the first directory of an existing store. If the disk is full,
    /// nothing is recorded, and the program must pass the tiers again at the next opening.
    pub(crate) fn note(&self) -> Result<()> {
        if self.paths.is_empty() {
            return Ok(());
        }
        let first = &**self.directories.first();
        let listed = (1..).zip(&self.paths).zip(&self.limits).zip(&self.drained);
        let listed = listed.map(|(((tier, path), &max_bytes), &is_drained)| TierEntry {
            tier,
            path: path.to_string_lossy().into_owned(),
            max_bytes,
            is_drained,
        });
        let list = TierList {
            store: SuperblockFile::open(first, FileAccessMode::ReadOnly)?
                .durable()
                .store,
            tiers: listed.collect(),
        };
        if TierList::read(first).ok().flatten().as_ref() == Some(&list) {
            return Ok(());
        }
        match list.write(first) {
            Err(error) if error.is_full() => {
                tracing::warn!(%error, "the locations of the tiers could not be recorded; give the directory of a tier that the next opening does not find (--tier, or `Options::tier`)");
                Ok(())
            }
            written => Ok(written?),
        }
    }
}

/// Returns whether a path is the first directory of a store, the one that contains the superblock.
pub(crate) fn is_store(path: &Path) -> bool {
    path.join(superblock::FILE).is_file()
}

/// Returns an overlay of each directory, which keeps writes in memory and leaves the directory
/// unchanged.
pub(crate) fn overlaid(directories: &TierDirectories) -> Result<TierDirectories> {
    let above = |below: &Arc<dyn Directory>| {
        OverlayDirectory::new(Arc::clone(below)).map(|above| Arc::new(above) as Arc<dyn Directory>)
    };
    Ok(directories.map(above)?)
}

/// Creates the directories of a new store.
pub(crate) fn new(path: &Path, given: &[(PathBuf, TierOptions)]) -> Result<TierLocations> {
    check(path, given)?;
    for (path, _) in given {
        path_checks::no_file(path)?;
    }
    let first = FileDirectory::create(path)?;
    let further = given.iter().map(|(path, options)| {
        let directory = FileDirectory::create(path)?;
        Ok(LocatedTier {
            path: resolve_path(path),
            directory: Arc::new(directory),
            max_bytes: options.max_bytes,
            is_drained: false,
        })
    });
    Ok(TierLocations::new(first, further.collect::<Result<_>>()?))
}

/// Creates the directories for a copy of a store with `tiers` tiers. If `given` is empty, the
/// directories of the tiers after the first are created next to the first.
pub(crate) fn of_copy(path: &Path, given: &[(PathBuf, TierOptions)], tiers: usize) -> Result<TierLocations> {
    if !given.is_empty() && given.len() + 1 != tiers {
        let (further, count) = (tiers - 1, given.len());
        return Err(bad(format!(
            "the store has {further} tiers besides its first directory, but {count} directories were given: give one for each tier, or none"
        )));
    }
    let path = resolve_path(path);
    let beside = |tier: usize| {
        let mut name = path.clone().into_os_string();
        name.push(format!(".tier-{tier}"));
        (PathBuf::from(name), TierOptions::new())
    };
    let missing: Vec<_> = (given.len() + 1..tiers).map(beside).collect();
    new(&path, &[given, &missing].concat())
}

/// Locates the directories of all tiers of an existing store.
pub(crate) fn existing(path: &Path, given: &[(PathBuf, TierOptions)]) -> Result<TierLocations> {
    check(path, given)?;
    let first = FileDirectory::open(path)?;
    // If the superblock cannot be read, return only this directory. Opening the store then reports
    // the damage, or that there is no store.
    let Ok(superblock) = SuperblockFile::open(&first, FileAccessMode::ReadOnly) else {
        return Ok(TierLocations::new(first, Vec::new()));
    };
    let further = find(&first, superblock.durable(), given)?;
    let all = further
        .iter()
        .map(|found| (found.path.clone(), TierOptions::new()));
    check(path, &all.collect::<Vec<_>>())?;
    Ok(TierLocations::new(first, further))
}

/// Locates the tiers after the first. A directory passed by the program is identified by the mark
/// that the store has written to it. Tiers that were not passed are expected at their recorded
/// paths.
fn find(
    first: &FileDirectory,
    superblock: &Superblock,
    given: &[(PathBuf, TierOptions)],
) -> Result<Vec<LocatedTier>> {
    let further = usize::from(superblock.tiers) - 1;
    if given.len() > further {
        let (path, count) = (first.describe(), given.len());
        return Err(bad(format!(
            "the store in {path} has {further} tiers besides its first directory, but {count} were given: \
            open it with the tiers it has, and add others while it is open (`alluvium tiers add`, or \
            `Db::add_tier`)"
        )));
    }
    let list = match TierList::read(first) {
        Ok(list) => list
            .filter(|list| list.store == superblock.store)
            .unwrap_or_default(),
        Err(error) => {
            tracing::warn!(%error, "the recorded locations of the tiers cannot be read; give the directory of each tier (--tier, or `Options::tier`)");
            TierList::default()
        }
    };
    let mut found: Vec<Option<LocatedTier>> = vec![None; further];
    let mut unknown = Vec::new();
    for (path, options) in given {
        let directory = FileDirectory::open(path)?;
        let mark = mark_of(&directory).ok().flatten();
        let number = mark
            .filter(|mark| mark.store == superblock.store)
            .map(|mark| mark.tier);
        let slot = number.and_then(|number| found.get_mut(usize::from(number) - 1));
        let listed = number.and_then(|number| list.get(number));
        let this = LocatedTier {
            path: resolve_path(path),
            directory: Arc::new(directory),
            max_bytes: options.max_bytes.or(listed.and_then(|listed| listed.max_bytes)),
            is_drained: listed.is_some_and(|listed| listed.is_drained),
        };
        match slot {
            Some(slot) if slot.is_none() => *slot = Some(this),
            // Opening the tier reports what is wrong with this directory.
            _ => unknown.push(this),
        }
    }
    let mut unknown = unknown.into_iter();
    let mut all = Vec::new();
    for (found, tier) in found.into_iter().zip(1..) {
        let known = match found.or_else(|| unknown.next()) {
            Some(found) => found,
            None => remembered(first, tier, list.get(tier))?,
        };
        all.push(known);
    }
    debug_assert!(all.len() < MAX_TIERS, "a superblock has no more tiers");
    Ok(all)
}

/// Returns a tier at the path recorded when the store was last open, or an error if the tier is not
/// there.
fn remembered(first: &FileDirectory, tier: u8, listed: Option<&TierEntry>) -> Result<LocatedTier> {
    let wrong = |directory: String, why: &str| {
        Storage::WrongTier {
            directory,
            tier,
            store: first.describe(),
            why: why.to_owned(),
        }
        .into()
    };
    let Some(listed) = listed else {
        let unknown = "an unknown directory".to_owned();
        return Err(wrong(
            unknown,
            "its location is not recorded; give the directory of each tier (--tier, or `Options::tier`)",
        ));
    };
    let path = PathBuf::from(&listed.path);
    if !path.is_dir() {
        let why = "the directory does not exist; mount its device, or give the directory where the tier is now (--tier, or `Options::tier`)";
        return Err(wrong(listed.path.clone(), why));
    }
    Ok(LocatedTier {
        directory: Arc::new(FileDirectory::open(&path)?),
        path,
        max_bytes: listed.max_bytes,
        is_drained: listed.is_drained,
    })
}

/// Returns an error if two of the directories are identical, or if one is inside another (D1).
pub(crate) fn check(first: &Path, further: &[(PathBuf, TierOptions)]) -> Result<()> {
    if further.len() >= MAX_TIERS {
        let most = MAX_TIERS - 1;
        return Err(bad(format!(
            "{} tiers were given, but a store has at most {most} besides its first directory",
            further.len()
        )));
    }
    let mut all = vec![resolve_path(first)];
    for (path, options) in further {
        options.check()?;
        let path = resolve_path(path);
        if let Some(other) = all
            .iter()
            .find(|other| other.starts_with(&path) || path.starts_with(other))
        {
            let (path, other) = (path.display(), other.display());
            return Err(bad(format!(
                "{path} and {other} are the same directory, or one is inside the other: give each tier a \
                directory of its own"
            )));
        }
        all.push(path);
    }
    Ok(())
}

/// Returns the absolute form of a path, with symbolic links resolved in the part that exists.
pub(crate) fn resolve_path(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = absolute
        .ancestors()
        .find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    match known {
        Some((ancestor, settled)) => match absolute.strip_prefix(ancestor) {
            Ok(rest) if rest.as_os_str().is_empty() => settled,
            Ok(rest) => settled.join(rest),
            Err(_) => absolute,
        },
        None => absolute,
    }
}

fn bad(why: String) -> Error {
    Error::BadOption { option: "tier", why }
}
