//! The memcached protocol, with text and meta commands.

use crate::client::{Fixture, options};
use alluvium_server::{ServerLimits, ServerOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

struct Client(TcpStream);

impl Client {
    fn new(fixture: &Fixture) -> Client {
        let socket = TcpStream::connect(fixture.server.memcached_addr().unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client(socket)
    }

    /// Sends lines, separated by `|`, and compares the replies.
    fn say(&mut self, request: &str, expected: &str) {
        let lines = |text: &str| {
            text.split('|')
                .map(|line| line.to_owned() + "\r\n")
                .collect::<String>()
        };
        self.0.write_all(lines(request).as_bytes()).unwrap();
        let expected = if expected.is_empty() {
            String::new()
        } else {
            lines(expected)
        };
        let mut reply = vec![0; expected.len()];
        self.0.read_exact(&mut reply).unwrap();
        assert_eq!(String::from_utf8_lossy(&reply), expected, "{request}");
    }

    /// Returns the next line.
    fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }
}

#[test]
fn the_block_of_a_refused_line_is_no_request() {
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture);
    client.say("set kept 0 0 1|x", "STORED");
    let bad = "CLIENT_ERROR bad command line format";
    let long = "k".repeat(251);
    for line in [
        format!("set {long} 0 0 9"),
        format!("cas {long} 0 0 9 1"),
        format!("ms {long} 9"),
        "set k x 0 9".to_owned(),
        "set k 0 x 9".to_owned(),
        "add k 0 99999999999999999999 9".to_owned(),
        "cas k 0 0 9 x".to_owned(),
        "set k 18446744073709551616 0 9".to_owned(),
    ] {
        client.say(&format!("{line}|flush_all|mn"), &format!("{bad}|MN"));
    }
    client.say("cas k 0 0 9|flush_all|mn", "ERROR|MN");
    client.say("ms k 9 X|flush_all|mn", "CLIENT_ERROR invalid flag|MN");
    client.say("get kept", "VALUE kept 0 1|x|END");
    // Flags are truncated to 32 bits, as in memcached.
    client.say("set k 4294967301 0 1|a|get k", "STORED|VALUE k 5 1|a|END");
    client.say("ms k 1 F4294967302|b|get k", "HD|VALUE k 6 1|b|END");
    // Everything after such a length belongs to its block.
    client.say(
        "set k 0 0 99999999999|flush_all|mn",
        "SERVER_ERROR object too large for cache",
    );
    Client::new(&fixture).say("get kept", "VALUE kept 0 1|x|END");
}

#[test]
fn opaque_tokens_are_no_longer_than_those_of_memcached() {
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture);
    let (fits, long) = ("o".repeat(31), "o".repeat(32));
    client.say(
        &format!("ms k 1 O{fits}|a|mg k O{fits} v"),
        &format!("HD O{fits}|VA 1 O{fits}|a"),
    );
    let refused = "CLIENT_ERROR opaque token too long";
    client.say(
        &format!("mg k O{long}|mg k q O{long}|mn"),
        &format!("{refused}|{refused}|MN"),
    );
    client.say(&format!("ms k 1 O{long}|b|mg k v"), &format!("{refused}|VA 1|a"));
}

#[test]
fn long_items_that_are_touched_together_are_committed_one_by_one_and_seen_by_what_follows() {
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture);
    let value = "v".repeat(700 << 10);
    for key in ["a", "b", "c"] {
        client.say(&format!("set {key} 0 0 {}|{value}", value.len()), "STORED");
    }
    let commits = fixture.db.stats().operations.commits;
    let item = |key: &str| format!("VALUE {key} 0 {}|{value}|", value.len());
    // The earlier commands change items after the batch has read them.
    let request = "gat 5000 a b c a|mg a f|mg b f|append a 0 0 1|x|mg a s|gat 0 c|mg c t";
    let replies = format!(
        "{0}{1}{2}{0}END|HD f0|HD f0|STORED|HD s{3}|{2}END|HD t-1",
        item("a"),
        item("b"),
        item("c"),
        value.len() + 1
    );
    client.say(request, &replies);
    assert!(fixture.db.stats().operations.commits - commits >= 3);
    client.0.write_all(b"mg b t\r\n").unwrap();
    let left: u32 = client.line().strip_prefix("HD t").unwrap().parse().unwrap();
    assert!((4900..=5000).contains(&left), "{left}");
}

