//! Access modes of a partition, chosen at compile time.

use std::cell::Cell;
use std::fmt::Debug;
use std::marker::PhantomData;

mod sealed {
    pub trait SealedMode {}
}

/// An access mode of a partition (Lim 2015, §5.3.1).
pub trait ConcurrencyMode: sealed::SealedMode + Debug + Send + 'static {
    /// Whether threads may read while another thread writes.
    const SHARED: bool;
    /// Whether there may be several writers, which must then exclude each other (M6).
    const LOCKED: bool;
}

/// Exclusive read, exclusive write: only one thread at a time uses the partition, without any
/// synchronisation.
#[derive(Debug)]
pub struct Erew(PhantomData<Cell<()>>);

/// Concurrent read, exclusive write: all threads may read, and one thread may write.
#[derive(Debug)]
pub struct Crew;

/// Concurrent read, concurrent write: all threads may read and write.
#[derive(Debug)]
pub struct Crcw;

impl sealed::SealedMode for Erew {}
impl sealed::SealedMode for Crew {}
impl sealed::SealedMode for Crcw {}

impl ConcurrencyMode for Erew {
    const SHARED: bool = false;
    const LOCKED: bool = false;
}

impl ConcurrencyMode for Crew {
    const SHARED: bool = true;
    const LOCKED: bool = false;
}

impl ConcurrencyMode for Crcw {
    const SHARED: bool = true;
    const LOCKED: bool = true;
}
