//! S6 and S7: a file server, and many small files in one directory, on file systems.
//!
//! The file server is Filebench's personality `fileserver` with the document's parameters. Each
//! file system lies on a loop device of its own. Programs see ext4, XFS and Btrfs directly, ext4
//! through a mount that passes everything on, and a store through a mount. This process serves both
//! mounts, so its processor time has that of the programs, the server and the system calls, but not
//! that of the kernel's own threads.

use super::harness::line;
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigurePoint, FigureSeries, MeasurementSet, name};
use crate::scratch::ScratchDirectory;
use alluvium::Options;
use alluvium_aging::volumes::file_system::FileSystemKind;
use alluvium_aging::volumes::own_mount::OwnProgram;
use alluvium_aging::volumes::volume::{Volume, VolumePlan};
use alluvium_files::{AccessTimes, FileSystem, Files, OrdinaryDirectory};
use alluvium_mount::{Mount, MountOptions, PageRetention};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Size of each image, which is sparse.
const IMAGE: u64 = 16 << 30;
const READ_AHEAD_KIB: u32 = 128;
const STORE_MEMORY: u64 = 256 << 20;
/// Threads, length of a request, mean lengths of a file and of an append, and files of a directory.
const THREADS: usize = 10;
const REQUEST: usize = 4096;
const FILE: f64 = 100_000.0;
const APPEND: usize = 16 << 10;
const WIDTH: usize = 20;
/// One file in this many is absent at first.
const ABSENT: usize = 5;
/// Shape of the gamma distribution of lengths, Filebench's default.
const SHAPE: f64 = 1.5;
/// Creations for each lookup.
const CREATIONS: u64 = 10;

const RATE: &str = "rate";
const PROCESSOR: &str = "processor";
const LATENCY: &str = "latency";
const LOOKUPS: &str = "lookups";
const ADVANTAGE: &str = "advantage";

pub(super) const S6: MeasurementProcedure = MeasurementProcedure {
    id: "seed-3/S6",
    ours: &[
        ("operations", |measured| measured.series_with_prefix(RATE)),
        ("processor time of an operation", |measured| {
            measured.series_with_prefix(PROCESSOR)
        }),
        ("time of an operation", |measured| {
            measured.series_with_prefix(LATENCY)
        }),
    ],
    work: ExperimentMethod::Here {
        quick: 1000,
        full: 20_000,
        most: 100_000,
        measure: serve_files,
    },
};

pub(super) const S7: MeasurementProcedure = MeasurementProcedure {
    id: "seed-3/S7",
    ours: &[
        ("creations", |measured| measured.series_with_prefix(RATE)),
        ("lookups", |measured| measured.series_with_prefix(LOOKUPS)),
        ("processor time of a creation", |measured| {
            measured.series_with_prefix(PROCESSOR)
        }),
        ("creations beside other file systems", |measured| {
            measured.series_with_prefix(ADVANTAGE)
        }),
    ],
    work: ExperimentMethod::Here {
        quick: 20_000,
        full: 1_000_000,
        most: 16_000_000,
        measure: create_many,
    },
};

/// What programs see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MeasuredSystem {
    Native(FileSystemKind),
    /// ext4 through a mount that passes everything on.
    Through,
    /// A store on ext4.
    Store,
}

const SYSTEMS: [(&str, MeasuredSystem); 5] = [
    ("ext4", MeasuredSystem::Native(FileSystemKind::Ext4)),
    ("xfs", MeasuredSystem::Native(FileSystemKind::Xfs)),
    ("btrfs", MeasuredSystem::Native(FileSystemKind::Btrfs(None))),
    ("mount of ext4", MeasuredSystem::Through),
    ("alluvium", MeasuredSystem::Store),
];

impl MeasuredSystem {
    /// Returns the file system on the device.
    fn on_device(self) -> FileSystemKind {
        match self {
            MeasuredSystem::Native(kind) => kind,
            MeasuredSystem::Through | MeasuredSystem::Store => FileSystemKind::Ext4,
        }
    }

    /// Returns an error unless this machine offers the system.
    fn require(self) -> Result<()> {
        self.on_device().require()?;
        ensure!(
            matches!(self, MeasuredSystem::Native(_)) || Path::new("/dev/fuse").exists(),
            "mounts are left out: there is no /dev/fuse"
        );
        Ok(())
    }
}

/// A file system that is measured. Fields are dropped in their order: the mount before the volume.
struct MeasuredPlace {
    directory: PathBuf,
    mount: Option<Mount>,
    volume: Volume,
}

