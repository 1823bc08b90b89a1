//! What a run does. The plan is part of the state, so a run continues only with the same plan.

use crate::workload::AgingWorkload;
use crate::workload::git::{GarbageCollection, GitWorkload, HistorySource};
use crate::workload::history::HistoryParameters;
use crate::workload::interfile::InterfileWorkload;
use crate::workload::intrafile::IntrafileWorkload;
use crate::workload::mail::{MailParameters, MailWorkload};
use crate::{Error, Result, StopRequest};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// The workloads of Conway 2020, chapter 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkloadKind {
    Intrafile,
    Interfile,
    Git,
    Mail,
}

impl WorkloadKind {
    /// Returns the steps of the source: rounds, pulls or days. 2,000 pulls instead of 10,000,
    /// because costs change little after 1,000.
    #[must_use]
    pub fn default_steps(self) -> u64 {
        match self {
            WorkloadKind::Git => 2000,
            _ => 100,
        }
    }

    /// Returns how many steps lie between measurements unless the caller chooses.
    #[must_use]
    pub fn default_interval(self) -> u64 {
        match self {
            WorkloadKind::Git => 100,
            WorkloadKind::Mail => 1,
            WorkloadKind::Intrafile | WorkloadKind::Interfile => 10,
        }
    }

    /// Returns what a step is.
    #[must_use]
    pub fn step_name(self) -> &'static str {
        match self {
            WorkloadKind::Git => "pulls",
            WorkloadKind::Mail => "days",
            WorkloadKind::Intrafile => "passes",
            WorkloadKind::Interfile => "% out of order",
        }
    }
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WorkloadKind::Intrafile => "intrafile",
            WorkloadKind::Interfile => "interfile",
            WorkloadKind::Git => "git",
            WorkloadKind::Mail => "mail",
        })
    }
}

/// The parameters of the workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSettings {
    pub kind: WorkloadKind,
    pub seed: u64,
    /// Last step.
    pub steps: u64,
    /// Steps between measurements.
    pub interval: u64,
    /// Amount of data, in percent of that of the source. It has no effect on `intrafile`.
    pub scale_percent: u64,
    /// Length of the files of `interfile`.
    pub file_bytes: u64,
    /// A tree whose names `interfile` uses.
    pub names: Option<PathBuf>,
    /// A repository that `git` pulls from.
    pub repository: Option<PathBuf>,
    pub collection: GarbageCollection,
}

/// Files of `interfile` at 100 percent, about as many as TensorFlow has.
const INTERFILE_FILES: u64 = 8000;
/// Files of the first commit of a synthetic history at 100 percent, and changes of each later one.
const HISTORY_FILES: u64 = 2000;
const HISTORY_CHANGES: u64 = 16;

impl WorkloadSettings {
    /// Returns the settings of the source, with this seed.
    #[must_use]
    pub fn published(kind: WorkloadKind, seed: u64) -> WorkloadSettings {
        WorkloadSettings {
            kind,
            seed,
            steps: kind.default_steps(),
            interval: kind.default_interval(),
            scale_percent: 100,
            file_bytes: 4096,
            names: None,
            repository: None,
            collection: GarbageCollection::On,
        }
    }

    /// Returns a number at the chosen scale, at least 1.
    fn scaled(&self, number: u64) -> u64 {
        (number * self.scale_percent / 100).max(1)
    }

