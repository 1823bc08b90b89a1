//! The interface of a measured key-value engine, implemented by every adapter.

use anyhow::{Result, bail};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Parameters for opening an engine.
#[derive(Clone, Debug)]
pub struct EngineSetup {
    /// Directory of its files, which exists.
    pub directory: PathBuf,
    /// Memory limit of the process including page cache, in bytes.
    pub cap: u64,
    /// Whether the limit is enforced.
    pub kept: CapEnforcement,
    /// Memory size configured for the engine, if one was chosen.
    pub memory: Option<u64>,
    pub log: WriteLogging,
    /// Number of threads that will use the engine concurrently.
    pub threads: usize,
    /// Length of a value in bytes.
    pub value_bytes: usize,
    pub records: u64,
    /// Engine options by name, with their values.
    pub options: Vec<(String, String)>,
}

impl EngineSetup {
    /// Returns the value of an option, if the user set it.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the value of a numeric option, if the user set it.
    ///
    /// # Errors
    /// If the value is not a number, or not within `allowed`.
    pub fn number(&self, name: &str, allowed: RangeInclusive<u64>) -> Result<Option<u64>> {
        let Some(text) = self.option(name) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(number) if allowed.contains(&number) => Ok(Some(number)),
            _ => bail!(
                "the option {name}={text}: write a number from {} to {}",
                allowed.start(),
                allowed.end()
            ),
        }
    }
}

/// An option of one engine, such as `rocksdb.background-jobs=4`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EngineOption {
    /// Engine that the option is for, with its label if it has one.
    pub engine: String,
    pub name: String,
    pub value: String,
}

/// Returns the kind of an engine: its name without a label, as in `alluvium:hashed`. With labels,
/// one engine can be measured several times with different options.
#[must_use]
pub fn kind_of(engine: &str) -> &str {
    engine.split_once(':').map_or(engine, |(kind, _)| kind)
}

/// Maximum length of an engine's name or label, because it is used as a directory name.
const LONGEST_NAME: usize = 64;

/// Checks that engine names are unique, because reports identify engines by name.
///
/// # Errors
/// A message with the duplicate name.
pub fn require_once<'n>(option: &str, names: impl IntoIterator<Item = &'n String>) -> Result<(), String> {
    let mut before: Vec<&String> = Vec::new();
    for name in names {
        if before.contains(&name) {
            return Err(format!("{option}: {name} is named twice; leave one of them out"));
        }
        before.push(name);
    }
    Ok(())
}

/// Parses the name of an engine: `ENGINE` or `ENGINE:LABEL`.
///
/// # Errors
/// If the name cannot be used as a directory name.
pub fn parse_engine(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let is_name = |part: &str| !part.is_empty() && part.chars().all(is_allowed);
    if text.splitn(2, ':').all(is_name) {
        return match text.split(':').all(|part| part.len() <= LONGEST_NAME) {
            true => Ok(text.to_owned()),
            false => Err(format!(
                "the name of an engine, and a label, have at most {LONGEST_NAME} letters: write a shorter one"
            )),
        };
    }
    Err(format!(
        "{text:?}: write the name of an engine, or ENGINE:LABEL with letters, digits, - and _"
    ))
}

impl EngineOption {
    /// Parses `ENGINE.NAME=VALUE`.
    ///
    /// # Errors
    /// A message that describes the mistake.
    pub fn parse(text: &str) -> Result<EngineOption, String> {
        let wrong = || format!("{text:?}: write ENGINE.NAME=VALUE, as in rocksdb.background-jobs=4");
        let (names, value) = text.split_once('=').ok_or_else(wrong)?;
        let (engine, name) = names.split_once('.').ok_or_else(wrong)?;
        if [engine, name, value].contains(&"") {
            return Err(wrong());
        }
        Ok(EngineOption {
            engine: engine.to_owned(),
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}

/// Whether a process's memory limit is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapEnforcement {
    /// Enforced by a control group: an engine that asks for the machine's memory is told the limit.
    WithinCap,
    /// Not enforced: an engine that asks for the machine's memory is told all of it.
    Free,
}

/// Whether writes survive a crash of the process. Writes are never synced individually.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteLogging {
    /// Logging is on: writes survive a crash of the process, if the engine supports it.
    #[default]
    On,
    /// Logging is off, if the engine supports it.
    Off,
}

/// An open engine. All threads share it; each has a [`EngineSession`].
pub trait BenchEngine: Send + Sync {
    /// Creates a session for one thread.
    ///
    /// # Errors
    /// Errors of the engine.
    fn session(&self) -> Result<Box<dyn EngineSession + '_>>;

