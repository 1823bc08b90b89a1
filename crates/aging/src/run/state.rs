//! The state of a run, a small file from which an interrupted run continues.

use super::plan::AgingPlan;
use crate::measure::slowdown::SeekModel;
use crate::{Error, ErrorContext, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Name of the file in the directory of the output.
pub const FILE: &str = "state.json";

/// Version of the file.
const FORMAT: u32 = 1;

/// Whether a tree was aged by the workload or copied to a new file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TreeAge {
    Aged,
    Unaged,
}

/// A measurement of a tree. Values that the file system or the machine does not offer are `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgingRow {
    pub step: u64,
    pub age: TreeAge,
    pub files: u64,
    /// Size of the tree on ext4, by which costs are divided.
    pub ext4_bytes: u64,
    pub seconds: f64,
    pub seconds_per_gib: f64,
    /// Requests and bytes that the test read from the device.
    pub read_requests: Option<u64>,
    pub read_bytes: Option<u64>,
    /// Bytes that the workload wrote to the device since the previous measurement.
    pub written_bytes: Option<u64>,
    /// Dynamic layout score over requests and over blocks of 4 KiB.
    pub request_score: Option<f64>,
    pub block_score: Option<f64>,
    /// Requests that did not continue the previous one.
    pub seeks: Option<u64>,
    /// Static layout score of files and of the tree, and the degree of fragmentation.
    pub layout_score: Option<f64>,
    pub tree_score: Option<f64>,
    pub fragmentation: Option<f64>,
    /// Time that the model predicts with the costs that were measured on this machine.
    pub predicted_s: Option<f64>,
    /// Time that the model gives for the disk of the source. It was not measured.
    pub modelled_disk_s: Option<f64>,
}

impl AgingRow {
    /// Returns the score by which trees are compared: the dynamic one over blocks, or, if requests
    /// of the device are unknown, the static one of the tree. `None` if the device read nothing.
    #[must_use]
    pub fn score(&self) -> Option<f64> {
        match self.read_requests {
            Some(_) => self.block_score,
            None => self.tree_score,
        }
    }
}

/// One file system of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesState {
    /// Last step that the file system contains, if it was unmounted in order after it.
    pub completed_step: Option<u64>,
    /// Checksum of the tree after the last step.
    pub final_checksum: Option<u64>,
    pub rows: Vec<AgingRow>,
}

impl SeriesState {
    /// Returns the row of a step.
    #[must_use]
    pub fn row(&self, step: u64, age: TreeAge) -> Option<&AgingRow> {
        self.rows.iter().find(|row| row.step == step && row.age == age)
    }

    /// Returns whether both trees of a step have been measured.
    #[must_use]
    pub fn has_measured(&self, step: u64) -> bool {
        [TreeAge::Aged, TreeAge::Unaged]
            .iter()
            .all(|age| self.row(step, *age).is_some())
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    format: u32,
    pub plan: AgingPlan,
    /// Costs of reads on this machine.
    pub model: Option<SeekModel>,
    /// By the name of the file system.
    pub series: BTreeMap<String, SeriesState>,
}

impl RunState {
    #[must_use]
    pub fn new(plan: AgingPlan) -> RunState {
        RunState {
            format: FORMAT,
            plan,
            model: None,
            series: BTreeMap::new(),
        }
    }

    /// Reads the state of an earlier run from a directory, or begins a new one.
    ///
    /// # Errors
    /// [`Error::Refused`] if the earlier run had another plan, or if its state cannot be read.
    pub fn open(directory: &Path, plan: AgingPlan) -> Result<RunState> {
        let path = directory.join(FILE);
        if !path.exists() {
            return Ok(RunState::new(plan));
        }
        let state = RunState::read(directory)?;
        match state.plan == plan {
            true => Ok(state),
            false => Err(Error::Refused(format!(
                "{} is of a run with other options: give the same options to continue it, choose another directory, or begin again with \
                 --restart",
                path.display()
            ))),
        }
    }

    /// Reads the state of a run.
    ///
    /// # Errors
    /// I/O errors, or the file is not a state of this version.
    pub fn read(directory: &Path) -> Result<RunState> {
        let path = directory.join(FILE);
        let text = fs::read(&path).at("reading", &path)?;
        let unreadable = |why: String| {
            Error::Refused(format!(
                "{} is not a state of `alluvium aging`: {why}; begin again with --restart",
                path.display()
            ))
        };
        let state: RunState = serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
        match state.format {
            FORMAT => Ok(state),
            other => Err(unreadable(format!("it has version {other}, not {FORMAT}"))),
        }
    }

    /// Writes the state to a new file, which then takes the place of the old one.
    ///
    /// # Errors
    /// I/O errors.
    pub fn save(&self, directory: &Path) -> Result<()> {
        let (path, new) = (directory.join(FILE), directory.join("state.json.new"));
        let text = serde_json::to_vec_pretty(self).expect("the maps have text as keys");
        fs::write(&new, text).at("writing", &new)?;
        fs::rename(&new, &path).at("renaming to", &path)
    }

    /// Returns the state of a file system, which is empty at first.
    pub fn series_mut(&mut self, name: &str) -> &mut SeriesState {
        self.series.entry(name.to_owned()).or_default()
    }
}
