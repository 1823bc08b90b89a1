//! Data that survives a restart of the server and of the store.

use crate::client::{Client, Fixture, options};
use alluvium::{Durability, Options};
use alluvium_server::Server;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
pub(crate) fn values_and_expiries_survive_a_restart() {
    let Fixture { server, db, place } = Fixture::new();
    let mut client = Client::connect(server.redis_addr().unwrap());
    client.script(
        r#"
        SET a 1 => OK
        SET t 1 EX 1000 => OK
        SET gone 1 PX 1 => OK
        RPUSH l a b c => :3
        EXPIRE l 1000 => :1
        HSET h a 1 => :1
        PEXPIRE h 1 => :1
        ZADD z 1.5 a => :1
        "#,
    );
    server.stop();
    server.join().unwrap();
    drop(server);
    db.close().unwrap();
    std::thread::sleep(Duration::from_millis(5));
    let db = Options::new()
        .memory(64 << 20)
        .open(place.path().join("store"))
        .unwrap();
    let server = Server::start(&db, options()).unwrap();
    let mut client = Client::connect(server.redis_addr().unwrap());
    client.script(
        r#"
        GET a => "1"
        GET gone => nil
        LRANGE l 0 -1 => ["a" "b" "c"]
        HGETALL h => []
        ZSCORE z a => "1.5"
        RPUSH new x => :1
        LRANGE l 0 -1 => ["a" "b" "c"]
        SET l x => OK
        GET l => "x"
        "#,
    );
    let ttl: i64 = client.ask("TTL t")[1..].parse().unwrap();
    assert!((990..=1000).contains(&ttl), "{ttl}");
}

#[test]
fn writes_are_refused_soon_after_the_directory_was_removed() {
    let Fixture { server, db, place } = Fixture::new();
    let mut client = Client::connect(server.redis_addr().unwrap());
    client.script("SET a 1 => OK");
    let until = Instant::now() + Duration::from_secs(30);
    // The store may create a file while the others are being removed.
    let remove = || Command::new("rm").arg("-rf").arg(place.path()).status();
    while !remove().unwrap().success() {
        assert!(Instant::now() < until, "the directory is not removed");
    }
    let refused = loop {
        let reply = client.ask("SET a 2");
        if reply != "OK" {
            break reply;
        }
        assert!(Instant::now() < until, "writes are acknowledged into nothing");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(refused.starts_with("-ERR "), "{refused}");
    // Cached data can still be read.
    assert!(client.ask("GET a").starts_with('"'));
    server.stop();
    // The server cannot record its shutdown.
    assert!(server.join().is_err());
    drop((server, db));
}

#[test]
fn replies_of_a_durable_store_come_after_the_sync() {
    let place = tempfile::tempdir().unwrap();
    let db = Options::new()
        .memory(64 << 20)
        .durability(Durability::Disk)
        .open(place.path().join("store"))
        .unwrap();
    let server = Server::start(&db, options()).unwrap();
    let mut client = Client::connect(server.redis_addr().unwrap());
    for index in 0..20 {
        assert_eq!(client.ask(&format!("SET k{index} v")), "OK");
        assert_eq!(client.ask(&format!("GET k{index}")), "\"v\"");
    }
    client.send_bytes(&b"INCR n\r\nGET n\r\n".repeat(100));
    for index in 1..=100 {
        assert_eq!(client.reply(), format!(":{index}"));
        assert_eq!(client.reply(), format!("\"{index}\""));
    }
}

#[test]
fn a_server_that_stops_executes_what_it_has_received() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script("PING => PONG");
    client.send_bytes(&b"INCR n\r\n".repeat(5000));
    std::thread::sleep(Duration::from_millis(50));
    let began = Instant::now();
    fixture.server.stop();
    fixture.server.join().unwrap();
    assert!(began.elapsed() < Duration::from_secs(4));
    let mut last = String::new();
    while let Some(reply) = client.try_reply() {
        last = reply;
    }
    assert_eq!(last, ":5000");
    assert!(std::net::TcpStream::connect(fixture.server.redis_addr().unwrap()).is_err());
}
