//! A repository that is pulled again and again (Conway 2020, §4.7). Git writes objects, packs and
//! working files, in sizes and an order that it chooses.

use super::history::{HistoryParameters, import_history};
use super::{AgingWorkload, StepRelation};
use crate::error::run_command;
use crate::{Error, ErrorContext, Result, StopRequest};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Branch of a synthetic history.
const HISTORY: &str = "refs/heads/history";
/// Branch that is pulled. Each step moves it.
const PULLED: &str = "refs/heads/pulled";
/// Name of the clone on the file system that ages.
const CLONE: &str = "repository";
/// File in the origin that says what it contains, once it is complete.
const MARKER: &str = "aging-origin";

/// Whether Git collects garbage by itself after pulls, as it does for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GarbageCollection {
    On,
    Off,
}

/// Where commits come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistorySource {
    Synthetic(HistoryParameters),
    /// A repository, of which the first parents of HEAD are pulled, from the first commit.
    Repository(PathBuf),
}

/// Pulls from an origin that lies on another file system.
#[derive(Clone, Debug)]
pub struct GitWorkload {
    origin: PathBuf,
    commits: Vec<String>,
    collection: GarbageCollection,
}

/// Returns a command that does not depend on the user's configuration.
fn git<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new("git");
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C")
        .env_remove("GIT_DIR")
        .args(["-c", "safe.directory=*", "-c", "protocol.file.allow=always"])
        .args(arguments);
    command
}

impl GitWorkload {
    /// Makes the origin in the directory `work`, unless it is there already from an earlier run
    /// with the same source.
    ///
    /// # Errors
    /// An error of Git, the source has no commits, or the job was stopped.
    pub fn prepare(
        work: &Path,
        source: &HistorySource,
        collection: GarbageCollection,
        stop: StopRequest<'_>,
    ) -> Result<GitWorkload> {
        let work = fs::canonicalize(work).at("finding", work)?;
        let origin = work.join("origin.git");
        let marker = origin.join(MARKER);
        let contents = format!("{source:?}\n");
        if fs::read_to_string(&marker).ok().as_ref() != Some(&contents) {
            make_origin(&origin, &marker, source, stop)?;
            fs::write(&marker, contents).at("writing", &marker)?;
        }
        let range = match source {
            HistorySource::Synthetic(_) => HISTORY,
            HistorySource::Repository(_) => "HEAD",
        };
        let mut command = git(["--git-dir".as_ref(), origin.as_os_str()]);
        command.args(["rev-list", "--reverse", "--first-parent", range]);
        let commits: Vec<String> = run_command(command)?.lines().map(str::to_owned).collect();
        match commits.is_empty() {
            true => Err(Error::Refused("the repository has no commits to pull".to_owned())),
            false => Ok(GitWorkload {
                origin,
                commits,
                collection,
            }),
        }
    }

    /// Returns the number of commits, which limits the number of pulls.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.commits.len() as u64
    }

    fn pull(&self, clone: &Path, step: u64) -> Result<()> {
        let commit = self.commits.get(step as usize).ok_or_else(|| {
            Error::Refused(format!(
                "the history has {} commits, so there is no pull {step}: choose fewer --steps",
                self.commits.len()
            ))
        })?;
        let mut command = git(["--git-dir".as_ref(), self.origin.as_os_str()]);
        command.args(["update-ref", PULLED, commit]);
        run_command(command)?;
        let mut command = git(["-C".as_ref(), clone.as_os_str()]);
        command.args(["pull", "-q", "--ff-only", "origin", PULLED]);
        run_command(command).map(drop)
    }
}

/// Makes the origin. One that is incomplete is removed first.
fn make_origin(origin: &Path, marker: &Path, source: &HistorySource, stop: StopRequest<'_>) -> Result<()> {
    if origin.exists() {
        if !marker.exists() {
            return Err(Error::Refused(format!(
                "{} exists and was not made by `alluvium aging`: choose another directory",
                origin.display()
            )));
        }
        fs::remove_dir_all(origin).at("removing", origin)?;
    }
    fs::create_dir_all(origin).at("creating", origin)?;
    fs::write(marker, "incomplete\n").at("writing", marker)?;
    let mut command = git(["init", "-q", "--bare"]);
    command.arg(origin);
    run_command(command)?;
    match source {
        HistorySource::Synthetic(history) => import_history(origin, HISTORY, history, stop),
        HistorySource::Repository(repository) => {
            let repository = fs::canonicalize(repository).at("finding", repository)?;
            let mut command = git(["--git-dir".as_ref(), origin.as_os_str()]);
            command.args(["fetch", "-q", "--no-tags"]);
            command.arg(&repository).arg(format!("HEAD:{HISTORY}"));
            run_command(command)?;
            let mut command = git(["--git-dir".as_ref(), origin.as_os_str()]);
            command.args(["symbolic-ref", "HEAD", HISTORY]);
            run_command(command).map(drop)
        }
    }
}

impl AgingWorkload for GitWorkload {
    fn relation(&self) -> StepRelation {
        StepRelation::Cumulative
    }

    fn perform(&mut self, root: &Path, step: u64, _: StopRequest<'_>) -> Result<()> {
        let clone = root.join(CLONE);
        if step == 0 {
            let mut command = git(["init", "-q", "-b", "main"]);
            command.arg(&clone);
            run_command(command)?;
            let url = format!("file://{}", self.origin.display());
            // Collection in the foreground ends within the step that causes it.
            let automatic = match self.collection {
                GarbageCollection::On => "6700",
                GarbageCollection::Off => "0",
            };
            for (name, value) in [
                ("remote.origin.url", &*url),
                ("gc.auto", automatic),
                ("gc.autoDetach", "false"),
                ("maintenance.autoDetach", "false"),
            ] {
                let mut command = git(["-C".as_ref(), clone.as_os_str()]);
                command.args(["config", name, value]);
                run_command(command)?;
            }
        }
        self.pull(&clone, step)
    }

    fn skip(&mut self, _: u64) {}
}
