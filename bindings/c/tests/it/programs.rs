//! Programs in C: the contract suite, the example, callbacks, and random orders of calls.

use crate::compiler::{CompiledProgram, folder, tool};
use alluvium_device::skipped;
use alluvium_sim::environment::effort;

fn compiled(source: &str, flags: &[&str]) -> Option<CompiledProgram> {
    let program = CompiledProgram::new(source, flags);
    if program.is_none() {
        skipped!("cc", "there is no C compiler");
    }
    program
}

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
    let Some(program) = compiled("tests/contract.c", &SANITIZER) else {
        return;
    };
    let files = contract_files();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let output = program.run(&files).unwrap();
    let line = output.lines().last().unwrap();
    let cases: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(line.ends_with(" 0 failed") && cases >= 300, "{output}");
}

#[test]
fn the_driver_finds_a_case_that_does_not_hold() {
    let Some(program) = compiled("tests/contract.c", &[]) else {
        return;
    };
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
    let Some(program) = compiled("examples/rivers.c", &SANITIZER) else {
        return;
    };
    for _ in 0..2 {
        let output = program.run(&["store"]).unwrap();
        assert_eq!(
            output,
            "the Oder is 840 km long\nRhine\t1233 km\nOder\t840 km\nElbe\t1094 km\n"
        );
    }
}

#[test]
fn callbacks_values_threads_and_wrong_arguments_are_handled() {
    let Some(program) = compiled("tests/callbacks.c", &SANITIZER) else {
        return;
    };
    assert_eq!(program.run(&[]).unwrap(), "done\n");
}

#[test]
fn no_order_of_calls_is_a_crash() {
    let Some(program) = compiled("tests/orders.c", &SANITIZER) else {
        return;
    };
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
    let Some(program) = compiled("tests/orders.c", &[]) else {
        return;
    };
    if tool("valgrind").is_none() {
        skipped!("valgrind", "it is not installed");
        return;
    }
    let steps = effort(300, 20_000).to_string();
    let runner = [
        "valgrind",
        "-q",
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
    ];
    program.run_under(&runner, &["62", &steps]).unwrap();
}
