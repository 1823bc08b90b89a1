//! A compact buffer for the hashes of a run that is being written, from which the run's filter is
//! built at the end. It takes about two bytes per hash.
//!
//! The filter cannot be built until the number of hashes is known. Complete hashes would take eight
//! bytes each, and a run may have tens of millions. The filter uses only the leading bits of each
//! hash, and hashes arrive in ascending order, so the buffer stores the differences between
//! successive truncated hashes.

use super::HashRunFilter;
use alluvium_filters::Result;
use alluvium_filters::listed::{ListedShape, MOST_HASHES};

/// Ascending hashes, truncated to the bits that their filter uses.
#[derive(Debug)]
pub(super) struct HashDeltas {
    filter_bits: u32,
    /// Number of leading bits of each hash that are stored.
    bits: u32,
    /// The most recently added hash, truncated to `bits` bits.
    last: u64,
    count: u64,
    /// Differences between successive truncated hashes. One less than [`LONG`] is stored as a
    /// single number. Any other is stored as `LONG`, followed by four 16-bit numbers, least
    /// significant first.
    steps: Vec<u16>,
}

/// Marks a difference of at least this size, which does not fit in a single number.
const LONG: u16 = u16::MAX;

impl HashDeltas {
    /// Creates an empty buffer for a filter of at most `most` hashes.
    ///
    /// # Errors
    /// [`alluvium_filters::Error::Shape`] if no filter has the requested false positive rate.
    pub(super) fn new(filter_bits: u8, most: u64) -> Result<HashDeltas> {
        let filter_bits = u32::from(filter_bits);
        Ok(HashDeltas {
            filter_bits,
            bits: ListedShape::new(most.min(MOST_HASHES), filter_bits)?.known_bits(),
            last: 0,
            count: 0,
            steps: Vec::new(),
        })
    }

    /// Adds a hash, which must not be less than the previous one.
    pub(super) fn push(&mut self, hash: u64) {
        let kept = hash >> (u64::BITS - self.bits);
        assert!(self.last <= kept, "records ascend by hash (R1)");
        let step = kept - self.last;
        match u16::try_from(step) {
            Ok(short) if short < LONG => self.steps.push(short),
            _ => {
                self.steps.push(LONG);
                self.steps.extend((0..4).map(|part| (step >> (16 * part)) as u16));
            }
        }
        self.last = kept;
        self.count += 1;
    }

    /// Builds the filter of all hashes added so far.
    pub(super) fn filter(&self) -> Result<HashRunFilter> {
        // If more hashes were added than announced, the ideal filter would use more bits of each
        // hash than were stored, so restrict it to the stored bits.
        let shape = ListedShape::new(self.count, self.filter_bits)?.knowing(self.bits);
        let mut steps = self.steps.iter().map(|&step| u64::from(step));
        let mut last = 0;
        let hashes = std::iter::from_fn(|| {
            let step = match steps.next()? {
                step if step < u64::from(LONG) => step,
                _ => (0..4).try_fold(0, |sum, part| Some(sum | steps.next()? << (16 * part)))?,
            };
            last += step;
            Some(last << (u64::BITS - self.bits))
        });
        HashRunFilter::build(hashes, shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(count: usize) -> Vec<u64> {
        let mut random = fastrand::Rng::with_seed(7);
        let mut hashes: Vec<u64> = (0..count).map(|_| random.u64(..)).collect();
        hashes.extend([0, u64::MAX]);
        hashes.sort_unstable();
        hashes
    }

    #[test]
    fn a_filter_is_the_same_however_many_were_announced() {
        let all = hashes(5000);
        let built = |most: u64| {
            let mut gathered = HashDeltas::new(10, most).unwrap();
            all.iter().for_each(|&hash| gathered.push(hash));
            (gathered.filter().unwrap(), 2 * gathered.steps.len())
        };
        let (exact, bytes) = built(all.len() as u64);
        let (roomy, _) = built(1 << 30);
        let whole = HashRunFilter::build(all.iter().copied(), ListedShape::new(5002, 10).unwrap()).unwrap();
        assert_eq!((&exact, &roomy), (&whole, &whole));
        assert!(bytes < 2 * all.len() + all.len() / 2, "{bytes}");
        for hash in &all {
            assert!(exact.may_hold(*hash).unwrap());
        }
    }

    #[test]
    fn a_filter_of_more_hashes_than_were_announced_has_them_all() {
        let all = hashes(5000);
        let mut gathered = HashDeltas::new(10, 1).unwrap();
        all.iter().for_each(|&hash| gathered.push(hash));
        let filter = gathered.filter().unwrap();
        assert!(all.iter().all(|&hash| filter.may_hold(hash).unwrap()));
    }
}
