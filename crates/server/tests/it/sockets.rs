//! Tests the Unix domain sockets.

use crate::client::{Fixture, any_port, options};
use alluvium_server::{Error, Server, ServerOptions};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

#[track_caller]
fn asked(socket: &mut UnixStream, request: &str, expected: &str) {
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut reply = vec![0; expected.len()];
    socket.read_exact(&mut reply).unwrap();
    assert_eq!(String::from_utf8_lossy(&reply), expected);
}

fn at(place: &Path) -> ServerOptions {
    ServerOptions {
        redis: None,
        memcached: None,
        redis_socket: Some(place.join("redis.sock")),
        memcached_socket: Some(place.join("memcached.sock")),
        loops: Some(1),
        ..ServerOptions::default()
    }
}

#[test]
fn both_protocols_are_spoken_at_sockets_that_are_removed_at_the_end() {
    let place = tempfile::tempdir().unwrap();
    let fixture = Fixture::with(ServerOptions {
        socket_mode: 0o666,
        redis: any_port(),
        ..at(place.path())
    });
    let (redis, memcached) = (
        place.path().join("redis.sock"),
        place.path().join("memcached.sock"),
    );
    let mut client = UnixStream::connect(&redis).unwrap();
    asked(&mut client, "SET a 1\r\nGET a\r\n", "+OK\r\n$1\r\n1\r\n");
    let large = "x".repeat(1 << 20);
    let set = format!("SET b {large}\r\n");
    asked(
        &mut client,
        &format!("*3\r\n$3\r\nSET\r\n$1\r\nb\r\n${}\r\n{large}\r\n", large.len()),
        "+OK\r\n",
    );
    assert!(set.len() > large.len());
    asked(&mut client, "STRLEN b\r\n", ":1048576\r\n");
    asked(
        &mut UnixStream::connect(&memcached).unwrap(),
        "set a 0 0 1\r\n1\r\n",
        "STORED\r\n",
    );
    let list = fixture.client().ask("CLIENT LIST");
    let shown = format!("addr={0}:0 laddr={0}:0", redis.display());
    assert!(
        list.contains(&shown) && list.contains("flags=U") && list.contains("flags=N"),
        "{list}"
    );
    drop(fixture);
    assert!(!redis.exists() && !memcached.exists());
}

#[test]
fn a_socket_of_a_server_that_runs_is_left_to_it() {
    let place = tempfile::tempdir().unwrap();
    let fixture = Fixture::with(at(place.path()));
    let error = Server::start(&fixture.db, at(place.path())).unwrap_err();
    let Error::Socket { path, cause } = &error else {
        panic!("{error}")
    };
    assert_eq!(path, &place.path().join("redis.sock"));
    assert_eq!(cause.kind(), std::io::ErrorKind::AddrInUse);
    asked(&mut UnixStream::connect(path).unwrap(), "PING\r\n", "+PONG\r\n");
}

#[test]
fn a_password_is_asked_for_at_sockets_too() {
    let place = tempfile::tempdir().unwrap();
    let _fixture = Fixture::with(ServerOptions {
        password: Some("secret".to_owned()),
        ..at(place.path())
    });
    let mut client = UnixStream::connect(place.path().join("redis.sock")).unwrap();
    asked(&mut client, "GET a\r\n", "-NOAUTH Authentication required.\r\n");
    asked(&mut client, "AUTH secret\r\nGET a\r\n", "+OK\r\n$-1\r\n");
    assert_eq!(options().socket_mode, 0o600);
}
