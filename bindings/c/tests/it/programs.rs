//! Programs in C: the contract suite, the example, callbacks, and random orders of calls.

use crate::compiler::{CompiledProgram, folder, tool};
use alluvium_device::skipped;
use alluvium_sim::environment::effort;

const SANITIZER: [&str; 2] = ["-fsanitize=address", "-fno-omit-frame-pointer"];

fn contract_files() -> Vec<String> {
    let files = folder().join("../contract").read_dir().unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let mut files: Vec<String> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| path.to_str().unwrap().to_owned())
        .collect();
    files.sort();
    files
}

#[test]
fn the_contract_suite_holds_in_c() {
    // The sanitizer takes a minute for all cases. What it finds here, the random orders find too.
    let flags = if effort(0, 1) == 0 { &[][..] } else { &SANITIZER };
    let program = CompiledProgram::new("tests/contract.c", flags);
    let files = contract_files();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let output = program.run(&files).unwrap();
    let line = output.lines().last().unwrap();
    let cases: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(line.ends_with(" 0 failed") && cases >= 300, "{output}");
}

#[test]
fn the_driver_finds_a_case_that_does_not_hold() {
    let program = CompiledProgram::new("tests/contract.c", &[]);
    for wrong in [
        "get k a = 1",
        "put k a 1\nget k a = absent",
        "put k a 1\nget k a ! closed",
        "open d memory \"--colour\" ! closed",
        "open d memory \"--colour\" ! invalid_argument elephant",
        "put k a 1\niter i k\nrest i = a 1 b 2",
        "putt k a 1",
        "put missing a 1",
    ] {
        let case = program.folder().join("wrong.toml");
        std::fs::write(
            &case,
            format!("[[case]]\nname = \"wrong\"\nsteps = '''\n{wrong}\n'''\n"),
        )
        .unwrap();
        let output = program.run(&[case.to_str().unwrap()]).unwrap_err();
        let output = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.contains("FAILED: wrong") && output.ends_with("1 failed\n"),
            "{wrong}: {output}"
        );
    }
}

#[test]
fn the_example_of_the_page_runs() {
    let program = CompiledProgram::new("examples/rivers.c", &SANITIZER);
    for _ in 0..2 {
        let output = program.run(&["store"]).unwrap();
        assert_eq!(
            output,
            "the Oder is 840 km long\nRhine\t1233 km\nOder\t840 km\nElbe\t1094 km\n"
        );
    }
}

#[test]
fn the_program_of_the_page_runs() {
    let page = std::fs::read_to_string(folder().join("../../docs/c.md")).unwrap();
    let text = page.split("```c\n").nth(1).unwrap().split("```").next().unwrap();
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("page.c");
    std::fs::write(&source, text).unwrap();
    let program = CompiledProgram::new(source.to_str().unwrap(), &SANITIZER);
    assert_eq!(program.run(&[]).unwrap(), "1094 km\n");
}

#[test]
fn the_header_is_one_of_old_c_and_of_new_c_plus_plus() {
    for (compiler, language, standard) in [("cc", "c", "c99"), ("cc", "c", "c17"), ("c++", "c++", "c++20")] {
        let checked = std::process::Command::new(compiler)
            .args(["-x", language, &format!("-std={standard}")])
            .args([
                "-pedantic",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-Wno-unused-function",
                "-fsyntax-only",
            ])
            .arg(folder().join("include/alluvium.h"))
            .output()
            .unwrap();
        assert!(
            checked.status.success(),
            "{standard}: {}",
            String::from_utf8_lossy(&checked.stderr)
        );
    }
}

#[test]
fn callbacks_values_threads_and_wrong_arguments_are_handled() {
    let program = CompiledProgram::new("tests/callbacks.c", &SANITIZER);
    assert_eq!(program.run(&[]).unwrap(), "done\n");
}

#[test]
fn no_order_of_calls_is_a_crash() {
    let program = CompiledProgram::new("tests/orders.c", &SANITIZER);
    let steps = effort(50_000, 1_000_000).to_string();
    let output = program.run(&["20261130", &steps]).unwrap();
    for kind in ["closed", "ended", "in_use", "invalid_argument", "ok"] {
        assert!(
            output.contains(&format!(" {kind} ")),
            "no step came to {kind}: {output}"
        );
    }
}

#[test]
fn valgrind_finds_no_error_and_no_leak() {
    let program = CompiledProgram::new("tests/orders.c", &[]);
    if tool("valgrind").is_none() {
        skipped!("valgrind", "it is not installed");
        return;
    }
    let steps = effort(60, 20_000).to_string();
    let runner = [
        "valgrind",
        "-q",
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
    ];
    program.run_under(&runner, &["62", &steps]).unwrap();
}
