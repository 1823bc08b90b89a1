//! An event loop, which detects ready connections and gives them turns.

use super::connection::{ProtocolConnection, TurnOutcome};
use super::pool::{LoopHandoff, LoopMessage, LoopPool, LoopSlot};
use super::syncer::GroupSyncer;
use super::wait_hooks;
use alluvium::GatheredReads;
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The poll token of the loop's waker.
const WAKER: Token = Token(usize::MAX);

/// Maximum number of events fetched by one poll.
const EVENTS: usize = 256;

/// Polling interval during shutdown. Each poll closes the connections without pending output.
const STOPPING_TICK: Duration = Duration::from_millis(20);

/// A connection's slot in its event loop.
enum ConnectionSlot {
    Free,
    Here(Box<ProtocolConnection>),
    /// Another thread is serving the connection, or it waits for a sync. The fields store whether
    /// the poller has meanwhile reported that the socket is ready (`is_ready`) or that the client
    /// has closed its sending side (`has_ended`).
    Out {
        is_ready: bool,
        has_ended: bool,
    },
}

/// The state of an event loop, which only the driving thread can access.
pub(crate) struct EventLoop {
    poll: Poll,
    events: Events,
    slots: Vec<ConnectionSlot>,
    free: Vec<usize>,
    ready: VecDeque<usize>,
    /// The slots of connections that wait for memory.
    stalled: Vec<usize>,
    syncer: Arc<GroupSyncer>,
}

