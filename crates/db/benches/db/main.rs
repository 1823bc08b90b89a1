//! Throughput and latency of the store: `cargo bench -p alluvium --bench db [PART…]`.
//!
//! *memory* puts and gets records that fit a memtable; *pages* gets records from cached pages;
//! *skew* reads data eight times the memory under a Zipf distribution, with and without the record
//! cache; *cold* reads keys uniformly, many at a time, against `fio`; *load* puts more than fits
//! the memory, at full speed; *open* does so at 70 % of that rate, on a schedule that does not wait
//! for slow answers, so the delays of operations queued after a slow one are counted; *commit*
//! times commits at `Disk`. Records have keys of 24 and values of 100 bytes. `ALLUVIUM_DB_RECORDS`,
//! `ALLUVIUM_DB_MEMORY` (bytes), `ALLUVIUM_DB_SECONDS`, `ALLUVIUM_DB_RATE` (puts per second, for
//! *open*) and `ALLUVIUM_DB_DIRECTORY` set the parameters. Without `--bench`, everything is tiny.

mod cold;
mod skew;

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Db, Durability, Keyspace, Options, Stats, WriteBatch};
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_sim::environment::number;
use hdrhistogram::Histogram;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a record, counting its key and its value.
const RECORD: u64 = 124;

#[derive(Clone, Debug)]
struct Sizes {
    records: u64,
    memory: u64,
    seconds: f64,
    directory: Option<PathBuf>,
}

/// A part of the bench, named on the command line.
type Part = fn(&Sizes);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let real = arguments.iter().any(|argument| argument == "--bench");
    let directory = std::env::var_os("ALLUVIUM_DB_DIRECTORY").map(PathBuf::from);
    let sizes = if real {
        Sizes {
            records: number("ALLUVIUM_DB_RECORDS", 10_000_000),
            memory: number("ALLUVIUM_DB_MEMORY", 512 << 20),
            seconds: number("ALLUVIUM_DB_SECONDS", 60) as f64,
            directory,
        }
    } else {
        Sizes {
            records: 20_000,
            memory: 16 << 20,
            seconds: 0.05,
            directory,
        }
    };
    let parts: [(&str, Part); 7] = [
        ("memory", memory),
        ("pages", pages),
        ("skew", skew::skew),
        ("cold", cold::cold),
        ("load", load),
        ("open", open),
        ("commit", commit),
    ];
    let wanted: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|word| *word == name) {
            part(&sizes);
        }
    }
}

