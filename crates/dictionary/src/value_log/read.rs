//! Reads values that are stored outside their leaves.

use super::format::decode_pointers;
use super::{ValuePointer, largest, levels};
use crate::fetch::{BlockingFetch, NodeFetch};
use crate::nodes::{CachedNodeReader, DirectNodeReader, NodeReader};
use crate::pinned_value::{PageSlice, ValueDestination};
use crate::read::DataFiles;
use alluvium_base::Purpose;
use alluvium_storage::{CacheRetention, EpochGuard, Error, NodeCache, NodePointer, Result};
use std::task::{Poll, ready};

/// Maximum number of nodes of a long value that are read at once.
/// Tuning: `16` since 2026-11-21.
const AT_ONCE: usize = 16;

/// Reads a value into `out`, replacing its contents. If the value is stored in a single node, the
/// node stays in the cache; the nodes of a long value do not.
///
/// # Errors
/// [`Error::Corrupt`] if the data is damaged; I/O errors.
pub fn read_value(
    cache: &NodeCache,
    guard: &EpochGuard,
    pointer: &ValuePointer,
    purpose: Purpose,
    out: &mut Vec<u8>,
) -> Result<()> {
    let residence = if pointer.is_long(cache.page_size()) {
        CacheRetention::PassThrough
    } else {
        CacheRetention::Keep
    };
    let nodes = CachedNodeReader {
        cache,
        guard,
        purpose,
        residence,
    };
    read_from(&nodes, pointer, out)
}

/// Minimum length, in bytes, of a value that may stay in its pinned page. Copying a shorter value
/// is about as fast as pinning and unpinning its page.
/// Tuning: `2048` since 2026-11-22; copying 2 KiB takes about as long as pinning a page.
const WORTH_HOLDING: usize = 2048;

/// Reads a value into the given destination. The value either replaces the contents of the buffer
/// or stays in its page, which is then pinned. The node comes from `fetch`, except that the nodes
/// of a long value are always read with blocking reads.
pub fn fetch_value<F: NodeFetch>(
    fetch: &F,
    pointer: &ValuePointer,
    room: ValueDestination<'_>,
) -> Poll<Result<()>> {
    let out = room.bytes;
    let BlockingFetch {
        cache,
        guard,
        purpose,
    } = *fetch.blocking();
    if pointer.is_long(cache.page_size()) {
        return Poll::Ready(read_value(cache, guard, pointer, purpose, out));
    }
    let node = ready!(fetch.node(&pointer.node))?;
    let value = value_in(&node, pointer)?;
    match room.part {
        Some(part) if value.len() >= WORTH_HOLDING && node.is_cached() && cache.may_pin() => {
            *part = Some(PageSlice::new(node.retain(), pointer.at as usize, value.len()));
        }
        _ => {
            out.clear();
            out.extend_from_slice(value);
        }
    }
    Poll::Ready(Ok(()))
}

/// Returns the bytes of the value at `pointer`, given the contents of its node.
pub fn value_in<'n>(node: &'n [u8], pointer: &ValuePointer) -> Result<&'n [u8]> {
    let (at, len) = (pointer.at as usize, pointer.len as usize);
    let value = at.checked_add(len).and_then(|end| node.get(at..end));
    value.ok_or_else(|| short(pointer))
}

/// Returns the error for a value that extends beyond the end of its node.
#[cold]
fn short(pointer: &ValuePointer) -> Error {
    let found = format!("a value of {} bytes at {}", pointer.len, pointer.at);
    Error::corrupt(pointer.node.place(), "a value inside its node", found)
}

/// Reads a value from any node source into `out`, replacing its contents.
pub fn read_from(nodes: &dyn NodeReader, pointer: &ValuePointer, out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    let page_size = nodes.page_size();
    let len = pointer.len as usize;
    if !pointer.is_long(page_size) {
        return nodes.each(&[pointer.node], &mut |node| {
            out.extend_from_slice(value_in(node, pointer)?);
            Ok(())
        });
    }
    let largest = largest(page_size);
    descend(nodes, pointer, &mut |group, level| {
        let own = if level == 0 { group } else { &[] };
        own.chunks(AT_ONCE).try_for_each(|some| {
            nodes.each(some, &mut |node| {
                let wanted = (len - out.len()).min(largest);
                out.extend_from_slice(node.get(..wanted).ok_or_else(|| short(pointer))?);
                Ok(())
            })
        })
    })?;
    if out.len() == len {
        Ok(())
    } else {
        Err(short(pointer))
    }
}

/// Returns pointers to all nodes of a value, including its pointer nodes.
pub fn nodes_of(nodes: &dyn NodeReader, pointer: &ValuePointer) -> Result<Vec<NodePointer>> {
    let mut all = vec![pointer.node];
    descend(nodes, pointer, &mut |group, _| {
        all.extend_from_slice(group);
        Ok(())
    })?;
    Ok(all)
}

/// Passes pointers to the nodes of a long value to `visit` in groups, root first.
pub fn each_group(
    nodes: &dyn NodeReader,
    pointer: &ValuePointer,
    visit: &mut dyn FnMut(&[NodePointer], NodeContent),
) -> Result<()> {
    visit(&[pointer.node], NodeContent::Pointers);
    descend(nodes, pointer, &mut |group, level| {
        visit(
            group,
            if level == 0 {
                NodeContent::Value
            } else {
                NodeContent::Pointers
            },
        );
        Ok(())
    })
}

/// What a node of a long value contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeContent {
    /// A part of the value.
    Value,
    /// Pointers to other nodes of the value. The traversal reads these nodes itself.
    Pointers,
}

/// Traverses the pointer nodes of a long value from the root, left to right. For each pointer node,
/// `visit` receives its pointers and the number of pointer levels below it.
fn descend(
    nodes: &dyn NodeReader,
    pointer: &ValuePointer,
    visit: &mut dyn FnMut(&[NodePointer], usize) -> Result<()>,
) -> Result<()> {
    let page_size = nodes.page_size();
    let fan_out = largest(page_size) / NodePointer::BYTES;
    // For each level, how many nodes are still to be visited.
    let mut left = levels(pointer.len as usize, page_size);
    let mut pending = Vec::new();
    if pointer.is_long(page_size) {
        pending.push((pointer.node, left.len()));
    }
    while let Some((node, level)) = pending.pop() {
        debug_assert!(
            level > 0 && level <= left.len(),
            "level {level} of {}",
            left.len()
        );
        let below = level.saturating_sub(1);
        let count = left[below].min(fan_out);
        left[below] -= count;
        let mut group = Vec::new();
        nodes.each(&[node], &mut |bytes| {
            group = decode_pointers(bytes, count, &node.place(), page_size)?;
            Ok(())
        })?;
        debug_assert!(group.len() <= fan_out, "{} nodes below one", group.len());
        visit(&group, below)?;
        if below > 0 {
            pending.extend(group.into_iter().rev().map(|pointer| (pointer, below)));
        }
    }
    Ok(())
}

/// Reads a value into `out`, replacing its contents and bypassing the cache. Returns pointers to
/// all nodes of the value.
///
/// # Errors
/// The same errors as [`read_value`].
pub fn read_apart(
    files: DataFiles<'_>,
    pointer: &ValuePointer,
    purpose: Purpose,
    out: &mut Vec<u8>,
) -> Result<Vec<NodePointer>> {
    let nodes = DirectNodeReader {
        tiers: files.tiers,
        page_size: files.page_size,
        purpose,
    };
    read_from(&nodes, pointer, out)?;
    nodes_of(&nodes, pointer)
}
