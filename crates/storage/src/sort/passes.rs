//! Merge passes, which reduce many runs to as few as can be merged at once.

use super::error::Result;
use super::merge::SortMerge;
use super::options::SortOptions;
use super::reader::SortedRun;
use super::spool::{SortSpool, SortedInput};

/// The sorted inputs of one output stream. While they are too many to be merged at once, groups of
/// them are merged into runs.
///
/// ```
/// use alluvium_storage::sort::{SortMerge, MergePasses, Result, SortSpool};
/// fn merged(spool: &SortSpool, mut passes: MergePasses) -> Result<SortMerge> {
///     while let Some(group) = passes.group() {
///         passes.put(group.merge(spool)?);
///     }
///     passes.finish()
/// }
/// ```
#[derive(Debug)]
pub struct MergePasses {
    options: SortOptions,
    /// The inputs, ordered by number.
    inputs: Vec<SortedInput>,
    /// The position in `inputs` from which the current group was taken, or `None` if no group is
    /// being merged.
    hole: Option<usize>,
}

/// Consecutive inputs to be merged into a run.
#[derive(Debug)]
pub struct MergeGroup {
    inputs: Vec<SortedInput>,
}

impl MergeGroup {
    /// Merges the inputs of the group into a run, in any thread.
    ///
    /// # Errors
    /// [`Error::Damaged`](super::Error::Damaged); I/O errors.
    pub fn merge(self, spool: &SortSpool) -> Result<SortedRun> {
        spool.merge(self.inputs)
    }
}

impl MergePasses {
    pub(super) fn new(options: SortOptions, mut inputs: Vec<SortedInput>) -> MergePasses {
        inputs.sort_by_key(SortedInput::number);
        let rises = inputs.windows(2).all(|pair| pair[0].number() < pair[1].number());
        assert!(rises, "every chunk has a number of its own");
        MergePasses {
            options,
            inputs,
            hole: None,
        }
    }

    /// Returns the next group to merge, or `None` if the remaining inputs can be merged at once.
    /// The caller must merge the group and pass the run to [`MergePasses::put`].
    ///
    /// # Panics
    /// If the run of the previous group was not passed to [`MergePasses::put`].
    pub fn group(&mut self) -> Option<MergeGroup> {
        assert!(self.hole.is_none(), "the run of the last group is missing");
        let fan_in = self.fan_in();
        let count = self.inputs.len();
        if count <= fan_in {
            return None;
        }
        // The first group is as small as possible, so that little data is merged twice. Among the
        // groups of this size, choose the one with the fewest bytes.
        let width = fan_in.min(count - fan_in + 1);
        let bytes = |at: usize| {
            self.inputs[at..at + width]
                .iter()
                .map(SortedInput::bytes)
                .sum::<u64>()
        };
        let at = (0..=count - width).min_by_key(|&at| bytes(at))?;
        assert!(
            (2..=fan_in).contains(&width),
            "a group makes inputs fewer, and has space (Q5)"
        );
        self.hole = Some(at);
        Some(MergeGroup {
            inputs: self.inputs.drain(at..at + width).collect(),
        })
    }

    /// Returns how many inputs can be merged at once because their frames fit into memory (Q5).
    fn fan_in(&self) -> usize {
        let longest = self.inputs.iter().map(|input| match input {
            SortedInput::Chunk(_) => 0,
            SortedInput::Run(run) => run.longest,
        });
        let frame = longest.max().unwrap_or(0).max(self.options.frame());
        (self.options.memory_bytes / (2 * frame)).saturating_sub(2).max(2)
    }

    /// Adds the run that resulted from the last group.
    ///
    /// # Panics
    /// If no group is being merged.
    pub fn put(&mut self, run: SortedRun) {
        let at = self.hole.take().expect("a group was handed out");
        self.inputs.insert(at, SortedInput::Run(run));
        let rises = self
            .inputs
            .windows(2)
            .all(|pair| pair[0].number() < pair[1].number());
        assert!(rises, "a run has the place of its group (Q1)");
    }

    /// Returns the stream of all records in key order.
    ///
    /// # Errors
    /// [`Error::Damaged`](super::Error::Damaged); I/O errors.
    ///
    /// # Panics
    /// If there are still groups to be merged.
    pub fn finish(mut self) -> Result<SortMerge> {
        assert!(self.group().is_none(), "groups are left to be merged");
        SortMerge::new(&self.options, self.inputs)
    }
}
