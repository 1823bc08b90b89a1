//! How a hashed structure of a store is built.

use crate::{Error, Result};
use alluvium_hashes::hashed::IndexKind;
use std::fmt;

/// How keys without order are found: by a hash of the key, with one read of the device and less
/// than a byte of memory a key.
///
/// ```
/// use alluvium::{HashedOptions, Structure};
/// let structure: Structure = "hashed,index=trie".parse()?;
/// assert_eq!(structure, Structure::Hashed(HashedOptions::trie()));
/// assert_eq!("hashed".parse::<Structure>()?.to_string(), "hashed,index=pachash");
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HashedOptions {
    pub(crate) index: IndexKind,
}

impl HashedOptions {
    /// Returns the options of a structure that is indexed by `PaCHash`: the least memory.
    #[must_use]
    pub fn pachash() -> HashedOptions {
        HashedOptions {
            index: IndexKind::PaCHash,
        }
    }

    /// Returns the options of a structure that is indexed by an entropy-coded trie, as SILT is.
    #[must_use]
    pub fn trie() -> HashedOptions {
        HashedOptions {
            index: IndexKind::Trie,
        }
    }

    /// Reads `index=pachash` or `index=trie`; nothing is the default.
    pub(crate) fn parse(text: &str) -> Result<HashedOptions> {
        match (text, text.strip_prefix("index=")) {
            ("", _) => Ok(HashedOptions::default()),
            (_, Some(index)) => Ok(HashedOptions {
                index: index.parse()?,
            }),
            (_, None) => Err(Error::BadOption {
                option: "structure",
                why: format!("a hashed one has no \"{text}\": say hashed,index=pachash or hashed,index=trie"),
            }),
        }
    }
}

impl fmt::Display for HashedOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "index={}", self.index)
    }
}
