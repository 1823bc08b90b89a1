//! The marker file that identifies a tier's directory. Every tier but the first has one. It is
//! written before the store's first superblock, renamed after it, and checked each time the store
//! is opened.

use super::format::{MARK_BYTES, TierMark};
use super::{TierDirectories, TierFiles, tier_file};
use crate::store::LOCK_FILE;
use crate::{DiskLocation, Error, OnDiskObject, Result, superblock};
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, Device, Directory, FileOptions};

/// Name of the marker file, which shows that a directory belongs to a tier.
pub const MARK_FILE: &str = "tier";
/// Name of the marker file while the tier is being created.
pub const NEW_MARK_FILE: &str = "tier.new";

/// What opening a store does about a damaged or missing marker file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DamagedMarkPolicy {
    Refused,
    /// The marker file is rewritten if the directory contains the tier's data file.
    Mended,
}

impl TierDirectories {
    /// Returns the error for a directory that does not belong to this tier.
    fn wrong(&self, tier: u8, directory: &dyn Directory, why: String) -> Error {
        Error::WrongTier {
            directory: directory.describe(),
            tier,
            store: self.first().describe(),
            why,
        }
    }

    /// Checks that tiers 1 and above can be created in their directories, before anything is locked
    /// or created.
    ///
    /// # Errors
    /// [`Error::WrongTier`] if a directory contains files other than those of an interrupted
    /// creation.
    pub(crate) fn require_vacant(&self) -> Result<()> {
        let mut further = self.further();
        further.try_for_each(|(tier, directory)| self.require_vacant_for(tier, directory))
    }

    /// Checks that a tier can be created in a directory.
    ///
    /// # Errors
    /// As [`TierDirectories::require_vacant`].
    pub(crate) fn require_vacant_for(&self, tier: u8, directory: &dyn Directory) -> Result<()> {
        let names = directory.list()?;
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        let foreign = names.iter().find(|name| *name != LOCK_FILE);
        let why = match foreign {
            None => return Ok(()),
            Some(_) if has(NEW_MARK_FILE) => return Ok(()),
            Some(_) if has(MARK_FILE) => "it holds a tier of a store".to_owned(),
            Some(name) => format!("it holds {name}"),
        };
        let why = format!("{why}, but a tier needs a directory of its own: choose an empty one");
        Err(self.wrong(tier, directory, why))
    }

    /// Writes a marker file to the directory of each tier but the first, to show that the tier is
    /// being created. Files of an interrupted creation are removed (T3).
    ///
    /// # Errors
    /// As [`TierDirectories::require_vacant`]; I/O errors.
    pub(crate) fn begin_creation(&self, store: u128) -> Result<()> {
        self.require_vacant()?;
        let mut further = self.further();
        further.try_for_each(|(tier, directory)| begin(TierMark { store, tier }, directory))
    }

    /// Completes the creation of all tiers but the first. Call this once the superblock is durable
    /// (T3).
    ///
    /// # Errors
    /// I/O errors, after which the next opening of the store completes the creation.
    pub(crate) fn end_creation(&self) -> Result<()> {
        self.further().try_for_each(|(_, directory)| end(directory))
    }

    /// Removes as many files of a failed creation as possible from the directories of all tiers but
    /// the first.
    pub(crate) fn abandon_creation(&self) {
        self.further().for_each(|(_, directory)| abandon(directory));
    }

    /// Undoes the creation of a store in all its directories, unless it was already reported as
    /// complete.
    pub fn undo_creation(&self) {
        superblock::undo_creation(&**self.first());
        for (_, directory) in self.further() {
            let names = directory.list().unwrap_or_default();
            let is_marked = names.iter().any(|name| name == MARK_FILE);
            if !is_marked || (directory.rename(MARK_FILE, NEW_MARK_FILE).is_ok() && directory.sync().is_ok())
            {
                abandon(directory);
            }
        }
    }

