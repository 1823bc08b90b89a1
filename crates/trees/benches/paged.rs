//! The thesis's five workloads on trees in pages: `cargo bench -p alluvium-trees --bench
//! paged`. Without `--bench` it runs with tiny inputs, as a test of the bench.
//!
//! Keys of 8 bytes, values of 100, pages of 16 KiB; keys are drawn with repetition from as many
//! as there are operations, by Zipf's distribution with exponent 0.99 over scrambled keys, or
//! uniformly. Words after `--`: `memory` or `file`, `zipf` or `uniform`, `beps`, `no-root` or
//! `bplus`, `keys=…`, `seconds=…` (at most, for each workload), `workloads=…`, `threads=…`,
//! `epsilon=…`, `page=…` (KiB), `directory=…`; `locked` (pins take the mutex of the table),
//! `swizzled` (references remember frames), `shards=…` (tables), `uncoupled` (one latch at a
//! time), `versions` (no latch on nodes that have snapshots).
//!
//! In a file the trees have a quarter of the data's size as memory (`part=1`: all of it),
//! and reads and writes go past the page cache.

use alluvium_device::Directory;
use alluvium_device::file::FileDirectory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_storage::Result;
use alluvium_trees::paged::TreeLocation;
use alluvium_trees::paged::beps::{BepsOptions, BepsTree, FlushOrder, RootStyle};
use alluvium_trees::paged::bplus::BplusTree;
use alluvium_trees::paged::buffer::{PageArena, PageBuffer, PagePool, PinPolicy, PoolOptions};
use alluvium_trees::paged::node::ReplaceOperator;
use alluvium_trees::paged::read::LatchCoupling;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const VALUE: usize = 100;
/// Bytes of a pair.
const PAIR: u64 = 8 + VALUE as u64;

/// The parameters of a measurement.
#[derive(Clone)]
struct Plan {
    keys: u64,
    most: Duration,
    threads: Vec<u64>,
    epsilon: u32,
    page_bytes: usize,
    /// Number of workloads to run.
    workloads: usize,
    directory: Option<String>,
    /// In a file, the memory is this fraction of the data: one `part`th.
    part: u64,
    /// Number of tables in the page buffer.
    shards: usize,
    words: Vec<String>,
}

impl Plan {
    fn of_arguments() -> Plan {
        let is_bench = std::env::args().any(|argument| argument == "--bench");
        let words: Vec<String> = std::env::args()
            .skip(1)
            .filter(|word| !word.starts_with('-'))
            .collect();
        let number = |name: &str| {
            let value = words
                .iter()
                .find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            value.and_then(|value| value.parse::<u64>().ok())
        };
        let directory = words.iter().find_map(|word| word.strip_prefix("directory="));
        Plan {
            keys: number("keys").unwrap_or(if is_bench { 1_000_000 } else { 3000 }),
            most: Duration::from_secs(number("seconds").unwrap_or(30)),
            threads: number("threads").map_or(vec![1, 2], |threads| vec![threads]),
            epsilon: number("epsilon").unwrap_or(60) as u32,
            page_bytes: number("page").unwrap_or(if is_bench { 16 } else { 4 }) as usize * 1024,
            workloads: number("workloads").unwrap_or(5) as usize,
            directory: directory.map(str::to_owned),
            part: number("part").unwrap_or(4).max(1),
            shards: number("shards").unwrap_or(1) as usize,
            words,
        }
    }

    /// Returns whether a word is selected: either it was given, or no word of its kind was.
    fn wants(&self, word: &str, kind: &[&str]) -> bool {
        let named = self.words.iter().any(|given| kind.contains(&given.as_str()));
        !named || self.words.iter().any(|given| given == word)
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|given| given == word)
    }

    fn pool(&self) -> PoolOptions {
        let memory = (self.keys * PAIR / self.part) as usize;
        PoolOptions {
            pins: if self.has("locked") {
                PinPolicy::Locked
            } else if self.has("swizzled") {
                PinPolicy::Swizzled
            } else {
                PinPolicy::Optimistic
            },
            shards: self.shards,
            page_bytes: self.page_bytes,
            memory_bytes: memory.max(48 * self.page_bytes),
            ..PoolOptions::default()
        }
    }

    fn coupling(&self) -> LatchCoupling {
        if self.has("versions") {
            LatchCoupling::Versions
        } else if self.has("uncoupled") {
            LatchCoupling::Optimistic
        } else {
            LatchCoupling::Latched
        }
    }

    fn options(&self, root: RootStyle) -> BepsOptions {
        let mut options = BepsOptions::new(8, VALUE);
        options.sizes.epsilon_percent = self.epsilon;
        options.root = root;
        options
    }
}

