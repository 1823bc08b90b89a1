//! S9: how fast scans are, by their length.

use super::{FULL, MACHINE, QUICK, SETTING, TENTH, THREADS};
use crate::entry::{At, Axis, Engines, Experiment, Form, Measure, Published, Value, Work, at};
use crate::measured::{Line, Measured, name};
use crate::plan::{Base, Step};
use alluvium_bench::run::Row;
use alluvium_bench::workload::phase::Task;
use anyhow::Result;

const LENGTHS: [u32; 6] = [1, 10, 100, 1000, 10_000, 100_000];

const AXIS: Axis = Axis {
    name: "records of a scan",
    form: Form::Logarithmic,
};

const MIB: f64 = (1u64 << 20) as f64;

/// The device's advertised sequential bandwidth: 2.6 GiB a second.
const SEQUENTIAL: f64 = 2.6 * 1024.0;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "seed-0/S9",
    title: "Scans of 1 to 100,000 records",
    shows: "Short scans cost a search in every branch of a path; from a thousand records on, scans run at the device's bandwidth.",
    section: "§3.7.6",
    figure: "Figure 3.10",
    setting: SETTING,
    differs: &[
        MACHINE,
        THREADS,
        TENTH,
        "The document does ten million scans of 1, 10 and 100 records, and fewer of longer ones; ours scans each length for a time.",
        "Scans begin at records that are drawn uniformly; the document does not say how they are drawn.",
        "A scan of more records than there are behind its first one ends with the last; few records make long scans short.",
    ],
    measures: &[
        Measure {
            name: "bandwidth of scans",
            unit: "MiB of keys and values a second",
            axis: AXIS,
            published: &[Published {
                name: "SplinterDB",
                section: "§3.7.6",
                points: &[
                    at(1.0, Value::Said("low, and grows almost linearly with the length")),
                    at(100.0, Value::Derived(0.5 * SEQUENTIAL)),
                    at(1000.0, Value::Derived(0.91 * SEQUENTIAL)),
                    at(100_000.0, Value::Said("approaches the device's bandwidth")),
                ],
            }],
            note: "Derived: nearly half, and 91 %, of the device's advertised 2.6 GiB a second.",
            ours: |measured| by_length(measured, bandwidth),
        },
        Measure {
            name: "scans",
            unit: "scans a second",
            axis: AXIS,
            published: &[],
            note: "The document states no number.",
            ours: |measured| by_length(measured, |row| (row.operations > 0).then_some(row.ops_per_s)),
        },
    ],
    work: Work::Engines(Engines {
        quick: QUICK,
        full: FULL,
        steps,
    }),
};

fn phase_of(length: u32) -> String {
    format!("scan {length}")
}

fn bandwidth(row: &Row) -> Option<f64> {
    let read = row.user_bytes - row.user_written_bytes;
    (row.seconds > 0.0 && row.operations > 0).then(|| read as f64 / MIB / row.seconds)
}

fn by_length(measured: &Measured, figure: impl Fn(&Row) -> Option<f64>) -> Vec<Line> {
    let names = LENGTHS.map(phase_of);
    let phases: Vec<(&str, At)> = names
        .iter()
        .zip(LENGTHS)
        .map(|(name, length)| (name.as_str(), At::Number(f64::from(length))))
        .collect();
    measured.by_phase(&phases, figure)
}

/// All lengths are scanned in one store: loading it again for each would change nothing.
fn steps(base: &Base) -> Result<Vec<Step>> {
    let phases = LENGTHS.map(|length| format!("e:uniform+exactly={length}"));
    let mut texts = vec!["load"];
    texts.extend(phases.iter().map(String::as_str));
    let mut step = base.step(name("scans"), &texts)?;
    for (phase, length) in step.job.phases.iter_mut().skip(1).zip(LENGTHS) {
        phase.name = phase_of(length);
        // Nothing is inserted: the length alone changes.
        if let Task::Mix { mix, .. } = &mut phase.task {
            mix.scan += mix.insert;
            mix.insert = 0;
        }
    }
    Ok(vec![step])
}
