//! C5: node sizes of a Bε-tree on a disk, and the benefit of each step of the optimisation ladder.

use super::c4_b_tree::SLOW_RECORDS;
use super::sweep::{
    Curve, DISKS, Fanout, OPERATIONS, Place, Point, Subject, best, beyond, by_disk, curve, insert_us,
    largest, line, query_us,
};
use crate::entry::{Procedure, Work};
use crate::measured::{Line, Measured, Spot, name};
use alluvium_model::presets::{HITACHI_1TB_2009, HardDisk};
use anyhow::{Result, ensure};
use research_trees::affine::Variant;

const INSERT: &str = "inserts";
const QUERY: &str = "queries";
const BEST: &str = "best";
const LARGE: &str = "large";
const ALPHA: &str = "alpha";
const RMS: &str = "rms";

const DISK: &HardDisk = &HITACHI_1TB_2009;

const fn with_16(name: &'static str, variant: Variant) -> Subject {
    Subject {
        name,
        variant,
        fanout: Fanout::Fixed(16),
        leaf_block_kib: None,
        least_kib: 64,
        most_kib: 32 << 10,
    }
}

/// The ladder with TokuDB's fanout; its last step with √B children; and its last step with leaves
/// read in blocks of a fixed size for every node size, like TokuDB's basement nodes.
pub(super) const SUBJECTS: [Subject; 6] = [
    with_16("V0, F = 16", Variant::Naive),
    with_16("V1, F = 16", Variant::Segmented),
    with_16("V2, F = 16", Variant::ParentPivots),
    with_16("V3, F = 16", Variant::WeightBalanced),
    Subject {
        fanout: Fanout::Root,
        ..with_16("V3, F = √B", Variant::WeightBalanced)
    },
    Subject {
        leaf_block_kib: Some(64),
        ..with_16("V3, F = 16, leaf blocks of 64 KiB", Variant::WeightBalanced)
    },
];

pub(super) const PROCEDURE: Procedure = Procedure {
    id: "seed-4/C5",
    ours: &[
        ("time of an insert", |measured| measured.under(INSERT)),
        ("time of a query", |measured| measured.under(QUERY)),
        ("best nodes", |measured| measured.under(BEST)),
        ("best nodes on each disk", |measured| measured.under(DISKS)),
        ("nodes up to four times as large", |measured| {
            measured.under(LARGE)
        }),
        ("α of the curves of Table 3", |measured| measured.under(ALPHA)),
        ("error of the curves", |measured| measured.under(RMS)),
    ],
    work: Work::Here {
        quick: 1 << 18,
        full: 1 << 22,
        most: 1 << 28,
        measure,
    },
};

/// Curves of Table 3, up to constants and the logarithm of N/M: inserts with a fixed fanout and
/// with √B children, and queries that read whole nodes. The curve for segments is 1 + αB/F.
fn curves(subject: &Subject, points: &[Point]) -> [(&'static str, Option<Curve>); 2] {
    let insert = match subject.fanout {
        Fanout::Fixed(_) => curve(points, insert_us, f64::recip),
        Fanout::Root => curve(points, insert_us, |elements| {
            (elements.sqrt() * elements.ln()).recip()
        }),
    };
    let mut query = curve(points, query_us, |elements| elements.ln().recip());
    if let (Fanout::Fixed(fanout), false) = (subject.fanout, subject.variant == Variant::Naive) {
        query = curve(points, query_us, |_| 1.0).map(|found| Curve {
            alpha: found.alpha * f64::from(fanout),
            ..found
        });
    }
    [(INSERT, insert), (QUERY, query)]
}

fn measure(records: u64) -> Result<Measured> {
    ensure!(records >= 100, "--records {records}: a tree has 100 at least");
    let mut counts = Vec::new();
    for subject in &SUBJECTS {
        sweep(&mut counts, subject, "affine disk", Place::Clock(DISK), records)?;
    }
    // In real time, only the first and the last step of the ladder are measured.
    for subject in [&SUBJECTS[0], &SUBJECTS[3]] {
        sweep(&mut counts, subject, "this device", Place::Here, records)?;
        if records >= SLOW_RECORDS {
            sweep(
                &mut counts,
                subject,
                "slowed device",
                Place::Throttled(DISK),
                records,
            )?;
        }
    }
    counts.retain(|line| !line.points.is_empty());
    Ok(Measured {
        counts,
        ..Measured::default()
    })
}

fn sweep(counts: &mut Vec<Line>, subject: &Subject, at: &str, place: Place<'_>, records: u64) -> Result<()> {
    let who = format!("{}, {at}", subject.name);
    let points = subject.sweep(place, records)?;
    if matches!(place, Place::Clock(_)) {
        counts.extend(by_disk(subject.name, &points));
    }
    counts.push(line(INSERT, &who, &points, insert_us));
    counts.push(line(QUERY, &who, &points, query_us));
    let of = |what: &str, spots: Vec<(&'static str, f64)>| Line {
        name: format!("{what}, {who}"),
        points: spots
            .into_iter()
            .map(|(place, value)| Spot {
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
    let found = |of: fn(Curve) -> f64| {
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
    use crate::measured::value_at;

    #[test]
    fn segments_make_queries_cheaper_and_inserts_cost_a_share_of_a_read() {
        let measured = measure(2000).unwrap();
        let (inserts, queries) = (measured.under(INSERT), measured.under(QUERY));
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
        let points = SUBJECTS[4].sweep(Place::Clock(&disk), 60_000).unwrap();
        let least = best(&points, insert_us);
        assert!((64.0..=512.0).contains(&least), "{points:?}");
        let last = points.last().map_or(0.0, |point| f64::from(point.kib));
        assert!(least < last, "{points:?}");
        let times = beyond(&points, 2.0 * least, insert_us).unwrap();
        assert!(times < 1.5, "{times} {points:?}");
        let spread = |of: super::super::sweep::Figure| {
            let most = points.iter().map(of).fold(0.0, f64::max);
            most / points.iter().map(of).fold(f64::INFINITY, f64::min)
        };
        assert!(spread(query_us) < 2.0, "{points:?}");
    }
}
