//! Tests of the conclusions from samples generated with known parameters.

use super::*;
use crate::fit::parallel::tests::NoiseGenerator;
use alluvium_base::measurements::{Medium, ProbeSample, TransferSlice};

/// A device's true parameters, and the noise of its measurements.
#[derive(Clone, Copy)]
struct Truth {
    setup_ns: f64,
    byte_ps: f64,
    parallelism: f64,
    noise: f64,
}

const SSD: Truth = Truth {
    setup_ns: 65_000.0,
    byte_ps: 500.0,
    parallelism: 5.4,
    noise: 0.03,
};

const DEPTHS: [u32; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64];

fn window(truth: Truth, point: ProbePoint, round: u32, noise: &mut NoiseGenerator) -> ProbeSample {
    let one_ns = truth.setup_ns + truth.byte_ps * point.bytes as f64 / 1e3;
    let requests = 64_u32;
    // With one request in flight, the typical time is the mean of 64 requests, so its noise is an
    // eighth of a single request's. With more in flight, it has the noise of a single request.
    let depth = f64::from(point.depth);
    let together = depth.min(truth.parallelism);
    let typical_ns = match point.depth {
        1 => one_ns * noise.around_one(truth.noise / 8.0),
        _ => one_ns * depth / together * noise.around_one(truth.noise),
    };
    let elapsed_ns = typical_ns * f64::from(requests) / depth;
    ProbeSample {
        point,
        round,
        requests: u64::from(requests),
        elapsed_ns: elapsed_ns as u64,
        cpu_ns: match point.issue {
            IssueMode::Steady => 64 * 4_000,
            IssueMode::Batch if point.depth == 1 => 64 * (5_000 + u64::from(round)),
            IssueMode::Batch => 64 * (1_500 + u64::from(round)),
        },
        typical_ns: typical_ns as u64,
    }
}

fn samples(truth: Truth, seed: u64) -> DeviceMeasurements {
    let mut noise = NoiseGenerator(seed);
    let mut points: Vec<ProbePoint> = (0..11)
        .flat_map(|power| {
            [
                ProbePoint::reads(4096 << power),
                ProbePoint::writes(4096 << power),
            ]
        })
        .collect();
    for depth in DEPTHS.into_iter().skip(1) {
        points.push(ProbePoint::reads(costs::STEP).at_depth(depth));
        points.push(ProbePoint::writes(costs::STEP).at_depth(depth));
    }
    points.push(ProbePoint::reads(4096).in_order(OffsetOrder::Near));
    points.push(ProbePoint::reads(4096).in_batches(1));
    points.push(ProbePoint::reads(4096).in_batches(32));
    points.push(ProbePoint::reads(1 << 20).in_order(OffsetOrder::Sequential));
    let windows = (0..4).flat_map(|round| points.iter().map(move |&point| (round, point)));
    let slice = TransferSlice {
        bytes: 1 << 20,
        elapsed_ns: 500_000,
    };
    DeviceMeasurements {
        began_s: 0,
        medium: Medium::Device,
        file_system: "ext4".to_owned(),
        span_bytes: 1 << 30,
        elapsed_ns: 20_000_000_000,
        samples: windows
            .map(|(round, point)| window(truth, point, round, &mut noise))
            .collect(),
        syncs_ns: (0..100).map(|at| 100_000 + at).collect(),
        filled: vec![slice; 16],
        sustained: vec![slice; 16],
        notes: Vec::new(),
    }
}

#[test]
fn a_device_is_found_again_behind_noise_of_three_percent() {
    for seed in 0..8 {
        let found = ProbeConclusions::of(&samples(SSD, seed));
        let fit = found.reads.affine.as_ref().unwrap().fit;
        assert!((fit.setup_s * 1e9 / SSD.setup_ns - 1.0).abs() < 0.01, "{fit:?}");
        assert!(
            (fit.per_byte_s * 1e12 / SSD.byte_ps - 1.0).abs() < 0.01,
            "{fit:?}"
        );
        let DeviceParallelism::Knee(knee) = found.reads.parallelism else {
            panic!("{:?}", found.reads.parallelism)
        };
        assert!((knee - SSD.parallelism).abs() < 0.2, "{seed}: {knee}");
        let (low, high) = found.reads.parallelism_interval().unwrap();
        assert!(low <= knee && knee <= high && high - low < 1.0, "{low} to {high}");
        assert_eq!(found.warnings, []);
        let profile = found.reliable_profile().unwrap();
        assert_eq!(profile.io_cpu_ns, 5_002);
        let gain = found.reads.gain.unwrap();
        assert!((gain.times / SSD.parallelism - 1.0).abs() < 0.1, "{gain:?}");
        assert!(gain.worst_time < 0.14, "{gain:?}");
        assert_eq!(profile.parallelism, gain.slots());
        assert!(
            (128_000..132_000).contains(&profile.half_bandwidth()),
            "{profile:?}"
        );
        assert_eq!(found.processor.batched_ns, Some(1_502));
        assert_eq!(found.sync.unwrap().median_ns, 100_049);
    }
}

