//! The server, from startup to shutdown.

use crate::Place;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running server and its addresses.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) redis: String,
    memcached: String,
    /// Address of the web page. `None` without a page.
    pub(crate) web: Option<String>,
}

impl Served {
    pub(crate) fn new(place: &Place, more: &[&str]) -> Served {
        Served::with(place, more, |_| {})
    }

    /// Starts a server after `change` has modified its command.
    pub(crate) fn with(place: &Place, more: &[&str], change: impl FnOnce(&mut Command)) -> Served {
        let mut arguments = "serve --json --redis 127.0.0.1:0 --memcached 127.0.0.1:0"
            .split(' ')
            .collect::<Vec<_>>();
        if !more.contains(&"--web") && !more.contains(&"--cache") {
            arguments.extend(["--web", "127.0.0.1:0"]);
        }
        arguments.extend(more);
        let mut command = place.command(arguments);
        change(&mut command);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("it is piped"))
            .read_line(&mut line)
            .expect("it says where");
        let places: serde_json::Value = serde_json::from_str(&line).expect("in JSON");
        let text = |name: &str| places[name].as_str().expect("an address").to_owned();
        Served {
            redis: text("redis"),
            memcached: text("memcached"),
            web: places["web"].as_str().map(str::to_owned),
            child,
        }
    }

    /// Sends a signal and returns the exit code.
    pub(crate) fn ended(mut self, signal: i32) -> Option<i32> {
        let pid = i32::try_from(self.child.id()).expect("a process");
        // SAFETY: it is our own child, which has not been waited for.
        unsafe { libc::kill(pid, signal) };
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Served {
    /// Kills the server if a failed test left it running.
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

pub(crate) fn asked(address: &str, request: &str, reply: &str) {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.write_all(request.as_bytes()).unwrap();
    let mut bytes = vec![0; reply.len()];
    socket.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), reply);
}

#[test]
fn what_was_acknowledged_is_there_after_sigterm_and_after_sigkill() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    asked(
        &served.redis,
        "SET Elbe 1094\r\nGET Elbe\r\n",
        "+OK\r\n$4\r\n1094\r\n",
    );
    asked(&served.memcached, "set m 0 0 2\r\nhi\r\n", "STORED\r\n");
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
    let served = Served::new(&place, &["--durability", "disk"]);
    asked(
        &served.redis,
        "GET Elbe\r\nSET Oder 854\r\n",
        "$4\r\n1094\r\n+OK\r\n",
    );
    asked(&served.memcached, "get m\r\n", "VALUE m 0 2\r\nhi\r\nEND\r\n");
    assert_eq!(served.ended(libc::SIGKILL), None);
    let served = Served::new(&place, &[]);
    asked(&served.redis, "GET Oder\r\n", "$3\r\n854\r\n");
    assert_eq!(served.ended(libc::SIGINT), Some(0));
    place.done(["check"]);
}

#[test]
fn a_server_goes_on_when_its_terminal_goes_away() {
    let place = Place::new();
    for arguments in [&[][..], &["--cache", "8M"]] {
        let served = Served::new(&place, arguments);
        asked(&served.redis, "SET Elbe 1094\r\n", "+OK\r\n");
        let pid = i32::try_from(served.child.id()).expect("a process");
        for _ in 0..3 {
            // SAFETY: it is our own child, which has not been waited for.
            unsafe { libc::kill(pid, libc::SIGHUP) };
        }
        std::thread::sleep(Duration::from_millis(300));
        asked(&served.redis, "GET Elbe\r\n", "$4\r\n1094\r\n");
        assert_eq!(served.ended(libc::SIGTERM), Some(0));
    }
}

