//! Sends datagrams over a network that loses, duplicates and reorders them.

use alluvium_server::datagram::PortRouting;
use alluvium_server::datagram::format::{
    self, Datagram, DatagramDirection, DatagramHeader, DatagramOperation, PortDirectory,
};
use alluvium_server::{
    CacheMemory, CacheServer, DatagramAnswer, DatagramClient, DatagramOptions, DatagramRequest, Error,
    RingOptions,
};
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

fn server(ports: usize, key: Option<&[u8]>) -> (CacheServer, SocketAddr) {
    directed(ports, key, PortRouting::Client)
}

fn directed(ports: usize, key: Option<&[u8]>, direction: PortRouting) -> (CacheServer, SocketAddr) {
    let cache = CacheServer::start(CacheMemory::new(16 << 20), crate::client::options()).unwrap();
    let options = DatagramOptions {
        ports,
        key: key.map(<[u8]>::to_vec),
        direction,
        ..DatagramOptions::new("127.0.0.1:0".parse().unwrap())
    };
    let address = cache.serve_datagrams(&options).unwrap();
    (cache, address)
}

/// Numbers of datagrams that the network has lost, duplicated and delayed.
#[derive(Debug, Default)]
struct Counts {
    lost: AtomicU64,
    doubled: AtomicU64,
    late: AtomicU64,
}

