//! Tables in memory: `cargo bench -p alluvium-hashes --bench mica`.
//!
//! Each thread has a partition and its own requests, as in MICA, where clients direct a request
//! to the core that owns its partition (Lim 2015, §5.3.2). Requests are drawn before time is
//! taken: the key's number, its hash and what to do. Time is wall time and the threads'
//! processor time.

use alluvium_hashes::mica::mode::Erew;
use alluvium_hashes::mica::{
    Eviction, Exclusive, HashedKey, Lossy, LossyOptions, NEVER, Request, Response, partition,
};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// How much to do.
#[derive(Clone, Copy)]
struct Scale {
    /// Bytes of items, over all threads.
    bytes: usize,
    /// Requests of a thread, drawn before.
    requests: usize,
    /// Times that a thread goes over its requests.
    rounds: usize,
}

const FULL: Scale = Scale {
    bytes: 768 << 20,
    requests: 4 << 20,
    rounds: 3,
};
const TINY: Scale = Scale {
    bytes: 256 << 10,
    requests: 1000,
    rounds: 1,
};

/// A dataset of the thesis: §5.4.1.
#[derive(Clone, Copy)]
struct Dataset {
    name: &'static str,
    key: usize,
    value: usize,
}

const DATASETS: [Dataset; 3] = [
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
enum Skew {
    Uniform,
    /// Zipf with exponent 0.99.
    Zipf,
}

const THREADS: usize = 2;
const SEED: u64 = 5;
/// Requests that arrive together.
const BURST: usize = 32;

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let scale = if full { FULL } else { TINY };
    println!("dataset  skew     gets   way      Mops/s  ns of processor/op  hits");
    let named: Vec<String> = std::env::args()
        .filter(|name| DATASETS.iter().any(|set| set.name == name))
        .collect();
    let chosen = |set: &Dataset| named.is_empty() || named.iter().any(|name| name == set.name);
    for dataset in DATASETS.into_iter().filter(chosen) {
        exclusive(&scale, dataset);
    }
}

/// Draws a rank by Zipf's law: Gray et al., SIGMOD 1994.
struct Zipf {
    count: f64,
    zeta: f64,
    eta: f64,
    alpha: f64,
    theta: f64,
}

impl Zipf {
    fn new(count: usize) -> Zipf {
        let theta = 0.99_f64;
        let terms = |count: usize| (1..=count).map(|rank| (rank as f64).powf(-theta)).sum::<f64>();
        let (zeta, two) = (terms(count), terms(2));
        let count = count as f64;
        let eta = (1.0 - (2.0 / count).powf(1.0 - theta)) / (1.0 - two / zeta);
        Zipf {
            count,
            zeta,
            eta,
            alpha: 1.0 / (1.0 - theta),
            theta,
        }
    }

    fn draw(&self, random: &mut fastrand::Rng) -> u64 {
        let point = random.f64();
        let scaled = point * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(self.theta) {
            return 1;
        }
        (self.count * (self.eta * point - self.eta + 1.0).powf(self.alpha)) as u64
    }
}

/// A request that a client sends, with its key's hash.
#[derive(Clone, Copy)]
struct Drawn {
    key: u64,
    hash: u64,
    /// Below the share of gets, in hundredths, it is one.
    chance: u8,
}

impl Dataset {
    fn items(self, scale: &Scale) -> usize {
        scale.bytes / (self.key + self.value + 4)
    }

    /// Writes a key of this dataset, from its number.
    fn write_key(self, number: u64, buffer: &mut [u8; 128]) {
        buffer[..8].copy_from_slice(&number.to_le_bytes());
    }

    fn hash(self, number: u64) -> u64 {
        let mut buffer = [0; 128];
        self.write_key(number, &mut buffer);
        HashedKey::new(SEED, &buffer[..self.key]).hash()
    }
}

