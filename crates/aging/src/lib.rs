//! The library behind `alluvium aging`: measures how the layout of any file system deteriorates
//! with use, and what that costs.
//!
//! *Scope*: workloads that age a file system, measures of its layout, the file systems in image
//! files on which workloads run, and reports.
//!
//! *Must not depend on*: how a file system works, that of Alluvium included. A mount of Alluvium is
//! made by its binary, as any user makes one.
//!
//! Invariants:
//!
//! - **AG1** Only an image file that this crate created is formatted, mounted or detached. A marker
//!   beside the image names its inode, and the kernel names the image as the backing file of the
//!   loop device; both are compared before each step.
//! - **AG2** Every mount and loop device is released when its handle is dropped. A run that was
//!   killed leaves them behind, and the next run releases them.
//! - **AG3** The same plan and seed make the same tree, byte for byte, on every file system.
//! - **AG4** An interrupted run continues where its state says, with the tree that an uninterrupted
//!   run has at that step.
//!
//! Source: Conway, "Understanding Dictionaries at the Intersection of Theory and Practice", 2020,
//! chapter 4 (cited as Conway 2020 below). The measures and workloads first appeared in Conway et
//! al., "File Systems Fated for Senescence? Nonsense, Says Science!", FAST 2017.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod error;
pub mod measure;
pub mod run;
pub mod volumes;
pub mod workload;

pub use error::{Error, Result};
pub(crate) use error::{ErrorContext, run_program};

/// Returns whether a signal asked the job to stop. Long work calls it several times a second.
pub type StopRequest<'a> = &'a (dyn Fn() -> bool + Sync);

/// Returns [`Error::Stopped`] if the job was asked to stop.
pub(crate) fn check_stop(stop: StopRequest<'_>) -> Result<()> {
    match stop() {
        true => Err(Error::Stopped),
        false => Ok(()),
    }
}
