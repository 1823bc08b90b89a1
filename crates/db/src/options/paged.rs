//! Options of paged keyspaces, whose pages are updated in place.

use crate::error::{Error, Result};
use alluvium_trees::paged::{self, node::EpsilonMode};
use std::fmt;
use std::str::FromStr;

/// The two kinds of tree whose pages are updated in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TreeKind {
    /// A Bε-tree. Each node buffers messages and flushes groups of them to its children.
    #[default]
    Beps,
    /// A B⁺-tree. Each write is applied to its leaf immediately.
    Bplus,
}

/// The layout of a tree whose pages are updated in place.
///
/// ```
/// use alluvium::{PagedOptions, Structure};
/// let options = PagedOptions::beps().node_bytes(16 << 10).epsilon(0.36);
/// let text = "paged,beps,node=16384,epsilon=0.36,key=64,value=128";
/// assert_eq!(Structure::Paged(options).to_string(), text);
/// assert_eq!(text.parse::<Structure>()?, Structure::Paged(options));
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PagedOptions {
    kind: TreeKind,
    node_bytes: u32,
    /// The parameter ε in percent, `ADAPTIVE` if each node chooses its own, or `NO_EPSILON` if the
    /// given value was invalid.
    epsilon_percent: u32,
    key_bytes: u32,
    value_bytes: u32,
    merging: paged::UnderfullPolicy,
}

/// Marks an ε that was out of bounds. Validation rejects it.
const NO_EPSILON: u32 = u32::MAX;
/// Marks that each node chooses its own ε.
const ADAPTIVE: u32 = u32::MAX - 1;
/// Upper bound of the maximum key length that a user may set, so that the length of a key including
/// its keyspace prefix fits in two bytes.
const MOST_KEY: u32 = 32 << 10;
/// Maximum length in bytes of the keyspace prefix of each tree key.
pub(crate) const MOST_PREFIX: usize = 5;

impl Default for PagedOptions {
    fn default() -> PagedOptions {
        // The default maximum key length is that of a tree without keyspace prefixes.
        PagedOptions::of_tree(&paged::PagedOptions::default(), 0)
    }
}

impl PagedOptions {
    /// Returns the options of a Bε-tree with nodes of 16 KiB and ε = 0.8.
    #[must_use]
    pub fn beps() -> PagedOptions {
        PagedOptions::default()
    }

    /// Returns the options of a B⁺-tree with nodes of 16 KiB.
    #[must_use]
    pub fn bplus() -> PagedOptions {
        PagedOptions {
            kind: TreeKind::Bplus,
            ..PagedOptions::default()
        }
    }

    /// Sets the node size in bytes: a power of two from 512 to 65536.
    #[must_use]
    pub fn node_bytes(self, node_bytes: u32) -> PagedOptions {
        PagedOptions { node_bytes, ..self }
    }

    /// Sets ε, from 0 to 1, in steps of 0.01. With a larger ε, nodes buffer fewer messages and
    /// lookups read fewer nodes. A B⁺-tree ignores it.
    #[must_use]
    pub fn epsilon(self, epsilon: f64) -> PagedOptions {
        let hundredths = (epsilon * 100.0).round();
        let is_one = (0.0..=100.0).contains(&hundredths) && (epsilon * 100.0 - hundredths).abs() < 1e-6;
        PagedOptions {
            epsilon_percent: if is_one { hundredths as u32 } else { NO_EPSILON },
            ..self
        }
    }

