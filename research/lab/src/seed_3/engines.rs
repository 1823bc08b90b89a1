//! G3 with whole engines: our levels, with different numbers of runs merged at once, compared with
//! third-party engines.

use super::policies::{HBASE, K4, K8, K64};
use crate::entry::{EngineWorkload, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigureSeries, MeasurementSet, name};
use crate::plan::{ExperimentScale, ExperimentStep, LEAST_CAP, StepTemplate, ThreadCount};
use alluvium_bench::engine::EngineOption;
use anyhow::Result;

/// The structure name of each policy, for the options of a keyspace.
const STRUCTURES: [(&str, &str); 4] = [
    (K4, "levels,samt,k=4"),
    (K8, "levels,samt,k=8"),
    (K64, "levels,samt,k=64"),
    (HBASE, "levels,cola,r=3"),
];

pub(super) const G3E: MeasurementProcedure = MeasurementProcedure {
    id: "seed-3/G3E",
    ours: &[
        ("inserts", |measured| rate_of(measured, "load")),
        ("bytes moved in the load", |measured| {
            measured.by_step(|of| of.load_amplification())
        }),
        ("lookups of keys that are there", |measured| {
            rate_of(measured, "c")
        }),
    ],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: ExperimentScale {
            records: 8_000_000,
            warm_ms: 10_000,
            run_ms: 30_000,
            settle_ms: 60_000,
            ..QUICK
        },
        steps,
    }),
};

const QUICK: ExperimentScale = ExperimentScale {
    records: 300_000,
    value_bytes: 1000,
    threads: ThreadCount::Processors,
    cap: LEAST_CAP,
    warm_ms: 200,
    run_ms: 1500,
    settle_ms: 2000,
};

fn rate_of(measured: &MeasurementSet, phase: &str) -> Vec<FigureSeries> {
    measured.by_step(|of| Some(of.phase(phase)?.ops_per_s))
}

fn steps(base: &StepTemplate) -> Result<Vec<ExperimentStep>> {
    base.refuse_memory("it is a quarter of the data")?;
    let step = |(place, structure): (&'static str, &str)| {
        let mut step = base.step(name(place), &["load", "c:uniform"])?;
        step.job.cap = (base.data() / 4).max(LEAST_CAP);
        step.job.options.push(EngineOption {
            engine: "alluvium".to_owned(),
            name: "structure".to_owned(),
            value: structure.to_owned(),
        });
        Ok(step)
    };
    STRUCTURES.into_iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::StepMeasurement;
    use crate::plan::{RunSize, ScaleOverrides};
    use alluvium_bench::run::ResultRow;

    #[test]
    fn each_policy_is_a_step_and_others_have_lines_beside_ours() {
        let wanted = ScaleOverrides::default();
        let base = StepTemplate::new(RunSize::Full, &QUICK, &wanted, "here".into()).unwrap();
        let steps = steps(&base).unwrap();
        let rows = |engine: &str| ResultRow {
            engine: engine.to_owned(),
            phase: "load".to_owned(),
            ops_per_s: 1000.0,
            ..ResultRow::default()
        };
        let taken = steps.iter().map(|step| StepMeasurement {
            at: step.at.clone(),
            rows: vec![rows("alluvium"), rows("rocksdb-universal")],
        });
        let measured = MeasurementSet {
            steps: taken.collect(),
            ..MeasurementSet::default()
        };
        let lines = rate_of(&measured, "load");
        let names: Vec<&str> = lines.iter().map(|line| &*line.name).collect();
        assert_eq!(names, ["alluvium", "rocksdb-universal"]);
        assert!(lines.iter().all(|line| line.points.len() == STRUCTURES.len()));
        assert!(rate_of(&measured, "c").is_empty());
        for (step, (_, structure)) in steps.iter().zip(STRUCTURES) {
            assert!(structure.parse::<alluvium::Structure>().is_ok(), "{structure}");
            assert_eq!(step.job.options[0].value, structure);
            assert_eq!(step.job.cap, base.data() / 4);
        }
    }
}