#[test]
fn a_cache_is_served_without_a_store() {
    let place = Place::new();
    let store = place.path("none");
    let served = Served::with(
        &place,
        &["--cache", "8M", "--datagrams", "127.0.0.1:0"],
        |command| {
            command.env("ALLUVIUM_DB", &store);
        },
    );
    asked(&served.redis, "SET a 1\r\nGET a\r\n", "+OK\r\n$1\r\n1\r\n");
    asked(&served.memcached, "get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n");
    assert!(served.web.is_none());
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
    assert!(!store.exists(), "nothing is written");
    let refused = place.command(["serve", "--cache", "900T"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("--cache") && said.contains("choose a smaller cache"),
        "{said}"
    );
}

#[test]
fn what_a_cache_could_not_use_is_refused_in_flags() {
    let place = Place::new();
    let empty = place.path("empty");
    std::fs::write(&empty, "").unwrap();
    let empty = empty.display().to_string();
    for (arguments, said) in [
        (
            &["--redis", "off", "--memcached", "off"][..],
            "no client could connect",
        ),
        (&["--web", "127.0.0.1:0"], "--web"),
        (&["--tier", "elsewhere"], "--tier"),
        (&["--cache-item", "0"], "--cache-item"),
        (&["--datagrams", "127.0.0.1:65535"], "--datagrams"),
        (&["--datagrams", "0.0.0.0:0"], "--datagram-key-file"),
        (
            &["--datagrams", "127.0.0.1:0", "--datagram-key-file", "/dev/zero"],
            "more than 65536 bytes",
        ),
        (
            &["--datagrams", "127.0.0.1:0", "--datagram-key-file", &empty],
            "first line is empty",
        ),
    ] {
        let mut all = vec!["serve", "--cache", "8M"];
        if !arguments.contains(&"--redis") {
            all.extend(["--redis", "127.0.0.1:0", "--memcached", "127.0.0.1:0"]);
        }
        all.extend(arguments);
        let refused = place.command(&all).output().unwrap();
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        if arguments.contains(&"127.0.0.1:65535") && std::thread::available_parallelism().unwrap().get() == 1
        {
            continue;
        }
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
}

#[test]
fn a_panic_is_told_without_a_backtrace_unless_all_of_it_is_asked_for() {
    for (word, has_backtrace) in [("1", false), ("full", true)] {
        let place = Place::new();
        let mut served = Served::with(&place, &[], |command| {
            command.env("RUST_BACKTRACE", word);
        });
        let mut socket = TcpStream::connect(&served.redis).unwrap();
        socket.write_all(b"DEBUG PANIC\r\n").unwrap();
        // Only this connection ends.
        assert_eq!(socket.read(&mut [0; 100]).unwrap_or(0), 0);
        asked(&served.redis, "PING\r\n", "+PONG\r\n");
        let mut err = served.child.stderr.take().expect("it is piped");
        assert_eq!(served.ended(libc::SIGTERM), Some(0));
        let mut said = String::new();
        err.read_to_string(&mut said).unwrap();
        assert!(
            said.contains("DEBUG PANIC") && said.contains("admin.rs"),
            "{said}"
        );
        assert_eq!(said.contains("stack backtrace"), has_backtrace, "{said}");
    }
}

#[test]
fn a_server_that_strangers_could_reach_does_not_start() {
    let place = Place::new();
    place
        .run([
            "serve",
            "--redis",
            "0.0.0.0:0",
            "--memcached",
            "off",
            "--web",
            "off",
        ])
        .ended(2)
        .complained("password");
    place
        .run(["serve", "--redis", "off", "--memcached", "off", "--web", "off"])
        .ended(2)
        .complained("all off");
    place
        .run([
            "serve",
            "--redis",
            "off",
            "--memcached",
            "off",
            "--web",
            "0.0.0.0:0",
        ])
        .ended(2)
        .complained("password");
    place
        .run(["serve", "--redis", "somewhere"])
        .ended(2)
        .complained("127.0.0.1:6379");
}

#[test]
fn what_clients_may_take_is_said_by_flags() {
    let place = Place::new();
    let flags = "--memory 64M --client-memory 3M --max-clients 77 --client-output-limit 5M --client-timeout 15m --tcp-keepalive 90";
    let served = Served::new(&place, &flags.split(' ').collect::<Vec<_>>());
    for (name, value) in [
        ("maxmemory-clients", "3145728"),
        ("maxclients", "77"),
        (
            "client-output-buffer-limit",
            "normal 5242880 0 0 slave 0 0 0 pubsub 33554432 8388608 60",
        ),
        ("timeout", "900"),
        ("tcp-keepalive", "90"),
    ] {
        let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        let reply = format!("*2\r\n{}{}", bulk(name), bulk(value));
        asked(&served.redis, &format!("CONFIG GET {name}\r\n"), &reply);
    }
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
    for (flags, complaint) in [
        ("--client-memory 512K", "1M or more"),
        ("--memory 64M --client-memory 65M", "a part of"),
        ("--max-clients 0", "--max-clients"),
        ("--client-timeout soon", "--client-timeout"),
        ("--login-timeout soon", "--login-timeout"),
    ] {
        let arguments: Vec<&str> = std::iter::once("serve").chain(flags.split(' ')).collect();
        place.run(arguments).ended(2).complained(complaint);
    }
}

#[test]
fn clients_that_do_not_say_who_they_are_are_closed_after_a_time_that_is_said() {
    let place = Place::new();
    let served = Served::new(&place, &["--password", "secret", "--login-timeout", "300ms"]);
    let connected = || {
        let socket = TcpStream::connect(&served.redis).expect("it listens");
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket
    };
    let (mut known, mut unknown) = (connected(), connected());
    let mut reply = [0; 5];
    known.write_all(b"AUTH secret\r\n").unwrap();
    known.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+OK\r\n");
    assert_eq!(
        unknown.read(&mut reply).unwrap(),
        0,
        "it is closed without a word"
    );
    known.write_all(b"SET a 1\r\n").unwrap();
    known.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+OK\r\n");
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
}

#[test]
fn what_is_being_served_is_read_through_the_server() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..=255).collect();
    place.fed(["put", "bytes", "-"], &bytes).ended(0);
    let long = vec![7; 3 << 20];
    place.fed(["put", "long", "-"], &long).ended(0);
    let rows: String = (0..2500)
        .map(|number| format!("k{number:04},v{number}\n"))
        .collect();
    let rows = place.file("rows.csv", format!("key,value\n{rows}"));
    place.done(["import", rows.to_str().unwrap()]);
    let all = |place: &Place| {
        [
            place.done(["scan"]).out,
            place.done(["scan", "--reverse", "--prefix", "k1", "--json"]).out,
            place
                .done(["scan", "--from", "k1", "--to", "k2", "--keys-only", "-n", "3"])
                .out,
            place.done(["export", "-", "-f", "binary"]).out,
            place.done(["get", "bytes"]).out,
            place.done(["get", "k0001", "long"]).out,
        ]
    };
    let before = all(&place);
    let served = Served::new(&place, &[]);
    assert!(all(&place) == before, "what the server says differs");
    assert_eq!(before[4], bytes);
    place.run(["get", "none"]).ended(1).complained("none");
    place.run(["get", "-k", "none", "a"]).ended(1);
    let stats = place.done(["stats", "--json"]).json();
    assert_eq!(stats["server"]["connections"], 0);
    assert!(stats["memory"]["budget_bytes"].as_u64().unwrap() > 0, "{stats}");
    let page = place
        .done(["stats", "--watch", "-n", "2", "--interval", "0.1"])
        .text();
    assert_eq!(page.matches("throughput").count(), 2, "{page}");
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
    place.done(["stats", "--watch", "-n", "1", "--interval", "0.1"]);
    place
        .run(["stats", "--watch", "--server", "http://127.0.0.1:1"])
        .ended(3);
}
