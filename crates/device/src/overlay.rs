//! A copy-on-write overlay on another directory, which keeps changes in memory and never changes
//! the inner directory.
//!
//! The inner files are opened read-only, so a store can be opened, recovered and read without
//! changing a byte of it, even on read-only media. The changes are discarded with the last handle.
//! The caller must bound the memory they use. The inner directory is locked in shared mode.
//!
//! Writes, syncs and holes do not reach a device, so they are not counted (D6). Files cannot be
//! mapped.

use crate::contract::check_alignment;
use crate::forward::ForwardDirectory;
use crate::locks::{DirectoryLocks, LockSharing};
use crate::{
    BLOCK, Device, DeviceOperation, Directory, DirectoryLock, Error, FileAccessMode, FileMapping,
    FileOptions, IoBatch, IoOutcome, IoRequest, Result, Ticket,
};
use alluvium_base::Purpose;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Size in bytes of the units in which written data is kept.
const PAGE: u64 = 4096;

/// A directory that wraps another one and keeps all changes in memory.
///
/// ```
/// use alluvium_base::Purpose;
/// use alluvium_device::{
///     AlignedBuffer, Device, Directory, FileOptions, OverlayDirectory,
///     memory::MemoryDirectory,
/// };
/// use std::sync::Arc;
/// let below = MemoryDirectory::new();
/// below.create("tier-0", FileOptions::DIRECT)?.grow(4096)?;
/// let overlay = OverlayDirectory::new(Arc::new(below.clone()))?;
/// let file = overlay.open("tier-0", FileOptions::DIRECT)?;
/// file.write_at(512, AlignedBuffer::padded(b"hello"), Purpose::Other)?;
/// assert_eq!(&file.read_at(512, 512, Purpose::Other)?[..5], b"hello");
/// let below = below.open("tier-0", FileOptions::DIRECT)?;
/// assert_eq!(&below.read_at(512, 512, Purpose::Other)?[..5], [0; 5]);
/// # Ok::<(), alluvium_device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct OverlayDirectory {
    below: Arc<dyn Directory>,
    shared: Arc<OverlayState>,
}

#[derive(Debug)]
struct OverlayState {
    files: Mutex<BTreeMap<String, Arc<OverlayContents>>>,
    locks: Mutex<DirectoryLocks>,
}

/// A file of the overlay: the inner file, and the changes to it.
#[derive(Debug, Default)]
struct OverlayContents {
    /// Name of the inner file, if there is one.
    below: Option<String>,
    changes: RwLock<OverlayChanges>,
}

