//! Builds an index from keys in ascending order.

use super::format::{BucketStart, PerfectHashHeader, bucket, encode, head};
use super::graph::find;
use super::index::PerfectHashIndex;
use super::shape::{DEFAULT_KEYS_PER_BUCKET, KEY_BYTES, MAX_BUCKET_KEYS, MAX_BUCKETS, third};
use crate::{Error, Result};
use alluvium_filters::bits::{BitWriter, take};
use std::fmt;

/// Builds an index, one bucket at a time. After each non-empty bucket, the owner's callback
/// receives the positions of its items: the first position, and each key's offset from it, in the
/// order of insertion.
///
/// ```
/// use research_filters::perfect::{PerfectHashBuilder, PerfectHashIndex};
/// let mut places = Vec::new();
/// let mut builder = PerfectHashBuilder::new(8, 1, |first, of_keys| {
///     places.extend(of_keys.iter().map(|place| first + u64::from(*place)));
/// })?;
/// for key in [b"a hash 1", b"a hash 2", b"a hash 3"] {
///     builder.push(key)?;
/// }
/// let bytes = builder.finish()?;
/// assert_eq!(PerfectHashIndex::open(8, &bytes)?.lookup(b"a hash 2")?, Some(places[1]));
/// # Ok::<(), research_filters::Error>(())
/// ```
pub struct PerfectHashBuilder<S> {
    header: PerfectHashHeader,
    starts: Vec<BucketStart>,
    out: BitWriter,
    /// The keys of the bucket being filled. Its number is the length of the list of starts.
    bucket: Vec<u8>,
    last: Vec<u8>,
    sink: S,
}

impl<S> fmt::Debug for PerfectHashBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerfectHashBuilder")
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

impl<S: FnMut(u64, &[u8])> PerfectHashBuilder<S> {
    /// Creates a builder of an index of `key_bytes`-byte keys, with the number of buckets that
    /// [`buckets`](super::buckets) computes.
    ///
    /// # Errors
    /// [`Error::Shape`] when a parameter is out of range.
    pub fn new(key_bytes: u32, buckets: u64, sink: S) -> Result<PerfectHashBuilder<S>> {
        if !KEY_BYTES.contains(&key_bytes) || !(1..=MAX_BUCKETS).contains(&buckets) {
            let what = format!("keys of {key_bytes} bytes in {buckets} buckets");
            return Err(Error::shape(
                what,
                format!("{KEY_BYTES:?} bytes, 1 to {MAX_BUCKETS} buckets"),
            ));
        }
        Ok(PerfectHashBuilder {
            header: PerfectHashHeader {
                key_bytes,
                keys: 0,
                buckets,
                thirds: 0,
            },
            starts: Vec::new(),
            out: BitWriter::new(),
            bucket: Vec::new(),
            last: Vec::new(),
            sink,
        })
    }

    /// Adds the next key.
    ///
    /// # Errors
    /// [`Error::Order`] when the key is not greater than the previous one; [`Error::Shape`] when
    /// its bucket is full or no function is found for an earlier bucket.
    ///
    /// # Panics
    /// When the length of the key is not `key_bytes`.
    pub fn push(&mut self, key: &[u8]) -> Result<()> {
        assert_eq!(key.len(), self.header.key_bytes as usize, "bytes of a key");
        let number = bucket(key, self.header.buckets);
        if key <= self.last.as_slice() || number < self.starts.len() as u64 {
            let (entry, last) = (head(key), head(&self.last));
            return Err(Error::Order { entry, last });
        }
        self.close_until(number)?;
        if self.bucket.len() >= key.len() * MAX_BUCKET_KEYS as usize {
            let what = format!("more than {MAX_BUCKET_KEYS} keys in a bucket of perfect hashes");
            let each = DEFAULT_KEYS_PER_BUCKET;
            return Err(Error::shape(
                what,
                format!("more buckets, of {each} keys on average"),
            ));
        }
        self.bucket.extend_from_slice(key);
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    /// Copies a bucket from an index with the same number of buckets, so that its items keep
    /// their positions relative to the first. Returns whether the bucket was copied: it must not
    /// have been started in this builder.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the index has an invalid entry for the bucket; [`Error::Shape`]
    /// when no function is found for an earlier bucket.
    pub fn copy(&mut self, from: &PerfectHashIndex<'_>, number: u64) -> Result<bool> {
        let old = from.part(number)?;
        let next = self.starts.len() as u64;
        let is_begun = number < next || (number == next && !self.bucket.is_empty());
        if is_begun || (from.buckets(), from.key_bytes()) != (self.header.buckets, self.header.key_bytes) {
            return Ok(false);
        }
        self.close_until(number)?;
        self.begin(old.seed);
        for vertex in 0..3 * u64::from(old.third) {
            self.out.push(take(from.stream(), old.bit + 2 * vertex, 2), 2);
        }
        self.header.keys += u64::from(old.keys);
        self.header.thirds += u64::from(old.third);
        Ok(true)
    }

    fn begin(&mut self, seed: u8) {
        self.starts.push(BucketStart {
            thirds: self.header.thirds,
            item: self.header.keys,
            seed,
        });
    }

    /// Finds the functions of all buckets before the given one, which becomes the bucket being
    /// filled.
    fn close_until(&mut self, number: u64) -> Result<()> {
        while (self.starts.len() as u64) < number {
            self.close()?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let keys: Vec<&[u8]> = self.bucket.chunks(self.header.key_bytes as usize).collect();
        let Some(function) = find(&keys) else {
            let what = format!("bucket {} without a perfect hash function", self.starts.len());
            return Err(Error::shape(what, "another number of buckets"));
        };
        let third = third(keys.len() as u32);
        let mut of_bucket = BitWriter::new();
        for &value in &function.values {
            of_bucket.push(value.into(), 2);
            self.out.push(value.into(), 2);
        }
        if !keys.is_empty() {
            let stream = of_bucket.finish();
            let place = |key: &&[u8]| super::index::place(key, function.seed, third, &stream, 0);
            let places: Option<Vec<u8>> = keys.iter().map(|key| Some(place(key)? as u8)).collect();
            (self.sink)(
                self.header.keys,
                &places.expect("P2: keys lead to vertices with a value"),
            );
        }
        let keys = keys.len() as u64;
        self.begin(function.seed);
        self.header.keys += keys;
        self.header.thirds += u64::from(third);
        self.bucket.clear();
        Ok(())
    }

    /// Completes the index and returns its bytes.
    ///
    /// # Errors
    /// [`Error::Shape`] when no function is found for a bucket.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.close_until(self.header.buckets)?;
        Ok(encode(&self.header, &self.starts, &self.out.finish()))
    }
}
