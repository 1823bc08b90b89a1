//! Options as text, in the syntax of the command line.
//!
//! A text is a list of words: `--memory 64M --durability disk`. A flag and its value are two words,
//! or one with `=` between them. A word with blanks stands in double quotes, and a backslash begins
//! an escape sequence.
//!
//! ```
//! use alluvium::{KeyspaceOptions, Options, TransactionOptions};
//! let store: Options = "--memory 64M --durability disk".parse()?;
//! let keyspace: KeyspaceOptions = "--structure levels,k=4 --compression zstd".parse()?;
//! let transaction: TransactionOptions = "--isolation snapshot --locking".parse()?;
//! let error = "--memory 64X".parse::<Options>().unwrap_err();
//! assert!(error.to_string().contains("--memory: \"X\" is not a unit"));
//! # let _ = (store, keyspace, transaction);
//! # Ok::<(), alluvium::Error>(())
//! ```
//!
//! *Scope*: words, flags and their values.
//!
//! *Must not depend on*: what the options do, a particular command line.

mod store;
mod values;
mod words;

pub use values::{parse_duration, parse_size, parse_tier};
pub use words::{split_words, unescape};

use crate::error::{Error, Result};
use std::fmt::Display;

/// The flags of a text, which are taken one after the other.
struct FlagReader {
    words: std::vec::IntoIter<String>,
    /// The value of a flag that was written as `--flag=value`.
    attached: Option<String>,
    given: Vec<String>,
}

fn bad(why: String) -> Error {
    Error::BadOption { option: "text", why }
}

impl FlagReader {
    fn new(text: &str) -> Result<FlagReader> {
        let words = split_words(text.as_bytes()).map_err(|why| bad(format!("{text:?}: {why}")))?;
        let words = words.into_iter().map(|word| {
            String::from_utf8(word).map_err(|error| {
                bad(format!(
                    "{:?} is not UTF-8 text",
                    error.as_bytes().escape_ascii().to_string()
                ))
            })
        });
        Ok(FlagReader {
            words: words.collect::<Result<Vec<_>>>()?.into_iter(),
            attached: None,
            given: Vec::new(),
        })
    }

    /// Returns the name of the next flag, without its dashes. A flag may be given once, except
    /// those in `repeatable`.
    fn next(&mut self, repeatable: &[&str]) -> Result<Option<String>> {
        if let Some(value) = self.attached.take() {
            let flag = self.given.last().map_or("", String::as_str);
            return Err(bad(format!("--{flag} takes no value: remove ={value}")));
        }
        let Some(word) = self.words.next() else {
            return Ok(None);
        };
        let Some(flag) = word.strip_prefix("--") else {
            return Err(bad(format!(
                "{word:?} is not a flag: flags begin with --, as in --durability disk"
            )));
        };
        let (flag, attached) = match flag.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
            None => (flag.to_owned(), None),
        };
        if self.given.contains(&flag) && !repeatable.contains(&flag.as_str()) {
            return Err(bad(format!("--{flag} is given twice: give it once")));
        }
        self.attached = attached;
        self.given.push(flag.clone());
        Ok(Some(flag))
    }

    /// Returns the value of the flag that [`FlagReader::next`] returned last, as `parse` reads it.
    fn value<T, E: Display>(&mut self, parse: impl FnOnce(&str) -> std::result::Result<T, E>) -> Result<T> {
        let flag = self.given.last().map_or("", String::as_str);
        let value = self.attached.take().or_else(|| self.words.next());
        let value = value.ok_or_else(|| bad(format!("--{flag} needs a value after it")))?;
        parse(&value).map_err(|why| bad(format!("--{flag}: {why}")))
    }

    /// Like [`FlagReader::value`], for one of several words.
    fn choice<T: Copy>(&mut self, choices: &[(&str, T)]) -> Result<T> {
        self.value(|value| {
            let found = choices.iter().find(|(name, _)| *name == value);
            found.map(|(_, choice)| *choice).ok_or_else(|| {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                format!("{value:?} is none of {}", names.join(", "))
            })
        })
    }
}

fn unknown(flag: &str, flags: &[&str]) -> Error {
    let flags: Vec<String> = flags.iter().map(|flag| format!("--{flag}")).collect();
    bad(format!(
        "there is no flag --{flag}: the flags are {}",
        flags.join(", ")
    ))
}
