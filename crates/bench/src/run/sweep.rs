//! Sweeps, which vary one parameter from point to point and keep all others constant.

use super::EngineJob;
use crate::workload::phase::{MOST_RECORDS, MOST_THREADS, PhaseDefaults, PhaseTask, WorkloadPhase};
use crate::workload::values;
use anyhow::{Result, bail};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterSweep {
    /// Varies the percentage of records that are loaded in key order.
    Sequential,
    /// Varies the number of threads. The phases load, read and update records.
    Threads,
    /// Varies the number of records that each scan reads.
    Scan,
    /// Varies the length of values in bytes, with the same amount of data.
    Value,
    /// Varies the memory limit, as a percentage of the data.
    Memory,
    /// Varies the number of records. The memory limit grows with it, so the memory per record is
    /// constant.
    Records,
}

/// A point of a sweep: its name and its job.
#[derive(Clone, Debug)]
pub struct ParameterPoint {
    /// The name of the point, for example `threads 2`.
    pub name: String,
    pub job: EngineJob,
}

/// All sweeps: their names, and the parameter's default values.
pub const SWEEPS: [(&str, ParameterSweep, &[u64]); 6] = [
    ("sequential", ParameterSweep::Sequential, &[0, 25, 50, 75, 100]),
    ("threads", ParameterSweep::Threads, &[1, 2, 4]),
    ("scan", ParameterSweep::Scan, &[1, 10, 100, 1000, 10_000, 100_000]),
    (
        "value",
        ParameterSweep::Value,
        &[16, 100, 1000, 1024, 4096, 16_384],
    ),
    ("memory", ParameterSweep::Memory, &[5, 10, 25, 50, 100]),
    (
        "records",
        ParameterSweep::Records,
        &[1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000],
    ),
];

impl ParameterSweep {
    /// Returns the points of a sweep, with all other parameters from `job`.
    ///
    /// # Errors
    /// Returns an error if a value of the parameter is invalid.
    pub fn points(
        self,
        values: &[u64],
        job: &EngineJob,
        defaults: PhaseDefaults,
    ) -> Result<Vec<ParameterPoint>> {
        if values.is_empty() {
            bail!("a sweep needs at least one point");
        }
        let points = values
            .iter()
            .map(|&value| self.point(value, job, defaults))
            .collect::<Result<Vec<ParameterPoint>>>()?;
        if self != ParameterSweep::Scan {
            return Ok(points);
        }
        // All scan lengths use one store, because loading it again for each would change nothing.
        let mut all = job.clone();
        all.phases = points.into_iter().flat_map(|point| point.job.phases).collect();
        Ok(vec![ParameterPoint {
            name: "scans".into(),
            job: all,
        }])
    }

    fn point(self, value: u64, job: &EngineJob, defaults: PhaseDefaults) -> Result<ParameterPoint> {
        let phases = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| WorkloadPhase::parse(text, defaults))
                .collect::<Result<Vec<_>>>()
        };
        let mut job = job.clone();
        if value == 0 && self != ParameterSweep::Sequential {
            bail!("a point of 0 measures nothing: give points above 0");
        }
        let most = match self {
            ParameterSweep::Threads => MOST_THREADS as u64,
            ParameterSweep::Records => MOST_RECORDS,
            ParameterSweep::Value => values::MOST as u64,
            ParameterSweep::Memory => MOST_PERCENT,
            ParameterSweep::Sequential | ParameterSweep::Scan => u64::MAX,
        };
        if value > most {
            bail!("a point of {value} is too large: the limit is {most}");
        }
        let name = match self {
            ParameterSweep::Sequential => {
                if value > 100 {
                    bail!("{value} % of the records in order: give at most 100");
                }
                job.keys.sequential_percent = value as u8;
                job.phases = phases(&["load"])?;
                format!("{value} % in order")
            }
            ParameterSweep::Threads => {
                job.threads = value as usize;
                job.phases = phases(&["load", "c:uniform", "c", "a"])?;
                format!("{value} threads")
            }
            ParameterSweep::Scan => {
                job.phases = phases(&[&format!("e:uniform+exactly={value}")])?;
                scans_only(&mut job.phases);
                format!("scans of {value}")
            }
            ParameterSweep::Value => {
                let data = job.records * job.record_bytes();
                job.value_bytes = value as usize;
                job.records = (data / job.record_bytes()).max(1);
                job.phases = phases(&["load", "c:uniform", "e"])?;
                format!("values of {value} bytes")
            }
            ParameterSweep::Memory => {
                let data = job.records * job.record_bytes();
                job.cap = (data / 100 * value).max(LEAST_CAP);
                job.phases = phases(&["load", "c:uniform", "c"])?;
                format!("memory {value} % of the data")
            }
            ParameterSweep::Records => {
                let part =
                    |memory: u64| (u128::from(memory) * u128::from(value) / u128::from(job.records)) as u64;
                job.cap = part(job.cap).max(LEAST_CAP);
                job.memory = job.memory.map(part);
                job.records = value;
                job.phases = phases(&["load", "c:uniform", "c"])?;
                format!("{value} records")
            }
        };
        for phase in &mut job.phases {
            phase.name = format!("{name}: {}", phase.name);
        }
        Ok(ParameterPoint { name, job })
    }
}

