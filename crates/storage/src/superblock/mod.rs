//! The superblock, which determines the store's durable generation.
//!
//! *Scope*: how a generation is stored in two copies, which generation in the file is newest, and
//! when the file is synced.
//!
//! *Must not depend on*: the contents of a generation: the payload, the extent map and the log.
//!
//! ```text
//!          pair 0                pair 1
//!    ┌─────────┬─────────┐ ┌─────────┬─────────┐
//!    │ slot 0  │ slot 1  │ │ slot 2  │ slot 3  │     a new generation goes to the pair
//!    │ copy of │ copy of │ │ copy of │ copy of │     that does not hold the durable one
//!    │ gen. 41 │ gen. 41 │ │ gen. 42 │ gen. 42 │
//!    └─────────┴─────────┘ └─────────┴─────────┘
//! ```
//!
//! Invariants:
//!
//! - **P1** The slots that hold the durable generation are never written, except to repair one copy
//!   from the other.
//! - **P2** A generation is durable once both of its copies are written and the file is synced.
//!   Everything reachable from the generation was synced before the copies were written.
//! - **P3** Opening rewrites both copies of the generation it finds, one after the other, and syncs
//!   each before anything depends on their contents. A killed process may have left a superblock
//!   that was never synced, and a failed sync one that a later sync would not write, because its
//!   pages are marked clean although they are not on disk.
//! - **P4** The file gets the name `superblock` only once it contains a durable generation. Until
//!   then, the store is being created, and the name is `superblock.new`.
//! - **P5** Of the files that an earlier process left behind, only the superblock itself may not be
//!   durable. The extents and the part of the map reachable from it were synced before it was
//!   written (P2), and a failed sync would have stopped the store before that. If a later process
//!   appends to a page of an earlier one, it rewrites the whole page and syncs it.

pub mod format;

#[cfg(test)]
mod tests;

pub use format::{FORMAT_VERSION, MAX_PAYLOAD, Superblock};

use crate::store::LOCK_FILE;
use crate::tiers::is_tier_directory;
use crate::tiers::list::{LIST_FILE, NEW_LIST_FILE};
use crate::{Error, Result};
use alluvium_base::{Purpose, measurements};
use alluvium_device::{AlignedBuffer, Device, Directory, FileAccessMode, FileOptions, IoBatch};
use format::{SLOT_BYTES, SLOTS, SuperblockSlot};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub const FILE: &str = "superblock";
/// Name of the superblock file while the store is being created.
pub const NEW_FILE: &str = "superblock.new";

/// The open superblock file, which determines the durable generation.
#[derive(Debug)]
pub struct SuperblockFile {
    file: Arc<dyn Device>,
    /// The pair of slots with the durable generation: 0 or 1.
    durable_pair: usize,
    durable: Superblock,
    /// Whether a full disk prevented the copies of the durable generation from being rewritten at
    /// opening.
    unmended: AtomicBool,
}

impl SuperblockFile {
    /// Returns whether the file has been removed since it was opened.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.file.is_removed()
    }
}

/// Returns whether a directory contains a superblock file, even a damaged one.
///
/// # Errors
/// I/O errors.
pub fn exists(directory: &dyn Directory) -> Result<bool> {
    Ok(directory.list()?.iter().any(|name| name == FILE))
}

/// Checks that a directory contains a superblock file, before anything is locked or created there.
///
/// # Errors
/// [`Error::NotAStore`] with the reason if there is no superblock file; I/O errors.
pub fn require(directory: &dyn Directory) -> Result<()> {
    if exists(directory)? {
        return Ok(());
    }
    Err(Error::NotAStore {
        directory: directory.describe(),
        why: missing(directory)?,
    })
}

/// Checks that a store can be created in a directory, before anything is locked or created there.
///
/// # Errors
/// [`Error::StoreExists`] if the directory contains a store. [`Error::NotAStore`] if it contains
/// store files but no superblock, because creation must not overwrite them, or if it contains files
/// of other programs. I/O errors.
pub fn require_none(directory: &dyn Directory) -> Result<()> {
    let names = directory.list()?;
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    if has(FILE) {
        return Err(Error::StoreExists {
            directory: directory.describe(),
        });
    }
    let not_here = |why| Error::NotAStore {
        directory: directory.describe(),
        why,
    };
    if is_tier_directory(&names) {
        return Err(not_here(format!("{TIER_OF_ANOTHER}: choose an empty directory")));
    }
    match names.iter().find(|name| is_store_file(name)) {
        Some(name) if !has(NEW_FILE) => {
            return Err(not_here(format!(
                "it holds {name} but no superblock; a store was here, and creating one would overwrite it: \
                 restore the superblock from a backup, or move these files away"
            )));
        }
        _ => {}
    }
    let is_own = |name: &str| {
        is_store_file(name) || [NEW_FILE, LOCK_FILE].contains(&name) || name.starts_with(measurements::FILE)
    };
    let is_foreign = |name: &&String| !is_own(name);
    match names.iter().find(is_foreign) {
        Some(name) => Err(not_here(foreign(name))),
        None => Ok(()),
    }
}

