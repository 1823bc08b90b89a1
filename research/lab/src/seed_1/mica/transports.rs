//! M1, M2, M3, M5, M6, M8, M11: requests that arrive through rings in shared memory and as
//! datagrams.

use super::requests::{ItemSizes, LARGE, RequestMix, RequestSkew, SEED, SMALL, TINY};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::MeasurementSet;
use crate::seed_1::harness::{at_name, at_number, line, lines};
use alluvium_server::datagram::PortRouting;
use alluvium_server::datagram::format::DatagramOutcome;
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

pub(super) const M1: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/M1",
    ours: &[("requests a second", |measured| lines(measured, RATE))],
    work: ExperimentMethod::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: tiny,
    },
};

pub(super) const M2: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/M2",
    ours: &[("requests a second", |measured| lines(measured, RATE))],
    work: ExperimentMethod::Here {
        quick: QUICK,
        full: FULL,
        most: 4 << 20,
        measure: sizes,
    },
};

pub(super) const M3: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/M3",
    ours: &[("datagrams received together", |measured| lines(measured, RATE))],
    work: ExperimentMethod::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: bursts,
    },
};

pub(super) const M5: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/M5",
    ours: &[("latency", |measured| lines(measured, RATE))],
    work: ExperimentMethod::Here {
        quick: QUICK,
        full: 200_000,
        most: MOST,
        measure: latency,
    },
};

pub(super) const M6: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/M6",
    ours: &[("requests a second", |measured| lines(measured, RATE))],
    work: ExperimentMethod::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: ports,
    },
};

pub(super) const M8: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/M8",
    ours: &[("software / client", |measured| lines(measured, RATE))],
    work: ExperimentMethod::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: direction,
    },
};

pub(super) const M11: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/M11",
    ours: &[("requests a second", |measured| lines(measured, RATE))],
    work: ExperimentMethod::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: made,
    },
};

/// A transport to a cache.
#[derive(Clone, Copy, PartialEq)]
enum CacheTransport {
    Rings,
    Datagrams,
}

enum TransportClient {
    Rings(RingClient),
    Datagrams(Box<DatagramClient>),
}

impl TransportClient {
    /// Executes requests. Returns the number of gets that found a value.
    fn ask(&mut self, requests: &[DatagramRequest<'_>]) -> Result<usize> {
        let mut found = 0;
        match self {
            TransportClient::Rings(client) => client.exchange(requests, |_, outcome, value| {
                found += usize::from(outcome == DatagramOutcome::Done && !value.is_empty());
            })?,
            TransportClient::Datagrams(client) => {
                let answers = client.execute(requests)?;
                let has_value = |answer: &&DatagramAnswer| matches!(answer, DatagramAnswer::Done(value) if !value.is_empty());
                found = answers.iter().filter(has_value).count();
            }
        }
        Ok(found)
    }
}

/// A cache that contains all items of a mix, and a client connected to it.
struct ConnectedCache {
    server: CacheServer,
    client: TransportClient,
}

impl Drop for ConnectedCache {
    fn drop(&mut self) {
        self.server.stop();
        self.server.join();
    }
}

impl ConnectedCache {
    fn start(
        mix: RequestMix,
        way: CacheTransport,
        ports: usize,
        direction: PortRouting,
    ) -> Result<ConnectedCache> {
        ensure!(mix.count > 0, "a cache has keys");
        let bytes = mix.count as usize * (mix.items.bytes() + 64) * 2 + (32 << 20);
        let options = ServerOptions {
            loops: Some(1),
            ..ServerOptions::default()
        };
        let server = CacheServer::start(CacheMemory::new(bytes as u64), options)?;
        let client = match way {
            CacheTransport::Rings => {
                let options = RingOptions {
                    direction,
                    ..RingOptions::new(ports, 1)
                };
                TransportClient::Rings(server.serve_rings(&options)?.remove(0))
            }
            CacheTransport::Datagrams => {
                let options = DatagramOptions {
                    ports,
                    direction,
                    ..DatagramOptions::new(([127, 0, 0, 1], 0).into())
                };
                let mut client = DatagramClient::connect(server.serve_datagrams(&options)?, None)?;
                client.set_direction(direction);
                TransportClient::Datagrams(Box::new(client))
            }
        };
        let mut cache = ConnectedCache { server, client };
        cache.fill(mix)?;
        Ok(cache)
    }

