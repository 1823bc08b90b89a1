//! S3: the device I/O of a load and of reads.

use super::{FULL, QUICK};
use crate::entry::{EngineWorkload, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{EngineRows, FigurePoint, FigureSeries, MeasurementSet, against, name};

pub(super) const PROCEDURE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/S3",
    ours: &[
        ("write amplification of the load against RocksDB", |measured| {
            against(&writes(measured), "rocksdb")
        }),
        ("write amplification of the load", writes),
        ("I/O amplification", io),
    ],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: FULL,
        steps: |base| Ok(vec![base.step(name("load and C"), &["load", "c"])?]),
    }),
};

/// Returns one figure at a named place, for each engine.
fn of_load(
    measured: &MeasurementSet,
    place: &'static str,
    figure: impl Fn(EngineRows<'_>) -> Option<f64>,
) -> Vec<FigureSeries> {
    let mut lines = measured.by_step(figure);
    for spot in lines.iter_mut().flat_map(|line| &mut line.points) {
        spot.at = name(place);
    }
    lines
}

fn writes(measured: &MeasurementSet) -> Vec<FigureSeries> {
    of_load(measured, "load", |of| of.write_amplification())
}

fn io(measured: &MeasurementSet) -> Vec<FigureSeries> {
    let mut lines = of_load(measured, "load", |of| of.load_amplification());
    let reads = of_load(measured, "C", |of| of.phase("c")?.read_amplification);
    for line in &mut lines {
        let reads = reads.iter().filter(|reads| reads.name == line.name);
        let spots: Vec<FigurePoint> = reads.flat_map(|reads| reads.points.clone()).collect();
        line.points.extend(spots);
    }
    lines
}
