//! Failed tiers. A failed tier accepts no new data, and the store goes on without it.
//!
//! The first tier is an exception, because the store cannot work without the superblock and the
//! log, which it contains. If the first tier fails, the store refuses changes (S6).

use super::TierFiles;
use crate::{Error, Result};
use alluvium_device::{DeviceOperation, Error as DeviceError};
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// The kind of access to a tier's device that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailedAccess {
    Reading,
    /// Writing, syncing, or changing the file's length or space. New data then goes to other tiers.
    Writing,
}

impl fmt::Display for FailedAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FailedAccess::Reading => "reading",
            FailedAccess::Writing => "writing",
        })
    }
}

impl FailedAccess {
    fn bit(self) -> u8 {
        match self {
            FailedAccess::Reading => 1,
            FailedAccess::Writing => 2,
        }
    }

    /// Returns the kind of access that failed if the error means that the device has failed.
    /// Returns `None` for a full disk, a shortage of resources in the process, a file that ends too
    /// early, and a simulated crash.
    fn of(error: &DeviceError) -> Option<FailedAccess> {
        match error {
            DeviceError::Io {
                operation:
                    DeviceOperation::Read | DeviceOperation::Map | DeviceOperation::Open | DeviceOperation::List,
                ..
            } => Some(FailedAccess::Reading),
            DeviceError::Io { .. }
            | DeviceError::NotFound { .. }
            | DeviceError::PermissionDenied { .. }
            | DeviceError::ReadOnlyFileSystem { .. }
            | DeviceError::Poisoned { .. } => Some(FailedAccess::Writing),
            _ => None,
        }
    }
}

/// The failures of a tier's device.
#[derive(Debug, Default)]
pub(super) struct TierFailureState {
    /// Bit set of the kinds of access that have failed.
    accesses: AtomicU8,
    /// The error message of the first failure.
    cause: Mutex<Option<String>>,
}

impl TierFailureState {
    fn has(&self, access: FailedAccess) -> bool {
        self.accesses.load(Ordering::Acquire) & access.bit() != 0
    }

    /// Records a failure. Returns whether it is the tier's first.
    fn note(&self, access: FailedAccess, error: &DeviceError) -> bool {
        let mut cause = self.cause.lock();
        cause.get_or_insert_with(|| error.to_string());
        self.accesses.fetch_or(access.bit(), Ordering::AcqRel) == 0
    }

    pub(super) fn forget(&self) {
        let mut cause = self.cause.lock();
        *cause = None;
        self.accesses.store(0, Ordering::Release);
    }
}

impl TierFiles {
    /// Returns the result of a device operation on a tier. If it is an error that means that the
    /// device has failed, marks the tier as failed and converts the error to [`Error::TierFails`]
    /// (T7). The first tier is never marked as failed.
    ///
    /// # Errors
    /// [`Error::TierFails`], or the error of `result`.
    #[inline]
    pub fn record_failure<T, E: Into<Error>>(
        &self,
        tier: u8,
        result: std::result::Result<T, E>,
    ) -> Result<T> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => Err(self.failure_error(tier, error.into())),
        }
    }

    #[cold]
    fn failure_error(&self, tier: u8, error: Error) -> Error {
        let Error::Device(error) = error else {
            return error;
        };
        let (Some(access), Some(failing)) = (FailedAccess::of(&error), self.failing_of(tier)) else {
            return error.into();
        };
        let failure = self.error(tier, access, error.to_string());
        if failing.note(access, &error) {
            tracing::error!(error = %failure, "a tier has failed");
        }
        failure
    }

    /// Returns the failures of a tier, or `None` for the first tier.
    fn failing_of(&self, tier: u8) -> Option<&TierFailureState> {
        self.failing.get(usize::from(tier)).filter(|_| tier > 0)
    }

    fn error(&self, tier: u8, access: FailedAccess, cause: String) -> Error {
        let directory = self.names.get(usize::from(tier));
        Error::TierFails {
            tier,
            directory: directory.map_or_else(String::new, |name| name.to_string()),
            access,
            cause,
        }
    }

    /// Returns the error that made a tier fail, or `None` if it has not failed since it was opened.
    /// A failed tier accepts no new data.
    #[must_use]
    pub fn failure(&self, tier: u8) -> Option<Error> {
        let failing = self.failing_of(tier)?;
        let access = [FailedAccess::Reading, FailedAccess::Writing]
            .into_iter()
            .find(|access| failing.has(*access))?;
        let cause = failing.cause.lock().clone().unwrap_or_default();
        Some(self.error(tier, access, cause))
    }

    /// Returns whether a tier has failed since it was opened.
    #[must_use]
    pub fn fails(&self, tier: u8) -> bool {
        self.failing_of(tier)
            .is_some_and(|failing| failing.accesses.load(Ordering::Acquire) != 0)
    }

    /// Returns whether a read of a tier has failed since it was opened. A compaction that must read
    /// from such a tier would fail too.
    #[must_use]
    pub fn is_unreadable(&self, tier: u8) -> bool {
        self.failing_of(tier)
            .is_some_and(|failing| failing.has(FailedAccess::Reading))
    }

    /// Returns whether a read of any tier has failed.
    #[must_use]
    pub fn has_unreadable(&self) -> bool {
        self.failing
            .iter()
            .any(|failing| failing.has(FailedAccess::Reading))
    }

    /// Returns the error of the lowest-numbered tier with a failed read, or `None` if there is no
    /// such tier.
    #[must_use]
    pub fn unreadable(&self) -> Option<Error> {
        let tier = (1..self.count() as u8).find(|tier| self.is_unreadable(*tier))?;
        self.failure(tier)
    }
}
