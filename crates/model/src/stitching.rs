//! When leaves that a merge could leave where they are should be copied all the same.

/// Returns from how many bytes on a merge had better take a stretch of leaves over than copy it: on
/// a device that moves `half_bandwidth` bytes while an I/O begins, with `slots` I/Os at once, where
/// a copy is made `rewrites` times.
///
/// A copy of `A` bytes reads and writes them each time: `2 A` times the rewrites. A stretch that
/// stays costs a scan one more setup, and its own transfer: copying loses from
/// `A = b / (2 rewrites - 1)` on (Spillane 2012, §6.1). Scans read ahead, so that the setups of
/// several stretches pass at the same time.
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

    /// What a stretch costs that is copied, and one that stays, in bytes of transfer.
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
