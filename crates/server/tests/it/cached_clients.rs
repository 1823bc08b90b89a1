//! Clients of a cache that do not read replies or that disconnect in the middle of a request.

use crate::cached::start;
use crate::client::options;
use alluvium_server::{CacheMemory, CacheServer, ServerLimits, ServerOptions};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Length of a long value in bytes.
const LONG: usize = 1_000_000;

const CLIENT_MEMORY: usize = 8 << 20;

fn with_little_memory_for_clients() -> CacheServer {
    let options = ServerOptions {
        limits: ServerLimits {
            memory: Some(CLIENT_MEMORY),
            ..ServerLimits::default()
        },
        ..options()
    };
    CacheServer::start(CacheMemory::new(64 << 20), options).unwrap()
}

fn connect(address: Option<SocketAddr>) -> TcpStream {
    let socket = TcpStream::connect(address.unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

fn ask(socket: &mut TcpStream, request: &[u8], reply: &[u8]) {
    socket.write_all(request).unwrap();
    let mut found = vec![0; reply.len()];
    socket.read_exact(&mut found).unwrap();
    assert_eq!(found.escape_ascii().to_string(), reply.escape_ascii().to_string());
}

/// Stores a long value under the key g and a short one under s.
fn store(cache: &CacheServer) {
    let mut socket = connect(cache.memcached_addr());
    let set = [
        format!("set g 0 0 {LONG}\r\n").into_bytes(),
        vec![7; LONG],
        b"\r\n".to_vec(),
    ]
    .concat();
    ask(&mut socket, &set, b"STORED\r\n");
    ask(&mut socket, b"set s 0 0 1\r\n1\r\n", b"STORED\r\n");
}

/// The replies that contain the long value, in the Redis and memcached protocols.
fn replies() -> [Vec<u8>; 2] {
    let value = vec![7; LONG];
    [
        [format!("${LONG}\r\n").as_bytes(), &value, b"\r\n"].concat(),
        [format!("VALUE g 0 {LONG}\r\n").as_bytes(), &value, b"\r\nEND\r\n"].concat(),
    ]
}

/// Returns the reported total memory of all clients in bytes.
fn held(cache: &CacheServer) -> u64 {
    let mut socket = connect(cache.redis_addr());
    socket.write_all(b"INFO memory\r\nQUIT\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("mem_clients_normal:"));
    line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

#[test]
fn readers_that_do_not_read_leave_memory_for_others() {
    let cache = with_little_memory_for_clients();
    store(&cache);
    let mut silent = Vec::new();
    for _ in 0..30 {
        for address in [cache.redis_addr(), cache.memcached_addr()] {
            let mut socket = connect(address);
            socket.write_all(&b"get g\r\n".repeat(500)).unwrap();
            silent.push(socket);
        }
    }
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        // Each loop may exceed the limit by one reply.
        let held = held(&cache);
        assert!(held < CLIENT_MEMORY as u64 + (8 << 20), "{held} bytes");
        let mut redis = connect(cache.redis_addr());
        ask(&mut redis, b"GET s\r\n", b"$1\r\n1\r\n");
        let mut memcached = connect(cache.memcached_addr());
        ask(&mut memcached, b"get s\r\n", b"VALUE s 0 1\r\n1\r\nEND\r\n");
    }
    drop(silent);
    let began = Instant::now();
    while cache.connections() > 0 {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{} are left",
            cache.connections()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_pipeline_of_long_replies_is_answered_in_order() {
    const REQUESTS: usize = 70;
    let cache = with_little_memory_for_clients();
    store(&cache);
    let shorts: [&[u8]; 2] = [b"$1\r\n1\r\n", b"VALUE s 0 1\r\n1\r\nEND\r\n"];
    let addresses = [cache.redis_addr(), cache.memcached_addr()];
    for ((address, long), short) in addresses.into_iter().zip(replies()).zip(shorts) {
        let mut socket = connect(address);
        socket
            .write_all(&b"get g\r\nget s\r\nget s\r\n".repeat(REQUESTS))
            .unwrap();
        let expected = [&long[..], short, short].concat();
        let mut found = vec![0; expected.len()];
        for request in 0..REQUESTS {
            socket.read_exact(&mut found).unwrap();
            assert!(found == expected, "request {request}");
        }
        ask(&mut socket, b"get s\r\n", short);
    }
}

#[test]
fn clients_that_end_with_their_last_bytes_are_let_go() {
    let cache = start(16 << 20);
    let beginnings: [(Option<SocketAddr>, &[u8]); 2] = [
        (cache.redis_addr(), b"*2\r\n$3\r\nget\r\n$"),
        (cache.memcached_addr(), b"get a"),
    ];
    for (address, beginning) in beginnings {
        let mut all: Vec<TcpStream> = (0..300).map(|_| connect(address)).collect();
        for socket in &mut all {
            socket.write_all(beginning).unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
        }
        let began = Instant::now();
        while cache.connections() > 0 {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "{} are left",
                cache.connections()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn who_sends_nothing_more_is_still_answered() {
    let cache = start(32 << 20);
    store(&cache);
    for (address, reply) in [cache.redis_addr(), cache.memcached_addr()]
        .into_iter()
        .zip(replies())
    {
        let mut socket = connect(address);
        socket.write_all(&b"get g\r\n".repeat(5)).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let mut found = Vec::new();
        socket.read_to_end(&mut found).unwrap();
        assert!(found == reply.repeat(5), "{} bytes", found.len());
    }
}
