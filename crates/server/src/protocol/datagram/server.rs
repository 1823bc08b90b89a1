//! The sockets and threads of the datagram ports.

use super::format::{PortDirectory, SharedKey};
use super::port::DatagramPort;
use super::routing::{BURST, PortForwarder, PortRouting, PortWaker};
use crate::cache::CacheContext;
use crate::error::{Error, Result};
use crate::options::Exposure;
use alluvium_device::datagrams::{DatagramBurst, receive_trains};
use parking_lot::Mutex;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum size of a datagram in bytes. Larger items must be accessed through other protocols.
pub const MOST_DATAGRAM: usize = 8 << 10;

/// How often an idle port checks whether it must stop.
const LOOK: Duration = Duration::from_millis(50);

/// Maximum number of ports whose directory still fits into a datagram.
const MOST_PORTS: usize = 1 << 10;

/// Options for serving datagrams.
///
/// ```
/// use alluvium_server::DatagramOptions;
/// let options = DatagramOptions::new("127.0.0.1:0".parse().unwrap());
/// assert!(options.ports >= 1 && options.key.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct DatagramOptions {
    /// Address of the first port. The other ports use the following port numbers or, if the port
    /// number is 0, free ones.
    pub address: SocketAddr,
    /// Number of ports, each with a socket and a thread. Defaults to the number of processors.
    pub ports: usize,
    /// The shared key with which clients must authenticate their requests, or `None` if they need
    /// not.
    pub key: Option<Vec<u8>>,
    /// Whether to serve clients on other machines even without a shared key.
    pub exposure: Exposure,
    /// Who routes requests to the port that owns their key.
    pub direction: PortRouting,
}

impl DatagramOptions {
    /// Returns options for one port per processor, the first of them at `address`.
    #[must_use]
    pub fn new(address: SocketAddr) -> DatagramOptions {
        DatagramOptions {
            address,
            ports: std::thread::available_parallelism().map_or(1, usize::from),
            key: None,
            exposure: Exposure::default(),
            direction: PortRouting::default(),
        }
    }
}

/// A port's receive statistics. Since a single system call receives all waiting datagrams, a busier
/// port needs fewer calls per datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortFigures {
    /// Number of system calls that received at least one datagram.
    pub bursts: u64,
    /// Number of datagrams received, including unanswered ones.
    pub datagrams: u64,
}

/// The counters that a running port updates.
#[derive(Default)]
struct PortCounters {
    bursts: AtomicU64,
    datagrams: AtomicU64,
}

/// A cache's datagram ports, which serve requests until they are stopped.
pub(crate) struct DatagramServer {
    pub(crate) address: SocketAddr,
    counted: Vec<Arc<PortCounters>>,
    is_stopping: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl DatagramServer {
    /// Opens the sockets of all ports and starts their threads.
    ///
    /// # Errors
    /// [`Error::Unprotected`] if other machines could access the cache without a key;
    /// [`Error::Listen`] if a socket cannot be opened; [`Error::Cache`] if the number of ports is
    /// invalid.
    pub(crate) fn start(cached: &Arc<CacheContext>, options: &DatagramOptions) -> Result<DatagramServer> {
        let address = options.address;
        if options.key.is_none() && options.exposure == Exposure::Protected && !address.ip().is_loopback() {
            return Err(Error::Unprotected { address });
        }
        if !(1..=MOST_PORTS).contains(&options.ports) {
            return Err(Error::Cache {
                why: format!(
                    "{} datagram ports were requested; choose 1 to {MOST_PORTS}",
                    options.ports
                ),
            });
        }
        let sockets = bind(address, options.ports)?;
        let ports = sockets.iter().map(|(_, address)| address.port()).collect();
        let directory = Arc::new(PortDirectory {
            seed: fastrand::u64(..),
            ports,
        });
        let key = options.key.as_deref().map(SharedKey::new);
        let first = sockets[0].1;
        let datagrams = DatagramServer {
            address: first,
            counted: sockets.iter().map(|_| Arc::default()).collect(),
            is_stopping: Arc::new(AtomicBool::new(false)),
            threads: Mutex::default(),
        };
        let bells: Vec<PortWaker> = sockets
            .iter()
            .map(|(_, address)| PortWaker::new(Some(reachable(*address))))
            .collect();
        let ways = match options.direction {
            PortRouting::Client => Vec::new(),
            PortRouting::Software => PortForwarder::between(&bells, MOST_DATAGRAM),
        };
        let mut ways = ways.into_iter().zip(bells);
        for (place, (socket, _)) in sockets.into_iter().enumerate() {
            let port = DatagramPort::new(&directory, place, key.clone());
            let others = ways.next();
            let (cached, is_stopping) = (Arc::clone(cached), Arc::clone(&datagrams.is_stopping));
            let counted = Arc::clone(&datagrams.counted[place]);
            let thread = std::thread::Builder::new()
                .name("alluvium-port".to_owned())
                .spawn(move || run(&socket, port, others, &cached, &counted, &is_stopping))?;
            datagrams.threads.lock().push(thread);
        }
        Ok(datagrams)
    }

    /// Returns each port's receive statistics.
    pub(crate) fn figures(&self) -> impl Iterator<Item = PortFigures> {
        self.counted.iter().map(|counted| PortFigures {
            bursts: counted.bursts.load(Ordering::Relaxed),
            datagrams: counted.datagrams.load(Ordering::Relaxed),
        })
    }

    /// Stops all ports. They still answer the datagrams received so far.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("the thread of a datagram port has panicked");
            }
        }
    }
}

