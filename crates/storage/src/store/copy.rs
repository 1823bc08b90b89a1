//! A durable generation copied into another directory, while the store goes on.
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
//! An interrupted copy is no store: opening it says so, and copying again starts from the
//! beginning.

use super::{LOCK_FILE, Store, StoreOptions, lock_all, refs};
use crate::extents::{Keeper, live_ranges, map_file, require_map};
use crate::log::Log;
use crate::node::tier_file;
use crate::superblock::{self, Superblock, SuperblockFile};
use crate::{Directories, Error, Result, Tiers};
use alluvium_base::{MIB, Purpose};
use alluvium_device::{Access, BLOCK, Device, Directory, Error as DeviceError, FileOptions, Operation};
use std::ops::Range;
use std::sync::Arc;

/// How much is copied between two reports of progress, in bytes.
const STEP: u64 = 16 * MIB;

/// A gap is skipped in steps of this many bytes, for they are allocated before they are given back.
const SKIP: u64 = 64 * MIB;

/// Files of a structure beside the extents, as a generation that is kept has them.
pub trait Beside {
    /// Returns how many bytes it will write, about.
    fn bytes(&self) -> u64;

    /// Writes the files into the first directory of a copy, and syncs them. `wrote` is told of
    /// bytes that were written, and ends it by failing.
    ///
    /// # Errors
    /// As the device says; damage; what `wrote` returns.
    fn copy_to(&self, directory: &dyn Directory, wrote: &mut dyn FnMut(u64) -> Result<()>) -> Result<()>;
}

/// How far a copy has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Bytes that are in the target.
    pub done_bytes: u64,
    /// Bytes that will be.
    pub total_bytes: u64,
}

/// A durable generation that is kept as it is: whatever it reaches is neither used again nor
/// overwritten until this is dropped.
#[derive(Debug)]
pub struct Kept {
    superblock: Superblock,
    map: Arc<dyn Device>,
    tiers: Arc<Tiers>,
    options: StoreOptions,
    _keeper: Keeper,
}

impl Store {
    /// Keeps the durable generation. The space that later ones give up meanwhile stays in use.
    ///
    /// # Errors
    /// As the device says.
    pub fn keep(&self, options: &StoreOptions) -> Result<Kept> {
        // While it is locked no later generation is made durable.
        let superblock = self.superblock.lock();
        let durable = superblock.durable().clone();
        let map = map_file(durable.map.file);
        let map = self.directory().open(&map, FileOptions::DIRECT.read_only())?;
        Ok(Kept {
            map,
            tiers: Arc::clone(&self.tiers),
            options: options.clone(),
            _keeper: self.extents.keep(durable.generation),
            superblock: durable,
        })
    }
}

impl Kept {
    /// Every commit up to this one is in it.
    #[must_use]
    pub fn cut(&self) -> u64 {
        self.superblock.cut
    }

