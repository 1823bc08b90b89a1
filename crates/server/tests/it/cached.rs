//! Tests the replies, evictions and refusals of a server in cache mode.

use crate::client::{Client, options};
use alluvium_server::{CacheMemory, CacheServer, Error, ServerLimits, ServerOptions};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Starts a cache of this size with two event loops.
pub(crate) fn start(bytes: u64) -> CacheServer {
    CacheServer::start(CacheMemory::new(bytes), options()).unwrap()
}

fn redis(cache: &CacheServer) -> Client {
    Client::connect(cache.redis_addr().unwrap())
}

/// A connection with the memcached protocol.
struct Memcached(BufReader<TcpStream>);

impl Memcached {
    fn connect(cache: &CacheServer) -> Memcached {
        let socket = TcpStream::connect(cache.memcached_addr().unwrap()).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Memcached(BufReader::new(socket))
    }

    /// Sends requests and returns all reply lines up to the end marker.
    fn ask(&mut self, requests: &str) -> String {
        let socket = self.0.get_mut();
        socket.write_all(format!("{requests}mn\r\n").as_bytes()).unwrap();
        let mut text = String::new();
        while !text.ends_with("MN\r\n") {
            assert!(self.0.read_line(&mut text).unwrap() > 0, "{requests:?}: {text:?}");
        }
        text.truncate(text.len() - "MN\r\n".len());
        text
    }
}

/// Returns a numeric field from memcached statistics or INFO.
fn number(text: &str, name: &str) -> u64 {
    let text = text.replace("\\r\\n", "\n");
    let mut lines = text.lines();
    let line = lines.find(|line| line.strip_prefix("STAT ").unwrap_or(line).starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
    line.rsplit([' ', ':']).next().unwrap().parse().unwrap()
}

#[test]
fn both_protocols_see_the_same_items() {
    let cache = start(16 << 20);
    let (mut redis, mut memcached) = (redis(&cache), Memcached::connect(&cache));
    assert_eq!(redis.ask("SET river Rhine"), "OK");
    assert_eq!(
        memcached.ask("get river\r\n"),
        "VALUE river 0 5\r\nRhine\r\nEND\r\n"
    );
    assert_eq!(memcached.ask("set lake 7 0 9\r\nConstance\r\n"), "STORED\r\n");
    assert_eq!(redis.ask("GET lake"), "\"Constance\"");
    assert_eq!(redis.ask("DBSIZE"), ":2");
    // CAS must detect writes through the other protocol.
    let gets = memcached.ask("gets lake\r\n");
    let cas: u64 = gets.split([' ', '\r']).nth(4).unwrap().parse().unwrap();
    assert_eq!(redis.ask("SET lake Como"), "OK");
    assert_eq!(
        memcached.ask(&format!("cas lake 0 0 1 {cas}\r\nx\r\n")),
        "EXISTS\r\n"
    );
    assert_eq!(redis.ask("EXPIRE lake 100"), ":1");
    assert_eq!(memcached.ask("mg lake t v\r\n"), "VA 4 t100\r\nComo\r\n");
    assert_eq!(redis.ask("FLUSHALL"), "OK");
    assert_eq!(memcached.ask("get river\r\nget lake\r\n"), "END\r\nEND\r\n");
}

#[test]
fn a_pipeline_of_gets_and_sets_is_answered_in_order() {
    let cache = start(16 << 20);
    let mut memcached = Memcached::connect(&cache);
    let mut random = fastrand::Rng::with_seed(5);
    let mut model: HashMap<u8, u32> = HashMap::new();
    for _ in 0..200 {
        let (mut requests, mut expected) = (String::new(), String::new());
        for _ in 0..random.usize(1..150) {
            let key = random.u8(..20);
            if random.bool() {
                let value = random.u32(..);
                model.insert(key, value);
                let length = value.to_string().len();
                requests += &format!("set k{key} {key} 0 {length}\r\n{value}\r\n");
                expected += "STORED\r\n";
            } else {
                requests += &format!("get k{key}\r\n");
                if let Some(value) = model.get(&key) {
                    let length = value.to_string().len();
                    expected += &format!("VALUE k{key} {key} {length}\r\n{value}\r\n");
                }
                expected += "END\r\n";
            }
        }
        assert_eq!(memcached.ask(&requests), expected);
    }
    let stats = memcached.ask("stats\r\n");
    let (gets, hits) = (number(&stats, "cmd_get"), number(&stats, "get_hits"));
    assert_eq!(number(&stats, "get_misses"), gets - hits);
    assert_eq!(number(&stats, "curr_items"), model.len() as u64);
    assert!(
        number(&stats, "bytes ") > 0 && number(&stats, "evictions") == 0,
        "{stats}"
    );
}

#[test]
fn more_than_fits_is_evicted_and_what_is_left_is_right() {
    let cache = start(1 << 20);
    let mut client = redis(&cache);
    for key in 0..20_000_u32 {
        assert_eq!(
            client.ask(&format!("SET key{key} value-of-{key}-{key:050}")),
            "OK"
        );
    }
    let mut left = 0;
    for key in 0..20_000_u32 {
        let found = client.ask(&format!("GET key{key}"));
        if found != "nil" {
            assert_eq!(found, format!("\"value-of-{key}-{key:050}\""));
            left += 1;
        }
    }
    assert!((2_000..15_000).contains(&left), "{left} items are left");
    let info = client.ask("INFO");
    assert_eq!(number(&info, "evicted_keys") + left, 20_000, "{info}");
    assert_eq!(client.ask("DBSIZE"), format!(":{left}"));
    assert!(number(&info, "used_memory:") <= 1 << 20);
    assert_eq!(number(&info, "keyspace_hits"), left);
}

#[test]
fn a_set_that_is_too_large_deletes_what_it_would_have_replaced() {
    let cache = start(64 << 20);
    let mut client = Memcached::connect(&cache);
    let refused = "SERVER_ERROR object too large for cache\r\n";
    let long = "x".repeat(1 << 20);
    for (request, is_left) in [
        (format!("set c 0 0 1048576\r\n{long}\r\n"), false),
        (format!("replace c 0 0 1048576\r\n{long}\r\n"), true),
        (format!("ms c 1048576\r\n{long}\r\n"), false),
        (format!("ms Yw== 1048576 b\r\n{long}\r\n"), false),
    ] {
        assert_eq!(client.ask("set c 0 0 1\r\ny\r\n"), "STORED\r\n");
        assert_eq!(client.ask(&request), refused);
        let left = if is_left {
            "VALUE c 0 1\r\ny\r\nEND\r\n"
        } else {
            "END\r\n"
        };
        assert_eq!(client.ask("get c\r\n"), left, "{}", &request[..20]);
    }
    let quiet = format!("set c 0 0 1048576 noreply\r\n{long}\r\n");
    assert_eq!(client.ask(&quiet), "", "who wants no reply gets none");
}

#[test]
fn several_connections_add_to_one_number_and_none_is_lost() {
    let cache = start(16 << 20);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                if thread % 2 == 0 {
                    let mut client = redis(cache);
                    assert_eq!(client.ask("SETNX shared 0").len(), 2);
                    (0..500).for_each(|_| assert!(client.ask("INCR shared").starts_with(':')));
                } else {
                    let mut memcached = Memcached::connect(cache);
                    memcached.ask("add shared 0 0 1\r\n0\r\n");
                    (0..500).for_each(|_| assert!(!memcached.ask("incr shared 1\r\n").contains("ERROR")));
                }
            });
        }
    });
    assert_eq!(redis(&cache).ask("GET shared"), "\"2000\"");
}