/// Draws keys.
#[derive(Clone)]
enum Draw {
    Uniform(u64),
    /// Count, its zeta, and eta: Gray et al., SIGMOD 1994.
    Zipf(u64, f64, f64),
}

impl Draw {
    fn zipf(count: u64) -> Draw {
        let zeta = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-0.99)).sum::<f64>();
        let all = zeta(count);
        let eta = (1.0 - (2.0 / count as f64).powf(0.01)) / (1.0 - zeta(2) / all);
        Draw::Zipf(count, all, eta)
    }

    fn key(&self, random: &mut fastrand::Rng) -> [u8; 8] {
        let rank = match self {
            Draw::Uniform(count) => random.u64(..count),
            Draw::Zipf(count, zeta, eta) => {
                let uniform = random.f64();
                match uniform * zeta {
                    scaled if scaled < 1.0 => 0,
                    scaled if scaled < 1.0 + 0.5f64.powf(0.99) => 1,
                    _ => ((*count as f64 * (eta * uniform - eta + 1.0).powf(100.0)) as u64).min(count - 1),
                }
            }
        };
        // Scrambled, so neighbours in rank are not neighbours in key order.
        let mixed = (rank + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            .to_be_bytes()
    }
}

/// A measured tree.
trait Tree: Sync {
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()>;
    fn update(&self, key: &[u8], value: &[u8]) -> Result<()>;
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    /// Pages read and written.
    fn traffic(&self) -> [u64; 2];
}

/// A page buffer that counts its reads and writes.
trait Traffic: PageBuffer {
    fn traffic(&self) -> [u64; 2];
}

impl Traffic for PageArena {
    fn traffic(&self) -> [u64; 2] {
        [0, 0]
    }
}

impl Traffic for PagePool {
    fn traffic(&self) -> [u64; 2] {
        let counted = self.statistics();
        [counted.reads, counted.writes]
    }
}

macro_rules! tree {
    ($tree:ident) => {
        impl<B: Traffic> Tree for $tree<B> {
            fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
                $tree::insert(self, key, value)
            }
            fn update(&self, key: &[u8], value: &[u8]) -> Result<()> {
                $tree::update(self, key, value)
            }
            fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
                self.get_into(key, value)
            }
            fn traffic(&self) -> [u64; 2] {
                self.buffer().traffic()
            }
        }
    };
}

tree!(BepsTree);
tree!(BplusTree);

/// Percentages of inserts and of updates; the other operations are reads.
const WORKLOADS: [(&str, u8, u8); 5] = [
    ("1 load", 100, 0),
    ("2 inserts", 100, 0),
    ("3 reads", 0, 0),
    ("4 reads, 5 % inserts", 5, 0),
    ("5 reads, 50 % updates", 0, 50),
];

/// Runs one workload and returns operations per second.
fn run(tree: &dyn Tree, plan: &Plan, draw: &Draw, threads: u64, number: usize) -> f64 {
    let (_, inserts, updates) = WORKLOADS[number];
    let done = AtomicU64::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (done, draw) = (&done, draw.clone());
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(100 * number as u64 + thread);
                let mut value = [7; VALUE];
                let mut found = Vec::with_capacity(VALUE);
                let mut own = 0;
                while own < plan.keys / threads && (own % 64 > 0 || start.elapsed() < plan.most) {
                    let key = draw.key(&mut random);
                    let kind = random.u8(..100);
                    value[..8].copy_from_slice(&key);
                    if kind < inserts {
                        tree.insert(&key, &value).expect("sound");
                    } else if kind < inserts + updates {
                        tree.update(&key, &value).expect("sound");
                    } else if tree.get(&key, &mut found).expect("sound") {
                        assert!(
                            found[..8] == key && found.len() == VALUE,
                            "the value is that of the key"
                        );
                    }
                    own += 1;
                }
                done.fetch_add(own, Ordering::Relaxed);
            });
        }
    });
    done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

