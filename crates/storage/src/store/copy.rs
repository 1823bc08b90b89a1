//! Copies the durable generation of a store to other directories while the store stays in use.
//!
//! ```text
//!   mark the target as a store that is being created      superblock.new
//!   the extent map, as far as the generation names it     extents-<n>.map
//!   what is in use of each tier, and holes between         tier-0.data …     synced
//!   what a structure keeps beside these                  files of its own   synced
//!   a log with nothing in it                               log-<n> …
//!   the superblock                                         superblock        a store from here on
//! ```
//!
//! An interrupted copy has no superblock, so it cannot be opened as a store. A new copy into the
//! same directories starts over.

use super::{LOCK_FILE, Store, StoreOptions, lock_all, refs};
use crate::extents::{GenerationPin, live_ranges, map_file, require_map};
use crate::log::WriteAheadLog;
use crate::node::tier_file;
use crate::superblock::{self, Superblock, SuperblockFile};
use crate::{Error, Result, TierDirectories, TierFiles};
use alluvium_base::{MIB, Purpose};
use alluvium_device::{
    BLOCK, Device, DeviceOperation, Directory, Error as DeviceError, FileAccessMode, FileOptions,
};
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of bytes copied between two progress reports.
const STEP: u64 = 16 * MIB;

/// Number of bytes of a hole that are created in the target file at a time. The file first grows by
/// this many allocated bytes, which are then deallocated by punching a hole, so this bounds the
/// temporary space needed.
const SKIP: u64 = 64 * MIB;

/// Files that a data structure stores outside the extents. They are copied in the state that
/// belongs to a pinned generation.
pub trait SideFiles {
    /// Returns the approximate number of bytes that [`SideFiles::copy_to`] writes.
    fn bytes(&self) -> u64;

    /// Writes the files to the copy's first directory and syncs them. While writing, this function
    /// must keep calling `wrote` with the number of bytes written since the previous call. If
    /// `wrote` returns an error, this function must abort with that error.
    ///
    /// # Errors
    /// I/O errors; errors for damaged files; errors of `wrote`.
    fn copy_to(&self, directory: &dyn Directory, wrote: &mut dyn FnMut(u64) -> Result<()>) -> Result<()>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyProgress {
    pub done_bytes: u64,
    pub total_bytes: u64,
}

/// A pinned durable generation. Until this value is dropped, the extents reachable from the
/// generation are neither reused nor overwritten.
#[derive(Debug)]
pub struct GenerationSnapshot {
    superblock: Superblock,
    map: Arc<dyn Device>,
    tiers: Arc<TierFiles>,
    options: StoreOptions,
    _keeper: GenerationPin,
}

impl Store {
    /// Pins the durable generation. Until the returned snapshot is dropped, space freed by later
    /// generations cannot be reused.
    ///
    /// # Errors
    /// I/O errors.
    pub fn pin_durable(&self, options: &StoreOptions) -> Result<GenerationSnapshot> {
        // While the superblock is locked, no later generation can become durable.
        let superblock = self.superblock.lock();
        let durable = superblock.durable().clone();
        let map = map_file(durable.map.file);
        let map = self.directory().open(&map, FileOptions::DIRECT.read_only())?;
        Ok(GenerationSnapshot {
            map,
            tiers: Arc::clone(&self.tiers),
            options: options.clone(),
            _keeper: self.extents.pin_generation(durable.generation),
            superblock: durable,
        })
    }
}

impl GenerationSnapshot {
    /// Returns the generation's cut: the sequence number up to which it contains all commits.
    #[must_use]
    pub fn cut(&self) -> u64 {
        self.superblock.cut
    }

    /// Returns the payload in the generation's superblock.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.superblock.payload
    }

