//! The superblock: which generation of the store is the durable one.
//!
//! *Knows*: how a generation is stored twice, which of those found is the newest, and when its file
//! is synced.
//!
//! *Does not know*: what a generation holds; that is the payload, the extent map and the log.
//!
//! *Read in this order*: `format.rs` (the bytes), then this file.
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
//! - **P1** The pair that holds the durable generation is never written, except to mend one copy
//!   from the other.
//! - **P2** A generation is durable once both of its copies are written and the file is synced;
//!   everything that it reaches was synced before they were written.
//! - **P3** Opening writes the copies of the generation that it found again, one at a time, and
//!   syncs each, before anything acts on what was read. A killed process may have left a superblock
//!   that no sync has made durable, and a failed sync one that no later sync would: its pages are
//!   clean and not on the disk.
//! - **P4** The file has the name `superblock` only once it holds a durable generation; until then
//!   creation is under way and the file is `superblock.new`.
//! - **P5** Of an earlier life only the superblock itself may not be durable. What it reaches, the
//!   extents and the prefix of the map, was synced before it was written (P2), and a sync that
//!   fails stops the store before that. What a later life adds to a page of an earlier one it
//!   writes, whole, with its own sync.

pub mod format;

#[cfg(test)]
mod tests;

pub use format::{FORMAT_VERSION, MAX_PAYLOAD, Superblock};

use crate::store::LOCK_FILE;
use crate::tiers::is_tier_directory;
use crate::tiers::list::{LIST_FILE, NEW_LIST_FILE};
use crate::{Error, Result};
use alluvium_base::{Purpose, measured};
use alluvium_device::{Access, Batch, Buffer, Device, Directory, FileOptions};
use format::{SLOT_BYTES, SLOTS, Slot};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The file's name.
pub const FILE: &str = "superblock";
/// The file's name while the store is being created.
pub const NEW_FILE: &str = "superblock.new";

/// The file that says which generation is the durable one.
#[derive(Debug)]
pub struct SuperblockFile {
    file: Arc<dyn Device>,
    /// The pair of the durable generation: 0 or 1.
    durable_pair: usize,
    durable: Superblock,
    /// Whether a full disk has kept a copy of the durable generation from being mended.
    unmended: AtomicBool,
}

impl SuperblockFile {
    /// Returns whether the file was removed since it was opened.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.file.is_removed()
    }
}

/// Whether a store was created in a directory, whatever state it is in.
///
/// # Errors
/// As the device says.
pub fn exists(directory: &dyn Directory) -> Result<bool> {
    Ok(directory.list()?.iter().any(|name| name == FILE))
}

/// Says what a directory is that has no superblock, before anything is locked or created in it.
///
/// # Errors
/// [`Error::NotAStore`] without a superblock, or as the device says.
pub fn require(directory: &dyn Directory) -> Result<()> {
    if exists(directory)? {
        return Ok(());
    }
    Err(Error::NotAStore {
        directory: directory.describe(),
        why: missing(directory)?,
    })
}

/// Says whether a store can be created in a directory, before anything is locked or created in it.
///
/// # Errors
/// [`Error::StoreExists`] when a store is there; [`Error::NotAStore`] when files of a store are
/// there without a superblock, which creation will not overwrite, or files of something else; or as
/// the device says.
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
        return Err(not_here(format!("{TIER_OF_ANOTHER}: name an empty directory")));
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
        is_store_file(name) || [NEW_FILE, LOCK_FILE].contains(&name) || name.starts_with(measured::FILE)
    };
    let is_foreign = |name: &&String| !is_own(name);
    match names.iter().find(is_foreign) {
        Some(name) => Err(not_here(foreign(name))),
        None => Ok(()),
    }
}

/// What the directory of a further tier is.
const TIER_OF_ANOTHER: &str = "it holds a tier of a store whose first directory is another one";

/// Why no store is created beside something else.
#[must_use]
pub fn foreign(name: &str) -> String {
    format!(
        "it holds {name} and no store, and a store has a directory to itself: \
         name an empty directory, or one that is not there yet, or check the path if a store should be here"
    )
}