#[test]
pub(crate) fn text_commands_do_what_memcached_says() {
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture);
    for (request, expected) in [
        ("get a", "END"),
        ("set a 5 0 3|abc", "STORED"),
        ("get a b", "VALUE a 5 3|abc|END"),
        ("add a 0 0 1|x", "NOT_STORED"),
        ("add b 0 0 1|x", "STORED"),
        ("replace none 0 0 1|x", "NOT_STORED"),
        ("replace b 7 0 1|y", "STORED"),
        ("append a 9 0 2|de", "STORED"),
        ("prepend a 9 0 1|_", "STORED"),
        ("get a b", "VALUE a 5 6|_abcde|VALUE b 7 1|y|END"),
        ("append none 0 0 1|x", "NOT_STORED"),
        ("cas none 0 0 1 5|x", "NOT_FOUND"),
        ("cas a 0 0 1 5|x", "EXISTS"),
        ("set n 0 0 2|10", "STORED"),
        ("incr n 5", "15"),
        ("decr n 6", "9"),
        ("get n", "VALUE n 0 2|9 |END"),
        ("decr n 100", "0"),
        (
            "incr a 1",
            "CLIENT_ERROR cannot increment or decrement non-numeric value",
        ),
        ("incr n x", "CLIENT_ERROR invalid numeric delta argument"),
        ("incr none 1", "NOT_FOUND"),
        ("touch a 100", "TOUCHED"),
        ("touch none 100", "NOT_FOUND"),
        ("gat 100 b", "VALUE b 7 1|y|END"),
        ("delete b", "DELETED"),
        ("delete b", "NOT_FOUND"),
        (
            "delete b 5",
            "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]",
        ),
        ("set e 0 -1 1|x", "STORED"),
        ("get e", "END"),
        ("set q 0 0 1 noreply|x", ""),
        ("delete q noreply", ""),
        ("get q", "END"),
        ("set q 0 0 x", "CLIENT_ERROR bad command line format"),
        ("nonsense", "ERROR"),
        ("get", "ERROR"),
        ("verbosity 1", "OK"),
        ("mn", "MN"),
        ("flush_all", "OK"),
        ("get a", "END"),
        ("set a 0 0 1|x", "STORED"),
        ("flush_all 1000", "OK"),
        ("get a", "VALUE a 0 1|x|END"),
    ] {
        client.say(request, expected);
    }
    client.say("version", "VERSION 1.6.18-alluvium-0.1.0");
    client.0.write_all(b"stats\r\n").unwrap();
    assert!(client.line().starts_with("STAT pid "));
    while client.line() != "END" {}
    client.0.write_all(b"quit\r\n").unwrap();
    assert_eq!(client.0.read(&mut [0]).unwrap(), 0);
}

#[test]
fn compare_and_swap_needs_the_last_number() {
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture);
    client.say("set a 0 0 1|x", "STORED");
    client.0.write_all(b"gets a\r\n").unwrap();
    let cas = client.line().rsplit(' ').next().unwrap().to_owned();
    assert_eq!((client.line().as_str(), client.line().as_str()), ("x", "END"));
    client.say(&format!("cas a 0 0 1 {cas}|y"), "STORED");
    client.say(&format!("cas a 0 0 1 {cas}|z"), "EXISTS");
    client.say("get a", "VALUE a 0 1|y|END");
}