#[derive(Debug, Default)]
struct OverlayChanges {
    /// The current length of the file, set when the first handle is opened.
    len: Option<u64>,
    /// From this offset on, the file's bytes do not come from the inner file.
    below: u64,
    /// Ranges that read as zeros, no matter what the inner file contains there.
    holes: Vec<Range<u64>>,
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl OverlayDirectory {
    /// Creates an overlay without changes.
    ///
    /// # Errors
    /// Errors of listing the inner directory.
    pub fn new(below: Arc<dyn Directory>) -> Result<OverlayDirectory> {
        let file = |name: String| {
            let contents = OverlayContents {
                below: Some(name.clone()),
                ..OverlayContents::default()
            };
            (name, Arc::new(contents))
        };
        let files = below.list()?.into_iter().map(file).collect();
        Ok(OverlayDirectory {
            below,
            shared: Arc::new(OverlayState {
                files: Mutex::new(files),
                locks: Mutex::default(),
            }),
        })
    }

    fn handle(
        &self,
        name: &str,
        contents: Arc<OverlayContents>,
        options: FileOptions,
    ) -> Result<Arc<dyn Device>> {
        let below = match &contents.below {
            Some(below) => Some(self.below.open(below, options.read_only())?),
            None => None,
        };
        {
            let mut changes = contents.changes.write();
            if changes.len.is_none() {
                let len = below.as_ref().map_or(0, |file| file.len());
                (changes.len, changes.below) = (Some(len), len);
            }
        }
        Ok(Arc::new(OverlayFile {
            name: name.to_owned(),
            options,
            contents,
            below,
        }))
    }

    fn take(&self, name: &str, sharing: LockSharing) -> Result<DirectoryLock> {
        struct OverlayLock(Arc<OverlayState>, String, #[allow(dead_code)] DirectoryLock);
        impl Drop for OverlayLock {
            fn drop(&mut self) {
                self.0.locks.lock().give_back(&self.1);
            }
        }
        let below = self.below.lock_shared(name)?;
        self.shared.locks.lock().take(name, sharing)?;
        Ok(DirectoryLock::new(OverlayLock(
            Arc::clone(&self.shared),
            name.to_owned(),
            below,
        )))
    }
}

impl ForwardDirectory for OverlayDirectory {
    fn inner(&self) -> &dyn Directory {
        &*self.below
    }

    fn create(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>> {
        let contents = Arc::<OverlayContents>::default();
        {
            let mut files = self.shared.files.lock();
            if files.contains_key(name) {
                return Err(Error::AlreadyExists {
                    file: name.to_owned(),
                });
            }
            files.insert(name.to_owned(), Arc::clone(&contents));
        }
        self.handle(name, contents, options)
    }

    fn open(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>> {
        let contents = self.shared.files.lock().get(name).cloned();
        let contents = contents.ok_or_else(|| not_found(name))?;
        self.handle(name, contents, options)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut files = self.shared.files.lock();
        let contents = files.remove(from).ok_or_else(|| not_found(from))?;
        files.insert(to.to_owned(), contents);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let removed = self.shared.files.lock().remove(name);
        removed.map(|_| ()).ok_or_else(|| not_found(name))
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.shared.files.lock().keys().cloned().collect())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn lock(&self, name: &str) -> Result<DirectoryLock> {
        self.take(name, LockSharing::Exclusive)
    }

    fn lock_shared(&self, name: &str) -> Result<DirectoryLock> {
        self.take(name, LockSharing::Shared)
    }
}

fn not_found(name: &str) -> Error {
    Error::NotFound {
        file: name.to_owned(),
    }
}

#[derive(Debug)]
struct OverlayFile {
    name: String,
    options: FileOptions,
    contents: Arc<OverlayContents>,
    below: Option<Arc<dyn Device>>,
}

impl OverlayChanges {
    fn end(&self) -> u64 {
        self.len.unwrap_or(0)
    }

    /// Returns whether the bytes of a range are those of the inner file.
    fn is_below(&self, range: &Range<u64>) -> bool {
        let written = self
            .pages
            .range(range.start / PAGE..range.end.div_ceil(PAGE))
            .next()
            .is_some();
        let meets = |hole: &Range<u64>| hole.start < range.end && range.start < hole.end;
        range.end <= self.below && !written && !self.holes.iter().any(meets)
    }
}

impl OverlayFile {
    /// Fills `out` with the contents of the file from `offset` on.
    fn read(&self, changes: &OverlayChanges, offset: u64, out: &mut [u8], purpose: Purpose) -> Result<()> {
        let end = offset + out.len() as u64;
        out.fill(0);
        if let Some(below) = self.below.as_ref().filter(|_| offset < changes.below) {
            let wanted = end.min(changes.below);
            // A direct inner file is read in whole blocks, and its current end may be within a
            // block.
            let whole = wanted.next_multiple_of(BLOCK).min(below.len() / BLOCK * BLOCK);
            if whole > offset {
                let read = below.read_at(offset, (whole - offset) as usize, purpose)?;
                let len = (wanted.min(whole) - offset) as usize;
                out[..len].copy_from_slice(&read[..len]);
            }
        }
        for hole in &changes.holes {
            let (from, to) = (hole.start.max(offset), hole.end.min(end));
            if from < to {
                out[(from - offset) as usize..(to - offset) as usize].fill(0);
            }
        }
        for (number, page) in changes.pages.range(offset / PAGE..end.div_ceil(PAGE)) {
            let start = number * PAGE;
            let (from, to) = (start.max(offset), (start + PAGE).min(end));
            out[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&page[(from - start) as usize..(to - start) as usize]);
        }
        Ok(())
    }

    /// Stores written bytes in pages of the overlay.
    fn write(&self, changes: &mut OverlayChanges, offset: u64, bytes: &[u8], purpose: Purpose) -> Result<()> {
        let end = offset + bytes.len() as u64;
        for number in offset / PAGE..end.div_ceil(PAGE) {
            let start = number * PAGE;
            if !changes.pages.contains_key(&number) {
                let mut page = vec![0; PAGE as usize];
                self.read(changes, start, &mut page, purpose)?;
                changes.pages.insert(number, page.into());
            }
            let page = changes.pages.get_mut(&number).expect("it was just made");
            let (from, to) = (start.max(offset), (start + PAGE).min(end));
            page[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]);
        }
        Ok(())
    }

    fn perform(&self, request: IoRequest) -> IoOutcome {
        match request {
            IoRequest::Read {
                offset,
                mut buffer,
                purpose,
            } => {
                let changes = self.contents.changes.read();
                let result = self
                    .inside(DeviceOperation::Read, offset, buffer.len() as u64, changes.end())
                    .and_then(|()| self.read(&changes, offset, &mut buffer, purpose));
                IoOutcome {
                    buffer: Some(buffer),
                    result,
                }
            }
            IoRequest::Write {
                offset,
                buffer,
                purpose,
            } => {
                let mut changes = self.contents.changes.write();
                let result = self
                    .writable(DeviceOperation::Write)
                    .and_then(|()| {
                        self.inside(DeviceOperation::Write, offset, buffer.len() as u64, changes.end())
                    })
                    .and_then(|()| self.write(&mut changes, offset, &buffer, purpose));
                IoOutcome {
                    buffer: Some(buffer),
                    result,
                }
            }
            IoRequest::Sync { .. } => IoOutcome {
                buffer: None,
                result: Ok(()),
            },
        }
    }

    fn check(&self, request: &IoRequest) {
        let (operation, offset, len) = match request {
            IoRequest::Read { offset, buffer, .. } => (DeviceOperation::Read, *offset, buffer.len()),
            IoRequest::Write { offset, buffer, .. } => (DeviceOperation::Write, *offset, buffer.len()),
            IoRequest::Sync { .. } => return,
        };
        check_alignment(operation, &self.name, self.options.caching, offset, len as u64);
    }

    fn inside(&self, operation: DeviceOperation, offset: u64, len: u64, end: u64) -> Result<()> {
        if offset.checked_add(len).is_some_and(|to| to <= end) {
            return Ok(());
        }
        Err(Error::PastEnd {
            operation,
            file: self.name.clone(),
            offset,
            len,
            end,
        })
    }

    fn writable(&self, operation: DeviceOperation) -> Result<()> {
        if self.options.access == FileAccessMode::ReadWrite {
            return Ok(());
        }
        Err(Error::ReadOnly {
            operation,
            file: self.name.clone(),
        })
    }

    /// Returns whether all requested ranges are unchanged, so that the inner file can serve the
    /// batch.
    fn asks_below(&self, requests: &[IoRequest]) -> bool {
        let changes = self.contents.changes.read();
        requests.iter().all(|request| match request {
            IoRequest::Read { offset, buffer, .. } => {
                let end = offset.checked_add(buffer.len() as u64);
                end.is_some_and(|end| changes.is_below(&(*offset..end)))
            }
            IoRequest::Write { .. } | IoRequest::Sync { .. } => false,
        })
    }
}

impl Device for OverlayFile {
    fn submit(&self, batch: IoBatch) -> Ticket {
        let requests = batch.into_requests();
        requests.iter().for_each(|request| self.check(request));
        match &self.below {
            Some(below) if self.asks_below(&requests) => {
                let mut batch = IoBatch::with_capacity(requests.len());
                for request in requests {
                    batch.push(request);
                }
                below.submit(batch)
            }
            _ => {
                let outcomes = requests.into_iter().map(|request| self.perform(request));
                Ticket::ready(outcomes.collect())
            }
        }
    }

    fn poll(&self, ticket: &Ticket) -> bool {
        ticket.is_complete() || self.below.as_ref().is_some_and(|below| below.poll(ticket))
    }

    fn wait(&self, ticket: &Ticket) {
        if let Some(below) = self.below.as_ref().filter(|_| !ticket.is_complete()) {
            below.wait(ticket);
        }
    }

    fn len(&self) -> u64 {
        self.contents.changes.read().end()
    }

    fn is_removed(&self) -> bool {
        false
    }

    fn grow(&self, len: u64) -> Result<()> {
        self.writable(DeviceOperation::Grow)?;
        let mut changes = self.contents.changes.write();
        changes.len = Some(changes.end().max(len));
        Ok(())
    }

    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.writable(DeviceOperation::Grow)?;
        self.inside(
            DeviceOperation::Grow,
            range.start,
            range.end.saturating_sub(range.start),
            self.len(),
        )
    }

    fn renew(&self, _range: Range<u64>) -> Result<()> {
        Ok(())
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.writable(DeviceOperation::Truncate)?;
        let mut changes = self.contents.changes.write();
        if len < changes.end() {
            changes.pages.split_off(&len.div_ceil(PAGE));
            if let Some(last) = changes.pages.get_mut(&(len / PAGE)) {
                last[(len % PAGE) as usize..].fill(0);
            }
            changes.below = changes.below.min(len);
            changes.len = Some(len);
        }
        Ok(())
    }

    fn punch_hole(&self, range: Range<u64>) -> Result<()> {
        self.writable(DeviceOperation::PunchHole)?;
        let mut changes = self.contents.changes.write();
        let end = range.end.min(changes.end());
        if range.start >= end {
            return Ok(());
        }
        for (number, page) in changes.pages.range_mut(range.start / PAGE..end.div_ceil(PAGE)) {
            let start = number * PAGE;
            let (from, to) = (range.start.max(start), end.min(start + PAGE));
            page[(from - start) as usize..(to - start) as usize].fill(0);
        }
        changes.holes.push(range.start..end);
        Ok(())
    }

    fn map(&self, _range: Range<u64>) -> Result<FileMapping> {
        self.writable(DeviceOperation::Map)?;
        Err(Error::Unsupported {
            operation: DeviceOperation::Map,
            file: self.name.clone(),
            why: "what is written to it stays apart from the file".to_owned(),
        })
    }

    fn name(&self) -> &str {
        &self.name
    }
}

const _: () = assert!(PAGE.is_multiple_of(BLOCK), "a page is whole blocks");
