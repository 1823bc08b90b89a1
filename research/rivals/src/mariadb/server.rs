//! A server process: system tables are created, the server is started, and drop ends it.

use super::programs::MariaDbPrograms;
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for the start of a server.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
/// Maximum length of a socket's path.
const MOST_NAME: usize = 100;
/// Number of log lines to report when a server ends unexpectedly.
const LAST_LINES: usize = 8;

/// Whether the change buffer collects changes of secondary indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeBufferMode {
    All,
    None,
}

impl ChangeBufferMode {
    /// Returns the value of `innodb_change_buffering`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ChangeBufferMode::All => "all",
            ChangeBufferMode::None => "none",
        }
    }
}

/// A running server, which is stopped on drop (MA2).
#[derive(Debug)]
pub(crate) struct MariaDbServer {
    child: Child,
    socket: PathBuf,
    client: PathBuf,
}

impl MariaDbServer {
    /// Creates system tables in `directory`, which must be empty, and starts a server there.
    ///
    /// # Errors
    /// When the server ends unexpectedly, with the last lines of its log; when the start times out.
    pub(crate) fn start(
        programs: &MariaDbPrograms,
        directory: &Path,
        pool_bytes: u64,
        buffering: ChangeBufferMode,
    ) -> Result<MariaDbServer> {
        let socket = directory.join("socket");
        ensure!(
            socket.as_os_str().len() <= MOST_NAME,
            "--directory: a socket's name has {MOST_NAME} letters at most, and {} has more: choose a shorter one",
            socket.display()
        );
        let data = directory.join("data");
        fs::create_dir(&data).with_context(|| format!("making {}", data.display()))?;
        install(programs, &data, directory)?;
        let log = directory.join("server.log");
        let mut command = Command::new(&programs.server);
        command.arg("--no-defaults").args(user());
        for (name, path) in [
            ("datadir", &data),
            ("socket", &socket),
            ("pid-file", &directory.join("pid")),
        ] {
            command.arg(format!("--{name}={}", path.display()));
        }
        command.args(options(pool_bytes, buffering));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(create(&log)?);
        // SAFETY: between fork and exec it only asks for a signal at its parent's death.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let child = command
            .spawn()
            .with_context(|| format!("starting {}", programs.server.display()))?;
        let mut server = MariaDbServer {
            child,
            socket,
            client: programs.client.clone(),
        };
        server.wait(&log)?;
        Ok(server)
    }

    /// Waits until the server answers.
    fn wait(&mut self, log: &Path) -> Result<()> {
        let start = Instant::now();
        while UnixStream::connect(&self.socket).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("mariadbd has ended by itself, {status}:\n{}", last_lines(log));
            }
            if start.elapsed() > START_TIMEOUT {
                bail!(
                    "mariadbd does not answer after {PATIENCE:?}:\n{}",
                    last_lines(log)
                );
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Returns a command that runs a client of this server.
    pub(super) fn client(&self) -> Command {
        let mut command = Command::new(&self.client);
        command
            .arg("--no-defaults")
            .arg(format!("--socket={}", self.socket.display()));
        command
    }
}

impl Drop for MariaDbServer {
    fn drop(&mut self) {
        // A clean shutdown is unnecessary because the files are deleted. The server may have ended
        // already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("making {}", path.display()))
}

/// Creates the system tables of an empty server in `data`.
fn install(programs: &MariaDbPrograms, data: &Path, directory: &Path) -> Result<()> {
    let log = directory.join("install.log");
    let status = Command::new(&programs.install)
        .arg("--no-defaults")
        .args(user())
        .arg(format!("--datadir={}", data.display()))
        .args([
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
        ])
        .stdin(Stdio::null())
        .stdout(create(&log)?)
        .stderr(create(&directory.join("install-errors.log"))?)
        .status()
        .with_context(|| format!("starting {}", programs.install.display()))?;
    ensure!(
        status.success(),
        "mariadb-install-db has failed, {status}:\n{}",
        last_lines(&log)
    );
    Ok(())
}

/// The server refuses to run as root without this option.
fn user() -> Option<&'static str> {
    // SAFETY: it returns a number.
    (unsafe { libc::geteuid() } == 0).then_some("--user=root")
}

/// Options that minimise unrelated work: no network, no binary log, no sync for each transaction,
/// direct I/O for pages.
fn options(pool_bytes: u64, buffering: ChangeBufferMode) -> Vec<String> {
    let mut all = vec![
        format!("--innodb-buffer-pool-size={pool_bytes}"),
        format!("--innodb-change-buffering={}", buffering.name()),
    ];
    let others = [
        "--skip-networking",
        "--skip-grant-tables",
        "--innodb-change-buffer-max-size=50",
        "--innodb-flush-method=O_DIRECT",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-doublewrite=0",
        "--innodb-adaptive-hash-index=0",
        "--innodb-stats-auto-recalc=0",
        "--innodb-buffer-pool-dump-at-shutdown=0",
        "--innodb-buffer-pool-load-at-startup=0",
        "--performance-schema=0",
        "--max-allowed-packet=64M",
    ];
    all.extend(others.map(String::from));
    all
}

fn last_lines(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::MariaDbClient;
    use super::*;

    #[test]
    fn a_server_answers_in_its_directory_and_ends_with_its_owner() {
        let place = tempfile::tempdir().unwrap();
        let Ok(programs) = MariaDbPrograms::find().unwrap() else {
            // The study reports which packages to install.
            alluvium_bench::skipped!(
                "MariaDB 10",
                "it is not installed, or of a version without a change buffer"
            );
            return;
        };
        let start =
            |directory: &Path| MariaDbServer::start(&programs, directory, 6 << 20, ChangeBufferMode::None);
        let server = start(place.path()).unwrap();
        let mut client = MariaDbClient::connect(&server).unwrap();
        let asked = client
            .ask("SELECT @@innodb_change_buffering, @@skip_networking;")
            .unwrap();
        assert_eq!(asked, ["none\t1"]);
        assert!(client.ask("SELECT 'a', 'b';\nSELECT 1;").unwrap() == ["a\tb", "1"]);
        let unknown = client.counters(["No_such_counter"]).unwrap_err();
        assert!(unknown.to_string().contains("No_such_counter"), "{unknown}");
        assert!(client.ask("SELECT * FROM nowhere.at_all;").is_err());
        let process = PathBuf::from(format!("/proc/{}", server.child.id()));
        assert!(process.exists());
        drop(server);
        assert!(!process.exists(), "MA2");
        let long = place.path().join("x".repeat(MOST_NAME));
        assert!(start(&long).unwrap_err().to_string().contains("--directory"));
    }

    #[test]
    fn a_server_that_ends_by_itself_says_why() {
        let place = tempfile::tempdir().unwrap();
        let Ok(programs) = MariaDbPrograms::find().unwrap() else {
            alluvium_bench::skipped!(
                "MariaDB 10",
                "it is not installed, or of a version without a change buffer"
            );
            return;
        };
        let error =
            MariaDbServer::start(&programs, place.path(), 1 << 20, ChangeBufferMode::All).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("has ended by itself") && error.contains("buffer_pool_size"),
            "{error}"
        );
    }
}