    /// Copies the generation to empty directories, or to directories with the files of an
    /// interrupted copy. `target` must have one directory for each tier. The copy is an independent
    /// store with the identity `id`. `progress` is called after each step; if it returns an error,
    /// the copy is aborted.
    ///
    /// # Errors
    /// [`Error::NotAStore`] or [`Error::WrongTier`] if a directory contains other files;
    /// [`Error::BadOption`] if the number of directories differs from the number of tiers;
    /// `Locked`; errors of `progress`; I/O errors. After an error, as many copied files as possible
    /// are removed. Any that remain cannot be opened as a store.
    pub fn copy_to(
        &self,
        target: impl Into<TierDirectories>,
        id: u128,
        progress: &mut dyn FnMut(CopyProgress) -> Result<()>,
    ) -> Result<()> {
        self.copy_with(target, id, &[], progress)
    }

    /// Like [`GenerationSnapshot::copy_to`], but also copies the files in `beside`, which data
    /// structures store outside the extents.
    ///
    /// # Errors
    /// As [`GenerationSnapshot::copy_to`].
    pub fn copy_with(
        &self,
        target: impl Into<TierDirectories>,
        id: u128,
        beside: &[&dyn SideFiles],
        progress: &mut dyn FnMut(CopyProgress) -> Result<()>,
    ) -> Result<()> {
        let target = target.into();
        target.validate()?;
        if target.count() != self.tiers.count() {
            let (tiers, count) = (self.tiers.count(), target.count());
            let why = format!(
                "the store has {tiers} tiers, but {count} directories were given: give one for each tier"
            );
            return Err(Error::BadOption { option: "tiers", why });
        }
        require_empty(&**target.first())?;
        target.require_vacant()?;
        let _locks = lock_all(&target)?;
        superblock::begin_creation(&**target.first())?;
        let copied = target
            .begin_creation(id)
            .and_then(|()| self.copy(&target, id, beside, progress));
        if copied.is_err() {
            superblock::abandon_creation(&**target.first());
            target.abandon_creation();
        }
        copied
    }

    /// Copies a range of a tier's data file. If the read fails, the source tier is marked as
    /// failed.
    fn copy_piece(
        &self,
        tier: u8,
        source: &dyn Device,
        target: &dyn Device,
        piece: &Range<u64>,
    ) -> Result<()> {
        match target.copy_from(source, piece.clone(), Purpose::Check) {
            Err(
                error @ DeviceError::Io {
                    operation: DeviceOperation::Read,
                    ..
                },
            ) => self.tiers.record_failure(tier, Err(error)),
            other => Ok(other?),
        }
    }

    fn copy(
        &self,
        target: &TierDirectories,
        id: u128,
        beside: &[&dyn SideFiles],
        progress: &mut dyn FnMut(CopyProgress) -> Result<()>,
    ) -> Result<()> {
        let tiers = live_ranges(&*self.map, &self.superblock.map, &self.tiers)?;
        assert_eq!(tiers.len(), target.count(), "a directory for each tier (T1)");
        let len = self.superblock.map.length.next_multiple_of(BLOCK);
        let live = tiers.iter().flatten().map(|range| range.end - range.start);
        let mut copied = CopyProgress {
            done_bytes: 0,
            total_bytes: live.sum::<u64>() + len + beside.iter().map(|beside| beside.bytes()).sum::<u64>(),
        };
        progress(copied)?;
        let first = target.first();
        let map = first.create(&map_file(self.superblock.map.file), FileOptions::DIRECT)?;
        map.grow(len)?;
        map.copy_from(&*self.map, 0..len, Purpose::Check)?;
        map.sync(Purpose::Check)?;
        copied.done_bytes += len;
        for ((number, ranges), directory) in tiers.iter().enumerate().zip(target.iter()) {
            let file = directory.create(&tier_file(number as u8), FileOptions::DIRECT)?;
            let source = self.tiers.get(number as u8)?;
            for range in ranges {
                skip_to(&*file, range.start)?;
                for piece in pieces(range) {
                    file.grow(piece.end)?;
                    self.copy_piece(number as u8, &**source, &*file, &piece)?;
                    copied.done_bytes += piece.end - piece.start;
                    debug_assert!(
                        copied.done_bytes <= copied.total_bytes,
                        "more than there is: {copied:?}"
                    );
                    progress(copied)?;
                }
            }
            file.sync(Purpose::Check)?;
        }
        for files in beside {
            files.copy_to(&**first, &mut |wrote| {
                copied.done_bytes = (copied.done_bytes + wrote).min(copied.total_bytes);
                progress(copied)
            })?;
        }
        let options = StoreOptions {
            id,
            ..self.options.clone()
        };
        WriteAheadLog::create(first, options.identified().log, self.superblock.generation)?;
        target.iter().try_for_each(|directory| directory.sync())?;
        assert!(
            copied.done_bytes == copied.total_bytes || !beside.is_empty(),
            "all is there before the superblock (K4)"
        );
        let superblock = Superblock {
            store: id,
            synced: self.superblock.cut,
            ..self.superblock.clone()
        };
        SuperblockFile::create(&**first, superblock)?;
        target.end_creation()
    }
}

