//! How a request reaches the port that has its key: the client sends it there, or the port that
//! has received it hands it over (Lim 2015, §5.3.1: client-assisted and software-only direction).

use super::format::{self, Operation, Way};
use super::frames::Frames;
use super::port::Port;
use crate::cached::Content;
use alluvium_hashes::mica::{Answerer, Asker, ring};
use smallvec::SmallVec;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Who finds the port that has a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The client. A port refuses what is another's.
    #[default]
    Client,
    /// The ports: what is another's is handed over to it, and its reply handed back. It is slower;
    /// a client then needs to know one port only.
    Software,
}

/// Requests that are handed over together, at most.
pub(super) const BURST: usize = 32;

/// Requests of a burst that are others': where they are, and whose.
type Others = SmallVec<[(usize, usize); BURST]>;

/// Wakes a port that waits for datagrams.
#[derive(Clone, Debug)]
pub(super) struct Bell {
    is_waiting: Arc<AtomicBool>,
    /// Where it receives; a port of rings looks by itself.
    address: Option<SocketAddr>,
}

impl Bell {
    pub(super) fn new(address: Option<SocketAddr>) -> Bell {
        Bell {
            is_waiting: Arc::default(),
            address,
        }
    }

    /// Says that the port is about to wait. It looks for handed-over requests behind this.
    pub(super) fn will_wait(&self) {
        self.is_waiting.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that the port does not wait any more.
    pub(super) fn wakes(&self) {
        self.is_waiting.store(false, Ordering::Relaxed);
    }

    /// Wakes the port if it waits. What it shall see was handed over before.
    fn ring(&self, from: Option<&UdpSocket>) {
        fence(Ordering::SeqCst);
        let (Some(address), Some(socket)) = (self.address, from) else {
            return;
        };
        if self.is_waiting.swap(false, Ordering::Relaxed)
            // No datagram has no bytes: the port receives it and has no reply to it.
            && let Err(error) = socket.send_to(&[], address)
        {
            tracing::debug!(%error, "a port was not woken, and looks later");
        }
    }
}

/// The way from a port to another one.
#[derive(Debug)]
struct Other {
    asker: Asker,
    bell: Bell,
}

/// The ways between a port and all others.
#[derive(Debug, Default)]
pub(super) struct Handovers {
    /// To each port; none to itself.
    to: Vec<Option<Other>>,
    /// From all others.
    from: Vec<Answerer>,
}

impl Handovers {
    /// Returns the ways of each port, which is woken by its bell.
    pub(super) fn between(bells: &[Bell], frame_bytes: usize) -> Vec<Handovers> {
        let mut all: Vec<Handovers> = bells.iter().map(|_| Handovers::default()).collect();
        for here in 0..bells.len() {
            for (there, bell) in bells.iter().enumerate() {
                if here == there {
                    all[here].to.push(None);
                    continue;
                }
                let (asker, answerer) = ring(BURST, frame_bytes);
                let bell = bell.clone();
                all[here].to.push(Some(Other { asker, bell }));
                all[there].from.push(answerer);
            }
        }
        all
    }

    /// Executes what others have handed over. Returns whether there was anything.
    pub(super) fn serve(&mut self, port: &mut Port, content: &Content) -> bool {
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

    /// Returns whether others have handed anything over.
    pub(super) fn are_waiting(&mut self) -> bool {
        self.from.iter_mut().any(|answerer| answerer.poll() > 0)
    }

    /// Executes the first `count` requests of a burst, those of other keys by the ports that have
    /// them: it returns when they have replied, and serves others meanwhile. `from` is the socket
    /// by which they are woken.
    pub(super) fn execute(
        &mut self,
        port: &mut Port,
        content: &Content,
        frames: &mut impl Frames,
        count: usize,
        from: Option<&UdpSocket>,
        is_stopping: &AtomicBool,
    ) {
        debug_assert!(count <= BURST, "a way has as many frames");
        let mut others = Others::new();
        for index in 0..count {
            if let Some(place) = owner(port, frames.bytes(index))
                && self.push(place, frames.bytes(index))
            {
                others.push((index, place));
                // What is executed here is all that is left of the burst.
                frames.set_length(index, 0);
            }
        }
        let mut asked: SmallVec<[usize; BURST]> = others.iter().map(|&(_, place)| place).collect();
        asked.sort_unstable();
        asked.dedup();
        for place in asked {
            if let Some(other) = &mut self.to[place] {
                other.asker.send();
                other.bell.ring(from);
            }
        }
        port.execute(content, frames, count);
        self.take_replies(port, content, frames, &others, is_stopping);
    }

    /// Writes a request into the way to a port. Returns whether it fits.
    fn push(&mut self, place: usize, bytes: &[u8]) -> bool {
        let Some(frame) = self.to[place].as_mut().and_then(|other| other.asker.next_frame()) else {
            return false;
        };
        frame.buffer()[..bytes.len()].copy_from_slice(bytes);
        frame.set_length(bytes.len());
        true
    }

    /// Copies replies to where the requests were, as they come.
    fn take_replies(
        &mut self,
        port: &mut Port,
        content: &Content,
        frames: &mut impl Frames,
        others: &Others,
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
                    // A way answers in the order in which it was asked.
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
            let is_left = self.to.iter().flatten().any(|other| other.asker.is_left());
            if is_left || is_stopping.load(Ordering::Acquire) {
                // The other port has ended: its client sends again, or is told no more. What comes
                // next is refused, so that no late reply is taken for another's.
                self.to.fill_with(|| None);
                return;
            }
            pause(&mut turns);
        }
    }
}

/// Waits a moment for another thread.
pub(super) fn pause(turns: &mut u32) {
    const SPINS: u32 = 64;
    *turns = turns.saturating_add(1);
    if *turns < SPINS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

/// Returns the other port that has the key of a request, if it is one that goes there.
fn owner(port: &Port, bytes: &[u8]) -> Option<usize> {
    let header = format::read(bytes)?.header;
    let place = port.directory.place(header.hash);
    let goes = header.way == Way::Request && header.operation != Operation::Directory;
    (goes && place != port.place).then_some(place)
}