impl EventLoop {
    /// Creates an event loop without connections, parked until a thread drives it.
    pub(crate) fn seat(syncer: &Arc<GroupSyncer>) -> io::Result<LoopSlot> {
        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKER)?;
        let driver = EventLoop {
            poll,
            events: Events::with_capacity(EVENTS),
            slots: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            stalled: Vec::new(),
            syncer: Arc::clone(syncer),
        };
        Ok(LoopSlot::new(driver, waker))
    }

    /// Drives the loop until it ends or another thread has taken it over.
    pub(crate) fn drive(self: Box<EventLoop>, pool: &Arc<LoopPool>, seat: usize) {
        let driven = LoopHandoff {
            pool: Arc::clone(pool),
            seat,
        };
        wait_hooks::on_wait(Some(Rc::new(driven)));
        self.turns(pool, seat);
        wait_hooks::on_wait(None);
    }

    fn turns(mut self: Box<EventLoop>, pool: &Arc<LoopPool>, seat: usize) {
        loop {
            let is_stopping = pool.is_stopping.load(Ordering::Acquire);
            if is_stopping && self.ready.is_empty() && self.wind_up(pool) {
                pool.loop_ended();
                return;
            }
            if let Err(error) = self.wait(is_stopping, &pool.seats[seat]) {
                tracing::error!(%error, "an event loop cannot wait for its connections; it tries again");
                std::thread::sleep(STOPPING_TICK);
            }
            for message in pool.seats[seat].take_messages() {
                self.receive(message, pool, seat);
            }
            // Submit the device reads of all ready connections in one batch.
            let _gathered = GatheredReads::begin();
            // Check sockets, messages and stop requests before any connection gets a second turn.
            for _ in 0..self.ready.len() {
                let Some(slot) = self.ready.pop_front() else {
                    break;
                };
                let Some(connection) = self.lend(slot) else {
                    continue;
                };
                match self.serve(pool, seat, slot, connection) {
                    Some(driver) => self = driver,
                    None => return,
                }
            }
        }
    }

    /// Waits for socket events and messages, and queues the connections that have become ready.
    fn wait(&mut self, is_stopping: bool, seat: &LoopSlot) -> io::Result<()> {
        let timeout = match (self.ready.is_empty(), is_stopping) {
            (false, _) => Some(Duration::ZERO),
            (true, true) => Some(STOPPING_TICK),
            (true, false) => None,
        };
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let mut is_woken = false;
        for event in &self.events {
            let Token(slot) = event.token();
            if event.token() == WAKER {
                is_woken = true;
                continue;
            }
            self.ready.push_back(slot);
            if event.is_read_closed() {
                // The poller reports the end of the client's stream only once, possibly with the
                // last bytes.
                match self.slots.get_mut(slot) {
                    Some(ConnectionSlot::Here(connection)) => connection.client_has_ended(),
                    Some(ConnectionSlot::Out { has_ended, .. }) => *has_ended = true,
                    Some(ConnectionSlot::Free) | None => {}
                }
            }
        }
        if is_woken && seat.takes_look() {
            let killed = |slot: &ConnectionSlot| matches!(slot, ConnectionSlot::Here(connection) if connection.is_killed());
            for index in (0..self.slots.len())
                .filter(|&index| killed(&self.slots[index]))
                .collect::<Vec<_>>()
            {
                self.release(index);
            }
            self.ready.extend(self.stalled.drain(..));
        }
        Ok(())
    }

    fn receive(&mut self, message: LoopMessage, pool: &Arc<LoopPool>, seat: usize) {
        match message {
            LoopMessage::Woken(slot) => self.ready.push_back(slot),
            LoopMessage::New(mut connection) => {
                let slot = self.free.pop().unwrap_or_else(|| {
                    self.slots.push(ConnectionSlot::Free);
                    self.slots.len() - 1
                });
                let interest = Interest::READABLE | Interest::WRITABLE;
                connection.is_woken_by(pool.waker(seat, slot));
                let socket = connection.socket();
                match self.poll.registry().register(socket, Token(slot), interest) {
                    Ok(()) => self.slots[slot] = ConnectionSlot::Here(connection),
                    Err(error) => {
                        tracing::error!(%error, "closed a connection: it could not be added to an event loop");
                        self.free.push(slot);
                    }
                }
            }
            LoopMessage::Back(slot, connection, turn) => {
                self.put_back(slot, connection, turn);
            }
        }
    }

    /// Takes a connection out of its slot for a turn. Returns `None` if the slot is empty. If
    /// another thread is serving the connection, marks it to get another turn afterwards, because
    /// the poller reports readiness only once and the other thread may have read before that.
    fn lend(&mut self, slot: usize) -> Option<Box<ProtocolConnection>> {
        let out = ConnectionSlot::Out {
            is_ready: false,
            has_ended: false,
        };
        match std::mem::replace(self.slots.get_mut(slot)?, out) {
            ConnectionSlot::Here(connection) => Some(connection),
            ConnectionSlot::Out { has_ended, .. } => {
                let is_ready = true;
                self.slots[slot] = ConnectionSlot::Out { is_ready, has_ended };
                None
            }
            ConnectionSlot::Free => {
                self.slots[slot] = ConnectionSlot::Free;
                None
            }
        }
    }

    fn put_back(&mut self, slot: usize, mut connection: Box<ProtocolConnection>, turn: TurnOutcome) {
        // The connection may have been killed while another thread served it.
        let is_killed = connection.is_killed() && !connection.is_ending();
        if turn == TurnOutcome::Closed || is_killed {
            drop(connection);
            self.release(slot);
            return;
        }
        if matches!(self.slots[slot], ConnectionSlot::Out { has_ended: true, .. }) {
            connection.client_has_ended();
        }
        let was = std::mem::replace(&mut self.slots[slot], ConnectionSlot::Here(connection));
        if turn == TurnOutcome::Stalled {
            self.stalled.push(slot);
        }
        if turn == TurnOutcome::Again || matches!(was, ConnectionSlot::Out { is_ready: true, .. }) {
            self.ready.push_back(slot);
        }
    }

    fn release(&mut self, slot: usize) {
        self.slots[slot] = ConnectionSlot::Free;
        self.free.push(slot);
    }

    /// Gives a connection a turn, during which the loop is parked. Returns `None` if another thread
    /// has meanwhile taken over the loop.
    fn serve(
        self: Box<EventLoop>,
        pool: &Arc<LoopPool>,
        index: usize,
        slot: usize,
        mut connection: Box<ProtocolConnection>,
    ) -> Option<Box<EventLoop>> {
        let seat = &pool.seats[index];
        let syncer = Arc::clone(&self.syncer);
        seat.park(self);
        wait_hooks::begin();
        let turn = connection.turn();
        if turn == TurnOutcome::Sync {
            syncer.wait_for_disk(index, slot, connection);
            return seat.take();
        }
        match seat.take() {
            Some(mut driver) => {
                driver.put_back(slot, connection, turn);
                Some(driver)
            }
            None => {
                seat.send(LoopMessage::Back(slot, connection, turn));
                None
            }
        }
    }

    /// During shutdown, gives each connection a last turn and closes those without unsent output.
    /// Returns whether all connections are closed.
    fn wind_up(&mut self, pool: &LoopPool) -> bool {
        let is_late = pool.is_late();
        for slot in 0..self.slots.len() {
            let ConnectionSlot::Here(connection) = &mut self.slots[slot] else {
                continue;
            };
            let turn = if is_late {
                TurnOutcome::Closed
            } else {
                connection.turn()
            };
            match turn {
                TurnOutcome::Again | TurnOutcome::Store => {}
                TurnOutcome::Idle if connection.has_output() => {}
                TurnOutcome::Stalled if connection.has_output() => {}
                TurnOutcome::Blocked if connection.has_output() => {}
                TurnOutcome::Idle | TurnOutcome::Closed | TurnOutcome::Stalled | TurnOutcome::Blocked => {
                    self.release(slot);
                }
                TurnOutcome::Sync => {
                    let result = self.syncer.sync_now();
                    connection.synced(&result);
                }
            }
        }
        self.slots.iter().all(|slot| matches!(slot, ConnectionSlot::Free))
    }
}
