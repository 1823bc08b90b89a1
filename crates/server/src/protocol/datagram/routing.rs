//! Routing of requests to the port that owns their key: the client sends them there, or the
//! receiving port forwards them (Lim 2015, §5.3.1: client-assisted and software-only direction).

use super::format::{self, DatagramDirection, DatagramOperation};
use super::frames::FrameBatch;
use super::port::DatagramPort;
use crate::cache::ItemCache;
use alluvium_hashes::mica::{RingRequester, RingResponder, ring};
use smallvec::SmallVec;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Who routes requests to the port of their key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortRouting {
    /// The client. A port refuses requests for keys of other ports.
    #[default]
    Client,
    /// The ports: a port forwards requests for other ports' keys and returns their replies. This is
    /// slower, but a client needs to know only one port.
    Software,
}

/// Largest number of requests forwarded together.
pub(super) const BURST: usize = 32;

/// Forwarded requests of a burst: their index, and the port that owns them.
type ForwardedRequests = SmallVec<[(usize, usize); BURST]>;

/// Wakes a port that waits for datagrams.
#[derive(Clone, Debug)]
pub(super) struct PortWaker {
    is_waiting: Arc<AtomicBool>,
    /// The receiving address of the port. `None` for a port of rings, which polls.
    address: Option<SocketAddr>,
}

impl PortWaker {
    pub(super) fn new(address: Option<SocketAddr>) -> PortWaker {
        PortWaker {
            is_waiting: Arc::default(),
            address,
        }
    }

    /// Announces that the port is about to wait. The port checks for forwarded requests after this
    /// call.
    pub(super) fn will_wait(&self) {
        self.is_waiting.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Announces that the port does not wait any more.
    pub(super) fn wakes(&self) {
        self.is_waiting.store(false, Ordering::Relaxed);
    }

    /// Wakes the port if it waits. The forwarded requests must have been sent before.
    fn wake(&self, from: Option<&UdpSocket>) {
        fence(Ordering::SeqCst);
        let (Some(address), Some(socket)) = (self.address, from) else {
            return;
        };
        if self.is_waiting.swap(false, Ordering::Relaxed)
            // The wake-up is an empty datagram, which the port receives and does not answer.
            && let Err(error) = socket.send_to(&[], address)
        {
            tracing::debug!(%error, "cannot wake a port; it finds the forwarded request at its next check");
        }
    }
}

/// The channel from a port to another one.
#[derive(Debug)]
struct ForwardingChannel {
    asker: RingRequester,
    bell: PortWaker,
}

/// The channels between a port and all others.
#[derive(Debug, Default)]
pub(super) struct PortForwarder {
    /// Channels to the other ports; `None` for the port itself.
    to: Vec<Option<ForwardingChannel>>,
    /// Channels from the other ports.
    from: Vec<RingResponder>,
}

impl PortForwarder {
    /// Creates the channels of all ports. Each port is woken by its [`PortWaker`].
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

    /// Executes the requests that other ports have forwarded. Returns whether there were any.
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

    /// Returns whether forwarded requests are waiting.
    pub(super) fn are_waiting(&mut self) -> bool {
        self.from.iter_mut().any(|answerer| answerer.poll() > 0)
    }

    /// Executes the first `count` requests of a burst, and forwards those for keys of other ports.
    /// Returns after all replies have arrived, and serves forwarded requests in the meantime.
    /// `from` is the socket used to wake the other ports.
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
                // Remove the request from the local part of the burst.
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

    /// Writes a request to the channel to a port. Returns whether it fits.
    fn push(&mut self, place: usize, bytes: &[u8]) -> bool {
        let Some(frame) = self.to[place].as_mut().and_then(|other| other.asker.next_frame()) else {
            return false;
        };
        frame.buffer()[..bytes.len()].copy_from_slice(bytes);
        frame.set_length(bytes.len());
        true
    }

    /// Copies arriving replies to the frames of their requests.
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
                    // A channel delivers replies in the order of the requests.
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
                // The other port has stopped; the client retransmits or gets an error. Disable all
                // channels, so that no late reply is matched to another request.
                self.to.fill_with(|| None);
                return;
            }
            pause(&mut turns);
        }
    }
}

/// Waits briefly for another thread, first by spinning.
pub(super) fn pause(turns: &mut u32) {
    const SPINS: u32 = 64;
    *turns = turns.saturating_add(1);
    if *turns < SPINS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

/// Returns the port that owns the key of a request, if it is another port.
fn owner(port: &DatagramPort, bytes: &[u8]) -> Option<usize> {
    let header = format::read(bytes)?.header;
    let place = port.directory.place(header.hash);
    let goes = header.way == DatagramDirection::Request && header.operation != DatagramOperation::Directory;
    (goes && place != port.place).then_some(place)
}