/// A completed copy of a store, opened only for comparison with its source. Unlike a [`Store`], it
/// cannot be used for reads and writes.
#[derive(Debug)]
pub struct StoreCopy {
    superblock: Superblock,
    tiers: TierFiles,
    /// Violations found in the superblock, the tiers' marker files or the extent map.
    findings: Vec<String>,
}

impl StoreCopy {
    /// Opens a copy and verifies its superblock, its tiers' marker files and its extent map.
    /// [`StoreCopy::findings`] returns the violations found.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the copy has a different number of tiers; [`Error::Corrupt`] if
    /// there is no valid superblock; I/O errors.
    pub fn open(directories: impl Into<TierDirectories>) -> Result<StoreCopy> {
        let directories = directories.into();
        let first = directories.first();
        let file = SuperblockFile::open(&**first, FileAccessMode::ReadOnly)?;
        let superblock = file.durable().clone();
        directories.require_count(superblock.tiers)?;
        let tiers = TierFiles::open(&refs(&directories), FileOptions::DIRECT.read_only())?;
        let mut findings = file.check()?;
        findings.extend(directories.check_marks(superblock.store, &tiers));
        let map = require_map(&**first, &superblock.map, &tiers);
        findings.extend(map.err().map(|error| error.to_string()));
        Ok(StoreCopy {
            superblock,
            tiers,
            findings,
        })
    }

    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    #[must_use]
    pub fn tiers(&self) -> &TierFiles {
        &self.tiers
    }

    /// Returns the violations found in the superblock, the tiers' marker files or the extent map.
    #[must_use]
    pub fn findings(&self) -> &[String] {
        &self.findings
    }
}

/// Splits a byte range into consecutive pieces of at most [`STEP`] bytes.
fn pieces(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    (range.start..end)
        .step_by(STEP as usize)
        .map(move |start| start..end.min(start + STEP))
}

/// Extends a file to `to` bytes with a hole, unless it is already that long.
fn skip_to(file: &dyn Device, to: u64) -> Result<()> {
    debug_assert!(to.is_multiple_of(BLOCK), "ranges in use begin with a unit");
    while file.len() < to {
        let (from, end) = (file.len(), to.min(file.len() + SKIP));
        file.grow(end)?;
        file.punch_hole(from..end)?;
    }
    Ok(())
}

/// Returns an error unless the directory is empty or contains only the files of an interrupted
/// creation.
///
/// # Errors
/// [`Error::NotAStore`] if the directory contains other files.
fn require_empty(target: &dyn Directory) -> Result<()> {
    let names = target.list()?;
    if names.iter().any(|name| name == superblock::NEW_FILE) {
        return Ok(());
    }
    match names.iter().find(|name| *name != LOCK_FILE) {
        None => Ok(()),
        Some(name) => Err(Error::NotAStore {
            directory: target.describe(),
            why: format!("it holds {name}, but a copy needs an empty directory: choose another one"),
        }),
    }
}
