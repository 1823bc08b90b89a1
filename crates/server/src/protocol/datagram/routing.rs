//! Routes requests to the port that owns their key. Either the client sends a request to that port,
//! or the receiving port forwards it (Lim 2015, §5.3.1: client-assisted and software-only
//! direction).

use super::format::{self, DatagramDirection, DatagramOperation};
use super::frames::FrameBatch;
use super::port::DatagramPort;
use crate::cache::ItemCache;
use alluvium_hashes::mica::{RingRequester, RingResponder, ring};
use smallvec::SmallVec;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Who routes requests to the port that owns their key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortRouting {
    /// The client sends each request to the right port. A port rejects requests for keys that it
    /// does not own.
    #[default]
    Client,
    /// The ports forward requests for other ports' keys and return the replies to the client. This
    /// is slower, but a client needs to know only one port.
    Software,
}

/// Maximum number of requests received and forwarded in one burst.
pub(super) const BURST: usize = 32;

/// A burst's forwarded requests, each with its index in the burst and the port that owns its key.
type ForwardedRequests = SmallVec<[(usize, usize); BURST]>;

/// Wakes a port that waits for datagrams.
#[derive(Clone, Debug)]
pub(super) struct PortWaker {
    is_waiting: Arc<AtomicBool>,
    /// The address for wake-up datagrams. `None` for a port that serves rings, because it polls and
    /// never waits.
    address: Option<SocketAddr>,
}

impl PortWaker {
    pub(super) fn new(address: Option<SocketAddr>) -> PortWaker {
        PortWaker {
            is_waiting: Arc::default(),
            address,
        }
    }

    /// Called by the port before it waits for datagrams. The port must check for forwarded requests
    /// between this call and the wait.
    pub(super) fn will_wait(&self) {
        self.is_waiting.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Called by the port after its wait.
    pub(super) fn wakes(&self) {
        self.is_waiting.store(false, Ordering::Relaxed);
    }

    /// Wakes the port if it waits. The caller must already have sent the forwarded requests.
    fn wake(&self, from: Option<&UdpSocket>) {
        fence(Ordering::SeqCst);
        let (Some(address), Some(socket)) = (self.address, from) else {
            return;
        };
        if self.is_waiting.swap(false, Ordering::Relaxed)
            // An empty datagram wakes the port and is not answered.
            && let Err(error) = socket.send_to(&[], address)
        {
            tracing::debug!(%error, "cannot wake a port; it finds the forwarded request at its next check");
        }
    }
}

/// A channel that forwards requests to another port.
#[derive(Debug)]
struct ForwardingChannel {
    asker: RingRequester,
    bell: PortWaker,
}

/// One port's channels to and from all other ports.
#[derive(Debug, Default)]
pub(super) struct PortForwarder {
    /// The channels to the other ports, by port index. This port's own entry is `None`.
    to: Vec<Option<ForwardingChannel>>,
    /// The channels through which other ports forward requests to this one.
    from: Vec<RingResponder>,
}

impl PortForwarder {
    /// Creates the channels between all ports. `bells` contains each port's waker.
    pub(super) fn between(bells: &[PortWaker], frame_bytes: usize) -> Vec<PortForwarder> {
        let mut all: Vec<PortForwarder> = bells.iter().map(|_| PortForwarder::default()).collect();
        for here in 0..bells.len() {
            for (there, bell) in bells.iter().enumerate() {
                if here == there {
                    all[here].to.push(None);
                    continue;
                }
                let (asker, answerer) = ring(BURST, frame_bytes);
                let bell = bell.clone();
                all[here].to.push(Some(ForwardingChannel { asker, bell }));
                all[there].from.push(answerer);
            }
        }
        all
    }

    /// Executes the requests that other ports have forwarded to this one. Returns whether there
    /// were any.
    pub(super) fn serve(&mut self, port: &mut DatagramPort, content: &ItemCache) -> bool {
        let mut has_served = false;
        for answerer in &mut self.from {
            let count = answerer.poll();
            if count > 0 {
                port.execute(content, answerer, count);
                answerer.publish(count);
                has_served = true;
            }
        }
        has_served
    }

