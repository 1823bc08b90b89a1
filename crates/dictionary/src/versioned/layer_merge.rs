//! Which layers of an ingest are merged, and the interface of a merge.

use super::layers::IngestLayer;
use crate::contract::StepProgress;
use crate::range_tombstones::RangeTombstoneIndex;
use alluvium_base::SequenceNumber;
use alluvium_storage::Result;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Number of layers of one level that are merged into a layer of the next level (*K* of a SAMT).
const FANOUT: usize = 8;

/// Maximum number of layers in a merge. It bounds the memory of the merge's read buffers.
const MOST_LAYERS: usize = 32;
const _: () = assert!(
    FANOUT > 2 && MOST_LAYERS >= FANOUT,
    "a result has up to three layers"
);

/// Adjacent layers that are to be merged.
#[derive(Debug)]
pub struct LayerGroup<R> {
    /// The numbers of the oldest and of the newest layer.
    pub numbers: (u64, u64),
    /// The level of the result.
    pub level: u32,
    /// The layers that have runs, from newest to oldest, each with its number.
    pub layers: Vec<(SequenceNumber, Vec<Arc<R>>)>,
    /// The range deletes of the group. Their sequence numbers are the numbers of their layers.
    pub deletes: Arc<RangeTombstoneIndex>,
}

/// The runs that a merge of layers has written.
#[derive(Debug)]
pub struct MergedLayers<R> {
    /// The runs of a layer with at most one message for each key.
    pub messages: Vec<R>,
    /// The runs of a newer layer with merge operands. An operand is here if it could not be folded
    /// into the message of its key: its base may expire, or the merge operator rejects it.
    pub operands: Vec<R>,
}

/// A merge of layers. If it is dropped, everything that it wrote is freed.
pub trait LayerMerge: fmt::Debug + Send {
    type Run;

    /// Runs one slice of the merge, which consumes about `records` records. The first slice reads
    /// the first leaves of the inputs.
    ///
    /// # Errors
    /// A full disk; I/O errors; damage. After an error, the merge can only be dropped.
    fn step(&mut self, records: usize) -> Result<StepProgress>;

    /// Returns what the merge wrote. It may be called once, after [`LayerMerge::step`] has returned
    /// [`StepProgress::Done`].
    fn take_result(&mut self) -> MergedLayers<Self::Run>;

    /// Returns the estimated memory that the merge uses, in bytes.
    fn memory_bytes(&self) -> u64;
}

/// Returns the positions of the layers that should be merged next, or `None` if no merge is due.
/// The layers must not lie on both sides of a mark (Y4), nor in a group of `running`.
///
/// A merge is due when eight adjacent layers have the same level. Newer layers of lower levels are
/// merged with them.
pub(super) fn due<R>(
    layers: &[IngestLayer<R>],
    marks: &[u64],
    running: &[(u64, u64)],
) -> Option<Range<usize>> {
    let is_running = |layer: &IngestLayer<R>| {
        let number = layer.number;
        running
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&number))
    };
    let mut end = layers.len();
    while end > 0 {
        if is_running(&layers[end - 1]) {
            end -= 1;
            continue;
        }
        let (mut start, mut level, mut of_level) = (end, 0, 0);
        while let Some(older) = start.checked_sub(1).filter(|place| !is_running(&layers[*place])) {
            // A mark equal to the number of this layer separates it from the newer ones.
            let is_marked = start < end && marks.binary_search(&layers[older].number).is_ok();
            let is_deeper = layers[older].level > level;
            if is_marked || (of_level >= FANOUT && is_deeper) {
                break;
            }
            match is_deeper {
                true => (level, of_level) = (layers[older].level, 1),
                false => of_level += usize::from(layers[older].level == level),
            }
            start = older;
        }
        if of_level >= FANOUT {
            // The oldest layers are merged first, so that levels decrease from old to new.
            return Some(start..end.min(start + MOST_LAYERS));
        }
        assert!(
            start < end,
            "a layer that is not in a running merge is looked at once"
        );
        end = start;
    }
    None
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    fn layers(levels: &[u32]) -> Vec<IngestLayer<()>> {
        let numbers = (1..).zip(levels);
        let layer = |(number, level): (u64, &u32)| IngestLayer::of_level(number, *level);
        numbers.map(layer).collect()
    }

    #[test]
    fn eight_layers_of_a_level_are_merged_with_the_newer_ones() {
        assert_eq!(due(&layers(&[0; 7]), &[], &[]), None);
        assert_eq!(due(&layers(&[0; 8]), &[], &[]), Some(0..8));
        assert_eq!(
            due(&layers(&[1, 1, 0, 0, 0, 0, 0, 0, 0, 0]), &[], &[]),
            Some(2..10)
        );
        let deep = [2, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0];
        assert_eq!(due(&layers(&deep), &[], &[]), Some(1..11));
        assert_eq!(due(&layers(&[2, 1, 1, 1, 1, 1, 1, 1, 0, 0]), &[], &[]), None);
        assert_eq!(due(&layers(&[0; 100]), &[], &[]), Some(0..MOST_LAYERS));
    }

    #[test]
    fn no_group_crosses_a_mark_or_a_running_merge() {
        assert_eq!(due(&layers(&[0; 12]), &[4], &[]), Some(4..12));
        assert_eq!(due(&layers(&[0; 12]), &[6], &[]), None);
        assert_eq!(due(&layers(&[0; 12]), &[9], &[]), Some(0..9));
        assert_eq!(due(&layers(&[0; 12]), &[12], &[]), Some(0..12));
        assert_eq!(due(&layers(&[0; 12]), &[], &[(1, 4)]), Some(4..12));
        assert_eq!(due(&layers(&[0; 12]), &[], &[(9, 12)]), Some(0..8));
        assert_eq!(due(&layers(&[0; 12]), &[], &[(3, 8)]), None);
    }
}
