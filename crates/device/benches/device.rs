//! Reads and writes of a real file, compared with `fio` in the same run:
//! `cargo bench -p alluvium-device`.
//!
//! Each line is a median of three rounds, in which fio alternates with each of our modes. The modes
//! for random reads differ in how they keep up the queue depth: *batches* waits for a whole batch
//! before it submits the next, so the queue runs empty at the end of each; *halves* and *eighths*
//! keep two batches of half the depth in flight, or eight of an eighth; *window* submits one read
//! for each completed one. Words on the command line select lines:
//! `cargo bench -p alluvium-device -- "depth 32"`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use alluvium_base::Purpose;
use alluvium_device::file::FileDirectory;
use alluvium_device::{AlignedBuffer, Device, Directory, FileOptions, IoBatch, MemoryRegion, Ticket};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
const ROUNDS: usize = 3;
const SEQUENTIAL_DEPTH: usize = 8;

/// The amount of work: a real run, or a tiny one under `cargo test`.
struct Settings {
    len: u64,
    each: Duration,
    fio: bool,
    /// Substrings of the names of the lines to measure. If there are none, all lines are measured.
    wanted: Vec<String>,
}

/// The result of one measurement.
#[derive(Clone, Copy)]
struct Figure {
    per_second: f64,
    cpu_us: f64,
}

struct Bench {
    settings: Settings,
    path: PathBuf,
    file: Arc<dyn Device>,
    arena: Arena,
    random: fastrand::Rng,
}

fn main() {
    let real = std::env::args().any(|argument| argument == "--bench");
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let settings = if real {
        let has_fio = Command::new("fio").arg("--version").output().is_ok();
        if !has_fio {
            println!("fio is not installed: only our own figures are printed");
        }
        Settings {
            len: 4 << 30,
            each: Duration::from_secs(3),
            fio: has_fio,
            wanted,
        }
    } else {
        Settings {
            len: 16 << 20,
            each: Duration::from_millis(10),
            fio: false,
            wanted,
        }
    };
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory");
    let directory = FileDirectory::create(place.path()).expect("the directory");
    let arena = Arena::new(64 * MIB);
    directory.register_memory(arena.region());
    let file = write_out(&directory, settings.len);
    for note in directory.notes() {
        println!("note: {note}");
    }
    println!(
        "{:?}, file of {} MiB, {:?} each",
        directory.engine(),
        settings.len >> 20,
        settings.each
    );
    println!(
        "{:34} {:>12} {:>12} {:>8} {:>12} {:>12}",
        "", "ours/s", "fio/s", "ratio", "our CPU µs", "fio CPU µs"
    );
    let mut bench = Bench {
        settings,
        path: place.path().join("data"),
        file,
        arena,
        random: fastrand::Rng::with_seed(1),
    };
    for depth in [32, 64] {
        bench.random_reads(depth);
    }
    bench.single_reads();
    bench.sequential();
}

/// Creates a file and writes all of it, so that no read hits a hole.
fn write_out(directory: &FileDirectory, len: u64) -> Arc<dyn Device> {
    let file = directory.create("data", FileOptions::DIRECT).expect("the file");
    file.grow(len).expect("room for the file");
    let mut random = fastrand::Rng::with_seed(2);
    let mut free: Vec<AlignedBuffer> = (0..SEQUENTIAL_DEPTH)
        .map(|_| AlignedBuffer::zeroed(MIB))
        .collect();
    for buffer in &mut free {
        random.fill(buffer);
    }
    let mut at = 0;
    while at < len {
        let mut batch = IoBatch::new();
        while at < len
            && let Some(buffer) = free.pop()
        {
            batch.write(at, buffer, Purpose::Probe);
            at += MIB as u64;
        }
        free = file.run(batch).expect("the file is written");
    }
    file.sync(Purpose::Probe).expect("the file is synced");
    file
}

