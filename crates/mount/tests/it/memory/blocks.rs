//! Contents of a file in memory: blocks and holes.

use super::refused;
use alluvium_files::{ErrorKind, Result, SeekTarget};
use std::collections::BTreeMap;

pub(super) const BLOCK: u64 = 4096;

#[derive(Default)]
pub(super) struct FileBlocks {
    blocks: BTreeMap<u64, Box<[u8]>>,
}

/// The parts of a range that lie in one block: its number, the offset in it, and the length.
fn parts(offset: u64, length: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + length;
    let mut at = offset;
    std::iter::from_fn(move || {
        let within = at % BLOCK;
        let length = (BLOCK - within).min(end.saturating_sub(at));
        let part = (at / BLOCK, within as usize, length as usize);
        at += length;
        (length > 0).then_some(part)
    })
}

impl FileBlocks {
    pub(super) fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut data = Vec::with_capacity(length);
        for (number, within, length) in parts(offset, length as u64) {
            match self.blocks.get(&number) {
                Some(block) => data.extend_from_slice(&block[within..within + length]),
                None => data.resize(data.len() + length, 0),
            }
        }
        data
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        let mut rest = data;
        for (number, within, length) in parts(offset, data.len() as u64) {
            let (part, after) = rest.split_at(length);
            let empty = || vec![0; BLOCK as usize].into_boxed_slice();
            self.blocks.entry(number).or_insert_with(empty)[within..within + length].copy_from_slice(part);
            rest = after;
        }
    }

    /// Makes whole blocks of the range holes, and fills its other parts with zeros.
    pub(super) fn clear(&mut self, offset: u64, length: u64) {
        let last = offset.saturating_add(length);
        let inner = offset.div_ceil(BLOCK)..last / BLOCK;
        self.blocks.retain(|number, _| !inner.contains(number));
        for (&number, block) in &mut self.blocks {
            let start = (number * BLOCK).max(offset);
            let end = ((number + 1) * BLOCK).min(last);
            if start < end {
                let base = number * BLOCK;
                block[(start - base) as usize..(end - base) as usize].fill(0);
            }
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.blocks.len() as u64
    }

    pub(super) fn seek(&self, size: u64, offset: u64, target: SeekTarget) -> Result<u64> {
        if offset >= size {
            return refused(ErrorKind::NoSuchOffset);
        }
        let mut at = offset;
        while at < size {
            let is_data = self.blocks.contains_key(&(at / BLOCK));
            if is_data == (target == SeekTarget::Data) {
                return Ok(at);
            }
            at = (at / BLOCK + 1) * BLOCK;
        }
        match target {
            SeekTarget::Hole => Ok(size),
            SeekTarget::Data => refused(ErrorKind::NoSuchOffset),
        }
    }
}
