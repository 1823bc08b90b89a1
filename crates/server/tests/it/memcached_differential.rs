//! Sends the same random requests to a real memcached and to this server, whose replies must be
//! equal byte for byte.
//!
//! `ALLUVIUM_MEMCACHED` names the memcached program, which is `memcached` in PATH by default. If
//! there is none, the test prints a note and passes. `ALLUVIUM_MEMCACHED_COMMANDS` sets the number
//! of requests, and `ALLUVIUM_MEMCACHED_SEED` the seed. CAS numbers differ between the servers, so
//! the test compares only which items have one, and sends each server its own numbers.

use crate::client::Fixture;
use crate::other::Other;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

/// Starts a memcached. As root, it refuses to run unless it is told which user to become.
fn start_memcached() -> Option<Other> {
    let arguments = |command: &mut Command, port: u16| {
        let options = ["-l", "127.0.0.1", "-U", "0", "-u", "nobody", "-p"];
        command.args(options).arg(port.to_string());
    };
    let program = ("ALLUVIUM_MEMCACHED", "memcached");
    Other::start(program, arguments, ("stats\r\n", "STAT pid "))
}

/// A connection, and the CAS numbers returned by its server, by key.
struct Client {
    reader: BufReader<TcpStream>,
    marks: BTreeMap<String, String>,
}

impl Client {
    fn connect(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client {
            reader: BufReader::new(socket),
            marks: BTreeMap::new(),
        }
    }

    /// Sends requests, each with its key, and a final one that marks the end. Returns all lines
    /// before the end, with CAS numbers replaced by a word.
    fn ask(&mut self, requests: &[(String, String)]) -> Vec<String> {
        let mut request = String::new();
        for (text, key) in requests {
            // If no number is known, use one that neither server has assigned. Both count from
            // small numbers or from timestamps.
            let known = self.marks.get(key).map_or("1234567890123456789", |mark| mark);
            request += &text.replace("$cas", known);
        }
        let socket = self.reader.get_mut();
        socket.write_all(format!("{request}mn\r\n").as_bytes()).unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let count = self.reader.read_line(&mut line);
            assert!(
                matches!(count, Ok(1..)),
                "{count:?} after {request:?} and {lines:?}"
            );
            let line = line.trim_end_matches("\r\n").to_owned();
            if line == "MN" {
                return lines;
            }
            lines.push(self.without_mark(line));
        }
    }

    fn without_mark(&mut self, line: String) -> String {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let place = match words[0].as_str() {
            "VALUE" if words.len() == 5 => Some(4),
            "HD" | "VA" | "EX" | "NS" | "NF" => words
                .iter()
                .skip(1)
                .position(|word| word.len() > 1 && word.starts_with('c'))
                .map(|at| at + 1),
            _ => None,
        };
        let Some(place) = place else {
            return line;
        };
        let mark = words[place].trim_start_matches('c').to_owned();
        // A reply without an item has a CAS number of zero on both servers.
        if words[0] == "VALUE" {
            self.marks.insert(words[1].clone(), mark);
        } else if let Some(key) = words.iter().find_map(|word| word.strip_prefix('k')) {
            self.marks.insert(key.to_owned(), mark);
        }
        words[place] = "(cas)".to_owned();
        words.join(" ")
    }
}