impl Drop for DatagramServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Binds sockets to consecutive ports beginning with `first`, or to free ports if its port number
/// is 0.
fn bind(first: SocketAddr, ports: usize) -> Result<Vec<(UdpSocket, SocketAddr)>> {
    (0..ports)
        .map(|place| {
            let mut address = first;
            if first.port() != 0 {
                let port = usize::from(first.port()) + place;
                let port = u16::try_from(port).map_err(|_| Error::Cache {
                    why: format!(
                        "{ports} datagram ports beginning at {} would exceed port 65535; choose fewer ports \
                         or a lower first port",
                        first.port()
                    ),
                })?;
                address.set_port(port);
            }
            let failed = |cause| Error::Listen { address, cause };
            let socket = UdpSocket::bind(address).map_err(failed)?;
            socket.set_read_timeout(Some(LOOK)).map_err(failed)?;
            receive_trains(&socket);
            let bound = socket.local_addr().map_err(failed)?;
            Ok((socket, bound))
        })
        .collect()
}

/// Returns an address through which this machine can send datagrams to its own socket.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
}

/// Receives and executes bursts of datagrams until the port is stopped. If `others` contains
/// channels to the other ports, forwards requests for their keys.
fn run(
    socket: &UdpSocket,
    mut port: DatagramPort,
    mut others: Option<(PortForwarder, PortWaker)>,
    cached: &CacheContext,
    counted: &PortCounters,
    is_stopping: &AtomicBool,
) {
    let mut burst = DatagramBurst::new(BURST, MOST_DATAGRAM);
    let counters = &cached.common.counters;
    while !is_stopping.load(Ordering::Acquire) {
        if let Some((handovers, bell)) = &mut others {
            bell.will_wait();
            if handovers.are_waiting() {
                bell.wakes();
                handovers.serve(&mut port, &cached.content);
                continue;
            }
        }
        let received = burst.receive(socket);
        if let Some((_, bell)) = &others {
            bell.wakes();
        }
        let count = match received {
            Ok(count) => count,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                continue;
            }
            Err(error) => {
                // The kernel uses this call to report, for example, that an earlier reply could not
                // be delivered.
                tracing::debug!(%error, "cannot receive a datagram");
                continue;
            }
        };
        counted.bursts.fetch_add(1, Ordering::Relaxed);
        counted.datagrams.fetch_add(count as u64, Ordering::Relaxed);
        let content = &cached.content;
        match &mut others {
            Some((handovers, _)) => {
                handovers.execute(&mut port, content, &mut burst, count, Some(socket), is_stopping);
            }
            None => port.execute(content, &mut burst, count),
        }
        counters.commands.fetch_add(count as u64, Ordering::Relaxed);
        if let Err(error) = burst.send(socket, count) {
            tracing::debug!(%error, "cannot send a reply");
        }
    }
}