/// Draws the requests of each thread: those whose keys are in its partition.
fn draw(scale: &Scale, dataset: Dataset, skew: Skew) -> Vec<Vec<Drawn>> {
    let items = dataset.items(scale);
    let zipf = Zipf::new(items);
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut drawn: Vec<_> = (0..THREADS).map(|_| Vec::with_capacity(scale.requests)).collect();
    while drawn.iter().any(|drawn| drawn.len() < scale.requests) {
        let rank = match skew {
            Skew::Uniform => random.u64(..items as u64),
            Skew::Zipf => zipf.draw(&mut random),
        };
        let hash = dataset.hash(rank);
        let drawn = &mut drawn[partition(hash, THREADS)];
        if drawn.len() < scale.requests {
            let chance = random.u8(..100);
            drawn.push(Drawn {
                key: rank,
                hash,
                chance,
            });
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

/// What some requests took.
struct Taken {
    wall: Duration,
    processor: Duration,
    hits: u64,
}

/// EREW: each thread has its partition.
fn exclusive(scale: &Scale, dataset: Dataset) {
    let mut tables: Vec<_> = (0..THREADS).map(|_| filled(scale, dataset)).collect();
    let items = dataset.items(scale);
    for number in 0..items as u64 {
        set(&mut tables, dataset, number);
    }
    for skew in [Skew::Uniform, Skew::Zipf] {
        let drawn = draw(scale, dataset, skew);
        for get_percent in [50, 95, 100, 0] {
            for way in [Way::Burst, Way::Single] {
                let taken = timed(&mut tables, &drawn, |table, drawn| {
                    (0..scale.rounds)
                        .map(|_| serve(table, dataset, drawn, get_percent, way))
                        .sum()
                });
                report(scale, dataset, (skew, get_percent, way), &taken);
            }
        }
    }
}

fn filled(scale: &Scale, dataset: Dataset) -> Exclusive<Lossy<Erew>> {
    let options = LossyOptions {
        eviction: Eviction::Fifo,
        seed: SEED,
        // A partition may get a little more than its share.
        ..LossyOptions::new(scale.bytes / THREADS / 100 * 105, dataset.key + dataset.value)
    };
    Exclusive::new(Lossy::new(&options).expect("options that fit"))
}

fn set(tables: &mut [Exclusive<Lossy<Erew>>], dataset: Dataset, number: u64) {
    let (mut key, value) = ([0; 128], [7; 1024]);
    dataset.write_key(number, &mut key);
    let key = HashedKey::new(SEED, &key[..dataset.key]);
    let table = &mut tables[partition(key.hash(), THREADS)];
    table
        .set(key, &value[..dataset.value], NEVER, 0)
        .expect("an item that fits");
}

/// How requests are served.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Burst,
    Single,
}

/// Serves all requests of a thread. Returns the hits.
fn serve(
    table: &mut Exclusive<Lossy<Erew>>,
    dataset: Dataset,
    drawn: &[Drawn],
    get_percent: u8,
    way: Way,
) -> u64 {
    let value = [9; 1024];
    let (mut keys, mut hits) = ([[0; 128]; BURST], 0);
    for drawn in drawn.chunks(BURST) {
        for (key, drawn) in keys.iter_mut().zip(drawn) {
            dataset.write_key(drawn.key, key);
        }
        let requests: [Request<'_>; BURST] = std::array::from_fn(|at| {
            let drawn = drawn[at.min(drawn.len() - 1)];
            let key = HashedKey::received(drawn.hash, &keys[at][..dataset.key]);
            let is_get = drawn.chance < get_percent;
            if is_get {
                Request::Get(key)
            } else {
                Request::Set(key, &value[..dataset.value], NEVER)
            }
        });
        let requests = &requests[..drawn.len()];
        match way {
            Way::Burst => table.burst(requests, 0, |_, response| {
                if let Response::Value(Some(value)) = response {
                    hits += u64::from(black_box(value[0]) > 0);
                }
            }),
            Way::Single => {
                for request in requests {
                    match *request {
                        Request::Get(key) => {
                            hits += u64::from(table.get(key, 0).is_some_and(|value| black_box(value[0]) > 0));
                        }
                        Request::Set(key, value, expires_at) => {
                            table.set(key, value, expires_at, 0).expect("an item that fits");
                        }
                    }
                }
            }
        }
    }
    hits
}

/// Runs one thread for each table.
fn timed<T: Send>(
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
                    let hits = serve(table, drawn);
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

fn report(scale: &Scale, dataset: Dataset, (skew, get_percent, way): (Skew, u8, Way), taken: &Taken) {
    let operations = (THREADS * scale.requests * scale.rounds) as f64;
    println!(
        "{:8} {:8} {get_percent:3} %  {:8} {:6.1} {:12.1} {:12.3}",
        dataset.name,
        if skew == Skew::Zipf { "zipf" } else { "uniform" },
        if way == Way::Burst { "burst" } else { "single" },
        operations / taken.wall.as_secs_f64() / 1e6,
        taken.processor.as_nanos() as f64 / operations,
        taken.hits as f64 / operations,
    );
}
