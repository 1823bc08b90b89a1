//! A mount of an Alluvium store, made by the binary `alluvium` in a process of its own.

use super::mounts;
use crate::{Error, ErrorContext, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Maximum time to wait until the files are shown, or until the process has ended.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(10);

/// How stores are mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnProgram {
    /// The binary `alluvium`.
    pub binary: PathBuf,
    /// Memory limit of the store in bytes.
    pub memory: u64,
}

/// A running `alluvium mount`. The process is ended when the handle is dropped.
#[derive(Debug)]
pub(super) struct OwnMount {
    child: Child,
    directory: PathBuf,
    log: PathBuf,
}

impl OwnMount {
    /// Mounts the files of a store, which is created if it does not exist, and waits until they are
    /// shown. What the process prints is in the file `log`.
    pub(super) fn start(
        program: &OwnProgram,
        store: &Path,
        directory: &Path,
        log: PathBuf,
    ) -> Result<OwnMount> {
        let errors = File::create(&log).at("creating", &log)?;
        // A process group of its own: Ctrl-C ends the run first, which then ends the mount.
        let child = Command::new(&program.binary)
            .arg("--db")
            .arg(store)
            .args(["--memory", &program.memory.to_string(), "mount"])
            .arg(directory)
            .env_remove("ALLUVIUM_DB")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .process_group(0)
            .spawn()
            .at("starting", &program.binary)?;
        let mut mount = OwnMount {
            child,
            directory: directory.to_owned(),
            log,
        };
        let began = Instant::now();
        while mounts::find(directory)?.is_none() {
            let ended = mount
                .child
                .try_wait()
                .at("waiting for the mount of", &mount.directory)?;
            if ended.is_some() || began.elapsed() > PATIENCE {
                return Err(mount.failure("did not show the files"));
            }
            std::thread::sleep(LOOK);
        }
        Ok(mount)
    }

    fn failure(&self, what: &str) -> Error {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        Error::Program {
            command: format!("alluvium mount {}", self.directory.display()),
            output: format!("it {what}: {}", said.trim()),
        }
    }

    /// Unmounts, and waits until the store is closed.
    pub(super) fn stop(mut self) -> Result<()> {
        match self.end()? {
            status if status.success() => Ok(()),
            status => Err(self.failure(&format!("ended with {status}"))),
        }
    }

    fn end(&mut self) -> Result<ExitStatus> {
        let waiting = "waiting for the mount of";
        if let Some(status) = self.child.try_wait().at(waiting, &self.directory)? {
            return Ok(status);
        }
        // It may end by itself at this moment.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().at(waiting, &self.directory)? {
                return Ok(status);
            }
            if began.elapsed() > PATIENCE {
                let _ = self.child.kill();
                return self.child.wait().at(waiting, &self.directory);
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for OwnMount {
    fn drop(&mut self) {
        let _ = self.end();
        let _ = mounts::detach(&self.directory);
    }
}
