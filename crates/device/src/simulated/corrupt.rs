//! Silent damage to stored bytes, of the kinds that disks produce.

use super::SimDirectory;
use super::content::{FileContent, PAGE, pages_of};
use super::names::FileId;
use super::world::SimWorld;
use crate::{Error, Result};
use std::ops::Range;

/// One kind of damage to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Corruption {
    FlipBit {
        /// Offset of the byte in the file.
        offset: u64,
        /// Number of the bit, 0 to 7.
        bit: u8,
    },
    /// A range reads as zeros.
    Zero {
        range: Range<u64>,
    },
    /// A write was misdirected: `to` contains the data that belongs at `from`, and `from` still has
    /// its previous contents.
    Misdirect {
        from: u64,
        to: u64,
        len: u64,
    },
    /// The last write of these bytes was lost, so they have their previous contents, or zeros if
    /// there were none.
    Stale {
        range: Range<u64>,
    },
    Truncate {
        /// Length of the file afterwards in bytes.
        len: u64,
    },
    /// The file is extended with zeros.
    Extend {
        /// Length of the file afterwards in bytes.
        len: u64,
    },
    Remove,
    /// The contents of two files are swapped.
    Swap {
        other: String,
    },
}

impl SimDirectory {
    /// Damages a file: both its durable contents and what a process reads, but not a mapping's
    /// memory. Returns whether any byte, the length or the existence of the file changed. Damage is
    /// not an operation, so it is neither counted nor hooked.
    ///
    /// ```
    /// use alluvium_base::Purpose;
    /// use alluvium_device::simulated::{Corruption, SimDirectory};
    /// use alluvium_device::{Directory, FileOptions};
    /// let directory = SimDirectory::new(1);
    /// let file = directory.create("a", FileOptions::DIRECT)?;
    /// file.grow(512)?;
    /// assert!(directory.corrupt("a", &Corruption::FlipBit { offset: 9, bit: 1 })?);
    /// assert_eq!(file.read_at(0, 512, Purpose::Other)?[9], 2);
    /// assert!(!directory.corrupt("a", &Corruption::Zero { range: 100..512 })?);
    /// # Ok::<(), alluvium_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] if the file does not exist. Ranges outside the file change nothing.
    ///
    /// # Panics
    /// If a bit is not 0 to 7.
    pub fn corrupt(&self, file: &str, corruption: &Corruption) -> Result<bool> {
        let mut world = self.shared.world.lock();
        world.notice_all();
        let id = find(&world, file)?;
        match corruption {
            Corruption::Remove => {
                world.names.forget(file);
                Ok(true)
            }
            Corruption::Swap { other } => {
                let other = find(&world, other)?;
                Ok(swap(&mut world, id, other))
            }
            _ => {
                let state = world.file(id);
                let (before, older) = (state.current.sum(), state.older.clone());
                damage(&mut state.current, &older, corruption);
                damage(&mut state.durable, &older, corruption);
                Ok(state.current.sum() != before)
            }
        }
    }
}

fn find(world: &SimWorld, file: &str) -> Result<FileId> {
    world.names.get(file).ok_or_else(|| Error::NotFound {
        file: file.to_owned(),
    })
}

fn swap(world: &mut SimWorld, one: FileId, other: FileId) -> bool {
    if one == other {
        return false;
    }
    let differ = world.file(one).current.sum() != world.file(other).current.sum();
    let first = std::mem::take(&mut world.file(one).current);
    let second = std::mem::replace(&mut world.file(other).current, first);
    world.file(one).current = second;
    let first = std::mem::take(&mut world.file(one).durable);
    let second = std::mem::replace(&mut world.file(other).durable, first);
    world.file(one).durable = second;
    differ
}

fn damage(content: &mut FileContent, older: &FileContent, corruption: &Corruption) {
    match *corruption {
        Corruption::FlipBit { offset, bit } => {
            assert!(bit < 8, "a byte has no bit {bit}");
            if offset < content.len() {
                let mut byte = [0];
                content.read(offset, &mut byte);
                overwrite(content, offset, &[byte[0] ^ 1 << bit]);
            }
        }
        Corruption::Zero { ref range } => {
            let range = clip(range, content);
            overwrite(content, range.start, &vec![0; (range.end - range.start) as usize]);
        }
        Corruption::Misdirect { from, to, len } => {
            let source = clip(&(from..from.saturating_add(len)), content);
            let bytes = bytes_of(content, &source);
            overwrite(content, source.start, &bytes_of(older, &source));
            let target = clip(&(to..to.saturating_add(bytes.len() as u64)), content);
            overwrite(
                content,
                target.start,
                &bytes[..(target.end - target.start) as usize],
            );
        }
        Corruption::Stale { ref range } => {
            let range = clip(range, content);
            overwrite(content, range.start, &bytes_of(older, &range));
        }
        Corruption::Truncate { len } => {
            if len < content.len() {
                content.set_len(len);
            }
        }
        Corruption::Extend { len } => {
            if len > content.len() {
                content.set_len(len);
            }
        }
        Corruption::Remove | Corruption::Swap { .. } => {}
    }
}

fn clip(range: &Range<u64>, content: &FileContent) -> Range<u64> {
    let start = range.start.min(content.len());
    start..range.end.clamp(start, content.len())
}

fn bytes_of(content: &FileContent, range: &Range<u64>) -> Vec<u8> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    content.read(range.start, &mut bytes);
    bytes
}

fn overwrite(content: &mut FileContent, offset: u64, bytes: &[u8]) {
    for (page, within) in pages_of(offset..offset + bytes.len() as u64) {
        let from = (page * PAGE + within.start as u64 - offset) as usize;
        content.edit(page, |data| {
            data.write(within.start, &bytes[from..from + within.len()]);
        });
    }
}
