//! How a levels structure is built, and how that is said in words.

use crate::stitch::{Filters, Stitching};
use alluvium_storage::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Least runs that are merged, and the least ratio of two levels.
pub const LEAST: u32 = 2;
/// Most.
pub const MOST: u32 = 64;
/// Most tiers that a SAMT can name.
const TIERS: usize = 8;
/// Runs of a level, where nothing else is said.
const USUAL: u32 = 4;
const _: () = assert!(LEAST <= USUAL && USUAL <= MOST && TIERS > 0);

/// How many runs the levels of a tier may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fanout {
    /// K: this number of runs of a level become one of the next.
    pub runs: u32,
    /// Levels of the tier. The last tier has all that follow, whatever this says.
    pub levels: u32,
}

/// When runs are merged.
///
/// ```
/// use alluvium_trees::levels::Policy;
/// assert_eq!("samt,k=4".parse::<Policy>()?, Policy::default());
/// assert_eq!("cola,r=3".parse::<Policy>()?, Policy::Cola { ratio: 3 });
/// assert_eq!("samt,k=4x2/8".parse::<Policy>()?.to_string(), "samt,k=4x2/8");
/// assert!("samt,k=1".parse::<Policy>().is_err());
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// K runs of a level become one of the next level. A fan-out for each tier of the store.
    Samt(Box<[Fanout]>),
    /// One run on each level; level `i` takes `ratio - 1` merges of `ratioⁱ` memtables.
    Cola {
        /// By how much levels grow.
        ratio: u32,
    },
    /// One run on each level, merged with the next when it is larger than `ratioⁱ` memtables.
    Leveled {
        /// By how much levels grow.
        ratio: u32,
    },
    /// Runs are merged only when a user asks for it.
    Never,
}

/// How a levels structure is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelsOptions {
    /// When runs are merged; fixed when the structure is created.
    pub policy: Policy,
    /// Bytes of a run that a full memtable becomes.
    pub unit_bytes: u64,
    /// Bits of a fingerprint; fixed when the structure is created.
    pub fingerprint_bits: u8,
    /// Which leaves a merge takes over unread; fixed when the structure is created, but for a
    /// function that says which keys are one.
    pub stitching: Stitching,
    /// What filters are made of; the caller's, as it is not kept.
    pub filters: Filters,
}

impl Default for LevelsOptions {
    fn default() -> LevelsOptions {
        LevelsOptions {
            policy: Policy::default(),
            unit_bytes: 64 << 20,
            // A run of 2³⁰ keys answers for one stranger in 1,000: fingerprints never grow.
            fingerprint_bits: 40,
            stitching: Stitching::default(),
            filters: Filters::default(),
        }
    }
}

impl Default for Policy {
    fn default() -> Policy {
        let fanout = Fanout {
            runs: USUAL,
            levels: u32::MAX,
        };
        Policy::Samt([fanout].into())
    }
}

impl Policy {
    /// Fails unless all its numbers are ones that it can work with.
    ///
    /// # Errors
    /// [`Error::BadOption`].
    pub fn validate(&self) -> Result<()> {
        let check = |name: &str, number: u32| {
            if (LEAST..=MOST).contains(&number) {
                return Ok(());
            }
            Err(bad(format!(
                "{name} is {number}: give a number from {LEAST} to {MOST}"
            )))
        };
        match self {
            Policy::Samt(fanouts) if fanouts.is_empty() || fanouts.len() > TIERS => {
                let tiers = fanouts.len();
                Err(bad(format!(
                    "{tiers} fan-outs: give one for each tier, 1 to {TIERS}"
                )))
            }
            Policy::Samt(fanouts) => fanouts.iter().try_for_each(|fanout| {
                if fanout.levels == 0 {
                    return Err(bad("a tier of 0 levels: leave it out".to_owned()));
                }
                check("k", fanout.runs)
            }),
            Policy::Cola { ratio } | Policy::Leveled { ratio } => check("r", *ratio),
            Policy::Never => Ok(()),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Samt(fanouts) => {
                f.write_str("samt,k=")?;
                let (last, others) = fanouts.split_last().expect("a SAMT has a fan-out");
                for fanout in others {
                    write!(f, "{}x{}/", fanout.runs, fanout.levels)?;
                }
                write!(f, "{}", last.runs)
            }
            Policy::Cola { ratio } => write!(f, "cola,r={ratio}"),
            Policy::Leveled { ratio } => write!(f, "leveled,r={ratio}"),
            Policy::Never => f.write_str("never"),
        }
    }
}

