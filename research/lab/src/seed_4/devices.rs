//! C1 to C3: how well the PDAM and the affine model predict the local device.

use crate::device_probe::{FULL, MOST, QUICK, probed};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigurePoint, FigureSeries, MeasurementSet, name};
use alluvium_base::{KIB, MIB};
use alluvium_model::probe::{DeviceParallelism, RequestCosts};
use anyhow::{Context, Result};

const ERROR: &str = "error";
const DAM: &str = "error of the DAM";
const KNEE: &str = "P";
const FIT: &str = "R²";
const ALPHA: &str = "alpha";

/// A line of one figure for what was measured.
fn put(lines: &mut Vec<FigureSeries>, what: &str, at: &'static str, value: f64) {
    lines.push(FigureSeries {
        name: format!("{what}, alluvium"),
        points: vec![FigurePoint { at: name(at), value }],
    });
}

fn counted(counts: Vec<FigureSeries>) -> MeasurementSet {
    MeasurementSet {
        counts,
        ..MeasurementSet::default()
    }
}

const STEP: &str = "random reads of 64 KiB";
const SIZES: &str = "random reads of 4 KiB to 4 MiB";

pub(super) const C1: MeasurementProcedure = MeasurementProcedure {
    id: "seed-4/C1",
    ours: &[
        ("largest error of the PDAM", |measured| {
            measured.series_with_prefix(ERROR)
        }),
        ("largest error of the DAM", |measured| {
            measured.series_with_prefix(DAM)
        }),
    ],
    work: ExperimentMethod::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: |records| {
            let reads = probed(records)?.reads;
            let fit = parallel(&reads)?;
            let mut lines = Vec::new();
            put(&mut lines, ERROR, STEP, 100.0 * fit.worst_time);
            put(&mut lines, DAM, STEP, 1.0 + fit.worst_time_dam);
            Ok(counted(lines))
        },
    },
};

fn parallel(costs: &RequestCosts) -> Result<alluvium_model::fit::parallel::ParallelFit> {
    let fit = costs.parallel.as_ref();
    Ok(*fit.map_err(|why| anyhow::anyhow!("{why}"))?)
}

pub(super) const C2: MeasurementProcedure = MeasurementProcedure {
    id: "seed-4/C2",
    ours: &[
        ("requests at once", |measured| measured.series_with_prefix(KNEE)),
        ("R² of the two lines", |measured| {
            measured.series_with_prefix(FIT)
        }),
    ],
    work: ExperimentMethod::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: |records| {
            let reads = probed(records)?.reads;
            let knee = match reads.parallelism {
                DeviceParallelism::Knee(at) => at,
                _ => reads.gain.context("the device gave no figures")?.times,
            };
            let mut lines = Vec::new();
            put(&mut lines, KNEE, STEP, knee);
            put(&mut lines, FIT, STEP, parallel(&reads)?.goodness.r_squared);
            Ok(counted(lines))
        },
    },
};

pub(super) const C3: MeasurementProcedure = MeasurementProcedure {
    id: "seed-4/C3",
    ours: &[
        ("R² of the line", |measured| measured.series_with_prefix(FIT)),
        ("largest error of a predicted time", |measured| {
            measured.series_with_prefix(ERROR)
        }),
        ("α of 4 KiB", |measured| measured.series_with_prefix(ALPHA)),
    ],
    work: ExperimentMethod::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: |records| {
            let reads = probed(records)?.reads;
            let fitted = *reads.affine.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
            let plain = fitted.plain.unwrap_or(fitted.fit.goodness);
            let mut lines = Vec::new();
            put(&mut lines, FIT, SIZES, plain.r_squared);
            put(
                &mut lines,
                ERROR,
                SIZES,
                100.0 * fitted.fit.goodness.worst_relative,
            );
            put(&mut lines, ALPHA, SIZES, fitted.fit.alpha(4 * KIB));
            Ok(counted(lines))
        },
    },
};

const NATURAL: &str = "natural size";
const HALF: &str = "half of the bandwidth";
const MOST_OF_IT: &str = "nine tenths";

/// The natural transfer size of a device, an experiment of another document.
pub(crate) const NATURAL_TRANSFER: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/A0",
    ours: &[("bytes of a request", |measured| {
        measured.series_with_prefix(NATURAL)
    })],
    work: ExperimentMethod::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: |records| {
            let reads = probed(records)?.reads;
            let fitted = reads.affine.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
            let of = |share| fitted.fit.natural_bytes(share) / MIB as f64;
            let at = |place, share| FigurePoint {
                at: name(place),
                value: of(share),
            };
            Ok(counted(vec![FigureSeries {
                name: format!("{NATURAL}, alluvium"),
                points: vec![at(HALF, 0.5), at(MOST_OF_IT, 0.9)],
            }]))
        },
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_probe_gives_every_figure() {
        for procedure in [&C1, &C2, &C3, &NATURAL_TRANSFER] {
            let ExperimentMethod::Here { measure, .. } = procedure.work else {
                panic!("{} counts by itself", procedure.id);
            };
            // On a busy machine the times may fit no model; this is reported as an error.
            let measured = match measure(4096) {
                Err(error) if error.to_string().contains("the measurement was disturbed") => continue,
                measured => measured.unwrap(),
            };
            for (name, ours) in procedure.ours {
                let lines = ours(&measured);
                assert!(!lines.is_empty(), "{}: {name}", procedure.id);
                let spots = lines.iter().flat_map(|line| &line.points);
                assert!(spots.clone().all(|spot| spot.value.is_finite()), "{lines:?}");
            }
        }
    }
}
