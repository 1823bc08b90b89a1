//! The log on a real file system: `cargo bench -p alluvium-storage --bench log -- [append] [disk]
//! [longest]`.
//!
//! *append* measures nanoseconds per 130-byte record at `Process`, mapped and written, while
//! another thread prepares and releases. *disk* measures commits per second at `Disk` and syncs per
//! commit, compared with the device's own rate. *longest* times each of 10⁸ appends. Each line is a
//! median of three rounds; under `cargo test`, the inputs are tiny.

use alluvium_base::Purpose;
use alluvium_device::file::FileDirectory;
use alluvium_device::{AlignedBuffer, Directory, FileOptions};
use alluvium_storage::log::{LogDurability, LogOptions, PrepareProgress, SegmentAccess, WriteAheadLog};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PAYLOAD: [u8; 130] = [0x5a; 130];
const ROUNDS: usize = 3;

/// The amount of work: a real run, or a tiny one under `cargo test`.
struct Settings {
    records: u64,
    commits: Duration,
    longest: u64,
    limit: u64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let real = arguments.iter().any(|argument| argument == "--bench");
    let wanted: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|argument| *argument == name);
    let settings = if real {
        Settings {
            records: 8_000_000,
            commits: Duration::from_secs(2),
            longest: 100_000_000,
            limit: 256 << 20,
        }
    } else {
        Settings {
            records: 2_000,
            commits: Duration::from_millis(5),
            longest: 2_000,
            limit: 1 << 20,
        }
    };
    let place = match std::env::var_os("ALLUVIUM_BENCH_DIRECTORY") {
        Some(path) => tempfile::tempdir_in(path),
        None => tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")),
    };
    let place = place.expect("a temporary directory");
    if wants("append") {
        appends(place.path(), &settings);
    }
    if wants("disk") {
        commits(place.path(), &settings);
    }
    if wants("longest") {
        longest(place.path(), &settings);
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Creates a log in a new directory.
fn log_in(place: &Path, settings: &Settings, access: SegmentAccess) -> (tempfile::TempDir, WriteAheadLog) {
    let path = tempfile::tempdir_in(place).expect("a directory");
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::create(path.path()).expect("the directory"));
    let options = LogOptions {
        access,
        ..LogOptions::with_limit(settings.limit)
    };
    let log = WriteAheadLog::create(&directory, options, 1).expect("a log");
    while log.prepare().expect("prepared") == PrepareProgress::Worked {}
    (path, log)
}

/// Keeps preparing and releasing until stopped, as a store's background thread does after
/// checkpoints.
fn tend(log: &WriteAheadLog, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let usage = log.usage();
        if usage.live_bytes > usage.limit_bytes / 4 {
            log.release(log.completed()).expect("released");
        }
        if log.prepare().expect("prepared") == PrepareProgress::Idle {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// Appends a record, releasing the log first if it is full, which happens if the background thread
/// was not scheduled.
fn append(log: &WriteAheadLog, sequence: u64, durability: LogDurability) {
    while let Err(error) = log.append(sequence, 1, &PAYLOAD, durability) {
        assert!(error.is_full(), "{error}");
        log.release(log.completed()).expect("released");
    }
}

/// Returns nanoseconds per record for this number of threads.
fn append_once(place: &Path, settings: &Settings, access: SegmentAccess, threads: u64) -> f64 {
    let (_path, log) = log_in(place, settings, access);
    let (next, stop) = (AtomicU64::new(1), AtomicBool::new(false));
    let mut elapsed = Duration::ZERO;
    std::thread::scope(|scope| {
        scope.spawn(|| tend(&log, &stop));
        let begun = Instant::now();
        let writers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..settings.records / threads {
                        append(&log, next.fetch_add(1, Ordering::Relaxed), LogDurability::Process);
                    }
                })
            })
            .collect();
        writers
            .into_iter()
            .for_each(|writer| writer.join().expect("a writer"));
        elapsed = begun.elapsed();
        stop.store(true, Ordering::Relaxed);
    });
    elapsed.as_nanos() as f64 / settings.records as f64
}

fn appends(place: &Path, settings: &Settings) {
    println!(
        "append of {} bytes at Process, with a background thread",
        PAYLOAD.len()
    );
    println!(
        "{:10} {:>8} {:>12} {:>12} {:>12}",
        "access", "threads", "ns/record", "least", "most"
    );
    for access in [SegmentAccess::Mapped, SegmentAccess::Written] {
        for threads in [1, 2] {
            let rounds: Vec<f64> = (0..ROUNDS)
                .map(|_| append_once(place, settings, access, threads))
                .collect();
            let (least, most) = rounds.iter().fold((f64::MAX, 0f64), |(least, most), &round| {
                (least.min(round), most.max(round))
            });
            println!(
                "{:10} {threads:>8} {:>12.1} {least:>12.1} {most:>12.1}",
                format!("{access:?}"),
                median(rounds)
            );
        }
    }
}

/// Returns how many syncs per second a file achieves with one block written before each.
fn device_syncs(place: &Path, settings: &Settings) -> f64 {
    let path = tempfile::tempdir_in(place).expect("a directory");
    let directory = FileDirectory::create(path.path()).expect("the directory");
    let file = directory.create("probe", FileOptions::BUFFERED).expect("a file");
    file.grow(1 << 20).expect("grown");
    for at in (0..1 << 20).step_by(4096) {
        file.write_at(at, AlignedBuffer::zeroed(4096), Purpose::Probe)
            .expect("written");
    }
    file.sync(Purpose::Probe).expect("synced");
    let (begun, mut count) = (Instant::now(), 0u64);
    while begun.elapsed() < settings.commits {
        file.write_at(
            count * 512 % (1 << 20),
            AlignedBuffer::zeroed(512),
            Purpose::Probe,
        )
        .expect("written");
        file.sync(Purpose::Probe).expect("synced");
        count += 1;
    }
    count as f64 / begun.elapsed().as_secs_f64()
}

