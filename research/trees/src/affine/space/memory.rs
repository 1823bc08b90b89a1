//! An in-memory space with a meter that counts each byte, fault injection, and simulated crashes.

use super::extent_allocator::ExtentAllocator;
use super::meter::{RequestMeter, SpaceRequest};
use super::{NodeSpace, SpaceExtent};
use crate::affine::error::{Error, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceFault {
    /// The n-th write or commit from now on fails, and all later ones.
    WritesFrom(u64),
    /// The n-th read from now on fails, and all later ones.
    ReadsFrom(u64),
}

/// An in-memory space.
///
/// It panics when a dictionary writes bytes that the last commit references or that are not
/// allocated: either is a bug of the dictionary (AS1).
///
/// ```
/// use research_trees::affine::{MemorySpace, NodeSpace};
/// let space = MemorySpace::new(1 << 20);
/// let extent = space.allocate(5)?;
/// space.write(extent, b"bytes")?;
/// space.commit(b"root")?;
/// assert_eq!(space.read(extent.at + 1, 3)?, b"yte");
/// assert_eq!(space.meter().cost(0.5), 1.0 + 2.5 + 1.0 + 1.5);
/// assert_eq!(space.crashed().root().unwrap(), b"root");
/// # Ok::<(), research_trees::affine::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemorySpace {
    inner: RefCell<MemorySpaceState>,
}

#[derive(Clone, Debug)]
struct MemorySpaceState {
    book: ExtentAllocator,
    held: BTreeMap<u64, Vec<u8>>,
    root: Option<Vec<u8>>,
    /// The extents that the last commit references.
    durable: Vec<SpaceExtent>,
    meter: RequestMeter,
    log: Option<Vec<SpaceRequest>>,
    writes_left: Option<u64>,
    reads_left: Option<u64>,
}

impl MemorySpace {
    /// Creates an empty space of at most `capacity` bytes.
    #[must_use]
    pub fn new(capacity: u64) -> MemorySpace {
        let inner = MemorySpaceState {
            book: ExtentAllocator::new(1, 0, capacity),
            held: BTreeMap::new(),
            root: None,
            durable: Vec::new(),
            meter: RequestMeter::default(),
            log: None,
            writes_left: None,
            reads_left: None,
        };
        MemorySpace {
            inner: RefCell::new(inner),
        }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn meter(&self) -> RequestMeter {
        self.inner.borrow().meter
    }

    /// Returns the requests since the last call, or since the creation of the space.
    #[must_use]
    pub fn requests(&self) -> Vec<SpaceRequest> {
        self.inner
            .borrow_mut()
            .log
            .replace(Vec::new())
            .unwrap_or_default()
    }

    /// Returns the number of bytes in use or waiting for a commit to be freed.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.inner.borrow().book.used_bytes()
    }

    pub fn inject(&self, fault: SpaceFault) {
        let mut inner = self.inner.borrow_mut();
        match fault {
            SpaceFault::WritesFrom(left) => inner.writes_left = Some(left),
            SpaceFault::ReadsFrom(left) => inner.reads_left = Some(left),
        }
    }

    /// Corrupts a byte, as a failing device would.
    pub fn damage(&self, at: u64, mask: u8) {
        let mut inner = self.inner.borrow_mut();
        if let Some((start, held)) = inner.held.range_mut(..=at).next_back()
            && let Some(byte) = held.get_mut((at - start) as usize)
        {
            *byte ^= mask;
        }
    }

    /// Returns the space in its state after a crash at this moment: the last commit only (AS2).
    #[must_use]
    pub fn crashed(&self) -> MemorySpace {
        let old = self.inner.borrow();
        let mut book = ExtentAllocator::new(1, 0, old.book.capacity());
        let mut held = BTreeMap::new();
        for extent in &old.durable {
            assert!(
                book.reserve_durable(*extent),
                "extents of a commit do not overlap"
            );
            let bytes = old.held.get(&extent.at);
            held.insert(extent.at, bytes.expect("a commit keeps what it reaches").clone());
        }
        let inner = MemorySpaceState {
            book,
            held,
            root: old.root.clone(),
            durable: old.durable.clone(),
            meter: RequestMeter::default(),
            log: None,
            writes_left: None,
            reads_left: None,
        };
        MemorySpace {
            inner: RefCell::new(inner),
        }
    }
}

impl MemorySpaceState {
    fn count(&mut self, request: SpaceRequest) {
        self.meter.count(request);
        if let Some(log) = &mut self.log {
            log.push(request);
        }
    }

    fn charge(left: &mut Option<u64>, what: &'static str, at: u64, bytes: u64) -> Result<()> {
        match left {
            Some(0 | 1) => {
                *left = Some(0);
                Err(Error::Injected { what, at, bytes })
            }
            Some(more) => {
                *more -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl NodeSpace for MemorySpace {
    fn allocate(&self, bytes: u64) -> Result<SpaceExtent> {
        let book = &mut self.inner.borrow_mut().book;
        let (used, capacity) = (book.used_bytes(), book.capacity());
        book.allocate_extent(bytes.max(1)).ok_or(Error::Full {
            bytes,
            used,
            capacity,
        })
    }

    fn release(&self, extent: SpaceExtent) {
        let inner = &mut *self.inner.borrow_mut();
        if inner.book.release(extent) {
            inner.held.remove(&extent.at);
        }
    }

    fn read(&self, at: u64, bytes: u64) -> Result<Vec<u8>> {
        let inner = &mut *self.inner.borrow_mut();
        MemorySpaceState::charge(&mut inner.reads_left, "read", at, bytes)?;
        inner.count(SpaceRequest::Read(bytes));
        let found = inner.held.range(..=at).next_back().and_then(|(start, held)| {
            let from = usize::try_from(at - start).ok()?;
            held.get(from..from.checked_add(usize::try_from(bytes).ok()?)?)
        });
        let found = found.ok_or_else(|| {
            Error::damaged(
                at,
                "a range",
                "within an extent",
                format!("{bytes} bytes at {at}"),
            )
        });
        found.map(<[u8]>::to_vec)
    }

    fn write(&self, extent: SpaceExtent, bytes: &[u8]) -> Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        assert!(
            inner.book.is_fresh(extent),
            "only fresh extents are written (AS1)"
        );
        assert!(
            bytes.len() as u64 <= extent.bytes,
            "an extent holds what is written"
        );
        MemorySpaceState::charge(&mut inner.writes_left, "write", extent.at, extent.bytes)?;
        inner.count(SpaceRequest::Write(bytes.len() as u64));
        inner.held.insert(extent.at, bytes.to_vec());
        Ok(())
    }

    fn commit(&self, root: &[u8]) -> Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        MemorySpaceState::charge(&mut inner.writes_left, "commit", 0, root.len() as u64)?;
        for dead in inner.book.committed() {
            inner.held.remove(&dead.at);
        }
        inner.durable = inner.book.extents().collect();
        inner.root = Some(root.to_vec());
        Ok(())
    }

    fn root(&self) -> Option<Vec<u8>> {
        self.inner.borrow().root.clone()
    }

    fn extents(&self) -> Vec<SpaceExtent> {
        self.inner.borrow().book.extents().collect()
    }
}