/// What to say about a directory that contains a tier other than the first.
const TIER_OF_ANOTHER: &str = "it holds a tier of a store whose first directory is elsewhere";

/// Explains why no store is created in a directory with the file `name` of another program.
#[must_use]
pub fn foreign(name: &str) -> String {
    format!(
        "it holds {name} but no store, and a store needs a directory of its own: choose an empty directory \
        or a new one, or check the path if a store should be here"
    )
}

/// Creates a file in the directory to show that a store is being created there. As the first file,
/// it identifies all others after a crash.
///
/// # Errors
/// As [`require_none`]; I/O errors.
pub fn begin_creation(directory: &dyn Directory) -> Result<()> {
    require_none(directory)?;
    let names = directory.list()?;
    if names.iter().any(|name| name == NEW_FILE) {
        // These files are left over from an interrupted creation that was never reported as
        // complete, so they may be removed.
        for name in names.iter().filter(|name| is_store_file(name)) {
            directory.remove(name)?;
        }
    } else {
        directory.create(NEW_FILE, FileOptions::DIRECT)?;
    }
    Ok(directory.sync()?)
}

/// Removes as many files of a failed creation as possible, and last the file that marks the
/// creation. Any that remain are not a store, because there is no superblock.
pub fn abandon_creation(directory: &dyn Directory) {
    let names = directory.list().unwrap_or_default();
    if names.iter().any(|name| name == FILE) {
        return;
    }
    let mut removed = true;
    for name in names.iter().filter(|name| is_store_file(name)) {
        removed &= directory.remove(name).is_ok();
    }
    if removed && directory.sync().is_ok() {
        // If this fails, the next creation in this directory removes the file.
        let _ = directory.remove(NEW_FILE);
    }
}

/// Undoes the creation of a store that was not reported as complete yet.
pub fn undo_creation(directory: &dyn Directory) {
    // Rename the superblock first, because the store can be opened as long as the superblock has
    // its final name.
    if directory.rename(FILE, NEW_FILE).is_ok() && directory.sync().is_ok() {
        abandon_creation(directory);
    }
}

/// Prefix of the names of files that data structures keep outside the extents, and whose pages are
/// written in place.
pub const PAGES: &str = "paged.";

/// Returns whether only stores use this file name.
fn is_store_file(name: &str) -> bool {
    let with = |prefix: &str, suffix: &str| name.starts_with(prefix) && name.ends_with(suffix);
    let is_list = [LIST_FILE, NEW_LIST_FILE].contains(&name);
    let is_of_pages = name.starts_with(PAGES);
    with("tier-", ".data") || with("extents-", ".map") || name.starts_with("log-") || is_list || is_of_pages
}

impl SuperblockFile {
    /// Writes the superblock of the first generation, which completes a creation started with
    /// [`begin_creation`]. Everything reachable from the generation must already be synced.
    ///
    /// # Errors
    /// I/O errors.
    ///
    /// # Panics
    /// If the payload is longer than [`MAX_PAYLOAD`].
    pub fn create(directory: &dyn Directory, first: Superblock) -> Result<SuperblockFile> {
        let file = directory.open(NEW_FILE, FileOptions::DIRECT)?;
        file.grow((SLOTS * SLOT_BYTES) as u64)?;
        let mut created = SuperblockFile {
            file,
            durable_pair: 1,
            durable: first.clone(),
            unmended: AtomicBool::new(false),
        };
        created.write(first)?;
        directory.rename(NEW_FILE, FILE)?;
        directory.sync()?;
        Ok(created)
    }

    /// Opens the superblock file, reads the newest valid generation, and repairs a damaged copy of
    /// it.
    ///
    /// Only the log can tell whether there was a newer generation (`log::WriteAheadLog::open`).
    ///
    /// # Errors
    /// [`Error::NotAStore`] if there is no superblock file; [`Error::NewerFormat`];
    /// [`Error::Corrupt`] if no slot contains a valid superblock; I/O errors.
    pub fn open(directory: &dyn Directory, access: FileAccessMode) -> Result<SuperblockFile> {
        Self::open_among(directory, access, |_| true)
    }

