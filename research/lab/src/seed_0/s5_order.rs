//! S5: the speed-up of a load when its keys arrive in order.

use super::{FULL_ORDER, QUICK_ORDER};
use crate::entry::{At, Engines, Procedure, Work};
use crate::measured::{Line, Measured, Spot, relative_to, thousands_per_s, value_at};
use crate::plan::{Base, Size, Step};
use anyhow::Result;

pub(super) const PROCEDURE: Procedure = Procedure {
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
    work: Work::Engines(Engines {
        quick: QUICK_ORDER,
        full: FULL_ORDER,
        steps,
    }),
};

pub(super) fn steps(base: &Base) -> Result<Vec<Step>> {
    let percents: &[u8] = match base.size {
        Size::Quick => &[0, 50, 90, 99, 100],
        Size::Full => &[0, 10, 25, 50, 75, 90, 95, 99, 100],
    };
    let step = |&percent: &u8| {
        let mut step = base.step(At::Number(f64::from(percent)), &["load"])?;
        step.job.keys.sequential_percent = percent;
        Ok(step)
    };
    percents.iter().map(step).collect()
}

fn throughput(measured: &Measured) -> Vec<Line> {
    measured.by_step(|of| thousands_per_s(of.phase("load")?))
}

/// Returns the middle's throughput as a fraction of the harmonic mean of both ends.
fn ideal(line: &Line) -> Option<Line> {
    let [random, middle, sequential] = [0.0, 50.0, 100.0].map(|place| value_at(line, place));
    let (random, middle, sequential) = (random?, middle?, sequential?);
    let ideal = 2.0 / (1.0 / random + 1.0 / sequential);
    (ideal > 0.0).then(|| Line {
        name: line.name.clone(),
        points: vec![Spot {
            at: At::Number(50.0),
            value: middle / ideal,
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ideal_is_the_harmonic_mean() {
        let spot = |at, value| Spot {
            at: At::Number(at),
            value,
        };
        // The document's own numbers; 575 would be ideal.
        let line = Line {
            name: "SplinterDB".into(),
            points: vec![spot(0.0, 430.0), spot(50.0, 521.0), spot(100.0, 866.0)],
        };
        let share = ideal(&line).unwrap().points[0].value;
        assert!((share - 521.0 / 575.0).abs() < 1e-3, "{share}");
        let without = Line {
            points: line.points[1..].to_vec(),
            ..line
        };
        assert_eq!(ideal(&without), None);
    }
}