#[test]
fn commands_that_a_cache_does_not_have_are_refused_by_the_name_of_the_mode() {
    let cache = start(4 << 20);
    let mut client = redis(&cache);
    for command in [
        "HSET h f v",
        "LPUSH l v",
        "MULTI",
        "SAVE",
        "NOSUCH",
        "SUBSCRIBE c",
    ] {
        let said = client.ask(command);
        assert!(
            said.starts_with("-ERR unknown command") && said.contains("in cache mode"),
            "{said}"
        );
    }
    assert!(client.ask("SELECT 1").contains("cache mode"));
    assert_eq!(client.ask("SELECT 0"), "OK");
    assert!(
        Memcached::connect(&cache)
            .ask("lru_crawler enable\r\n")
            .contains("cache mode")
    );
    assert!(
        client
            .ask(&format!("SET {} v", "k".repeat(2000)))
            .contains("too long")
    );
    let long = "v".repeat(2 << 20);
    assert!(
        client
            .ask(&format!("MSET a 1 b {long}"))
            .contains("maximum allowed size")
    );
    assert_eq!(client.ask("EXISTS a b"), ":0", "nothing of what failed is stored");
    assert!(client.ask("APPEND a x").starts_with(':'));
    let listed = client.ask("COMMAND LIST");
    assert!(listed.contains("getex") && !listed.contains("hset"), "{listed}");
    assert!(client.ask("CONFIG GET maxmemory*").contains("s3-fifo"));
    assert!(client.ask("INFO server").contains("alluvium_mode:cache"));
}