impl FromStr for Policy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Policy> {
        let (name, option) = text.split_once(',').unwrap_or((text, ""));
        let ratio = |usual: u32| match option.strip_prefix("r=") {
            Some(number) => number_of(number),
            None if option.is_empty() => Ok(usual),
            None => Err(unknown(option, name)),
        };
        let policy = match name {
            "samt" => match option.strip_prefix("k=") {
                Some(fanouts) => Policy::Samt(fanouts_of(fanouts)?),
                None if option.is_empty() => Policy::default(),
                None => return Err(unknown(option, name)),
            },
            "cola" => Policy::Cola { ratio: ratio(3)? },
            "leveled" => Policy::Leveled { ratio: ratio(10)? },
            "never" if option.is_empty() => Policy::Never,
            "never" => return Err(unknown(option, name)),
            _ => {
                return Err(bad(format!(
                    "there is no \"{name}\": say samt, cola, leveled or never"
                )));
            }
        };
        policy.validate()?;
        Ok(policy)
    }
}

/// Reads `4`, or `4x2/8`: K is 4 on two levels, and 8 on all that follow.
fn fanouts_of(text: &str) -> Result<Box<[Fanout]>> {
    let tiers = text.split('/').map(|tier| {
        let (runs, levels) = match tier.split_once('x') {
            Some((runs, levels)) => (runs, number_of(levels)?),
            None => (tier, u32::MAX),
        };
        Ok(Fanout {
            runs: number_of(runs)?,
            levels,
        })
    });
    let mut tiers = tiers.collect::<Result<Vec<Fanout>>>()?;
    let last = tiers.len() - 1;
    // It has all that follow, whatever is said.
    tiers[last].levels = u32::MAX;
    if tiers[..last].iter().any(|tier| tier.levels == u32::MAX) {
        return Err(bad(format!(
            "\"{text}\": say how many levels each tier but the last has, as in 4x2/8"
        )));
    }
    Ok(tiers.into())
}

fn number_of(text: &str) -> Result<u32> {
    text.parse()
        .map_err(|_| bad(format!("\"{text}\" is no number up to {}", u32::MAX)))
}

fn unknown(option: &str, policy: &str) -> Error {
    bad(format!("{policy} has no option \"{option}\""))
}

fn bad(why: String) -> Error {
    Error::BadOption {
        option: "policy of levels",
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_as_it_is_said() {
        for text in [
            "samt,k=4",
            "samt,k=2x3/8x1/16",
            "cola,r=2",
            "leveled,r=10",
            "never",
        ] {
            let policy: Policy = text.parse().unwrap();
            assert_eq!(policy.to_string(), text);
        }
        assert_eq!("cola".parse::<Policy>().unwrap(), Policy::Cola { ratio: 3 });
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_says_why() {
        for (text, why) in [
            ("samt,k=1", "k is 1"),
            ("samt,k=65", "k is 65"),
            ("samt,k=4x0/8", "0 levels"),
            ("samt,k=4/8", "say how many levels"),
            ("samt,k=", "is no number"),
            ("samt,r=3", "no option \"r=3\""),
            ("cola,r=1", "r is 1"),
            ("leveled,r=0", "r is 0"),
            ("never,k=2", "no option"),
            ("lsm", "there is no \"lsm\""),
        ] {
            let error = text.parse::<Policy>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
