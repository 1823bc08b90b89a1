//! Output on a terminal, shell completions, and manual pages.

use crate::{Place, binary};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::FromRawFd;
use std::process::Stdio;

/// Returns the output of the binary when its standard output is a terminal.
fn on_a_terminal(place: &Place, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let (mut ours, mut theirs) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: both pointers are to integers that the call fills; the others may be null.
    let opened = unsafe { libc::openpty(&raw mut ours, &raw mut theirs, none, none.cast(), none.cast()) };
    assert_eq!(opened, 0, "a terminal can be had");
    // SAFETY: both descriptors were just opened and have no other owner.
    let (mut ours, theirs) = unsafe { (File::from_raw_fd(ours), File::from_raw_fd(theirs)) };
    let mut command = place.command(arguments);
    command
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .env_remove("CI");
    command.envs(environment.iter().copied());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(theirs)
        .spawn()
        .expect("the binary runs");
    drop(command);
    let mut text = Vec::new();
    // Reading from a terminal whose other end is closed returns an error.
    let _ = ours.read_to_end(&mut text);
    child.wait().expect("it ends");
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn colours_and_columns_are_for_terminals_and_no_color_is_respected() {
    let place = Place::new();
    place.done(["put", "Elbe", "1094 km"]);
    let coloured = on_a_terminal(&place, &["scan"], &[]);
    assert!(coloured.contains("\x1b["), "{coloured:?}");
    let plain = on_a_terminal(&place, &["scan"], &[("NO_COLOR", "1")]);
    assert_eq!(plain.trim_end(), "Elbe\t1094 km");
    assert_eq!(place.done(["scan"]).text(), "Elbe\t1094 km\n");
    let table = on_a_terminal(&place, &["keyspaces"], &[("NO_COLOR", "1")]);
    assert!(table.starts_with("name     compression"), "{table:?}");
}

#[test]
fn a_terminal_is_never_sent_what_it_might_obey() {
    let place = Place::new();
    place.done(["put", "a", "\x1b]0;title\x07"]);
    let shown = on_a_terminal(&place, &["get", "a"], &[("NO_COLOR", "1")]);
    assert_eq!(shown.trim_end(), "\\x1b]0;title\\x07");
}

#[test]
fn completions_are_printed_for_each_shell() {
    for (shell, sign) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef alluvium"),
        ("fish", "complete -c alluvium"),
    ] {
        let output = binary().args(["completions", shell]).output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(sign) && text.contains("keyspaces"), "{shell}");
    }
    assert_eq!(
        binary()
            .args(["completions", "tcsh"])
            .output()
            .unwrap()
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn manual_pages_are_written_one_for_each_verb() {
    let place = Place::new();
    let page = String::from_utf8(binary().arg("man").output().unwrap().stdout).unwrap();
    assert!(page.contains(".TH alluvium 1"), "{page}");
    let directory = place.path("man1");
    assert!(
        binary()
            .arg("man")
            .arg("--to")
            .arg(&directory)
            .status()
            .unwrap()
            .success()
    );
    let names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    for verb in ["alluvium.1", "alluvium-get.1", "alluvium-keyspaces-create.1"] {
        assert!(names.iter().any(|name| name == verb), "{verb} in {names:?}");
    }
}