impl Bench {
    /// Prints a line for each of our modes, compared with fio. The modes and fio alternate `ROUNDS`
    /// times.
    fn compare(&mut self, fio: &[&str], unit: &str, mut modes: Vec<(String, Mode<'_>)>) {
        let wanted = &self.settings.wanted;
        modes.retain(|(name, _)| wanted.is_empty() || wanted.iter().any(|part| name.contains(part)));
        if modes.is_empty() {
            return;
        }
        let mut theirs = Vec::new();
        let mut ours: Vec<Vec<Figure>> = modes.iter().map(|_| Vec::new()).collect();
        for _ in 0..ROUNDS {
            if self.settings.fio {
                theirs.extend(fio_run(&self.path, self.settings.len, self.settings.each, fio));
            }
            for ((_, mode), figures) in modes.iter_mut().zip(&mut ours) {
                figures.push(mode(self));
            }
        }
        let theirs = median(&theirs);
        for ((name, _), figures) in modes.iter().zip(&ours) {
            let ours = median(figures).expect("every mode was measured");
            let (rate, ratio, cpu) = theirs.map_or_else(
                || ("-".to_owned(), "-".to_owned(), "-".to_owned()),
                |fio| {
                    (
                        format!("{:.0}", fio.per_second),
                        format!("{:.1} %", 100.0 * ours.per_second / fio.per_second),
                        format!("{:.2}", fio.cpu_us),
                    )
                },
            );
            println!(
                "{name:34} {:12.0} {rate:>12} {ratio:>8} {:12.2} {cpu:>12} {unit}",
                ours.per_second, ours.cpu_us
            );
        }
    }

    fn random_reads(&mut self, depth: usize) {
        let depth_text = format!("--iodepth={depth}");
        let fio = ["--rw=randread", "--bs=4k", &depth_text];
        self.compare(
            &fio,
            "reads",
            vec![
                (
                    format!("random 4 KiB, depth {depth}, batches"),
                    Box::new(move |b: &mut Bench| b.batches(depth)),
                ),
                (
                    format!("random 4 KiB, depth {depth}, halves"),
                    Box::new(move |b: &mut Bench| b.parts(depth, 2)),
                ),
                (
                    format!("random 4 KiB, depth {depth}, eighths"),
                    Box::new(move |b: &mut Bench| b.parts(depth, 8)),
                ),
                (
                    format!("random 4 KiB, depth {depth}, window"),
                    Box::new(move |b: &mut Bench| b.window(depth)),
                ),
            ],
        );
    }

    fn single_reads(&mut self) {
        self.compare(
            &["--rw=randread", "--bs=4k", "--iodepth=1"],
            "reads",
            vec![
                (
                    "random 4 KiB, one at a time".to_owned(),
                    Box::new(Bench::one_at_a_time),
                ),
                (
                    "random 4 KiB, submit and wait".to_owned(),
                    Box::new(|b: &mut Bench| b.window(1)),
                ),
            ],
        );
    }

    fn sequential(&mut self) {
        let depth = format!("--iodepth={SEQUENTIAL_DEPTH}");
        self.compare(
            &["--rw=read", "--bs=1m", &depth],
            "MiB read",
            vec![(
                "sequential read of 1 MiB".to_owned(),
                Box::new(|b: &mut Bench| b.stream(Kind::Read)),
            )],
        );
        self.compare(
            &["--rw=write", "--bs=1m", &depth],
            "MiB written",
            vec![(
                "sequential write of 1 MiB".to_owned(),
                Box::new(|b: &mut Bench| b.stream(Kind::Write)),
            )],
        );
    }

    fn page(&mut self) -> u64 {
        self.random.u64(0..self.settings.len / PAGE as u64) * PAGE as u64
    }

    fn one_at_a_time(&mut self) -> Figure {
        let mut buffers = self.arena.buffers(1, PAGE);
        measure(self.settings.each, || {
            let mut batch = IoBatch::with_capacity(1);
            batch.read(self.page(), buffers.pop().expect("one buffer"), Purpose::Probe);
            buffers = self.file.run(batch).expect("a read");
            1
        })
    }

    fn batch(&mut self, buffers: Vec<AlignedBuffer>) -> IoBatch {
        let mut batch = IoBatch::with_capacity(buffers.len());
        for buffer in buffers {
            batch.read(self.page(), buffer, Purpose::Probe);
        }
        batch
    }

    fn batches(&mut self, depth: usize) -> Figure {
        let mut buffers = self.arena.buffers(depth, PAGE);
        measure(self.settings.each, || {
            let batch = self.batch(std::mem::take(&mut buffers));
            buffers = self.file.run(batch).expect("a batch of reads");
            depth
        })
    }

    fn parts(&mut self, depth: usize, parts: usize) -> Figure {
        let mut in_flight = VecDeque::new();
        let mut buffers = self.arena.buffers(depth, PAGE);
        for _ in 0..parts {
            let part = buffers.split_off(buffers.len().saturating_sub(depth / parts));
            let batch = self.batch(part);
            in_flight.push_back(self.file.submit(batch));
        }
        let figure = measure(self.settings.each, || {
            let oldest = in_flight
                .pop_front()
                .expect("as many batches are in flight as there are parts");
            let buffers = finish(&*self.file, oldest);
            let count = buffers.len();
            let batch = self.batch(buffers);
            in_flight.push_back(self.file.submit(batch));
            count
        });
        in_flight
            .into_iter()
            .for_each(|ticket| drop(finish(&*self.file, ticket)));
        figure
    }

    /// Waits for the oldest request, collects all others that have completed, and submits as many
    /// again, each in a batch of its own.
    fn window(&mut self, depth: usize) -> Figure {
        let mut in_flight = VecDeque::new();
        for buffer in self.arena.buffers(depth, PAGE) {
            let batch = self.batch(vec![buffer]);
            in_flight.push_back(self.file.submit(batch));
        }
        let figure = measure(self.settings.each, || {
            let oldest = in_flight.pop_front().expect("the window is full");
            let buffers = finish(&*self.file, oldest);
            let batch = self.batch(buffers);
            in_flight.push_back(self.file.submit(batch));
            1
        });
        in_flight
            .into_iter()
            .for_each(|ticket| drop(finish(&*self.file, ticket)));
        figure
    }

    fn stream(&mut self, kind: Kind) -> Figure {
        let mut in_flight: VecDeque<Ticket> = VecDeque::new();
        let mut at = 0;
        let mut free = self.arena.buffers(SEQUENTIAL_DEPTH, MIB);
        let (file, len) = (Arc::clone(&self.file), self.settings.len);
        let figure = measure(self.settings.each, || {
            if in_flight.len() == SEQUENTIAL_DEPTH {
                free.extend(finish(&*file, in_flight.pop_front().expect("some are in flight")));
            }
            let buffer = free.pop().expect("as many buffers as the depth");
            let mut batch = IoBatch::with_capacity(1);
            match kind {
                Kind::Read => batch.read(at, buffer, Purpose::Probe),
                Kind::Write => batch.write(at, buffer, Purpose::Probe),
            };
            in_flight.push_back(file.submit(batch));
            at = (at + MIB as u64) % len;
            1
        });
        in_flight
            .into_iter()
            .for_each(|ticket| drop(finish(&*file, ticket)));
        figure
    }
}

type Mode<'a> = Box<dyn FnMut(&mut Bench) -> Figure + 'a>;

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
}

