//! The choice of the data structure that stores a keyspace.

use crate::error::{Error, Result};
use crate::options::kind::StructureKind as Kind;
use crate::options::{HashedOptions, LevelsOptions, PagedOptions};
use std::fmt;
use std::str::FromStr;

/// The data structure that stores a keyspace.
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
    /// The tiered tree, the best choice for nearly all workloads.
    #[default]
    Tiered,
    /// Sorted runs on levels, merged according to a policy. Keyspaces with the same options share
    /// the runs. A store has at most 64 sets of options for levels.
    Levels(LevelsOptions),
    /// Records located by the hash of their key, for point lookups that need little memory.
    /// Keyspaces with the same options share one structure. A store has at most 64 sets of options
    /// for hashed keyspaces.
    ///
    /// Keys have no order. Range scans, [`first`](crate::Keyspace::first) and range deletes fail
    /// with [`Error::NotOrdered`], also in transactions, but deleting the range of all keys is
    /// allowed. [`unordered`](crate::Keyspace::unordered) visits each key once and can resume after
    /// any key.
    ///
    /// Snapshots work as in every other structure. For as long as they are open, each
    /// [`Snapshot`](crate::Snapshot) (named or not), iterator and transaction sees this and all
    /// other keyspaces as of one commit. Merges retain every version that an open reader can see,
    /// and drop a version once its last reader has ended. Batches and transactions across several
    /// structures are atomic.
    Hashed(HashedOptions),
    /// A map in memory. The number is the maximum size in bytes of its keys, values and index. The
    /// map is neither logged nor checkpointed, so it is empty after the store is reopened.
    /// Otherwise it behaves like the other structures: keys are ordered, and snapshots,
    /// transactions and atomic batches work. A store has at most one such structure, so all its
    /// volatile keyspaces share the limit.
    Volatile(u64),
    /// Pages in a separate file that are updated in place, as a Bε-tree or a B⁺-tree. It suits
    /// small keyspaces, and keys that are overwritten often. A store has at most one such
    /// structure, so all its paged keyspaces share the options.
    Paged(PagedOptions),
}

/// Smallest permitted size limit of volatile keyspaces, in bytes.
const LEAST_VOLATILE: u64 = 64 << 10;

impl Structure {
    /// Returns the kind of the structure.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Structure::Tiered => Kind::Tiered,
            Structure::Levels(_) => Kind::Levels,
            Structure::Hashed(_) => Kind::Hashed,
            Structure::Volatile(_) => Kind::Volatile,
            Structure::Paged(_) => Kind::Paged,
        }
    }

    /// Parses the options of a structure of this kind. Returns `None` if options cannot select the
    /// kind.
    pub(crate) fn of(kind: Kind, options: &str) -> Result<Option<Structure>> {
        Ok(Some(match kind {
            Kind::Tiered if options.is_empty() => Structure::Tiered,
            Kind::Levels => Structure::Levels(LevelsOptions::parse(options)?),
            Kind::Hashed => Structure::Hashed(HashedOptions::parse(options)?),
            Kind::Paged => Structure::Paged(PagedOptions::parse(options)?),
            Kind::Volatile => {
                let bytes = options.parse().map_err(|_| Error::BadOption {
                    option: "structure",
                    why: format!("\"{options}\" is not a number of bytes"),
                });
                Structure::Volatile(bytes?)
            }
            Kind::Tiered | Kind::Map => return Ok(None),
        }))
    }

    /// Returns the options in the text form that [`Structure::of`] parses, or `None` if the
    /// structure has no options.
    pub(crate) fn built_with(&self) -> Option<String> {
        match self {
            Structure::Tiered => None,
            Structure::Levels(levels) => Some(levels.to_string()),
            Structure::Hashed(hashed) => Some(hashed.to_string()),
            Structure::Volatile(bytes) => Some(bytes.to_string()),
            Structure::Paged(paged) => Some(paged.to_string()),
        }
    }

    /// Returns the options of the levels, or the default options for any other structure.
    pub(crate) fn levels(&self) -> LevelsOptions {
        match self {
            Structure::Levels(options) => options.clone(),
            _ => LevelsOptions::default(),
        }
    }

    /// Returns the options of the hashed structure, or the default options for any other structure.
    pub(crate) fn hashed(&self) -> HashedOptions {
        match self {
            Structure::Hashed(options) => options.clone(),
            _ => HashedOptions::unnamed(),
        }
    }

    /// Returns the options of the paged structure, or the default options for any other structure.
    pub(crate) fn paged(&self) -> PagedOptions {
        match self {
            Structure::Paged(options) => *options,
            _ => PagedOptions::default(),
        }
    }

    /// Returns the size limit in bytes of the volatile structure, or `None` for any other
    /// structure.
    pub(crate) fn volatile(&self) -> Option<u64> {
        match self {
            Structure::Volatile(bytes) => Some(*bytes),
            _ => None,
        }
    }

    /// Returns an error unless all options of the structure are within their bounds.
    pub(crate) fn validate(&self) -> Result<()> {
        match self {
            Structure::Hashed(options) => options.validate(),
            Structure::Levels(options) => {
                options.policy.validate()?;
                Ok(options.stitching().validate()?)
            }
            Structure::Volatile(bytes) if *bytes < LEAST_VOLATILE => Err(Error::BadOption {
                option: "structure",
                why: format!(
                    "a volatile keyspace of {bytes} bytes is too small: give it {LEAST_VOLATILE} or more"
                ),
            }),
            Structure::Paged(options) => options.validate(),
            Structure::Tiered | Structure::Volatile(_) => Ok(()),
        }
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name())?;
        match (self, self.built_with()) {
            (_, None) => Ok(()),
            (Structure::Volatile(_), Some(bytes)) => write!(f, ",bytes={bytes}"),
            (_, Some(options)) => write!(f, ",{options}"),
        }
    }
}

