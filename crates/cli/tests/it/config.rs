//! Configuration files of `serve`, and what a server reads again.

use crate::Place;
use crate::serve::{Served, asked};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[test]
fn files_are_checked_and_shown() {
    let place = Place::new();
    let defaults = place.done(["config", "default"]).text();
    assert!(defaults.contains("\n#max-clients = \"10000\"\n"), "{defaults}");
    // A file with all settings as they are by default is valid.
    let empty = place.file("empty.toml", &defaults);
    let said = place.done(["config", "check", empty.to_str().unwrap()]).text();
    assert!(said.ends_with(": 0 settings, all valid\n"), "{said}");

    let file = place.file("a.toml", "max-clients = 33\nhashed = true\nredis = \"off\"\n");
    let shown = place.done(["config", "show", file.to_str().unwrap()]).text();
    for line in [
        "max-clients = \"33\" # file",
        "redis = \"off\" # file",
        "hashed = true # file",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} in {shown}");
    }
    assert!(shown.contains("web = \"127.0.0.1:7070\" # default\n"), "{shown}");

    let wrong = place.file("b.toml", "\nmax-cleints = 33\n");
    let said = place.run(["config", "check", wrong.to_str().unwrap()]).ended(2);
    assert!(
        said.err.contains("line 2") && said.err.contains("\"max-clients\"?"),
        "{}",
        said.err
    );
    let wrong = place.file("c.toml", "client-memory = \"many\"\n");
    let said = place.run(["serve", "--config", wrong.to_str().unwrap()]).ended(2);
    assert!(
        said.err.contains("c.toml") && said.err.contains("--client-memory"),
        "{}",
        said.err
    );
    let missing = place.path("none.toml");
    let said = place.run(["serve", "--config", missing.to_str().unwrap()]);
    assert!(said.err.contains("none.toml"), "{}", said.err);
}

/// Returns the status line and the body of a page.
fn page(address: &str, path: &str) -> (String, String) {
    let host = address.strip_prefix("http://").unwrap();
    let mut socket = TcpStream::connect(host).unwrap();
    write!(
        socket,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[test]
fn a_server_takes_its_settings_from_a_file_and_reads_them_again() {
    let place = Place::new();
    let users = place.file("users", "user default on >one ~* +@all\n");
    let text = |level: &str, clients: u32| {
        let users = users.display();
        format!(
            "users = \"{users}\"\nlog-level = \"{level}\"\nlog-format = \"json\"\nmax-clients = {clients}\n"
        )
    };
    let file = place.file("a.toml", text("notice", 33));
    let served = Served::new(&place, &["--config", file.to_str().unwrap()]);
    let setting = |password: &str, name: &str, value: &str| {
        let expected = format!(
            "+OK\r\n*2\r\n${}\r\n{name}\r\n${}\r\n{value}\r\n",
            name.len(),
            value.len()
        );
        asked(
            &served.redis,
            &format!("AUTH {password}\r\nCONFIG GET {name}\r\n"),
            &expected,
        );
    };
    setting("one", "maxclients", "33");
    setting("one", "loglevel", "notice");

    let web = served.web.as_deref().unwrap();
    assert_eq!(
        page(web, "/healthz"),
        ("HTTP/1.1 200 OK".to_owned(), "ok".to_owned())
    );
    assert_eq!(
        page(web, "/readyz"),
        ("HTTP/1.1 200 OK".to_owned(), "ready".to_owned())
    );
    assert_eq!(page(web, "/metrics").0, "HTTP/1.1 401 Unauthorized");

    place.file("users", "user default on >two ~* +@all\n");
    place.file("a.toml", text("debug", 44));
    let pid = i32::try_from(served.child.id()).unwrap();
    // SAFETY: it is our own child, which has not been waited for.
    unsafe { libc::kill(pid, libc::SIGHUP) };
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let mut socket = TcpStream::connect(&served.redis).unwrap();
        socket.write_all(b"AUTH two\r\n").unwrap();
        let mut answer = [0; 5];
        socket.read_exact(&mut answer).unwrap();
        if &answer == b"+OK\r\n" {
            break;
        }
        assert!(Instant::now() < deadline, "the new password is not accepted");
        std::thread::sleep(Duration::from_millis(50));
    }
    setting("two", "loglevel", "debug");
    // That needs a restart.
    setting("two", "maxclients", "33");
    // A file with a mistake changes nothing, and the server goes on.
    place.file("users", "user default on what\n");
    // SAFETY: as above.
    unsafe { libc::kill(pid, libc::SIGHUP) };
    std::thread::sleep(Duration::from_millis(200));
    setting("two", "loglevel", "debug");
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
}