/// Maximum memory limit, as a percentage of the data.
const MOST_PERCENT: u64 = 10_000;

/// Smallest memory limit in bytes that works for all engines.
const LEAST_CAP: u64 = 48 << 20;

/// Replaces inserts by scans, so that only the scan length varies.
fn scans_only(phases: &mut [WorkloadPhase]) {
    for phase in phases {
        if let PhaseTask::Mix { mix, .. } = &mut phase.task {
            mix.scan += mix.insert;
            mix.insert = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::phase::{ScanLengths, WindowLength};

    const NOTHING: PhaseDefaults = PhaseDefaults {
        warm: WindowLength::Operations(0),
        run: WindowLength::Operations(10),
        rate: None,
    };

    fn points(sweep: ParameterSweep, values: &[u64]) -> Vec<ParameterPoint> {
        sweep.points(values, &EngineJob::tiny(), NOTHING).unwrap()
    }

    #[test]
    fn one_thing_changes() {
        let base = EngineJob::tiny();
        let all = points(ParameterSweep::Sequential, &[0, 50, 100]);
        let percents: Vec<u8> = all
            .iter()
            .map(|point| point.job.keys.sequential_percent)
            .collect();
        assert_eq!(percents, [0, 50, 100]);
        let scans = points(ParameterSweep::Scan, &[10, 1000]);
        assert_eq!((scans.len(), scans[0].job.phases.len()), (1, 2));
        let scans = &scans[0].job.phases[1];
        assert_eq!(scans.scan, ScanLengths::Exactly(1000));
        assert!(matches!(scans.task, PhaseTask::Mix { mix, .. } if mix.scan == 100 && mix.insert == 0));
        assert_eq!(points(ParameterSweep::Threads, &[4])[0].job.threads, 4);
        let values = &points(ParameterSweep::Value, &[1000])[0].job;
        let (data, of_base) = (
            values.records * values.record_bytes(),
            base.records * base.record_bytes(),
        );
        assert!(data <= of_base && data + values.record_bytes() > of_base);
        let memory = points(ParameterSweep::Memory, &[5, 100]);
        assert_eq!(memory[0].job.cap, LEAST_CAP);
        let mut base = base;
        (base.cap, base.memory) = (64 << 20, Some(50 << 20));
        let records = &ParameterSweep::Records.points(&[20_000], &base, NOTHING).unwrap()[0].job;
        assert_eq!(
            (records.records, records.cap, records.memory),
            (20_000, 128 << 20, Some(100 << 20))
        );
        assert!(ParameterSweep::Memory.points(&[0], &base, NOTHING).is_err());
        assert!(ParameterSweep::Sequential.points(&[101], &base, NOTHING).is_err());
        for (sweep, most) in [
            (ParameterSweep::Threads, 1024),
            (ParameterSweep::Records, 50_000_000_000),
            (ParameterSweep::Value, 64 << 20),
        ] {
            assert!(sweep.points(&[most], &base, NOTHING).is_ok());
            let error = sweep.points(&[most + 1], &base, NOTHING).unwrap_err();
            assert!(error.to_string().contains("the limit is"), "{error}");
        }
    }

    #[test]
    fn phases_of_points_have_names_of_their_own() {
        let mut names: Vec<String> = points(ParameterSweep::Threads, &[1, 2])
            .iter()
            .flat_map(|point| point.job.phases.iter().map(|phase| phase.name.clone()))
            .collect();
        assert_eq!(names[0], "1 threads: load");
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