/// A bijection that scatters numbers (the finalizer of SplitMix64).
fn mix(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn key(number: u64) -> [u8; 24] {
    let mut key = *b"user0000000000000000keys";
    let scattered = mix(number);
    for (digit, byte) in key[4..20].iter_mut().enumerate() {
        *byte = b"0123456789abcdef"[(scattered >> (60 - 4 * digit)) as usize & 15];
    }
    key
}

fn value(number: u64) -> [u8; 100] {
    let mut value = [0; 100];
    for (at, chunk) in value.chunks_mut(8).enumerate() {
        let bytes = mix(number.wrapping_mul(31) + at as u64).to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
    value
}

/// A store in a directory that is removed when this value is dropped.
struct Place {
    db: Db,
    keyspace: Keyspace,
    directory: tempfile::TempDir,
}

impl Place {
    fn path(&self) -> PathBuf {
        self.directory.path().join("store")
    }
}

fn place(sizes: &Sizes, options: &Options) -> Place {
    let directory = match &sizes.directory {
        Some(path) => tempfile::tempdir_in(path),
        None => tempfile::tempdir(),
    };
    let directory = directory.expect("a directory for the store");
    let db = options
        .clone()
        .memory(sizes.memory)
        .open(directory.path().join("store"))
        .unwrap();
    let keyspace = db.keyspace("usertable").unwrap();
    Place {
        db,
        keyspace,
        directory,
    }
}

fn rate(count: u64, began: Instant) -> f64 {
    count as f64 / began.elapsed().as_secs_f64() / 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Puts and gets in one memtable, with one thread and with two.
fn memory(sizes: &Sizes) {
    let records = (sizes.memory / 16 / 400).min(sizes.records) / 2 * 2;
    for threads in [1, 2] {
        let (mut puts, mut gets) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let place = place(sizes, &Options::new());
            let each = |work: &(dyn Fn(u64) + Sync)| {
                let began = Instant::now();
                std::thread::scope(|scope| {
                    for thread in 0..threads {
                        scope.spawn(move || {
                            (0..records / threads).for_each(|index| work(index * threads + thread));
                        });
                    }
                });
                rate(records, began)
            };
            puts.push(each(&|index| {
                place.keyspace.put(key(index), value(index)).unwrap();
            }));
            gets.push(each(&|index| {
                let found = place.keyspace.get(key(mix(index) % records)).unwrap();
                assert!(found.is_some());
            }));
        }
        println!(
            "memory, {threads} threads, {records} records: {:.2} M puts/s, {:.2} M gets/s (medians of five)",
            median(puts),
            median(gets)
        );
    }
}

/// Gets records of the tree that are all cached.
fn pages(sizes: &Sizes) {
    let records = (sizes.memory / 3 / RECORD).min(sizes.records);
    let place = place(sizes, &Options::new());
    for index in 0..records {
        place.keyspace.put(key(index), value(index)).unwrap();
    }
    place.db.checkpoint().unwrap();
    let runs = place.db.stats().tree_runs;
    let mut rates = Vec::new();
    for round in 0..16 {
        let began = Instant::now();
        for index in 0..records {
            let found = place.keyspace.get(key(mix(index + round) % records)).unwrap();
            assert!(found.is_some());
        }
        // The first round fills the cache.
        if round > 0 {
            rates.push(rate(records, began));
        }
    }
    let mut batched = Vec::new();
    for round in 0..4 {
        let began = Instant::now();
        for first in (0..records).step_by(64) {
            let keys = (first..first + 64).map(|index| key(mix(index + round) % records));
            assert!(
                place
                    .keyspace
                    .multi_get(keys)
                    .unwrap()
                    .iter()
                    .all(Option::is_some)
            );
        }
        batched.push(rate(records, began));
    }
    let stats = place.db.stats();
    println!(
        "pages, {records} records in {} levels: {:.2} M gets/s from {runs} runs at first, {:.2} from {} in the end ({} MiB compacted), {:.2} by multi_get of 64",
        stats.tree_height,
        rates[0],
        median(rates[rates.len() - 3..].to_vec()),
        stats.tree_runs,
        stats.tree.compacted_bytes >> 20,
        median(batched),
    );
}

fn percentiles(histogram: &Histogram<u64>) -> String {
    let us = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
    format!(
        "p50 {:.1} us, p99 {:.1}, p99.9 {:.1}, p99.99 {:.1}, longest {:.2} ms",
        us(0.5),
        us(0.99),
        us(0.999),
        us(0.9999),
        histogram.max() as f64 / 1e6
    )
}

/// Formats the delays of writers by cause.
fn delays(stats: &Stats) -> String {
    let ms = |us| us / 1000;
    let delays = stats.delays;
    format!(
        "{} ms of delay ({} for runs, {} for memtables)",
        ms(delays.total_us()),
        ms(delays.runs_us),
        ms(delays.memtables_us)
    )
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("these bounds are possible")
}

/// Returns the bytes that the kernel counts as written by the process, including writes through
/// mappings and data dropped before it reached the device.
fn charged_bytes() -> f64 {
    usage(libc::RUSAGE_SELF).ru_oublock as f64 * 512.0
}

/// Returns the system's resource usage of the process or of the calling thread.
fn usage(who: libc::c_int) -> libc::rusage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the structure that it is given.
    unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    }
}

/// CPU time of the whole process, in seconds.
fn cpu() -> f64 {
    let (user, system) = processor(libc::RUSAGE_SELF);
    user + system
}