    /// Lets each node choose its own ε according to its traffic. Lookups increase its number of
    /// pivots, and messages its buffer.
    ///
    /// ```
    /// use alluvium::{PagedOptions, Structure};
    /// let text = "paged,beps,node=16384,epsilon=adaptive,key=64,value=128";
    /// let structure = Structure::Paged(PagedOptions::beps().adaptive_epsilon());
    /// assert_eq!(text.parse::<Structure>()?, structure);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn adaptive_epsilon(self) -> PagedOptions {
        PagedOptions {
            epsilon_percent: ADAPTIVE,
            ..self
        }
    }

    /// Sets the maximum key length in bytes, which nodes reserve for each key. Writes of longer
    /// keys fail.
    #[must_use]
    pub fn key_bytes(self, key_bytes: u32) -> PagedOptions {
        PagedOptions { key_bytes, ..self }
    }

    /// Sets the maximum size in bytes of a key's values in its node, including a few bytes per
    /// version. Nodes reserve this many bytes for each key. Longer values are stored in separate
    /// pages.
    #[must_use]
    pub fn value_bytes(self, value_bytes: u32) -> PagedOptions {
        PagedOptions { value_bytes, ..self }
    }

    /// Frees pages by merging nodes that deletes have left under-full with their neighbours.
    /// Without this option, such nodes remain until later inserts of nearby keys fill them.
    ///
    /// ```
    /// use alluvium::{PagedOptions, Structure};
    /// let text = "paged,bplus,node=16384,key=64,value=128,merge";
    /// let structure = Structure::Paged(PagedOptions::bplus().merge());
    /// assert_eq!(text.parse::<Structure>()?, structure);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn merge(self) -> PagedOptions {
        PagedOptions {
            merging: paged::UnderfullPolicy::UnderFull,
            ..self
        }
    }

    /// Returns whether the tree is a Bε-tree or a B⁺-tree.
    #[must_use]
    pub fn kind(&self) -> TreeKind {
        self.kind
    }

    /// Returns the maximum key length in bytes.
    pub(crate) fn longest_key(self) -> usize {
        self.key_bytes as usize
    }

    /// Converts these options to those of a tree whose keys have a prefix of `prefix` bytes.
    pub(crate) fn tree(self, prefix: usize, buffer_bytes: usize) -> paged::PagedOptions {
        paged::PagedOptions {
            kind: match self.kind {
                TreeKind::Beps => paged::TreeKind::Beps,
                TreeKind::Bplus => paged::TreeKind::Bplus,
            },
            node_bytes: self.node_bytes as usize,
            epsilon_percent: match self.epsilon_percent {
                ADAPTIVE => paged::PagedOptions::default().epsilon_percent,
                percent => percent,
            },
            epsilon: match self.epsilon_percent {
                ADAPTIVE => EpsilonMode::Adaptive,
                _ => EpsilonMode::Fixed,
            },
            merging: self.merging,
            key_bytes: self.key_bytes as usize + prefix,
            value_bytes: self.value_bytes as usize,
            buffer_bytes,
        }
    }

    /// Converts the options of a tree whose keys have a prefix of `prefix` bytes to this type.
    pub(crate) fn of_tree(tree: &paged::PagedOptions, prefix: usize) -> PagedOptions {
        PagedOptions {
            kind: match tree.kind {
                paged::TreeKind::Beps => TreeKind::Beps,
                paged::TreeKind::Bplus => TreeKind::Bplus,
            },
            node_bytes: tree.node_bytes as u32,
            epsilon_percent: match tree.epsilon {
                EpsilonMode::Fixed => tree.epsilon_percent,
                EpsilonMode::Adaptive => ADAPTIVE,
            },
            key_bytes: tree.key_bytes.saturating_sub(prefix) as u32,
            value_bytes: tree.value_bytes as u32,
            merging: tree.merging,
        }
    }

    /// Returns an error unless a tree can be built with these options, regardless of how much
    /// memory there is.
    pub(crate) fn validate(self) -> Result<()> {
        if self.epsilon_percent > 100 && self.epsilon_percent != ADAPTIVE {
            let why =
                "give a number from 0 to 1 with two decimals, as in epsilon=0.36, or adaptive".to_owned();
            return Err(Error::BadOption {
                option: "epsilon",
                why,
            });
        }
        if self.key_bytes == 0 || self.key_bytes > MOST_KEY {
            let why = format!(
                "keys of {} bytes are out of range: give 1 to {MOST_KEY}",
                self.key_bytes
            );
            return Err(Error::BadOption { option: "key", why });
        }
        let unbounded = self.tree(MOST_PREFIX, usize::MAX);
        Ok(unbounded.validate()?)
    }

    /// Parses the comma-separated options after `paged,` in the text form of a structure.
    pub(crate) fn parse(text: &str) -> Result<PagedOptions> {
        let bad = |why: String| Error::BadOption {
            option: "structure",
            why,
        };
        let mut options = PagedOptions::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let Some((name, value)) = part.split_once('=') else {
                match part {
                    "beps" => options.kind = TreeKind::Beps,
                    "bplus" => options.kind = TreeKind::Bplus,
                    "merge" => options = options.merge(),
                    _ => {
                        return Err(bad(format!(
                            "a paged keyspace has no option \"{part}\": use beps or bplus, and optionally merge"
                        )));
                    }
                }
                continue;
            };
            let number = || {
                let number = u32::from_str(value);
                number.map_err(|_| bad(format!("\"{value}\" in \"{part}\" is not a valid number")))
            };
            options = match name {
                "node" => options.node_bytes(number()?),
                "epsilon" if value == "adaptive" => options.adaptive_epsilon(),
                "epsilon" => {
                    let epsilon = f64::from_str(value);
                    options.epsilon(
                        epsilon
                            .map_err(|_| bad(format!("\"{value}\" in \"{part}\" is not a valid number")))?,
                    )
                }
                "key" => options.key_bytes(number()?),
                "value" => options.value_bytes(number()?),
                _ => {
                    let why =
                        format!("a paged keyspace has no option \"{name}\": use node, epsilon, key or value");
                    return Err(bad(why));
                }
            };
        }
        options.validate()?;
        Ok(options)
    }
}

