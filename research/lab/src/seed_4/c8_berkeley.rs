//! C8: the pages of Berkeley DB, which the document measures.

use super::c4_b_tree::{NODES, PLACES};
use super::sweep::{Curve, Point, best, curve, points_of};
use crate::entry::{Experiment, Measure, Published, Study, Value, Work, at, named};
use crate::measured::{Line, Measured, Spot, name};

const INSERT: &str = "inserts";
const QUERY: &str = "queries";

/// What the document says of both operations together.
macro_rules! both {
    ($value:expr) => {
        &[Published {
            name: "BerkeleyDB",
            section: "§5",
            points: &[named("both", Value::Is($value))],
        }]
    };
}

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "seed-4/C8",
    title: "Pages of Berkeley DB",
    shows: "Berkeley DB's inserts want pages that are larger than its default of 4 KiB.",
    section: "§5",
    figure: "Figure 2",
    setting: "BerkeleyDB with 16 GiB of pairs below 4 GiB of memory on a hard disk, nodes of 4 KiB to 1 MiB.",
    differs: &[
        "Debian's Berkeley DB 5.3, whose pages have 64 KiB at most: larger ones of the document cannot come from it unchanged.",
        "Pairs have 16 + 100 bytes, loaded in order and aged by an insert for 20 of them; the cache holds a sixteenth of the data, and inner nodes fit.",
        "Debian builds it without direct I/O. Pages that its cache reads and writes are counted, and charged as on the 1 TB Hitachi of Table 2; times here are those of the page cache.",
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
            note: "On the disk of the model.",
            ours: |measured| measured.under(INSERT),
        },
        Measure {
            name: "time of a query",
            unit: "µs",
            axis: NODES,
            published: &[],
            note: "On the disk of the model. The document draws it and states no figure.",
            ours: |measured| measured.under(QUERY),
        },
        Measure {
            name: "pages of an insert",
            unit: "pages",
            axis: NODES,
            published: &[],
            note: "Read and written; a page that stays in the cache is neither.",
            ours: |measured| measured.under("pages of inserts"),
        },
        Measure {
            name: "pages of a query",
            unit: "pages",
            axis: NODES,
            published: &[],
            note: "Read, and written where a query takes the place of a changed page.",
            ours: |measured| measured.under("pages of queries"),
        },
        Measure {
            name: "time here",
            unit: "µs",
            axis: NODES,
            published: &[],
            note: "With the page cache as large as it likes: no device is asked.",
            ours: |measured| {
                let mut lines = measured.under("time of inserts");
                lines.iter_mut().for_each(|line| line.name = "inserts".into());
                lines.extend(measured.under("time of queries").into_iter().map(|line| Line {
                    name: "queries".into(),
                    ..line
                }));
                lines
            },
        },
        Measure {
            name: "best pages",
            unit: "KiB",
            axis: PLACES,
            published: &[Published {
                name: "BerkeleyDB",
                section: "§5",
                points: &[named(INSERT, Value::Is(64.0))],
            }],
            note: "",
            ours: |measured| of_both(measured, |points| Some(best(points, |point| point.insert_us))),
        },
        Measure {
            name: "α of the curve c(1 + αB)/ln B",
            unit: "for an element",
            axis: PLACES,
            published: both!(1.583_574_35e-4),
            note: "The document does not say for which unit. Ours is for 116 bytes; the disk's own is 0.0000893. Five pages below the best say little of it.",
            ours: |measured| of_both(measured, |points| Some(fitted(points)?.alpha)),
        },
        Measure {
            name: "error of the curve",
            unit: "µs (RMS)",
            axis: PLACES,
            published: both!(8.4),
            note: "",
            ours: |measured| of_both(measured, |points| Some(fitted(points)?.rms)),
        },
    ],
    work: Work::Study(Study {
        name: "berkeley-pages",
        quick: 500_000,
        full: 10_000_000,
        most: 1 << 28,
    }),
};

fn fitted(points: &[Point]) -> Option<Curve> {
    curve(points, |point| point.insert_us, |elements| elements.ln().recip())
}

/// Returns a figure of inserts and of queries, for each line that both are of.
fn of_both(measured: &Measured, figure: fn(&[Point]) -> Option<f64>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for what in [INSERT, QUERY] {
        for line in measured.under(what) {
            let Some(value) = figure(&points_of(&line)) else {
                continue;
            };
            let spot = Spot {
                at: name(what),
                value,
            };
            match lines.iter_mut().find(|other| other.name == line.name) {
                Some(other) => other.points.push(spot),
                None => lines.push(Line {
                    name: line.name,
                    points: vec![spot],
                }),
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::At;

    #[test]
    fn figures_of_both_operations_come_from_their_lines() {
        let curve = |times: f64| {
            let spot = |step: i32| {
                let kib = f64::from(1 << step);
                let elements = kib * 1024.0 / 116.0;
                Spot {
                    at: At::Number(kib),
                    value: times * 15_000.0 * (1.0 + 1e-3 * elements) / elements.ln(),
                }
            };
            (2..7).map(spot).collect::<Vec<_>>()
        };
        let lines = [(INSERT, 2.0), (QUERY, 1.0), ("pages of inserts", 1.0)];
        let measured = Measured {
            counts: lines
                .map(|(what, times)| Line {
                    name: format!("{what}, berkeley-db"),
                    points: curve(times),
                })
                .to_vec(),
            ..Measured::default()
        };
        for measure in EXPERIMENT.measures {
            let lines = (measure.ours)(&measured);
            if measure.name.starts_with('α') {
                assert_eq!((lines.len(), lines[0].points.len()), (1, 2), "{lines:?}");
                assert!(
                    lines[0]
                        .points
                        .iter()
                        .all(|spot| (spot.value / 1e-3 - 1.0).abs() < 0.05)
                );
            }
            if measure.name == "best pages" {
                assert_eq!(lines[0].points[0].value, 32.0, "{lines:?}");
            }
        }
    }
}
