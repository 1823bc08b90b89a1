//! S5: the speed-up of a load when its keys arrive in order.

use super::{FULL_ORDER, QUICK_ORDER};
use crate::entry::{AxisPosition, EngineWorkload, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{
    FigurePoint, FigureSeries, MeasurementSet, relative_to, thousands_per_s, value_at,
};
use crate::plan::{ExperimentStep, RunSize, StepTemplate};
use anyhow::Result;

pub(super) const PROCEDURE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/S5",
    ours: &[
        ("throughput", throughput),
        ("speed-up over random keys", |measured| {
            relative_to(throughput(measured), 0.0)
        }),
        ("share of the ideal at 50 %", |measured| {
            throughput(measured).iter().filter_map(ideal).collect()
        }),
    ],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK_ORDER,
        full: FULL_ORDER,
        steps,
    }),
};

pub(super) fn steps(base: &StepTemplate) -> Result<Vec<ExperimentStep>> {
    let percents: &[u8] = match base.size {
        RunSize::Quick => &[0, 50, 90, 99, 100],
        RunSize::Full => &[0, 10, 25, 50, 75, 90, 95, 99, 100],
    };
    let step = |&percent: &u8| {
        let mut step = base.step(AxisPosition::Number(f64::from(percent)), &["load"])?;
        step.job.keys.sequential_percent = percent;
        Ok(step)
    };
    percents.iter().map(step).collect()
}

fn throughput(measured: &MeasurementSet) -> Vec<FigureSeries> {
    measured.by_step(|of| thousands_per_s(of.phase("load")?))
}

/// Returns the middle's throughput as a fraction of the harmonic mean of both ends.
fn ideal(line: &FigureSeries) -> Option<FigureSeries> {
    let [random, middle, sequential] = [0.0, 50.0, 100.0].map(|place| value_at(line, place));
    let (random, middle, sequential) = (random?, middle?, sequential?);
    let ideal = 2.0 / (1.0 / random + 1.0 / sequential);
    (ideal > 0.0).then(|| FigureSeries {
        name: line.name.clone(),
        points: vec![FigurePoint {
            at: AxisPosition::Number(50.0),
            value: middle / ideal,
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ideal_is_the_harmonic_mean() {
        let spot = |at, value| FigurePoint {
            at: AxisPosition::Number(at),
            value,
        };
        // The document's own numbers; 575 would be ideal.
        let line = FigureSeries {
            name: "SplinterDB".into(),
            points: vec![spot(0.0, 430.0), spot(50.0, 521.0), spot(100.0, 866.0)],
        };
        let share = ideal(&line).unwrap().points[0].value;
        assert!((share - 521.0 / 575.0).abs() < 1e-3, "{share}");
        let without = FigureSeries {
            points: line.points[1..].to_vec(),
            ..line
        };
        assert_eq!(ideal(&without), None);
    }
}
