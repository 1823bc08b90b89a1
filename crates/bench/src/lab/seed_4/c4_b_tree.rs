//! C4: node sizes of a B-tree, on a disk.

use super::sweep::{Fanout, Place, Point, Subject, best, curve, line};
use crate::lab::entry::{Axis, Experiment, Form, Measure, Published, Value, Work, at, named};
use crate::lab::measured::{Line, Measured, Spot, name};
use alluvium_model::presets::{HITACHI_1TB_2009, HardDisk};
use alluvium_trees::affine::Variant;
use anyhow::{Result, ensure};

const INSERT: &str = "inserts";
const QUERY: &str = "queries";
const BEST: &str = "best";
const ALPHA: &str = "alpha";
const RMS: &str = "rms";

pub(super) const NODES: Axis = Axis {
    name: "KiB of a node",
    form: Form::Logarithmic,
};
pub(super) const PLACES: Axis = Axis {
    name: "operation",
    form: Form::Names,
};

const DISK: &HardDisk = &HITACHI_1TB_2009;
const ON_DISK: &str = "affine disk";
const HERE: &str = "this device";
const SLOWED: &str = "slowed device";

/// The records from which on the device is slowed, too: it takes minutes.
pub(super) const SLOW_RECORDS: u64 = 1 << 20;

pub(super) const B_TREE: Subject = Subject {
    name: "B-tree",
    variant: Variant::BTree,
    fanout: Fanout::Root,
    least_kib: 4,
    most_kib: 16 << 10,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "seed-4/C4",
    title: "Node sizes of a B-tree on a disk",
    shows: "A B-tree on a disk wants nodes of tens or hundreds of KiB, and pays for larger ones in proportion.",
    section: "§5",
    figure: "Figure 2",
    setting: "BerkeleyDB with 16 GiB of pairs below 4 GiB of memory on a hard disk, nodes of 4 KiB to 1 MiB.",
    differs: &[
        "Ours is Alluvium's own B-tree, loaded in order and aged by inserts. Each insert writes its leaf.",
        "The root alone is in memory: a quarter of the data would hold all nodes above the leaves, and small leaves would always be best.",
        "The affine disk is the 1 TB Hitachi of Table 2, charged exactly. The slowed device takes as long in real time; it is measured from a million records on.",
    ],
    measures: &[
        Measure {
            name: "time of an insert",
            unit: "µs",
            axis: NODES,
            published: &[Published {
                name: "BerkeleyDB",
                section: "§5",
                points: &[at(64.0, Value::Said("the best, above its default"))],
            }],
            note: "",
            ours: |measured| measured.under(INSERT),
        },
        Measure {
            name: "time of a query",
            unit: "µs",
            axis: NODES,
            published: &[],
            note: "The document draws it and states no figure.",
            ours: |measured| measured.under(QUERY),
        },
        Measure {
            name: "best nodes",
            unit: "KiB",
            axis: PLACES,
            published: &[Published {
                name: "BerkeleyDB",
                section: "§5",
                points: &[named(INSERT, Value::Is(64.0))],
            }],
            note: "",
            ours: |measured| measured.under(BEST),
        },
        Measure {
            name: "α of the curve c(1 + αB)/ln B",
            unit: "for an element",
            axis: PLACES,
            published: &[Published {
                name: "BerkeleyDB",
                section: "§5",
                points: &[named("both", Value::Is(1.583_574_35e-4))],
            }],
            note: "The document does not say for which unit. Ours is for 116 bytes; the disk's own is 0.0000893.",
            ours: |measured| measured.under(ALPHA),
        },
        Measure {
            name: "error of the curve",
            unit: "µs (RMS)",
            axis: PLACES,
            published: &[Published {
                name: "BerkeleyDB",
                section: "§5",
                points: &[named("both", Value::Is(8.4))],
            }],
            note: "",
            ours: |measured| measured.under(RMS),
        },
    ],
    work: Work::Here {
        quick: 1 << 18,
        full: 1 << 22,
        most: 1 << 28,
        measure,
    },
};

fn insert_us(point: &Point) -> f64 {
    point.insert_us
}

fn query_us(point: &Point) -> f64 {
    point.query_us
}

fn measure(records: u64) -> Result<Measured> {
    ensure!(records >= 100, "--records {records}: a tree has 100 at least");
    let mut places = vec![(ON_DISK, Place::Clock(DISK)), (HERE, Place::Here)];
    if records >= SLOW_RECORDS {
        places.push((SLOWED, Place::Throttled(DISK)));
    }
    let mut counts = Vec::new();
    for (place_name, place) in places {
        let points = B_TREE.sweep(place, records)?;
        counts.push(line(INSERT, place_name, &points, insert_us));
        counts.push(line(QUERY, place_name, &points, query_us));
        let of = |what: &str, spots: Vec<(&'static str, f64)>| Line {
            name: format!("{what}, {place_name}"),
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
        let shape = |elements: f64| elements.ln().recip();
        let curves = [
            (INSERT, curve(&points, insert_us, shape)),
            (QUERY, curve(&points, query_us, shape)),
        ];
        let found = |of: fn(super::sweep::Curve) -> f64| {
            let all = curves
                .iter()
                .filter_map(|(what, curve)| Some((*what, of((*curve)?))));
            all.collect::<Vec<_>>()
        };
        counts.push(of(ALPHA, found(|curve| curve.alpha)));
        counts.push(of(RMS, found(|curve| curve.rms)));
    }
    counts.retain(|line| !line.points.is_empty());
    Ok(Measured {
        counts,
        ..Measured::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_beyond_the_best_cost_in_proportion() {
        let points = B_TREE.sweep(Place::Clock(DISK), 10_000).unwrap();
        let least = best(&points, query_us);
        assert!((8.0..=256.0).contains(&least), "{points:?}");
        let measured = measure(2000).unwrap();
        for what in [INSERT, QUERY] {
            let lines = measured.under(what);
            assert_eq!((lines.len(), lines[0].points.len()), (2, 3), "{lines:?}");
            let mut spots = lines.iter().flat_map(|line| &line.points);
            assert!(spots.all(|spot| spot.value > 0.0));
        }
        assert!(measure(1).is_err());
    }
}