    /// Returns whether forwarded requests from other ports wait to be executed.
    pub(super) fn are_waiting(&mut self) -> bool {
        self.from.iter_mut().any(|answerer| answerer.poll() > 0)
    }

    /// Executes the first `count` requests of a burst, forwarding requests for other ports' keys to
    /// these ports. While it waits for their replies, executes requests that other ports have
    /// forwarded. `from` is the socket that sends wake-up datagrams to the other ports.
    pub(super) fn execute(
        &mut self,
        port: &mut DatagramPort,
        content: &ItemCache,
        frames: &mut impl FrameBatch,
        count: usize,
        from: Option<&UdpSocket>,
        is_stopping: &AtomicBool,
    ) {
        debug_assert!(count <= BURST, "a way has as many frames");
        let mut others = ForwardedRequests::new();
        for index in 0..count {
            if let Some(place) = owner(port, frames.bytes(index))
                && self.push(place, frames.bytes(index))
            {
                others.push((index, place));
                // Exclude the request from those that this port executes itself.
                frames.set_length(index, 0);
            }
        }
        let mut asked: SmallVec<[usize; BURST]> = others.iter().map(|&(_, place)| place).collect();
        asked.sort_unstable();
        asked.dedup();
        for place in asked {
            if let Some(other) = &mut self.to[place] {
                other.asker.send();
                other.bell.wake(from);
            }
        }
        port.execute(content, frames, count);
        self.take_replies(port, content, frames, &others, is_stopping);
    }

    /// Copies a request into the channel to another port. Returns whether the channel had space.
    fn push(&mut self, place: usize, bytes: &[u8]) -> bool {
        let Some(frame) = self.to[place].as_mut().and_then(|other| other.asker.next_frame()) else {
            return false;
        };
        frame.buffer()[..bytes.len()].copy_from_slice(bytes);
        frame.set_length(bytes.len());
        true
    }

    /// Waits for the other ports' replies, and copies each to its request's frame.
    fn take_replies(
        &mut self,
        port: &mut DatagramPort,
        content: &ItemCache,
        frames: &mut impl FrameBatch,
        others: &ForwardedRequests,
        is_stopping: &AtomicBool,
    ) {
        let mut left = others.len();
        let mut taken: SmallVec<[bool; BURST]> = SmallVec::from_elem(false, others.len());
        let mut turns = 0;
        while left > 0 {
            for place in 0..self.to.len() {
                let Some(other) = &mut self.to[place] else {
                    continue;
                };
                let there = other.asker.poll();
                let mut own = others.iter().zip(&mut taken);
                for at in 0..there {
                    // A channel returns replies in request order.
                    let next = own.find(|((_, owner), taken)| *owner == place && !**taken);
                    let ((index, _), taken) = next.expect("an answer has its request");
                    let reply = other.asker.reply(at);
                    frames.buffer(*index)[..reply.len()].copy_from_slice(reply);
                    frames.set_length(*index, reply.len());
                    *taken = true;
                }
                other.asker.take(there);
                left -= there;
            }
            if self.serve(port, content) || left == 0 {
                turns = 0;
                continue;
            }
            let is_left = self
                .to
                .iter()
                .flatten()
                .any(|other| other.asker.is_disconnected());
            if is_left || is_stopping.load(Ordering::Acquire) {
                // The other port has stopped and will not reply; the client retransmits or gets an
                // error. Disable all channels, so that a late reply cannot be mistaken for the
                // reply to a later request.
                self.to.fill_with(|| None);
                return;
            }
            pause(&mut turns);
        }
    }
}

/// Pauses briefly while waiting for another thread: spins at first, and later yields the processor.
pub(super) fn pause(turns: &mut u32) {
    const SPINS: u32 = 64;
    *turns = turns.saturating_add(1);
    if *turns < SPINS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

/// Returns the index of the port that owns a request's key, or `None` if it is this port or the
/// datagram is not a request for a key.
fn owner(port: &DatagramPort, bytes: &[u8]) -> Option<usize> {
    let header = format::read(bytes)?.header;
    let place = port.directory.place(header.hash);
    let goes = header.way == DatagramDirection::Request && header.operation != DatagramOperation::Directory;
    (goes && place != port.place).then_some(place)
}
