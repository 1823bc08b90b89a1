//! A minimal protocol client, and a test server.

use alluvium::{Db, Options};
use alluvium_server::{KeyLayout, Server, ServerLimits, ServerOptions};
use std::cell::Cell;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server with a temporary store.
pub(crate) struct Fixture {
    pub(crate) server: Server,
    pub(crate) db: Db,
    pub(crate) place: tempfile::TempDir,
}

pub(crate) fn any_port() -> Option<SocketAddr> {
    Some("127.0.0.1:0".parse().unwrap())
}

/// Environment variable that makes all test servers hash their keys if its value is `hashed`.
pub(crate) const KEPT: &str = "ALLUVIUM_TEST_KEYS";

thread_local! {
    /// The key layout of servers started by this thread.
    static LAYOUT: Cell<KeyLayout> = Cell::new(match std::env::var(KEPT).as_deref() {
        Ok("hashed") => KeyLayout::Hashed,
        _ => KeyLayout::AsStored,
    });
}

/// Returns the key layout of servers started by this thread.
pub(crate) fn layout() -> KeyLayout {
    LAYOUT.get()
}

/// While this guard exists, servers started by this thread hash their keys.
pub(crate) struct Hashed(KeyLayout);

impl Hashed {
    pub(crate) fn begin() -> Hashed {
        Hashed(LAYOUT.replace(KeyLayout::Hashed))
    }
}

impl Drop for Hashed {
    fn drop(&mut self) {
        LAYOUT.set(self.0);
    }
}

pub(crate) fn options() -> ServerOptions {
    ServerOptions {
        redis: any_port(),
        memcached: any_port(),
        loops: Some(2),
        keys: layout(),
        ..ServerOptions::default()
    }
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture::with(options())
    }

    /// Starts a server whose clients may use at most `memory` bytes in total.
    pub(crate) fn bounded(memory: usize) -> Fixture {
        let limits = ServerLimits {
            memory: Some(memory),
            ..ServerLimits::default()
        };
        Fixture::with(ServerOptions { limits, ..options() })
    }

    pub(crate) fn with(options: ServerOptions) -> Fixture {
        let place = tempfile::tempdir().unwrap();
        let db = Options::new()
            .memory(64 << 20)
            .open(place.path().join("store"))
            .unwrap();
        let server = Server::start(&db, options).unwrap();
        Fixture { server, db, place }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.server.redis_addr().unwrap())
    }
}

/// A RESP connection.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client {
            reader: BufReader::new(socket),
        }
    }

    /// Connects to a server. Returns `None` if none is listening.
    pub(crate) fn try_connect(address: SocketAddr) -> Option<Client> {
        let socket = TcpStream::connect(address).ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
        Some(Client {
            reader: BufReader::new(socket),
        })
    }

    /// Sends bytes. Returns whether this succeeded.
    pub(crate) fn try_send_bytes(&mut self, bytes: &[u8]) -> bool {
        self.reader.get_mut().write_all(bytes).is_ok()
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    pub(crate) fn read_exact(&mut self, bytes: &mut [u8]) {
        self.reader.read_exact(bytes).unwrap();
    }

    pub(crate) fn send(&mut self, words: &[&[u8]]) {
        self.send_bytes(&request(words));
    }

    /// Sends a command of words separated by blanks, and returns the reply as text.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.send(&words);
        self.reply()
    }

    /// Returns the next reply as text: `OK`, `-ERR …`, `:1`, `"bytes"`, `nil`, `[…]`, `{…}`, `<…>`,
    /// `,1.5`, `#t`, `>[…]`.
    pub(crate) fn reply(&mut self) -> String {
        self.try_reply().expect("a reply")
    }

    /// Returns the next reply as text, or `None` if the connection has ended.
    pub(crate) fn try_reply(&mut self) -> Option<String> {
        let mut line = Vec::new();
        self.reader
            .read_until(b'\n', &mut line)
            .ok()
            .filter(|&count| count > 0)?;
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        let (mark, rest) = line.split_at(1);
        Some(match mark {
            "+" => rest.to_owned(),
            "-" | ":" | "," | "#" => line,
            "_" => "nil".to_owned(),
            "$" | "=" => match rest.parse::<i64>().unwrap() {
                -1 => "nil".to_owned(),
                length => {
                    let mut bytes = vec![0; length as usize + 2];
                    self.reader.read_exact(&mut bytes).ok()?;
                    bytes.truncate(length as usize);
                    format!("\"{}\"", bytes.escape_ascii())
                }
            },
            "*" if rest == "-1" => "nil array".to_owned(),
            ">" => {
                let count: usize = rest.parse().unwrap();
                let parts: Option<Vec<String>> = (0..count).map(|_| self.try_reply()).collect();
                format!(">[{}]", parts?.join(" "))
            }
            "*" | "~" | "%" => {
                let count: usize = rest.parse().unwrap();
                let count = if mark == "%" { 2 * count } else { count };
                let (open, close) = match mark {
                    "*" => ("[", "]"),
                    "~" => ("<", ">"),
                    _ => ("{", "}"),
                };
                let mut text = open.to_owned();
                for index in 0..count {
                    let part = self.try_reply()?;
                    let _ = write!(text, "{}{part}", if index > 0 { " " } else { "" });
                }
                text + close
            }
            other => panic!("no reply begins with {other}"),
        })
    }

    /// Runs a script. Each line consists of a command, `=>`, and the expected reply.
    pub(crate) fn script(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (command, expected) = line.split_once(" => ").unwrap();
            assert_eq!(self.ask(command).trim_end(), expected, "{command}");
        }
    }
}

/// Encodes a request as clients send it.
pub(crate) fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Returns an array's elements in text form, sorted.
pub(crate) fn sorted(array: &str) -> Vec<String> {
    let inner = array.trim_matches(['[', ']', '<', '>', '{', '}']);
    let mut parts: Vec<String> = inner
        .split(' ')
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect();
    parts.sort();
    parts
}
