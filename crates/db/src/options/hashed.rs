//! Options of the hashed structure.

use crate::error::{Error, Result};
use alluvium_hashes::hashed::{self, IndexKind};
use std::fmt;

/// How a hashed structure lays out its records on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HashedForm {
    /// The stores of SILT. A lookup needs one device read. Each merge rewrites all records.
    #[default]
    Silt,
    /// A bundle of arrays (BOA). It has levels with fewer than `lambda` runs each, and each level
    /// has a routing filter. Every record is written once per level. A lookup reads one page of
    /// each level's filter, and one page of records for each filter match.
    Boa {
        /// The parameter λ, a power of two from 2 to 256. A larger λ results in fewer levels and
        /// fewer writes.
        lambda: u16,
        /// Whether filters store a check digit for each record, which reduces false positives by a
        /// factor of λ.
        refined: bool,
    },
    /// A bundle of trees (BOT). Records are written to a run once, and rewritten only when a third
    /// of the records in a part of the structure are dead. Trees map the hash of each key to the
    /// run that contains its record, and only the hashes move from level to level. A lookup reads
    /// one page of each level's root, and one page of each node on the path to a run.
    Bot {
        /// The parameter λ, a power of two from 2 to 256. A larger λ results in fewer levels, but a
        /// larger part of a level's root must be rewritten for each new run.
        lambda: u16,
    },
}

impl HashedForm {
    /// Converts this form to its counterpart in the crate that implements hashed structures.
    pub(crate) fn inner(self) -> hashed::HashedForm {
        match self {
            HashedForm::Silt => hashed::HashedForm::Silt,
            HashedForm::Boa { lambda, refined } => hashed::HashedForm::Boa { lambda, refined },
            HashedForm::Bot { lambda } => hashed::HashedForm::Bot { lambda },
        }
    }

    /// Converts a form of the crate that implements hashed structures to this type.
    pub(crate) fn of(form: hashed::HashedForm) -> HashedForm {
        match form {
            hashed::HashedForm::Silt => HashedForm::Silt,
            hashed::HashedForm::Boa { lambda, refined } => HashedForm::Boa { lambda, refined },
            hashed::HashedForm::Bot { lambda } => HashedForm::Bot { lambda },
        }
    }
}

impl fmt::Display for HashedForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HashedForm::Silt => f.write_str("form=silt"),
            HashedForm::Boa { lambda, refined } => {
                let refined = if *refined { "yes" } else { "no" };
                write!(f, "form=boa,lambda={lambda},refined={refined}")
            }
            HashedForm::Bot { lambda } => write!(f, "form=bot,lambda={lambda}"),
        }
    }
}

/// Options of the hashed structure, which finds a record by the hash of its key. In the default
/// form, a lookup needs one device read and less than a byte of memory per key. The other forms
/// write less data.
/// ```
/// use alluvium::{HashedForm, HashedOptions, Structure};
/// let structure: Structure = "hashed,index=trie".parse()?;
/// assert_eq!(structure, Structure::Hashed(HashedOptions::trie()));
/// assert_eq!("hashed".parse::<Structure>()?.to_string(), "hashed,index=pachash");
/// let boa = HashedOptions::default().form(HashedForm::Boa { lambda: 16, refined: true });
/// let structure: Structure = "hashed,form=boa,lambda=16,refined=yes".parse()?;
/// assert_eq!(structure, Structure::Hashed(boa));
/// let bot = HashedOptions::default().form(HashedForm::Bot { lambda: 16 });
/// assert_eq!("hashed,form=bot".parse::<Structure>()?, Structure::Hashed(bot));
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HashedOptions {
    pub(crate) index: IndexKind,
    pub(crate) form: HashedForm,
}

#[cfg(test)]
std::thread_local! {
    /// Form for test keyspaces whose options specify none.
    pub(crate) static UNNAMED: std::cell::Cell<HashedForm> = const { std::cell::Cell::new(HashedForm::Silt) };
}

/// The λ of a bundle whose options do not specify it.
const USUAL_LAMBDA: u16 = 16;

