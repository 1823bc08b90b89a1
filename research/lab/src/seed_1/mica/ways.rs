//! M1, M2, M3, M5, M6, M8, M11: requests that arrive through rings in shared memory and as
//! datagrams.

use super::requests::{Items, LARGE, Mix, SEED, SMALL, Skew, TINY};
use crate::entry::{Procedure, Work};
use crate::measured::Measured;
use crate::seed_1::harness::{at_name, at_number, line, lines};
use alluvium_server::datagram::Direction;
use alluvium_server::datagram::format::Outcome;
use alluvium_server::{CacheMemory, CacheServer, DatagramAnswer, DatagramClient, DatagramOptions};
use alluvium_server::{DatagramRequest, RingClient, RingOptions, ServerOptions};
use anyhow::{Result, ensure};
use std::hint::black_box;
use std::time::{Duration, Instant};

const RATE: &str = "rate";

/// Number of requests in flight.
const BATCH: usize = 64;

/// Minimum percentage of gets that must find their item.
const LEAST_HITS: usize = 90;

/// Maximum number of requests in a measurement; loopback is slow.
const MOST_REQUESTS: usize = 2 << 20;

const QUICK: u64 = 5000;
const FULL: u64 = 1 << 20;
const MOST: u64 = 32 << 20;

pub(super) const M1: Procedure = Procedure {
    id: "seed-1/M1",
    ours: &[("requests a second", |measured| lines(measured, RATE))],
    work: Work::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: tiny,
    },
};

pub(super) const M2: Procedure = Procedure {
    id: "seed-1/M2",
    ours: &[("requests a second", |measured| lines(measured, RATE))],
    work: Work::Here {
        quick: QUICK,
        full: FULL,
        most: 4 << 20,
        measure: sizes,
    },
};

pub(super) const M3: Procedure = Procedure {
    id: "seed-1/M3",
    ours: &[("datagrams received together", |measured| lines(measured, RATE))],
    work: Work::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: bursts,
    },
};

pub(super) const M5: Procedure = Procedure {
    id: "seed-1/M5",
    ours: &[("latency", |measured| lines(measured, RATE))],
    work: Work::Here {
        quick: QUICK,
        full: 200_000,
        most: MOST,
        measure: latency,
    },
};

pub(super) const M6: Procedure = Procedure {
    id: "seed-1/M6",
    ours: &[("requests a second", |measured| lines(measured, RATE))],
    work: Work::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: ports,
    },
};

pub(super) const M8: Procedure = Procedure {
    id: "seed-1/M8",
    ours: &[("software / client", |measured| lines(measured, RATE))],
    work: Work::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: direction,
    },
};

pub(super) const M11: Procedure = Procedure {
    id: "seed-1/M11",
    ours: &[("requests a second", |measured| lines(measured, RATE))],
    work: Work::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: made,
    },
};

/// A transport to a cache.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Rings,
    Datagrams,
}

enum Client {
    Rings(RingClient),
    Datagrams(Box<DatagramClient>),
}

impl Client {
    /// Executes requests. Returns the number of gets that found a value.
    fn ask(&mut self, requests: &[DatagramRequest<'_>]) -> Result<usize> {
        let mut found = 0;
        match self {
            Client::Rings(client) => client.exchange(requests, |_, outcome, value| {
                found += usize::from(outcome == Outcome::Done && !value.is_empty());
            })?,
            Client::Datagrams(client) => {
                let answers = client.execute(requests)?;
                let has_value = |answer: &&DatagramAnswer| matches!(answer, DatagramAnswer::Done(value) if !value.is_empty());
                found = answers.iter().filter(has_value).count();
            }
        }
        Ok(found)
    }
}

/// A cache that contains all items of a mix, and a client connected to it.
struct Cache {
    server: CacheServer,
    client: Client,
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.server.stop();
        self.server.join();
    }
}

impl Cache {
    fn start(mix: Mix, way: Way, ports: usize, direction: Direction) -> Result<Cache> {
        ensure!(mix.count > 0, "a cache has keys");
        let bytes = mix.count as usize * (mix.items.bytes() + 64) * 2 + (32 << 20);
        let options = ServerOptions {
            loops: Some(1),
            ..ServerOptions::default()
        };
        let server = CacheServer::start(CacheMemory::new(bytes as u64), options)?;
        let client = match way {
            Way::Rings => {
                let options = RingOptions {
                    direction,
                    ..RingOptions::new(ports, 1)
                };
                Client::Rings(server.serve_rings(&options)?.remove(0))
            }
            Way::Datagrams => {
                let options = DatagramOptions {
                    ports,
                    direction,
                    ..DatagramOptions::new(([127, 0, 0, 1], 0).into())
                };
                let mut client = DatagramClient::connect(server.serve_datagrams(&options)?, None)?;
                client.set_direction(direction);
                Client::Datagrams(Box::new(client))
            }
        };
        let mut cache = Cache { server, client };
        cache.fill(mix)?;
        Ok(cache)
    }

