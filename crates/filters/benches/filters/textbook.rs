//! The blocked Bloom filter of the literature: k bits anywhere in one cache line (Putze, Sanders,
//! Singler, "Cache-, hash- and space-efficient bloom filters", 2007), with the k and size that are
//! optimal for the rate. It occupies one contiguous allocation, without pages.

use std::array;

/// Bits of a line.
const LINE_BITS: u32 = 512;

/// The lines of a filter.
pub(crate) struct Textbook {
    lines: Vec<[u64; 8]>,
    probes: u32,
}

impl Textbook {
    /// Builds a filter of these keys with at most this false-positive rate.
    pub(crate) fn build(hashes: &[u64], rate: f64) -> Textbook {
        let keys = hashes.len() as f64;
        let fitting = |probes: u32| {
            let per_line = bisect(|per_line| false_positive_rate(per_line, probes) <= rate);
            (per_line, probes)
        };
        let (per_line, probes) = (4..=16)
            .map(fitting)
            .max_by(|one, two| one.0.total_cmp(&two.0))
            .expect("some probes");
        let mut filter = Textbook {
            lines: vec![[0; 8]; (keys / per_line).ceil() as usize],
            probes,
        };
        for &hash in hashes {
            let line = filter.line_of(hash);
            for bit in filter.bits_of(hash) {
                filter.lines[line][bit as usize / 64] |= 1 << (bit % 64);
            }
        }
        filter
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * size_of::<[u64; 8]>()
    }

    #[inline(always)]
    pub(crate) fn contains(&self, hash: u64) -> bool {
        let line = &self.lines[self.line_of(hash)];
        self.bits_of(hash)
            .all(|bit| line[bit as usize / 64] >> (bit % 64) & 1 == 1)
    }

    #[inline(always)]
    fn line_of(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.lines.len() as u128) >> 64) as usize
    }

    #[inline(always)]
    fn bits_of(&self, hash: u64) -> impl Iterator<Item = u32> + use<> {
        let mut mixed = hash;
        (0..self.probes).map(move |_| {
            mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed >> (64 - LINE_BITS.ilog2())) as u32
        })
    }
}

/// Returns the false-positive rate, averaged over a Poisson number of keys per line.
fn false_positive_rate(per_line: f64, probes: u32) -> f64 {
    let mut probability = (-per_line).exp();
    let unset: [f64; 200] =
        array::from_fn(|keys| (1.0 - 1.0 / f64::from(LINE_BITS)).powi(keys as i32 * probes as i32));
    (1..200u32).fold(0.0, |rate, keys| {
        probability *= per_line / f64::from(keys);
        rate + probability * (1.0 - unset[keys as usize]).powi(probes as i32)
    })
}

/// Returns the greatest number of keys per line for which `good` holds.
fn bisect(good: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (1.0, 120.0);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if good(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}
