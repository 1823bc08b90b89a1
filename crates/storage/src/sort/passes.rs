//! From many runs to as few as can be merged at once.

use super::error::Result;
use super::merge::Merge;
use super::options::Options;
use super::reader::Run;
use super::spool::{Spool, Spooled};

/// Sorted inputs that are to become one stream. While there are too many, groups of them are
/// merged first.
///
/// ```
/// use alluvium_storage::sort::{Merge, Passes, Result, Spool};
/// fn merged(spool: &Spool, mut passes: Passes) -> Result<Merge> {
///     while let Some(group) = passes.group() {
///         passes.put(group.merge(spool)?);
///     }
///     passes.finish()
/// }
/// ```
#[derive(Debug)]
pub struct Passes {
    options: Options,
    /// In the order of their numbers.
    inputs: Vec<Spooled>,
    /// Where the group that was handed out belongs.
    hole: Option<usize>,
}

/// Inputs that are to be merged into a run.
#[derive(Debug)]
pub struct Group {
    inputs: Vec<Spooled>,
}

impl Group {
    /// Merges them: a step.
    ///
    /// # Errors
    /// [`Error::Damaged`](super::Error::Damaged), and what the device says.
    pub fn merge(self, spool: &Spool) -> Result<Run> {
        spool.merge(self.inputs)
    }
}

impl Passes {
    pub(super) fn new(options: Options, mut inputs: Vec<Spooled>) -> Passes {
        inputs.sort_by_key(Spooled::number);
        let rises = inputs.windows(2).all(|pair| pair[0].number() < pair[1].number());
        assert!(rises, "every chunk has a number of its own");
        Passes {
            options,
            inputs,
            hole: None,
        }
    }

    /// Returns the next group to be merged; nothing when all that is left can be merged at once.
    ///
    /// # Panics
    /// When the run of the group before was not put back.
    pub fn group(&mut self) -> Option<Group> {
        assert!(self.hole.is_none(), "the run of the last group is missing");
        let fan_in = self.fan_in();
        let count = self.inputs.len();
        if count <= fan_in {
            return None;
        }
        // The first groups are as small as will do, so that as little as possible is merged twice;
        // and where there is a choice, the one with the fewest bytes.
        let width = fan_in.min(count - fan_in + 1);
        let bytes = |at: usize| {
            self.inputs[at..at + width]
                .iter()
                .map(Spooled::bytes)
                .sum::<u64>()
        };
        let at = (0..=count - width).min_by_key(|&at| bytes(at))?;
        assert!(
            (2..=fan_in).contains(&width),
            "a group makes inputs fewer, and has space (Q5)"
        );
        self.hole = Some(at);
        Some(Group {
            inputs: self.inputs.drain(at..at + width).collect(),
        })
    }

    /// Returns how many inputs' frames the memory has space for (Q5).
    fn fan_in(&self) -> usize {
        let longest = self.inputs.iter().map(|input| match input {
            Spooled::Chunk(_) => 0,
            Spooled::Run(run) => run.longest,
        });
        let frame = longest.max().unwrap_or(0).max(self.options.frame());
        (self.options.memory_bytes / (2 * frame)).saturating_sub(2).max(2)
    }

    /// Takes the run that a group has become.
    ///
    /// # Panics
    /// When no group was handed out.
    pub fn put(&mut self, run: Run) {
        let at = self.hole.take().expect("a group was handed out");
        self.inputs.insert(at, Spooled::Run(run));
        let rises = self
            .inputs
            .windows(2)
            .all(|pair| pair[0].number() < pair[1].number());
        assert!(rises, "a run has the place of its group (Q1)");
    }

    /// Returns the stream of all records.
    ///
    /// # Errors
    /// [`Error::Damaged`](super::Error::Damaged), and what the device says.
    ///
    /// # Panics
    /// When groups are left.
    pub fn finish(mut self) -> Result<Merge> {
        assert!(self.group().is_none(), "groups are left to be merged");
        Merge::new(&self.options, self.inputs)
    }
}
