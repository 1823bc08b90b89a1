//! Requests to the kernel, including those that it cannot carry out.

use crate::places::open;
use crate::refusals::{assert_poisoned, temporary};
use alluvium_base::Purpose;
use alluvium_device::file::{FileDirectory, IoEngine};
use alluvium_device::{AlignedBuffer, Directory, Error, FileOptions};
use std::path::Path;
use std::process::Command;

const OTHER: Purpose = Purpose::Other;

#[test]
fn a_store_that_the_kernel_cannot_carry_out_is_an_error_and_no_death() {
    let place = temporary();
    let directory = open(place.path(), IoEngine::Auto);
    let file = directory.create("log", FileOptions::BUFFERED).unwrap();
    file.grow(64 << 10).unwrap();
    let mapping = match file.map(0..64 << 10) {
        Ok(mapping) => mapping,
        Err(error) => return alluvium_device::skipped!("shared mappings", "{error}"),
    };
    // SAFETY: only this test uses the file.
    unsafe { mapping.write(0, &[1; 64 << 10]) };
    mapping.sync(0..64 << 10, OTHER).unwrap();
    assert!(!mapping.is_broken());
    // Truncate the file from outside. A store beyond its end raises a signal.
    let outside = std::fs::File::options()
        .write(true)
        .open(place.path().join("log"))
        .unwrap();
    outside.set_len(8192).unwrap();
    // SAFETY: as above.
    unsafe { mapping.write(8000, &[2; 9000]) };
    assert!(mapping.is_broken());
    let failed = mapping.sync(0..4096, OTHER).unwrap_err();
    assert!(matches!(failed, Error::Io { .. }), "{failed}");
    assert_poisoned(file.sync(OTHER));
    assert_poisoned(file.write_at(0, AlignedBuffer::zeroed(512), OTHER).map(|_| ()));
    // Another mapping takes the place of the first and is intact.
    drop(mapping);
    let other = directory.create("other", FileOptions::BUFFERED).unwrap();
    other.grow(64 << 10).unwrap();
    let mapping = other.map(0..64 << 10).unwrap();
    // SAFETY: as above.
    unsafe { mapping.write(0, &[3; 64 << 10]) };
    mapping.sync(0..64 << 10, OTHER).unwrap();
    assert!(!mapping.is_broken());
}

/// Names the directory of the process that `strace` watches. If it is unset, that test does
/// nothing.
const WATCHED: &str = "ALLUVIUM_WATCHED_DIRECTORY";

#[test]
fn the_watched_process_syncs_names() {
    let Some(path) = std::env::var_os(WATCHED) else {
        return;
    };
    let directory = FileDirectory::create(Path::new(&path).join("above/store")).unwrap();
    for name in ["a", "b", "c"] {
        let file = directory.create(name, FileOptions::BUFFERED).unwrap();
        file.sync(OTHER).unwrap();
        directory.sync().unwrap();
    }
    directory.rename("a", "d").unwrap();
    directory.sync().unwrap();
}

#[test]
fn a_sync_of_a_directory_reaches_the_kernel() {
    let place = temporary();
    let trace = place.path().join("trace");
    let watched = Command::new("strace")
        .args(["-f", "-qq", "-y", "-e", "trace=fsync,fdatasync", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "kernel::the_watched_process_syncs_names"])
        .env(WATCHED, place.path())
        .output();
    match watched {
        Err(error) => return alluvium_device::skipped!("strace", "{error}"),
        Ok(output) if !output.status.success() && !trace.exists() => {
            let why = String::from_utf8_lossy(&output.stderr);
            return alluvium_device::skipped!("ptrace", "{why}");
        }
        Ok(output) => assert!(output.status.success(), "{output:?}"),
    }
    let trace = std::fs::read_to_string(&trace).unwrap();
    if trace.is_empty() {
        return alluvium_device::skipped!("ptrace", "strace sees no call");
    }
    let root = place.path().canonicalize().unwrap();
    let syncs = |call: &str, path: &str| {
        let wanted = format!("<{}>", root.join(path).display());
        let is_it = |line: &&str| line.contains(call) && line.contains(&wanted) && line.ends_with("= 0");
        trace.lines().filter(is_it).count()
    };
    // Each new directory is synced with its parent, and the store's directory once per call.
    assert_eq!(syncs("fsync(", "above/store"), 1 + 4, "{trace}");
    assert!(syncs("fsync(", "above") >= 1, "{trace}");
    for name in ["a", "b", "c"] {
        assert_eq!(syncs("fdatasync(", &format!("above/store/{name}")), 1, "{trace}");
    }
}