impl fmt::Display for PagedOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            TreeKind::Beps if self.epsilon_percent == ADAPTIVE => {
                write!(f, "beps,node={},epsilon=adaptive", self.node_bytes)?;
            }
            TreeKind::Beps => {
                let epsilon = f64::from(self.epsilon_percent) / 100.0;
                write!(f, "beps,node={},epsilon={epsilon}", self.node_bytes)?;
            }
            TreeKind::Bplus => write!(f, "bplus,node={}", self.node_bytes)?,
        }
        write!(f, ",key={},value={}", self.key_bytes, self.value_bytes)?;
        match self.merging {
            paged::UnderfullPolicy::Never => Ok(()),
            paged::UnderfullPolicy::UnderFull => f.write_str(",merge"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Structure;

    #[test]
    fn pages_are_read_as_they_are_said() {
        for text in [
            "paged,beps,node=4096,epsilon=0.5,key=64,value=128",
            "paged,beps,node=512,epsilon=0,key=16,value=24",
            "paged,beps,node=65536,epsilon=1,key=200,value=1000",
            "paged,bplus,node=16384,key=64,value=128",
            "paged,bplus,node=16384,key=64,value=128,merge",
            "paged,beps,node=4096,epsilon=0.5,key=64,value=128,merge",
            "paged,beps,node=16384,epsilon=adaptive,key=64,value=128",
            "paged,beps,node=1024,epsilon=adaptive,key=16,value=40,merge",
        ] {
            assert_eq!(text.parse::<Structure>().unwrap().to_string(), text);
        }
        let plain: Structure = "paged".parse().unwrap();
        assert_eq!(plain, Structure::Paged(PagedOptions::default()));
        assert_eq!("paged,node=16384".parse::<Structure>().unwrap(), plain);
        for hundredths in 0..=100 {
            let options = PagedOptions::beps().epsilon(f64::from(hundredths) / 100.0);
            assert_eq!(options.epsilon_percent, hundredths);
            assert_eq!(PagedOptions::parse(&options.to_string()).unwrap(), options);
        }
        for asked in [
            PagedOptions::bplus(),
            PagedOptions::bplus().merge(),
            PagedOptions::beps().adaptive_epsilon(),
        ] {
            let asked = asked.key_bytes(200);
            assert_eq!(PagedOptions::of_tree(&asked.tree(5, 1 << 20), 5), asked);
        }
        let tree = PagedOptions::bplus().key_bytes(200).tree(5, 1 << 20);
        assert_eq!((tree.key_bytes, tree.buffer_bytes), (205, 1 << 20));
    }

    #[test]
    fn pages_that_cannot_be_built_are_refused() {
        for (text, why) in [
            ("paged,epsilon=1.2", "from 0 to 1"),
            ("paged,epsilon=-0.1", "from 0 to 1"),
            ("paged,epsilon=0.505", "from 0 to 1"),
            ("paged,epsilon=NaN", "from 0 to 1"),
            ("paged,epsilon=adapt", "not a valid number"),
            ("paged,node=512,epsilon=adaptive", "too long for pages"),
            ("paged,node=x", "not a valid number"),
            ("paged,node=5000", "power of two"),
            ("paged,node=131072", "power of two"),
            ("paged,node=512", "too long for pages"),
            ("paged,key=0", "give 1 to"),
            ("paged,key=5000", "too long for pages"),
            ("paged,value=8", "at least 24"),
            ("paged,b", "use beps or bplus"),
            ("paged,fanout=3", "use node, epsilon, key or value"),
        ] {
            let error = text.parse::<Structure>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        for epsilon in [f64::NAN, f64::INFINITY, -1.0, 1.01] {
            assert!(
                Structure::Paged(PagedOptions::beps().epsilon(epsilon))
                    .validate()
                    .is_err()
            );
        }
    }
}
