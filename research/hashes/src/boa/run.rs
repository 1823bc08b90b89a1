//! Runs: sorted records in blocks, located by interpolation of the prefix or by bisection (Lemma
//! 3).

use super::format::{BUCKET_BYTES, BucketHeader};
use crate::blocks::{
    BlockExtent, BlockSpace, BlockStreamReader, BlockStreamWriter, Error, MachineModel, Result,
};
use crate::records::{TableRecord, decode};
use alluvium_filters::fingerprint::WideFingerprint;

/// The placement of records in the blocks of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BoaRunLayout {
    /// Records fill the blocks consecutively.
    Packed,
    /// Block i contains the records whose prefix is in the i-th part of the prefix range. Records
    /// that do not fit are in the overflow, in order.
    Buckets,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BoaRun {
    pub(super) layout: BoaRunLayout,
    pub(super) prefix_bits: u32,
    pub(super) buckets: u64,
    pub(super) extent: BlockExtent,
    pub(super) overflow: Option<BlockExtent>,
    pub(super) entries: u64,
    /// The total size of the records in bytes.
    pub(super) bytes: u64,
    /// The size of the records of the fullest bucket in bytes.
    pub(super) fullest: u64,
}

/// The average fill of buckets, in sixteenths.
const FILL: u64 = 11;

/// The parameters for reading the records of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordFormat {
    pub(crate) machine: MachineModel,
    pub(crate) width: u32,
}

impl RecordFormat {
    fn block(&self) -> u64 {
        self.machine.chunk() as u64
    }

    /// The number of bytes available to records in a block.
    fn capacity(&self) -> u64 {
        self.block() - BUCKET_BYTES
    }

    /// Returns the maximum size of a body stored within a run.
    pub(super) fn longest_body(&self) -> usize {
        (self.capacity() / 4).max(24) as usize
    }
}

impl BoaRun {
    /// Returns the bucket of a prefix.
    pub(super) fn bucket_of(&self, prefix: u64) -> u64 {
        ((u128::from(prefix) * u128::from(self.buckets)) >> self.prefix_bits) as u64
    }

    /// Returns the number of fingerprint bits that select the bucket.
    pub(super) fn prefix(&self, fingerprint: WideFingerprint) -> u64 {
        if self.prefix_bits == 0 {
            0
        } else {
            (fingerprint.0 >> (128 - self.prefix_bits)) as u64
        }
    }

    /// Reads the head of a bucket and the block that contains it.
    pub(super) fn bucket(
        &self,
        form: RecordFormat,
        space: &dyn BlockSpace,
        bucket: u64,
    ) -> Result<(BucketHeader, Vec<u8>)> {
        let mut block = vec![0; form.machine.chunk()];
        let place = self
            .extent
            .place(bucket.saturating_mul(form.block()), form.block())?;
        space.read(place, &mut block)?;
        let head = BucketHeader::decode(&block, self.overflow.map_or(0, |extent| extent.bytes))
            .map_err(|error| error.within(place))?;
        block.drain(..BUCKET_BYTES as usize);
        block.truncate(head.inline as usize);
        Ok((head, block))
    }

    /// Returns the part of the overflow that belongs to a bucket.
    pub(super) fn overflow_of(&self, head: &BucketHeader) -> Result<Option<BlockExtent>> {
        let Some(overflow) = self.overflow.filter(|_| head.overflow_bytes > 0) else {
            return Ok(None);
        };
        let at = overflow.place(head.overflow_at, head.overflow_bytes)?;
        Ok(Some(BlockExtent {
            at,
            bytes: head.overflow_bytes,
        }))
    }

    /// Returns the first bucket that may contain a fingerprint.
    ///
    /// A packed run is searched by bisection. The result is the block before the first block that
    /// begins with an equal or greater fingerprint.
    pub(super) fn first_bucket(
        &self,
        form: RecordFormat,
        space: &dyn BlockSpace,
        wanted: WideFingerprint,
    ) -> Result<u64> {
        if self.layout == BoaRunLayout::Buckets {
            return Ok(self.bucket_of(self.prefix(wanted)));
        }
        let (mut low, mut high) = (0, self.buckets);
        while low < high {
            let middle = (low + high) / 2;
            let (_, block) = self.bucket(form, space, middle)?;
            let mut bytes = crate::records::SliceSource {
                bytes: &block,
                place: self.extent.at,
            };
            if decode(&mut bytes, form.width)?.fingerprint < wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low.saturating_sub(1))
    }

    /// Returns all extents of the run itself.
    pub(super) fn extents(&self) -> impl Iterator<Item = BlockExtent> {
        [Some(self.extent), self.overflow].into_iter().flatten()
    }
}

/// Writes a run in one pass.
pub(super) struct BoaRunWriter<'s> {
    space: &'s dyn BlockSpace,
    form: RecordFormat,
    run: BoaRun,
    blocks: BlockStreamWriter<'s>,
    overflow: Option<BlockStreamWriter<'s>>,
    overflow_bound: u64,
    block: Vec<u8>,
    head: BucketHeader,
    bucket: u64,
    in_bucket: u64,
}

