//! Selects the parts to merge in a leaf whose older parts are currently unreadable. The selection
//! is a pure function of the sizes of the other parts.

use super::policy::TrunkShape;

/// Returns how many of a leaf's own parts to merge into one run while older parts are unreadable.
/// `parts` lists the number of runs and bytes of each readable part, oldest first. The newest parts
/// are picked first. Older ones are added while too many runs remain, and then for as long as the
/// next part is at most twice as large as all newer parts together. Returns `None` if fewer than
/// two parts are selected.
#[must_use]
pub(super) fn newest_parts(shape: &TrunkShape, parts: &[(usize, u64)]) -> Option<usize> {
    let mut left: usize = parts.iter().map(|part| part.0).sum();
    let (mut count, mut bytes) = (0, 0u64);
    for (runs, more_bytes) in parts.iter().rev() {
        if count > 0 && left <= shape.fanout && *more_bytes > 2 * bytes {
            break;
        }
        (count, bytes, left) = (count + 1, bytes + more_bytes, left - runs);
    }
    debug_assert!(count <= parts.len(), "parts are merged once");
    (count >= 2).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: TrunkShape = TrunkShape {
        fanout: 4,
        memtable: 100,
    };

    #[test]
    fn of_runs_beside_what_cannot_be_read_the_newest_and_smallest_are_merged() {
        let newest = |bytes: &[u64]| {
            let parts: Vec<(usize, u64)> = bytes.iter().map(|&bytes| (1, bytes)).collect();
            newest_parts(&SHAPE, &parts)
        };
        assert_eq!([newest(&[]), newest(&[9]), newest(&[9, 1])], [None; 3]);
        assert_eq!(newest(&[9, 1, 1]), Some(2));
        assert_eq!(
            newest(&[9, 4, 1, 1]),
            Some(4),
            "9 is no more than twice 4 + 1 + 1"
        );
        assert_eq!(
            newest(&[9000, 4000, 1500, 600, 200, 1]),
            Some(2),
            "there are too many"
        );
    }
}