    fn fill(&mut self, mix: Mix) -> Result<()> {
        let numbers: Vec<u64> = (0..mix.count).collect();
        for batch in numbers.chunks(BATCH) {
            let keys = keys(mix.items, batch.iter().copied());
            let sets: Vec<_> = keys
                .iter()
                .map(|key| DatagramRequest::Set(&key[..mix.items.key_bytes], mix.items.value(), None))
                .collect();
            self.client.ask(&sets)?;
        }
        Ok(())
    }

    /// Executes the requests of a mix in batches of `batch`. Calls `took` with the time of each
    /// batch. Returns millions of requests per second.
    fn serve(&mut self, mix: Mix, batch: usize, mut took: impl FnMut(Duration)) -> Result<f64> {
        let drawn: Vec<_> = mix.draw().take(MOST_REQUESTS).collect();
        let (mut gets, mut found) = (0, 0);
        let began = Instant::now();
        for drawn in drawn.chunks(batch) {
            let keys = keys(mix.items, drawn.iter().map(|drawn| drawn.number));
            let requests: Vec<_> = keys
                .iter()
                .zip(drawn)
                .map(|(key, drawn)| match (&key[..mix.items.key_bytes], drawn.is_get) {
                    (key, true) => DatagramRequest::Get(key),
                    (key, false) => DatagramRequest::Set(key, mix.items.value(), None),
                })
                .collect();
            let asked = Instant::now();
            found += self.client.ask(&requests)?;
            took(asked.elapsed());
            gets += drawn.iter().filter(|drawn| drawn.is_get).count();
        }
        let seconds = began.elapsed().as_secs_f64();
        ensure!(
            found * 100 >= gets * LEAST_HITS,
            "{found} of {gets} gets found their item"
        );
        Ok(drawn.len() as f64 / seconds / 1e6)
    }
}

fn keys(items: Items, numbers: impl Iterator<Item = u64>) -> Vec<[u8; 128]> {
    numbers
        .map(|number| {
            let mut key = [0; 128];
            items.write_key(number, &mut key);
            key
        })
        .collect()
}

fn mix(items: Items, count: u64, skew: Skew, get_percent: u32) -> Mix {
    Mix {
        items,
        count,
        skew,
        get_percent,
    }
}

fn measured(points: Vec<(crate::entry::At, f64)>) -> Measured {
    Measured {
        counts: vec![line(RATE, "alluvium", points)],
        ..Measured::default()
    }
}

const SKEWS: [(&str, Skew); 2] = [("uniform", Skew::Uniform), ("skewed", Skew::Zipf)];

fn tiny(count: u64) -> Result<Measured> {
    let mut points = Vec::new();
    for (name, skew) in SKEWS {
        let mix = mix(TINY, count, skew, 50);
        let mut cache = Cache::start(mix, Way::Rings, 1, Direction::Client)?;
        points.push(at_name(name, cache.serve(mix, BATCH, |_| ())?));
    }
    Ok(measured(points))
}

fn sizes(count: u64) -> Result<Measured> {
    let mut points = Vec::new();
    for (items, names) in [
        (SMALL, ["small, 50 % gets", "small, 95 % gets"]),
        (LARGE, ["large, 50 % gets", "large, 95 % gets"]),
    ] {
        for (name, get_percent) in names.into_iter().zip([50, 95]) {
            let mix = mix(items, count, Skew::Uniform, get_percent);
            let mut cache = Cache::start(mix, Way::Rings, 1, Direction::Client)?;
            points.push(at_name(name, cache.serve(mix, BATCH, |_| ())?));
        }
    }
    Ok(measured(points))
}