    fn fill(&mut self, mix: RequestMix) -> Result<()> {
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
    fn serve(&mut self, mix: RequestMix, batch: usize, mut took: impl FnMut(Duration)) -> Result<f64> {
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

fn keys(items: ItemSizes, numbers: impl Iterator<Item = u64>) -> Vec<[u8; 128]> {
    numbers
        .map(|number| {
            let mut key = [0; 128];
            items.write_key(number, &mut key);
            key
        })
        .collect()
}

fn mix(items: ItemSizes, count: u64, skew: RequestSkew, get_percent: u32) -> RequestMix {
    RequestMix {
        items,
        count,
        skew,
        get_percent,
    }
}

fn measured(points: Vec<(crate::entry::AxisPosition, f64)>) -> MeasurementSet {
    MeasurementSet {
        counts: vec![line(RATE, "alluvium", points)],
        ..MeasurementSet::default()
    }
}

const SKEWS: [(&str, RequestSkew); 2] = [("uniform", RequestSkew::Uniform), ("skewed", RequestSkew::Zipf)];

fn tiny(count: u64) -> Result<MeasurementSet> {
    let mut points = Vec::new();
    for (name, skew) in SKEWS {
        let mix = mix(TINY, count, skew, 50);
        let mut cache = ConnectedCache::start(mix, CacheTransport::Rings, 1, PortRouting::Client)?;
        points.push(at_name(name, cache.serve(mix, BATCH, |_| ())?));
    }
    Ok(measured(points))
}

fn sizes(count: u64) -> Result<MeasurementSet> {
    let mut points = Vec::new();
    for (items, names) in [
        (SMALL, ["small, 50 % gets", "small, 95 % gets"]),
        (LARGE, ["large, 50 % gets", "large, 95 % gets"]),
    ] {
        for (name, get_percent) in names.into_iter().zip([50, 95]) {
            let mix = mix(items, count, RequestSkew::Uniform, get_percent);
            let mut cache = ConnectedCache::start(mix, CacheTransport::Rings, 1, PortRouting::Client)?;
            points.push(at_name(name, cache.serve(mix, BATCH, |_| ())?));
        }
    }
    Ok(measured(points))
}

fn bursts(count: u64) -> Result<MeasurementSet> {
    const PORTS: usize = 8;
    let mut points = Vec::new();
    for (name, skew) in SKEWS {
        let mix = mix(TINY, count, skew, 50);
        let mut cache = ConnectedCache::start(mix, CacheTransport::Datagrams, PORTS, PortRouting::Client)?;
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

fn latency(count: u64) -> Result<MeasurementSet> {
    let mut counts = Vec::new();
    for (whose, way) in [
        ("rings", CacheTransport::Rings),
        ("datagrams", CacheTransport::Datagrams),
    ] {
        let mix = mix(TINY, count, RequestSkew::Uniform, 50);
        let mut cache = ConnectedCache::start(mix, way, 1, PortRouting::Client)?;
        let mut all = Vec::new();
        cache.serve(mix, 1, |took| all.push(took))?;
        all.sort_unstable();
        let part = |percent: usize| all[all.len() * percent / 100].as_secs_f64() * 1e6;
        let points = [("5 %", 5), ("50 %", 50), ("95 %", 95)];
        let points = points.map(|(name, percent)| at_name(name, part(percent)));
        counts.push(line(RATE, whose, points.to_vec()));
    }
    Ok(MeasurementSet {
        counts,
        ..MeasurementSet::default()
    })
}

fn ports(count: u64) -> Result<MeasurementSet> {
    let mut points = Vec::new();
    for ports in [1, 2, 4, 8, 16] {
        let mix = mix(TINY, count, RequestSkew::Uniform, 50);
        let mut cache = ConnectedCache::start(mix, CacheTransport::Datagrams, ports, PortRouting::Client)?;
        points.push(at_number(ports as f64, cache.serve(mix, 2 * BATCH, |_| ())?));
    }
    Ok(measured(points))
}

fn direction(count: u64) -> Result<MeasurementSet> {
    let mut counts = Vec::new();
    for (whose, way) in [
        ("rings", CacheTransport::Rings),
        ("datagrams", CacheTransport::Datagrams),
    ] {
        let mut points = Vec::new();
        for (name, skew) in SKEWS {
            let mix = mix(TINY, count, skew, 50);
            let rate = |direction| ConnectedCache::start(mix, way, 2, direction)?.serve(mix, BATCH, |_| ());
            points.push(at_name(
                name,
                rate(PortRouting::Software)? / rate(PortRouting::Client)?,
            ));
        }
        counts.push(line(RATE, whose, points));
    }
    Ok(MeasurementSet {
        counts,
        ..MeasurementSet::default()
    })
}

fn made(count: u64) -> Result<MeasurementSet> {
    use alluvium_server::datagram::format::{
        self, Datagram, DatagramDirection, DatagramHeader, DatagramOperation,
    };
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
            let header = DatagramHeader {
                operation: if is_get {
                    DatagramOperation::Get
                } else {
                    DatagramOperation::Set
                },
                way: DatagramDirection::Request,
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
            (tiny as fn(u64) -> Result<MeasurementSet>, 2),
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
