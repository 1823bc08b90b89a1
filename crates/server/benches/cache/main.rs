//! Ways into a cache: `cargo bench -p alluvium-server --bench cache -- [quick]`.
//!
//! One thread asks; the server has two loops or two ports. The same requests go by TCP (memcached's
//! text protocol), by datagrams and by rings of memory, as many under way each time. Figures are
//! requests in a second of wall time, and processor time of the whole process for a request, of
//! the system and of ours.

mod client;

use alluvium_server::datagram::PortRouting;
use alluvium_server::{CacheMemory, CacheServer, DatagramClient, DatagramOptions};
use alluvium_server::{RingOptions, ServerOptions};
use client::{Ask, Datagrams, Drawn, Rings, Tcp};
use std::time::Instant;

/// How much is done.
struct Scale {
    keys: u64,
    requests: usize,
    cache_bytes: u64,
}

const FULL: Scale = Scale {
    keys: 1 << 20,
    requests: 2 << 20,
    cache_bytes: 512 << 20,
};
const QUICK: Scale = Scale {
    keys: 1 << 16,
    requests: 1 << 17,
    cache_bytes: 64 << 20,
};
const TINY: Scale = Scale {
    keys: 100,
    requests: 200,
    cache_bytes: 4 << 20,
};

const THREADS: usize = 2;

/// Requests under way.
const BATCHES: [usize; 4] = [1, 16, 64, 1024];

/// A way into a cache.
#[derive(Clone, Copy)]
enum Way {
    Tcp,
    Datagrams(PortRouting),
    Rings(PortRouting),
}

/// Every way, by its name.
const WAYS: [(&str, Way); 5] = [
    ("tcp", Way::Tcp),
    ("datagrams", Way::Datagrams(PortRouting::Client)),
    ("rings", Way::Rings(PortRouting::Client)),
    ("datagrams software", Way::Datagrams(PortRouting::Software)),
    ("rings software", Way::Rings(PortRouting::Software)),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asks = |name: &str| arguments.iter().any(|argument| argument == name);
    let scale = match (asks("--bench"), asks("quick")) {
        (false, _) => TINY,
        (true, true) => QUICK,
        (true, false) => FULL,
    };
    println!("way                 kind   batch      requests/s   us/request: system   ours");
    let mut rates = Vec::new();
    // One after the other: a way that waits for requests takes time of the processor, too.
    for (name, way) in WAYS {
        let options = ServerOptions {
            memcached: Some("127.0.0.1:0".parse().expect("an address")),
            loops: Some(THREADS),
            ..ServerOptions::default()
        };
        let cache = CacheServer::start(CacheMemory::new(scale.cache_bytes), options).expect("a cache");
        let mut asker = way.enter(&cache);
        for batch in BATCHES {
            for is_get in [false, true] {
                let drawn = Drawn::new(scale.keys, scale.requests.min(scale.requests / 8 * batch), is_get);
                let rate = measure(name, asker.as_mut(), &drawn, batch);
                rates.push((name, is_get, batch, rate));
            }
        }
        drop(asker);
        cache.stop();
        cache.join();
    }
    let rate = |name: &str, is_get: bool, batch: usize| {
        let found = rates
            .iter()
            .find(|row| (row.0, row.1, row.2) == (name, is_get, batch));
        found.expect("it was measured").3
    };
    println!();
    for (one, other, is_get) in [
        ("datagrams", "tcp", true),
        ("datagrams", "tcp", false),
        ("datagrams software", "datagrams", true),
        ("rings software", "rings", true),
        ("rings software", "rings", false),
    ] {
        let kind = kind(is_get);
        for batch in BATCHES {
            let ratio = rate(one, is_get, batch) / rate(other, is_get, batch);
            println!("{one} / {other}, {kind}, batch {batch}: {ratio:.2}");
        }
    }
    println!("Lim 2015, table 5.1: software-directed 33.9 and 28.1 of 76.9 and 70.4 Mops, 0.44 and 0.40");
}

fn kind(is_get: bool) -> &'static str {
    if is_get { "get" } else { "set" }
}

impl Way {
    /// Goes this way into a cache.
    fn enter(self, cache: &CacheServer) -> Box<dyn Ask> {
        match self {
            Way::Tcp => Box::new(Tcp::connect(cache.memcached_addr().expect("it listens"))),
            Way::Datagrams(direction) => {
                let options = DatagramOptions {
                    ports: THREADS,
                    direction,
                    ..DatagramOptions::new("127.0.0.1:0".parse().expect("an address"))
                };
                let address = cache.serve_datagrams(&options).expect("ports");
                let mut client = DatagramClient::connect(address, None).expect("a client");
                client.set_direction(direction);
                Box::new(Datagrams(client))
            }
            Way::Rings(direction) => {
                let options = RingOptions {
                    direction,
                    ..RingOptions::new(THREADS, 1)
                };
                Box::new(Rings(cache.serve_rings(&options).expect("rings").remove(0)))
            }
        }
    }
}

/// Has all requests executed, and prints what that took. Returns requests a second.
fn measure(name: &str, way: &mut dyn Ask, drawn: &Drawn, batch: usize) -> f64 {
    let before = processor_us();
    let began = Instant::now();
    let mut hits = 0;
    for requests in drawn.batches(batch) {
        hits += way.ask(drawn.is_get, requests);
    }
    let seconds = began.elapsed().as_secs_f64();
    let count = drawn.count() as f64;
    assert_eq!(hits, drawn.count(), "every key has its value: {name}");
    let after = processor_us();
    println!(
        "{name:18} {:>5} {batch:7} {:15.0} {:20.3} {:6.3}",
        kind(drawn.is_get),
        count / seconds,
        (after.1 - before.1) / count,
        (after.0 - before.0) / count,
    );
    count / seconds
}

/// Processor time of this process so far, in microseconds: ours, and the system's.
fn processor_us() -> (f64, f64) {
    let times = alluvium_device::machine::processor_time().unwrap_or_default();
    (times.user_us as f64, times.system_us as f64)
}