    /// Checks the marker files of all tiers but the first (T2), without writing anything.
    ///
    /// # Errors
    /// As [`TierDirectories::adopt`].
    pub(crate) fn require_marks(&self, store: u128) -> Result<()> {
        let mut further = self.further();
        further.try_for_each(|(tier, directory)| {
            self.require_mark(TierMark { store, tier }, directory).map(drop)
        })
    }

    /// Checks the marker file of one directory.
    ///
    /// # Errors
    /// As [`TierDirectories::adopt`].
    pub(crate) fn require_mark_of(&self, store: u128, tier: u8, directory: &dyn Directory) -> Result<()> {
        self.require_mark(TierMark { store, tier }, directory).map(drop)
    }

    /// Checks the marker files of all tiers but the first. If a creation was interrupted after the
    /// superblock became durable, completes it.
    ///
    /// # Errors
    /// [`Error::WrongTier`] for the first directory that does not belong to its tier;
    /// [`Error::Corrupt`] if a marker file is damaged; [`Error::NewerFormat`]; I/O errors.
    pub(crate) fn adopt(&self, store: u128, damaged: DamagedMarkPolicy) -> Result<()> {
        for (tier, directory) in self.further() {
            let wanted = TierMark { store, tier };
            match self.require_mark(wanted, directory) {
                Ok(NEW_MARK_FILE) => end(directory)?,
                Ok(_) => {}
                Err(error) => {
                    let is_lost = matches!(error, Error::Corrupt { .. }) || !is_marked(directory)?;
                    let has_file = directory.list()?.contains(&tier_file(tier));
                    if damaged == DamagedMarkPolicy::Refused || !is_lost || !has_file {
                        return Err(error);
                    }
                    tracing::warn!(tier, %error, "the mark of a tier is lost or damaged; it is written again");
                    rewrite_mark(wanted, directory)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the violations in the marker files of all tiers but the first, one sentence each.
    /// Nothing is written.
    pub(crate) fn check_marks(&self, store: u128, tiers: &TierFiles) -> Vec<String> {
        let found = self.further().map(|(tier, directory)| {
            let found = self.require_mark(TierMark { store, tier }, directory);
            let error = tiers.record_failure(tier, found).err()?;
            Some(match error {
                // The device has failed, so the marker file could not be checked.
                Error::TierFails { .. } => error.to_string(),
                other => format!("{other} (T2)"),
            })
        });
        found.flatten().collect()
    }

    /// Returns the name of a directory's marker file, or an error unless the file identifies the
    /// expected store and tier.
    fn require_mark(&self, wanted: TierMark, directory: &dyn Directory) -> Result<&'static str> {
        let names = directory.list()?;
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        let wrong = |why: String| Err(self.wrong(wanted.tier, directory, why));
        let Some(name) = [MARK_FILE, NEW_MARK_FILE].into_iter().find(|name| has(name)) else {
            let holds = if has(superblock::FILE) {
                "it is the first directory of a store"
            } else if names.iter().all(|name| name == LOCK_FILE) {
                "it is empty"
            } else {
                "it holds no tier of a store"
            };
            return wrong(format!(
                "{holds}; give the directory that holds {} of this store",
                tier_file(wanted.tier)
            ));
        };
        let file = directory.open(name, FileOptions::DIRECT.read_only())?;
        let found = read(&*file, &DiskLocation::new(OnDiskObject::TierMark, name, 0))?;
        if found.store != wanted.store {
            return wrong(format!(
                "it holds tier {} of another store; give the directory that holds {} of this store",
                found.tier,
                tier_file(wanted.tier)
            ));
        }
        if found.tier != wanted.tier {
            return wrong(format!(
                "it holds tier {}; give the directories in the order of their tiers",
                found.tier
            ));
        }
        if !has(&tier_file(wanted.tier)) {
            return wrong(format!(
                "its file {} is missing; restore the store from a backup",
                tier_file(wanted.tier)
            ));
        }
        Ok(name)
    }
}

/// Reads a directory's marker file. Returns `None` if there is none.
///
/// # Errors
/// [`Error::Corrupt`] if the marker file is damaged; [`Error::NewerFormat`]; I/O errors.
pub fn mark_of(directory: &dyn Directory) -> Result<Option<TierMark>> {
    let names = directory.list()?;
    let mut marks = [MARK_FILE, NEW_MARK_FILE].into_iter();
    let Some(name) = marks.find(|name| names.iter().any(|other| other == name)) else {
        return Ok(None);
    };
    let file = directory.open(name, FileOptions::DIRECT.read_only())?;
    read(&*file, &DiskLocation::new(OnDiskObject::TierMark, name, 0)).map(Some)
}

/// Returns whether a directory has a marker file, even a damaged one.
fn is_marked(directory: &dyn Directory) -> Result<bool> {
    let names = directory.list()?;
    Ok(names
        .iter()
        .any(|name| [MARK_FILE, NEW_MARK_FILE].contains(&name.as_str())))
}

/// Returns whether a directory contains a tier of some store other than the store's first.
pub(crate) fn is_tier_directory(names: &[String]) -> bool {
    names.iter().any(|name| name == MARK_FILE)
}

fn is_tier_file(name: &str) -> bool {
    name.starts_with("tier-") && name.ends_with(".data")
}

fn read(file: &dyn Device, place: &DiskLocation) -> Result<TierMark> {
    if file.len() < MARK_BYTES as u64 {
        let found = format!("{} bytes", file.len());
        return Err(Error::corrupt(
            place.clone(),
            format!("{MARK_BYTES} bytes"),
            found,
        ));
    }
    TierMark::decode(&file.read_at(0, MARK_BYTES, Purpose::Recovery)?, place)
}

fn write(file: &dyn Device, mark: TierMark) -> Result<()> {
    debug_assert!(mark.tier > 0, "the first directory has a superblock (T2)");
    file.grow(MARK_BYTES as u64)?;
    file.write_at(0, AlignedBuffer::padded(&mark.encode()), Purpose::Superblock)?;
    Ok(file.sync(Purpose::Superblock)?)
}

/// Writes the marker file of a tier that is being created. Data files of an interrupted creation
/// are removed first.
pub(crate) fn begin(mark: TierMark, directory: &dyn Directory) -> Result<()> {
    let names = directory.list()?;
    for name in names.iter().filter(|name| is_tier_file(name)) {
        directory.remove(name)?;
    }
    let file = if names.iter().any(|name| name == NEW_MARK_FILE) {
        directory.open(NEW_MARK_FILE, FileOptions::DIRECT)?
    } else {
        directory.create(NEW_MARK_FILE, FileOptions::DIRECT)?
    };
    write(&*file, mark)?;
    Ok(directory.sync()?)
}

/// Durably gives the marker file its final name.
pub(crate) fn end(directory: &dyn Directory) -> Result<()> {
    directory.rename(NEW_MARK_FILE, MARK_FILE)?;
    Ok(directory.sync()?)
}

/// Replaces a damaged or missing marker file.
fn rewrite_mark(mark: TierMark, directory: &dyn Directory) -> Result<()> {
    for name in directory.list()? {
        if name == NEW_MARK_FILE {
            directory.remove(NEW_MARK_FILE)?;
        }
    }
    write(&*directory.create(NEW_MARK_FILE, FileOptions::DIRECT)?, mark)?;
    end(directory)
}

/// Removes the files of an interrupted creation, the marker file last. Files of a completed tier
/// are not removed (T3).
pub(crate) fn abandon(directory: &dyn Directory) {
    let names = directory.list().unwrap_or_default();
    if is_tier_directory(&names) {
        return;
    }
    let mut removed = true;
    for name in names.iter().filter(|name| is_tier_file(name)) {
        removed &= directory.remove(name).is_ok();
    }
    if removed && directory.sync().is_ok() {
        // If this fails, the next creation of a tier in this directory removes the file.
        let _ = directory.remove(NEW_MARK_FILE);
    }
}
