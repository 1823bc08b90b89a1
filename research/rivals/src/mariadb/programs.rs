//! Locates MariaDB's programs and determines their version.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories that may be missing from the user's `PATH`.
const BESIDES: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"];
/// Major version of the first release without a change buffer, 11.0.
const WITHOUT: u32 = 11;

/// Paths of the programs, and their version.
#[derive(Debug)]
pub(crate) struct MariaDbPrograms {
    pub(super) server: PathBuf,
    pub(super) install: PathBuf,
    pub(super) client: PathBuf,
    /// The version string that the server prints.
    pub(crate) version: String,
}

impl MariaDbPrograms {
    /// Locates the programs. Returns a reason if they cannot be measured.
    ///
    /// # Errors
    /// When the server does not report its version.
    pub(crate) fn find() -> Result<Result<MariaDbPrograms, String>> {
        let mut found = Vec::new();
        for name in ["mariadbd", "mariadb-install-db", "mariadb"] {
            let Some(path) = look_for(name) else {
                return Ok(Err(format!(
                    "skipped: {name} is neither in PATH nor in {}: `apt-get install mariadb-server` has it",
                    BESIDES[0]
                )));
            };
            found.push(path);
        }
        let said = Command::new(&found[0])
            .args(["--no-defaults", "--version"])
            .output()
            .with_context(|| format!("asking {} for its version", found[0].display()))?;
        let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        if let Some(why) = refused(&version) {
            return Ok(Err(why));
        }
        let mut found = found.into_iter();
        let mut next = || found.next().context("three programs were found");
        Ok(Ok(MariaDbPrograms {
            server: next()?,
            install: next()?,
            client: next()?,
            version: number(&version).unwrap_or_default().to_owned(),
        }))
    }
}

/// Returns the reason why a version cannot be measured, if any.
fn refused(version: &str) -> Option<String> {
    let Some(number) = number(version) else {
        return Some(format!(
            "skipped: mariadbd calls itself {version:?}, which is no version of MariaDB"
        ));
    };
    let major = number
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    match major {
        Some(major) if major < WITHOUT => None,
        _ => Some(format!(
            "skipped: MariaDB {number} has no change buffer; 10.11 is the last version with one"
        )),
    }
}

/// Extracts the version number from the server's output, as in `mariadbd  Ver 10.11.6-MariaDB for
/// …`.
fn number(version: &str) -> Option<&str> {
    let mut words = version.split_whitespace().skip_while(|word| *word != "Ver");
    words
        .nth(1)?
        .split('-')
        .next()
        .filter(|number| number.contains('.'))
}

fn look_for(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(BESIDES.iter().map(PathBuf::from))
        .map(|folder: PathBuf| folder.join(name))
        .find(|file: &PathBuf| Path::is_file(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_without_a_change_buffer_are_left_out_with_the_reason() {
        let debian = "mariadbd  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)";
        assert_eq!(number(debian), Some("10.11.6"));
        assert_eq!(refused(debian), None);
        let later = "/usr/sbin/mariadbd  Ver 11.8.2-MariaDB for debian-linux-gnu";
        assert!(refused(later).unwrap().contains("11.8.2 has no change buffer"));
        assert!(refused("something else").unwrap().contains("no version"));
        assert!(look_for("no-program-has-this-name").is_none());
    }
}
