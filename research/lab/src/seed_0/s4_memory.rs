//! S4: throughput with little memory.

use super::{FULL, QUICK};
use crate::entry::{At, Engines, Procedure, Work};
use crate::measured::{Line, Measured, thousands_per_s};
use crate::plan::{Base, LEAST_CAP, Scale, Size, Step};
use anyhow::Result;

pub(super) const PROCEDURE: Procedure = Procedure {
    id: "seed-0/S4",
    ours: &[
        ("throughput of C", |measured| {
            measured.by_step(|of| thousands_per_s(of.phase("c")?))
        }),
        ("throughput of the load", load),
    ],
    work: Work::Engines(Engines {
        quick: Scale {
            records: 3_000_000,
            ..QUICK
        },
        full: FULL,
        steps,
    }),
};

fn load(measured: &Measured) -> Vec<Line> {
    measured.by_step(|of| thousands_per_s(of.phase("load")?))
}

fn steps(base: &Base) -> Result<Vec<Step>> {
    base.refuse_memory("it changes the memory from step to step")?;
    let percents: &[u64] = match base.size {
        Size::Quick => &[15, 25, 50, 100],
        Size::Full => &[5, 10, 25, 28, 50, 100],
    };
    let mut caps: Vec<u64> = percents
        .iter()
        .map(|percent| (base.data() / 100 * percent).max(LEAST_CAP))
        .collect();
    caps.dedup();
    let step = |cap: u64| {
        let percent = 100.0 * cap as f64 / base.data() as f64;
        let mut step = base.step(At::Number(percent.round()), &["load", "c"])?;
        step.job.cap = cap;
        Ok(step)
    };
    caps.into_iter().map(step).collect()
}