impl FromStr for Structure {
    type Err = Error;

    /// Parses the text form of a structure, which is its name followed by comma-separated options:
    ///
    /// - `tiered`.
    /// - `hashed`, `hashed,index=trie`, `hashed,form=boa,lambda=16,refined=yes`, or
    ///   `hashed,form=bot,lambda=16`.
    /// - `volatile,bytes=64M`.
    /// - `levels`, `levels,k=4`, or `levels,` and a policy: `samt,k=4`, `cola,r=3`, `leveled,r=10`
    ///   or `never`. After the policy, `,f=3,scan=8,always=2048` sets the stitching options,
    ///   `,values=moved` lets values move with their records, and `,defragment=20` limits rewrites
    ///   for scans.
    /// - `paged`, `paged,bplus`, or `paged,beps,node=16384,epsilon=0.8,key=64,value=128`,
    ///   optionally followed by `,merge`. The value of ε may be `adaptive`.
    fn from_str(text: &str) -> Result<Structure> {
        each_once(text)?;
        let (name, options) = text.split_once(',').unwrap_or((text, ""));
        let unknown = || Error::BadOption {
            option: "structure",
            why: format!(
                "\"{text}\" is not a structure: use tiered, hashed, paged, volatile,bytes=64M, or levels \
                with options, as in levels,k=4"
            ),
        };
        let kind = Kind::named(name).ok_or_else(unknown)?;
        let options = match kind {
            Kind::Levels if options.is_empty() => return Ok(Structure::Levels(LevelsOptions::default())),
            Kind::Levels if options.starts_with("k=") => format!("samt,{options}"),
            Kind::Volatile => {
                let bytes = options.strip_prefix("bytes=").and_then(bytes_of);
                let bytes = bytes.ok_or_else(|| Error::BadOption {
                    option: "structure",
                    why: format!(
                        "\"{text}\" lacks a valid number of bytes: give one, as in volatile,bytes=64M"
                    ),
                });
                bytes?.to_string()
            }
            _ => options.to_owned(),
        };
        Structure::of(kind, &options)?.ok_or_else(unknown)
    }
}

/// Returns an error if an option in the list is empty or occurs twice.
fn each_once(text: &str) -> Result<()> {
    let bad = |why: String| Error::BadOption {
        option: "structure",
        why,
    };
    let mut said: Vec<&str> = Vec::new();
    for part in text.split(',') {
        let name = part.split_once('=').map_or(part, |(name, _)| name);
        if part.is_empty() && text.contains(',') {
            return Err(bad(format!(
                "\"{text}\" has a comma without an option before or after it: remove the comma"
            )));
        }
        if said.contains(&name) {
            return Err(bad(format!("\"{text}\" gives {name} twice: give it once")));
        }
        said.push(name);
    }
    Ok(())
}

