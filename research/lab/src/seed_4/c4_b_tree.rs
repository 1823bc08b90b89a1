//! C4: node sizes of a B-tree on a disk.

use super::sweep::{
    DISKS, FanoutRule, OPERATIONS, SweepDevice, SweepTree, best, beyond, by_disk, curve, insert_us, largest,
    line, query_us,
};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigurePoint, FigureSeries, MeasurementSet, name};
use alluvium_model::nodes;
use alluvium_model::presets::{HARD_DISKS, HITACHI_1TB_2009, HardDisk};
use anyhow::{Result, ensure};
use research_trees::affine::AffineVariant;

const INSERT: &str = "inserts";
const QUERY: &str = "queries";
const BEST: &str = "best";
const LARGE: &str = "large";
const ALPHA: &str = "alpha";
const RMS: &str = "rms";

/// Size of an element in bytes.
const ELEMENT: f64 = 116.0;
const DISK: &HardDisk = &HITACHI_1TB_2009;
const ON_DISK: &str = "affine disk";
const HERE: &str = "this device";
const SLOWED: &str = "slowed device";

/// Minimum number of records for the slow-device measurement, which runs for minutes.
pub(super) const SLOW_RECORDS: u64 = 1 << 20;

pub(super) const B_TREE: SweepTree = SweepTree {
    name: "B-tree",
    variant: AffineVariant::BTree,
    fanout: FanoutRule::Root,
    leaf_block_kib: None,
    least_kib: 4,
    most_kib: 16 << 10,
};

pub(super) const PROCEDURE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-4/C4",
    ours: &[
        ("time of an insert", |measured| {
            measured.series_with_prefix(INSERT)
        }),
        ("time of a query", |measured| measured.series_with_prefix(QUERY)),
        ("best nodes", |measured| measured.series_with_prefix(BEST)),
        ("best nodes on each disk", |measured| {
            measured.series_with_prefix(DISKS)
        }),
        ("largest nodes, up to 4 MiB", |measured| {
            measured.series_with_prefix(LARGE)
        }),
        ("α of the curve c(1 + αB)/ln B", |measured| {
            measured.series_with_prefix(ALPHA)
        }),
        ("error of the curve", |measured| measured.series_with_prefix(RMS)),
    ],
    work: ExperimentMethod::Here {
        quick: 1 << 18,
        full: 1 << 22,
        most: 1 << 28,
        measure,
    },
};

fn measure(records: u64) -> Result<MeasurementSet> {
    ensure!(records >= 100, "--records {records}: a tree has 100 at least");
    let mut places = vec![(ON_DISK, SweepDevice::Clock(DISK)), (HERE, SweepDevice::Here)];
    if records >= SLOW_RECORDS {
        places.push((SLOWED, SweepDevice::Throttled(DISK)));
    }
    let mut counts = Vec::new();
    for (place_name, place) in places {
        let points = B_TREE.sweep(place, records)?;
        if place_name == ON_DISK {
            counts.extend(by_disk(B_TREE.name, &points));
            counts.push(predicted()?);
        }
        counts.push(line(INSERT, place_name, &points, insert_us));
        counts.push(line(QUERY, place_name, &points, query_us));
        let of = |what: &str, spots: Vec<(&'static str, f64)>| FigureSeries {
            name: format!("{what}, {place_name}"),
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
        let large = OPERATIONS
            .into_iter()
            .filter_map(|(what, figure)| Some((what, beyond(&points, largest(&points, 4096.0), figure)?)));
        counts.push(of(LARGE, large.collect()));
        let shape = |elements: f64| elements.ln().recip();
        let curves = [
            (INSERT, curve(&points, insert_us, shape)),
            (QUERY, curve(&points, query_us, shape)),
        ];
        let found = |of: fn(super::sweep::FittedCurve) -> f64| {
            let all = curves
                .iter()
                .filter_map(|(what, curve)| Some((*what, of((*curve)?))));
            all.collect::<Vec<_>>()
        };
        counts.push(of(ALPHA, found(|curve| curve.alpha)));
        counts.push(of(RMS, found(|curve| curve.rms)));
    }
    counts.retain(|line| !line.points.is_empty());
    Ok(MeasurementSet {
        counts,
        ..MeasurementSet::default()
    })
}

/// Returns the model's optimal nodes (Corollary 7).
fn predicted() -> Result<FigureSeries> {
    let spot = |disk: &HardDisk| {
        let elements = nodes::best_b_tree_node(disk.alpha() * ELEMENT / 4096.0)?;
        Ok(FigurePoint {
            at: name(disk.name),
            value: elements * ELEMENT / 1024.0,
        })
    };
    Ok(FigureSeries {
        name: format!("{DISKS}, model"),
        points: HARD_DISKS.iter().map(spot).collect::<Result<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_beyond_the_best_cost_in_proportion() {
        let points = B_TREE.sweep(SweepDevice::Clock(DISK), 10_000).unwrap();
        let least = best(&points, query_us);
        assert!((8.0..=256.0).contains(&least), "{points:?}");
        // A disk with 16 times the cost per byte. Optimal nodes are therefore 16 times smaller than
        // the 64 to 512 KiB of the original disk, and 256 KiB here corresponds to 4 MiB there.
        let disk = HardDisk {
            transfer_ns: 16 * DISK.transfer_ns,
            ..*DISK
        };
        let points = B_TREE.sweep(SweepDevice::Clock(&disk), 30_000).unwrap();
        for (_, figure) in OPERATIONS {
            let least = best(&points, figure);
            assert!((4.0..=32.0).contains(&least), "{points:?}");
            let times = beyond(&points, 256.0, figure).unwrap();
            assert!(times >= 1.5, "{times} {points:?}");
        }
        let measured = measure(2000).unwrap();
        for what in [INSERT, QUERY] {
            let lines = measured.series_with_prefix(what);
            assert_eq!((lines.len(), lines[0].points.len()), (2, 3), "{lines:?}");
            let mut spots = lines.iter().flat_map(|line| &line.points);
            assert!(spots.all(|spot| spot.value > 0.0));
        }
        assert!(measure(1).is_err());
    }
}
