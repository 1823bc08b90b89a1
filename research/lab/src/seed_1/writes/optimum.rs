//! A7, A8 and A10: the level sizes that minimise LevelDB's writes, and the time to compute them.

use super::{POPULARITIES, SeriesBuilder, place, popularity, simulate};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::{MeasurementSet, name};
use alluvium_model::lsm::LevelDb;
use anyhow::Result;
use std::time::Instant;

const SAVED: &str = "saved";
const SECONDS: &str = "seconds";
const EVALUATIONS: &str = "shapes";

pub(super) const A7: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/A7",
    ours: &[("writes saved by the best sizes", |measured| {
        measured.series_with_prefix(SAVED)
    })],
    work: ExperimentMethod::Here {
        quick: 300_000,
        full: 10_000_000,
        most: super::MOST_SIMULATED,
        measure: saved,
    },
};

fn saved(keys: u64) -> Result<MeasurementSet> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = SeriesBuilder::default();
    let percent = |before: f64, after: f64| 100.0 * (1.0 - after / before);
    for (name, skew) in POPULARITIES {
        for size in [1_000_000, 10_000_000, 100_000_000] {
            let (standard, popularity) = (LevelDb::standard(size as f64)?, popularity(size, skew)?);
            let best = standard.optimise(&popularity)?.costs.total();
            let saved = percent(standard.estimate(&popularity)?.total(), best);
            sheet.put(SAVED, &format!("model, {name}"), place(size as f64), saved);
        }
        let (standard, popularity) = (LevelDb::standard(keys as f64)?, popularity(keys, skew)?);
        let best = standard.optimise(&popularity)?.shape;
        let saved = percent(simulate(&standard, &popularity)?, simulate(&best, &popularity)?);
        sheet.put(SAVED, &format!("simulation, {name}"), place(keys as f64), saved);
    }
    Ok(sheet.measured())
}

const UNIFORM: &str = "uniform";
const SKEWED: &str = "Zipf 0.99";

pub(super) const A8: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/A8",
    ours: &[
        ("uniform keys", |measured| measured.series_with_prefix(UNIFORM)),
        ("Zipf 0.99", |measured| measured.series_with_prefix(SKEWED)),
    ],
    work: ExperimentMethod::Here {
        quick: 100_000_000,
        full: 100_000_000,
        most: 1_000_000_000,
        measure: over_levels,
    },
};

fn over_levels(keys: u64) -> Result<MeasurementSet> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = SeriesBuilder::default();
    for (name, skew) in POPULARITIES {
        let popularity = popularity(keys, skew)?;
        for levels in 3..=6 {
            let shape = LevelDb::with_levels(keys as f64, levels)?;
            let best = shape.optimise(&popularity)?.costs.total();
            let at = place(levels as f64);
            sheet.put(
                name,
                "LevelDB's sizes",
                at.clone(),
                shape.estimate(&popularity)?.total(),
            );
            sheet.put(name, "the best sizes", at, best);
        }
    }
    Ok(sheet.measured())
}

pub(super) const A10: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/A10",
    ours: &[
        ("time of the search", |measured| {
            measured.series_with_prefix(SECONDS)
        }),
        ("shapes that were estimated", |measured| {
            measured.series_with_prefix(EVALUATIONS)
        }),
    ],
    work: ExperimentMethod::Here {
        quick: 100_000_000,
        full: 100_000_000,
        most: 1_000_000_000,
        measure: timed,
    },
};

fn timed(keys: u64) -> Result<MeasurementSet> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = SeriesBuilder::default();
    for (of, skew) in POPULARITIES {
        let began = Instant::now();
        let best = LevelDb::standard(keys as f64)?.optimise(&popularity(keys, skew)?)?;
        sheet.put(SECONDS, "alluvium", name(of), began.elapsed().as_secs_f64());
        sheet.put(EVALUATIONS, "alluvium", name(of), best.evaluations as f64);
    }
    Ok(sheet.measured())
}
