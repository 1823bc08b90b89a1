//! C5: node sizes of a Bε-tree on a disk, and the benefit of each step of the optimisation ladder.

use super::c4_b_tree::SLOW_RECORDS;
use super::sweep::{
    DISKS, FanoutRule, FittedCurve, NodeSizeCosts, OPERATIONS, SweepDevice, SweepTree, best, beyond, by_disk,
    curve, insert_us, largest, line, query_us,
};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigurePoint, FigureSeries, MeasurementSet, name};
use alluvium_model::presets::{HITACHI_1TB_2009, HardDisk};
use anyhow::{Result, ensure};
use research_trees::affine::AffineVariant;

const INSERT: &str = "inserts";
const QUERY: &str = "queries";
const BEST: &str = "best";
const LARGE: &str = "large";
const ALPHA: &str = "alpha";
const RMS: &str = "rms";

const DISK: &HardDisk = &HITACHI_1TB_2009;

const fn with_16(name: &'static str, variant: AffineVariant) -> SweepTree {
    SweepTree {
        name,
        variant,
        fanout: FanoutRule::Fixed(16),
        leaf_block_kib: None,
        least_kib: 64,
        most_kib: 32 << 10,
    }
}

/// The ladder with TokuDB's fanout; its last step with √B children; and its last step with leaves
/// read in blocks of a fixed size for every node size, like TokuDB's basement nodes.
pub(super) const SUBJECTS: [SweepTree; 6] = [
    with_16("V0, F = 16", AffineVariant::Naive),
    with_16("V1, F = 16", AffineVariant::Segmented),
    with_16("V2, F = 16", AffineVariant::ParentPivots),
    with_16("V3, F = 16", AffineVariant::WeightBalanced),
    SweepTree {
        fanout: FanoutRule::Root,
        ..with_16("V3, F = √B", AffineVariant::WeightBalanced)
    },
    SweepTree {
        leaf_block_kib: Some(64),
        ..with_16("V3, F = 16, leaf blocks of 64 KiB", AffineVariant::WeightBalanced)
    },
];

pub(super) const PROCEDURE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-4/C5",
    ours: &[
        ("time of an insert", |measured| {
            measured.series_with_prefix(INSERT)
        }),
        ("time of a query", |measured| measured.series_with_prefix(QUERY)),
        ("best nodes", |measured| measured.series_with_prefix(BEST)),
        ("best nodes on each disk", |measured| {
            measured.series_with_prefix(DISKS)
        }),
        ("nodes up to four times as large", |measured| {
            measured.series_with_prefix(LARGE)
        }),
        ("α of the curves of Table 3", |measured| {
            measured.series_with_prefix(ALPHA)
        }),
        ("error of the curves", |measured| measured.series_with_prefix(RMS)),
    ],
    work: ExperimentMethod::Here {
        quick: 1 << 18,
        full: 1 << 22,
        most: 1 << 28,
        measure,
    },
};