    /// Like [`SuperblockFile::open`], but ignores generations from `than` on. A repair uses this if
    /// data reachable from a newer generation is damaged.
    ///
    /// # Errors
    /// As [`SuperblockFile::open`].
    pub fn open_older(
        directory: &dyn Directory,
        access: FileAccessMode,
        than: u64,
    ) -> Result<SuperblockFile> {
        Self::open_among(directory, access, |found| found.generation < than)
    }

    fn open_among(
        directory: &dyn Directory,
        access: FileAccessMode,
        counts: impl Fn(&Superblock) -> bool,
    ) -> Result<SuperblockFile> {
        let file = match directory.open(
            FILE,
            FileOptions {
                access,
                ..FileOptions::DIRECT
            },
        ) {
            Ok(file) => file,
            Err(alluvium_device::Error::NotFound { .. }) => {
                return Err(Error::NotAStore {
                    directory: directory.describe(),
                    why: missing(directory)?,
                });
            }
            Err(error) => return Err(error.into()),
        };
        let mut slots = read_slots(&*file)?;
        for slot in &mut slots {
            if matches!(slot, SuperblockSlot::Valid(found) if !counts(found)) {
                *slot = SuperblockSlot::Empty;
            }
        }
        let (durable_pair, durable) = newest(slots)?;
        let opened = SuperblockFile {
            file,
            durable_pair,
            durable,
            unmended: AtomicBool::new(false),
        };
        if access == FileAccessMode::ReadWrite {
            opened.repair_copies()?;
        }
        Ok(opened)
    }

    #[must_use]
    pub fn durable(&self) -> &Superblock {
        &self.durable
    }

