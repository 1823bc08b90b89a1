//! Stores in directories that the caller provides, one directory per tier. The stores can be scaled
//! down and can use a simulated clock.
//!
//! Only the tests of Alluvium's own crates use this module, for crash simulation, fault injection
//! and fuzzing. It exposes internal types and may change in any version. Programs use
//! [`Options::open`], or [`Options::in_memory`] for a store in memory.

use crate::admin::repair::RepairReport;
use crate::db::Db;
use crate::engine::progress::Progress;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::options::kind::StructureKind;
use crate::options::store::ExistencePolicy;
use crate::options::{KeyspaceOptions, Options, TierOptions};
use alluvium_base::ErrorKind;
use alluvium_device::Directory;
use alluvium_storage::TierDirectories;
use std::sync::Arc;

pub use crate::options::scale::StoreScale;
pub use alluvium_trees::levels::FilterSource;

/// Opens stores in directories provided by the caller, which may be in memory or simulated.
pub trait DirectoryOpener {
    /// Returns options with the given scale and clock (in milliseconds since 1970) and without
    /// background threads.
    #[must_use]
    fn simulated(self, scale: StoreScale, now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self;

    /// Returns options with the given clock, in milliseconds since 1970. Other options do not
    /// change.
    #[must_use]
    fn clocked(self, now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self;

    /// Opens the store in a directory, or creates one if there is none.
    ///
    /// # Errors
    /// The same errors as [`Options::open`].
    fn open_in(&self, directories: impl Into<TierDirectories>) -> Result<Db>;

    /// Opens an existing store.
    ///
    /// # Errors
    /// The same errors as [`Options::open`].
    fn open_existing_in(&self, directories: impl Into<TierDirectories>) -> Result<Db>;

    /// Creates a store in a directory that contains no store.
    ///
    /// # Errors
    /// The same errors as [`Options::open`].
    fn create_in(&self, directories: impl Into<TierDirectories>) -> Result<Db>;

    /// Opens an existing store for reading only.
    ///
    /// # Errors
    /// The same errors as [`Options::open`].
    fn open_read_only_in(&self, directories: impl Into<TierDirectories>) -> Result<Db>;

    /// Repairs the store in a directory.
    ///
    /// # Errors
    /// The same errors as [`Options::repair`].
    fn repair_in(&self, directories: impl Into<TierDirectories>) -> Result<RepairReport>;

    /// Copies a backup into a directory and verifies the copy.
    ///
    /// # Errors
    /// The same errors as [`Options::restore`].
    fn restore_in(
        &self,
        from: impl Into<TierDirectories>,
        to: impl Into<TierDirectories>,
        progress: impl FnMut(Progress),
    ) -> Result<()>;
}

impl DirectoryOpener for Options {
    fn simulated(mut self, scale: StoreScale, now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Options {
        self.scale = Some(scale);
        self.clock = Arc::new(now_ms);
        self.workers(0)
    }

    fn clocked(mut self, now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Options {
        self.clock = Arc::new(now_ms);
        self
    }

    fn open_in(&self, directories: impl Into<TierDirectories>) -> Result<Db> {
        Db::open_in(directories, self, ExistencePolicy::OpenOrCreate)
    }

    fn open_existing_in(&self, directories: impl Into<TierDirectories>) -> Result<Db> {
        Db::open_in(directories, self, ExistencePolicy::Open)
    }

    fn create_in(&self, directories: impl Into<TierDirectories>) -> Result<Db> {
        Db::open_in(directories, self, ExistencePolicy::Create)
    }

    fn open_read_only_in(&self, directories: impl Into<TierDirectories>) -> Result<Db> {
        self.read_only_in(&directories.into())
    }

    fn repair_in(&self, directories: impl Into<TierDirectories>) -> Result<RepairReport> {
        self.repair_on(&directories.into(), |_| ())
    }

    fn restore_in(
        &self,
        from: impl Into<TierDirectories>,
        to: impl Into<TierDirectories>,
        mut progress: impl FnMut(Progress),
    ) -> Result<()> {
        self.restore_on(&from.into(), &to.into(), &mut progress)
    }
}

/// Operations on an open store that only simulations use.
pub trait SimulationOperations {
    /// Copies the store into a directory provided by the caller: see [`Db::checkpoint_to`].
    ///
    /// # Errors
    /// The same errors as [`Db::checkpoint_to`].
    fn checkpoint_to_in(
        &self,
        target: impl Into<TierDirectories>,
        progress: impl FnMut(Progress),
    ) -> Result<u64>;

    /// Adds a tier in a directory provided by the caller: see [`Db::add_tier`].
    ///
    /// # Errors
    /// The same errors as [`Db::add_tier`].
    fn add_tier_in(&self, directory: Arc<dyn Directory>) -> Result<()>;

    /// Reopens a failed tier and admits new data to it: see [`Db::use_tier`].
    ///
    /// # Errors
    /// The same errors as [`Db::use_tier`].
    fn use_tier_in(&self, tier: u8) -> Result<()>;

    /// Opens or creates a keyspace that is stored in the in-memory map. This structure is not part
    /// of the public API.
    ///
    /// # Errors
    /// The same errors as [`Db::keyspace_with`].
    fn keyspace_in_map(&self, name: &str, options: &KeyspaceOptions) -> Result<Keyspace>;

    /// Abandons the store as if the process had crashed: no handle writes anything afterwards.
    fn abandon(&self);
}

impl SimulationOperations for Db {
    fn checkpoint_to_in(
        &self,
        target: impl Into<TierDirectories>,
        mut progress: impl FnMut(Progress),
    ) -> Result<u64> {
        self.back_up(&target.into(), &mut progress)
    }

    fn add_tier_in(&self, directory: Arc<dyn Directory>) -> Result<()> {
        let _alone = self.engine().copying.write();
        self.add_tier_on(&directory, TierOptions::new())
    }

    fn use_tier_in(&self, tier: u8) -> Result<()> {
        let own = self.engine().store.directories().get(tier).cloned();
        self.readmit(tier, || Ok(own.expect("the simulation has such a tier")))
    }

    fn keyspace_in_map(&self, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
        self.keyspace_in(name, StructureKind::Map, options)
    }

    fn abandon(&self) {
        self.end_abruptly();
    }
}

/// Returns the number of the failed tier if the error reports that a single tier failed while the
/// others still work.
#[must_use]
pub fn failing_tier(error: &Error) -> Option<u8> {
    error.failing_tier().map(|(tier, _)| tier)
}

/// Returns the kind of a storage error, or `None` for other errors. Simulators classify errors by
/// it.
#[must_use]
pub fn storage_kind(error: &Error) -> Option<ErrorKind> {
    error.storage().map(alluvium_storage::Error::kind)
}

/// The encodings of log records and of the catalog, exposed to fuzz their decoders.
pub mod format {
    pub use crate::schema::format::*;
    pub use crate::schema::manifest::format as manifest;
}