/// Marks a directory as one in which a store is being created. Whatever files follow, a crash
/// leaves the mark.
///
/// # Errors
/// As [`require_none`], or as the device says.
pub fn begin_creation(directory: &dyn Directory) -> Result<()> {
    require_none(directory)?;
    let names = directory.list()?;
    if names.iter().any(|name| name == NEW_FILE) {
        // A creation that a crash cut short: it was never reported as done, so its files may go.
        for name in names.iter().filter(|name| is_store_file(name)) {
            directory.remove(name)?;
        }
    } else {
        directory.create(NEW_FILE, FileOptions::DIRECT)?;
    }
    Ok(directory.sync()?)
}

/// Removes what a creation that failed has made, as far as that works; its mark is the last.
/// Without a superblock none of it is a store.
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
        // What is left of the mark is removed by the next creation.
        let _ = directory.remove(NEW_FILE);
    }
}

/// Undoes the creation of a store that was not reported as done yet.
pub fn undo_creation(directory: &dyn Directory) {
    // As long as the superblock has its name, whatever is there opens.
    if directory.rename(FILE, NEW_FILE).is_ok() && directory.sync().is_ok() {
        abandon_creation(directory);
    }
}

/// What the names of files begin with that a structure has beside the extents: pages that are
/// written in place.
pub const PAGES: &str = "paged.";

/// Whether a name is one that only a store gives its files.
fn is_store_file(name: &str) -> bool {
    let with = |prefix: &str, suffix: &str| name.starts_with(prefix) && name.ends_with(suffix);
    let is_list = [LIST_FILE, NEW_LIST_FILE].contains(&name);
    let is_of_pages = name.starts_with(PAGES);
    with("tier-", ".data") || with("extents-", ".map") || name.starts_with("log-") || is_list || is_of_pages
}

impl SuperblockFile {
    /// Makes the first generation durable, which ends a creation begun with [`begin_creation`].
    /// Everything that the generation reaches is synced already.
    ///
    /// # Errors
    /// As the device says.
    ///
    /// # Panics
    /// When the payload is longer than [`MAX_PAYLOAD`].
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

    /// Opens the file, takes the newest generation that can be read, and mends its other copy where
    /// that is damaged.
    ///
    /// Whether it is the newest that there *was*, the log says (`log::Log::open`).
    ///
    /// # Errors
    /// [`Error::NotAStore`] without a superblock, [`Error::NewerFormat`], [`Error::Corrupt`] when
    /// no slot holds a superblock, or as the device says.
    pub fn open(directory: &dyn Directory, access: Access) -> Result<SuperblockFile> {
        Self::open_among(directory, access, |_| true)
    }

    /// As [`SuperblockFile::open`], but of the generations before `than`: what a repair goes back
    /// to when a newer one leads to damage.
    ///
    /// # Errors
    /// As [`SuperblockFile::open`].
    pub fn open_older(directory: &dyn Directory, access: Access, than: u64) -> Result<SuperblockFile> {
        Self::open_among(directory, access, |found| found.generation < than)
    }

