//! The workload and the machine, as specified on the command line.

use crate::terminal::exit::{CommandExit, failure};
use crate::values::sizes::{self, ByteSize};
use crate::verbs::probe;
use alluvium_model::BadParameter;
use alluvium_model::presets::PROFILES;
use alluvium_model::probe::ProbeConclusions;
use alluvium_model::structures::{MachineProfile, OperationRates, WorkloadProfile};
use anyhow::{Error, Result};
use clap::Args;
use std::path::Path;

/// The data of a store, its workload and its device.
#[derive(Args, Clone, Debug)]
pub struct CostModelArgs {
    /// The number of keys.
    #[arg(long, value_name = "N", value_parser = number)]
    pub keys: Option<f64>,
    /// The length of keys in bytes.
    #[arg(long, value_name = "N", value_parser = number)]
    pub key_bytes: Option<f64>,
    /// The length of values in bytes.
    #[arg(long, value_name = "N", value_parser = number)]
    pub value_bytes: Option<f64>,
    /// The skew of the requests: the exponent of Zipf's law, 0 for uniform.
    #[arg(long, value_name = "S", value_parser = number, allow_hyphen_values = true)]
    pub skew: Option<f64>,
    /// The shares of the operations, as in updates=30,hits=60,misses=10; also inserts, deletes,
    /// scans.
    #[arg(long, value_name = "MIX", value_parser = mix)]
    pub mix: Option<OperationRates>,
    /// The number of records that a scan returns.
    #[arg(long, value_name = "N", value_parser = number)]
    pub scan_records: Option<f64>,
    /// The device: hard-disk, network-volume, sata-ssd, nvme-ssd, or a directory or file with the
    /// samples of `alluvium probe`.
    #[arg(long, value_name = "NAME|FILE")]
    pub device: Option<String>,
    /// The bytes that can be written to the device before it is worn out, as in 600T.
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub endurance: Option<ByteSize>,
}

/// Parses a finite number such as `250` or `1e8`.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    let parsed = text.parse::<f64>().ok();
    let wrong = || format!("{text:?} is not a number: write one as in 250 or 1e8");
    parsed.filter(|number| number.is_finite()).ok_or_else(wrong)
}

fn mix(text: &str) -> Result<OperationRates, String> {
    let mut operations = OperationRates {
        inserts: 0.0,
        updates: 0.0,
        deletes: 0.0,
        hits: 0.0,
        misses: 0.0,
        scans: 0.0,
    };
    let mut said = Vec::new();
    for part in text.split(',') {
        let (name, count) = part
            .split_once('=')
            .ok_or_else(|| format!("{part:?} has no \"=\": write a name and a number, as in hits=60"))?;
        let place = match name.trim() {
            "inserts" => &mut operations.inserts,
            "updates" => &mut operations.updates,
            "deletes" => &mut operations.deletes,
            "hits" => &mut operations.hits,
            "misses" => &mut operations.misses,
            "scans" => &mut operations.scans,
            other => {
                return Err(format!(
                    "{other:?} is not an operation: the operations are inserts, updates, deletes, hits, misses, scans"
                ));
            }
        };
        if said.contains(&name.trim()) {
            return Err(format!("{} is given twice: give it once", name.trim()));
        }
        said.push(name.trim());
        *place = number(count.trim())?;
    }
    Ok(operations)
}

impl CostModelArgs {
    /// Returns the workload. Values that the command line does not specify are taken from `seen`.
    pub(crate) fn workload(&self, seen: WorkloadProfile) -> Result<WorkloadProfile> {
        let workload = WorkloadProfile {
            keys: self.keys.unwrap_or(seen.keys),
            key_bytes: self.key_bytes.unwrap_or(seen.key_bytes),
            value_bytes: self.value_bytes.unwrap_or(seen.value_bytes),
            skew: self.skew.unwrap_or(seen.skew),
            operations: self.mix.unwrap_or(seen.operations),
            scan_records: self.scan_records.unwrap_or(seen.scan_records),
            ..seen
        };
        workload.checked().map_err(refused)
    }

    /// Returns the machine. Values that the command line does not specify are taken from the store
    /// at the path `store`.
    pub(crate) fn machine(&self, store: &Path, memory_bytes: f64) -> Result<MachineProfile> {
        let usual = MachineProfile::default();
        let machine = MachineProfile {
            memory_bytes,
            device: match &self.device {
                Some(name) => device(name)?,
                None if probe::is_kept(store) => device(&store.to_string_lossy())?,
                None => usual.device,
            },
            endurance_bytes: self.endurance.map(|bytes| bytes.0 as f64),
            ..usual
        };
        machine.checked().map_err(refused)
    }
}

/// Rephrases an invalid model parameter as an error of the command line.
pub(crate) fn refused(bad: BadParameter) -> Error {
    failure(CommandExit::Usage, bad.to_string())
}

/// Returns the profile of a device. `name` is a known kind of device or the path of measured
/// samples.
fn device(name: &str) -> Result<alluvium::DeviceProfile> {
    let is_meant = |known: &str| known.replace(' ', "-").eq_ignore_ascii_case(name);
    if let Some((_, profile)) = PROFILES.iter().find(|(known, _)| is_meant(known)) {
        return Ok(*profile);
    }
    let measured = probe::read_kept(Path::new(name))?;
    ProbeConclusions::of(&measured).reliable_profile().map_err(|why| {
        failure(
            CommandExit::Damaged,
            format!("the samples in {name} are not reliable: {why}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_mixes_are_read_or_refused_in_words() {
        assert_eq!(number("1e8"), Ok(1e8));
        for bad in ["", "NaN", "inf", "ten"] {
            assert!(number(bad).unwrap_err().contains("not a number"), "{bad}");
        }
        let read = mix("updates=30, hits=60,scans=10").unwrap();
        assert_eq!(
            (read.updates, read.hits, read.scans, read.total()),
            (30.0, 60.0, 10.0, 100.0)
        );
        assert!(mix("reads=3").unwrap_err().contains("not an operation"));
        assert!(mix("hits=1, hits=2").unwrap_err().contains("hits is given twice"));
        assert!(mix("hits").unwrap_err().contains("no \"=\""));
    }

    #[test]
    fn devices_have_names_or_files() {
        assert_eq!(device("nvme-ssd").unwrap(), PROFILES[3].1);
        assert!(device("no-such-file").unwrap_err().to_string().contains("probe"));
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("probe.txt"), "damaged").unwrap();
        let error = device(&place.path().to_string_lossy()).unwrap_err();
        assert_eq!(
            crate::terminal::exit::classify(&error),
            CommandExit::Damaged,
            "{error}"
        );
    }
}
