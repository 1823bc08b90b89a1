//! Imports that are interrupted or killed, and resumed.

use crate::{Place, Said};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// Creates a file of `count` rows. Returns its path and the expected export.
fn rows(place: &Place, count: u32) -> (PathBuf, String) {
    let mut text = String::from("key,value\n");
    for i in 0..count {
        text.push_str(&format!("{i:09},\"value, {}\"\n", "x".repeat((i % 97) as usize)));
    }
    (place.file("rows.csv", &text), text)
}

fn import(file: &Path) -> [&str; 2] {
    ["import", file.to_str().expect("a path of text")]
}

/// Starts an import, sends it a signal after `wait`, and returns its result.
fn interrupted(place: &Place, file: &Path, signal: i32, wait: Duration) -> Said {
    let child = place
        .command(import(file))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    thread::sleep(wait);
    let pid = i32::try_from(child.id()).expect("a process");
    // SAFETY: it is our own child, which has not been waited for.
    unsafe { libc::kill(pid, signal) };
    child.wait_with_output().expect("it ends").into()
}

#[test]
fn ctrl_c_ends_an_import_in_order_and_the_same_command_goes_on() {
    let place = Place::new();
    let (file, text) = rows(&place, 400_000);
    let mut is_stopped = false;
    for wait in [60, 90, 120] {
        let said = interrupted(&place, &file, libc::SIGINT, Duration::from_millis(wait));
        // On a fast machine the import may have finished, and then the next one starts from the
        // beginning.
        is_stopped = said.code == Some(130) && said.err.contains("again to continue");
    }
    let said = place.done(import(&file));
    assert!(!is_stopped || said.err.contains("continuing after"), "{said:?}");
    assert!(
        place.done(["export", "-", "-f", "csv"]).out == text.as_bytes(),
        "the export differs"
    );
    place.done(["check"]);
}

#[test]
fn an_import_that_waits_for_its_input_ends_after_one_signal() {
    let place = Place::new();
    let mut child = place
        .command(["import", "-", "-f", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut input = child.stdin.take().expect("a pipe");
    // Once the import has read more than a pipe holds, it is running.
    let rows = "key,value\n".to_owned() + &"k,v\n".repeat(1 << 18);
    input.write_all(rows.as_bytes()).expect("it reads");
    let pid = i32::try_from(child.id()).expect("a process");
    // SAFETY: it is our own child, which has not been waited for.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    let said: Said = child.wait_with_output().expect("it ends").into();
    drop(input);
    assert_eq!(said.code, Some(130), "{said:?}");
}

#[test]
fn a_killed_import_goes_on_without_a_row_lost_or_doubled() {
    let place = Place::new();
    let (file, text) = rows(&place, 400_000);
    let bad = text.replace("000390000,\"value,", "000390000 \"value");
    fs::write(&file, &bad).unwrap();
    let mut killed = 0;
    for wait in [100, 200, 300, 500] {
        let said = interrupted(&place, &file, libc::SIGKILL, Duration::from_millis(wait));
        killed += u32::from(said.code.is_none());
    }
    assert!(killed > 0, "it is over before it can be killed");
    place.run(import(&file)).ended(4).complained("line 390002");
    fs::write(&file, &text).unwrap();
    let json = place.done([&import(&file)[..], &["--json"]].concat()).json();
    assert_eq!(json["rows"], 400_000);
    assert!(
        place.done(["export", "-", "-f", "csv"]).out == text.as_bytes(),
        "the export differs"
    );
}

#[test]
fn another_input_or_other_options_are_refused_until_told_to_begin_again() {
    let place = Place::new();
    let file = place.file("a.csv", "key,value\na,1\nb,2\nc\n");
    place.run(import(&file)).ended(4);
    place
        .run([&import(&file)[..], &["--value", "value"]].concat())
        .ended(2)
        .complained("--restart");
    place.file("a.csv", "key,value\nx,1\ny,2\nz,3\n");
    place.run(import(&file)).ended(3).complained("--restart");
    place.done([&import(&file)[..], &["--restart"]].concat());
    assert_eq!(place.done(["scan", "--keys-only"]).text(), "a\nb\nx\ny\nz\n");
}

#[test]
fn standard_input_goes_on_where_it_was_too() {
    let place = Place::new();
    let arguments = ["import", "-", "-f", "csv", "--key", "1", "--no-header"];
    place
        .fed(arguments, b"a,1\nb,2\nc\n")
        .ended(4)
        .complained("line 3");
    place
        .fed(arguments, b"a,1\nb,2\nc,3\n")
        .ended(0)
        .complained("continuing after 2 rows")
        .complained("3 rows, 1 of them now");
    assert_eq!(place.done(["scan"]).text(), "a\t1\nb\t2\nc\t3\n");
}