/// Returns commits per second, and syncs per commit.
fn commit_once(place: &Path, settings: &Settings, access: SegmentAccess, committers: u64) -> (f64, f64) {
    let (_path, log) = log_in(place, settings, access);
    let (next, stop) = (AtomicU64::new(1), AtomicBool::new(false));
    let before = log.usage().syncs;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..committers {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    append(&log, next.fetch_add(1, Ordering::Relaxed), LogDurability::Disk);
                }
            });
        }
        let prepare = || {
            let _ = log.prepare();
            std::thread::sleep(Duration::from_millis(1));
        };
        while begun.elapsed() < settings.commits {
            prepare();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let commits = (next.load(Ordering::Relaxed) - 1) as f64;
    let syncs = (log.usage().syncs - before) as f64;
    (commits / begun.elapsed().as_secs_f64(), syncs / commits)
}

fn commits(place: &Path, settings: &Settings) {
    println!("commits of {} bytes at Disk", PAYLOAD.len());
    println!(
        "{:10} {:>10} {:>12} {:>14} {:>14} {:>16}",
        "access", "committers", "commits/s", "syncs/commit", "commits/sync", "device syncs/s"
    );
    for access in [SegmentAccess::Mapped, SegmentAccess::Written] {
        for committers in [1, 16, 64] {
            let mut rounds = Vec::new();
            let mut device = Vec::new();
            for _ in 0..ROUNDS {
                device.push(device_syncs(place, settings));
                rounds.push(commit_once(place, settings, access, committers));
            }
            let per_commit = median(rounds.iter().map(|round| round.1).collect());
            println!(
                "{:10} {committers:>10} {:>12.0} {per_commit:>14.4} {:>14.1} {:>16.0}",
                format!("{access:?}"),
                median(rounds.iter().map(|round| round.0).collect()),
                1.0 / per_commit,
                median(device)
            );
        }
    }
}

/// A histogram of durations, whose buckets are an eighth of a power of two wide.
struct Histogram {
    buckets: Vec<u64>,
    max: u64,
    total: u64,
}

impl Histogram {
    fn new() -> Histogram {
        Histogram {
            buckets: vec![0; 64 * 8],
            max: 0,
            total: 0,
        }
    }

    fn add(&mut self, ns: u64) {
        let ns = ns.max(8);
        let power = ns.ilog2();
        let eighth = (ns >> (power - 3)) & 7;
        self.buckets[(power * 8) as usize + eighth as usize] += 1;
        self.max = self.max.max(ns);
        self.total += ns;
    }

    /// Returns the upper end of the bucket that contains this quantile.
    fn quantile(&self, share: f64) -> u64 {
        let count: u64 = self.buckets.iter().sum();
        let wanted = (count as f64 * share) as u64;
        let mut seen = 0;
        for (bucket, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen > wanted {
                let (power, eighth) = (bucket as u64 / 8, bucket as u64 % 8);
                return (8 + eighth + 1) << (power - 3);
            }
        }
        self.max
    }
}

/// Returns the number of involuntary context switches of this thread. (Waiting for a page or a lock
/// is voluntary and does not count.)
#[allow(unsafe_code)]
fn preemptions() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is valid for writes, and all zeros are a valid value of it.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_nivcsw
}

/// From this duration in nanoseconds on, the bench checks whether the thread was preempted.
const LONG: u64 = 100_000;

fn longest(place: &Path, settings: &Settings) {
    let (_path, log) = log_in(place, settings, SegmentAccess::Mapped);
    let stop = AtomicBool::new(false);
    let mut times = Histogram::new();
    let mut clock = Histogram::new();
    // The longest appends without preemption.
    let mut own = Histogram::new();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| tend(&log, &stop));
        let mut preempted = preemptions();
        let mut before = Instant::now();
        for sequence in 1..=settings.longest {
            append(&log, sequence, LogDurability::Process);
            let mut now = Instant::now();
            let ns = (now - before).as_nanos() as u64;
            times.add(ns);
            if ns < LONG {
                own.add(ns);
            } else {
                let so_far = preemptions();
                if so_far == preempted {
                    own.add(ns);
                }
                preempted = so_far;
                now = Instant::now();
            }
            before = now;
        }
        stop.store(true, Ordering::Relaxed);
    });
    let elapsed = begun.elapsed();
    // Run the same loop without the log, to measure the clock and other interruptions.
    let mut before = Instant::now();
    let idle = Instant::now();
    while idle.elapsed() < elapsed {
        let now = Instant::now();
        clock.add((now - before).as_nanos() as u64);
        before = now;
    }
    println!(
        "{} appends of {} bytes, mapped, each timed",
        settings.longest,
        PAYLOAD.len()
    );
    println!(
        "{:28} {:>8} {:>8} {:>8} {:>8} {:>10} {:>12}",
        "ns", "mean", "p50", "p99.9", "p99.99", "p99.9999", "max"
    );
    for (name, histogram) in [
        ("append and clock", &times),
        ("those not preempted", &own),
        ("clock alone, as long", &clock),
    ] {
        let count: u64 = histogram.buckets.iter().sum();
        println!(
            "{name:28} {:>8} {:>8} {:>8} {:>8} {:>10} {:>12}",
            histogram.total / count.max(1),
            histogram.quantile(0.5),
            histogram.quantile(0.999),
            histogram.quantile(0.9999),
            histogram.quantile(0.999_999),
            histogram.max
        );
    }
    println!("usage: {:?}", log.usage());
}