fn finish(file: &dyn Device, ticket: Ticket) -> Vec<AlignedBuffer> {
    file.wait(&ticket);
    ticket.take_buffers().expect("the batch went well")
}

/// Calls `step` for the given time. Each call returns the number of operations it completed.
fn measure(each: Duration, mut step: impl FnMut() -> usize) -> Figure {
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let mut count = 0;
    while started.elapsed() < each {
        count += step();
    }
    let count = count.max(1) as f64;
    Figure {
        per_second: count / started.elapsed().as_secs_f64(),
        cpu_us: (cpu_seconds() - cpu) * 1e6 / count,
    }
}

/// Returns the user and system processor time of this process in seconds.
fn cpu_seconds() -> f64 {
    // SAFETY: `rusage` consists of plain numbers, for which zeros are valid, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Measures the same file with fio: its rate, and its processor time per operation.
fn fio_run(path: &Path, len: u64, each: Duration, extra: &[&str]) -> Option<Figure> {
    let output = Command::new("fio")
        .args([
            "--name=job",
            "--direct=1",
            "--ioengine=io_uring",
            "--numjobs=1",
            "--time_based",
        ])
        .args([
            "--norandommap=1",
            "--randrepeat=0",
            "--output-format=terse",
            "--terse-version=3",
        ])
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--size={len}"))
        .arg(format!("--runtime={}", each.as_secs().max(1)))
        .args(extra)
        .output()
        .ok()?;
    // Terse format 3 is documented: counted from one, fields 8 and 49 are the read and write rates,
    // and fields 88 and 89 are the percentages of user and system time.
    let text = String::from_utf8_lossy(&output.stdout);
    let fields: Vec<&str> = text
        .lines()
        .find(|line| line.starts_with("3;"))?
        .split(';')
        .collect();
    let number = |field: usize| fields.get(field - 1)?.trim_end_matches('%').parse::<f64>().ok();
    let per_second = number(8)?.max(number(49)?);
    let percent = number(88)? + number(89)?;
    Some(Figure {
        per_second,
        cpu_us: percent / 100.0 * 1e6 / per_second,
    })
}

fn median(figures: &[Figure]) -> Option<Figure> {
    let middle = |pick: fn(&Figure) -> f64| {
        let mut values: Vec<f64> = figures.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    Some(Figure {
        per_second: middle(|figure| figure.per_second)?,
        cpu_us: middle(|figure| figure.cpu_us)?,
    })
}

/// Memory registered with the kernel, like that of a cache.
struct Arena {
    start: NonNull<u8>,
    len: usize,
    keeper: Arc<AlignedBuffer>,
}

impl Arena {
    fn new(len: usize) -> Arena {
        let mut memory = AlignedBuffer::zeroed(len);
        Arena {
            start: NonNull::new(memory.as_mut_ptr()).expect("memory has an address"),
            len,
            keeper: Arc::new(memory),
        }
    }

    fn region(&self) -> MemoryRegion {
        MemoryRegion {
            start: self.start,
            len: self.len,
            keeper: self.keeper.clone(),
        }
    }

    /// Returns buffers from the start of the arena. The caller must have dropped all earlier ones.
    fn buffers(&self, count: usize, len: usize) -> Vec<AlignedBuffer> {
        (0..count).map(|number| self.buffer(number * len, len)).collect()
    }

    fn buffer(&self, at: usize, len: usize) -> AlignedBuffer {
        assert!(at + len <= self.len);
        // SAFETY: the buffer is inside the arena, as asserted above, aligned, and disjoint from the
        // others of its generation. The buffers of earlier generations have been dropped, and
        // nothing looks into the keeper.
        unsafe { AlignedBuffer::from_region(self.start.add(at), len, self.keeper.clone()) }
    }
}
