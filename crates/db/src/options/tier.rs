//! Options of a further tier of a store.

use crate::error::{Error, Result};
use alluvium_base::MIB;

/// Size limit of a tier: see [`Options::tier`](crate::Options::tier).
///
/// ```
/// use alluvium::TierOptions;
/// let large = TierOptions::new().max_bytes(4 << 40);
/// assert_ne!(large, TierOptions::new());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierOptions {
    pub(crate) max_bytes: Option<u64>,
}

/// Minimum limit of a tier, in bytes: a few extents and a reserve.
const LEAST_BYTES: u64 = 16 * MIB;

impl TierOptions {
    /// Returns the defaults. The limit is the one set at an earlier opening, or else the size of
    /// the file system.
    #[must_use]
    pub fn new() -> TierOptions {
        TierOptions::default()
    }

    /// Sets the maximum size of the tier on its file system in bytes; at least 16 MiB.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> TierOptions {
        self.max_bytes = Some(bytes);
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self.max_bytes {
            Some(bytes) if bytes < LEAST_BYTES => Err(Error::BadOption {
                option: "tier",
                why: format!("{bytes} bytes is below the minimum size of a tier, {LEAST_BYTES} bytes"),
            }),
            _ => Ok(()),
        }
    }
}
