//! Options of a tier after the first.

use crate::error::{Error, Result};
use alluvium_base::MIB;

/// The size limit of a tier after the first: see [`Options::tier`](crate::Options::tier).
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

/// Smallest permitted size limit of a tier, in bytes, which is enough for a few extents and a
/// reserve.
const LEAST_BYTES: u64 = 16 * MIB;

impl TierOptions {
    /// Returns the default options. The size limit defaults to that with which the store was last
    /// opened, or else to the size of the file system.
    #[must_use]
    pub fn new() -> TierOptions {
        TierOptions::default()
    }

    /// Sets the maximum size in bytes of the tier on its file system. At least 16 MiB.
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
