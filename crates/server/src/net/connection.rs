//! One connection: receive, serve, send.

use super::budget::{Account, Held, Room, Waits};
use super::input::{Input, Pace};
use super::socket::Socket;
use super::transport::Transport;
use crate::shared::{Client, Common};
use std::any::Any;
use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;
use std::time::{Duration, Instant};

/// How many times in a row a connection is served before others have their turn.
const ROUNDS: usize = 8;

/// Output that waits for a slow reader; while there is more, nothing else of the connection is
/// served.
pub(crate) const HIGH_WATER: usize = 256 << 10;

/// Buffers of replies up to this size are kept for the next ones.
const KEPT_OUTPUT: usize = 64 << 10;

/// A connection that holds more than this is charged for it while it is served; any other at the
/// end of its turn.
const CHARGED_AT_ONCE: usize = 512 << 10;

/// How long a request or a reply waits for memory of clients before it is refused. The connections
/// that hold what it waits for may wait for the same, so that there is an end to it.
const PATIENCE: Duration = Duration::from_secs(10);

thread_local! {
    /// A buffer for replies that connections take turns with, so that idle ones hold none.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lets the buffer of this thread go.
pub(super) fn forget_spare() {
    drop(SPARE.take());
}

/// What a protocol made of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// Everything that is complete; more input is needed.
    All,
    /// Some; it wants to go on with what is there.
    Some,
    /// What could be done before the store has read something; it wakes the connection then.
    Wait,
    /// What could be done before a reply that does not fit into the memory of clients; it wants to
    /// go on once memory is free.
    Full,
    /// The connection ends once the output is sent.
    Close,
}

/// A language that connections speak: requests in, replies out.
pub(crate) trait Protocol: Send {
    /// Serves requests at the beginning of `input`, consumes them and appends their replies to
    /// `output`. When it says [`Served::Wait`] it is called again with the same input once `waker`
    /// was told, or earlier.
    fn serve(&mut self, input: &mut Input, output: &mut Vec<u8>, waker: &Waker) -> Served;

    /// How many bytes the request that has begun takes in all, as far as is known; 0 if none has.
    fn announced(&mut self, input: &mut Input) -> usize;

    /// Refuses the request that has begun, which does not fit into the memory of clients: its bytes
    /// are skipped as they come.
    fn refuse_announced(&mut self, input: &mut Input, output: &mut Vec<u8>);

    /// Refuses the reply that had to wait for memory, when it is served next.
    fn refuse_reply(&mut self);

    /// Bytes that it holds beside input and output.
    fn held(&self) -> usize;

    /// Appends what others have for the connection to `output`, and tells them to wake it by
    /// `waker` when there is more; false if it must end.
    fn pushed(&mut self, _output: &mut Vec<u8>, _waker: &Waker) -> bool {
        true
    }

    /// Whether others have had more for it than it took, so that it must end.
    fn is_overrun(&self) -> bool {
        false
    }

    /// Whether what was served must be on the disk before its replies are sent; asked once after
    /// each call of `serve`.
    fn takes_sync(&mut self) -> bool;

    /// Whether the protocol has noted since it was last asked that bytes have moved, and when.
    fn takes_note(&mut self) -> bool {
        false
    }

    /// Whether the client has said who it is, or need not.
    fn is_known(&self) -> bool;

    /// The reply to what could not be made durable.
    fn lost(&mut self, output: &mut Vec<u8>, why: &str);
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// For the socket.
    Idle,
    /// For its next turn: there is more to do.
    Again,
    /// For the store, which wakes it.
    Store,
    /// For memory of clients.
    Stalled,
    /// For the disk.
    Sync,
    /// For nothing: it has ended.
    Closed,
}

/// What came of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Received {
    Some,
    /// The turn ends so.
    Nothing(Turn),
    /// Nothing, and it goes on with the next round.
    Again,
}

