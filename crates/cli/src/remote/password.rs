//! Finds the password in a command line option, a file, or the environment.

use crate::terminal::exit::{CommandExit, failure};
use anyhow::{Context as _, Result};
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

/// The environment variable that contains the password if no option specifies one.
const VARIABLE: &str = "ALLUVIUM_PASSWORD";

/// Maximum length in bytes of the first line of a file that contains a secret.
const MOST_LINE: u64 = 64 << 10;

/// Returns the password: from the option if given, else from the file if given, else from the
/// environment.
///
/// # Errors
/// Returns an error if the file cannot be read, or if its first line or the environment variable is
/// empty.
pub(crate) fn given(flag: Option<&str>, file: Option<&Path>) -> Result<Option<String>> {
    match (flag, file) {
        (Some(password), _) => Ok(Some(password.to_owned())),
        (None, Some(path)) => Ok(Some(first_line("--password-file", path)?)),
        (None, None) => from_variable(std::env::var_os(VARIABLE)),
    }
}

/// Returns a password that is given as an option or a setting.
///
/// # Errors
/// Returns an error if it is empty: every client could log in with it.
pub(crate) fn not_empty(text: &str) -> std::result::Result<String, &'static str> {
    match text {
        "" => Err("it is empty: set it to the password, or leave it out"),
        password => Ok(password.to_owned()),
    }
}

/// Returns the secret in a file that an option names: the file's first line, which must not be
/// empty.
pub(crate) fn first_line(flag: &str, path: &Path) -> Result<String> {
    let file = std::fs::File::open(path).with_context(|| format!("reading {}", path.display()))?;
    let refused = |why: &str| failure(CommandExit::Usage, format!("{flag} {}: {why}", path.display()));
    let mut line = String::new();
    // The read is limited, because the path may name a pipe or a device that never ends.
    let read = BufReader::new(file.take(MOST_LINE)).read_line(&mut line);
    read.with_context(|| format!("reading {}", path.display()))?;
    if line.len() as u64 == MOST_LINE && !line.ends_with('\n') {
        return Err(refused(&format!(
            "its first line has more than {MOST_LINE} bytes"
        )));
    }
    match line.trim_end_matches(['\r', '\n']) {
        "" => Err(refused("its first line is empty; write the secret there")),
        secret => Ok(secret.to_owned()),
    }
}

/// Returns the password in the environment variable. An empty password is rejected as a mistake,
/// because it would allow every client to connect.
fn from_variable(value: Option<OsString>) -> Result<Option<String>> {
    let refused = |why: &str| failure(CommandExit::Usage, format!("{VARIABLE} {why}"));
    match value.map(OsString::into_string) {
        None => Ok(None),
        Some(Err(_)) => Err(refused("is not UTF-8 text: use --password-file")),
        Some(Ok(text)) if text.is_empty() => Err(refused("is empty: set it to the password, or unset it")),
        Some(Ok(text)) => Ok(Some(text)),
    }
}