impl<'s> BoaRunWriter<'s> {
    /// Starts a run with at most `bytes` bytes of records.
    pub(super) fn new(
        space: &'s dyn BlockSpace,
        form: RecordFormat,
        layout: BoaRunLayout,
        prefix_bits: u32,
        bytes: u64,
    ) -> Result<BoaRunWriter<'s>> {
        let capacity = form.capacity();
        let buckets = match layout {
            // The unused part of a block is shorter than the longest record.
            BoaRunLayout::Packed => bytes / (capacity / 2).max(1) + 1,
            BoaRunLayout::Buckets => (bytes * 16).div_ceil(capacity * FILL).clamp(1, 1 << prefix_bits),
        };
        let extent = space.allocate(buckets * form.block())?;
        let run = BoaRun {
            layout,
            prefix_bits,
            buckets,
            extent,
            overflow: None,
            entries: 0,
            bytes: 0,
            fullest: 0,
        };
        Ok(BoaRunWriter {
            space,
            form,
            blocks: BlockStreamWriter::new(space, extent, form.machine.chunk()),
            overflow: None,
            overflow_bound: bytes,
            block: Vec::new(),
            head: BucketHeader::default(),
            bucket: 0,
            in_bucket: 0,
            run,
        })
    }

    /// Appends a record; records ascend by fingerprint (O2).
    pub(super) fn push(&mut self, entry: &TableRecord) -> Result<()> {
        let bytes = entry.bytes(self.form.width);
        match self.run.layout {
            BoaRunLayout::Buckets => {
                let bucket = self.run.bucket_of(self.run.prefix(entry.fingerprint));
                while self.bucket < bucket {
                    self.end_bucket()?;
                }
            }
            BoaRunLayout::Packed if self.block.len() as u64 + bytes > self.form.capacity() => {
                self.end_bucket()?
            }
            BoaRunLayout::Packed => {}
        }
        let fits = self.block.len() as u64 + bytes <= self.form.capacity() && self.head.overflow_bytes == 0;
        if fits {
            entry.encode(self.form.width, &mut self.block);
        } else {
            self.overflowed(entry)?;
        }
        self.in_bucket += bytes;
        self.run.entries += 1;
        self.run.bytes += bytes;
        Ok(())
    }

    fn overflowed(&mut self, entry: &TableRecord) -> Result<()> {
        assert!(
            self.run.layout == BoaRunLayout::Buckets,
            "a record is shorter than a block"
        );
        let mut bytes = Vec::new();
        entry.encode(self.form.width, &mut bytes);
        if self.overflow.is_none() {
            let extent = self.space.allocate(self.overflow_bound)?;
            self.run.overflow = Some(extent);
            self.overflow = Some(BlockStreamWriter::new(
                self.space,
                extent,
                self.form.machine.chunk(),
            ));
        }
        if let Some(overflow) = &mut self.overflow {
            if self.head.overflow_bytes == 0 {
                self.head.overflow_at = overflow.bytes();
            }
            overflow.put(&bytes)?;
        }
        self.head.overflow_bytes += bytes.len() as u64;
        Ok(())
    }

    fn end_bucket(&mut self) -> Result<()> {
        self.head.inline = self.block.len() as u32;
        let mut bytes = Vec::with_capacity(self.form.machine.chunk());
        self.head.encode(&mut bytes);
        bytes.append(&mut self.block);
        bytes.resize(self.form.machine.chunk(), 0);
        self.blocks.put(&bytes)?;
        self.run.fullest = self.run.fullest.max(self.in_bucket);
        self.head = BucketHeader::default();
        self.in_bucket = 0;
        self.bucket += 1;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<BoaRun> {
        match self.run.layout {
            BoaRunLayout::Packed => self.end_bucket()?,
            BoaRunLayout::Buckets => {
                while self.bucket < self.run.buckets {
                    self.end_bucket()?;
                }
            }
        }
        let bytes = self.blocks.finish()?;
        self.run.buckets = self.bucket;
        self.run.extent = self.space.trim(self.run.extent, bytes)?;
        if let (Some(writer), Some(extent)) = (self.overflow, self.run.overflow) {
            self.run.overflow = Some(self.space.trim(extent, writer.finish()?)?);
        }
        Ok(self.run)
    }
}

pub(super) struct RunCursor<'s> {
    space: &'s dyn BlockSpace,
    form: RecordFormat,
    run: BoaRun,
    next_bucket: u64,
    head: BucketHeader,
    block: Vec<u8>,
    at: usize,
    overflow: Option<BlockStreamReader<'s>>,
}

impl<'s> RunCursor<'s> {
    pub(super) fn new(space: &'s dyn BlockSpace, form: RecordFormat, run: BoaRun) -> RunCursor<'s> {
        let (head, block) = (BucketHeader::default(), Vec::new());
        RunCursor {
            space,
            form,
            run,
            next_bucket: 0,
            head,
            block,
            at: 0,
            overflow: None,
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<TableRecord>> {
        loop {
            if self.at < self.block.len() {
                let place = self.run.extent.at + (self.next_bucket - 1) * self.form.block() + BUCKET_BYTES;
                let bytes = self.block.get(self.at..).unwrap_or_default();
                let mut slice = crate::records::SliceSource {
                    bytes,
                    place: place + self.at as u64,
                };
                let entry = decode(&mut slice, self.form.width)?;
                self.at = self.block.len() - slice.bytes.len();
                return Ok(Some(entry));
            }
            if let Some(overflow) = &mut self.overflow {
                if overflow.left() > 0 {
                    return Ok(Some(decode(overflow, self.form.width)?));
                }
                self.overflow = None;
            }
            if self.next_bucket == self.run.buckets {
                return Ok(None);
            }
            (self.head, self.block) = self.run.bucket(self.form, self.space, self.next_bucket)?;
            self.at = 0;
            self.next_bucket += 1;
            let chunk = self.form.machine.chunk();
            self.overflow = self
                .run
                .overflow_of(&self.head)?
                .map(|extent| BlockStreamReader::new(self.space, extent, chunk));
        }
    }

    /// Returns the bucket number of the last record.
    pub(super) fn bucket(&self) -> u64 {
        self.next_bucket.saturating_sub(1)
    }
}

impl From<std::num::TryFromIntError> for Error {
    fn from(error: std::num::TryFromIntError) -> Error {
        Error::damaged(0, "number", "of the machine's size", error)
    }
}
