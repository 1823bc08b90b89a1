//! Draws a tree as plain text, with one line for each node or pivot and its contents.
//!
//! ```text
//! version 7, cut 4000, height 2
//! root ""..  2 children, 3 bundles
//! │ ""..        own -              pending 3 runs, 12 KiB
//! └ leaf ""..   own 2|1 runs, 40 KiB   pending -
//! ```

use crate::tiered::trunk::{StackEntry, TreeVersion, TrunkNode};
use std::fmt::{self, Write as _};

impl fmt::Display for TreeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "version {}, cut {}, height {}",
            self.stamp.number,
            self.stamp.cut,
            self.root.height + 1
        )?;
        draw(&self.root, 0, f)
    }
}

fn draw(node: &TrunkNode, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let indent = "  ".repeat(depth);
    if !node.is_leaf() {
        let (children, bundles) = (node.pivots.len(), node.bundles.len());
        writeln!(
            f,
            "{indent}node {:?}: {children} children, {bundles} bundles",
            node.range
        )?;
    }
    for (index, pivot) in node.pivots.iter().enumerate() {
        let range = node.pivot_range(index);
        let own = describe(pivot.own.iter().map(|owned| StackEntry {
            part: &owned.part,
            weight: owned.weight,
        }));
        let pending = describe(node.pending(index));
        let what = if node.is_leaf() { "leaf" } else { "│" };
        writeln!(f, "{indent}{what} {range:?}: own {own}; pending {pending}")?;
        if let Some(child) = &pivot.child {
            draw(child, depth + 1, f)?;
        }
    }
    Ok(())
}

/// Returns the number of runs of each part of a stack, oldest first, and the total weight of the
/// parts.
fn describe<'a>(layers: impl Iterator<Item = StackEntry<'a>>) -> String {
    let mut text = String::new();
    let (mut bytes, mut records) = (0, 0);
    for layer in layers {
        if !text.is_empty() {
            text.push('|');
        }
        let clip = if layer.part.clip.is_some() { "'" } else { "" };
        let _ = write!(text, "{}{clip}", layer.part.group.runs.len());
        bytes += layer.weight.bytes;
        records += layer.weight.records;
    }
    if text.is_empty() {
        "-".to_owned()
    } else {
        format!("{text} runs, {records} records, {} KiB", bytes.div_ceil(1024))
    }
}
