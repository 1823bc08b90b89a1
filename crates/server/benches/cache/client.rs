//! Who asks, by each way.

use alluvium_server::datagram::format::DatagramOutcome;
use alluvium_server::{DatagramClient, DatagramRequest, RingClient};
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};

/// Bytes of a value.
const VALUE: [u8; 32] = *b"the value of a key, 32 bytes ...";

/// Requests about keys of 16 bytes, each as often as any other.
pub(crate) struct Drawn {
    keys: Vec<[u8; 16]>,
    pub(crate) is_get: bool,
}

impl Drawn {
    /// Gets of keys drawn with a fixed seed, or sets of all keys, again and again.
    pub(crate) fn new(keys: u64, count: usize, is_get: bool) -> Drawn {
        let mut random = fastrand::Rng::with_seed(keys);
        let name = |number: u64| {
            let mut key = [0; 16];
            key.copy_from_slice(format!("key:{number:012}").as_bytes());
            key
        };
        // Gets come behind the first sets, of as many keys.
        let most = keys.min(count as u64);
        let number = |at: usize, random: &mut fastrand::Rng| match is_get {
            true => random.u64(..most),
            false => at as u64 % keys,
        };
        Drawn {
            keys: (0..count).map(|at| name(number(at, &mut random))).collect(),
            is_get,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn batches(&self, batch: usize) -> impl Iterator<Item = &[[u8; 16]]> {
        self.keys.chunks(batch)
    }
}

/// A way to a cache.
pub(crate) trait Ask {
    /// Has a batch executed. Returns how many were stored, or found with the right value.
    fn ask(&mut self, is_get: bool, keys: &[[u8; 16]]) -> usize;
}

/// memcached's text protocol.
pub(crate) struct Tcp {
    stream: TcpStream,
    text: Vec<u8>,
    reply: Vec<u8>,
}

impl Tcp {
    pub(crate) fn connect(address: SocketAddr) -> Tcp {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        Tcp {
            stream,
            text: Vec::new(),
            reply: Vec::new(),
        }
    }
}

impl Ask for Tcp {
    fn ask(&mut self, is_get: bool, keys: &[[u8; 16]]) -> usize {
        self.text.clear();
        let mut one = String::new();
        for key in keys {
            self.text
                .extend_from_slice(if is_get { b"get " } else { b"set " });
            self.text.extend_from_slice(key);
            if !is_get {
                self.text.extend_from_slice(b" 0 0 32\r\n");
                self.text.extend_from_slice(&VALUE);
            }
            self.text.extend_from_slice(b"\r\n");
        }
        write!(one, "VALUE {} 0 32\r\n", "k".repeat(16)).expect("a text");
        let hit = one.len() + VALUE.len() + b"\r\nEND\r\n".len();
        let stored = b"STORED\r\n".len();
        self.reply
            .resize(keys.len() * if is_get { hit } else { stored }, 0);
        self.stream.write_all(&self.text).expect("it is sent");
        self.stream.read_exact(&mut self.reply).expect("it is answered");
        let replies = self.reply.chunks(if is_get { hit } else { stored });
        let is_right = |(reply, key): &(&[u8], &[u8; 16])| match is_get {
            true => reply[6..22] == **key && reply[one.len()..][..32] == VALUE,
            false => *reply == b"STORED\r\n",
        };
        replies.zip(keys).filter(is_right).count()
    }
}

fn requests(is_get: bool, keys: &[[u8; 16]]) -> Vec<DatagramRequest<'_>> {
    keys.iter()
        .map(|key| match is_get {
            true => DatagramRequest::Get(key),
            false => DatagramRequest::Set(key, &VALUE, None),
        })
        .collect()
}

/// Datagrams over loopback.
pub(crate) struct Datagrams(pub(crate) DatagramClient);

impl Ask for Datagrams {
    fn ask(&mut self, is_get: bool, keys: &[[u8; 16]]) -> usize {
        let expected = if is_get { &VALUE[..] } else { &[] };
        let mut right = 0;
        self.0
            .exchange(&requests(is_get, keys), |_, outcome, value| {
                right += usize::from(outcome == DatagramOutcome::Done && value == expected);
            })
            .expect("it is answered");
        right
    }
}

/// Rings of memory.
pub(crate) struct Rings(pub(crate) RingClient);

impl Ask for Rings {
    fn ask(&mut self, is_get: bool, keys: &[[u8; 16]]) -> usize {
        let expected = if is_get { &VALUE[..] } else { &[] };
        let mut right = 0;
        self.0
            .exchange(&requests(is_get, keys), |_, outcome, value| {
                right += usize::from(outcome == DatagramOutcome::Done && value == expected);
            })
            .expect("it is answered");
        right
    }
}