    /// Makes `next` the durable generation by writing both copies and then syncing the file (P2).
    ///
    /// # Errors
    /// I/O errors. Which generation is durable is then unknown, so the caller must refuse changes
    /// until the store is reopened (S6).
    ///
    /// # Panics
    /// If the payload is longer than [`MAX_PAYLOAD`].
    pub fn write(&mut self, next: Superblock) -> Result<()> {
        let pair = 1 - self.durable_pair;
        assert!(
            next.generation >= self.durable.generation,
            "no generation before the durable one becomes durable (P1)"
        );
        assert!(
            next.store == self.durable.store && next.tiers >= self.durable.tiers,
            "a store keeps its id and its tiers"
        );
        let mut batch = IoBatch::with_capacity(2);
        for slot in slots_of(pair) {
            batch.write(
                (slot * SLOT_BYTES) as u64,
                AlignedBuffer::padded(&next.encode(slot)),
                Purpose::Superblock,
            );
        }
        self.file.run(batch)?;
        self.file.sync(Purpose::Superblock)?;
        self.durable_pair = pair;
        self.durable = next;
        self.unmended.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Rewrites the copies of the durable generation (P3). A damaged copy is rewritten first, and
    /// copies are written one at a time, so that there is always a valid one (P1). If rewriting
    /// needs space and the disk is full, the copies stay unchanged until there is space.
    fn repair_copies(&self) -> Result<()> {
        let renewed = self.renew();
        let full = matches!(&renewed, Err(error) if error.is_full());
        self.unmended.store(full, Ordering::Relaxed);
        match renewed {
            Err(error) if full => {
                tracing::warn!(%error, "there is no space to rewrite the copies of the superblock; free disk space");
                Ok(self.file.sync(Purpose::Superblock)?)
            }
            renewed => renewed,
        }
    }

    fn renew(&self) -> Result<()> {
        self.file.grow((SLOTS * SLOT_BYTES) as u64)?;
        let offset = |slot: usize| (slot * SLOT_BYTES) as u64;
        let mut copies = Vec::with_capacity(2);
        for slot in slots_of(self.durable_pair) {
            let wanted = self.durable.encode(slot);
            let found = self.file.read_at(offset(slot), SLOT_BYTES, Purpose::Recovery)?;
            copies.push((found[..] == wanted[..], slot, wanted));
        }
        copies.sort_by_key(|&(sound, ..)| sound);
        for (sound, slot, wanted) in copies {
            if !sound {
                let generation = self.durable.generation;
                tracing::warn!(slot, generation, "mending a damaged copy of the superblock");
            }
            self.file
                .write_at(offset(slot), AlignedBuffer::padded(&wanted), Purpose::Superblock)?;
            self.file.sync(Purpose::Superblock)?;
        }
        Ok(())
    }

    /// Rereads every slot and returns the violations of P1 and P2. If a full disk prevented the
    /// copies from being rewritten at opening, retries that first. If the disk is still full, one
    /// valid copy is sufficient.
    ///
    /// # Errors
    /// I/O errors.
    pub fn check(&self) -> Result<Vec<String>> {
        if self.unmended.load(Ordering::Relaxed) {
            self.repair_copies()?;
        }
        let mut violations = Vec::new();
        let slots = read_slots(&*self.file)?;
        for slot in slots_of(self.durable_pair) {
            let place = format::place(slot);
            match &slots[slot] {
                SuperblockSlot::Valid(found) if *found == self.durable => {}
                SuperblockSlot::Valid(found) => {
                    let (found, durable) = (found.generation, self.durable.generation);
                    violations.push(format!(
                        "{place}: generation {found}, but generation {durable} is durable (P1)"
                    ));
                }
                SuperblockSlot::Empty => violations.push(format!("{place}: empty (P1)")),
                SuperblockSlot::Bad(error) => violations.push(format!("{error} (P1)")),
            }
        }
        if self.unmended.load(Ordering::Relaxed) && violations.len() == 1 {
            violations.clear();
        }
        for slot in slots_of(1 - self.durable_pair) {
            if let SuperblockSlot::Valid(found) = &slots[slot]
                && found.generation >= self.durable.generation
            {
                let place = format::place(slot);
                violations.push(format!(
                    "{place}: generation {} is newer than the durable one (P2)",
                    found.generation
                ));
            }
        }
        Ok(violations)
    }
}

fn slots_of(pair: usize) -> [usize; 2] {
    assert!(pair < SLOTS / 2, "pair {pair} of {}", SLOTS / 2);
    [2 * pair, 2 * pair + 1]
}

/// Returns why a directory without a superblock file is not a store.
fn missing(directory: &dyn Directory) -> Result<String> {
    let names = directory.list()?;
    Ok(if names.iter().any(|name| name == NEW_FILE) {
        "its creation was interrupted; create it again".to_owned()
    } else if is_tier_directory(&names) {
        format!("{TIER_OF_ANOTHER}: give that directory first")
    } else if let Some(name) = names.iter().find(|name| is_store_file(name)) {
        format!("it holds {name}, but the file {FILE} is missing; restore that file from a backup")
    } else if names.iter().all(|name| name == LOCK_FILE) {
        "it is empty; create a store in it first".to_owned()
    } else {
        format!("it has no file {FILE}; check the path")
    })
}

/// Reads every slot. A slot beyond the end of a short file is returned as damaged.
fn read_slots(file: &dyn Device) -> Result<Vec<SuperblockSlot>> {
    let whole = file.len() / SLOT_BYTES as u64;
    (0..SLOTS)
        .map(|slot| {
            if slot as u64 >= whole {
                return Ok(SuperblockSlot::decode(&[], slot));
            }
            let bytes = file.read_at((slot * SLOT_BYTES) as u64, SLOT_BYTES, Purpose::Recovery)?;
            Ok(SuperblockSlot::decode(&bytes, slot))
        })
        .collect()
}

/// Returns the newest valid superblock and the number of its pair of slots. A slot with a different
/// format version is an error even if another slot is valid, because the version of Alluvium that
/// wrote it was the last to use the store.
fn newest(slots: Vec<SuperblockSlot>) -> Result<(usize, Superblock)> {
    let mut best: Option<(usize, Superblock)> = None;
    let mut first_error = None;
    for (slot, found) in slots.into_iter().enumerate() {
        match found {
            SuperblockSlot::Empty => {}
            SuperblockSlot::Valid(found) => {
                if best
                    .as_ref()
                    .is_none_or(|(_, best)| found.generation > best.generation)
                {
                    best = Some((slot / 2, found));
                }
            }
            SuperblockSlot::Bad(error @ (Error::NewerFormat { .. } | Error::OlderFormat { .. })) => {
                return Err(error);
            }
            SuperblockSlot::Bad(error) => first_error = first_error.or(Some(error)),
        }
    }
    best.ok_or_else(|| {
        first_error
            .unwrap_or_else(|| Error::corrupt(format::place(0), "a superblock in one of four slots", "zeros"))
    })
}
