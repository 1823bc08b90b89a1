//! Loads leaves and index nodes, either from the cache under a guard or directly from the tiers.
//! Long nodes are assembled from their parts.

use super::format::{self, LONG};
use alluvium_base::Purpose;
use alluvium_dictionary::fetch::{BlockingFetch, NodeFetch};
use alluvium_dictionary::nodes::{CachedNodeReader, NodeReader};
use alluvium_storage::{CacheRetention, EpochGuard, Error, NodeCache, NodePointer, NodeRef, Result};
use std::ops::Deref;
use std::task::{Poll, ready};

/// A leaf or an index node: either a reference into the cache, or a long node assembled from its
/// parts.
pub(super) enum LoadedNode<'g> {
    Cached(NodeRef<'g>),
    Whole(Vec<u8>),
}

impl Deref for LoadedNode<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            LoadedNode::Cached(node) => node,
            LoadedNode::Whole(bytes) => bytes,
        }
    }
}

/// Loads a leaf or an index node through the cache.
#[inline]
pub(super) fn load<'g>(
    cache: &'g NodeCache,
    guard: &'g EpochGuard,
    pointer: &NodePointer,
    purpose: Purpose,
) -> Result<LoadedNode<'g>> {
    let node = cache.get(pointer, guard, purpose)?;
    let from = BlockingFetch {
        cache,
        guard,
        purpose,
    };
    loaded(node, pointer, &from)
}

/// Loads a leaf that was read ahead. Does not mark it as used in the cache, so that a scan does not
/// displace other nodes.
pub(super) fn load_passing<'g>(
    cache: &'g NodeCache,
    guard: &'g EpochGuard,
    pointer: &NodePointer,
    purpose: Purpose,
) -> Result<LoadedNode<'g>> {
    match cache.peek_untracked(pointer, guard) {
        Some(node) => loaded(
            node,
            pointer,
            &BlockingFetch {
                cache,
                guard,
                purpose,
            },
        ),
        None => load(cache, guard, pointer, purpose),
    }
}

/// Loads a leaf through `fetch`. If the leaf is long, waits until its parts have been read.
#[inline]
pub(super) fn load_leaf_in<'g, F: NodeFetch>(
    fetch: &'g F,
    pointer: &NodePointer,
) -> Poll<Result<LoadedNode<'g>>> {
    let node = ready!(fetch.node(pointer))?;
    Poll::Ready(loaded(node, pointer, fetch.blocking()))
}

/// Loads an index node through `fetch`. If the node is long, waits until its parts have been read.
#[inline]
pub(super) fn load_index_in<'g, F: NodeFetch>(
    fetch: &'g F,
    pointer: &NodePointer,
) -> Poll<Result<LoadedNode<'g>>> {
    let node = ready!(fetch.index_page(pointer))?;
    Poll::Ready(loaded(node, pointer, fetch.blocking()))
}

#[inline]
fn loaded<'g>(node: NodeRef<'g>, pointer: &NodePointer, from: &BlockingFetch<'_>) -> Result<LoadedNode<'g>> {
    if !is_long(&node) {
        return Ok(LoadedNode::Cached(node));
    }
    let nodes = CachedNodeReader {
        cache: from.cache,
        guard: from.guard,
        purpose: from.purpose,
        residence: CacheRetention::Keep,
    };
    Ok(LoadedNode::Whole(assemble(&nodes, pointer, &node)?))
}

/// Returns whether these bytes are the head of a long node.
#[inline]
pub(super) fn is_long(node: &[u8]) -> bool {
    node.first() == Some(&LONG)
}

/// Returns the complete bytes of a leaf or an index node, including the parts of a long node.
pub(super) fn load_from(nodes: &dyn NodeReader, pointer: &NodePointer) -> Result<Vec<u8>> {
    let mut whole = Vec::new();
    nodes.each(&[*pointer], &mut |node| {
        whole = if is_long(node) {
            assemble(nodes, pointer, node)?
        } else {
            node.to_vec()
        };
        Ok(())
    })?;
    Ok(whole)
}

/// Reads the parts of the long node with this head, and returns the bytes of the whole node.
pub(super) fn assemble(nodes: &dyn NodeReader, pointer: &NodePointer, head: &[u8]) -> Result<Vec<u8>> {
    let (len, parts) = format::decode_long(head, &pointer.place(), nodes.page_size())?;
    let mut whole = Vec::with_capacity(len);
    nodes.each(&parts, &mut |part| {
        whole.extend_from_slice(part);
        Ok(())
    })?;
    if whole.len() < len {
        let expected = format!("a long node of {len} bytes");
        return Err(Error::corrupt(
            pointer.place(),
            expected,
            format!("{} bytes", whole.len()),
        ));
    }
    whole.truncate(len);
    Ok(whole)
}
