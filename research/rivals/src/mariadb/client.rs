//! Sends statements to a server through one process of `mariadb`, its command-line client.

use super::server::MariaDbServer;
use anyhow::{Context, Result, bail, ensure};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

pub(crate) struct MariaDbClient {
    child: Child,
    statements: ChildStdin,
    answers: BufReader<ChildStdout>,
    asked: u64,
}

impl MariaDbClient {
    /// Connects to a server.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub(crate) fn connect(server: &MariaDbServer) -> Result<MariaDbClient> {
        let mut child = server
            .client()
            .args(["--batch", "--skip-column-names", "--unbuffered", "--quick"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .context("starting the client of MariaDB")?;
        let statements = child.stdin.take().context("the client reads statements")?;
        let answers = child.stdout.take().context("the client writes answers")?;
        Ok(MariaDbClient {
            child,
            statements,
            answers: BufReader::new(answers),
            asked: 0,
        })
    }

    /// Sends statements and waits for all of them. Returns the lines of their results.
    ///
    /// # Errors
    /// When a statement fails. The client process then ends and reports the reason on its standard
    /// error.
    pub(crate) fn ask(&mut self, statements: &str) -> Result<Vec<String>> {
        self.asked += 1;
        let end = format!("answered {}", self.asked);
        let sent = writeln!(self.statements, "{statements}\nSELECT '{end}';");
        sent.and_then(|()| self.statements.flush())
            .context("the client of MariaDB has ended; what it says is above")?;
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line)? == 0 {
                bail!("the client of MariaDB has ended; what it says is above");
            }
            let line = line.trim_end_matches('\n');
            if line == end {
                return Ok(lines);
            }
            lines.push(line.to_owned());
        }
    }

    /// Returns status counters of the server by name.
    ///
    /// # Errors
    /// When a counter is missing or is not a number.
    pub(crate) fn counters<const N: usize>(&mut self, names: [&str; N]) -> Result<[u64; N]> {
        let list = names.map(|name| format!("'{name}'")).join(", ");
        let lines = self.ask(&format!("SHOW GLOBAL STATUS WHERE Variable_name IN ({list});"))?;
        let found: HashMap<String, u64> = lines
            .iter()
            .filter_map(|line| {
                let (name, value) = line.split_once('\t')?;
                Some((name.to_lowercase(), value.parse().ok()?))
            })
            .collect();
        let mut counters = [0; N];
        for (counter, name) in counters.iter_mut().zip(names) {
            let value = found.get(&name.to_lowercase());
            ensure!(value.is_some(), "MariaDB has no counter {name}, only {lines:?}");
            *counter = value.copied().unwrap_or_default();
        }
        Ok(counters)
    }
}

impl Drop for MariaDbClient {
    fn drop(&mut self) {
        // The client may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