    fn open_among(
        directory: &dyn Directory,
        access: Access,
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
            if matches!(slot, Slot::Valid(found) if !counts(found)) {
                *slot = Slot::Empty;
            }
        }
        let (durable_pair, durable) = newest(slots)?;
        let opened = SuperblockFile {
            file,
            durable_pair,
            durable,
            unmended: AtomicBool::new(false),
        };
        if access == Access::ReadWrite {
            opened.mend()?;
        }
        Ok(opened)
    }

    /// The durable superblock.
    #[must_use]
    pub fn durable(&self) -> &Superblock {
        &self.durable
    }

    /// Makes `next` durable: both copies, then a sync (P2).
    ///
    /// # Errors
    /// As the device says. Which generation is durable is unknown then, so the caller refuses
    /// changes until the store is opened again (S6).
    ///
    /// # Panics
    /// When the payload is longer than [`MAX_PAYLOAD`].
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
        let mut batch = Batch::with_capacity(2);
        for slot in slots_of(pair) {
            batch.write(
                (slot * SLOT_BYTES) as u64,
                Buffer::padded(&next.encode(slot)),
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

    /// Writes the copies of the durable generation again (P3), one at a time so that a good one is
    /// always there (P1): a damaged one first. A full disk, where even that needs space, leaves
    /// them as they are until there is space.
    fn mend(&self) -> Result<()> {
        let renewed = self.renew();
        let full = matches!(&renewed, Err(error) if error.is_full());
        self.unmended.store(full, Ordering::Relaxed);
        match renewed {
            Err(error) if full => {
                tracing::warn!(%error, "the superblock is not written again");
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
                .write_at(offset(slot), Buffer::padded(&wanted), Purpose::Superblock)?;
            self.file.sync(Purpose::Superblock)?;
        }
        Ok(())
    }

    /// Reads every slot again and returns what violates P1 or P2. A copy that was not mended at
    /// opening because the disk was full is mended first. While the disk is still full one copy is
    /// enough.
    ///
    /// # Errors
    /// As the device says.
    pub fn check(&self) -> Result<Vec<String>> {
        if self.unmended.load(Ordering::Relaxed) {
            self.mend()?;
        }
        let mut violations = Vec::new();
        let slots = read_slots(&*self.file)?;
        for slot in slots_of(self.durable_pair) {
            let place = format::place(slot);
            match &slots[slot] {
                Slot::Valid(found) if *found == self.durable => {}
                Slot::Valid(found) => {
                    let (found, durable) = (found.generation, self.durable.generation);
                    violations.push(format!(
                        "{place}: generation {found} where {durable} is durable (P1)"
                    ));
                }
                Slot::Empty => violations.push(format!("{place}: empty (P1)")),
                Slot::Bad(error) => violations.push(format!("{error} (P1)")),
            }
        }
        if self.unmended.load(Ordering::Relaxed) && violations.len() == 1 {
            violations.clear();
        }
        for slot in slots_of(1 - self.durable_pair) {
            if let Slot::Valid(found) = &slots[slot]
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

/// Why a directory without a superblock is no store.
fn missing(directory: &dyn Directory) -> Result<String> {
    let names = directory.list()?;
    Ok(if names.iter().any(|name| name == NEW_FILE) {
        "its creation was cut short; create it again".to_owned()
    } else if is_tier_directory(&names) {
        format!("{TIER_OF_ANOTHER}: name the first one first")
    } else if let Some(name) = names.iter().find(|name| is_store_file(name)) {
        format!("it holds {name}, but the file {FILE} is missing; restore that file from a backup")
    } else if names.iter().all(|name| name == LOCK_FILE) {
        "it is empty; create a store in it first".to_owned()
    } else {
        format!("it has no file {FILE}; is the path right?")
    })
}

/// Reads every slot; those behind the end of a short file are damaged.
fn read_slots(file: &dyn Device) -> Result<Vec<Slot>> {
    let whole = file.len() / SLOT_BYTES as u64;
    (0..SLOTS)
        .map(|slot| {
            if slot as u64 >= whole {
                return Ok(Slot::decode(&[], slot));
            }
            let bytes = file.read_at((slot * SLOT_BYTES) as u64, SLOT_BYTES, Purpose::Recovery)?;
            Ok(Slot::decode(&bytes, slot))
        })
        .collect()
}

/// The newest valid superblock and its pair. Another format anywhere is an error even beside a
/// valid superblock: the newer version wrote last.
fn newest(slots: Vec<Slot>) -> Result<(usize, Superblock)> {
    let mut best: Option<(usize, Superblock)> = None;
    let mut first_error = None;
    for (slot, found) in slots.into_iter().enumerate() {
        match found {
            Slot::Empty => {}
            Slot::Valid(found) => {
                if best
                    .as_ref()
                    .is_none_or(|(_, best)| found.generation > best.generation)
                {
                    best = Some((slot / 2, found));
                }
            }
            Slot::Bad(error @ (Error::NewerFormat { .. } | Error::OlderFormat { .. })) => return Err(error),
            Slot::Bad(error) => first_error = first_error.or(Some(error)),
        }
    }
    best.ok_or_else(|| {
        first_error
            .unwrap_or_else(|| Error::corrupt(format::place(0), "a superblock in one of four slots", "zeros"))
    })
}
