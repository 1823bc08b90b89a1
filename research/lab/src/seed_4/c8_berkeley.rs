//! C8: the page sizes of Berkeley DB, which the document measures.

use super::sweep::{FittedCurve, NodeSizeCosts, best, curve, points_of};
use crate::entry::{ExperimentMethod, MeasurementProcedure, RivalStudy};
use crate::measurements::{FigurePoint, FigureSeries, MeasurementSet, name};

const INSERT: &str = "inserts";
const QUERY: &str = "queries";

pub(super) const PROCEDURE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-4/C8",
    ours: &[
        ("time of an insert", |measured| {
            measured.series_with_prefix(INSERT)
        }),
        ("time of a query", |measured| measured.series_with_prefix(QUERY)),
        ("pages of an insert", |measured| {
            measured.series_with_prefix("pages of inserts")
        }),
        ("pages of a query", |measured| {
            measured.series_with_prefix("pages of queries")
        }),
        ("time here", |measured| {
            let mut lines = measured.series_with_prefix("time of inserts");
            lines.iter_mut().for_each(|line| line.name = "inserts".into());
            lines.extend(
                measured
                    .series_with_prefix("time of queries")
                    .into_iter()
                    .map(|line| FigureSeries {
                        name: "queries".into(),
                        ..line
                    }),
            );
            lines
        }),
        ("best pages", |measured| {
            of_both(measured, |points| Some(best(points, |point| point.insert_us)))
        }),
        ("α of the curve c(1 + αB)/ln B", |measured| {
            of_both(measured, |points| Some(fitted(points)?.alpha))
        }),
        ("error of the curve", |measured| {
            of_both(measured, |points| Some(fitted(points)?.rms))
        }),
    ],
    work: ExperimentMethod::Study(RivalStudy {
        name: "berkeley-pages",
        quick: 500_000,
        full: 10_000_000,
        most: 1 << 28,
    }),
};

fn fitted(points: &[NodeSizeCosts]) -> Option<FittedCurve> {
    curve(points, |point| point.insert_us, |elements| elements.ln().recip())
}

/// Returns a figure for inserts and for queries, for each line that has both.
fn of_both(measured: &MeasurementSet, figure: fn(&[NodeSizeCosts]) -> Option<f64>) -> Vec<FigureSeries> {
    let mut lines: Vec<FigureSeries> = Vec::new();
    for what in [INSERT, QUERY] {
        for line in measured.series_with_prefix(what) {
            let Some(value) = figure(&points_of(&line)) else {
                continue;
            };
            let spot = FigurePoint {
                at: name(what),
                value,
            };
            match lines.iter_mut().find(|other| other.name == line.name) {
                Some(other) => other.points.push(spot),
                None => lines.push(FigureSeries {
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
    use crate::entry::AxisPosition;

    #[test]
    fn figures_of_both_operations_come_from_their_lines() {
        let curve = |times: f64| {
            let spot = |step: i32| {
                let kib = f64::from(1 << step);
                let elements = kib * 1024.0 / 116.0;
                FigurePoint {
                    at: AxisPosition::Number(kib),
                    value: times * 15_000.0 * (1.0 + 1e-3 * elements) / elements.ln(),
                }
            };
            (2..7).map(spot).collect::<Vec<_>>()
        };
        let lines = [(INSERT, 2.0), (QUERY, 1.0), ("pages of inserts", 1.0)];
        let measured = MeasurementSet {
            counts: lines
                .map(|(what, times)| FigureSeries {
                    name: format!("{what}, berkeley-db"),
                    points: curve(times),
                })
                .to_vec(),
            ..MeasurementSet::default()
        };
        for (measure, ours) in PROCEDURE.ours {
            let lines = ours(&measured);
            if measure.starts_with('α') {
                assert_eq!((lines.len(), lines[0].points.len()), (1, 2), "{lines:?}");
                assert!(
                    lines[0]
                        .points
                        .iter()
                        .all(|spot| (spot.value / 1e-3 - 1.0).abs() < 0.05)
                );
            }
            if *measure == "best pages" {
                assert_eq!(lines[0].points[0].value, 32.0, "{lines:?}");
            }
        }
    }
}
