//! The instruction-count gate. It uses callgrind to count the instructions of a put, a get, a
//! scanned record, a compacted record, a put in a batch and a put in a transaction, and compares
//! the counts with recorded ones.
//!
//! `instructions check` counts and compares, and `instructions record` counts and stores the
//! counts. Both require `valgrind`. `instructions work` is the measured program. It uses one thread
//! and an in-memory store and always runs the same operations, so the counts are repeatable to a
//! fraction of a percent, whatever else the machine does.
//!
//! The counts depend on the compiler and the processor architecture, which the file of recorded
//! counts states. If they differ from the current ones, the gate reports that it cannot compare.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod recorded;
mod work;

use anyhow::{Context, Result, bail, ensure};
use recorded::InstructionCounts;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Maximum difference between a count and the recorded one, as a fraction of the latter.
const TOLERANCE: f64 = 0.03;

fn main() -> ExitCode {
    let verb = std::env::args().nth(1);
    let done = match verb.as_deref() {
        Some("work") => work::all(work::WorkSizes::of(std::env::args().nth(2).as_deref())),
        Some("check") => check(),
        Some("record") => record(),
        _ => Err(anyhow::anyhow!("the argument must be check, record or work")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("instructions: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the path of the recorded counts in the repository.
fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.txt")
}

fn record() -> Result<()> {
    let recorded = InstructionCounts {
        machine: machine()?,
        counts: count()?,
    };
    let file = file();
    std::fs::write(&file, recorded.to_string()).with_context(|| format!("writing {}", file.display()))?;
    print!("{recorded}");
    Ok(())
}

fn check() -> Result<()> {
    let file = file();
    let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let recorded: InstructionCounts = text.parse().with_context(|| file.display().to_string())?;
    let machine = machine()?;
    if machine != recorded.machine {
        println!(
            "nothing is compared: the recorded numbers are of {}, and this is {machine}; `instructions record` writes new ones",
            recorded.machine
        );
        return Ok(());
    }
    let mut wrong = Vec::new();
    for (name, counted) in count()? {
        let Some(expected) = recorded.counts.iter().find(|(other, _)| *other == name) else {
            bail!(
                "{} has no number for {name}: `instructions record` writes it",
                file.display()
            );
        };
        let change = counted / expected.1 - 1.0;
        println!(
            "{name:<28} {counted:>10.1} instructions, {:>10.1} recorded, {:+.2} %",
            expected.1,
            100.0 * change
        );
        if change.abs() > TOLERANCE {
            wrong.push(format!("{name} {:+.1} %", 100.0 * change));
        }
    }
    ensure!(
        wrong.is_empty(),
        "more than {:.0} % from the recorded numbers: {}. If the change is intended, run `cargo run --release -p alluvium-bench --bin instructions -- record` to write \
         the new numbers, and explain it in the commit message",
        100.0 * TOLERANCE,
        wrong.join(", ")
    );
    Ok(())
}

/// Returns the compiler version and the processor architecture as text.
fn machine() -> Result<String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let said = Command::new(rustc)
        .arg("--version")
        .output()
        .context("asking rustc for its version")?;
    let text = String::from_utf8_lossy(&said.stdout);
    Ok(format!("{}, {}", text.trim(), std::env::consts::ARCH))
}

/// Counts instructions, and returns the number per operation for each measured part.
fn count() -> Result<Vec<(String, f64)>> {
    let place = std::env::temp_dir().join(format!("alluvium-instructions-{}", std::process::id()));
    std::fs::create_dir_all(&place).with_context(|| format!("creating {}", place.display()))?;
    let counts = count_in(&place);
    // Files that cannot be removed are harmless.
    let _ = std::fs::remove_dir_all(&place);
    counts
}

fn count_in(place: &Path) -> Result<Vec<(String, f64)>> {
    let program = std::env::current_exe().context("looking for this program")?;
    let out = place.join("out");
    // Callgrind counts only while a function whose name begins with this prefix is running.
    let said = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--cache-sim=no"])
        .arg("--toggle-collect=measured_*")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .arg("work")
        .output()
        .context("starting valgrind: is it installed?")?;
    ensure!(
        said.status.success(),
        "valgrind ended with {}: {}",
        said.status,
        String::from_utf8_lossy(&said.stderr)
    );
    let said = Command::new("callgrind_annotate")
        .args(["--inclusive=yes", "--threshold=100", "--auto=no"])
        .arg(&out)
        .output()
        .context("starting callgrind_annotate, which comes with valgrind")?;
    let table = String::from_utf8_lossy(&said.stdout);
    let parts = work::WorkSizes::of(None).parts();
    parts
        .iter()
        .map(|part| {
            let total = recorded::total(&table, part.function)?;
            Ok((part.name.to_owned(), total as f64 / part.operations as f64))
        })
        .collect()
}
