//! Reads every block of a tree, and reports damage.

use super::PdamTree;
use super::layout::PdamLayout;
use super::scan::{at_rank, check_node};
use alluvium_base::Purpose;
use alluvium_storage::{Error, Result};

/// The result of a check.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct PdamCheckReport {
    /// The number of nodes read.
    pub nodes: u64,
    /// The number of keys in the leaves among them.
    pub keys: u64,
    /// The damage found, with its locations.
    pub damage: Vec<Error>,
}

/// The maximum number of reported errors: in a file with foreign contents every block is damaged.
const MOST_LISTED: usize = 1000;

/// Reads all nodes, leaves first.
pub(super) fn check(tree: &PdamTree) -> Result<PdamCheckReport> {
    let layout = &tree.layout;
    let mut examined = PdamCheckReport::default();
    // The first key of each node of the level below, if it could be read.
    let mut below: Vec<Option<Box<[u8]>>> = Vec::new();
    for level in 0..layout.levels.len() {
        let mut firsts = Vec::new();
        let mut last: Option<Box<[u8]>> = None;
        for node in 0..layout.levels[level].nodes {
            let blocks = 0..u64::from(layout.shape.node_blocks());
            let bytes = tree.read(layout.number(level, node), blocks, Purpose::Check)?;
            examined.nodes += 1;
            let sound = check_node(layout, level, node, &bytes).map_err(|error| note(&mut examined, error));
            let children = below_of(layout, level, node, &below);
            if sound.is_ok() {
                entries(layout, (level, node), &bytes, &mut last, children, &mut examined);
            }
            // A node's first key is that of its first child.
            firsts.push(match children.first() {
                Some(first) => first.clone(),
                None if sound.is_ok() => Some(key(layout, 0, &bytes, 0).into()),
                None => None,
            });
        }
        below = firsts;
    }
    assert!(below.len() <= 1, "PD1: the last level is the root");
    Ok(examined)
}

/// Returns the first keys of a node's children; for a leaf there are none.
fn below_of<'b>(
    layout: &PdamLayout,
    level: usize,
    node: u64,
    below: &'b [Option<Box<[u8]>>],
) -> &'b [Option<Box<[u8]>>] {
    if level == 0 {
        return &[];
    }
    let start = (node * layout.shape.fanout()) as usize;
    let count = layout.entries(level, node) as usize + 1;
    &below[start..start + count]
}

/// Checks that the keys of a node ascend, also relative to the previous node, and that each key
/// of an inner node is the first key of a child.
fn entries(
    layout: &PdamLayout,
    (level, node): (usize, u64),
    bytes: &[u8],
    last: &mut Option<Box<[u8]>>,
    children: &[Option<Box<[u8]>>],
    examined: &mut PdamCheckReport,
) {
    let place = || layout.place(layout.number(level, node), 0);
    for rank in 0..layout.entries(level, node) {
        let key = key(layout, level, bytes, rank);
        if last.as_deref().is_some_and(|last| last >= key) {
            let found = format!("\"{}\" at or before it", key.escape_ascii());
            note(
                examined,
                Error::corrupt(place(), format!("key {rank} behind the one before it"), found),
            );
        }
        let child = children.get(rank as usize + 1).and_then(Option::as_deref);
        if child.is_some_and(|child| child != key) {
            let found = format!("\"{}\"", key.escape_ascii());
            let expected = format!("the first key of child {}", rank + 1);
            note(examined, Error::corrupt(place(), expected, found));
        }
        *last = Some(key.into());
    }
    if level == 0 {
        examined.keys += layout.entries(0, node);
    }
}

fn key<'n>(layout: &PdamLayout, level: usize, node: &'n [u8], rank: u64) -> &'n [u8] {
    let entry = at_rank(layout, level, node, rank);
    &entry[..layout.shape.key_bytes() as usize]
}

fn note(examined: &mut PdamCheckReport, error: Error) {
    if examined.damage.len() < MOST_LISTED {
        examined.damage.push(error);
    }
}
