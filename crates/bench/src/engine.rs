//! The interface through which engines are measured. Each engine has an adapter that implements it.

use anyhow::{Result, bail};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// The parameters for opening an engine.
#[derive(Clone, Debug)]
pub struct EngineSetup {
    /// An existing directory for the files of the engine.
    pub directory: PathBuf,
    /// Memory limit of the process in bytes, page cache included.
    pub cap: u64,
    /// Whether a control group enforces the memory limit.
    pub kept: CapEnforcement,
    /// Memory in bytes that the engine is told to use, if the user has specified it.
    pub memory: Option<u64>,
    pub log: WriteLogging,
    /// Number of threads that will access the engine concurrently.
    pub threads: usize,
    /// Length of a value in bytes.
    pub value_bytes: usize,
    pub records: u64,
    /// Names and values of options for this engine.
    pub options: Vec<(String, String)>,
}

impl EngineSetup {
    /// Returns the value of an option, or `None` if the user has not set it.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the value of a numeric option, or `None` if the user has not set it.
    ///
    /// # Errors
    /// Returns an error if the value is not a number in the range `allowed`.
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

/// An option for one engine, for example `rocksdb.background-jobs=4`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EngineOption {
    /// The engine that the option applies to, including its label, if any.
    pub engine: String,
    pub name: String,
    pub value: String,
}

/// Returns the name of an engine without its label. For example, the result for `alluvium:hashed`
/// is `alluvium`. With labels, the same engine can be measured several times with different
/// options.
#[must_use]
pub fn kind_of(engine: &str) -> &str {
    engine.split_once(':').map_or(engine, |(kind, _)| kind)
}

/// Maximum length of the name or label of an engine, which is used as the name of a directory.
const LONGEST_NAME: usize = 64;

/// Returns an error unless all engine names differ. Reports identify engines by name.
///
/// # Errors
/// A message that contains the duplicate name.
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

/// Parses an engine name of the form `ENGINE` or `ENGINE:LABEL`.
///
/// # Errors
/// Returns an error if the name cannot be used as the name of a directory.
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
    /// A message that describes why the option is invalid.
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

/// Whether a control group enforces a process's memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapEnforcement {
    /// A control group enforces the limit. An engine that sizes its memory by that of the machine
    /// uses the limit instead.
    WithinCap,
    /// The limit is not enforced. An engine that sizes its memory by that of the machine uses the
    /// real size.
    Free,
}

/// Whether writes survive a crash of the process. Single writes are never synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteLogging {
    /// The engine logs its writes, if it can, so that they survive a crash of the process.
    #[default]
    On,
    /// The engine does not log its writes, if it can do without.
    Off,
}

/// An open engine. All threads share it, and each one accesses it through its own
/// [`EngineSession`].
pub trait BenchEngine: Send + Sync {
    /// Creates a session for a single thread.
    ///
    /// # Errors
    /// Errors of the engine.
    fn session(&self) -> Result<Box<dyn EngineSession + '_>>;

    /// Writes all data to the device, including the contents of memtables.
    ///
    /// # Errors
    /// Errors of the engine.
    fn flush(&self) -> Result<()>;

    /// Returns the names and values of the engine's settings.
    fn settings(&self) -> Vec<(String, String)>;

    /// Returns the engine's human-readable report at the end of a phase, which may be empty.
    fn remarks(&self) -> String {
        String::new()
    }

    /// Returns whether the engine stores no data, so that deletions cannot be verified.
    fn keeps_nothing(&self) -> bool {
        false
    }

    /// Closes the engine cleanly, so that it can be reopened.
    ///
    /// # Errors
    /// Errors of the engine.
    fn close(self: Box<Self>) -> Result<()>;
}

/// A callback that receives each key and value of a scan.
pub type EachPair<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// One thread's access to an engine.
pub trait EngineSession: Send {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// Errors of the engine.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Deletes a key. It is not an error if the key does not exist.
    ///
    /// # Errors
    /// Errors of the engine.
    fn delete(&mut self, key: &[u8]) -> Result<()>;

    /// Looks up a key and passes its value, if any, to `found`. Returns whether the key exists.
    ///
    /// # Errors
    /// Errors of the engine.
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Scans in key order from `from`, and passes up to `limit` keys and values to `each`. Returns
    /// the number of keys passed.
    ///
    /// # Errors
    /// Errors of the engine.
    fn scan(&mut self, from: &[u8], limit: usize, each: EachPair<'_>) -> Result<usize>;

    /// Looks up several keys and passes each existing value and the index of its key to `found`.
    /// Engines without batched reads look up the keys one by one.
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

/// An engine that can be opened by its name.
#[derive(Clone, Copy)]
pub struct EngineEntry {
    pub name: &'static str,
    /// Names of the options that the engine supports besides its memory size.
    pub options: &'static [&'static str],
    /// Opens the engine, or creates it if there are no files.
    pub open: fn(&EngineSetup) -> Result<Box<dyn BenchEngine>>,
}

impl std::fmt::Debug for EngineEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineEntry")
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
