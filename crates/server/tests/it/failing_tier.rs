//! A second tier that cannot be read. Commands that need it must fail, and neighbouring commands
//! must succeed.

use crate::client::{Client, Hashed, options, request};
use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Db, Options};
use alluvium_device::DeviceOperation;
use alluvium_device::simulated::{InjectedFault, SimDirectory};
use alluvium_server::Server;
use alluvium_storage::TierDirectories;
use std::sync::Arc;

const KEYS: usize = 3000;

fn directories(machines: &[SimDirectory; 2]) -> TierDirectories {
    let [first, second] = machines.each_ref().map(|machine| Arc::new(machine.reopen()));
    TierDirectories::from(first).and(second)
}

/// Creates a store whose keys are all on its second tier and not cached.
fn filled(machines: &[SimDirectory; 2]) -> Db {
    // Make compactions write all output to the second tier.
    let of = || Options::new().memory(64 << 20).fast_bytes(0);
    let db = of().create_in(directories(machines)).unwrap();
    let server = Server::start(&db, options()).unwrap();
    let mut client = Client::connect(server.redis_addr().unwrap());
    for number in 0..KEYS {
        client.send(&[b"SET", format!("cold:{number}").as_bytes(), &[7; 1000]]);
        assert_eq!(client.reply(), "OK");
    }
    let mut cache = Client::connect(server.memcached_addr().unwrap());
    for number in 0..KEYS {
        let value = "v".repeat(1000);
        cache.send_bytes(format!("set cold:{number} 0 0 1000\r\n{value}\r\n").as_bytes());
        assert_eq!(line(&mut cache), "STORED");
    }
    server.stop();
    server.join().unwrap();
    db.compact().unwrap();
    assert!(db.stats().tiers[1].space.live_bytes > 1 << 20);
    db.close().unwrap();
    of().open_existing_in(directories(machines)).unwrap()
}

/// Returns the server's next line, without its line end.
fn line(client: &mut Client) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte);
        line.extend(byte);
    }
    String::from_utf8(line).unwrap().trim_end().to_owned()
}

fn neighbours_have_their_replies() {
    let machines = [1, 2].map(SimDirectory::new);
    let db = filled(&machines);
    let server = Server::start(&db, options()).unwrap();
    let mut client = Client::connect(server.redis_addr().unwrap());
    for set in ["SET new 1", "SET count 5", "SET word ab"] {
        assert_eq!(client.ask(set), "OK");
    }
    let mut cache = Client::connect(server.memcached_addr().unwrap());
    cache.send_bytes(b"set new 0 0 1\r\n1\r\n");
    assert_eq!(line(&mut cache), "STORED");
    machines[1].inject(InjectedFault::failing(DeviceOperation::Read).sticky());
    // The server may have read and cached some keys when it started.
    let fails = "-ERR tier 1 in ";
    let names = (0..KEYS).map(|number| format!("cold:{number}"));
    let mut cold = names.filter(|name| client.ask(&format!("GET {name}")).starts_with(fails));
    let (one, other) = (cold.next().unwrap(), cold.next().unwrap());
    let commands: [&[&[u8]]; 9] = [
        &[b"GET", b"new"],
        &[b"INCR", b"count"],
        &[b"GET", one.as_bytes()],
        &[b"APPEND", b"word", b"cd"],
        &[b"LPUSH", b"new", b"x"],
        &[b"APPEND", other.as_bytes(), b"x"],
        &[b"SET", b"blind", b"2"],
        &[b"MGET", b"count", b"word"],
        &[b"GET", b"blind"],
    ];
    let wanted = [
        "\"1\"",
        ":6",
        fails,
        ":4",
        "-WRONGTYPE",
        fails,
        "OK",
        "[\"6\" \"abcd\"]",
        "\"2\"",
    ];
    client.send_bytes(&commands.map(request).concat());
    for (command, wanted) in commands.iter().zip(wanted) {
        let reply = client.reply();
        assert!(
            reply.starts_with(wanted),
            "{:?}: {reply}",
            command[0].escape_ascii()
        );
    }
    // Later commands run in batches again, and each change must have been applied exactly once.
    assert_eq!(client.ask("MGET count word blind"), "[\"6\" \"abcd\" \"2\"]");
    let mut is_cold = |name: &String| {
        cache.send_bytes(format!("get {name}\r\n").as_bytes());
        let fails = line(&mut cache).starts_with("SERVER_ERROR tier 1 in ");
        assert!(fails || line(&mut cache).len() == 1000 && line(&mut cache) == "END");
        fails
    };
    let mut names = (0..KEYS).map(|number| format!("cold:{number}"));
    let item = names.find(|name| is_cold(name)).unwrap();
    let gets = ["new", &item, "new"].map(|key| format!("get {key}\r\n")).concat();
    cache.send_bytes(gets.as_bytes());
    let lines: Vec<String> = (0..7).map(|_| line(&mut cache)).collect();
    assert_eq!(lines[..3], ["VALUE new 0 1", "1", "END"]);
    assert!(lines[3].starts_with("SERVER_ERROR tier 1 in "), "{lines:?}");
    assert_eq!(lines[4..], ["VALUE new 0 1", "1", "END"]);
    // Once the tier works again, all keys can be read.
    machines[1].clear_faults();
    client.send_bytes(&commands.map(request)[2]);
    assert!(client.reply().starts_with("\"\\x07"));
    server.stop();
    server.join().unwrap();
}

#[test]
fn of_a_pipeline_only_the_commands_fail_that_need_what_cannot_be_read() {
    neighbours_have_their_replies();
}

#[test]
fn the_same_holds_for_hashed_keys() {
    let _layout = Hashed::begin();
    neighbours_have_their_replies();
}