const SHAPES: &[&str] = &[
    "get K",
    "get K K K",
    "gets K",
    "gets K K",
    "gat $expiry K",
    "gats $expiry K K",
    "set K $flags $expiry DATA",
    "set K $flags $expiry DATA",
    "set N 0 0 NUMBER",
    "add K $flags $expiry DATA",
    "replace K $flags $expiry DATA",
    "append K 0 0 DATA",
    "prepend K 0 0 DATA",
    "cas K $flags $expiry CASDATA",
    "cas K $flags $expiry CASDATA",
    "incr N $delta",
    "decr N $delta",
    "incr K 1",
    "incr N x",
    "decr N -1",
    "touch K $expiry",
    "delete K",
    "delete K 0",
    "delete K 5",
    "set K 0 0 DATA noreply",
    "add K 1 0 DATA noreply",
    "delete K noreply",
    "incr N 1 noreply",
    "touch K 0 noreply",
    "verbosity 1",
    "nosuch K",
    "get",
    "set K 0 0",
    "set K x 0 DATA",
    "set K 0 x DATA",
    "cas K 0 0 DATA",
    "incr N",
    "touch K",
    "mg K",
    "mg K v",
    "mg K v f s k",
    "mg K v t",
    "mg K l t",
    "mg K k c v",
    "mg K k c",
    "mg K v q",
    "mg K k v O$opaque q",
    "mg K s v T$ttl",
    "mg K v N1000 t",
    // No item may expire about this number of seconds from now, because the servers' clocks may
    // differ by a second.
    "mg K v R2000 t",
    "ms K META T$ttl",
    "ms K META F$number T0",
    "ms K META c k",
    "ms K META C$cas k",
    "ms K META ME",
    "ms K META MA",
    "ms K META MP",
    "ms K META MR",
    "ms K META MS",
    "ms K META MX",
    "ms K META q k O$opaque",
    "ms K META I C1",
    "ms K",
    "ms K x",
    "md K",
    "md K q",
    "md K k O$opaque",
    "md K C$cas k",
    "md K I T300",
    "ma N",
    "ma N v",
    "ma N D$delta v",
    "ma N MD D$delta v",
    "ma N MI t v",
    "ma N N0 J5 v",
    "ma N q",
    "ma N k c",
    "ma K v",
    "ma N Dx",
    "flush_all noreply",
];

/// Requests whose command line is refused although a block follows it. memcached executes the block
/// as a command; this server skips it.
const REFUSED: [&str; 3] = ["set K x 0 DATA", "set K 0 x DATA", "cas K 0 0 DATA"];

/// Returns a request for memcached, without the block that memcached would execute.
fn without_refused_block((shape, (request, key)): (&&str, &(String, String))) -> (String, String) {
    let line = request.split_inclusive("\r\n").next().unwrap_or_default();
    let request = match REFUSED.contains(shape) {
        true => line.to_owned(),
        false => request.clone(),
    };
    (request, key.clone())
}

/// Returns a request and its key.
fn fill(shape: &str, random: &mut fastrand::Rng) -> (String, String) {
    let mut first = String::new();
    let mut block = None;
    let words = shape.split(' ').map(|word| {
        let data =
            |random: &mut fastrand::Rng| "d".repeat(random.usize(1..40)) + &random.u8(..100).to_string();
        match word {
            "K" | "N" => {
                // memcached's treatment of an empty number depends on the memory after it. Whether
                // memcached pads a number that has become shorter depends on other references to
                // the item at that moment. The padding in turn affects numbers with appended bytes,
                // and items that were stale before they grew.
                let is_delicate = shape.split(' ').any(|word| word == "I")
                    || ["append", "prepend"].iter().any(|verb| shape.starts_with(verb))
                    || ["MA", "MP"].iter().any(|mode| shape.ends_with(mode));
                let key = match random.u8(..20) {
                    0 if !shape.contains("N1000") && !is_delicate => format!("n{}", random.u8(..4)),
                    _ => format!("{}{}", word.to_lowercase(), random.u8(..6)),
                };
                if first.is_empty() {
                    first.clone_from(&key);
                }
                return key;
            }
            "DATA" | "CASDATA" | "META" => {
                let data = data(random);
                let length = data.len().to_string();
                block = Some(data);
                return if word == "CASDATA" {
                    length + " $cas"
                } else {
                    length
                };
            }
            "NUMBER" => {
                let data = random.u32(..1000).to_string();
                let length = data.len().to_string();
                block = Some(data);
                return length;
            }
            _ => {}
        }
        word.replace("$flags", &random.u16(..).to_string())
            .replace("$number", &random.u16(..).to_string())
            .replace("$delta", &random.u32(..2000).to_string())
            .replace("$opaque", &random.u32(..).to_string())
            .replace("$ttl", ["0", "1000", "-1", "86400"][random.usize(..4)])
            .replace(
                "$expiry",
                ["0", "0", "1000", "-1", "2000000000"][random.usize(..5)],
            )
    });
    let line = words.collect::<Vec<_>>().join(" ");
    let request = match block {
        Some(block) => format!("{line}\r\n{block}\r\n"),
        None => line + "\r\n",
    };
    (request, first)
}

#[test]
fn random_requests_get_the_replies_of_memcached() {
    let fixture = Fixture::new();
    compare(fixture.server.memcached_addr().unwrap());
}

#[test]
fn random_requests_to_a_cache_get_the_replies_of_memcached() {
    let cache = crate::cached::start(64 << 20);
    compare(cache.memcached_addr().unwrap());
}

