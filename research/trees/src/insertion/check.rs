//! Reads every leaf of a tree, and reports violations.

use super::{AbsorptionMode, InsertionTree};
use alluvium_base::Purpose;
use alluvium_storage::Error;

/// Checks fences and leaves (IB1), buffered changes (IB3), and cached leaves (IB4).
pub(super) fn check(tree: &InsertionTree) -> Vec<Error> {
    let mut wrong = tree.leaves.stale();
    assert_eq!(
        tree.fences.len(),
        tree.leaves.count() as usize,
        "IB1: a fence for each leaf"
    );
    let mut waiting = 0;
    for (fence, &leaf) in &tree.fences {
        let end = tree.end_of(fence);
        let place = || tree.leaves.place(leaf);
        if tree.fence_of[leaf as usize] != *fence {
            let expected = format!("the fence \"{}\"", fence.escape_ascii());
            wrong.push(Error::corrupt(place(), expected, "another by the leaf's number"));
        }
        let here = tree.waiting.range(fence, end.as_deref()).len();
        waiting += here;
        if tree.options.absorption == AbsorptionMode::On && tree.leaves.has(leaf) && here > 0 {
            let found = format!("{here} that wait for a leaf in memory");
            wrong.push(Error::corrupt(place(), "nothing that waits (IB3)", found));
        }
        if tree
            .fullest
            .as_ref()
            .is_some_and(|fullest| fullest.count(leaf) != here)
        {
            wrong.push(Error::corrupt(
                place(),
                format!("{here} records that wait"),
                "another count",
            ));
        }
        let read;
        let records = if tree.leaves.has(leaf) {
            tree.leaves.records(leaf)
        } else {
            match tree.leaves.read(leaf, Purpose::Check) {
                Ok(records) => {
                    read = records;
                    &read
                }
                Err(error) => {
                    wrong.push(error);
                    continue;
                }
            }
        };
        let belongs = |key: &[u8]| key >= &**fence && end.as_deref().is_none_or(|end| key < end);
        if let Some((key, _)) = records.iter().find(|(key, _)| !belongs(key)) {
            let found = format!("\"{}\"", key.escape_ascii());
            wrong.push(Error::corrupt(
                place(),
                "keys between the leaf's fences (IB1)",
                found,
            ));
        }
        if records.len() > tree.options.leaf_records {
            let expected = format!("at most {} records", tree.options.leaf_records);
            wrong.push(Error::corrupt(place(), expected, format!("{}", records.len())));
        }
    }
    assert_eq!(waiting, tree.waiting.len(), "what waits has a leaf");
    wrong
}
