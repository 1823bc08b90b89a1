//! When leaves are taken over unread: pure functions of how many there are and of the keys around
//! them.

use alluvium_base::DeviceProfile;
use alluvium_model::stitch_break_even;

/// Says whether two keys are of one unit that scans read together.
pub type SameScan = fn(&[u8], &[u8]) -> bool;

/// Which leaves a merge takes over unread, by copying their index entries (Spillane 2012, chapter
/// 6).
#[derive(Clone, Copy, Debug)]
pub struct Stitching {
    /// f: no more leaves in a row than this are copied instead. [`u32::MAX`] copies everything.
    pub threshold: u32,
    /// Leaves are copied where an end of theirs would part keys of one unit.
    pub same_scan: Option<SameScan>,
    /// More leaves in a row than this are taken over whatever they part.
    pub always: u32,
}

impl Default for Stitching {
    /// Everything is copied.
    fn default() -> Stitching {
        Stitching {
            threshold: u32::MAX,
            same_scan: None,
            always: u32::MAX,
        }
    }
}

impl PartialEq for Stitching {
    fn eq(&self, other: &Stitching) -> bool {
        let address = |same: Option<SameScan>| same.map(|same| same as usize);
        (self.threshold, self.always) == (other.threshold, other.always)
            && address(self.same_scan) == address(other.same_scan)
    }
}

impl Eq for Stitching {}

/// Leaves in a row that could be taken over.
#[derive(Clone, Copy, Debug)]
pub struct StitchView<'k> {
    /// How many.
    pub leaves: u64,
    /// The last key of the result so far.
    pub before: Option<&'k [u8]>,
    /// At or below their first key.
    pub first: &'k [u8],
    /// Above their last key.
    pub end: Option<&'k [u8]>,
    /// The next key of any other run.
    pub next: Option<&'k [u8]>,
}

impl Stitching {
    /// Returns whether any leaf may be taken over.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.threshold < u32::MAX
    }

    /// Returns whether leaves are taken over, instead of being copied.
    #[must_use]
    pub fn chooses(&self, view: &StitchView<'_>) -> bool {
        if view.leaves <= u64::from(self.threshold) || !self.is_on() {
            return false;
        }
        if view.leaves > u64::from(self.always) {
            return true;
        }
        let are_one = |one: Option<&[u8]>, other: Option<&[u8]>| match (self.same_scan, one, other) {
            (Some(same), Some(one), Some(other)) => same(one, other),
            _ => false,
        };
        !are_one(view.before, Some(view.first)) && !are_one(view.end, view.next)
    }
}

/// Returns the number of leaves of `leaf_bytes` beyond which a merge takes a row of them over, if a
/// key is merged about `rewrites` times more. It follows from the affine model, with as many I/Os
/// under way as readers keep ([`stitch_break_even`]).
#[must_use]
pub(crate) fn threshold(device: &DeviceProfile, leaf_bytes: u64, rewrites: u64) -> u32 {
    let bytes = stitch_break_even(device.half_bandwidth(), device.slots() as u64, rewrites);
    let leaves = bytes / leaf_bytes.max(1);
    u32::try_from(leaves).unwrap_or(u32::MAX - 1).min(u32::MAX - 1)
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_over_is_worth_a_seek_of_the_device() {
        let ssd = DeviceProfile::SSD;
        assert_eq!(threshold(&ssd, 4096, 1), 8, "32 KiB: four I/Os share a setup");
        assert_eq!(threshold(&ssd, 4096, 2), 2);
        let disk = DeviceProfile {
            setup_ns: 8_000_000,
            byte_ps: 10_000,
            parallelism: 1,
            ..ssd
        };
        assert_eq!(threshold(&disk, 4096, 1), 195);
        assert!(threshold(&disk, 0, 1) < u32::MAX, "it is never off");
    }
}