fn compare(ours: SocketAddr) {
    let Some(memcached) = start_memcached() else {
        return;
    };
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let seed = number("ALLUVIUM_MEMCACHED_SEED", 1);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut theirs = Client::connect(memcached.address);
    let mut ours = Client::connect(ours);
    let mut good: BTreeMap<String, u64> = BTreeMap::new();
    let mut history = Vec::new();
    let mut different = Vec::new();
    for step in 0..number("ALLUVIUM_MEMCACHED_COMMANDS", 5_000) {
        // Send half of the requests one by one, the others in pipelines.
        let count = if random.bool() { 1 } else { random.usize(2..12) };
        let mut shapes = Vec::new();
        while shapes.len() < count {
            let shape = SHAPES[random.usize(..SHAPES.len())];
            if !shape.starts_with("flush_all") || random.u8(..20) == 0 {
                shapes.push(shape);
            }
        }
        let requests: Vec<(String, String)> = shapes.iter().map(|shape| fill(shape, &mut random)).collect();
        history.extend(requests.iter().map(|(request, _)| request.clone()));
        let for_them: Vec<_> = shapes.iter().zip(&requests).map(without_refused_block).collect();
        let (expected, found) = (theirs.ask(&for_them), ours.ask(&requests));
        let is_good = |line: &String| {
            let bad = ["END", "EN", "NF", "NS", "NOT_FOUND", "NOT_STORED"].contains(&&line[..]);
            !bad && !line.contains("ERROR")
        };
        if count == 1 && expected.first().is_some_and(is_good) {
            let name = shapes[0].split(' ').next().unwrap();
            *good.entry(name.to_owned()).or_default() += 1;
        }
        if !are_alike(&found, &expected) && different.len() < 10 {
            let before = &history[history.len().saturating_sub(12 + count)..];
            different.push(format!(
                "step {step}: {requests:?}\n  theirs {expected:?}\n  ours {found:?}\n  after {before:?}"
            ));
        }
    }
    assert!(different.is_empty(), "seed {seed}:\n{}", different.join("\n"));
    println!("{} requests had equal replies", history.len());
    println!("replies that are neither errors nor misses: {good:?}");
}

/// Tolerated difference in seconds between remaining times, and between times since the last
/// access, which depend on the current time.
const TOLERANCE: u64 = 5;

/// Returns the seconds in a reply word. A negative number, which means no expiry, does not count.
fn seconds(word: &str) -> Option<i64> {
    let digits = word.strip_prefix('t').or_else(|| word.strip_prefix('l'))?;
    digits.parse().ok().filter(|seconds| *seconds >= 0)
}

/// Returns whether all compared parts of two replies are equal.
fn are_alike(one: &[String], other: &[String]) -> bool {
    let is_meta = |line: &str| ["HD", "VA"].iter().any(|head| line.starts_with(head));
    let (one, other) = (compared(one), compared(other));
    one.len() == other.len()
        && one.iter().zip(&other).all(|(one, other)| {
            let (mut ones, mut others) = (one.split(' '), other.split(' '));
            one == other
                || is_meta(one)
                    && ones.clone().count() == others.clone().count()
                    && ones.all(|one| {
                        let other = others.next().expect("there are as many");
                        let times = seconds(one).zip(seconds(other));
                        one == other
                            || one[..1] == other[..1]
                                && times.is_some_and(|(one, other)| one.abs_diff(other) <= TOLERANCE)
                    })
        })
}

/// Converts lines to the form that is compared. memcached pads a shortened number with blanks only
/// if it can write in place, which depends on other references to the item, so blanks and lengths
/// are removed.
fn compared(lines: &[String]) -> Vec<String> {
    let words = |line: &String| {
        if line.starts_with("VALUE ") {
            let mut words: Vec<&str> = line.split(' ').collect();
            words.remove(3);
            return words.join(" ");
        }
        let is_data = line.starts_with(|first: char| first.is_ascii_digit() || first == 'd' || first == ' ');
        if is_data {
            return line.replace(' ', "");
        }
        let is_meta = ["HD", "VA"].iter().any(|head| line.starts_with(head));
        if !is_meta {
            return line.clone();
        }
        let mut words: Vec<&str> = line.split(' ').collect();
        if words[0] == "VA" {
            words.remove(1);
        }
        words.retain(|word| !word.starts_with('s'));
        words.join(" ")
    };
    lines.iter().map(words).collect()
}
