//! Decides whether a merge adopts a sequence of leaves without reading them. The decision depends
//! only on the number of leaves and on the keys around them.

use alluvium_base::DeviceProfile;
use alluvium_model::stitch_break_even;
use alluvium_storage::{Error, Result};
use std::fmt;

/// Whether scans usually read two keys together. Such keys form one unit, which should be stored
/// contiguously.
#[derive(Clone, Copy, Debug)]
pub enum SameScan {
    /// The function decides whether two keys belong to the same unit. It is not stored, so the
    /// caller must provide it each time the store is opened.
    By(fn(&[u8], &[u8]) -> bool),
    /// Two keys belong to the same unit if this many bytes after the name of their keyspace are
    /// equal. This option is stored.
    Prefix(u32),
}

impl PartialEq for SameScan {
    fn eq(&self, other: &SameScan) -> bool {
        match (self, other) {
            (SameScan::By(one), SameScan::By(other)) => *one as usize == *other as usize,
            (SameScan::Prefix(one), SameScan::Prefix(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for SameScan {}

impl SameScan {
    /// Returns whether two keys belong to the same unit. Both begin with the name of their
    /// keyspace, which has `name` bytes.
    #[must_use]
    pub fn are_one(&self, one: &[u8], other: &[u8], name: usize) -> bool {
        match self {
            SameScan::By(same) => same(one, other),
            SameScan::Prefix(bytes) => {
                let len = name.saturating_add(*bytes as usize);
                let unit = |key: &[u8]| key.len().min(len);
                one[..unit(one)] == other[..unit(other)]
            }
        }
    }
}

/// When a merge adopts leaves by copying their index entries (Spillane 2012, chapter 6), and when
/// it copies separate values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StitchPolicy {
    /// The parameter f: at least f + 1 consecutive leaves are adopted, and shorter sequences are
    /// copied. [`u32::MAX`] disables adoption.
    pub threshold: u32,
    /// If this is set, a sequence of leaves is copied when adopting it would separate keys of one
    /// unit at either end of the sequence.
    pub same_scan: Option<SameScan>,
    /// A sequence of more leaves than this is adopted even if that separates keys of one unit.
    pub always: u32,
    /// Whether a merge that copies a record also copies its separate value. If so, a run's values
    /// are in key order, except for those of adopted leaves. If not, a value stays where it was
    /// first written.
    pub moves_values: bool,
    /// How much defragmentation may write, as a percentage of all other writes. Defragmentation
    /// rewrites runs whose nodes are scattered, so that scans become faster. 0 disables it.
    pub defragment_percent: u32,
}

impl Default for StitchPolicy {
    /// Creates a policy that copies every leaf and adopts none.
    fn default() -> StitchPolicy {
        StitchPolicy {
            threshold: u32::MAX,
            same_scan: None,
            always: u32::MAX,
            moves_values: false,
            defragment_percent: 0,
        }
    }
}

/// How the filter of a run with adopted leaves is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilterSource {
    /// The filter is merged from the filters of the input runs.
    #[default]
    Merged,
    /// The filter is built from the keys of the run, as a Bloom filter must be, so each adopted
    /// leaf is read for its keys. This variant exists for comparison with `Merged` (Spillane 2012,
    /// section 6.2).
    Rehashed,
}

/// Maximum value of [`StitchPolicy::defragment_percent`].
pub(crate) const MOST_PERCENT: u32 = 100;

/// A sequence of consecutive leaves of one input that could be adopted, with the keys around it.
#[derive(Clone, Copy, Debug)]
pub struct StitchView<'k> {
    pub leaves: u64,
    /// The last key that the new run contains so far.
    pub before: Option<&'k [u8]>,
    /// A lower bound for the first key in the leaves.
    pub first: &'k [u8],
    /// The last key in the leaves or, if it is not known, an upper bound of it.
    pub end: Option<&'k [u8]>,
    /// The next key of any other input.
    pub next: Option<&'k [u8]>,
    /// Length in bytes of the name of the leaves' keyspace, with which each key begins.
    pub name: usize,
}

impl StitchPolicy {
    /// Returns whether the policy permits adopting leaves at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.threshold < u32::MAX
    }

    /// Returns whether the leaves in `view` should be adopted instead of copied.
    #[must_use]
    pub fn chooses(&self, view: &StitchView<'_>) -> bool {
        if view.leaves <= u64::from(self.threshold) || !self.is_on() {
            return false;
        }
        debug_assert!(
            view.end.is_none_or(|end| view.first <= end),
            "leaves begin no later than they end"
        );
        if view.leaves > u64::from(self.always) {
            return true;
        }
        let are_one = |one: Option<&[u8]>, other: Option<&[u8]>| match (self.same_scan, one, other) {
            (Some(same), Some(one), Some(other)) => same.are_one(one, other, view.name),
            _ => false,
        };
        !are_one(view.before, Some(view.first)) && !are_one(view.end, view.next)
    }
}

impl fmt::Display for StitchPolicy {
    /// Formats the options that are stored, as a suffix of a compaction policy, for example
    /// `,f=3,scan=8,always=2048`. The suffix is empty for the default policy, which copies every
    /// leaf.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A function cannot be stored, so the options that depend on it are not stored either.
        let is_kept = !matches!(self.same_scan, Some(SameScan::By(_)));
        if self.is_on() && is_kept {
            write!(f, ",f={}", self.threshold)?;
            if let Some(SameScan::Prefix(bytes)) = self.same_scan {
                write!(f, ",scan={bytes}")?;
            }
            if self.always < u32::MAX {
                write!(f, ",always={}", self.always)?;
            }
        }
        if self.moves_values {
            f.write_str(",values=moved")?;
        }
        match self.defragment_percent {
            0 => Ok(()),
            percent => write!(f, ",defragment={percent}"),
        }
    }
}