#[test]
fn advice_follows_the_costs() {
    let advice = |truth| ProbeConclusions::of(&samples(truth, 1)).advice.unwrap();
    let ssd = advice(SSD);
    // Nine times the half-bandwidth is 1.1 MiB.
    assert_eq!((ssd.page_bytes, ssd.read_ahead_bytes), (4 << 10, 2 << 20));
    assert!((5..=6).contains(&ssd.depth), "{ssd:?}");
    let disk = advice(Truth {
        setup_ns: 16e6,
        byte_ps: 6_347.0,
        parallelism: 1.0,
        noise: 0.01,
    });
    assert_eq!(
        (disk.page_bytes, disk.read_ahead_bytes, disk.depth),
        (16 << 10, 16 << 20, 1)
    );
    // According to the paper's table, the optimal node for the WD Red with records of 100 bytes is
    // 343 KiB.
    let node = disk.b_tree_node_bytes.unwrap() >> 10;
    assert!((320..420).contains(&node), "{node} KiB");
    assert!(disk.buffered_node_bytes > disk.b_tree_node_bytes);
}

#[test]
fn one_arm_is_no_parallelism_and_no_warning() {
    let disk = Truth {
        parallelism: 1.0,
        ..SSD
    };
    let found = ProbeConclusions::of(&samples(disk, 3));
    assert_eq!(found.reads.parallelism, DeviceParallelism::One);
    assert_eq!(found.profile.unwrap().parallelism, 1);
    assert_eq!(found.warnings, []);
}

#[test]
fn a_throughput_that_grows_to_the_end_has_no_knee() {
    let wide = Truth {
        parallelism: 200.0,
        ..SSD
    };
    let found = ProbeConclusions::of(&samples(wide, 3));
    assert_eq!(found.reads.parallelism, DeviceParallelism::Beyond(64));
    assert_eq!(found.reads.parallelism_interval(), None);
}

#[test]
fn a_soft_knee_is_poorly_fitted_and_the_gain_is_told_all_the_same() {
    // The throughput in MiB/s of 64 KiB reads from a virtual disk.
    let seen = [
        1160.0, 1570.0, 1600.0, 1780.0, 1850.0, 1900.0, 1950.0, 2100.0, 2300.0, 2380.0, 2400.0,
    ];
    let mut measured = samples(SSD, 3);
    for window in &mut measured.samples {
        let at = DEPTHS.iter().position(|depth| *depth == window.point.depth);
        if let (costs::STEP, IssueMode::Steady, Some(at)) = (window.point.bytes, window.point.issue, at) {
            let bytes = f64::from(window.point.depth) * costs::STEP as f64;
            window.typical_ns = (bytes / (seen[at] * MIB as f64) * 1e9) as u64;
        }
    }
    let gain = ProbeConclusions::of(&measured).reads.gain.unwrap();
    assert!(
        (gain.times - 2400.0 / 1160.0).abs() < 0.01 && gain.worst_time < 0.35,
        "{gain:?}"
    );
    assert_eq!(gain.slots(), 2);
}

fn warned(change: impl Fn(&mut DeviceMeasurements)) -> Vec<ProbeWarning> {
    let mut measured = samples(SSD, 5);
    change(&mut measured);
    let found = ProbeConclusions::of(&measured);
    for warning in &found.warnings {
        let text = warning.to_string();
        assert!(text.len() > 40 && !text.contains("NaN"), "{text}");
    }
    found.warnings
}