/// A connection with all that belongs to it.
pub(crate) struct Connection {
    transport: Transport,
    protocol: Box<dyn Protocol>,
    common: Arc<Common>,
    client: Arc<Client>,
    input: Input,
    output: Vec<u8>,
    sent: usize,
    /// Whether complete requests may be left in the input.
    has_more: bool,
    /// Whether the last read has taken everything that the socket had. Only then will it say when
    /// there is more.
    is_drained: bool,
    /// Whether the socket has said that the client sends nothing more. It may have said so together
    /// with the last bytes: then the end is read behind them.
    has_client_ended: bool,
    is_ending: bool,
    /// Whether a request waits for the store.
    is_waiting: bool,
    /// Since when it has waited for memory of clients.
    stalled: Option<Instant>,
    account: Account,
    /// Whether bytes have come or gone in this turn.
    has_moved: bool,
    waker: Waker,
}

impl Connection {
    pub(crate) fn new(
        transport: Transport,
        protocol: Box<dyn Protocol>,
        common: Arc<Common>,
        client: Arc<Client>,
    ) -> Connection {
        let account = Account::new(&common.budget);
        Connection {
            transport,
            protocol,
            common,
            client,
            input: Input::default(),
            output: Vec::new(),
            sent: 0,
            has_more: false,
            is_drained: false,
            has_client_ended: false,
            is_ending: false,
            is_waiting: false,
            stalled: None,
            account,
            has_moved: false,
            waker: Waker::noop().clone(),
        }
    }

    /// Whom the store tells that what a request waits for is there.
    pub(crate) fn is_woken_by(&mut self, waker: Waker) {
        self.waker = waker;
    }

    pub(crate) fn socket(&mut self) -> &mut Socket {
        self.transport.socket()
    }

    /// Whether a client or the keeper wants it ended.
    pub(crate) fn is_killed(&self) -> bool {
        self.client.is_killed.load(Relaxed)
    }

    /// The socket has said that the client sends nothing more.
    pub(crate) fn client_has_ended(&mut self) {
        self.has_client_ended = true;
    }

    /// Whether it ends as soon as its replies are sent.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Whether replies wait for the socket.
    pub(crate) fn has_output(&self) -> bool {
        self.sent < self.output.len()
    }

