//! File modes of the files that the binary creates, and access to its server.

use crate::serve::{Served, asked};
use crate::{Place, binary};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Returns the directory and everything in it.
fn all_in(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            all.extend(all_in(&entry.unwrap().path()));
        }
    }
    all
}

#[test]
fn what_holds_data_is_its_owners_alone() {
    let place = Place::new();
    place.done(["put", "Elbe", "1094"]);
    let (store, backup) = (place.path("store"), place.path("backup"));
    let (rows, value) = (place.path("rows.csv"), place.path("value"));
    place.done(["backup", backup.to_str().unwrap()]);
    place.done(["export", rows.to_str().unwrap()]);
    place.done(["get", "Elbe", "-o", value.to_str().unwrap()]);
    let made = [&store, &backup, &rows, &value].map(|path| all_in(path)).concat();
    assert!(made.len() > 8, "{made:?}");
    for path in &made {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(path), expected, "{}", path.display());
    }
    // Existing files keep their mode.
    for (path, known) in [(&store, 0o755), (&value, 0o644)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(known)).unwrap();
    }
    place.done(["put", "Oder", "854"]);
    place.done(["get", "Oder", "-o", value.to_str().unwrap()]);
    assert_eq!((mode(&store), mode(&value)), (0o755, 0o644));
}

#[test]
fn a_stricter_mask_is_kept() {
    let place = Place::new();
    place.done(["put", "Elbe", "1094"]);
    let value = place.path("value");
    let get = binary();
    let said = std::process::Command::new("sh")
        .args(["-c", "umask 0277 && exec \"$0\" get Elbe -o \"$1\""])
        .args([get.get_program(), value.as_os_str()])
        .env("ALLUVIUM_DB", place.path("store"))
        .output()
        .unwrap();
    assert!(said.status.success(), "{said:?}");
    assert_eq!(mode(&value), 0o400);
}

/// Asserts that a server refuses to start, with the given exit code and message.
#[track_caller]
fn refused(place: &Place, more: &[&str], code: i32, words: &str) {
    let ports = [
        "serve",
        "--redis",
        "127.0.0.1:0",
        "--memcached",
        "off",
        "--web",
        "off",
    ];
    let arguments: Vec<&str> = ports.iter().chain(more).copied().collect();
    place.run(arguments).ended(code).complained(words);
}

#[test]
fn the_password_comes_from_a_flag_a_file_or_a_variable_in_that_order() {
    let place = Place::new();
    let file = place.file("password", "of the file\n");
    let file = ["--password-file", file.to_str().unwrap()];
    let auth = |password: &str| format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{password}\r\n", password.len());
    for (flags, expected) in [
        (&["--password", "of the flag"][..], "of the flag"),
        (&file[..], "of the file"),
        (&[], "of the variable"),
    ] {
        let served = Served::with(&place, flags, |command| {
            command.env("ALLUVIUM_PASSWORD", "of the variable");
        });
        asked(&served.redis, "GET a\r\n", "-NOAUTH Authentication required.\r\n");
        asked(&served.redis, &auth(expected), "+OK\r\n");
        assert_eq!(served.ended(libc::SIGTERM), Some(0));
    }
    refused(
        &place,
        &["--password", "x", file[0], file[1]],
        2,
        "--password-file",
    );
    refused(&place, &["--password", ""], 2, "it is empty");
    let empty = place
        .command(["serve", "--redis", "127.0.0.1:0"])
        .env("ALLUVIUM_PASSWORD", "")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&empty.stderr);
    assert!(said.contains("ALLUVIUM_PASSWORD is empty"), "{said}");
}

#[test]
fn each_port_that_others_could_reach_is_named_by_its_flag() {
    let place = Place::new();
    for flag in ["--redis", "--memcached", "--web"] {
        let mut arguments = vec!["serve"];
        for other in ["--redis", "--memcached", "--web"] {
            arguments.extend([other, if other == flag { "0.0.0.0:0" } else { "127.0.0.1:0" }]);
        }
        place
            .run(arguments)
            .ended(2)
            .complained(&format!("{flag} 0.0.0.0:0 can be reached"));
    }
}

#[test]
fn users_come_from_a_file_that_is_checked_first() {
    let place = Place::new();
    let users = place.file("users.acl", "user default off\nuser one on >pw ~a* +@all\n");
    let flags = ["--users", users.to_str().unwrap()];
    let served = Served::new(&place, &flags);
    asked(
        &served.redis,
        "AUTH one pw\r\nSET a 1\r\nACL SETUSER two on >pw2 +get\r\nACL SAVE\r\n",
        "+OK\r\n+OK\r\n+OK\r\n+OK\r\n",
    );
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
    let saved = std::fs::read_to_string(&users).unwrap();
    assert!(
        saved.contains("user two on #") && !saved.contains("pw"),
        "{saved}"
    );
    let served = Served::new(&place, &flags);
    asked(&served.redis, "AUTH two pw2\r\n", "+OK\r\n");
    drop(served);
    place.file("users.acl", "user one on\n\nuser two +nosuch\n");
    refused(
        &place,
        &flags,
        2,
        "users.acl:3: Error in applying operation '+nosuch'",
    );
    refused(
        &place,
        &["--users", "/nosuch/file"],
        2,
        "--users: Error loading ACLs, opening file '/nosuch/file'",
    );
}

#[test]
fn a_socket_goes_with_its_server_and_a_dead_ones_is_replaced() {
    let place = Place::new();
    let path = place.path("redis.sock");
    let flags = ["--socket", path.to_str().unwrap(), "--socket-mode", "660"];
    let ping = || {
        let mut socket = UnixStream::connect(&path).unwrap();
        socket.write_all(b"PING\r\n").unwrap();
        let mut reply = [0; 7];
        socket.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\r\n");
    };
    let served = Served::new(&place, &flags);
    ping();
    assert_eq!(mode(&path), 0o660);
    let other = Place::new();
    refused(
        &other,
        &flags,
        3,
        &format!("--socket {}: another server", path.display()),
    );
    assert_eq!(served.ended(libc::SIGKILL), None);
    assert!(path.exists());
    let served = Served::new(&place, &flags);
    ping();
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
    assert!(!path.exists());
    refused(
        &place,
        &["--socket", path.to_str().unwrap(), "--socket-mode", "9"],
        2,
        "octal",
    );
    let file = place.file("file", "precious");
    refused(&place, &["--socket", file.to_str().unwrap()], 3, "not a socket");
}