    /// Flushes all data to the device, including memtables.
    ///
    /// # Errors
    /// Errors of the engine.
    fn flush(&self) -> Result<()>;

    /// Returns the engine's settings with their values.
    fn settings(&self) -> Vec<(String, String)>;

    /// Returns a human-readable report at the end of a phase; may be empty.
    fn remarks(&self) -> String {
        String::new()
    }

    /// Returns whether the engine stores no data, so that deletions cannot be verified.
    fn keeps_nothing(&self) -> bool {
        false
    }

    /// Closes the engine in an orderly way.
    ///
    /// # Errors
    /// Errors of the engine.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Callback of a scan for a key and its value.
pub type EachPair<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// A thread's access to an engine.
pub trait EngineSession: Send {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// Errors of the engine.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Deletes a key, if it exists.
    ///
    /// # Errors
    /// Errors of the engine.
    fn delete(&mut self, key: &[u8]) -> Result<()>;

    /// Passes the key's value to `found`, if there is one. Returns whether there was one.
    ///
    /// # Errors
    /// Errors of the engine.
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Passes up to `limit` pairs in key order to `each`, starting at a key. Returns their number.
    ///
    /// # Errors
    /// Errors of the engine.
    fn scan(&mut self, from: &[u8], limit: usize, each: EachPair<'_>) -> Result<usize>;

    /// Passes the values of several keys to `found`, each with its index among the keys. Engines
    /// without batched reads read them one by one.
    ///
    /// # Errors
    /// Errors of the engine.
    fn multi_get(&mut self, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<usize> {
        let mut count = 0;
        for (place, key) in keys.iter().enumerate() {
            if self.get(key, &mut |value| found(place, value))? {
                count += 1;
            }
        }
        Ok(count)
    }
}

/// An engine that can be opened by name.
#[derive(Clone, Copy)]
pub struct EngineEntry {
    pub name: &'static str,
    /// Supported options, in addition to the memory size.
    pub options: &'static [&'static str],
    /// Opens or creates the engine.
    pub open: fn(&EngineSetup) -> Result<Box<dyn BenchEngine>>,
}

impl std::fmt::Debug for EngineEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_named_with_a_label_or_without() {
        assert_eq!(parse_engine("alluvium:hash-1").as_deref(), Ok("alluvium:hash-1"));
        assert_eq!(
            (kind_of("alluvium:hash-1"), kind_of("lmdb")),
            ("alluvium", "lmdb")
        );
        for text in ["", ":a", "lmdb:", "lmdb:a:b", "lmdb:../a", "a/b"] {
            assert!(parse_engine(text).unwrap_err().contains("ENGINE:LABEL"), "{text}");
        }
        let long = |letters: usize| format!("alluvium:{}", "a".repeat(letters));
        assert!(parse_engine(&long(64)).is_ok());
        for letters in [65, 300] {
            assert!(
                parse_engine(&long(letters))
                    .unwrap_err()
                    .contains("at most 64 letters")
            );
        }
        let option = EngineOption::parse("alluvium:boa.structure=hashed,form=boa").unwrap();
        assert_eq!((&*option.engine, &*option.name), ("alluvium:boa", "structure"));
    }

    #[test]
    fn an_option_names_its_engine_and_has_a_value() {
        let option = EngineOption::parse("splinterdb.library=/a=b.so").unwrap();
        assert_eq!(
            (&*option.engine, &*option.name, &*option.value),
            ("splinterdb", "library", "/a=b.so")
        );
        for text in [
            "rocksdb",
            "rocksdb.jobs",
            "jobs=4",
            ".jobs=4",
            "rocksdb.=4",
            "rocksdb.jobs=",
        ] {
            let error = EngineOption::parse(text).unwrap_err();
            assert!(error.contains("ENGINE.NAME=VALUE"), "{text}: {error}");
        }
    }
}
