//! A synthetic history of a repository: many files of source-like text, changed by many commits.

use super::text::{generator, random_lines};
use crate::{Error, Result, StopRequest, check_stop};
use std::io::{self, BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Part of the seed.
const COMMITS: u64 = u64::MAX - 5;

/// Time of the first commit in seconds since 1970.
const EPOCH: u64 = 1_500_000_000;

/// Median length of new files in bytes.
const MEDIAN: f64 = 4096.0;
const MOST_BYTES: usize = 64 << 10;

/// The size of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryParameters {
    pub commits: u64,
    /// Files of the first commit.
    pub files: u64,
    /// Files that each later commit changes. It also adds a quarter as many and removes an eighth.
    pub changes: u64,
    pub seed: u64,
}

struct HistoryFile {
    path: String,
    text: Vec<u8>,
}

/// The files at a commit.
struct HistoryState {
    random: fastrand::Rng,
    files: Vec<HistoryFile>,
    created: u64,
}

impl HistoryState {
    fn new(seed: u64) -> HistoryState {
        HistoryState {
            random: generator(seed, COMMITS),
            files: Vec::new(),
            created: 0,
        }
    }

    /// Adds a file. Lengths are log-normal, as those of sources are.
    fn add(&mut self) -> &HistoryFile {
        let normal: f64 = (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0;
        let length = ((MEDIAN * normal.exp()) as usize).clamp(16, MOST_BYTES);
        let (area, part) = (self.random.u64(..12), self.random.u64(..24));
        let path = format!("area-{area:02}/part-{part:02}/source-{:05}.c", self.created);
        self.created += 1;
        let text = random_lines(&mut self.random, length);
        self.files.push(HistoryFile { path, text });
        self.files.last().expect("a file was added")
    }

    /// Chooses a file; some are changed much more often than others.
    fn choose(&mut self) -> usize {
        let share = self.random.f64().powi(3);
        ((share * self.files.len() as f64) as usize).min(self.files.len() - 1)
    }

    /// Replaces a part of a file by another one, which may be longer or shorter.
    fn change(&mut self) -> &HistoryFile {
        let at = self.choose();
        let length = self.files[at].text.len();
        let begin = self.random.usize(..=length);
        let end = (begin + self.random.usize(..400)).min(length);
        let added = self.random.usize(1..440);
        let lines = random_lines(&mut self.random, added);
        let file = &mut self.files[at];
        file.text.splice(begin..end, lines);
        file.text.truncate(MOST_BYTES);
        file
    }
}

/// Writes a history to a branch of an empty repository.
///
/// # Errors
/// An error of `git fast-import`, or the job was stopped.
pub fn import_history(
    repository: &Path,
    branch: &str,
    history: &HistoryParameters,
    stop: StopRequest<'_>,
) -> Result<()> {
    let mut child = Command::new("git")
        .arg("--git-dir")
        .arg(repository)
        .args(["fast-import", "--quiet", "--done"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let input = child.stdin.take().expect("it is piped");
    let written = write_stream(&mut BufWriter::new(input), branch, history, stop);
    let ended = wait(child);
    match written {
        Ok(is_complete) => {
            ended?;
            match is_complete {
                true => Ok(()),
                false => check_stop(stop).and(Err(Error::Stopped)),
            }
        }
        // A program that ends early says why by itself.
        Err(error) => ended.and(Err(failed(error.to_string()))),
    }
}

fn failed(output: String) -> Error {
    Error::Program {
        command: "git fast-import".to_owned(),
        output,
    }
}

fn wait(child: Child) -> Result<()> {
    let output = child
        .wait_with_output()
        .map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Writes the stream of all commits. Returns whether it is complete.
fn write_stream(
    out: &mut impl Write,
    branch: &str,
    history: &HistoryParameters,
    stop: StopRequest<'_>,
) -> io::Result<bool> {
    let mut state = HistoryState::new(history.seed);
    for commit in 0..history.commits.max(1) {
        if stop() {
            return Ok(false);
        }
        let message = format!("change {commit}");
        writeln!(out, "commit {branch}")?;
        writeln!(out, "committer A <a@example.org> {} +0000", EPOCH + commit * 3600)?;
        write!(out, "data {}\n{message}\n", message.len())?;
        let (added, changed, removed) = match commit {
            0 => (history.files.max(1), 0, 0),
            _ => (history.changes.div_ceil(4), history.changes, history.changes / 8),
        };
        for _ in 0..added {
            write_file(out, state.add())?;
        }
        for _ in 0..changed {
            write_file(out, state.change())?;
        }
        for _ in 0..removed.min(state.files.len() as u64 - 1) {
            let at = state.random.usize(..state.files.len());
            let removed = state.files.swap_remove(at);
            writeln!(out, "D {}", removed.path)?;
        }
    }
    writeln!(out, "done")?;
    out.flush()?;
    Ok(true)
}

fn write_file(out: &mut impl Write, file: &HistoryFile) -> io::Result<()> {
    write!(out, "M 100644 inline {}\ndata {}\n", file.path, file.text.len())?;
    out.write_all(&file.text)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(seed: u64) -> Vec<u8> {
        let history = HistoryParameters {
            commits: 5,
            files: 20,
            changes: 8,
            seed,
        };
        let mut out = Vec::new();
        assert!(write_stream(&mut out, "refs/heads/main", &history, &|| false).unwrap());
        out
    }

    #[test]
    fn a_seed_makes_one_history_and_each_commit_adds_changes_and_removes() {
        assert_eq!(stream(1), stream(1));
        assert_ne!(stream(1), stream(2));
        let text = String::from_utf8(stream(1)).unwrap();
        let count = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(count("commit "), 5);
        assert_eq!(count("M 100644 inline "), 20 + 4 * (8 + 2));
        assert_eq!(count("D area-"), 4);
        assert!(text.ends_with("done\n"));
    }
}