impl MeasuredPlace {
    fn new(system: MeasuredSystem, scratch: &ScratchDirectory) -> Result<MeasuredPlace> {
        let volume = Volume::create(VolumePlan {
            kind: system.on_device(),
            directory: scratch.path().join("images"),
            name: "measured".to_owned(),
            bytes: IMAGE,
            read_ahead_kib: READ_AHEAD_KIB,
            program: OwnProgram {
                binary: PathBuf::new(),
                memory: STORE_MEMORY,
            },
        })
        .context("making a file system, which needs root")?;
        let below = volume.root().join("below");
        fs::create_dir(&below)?;
        let (files, options): (Arc<dyn FileSystem>, MountOptions) = match system {
            MeasuredSystem::Native(_) => {
                return Ok(MeasuredPlace {
                    directory: below,
                    mount: None,
                    volume,
                });
            }
            MeasuredSystem::Through => {
                let files = OrdinaryDirectory::open(&below, AccessTimes::Update)?;
                let options = MountOptions {
                    pages: PageRetention::UntilOpened,
                    ..MountOptions::default()
                };
                (Arc::new(files), options)
            }
            MeasuredSystem::Store => {
                let db = Options::new().memory(STORE_MEMORY).open(below.join("store"))?;
                (Arc::new(Files::open(&db, "main")?), MountOptions::default())
            }
        };
        let directory = scratch.path().join("mount");
        fs::create_dir_all(&directory)?;
        Ok(MeasuredPlace {
            mount: Some(Mount::new(files, &directory, &options)?),
            directory,
            volume,
        })
    }

    /// Makes everything durable.
    fn sync(&self) -> Result<()> {
        File::open(&self.directory)?.sync_all()?;
        Ok(self.volume.sync()?)
    }

    fn remove(mut self) -> Result<()> {
        if let Some(mut mount) = self.mount.take() {
            mount.unmount()?;
        }
        Ok(self.volume.remove()?)
    }
}

/// Performs a measurement on each file system that this machine offers.
fn on_systems(
    measure: impl Fn(&'static str, &MeasuredPlace) -> Result<Vec<FigureSeries>>,
) -> Result<MeasurementSet> {
    let mut measured = MeasurementSet::default();
    for (system, kind) in SYSTEMS {
        if let Err(why) = kind.require() {
            measured.notes.push(format!("{system}: {why}"));
            continue;
        }
        let scratch = ScratchDirectory::new()?;
        let place = MeasuredPlace::new(kind, &scratch)?;
        measured.counts.extend(measure(system, &place)?);
        place.remove()?;
    }
    ensure!(
        !measured.counts.is_empty(),
        "no file system can be made here: install e2fsprogs, xfsprogs or btrfs-progs"
    );
    Ok(measured)
}

/// Returns the processor time of this process in seconds, that of the kernel for it included.
fn processor_seconds() -> Result<f64> {
    /// Fields of the times after the name, which may have spaces, and ticks of a second.
    const TIMES: std::ops::Range<usize> = 11..13;
    const TICKS: f64 = 100.0;
    let text = fs::read_to_string("/proc/self/stat")?;
    let after = text.rsplit(')').next().unwrap_or_default();
    let words: Vec<&str> = after.split_whitespace().collect();
    let times = words.get(TIMES).context("/proc/self/stat has no times")?;
    let ticks: Vec<f64> = times.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / TICKS)
}

/// The operations of the file server.
const OPERATIONS: [&str; 7] = [
    "create",
    "write whole",
    "open",
    "append",
    "read whole",
    "delete",
    "stat",
];

/// Times of operations, by their index in `OPERATIONS`.
#[derive(Clone, Debug, Default, PartialEq)]
struct OperationTimes {
    counts: [u64; 7],
    times: [Duration; 7],
}

impl OperationTimes {
    fn time<T>(&mut self, operation: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let began = Instant::now();
        let done = work()?;
        self.counts[operation] += 1;
        self.times[operation] += began.elapsed();
        Ok(done)
    }

    fn add(&mut self, other: &OperationTimes) {
        for operation in 0..OPERATIONS.len() {
            self.counts[operation] += other.counts[operation];
            self.times[operation] += other.times[operation];
        }
    }

    /// Returns the number of operations, closes included, which Filebench counts.
    fn operations(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.counts[0] + self.counts[2]
    }
}

/// The files of the server: which of them exist. A file in use is locked.
struct FileSet {
    directory: PathBuf,
    entries: Vec<Mutex<bool>>,
}

