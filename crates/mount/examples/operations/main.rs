//! Single operations of file systems through mounts, in microseconds, trees of small files, in
//! seconds, and a program that mounts until it is stopped:
//!
//! ```text
//! cargo run --release -p alluvium-mount --example operations -- measure DIRECTORY
//! cargo run --release -p alluvium-mount --example operations -- trees DIRECTORY [FILES]
//! cargo run --release -p alluvium-mount --example operations -- directory DIRECTORY [FILES]
//! cargo run --release -p alluvium-mount --example operations -- serve store STORE DIRECTORY
//! cargo run --release -p alluvium-mount --example operations -- serve directory ORDINARY DIRECTORY
//! ```
//!
//! `measure` makes its stores and files in DIRECTORY, which should be on ext4, and removes them. It
//! compares the directory itself, the same directory through a mount, and a store through a mount,
//! with and without writes that the kernel keeps back. `trees` does so without the last one, with a
//! tree of FILES files, 40,000 if none are given. `directory` measures both on DIRECTORY itself
//! only, for file systems of others.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod measure;
mod place;
mod trees;

use alluvium::Options;
use alluvium_files::{AccessTimes, FileSystem, Files, OrdinaryDirectory};
use alluvium_mount::{Mount, MountOptions, MountState, PageRetention, WriteCaching};
use measure::Sample;
use place::Place;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use trees::{TreeInputs, TreeTime};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["measure", directory] => measure_all(Path::new(directory)),
        ["trees", directory] => measure_trees(Path::new(directory), 40_000),
        ["trees", directory, files] => measure_trees(Path::new(directory), files.parse()?),
        ["directory", directory] => measure_directory(Path::new(directory), 40_000),
        ["directory", directory, files] => measure_directory(Path::new(directory), files.parse()?),
        ["serve", "store", store, directory] => serve(
            store_files(Path::new(store))?,
            directory,
            &MountOptions::default(),
        ),
        ["serve", "directory", ordinary, directory] => {
            serve(ordinary_files(Path::new(ordinary))?, directory, &unreported())
        }
        _ => Err(
            "name `measure DIRECTORY`, `trees DIRECTORY [FILES]`, `directory DIRECTORY [FILES]`, `serve store STORE DIRECTORY` or `serve directory ORDINARY DIRECTORY`"
                .into(),
        ),
    }
}

/// Options for files that others change without a report.
fn unreported() -> MountOptions {
    MountOptions {
        pages: PageRetention::UntilOpened,
        ..MountOptions::default()
    }
}

fn store_files(path: &Path) -> Outcome<Arc<dyn FileSystem>> {
    let db = Options::new().memory(256 << 20).open(path)?;
    Ok(Arc::new(Files::open(&db, "bench")?))
}

fn ordinary_files(path: &Path) -> Outcome<Arc<dyn FileSystem>> {
    Ok(Arc::new(OrdinaryDirectory::open(path, AccessTimes::Update)?))
}

fn serve(files: Arc<dyn FileSystem>, directory: &str, options: &MountOptions) -> Outcome<()> {
    let mount = Mount::new(files, Path::new(directory), options)?;
    println!("serving {}", mount.directory().display());
    while mount.wait(Duration::from_secs(3600)) == MountState::Mounted {}
    Ok(())
}

fn measure_all(directory: &Path) -> Outcome<()> {
    let place = |name: &str| -> Outcome<_> {
        let path = directory.join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    };
    let native = measure::all(&place("native")?, None)?;
    let files = ordinary_files(&place("ordinary")?)?;
    let through = mounted(&files, &place("through")?, &unreported())?;
    let files = store_files(&place("store")?)?;
    let stored = mounted(&files, &place("stored")?, &MountOptions::default())?;
    let back = MountOptions {
        writes: WriteCaching::Back,
        ..MountOptions::default()
    };
    let kept_back = mounted(&files, &place("stored")?, &back)?;
    drop(files);
    print(&[
        ("ext4", &native),
        ("mount of ext4", &through),
        ("mount of a store", &stored),
        ("store, writes kept back", &kept_back),
    ]);
    for name in ["native", "ordinary", "through", "store", "stored"] {
        fs::remove_dir_all(directory.join(name))?;
    }
    Ok(())
}