/// Curves of Table 3, up to constants and the logarithm of N/M: inserts with a fixed fanout and
/// with √B children, and queries that read whole nodes. The curve for segments is 1 + αB/F.
fn curves(subject: &SweepTree, points: &[NodeSizeCosts]) -> [(&'static str, Option<FittedCurve>); 2] {
    let insert = match subject.fanout {
        FanoutRule::Fixed(_) => curve(points, insert_us, f64::recip),
        FanoutRule::Root => curve(points, insert_us, |elements| {
            (elements.sqrt() * elements.ln()).recip()
        }),
    };
    let mut query = curve(points, query_us, |elements| elements.ln().recip());
    if let (FanoutRule::Fixed(fanout), false) = (subject.fanout, subject.variant == AffineVariant::Naive) {
        query = curve(points, query_us, |_| 1.0).map(|found| FittedCurve {
            alpha: found.alpha * f64::from(fanout),
            ..found
        });
    }
    [(INSERT, insert), (QUERY, query)]
}

fn measure(records: u64) -> Result<MeasurementSet> {
    ensure!(records >= 100, "--records {records}: a tree has 100 at least");
    let mut counts = Vec::new();
    for subject in &SUBJECTS {
        sweep(
            &mut counts,
            subject,
            "affine disk",
            SweepDevice::Clock(DISK),
            records,
        )?;
    }
    // In real time, only the first and the last step of the ladder are measured.
    for subject in [&SUBJECTS[0], &SUBJECTS[3]] {
        sweep(&mut counts, subject, "this device", SweepDevice::Here, records)?;
        if records >= SLOW_RECORDS {
            sweep(
                &mut counts,
                subject,
                "slowed device",
                SweepDevice::Throttled(DISK),
                records,
            )?;
        }
    }
    counts.retain(|line| !line.points.is_empty());
    Ok(MeasurementSet {
        counts,
        ..MeasurementSet::default()
    })
}

fn sweep(
    counts: &mut Vec<FigureSeries>,
    subject: &SweepTree,
    at: &str,
    place: SweepDevice<'_>,
    records: u64,
) -> Result<()> {
    let who = format!("{}, {at}", subject.name);
    let points = subject.sweep(place, records)?;
    if matches!(place, SweepDevice::Clock(_)) {
        counts.extend(by_disk(subject.name, &points));
    }
    counts.push(line(INSERT, &who, &points, insert_us));
    counts.push(line(QUERY, &who, &points, query_us));
    let of = |what: &str, spots: Vec<(&'static str, f64)>| FigureSeries {
        name: format!("{what}, {who}"),
        points: spots
            .into_iter()
            .map(|(place, value)| FigurePoint {
                at: name(place),
                value,
            })
            .collect(),
    };
    let bests = [
        (INSERT, best(&points, insert_us)),
        (QUERY, best(&points, query_us)),
    ];
    counts.push(of(BEST, bests.to_vec()));
    let large = OPERATIONS.into_iter().filter_map(|(what, figure)| {
        let times = beyond(&points, largest(&points, 4.0 * best(&points, figure)), figure)?;
        Some((what, times))
    });
    counts.push(of(LARGE, large.collect()));
    let curves = curves(subject, &points);
    let found = |of: fn(FittedCurve) -> f64| {
        let all = curves
            .iter()
            .filter_map(|(what, curve)| Some((*what, of((*curve)?))));
        all.collect::<Vec<_>>()
    };
    counts.push(of(ALPHA, found(|curve| curve.alpha)));
    counts.push(of(RMS, found(|curve| curve.rms)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::value_at;

    #[test]
    fn segments_make_queries_cheaper_and_inserts_cost_a_share_of_a_read() {
        let measured = measure(2000).unwrap();
        let (inserts, queries) = (
            measured.series_with_prefix(INSERT),
            measured.series_with_prefix(QUERY),
        );
        assert_eq!((inserts.len(), queries.len()), (8, 8));
        let [naive, segmented, parent, balanced] =
            [0, 1, 2, 3].map(|at: usize| value_at(&queries[at], 256.0).unwrap());
        assert!(
            naive > parent && segmented > parent,
            "{naive} {segmented} {parent}"
        );
        assert!(balanced <= 1.2 * parent, "{balanced} {parent}");
        assert!(measure(1).is_err());
    }

    #[test]
    fn nodes_beyond_the_best_cost_inserts_little() {
        // A disk with 16 times the cost per byte. Optimal nodes are therefore 16 times smaller than
        // the 1 to 8 MiB of the original disk.
        let disk = HardDisk {
            transfer_ns: 16 * DISK.transfer_ns,
            ..*DISK
        };
        let points = SUBJECTS[4].sweep(SweepDevice::Clock(&disk), 60_000).unwrap();
        let least = best(&points, insert_us);
        assert!((64.0..=512.0).contains(&least), "{points:?}");
        let last = points.last().map_or(0.0, |point| f64::from(point.kib));
        assert!(least < last, "{points:?}");
        let times = beyond(&points, 2.0 * least, insert_us).unwrap();
        assert!(times < 1.5, "{times} {points:?}");
        let spread = |of: super::super::sweep::FigureSelector| {
            let most = points.iter().map(of).fold(0.0, f64::max);
            most / points.iter().map(of).fold(f64::INFINITY, f64::min)
        };
        assert!(spread(query_us) < 2.0, "{points:?}");
    }
}
