//! A directory whose files are in memory, the fastest and simplest implementation of the contract.
//!
//! The data is lost when the last handle is dropped. Syncs succeed and are counted. A file is a
//! vector of chunks behind a lock. The bytes of a mapped range are in separate memory that never
//! moves.

use crate::contract::check_alignment;
use crate::locks::{DirectoryLocks, LockSharing};
use crate::{
    BootId, CacheMode, Device, DeviceCounters, DeviceOperation, Directory, DirectoryLock, Error,
    FileAccessMode, FileMapping, FileOptions, FileSystemSpace, IoBatch, IoOutcome, IoRequest, MappingBacking,
    MemoryRegion, Result, Ticket,
};
use alluvium_base::Purpose;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Allocation unit of an in-memory file, in bytes.
const CHUNK: u64 = 64 << 10;

/// A directory whose files are kept in memory.
///
/// ```
/// use alluvium_base::Purpose;
/// use alluvium_device::{AlignedBuffer, Device, Directory, FileOptions, memory::MemoryDirectory};
/// let directory = MemoryDirectory::new();
/// let file = directory.create("tier-0", FileOptions::DIRECT)?;
/// file.grow(4096)?;
/// file.write_at(512, AlignedBuffer::padded(b"hello"), Purpose::Other)?;
/// assert_eq!(&file.read_at(512, 512, Purpose::Other)?[..5], b"hello");
/// # Ok::<(), alluvium_device::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryDirectory {
    shared: Arc<MemoryDirectoryState>,
}

#[derive(Debug, Default)]
struct MemoryDirectoryState {
    files: Mutex<BTreeMap<String, Arc<MemoryContents>>>,
    locks: Arc<Mutex<DirectoryLocks>>,
    counters: DeviceCounters,
}

/// The chunks of a file. An allocated chunk never moves. An absent chunk is a hole, which reads as
/// zeros.
#[derive(Debug, Default)]
struct MemoryContents {
    state: RwLock<ChunkedBytes>,
}

#[derive(Debug, Default)]
struct ChunkedBytes {
    len: u64,
    chunks: BTreeMap<u64, Box<[u8]>>,
    mappings: Vec<(u64, Arc<MappedMemory>)>,
}

impl ChunkedBytes {
    /// Splits `range` at chunk boundaries and calls `visit` for each piece, with the chunk number,
    /// the range within the chunk, and the range within the request.
    fn pieces(range: Range<u64>, mut visit: impl FnMut(u64, Range<usize>, Range<usize>)) {
        let mut at = range.start;
        while at < range.end {
            let within = at % CHUNK;
            let piece = (CHUNK - within).min(range.end - at);
            let done = (at - range.start) as usize;
            visit(
                at / CHUNK,
                within as usize..(within + piece) as usize,
                done..done + piece as usize,
            );
            at += piece;
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) {
        Self::pieces(offset..offset + out.len() as u64, |chunk, from, to| {
            match self.chunks.get(&chunk) {
                Some(bytes) => out[to].copy_from_slice(&bytes[from]),
                None => out[to].fill(0),
            }
        });
        for (start, mapped) in &self.mappings {
            mapped.copy_out(*start, offset, out);
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        Self::pieces(offset..offset + bytes.len() as u64, |chunk, to, from| {
            self.chunks
                .entry(chunk)
                .or_insert_with(|| vec![0; CHUNK as usize].into())[to]
                .copy_from_slice(&bytes[from]);
        });
        for (start, mapped) in &self.mappings {
            mapped.copy_in(*start, offset, bytes);
        }
    }

    fn zero(&mut self, range: Range<u64>) {
        Self::pieces(range.clone(), |chunk, within, _| {
            if within.len() as u64 == CHUNK {
                self.chunks.remove(&chunk);
            } else if let Some(bytes) = self.chunks.get_mut(&chunk) {
                bytes[within].fill(0);
            }
        });
        for (start, mapped) in &self.mappings {
            let end = start + mapped.len as u64;
            let (from, to) = (range.start.max(*start), range.end.min(end));
            if from < to {
                mapped.copy_in(*start, from, &vec![0; (to - from) as usize]);
            }
        }
    }
}

/// The memory behind a mapped range. It outlives the mapping, because the stored bytes belong to
/// the file.
#[derive(Debug)]
struct MappedMemory {
    start: NonNull<u8>,
    len: usize,
    counters: DeviceCounters,
}

// SAFETY: the bytes are reached only through raw copies, and callers of `FileMapping::write`
// coordinate. Reading a file while its mapping is written is as racy here as on a real machine,
// which is why the log never does it.
unsafe impl Send for MappedMemory {}
// SAFETY: as above.
unsafe impl Sync for MappedMemory {}

impl MappedMemory {
    fn new(bytes: Vec<u8>, counters: DeviceCounters) -> MappedMemory {
        let bytes: &'static mut [u8] = Box::leak(bytes.into_boxed_slice());
        MappedMemory {
            start: NonNull::from(&mut bytes[0]),
            len: bytes.len(),
            counters,
        }
    }

    /// Returns how the file range `offset..offset + len` overlaps this mapping, which begins at
    /// file offset `start`: the offset in the mapping, the offset in the request, and the length.
    fn overlap(&self, start: u64, offset: u64, len: usize) -> Option<(usize, usize, usize)> {
        let from = offset.max(start);
        let to = (offset + len as u64).min(start + self.len as u64);
        (from < to).then(|| {
            (
                (from - start) as usize,
                (from - offset) as usize,
                (to - from) as usize,
            )
        })
    }

    fn copy_out(&self, start: u64, offset: u64, out: &mut [u8]) {
        if let Some((mine, theirs, len)) = self.overlap(start, offset, out.len()) {
            // SAFETY: `overlap` returns ranges in bounds, and the contract of `FileMapping::write`
            // excludes a concurrent store.
            unsafe {
                std::ptr::copy_nonoverlapping(self.start.as_ptr().add(mine), out[theirs..].as_mut_ptr(), len);
            }
        }
    }

    fn copy_in(&self, start: u64, offset: u64, bytes: &[u8]) {
        if let Some((mine, theirs, len)) = self.overlap(start, offset, bytes.len()) {
            // SAFETY: as in `copy_out`.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes[theirs..].as_ptr(), self.start.as_ptr().add(mine), len);
            }
        }
    }
}

impl Drop for MappedMemory {
    fn drop(&mut self) {
        // SAFETY: `new` got the memory from a boxed slice of this length, and it is freed only
        // once.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len)) });
    }
}

impl MappingBacking for MappedMemory {
    fn sync(&self, _range: Range<u64>, purpose: Purpose) -> Result<()> {
        self.counters.sync(purpose);
        Ok(())
    }

