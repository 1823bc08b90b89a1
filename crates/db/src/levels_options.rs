//! Which structure a keyspace is in, and how that is built.

use crate::structure::Structure as Kind;
use crate::{Error, HashedOptions, PagedOptions, Result};
use alluvium_trees::levels::{Fanout, Policy, SameScan, Stitching};
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
    /// Records found by a hash of their key: for point lookups with little memory. A store has one
    /// such structure, whose options all keyspaces in it share.
    ///
    /// Its keys have no order. Walks over ranges, [`first`](crate::Keyspace::first) and deletes of
    /// ranges fail with [`Error::NotOrdered`], in transactions too.
    /// [`unordered`](crate::Keyspace::unordered) walks over all keys, each once, and can go on
    /// behind any of them; a range of all keys is deleted.
    ///
    /// Snapshots hold as in every other structure. A [`Snapshot`](crate::Snapshot), named or not,
    /// a walk and a transaction see the keyspace as it was at one commit, together with all other
    /// keyspaces, for as long as they are open. Merges keep the versions that any of them sees, and
    /// drop them when all have ended. A batch or a transaction across structures is whole or
    /// absent.
    Hashed(HashedOptions),
    /// A map in memory, of at most this number of bytes: keys, values and what finds them. It is
    /// neither logged nor checkpointed, and empty when the store is opened again. Everything else
    /// is as in other structures: order, snapshots, transactions, batches that are seen whole or
    /// not at all. A store has one such structure, whose bytes all keyspaces in it share.
    Volatile(u64),
    /// Pages in a file of their own, written in place: a Bε-tree or a B⁺-tree. For keys that are
    /// written over again and again, or that are few. A store has one such structure, whose options
    /// all keyspaces in it share.
    Paged(PagedOptions),
}

/// The least that a volatile keyspace may have.
const LEAST_VOLATILE: u64 = 64 << 10;

/// How runs on levels are merged: larger numbers make writes cheaper and reads dearer in a SAMT,
/// and the reverse elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LevelsOptions {
    pub(crate) policy: Policy,
    stitch: Option<Stitch>,
    moves_values: bool,
    defragment_percent: u32,
}

/// Which leaves merges take over instead of copying them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Stitch {
    threshold: u32,
    unit: Option<u32>,
    always: u32,
}

/// The largest threshold: a larger one means that everything is copied.
const MOST: u32 = u32::MAX - 1;

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

    /// Has merges take over, unread, more than `threshold` leaves in a row to which no other run
    /// has a key: *f* of a VT-tree. What is written in order is then written once. Scans of what is
    /// written at random seek more often the smaller it is. Indexes then say the first and the last
    /// key of each leaf, which takes the bytes of two keys, an eighth of a leaf at most. Without it
    /// everything is copied.
    ///
    /// ```
    /// use alluvium::{LevelsOptions, Structure};
    /// let options = LevelsOptions::samt(4).stitch(3).scan_unit(8).always_stitch(2048);
    /// let text = "levels,samt,k=4,f=3,scan=8,always=2048";
    /// assert_eq!(text.parse::<Structure>()?, Structure::Levels(options));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn stitch(self, threshold: u32) -> LevelsOptions {
        let threshold = threshold.min(MOST);
        let stitch = self.stitch.unwrap_or(Stitch::at(threshold));
        LevelsOptions {
            stitch: Some(Stitch { threshold, ..stitch }),
            ..self
        }
    }

    /// Has merges keep keys together that begin with the same `bytes`, such as the pages of one
    /// file, instead of taking leaves over that part them. Turns stitching on.
    #[must_use]
    pub fn scan_unit(self, bytes: u32) -> LevelsOptions {
        let stitch = self.stitch.unwrap_or(Stitch::at(0));
        LevelsOptions {
            stitch: Some(Stitch {
                unit: Some(bytes),
                ..stitch
            }),
            ..self
        }
    }

    /// Has merges take over more than `leaves` in a row even if that parts keys of one scan unit.
    /// Turns stitching on.
    #[must_use]
    pub fn always_stitch(self, leaves: u32) -> LevelsOptions {
        let stitch = self.stitch.unwrap_or(Stitch::at(0));
        LevelsOptions {
            stitch: Some(Stitch {
                always: leaves,
                ..stitch
            }),
            ..self
        }
    }

    /// Has merges that copy a record copy its value along, if that is kept apart from its leaf. The
    /// values of a run lie in the order of their keys then, so that scans need not seek for each;
    /// with [`LevelsOptions::stitch`], those of leaves that are taken over stay where they are.
    /// Without it a long value is written once, and stays where it was written first.
    #[must_use]
    pub fn move_values(self) -> LevelsOptions {
        LevelsOptions {
            moves_values: true,
            ..self
        }
    }

    /// Has the background write runs again in which scans seek, once they have paid as much for
    /// that as it costs. It writes at most `percent` hundredths, up to 100, of what else was
    /// written since the store was opened.
    ///
    /// ```
    /// use alluvium::{LevelsOptions, Structure};
    /// let options = LevelsOptions::samt(4).stitch(3).move_values().defragment(20);
    /// let text = "levels,samt,k=4,f=3,values=moved,defragment=20";
    /// assert_eq!(text.parse::<Structure>()?, Structure::Levels(options));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn defragment(self, percent: u32) -> LevelsOptions {
        LevelsOptions {
            defragment_percent: percent,
            ..self
        }
    }

    fn of(policy: Policy) -> LevelsOptions {
        LevelsOptions {
            policy,
            ..LevelsOptions::default()
        }
    }

    /// Returns what is said to the structure. The bytes of a unit are those of users' keys.
    pub(crate) fn stitching(&self) -> Stitching {
        let stitch = self.stitch.unwrap_or(Stitch::at(u32::MAX));
        Stitching {
            threshold: stitch.threshold,
            same_scan: stitch.unit.map(SameScan::Prefix),
            always: stitch.always,
            moves_values: self.moves_values,
            defragment_percent: self.defragment_percent,
        }
    }

    pub(crate) fn parse(text: &str) -> Result<LevelsOptions> {
        let (policy, stitching) = Stitching::split(text)?;
        let unit = match stitching.same_scan {
            Some(SameScan::Prefix(bytes)) => Some(bytes),
            Some(SameScan::By(_)) | None => None,
        };
        let stitch = stitching.is_on().then_some(Stitch {
            threshold: stitching.threshold,
            unit,
            always: stitching.always,
        });
        let policy = if policy.is_empty() { "samt" } else { policy };
        Ok(LevelsOptions {
            policy: policy.parse()?,
            stitch,
            moves_values: stitching.moves_values,
            defragment_percent: stitching.defragment_percent,
        })
    }
}

