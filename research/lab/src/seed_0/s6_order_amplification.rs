//! S6: the reduction of write amplification when keys arrive in order.

use super::s5_order::steps;
use super::{FULL_ORDER, QUICK_ORDER};
use crate::entry::{EngineWorkload, ExperimentMethod, MeasurementProcedure};

pub(super) const PROCEDURE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/S6",
    ours: &[
        ("write amplification", |measured| {
            measured.by_step(|of| of.write_amplification())
        }),
        ("I/O amplification", |measured| {
            measured.by_step(|of| of.load_amplification())
        }),
    ],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK_ORDER,
        full: FULL_ORDER,
        steps,
    }),
};