/// A network between a client and a server, which rewrites the addresses in the directory.
struct Network {
    address: SocketAddr,
    counts: Arc<Counts>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Network {
    fn new(server: SocketAddr, seed: u64) -> Network {
        let directory = directory_of(server);
        let inner = directory.ports.iter().map(|&port| {
            let mut address = server;
            address.set_port(port);
            address
        });
        let outer: Vec<UdpSocket> = directory
            .ports
            .iter()
            .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
            .collect();
        let told = PortDirectory {
            seed: directory.seed,
            ports: outer
                .iter()
                .map(|socket| socket.local_addr().unwrap().port())
                .collect(),
        };
        let address = outer[0].local_addr().unwrap();
        let (counts, is_over) = (Arc::new(Counts::default()), Arc::new(AtomicBool::new(false)));
        let threads = outer
            .into_iter()
            .zip(inner)
            .enumerate()
            .map(|(place, (outer, to))| {
                let (counts, is_over, told) = (Arc::clone(&counts), Arc::clone(&is_over), told.clone());
                let random = fastrand::Rng::with_seed(seed + place as u64);
                std::thread::spawn(move || relay(&outer, to, random, &counts, &is_over, &told))
            });
        Network {
            address,
            threads: threads.collect(),
            counts,
            is_over,
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// Relays datagrams in both directions, with losses, duplicates and delays.
fn relay(
    outer: &UdpSocket,
    server: SocketAddr,
    mut random: fastrand::Rng,
    counts: &Counts,
    is_over: &AtomicBool,
    told: &PortDirectory,
) {
    let inner = UdpSocket::bind("127.0.0.1:0").unwrap();
    let wait = Some(Duration::from_micros(200));
    inner.set_read_timeout(wait).unwrap();
    outer.set_read_timeout(wait).unwrap();
    let mut client = None;
    let mut late: Vec<(Vec<u8>, bool)> = Vec::new();
    let mut buffer = vec![0; 1 << 14];
    let send = |bytes: &[u8], is_request: bool, client: Option<SocketAddr>| match (is_request, client) {
        (true, _) => drop(inner.send_to(bytes, server)),
        (false, Some(client)) => drop(outer.send_to(bytes, client)),
        (false, None) => {}
    };
    while !is_over.load(Ordering::Relaxed) {
        for is_request in [true, false] {
            let socket = if is_request { outer } else { &inner };
            let Ok((length, from)) = socket.recv_from(&mut buffer) else {
                continue;
            };
            let mut bytes = buffer[..length].to_vec();
            if is_request {
                client = Some(from);
            } else if let Some(reply) = format::read(&bytes)
                && reply.header.operation == DatagramOperation::Directory
            {
                let (header, key, value) = (reply.header, &[][..], told.encode());
                let changed = Datagram {
                    header,
                    key,
                    value: &value,
                };
                let length = format::write(&changed, &mut buffer).unwrap();
                bytes = buffer[..length].to_vec();
            }
            match random.u8(..20) {
                0..3 => drop(counts.lost.fetch_add(1, Ordering::Relaxed)),
                3..6 => {
                    counts.doubled.fetch_add(1, Ordering::Relaxed);
                    send(&bytes, is_request, client);
                    late.push((bytes, is_request));
                }
                6..9 => {
                    counts.late.fetch_add(1, Ordering::Relaxed);
                    late.push((bytes, is_request));
                }
                _ => send(&bytes, is_request, client),
            }
        }
        // Delayed datagrams arrive in random order, some of them much later.
        while !late.is_empty() && (late.len() > 40 || random.u8(..4) == 0) {
            let (bytes, is_request) = late.swap_remove(random.usize(..late.len()));
            send(&bytes, is_request, client);
        }
    }
}

fn directory_of(server: SocketAddr) -> PortDirectory {
    let header = DatagramHeader {
        operation: DatagramOperation::Directory,
        way: DatagramDirection::Request,
        sequence: 1,
        client: 1,
        hash: 0,
        expires_in_ms: 0,
        echo: 0,
    };
    let (key, value) = (&[][..], &[][..]);
    let mut bytes = [0; 1024];
    let length = format::write(&Datagram { header, key, value }, &mut bytes).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket.send_to(&bytes[..length], server).unwrap();
    let length = socket.recv(&mut bytes).unwrap();
    PortDirectory::decode(format::read(&bytes[..length]).unwrap().value).unwrap()
}

/// Sends random requests for a few keys, and compares the replies with a map.
fn compare(client: &mut DatagramClient, seed: u64, rounds: usize) {
    compare_with(|requests| client.execute(requests).unwrap(), seed, rounds);
}

fn compare_with(
    mut execute: impl FnMut(&[DatagramRequest<'_>]) -> Vec<DatagramAnswer>,
    seed: u64,
    rounds: usize,
) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut model: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    for round in 0..rounds {
        let batch: Vec<(u8, Vec<u8>, Vec<u8>)> = (0..random.usize(1..60))
            .map(|step| {
                let key = format!("key{}", random.u8(..30)).into_bytes();
                let value = format!("value {round} {step}").into_bytes();
                (random.u8(..4), key, value)
            })
            .collect();
        let requests: Vec<DatagramRequest<'_>> = batch
            .iter()
            .map(|(kind, key, value)| match kind {
                0 | 1 => DatagramRequest::Set(key, value, None),
                2 => DatagramRequest::Get(key),
                _ => DatagramRequest::Delete(key),
            })
            .collect();
        let answers = execute(&requests);
        for (request, answer) in requests.iter().zip(answers) {
            let expected = match request {
                DatagramRequest::Set(key, value, _) => {
                    model.insert(key.to_vec(), value.to_vec());
                    DatagramAnswer::Done(Vec::new())
                }
                DatagramRequest::Get(key) => match model.get(*key) {
                    Some(value) => DatagramAnswer::Done(value.clone()),
                    None => DatagramAnswer::Missing,
                },
                DatagramRequest::Delete(key) => match model.remove(*key) {
                    Some(_) => DatagramAnswer::Done(Vec::new()),
                    None => DatagramAnswer::Missing,
                },
            };
            assert_eq!(answer, expected, "seed {seed}, round {round}: {request:?}");
        }
    }
}

#[test]
fn requests_are_executed_once_over_a_network_that_loses_doubles_and_reorders() {
    for seed in [1, 100] {
        let (_cache, address) = server(2, None);
        let network = Network::new(address, seed);
        let mut client = DatagramClient::connect(network.address, None).unwrap();
        compare(&mut client, seed, 40);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &network.counts;
        assert!(
            count(&counts.lost) > 50 && count(&counts.doubled) > 50 && count(&counts.late) > 50,
            "{counts:?}"
        );
    }
}

#[test]
fn ports_hand_over_what_is_others_and_no_request_is_lost_or_executed_twice() {
    for (ports, key) in [(2, None), (4, Some(&b"secret"[..]))] {
        let (_cache, address) = directed(ports, key, PortRouting::Software);
        let mut client = DatagramClient::connect(address, key).unwrap();
        client.set_direction(PortRouting::Software);
        compare(&mut client, ports as u64, 40);
    }
    let (_cache, address) = directed(3, None, PortRouting::Software);
    let network = Network::new(address, 5);
    let mut client = DatagramClient::connect(network.address, None).unwrap();
    client.set_direction(PortRouting::Software);
    compare(&mut client, 5, 20);
    // The client sends some requests to the wrong port. A server that does not forward requests
    // must report this.
    let (_cache, address) = server(2, None);
    let mut client = DatagramClient::connect(address, None).unwrap();
    client.set_direction(PortRouting::Software);
    let keys: Vec<[u8; 1]> = (0..64).map(|key| [key]).collect();
    let requests: Vec<_> = keys.iter().map(|key| DatagramRequest::Get(key)).collect();
    let refused = client.execute(&requests).unwrap_err();
    assert!(refused.to_string().contains("wrong port"), "{refused}");
}

#[test]
fn rings_serve_what_the_other_protocols_do_and_end_with_the_server() {
    for direction in [PortRouting::Client, PortRouting::Software] {
        for (ports, frames, rounds) in [(1, 1, 3), (3, 5, 10), (2, 64, 40)] {
            let (cache, _) = server(1, None);
            let options = RingOptions {
                frames,
                direction,
                frame_bytes: 256,
                ..RingOptions::new(ports, 2)
            };
            let mut clients = cache.serve_rings(&options).unwrap();
            let mut redis = crate::client::Client::connect(cache.redis_addr().unwrap());
            let [one, other] = &mut clients[..] else {
                panic!("two clients")
            };
            compare_with(|requests| one.execute(requests).unwrap(), 3, rounds);
            assert_eq!(redis.ask("SET lake Constance"), "OK");
            let long = [1; 200];
            let answers = other
                .execute(&[
                    DatagramRequest::Get(b"lake"),
                    DatagramRequest::Set(b"long", &long, None),
                    DatagramRequest::Get(b"none"),
                ])
                .unwrap();
            let lake = DatagramAnswer::Done(b"Constance".to_vec());
            assert_eq!(answers, [lake, DatagramAnswer::TooLarge, DatagramAnswer::Missing]);
            cache.stop();
            cache.join();
            assert!(one.execute(&[DatagramRequest::Get(b"lake")]).is_err());
        }
    }
}

#[test]
fn ports_of_several_kinds_serve_the_same_items_side_by_side() {
    let (cache, first) = server(2, None);
    let options = DatagramOptions {
        ports: 2,
        direction: PortRouting::Software,
        ..DatagramOptions::new("127.0.0.1:0".parse().unwrap())
    };
    let second = cache.serve_datagrams(&options).unwrap();
    let mut ring = cache.serve_rings(&RingOptions::new(2, 1)).unwrap().remove(0);
    let set = [DatagramRequest::Set(b"k", b"v", None)];
    ring.execute(&set).unwrap();
    for address in [first, second] {
        let mut client = DatagramClient::connect(address, None).unwrap();
        let answers = client.execute(&[DatagramRequest::Get(b"k")]).unwrap();
        assert!(matches!(&answers[0], DatagramAnswer::Done(value) if value == b"v"));
    }
}

#[test]
fn two_clients_of_rings_share_their_ports() {
    let (cache, _) = server(1, None);
    for direction in [PortRouting::Client, PortRouting::Software] {
        let options = RingOptions {
            direction,
            ..RingOptions::new(3, 2)
        };
        let clients = cache.serve_rings(&options).unwrap();
        std::thread::scope(|scope| {
            for (number, mut client) in clients.into_iter().enumerate() {
                scope.spawn(move || {
                    let keys: Vec<String> = (0..500).map(|key| format!("{number} {key}")).collect();
                    for round in 0..5 {
                        let value = format!("{round}");
                        let pairs = keys.iter().flat_map(|key| {
                            let key = key.as_bytes();
                            [
                                DatagramRequest::Set(key, value.as_bytes(), None),
                                DatagramRequest::Get(key),
                            ]
                        });
                        let answers = client.execute(&pairs.collect::<Vec<_>>()).unwrap();
                        let expected = DatagramAnswer::Done(value.clone().into_bytes());
                        let gets = answers.iter().skip(1).step_by(2);
                        assert!(gets.clone().all(|answer| *answer == expected), "client {number}");
                    }
                });
            }
        });
    }
    let none = RingOptions::new(0, 1);
    let many = RingOptions {
        direction: PortRouting::Software,
        ..RingOptions::new(16, 1)
    };
    let short = RingOptions {
        frame_bytes: 10,
        ..RingOptions::new(1, 1)
    };
    for options in [none, many, short] {
        assert!(matches!(cache.serve_rings(&options), Err(Error::Cache { .. })));
    }
}

#[test]
fn both_datagrams_and_streams_see_the_same_items() {
    let (cache, address) = server(3, None);
    let mut client = DatagramClient::connect(address, None).unwrap();
    compare(&mut client, 7, 100);
    let mut redis = crate::client::Client::connect(cache.redis_addr().unwrap());
    let time = Some(Duration::from_millis(30));
    let set = [
        DatagramRequest::Set(b"river", b"Rhine", None),
        DatagramRequest::Set(b"soon", b"gone", time),
    ];
    client.execute(&set).unwrap();
    assert_eq!(redis.ask("GET river"), "\"Rhine\"");
    assert_eq!(redis.ask("SET lake Constance"), "OK");
    std::thread::sleep(Duration::from_millis(60));
    let long = vec![1; 9000];
    let answers = client
        .execute(&[
            DatagramRequest::Get(b"lake"),
            DatagramRequest::Get(b"soon"),
            DatagramRequest::Set(b"long", &long, None),
        ])
        .unwrap();
    let lake = DatagramAnswer::Done(b"Constance".to_vec());
    assert_eq!(answers, [lake, DatagramAnswer::Missing, DatagramAnswer::TooLarge]);
}

#[test]
fn what_is_no_datagram_harms_nothing() {
    let (_cache, address) = server(1, None);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..500 {
        let mut bytes: Vec<u8> = (0..random.usize(..300)).map(|_| random.u8(..)).collect();
        if bytes.len() > 4 && random.bool() {
            bytes[..4].copy_from_slice(b"aD\x01\x02");
        }
        socket.send_to(&bytes, address).unwrap();
    }
    let mut client = DatagramClient::connect(address, None).unwrap();
    compare(&mut client, 8, 5);
}

#[test]
fn a_shared_key_keeps_others_out_and_is_asked_for_where_others_could_come() {
    let (cache, address) = server(2, Some(b"secret"));
    let refused = DatagramClient::connect(address, Some(b"other"));
    assert!(refused.is_err());
    let mut client = DatagramClient::connect(address, Some(b"secret")).unwrap();
    compare(&mut client, 9, 20);
    let exposed = DatagramOptions::new("0.0.0.0:0".parse().unwrap());
    let refused = cache.serve_datagrams(&exposed);
    assert!(matches!(refused, Err(Error::Unprotected { .. })), "{refused:?}");
    let beyond = DatagramOptions {
        ports: 3,
        ..DatagramOptions::new("127.0.0.1:65535".parse().unwrap())
    };
    assert!(matches!(
        cache.serve_datagrams(&beyond),
        Err(Error::Cache { .. } | Error::Listen { .. })
    ));
}
