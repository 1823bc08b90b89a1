//! The break-even of stitching: when a merge should copy leaves that it could reuse in place.

/// Returns the minimum length in bytes of a sequence of leaves that a merge should reuse rather
/// than copy. The device transfers `half_bandwidth` bytes in the setup time of an I/O and serves
/// `slots` I/Os concurrently. A copy would be rewritten `rewrites` times.
///
/// Each rewrite reads and writes a copy of `A` bytes, so the copy costs `2 A` per rewrite. A reused
/// sequence costs each scan an additional setup and its own transfer. Copying is therefore more
/// expensive if `A` is at least `b / (2 rewrites - 1)`, where `b` is the half-bandwidth (Spillane
/// 2012, §6.1). Scans read ahead, so the setups of several sequences overlap.
///
/// ```
/// use alluvium_model::stitch_break_even;
/// // The example of the paper: 8 ms, 100 MB/s, five levels to go.
/// let half_bandwidth = 819_200;
/// assert_eq!(stitch_break_even(half_bandwidth, 1, 5) / 1000, 91);
/// ```
#[must_use]
pub fn stitch_break_even(half_bandwidth: u64, slots: u64, rewrites: u64) -> u64 {
    let copies = rewrites.max(1).saturating_mul(2) - 1;
    half_bandwidth / slots.max(1) / copies
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_base::DeviceProfile;

    /// Returns the costs of copying and of reusing a sequence, as the bytes that the device could
    /// transfer in the same time.
    fn costs(bytes: u64, profile: &DeviceProfile, rewrites: u64) -> (u64, u64) {
        let setup = profile.half_bandwidth() / profile.slots() as u64;
        (2 * rewrites * bytes, setup + bytes)
    }

    #[test]
    fn at_the_break_even_both_cost_the_same() {
        for rewrites in 1..6 {
            let profile = DeviceProfile::SSD;
            let bytes = stitch_break_even(profile.half_bandwidth(), profile.slots() as u64, rewrites);
            let (copied, stays) = costs(bytes, &profile, rewrites);
            assert!(copied.abs_diff(stays) <= 2 * rewrites, "{copied} and {stays}");
            let (copied, stays) = costs(2 * bytes, &profile, rewrites);
            assert!(copied > stays, "longer ones stay");
        }
    }

    #[test]
    fn no_argument_divides_by_nothing() {
        assert_eq!(stitch_break_even(1000, 0, 0), 1000);
        assert_eq!(stitch_break_even(u64::MAX, 1, u64::MAX), 1);
    }
}