impl Stitch {
    fn at(threshold: u32) -> Stitch {
        Stitch {
            threshold,
            unit: None,
            always: u32::MAX,
        }
    }
}

impl Structure {
    /// Returns which structure it is.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Structure::Tiered => Kind::Tiered,
            Structure::Levels(_) => Kind::Levels,
            Structure::Hashed(_) => Kind::Hashed,
            Structure::Volatile(_) => Kind::Volatile,
            Structure::Paged(_) => Kind::Paged,
        }
    }

    /// Returns a structure of a kind that is built with these options; none of a kind that no
    /// option chooses.
    pub(crate) fn of(kind: Kind, options: &str) -> Result<Option<Structure>> {
        Ok(Some(match kind {
            Kind::Tiered if options.is_empty() => Structure::Tiered,
            Kind::Levels => Structure::Levels(LevelsOptions::parse(options)?),
            Kind::Hashed => Structure::Hashed(HashedOptions::parse(options)?),
            Kind::Paged => Structure::Paged(PagedOptions::parse(options)?),
            Kind::Volatile => {
                let bytes = options.parse().map_err(|_| Error::BadOption {
                    option: "structure",
                    why: format!("\"{options}\" is no number of bytes"),
                });
                Structure::Volatile(bytes?)
            }
            Kind::Tiered | Kind::Map => return Ok(None),
        }))
    }

    /// Returns what it is built with, as [`Structure::of`] reads it; none if there is no choice.
    pub(crate) fn built_with(&self) -> Option<String> {
        match self {
            Structure::Tiered => None,
            Structure::Levels(levels) => Some(levels.to_string()),
            Structure::Hashed(hashed) => Some(hashed.to_string()),
            Structure::Volatile(bytes) => Some(bytes.to_string()),
            Structure::Paged(paged) => Some(paged.to_string()),
        }
    }

    /// Returns how levels are built, if it is levels.
    pub(crate) fn levels(&self) -> LevelsOptions {
        match self {
            Structure::Levels(options) => options.clone(),
            _ => LevelsOptions::default(),
        }
    }

    /// Returns how the hashed structure is built, if it is hashed.
    pub(crate) fn hashed(&self) -> HashedOptions {
        match self {
            Structure::Hashed(options) => options.clone(),
            _ => HashedOptions::unnamed(),
        }
    }

    /// Returns how pages are laid out, if it is pages.
    pub(crate) fn paged(&self) -> PagedOptions {
        match self {
            Structure::Paged(options) => *options,
            _ => PagedOptions::default(),
        }
    }

    /// Returns the bytes that it may have, if it is volatile.
    pub(crate) fn volatile(&self) -> Option<u64> {
        match self {
            Structure::Volatile(bytes) => Some(*bytes),
            _ => None,
        }
    }

    /// Fails unless all its numbers are ones that it can work with.
    pub(crate) fn validate(&self) -> Result<()> {
        match self {
            Structure::Hashed(options) => options.validate(),
            Structure::Levels(options) => {
                options.policy.validate()?;
                Ok(options.stitching().validate()?)
            }
            Structure::Volatile(bytes) if *bytes < LEAST_VOLATILE => Err(Error::BadOption {
                option: "structure",
                why: format!("a volatile keyspace of {bytes} bytes: give it {LEAST_VOLATILE} or more"),
            }),
            Structure::Paged(options) => options.validate(),
            Structure::Tiered | Structure::Volatile(_) => Ok(()),
        }
    }
}

