//! Compares layouts of contents: block sizes, structures and value thresholds.
//!
//! ```sh
//! cargo run --release -p alluvium-files --example layouts -- 256
//! ```
//!
//! The argument is the size of the large file in MiB; the store has a quarter of it as memory, at
//! least 16 MiB. Each line is a layout: bytes written and read by the device for each byte that the
//! program wrote or read, and time. The directory is that for temporary files.

use alluvium::{Db, Options, Structure};
use alluvium_files::{FilePaths, FileSystem, Files, FilesOptions, Inode, WritePosition};
use std::error::Error;
use std::time::Instant;

const MIB: u64 = 1 << 20;
const WRITE: usize = 128 << 10;

/// A layout that is measured.
struct MeasuredLayout {
    block: u32,
    structure: &'static str,
    threshold: Option<u32>,
}

/// Returns the processor time of this process in seconds.
fn processor_time() -> f64 {
    // SAFETY: the call fills the structure, which is plain data.
    let usage = unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let of = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// The costs of a phase, for each byte of the program.
fn phase<T>(
    db: &Db,
    bytes: u64,
    body: impl FnOnce() -> Result<T, Box<dyn Error>>,
) -> Result<String, Box<dyn Error>> {
    let (before, began, processor) = (db.stats().device.total(), Instant::now(), processor_time());
    body()?;
    db.sync()?;
    let seconds = began.elapsed().as_secs_f64();
    let after = db.stats().device.total();
    let of = |count: u64| count as f64 / bytes as f64;
    Ok(format!(
        "w {:5.2} r {:5.2} in {:6.1} reads/MiB {:7.1} MB/s, {:7.1} MB/s of processor",
        of(after.written_bytes - before.written_bytes),
        of(after.read_bytes - before.read_bytes),
        (after.reads - before.reads) as f64 / (bytes as f64 / MIB as f64),
        bytes as f64 / 1e6 / seconds,
        bytes as f64 / 1e6 / (processor_time() - processor)
    ))
}

fn write_all(files: &Files, inode: Inode, bytes: u64) -> Result<(), Box<dyn Error>> {
    let mut data = vec![0u8; WRITE];
    let mut random = fastrand::Rng::with_seed(1);
    random.fill(&mut data);
    for at in (0..bytes).step_by(WRITE) {
        data[..8].copy_from_slice(&at.to_le_bytes());
        files.write(inode, WritePosition::At(at), &data)?;
    }
    Ok(())
}

fn read_all(files: &Files, inode: Inode, bytes: u64) -> Result<(), Box<dyn Error>> {
    for at in (0..bytes).step_by(WRITE) {
        files.read(inode, at, WRITE)?;
    }
    Ok(())
}

fn overwrite(files: &Files, inode: Inode, bytes: u64, count: u64) -> Result<(), Box<dyn Error>> {
    let mut random = fastrand::Rng::with_seed(2);
    let mut data = vec![0u8; 4096];
    random.fill(&mut data);
    for _ in 0..count {
        let at = random.u64(..bytes / 4096) * 4096;
        files.write(inode, WritePosition::At(at), &data)?;
    }
    Ok(())
}

fn small_path(number: u64) -> Vec<u8> {
    format!("/small/{:02}/{number}", number % 64).into_bytes()
}

fn small_bytes(number: u64) -> usize {
    // Like a source tree: many of 1 to 4 KiB, some of up to 64 KiB.
    match number % 16 {
        15 => 60_000,
        12..15 => 12_000,
        rest => 400 + rest as usize * 300,
    }
}

fn write_small(files: &Files, count: u64) -> Result<(), Box<dyn Error>> {
    let mut data = vec![0u8; 64 << 10];
    fastrand::Rng::with_seed(3).fill(&mut data);
    for directory in 0..64 {
        files.create_directories(format!("/small/{directory:02}").as_bytes(), 0o755)?;
    }
    for number in 0..count {
        files.write_file(&small_path(number), &data[..small_bytes(number)], 0o644)?;
    }
    Ok(())
}

fn read_small(files: &Files, count: u64) -> Result<(), Box<dyn Error>> {
    for directory in 0..64 {
        for number in (directory..count).step_by(64) {
            files.read_file(&small_path(number))?;
        }
    }
    Ok(())
}

fn measure(layout: &MeasuredLayout, bytes: u64) -> Result<(), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let options = Options::new().memory((bytes / 4).max(16 * MIB));
    let mut files_options = FilesOptions::new()
        .block_bytes(layout.block)
        .value_threshold(layout.threshold);
    if !layout.structure.is_empty() {
        files_options = files_options.blocks(layout.structure.parse::<Structure>()?);
    }
    let open = || -> Result<(Db, Files), Box<dyn Error>> {
        let db = options.open(place.path().join("store"))?;
        let files = Files::open_with(&db, "measured", &files_options)?;
        Ok((db, files))
    };
    let (overwrites, small) = (bytes / 4096 / 4, bytes / MIB * 80);
    let small_sum: u64 = (0..small).map(|number| small_bytes(number) as u64).sum();
    let (db, files) = open()?;
    let inode = files.write_file(b"/large", b"", 0o644)?;
    let name = format!(
        "{:2} KiB {:40} {:?}",
        layout.block >> 10,
        if layout.structure.is_empty() {
            "tiered"
        } else {
            layout.structure
        },
        layout.threshold
    );
    println!("{name}");
    println!(
        "  write        {}",
        phase(&db, bytes, || write_all(&files, inode, bytes))?
    );
    println!(
        "  read         {}",
        phase(&db, bytes, || read_all(&files, inode, bytes))?
    );
    println!(
        "  overwrite 4K {}",
        phase(&db, overwrites * 4096, || overwrite(
            &files, inode, bytes, overwrites
        ))?
    );
    println!(
        "  read again   {}",
        phase(&db, bytes, || read_all(&files, inode, bytes))?
    );
    println!(
        "  small write  {}",
        phase(&db, small_sum, || write_small(&files, small))?
    );
    println!(
        "  small read   {}",
        phase(&db, small_sum, || read_small(&files, small))?
    );
    let space = db.stats().space;
    println!(
        "  space        {:5.1} MiB",
        space.occupied_bytes as f64 / MIB as f64
    );
    println!(
        "  small remove {}",
        phase(&db, small_sum, || Ok(files.remove_all(b"/small")?))?
    );
    let report = files.check()?;
    assert!(report.is_whole(), "{report}");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mib = std::env::args()
        .nth(1)
        .map_or(Ok(64), |text| text.parse::<u64>())?;
    let only = std::env::args().nth(2);
    let kib = |bytes: u32| bytes << 10;
    let moved = "levels,samt,k=4,f=3,scan=8,values=moved";
    let layouts = [
        (4, "", None),
        (8, "", None),
        (4, "", Some(kib(16))),
        (4, moved, None),
        (16, "", None),
        (16, "", Some(kib(16))),
        (16, moved, None),
        (16, moved, Some(kib(16))),
        (32, "", None),
        (32, moved, None),
        (64, "", None),
        (64, moved, None),
    ];
    for (block, structure, threshold) in layouts {
        let name = format!("{block}{structure}{}", threshold.unwrap_or(0));
        if only.as_ref().is_none_or(|only| name.contains(only.as_str())) {
            let layout = MeasuredLayout {
                block: kib(block),
                structure,
                threshold,
            };
            measure(&layout, mib * MIB)?;
        }
    }
    Ok(())
}
