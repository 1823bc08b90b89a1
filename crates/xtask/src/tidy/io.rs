//! Rule 1: only `device` performs storage I/O. Clippy rejects the calls; this check rejects the
//! ways around clippy.

use super::{SourceFile, TidyFinding, Workspace};

/// Crates that may use the file system: `device` on behalf of all others, the rest for their own
/// purposes.
const EXEMPT: [&str; 10] = [
    "device", "cli", "files", "mount", "bench", "aging", "research", "xtask", "fuzz", "bindings",
];

/// Operating-system calls outside `device`, and the reason for each. An exception that no longer
/// applies is a finding.
const EXCEPTIONS: [(&str, &str, &str); 4] = [
    (
        "crates/storage/src/memory.rs",
        "libc",
        "caches and memtables are anonymous memory, with huge pages where they help: no file is behind them",
    ),
    (
        "crates/storage/benches/log.rs",
        "libc",
        "only the kernel knows whether a slow append was slow or its thread was preempted",
    ),
    (
        "crates/server/src/control/socket.rs",
        "rustix",
        "a socket's file has a name and a mode and holds nothing; only the kernel knows whose process connects",
    ),
    (
        "crates/server/src/control/listen.rs",
        "rustix",
        "a socket is shut down so that the thread that waits at it ends",
    ),
];

/// Crates that call the operating system without the standard library.
const SYSTEM: [&str; 5] = ["libc", "io_uring", "rustix", "nix", "memmap2"];

/// Checks every crate that is not exempt. Benches are exempt too, because they measure the raw
/// device.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let exempt = |source: &&SourceFile| {
        EXEMPT.contains(&Workspace::crate_of(&source.path)) || source.path.contains("/benches/")
    };
    for source in workspace.sources.iter().filter(|source| !exempt(source)) {
        let mut find = |line: usize, text: String| findings.push(TidyFinding::new(&source.path, line, text));
        for lint in ["clippy::disallowed_methods", "clippy::disallowed_types"] {
            for line in source.find(lint) {
                find(
                    line,
                    format!(
                        "{lint} is allowed here: only {} may do I/O; take a Directory or Device",
                        EXEMPT.join(", ")
                    ),
                );
            }
        }
        for line in file_system(source) {
            find(
                line,
                "std::fs belongs to crates/device: take a Directory or Device instead".to_owned(),
            );
        }
        for name in SYSTEM {
            for line in system(source, name)
                .into_iter()
                .filter(|_| !is_exception(&source.path, name))
            {
                find(
                    line,
                    format!("{name} belongs to crates/device: offer what is needed there"),
                );
            }
        }
    }
    for (path, name, _) in EXCEPTIONS {
        let source = workspace.sources.iter().find(|source| source.path == path);
        if workspace.files.contains("crates/storage/src/cache/mod.rs")
            && source.is_none_or(|source| system(source, name).is_empty())
        {
            let text = format!("{path} no longer uses {name}: take the exception away");
            findings.push(TidyFinding::new("crates/xtask/src/tidy/io.rs", 1, text));
        }
    }
    findings
}

fn is_exception(path: &str, name: &str) -> bool {
    EXCEPTIONS
        .iter()
        .any(|(file, allowed, _)| *file == path && *allowed == name)
}

/// Returns the lines that mention `std::fs`, alone or in a group of imports.
fn file_system(source: &SourceFile) -> Vec<usize> {
    let tokens = &source.tokens;
    let mut lines = source.find("std::fs");
    lines.extend(source.find("std::os::unix::fs"));
    for at in 0..tokens.len() {
        let starts =
            tokens[at].word() == Some("std") && tokens.get(at + 3).is_some_and(|token| token.is('{'));
        if starts {
            let group = tokens[at + 4..].iter().take_while(|token| !token.is(';'));
            lines.extend(
                group
                    .filter(|token| token.word() == Some("fs"))
                    .map(|token| token.line),
            );
        }
    }
    lines
}

/// Returns the lines that use a crate, in a path or an import.
fn system(source: &SourceFile, name: &str) -> Vec<usize> {
    let mut lines = source.find(&format!("{name}::"));
    lines.extend(source.find(&format!("use {name};")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::lines;

    fn found(path: &str, text: &str) -> Vec<String> {
        lines(&check(&Workspace::planted(&[(path, text)])))
    }

    #[test]
    fn ways_around_clippy_are_found() {
        for text in [
            "#![allow(clippy::disallowed_methods)]",
            "#[expect(clippy::disallowed_types)] fn f() {}",
            "use std::fs;",
            "use std::{io, fs::File};",
            "use std::os::unix::fs::FileExt;",
            "fn f() { unsafe { libc::mmap() } }",
            "use io_uring::IoUring;",
        ] {
            let found = found("crates/storage/src/log/mod.rs", text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(
                found[0].starts_with("crates/storage/src/log/mod.rs:1: "),
                "{found:?}"
            );
        }
    }

    #[test]
    fn the_device_the_workshop_and_words_in_comments_are_free() {
        assert_eq!(
            found("crates/device/src/file.rs", "use std::fs::File; use libc::c_int;"),
            [""; 0]
        );
        assert_eq!(found("crates/storage/benches/log.rs", "use std::fs;"), [""; 0]);
        assert_eq!(
            found("crates/xtask/src/lib.rs", "#![allow(clippy::disallowed_methods)]"),
            [""; 0]
        );
        assert_eq!(
            found(
                "crates/storage/src/lib.rs",
                "// std::fs and libc::mmap\nconst A: &str = \"std::fs\";"
            ),
            [""; 0]
        );
    }

    #[test]
    fn an_exception_holds_for_its_file_and_its_crate_and_must_be_used() {
        let module = ("crates/storage/src/cache/mod.rs", "mod arena;");
        let bench = ("crates/storage/benches/log.rs", "fn f() { libc::getrusage(); }");
        let sockets = [
            ("crates/server/src/control/socket.rs", "use rustix::net;"),
            ("crates/server/src/control/listen.rs", "use rustix::net;"),
        ];
        let memory = |text| {
            let memory = ("crates/storage/src/memory.rs", text);
            lines(&check(&Workspace::planted(&[
                module, bench, sockets[0], sockets[1], memory,
            ])))
        };
        assert_eq!(memory("fn f() { libc::mmap(); }"), [""; 0]);
        assert!(memory("fn f() {}")[0].contains("take the exception away"));
        assert!(memory("fn f() { libc::mmap(); nix::x(); }")[0].contains("nix belongs to crates/device"));
    }
}