/// Runs all workloads on a tree, and prints and returns operations per second.
fn all(name: &str, tree: &dyn Tree, plan: &Plan, draw: &Draw, threads: u64) -> [f64; 5] {
    let mut speeds = [0.0; 5];
    for (number, (workload, ..)) in WORKLOADS.iter().enumerate().take(plan.workloads) {
        let before = tree.traffic();
        speeds[number] = run(tree, plan, draw, threads, number);
        let [reads, writes] = tree.traffic();
        println!(
            "{name:14} {threads} threads  {workload:22} {:9.0} ops/s  {:9} reads {:9} writes",
            speeds[number],
            reads - before[0],
            writes - before[1]
        );
    }
    speeds
}

fn compare(name: &str, one: [f64; 5], other: [f64; 5]) {
    let ratios: Vec<String> = one
        .iter()
        .zip(other)
        .map(|(one, other)| format!("{:.2}", one / other))
        .collect();
    println!("{name:14} {}", ratios.join("  "));
}

fn in_memory(plan: &Plan, draw: &Draw, threads: u64) {
    let arena = || PageArena::new(plan.page_bytes).expect("a size of pages");
    let wants = |tree| plan.wants(tree, &["beps", "no-root", "bplus"]);
    let (mut beps, mut no_root, mut bplus) = ([0.0; 5], [0.0; 5], [0.0; 5]);
    if wants("beps") {
        let tree = BepsTree::create(arena(), plan.options(RootStyle::Separate)).expect("memory");
        beps = all("Bε", &tree.coupled_by(plan.coupling()), plan, draw, threads);
    }
    if wants("no-root") {
        let tree = BepsTree::create(arena(), plan.options(RootStyle::Buffered)).expect("memory");
        no_root = all(
            "Bε no root",
            &tree.coupled_by(plan.coupling()),
            plan,
            draw,
            threads,
        );
    }
    if wants("bplus") {
        let tree = BplusTree::create(arena(), 8, VALUE, Arc::new(ReplaceOperator)).expect("memory");
        bplus = all("B⁺", &tree.coupled_by(plan.coupling()), plan, draw, threads);
    }
    compare("Bε / B⁺", beps, bplus);
    compare("Bε / no root", beps, no_root);
}

fn in_file(plan: &Plan, draw: &Draw, threads: u64) {
    let place: Box<dyn Directory> = match &plan.directory {
        Some(path) => Box::new(FileDirectory::open(path).expect("a directory")),
        None => Box::new(MemoryDirectory::new()),
    };
    let place = |name| TreeLocation {
        directory: &*place,
        name,
    };
    let options = BepsOptions {
        order: FlushOrder::Automatic,
        ..plan.options(RootStyle::Separate)
    };
    let wants = |tree| plan.wants(tree, &["beps", "no-root", "bplus"]);
    let (mut beps, mut bplus) = ([0.0; 5], [0.0; 5]);
    if wants("beps") {
        let tree = BepsTree::create_in(place("beps"), 1, plan.pool(), options).expect("space");
        beps = all(
            "Bε in a file",
            &tree.coupled_by(plan.coupling()),
            plan,
            draw,
            threads,
        );
    }
    if wants("bplus") {
        let sizes = (8, VALUE);
        let tree = BplusTree::create_in(place("bplus"), 2, plan.pool(), sizes, Arc::new(ReplaceOperator))
            .expect("space");
        bplus = all(
            "B⁺ in a file",
            &tree.coupled_by(plan.coupling()),
            plan,
            draw,
            threads,
        );
    }
    compare("Bε / B⁺", beps, bplus);
}

fn main() {
    let plan = Plan::of_arguments();
    println!(
        "{} keys, ε = 0.{}, pages of {} bytes",
        plan.keys, plan.epsilon, plan.page_bytes
    );
    for (name, draw) in [
        ("zipf", Draw::zipf(plan.keys)),
        ("uniform", Draw::Uniform(plan.keys)),
    ] {
        if !plan.wants(name, &["zipf", "uniform"]) {
            continue;
        }
        for threads in &plan.threads {
            if plan.wants("memory", &["memory", "file"]) {
                println!("in memory, {name}");
                in_memory(&plan, &draw, *threads);
            }
            if plan.wants("file", &["memory", "file"]) {
                println!("in a file, {name}, memory for a quarter");
                in_file(&plan, &draw, *threads);
            }
        }
    }
}