fn measure_trees(directory: &Path, files: usize) -> Outcome<()> {
    let path = |name: &str| -> Outcome<_> {
        let path = directory.join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    };
    let inputs = TreeInputs::new(&path("inputs")?, files)?;
    let native = trees::all(&mut Place::ordinary(&path("native")?), &inputs)?;
    let mounted = |files, name, options| -> Outcome<Vec<TreeTime>> {
        trees::all(&mut Place::mounted(files, &path(name)?, options)?, &inputs)
    };
    let through = mounted(ordinary_files(&path("ordinary")?)?, "through", unreported())?;
    let stored = mounted(store_files(&path("store")?)?, "stored", MountOptions::default())?;
    print_trees(&native, &through, &stored);
    for name in ["inputs", "native", "ordinary", "through", "store", "stored"] {
        fs::remove_dir_all(directory.join(name))?;
    }
    Ok(())
}

/// Measures what is mounted at a directory. The inputs lie outside of it.
fn measure_directory(directory: &Path, files: usize) -> Outcome<()> {
    let own = directory.join("measured");
    fs::create_dir_all(&own)?;
    print(&[("median (mean)", &measure::all(&own, None)?)]);
    fs::remove_dir_all(&own)?;
    fs::create_dir_all(&own)?;
    let inputs = std::env::temp_dir().join(format!("operations-{}", std::process::id()));
    fs::create_dir_all(&inputs)?;
    let steps =
        TreeInputs::new(&inputs, files).and_then(|inputs| trees::all(&mut Place::ordinary(&own), &inputs));
    fs::remove_dir_all(&inputs)?;
    for step in steps? {
        match step.seconds {
            Some(seconds) => println!("{:<34}{seconds:>25.2} s", step.step),
            None => println!("{:<34}{:>25}", step.step, "-"),
        }
    }
    fs::remove_dir_all(&own)?;
    Ok(())
}

fn print_trees(native: &[TreeTime], through: &[TreeTime], stored: &[TreeTime]) {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("seconds; load {}", load.trim());
    let show = |name: &str, columns: [String; 5]| {
        print!("{name:<18}");
        columns.iter().for_each(|column| print!("{column:>20}"));
        println!();
    };
    let heads = [
        "ext4",
        "mount of ext4",
        "mount of a store",
        "mount / store",
        "ext4 / store",
    ];
    show("", heads.map(str::to_owned));
    for ((native, through), stored) in native.iter().zip(through).zip(stored) {
        let time = |time: &TreeTime| {
            time.seconds
                .map_or("-".to_owned(), |seconds| format!("{seconds:.2}"))
        };
        let share = |other: &TreeTime| match (other.seconds, stored.seconds) {
            (Some(other), Some(own)) => format!("{:.2}", other / own),
            _ => "-".to_owned(),
        };
        let columns = [
            time(native),
            time(through),
            time(stored),
            share(through),
            share(native),
        ];
        show(native.step, columns);
    }
}

/// Measures files on a mount. What the kernel would remember is measured on a second one, which
/// lets it remember nothing.
fn mounted(files: &Arc<dyn FileSystem>, directory: &Path, options: &MountOptions) -> Outcome<Vec<Sample>> {
    let forgetful = MountOptions {
        entry_timeout: Duration::ZERO,
        attribute_timeout: Duration::ZERO,
        absence_timeout: Duration::ZERO,
        ..options.clone()
    };
    let remount = |options: &MountOptions| Mount::new(files.clone(), directory, options);
    let mut first = remount(options)?;
    let mut samples = measure::all(directory, None)?;
    first.unmount()?;
    let mut second = remount(&forgetful)?;
    samples.extend(measure::all(directory, Some(&["lookup", "getattr"]))?);
    second.unmount()?;
    Ok(samples)
}

fn print(columns: &[(&str, &Vec<Sample>)]) {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "microseconds for each operation, median (mean); load {}",
        load.trim()
    );
    print!("{:<34}", "");
    for (name, _) in columns {
        print!("{name:>25}");
    }
    println!();
    let mut names: Vec<&str> = Vec::new();
    for sample in columns.iter().flat_map(|(_, samples)| samples.iter()) {
        if !names.contains(&sample.name.as_str()) {
            names.push(&sample.name);
        }
    }
    for name in names {
        print!("{name:<34}");
        for (_, samples) in columns {
            match samples.iter().find(|sample| sample.name == name) {
                Some(sample) => print!("{:>14.1} ({:>8.1})", sample.median_us, sample.mean_us),
                None => print!("{:>25}", "-"),
            }
        }
        println!();
    }
}
