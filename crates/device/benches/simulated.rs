//! Speed of images and requests on the simulated machine, which limits the number of crash points
//! per second.
//!
//! `cargo bench -p alluvium-device --bench simulated` prints medians of three. Under `cargo test`,
//! every case runs once with few rounds.

use alluvium_base::Purpose;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use alluvium_device::{AlignedBuffer, Device, Directory, FileMapping, FileOptions};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Returns the median nanoseconds per call of three runs of `rounds` calls.
fn median_ns(rounds: u64, mut call: impl FnMut(u64)) -> f64 {
    let mut runs: Vec<f64> = (0..3)
        .map(|_| {
            let start = Instant::now();
            (0..rounds).for_each(&mut call);
            start.elapsed().as_nanos() as f64 / rounds as f64
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    runs[1]
}

fn report(what: &str, ns: f64) {
    println!("{what:<68} {ns:>10.0} ns  {:>11.0} /s", 1e9 / ns);
}

/// Creates a durable file of `len` random bytes.
fn filled(directory: &SimDirectory, name: &str, len: usize, options: FileOptions) -> Arc<dyn Device> {
    let mut buffer = AlignedBuffer::zeroed(len);
    fastrand::Rng::with_seed(1).fill(&mut buffer);
    let file = directory.create(name, options).expect("the name is new");
    file.grow(len as u64).expect("there is room");
    file.write_at(0, buffer, Purpose::Other).expect("inside the file");
    file.sync(Purpose::Other).expect("no fault is planned");
    directory.sync().expect("no fault is planned");
    file
}

/// Creates a machine with `mib` MiB in four files and 40 unsynced sectors spread over them.
fn world(mib: usize) -> (SimDirectory, Vec<Arc<dyn Device>>) {
    let directory = SimDirectory::new(1);
    let len = mib << 18;
    let files: Vec<_> = (0..4)
        .map(|index| filled(&directory, &format!("file-{index}"), len, FileOptions::DIRECT))
        .collect();
    let mut rng = fastrand::Rng::with_seed(2);
    for index in 0..40 {
        let offset = rng.u64(..len as u64 / 512) * 512;
        let buffer = AlignedBuffer::padded(&[index as u8; 512]);
        files[index % 4]
            .write_at(offset, buffer, Purpose::Other)
            .expect("inside the file");
    }
    (directory, files)
}

fn images(rounds: u64, mib: usize) {
    let (directory, _files) = world(mib);
    for survival in CrashSurvival::ALL {
        let ns = median_ns(rounds, |seed| {
            black_box(directory.image(survival, seed).content_hash());
        });
        report(
            &format!("image and hash, {mib} MiB, 40 sectors unsynced, {survival:?}"),
            ns,
        );
    }
}

fn recovery(rounds: u64) {
    let (directory, _files) = world(1);
    let ns = median_ns(rounds, |seed| {
        let image = directory.image(CrashSurvival::Random, seed);
        for name in ["file-0", "file-1"] {
            let file = image.open(name, FileOptions::DIRECT).expect("it exists");
            black_box(file.read_at(0, 8192, Purpose::Recovery).expect("inside the file"));
            file.write_at(0, AlignedBuffer::zeroed(4096), Purpose::Recovery)
                .expect("inside the file");
            file.sync(Purpose::Recovery).expect("no fault is planned");
        }
    });
    report("image, then open, read 8 KiB, write 4 KiB and sync two files", ns);
}

fn mapped(rounds: u64) {
    let directory = SimDirectory::new(1);
    let file = filled(&directory, "log", 1 << 18, FileOptions::BUFFERED);
    let mapping: FileMapping = file.map(0..1 << 18).expect("a buffered file");
    let ns = median_ns(rounds, |seed| {
        // SAFETY: nothing else uses the mapping.
        unsafe { mapping.write((seed % 2000) as usize * 128, &seed.to_le_bytes()) };
        if seed % 64 == 0 {
            file.sync(Purpose::Log).expect("no fault is planned");
        }
        black_box(directory.image(CrashSurvival::Random, seed));
    });
    report("store through a mapping of 256 KiB, then image, Random", ns);
}

fn requests(rounds: u64) {
    let directory = SimDirectory::new(1);
    let file = filled(&directory, "a", 1 << 20, FileOptions::DIRECT);
    for len in [512usize, 4096, 131_072] {
        let places = (1 << 20) / len as u64;
        let mut spare = Some(AlignedBuffer::padded(&vec![1; len]));
        let ns = median_ns(rounds, |round| {
            let buffer = spare.take().expect("the last round gave it back");
            let buffer = file
                .write_at(round % places * len as u64, buffer, Purpose::Other)
                .expect("inside the file");
            spare = Some(buffer);
            if round % 16 == 0 {
                file.sync(Purpose::Other).expect("no fault is planned");
            }
        });
        report(&format!("write of {len} bytes, a sync each 16"), ns);
        let ns = median_ns(rounds, |round| {
            let read = file.read_at(round % places * len as u64, len, Purpose::Other);
            black_box(read.expect("inside the file"));
        });
        report(&format!("read of {len} bytes"), ns);
    }
}

fn main() {
    let measured = std::env::args().any(|argument| argument == "--bench");
    let rounds = if measured { 20_000 } else { 20 };
    images(rounds, 1);
    images(rounds, 64);
    recovery(rounds);
    mapped(rounds);
    requests(rounds);
}
