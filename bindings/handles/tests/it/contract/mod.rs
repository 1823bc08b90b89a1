//! Runs the cases of `bindings/contract`, whose README describes their language.

mod driver;
mod language;
mod transactions;

use driver::CaseRun;
use std::path::{Path, PathBuf};

fn run_case(steps: &str, structure: &str) -> Result<(), String> {
    let place = tempfile::tempdir().unwrap();
    let mut run = CaseRun {
        directory: place.path().to_owned(),
        ..CaseRun::default()
    };
    run.line("open s memory \"--memory 16M --workers 1\"")?;
    run.line(&format!("keyspace k s k \"--structure {structure}\""))?;
    steps.lines().try_for_each(|line| run.line(line))
}

/// The names and steps of the cases of a file, and the structures that they run on.
fn cases(text: &str) -> impl Iterator<Item = (&str, &str, &'static [&'static str])> {
    const STRUCTURES: [&str; 5] = ["tiered", "levels,k=4", "paged", "volatile,bytes=1M", "hashed"];
    text.split("[[case]]\n").skip(1).map(|case| {
        let (head, rest) = case.split_once("steps = '''\n").unwrap();
        let structures = match (head.contains("on = \"all\""), head.contains("on = \"ordered\"")) {
            (true, _) => &STRUCTURES[..],
            (_, true) => &STRUCTURES[..4],
            _ => &STRUCTURES[..1],
        };
        (
            head.lines().next().unwrap(),
            rest.split_once("\n'''").unwrap().0,
            structures,
        )
    })
}

#[test]
fn the_contract_suite_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contract");
    let mut files: Vec<PathBuf> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let (mut count, mut runs, mut failed) = (0, 0, Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for (name, steps, structures) in cases(&text) {
            count += 1;
            for structure in structures {
                runs += 1;
                if let Err(why) = run_case(steps, structure) {
                    failed.push(format!("{name} ({structure}): {why}"));
                }
            }
        }
    }
    println!("contract: {count} cases, {runs} runs, {} failed", failed.len());
    assert!(count >= 300 && failed.is_empty(), "{count} cases; {failed:#?}");
}

#[test]
fn a_case_that_does_not_hold_is_found() {
    for wrong in [
        "get k a = 1",
        "put k a 1\nget k a = absent",
        "put k a 1\nget k a ! closed",
        "open d memory \"--colour\" ! closed",
        "open d memory \"--colour\" ! invalid_argument elephant",
        "put k a 1\niter i k\nrest i = a 1 b 2",
    ] {
        assert!(run_case(wrong, "tiered").is_err(), "{wrong}");
    }
}