/// Returns user and system processor time, in seconds, of the process or of the calling thread.
fn processor(who: libc::c_int) -> (f64, f64) {
    let usage = usage(who);
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

/// Returns how often the calling thread was preempted.
fn preempted() -> i64 {
    usage(libc::RUSAGE_THREAD).ru_nivcsw
}

/// Puts records at full speed.
fn load(sizes: &Sizes) {
    full_speed(sizes);
}

fn full_speed(sizes: &Sizes) -> f64 {
    let place = place(sizes, &Options::new());
    let mut latencies = histogram();
    let (began, cpu_before, charged_before) = (Instant::now(), cpu(), charged_bytes());
    let mut by_second: Vec<u64> = Vec::new();
    for index in 0..sizes.records {
        let before = Instant::now();
        place.keyspace.put(key(index), value(index)).unwrap();
        latencies.saturating_record(before.elapsed().as_nanos() as u64);
        let second = (before - began).as_secs() as usize;
        by_second.resize(by_second.len().max(second + 1), 0);
        by_second[second] += 1;
    }
    let put = rate(sizes.records, began);
    let due = place.db.stats().debt.pending_jobs;
    place.db.checkpoint().unwrap();
    let seconds = began.elapsed().as_secs_f64();
    let stats = place.db.stats();
    let written = stats.device.total().written_bytes as f64;
    let user = (sizes.records * RECORD) as f64;
    println!(
        "load of {} records, {} MiB of memory: {put:.3} M puts/s, with the last checkpoint {:.3}; {}",
        sizes.records,
        sizes.memory >> 20,
        sizes.records as f64 / seconds / 1e6,
        percentiles(&latencies)
    );
    println!(
        "  {:.2} us of CPU each; {:.2} bytes written for each of the user's, with the mapped log {:.2}; space {:.2}; {} waits, {}, {} compactions due at the end; least second {} k, most {} k",
        (cpu() - cpu_before) * 1e6 / sizes.records as f64,
        written / user,
        (charged_bytes() - charged_before) / user,
        stats.space.live_extent_bytes as f64 / user,
        stats.waits,
        delays(&stats),
        due,
        by_second.iter().rev().skip(1).min().copied().unwrap_or(0) / 1000,
        by_second.iter().max().copied().unwrap_or(0) / 1000,
    );
    place.db.close().unwrap();
    put
}

/// Puts records on a schedule, at 70 % of full speed or at the requested rate.
fn open(sizes: &Sizes) {
    let rate = match number("ALLUVIUM_DB_RATE", 0) {
        0 => 0.7e6 * full_speed(sizes),
        rate => rate as f64,
    };
    let gap = Duration::from_secs_f64(1.0 / rate);
    let place = place(sizes, &Options::new());
    // `lateness` is how late an operation starts although no earlier one held it up, which only the
    // schedule or the system can cause.
    let (mut latencies, mut lateness) = (histogram(), histogram());
    // For each tenth of the time, the number of operations longer than 30 us, and the duration of
    // the longest.
    let mut tenths = [(0_u64, 0_u64); 10];
    let (began, cpu_before, preempted_before) = (Instant::now(), cpu(), preempted());
    let mut index = 0;
    loop {
        let due = began + gap.mul_f64(index as f64);
        if due.duration_since(began).as_secs_f64() > sizes.seconds {
            break;
        }
        let mut now = Instant::now();
        if now < due {
            while now < due {
                std::hint::spin_loop();
                now = Instant::now();
            }
            lateness.saturating_record((now - due).as_nanos() as u64);
        }
        place
            .keyspace
            .put(key(index % sizes.records), value(index))
            .unwrap();
        let ns = due.elapsed().as_nanos() as u64;
        latencies.saturating_record(ns);
        let tenth = ((due - began).as_secs_f64() * 10.0 / sizes.seconds) as usize;
        let (slow, longest) = &mut tenths[tenth.min(9)];
        *slow += u64::from(ns > 30_000);
        *longest = ns.max(*longest);
        index += 1;
    }
    println!(
        "open loop, {index} puts at {:.3} M/s for {:.0} s: {}",
        rate / 1e6,
        began.elapsed().as_secs_f64(),
        percentiles(&latencies)
    );
    let each = tenths.map(|(slow, longest)| {
        format!(
            "{:.3} % {:.1} ms",
            slow as f64 * 1000.0 / index as f64,
            longest as f64 / 1e6
        )
    });
    println!(
        "  longer than 30 us, and longest, by tenths of the time: {}",
        each.join("; ")
    );
    let stats = place.db.stats();
    println!(
        "  begun late with nothing before them: {}; preempted {} times; {} waits, {}; {:.2} us of CPU each, the schedule's own included; {:.2} bytes written for each of the user's; {} MiB in use for {} MiB of records",
        percentiles(&lateness),
        preempted() - preempted_before,
        stats.waits,
        delays(&stats),
        (cpu() - cpu_before) * 1e6 / index as f64,
        stats.device.total().written_bytes as f64 / (index * RECORD) as f64,
        stats.space.live_extent_bytes >> 20,
        (index.min(sizes.records) * RECORD) >> 20,
    );
}

/// Times commits that survive a power loss.
fn commit(sizes: &Sizes) {
    for threads in [1, 16, 64] {
        let place = place(sizes, &Options::new());
        let until = Instant::now() + Duration::from_secs_f64(sizes.seconds.min(3.0));
        let began = Instant::now();
        let commits: u64 = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|thread| {
                    let place = &place;
                    scope.spawn(move || {
                        let mut done = 0;
                        while Instant::now() < until {
                            let mut batch = WriteBatch::new().durability(Durability::Disk);
                            let number = done * threads + thread;
                            batch.put(&place.keyspace, key(number), value(number)).unwrap();
                            place.db.write(&batch).unwrap();
                            done += 1;
                        }
                        done
                    })
                })
                .collect();
            workers
                .into_iter()
                .map(|worker| worker.join().expect("no panic"))
                .sum()
        });
        println!(
            "commits at Disk, {threads} committers: {:.1} k/s",
            rate(commits, began) * 1e3
        );
    }
    let in_memory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let db = Options::new().memory(sizes.memory).open_in(in_memory).unwrap();
    let keyspace = db.keyspace("usertable").unwrap();
    let commits = sizes.records.min(1_000_000);
    let began = Instant::now();
    for index in 0..commits {
        keyspace.put(key(index), value(index)).unwrap();
    }
    println!("puts in a memory directory: {:.2} M/s", rate(commits, began));
}
