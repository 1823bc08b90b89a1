//! A space in a file. Its commits survive crashes.

use super::extent_allocator::ExtentAllocator;
use super::format::{BLOCK, CommitSlot, MOST_ROOT, SLOT, decode_map, encode_map};
use super::{NodeSpace, SpaceExtent};
use crate::affine::error::{Error, Result};
use alluvium_base::checksum::checksum;
use alluvium_base::{MIB, Purpose};
use alluvium_device::{AlignedBuffer, Device, Directory, FileOptions};
use std::cell::RefCell;
use std::sync::Arc;

/// The minimum growth of a file, in bytes.
const GROWTH: u64 = MIB;
/// A file grows by an eighth of its size if that is more than the minimum.
const SHARE: u64 = 8;
const _: () = assert!(GROWTH.is_multiple_of(BLOCK) && SHARE > 0);

/// A space in a file of a directory.
///
/// ```
/// use alluvium_device::simulated::SimDirectory;
/// use research_trees::affine::{FileSpace, NodeSpace};
/// let directory = SimDirectory::new(1);
/// let space = FileSpace::create(&directory, "dictionary")?;
/// let extent = space.allocate(5)?;
/// space.write(extent, b"bytes")?;
/// space.commit(b"root")?;
/// let opened = FileSpace::open(&directory, "dictionary")?;
/// assert_eq!(opened.read(extent.at, 5)?, b"bytes");
/// # Ok::<(), research_trees::affine::Error>(())
/// ```
#[derive(Debug)]
pub struct FileSpace {
    device: Arc<dyn Device>,
    inner: RefCell<FileSpaceState>,
}

#[derive(Debug)]
struct FileSpaceState {
    book: ExtentAllocator,
    durable: Option<CommitSlot>,
    broken: Option<String>,
}

impl FileSpace {
    /// Creates a file without a commit. A crash before the first commit leaves a file that
    /// [`FileSpace::open`] rejects; the caller then removes it.
    ///
    /// # Errors
    /// I/O errors, also when the file exists.
    pub fn create(directory: &dyn Directory, name: &str) -> Result<FileSpace> {
        let device = directory.create(name, FileOptions::DIRECT)?;
        device.grow(2 * SLOT + GROWTH)?;
        directory.sync()?;
        let book = ExtentAllocator::new(BLOCK, 2 * SLOT, device.len());
        Ok(FileSpace::of(device, book, None))
    }

    /// Opens a file at its last commit.
    ///
    /// # Errors
    /// [`Error::NotADictionary`] when it has no commit, [`Error::Damaged`], or I/O errors.
    pub fn open(directory: &dyn Directory, name: &str) -> Result<FileSpace> {
        let device = directory.open(name, FileOptions::DIRECT)?;
        let missing = |why: &str| Error::NotADictionary {
            place: name.to_owned(),
            why: why.to_owned(),
        };
        if device.len() < 2 * SLOT {
            return Err(missing("it is shorter than its first two slots"));
        }
        let slots = read(&*device, 0, 2 * SLOT)?;
        let (first, second) = slots.split_at(SLOT as usize);
        let newest = [CommitSlot::decode(first)?, CommitSlot::decode(second)?]
            .into_iter()
            .flatten()
            .max_by_key(|slot| slot.generation);
        let slot = newest.ok_or_else(|| missing("neither of its slots is valid"))?;
        let mut book = ExtentAllocator::new(BLOCK, 2 * SLOT, device.len());
        let mut extents = vec![];
        if slot.map.bytes > 0 {
            if slot.map.end().is_none_or(|end| end > device.len()) {
                return Err(Error::damaged(
                    24,
                    "the map",
                    "within the file",
                    format!("{:?}", slot.map),
                ));
            }
            let map = read(&*device, slot.map.at, slot.map.bytes)?;
            if checksum(&map) != slot.map_sum {
                return Err(Error::damaged(
                    slot.map.at,
                    "the checksum of the map",
                    slot.map_sum,
                    checksum(&map),
                ));
            }
            extents = decode_map(&map)?;
            extents.push(slot.map);
        }
        for extent in extents {
            if !book.reserve_durable(extent) {
                let found = format!("{extent:?}");
                return Err(Error::damaged(
                    extent.at,
                    "an extent of the map",
                    "within the file, and alone",
                    found,
                ));
            }
        }
        Ok(FileSpace::of(device, book, Some(slot)))
    }

    fn of(device: Arc<dyn Device>, book: ExtentAllocator, durable: Option<CommitSlot>) -> FileSpace {
        let inner = FileSpaceState {
            book,
            durable,
            broken: None,
        };
        FileSpace {
            device,
            inner: RefCell::new(inner),
        }
    }

