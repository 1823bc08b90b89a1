//! The recursive grep test: reads all files of a tree in the order of its directories, and searches
//! them for a text (Conway 2020, §4.4).

use super::cold::for_each_file;
use crate::error::is_installed;
use crate::{Error, ErrorContext, Result, StopRequest};
use memchr::memmem::Finder;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The text that is searched unless the caller has another one. No workload writes it.
pub const NEEDLE: &str = "alluvium aging: a text that no file contains";

/// Length of each read in bytes, as that of GNU grep.
const READ_BYTES: usize = 96 << 10;

/// How often a running program is checked for a request to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Who reads the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrepReader {
    /// The program `grep`, as a user starts it.
    Program,
    /// This process, in the same order and with reads of the same length.
    Builtin,
}

impl GrepReader {
    /// Returns the program if it is installed.
    #[must_use]
    pub fn preferred() -> GrepReader {
        match is_installed("grep") {
            true => GrepReader::Program,
            false => GrepReader::Builtin,
        }
    }
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GrepOutcome {
    pub seconds: f64,
    /// Number of files that contain the text.
    pub matches: u64,
}

/// Searches all files of a tree.
///
/// # Errors
/// I/O errors, or the job was stopped.
pub fn grep(root: &Path, needle: &str, reader: GrepReader, stop: StopRequest<'_>) -> Result<GrepOutcome> {
    match reader {
        GrepReader::Program => by_program(root, needle, stop),
        GrepReader::Builtin => {
            let began = Instant::now();
            Ok(GrepOutcome {
                matches: by_reading(root, needle.as_bytes(), stop)?,
                seconds: began.elapsed().as_secs_f64(),
            })
        }
    }
}

fn by_program(root: &Path, needle: &str, stop: StopRequest<'_>) -> Result<GrepOutcome> {
    let began = Instant::now();
    let child = Command::new("grep")
        .args(["-r", "-a", "-l", "-F", "-e", needle, "--"])
        .arg(root)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .at("starting grep for", root)?;
    let (pid, has_ended, is_stopped) = (
        Pid::from_child(&child),
        AtomicBool::new(false),
        AtomicBool::new(false),
    );
    let (output, seconds) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !has_ended.load(Ordering::Acquire) {
                if stop() {
                    is_stopped.store(true, Ordering::Release);
                    // It may have ended by itself.
                    let _ = kill_process(pid, Signal::TERM);
                    return;
                }
                std::thread::park_timeout(LOOK);
            }
        });
        let output = child.wait_with_output();
        let seconds = began.elapsed().as_secs_f64();
        has_ended.store(true, Ordering::Release);
        watcher.thread().unpark();
        (output, seconds)
    });
    let output = output.at("waiting for grep in", root)?;
    if is_stopped.load(Ordering::Acquire) {
        return Err(Error::Stopped);
    }
    match output.status.code() {
        Some(0 | 1) => Ok(GrepOutcome {
            seconds,
            matches: output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64,
        }),
        _ => Err(Error::Program {
            command: format!("grep -r {}", root.display()),
            output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        }),
    }
}

fn by_reading(root: &Path, needle: &[u8], stop: StopRequest<'_>) -> Result<u64> {
    let finder = Finder::new(needle);
    let mut buffer = vec![0; READ_BYTES + needle.len()];
    let mut matches = 0;
    for_each_file(root, stop, &mut |path| {
        matches += u64::from(contains(path, &finder, &mut buffer)?);
        Ok(())
    })?;
    Ok(matches)
}

/// Reads a whole file, and returns whether it contains the text.
fn contains(path: &Path, finder: &Finder<'_>, buffer: &mut [u8]) -> Result<bool> {
    let mut file = File::open(path).at("opening", path)?;
    let overlap = finder.needle().len().saturating_sub(1);
    let (mut kept, mut is_found) = (0, false);
    loop {
        let length = file
            .read(&mut buffer[kept..kept + READ_BYTES])
            .at("reading", path)?;
        if length == 0 {
            return Ok(is_found);
        }
        let filled = kept + length;
        is_found |= finder.find(&buffer[..filled]).is_some();
        // A match may begin in one read and end in the next one.
        kept = overlap.min(filled);
        buffer.copy_within(filled - kept..filled, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_readers_find_the_same_files() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        std::fs::create_dir(root.join("sub")).unwrap();
        let mut long = vec![0; 3 * READ_BYTES];
        // The match crosses the end of the first read.
        long[READ_BYTES - 2..READ_BYTES + 3].copy_from_slice(b"river");
        std::fs::write(root.join("sub/long"), &long).unwrap();
        std::fs::write(root.join("short"), "a river\n").unwrap();
        std::fs::write(root.join("other"), "a lake\n").unwrap();
        std::fs::write(root.join("empty"), "").unwrap();
        let count = |reader| grep(root, "river", reader, &|| false).unwrap().matches;
        assert_eq!(count(GrepReader::Builtin), 2);
        if GrepReader::preferred() == GrepReader::Program {
            assert_eq!(count(GrepReader::Program), 2);
        }
    }

    #[test]
    fn a_request_to_stop_ends_either_reader() {
        let place = tempfile::tempdir().unwrap();
        let reader = GrepReader::preferred();
        let stopped = grep(place.path(), NEEDLE, GrepReader::Builtin, &|| true).unwrap_err();
        assert!(matches!(stopped, Error::Stopped));
        // The program may have ended before the request was seen.
        let either = grep(place.path(), NEEDLE, reader, &|| true);
        assert!(matches!(
            either,
            Err(Error::Stopped) | Ok(GrepOutcome { matches: 0, .. })
        ));
    }
}