impl HashedOptions {
    /// Returns the options of a hashed structure with a `PaCHash` index, which needs the least
    /// memory.
    #[must_use]
    pub fn pachash() -> HashedOptions {
        HashedOptions::default()
    }

    /// Returns the options of a hashed structure indexed by an entropy-coded trie, as in SILT.
    #[must_use]
    pub fn trie() -> HashedOptions {
        HashedOptions {
            index: IndexKind::Trie,
            ..HashedOptions::default()
        }
    }

    /// Sets the form. Creating a keyspace fails if λ is not a power of two, or if a bundle has a
    /// trie index.
    #[must_use]
    pub fn form(self, form: HashedForm) -> HashedOptions {
        HashedOptions { form, ..self }
    }

    /// Returns the options of a hashed structure with this form and this index.
    pub(crate) fn of_hashes(form: hashed::HashedForm, index: IndexKind) -> HashedOptions {
        HashedOptions {
            index,
            form: HashedForm::of(form),
        }
    }

    /// Returns the options for a keyspace that tests place in the hashed structure although its own
    /// options select another.
    pub(crate) fn unnamed() -> HashedOptions {
        #[cfg(test)]
        return HashedOptions::default().form(UNNAMED.get());
        #[cfg(not(test))]
        HashedOptions::default()
    }

    /// Returns an error unless these options are valid.
    pub(crate) fn validate(&self) -> Result<()> {
        let options = hashed::HashedOptions {
            index: self.index,
            form: self.form.inner(),
            ..hashed::HashedOptions::default()
        };
        Ok(options.validate()?)
    }

    /// Parses a comma-separated list of options. The index is `index=pachash` or `index=trie`. The
    /// form is `form=silt`; `form=boa`, with `lambda=16` and `refined=yes`; or `form=bot`, with
    /// `lambda=16`. Missing options get their default values.
    pub(crate) fn parse(text: &str) -> Result<HashedOptions> {
        let mut options = HashedOptions::default();
        let (mut form, mut lambda, mut refined) = (None, None, None);
        let bad = |why: String| Error::BadOption {
            option: "structure",
            why,
        };
        for part in text.split(',').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("index", index)) => options.index = index.parse()?,
                Some(("form", name)) => form = Some(name),
                Some(("lambda", number)) => {
                    let parsed = number.parse::<u16>();
                    lambda = Some(parsed.map_err(|_| {
                        bad(format!(
                            "lambda={number} is invalid: give a power of two from 2 to 256"
                        ))
                    })?);
                }
                Some(("refined", "yes")) => refined = Some(true),
                Some(("refined", "no")) => refined = Some(false),
                Some(("refined", other)) => {
                    return Err(bad(format!("refined={other} is invalid: use yes or no")));
                }
                _ => {
                    return Err(bad(format!(
                        "a hashed keyspace has no option \"{part}\": use hashed,index=pachash, hashed,index=trie, hashed,form=boa,lambda=16,refined=yes, or hashed,form=bot,lambda=16"
                    )));
                }
            }
        }
        options.form = match form {
            Some("boa") => HashedForm::Boa {
                lambda: lambda.unwrap_or(USUAL_LAMBDA),
                refined: refined.unwrap_or(true),
            },
            Some("bot") if refined.is_some() => {
                return Err(bad(
                    "refined applies to form=boa only: leave it out, since form=bot always has check characters"
                        .to_owned(),
                ));
            }
            Some("bot") => HashedForm::Bot {
                lambda: lambda.unwrap_or(USUAL_LAMBDA),
            },
            Some("silt") | None if lambda.is_some() || refined.is_some() => {
                return Err(bad(
                    "lambda needs form=boa or form=bot, and refined needs form=boa: add the form, or leave them out"
                        .to_owned(),
                ));
            }
            Some("silt") | None => HashedForm::Silt,
            Some(other) => return Err(bad(format!("form={other} is unknown: use silt, boa or bot"))),
        };
        options.validate()?;
        Ok(options)
    }
}

impl fmt::Display for HashedOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.form {
            HashedForm::Silt => write!(f, "index={}", self.index),
            form => write!(f, "{form}"),
        }
    }
}
