//! External perfect hashing over sorted records, as a baseline.

use super::harness::{RecordSizes, ScratchDirectory};
use alluvium_device::{AlignedBuffer, Device, Directory, FileOptions, IoBatch};
use alluvium_hashes::index::format::{HASH_BYTES, hash_of};
use alluvium_storage::sort::{ExternalSorter, SortOptions, SortRecordLayout};
use anyhow::Result;
use research_filters::perfect::{PerfectHashBuilder, buckets};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes written to the file at once.
const AT_ONCE: usize = 1 << 20;

/// A file of records, ordered by the places that the hash function returns, and the function.
pub(super) struct PerfectHashFile {
    pub(super) index: Vec<u8>,
    pub(super) device: Arc<dyn Device>,
    pub(super) took: Duration,
}

/// Records of the current bucket, and bytes that are not yet written to the file.
struct PendingBucket {
    bucket: Vec<Vec<u8>>,
    out: Vec<u8>,
}

/// Sorts records by hash, computes a function for each bucket, and writes the bucket's records in
/// the order of the function.
pub(super) fn build(
    records: RecordSizes,
    scratch: &ScratchDirectory,
    count: u64,
    memory: u64,
) -> Result<PerfectHashFile> {
    let started = Instant::now();
    let options = records.options(alluvium_hashes::index::StaticIndexKind::Dense, memory);
    let record_bytes = options.shape.record_bytes();
    let layout = SortRecordLayout::Fixed {
        record_bytes: (HASH_BYTES + record_bytes) as u32,
        key_offset: 0,
        key_bytes: HASH_BYTES as u32,
    };
    let sort = SortOptions {
        memory_bytes: options.memory_bytes,
        ..SortOptions::new(layout)
    };
    let mut sorter = ExternalSorter::new(Arc::clone(&scratch.directory) as _, "perfect", sort)?;
    let mut record = Vec::new();
    records.each(0..count, |key, value| {
        record.clear();
        record.extend_from_slice(&hash_of(0, key));
        record.extend_from_slice(key);
        record.extend_from_slice(value);
        Ok(sorter.push_record(&record)?)
    })?;
    let device = scratch.directory.create("perfect.data", FileOptions::DIRECT)?;
    device.grow(records.bytes(count).next_multiple_of(AT_ONCE as u64) + AT_ONCE as u64)?;
    let waiting = RefCell::new(PendingBucket {
        bucket: Vec::new(),
        out: Vec::new(),
    });
    let mut builder = PerfectHashBuilder::new(HASH_BYTES as u32, buckets(count), |_, places: &[u8]| {
        let PendingBucket { bucket, out } = &mut *waiting.borrow_mut();
        // The record that was just pushed belongs to the next bucket.
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_unstable_by_key(|&at| places[at]);
        for at in order {
            out.extend_from_slice(&bucket[at]);
        }
        bucket.drain(..places.len());
    })?;
    let mut sorted = sorter.finish()?;
    let mut offset = 0;
    while let Some(record) = sorted.next()? {
        let (hash, record) = record.value().split_at(HASH_BYTES);
        builder.push(hash)?;
        let mut waiting = waiting.borrow_mut();
        waiting.bucket.push(record.to_vec());
        while waiting.out.len() >= AT_ONCE {
            offset = write(&*device, offset, &mut waiting.out, AT_ONCE)?;
        }
    }
    let index = builder.finish()?;
    let mut waiting = waiting.into_inner();
    let left = waiting.out.len();
    write(&*device, offset, &mut waiting.out, left)?;
    device.sync(alluvium_base::Purpose::Other)?;
    Ok(PerfectHashFile {
        index,
        device,
        took: started.elapsed(),
    })
}

/// Writes the first bytes of the buffer. Returns the offset of the next write.
fn write(device: &dyn Device, offset: u64, out: &mut Vec<u8>, bytes: usize) -> Result<u64> {
    if bytes == 0 {
        return Ok(offset);
    }
    let mut batch = IoBatch::with_capacity(1);
    batch.write(
        offset,
        AlignedBuffer::padded(&out[..bytes]),
        alluvium_base::Purpose::Other,
    );
    device.run(batch)?;
    out.drain(..bytes);
    Ok(offset + bytes as u64)
}
