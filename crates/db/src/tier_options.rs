//! What a further directory of a store may take.

use crate::{Error, Result};
use alluvium_base::MIB;

/// What a tier may take: see [`Options::tier`](crate::Options::tier).
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

/// The least limit of a tier, in bytes: a few extents and a reserve.
const LEAST_BYTES: u64 = 16 * MIB;

impl TierOptions {
    /// Returns the defaults: the tier may take all that its file system has, or what was set when
    /// the store was opened before.
    #[must_use]
    pub fn new() -> TierOptions {
        TierOptions::default()
    }

    /// Sets how many bytes the tier may take on its file system; at least 16 MiB.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> TierOptions {
        self.max_bytes = Some(bytes);
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self.max_bytes {
            Some(bytes) if bytes < LEAST_BYTES => Err(Error::BadOption {
                option: "tier",
                why: format!("{bytes} bytes are less than {LEAST_BYTES}, the least that a tier works with"),
            }),
            _ => Ok(()),
        }
    }
}