    fn populate(&self, _range: Range<u64>) -> Result<()> {
        Ok(())
    }
}

impl MemoryDirectory {
    #[must_use]
    pub fn new() -> MemoryDirectory {
        MemoryDirectory::default()
    }

    fn take(&self, name: &str, sharing: LockSharing) -> Result<DirectoryLock> {
        struct MemoryLock(Arc<Mutex<DirectoryLocks>>, String);
        impl Drop for MemoryLock {
            fn drop(&mut self) {
                self.0.lock().give_back(&self.1);
            }
        }
        self.shared.locks.lock().take(name, sharing)?;
        Ok(DirectoryLock::new(MemoryLock(
            Arc::clone(&self.shared.locks),
            name.to_owned(),
        )))
    }

    fn file(&self, name: &str, contents: Arc<MemoryContents>, options: FileOptions) -> Arc<dyn Device> {
        Arc::new(MemoryFile {
            name: name.to_owned(),
            contents,
            options,
            counters: self.shared.counters.clone(),
        })
    }
}

impl Directory for MemoryDirectory {
    fn create(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>> {
        let mut files = self.shared.files.lock();
        if files.contains_key(name) {
            return Err(Error::AlreadyExists {
                file: name.to_owned(),
            });
        }
        let contents = Arc::<MemoryContents>::default();
        files.insert(name.to_owned(), Arc::clone(&contents));
        Ok(self.file(name, contents, options))
    }

    fn open(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>> {
        let files = self.shared.files.lock();
        let contents = files.get(name).ok_or_else(|| Error::NotFound {
            file: name.to_owned(),
        })?;
        Ok(self.file(name, Arc::clone(contents), options))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut files = self.shared.files.lock();
        let contents = files.remove(from).ok_or_else(|| Error::NotFound {
            file: from.to_owned(),
        })?;
        files.insert(to.to_owned(), contents);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let removed = self.shared.files.lock().remove(name);
        removed.map(|_| ()).ok_or_else(|| Error::NotFound {
            file: name.to_owned(),
        })
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.shared.files.lock().keys().cloned().collect())
    }

    fn sync(&self) -> Result<()> {
        self.shared.counters.sync(Purpose::Other);
        Ok(())
    }

    fn lock(&self, name: &str) -> Result<DirectoryLock> {
        self.take(name, LockSharing::Exclusive)
    }

    fn lock_shared(&self, name: &str) -> Result<DirectoryLock> {
        self.take(name, LockSharing::Shared)
    }

    fn space(&self) -> Result<FileSystemSpace> {
        Ok(FileSystemSpace {
            free: u64::MAX / 2,
            total: u64::MAX / 2,
        })
    }

    fn boot_id(&self) -> BootId {
        BootId([0; 16])
    }

    fn is_removed(&self) -> bool {
        false
    }

    fn counters(&self) -> &DeviceCounters {
        &self.shared.counters
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    fn register_memory(&self, _region: MemoryRegion) {}

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

#[derive(Debug)]
struct MemoryFile {
    name: String,
    contents: Arc<MemoryContents>,
    options: FileOptions,
    counters: DeviceCounters,
}

impl MemoryFile {
    fn perform(&self, request: IoRequest) -> IoOutcome {
        match request {
            IoRequest::Read {
                offset,
                mut buffer,
                purpose,
            } => {
                let len = buffer.len() as u64;
                check_alignment(
                    DeviceOperation::Read,
                    &self.name,
                    self.options.caching,
                    offset,
                    len,
                );
                self.counters.read(purpose, len);
                let state = self.contents.state.read();
                let result = self.inside(DeviceOperation::Read, offset, len, state.len);
                if result.is_ok() {
                    state.read(offset, &mut buffer);
                }
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
                let len = buffer.len() as u64;
                check_alignment(
                    DeviceOperation::Write,
                    &self.name,
                    self.options.caching,
                    offset,
                    len,
                );
                self.counters.write(purpose, len);
                let mut state = self.contents.state.write();
                let result = self
                    .writable(DeviceOperation::Write)
                    .and_then(|()| self.inside(DeviceOperation::Write, offset, len, state.len));
                if result.is_ok() {
                    state.write(offset, &buffer);
                }
                IoOutcome {
                    buffer: Some(buffer),
                    result,
                }
            }
            IoRequest::Sync { purpose } => {
                self.counters.sync(purpose);
                IoOutcome {
                    buffer: None,
                    result: Ok(()),
                }
            }
        }
    }

    fn inside(&self, operation: DeviceOperation, offset: u64, len: u64, end: u64) -> Result<()> {
        if offset.checked_add(len).is_some_and(|to| to <= end) {
            Ok(())
        } else {
            Err(Error::PastEnd {
                operation,
                file: self.name.clone(),
                offset,
                len,
                end,
            })
        }
    }

    fn writable(&self, operation: DeviceOperation) -> Result<()> {
        match self.options.access {
            FileAccessMode::ReadWrite => Ok(()),
            FileAccessMode::ReadOnly => Err(Error::ReadOnly {
                operation,
                file: self.name.clone(),
            }),
        }
    }
}

impl Device for MemoryFile {
    fn submit(&self, batch: IoBatch) -> Ticket {
        Ticket::ready(
            batch
                .into_requests()
                .into_iter()
                .map(|request| self.perform(request))
                .collect(),
        )
    }

    fn poll(&self, ticket: &Ticket) -> bool {
        ticket.is_complete()
    }

    fn wait(&self, ticket: &Ticket) {
        assert!(
            ticket.is_complete(),
            "a batch in memory is complete when it is submitted"
        );
    }

    fn len(&self) -> u64 {
        self.contents.state.read().len
    }

    fn is_removed(&self) -> bool {
        false
    }

    fn grow(&self, len: u64) -> Result<()> {
        self.writable(DeviceOperation::Grow)?;
        let mut state = self.contents.state.write();
        state.len = state.len.max(len);
        Ok(())
    }

    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.writable(DeviceOperation::Grow)?;
        self.inside(
            DeviceOperation::Grow,
            range.start,
            range.end - range.start,
            self.len(),
        )
    }

    fn renew(&self, _range: Range<u64>) -> Result<()> {
        Ok(())
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.writable(DeviceOperation::Truncate)?;
        let mut state = self.contents.state.write();
        if len < state.len {
            let end = state.len;
            state.zero(len..end);
            state.len = len;
        }
        Ok(())
    }

    fn punch_hole(&self, range: Range<u64>) -> Result<()> {
        self.writable(DeviceOperation::PunchHole)?;
        let mut state = self.contents.state.write();
        let end = range.end.min(state.len);
        if range.start < end {
            self.counters.punch(Purpose::Other, end - range.start);
            state.zero(range.start..end);
        }
        Ok(())
    }

    fn map(&self, range: Range<u64>) -> Result<FileMapping> {
        self.writable(DeviceOperation::Map)?;
        if self.options.caching == CacheMode::Direct {
            let why = "a direct file has no page cache to share".to_owned();
            return Err(Error::Unsupported {
                operation: DeviceOperation::Map,
                file: self.name.clone(),
                why,
            });
        }
        let mut state = self.contents.state.write();
        let len = range.end.saturating_sub(range.start);
        assert!(len > 0, "mapping nothing of {}", self.name);
        self.inside(DeviceOperation::Map, range.start, len, state.len)?;
        let existing = state
            .mappings
            .iter()
            .find(|(start, mapped)| *start == range.start && mapped.len as u64 == len);
        let backing = if let Some((_, mapped)) = existing {
            Arc::clone(mapped)
        } else {
            let mut bytes = vec![0; len as usize];
            state.read(range.start, &mut bytes);
            let mapped = Arc::new(MappedMemory::new(bytes, self.counters.clone()));
            state.mappings.push((range.start, Arc::clone(&mapped)));
            mapped
        };
        // SAFETY: the memory lives as long as the backing, which the mapping keeps alive.
        Ok(unsafe { FileMapping::new(backing.start, backing.len, backing) })
    }

    fn name(&self) -> &str {
        &self.name
    }
}
