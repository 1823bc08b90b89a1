//! Which structure a keyspace is in, and how that is built.

use crate::{Error, HashedOptions, Result};
use alluvium_trees::levels::{Fanout, Policy};
use std::fmt;
use std::str::FromStr;

/// The structure that a keyspace is in.
///
/// ```
/// use alluvium::{KeyspaceOptions, LevelsOptions, Structure};
/// let structure: Structure = "levels,k=8".parse()?;
/// assert_eq!(structure, Structure::Levels(LevelsOptions::samt(8)));
/// let options = KeyspaceOptions::new().structure(structure);
/// assert_eq!(options.structure.to_string(), "levels,samt,k=8");
/// assert!("levels,k=1".parse::<Structure>().is_err());
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Structure {
    /// The tiered tree: the best for nearly everything.
    #[default]
    Tiered,
    /// Runs on levels, merged by a policy of one's choice. A store has one such structure, whose
    /// options all keyspaces in it share.
    Levels(LevelsOptions),
    /// Records found by a hash of their key: for point lookups with little memory. Its keys have no
    /// order, so that walks over ranges are refused. A store has one such structure, whose options
    /// all keyspaces in it share.
    Hashed(HashedOptions),
}

/// How runs on levels are merged: larger numbers make writes cheaper and reads dearer in a SAMT,
/// and the reverse elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LevelsOptions {
    pub(crate) policy: Policy,
}

impl LevelsOptions {
    /// Returns the options of a SAMT: `k` runs of a level become one of the next.
    #[must_use]
    pub fn samt(k: u32) -> LevelsOptions {
        let fanout = Fanout {
            runs: k,
            levels: u32::MAX,
        };
        LevelsOptions::of(Policy::Samt([fanout].into()))
    }

    /// Returns the options of an R-COLA: one run on each level, which takes `ratio - 1` merges
    /// before it sinks.
    #[must_use]
    pub fn cola(ratio: u32) -> LevelsOptions {
        LevelsOptions::of(Policy::Cola { ratio })
    }

    /// Returns the options of one run on each level, each `ratio` times as large as the one above.
    #[must_use]
    pub fn leveled(ratio: u32) -> LevelsOptions {
        LevelsOptions::of(Policy::Leveled { ratio })
    }

    /// Returns the options of runs that are merged only when a user asks for it.
    #[must_use]
    pub fn never() -> LevelsOptions {
        LevelsOptions::of(Policy::Never)
    }

    fn of(policy: Policy) -> LevelsOptions {
        LevelsOptions { policy }
    }

    pub(crate) fn parse(text: &str) -> Result<LevelsOptions> {
        Ok(LevelsOptions::of(text.parse()?))
    }
}

impl Structure {
    /// Fails unless all its numbers are ones that it can work with.
    pub(crate) fn validate(&self) -> Result<()> {
        match self {
            Structure::Tiered | Structure::Hashed(_) => Ok(()),
            Structure::Levels(options) => Ok(options.policy.validate()?),
        }
    }
}

impl fmt::Display for LevelsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policy.fmt(f)
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Structure::Tiered => f.write_str("tiered"),
            Structure::Levels(options) => write!(f, "levels,{options}"),
            Structure::Hashed(options) => write!(f, "hashed,{options}"),
        }
    }
}

impl FromStr for Structure {
    type Err = Error;

    /// Reads `tiered`, `hashed`, `hashed,index=trie`, `levels`, `levels,k=4`, or `levels,` and a
    /// policy: `samt,k=4`, `cola,r=3`, `leveled,r=10`, `never`.
    fn from_str(text: &str) -> Result<Structure> {
        let (name, options) = text.split_once(',').unwrap_or((text, ""));
        match (name, options) {
            ("tiered", "") => Ok(Structure::Tiered),
            ("levels", "") => Ok(Structure::Levels(LevelsOptions::default())),
            ("levels", options) if options.starts_with("k=") => {
                let options = LevelsOptions::parse(&format!("samt,{options}"))?;
                Ok(Structure::Levels(options))
            }
            ("levels", options) => Ok(Structure::Levels(LevelsOptions::parse(options)?)),
            ("hashed", options) => Ok(Structure::Hashed(HashedOptions::parse(options)?)),
            _ => Err(Error::BadOption {
                option: "structure",
                why: format!(
                    "there is no \"{text}\": say tiered, hashed, or levels with options, as in levels,k=4"
                ),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structure_is_read_as_it_is_said() {
        for text in [
            "tiered",
            "levels,samt,k=4",
            "levels,cola,r=3",
            "levels,leveled,r=10",
            "levels,never",
            "hashed,index=pachash",
            "hashed,index=trie",
        ] {
            assert_eq!(text.parse::<Structure>().unwrap().to_string(), text);
        }
        let short: Structure = "levels,k=4".parse().unwrap();
        assert_eq!(short, Structure::Levels(LevelsOptions::samt(4)));
        assert_eq!(short, "levels".parse().unwrap());
        for (text, why) in [
            ("levels,k=1", "k is 1"),
            ("levels,k=", "no number"),
            ("tiered,k=4", "there is no \"tiered,k=4\""),
            ("hash", "there is no \"hash\""),
            ("hashed,index=tree", "say pachash or trie"),
            ("hashed,k=4", "a hashed one has no \"k=4\""),
        ] {
            let error = text.parse::<Structure>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(Structure::Levels(LevelsOptions::cola(1)).validate().is_err());
    }
}