impl FileSet {
    /// Makes the directories, and four files in five.
    fn new(directory: &Path, files: usize, random: &mut fastrand::Rng) -> Result<FileSet> {
        let set = FileSet {
            directory: directory.to_owned(),
            entries: (0..files.max(ABSENT * THREADS))
                .map(|_| Mutex::new(false))
                .collect(),
        };
        for number in (0..set.entries.len()).step_by(WIDTH) {
            let path = set.path(number);
            fs::create_dir_all(path.parent().expect("a path below a directory"))?;
        }
        for number in (0..set.entries.len()).filter(|number| number % ABSENT != 0) {
            write_whole(&mut File::create(set.path(number))?, length(random))?;
            *lock(&set.entries[number]) = true;
        }
        Ok(set)
    }

    fn path(&self, number: usize) -> PathBuf {
        let directory = number / WIDTH;
        self.directory
            .join(format!("{}/{directory}/{number}", directory / WIDTH))
    }

    /// Locks a random file that exists, or one that does not.
    fn choose(&self, exists: bool, random: &mut fastrand::Rng) -> (usize, MutexGuard<'_, bool>) {
        loop {
            let number = random.usize(..self.entries.len());
            if let Ok(guard) = self.entries[number].try_lock()
                && *guard == exists
            {
                return (number, guard);
            }
        }
    }

    /// Performs one round of the personality.
    fn round(&self, random: &mut fastrand::Rng, times: &mut OperationTimes) -> Result<()> {
        {
            let (number, mut guard) = self.choose(false, random);
            let mut file = times.time(0, || Ok(File::create(self.path(number))?))?;
            times.time(1, || write_whole(&mut file, length(random)))?;
            *guard = true;
        }
        {
            let (number, _guard) = self.choose(true, random);
            let mut file = times.time(2, || {
                Ok(OpenOptions::new().append(true).open(self.path(number))?)
            })?;
            times.time(3, || write_whole(&mut file, random.usize(1..=2 * APPEND)))?;
        }
        {
            let (number, _guard) = self.choose(true, random);
            let mut file = times.time(2, || Ok(File::open(self.path(number))?))?;
            times.time(4, || {
                let mut buffer = [0; REQUEST];
                while file.read(&mut buffer)? > 0 {}
                Ok(())
            })?;
        }
        {
            let (number, mut guard) = self.choose(true, random);
            times.time(5, || Ok(fs::remove_file(self.path(number))?))?;
            *guard = false;
        }
        let (number, _guard) = self.choose(true, random);
        times.time(6, || Ok(fs::metadata(self.path(number))?)).map(drop)
    }
}

fn lock(entry: &Mutex<bool>) -> MutexGuard<'_, bool> {
    entry.lock().expect("no thread has panicked")
}

/// Draws the length of a file from a gamma distribution with this mean.
fn length(random: &mut fastrand::Rng) -> usize {
    let exponential = |random: &mut fastrand::Rng| -(1.0 - random.f64()).ln();
    // A gamma of shape 1/2 is half of the square of a normal, drawn by Box and Muller.
    let radius = exponential(random);
    let half = radius * (random.f64() * std::f64::consts::TAU).cos().powi(2);
    ((exponential(random) + half) * FILE / SHAPE) as usize
}

fn write_whole(file: &mut File, bytes: usize) -> Result<()> {
    const BLOCK: [u8; REQUEST] = [0x5A; REQUEST];
    let mut rest = bytes;
    while rest > 0 {
        let part = rest.min(REQUEST);
        file.write_all(&BLOCK[..part])?;
        rest -= part;
    }
    Ok(())
}

