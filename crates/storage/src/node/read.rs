//! Uncached reads of nodes from their tiers, one by one or in batches. Nodes are verified and
//! decoded.

use super::{MAX_PAGES, NodeCodec, NodePointer, PageSize};
use crate::{Error, Result, TierFiles};
use alluvium_base::{MIB, Purpose};
use alluvium_device::{AlignedBuffer, Device, IoBatch};
use std::sync::Arc;

/// Maximum number of nodes to read together.
const NODES_AT_ONCE: usize = 64;
/// Maximum number of bytes to read together, except that a single node may be longer.
const BYTES_AT_ONCE: usize = MIB as usize;

const _: () = assert!(
    BYTES_AT_ONCE >= MAX_PAGES as usize * PageSize::MAX.bytes(),
    "the longest node is read at once"
);

/// Reads a node from its tier, verifies its checksum and decodes it.
///
/// # Errors
/// [`Error::Corrupt`] if the bytes do not match the pointer, or if the file ends within the node;
/// I/O errors.
pub fn read_node(
    tiers: &TierFiles,
    pointer: &NodePointer,
    page_size: PageSize,
    purpose: Purpose,
) -> Result<Vec<u8>> {
    let file = file_of(tiers, pointer, page_size)?;
    let encoded = file.read_at(pointer.offset, pointer.read_len(), purpose);
    let encoded = tiers.record_failure(pointer.tier, encoded)?;
    decoded(pointer, page_size, &encoded)
}

/// Reads nodes in batches. Calls `visit` for each pointer, in order, with its index and either the
/// decoded node or the error. A damaged node does not prevent the others from being read.
pub fn read_nodes(
    tiers: &TierFiles,
    pointers: &[NodePointer],
    page_size: PageSize,
    purpose: Purpose,
    visit: &mut dyn FnMut(usize, Result<Vec<u8>>),
) {
    let mut begun = 0;
    while begun < pointers.len() {
        let together = together(&pointers[begun..], page_size);
        debug_assert!(together > 0, "the longest node is read at once");
        let some = &pointers[begun..begun + together];
        let pieces = read_together(tiers, some, page_size, purpose);
        for (index, pointer) in some.iter().enumerate() {
            let node = match pieces.as_ref().and_then(|pieces| encoded(pieces, pointer)) {
                Some(encoded) => decoded(pointer, page_size, encoded),
                // The batch failed, or its buffers do not contain the node. Read the node
                // separately to give it a result of its own.
                None => read_node(tiers, pointer, page_size, purpose),
            };
            visit(begun + index, node);
        }
        begun += together;
    }
}

/// Returns how many of the first nodes can be read in one batch, for which they must all be in the
/// same tier.
fn together(pointers: &[NodePointer], page_size: PageSize) -> usize {
    let mut bytes = 0;
    let fits = |pointer: &&NodePointer| {
        bytes += page_size.node_bytes(pointer.pages);
        bytes <= BYTES_AT_ONCE && pointer.tier == pointers[0].tier
    };
    pointers
        .iter()
        .take(NODES_AT_ONCE)
        .take_while(fits)
        .count()
        .max(1)
}

/// Reads the encoded bytes of several nodes of one tier, with one request for adjacent nodes.
/// Returns the buffers and their offsets in the file, in node order, or `None` if any read fails.
fn read_together(
    tiers: &TierFiles,
    pointers: &[NodePointer],
    page_size: PageSize,
    purpose: Purpose,
) -> Option<Vec<(u64, AlignedBuffer)>> {
    let mut file = None;
    let mut pieces: Vec<(u64, usize)> = Vec::with_capacity(pointers.len());
    for pointer in pointers {
        file = Some(file_of(tiers, pointer, page_size).ok()?);
        match pieces.last_mut() {
            Some((offset, len)) if *offset + *len as u64 == pointer.offset => *len += pointer.read_len(),
            _ => pieces.push((pointer.offset, pointer.read_len())),
        }
    }
    let mut batch = IoBatch::with_capacity(pieces.len());
    for &(offset, len) in &pieces {
        batch.read(offset, AlignedBuffer::zeroed(len), purpose);
    }
    let file = file?;
    let ticket = file.submit(batch);
    file.wait(&ticket);
    let buffers = ticket.take_buffers().ok()?;
    Some(pieces.iter().map(|piece| piece.0).zip(buffers).collect())
}

/// Returns the encoded bytes of a node from the buffer that contains it, or `None` if no buffer
/// does.
fn encoded<'p>(pieces: &'p [(u64, AlignedBuffer)], pointer: &NodePointer) -> Option<&'p [u8]> {
    pieces.iter().find_map(|(offset, piece)| {
        let at = usize::try_from(pointer.offset.checked_sub(*offset)?).ok()?;
        piece.get(at..at.checked_add(pointer.read_len())?)
    })
}

/// Returns the data file of a node, or an error if the node is not entirely inside the file.
fn file_of<'t>(
    tiers: &'t TierFiles,
    pointer: &NodePointer,
    page_size: PageSize,
) -> Result<&'t Arc<dyn Device>> {
    pointer.check(&pointer.place(), page_size)?;
    let file = tiers.get(pointer.tier)?;
    let (len, wanted) = (file.len(), pointer.read_len() as u64);
    if pointer.offset.checked_add(wanted).is_none_or(|end| end > len) {
        let found = format!("the end of the file after {len} bytes");
        return Err(Error::corrupt(
            pointer.place(),
            format!("a node of {wanted} bytes"),
            found,
        ));
    }
    Ok(file)
}

fn decoded(pointer: &NodePointer, page_size: PageSize, encoded: &[u8]) -> Result<Vec<u8>> {
    pointer.verify(encoded)?;
    let mut node = vec![0; page_size.node_bytes(pointer.pages)];
    NodeCodec::decode(pointer, page_size, encoded, &mut node)?;
    Ok(node)
}
