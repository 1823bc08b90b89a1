//! Items of the thesis, and requests for them.

use alluvium_bench::workload::zipf::Zipf;
use alluvium_hashes::mica::{HashedKey, partition};

/// Requests that arrive together.
pub(super) const BURST: usize = 32;

/// Partitions, and threads that serve them.
pub(super) const THREADS: usize = 2;

/// What keys are hashed with.
pub(super) const SEED: u64 = 5;

/// The most requests of a measurement.
const MOST_REQUESTS: u64 = 16 << 20;

/// A value that is long enough for all.
pub(super) const VALUE: [u8; 1024] = [7; 1024];

/// Lengths of items.
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

/// Memory of one key.
pub(super) type Key = [u8; 128];

impl Items {
    pub(super) fn bytes(self) -> usize {
        self.key_bytes + self.value_bytes
    }

    /// Writes the key of a number.
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

/// How often keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Skew {
    Uniform,
    /// Zipf with exponent 0.99.
    Zipf,
}

/// Which thread gets a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Directed {
    /// The owner of the key's partition.
    ToOwner,
    /// Sets to the owner, gets to any.
    SetsToOwner,
    ToAny,
}

/// A request that a client sends, with the hash of its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn {
    pub(super) number: u64,
    pub(super) hash: u64,
    pub(super) is_get: bool,
}

/// What is asked: of how many items, how often each, and how many of a hundred requests are gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    pub(super) items: Items,
    pub(super) count: u64,
    pub(super) skew: Skew,
    pub(super) get_percent: u32,
}

impl Mix {
    /// Draws the requests, as many as there are items, within bounds.
    pub(super) fn draw(self) -> impl Iterator<Item = Drawn> {
        let zipf = Zipf::new(self.count);
        let mut random = fastrand::Rng::with_seed(SEED);
        (0..self.count.clamp(1, MOST_REQUESTS)).map(move |_| {
            let number = match self.skew {
                Skew::Uniform => random.u64(..self.count),
                // Frequent keys are spread over all, so that old and new ones are among them.
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
