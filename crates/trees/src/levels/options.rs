//! The options of an LSM tree, and the conversion of merge policies to and from text.

use crate::merge::stitch::{FilterSource, StitchPolicy};
use alluvium_storage::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Minimum number of runs in a merge, and minimum size ratio of adjacent levels.
pub const LEAST: u32 = 2;
/// Maximum number of runs in a merge, and maximum size ratio of adjacent levels.
pub const MOST: u32 = 64;
/// Maximum number of storage tiers with separate fan-outs in a SAMT.
const TIERS: usize = 8;
/// The number of runs per level in the default merge policy.
const USUAL: u32 = 4;
const _: () = assert!(LEAST <= USUAL && USUAL <= MOST && TIERS > 0);

/// The fan-out of the levels on one storage tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LevelFanout {
    /// The parameter K: the number of runs of a level that are merged into one run of the next
    /// level.
    pub runs: u32,
    /// The number of levels on the tier. The last tier ignores it, because it has all remaining
    /// levels.
    pub levels: u32,
}

/// Which runs are merged, and when.
///
/// ```
/// use alluvium_trees::levels::MergePolicy;
/// assert_eq!("samt,k=4".parse::<MergePolicy>()?, MergePolicy::default());
/// assert_eq!("cola,r=3".parse::<MergePolicy>()?, MergePolicy::Cola { ratio: 3 });
/// assert_eq!("samt,k=4x2/8".parse::<MergePolicy>()?.to_string(), "samt,k=4x2/8");
/// assert!("samt,k=1".parse::<MergePolicy>().is_err());
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MergePolicy {
    /// The sorted array merge tree: K runs of a level are merged into one run of the next level.
    /// Each storage tier has its own fan-out.
    Samt(Box<[LevelFanout]>),
    /// Each level has one run. Level `i` has the capacity for `ratio - 1` merges of `ratioⁱ`
    /// memtables each.
    Cola {
        /// The size ratio of adjacent levels.
        ratio: u32,
    },
    /// Each level has one run. Once the run of level `i` is larger than `ratioⁱ` memtables, it is
    /// merged into the next level.
    Leveled {
        /// The size ratio of adjacent levels.
        ratio: u32,
    },
    /// Runs are merged only when a user requests it.
    Never,
}

/// The options of an LSM tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelsOptions {
    /// The merge policy. It cannot be changed after the structure has been created.
    pub policy: MergePolicy,
    /// Expected size in bytes of the run that a full memtable is flushed to.
    pub unit_bytes: u64,
    /// Length of a filter's fingerprints in bits. It cannot be changed after the structure has been
    /// created.
    pub fingerprint_bits: u8,
    /// Which leaves a merge adopts without reading them. It cannot be changed after the structure
    /// has been created, except for a function that compares keys.
    pub stitching: StitchPolicy,
    /// How filters of runs with adopted leaves are built. This option is not stored, so the caller
    /// must provide it each time the structure is opened.
    pub filters: FilterSource,
}

impl Default for LevelsOptions {
    fn default() -> LevelsOptions {
        LevelsOptions {
            policy: MergePolicy::default(),
            unit_bytes: 64 << 20,
            // Fingerprints never grow. With 40 bits, a filter with 2³⁰ keys has a false positive
            // rate of 1 in 1,000.
            fingerprint_bits: 40,
            stitching: StitchPolicy::default(),
            filters: FilterSource::default(),
        }
    }
}

impl Default for MergePolicy {
    fn default() -> MergePolicy {
        let fanout = LevelFanout {
            runs: USUAL,
            levels: u32::MAX,
        };
        MergePolicy::Samt([fanout].into())
    }
}

impl MergePolicy {
    /// Checks that all numbers of the policy are within their limits.
    ///
    /// # Errors
    /// [`Error::BadOption`] if a number is outside of its limits.
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
            MergePolicy::Samt(fanouts) if fanouts.is_empty() || fanouts.len() > TIERS => {
                let tiers = fanouts.len();
                Err(bad(format!(
                    "{tiers} fan-outs were given: give 1 to {TIERS}, one for each tier"
                )))
            }
            MergePolicy::Samt(fanouts) => fanouts.iter().try_for_each(|fanout| {
                if fanout.levels == 0 {
                    return Err(bad("a tier of 0 levels: leave it out".to_owned()));
                }
                check("k", fanout.runs)
            }),
            MergePolicy::Cola { ratio } | MergePolicy::Leveled { ratio } => check("r", *ratio),
            MergePolicy::Never => Ok(()),
        }
    }
}