    /// Makes the workload. `work` is a directory on another file system than those that age.
    ///
    /// # Errors
    /// Steps that the workload does not have, or errors of Git or of I/O.
    pub fn make(&self, work: &Path, stop: StopRequest<'_>) -> Result<Box<dyn AgingWorkload>> {
        let most = match self.kind {
            WorkloadKind::Intrafile | WorkloadKind::Interfile => 100,
            _ => u64::MAX,
        };
        if self.steps > most || self.interval == 0 {
            return Err(Error::Refused(format!(
                "{} has steps 0 to {most}, and at least one step lies between measurements",
                self.kind
            )));
        }
        let file_bytes = usize::try_from(self.file_bytes).unwrap_or(usize::MAX);
        Ok(match (self.kind, &self.names) {
            (WorkloadKind::Intrafile, _) => Box::new(IntrafileWorkload::published(self.seed)),
            (WorkloadKind::Interfile, None) => Box::new(InterfileWorkload::synthetic(
                self.scaled(INTERFILE_FILES),
                file_bytes,
                self.seed,
            )),
            (WorkloadKind::Interfile, Some(tree)) => {
                Box::new(InterfileWorkload::like(tree, file_bytes, self.seed, stop)?)
            }
            (WorkloadKind::Mail, _) => {
                let published = MailParameters::published(self.seed);
                Box::new(MailWorkload::new(MailParameters {
                    messages: self.scaled(published.messages),
                    operations: self.scaled(published.operations),
                    ..published
                }))
            }
            (WorkloadKind::Git, _) => Box::new(self.make_git(work, stop)?),
        })
    }

    fn make_git(&self, work: &Path, stop: StopRequest<'_>) -> Result<GitWorkload> {
        let source = match &self.repository {
            Some(repository) => HistorySource::Repository(repository.clone()),
            None => HistorySource::Synthetic(HistoryParameters {
                commits: self.steps + 1,
                files: self.scaled(HISTORY_FILES),
                changes: self.scaled(HISTORY_CHANGES),
                seed: self.seed,
            }),
        };
        let workload = GitWorkload::prepare(work, &source, self.collection, stop)?;
        match workload.commits() > self.steps {
            true => Ok(workload),
            false => Err(Error::Refused(format!(
                "the history has {} commits, and {} pulls need one more than that: choose fewer --steps",
                workload.commits(),
                self.steps
            ))),
        }
    }

    /// Returns the steps that are measured: the first, the last and those between.
    #[must_use]
    pub fn measured_steps(&self) -> Vec<u64> {
        let mut steps: Vec<u64> = (0..=self.steps).step_by(self.interval.max(1) as usize).collect();
        if steps.last() != Some(&self.steps) {
            steps.push(self.steps);
        }
        steps
    }
}

/// The state of caches when an aged tree is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheMode {
    /// The file system is remounted before each test.
    Cold,
    /// Aged trees are read as the workload left the caches, within a limit of memory that the
    /// caller set for this process. Unaged trees are read cold.
    Warm,
}

/// A run: a workload on several file systems.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgingPlan {
    pub workload: WorkloadSettings,
    /// Names of the file systems. Empty if a directory is aged instead.
    pub file_systems: Vec<String>,
    /// A directory of any file system that is aged, instead of images.
    pub directory: Option<PathBuf>,
    /// Size of each image in bytes. Images are sparse.
    pub image_bytes: u64,
    pub read_ahead_kib: u32,
    pub caches: CacheMode,
    /// Limit of memory of a warm run, in bytes; the caller applies it.
    pub warm_bytes: Option<u64>,
    /// Seconds to wait between the mount and the test.
    pub settle_s: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_step_are_measured() {
        let steps = |steps, interval| {
            WorkloadSettings {
                steps,
                interval,
                ..WorkloadSettings::published(WorkloadKind::Mail, 1)
            }
            .measured_steps()
        };
        assert_eq!(steps(10, 5), [0, 5, 10]);
        assert_eq!(steps(11, 5), [0, 5, 10, 11]);
        assert_eq!(steps(3, 10), [0, 3]);
        assert_eq!(steps(0, 1), [0]);
    }

    #[test]
    fn steps_that_a_workload_does_not_have_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let settings = WorkloadSettings {
            steps: 101,
            ..WorkloadSettings::published(WorkloadKind::Interfile, 1)
        };
        let refused = settings.make(place.path(), &|| false).unwrap_err();
        assert!(refused.to_string().contains("steps 0 to 100"), "{refused}");
    }
}