fn serve_files(files: u64) -> Result<MeasurementSet> {
    on_systems(|system, place| {
        let mut random = fastrand::Rng::with_seed(1);
        let set = FileSet::new(&place.directory, usize::try_from(files)?, &mut random)?;
        place.sync()?;
        let rounds = (set.entries.len() / THREADS).max(1);
        let (began, processor) = (Instant::now(), processor_seconds()?);
        let times = std::thread::scope(|scope| -> Result<OperationTimes> {
            let worker = |seed: usize| {
                let set = &set;
                move || -> Result<OperationTimes> {
                    let mut random = fastrand::Rng::with_seed(seed as u64);
                    let mut times = OperationTimes::default();
                    for _ in 0..rounds {
                        set.round(&mut random, &mut times)?;
                    }
                    Ok(times)
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|seed| scope.spawn(worker(seed))).collect();
            let mut all = OperationTimes::default();
            for thread in threads {
                all.add(&thread.join().expect("a thread that does not panic")?);
            }
            Ok(all)
        })?;
        place.sync()?;
        let operations = times.operations() as f64;
        let point = |operation: usize| {
            let micros = times.times[operation].as_secs_f64() * 1e6;
            (
                name(OPERATIONS[operation]),
                micros / times.counts[operation] as f64,
            )
        };
        let processor = (processor_seconds()? - processor) * 1e6;
        Ok(vec![
            line(
                RATE,
                system,
                vec![(name("all"), operations / began.elapsed().as_secs_f64())],
            ),
            line(PROCESSOR, system, vec![(name("all"), processor / operations)]),
            line(LATENCY, system, (0..OPERATIONS.len()).map(point).collect()),
        ])
    })
}

fn create_many(files: u64) -> Result<MeasurementSet> {
    let at = crate::entry::AxisPosition::Number(files as f64);
    let mut measured = on_systems(|system, place| {
        // The names are numbers that look random; none comes twice.
        let path = |number: u64| {
            let name = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            place.directory.join(format!("{name:016x}"))
        };
        let (began, processor) = (Instant::now(), processor_seconds()?);
        for number in 0..files {
            File::create_new(path(number))?;
        }
        place.sync()?;
        let created = began.elapsed().as_secs_f64();
        let processor = (processor_seconds()? - processor) * 1e6;
        let lookups = (files / CREATIONS).max(1);
        let mut random = fastrand::Rng::with_seed(2);
        let began = Instant::now();
        for _ in 0..lookups {
            fs::metadata(path(random.u64(..files)))?;
        }
        let looked_up = began.elapsed().as_secs_f64();
        Ok(vec![
            line(RATE, system, vec![(at.clone(), files as f64 / created)]),
            line(LOOKUPS, system, vec![(at.clone(), lookups as f64 / looked_up)]),
            line(PROCESSOR, system, vec![(at.clone(), processor / files as f64)]),
        ])
    })?;
    let quotients = quotients(&measured.series_with_prefix(RATE));
    measured.counts.extend(quotients);
    Ok(measured)
}

/// Divides the rate of Alluvium by that of each other file system.
fn quotients(rates: &[FigureSeries]) -> Vec<FigureSeries> {
    let own = rates.iter().find(|line| line.name == "alluvium");
    let Some(own) = own.and_then(|line| line.points.first()) else {
        return Vec::new();
    };
    let others = rates.iter().filter(|line| line.name != "alluvium");
    others
        .filter_map(|line| {
            let point = line.points.first()?;
            Some(FigureSeries {
                name: format!("{ADVANTAGE}, alluvium / {}", line.name),
                points: vec![FigurePoint {
                    at: point.at.clone(),
                    value: own.value / point.value,
                }],
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_the_mean_and_the_shape_of_filebench() {
        let mut random = fastrand::Rng::with_seed(3);
        let lengths: Vec<f64> = (0..200_000).map(|_| length(&mut random) as f64).collect();
        let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
        let variance = lengths.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / lengths.len() as f64;
        assert!((mean / FILE - 1.0).abs() < 0.02, "{mean}");
        // The variance of a gamma distribution is the square of its mean, divided by its shape.
        assert!((mean * mean / variance / SHAPE - 1.0).abs() < 0.05, "{variance}");
    }

    #[test]
    fn a_round_creates_one_file_deletes_one_and_has_eleven_operations() {
        let place = ScratchDirectory::new().unwrap();
        let mut random = fastrand::Rng::with_seed(4);
        let set = FileSet::new(place.path(), 60, &mut random).unwrap();
        let present = || {
            let exist = |number: &usize| set.path(*number).exists();
            (0..set.entries.len()).filter(exist).collect::<Vec<_>>()
        };
        assert_eq!(present().len(), 48, "four of five");
        let mut times = OperationTimes::default();
        for _ in 0..5 {
            set.round(&mut random, &mut times).unwrap();
            let known = (0..set.entries.len()).filter(|number| *lock(&set.entries[*number]));
            assert_eq!(present(), known.collect::<Vec<_>>());
            assert_eq!(present().len(), 48);
        }
        assert_eq!(times.operations(), 5 * 11);
    }

    #[test]
    fn rates_are_divided_by_those_of_each_other_file_system() {
        let rate = |system: &str, value: f64| FigureSeries {
            name: system.to_owned(),
            points: vec![FigurePoint {
                at: name("all"),
                value,
            }],
        };
        let found = quotients(&[rate("ext4", 2.0), rate("alluvium", 6.0), rate("xfs", 12.0)]);
        let values: Vec<f64> = found.iter().map(|line| line.points[0].value).collect();
        assert_eq!(values, [3.0, 0.5]);
        assert_eq!(quotients(&[rate("ext4", 2.0)]), []);
    }
}