impl StitchPolicy {
    /// Checks that every option is within its limits.
    ///
    /// # Errors
    /// [`Error::BadOption`] if an option is out of range.
    pub fn validate(&self) -> Result<()> {
        let percent = self.defragment_percent;
        if percent <= MOST_PERCENT {
            return Ok(());
        }
        Err(bad(format!(
            "defragment={percent} is out of range: give a percentage of the other writes, 1 to \
            {MOST_PERCENT}"
        )))
    }

    /// Splits the stitching options off the end of `text`, which contains the options of an LSM
    /// tree. Returns the text before them and the parsed options, or the defaults if there are
    /// none.
    ///
    /// ```
    /// use alluvium_trees::levels::{SameScan, StitchPolicy};
    /// let (policy, stitching) = StitchPolicy::split("samt,k=4,f=3,scan=8,always=2048")?;
    /// assert_eq!((policy, stitching.threshold), ("samt,k=4", 3));
    /// assert_eq!(stitching.same_scan, Some(SameScan::Prefix(8)));
    /// assert!(StitchPolicy::split("samt,scan=8").is_err(), "nothing is taken over without an f");
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadOption`] if a number is invalid, or if an option that requires `f` is given
    /// without it.
    pub fn split(text: &str) -> Result<(&str, StitchPolicy)> {
        let mut stitching = StitchPolicy::default();
        let mut rest = text;
        while !rest.is_empty() {
            let (before, last) = rest.rsplit_once(',').unwrap_or(("", rest));
            let Some((name, number)) = last.split_once('=') else {
                if matches!(last, "f" | "scan" | "always" | "defragment") {
                    return Err(bad(format!("{last} lacks a number: give one, as in {last}=3")));
                }
                break;
            };
            if name == "values" {
                if number != "moved" {
                    let why = format!("{last} is invalid: use values=moved, or leave it out");
                    return Err(bad(why));
                }
                (stitching.moves_values, rest) = (true, before);
                continue;
            }
            if !matches!(name, "f" | "scan" | "always" | "defragment") {
                break;
            }
            let number = number
                .parse()
                .map_err(|_| bad(format!("{last}: \"{number}\" is not a number up to {}", u32::MAX)))?;
            match name {
                "f" => stitching.threshold = number,
                "scan" => stitching.same_scan = Some(SameScan::Prefix(number)),
                "defragment" => stitching.defragment_percent = number,
                _ => stitching.always = number,
            }
            rest = before;
        }
        stitching.validate()?;
        let has_more = stitching.same_scan.is_some() || stitching.always < u32::MAX;
        if !stitching.is_on() && has_more {
            return Err(bad(format!(
                "\"{text}\" lacks f, which scan and always need: give the largest number of consecutive leaves that merges copy"
            )));
        }
        Ok((rest, stitching))
    }
}

fn bad(why: String) -> Error {
    Error::BadOption {
        option: "stitching of levels",
        why,
    }
}

/// Returns the maximum number of consecutive leaves that a merge should copy instead of adopting
/// them. Each leaf has `leaf_bytes` bytes, and about `rewrites` more merges are expected to rewrite
/// a key. The number follows from the affine I/O model, under the assumption that readers issue as
/// many concurrent I/Os as the device supports ([`stitch_break_even`]).
#[must_use]
pub(crate) fn threshold(device: &DeviceProfile, leaf_bytes: u64, rewrites: u64) -> u32 {
    let bytes = stitch_break_even(device.half_bandwidth(), device.slots() as u64, rewrites);
    let leaves = bytes / leaf_bytes.max(1);
    u32::try_from(leaves).unwrap_or(u32::MAX - 1).min(u32::MAX - 1)
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_told_by_the_first_bytes_behind_the_name_of_a_keyspace() {
        let same = SameScan::Prefix(2);
        assert!(same.are_one(b"7abc", b"7abd", 1) && !same.are_one(b"7abc", b"7acc", 1));
        assert!(!same.are_one(b"7abc", b"8abc", 1), "keyspaces are apart");
        assert!(!same.are_one(b"7a", b"7ab", 1) && same.are_one(b"7", b"7", 1));
    }

    #[test]
    fn stitching_is_read_as_it_is_said() {
        for text in [
            "samt,k=4,f=0",
            "cola,r=3,f=3,scan=8",
            "never,f=1,scan=0,always=20",
            "samt,k=4,f=3,values=moved,defragment=20",
            "cola,r=3,defragment=100",
        ] {
            let (policy, stitching) = StitchPolicy::split(text).unwrap();
            assert_eq!(format!("{policy}{stitching}"), text);
        }
        assert_eq!(
            StitchPolicy::split("samt,k=4").unwrap(),
            ("samt,k=4", StitchPolicy::default())
        );
        let (policy, stitching) = StitchPolicy::split("f=3,scan=8").unwrap();
        assert_eq!((policy, stitching.threshold), ("", 3), "the usual policy");
        for (text, why) in [
            ("samt,k=4,f", "f lacks a number"),
            ("samt,f=3,defragment", "defragment lacks a number"),
            ("samt,f=", "\"\" is not a number"),
            ("samt,f=-1", "\"-1\" is not a number"),
            ("samt,f=1,scan=x", "\"x\" is not a number"),
            ("samt,always=4", "lacks f"),
            ("samt,f=4294967295,scan=8", "lacks f"),
            ("samt,values=kept", "use values=moved"),
            ("samt,defragment=101", "1 to 100"),
            ("samt,defragment=x", "is not a number"),
        ] {
            let error = StitchPolicy::split(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_taken_over_is_worth_a_seek_of_the_device() {
        let ssd = DeviceProfile::SSD;
        assert_eq!(threshold(&ssd, 4096, 1), 8, "32 KiB: four I/Os share a setup");
        assert_eq!(threshold(&ssd, 4096, 2), 2);
        let disk = DeviceProfile {
            setup_ns: 8_000_000,
            byte_ps: 10_000,
            parallelism: 1,
            ..ssd
        };
        assert_eq!(threshold(&disk, 4096, 1), 195);
        assert!(threshold(&disk, 0, 1) < u32::MAX, "it is never off");
    }
}
