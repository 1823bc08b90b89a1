//! Access modes of a partition, chosen at compile time.

use std::cell::Cell;
use std::fmt::Debug;
use std::marker::PhantomData;

mod sealed {
    pub trait Sealed {}
}

/// An access mode of a partition (Lim 2015, §5.3.1).
pub trait Mode: sealed::Sealed + Debug + Send + 'static {
    /// Whether threads read while another thread writes.
    const SHARED: bool;
    /// Whether several threads write.
    const LOCKED: bool;
}

/// Exclusive read, exclusive write: only one thread uses the partition at a time, without
/// synchronisation.
#[derive(Debug)]
pub struct Erew(PhantomData<Cell<()>>);

/// Concurrent read, exclusive write: all threads read, one writes.
#[derive(Debug)]
pub struct Crew;

/// Concurrent read, concurrent write: all threads read and write.
#[derive(Debug)]
pub struct Crcw;

impl sealed::Sealed for Erew {}
impl sealed::Sealed for Crew {}
impl sealed::Sealed for Crcw {}

impl Mode for Erew {
    const SHARED: bool = false;
    const LOCKED: bool = false;
}

impl Mode for Crew {
    const SHARED: bool = true;
    const LOCKED: bool = false;
}

impl Mode for Crcw {
    const SHARED: bool = true;
    const LOCKED: bool = true;
}