/// Parses a number of bytes with an optional suffix K, M, G or T for powers of 1024.
fn bytes_of(text: &str) -> Option<u64> {
    let units = ["K", "M", "G", "T"].iter().zip([10, 20, 30, 40]);
    let found = units
        .filter_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)))
        .next();
    let (number, shift) = found.unwrap_or((text, 0));
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
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
            "levels,samt,k=4,f=0",
            "levels,cola,r=3,f=3,scan=8,always=2048",
            "levels,samt,k=4,values=moved",
            "levels,samt,k=4,f=3,values=moved,defragment=20",
            "levels,leveled,r=4,defragment=100",
            "hashed,index=pachash",
            "hashed,index=trie",
            "hashed,form=boa,lambda=16,refined=yes",
            "hashed,form=boa,lambda=2,refined=no",
            "hashed,form=bot,lambda=4",
        ] {
            assert_eq!(text.parse::<Structure>().unwrap().to_string(), text);
        }
        let short: Structure = "levels,k=4".parse().unwrap();
        assert_eq!(short, Structure::Levels(LevelsOptions::samt(4)));
        assert_eq!(short, "levels".parse().unwrap());
        for (text, bytes) in [("volatile,bytes=64M", 64 << 20), ("volatile,bytes=70000", 70_000)] {
            assert_eq!(text.parse::<Structure>().unwrap(), Structure::Volatile(bytes));
        }
        let stitched = Structure::Levels(LevelsOptions::samt(4).scan_unit(8).stitch(3));
        assert_eq!("levels,k=4,f=3,scan=8".parse::<Structure>().unwrap(), stitched);
        assert_eq!("levels,f=3,scan=8".parse::<Structure>().unwrap(), stitched);
        let boa: Structure = "hashed,form=boa".parse().unwrap();
        assert_eq!(boa.to_string(), "hashed,form=boa,lambda=16,refined=yes");
        assert_eq!(
            "hashed,form=silt".parse::<Structure>().unwrap().to_string(),
            "hashed,index=pachash"
        );
        let all = Structure::Levels(LevelsOptions::samt(4).stitch(u32::MAX));
        assert_eq!(all.to_string().parse::<Structure>().unwrap(), all);
    }

    #[test]
    fn what_no_structure_has_is_refused_with_the_reason() {
        for (text, why) in [
            ("levels,k=1", "k is 1"),
            ("levels,k=", "not a number"),
            ("levels,k=4,f=x", "not a number"),
            ("levels,k=4,scan=8", "lacks f"),
            ("levels,k=4,values=copied", "use values=moved"),
            ("levels,k=4,defragment=200", "1 to 100"),
            ("tiered,k=4", "\"tiered,k=4\" is not a structure"),
            ("hash", "\"hash\" is not a structure"),
            ("volatile", "as in volatile,bytes=64M"),
            ("volatile,bytes=16777216T", "as in volatile,bytes=64M"),
            ("hashed,index=tree", "use pachash or trie"),
            ("hashed,form=boa,lambda=6", "a power of two from 2 to 256"),
            ("hashed,form=boa,lambda=512", "a power of two from 2 to 256"),
            ("hashed,form=boa,lambda=x", "a power of two from 2 to 256"),
            ("hashed,form=boa,refined=maybe", "use yes or no"),
            ("hashed,form=boa,index=trie", "which a trie cannot"),
            ("hashed,form=bot,index=trie", "which a trie cannot"),
            ("hashed,form=bot,lambda=6", "a power of two from 2 to 256"),
            ("hashed,form=bot,refined=yes", "refined applies to form=boa"),
            ("hashed,lambda=4", "refined needs form=boa"),
            ("hashed,form=bag", "use silt, boa or bot"),
            ("hashed,k=4", "a hashed keyspace has no option \"k=4\""),
            ("hashed,,form=boa", "a comma without an option"),
            ("hashed,form=boa,", "a comma without an option"),
            (",hashed", "a comma without an option"),
            ("hashed,index=trie,index=pachash", "gives index twice"),
            ("hashed,form=boa,lambda=4,lambda=8", "gives lambda twice"),
            ("levels,k=4,f=3,f=4", "gives f twice"),
            ("levels,,k=4", "a comma without an option"),
            ("paged,beps,node=4096,node=8192", "gives node twice"),
        ] {
            let error = text.parse::<Structure>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(Structure::Levels(LevelsOptions::cola(1)).validate().is_err());
        let much = LevelsOptions::samt(4).defragment(101);
        assert!(Structure::Levels(much).validate().is_err());
    }
}
