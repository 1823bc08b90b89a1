//! Single keys and scans.

use crate::{Place, lines};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::thread;
use std::time::Duration;

#[test]
fn what_is_put_is_got_byte_for_byte() {
    let place = Place::new();
    let key = OsStr::from_bytes(b"\xffk\n");
    let value = OsStr::from_bytes(b"v\x01\xfe");
    place.done([OsStr::new("put"), key, value]);
    assert_eq!(place.done([OsStr::new("get"), key]).out, b"v\x01\xfe");
    assert_eq!(place.done(["get", "--hex", "ff6b0a"]).text(), "7601fe\n");
    assert_eq!(place.done(["get", "--base64", "/2sK"]).text(), "dgH+\n");
    let json = place.done(["get", "--json", "--hex", "ff6b0a"]).json();
    assert_eq!(
        (&json["key_base64"], &json["value_base64"]),
        (&"/2sK".into(), &"dgH+".into())
    );
}

#[test]
fn values_come_from_files_and_from_standard_input_and_go_to_files() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..100_000u32).map(|i| i.wrapping_mul(i) as u8).collect();
    let file = place.file("in", &bytes);
    place.done([
        OsStr::new("put"),
        OsStr::new("a"),
        OsStr::new("--file"),
        file.as_os_str(),
    ]);
    assert_eq!(place.done(["get", "a"]).out, bytes);
    place.fed(["put", "b", "-"], b"from a pipe\n").ended(0);
    assert_eq!(place.done(["get", "b"]).out, b"from a pipe\n");
    place
        .fed(["put", "c", "-", "--hex"], b"0a0b\n")
        .ended(2)
        .complained("hex");
    place.fed(["put", "0c", "-", "--hex"], b"0a0b\n").ended(0);
    let out = place.path("out");
    place.done([
        OsStr::new("get"),
        OsStr::new("a"),
        OsStr::new("-o"),
        out.as_os_str(),
    ]);
    assert_eq!(std::fs::read(out).unwrap(), bytes);
    assert_eq!(place.done(["get", "--hex", "0c"]).text(), "0a0b\n");
}

#[test]
fn a_key_that_is_not_there_is_code_1_and_the_others_are_printed() {
    let place = Place::new();
    place.done(["put", "a", "1"]);
    place.done(["put", "b", "2\t"]);
    let said = place
        .run(["get", "a", "x", "b"])
        .ended(1)
        .complained("no key \"x\"");
    assert_eq!(said.text(), "a\t1\nb\t2\\t\n");
    place
        .run(["get", "-k", "other", "a"])
        .ended(1)
        .complained("keyspaces list");
}

#[test]
fn a_put_may_leave_values_alone_or_expire() {
    let place = Place::new();
    place.done(["put", "--if-absent", "a", "1"]);
    place
        .run(["put", "--if-absent", "a", "2"])
        .ended(1)
        .complained("not changed");
    assert_eq!(place.done(["get", "a"]).out, b"1");
    place.done(["put", "b", "1", "--expires-in", "1ms"]);
    thread::sleep(Duration::from_millis(5));
    place.run(["get", "b"]).ended(1);
    place.done(["put", "c", "1", "--expires-in", "1d"]);
    assert_eq!(place.done(["get", "c"]).out, b"1");
    place.done(["delete", "c", "--in", "1d"]);
    assert_eq!(place.done(["get", "c"]).out, b"1");
    place.done(["delete", "c", "--in", "1ms"]);
    thread::sleep(Duration::from_millis(5));
    place.run(["get", "c"]).ended(1);
    place
        .run(["delete", "--prefix", "c", "--in", "1d"])
        .ended(2)
        .complained("--in");
}

#[test]
fn deletes_take_keys_prefixes_and_ranges() {
    let place = Place::new();
    for key in ["a1", "a2", "a3", "b1", "b2", "c1", "c2"] {
        place.done(["put", key, "v"]);
    }
    place
        .run(["delete", "a1", "x"])
        .ended(1)
        .complained("no key \"x\"");
    place.done(["delete", "-f", "a1", "x"]);
    place.done(["delete", "--prefix", "b"]);
    place.done(["delete", "--from", "c1", "--to", "c2"]);
    place.run(["delete", "--from", "c2", "--to", "c1"]).ended(2);
    place.run(["delete"]).ended(2);
    assert_eq!(
        lines(&place.done(["scan", "--keys-only"]).text()),
        ["a2", "a3", "c2"]
    );
}

#[test]
fn scans_take_prefixes_bounds_limits_and_either_direction() {
    let place = Place::new();
    for key in ["a1", "a2", "b1", "b2", "c1"] {
        place.done(["put", key, &format!("v{key}")]);
    }
    let keys = |arguments: &[&str]| -> Vec<String> {
        let all = [&["scan", "--keys-only"], arguments].concat();
        lines(&place.done(all).text())
            .into_iter()
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(keys(&[]), ["a1", "a2", "b1", "b2", "c1"]);
    assert_eq!(keys(&["--prefix", "a"]), ["a1", "a2"]);
    assert_eq!(keys(&["--from", "a2", "--to", "c1"]), ["a2", "b1", "b2"]);
    assert_eq!(keys(&["--reverse", "--limit", "2"]), ["c1", "b2"]);
    assert_eq!(keys(&["--reverse", "--prefix", "b", "-n", "1"]), ["b2"]);
    assert_eq!(keys(&["--limit", "0"]), [""; 0]);
    assert_eq!(place.done(["scan", "--prefix", "c"]).text(), "c1\tvc1\n");
    assert_eq!(
        place.done(["scan", "--hex", "--from", "63"]).text(),
        "6331\t766331\n"
    );
    let json = place.done(["scan", "--json", "-n", "1"]).json();
    assert_eq!((&json["key"], &json["value"]), (&"a1".into(), &"va1".into()));
}

#[test]
fn data_is_there_after_every_command_by_itself() {
    let place = Place::new();
    for round in 0..5 {
        place.done(["put", &format!("k{round}"), "v"]);
    }
    assert_eq!(lines(&place.done(["scan"]).text()).len(), 5);
    place.done(["check"]).complained("whole");
}
