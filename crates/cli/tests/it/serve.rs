//! The server, from its first word to its last.

use crate::Place;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

/// A server that runs, and where.
struct Served {
    child: Child,
    redis: String,
    memcached: String,
}

impl Served {
    fn new(place: &Place, more: &[&str]) -> Served {
        let arguments = [
            &[
                "serve",
                "--json",
                "--redis",
                "127.0.0.1:0",
                "--memcached",
                "127.0.0.1:0",
                "--web",
                "127.0.0.1:0",
            ],
            more,
        ]
        .concat();
        let mut child = place
            .command(arguments)
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
            child,
        }
    }

    /// It gets a signal; its exit code.
    fn ended(mut self, signal: i32) -> Option<i32> {
        let pid = i32::try_from(self.child.id()).expect("a process");
        // SAFETY: it is our own child, which nobody has waited for yet.
        unsafe { libc::kill(pid, signal) };
        self.child.wait().expect("it ends").code()
    }
}

fn asked(address: &str, request: &str, reply: &str) {
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
    place.run(["get", "a"]).ended(6).complained("open elsewhere");
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
        .ended(3)
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
        .ended(3)
        .complained("password");
    place
        .run(["serve", "--redis", "somewhere"])
        .ended(2)
        .complained("127.0.0.1:6379");
}