impl fmt::Display for LevelsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policy.fmt(f)?;
        self.stitching().fmt(f)
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

    /// Reads `tiered`, `hashed`, `hashed,index=trie`, `hashed,form=boa,lambda=16,refined=yes`,
    /// `hashed,form=bot,lambda=16`,
    /// `volatile,bytes=64M`, `levels`, `levels,k=4`, or `levels,` and a policy: `samt,k=4`,
    /// `cola,r=3`, `leveled,r=10`, `never`.
    /// Behind a policy may stand what is stitched: `,f=3,scan=8,always=2048`, that values move with
    /// their records: `,values=moved`, and the share of what is written that is for scans:
    /// `,defragment=20`.
    /// Or `paged`, `paged,bplus`, or `paged,beps,node=16384,epsilon=0.8,key=64,value=128`, behind
    /// which may stand `,merge`; ε may be `adaptive`.
    fn from_str(text: &str) -> Result<Structure> {
        each_once(text)?;
        let (name, options) = text.split_once(',').unwrap_or((text, ""));
        let unknown = || Error::BadOption {
            option: "structure",
            why: format!(
                "there is no \"{text}\": say tiered, hashed, paged, volatile,bytes=64M, or levels with options, \
                 as in levels,k=4"
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
                    why: format!("\"{text}\" says no bytes: say how many, as in volatile,bytes=64M"),
                });
                bytes?.to_string()
            }
            _ => options.to_owned(),
        };
        Structure::of(kind, &options)?.ok_or_else(unknown)
    }
}

/// Fails where nothing stands between two commas, or something is said twice.
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
                "\"{text}\" has a comma with nothing before or behind it: leave the comma out"
            )));
        }
        if said.contains(&name) {
            return Err(bad(format!("\"{text}\" says {name} twice: say it once")));
        }
        said.push(name);
    }
    Ok(())
}

/// Reads a number of bytes, behind which K, M, G or T may stand for powers of 1024.
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
            ("levels,k=", "no number"),
            ("levels,k=4,f=x", "no number"),
            ("levels,k=4,scan=8", "need f"),
            ("levels,k=4,values=copied", "say values=moved"),
            ("levels,k=4,defragment=200", "1 to 100"),
            ("tiered,k=4", "there is no \"tiered,k=4\""),
            ("hash", "there is no \"hash\""),
            ("volatile", "as in volatile,bytes=64M"),
            ("volatile,bytes=16777216T", "as in volatile,bytes=64M"),
            ("hashed,index=tree", "say pachash or trie"),
            ("hashed,form=boa,lambda=6", "a power of two from 2 to 256"),
            ("hashed,form=boa,lambda=512", "a power of two from 2 to 256"),
            ("hashed,form=boa,lambda=x", "a power of two from 2 to 256"),
            ("hashed,form=boa,refined=maybe", "say yes or no"),
            ("hashed,form=boa,index=trie", "which a trie cannot"),
            ("hashed,form=bot,index=trie", "which a trie cannot"),
            ("hashed,form=bot,lambda=6", "a power of two from 2 to 256"),
            ("hashed,form=bot,refined=yes", "refined is of form=boa"),
            ("hashed,lambda=4", "are of form=boa"),
            ("hashed,form=bag", "say silt, boa or bot"),
            ("hashed,k=4", "a hashed one has no \"k=4\""),
            ("hashed,,form=boa", "a comma with nothing before or behind it"),
            ("hashed,form=boa,", "a comma with nothing before or behind it"),
            (",hashed", "a comma with nothing before or behind it"),
            ("hashed,index=trie,index=pachash", "says index twice"),
            ("hashed,form=boa,lambda=4,lambda=8", "says lambda twice"),
            ("levels,k=4,f=3,f=4", "says f twice"),
            ("levels,,k=4", "a comma with nothing before or behind it"),
            ("paged,beps,node=4096,node=8192", "says node twice"),
        ] {
            let error = text.parse::<Structure>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(Structure::Levels(LevelsOptions::cola(1)).validate().is_err());
        let much = LevelsOptions::samt(4).defragment(101);
        assert!(Structure::Levels(much).validate().is_err());
    }
}
