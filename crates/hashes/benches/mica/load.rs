//! Datasets, requests and timing.

use crate::zipf::Zipf;
use alluvium_hashes::mica::{HashedKey, partition};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// The amount of work.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    /// Bytes of items over all partitions.
    pub(crate) bytes: usize,
    /// Requests per thread, drawn before the measurement.
    pub(crate) requests: usize,
    /// Number of passes of a thread over its requests.
    pub(crate) rounds: usize,
    /// Number of keys in a trace for hit ratios.
    pub(crate) keys: usize,
}

pub(crate) const FULL: Scale = Scale {
    bytes: 768 << 20,
    requests: 4 << 20,
    rounds: 2,
    keys: 1 << 20,
};
/// Three times the size of a processor's cache.
pub(crate) const QUICK: Scale = Scale {
    bytes: 96 << 20,
    requests: 1 << 20,
    rounds: 1,
    keys: 1 << 16,
};
pub(crate) const TINY: Scale = Scale {
    bytes: 256 << 10,
    requests: 1000,
    rounds: 1,
    keys: 1000,
};

/// A dataset of the thesis, §5.4.1: bytes of keys and values.
#[derive(Clone, Copy)]
pub(crate) struct Dataset {
    pub(crate) name: &'static str,
    pub(crate) key: usize,
    pub(crate) value: usize,
}

pub(crate) const DATASETS: [Dataset; 3] = [
    Dataset {
        name: "tiny",
        key: 8,
        value: 8,
    },
    Dataset {
        name: "small",
        key: 16,
        value: 64,
    },
    Dataset {
        name: "large",
        key: 128,
        value: 1024,
    },
];

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Skew {
    Uniform,
    /// Zipf with exponent 0.99.
    Zipf,
}

/// The thread that gets a request.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Directed {
    /// The thread that owns the key's partition.
    ToOwner,
    /// Sets go to the thread that owns the partition, gets to any thread.
    SetsToOwner,
    /// Any thread.
    ToAny,
}

pub(crate) const THREADS: usize = 2;
pub(crate) const SEED: u64 = 5;
/// Number of requests that arrive together.
pub(crate) const BURST: usize = 32;

/// A request of a client, with the hash of its key.
#[derive(Clone, Copy)]
pub(crate) struct Drawn {
    pub(crate) key: u64,
    pub(crate) hash: u64,
    pub(crate) is_get: bool,
}

impl Dataset {
    pub(crate) fn items(self, scale: &Scale) -> usize {
        scale.bytes / (self.key + self.value + 4)
    }

    /// Returns the numbers of all keys, once each, in an order in which frequent keys are both old
    /// and new.
    pub(crate) fn numbers(self, scale: &Scale) -> impl Iterator<Item = u64> {
        /// A prime that does not divide the number of items.
        const STRIDE: u64 = 2_654_435_761;
        let items = self.items(scale) as u64;
        assert!(!items.is_multiple_of(STRIDE));
        (0..items).map(move |at| at * STRIDE % items)
    }

    /// Writes a key of this dataset, from its number.
    pub(crate) fn write_key(self, number: u64, buffer: &mut [u8; 128]) {
        buffer[..8].copy_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn hash(self, number: u64) -> u64 {
        let mut buffer = [0; 128];
        self.write_key(number, &mut buffer);
        HashedKey::new(SEED, &buffer[..self.key]).hash()
    }

    /// Writes the keys of a burst.
    pub(crate) fn write_keys(self, burst: &[Drawn], keys: &mut [[u8; 128]; BURST]) {
        for (key, drawn) in keys.iter_mut().zip(burst) {
            self.write_key(drawn.key, key);
        }
    }
}

/// Draws the requests of each thread.
pub(crate) fn draw(
    scale: &Scale,
    dataset: Dataset,
    (skew, get_percent, directed): (Skew, u8, Directed),
) -> Vec<Vec<Drawn>> {
    let items = dataset.items(scale);
    let zipf = Zipf::new(items);
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut drawn: Vec<Vec<Drawn>> = (0..THREADS).map(|_| Vec::with_capacity(scale.requests)).collect();
    while drawn.iter().any(|drawn| drawn.len() < scale.requests) {
        let key = match skew {
            Skew::Uniform => random.u64(..items as u64),
            Skew::Zipf => zipf.draw(&mut random),
        };
        let (hash, is_get) = (dataset.hash(key), random.u8(..100) < get_percent);
        let is_directed = directed == Directed::ToOwner || directed == Directed::SetsToOwner && !is_get;
        let thread = if is_directed {
            partition(hash, THREADS)
        } else {
            random.usize(..THREADS)
        };
        if drawn[thread].len() < scale.requests {
            drawn[thread].push(Drawn { key, hash, is_get });
        }
    }
    drawn
}

/// Returns the processor time of this thread.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time is this function's own, and the clock exists.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The time spent on some requests.
pub(crate) struct Taken {
    wall: Duration,
    processor: Duration,
    hits: u64,
}

/// Runs one thread per table with its requests. Each thread returns its number of hits.
pub(crate) fn timed<T: Send>(
    scale: &Scale,
    tables: &mut [T],
    drawn: &[Vec<Drawn>],
    serve: impl Fn(&mut T, &[Drawn]) -> u64 + Sync,
) -> Taken {
    let barrier = Barrier::new(tables.len());
    let (barrier, serve) = (&barrier, &serve);
    let taken: Vec<(Instant, Instant, Duration, u64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = tables
            .iter_mut()
            .zip(drawn)
            .map(|(table, drawn)| {
                scope.spawn(move || {
                    barrier.wait();
                    let (start, processor) = (Instant::now(), processor_time());
                    let hits = (0..scale.rounds).map(|_| serve(table, drawn)).sum();
                    (start, Instant::now(), processor_time() - processor, hits)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread ends"))
            .collect()
    });
    let start = taken.iter().map(|taken| taken.0).min().expect("a thread");
    let end = taken.iter().map(|taken| taken.1).max().expect("a thread");
    Taken {
        wall: end - start,
        processor: taken.iter().map(|taken| taken.2).sum(),
        hits: taken.iter().map(|taken| taken.3).sum(),
    }
}

/// Prints a line with the name of the measurement and its result.
pub(crate) fn report(
    scale: &Scale,
    dataset: Dataset,
    (table, way): (&str, &str),
    (skew, get_percent): (Skew, u8),
    taken: &Taken,
) {
    let operations = (THREADS * scale.requests * scale.rounds) as f64;
    println!(
        "{table:14} {way:7} {:6} {:8} {get_percent:3} % gets {:6.1} M/s {:7.1} ns of processor, {:5.1} % hits",
        dataset.name,
        if skew == Skew::Zipf { "zipf" } else { "uniform" },
        operations / taken.wall.as_secs_f64() / 1e6,
        taken.processor.as_nanos() as f64 / operations,
        taken.hits as f64 / operations * 100.0,
    );
}