fn bursts(count: u64) -> Result<Measured> {
    const PORTS: usize = 8;
    let mut points = Vec::new();
    for (name, skew) in SKEWS {
        let mix = mix(TINY, count, skew, 50);
        let mut cache = Cache::start(mix, Way::Datagrams, PORTS, Direction::Client)?;
        let before = cache.server.datagram_figures();
        cache.serve(mix, 2 * BATCH, |_| ())?;
        let after = cache.server.datagram_figures();
        let received = before
            .iter()
            .zip(after)
            .map(|(before, after)| (after.datagrams - before.datagrams, after.bursts - before.bursts));
        let (datagrams, bursts) = received.max().unwrap_or_default();
        ensure!(bursts > 0, "a port has received datagrams");
        points.push(at_name(name, datagrams as f64 / bursts as f64));
    }
    Ok(measured(points))
}

fn latency(count: u64) -> Result<Measured> {
    let mut counts = Vec::new();
    for (whose, way) in [("rings", Way::Rings), ("datagrams", Way::Datagrams)] {
        let mix = mix(TINY, count, Skew::Uniform, 50);
        let mut cache = Cache::start(mix, way, 1, Direction::Client)?;
        let mut all = Vec::new();
        cache.serve(mix, 1, |took| all.push(took))?;
        all.sort_unstable();
        let part = |percent: usize| all[all.len() * percent / 100].as_secs_f64() * 1e6;
        let points = [("5 %", 5), ("50 %", 50), ("95 %", 95)];
        let points = points.map(|(name, percent)| at_name(name, part(percent)));
        counts.push(line(RATE, whose, points.to_vec()));
    }
    Ok(Measured {
        counts,
        ..Measured::default()
    })
}

fn ports(count: u64) -> Result<Measured> {
    let mut points = Vec::new();
    for ports in [1, 2, 4, 8, 16] {
        let mix = mix(TINY, count, Skew::Uniform, 50);
        let mut cache = Cache::start(mix, Way::Datagrams, ports, Direction::Client)?;
        points.push(at_number(ports as f64, cache.serve(mix, 2 * BATCH, |_| ())?));
    }
    Ok(measured(points))
}

fn direction(count: u64) -> Result<Measured> {
    let mut counts = Vec::new();
    for (whose, way) in [("rings", Way::Rings), ("datagrams", Way::Datagrams)] {
        let mut points = Vec::new();
        for (name, skew) in SKEWS {
            let mix = mix(TINY, count, skew, 50);
            let rate = |direction| Cache::start(mix, way, 2, direction)?.serve(mix, BATCH, |_| ());
            points.push(at_name(
                name,
                rate(Direction::Software)? / rate(Direction::Client)?,
            ));
        }
        counts.push(line(RATE, whose, points));
    }
    Ok(Measured {
        counts,
        ..Measured::default()
    })
}

fn made(count: u64) -> Result<Measured> {
    use alluvium_server::datagram::format::{self, Datagram, Header, Operation, Way};
    ensure!(count > 0, "requests have keys");
    let mut points = Vec::new();
    for (name, items) in [("tiny", TINY), ("small", SMALL), ("large", LARGE)] {
        let mut frame = [0; 2048];
        let mut key = [0; 128];
        let mut random = fastrand::Rng::with_seed(SEED);
        let requests = MOST_REQUESTS as u64 / 8 + count;
        let began = Instant::now();
        for sequence in 0..requests {
            items.write_key(random.u64(..count), &mut key);
            let key = &key[..items.key_bytes];
            let is_get = random.bool();
            let header = Header {
                operation: if is_get { Operation::Get } else { Operation::Set },
                way: Way::Request,
                sequence: sequence as u32,
                client: SEED,
                hash: alluvium_base::checksum::seeded(SEED, key),
                expires_in_ms: 0,
                echo: 0,
            };
            let value = if is_get { &[] } else { items.value() };
            let length = format::write(&Datagram { header, key, value }, &mut frame);
            ensure!(
                black_box(length).is_some(),
                "a frame has space for the longest request"
            );
        }
        let seconds = began.elapsed().as_secs_f64();
        points.push(at_name(name, requests as f64 / seconds / 1e6));
    }
    Ok(measured(points))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_a_figure() {
        for (measure, count) in [
            (tiny as fn(u64) -> Result<Measured>, 2),
            (sizes, 4),
            (bursts, 2),
            (latency, 3),
            (ports, 5),
            (direction, 2),
            (made, 3),
        ] {
            for line in lines(&measure(300).unwrap(), RATE) {
                assert_eq!(line.points.len(), count, "{line:?}");
                assert!(line.points.iter().all(|point| point.value > 0.0), "{line:?}");
            }
        }
    }
}