#[test]
fn meta_commands_do_what_memcached_says() {
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture);
    for (request, expected) in [
        ("mg a v", "EN"),
        ("mg a v q|mn", "MN"),
        ("ms a 3 F5 T0|abc", "HD"),
        ("mg a v f k s t Oxy", "VA 3 f5 ka s3 t-1 Oxy|abc"),
        ("mg a", "HD"),
        ("mg YQ== b k v", "VA 3 b kYQ==|abc"),
        ("ms a 1 ME|x", "NS"),
        ("ms a 1 MA|d", "HD"),
        ("ms a 1 MP|_", "HD"),
        ("mg a v", "VA 5|_abcd"),
        ("ms none 1 MR|d", "NS"),
        ("ms a 1 C1|d", "EX"),
        ("ms none 1 C1|d", "NF"),
        ("ms a 1 Mz|d", "CLIENT_ERROR invalid mode for ms M token"),
        ("ms a 1 q|z", ""),
        ("ma n", "NF"),
        ("ma n N0 J13 v", "VA 2|13"),
        ("ma n v", "VA 2|14"),
        ("ma n D4 MD v", "VA 2|10"),
        (
            "ma a",
            "CLIENT_ERROR cannot increment or decrement non-numeric value",
        ),
        ("md none", "NF"),
        ("md a I T30", "HD"),
        ("mg a t v", "VA 1 t30 X W|z"),
        ("mg a v", "VA 1 Z X|z"),
        ("ms a 1 T0|n", "HD"),
        ("mg a v", "VA 1|n"),
        ("mg new N30 v", "VA 0 W|"),
        ("mg new N30 v", "VA 0 Z|"),
        ("md a q|mn", "MN"),
        ("mg a", "EN"),
        ("me a", "EN"),
        ("mg a Y", "CLIENT_ERROR invalid flag"),
        ("mg a v v", "CLIENT_ERROR duplicate flag"),
    ] {
        client.say(request, expected);
    }
    client.say("ms m 2 T100|xy", "HD");
    client.0.write_all(b"me m\r\n").unwrap();
    let line = client.line();
    assert!(
        line.starts_with("ME m exp=100 la=0 cas=") && line.ends_with("size=2"),
        "{line}"
    );
}

#[test]
fn a_pipeline_that_looks_at_a_stale_item_is_executed_once() {
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture);
    client.say(
        "set a 0 0 1|x|ma n N0 J1|md a I T30|mg a v|mg a v|ma n|set b 0 0 1|y",
        "STORED|HD|HD|VA 1 X W|x|VA 1 Z X|x|HD|STORED",
    );
    client.say("ma n v", "VA 1|3");
    client.0.write_all(b"stats\r\n").unwrap();
    let lines: Vec<String> = std::iter::repeat_with(|| client.line())
        .take_while(|line| line != "END")
        .collect();
    assert!(lines.iter().any(|line| line == "STAT cmd_set 2"), "{lines:?}");
}

#[test]
fn items_expire_and_are_not_too_large() {
    let limits = ServerLimits {
        request: 1000,
        ..ServerLimits::default()
    };
    let fixture = Fixture::with(ServerOptions { limits, ..options() });
    let mut client = Client::new(&fixture);
    client.say("set a 0 1 1|x", "STORED");
    client.say(
        &format!("set b 0 0 1001|{}", "x".repeat(1001)),
        "SERVER_ERROR object too large for cache",
    );
    client.say("set b 0 0 1|xx|mn", "CLIENT_ERROR bad data chunk|MN");
    client.say("get a", "VALUE a 0 1|x|END");
    // A failed unconditional replacement deletes the old item; a failed conditional one keeps it.
    let long = "x".repeat(1001);
    for (request, is_left) in [
        (format!("set c 0 0 1001|{long}"), false),
        (format!("add c 0 0 1001|{long}"), true),
        (format!("ms c 1001|{long}"), false),
    ] {
        client.say("set c 0 0 1|y", "STORED");
        client.say(&request, "SERVER_ERROR object too large for cache");
        client.say("get c", if is_left { "VALUE c 0 1|y|END" } else { "END" });
    }
    client.say("set c 0 0 1|y", "STORED");
    client.say(&format!("set c 0 0 1001 noreply|{long}|mn"), "MN");
    client.say("get c", "END");
    client.say("verbosity much", "CLIENT_ERROR bad command line format");
    std::thread::sleep(Duration::from_millis(1100));
    client.say("get a", "END");
    client.say(
        &format!("get {}", "k".repeat(251)),
        "CLIENT_ERROR bad command line format",
    );
}
