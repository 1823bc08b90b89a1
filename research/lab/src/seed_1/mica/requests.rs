//! Items of the thesis, and the requests for them.

use alluvium_bench::workload::zipf::Zipf;
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
pub(super) struct Items {
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
}

pub(super) const TINY: Items = Items {
    key_bytes: 8,
    value_bytes: 8,
};
pub(super) const SMALL: Items = Items {
    key_bytes: 16,
    value_bytes: 64,
};
pub(super) const LARGE: Items = Items {
    key_bytes: 128,
    value_bytes: 1024,
};

/// Buffer for one key.
pub(super) type Key = [u8; 128];

impl Items {
    pub(super) fn bytes(self) -> usize {
        self.key_bytes + self.value_bytes
    }

    /// Writes the key for a number.
    pub(super) fn write_key(self, number: u64, key: &mut Key) {
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
pub(super) enum Skew {
    Uniform,
    /// Zipf with exponent 0.99.
    Zipf,
}

/// The assignment of requests to threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Directed {
    /// To the owner of the key's partition.
    ToOwner,
    /// Sets to the owner; gets to any thread.
    SetsToOwner,
    ToAny,
}

/// A request of a client, with the hash of its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn {
    pub(super) number: u64,
    pub(super) hash: u64,
    pub(super) is_get: bool,
}

/// A workload: the items, their number and popularity, and the percentage of gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    pub(super) items: Items,
    pub(super) count: u64,
    pub(super) skew: Skew,
    pub(super) get_percent: u32,
}

impl Mix {
    /// Draws as many requests as there are items, within bounds.
    pub(super) fn draw(self) -> impl Iterator<Item = Drawn> {
        let zipf = Zipf::new(self.count);
        let mut random = fastrand::Rng::with_seed(SEED);
        (0..self.count.clamp(1, MOST_REQUESTS)).map(move |_| {
            let number = match self.skew {
                Skew::Uniform => random.u64(..self.count),
                // Popular keys are scattered, so that both old and new items are popular.
                Skew::Zipf => zipf.draw(&mut random).wrapping_mul(0x9E37_79B9_7F4A_7C15) % self.count,
            };
            Drawn {
                number,
                hash: self.items.hash(number),
                is_get: random.u32(..100) < self.get_percent,
            }
        })
    }

    /// Draws the requests of each thread.
    pub(super) fn directed(self, directed: Directed) -> Vec<Vec<Drawn>> {
        let mut threads = vec![Vec::new(); THREADS];
        for (at, drawn) in self.draw().enumerate() {
            let is_owners =
                directed == Directed::ToOwner || (directed == Directed::SetsToOwner && !drawn.is_get);
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
        let mix = Mix {
            items: TINY,
            count: 1000,
            skew: Skew::Zipf,
            get_percent: 50,
        };
        for (directed, may_be_anywhere) in [
            (Directed::ToOwner, (|_| false) as fn(&Drawn) -> bool),
            (Directed::SetsToOwner, |drawn| drawn.is_get),
            (Directed::ToAny, |_| true),
        ] {
            let threads = mix.directed(directed);
            assert_eq!(threads.iter().map(Vec::len).sum::<usize>(), 1000);
            let is_strange = |thread, drawn: &Drawn| partition(drawn.hash, THREADS) != thread;
            for (thread, requests) in threads.iter().enumerate() {
                let strange: Vec<&Drawn> = requests
                    .iter()
                    .filter(|drawn| is_strange(thread, drawn))
                    .collect();
                assert!(strange.iter().all(|drawn| may_be_anywhere(drawn)));
                assert_eq!(strange.is_empty(), directed == Directed::ToOwner);
            }
        }
    }

    #[test]
    fn skewed_requests_ask_for_few_keys_often() {
        let most = |skew| {
            let mut counts = [0; 1000];
            let mix = Mix {
                items: TINY,
                count: 1000,
                skew,
                get_percent: 50,
            };
            mix.draw().for_each(|drawn| counts[drawn.number as usize] += 1);
            counts.into_iter().max().unwrap()
        };
        assert!(most(Skew::Zipf) > 10 * most(Skew::Uniform));
    }
}