#[test]
fn what_answers_in_place_of_the_device_is_told() {
    for (medium, is_fatal) in [
        (Medium::Memory, true),
        (Medium::PageCache, true),
        (Medium::Network, false),
    ] {
        let warnings = warned(|measured| measured.medium = medium);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(warnings[0].is_fatal(), is_fatal);
    }
    let near = |factor: f64| {
        move |measured: &mut DeviceMeasurements| {
            for window in &mut measured.samples {
                if window.point.order == OffsetOrder::Near {
                    window.typical_ns = (window.typical_ns as f64 * factor) as u64;
                }
            }
        }
    };
    assert!(matches!(
        warned(near(0.4))[..],
        [ProbeWarning::CachedReads { .. }]
    ));
    assert_eq!(warned(near(0.9)), []);
    let quick = warned(|measured| {
        for window in &mut measured.samples {
            window.typical_ns /= 30;
            window.elapsed_ns /= 30;
        }
    });
    assert!(matches!(quick[0], ProbeWarning::Implausible { .. }), "{quick:?}");
    let slow_syncs = warned(|measured| measured.syncs_ns = vec![2_000_000; 9]);
    assert!(
        matches!(slow_syncs[..], [ProbeWarning::CachedWrites { .. }]),
        "{slow_syncs:?}"
    );
    let short = warned(|measured| measured.span_bytes = 64 << 20);
    assert!(matches!(short[..], [ProbeWarning::ShortFile { .. }]));
}

#[test]
fn a_rate_that_falls_is_told() {
    let halved = |slices: &mut Vec<TransferSlice>| {
        for slice in &mut slices[8..] {
            slice.elapsed_ns *= 2;
        }
    };
    let filled = warned(|measured| halved(&mut measured.filled));
    let read = warned(|measured| halved(&mut measured.sustained));
    for warnings in [filled, read] {
        assert!(
            matches!(warnings[..], [ProbeWarning::Throttled { share, .. }] if (share - 0.5).abs() < 0.01),
            "{warnings:?}"
        );
    }
    let rounds = warned(|measured| {
        for window in &mut measured.samples {
            if window.point.kind == AccessKind::Read {
                window.elapsed_ns = window.elapsed_ns * (10 + 2 * u64::from(window.round)) / 10;
                // A rate limit lets requests through in turns and does not slow down each of them,
                // so the typical time of a request is unchanged.
            }
        }
    });
    assert!(
        rounds.iter().any(|warning| matches!(
            warning,
            ProbeWarning::Throttled {
                what: "the rate of random reads",
                ..
            }
        )),
        "{rounds:?}"
    );
}

#[test]
fn pauses_are_told_and_change_no_fit() {
    let mut measured = samples(SSD, 5);
    let before = ProbeConclusions::of(&measured);
    for window in &mut measured.samples {
        window.elapsed_ns *= 2;
    }
    let after = ProbeConclusions::of(&measured);
    assert!(
        matches!(after.warnings[..], [ProbeWarning::Paused { share }] if (share - 0.5).abs() < 0.01),
        "{:?}",
        after.warnings
    );
    assert_eq!((after.reads, after.profile), (before.reads, before.profile));
}

#[test]
fn noise_that_makes_fits_worthless_is_told() {
    let noisy = Truth { noise: 3.0, ..SSD };
    let mut measured = samples(SSD, 5);
    let mut noise = NoiseGenerator(8);
    for window in &mut measured.samples {
        let factor = noise.around_one(noisy.noise / 8.0).abs() + 0.05;
        window.typical_ns = (window.typical_ns as f64 * factor * factor) as u64;
        window.elapsed_ns = (window.elapsed_ns as f64 * factor * factor) as u64;
    }
    let warnings = ProbeConclusions::of(&measured).warnings;
    let has = |is: fn(&ProbeWarning) -> bool| warnings.iter().any(is);
    assert!(
        has(|warning| matches!(warning, ProbeWarning::Noisy { .. })),
        "{warnings:?}"
    );
    assert!(
        has(|warning| matches!(warning, ProbeWarning::PoorFit { .. })),
        "{warnings:?}"
    );
}

#[test]
fn nothing_measured_is_no_conclusion() {
    let found = ProbeConclusions::of(&DeviceMeasurements {
        samples: Vec::new(),
        syncs_ns: Vec::new(),
        filled: Vec::new(),
        sustained: Vec::new(),
        ..samples(SSD, 1)
    });
    assert_eq!((found.sync, found.advice, found.profile), (None, None, None));
    assert_eq!(found.reads.parallelism, DeviceParallelism::Unknown);
    let refused = found.reliable_profile().unwrap_err();
    assert!(refused.contains("measure more"), "{refused}");
}

#[test]
fn stored_samples_give_the_same_conclusions() {
    let measured = samples(SSD, 11);
    let stored = format::decode(&format::encode(&measured)).unwrap();
    assert_eq!(stored, measured);
    assert_eq!(
        ProbeConclusions::of(&stored),
        ProbeConclusions::of(&measured),
        "D1"
    );
}