    /// Returns the size of the file in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.device.len()
    }

    /// Returns whether the file has no commit yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.borrow().durable.is_none()
    }

    /// Records a device failure: the contents of the device are unknown from then on.
    fn poison_on_error<T>(inner: &mut FileSpaceState, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            inner.broken.get_or_insert_with(|| error.to_string());
        }
        result
    }

    fn put(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let whole = bytes.len().next_multiple_of(BLOCK as usize);
        let mut buffer = AlignedBuffer::zeroed(whole);
        let (head, _) = buffer.split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        self.device.write_at(at, buffer, Purpose::Trunk)?;
        Ok(())
    }

    /// Steps of a commit: the map, a sync, the slot, a sync.
    fn make_durable(&self, inner: &mut FileSpaceState, root: &[u8]) -> Result<CommitSlot> {
        let before = inner.durable.clone();
        let generation = before.as_ref().map_or(0, |slot| slot.generation) + 1;
        if let Some(slot) = before
            && slot.map.bytes > 0
        {
            inner.book.release(slot.map);
        }
        let map = encode_map(inner.book.extents());
        let extent = match map.len() {
            0 => SpaceExtent::default(),
            bytes => self.claim(inner, bytes as u64)?,
        };
        if extent.bytes > 0 {
            self.put(extent.at, &map)?;
        }
        self.device.sync(Purpose::Trunk)?;
        let slot = CommitSlot {
            generation,
            map: extent,
            map_sum: checksum(&map),
            root: root.to_vec(),
        };
        self.put(generation % 2 * SLOT, &slot.encode())?;
        self.device.sync(Purpose::Trunk)?;
        Ok(slot)
    }

    fn claim(&self, inner: &mut FileSpaceState, bytes: u64) -> Result<SpaceExtent> {
        if let Some(extent) = inner.book.allocate_extent(bytes) {
            return Ok(extent);
        }
        let len = self.device.len();
        let more = bytes
            .next_multiple_of(BLOCK)
            .max(GROWTH)
            .max(len / SHARE / BLOCK * BLOCK);
        self.device.grow(len.saturating_add(more))?;
        inner.book.extend(self.device.len());
        let extent = inner.book.allocate_extent(bytes);
        Ok(extent.expect("a file has what it grew by"))
    }
}

impl FileSpaceState {
    fn ensure_usable(&self) -> Result<()> {
        match &self.broken {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
        }
    }
}

/// Reads bytes at any alignment.
fn read(device: &dyn Device, at: u64, bytes: u64) -> Result<Vec<u8>> {
    let from = at / BLOCK * BLOCK;
    let end = at
        .checked_add(bytes)
        .and_then(|end| end.checked_next_multiple_of(BLOCK));
    let end = end.filter(|&end| end <= device.len()).ok_or_else(|| {
        let limit = format!("within {} bytes", device.len());
        Error::damaged(at, "a range", limit, format!("{bytes} bytes"))
    })?;
    if bytes == 0 {
        return Ok(Vec::new());
    }
    let buffer = device.read_at(from, (end - from) as usize, Purpose::Trunk)?;
    let skipped = (at - from) as usize;
    let found = buffer.get(skipped..skipped + bytes as usize);
    Ok(found.unwrap_or_default().to_vec())
}

impl NodeSpace for FileSpace {
    fn allocate(&self, bytes: u64) -> Result<SpaceExtent> {
        let inner = &mut *self.inner.borrow_mut();
        inner.ensure_usable()?;
        self.claim(inner, bytes.max(1))
    }

    fn release(&self, extent: SpaceExtent) {
        self.inner.borrow_mut().book.release(extent);
    }

    fn read(&self, at: u64, bytes: u64) -> Result<Vec<u8>> {
        read(&*self.device, at, bytes)
    }

    fn write(&self, extent: SpaceExtent, bytes: &[u8]) -> Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        inner.ensure_usable()?;
        assert!(
            inner.book.is_fresh(extent),
            "only fresh extents are written (AS1)"
        );
        assert!(
            bytes.len() as u64 <= extent.bytes,
            "an extent holds what is written"
        );
        let written = self.put(extent.at, bytes);
        FileSpace::poison_on_error(inner, written)
    }

    fn commit(&self, root: &[u8]) -> Result<()> {
        assert!(root.len() <= MOST_ROOT, "a root fits a slot");
        let inner = &mut *self.inner.borrow_mut();
        inner.ensure_usable()?;
        let made = self.make_durable(inner, root);
        let slot = FileSpace::poison_on_error(inner, made)?;
        inner.durable = Some(slot);
        inner.book.committed();
        Ok(())
    }

    fn root(&self) -> Option<Vec<u8>> {
        let inner = self.inner.borrow();
        inner.durable.as_ref().map(|slot| slot.root.clone())
    }

    fn extents(&self) -> Vec<SpaceExtent> {
        let inner = self.inner.borrow();
        let map = inner.durable.as_ref().map(|slot| slot.map.at);
        let all = inner.book.extents();
        all.filter(|extent| Some(extent.at) != map).collect()
    }
}