impl fmt::Display for MergePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MergePolicy::Samt(fanouts) => {
                f.write_str("samt,k=")?;
                let (last, others) = fanouts.split_last().expect("a SAMT has a fan-out");
                for fanout in others {
                    write!(f, "{}x{}/", fanout.runs, fanout.levels)?;
                }
                write!(f, "{}", last.runs)
            }
            MergePolicy::Cola { ratio } => write!(f, "cola,r={ratio}"),
            MergePolicy::Leveled { ratio } => write!(f, "leveled,r={ratio}"),
            MergePolicy::Never => f.write_str("never"),
        }
    }
}

impl FromStr for MergePolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<MergePolicy> {
        let (name, option) = text.split_once(',').unwrap_or((text, ""));
        let ratio = |usual: u32| match option.strip_prefix("r=") {
            Some(number) => number_of(number),
            None if option.is_empty() => Ok(usual),
            None => Err(unknown(option, name)),
        };
        let policy = match name {
            "samt" => match option.strip_prefix("k=") {
                Some(fanouts) => MergePolicy::Samt(fanouts_of(fanouts)?),
                None if option.is_empty() => MergePolicy::default(),
                None => return Err(unknown(option, name)),
            },
            "cola" => MergePolicy::Cola { ratio: ratio(3)? },
            "leveled" => MergePolicy::Leveled { ratio: ratio(10)? },
            "never" if option.is_empty() => MergePolicy::Never,
            "never" => return Err(unknown(option, name)),
            _ => {
                return Err(bad(format!(
                    "\"{name}\" is not a policy: use samt, cola, leveled or never"
                )));
            }
        };
        policy.validate()?;
        Ok(policy)
    }
}

/// Parses fan-outs. For example, `4` means K = 4 on all levels, and `4x2/8` means K = 4 on two
/// levels and K = 8 on all remaining levels.
fn fanouts_of(text: &str) -> Result<Box<[LevelFanout]>> {
    let tiers = text.split('/').map(|tier| {
        let (runs, levels) = match tier.split_once('x') {
            Some((runs, levels)) => (runs, number_of(levels)?),
            None => (tier, u32::MAX),
        };
        Ok(LevelFanout {
            runs: number_of(runs)?,
            levels,
        })
    });
    let mut tiers = tiers.collect::<Result<Vec<LevelFanout>>>()?;
    let last = tiers.len() - 1;
    // The last tier has all remaining levels, even if the text specifies a number.
    tiers[last].levels = u32::MAX;
    if tiers[..last].iter().any(|tier| tier.levels == u32::MAX) {
        return Err(bad(format!(
            "\"{text}\" lacks a number of levels: give one for each tier but the last, as in 4x2/8"
        )));
    }
    Ok(tiers.into())
}

fn number_of(text: &str) -> Result<u32> {
    text.parse()
        .map_err(|_| bad(format!("\"{text}\" is not a number up to {}", u32::MAX)))
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
            let policy: MergePolicy = text.parse().unwrap();
            assert_eq!(policy.to_string(), text);
        }
        assert_eq!(
            "cola".parse::<MergePolicy>().unwrap(),
            MergePolicy::Cola { ratio: 3 }
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_says_why() {
        for (text, why) in [
            ("samt,k=1", "k is 1"),
            ("samt,k=65", "k is 65"),
            ("samt,k=4x0/8", "0 levels"),
            ("samt,k=4/8", "lacks a number of levels"),
            ("samt,k=", "is not a number"),
            ("samt,r=3", "no option \"r=3\""),
            ("cola,r=1", "r is 1"),
            ("leveled,r=0", "r is 0"),
            ("never,k=2", "no option"),
            ("lsm", "\"lsm\" is not a policy"),
        ] {
            let error = text.parse::<MergePolicy>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
