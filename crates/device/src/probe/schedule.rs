//! The points to measure, and their order.

use alluvium_base::cost::AccessKind;
use alluvium_base::measurements::{IssueMode, OffsetOrder, ProbePoint, ProbeSample};
use alluvium_base::{KIB, MIB};

/// Request sizes in bytes for the affine model: powers of two from a flash page to the longest
/// nodes.
pub const SIZES: [u64; 11] = [
    4 * KIB,
    8 * KIB,
    16 * KIB,
    32 * KIB,
    64 * KIB,
    128 * KIB,
    256 * KIB,
    512 * KIB,
    MIB,
    2 * MIB,
    4 * MIB,
];

/// Queue depths for the PDAM, as in the paper.
pub const DEPTHS: [u32; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64];

/// Request size in bytes for the PDAM, as in the paper.
pub const STEP: u64 = 64 * KIB;

/// Smallest request size in bytes.
pub const SMALL: u64 = 4 * KIB;

/// Number of requests in a batch.
pub const BATCH: u32 = 32;

/// Sizes of sequential requests in bytes.
const IN_ORDER: [u64; 4] = [4 * KIB, 64 * KIB, MIB, 4 * MIB];

/// Maximum duration of a deep point's window, as a multiple of the window time. On slow devices,
/// deeper points are skipped.
const TIMES: u64 = 4;

/// Number of depths measured on every device, which is more than a fit needs.
const SHALLOW: u32 = 6;

/// Returns all points, most important first.
pub(super) fn points() -> Vec<ProbePoint> {
    let mut points: Vec<ProbePoint> = SIZES.map(ProbePoint::reads).into();
    points.extend(DEPTHS.map(|depth| ProbePoint::reads(STEP).at_depth(depth)));
    points.push(ProbePoint::reads(SMALL).in_order(OffsetOrder::Near));
    points.extend([1, BATCH].map(|depth| ProbePoint::reads(SMALL).in_batches(depth)));
    points.extend(DEPTHS.map(|depth| ProbePoint::reads(SMALL).at_depth(depth)));
    points.extend(SIZES.map(ProbePoint::writes));
    points.extend(DEPTHS.map(|depth| ProbePoint::writes(STEP).at_depth(depth)));
    points.extend([1, BATCH].map(|depth| ProbePoint::writes(SMALL).in_batches(depth)));
    for point in [ProbePoint::reads, ProbePoint::writes] {
        points.extend(IN_ORDER.map(|bytes| point(bytes).in_order(OffsetOrder::Sequential)));
    }
    let mut different = Vec::with_capacity(points.len());
    for point in points {
        // Depth 1 of the PDAM equals a point of the affine model.
        if !different.contains(&point) {
            different.push(point);
        }
    }
    different
}

/// Returns whether a device cannot be characterised without this point.
pub(super) fn is_essential(point: ProbePoint) -> bool {
    point.kind == AccessKind::Read
        && point.order == OffsetOrder::Random
        && point.issue == IssueMode::Steady
        && (point.depth == 1 || point.bytes == STEP && point.depth <= SHALLOW)
}

/// Returns whether a window of this depth would far exceed its time, judging by the window of the
/// next smaller depth: a window starts only when its first requests have completed, and it waits
/// for the last ones.
pub(super) fn is_too_deep(point: ProbePoint, before: &[ProbeSample], window_ns: u64) -> bool {
    if point.depth <= SHALLOW || point.issue == IssueMode::Batch {
        return false;
    }
    let shallower = before.iter().rev().find(|window| {
        let at = window.point.at_depth(point.depth);
        at == point && window.point.depth < point.depth
    });
    let Some(shallower) = shallower else {
        // The next smaller depth was already too deep.
        return true;
    };
    let each_ns = shallower.elapsed_ns / shallower.requests.max(1);
    let depth = u64::from(point.depth);
    2 * depth * each_ns > TIMES * window_ns.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(point: ProbePoint, each_ns: u64) -> ProbeSample {
        ProbeSample {
            point,
            round: 0,
            requests: 10,
            elapsed_ns: 10 * each_ns,
            cpu_ns: 0,
            typical_ns: each_ns,
        }
    }

    #[test]
    fn points_are_different_and_the_essential_ones_come_first() {
        let points = points();
        for (at, point) in points.iter().enumerate() {
            assert!(!points[..at].contains(point), "{point:?}");
        }
        let essential = points.iter().take_while(|point| is_essential(**point)).count();
        let all = points.iter().filter(|point| is_essential(**point)).count();
        assert_eq!((essential, all), (SIZES.len() + SHALLOW as usize - 1, all));
        for depth in DEPTHS {
            assert!(points.contains(&ProbePoint::reads(STEP).at_depth(depth)));
        }
    }

    #[test]
    fn a_device_that_serves_one_request_after_the_other_gets_no_great_depths() {
        let slow = [window(ProbePoint::reads(STEP).at_depth(8), 15_000_000)];
        let deep = ProbePoint::reads(STEP).at_depth(16);
        assert!(is_too_deep(deep, &slow, 100_000_000));
        let quick = [window(ProbePoint::reads(STEP).at_depth(8), 50_000)];
        assert!(!is_too_deep(deep, &quick, 100_000_000));
        assert!(!is_too_deep(ProbePoint::reads(STEP).at_depth(4), &slow, 1));
        assert!(is_too_deep(deep, &[], 100_000_000), "8 was too deep");
        let others = [window(ProbePoint::writes(STEP).at_depth(8), 50_000)];
        assert!(is_too_deep(deep, &others, 100_000_000));
    }
}
