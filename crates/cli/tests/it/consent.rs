//! Irreversible commands require --yes or a confirmation on a terminal.

use crate::Place;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::FromRawFd;

/// Runs the binary on a terminal with the given input. Returns the exit code and the terminal's
/// output.
fn on_a_terminal(place: &Place, arguments: &[&str], typed: &str) -> (Option<i32>, String) {
    let (mut ours, mut theirs) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: both pointers are to integers that the call fills; the others may be null.
    let opened = unsafe { libc::openpty(&raw mut ours, &raw mut theirs, none, none.cast(), none.cast()) };
    assert_eq!(opened, 0, "a terminal can be had");
    // SAFETY: both descriptors were just opened, and only these handles own them.
    let (mut ours, theirs) = unsafe { (File::from_raw_fd(ours), File::from_raw_fd(theirs)) };
    ours.write_all(typed.as_bytes()).unwrap();
    let other = theirs.try_clone().unwrap();
    let mut command = place.command(arguments);
    command.env("TERM", "xterm").stdin(theirs).stderr(other);
    let mut child = command.spawn().expect("the binary runs");
    drop(command);
    let mut text = Vec::new();
    // Reading from a terminal whose other end is closed returns an error.
    let _ = ours.read_to_end(&mut text);
    let status = child.wait().expect("it ends");
    (status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn nothing_is_lost_unasked_without_a_terminal() {
    let place = Place::new();
    place.done(["put", "a", "1"]);
    let file = place.file("a.csv", "mine");
    let file = file.to_str().unwrap();
    for arguments in [
        &["keyspaces", "drop", "default"][..],
        &["delete", "--prefix", ""],
        &["delete", "--from", ""],
        &["delete", "--hex", "--prefix", ""],
        &["export", file],
    ] {
        place
            .run(arguments)
            .ended(2)
            .complained("--yes")
            .complained("nothing was done");
    }
    assert_eq!(place.done(["scan"]).text(), "a\t1\n");
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
    place.done(["export", file, "--yes"]);
    assert_eq!(fs::read_to_string(file).unwrap(), "key,value\na,1\n");
    // A bounded deletion needs no confirmation.
    place.done(["delete", "--prefix", "b"]);
    place.done(["delete", "--to", "a"]);
    place.done(["delete", "--prefix", "", "--yes"]);
    assert_eq!(place.done(["scan"]).text(), "");
    place.done(["keyspaces", "drop", "default", "-y"]);
    assert_eq!(place.done(["keyspaces"]).text(), "");
}

#[test]
fn a_terminal_is_asked_and_no_is_the_answer_of_silence() {
    let place = Place::new();
    place.done(["put", "a", "1"]);
    let file = place.file("a.csv", "mine");
    for typed in ["\n", "n\n", "Y es\n", "\u{4}"] {
        let (code, shown) = on_a_terminal(&place, &["keyspaces", "drop", "default"], typed);
        assert_eq!(code, Some(3), "{typed:?}: {shown}");
        assert!(
            shown.contains("Continue? [y/N]") && shown.contains("nothing was done"),
            "{shown}"
        );
    }
    let (code, shown) = on_a_terminal(&place, &["export", file.to_str().unwrap()], "no\n");
    assert_eq!(code, Some(3), "{shown}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let (code, shown) = on_a_terminal(&place, &["export", file.to_str().unwrap()], "y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "key,value\na,1\n");
    let (code, shown) = on_a_terminal(&place, &["delete", "--prefix", ""], "yes\n");
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(place.done(["scan"]).text(), "");
}

#[test]
fn a_device_keeps_its_place_and_a_file_of_rejected_rows_is_not_replaced() {
    let place = Place::new();
    place.done(["put", "a", "1"]);
    place.done(["export", "/dev/null", "-f", "csv"]);
    use std::os::unix::fs::FileTypeExt;
    assert!(
        fs::metadata("/dev/null").unwrap().file_type().is_char_device(),
        "it is no file now"
    );
    let (input, mine) = (
        place.file("in.csv", "key,value\na,1\nb\n"),
        place.file("mine", "dear"),
    );
    let (input, mine) = (input.to_str().unwrap(), mine.to_str().unwrap());
    place
        .run(["import", input, "--rejects", mine])
        .ended(2)
        .complained("--yes");
    place
        .run(["import", input, "--rejects", input, "--yes"])
        .ended(2)
        .complained("the input itself");
    assert_eq!(fs::read_to_string(mine).unwrap(), "dear");
    place.run(["import", input, "--rejects", mine, "--yes"]).ended(4);
    assert_eq!(fs::read_to_string(mine).unwrap(), "key,value\nb\n");
}
