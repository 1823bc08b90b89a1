//! Items of the thesis, and the requests for them.

use alluvium_bench::workload::zipf::ZipfGenerator;
use alluvium_hashes::mica::{HashedKey, partition};

/// Number of requests that arrive together.
pub(super) const BURST: usize = 32;

/// Number of partitions, and of the threads that serve them.
pub(super) const THREADS: usize = 2;

/// Seed of the key hashes.
pub(super) const SEED: u64 = 5;

/// Maximum number of requests in a measurement.
const MOST_REQUESTS: u64 = 16 << 20;

/// Source of all values; at least as long as the longest.
pub(super) const VALUE: [u8; 1024] = [7; 1024];

/// The lengths of the items' keys and values.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemSizes {
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
}

pub(super) const TINY: ItemSizes = ItemSizes {
    key_bytes: 8,
    value_bytes: 8,
};
pub(super) const SMALL: ItemSizes = ItemSizes {
    key_bytes: 16,
    value_bytes: 64,
};
pub(super) const LARGE: ItemSizes = ItemSizes {
    key_bytes: 128,
    value_bytes: 1024,
};

/// Holds the longest key, that of [`LARGE`] items.
pub(super) type KeyBuffer = [u8; 128];

impl ItemSizes {
    pub(super) fn bytes(self) -> usize {
        self.key_bytes + self.value_bytes
    }

    /// Writes the key for a number.
    pub(super) fn write_key(self, number: u64, key: &mut KeyBuffer) {
        key[..8].copy_from_slice(&number.to_le_bytes());
    }

    pub(super) fn hash(self, number: u64) -> u64 {
        let mut key = [0; 128];
        self.write_key(number, &mut key);
        HashedKey::new(SEED, &key[..self.key_bytes]).hash()
    }

    pub(super) fn value(self) -> &'static [u8] {
        &VALUE[..self.value_bytes]
    }
}

/// The distribution of requests over keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RequestSkew {
    Uniform,
    /// Zipf distribution with the exponent 0.99.
    Zipf,
}

/// The assignment of requests to threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RequestRouting {
    /// To the owner of the key's partition.
    ToOwner,
    /// Sets to the owner; gets to any thread.
    SetsToOwner,
    ToAny,
}

/// A request of a client, with the hash of its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampledRequest {
    pub(super) number: u64,
    pub(super) hash: u64,
    pub(super) is_get: bool,
}

/// A workload: the items, their number and popularity, and the percentage of gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestMix {
    pub(super) items: ItemSizes,
    pub(super) count: u64,
    pub(super) skew: RequestSkew,
    pub(super) get_percent: u32,
}

impl RequestMix {
    /// Draws as many requests as there are items, within bounds.
    pub(super) fn draw(self) -> impl Iterator<Item = SampledRequest> {
        let zipf = ZipfGenerator::new(self.count);
        let mut random = fastrand::Rng::with_seed(SEED);
        (0..self.count.clamp(1, MOST_REQUESTS)).map(move |_| {
            let number = match self.skew {
                RequestSkew::Uniform => random.u64(..self.count),
                // Popular keys are scattered, so that both old and new items are popular.
                RequestSkew::Zipf => zipf.draw(&mut random).wrapping_mul(0x9E37_79B9_7F4A_7C15) % self.count,
            };
            SampledRequest {
                number,
                hash: self.items.hash(number),
                is_get: random.u32(..100) < self.get_percent,
            }
        })
    }

    /// Draws the requests of each thread.
    pub(super) fn directed(self, directed: RequestRouting) -> Vec<Vec<SampledRequest>> {
        let mut threads = vec![Vec::new(); THREADS];
        for (at, drawn) in self.draw().enumerate() {
            let is_owners = directed == RequestRouting::ToOwner
                || (directed == RequestRouting::SetsToOwner && !drawn.is_get);
            let thread = match is_owners {
                true => partition(drawn.hash, THREADS),
                false => at % THREADS,
            };
            threads[thread].push(drawn);
        }
        threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_go_to_the_owner_where_it_alone_may_execute_them() {
        let mix = RequestMix {
            items: TINY,
            count: 1000,
            skew: RequestSkew::Zipf,
            get_percent: 50,
        };
        for (directed, may_be_anywhere) in [
            (
                RequestRouting::ToOwner,
                (|_| false) as fn(&SampledRequest) -> bool,
            ),
            (RequestRouting::SetsToOwner, |drawn| drawn.is_get),
            (RequestRouting::ToAny, |_| true),
        ] {
            let threads = mix.directed(directed);
            assert_eq!(threads.iter().map(Vec::len).sum::<usize>(), 1000);
            let is_strange = |thread, drawn: &SampledRequest| partition(drawn.hash, THREADS) != thread;
            for (thread, requests) in threads.iter().enumerate() {
                let strange: Vec<&SampledRequest> = requests
                    .iter()
                    .filter(|drawn| is_strange(thread, drawn))
                    .collect();
                assert!(strange.iter().all(|drawn| may_be_anywhere(drawn)));
                assert_eq!(strange.is_empty(), directed == RequestRouting::ToOwner);
            }
        }
    }

    #[test]
    fn skewed_requests_ask_for_few_keys_often() {
        let most = |skew| {
            let mut counts = [0; 1000];
            let mix = RequestMix {
                items: TINY,
                count: 1000,
                skew,
                get_percent: 50,
            };
            mix.draw().for_each(|drawn| counts[drawn.number as usize] += 1);
            counts.into_iter().max().unwrap()
        };
        assert!(most(RequestSkew::Zipf) > 10 * most(RequestSkew::Uniform));
    }
}