    /// What its superblock says beside the extents.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.superblock.payload
    }

    /// Copies the generation into a directory without files, or with those of a copy that was
    /// interrupted; of several tiers, each into one of its own. It is a store of its own, known as
    /// `id`. `progress` is told between steps, and ends the copy by failing.
    ///
    /// # Errors
    /// [`Error::NotAStore`] or [`Error::WrongTier`] when there are other files;
    /// [`Error::BadOption`] when there are not as many directories as tiers; `Locked`; what
    /// `progress` returns; as the device says. What was copied is removed then, as far as possible;
    /// if it is not, the directory is none that opens as a store.
    pub fn copy_to(
        &self,
        target: impl Into<Directories>,
        id: u128,
        progress: &mut dyn FnMut(Copied) -> Result<()>,
    ) -> Result<()> {
        self.copy_with(target, id, &[], progress)
    }

    /// As [`Kept::copy_to`], with what structures have beside the extents.
    ///
    /// # Errors
    /// As [`Kept::copy_to`].
    pub fn copy_with(
        &self,
        target: impl Into<Directories>,
        id: u128,
        beside: &[&dyn Beside],
        progress: &mut dyn FnMut(Copied) -> Result<()>,
    ) -> Result<()> {
        let target = target.into();
        target.validate()?;
        if target.count() != self.tiers.count() {
            let (tiers, count) = (self.tiers.count(), target.count());
            let why =
                format!("the store has {tiers} tiers, and {count} directories are given: give one for each");
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

    /// Copies a part of a tier's file. Where it cannot be read it is the tier that fails.
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
                    operation: Operation::Read,
                    ..
                },
            ) => self.tiers.judge(tier, Err(error)),
            other => Ok(other?),
        }
    }

    fn copy(
        &self,
        target: &Directories,
        id: u128,
        beside: &[&dyn Beside],
        progress: &mut dyn FnMut(Copied) -> Result<()>,
    ) -> Result<()> {
        let tiers = live_ranges(&*self.map, &self.superblock.map, &self.tiers)?;
        assert_eq!(tiers.len(), target.count(), "a directory for each tier (T1)");
        let len = self.superblock.map.length.next_multiple_of(BLOCK);
        let live = tiers.iter().flatten().map(|range| range.end - range.start);
        let mut copied = Copied {
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
        Log::create(first, options.identified().log, self.superblock.generation)?;
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

/// A copy that is done, to be compared with what it should be. It is not open.
#[derive(Debug)]
pub struct Copy {
    superblock: Superblock,
    tiers: Tiers,
    /// What is wrong with the superblock or the extent map.
    findings: Vec<String>,
}

impl Copy {
    /// Reads the superblock, the extent map and the marks of a copy.
    ///
    /// # Errors
    /// [`Error::BadOption`] when it has another number of tiers; [`Error::Corrupt`] when there is
    /// no sound superblock; as the device says.
    pub fn open(directories: impl Into<Directories>) -> Result<Copy> {
        let directories = directories.into();
        let first = directories.first();
        let file = SuperblockFile::open(&**first, Access::ReadOnly)?;
        let superblock = file.durable().clone();
        directories.require_count(superblock.tiers)?;
        let tiers = Tiers::open(&refs(&directories), FileOptions::DIRECT.read_only())?;
        let mut findings = file.check()?;
        findings.extend(directories.check_marks(superblock.store, &tiers));
        let map = require_map(&**first, &superblock.map, &tiers);
        findings.extend(map.err().map(|error| error.to_string()));
        Ok(Copy {
            superblock,
            tiers,
            findings,
        })
    }

    /// Returns the durable superblock.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Returns the data files.
    #[must_use]
    pub fn tiers(&self) -> &Tiers {
        &self.tiers
    }

    /// Returns what is wrong with the superblock or the extent map.
    #[must_use]
    pub fn findings(&self) -> &[String] {
        &self.findings
    }
}

/// Returns a range in steps.
fn pieces(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    (range.start..end)
        .step_by(STEP as usize)
        .map(move |start| start..end.min(start + STEP))
}

/// Lengthens a file by a hole.
fn skip_to(file: &dyn Device, to: u64) -> Result<()> {
    debug_assert!(to.is_multiple_of(BLOCK), "ranges in use begin with a unit");
    while file.len() < to {
        let (from, end) = (file.len(), to.min(file.len() + SKIP));
        file.grow(end)?;
        file.punch_hole(from..end)?;
    }
    Ok(())
}

/// # Errors
/// [`Error::NotAStore`] when there is anything but what an interrupted creation has left.
fn require_empty(target: &dyn Directory) -> Result<()> {
    let names = target.list()?;
    if names.iter().any(|name| name == superblock::NEW_FILE) {
        return Ok(());
    }
    match names.iter().find(|name| *name != LOCK_FILE) {
        None => Ok(()),
        Some(name) => Err(Error::NotAStore {
            directory: target.describe(),
            why: format!("it holds {name}, and a copy goes into an empty directory: name another one"),
        }),
    }
}
