//! What is measured: a key-value engine, as every adapter offers it.

use anyhow::{Result, bail};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// How an engine is opened.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where its files are; the directory is there.
    pub directory: PathBuf,
    /// The memory that the process may use in all, page cache included, in bytes.
    pub cap: u64,
    /// Whether the process is kept within it.
    pub kept: Kept,
    /// The memory that the engine is told to use, if a size was chosen.
    pub memory: Option<u64>,
    /// Whether writes are logged.
    pub log: Log,
    /// How many threads will use it at once.
    pub threads: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How many records are loaded.
    pub records: u64,
    /// Settings that were asked for by name, each with its value.
    pub options: Vec<(String, String)>,
}

impl Setup {
    /// Returns the value of an option, if the user chose one.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the number that the user chose for an option, if any.
    ///
    /// # Errors
    /// When it is no number, or not within `allowed`.
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

/// An option of one engine, as in `rocksdb.background-jobs=4`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EngineOption {
    /// The engine.
    pub engine: String,
    /// The name of the option.
    pub name: String,
    /// The value.
    pub value: String,
}

/// Returns which engine is meant: its name, of which a label may be a part, as in
/// `alluvium:hashed`. By labels one engine is measured several times, with different options.
#[must_use]
pub fn kind_of(engine: &str) -> &str {
    engine.split_once(':').map_or(engine, |(kind, _)| kind)
}

/// The longest name of an engine, or label: a directory is called like that.
const LONGEST_NAME: usize = 64;

/// Says that each engine is named once: two of one name would be one in a report.
///
/// # Errors
/// With the name that comes twice.
pub fn require_once<'n>(option: &str, names: impl IntoIterator<Item = &'n String>) -> Result<(), String> {
    let mut before: Vec<&String> = Vec::new();
    for name in names {
        if before.contains(&name) {
            return Err(format!(
                "{option}: {name} is named twice, and would be one in the report"
            ));
        }
        before.push(name);
    }
    Ok(())
}

/// Reads the name of an engine: `ENGINE` or `ENGINE:LABEL`.
///
/// # Errors
/// When it cannot be the name of a directory.
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
    /// Reads `ENGINE.NAME=VALUE`.
    ///
    /// # Errors
    /// With what is wrong with the text.
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

/// Whether something keeps a process within its cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A control group does: an engine that asks the machine for its memory is told the cap.
    WithinCap,
    /// Nothing does: an engine that asks the machine is told all of it.
    Free,
}

/// Whether what was written survives the death of the process. Nothing is synced for each write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Log {
    /// The log is on: a write survives the death of the process, as far as the engine can.
    #[default]
    On,
    /// No log, where the engine can do without.
    Off,
}

/// An engine that is open. All threads share it; each has a [`Session`].
pub trait Engine: Send + Sync {
    /// Returns what one thread reads and writes through.
    ///
    /// # Errors
    /// As the engine says.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Everything that was written goes to the device, memtables included.
    ///
    /// # Errors
    /// As the engine says.
    fn flush(&self) -> Result<()>;

    /// Returns how it was set up, each setting with its value.
    fn settings(&self) -> Vec<(String, String)>;

    /// What the engine itself has to say at the end of a phase, for people; empty if nothing.
    fn remarks(&self) -> String {
        String::new()
    }

    /// Returns whether it answers without having kept anything, so that no deletion can be proven.
    fn keeps_nothing(&self) -> bool {
        false
    }

    /// Closes it in order.
    ///
    /// # Errors
    /// As the engine says.
    fn close(self: Box<Self>) -> Result<()>;
}

/// What a scan hands out: a key and its value.
pub type EachPair<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// What one thread reads and writes through.
pub trait Session: Send {
    /// The key has this value from now on.
    ///
    /// # Errors
    /// As the engine says.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Deletes a key; nothing happens if it has no value.
    ///
    /// # Errors
    /// As the engine says.
    fn delete(&mut self, key: &[u8]) -> Result<()>;

    /// Hands out the key's value, if it has one. Returns whether it has.
    ///
    /// # Errors
    /// As the engine says.
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Hands out up to `limit` pairs from a key on, in order. Returns how many there were.
    ///
    /// # Errors
    /// As the engine says.
    fn scan(&mut self, from: &[u8], limit: usize, each: EachPair<'_>) -> Result<usize>;

    /// Hands out the values of many keys, each with its place among them. Engines that cannot do it
    /// at once do it one by one.
    ///
    /// # Errors
    /// As the engine says.
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
pub struct Entry {
    /// What it is called.
    pub name: &'static str,
    /// The options that it knows, besides the memory.
    pub options: &'static [&'static str],
    /// Opens it, or creates it.
    pub open: fn(&Setup) -> Result<Box<dyn Engine>>,
}

impl std::fmt::Debug for Entry {
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
