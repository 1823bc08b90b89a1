//! One memory budget covers all connections: requests that exceed it wait or are refused, and the
//! slowest readers are closed first.

use crate::client::{Client, Fixture, request};
use alluvium_device::{heap, machine};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

const MIB: usize = 1 << 20;

/// Returns a numeric field of INFO.
fn info(client: &mut Client, name: &str) -> u64 {
    let text = client.ask("INFO");
    let text = text.replace("\\r\\n", "\n");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name} in {text}"))
        .parse()
        .unwrap()
}

/// Returns a numeric field of CLIENT LIST for each client.
fn listed(client: &mut Client, name: &str) -> Vec<u64> {
    let text = client.ask("CLIENT LIST");
    let prefix = format!("{name}=");
    let words = text.split([' ', '\\']);
    words
        .filter_map(|word| word.strip_prefix(&prefix)?.parse().ok())
        .collect()
}

/// Polls until a condition holds.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never was so: {what}");
}

fn set(client: &mut Client, key: &[u8], length: usize) {
    client.send(&[b"SET", key, &vec![b'v'; length]]);
    assert_eq!(client.reply(), "OK");
}

/// Connects a plain socket to the memcached port.
fn memcached(fixture: &Fixture) -> BufReader<TcpStream> {
    let socket = TcpStream::connect(fixture.server.memcached_addr().unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    BufReader::new(socket)
}

fn line(socket: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    socket.read_line(&mut line).unwrap();
    line
}

#[test]
fn a_pipeline_of_long_replies_is_answered_as_they_are_taken() {
    let fixture = Fixture::bounded(64 * MIB);
    let (mut observer, mut reader) = (fixture.client(), fixture.client());
    set(&mut observer, b"k", MIB);
    reader.send_bytes(&b"GET k\r\n".repeat(200));
    wait_until("the reader owes replies", || {
        listed(&mut observer, "omem").iter().any(|&bytes| bytes > 0)
    });
    for _ in 0..50 {
        let most = listed(&mut observer, "tot-mem").into_iter().max().unwrap();
        assert!(most < 6 * MIB as u64, "{most}");
    }
    for _ in 0..200 {
        assert_eq!(reader.reply().len(), MIB + 2);
    }
    reader.script("PING => PONG");
    wait_until("all of it is given back", || {
        listed(&mut observer, "omem") == [0, 0]
    });
    let mut items = memcached(&fixture);
    let value = vec![b'v'; MIB];
    items
        .get_mut()
        .write_all(&[b"set k 0 0 1048576\r\n", &value[..], b"\r\n"].concat())
        .unwrap();
    assert_eq!(line(&mut items), "STORED\r\n");
    items.get_mut().write_all(&b"get k\r\n".repeat(100)).unwrap();
    for _ in 0..100 {
        assert_eq!(line(&mut items), "VALUE k 0 1048576\r\n");
        let mut rest = vec![0; MIB + 2 + 5];
        items.read_exact(&mut rest).unwrap();
        assert!(rest.ends_with(b"v\r\nEND\r\n"));
    }
}

#[test]
fn the_slowest_readers_are_closed_and_no_others() {
    let fixture = Fixture::bounded(4 * MIB);
    let (mut observer, mut idle) = (fixture.client(), fixture.client());
    let mut spared = fixture.client();
    set(&mut observer, b"k", 700_000);
    // The system's socket buffers hold about the same amount of each reader's replies. Replies of
    // different lengths leave different remainders there, so that their sum is certain to exceed
    // the limit.
    let key = |reader: usize| format!("k{reader}");
    let length = |reader: usize| 400_000 + 20_011 * reader;
    for reader in 0..30 {
        set(&mut observer, key(reader).as_bytes(), length(reader));
    }
    spared.script("CLIENT NO-EVICT ON => OK");
    spared.send_bytes(&b"GET k\r\n".repeat(30));
    wait_until("the spared one owes replies", || {
        listed(&mut observer, "omem").iter().any(|&bytes| bytes > 0)
    });
    let mut slow: Vec<Client> = (0..30).map(|_| fixture.client()).collect();
    for (reader, client) in slow.iter_mut().enumerate() {
        client.send_bytes(&format!("GET {}\r\n", key(reader)).repeat(100).into_bytes());
    }
    wait_until("some are closed", || info(&mut observer, "evicted_clients") > 0);
    let limit = info(&mut observer, "maxmemory_clients");
    assert_eq!(limit, 4 * MIB as u64);
    // A client that reads gets a reply that fits.
    observer.send(&[b"GET", b"k"]);
    assert_eq!(observer.reply().len(), 700_002);
    idle.script("PING => PONG");
    for reply in 0..30 {
        assert_eq!(spared.reply().len(), 700_002, "reply {reply} of the spared one");
    }
    let mut closed = 0;
    for client in &mut slow {
        let mut replies = 0;
        while replies < 100 && client.try_reply().is_some() {
            replies += 1;
        }
        closed += u64::from(replies < 100);
    }
    let evicted = info(&mut observer, "evicted_clients");
    assert_eq!(
        closed, evicted,
        "the clients that were closed, and the count of them"
    );
    drop(slow);
    wait_until("all is given back", || {
        listed(&mut observer, "omem").iter().sum::<u64>() == 0
    });
}

#[test]
fn a_request_that_cannot_fit_is_refused_before_it_comes_and_the_connection_goes_on() {
    let fixture = Fixture::bounded(4 * MIB);
    let mut client = fixture.client();
    // The refusal must arrive before the value has been sent.
    client.send_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000000\r\n");
    let refusal = client.reply();
    assert!(refusal.starts_with("-OOM the request does not fit"), "{refusal}");
    assert!(refusal.contains("--client-memory"), "{refusal}");
    let part = vec![b'v'; 1_000_000];
    for _ in 0..100 {
        client.send_bytes(&part);
    }
    client.send_bytes(b"\r\nPING\r\n");
    assert_eq!(client.reply(), "PONG");
    client.script("EXISTS k => :0\nMULTI => OK");
    client.send(&[b"SET", b"k", &vec![b'v'; 5 * MIB]]);
    assert!(client.reply().starts_with("-OOM"));
    client.script("EXEC => -EXECABORT Transaction discarded because of previous errors.");
    let mut items = memcached(&fixture);
    items.get_mut().write_all(b"set k 0 0 5000000\r\n").unwrap();
    let refusal = line(&mut items);
    assert!(refusal.starts_with("SERVER_ERROR out of memory"), "{refusal}");
    items.get_mut().write_all(&part.repeat(5)).unwrap();
    items.get_mut().write_all(b"\r\nget k\r\n").unwrap();
    assert_eq!(line(&mut items), "END\r\n");
    assert_eq!(info(&mut client, "alluvium_memory_refusals"), 3);
    let most = listed(&mut client, "tot-mem").into_iter().max().unwrap();
    assert!(most < MIB as u64, "{most}");
}

#[test]
fn a_request_that_does_not_fit_yet_waits_for_those_before_it() {
    let fixture = Fixture::bounded(4 * MIB);
    let (mut one, mut two, mut observer) = (fixture.client(), fixture.client(), fixture.client());
    let value = vec![b'v'; 3 * MIB];
    let whole = request(&[b"SET", b"one", &value]);
    one.send_bytes(&whole[..1000]);
    wait_until("the first has room", || {
        info(&mut observer, "mem_clients_normal") > 3 * MIB as u64
    });
    let other = request(&[b"SET", b"two", &value]);
    two.send_bytes(&other[..1000]);
    wait_until("the second waits", || {
        info(&mut observer, "alluvium_clients_waiting_for_memory") == 1
    });
    one.send_bytes(&whole[1000..]);
    assert_eq!(one.reply(), "OK");
    two.send_bytes(&other[1000..]);
    assert_eq!(two.reply(), "OK");
    observer.script("STRLEN one => :3145728\nSTRLEN two => :3145728");
}

#[test]
fn a_request_that_stands_still_makes_way() {
    let fixture = Fixture::bounded(4 * MIB);
    let (mut one, mut two) = (fixture.client(), fixture.client());
    let mut observer = fixture.client();
    one.send_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3000000\r\nsome of it");
    wait_until("it has room", || {
        info(&mut observer, "mem_clients_normal") > 2 * MIB as u64
    });
    set(&mut two, b"two", 3 * MIB);
    assert_eq!(one.try_reply(), None);
    assert_eq!(info(&mut two, "evicted_clients"), 1);
}

#[test]
fn a_reply_that_cannot_fit_is_refused() {
    let fixture = Fixture::bounded(4 * MIB);
    let mut client = fixture.client();
    for index in 0..5 {
        set(&mut client, format!("k{index}").as_bytes(), MIB);
    }
    let reply = client.ask("MGET k0 k1 k2 k3 k4");
    assert!(reply.starts_with("-OOM the reply does not fit"), "{reply}");
    client.script("MULTI => OK\nGET k0 => QUEUED\nMGET k0 k1 k2 k3 k4 => QUEUED\nPING => QUEUED");
    let reply = client.ask("EXEC");
    assert!(
        reply.ends_with(" PONG]") && reply.contains("-OOM the reply"),
        "{}",
        &reply[reply.len() - 300..]
    );
    assert_eq!(client.ask("MGET k0 k1").len(), 2 * MIB + 7);
}

#[test]
fn an_answer_to_memcached_that_cannot_fit_is_refused() {
    let fixture = Fixture::bounded(4 * MIB);
    let mut items = memcached(&fixture);
    let value = vec![b'v'; MIB];
    let store = [b"set k 0 0 1048576\r\n", &value[..], b"\r\n"].concat();
    items.get_mut().write_all(&store).unwrap();
    assert_eq!(line(&mut items), "STORED\r\n");
    items
        .get_mut()
        .write_all(b"get k k k k k k\r\nget none\r\n")
        .unwrap();
    let refusal = line(&mut items);
    assert!(
        refusal.starts_with("SERVER_ERROR out of memory writing get response"),
        "{refusal}"
    );
    assert_eq!(line(&mut items), "END\r\n");
}

#[test]
fn many_keys_of_one_command_are_answered_in_order() {
    let fixture = Fixture::new();
    let (mut client, mut items) = (fixture.client(), memcached(&fixture));
    let mut words = vec![b"MGET".to_vec()];
    for number in (0..200).rev() {
        let key = format!("k{number}");
        client.send(&[b"SET", key.as_bytes(), key.as_bytes()]);
        assert_eq!(client.reply(), "OK");
        let store = format!("set {key} 0 0 {}\r\n{key}\r\n", key.len());
        items.get_mut().write_all(store.as_bytes()).unwrap();
        assert_eq!(line(&mut items), "STORED\r\n");
        words.push(key.into_bytes());
        words.push(b"none".to_vec());
    }
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    client.send(&words);
    let values: Vec<String> = (0..200)
        .rev()
        .map(|number| format!("\"k{number}\" nil"))
        .collect();
    assert_eq!(client.reply(), format!("[{}]", values.join(" ")));
    let keys: String = (0..200).map(|number| format!(" k{number} none")).collect();
    items
        .get_mut()
        .write_all(format!("get{keys}\r\n").as_bytes())
        .unwrap();
    for number in 0..200 {
        let key = format!("k{number}");
        assert_eq!(line(&mut items), format!("VALUE {key} 0 {}\r\n", key.len()));
        assert_eq!(line(&mut items), format!("{key}\r\n"));
    }
    assert_eq!(line(&mut items), "END\r\n");
}

#[test]
fn commands_between_multi_and_exec_are_charged() {
    let fixture = Fixture::bounded(4 * MIB);
    let mut client = fixture.client();
    client.script("MULTI => OK");
    let value = vec![b'v'; 1_000_000];
    let mut replies = Vec::new();
    for _ in 0..4 {
        client.send(&[b"SET", b"k", &value]);
        replies.push(client.reply());
    }
    assert_eq!(replies[..3], ["QUEUED"; 3]);
    assert!(replies[3].starts_with("-OOM the "), "{}", replies[3]);
    client.script("EXEC => -EXECABORT Transaction discarded because of previous errors.\nEXISTS k => :0");
    wait_until("it is given back", || {
        listed(&mut client, "multi-mem")
            .iter()
            .all(|&bytes| bytes < 65536)
    });
}

#[test]
fn half_requests_take_little_more_than_their_bytes() {
    let fixture = Fixture::new();
    let mut observer = fixture.client();
    let half = [&b"*2\r\n$4\r\nECHO\r\n$100000\r\n"[..], &[b'x'; 3000]].concat();
    let mut all: Vec<Client> = (0..100).map(|_| fixture.client()).collect();
    for client in &mut all {
        client.send_bytes(&half);
    }
    wait_until("all have come", || {
        listed(&mut observer, "qbuf")
            .iter()
            .filter(|&&bytes| bytes == half.len() as u64)
            .count()
            == 100
    });
    let total: u64 = listed(&mut observer, "tot-mem").iter().sum();
    assert!(total < 100 * 10_000 + 200_000, "{total}");
    for client in &mut all {
        client.send_bytes(&[b'x'; 97_000]);
        client.send_bytes(b"\r\n");
        assert_eq!(client.reply().len(), 100_002);
    }
}

#[test]
fn idle_connections_are_closed_after_the_time_that_was_set() {
    let fixture = Fixture::new();
    let (mut idle, mut client) = (fixture.client(), fixture.client());
    let mut items = memcached(&fixture);
    items.get_mut().write_all(b"version\r\n").unwrap();
    assert!(line(&mut items).starts_with("VERSION"));
    idle.script("PING => PONG");
    client.script(
        "CONFIG GET timeout => [\"timeout\" \"0\"]
        CONFIG SET timeout -1 => -ERR CONFIG SET failed (possibly related to argument 'timeout') - argument must be a number of seconds, or 0 to disable
        CONFIG SET timeout 1 => OK
        CONFIG GET timeout => [\"timeout\" \"1\"]",
    );
    assert_eq!(idle.try_reply(), None);
    assert_eq!(line(&mut items), "");
    // A connection that waits for an answer does not count as idle.
    let mut busy = fixture.client();
    busy.script("DEBUG SLEEP 2.5 => OK\nCONFIG SET timeout 0 => OK");
    assert!(info(&mut busy, "alluvium_idle_disconnections") >= 2);
}

#[test]
fn what_clients_may_take_is_set_in_the_words_of_redis() {
    let fixture = Fixture::bounded(8 * MIB);
    let mut client = fixture.client();
    client.script(
        r#"
        CONFIG GET maxmemory-clients => ["maxmemory-clients" "8388608"]
        CONFIG SET maxmemory-clients 16mb => OK
        CONFIG GET maxmemory-clients => ["maxmemory-clients" "16777216"]
        CONFIG SET maxmemory-clients 50% => OK
        CONFIG GET maxmemory-clients => ["maxmemory-clients" "33554432"]
        CONFIG SET maxmemory-clients 0 => OK
        CONFIG GET maxmemory-clients => ["maxmemory-clients" "16777216"]
        CONFIG SET maxmemory 128mb => OK
        CONFIG GET maxmemory-clients => ["maxmemory-clients" "33554432"]
        CONFIG GET tcp-keepalive => ["tcp-keepalive" "300"]
        CONFIG SET tcp-keepalive 60 => OK
        CONFIG GET tcp-keepalive => ["tcp-keepalive" "60"]
        CONFIG GET client-output-buffer-limit => ["client-output-buffer-limit" "normal 536870912 0 0 slave 0 0 0 pubsub 33554432 8388608 60"]
        "#,
    );
    for (value, answer) in [
        ("normal 1mb 0 0", "OK"),
        ("normal 1mb 1 1", "-ERR CONFIG SET failed"),
        ("pubsub 1mb 0 0", "OK"),
        ("pubsub 1mb 0", "-ERR CONFIG SET failed"),
        ("monitor 1mb 0 0", "-ERR CONFIG SET failed"),
    ] {
        client.send(&[b"CONFIG", b"SET", b"client-output-buffer-limit", value.as_bytes()]);
        let reply = client.reply();
        assert!(reply.starts_with(answer), "{value}: {reply}");
    }
    for wrong in ["1", "200%", "x%", "-5mb"] {
        let reply = client.ask(&format!("CONFIG SET maxmemory-clients {wrong}"));
        assert!(reply.contains("argument must be"), "{wrong}: {reply}");
    }
    set(&mut client, b"k", 600_000);
    client.send_bytes(b"MGET k k\r\n");
    assert_eq!(client.try_reply(), None);
}

/// Environment variable that selects the workload of the child process.
const ROW: &str = "ALLUVIUM_BUDGET_ROW";

/// Six clients request values of 1 MB and read no replies.
fn readers_that_do_not_read(fixture: &Fixture) {
    let mut observer = fixture.client();
    set(&mut observer, b"k", MIB);
    let mut all: Vec<Client> = (0..6).map(|_| fixture.client()).collect();
    for client in &mut all {
        client.send_bytes(&b"GET k\r\n".repeat(300));
    }
    wait_until_held(&mut observer);
}

/// Waits until the sizes of pending replies are non-zero and have stopped changing. Does not check
/// whether all clients have pending replies or whether any was closed, because both depend on the
/// capacity of the system's socket buffers.
fn wait_until_held(observer: &mut Client) {
    let (mut last, mut still) = (Vec::new(), 0);
    wait_until("replies are owed, and no more of them", || {
        let mut now = listed(observer, "omem");
        now.push(info(observer, "evicted_clients"));
        still = if now == last { still + 1 } else { 0 };
        last = now;
        still >= 50 && last.iter().any(|&bytes| bytes > 0)
    });
}

/// 40 clients each send part of a value of 100 MB.
fn unfinished_values(fixture: &Fixture) {
    let mut all: Vec<Client> = (0..40).map(|_| fixture.client()).collect();
    let part = vec![b'v'; 8 * MIB];
    for client in &mut all {
        client.send_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000000\r\n");
        client.send_bytes(&part);
        assert!(client.reply().starts_with("-OOM"));
    }
}

/// Serves many connections, some of which never read.
fn many(fixture: &Fixture) {
    let mut observer = fixture.client();
    set(&mut observer, b"k", 100_000);
    let mut idle: Vec<Client> = (0..300).map(|_| fixture.client()).collect();
    let mut slow: Vec<Client> = (0..60).map(|_| fixture.client()).collect();
    for client in &mut slow {
        client.send_bytes(&b"GET k\r\n".repeat(2000));
    }
    wait_until_held(&mut observer);
    for _ in 0..200 {
        observer.send(&[b"GET", b"k"]);
        assert_eq!(observer.reply().len(), 100_002);
    }
    for client in &mut idle {
        client.script("PING => PONG");
    }
}

type Work = fn(&Fixture);
const ROWS: [(&str, Work); 3] = [
    ("readers that do not read", readers_that_do_not_read),
    ("unfinished values", unfinished_values),
    ("many connections", many),
];

/// The child process, which runs one workload. Does nothing unless the environment variable is set.
#[test]
fn a_child_serves_clients_that_take_memory() {
    let Ok(row) = std::env::var(ROW) else { return };
    heap::give_freed_memory_back();
    let (_, work) = ROWS.iter().find(|(name, _)| *name == row).unwrap();
    let fixture = Fixture::new();
    work(&fixture);
    let peak = machine::memory_of_process("VmHWM").expect("Linux says how much memory a process has had");
    println!("peak {peak}");
}

#[test]
fn clients_take_no_more_memory_than_the_store_was_given() {
    for (row, _) in ROWS {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "budget::a_child_serves_clients_that_take_memory",
                "--nocapture",
            ])
            .env(ROW, row)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let peak = text
            .lines()
            .find_map(|line| line.split("peak ").nth(1)?.trim().parse::<u64>().ok());
        let told = String::from_utf8_lossy(&output.stderr);
        let Some(peak) = peak else {
            panic!("{row}: the process ended with {}\n{text}\n{told}", output.status);
        };
        println!("{row}: {} MiB", peak >> 20);
        let most = (64 << 20) / 10 * 11 + (32 << 20);
        assert!(peak <= most, "{row}: {} MiB resident", peak >> 20);
    }
}
