//! C9: page sizes of stores that are B-trees, on the local device: Berkeley DB, and a paged
//! keyspace of ours.

use crate::entry::{AxisPosition, EngineWorkload, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigureSeries, MeasurementSet};
use crate::plan::{ExperimentScale, ExperimentStep, LEAST_CAP, StepTemplate, ThreadCount};
use alluvium_bench::engine::EngineOption;
use anyhow::Result;

/// Page sizes in KiB that both Berkeley DB and our stores support.
const KIB: [u32; 5] = [4, 8, 16, 32, 64];

pub(super) const PROCEDURE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-4/C9",
    ours: &[
        ("time of an insert", |measured| time_of(measured, "load")),
        ("time of a query", |measured| time_of(measured, "c")),
        ("bytes moved in the load", |measured| {
            measured.by_step(|of| of.load_amplification())
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
    records: 1_000_000,
    value_bytes: 100,
    threads: ThreadCount::One,
    cap: LEAST_CAP,
    warm_ms: 200,
    run_ms: 1500,
    settle_ms: 2000,
};

fn time_of(measured: &MeasurementSet, phase: &str) -> Vec<FigureSeries> {
    measured.by_step(|of| {
        let row = of.phase(phase)?;
        (row.ops_per_s > 0.0).then(|| 1e6 / row.ops_per_s)
    })
}

fn steps(base: &StepTemplate) -> Result<Vec<ExperimentStep>> {
    base.refuse_memory("it is a quarter of the data")?;
    let step = |kib: u32| {
        let mut step = base.step(AxisPosition::Number(f64::from(kib)), &["load", "c:uniform"])?;
        step.job.cap = (base.data() / 4).max(LEAST_CAP);
        let bytes = kib << 10;
        for (engine, name, value) in [
            ("berkeley-db", "page-bytes", bytes.to_string()),
            (
                "alluvium",
                "structure",
                format!("paged,bplus,node={bytes},key=24,value=128"),
            ),
        ] {
            step.job.options.push(EngineOption {
                engine: engine.to_owned(),
                name: name.to_owned(),
                value,
            });
        }
        Ok(step)
    };
    KIB.into_iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::StepMeasurement;
    use crate::plan::{RunSize, ScaleOverrides};
    use alluvium_bench::run::ResultRow;

    #[test]
    fn each_page_is_a_step_with_a_quarter_of_the_data_in_memory() {
        let wanted = ScaleOverrides {
            records: Some(4_000_000),
            ..ScaleOverrides::default()
        };
        let base = StepTemplate::new(RunSize::Quick, &QUICK, &wanted, "here".into()).unwrap();
        let steps = steps(&base).unwrap();
        assert_eq!(steps.len(), KIB.len());
        for (step, kib) in steps.iter().zip(KIB) {
            assert_eq!(step.at, AxisPosition::Number(f64::from(kib)));
            assert_eq!(step.job.cap, base.data() / 4);
            let bytes = (kib << 10).to_string();
            let options = step.job.options.iter();
            assert!(options.clone().all(|option| option.value.contains(&bytes)));
            assert_eq!(options.count(), 2);
        }
        let row = ResultRow {
            engine: "berkeley-db".to_owned(),
            phase: "load".to_owned(),
            ops_per_s: 50_000.0,
            ..ResultRow::default()
        };
        let measured = MeasurementSet {
            steps: vec![StepMeasurement {
                at: AxisPosition::Number(4.0),
                rows: vec![row],
            }],
            ..MeasurementSet::default()
        };
        assert_eq!(time_of(&measured, "load")[0].points[0].value, 20.0);
        assert!(time_of(&measured, "c").is_empty());
    }
}
