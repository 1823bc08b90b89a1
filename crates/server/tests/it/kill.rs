//! Kills the server repeatedly while clients write. Every acknowledged write must survive.
//!
//! `ALLUVIUM_KILLS` sets the number of kills, and `ALLUVIUM_KILL_SEED` seeds their times. The
//! killed server is another process of this test program, running a test that otherwise does
//! nothing.

use crate::client::{Client, KEPT, layout, options, request};
use alluvium::{Db, Options};
use alluvium_server::{KeyLayout, Server};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Environment variable that tells the killed process its store directory.
const PLACE: &str = "ALLUVIUM_KILLED_STORE";

const CLIENTS: usize = 6;
const KEYS: u64 = 300;
const PIPELINE: u64 = 16;

/// The process that the other test kills. Does nothing unless the environment variable is set.
#[test]
fn a_server_until_it_is_killed() {
    let Ok(place) = std::env::var(PLACE) else {
        return;
    };
    let db: Db = Options::new().memory(64 << 20).open(place).unwrap();
    let server = Server::start(&db, options()).unwrap();
    println!("\nlistening at {}", server.redis_addr().unwrap());
    server.join().unwrap();
}

/// A server in a separate process.
pub(crate) struct Killed {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Killed {
    pub(crate) fn start(place: &Path) -> Killed {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["kill::a_server_until_it_is_killed", "--exact", "--nocapture"])
            .env(PLACE, place)
            .env(
                KEPT,
                match layout() {
                    KeyLayout::Hashed => "hashed",
                    KeyLayout::AsStored => "",
                },
            )
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = |line: std::io::Result<String>| {
            let line = line.unwrap();
            Some(line.strip_prefix("listening at ")?.parse().unwrap())
        };
        let address = lines.into_iter().find_map(said);
        let address = address.expect("the server says where it listens");
        Killed { child, address }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What one client has sent and what was acknowledged: the number of the last SET for each key, and
/// the values of the counter.
#[derive(Clone)]
struct Promises {
    sent: Vec<u64>,
    acknowledged: Vec<u64>,
    next: u64,
    counted: u64,
    may_be_counted: u64,
}

/// Writes in pipelines until the server is gone.
fn write(address: SocketAddr, name: usize, promises: &mut Promises) {
    let Some(mut client) = Client::try_connect(address) else {
        return;
    };
    loop {
        let mut bytes = Vec::new();
        let first = promises.next;
        for number in first..first + PIPELINE {
            let key = number % KEYS;
            promises.sent[key as usize] = number;
            let (key, value) = (format!("{name}:{key}"), format!("{number}"));
            bytes.extend_from_slice(&request(&[b"SET", key.as_bytes(), value.as_bytes()]));
        }
        bytes.extend_from_slice(&request(&[b"INCR", format!("{name}:count").as_bytes()]));
        promises.may_be_counted += 1;
        promises.next += PIPELINE;
        if !client.try_send_bytes(&bytes) {
            return;
        }
        for number in first..first + PIPELINE {
            match client.try_reply().as_deref() {
                Some("OK") => promises.acknowledged[(number % KEYS) as usize] = number,
                Some(other) => panic!("{other}"),
                None => return,
            }
        }
        match client.try_reply() {
            Some(reply) => promises.counted = reply[1..].parse().expect("a number"),
            None => return,
        }
    }
}

fn number(reply: &str) -> u64 {
    reply.trim_matches('"').parse().unwrap_or(0)
}

/// Checks that all acknowledged writes exist, and that no others exist than those sent.
fn check(client: &mut Client, name: usize, promises: &mut Promises) {
    for key in 0..KEYS as usize {
        let found = number(&client.ask(&format!("GET {name}:{key}")));
        let (acknowledged, sent) = (promises.acknowledged[key], promises.sent[key]);
        assert!(
            (acknowledged..=sent).contains(&found),
            "{name}:{key} is {found}; {acknowledged} was acknowledged, {sent} was sent"
        );
        promises.acknowledged[key] = found;
        promises.sent[key] = found;
    }
    let counted = number(&client.ask(&format!("GET {name}:count")));
    assert!(
        (promises.counted..=promises.may_be_counted).contains(&counted),
        "{name} has counted to {counted}; {} was acknowledged, {} were sent",
        promises.counted,
        promises.may_be_counted
    );
    (promises.counted, promises.may_be_counted) = (counted, counted);
}

#[test]
pub(crate) fn what_was_acknowledged_survives_the_servers_being_killed() {
    let setting = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let (kills, seed) = (setting("ALLUVIUM_KILLS", 3), setting("ALLUVIUM_KILL_SEED", 1));
    let mut random = fastrand::Rng::with_seed(seed);
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let new = Promises {
        sent: vec![0; KEYS as usize],
        acknowledged: vec![0; KEYS as usize],
        next: KEYS,
        counted: 0,
        may_be_counted: 0,
    };
    let all: Vec<Mutex<Promises>> = (0..CLIENTS).map(|_| Mutex::new(new.clone())).collect();
    for _ in 0..kills {
        let mut server = Killed::start(&store);
        let mut client = Client::connect(server.address);
        for (name, promises) in all.iter().enumerate() {
            check(&mut client, name, &mut promises.lock().unwrap());
        }
        let life = Duration::from_millis(random.u64(5..250));
        std::thread::scope(|scope| {
            for (name, promises) in all.iter().enumerate() {
                let address = server.address;
                scope.spawn(move || write(address, name, &mut promises.lock().unwrap()));
            }
            std::thread::sleep(life);
            server.kill();
        });
    }
    let server = Killed::start(&store);
    let mut client = Client::connect(server.address);
    let mut sets = 0;
    for (name, promises) in all.iter().enumerate() {
        let promises = &mut promises.lock().unwrap();
        check(&mut client, name, promises);
        sets += promises.counted * PIPELINE;
    }
    assert!(sets > 0, "nothing was written between the kills");
    println!("killed {kills} times, about {sets} SETs");
}