    /// Receives, serves and sends as much as is possible without waiting for the socket. It may
    /// wait for the store.
    ///
    /// A panic in a command ends this connection alone: it is logged and counted, and what has not
    /// been sent is dropped. Locks and transactions of the command go while it unwinds.
    pub(crate) fn turn(&mut self) -> Turn {
        self.client.is_busy.store(true, Relaxed);
        self.account.waits(Waits::NoMore, &self.client.load);
        match catch_unwind(AssertUnwindSafe(|| self.rounds())) {
            Ok(Ok(turn)) => {
                self.rest(turn);
                turn
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, client = self.client.id, "a connection broke");
                Turn::Closed
            }
            Err(panic) => {
                self.common.counters.panics.fetch_add(1, Relaxed);
                let why = panic_text(&*panic);
                tracing::error!(client = self.client.id, why, "closed: a command panicked");
                Turn::Closed
            }
        }
    }

    /// Takes what others have for the connection, unless it owes much already, and sends it; false
    /// if it must end.
    fn push(&mut self) -> io::Result<bool> {
        let before = self.output.len();
        let goes_on = match self.output.len() - self.sent > HIGH_WATER {
            true => !self.protocol.is_overrun(),
            false => self.protocol.pushed(&mut self.output, &self.waker),
        };
        if !goes_on {
            tracing::warn!(
                client = self.client.id,
                "closed: it did not take what MONITOR shows"
            );
        }
        if self.output.len() > before {
            self.send()?;
        }
        Ok(goes_on)
    }

    fn rounds(&mut self) -> io::Result<Turn> {
        // The socket may have said since the last turn that there is more, and says it only once.
        self.is_drained = false;
        for _ in 0..ROUNDS {
            self.send()?;
            if !self.push()? {
                return Ok(Turn::Closed);
            }
            if self.output.len() - self.sent > HIGH_WATER {
                return Ok(Turn::Idle);
            }
            if self.is_ending {
                return Ok(if self.has_output() {
                    Turn::Idle
                } else {
                    Turn::Closed
                });
            }
            if self.has_output() && self.account.budget().is_tight() {
                // Who owes replies takes them first; the socket says when it can.
                return Ok(Turn::Idle);
            }
            if !self.is_waiting && !self.has_more {
                match self.receive()? {
                    Received::Some => {}
                    Received::Nothing(turn) => return Ok(turn),
                    Received::Again => continue,
                }
            }
            let served = self.serve();
            self.is_waiting = served == Served::Wait;
            self.has_more = matches!(served, Served::Some | Served::Full);
            self.is_ending = served == Served::Close;
            if self.output.len() - self.sent > self.common.config.max_output() {
                self.common.counters.output_overflows.fetch_add(1, Relaxed);
                tracing::warn!(
                    client = self.client.id,
                    "closed: its replies exceed the output buffer"
                );
                return Ok(Turn::Closed);
            }
            if self.input.capacity() + self.output.capacity() > CHARGED_AT_ONCE {
                self.settle();
            }
            let is_full = served == Served::Full;
            if self.protocol.takes_sync() {
                return Ok(Turn::Sync);
            }
            self.send()?;
            if is_full {
                if self.has_waited() {
                    self.protocol.refuse_reply();
                    continue;
                }
                return Ok(Turn::Stalled);
            }
            self.stalled = None;
            if self.is_waiting {
                return Ok(Turn::Store);
            }
            if self.is_drained && !self.has_more && !self.is_ending {
                // What is to come is known to fit, or is refused, before it comes.
                let wanted = self.announced();
                match self.room_for(wanted) {
                    Room::Taken => return Ok(Turn::Idle),
                    Room::Later => return Ok(Turn::Stalled),
                    Room::Never => self.refuse_announced(),
                }
            }
        }
        Ok(Turn::Again)
    }

    /// Has the protocol serve what was received.
    fn serve(&mut self) -> Served {
        if self.output.capacity() == 0 {
            self.output = SPARE.take();
        }
        self.protocol
            .serve(&mut self.input, &mut self.output, &self.waker)
    }

    /// Receives once, if the request that has begun fits into memory.
    fn receive(&mut self) -> io::Result<Received> {
        let wanted = self.announced();
        match self.room_for(wanted) {
            Room::Taken => {}
            Room::Later => return Ok(Received::Nothing(Turn::Stalled)),
            Room::Never => {
                self.refuse_announced();
                return Ok(Received::Again);
            }
        }
        let pace = self.pace();
        match self.input.fill(&mut self.transport, wanted, pace) {
            Ok((_, 0)) if self.has_output() => {
                // It may still read.
                self.is_ending = true;
                return Ok(Received::Nothing(Turn::Idle));
            }
            Ok((_, 0)) => return Ok(Received::Nothing(Turn::Closed)),
            Ok((asked, got)) => {
                let is_short = got < asked && self.transport.is_drained_by_short_reads();
                self.is_drained = is_short && !self.has_client_ended;
                self.common.counters.received.fetch_add(got as u64, Relaxed);
                self.common.counters.reads.fetch_add(1, Relaxed);
                self.has_moved = true;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Received::Nothing(Turn::Idle)),
            // It is asked again in the next round.
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(Received::Again),
            Err(error) => return Err(error),
        }
        Ok(Received::Some)
    }

    /// How many bytes the request that has begun takes in all, as far as is known.
    fn announced(&mut self) -> usize {
        match self.input.len() {
            0 => 0,
            _ => self.protocol.announced(&mut self.input),
        }
    }

    /// Returns how much is received at once: little while clients hold much memory.
    fn pace(&self) -> Pace {
        match self.account.budget().is_tight() {
            true => Pace::Little,
            false => Pace::Much,
        }
    }

    /// Takes memory for the input of a request that takes `wanted` bytes as far as is known.
    fn room_for(&mut self, wanted: usize) -> Room {
        let next = self.input.next_capacity(wanted, self.pace());
        if wanted.max(next) <= self.account.budget().unasked() {
            self.account.release();
            return Room::Taken;
        }
        match self.account.promise(wanted.max(next)) {
            Room::Taken => {
                self.stalled = None;
                Room::Taken
            }
            Room::Later if self.has_waited() => Room::Never,
            other => other,
        }
    }

    /// Returns whether it has waited for memory for too long and is to be refused; the first call
    /// begins the waiting.
    fn has_waited(&mut self) -> bool {
        self.stalled.get_or_insert_with(Instant::now).elapsed() >= PATIENCE
    }

    fn refuse_announced(&mut self) {
        self.stalled = None;
        self.common.counters.memory_refusals.fetch_add(1, Relaxed);
        self.protocol.refuse_announced(&mut self.input, &mut self.output);
        self.input.rest();
        self.account.release();
        self.settle();
        self.has_more = self.input.len() > 0;
    }

    fn held(&self) -> Held {
        Held {
            received: self.input.len(),
            input: self.input.capacity(),
            unread: self.output.len() - self.sent,
            output: self.output.capacity(),
            queued: self.protocol.held(),
        }
    }

    /// Charges what it holds.
    fn settle(&mut self) {
        let (held, client) = (self.held(), &self.client);
        self.account.settle(held, &client.load, || client.age_ms());
    }

    /// Gives away what is not needed between turns, and charges the rest.
    fn rest(&mut self, turn: Turn) {
        self.input.rest();
        if self.input.len() == 0 {
            self.account.release();
        }
        if self.output.is_empty() && self.output.capacity() > 0 {
            SPARE.set(std::mem::take(&mut self.output));
        }
        self.settle();
        let is_noted = self.protocol.takes_note();
        if std::mem::take(&mut self.has_moved) && !is_noted {
            self.client.load.moved_ms.store(self.client.age_ms(), Relaxed);
        }
        if turn == Turn::Stalled {
            self.account.waits(Waits::Now, &self.client.load);
        }
        self.client.is_busy.store(turn != Turn::Idle, Relaxed);
        let is_stranger = self.transport.is_shaking_hands() || !self.protocol.is_known();
        let since = &self.client.load.stranger_ms;
        if is_stranger != (since.load(Relaxed) != 0) {
            let since_ms = if is_stranger { self.client.age_ms() + 1 } else { 0 };
            since.store(since_ms, Relaxed);
        }
    }

    /// The store says whether what was served is on the disk.
    pub(crate) fn synced(&mut self, result: &alluvium::Result<()>) {
        if let Err(error) = result {
            // Replies that were sent before stay sent; none of those that wait may be believed.
            self.output.truncate(self.sent);
            self.protocol.lost(&mut self.output, &error.to_string());
            self.is_ending = true;
        }
    }

    fn send(&mut self) -> io::Result<()> {
        while self.has_output() {
            match self.transport.write(&self.output[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.sent += count;
                    self.account.has_sent(count);
                    self.has_moved = true;
                    self.common.counters.sent.fetch_add(count as u64, Relaxed);
                    self.common.counters.writes.fetch_add(1, Relaxed);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.drop_sent();
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.sent = 0;
        self.output.clear();
        if self.output.capacity() > KEPT_OUTPUT {
            self.output = Vec::new();
        }
        self.transport.has_unsent()?;
        Ok(())
    }
}

impl Connection {
    /// Gives back the memory of replies that were taken, once that is most of the buffer.
    fn drop_sent(&mut self) {
        if self.sent < HIGH_WATER || self.sent < self.output.len() / 2 {
            return;
        }
        self.output = self.output.split_off(self.sent);
        self.sent = 0;
    }
}

/// Returns the message of a panic, as far as it has one.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    text.or(owned).unwrap_or("no message")
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.transport.close();
        self.common.clients.remove(self.client.id);
    }
}