#[test]
fn time_lets_items_expire_and_flushes_when_it_is_due() {
    let cache = start(4 << 20);
    let (mut redis, mut memcached) = (redis(&cache), Memcached::connect(&cache));
    assert_eq!(redis.ask("SET soon 1 PX 20"), "OK");
    assert_eq!(redis.ask("SET later 1 PX 100000"), "OK");
    assert_eq!(
        memcached.ask("set past 0 -1 1\r\nx\r\nget past\r\n"),
        "STORED\r\nEND\r\n"
    );
    std::thread::sleep(Duration::from_millis(40));
    assert_eq!(redis.ask("EXISTS soon later past"), ":1");
    assert_eq!(redis.ask("DEL soon"), ":0");
    assert_eq!(
        memcached.ask("flush_all 1\r\nget later\r\n"),
        "OK\r\nVALUE later 0 1\r\n1\r\nEND\r\n"
    );
    std::thread::sleep(Duration::from_millis(1_050));
    assert_eq!(memcached.ask("get later\r\n"), "END\r\n");
}

#[test]
fn a_password_is_asked_for_in_both_protocols() {
    let options = ServerOptions {
        password: Some("secret".to_owned()),
        ..options()
    };
    let cache = CacheServer::start(CacheMemory::new(4 << 20), options).unwrap();
    let mut client = redis(&cache);
    assert!(client.ask("GET a").starts_with("-NOAUTH"));
    assert!(client.ask("AUTH wrong").starts_with("-WRONGPASS"));
    assert_eq!(client.ask("AUTH secret"), "OK");
    assert_eq!(client.ask("GET a"), "nil");
    let mut memcached = Memcached::connect(&cache);
    assert_eq!(memcached.ask_one("get a\r\n"), "CLIENT_ERROR unauthenticated\r\n");
    assert_eq!(
        memcached.ask_one("set x 0 0 13\r\ndefault wrong\r\n"),
        "CLIENT_ERROR authentication failure\r\n"
    );
    assert_eq!(
        memcached.ask_one("set x 0 0 14\r\ndefault secret\r\n"),
        "STORED\r\n"
    );
    assert_eq!(memcached.ask("get x\r\n"), "END\r\n");
}

impl Memcached {
    /// Sends a request and returns one line.
    fn ask_one(&mut self, request: &str) -> String {
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }
}

#[test]
fn what_was_received_is_answered_before_the_server_ends() {
    let cache = start(4 << 20);
    let mut socket = TcpStream::connect(cache.redis_addr().unwrap()).unwrap();
    let requests = "SET a 1\r\n".repeat(1000) + "GET a\r\n";
    socket.write_all(requests.as_bytes()).unwrap();
    let mut first = [0; 5];
    socket.read_exact(&mut first).unwrap();
    cache.stop();
    cache.join();
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"$1\r\n1\r\n"), "{} bytes", rest.len());
    assert_eq!(rest.len() + first.len(), 1000 * 5 + 7);
}

#[test]
fn many_long_items_asked_for_at_once_are_all_answered() {
    let cache = start(256 << 20);
    let mut memcached = Memcached::connect(&cache);
    let value = "v".repeat(1_000_000);
    for key in 0..20 {
        let request = format!("set k{key} 0 0 {}\r\n{value}\r\n", value.len());
        assert_eq!(memcached.ask(&request), "STORED\r\n");
    }
    let requests: String = (0..20).map(|key| format!("get k{key}\r\n")).collect();
    let found = memcached.ask(&requests);
    assert_eq!(found.matches(&value).count(), 20);
    assert_eq!(
        memcached.ask(&format!("set k0 0 0 {}\r\n{value}{value}\r\n", 2 * value.len())),
        "SERVER_ERROR object too large for cache\r\n"
    );
}

#[test]
fn what_cannot_be_had_or_is_for_stores_is_refused_at_the_start() {
    let refused = |bytes, options| match CacheServer::start(CacheMemory::new(bytes), options) {
        Err(Error::Cache { why }) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(1 << 60, options()).contains("choose a smaller cache"));
    assert!(refused(1000, options()).contains("too few"));
    let web = ServerOptions {
        web: options().redis,
        ..options()
    };
    assert!(refused(4 << 20, web).contains("web page"));
    let limits = ServerLimits {
        connections: 1,
        ..ServerLimits::default()
    };
    let one = ServerOptions { limits, ..options() };
    let cache = CacheServer::start(CacheMemory::new(4 << 20), one).unwrap();
    let mut first = redis(&cache);
    assert_eq!(first.ask("PING"), "PONG");
    let mut second = redis(&cache);
    assert!(second.ask("PING").contains("max number of clients"));
}
