//! Errors, and programs of the system that this crate starts.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why a measurement or a run failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// The operation that has failed, such as `reading`.
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A program could not be started, or reported an error.
    #[error("`{command}` failed: {output}")]
    Program { command: String, output: String },
    /// The request would touch what this crate did not make, or contradicts itself.
    #[error("{0}")]
    Refused(String),
    /// The machine does not offer what is needed, such as loop devices.
    #[error("{0}")]
    Unavailable(String),
    /// A signal asked the job to stop.
    #[error("stopped")]
    Stopped,
}

pub type Result<T> = std::result::Result<T, Error>;

/// Adds to an error what was being done, and to which path.
pub(crate) trait ErrorContext<T> {
    /// Names the activity and the path in the error.
    fn at(self, doing: &'static str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> ErrorContext<T> for std::result::Result<T, E> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io {
            doing,
            path: path.to_owned(),
            source: source.into(),
        })
    }
}

/// Runs a program to its end and returns its standard output.
///
/// The program is in a process group of its own, so Ctrl-C on the terminal reaches this process
/// only, which ends its work in order.
pub(crate) fn run_program<S: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Result<String> {
    let mut command = Command::new(program);
    command.args(arguments);
    run_command(command)
}

/// As [`run_program`], for a command with an environment.
pub(crate) fn run_command(mut command: Command) -> Result<String> {
    let failed = |command: &Command, output: String| Error::Program {
        command: shown(command),
        output,
    };
    let output = match command.stdin(Stdio::null()).process_group(0).output() {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name = command.get_program().to_string_lossy().into_owned();
            return Err(Error::Unavailable(format!(
                "the program {name} is not installed, or not in PATH: install the package that contains it"
            )));
        }
        Err(error) => return Err(failed(&command, error.to_string())),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = match said.trim() {
        "" => output.status.to_string(),
        said => said.to_owned(),
    };
    Err(failed(&command, said))
}

/// Returns a command line as text for a message.
fn shown(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    words.join(" ")
}

/// Returns whether a program is found in PATH or in the directories of system programs.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .any(|directory| directory.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_returns_its_output_or_says_why_it_failed() {
        assert_eq!(run_program("echo", ["river"]).unwrap(), "river\n");
        let error = run_program("sh", ["-c", "echo bad >&2; exit 3"]).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c echo bad >&2; exit 3` failed: bad");
        let missing = run_program("no-such-program-here", ["x"]).unwrap_err();
        assert!(matches!(missing, Error::Unavailable(_)), "{missing}");
        assert!(is_installed("sh") && !is_installed("no-such-program-here"));
    }
}
