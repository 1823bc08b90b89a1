//! What the library needs from a system.

use crate::compiler::{folder, libraries, tool};
use alluvium_device::skipped;
use std::process::Command;

/// Returns what a program of the compiler's prints about the library.
fn printed(program: &str, arguments: &[&str]) -> String {
    let library = libraries().join("liballuvium_c.so");
    let output = Command::new(program)
        .args(arguments)
        .arg(library)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_library_needs_no_runtime_of_another_language() {
    let text = printed("objdump", &["-p"]);
    let needed = text.lines().filter_map(|line| line.trim().strip_prefix("NEEDED"));
    let needed: Vec<&str> = needed.map(str::trim).collect();
    const KNOWN: [&str; 7] = [
        "libc.so.6",
        "libm.so.6",
        "libgcc_s.so.1",
        "libpthread.so.0",
        "libdl.so.2",
        "librt.so.1",
        "ld-linux-x86-64.so.2",
    ];
    assert!(needed.contains(&"libc.so.6"), "{needed:?}");
    assert!(
        needed
            .iter()
            .all(|name| KNOWN.contains(name) || name.starts_with("ld-linux")),
        "{needed:?}"
    );
    assert!(text.contains("SONAME               liballuvium.so.0"), "{text}");
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let text = printed("nm", &["-D", "--defined-only"]);
    let names = text.lines().filter_map(|line| line.split_whitespace().nth(2));
    let mut exported: Vec<&str> = names.collect();
    exported.sort_unstable();
    let header = std::fs::read_to_string(folder().join("include/alluvium.h")).unwrap();
    let missing: Vec<&&str> = exported
        .iter()
        .filter(|name| !header.contains(&format!("{name}(")))
        .collect();
    assert!(
        missing.is_empty() && exported.len() >= 60,
        "{missing:?} of {}",
        exported.len()
    );
}

#[test]
fn an_installed_library_is_found_by_pkg_config() {
    if tool("pkg-config").is_none() {
        skipped!("pkg-config", "it is not installed");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let installed = Command::new("bash")
        .arg(folder().join("install"))
        .arg(place.path())
        .arg(libraries())
        .output()
        .unwrap();
    assert!(
        installed.status.success(),
        "{}",
        String::from_utf8_lossy(&installed.stderr)
    );
    let output = Command::new("pkg-config")
        .args(["--cflags", "--libs", "alluvium"])
        .env("PKG_CONFIG_PATH", place.path().join("lib/pkgconfig"))
        .output()
        .unwrap();
    let flags = String::from_utf8(output.stdout).unwrap();
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let program = place.path().join("program");
    let built = Command::new("cc")
        .arg(folder().join("examples/rivers.c"))
        .args(&flags)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let output = Command::new(&program)
        .arg(place.path().join("store"))
        .env("LD_LIBRARY_PATH", place.path().join("lib"))
        .output()
        .unwrap();
    assert!(output.status.success() && output.stdout.starts_with(b"the Oder is 840 km long"));
}
