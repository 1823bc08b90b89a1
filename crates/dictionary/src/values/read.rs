//! Reading values.

use super::format::decode_pointers;
use super::{ValuePointer, largest, levels};
use crate::fetch::{Blocking, Fetch};
use crate::found::{Part, Room};
use crate::nodes::{Cached, Direct, Nodes};
use crate::read::Files;
use alluvium_base::Purpose;
use alluvium_storage::{Cache, Error, Guard, NodePointer, Residence, Result};
use std::task::{Poll, ready};

/// Nodes that are asked for together.
const AT_ONCE: usize = 16;

/// Reads a value into `out`, which is cleared first. A value in one node stays in the cache; the
/// nodes of a long one pass through.
///
/// # Errors
/// [`Error::Corrupt`] when what is there is not what was written; as the device says.
pub fn read_value(
    cache: &Cache,
    guard: &Guard,
    pointer: &ValuePointer,
    purpose: Purpose,
    out: &mut Vec<u8>,
) -> Result<()> {
    let residence = if pointer.is_long(cache.page_size()) {
        Residence::PassThrough
    } else {
        Residence::Keep
    };
    let nodes = Cached {
        cache,
        guard,
        purpose,
        residence,
    };
    read_from(&nodes, pointer, out)
}

/// From this length on a value stays in its page if it may: a shorter one is copied about as fast
/// as its page is pinned and unpinned.
const WORTH_HOLDING: usize = 2048;

/// Reads a value, with its node from anywhere; `room` is cleared first. The nodes of a long value
/// are waited for.
pub fn fetch_value<F: Fetch>(fetch: &F, pointer: &ValuePointer, room: Room<'_>) -> Poll<Result<()>> {
    let out = room.bytes;
    let Blocking {
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
            *part = Some(Part::new(node.retain(), pointer.at as usize, value.len()));
        }
        _ => {
            out.clear();
            out.extend_from_slice(value);
        }
    }
    Poll::Ready(Ok(()))
}

/// Returns the bytes of a value that shares its node.
pub fn value_in<'n>(node: &'n [u8], pointer: &ValuePointer) -> Result<&'n [u8]> {
    let (at, len) = (pointer.at as usize, pointer.len as usize);
    let value = at.checked_add(len).and_then(|end| node.get(at..end));
    value.ok_or_else(|| short(pointer))
}

/// Returns the error of a value that is longer than what is there.
#[cold]
fn short(pointer: &ValuePointer) -> Error {
    let found = format!("a value of {} bytes at {}", pointer.len, pointer.at);
    Error::corrupt(pointer.node.place(), "a value inside its node", found)
}

/// Reads a value from anywhere into `out`, which is cleared first.
pub fn read_from(nodes: &dyn Nodes, pointer: &ValuePointer, out: &mut Vec<u8>) -> Result<()> {
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

/// Every node of a value: its own, and those above them.
pub fn nodes_of(nodes: &dyn Nodes, pointer: &ValuePointer) -> Result<Vec<NodePointer>> {
    let mut all = vec![pointer.node];
    descend(nodes, pointer, &mut |group, _| {
        all.extend_from_slice(group);
        Ok(())
    })?;
    Ok(all)
}

/// Hands the nodes of a value that is too long for one node to `visit`, in groups, its root first.
pub fn each_group(
    nodes: &dyn Nodes,
    pointer: &ValuePointer,
    visit: &mut dyn FnMut(&[NodePointer], Holds),
) -> Result<()> {
    visit(&[pointer.node], Holds::Pointers);
    descend(nodes, pointer, &mut |group, level| {
        visit(group, if level == 0 { Holds::Value } else { Holds::Pointers });
        Ok(())
    })
}

/// What the nodes of a long value hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// A part of the value.
    Value,
    /// Pointers to other nodes. They have been read, or will be.
    Pointers,
}

/// Goes down from the root of a long value, left to right; `visit` gets the pointers in each node,
/// and how many levels of pointers stand below those they point to.
fn descend(
    nodes: &dyn Nodes,
    pointer: &ValuePointer,
    visit: &mut dyn FnMut(&[NodePointer], usize) -> Result<()>,
) -> Result<()> {
    let page_size = nodes.page_size();
    let fan_out = largest(page_size) / NodePointer::BYTES;
    // How many nodes of each level are left.
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

/// Reads a value past the cache into `out`, which is cleared first, and says which nodes hold it.
///
/// # Errors
/// As [`read_value`].
pub fn read_apart(
    files: Files<'_>,
    pointer: &ValuePointer,
    purpose: Purpose,
    out: &mut Vec<u8>,
) -> Result<Vec<NodePointer>> {
    let nodes = Direct {
        tiers: files.tiers,
        page_size: files.page_size,
        purpose,
    };
    read_from(&nodes, pointer, out)?;
    nodes_of(&nodes, pointer)
}
