//! One connection: receives requests, serves them, sends replies.

use super::budget::{BufferUsage, MemoryAccount, MemoryWait, ReserveOutcome};
use super::input::{ReceiveAmount, ReceiveBuffer};
use super::socket::ClientSocket;
use super::transport::Transport;
use crate::shared::{ClientHandle, ServerContext};
use std::any::Any;
use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;
use std::time::{Duration, Instant};

/// Rounds of one turn before other connections are served.
const ROUNDS: usize = 8;

/// Backlog of unsent replies above which the connection is not served further.
pub(crate) const HIGH_WATER: usize = 256 << 10;

/// Largest reply buffer that is kept for reuse, in bytes.
const KEPT_OUTPUT: usize = 64 << 10;

/// A connection that holds more than this is charged while it is served; others are charged at the
/// end of their turn.
const CHARGED_AT_ONCE: usize = 512 << 10;

/// Time that a request or reply waits for memory before it is refused. The limit prevents a
/// deadlock among connections that hold memory while waiting for more.
const PATIENCE: Duration = Duration::from_secs(10);

thread_local! {
    /// A reply buffer shared by the connections of a thread, so that idle ones hold none.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Frees the spare buffer of this thread.
pub(super) fn forget_spare() {
    drop(SPARE.take());
}

/// The result of serving input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServeOutcome {
    /// All complete requests were served. More input is needed.
    All,
    /// Some requests were served; more are complete in the input.
    Some,
    /// The next request waits for a read of the store, which wakes the connection.
    Wait,
    /// The next reply exceeds the memory of clients. Serving continues once memory is free.
    Full,
    /// The connection is to be closed after its output is sent.
    Close,
}

/// A protocol: consumes requests and produces replies.
pub(crate) trait ProtocolSession: Send {
    /// Serves requests at the beginning of `input`, consumes them and appends their replies to
    /// `output`. After it returns [`ServeOutcome::Wait`] it is called again with the same input
    /// once `waker` was called, or earlier.
    fn serve(&mut self, input: &mut ReceiveBuffer, output: &mut Vec<u8>, waker: &Waker) -> ServeOutcome;

    /// Returns the total size of the incomplete request in the input as far as it is known, or 0 if
    /// there is none.
    fn announced(&mut self, input: &mut ReceiveBuffer) -> usize;

    /// Refuses the incomplete request because it does not fit into the memory of clients. Its
    /// remaining bytes are skipped as they arrive.
    fn refuse_announced(&mut self, input: &mut ReceiveBuffer, output: &mut Vec<u8>);

    /// Refuses the reply that waited for memory, at the next call of `serve`.
    fn refuse_reply(&mut self);

    /// Returns the bytes it holds besides input and output.
    fn held(&self) -> usize;

    /// Appends messages from other connections to `output`, and registers `waker` for further ones.
    /// Returns false if the connection must be closed.
    fn append_pushed(&mut self, _output: &mut Vec<u8>, _waker: &Waker) -> bool {
        true
    }

    /// Returns whether messages from other connections exceeded the limit, so that the connection
    /// must be closed.
    fn is_overrun(&self) -> bool {
        false
    }

    /// Returns whether the served requests must be durable before their replies are sent, and
    /// clears the mark. Called once after each `serve`.
    fn takes_sync(&mut self) -> bool;

    /// Returns whether the protocol has recorded activity of the client since the last call, so
    /// that the caller need not.
    fn takes_note(&mut self) -> bool {
        false
    }

    /// Returns whether the client has authenticated or need not.
    fn is_authenticated(&self) -> bool;

    /// Appends the error reply for writes that could not be made durable.
    fn report_sync_failure(&mut self, output: &mut Vec<u8>, why: &str);
}

/// What a connection waits for after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnOutcome {
    /// The socket: more input, or space for output.
    Idle,
    /// Its next turn: more input can be served at once.
    Again,
    /// The store, which wakes it.
    Store,
    /// Memory of clients, until other connections release some.
    Stalled,
    /// A sync of the store.
    Sync,
    /// Nothing: the connection is closed.
    Closed,
}

/// The result of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiveOutcome {
    Some,
    /// Nothing was received, and the turn ends with this result.
    Nothing(TurnOutcome),
    /// Nothing; the next round tries again.
    Again,
}

/// A connection: its socket, protocol and buffers.
pub(crate) struct ProtocolConnection {
    transport: Transport,
    protocol: Box<dyn ProtocolSession>,
    common: Arc<ServerContext>,
    client: Arc<ClientHandle>,
    input: ReceiveBuffer,
    output: Vec<u8>,
    sent: usize,
    /// Whether the input may contain further complete requests.
    has_more: bool,
    /// Whether the last read emptied the socket. Only then does the poller report new input.
    is_drained: bool,
    /// Whether the poller has reported that the client closed its sending side. The report may
    /// arrive together with the last bytes, so the end of the stream is still to be read after
    /// them.
    has_client_ended: bool,
    is_ending: bool,
    /// Whether a request waits for the store.
    is_waiting: bool,
    /// Start of the wait for memory of clients.
    stalled: Option<Instant>,
    account: MemoryAccount,
    /// Whether bytes were received or sent in this turn.
    has_moved: bool,
    waker: Waker,
}

impl ProtocolConnection {
    pub(crate) fn new(
        transport: Transport,
        protocol: Box<dyn ProtocolSession>,
        common: Arc<ServerContext>,
        client: Arc<ClientHandle>,
    ) -> ProtocolConnection {
        let account = MemoryAccount::new(&common.budget);
        ProtocolConnection {
            transport,
            protocol,
            common,
            client,
            input: ReceiveBuffer::default(),
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

    /// Sets the waker that the store calls when a pending read is complete.
    pub(crate) fn is_woken_by(&mut self, waker: Waker) {
        self.waker = waker;
    }

    pub(crate) fn socket(&mut self) -> &mut ClientSocket {
        self.transport.socket()
    }

    /// Returns whether a client or the reaper has killed the connection.
    pub(crate) fn is_killed(&self) -> bool {
        self.client.is_killed.load(Relaxed)
    }

    /// Records that the client closed its sending side.
    pub(crate) fn client_has_ended(&mut self) {
        self.has_client_ended = true;
    }

    /// Returns whether the connection closes once its replies are sent.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Returns whether replies wait for the socket.
    pub(crate) fn has_output(&self) -> bool {
        self.sent < self.output.len()
    }

    /// Receives, serves and sends as much as possible without waiting for the socket. It may wait
    /// for the store.
    ///
    /// A panic in a command closes only this connection: the panic is logged and counted, and
    /// unsent output is dropped. Unwinding releases the locks and transactions of the command.
    pub(crate) fn turn(&mut self) -> TurnOutcome {
        self.client.is_busy.store(true, Relaxed);
        self.account.set_waiting(MemoryWait::NoMore, &self.client.load);
        match catch_unwind(AssertUnwindSafe(|| self.rounds())) {
            Ok(Ok(turn)) => {
                self.rest(turn);
                turn
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, client = self.client.id, "a connection failed");
                TurnOutcome::Closed
            }
            Err(panic) => {
                self.common.counters.panics.fetch_add(1, Relaxed);
                let why = panic_text(&*panic);
                tracing::error!(
                    client = self.client.id,
                    why,
                    "closed a connection: its command panicked"
                );
                TurnOutcome::Closed
            }
        }
    }

    /// Fetches messages from other connections, unless much output is pending, and sends them.
    /// Returns false if the connection must be closed.
    fn push(&mut self) -> io::Result<bool> {
        let before = self.output.len();
        let goes_on = match self.output.len() - self.sent > HIGH_WATER {
            true => !self.protocol.is_overrun(),
            false => self.protocol.append_pushed(&mut self.output, &self.waker),
        };
        if !goes_on {
            tracing::warn!(
                client = self.client.id,
                "closed a connection: it read the output of MONITOR too slowly"
            );
        }
        if self.output.len() > before {
            self.send()?;
        }
        Ok(goes_on)
    }

    fn rounds(&mut self) -> io::Result<TurnOutcome> {
        // The poller may have reported new input since the last turn, and reports it only once.
        self.is_drained = false;
        for _ in 0..ROUNDS {
            self.send()?;
            if !self.push()? {
                return Ok(TurnOutcome::Closed);
            }
            if self.output.len() - self.sent > HIGH_WATER {
                return Ok(TurnOutcome::Idle);
            }
            if self.is_ending {
                return Ok(if self.has_output() {
                    TurnOutcome::Idle
                } else {
                    TurnOutcome::Closed
                });
            }
            if self.has_output() && self.account.budget().is_tight() {
                // A client with outstanding replies must read them first. The poller reports when
                // it does.
                return Ok(TurnOutcome::Idle);
            }
            if !self.is_waiting && !self.has_more {
                match self.receive()? {
                    ReceiveOutcome::Some => {}
                    ReceiveOutcome::Nothing(turn) => return Ok(turn),
                    ReceiveOutcome::Again => continue,
                }
            }
            let served = self.serve();
            self.is_waiting = served == ServeOutcome::Wait;
            self.has_more = matches!(served, ServeOutcome::Some | ServeOutcome::Full);
            self.is_ending = served == ServeOutcome::Close;
            if self.output.len() - self.sent > self.common.config.max_output() {
                self.common.counters.output_overflows.fetch_add(1, Relaxed);
                tracing::warn!(
                    client = self.client.id,
                    "closed a connection: its unread replies exceeded the output buffer (CONFIG SET \
                     client-output-buffer-limit)"
                );
                return Ok(TurnOutcome::Closed);
            }
            if self.input.capacity() + self.output.capacity() > CHARGED_AT_ONCE {
                self.settle();
            }
            let is_full = served == ServeOutcome::Full;
            if self.protocol.takes_sync() {
                return Ok(TurnOutcome::Sync);
            }
            self.send()?;
            if is_full {
                if self.has_waited() {
                    self.protocol.refuse_reply();
                    continue;
                }
                return Ok(TurnOutcome::Stalled);
            }
            self.stalled = None;
            if self.is_waiting {
                return Ok(TurnOutcome::Store);
            }
            if self.is_drained && !self.has_more && !self.is_ending {
                // Reserve memory for the next request or refuse it, before its bytes arrive.
                let wanted = self.announced();
                match self.room_for(wanted) {
                    ReserveOutcome::Taken => return Ok(TurnOutcome::Idle),
                    ReserveOutcome::Later => return Ok(TurnOutcome::Stalled),
                    ReserveOutcome::Never => self.refuse_announced(),
                }
            }
        }
        Ok(TurnOutcome::Again)
    }

    /// Lets the protocol serve the received bytes.
    fn serve(&mut self) -> ServeOutcome {
        if self.output.capacity() == 0 {
            self.output = SPARE.take();
        }
        self.protocol
            .serve(&mut self.input, &mut self.output, &self.waker)
    }

    /// Receives once, if memory for the incomplete request is available.
    fn receive(&mut self) -> io::Result<ReceiveOutcome> {
        let wanted = self.announced();
        match self.room_for(wanted) {
            ReserveOutcome::Taken => {}
            ReserveOutcome::Later => return Ok(ReceiveOutcome::Nothing(TurnOutcome::Stalled)),
            ReserveOutcome::Never => {
                self.refuse_announced();
                return Ok(ReceiveOutcome::Again);
            }
        }
        let pace = self.pace();
        match self.input.fill(&mut self.transport, wanted, pace) {
            Ok((_, 0)) if self.has_output() => {
                // The client may still read replies.
                self.is_ending = true;
                return Ok(ReceiveOutcome::Nothing(TurnOutcome::Idle));
            }
            Ok((_, 0)) => return Ok(ReceiveOutcome::Nothing(TurnOutcome::Closed)),
            Ok((asked, got)) => {
                let is_short = got < asked && self.transport.is_drained_by_short_reads();
                self.is_drained = is_short && !self.has_client_ended;
                self.common.counters.received.fetch_add(got as u64, Relaxed);
                self.common.counters.reads.fetch_add(1, Relaxed);
                self.has_moved = true;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Ok(ReceiveOutcome::Nothing(TurnOutcome::Idle));
            }
            // The next round tries again.
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(ReceiveOutcome::Again),
            Err(error) => return Err(error),
        }
        Ok(ReceiveOutcome::Some)
    }

    /// Returns the total size of the incomplete request as far as it is known.
    fn announced(&mut self) -> usize {
        match self.input.len() {
            0 => 0,
            _ => self.protocol.announced(&mut self.input),
        }
    }

    /// Returns how much to receive at once: little while clients hold much memory.
    fn pace(&self) -> ReceiveAmount {
        match self.account.budget().is_tight() {
            true => ReceiveAmount::Little,
            false => ReceiveAmount::Much,
        }
    }

    /// Reserves memory for the input of a request of `wanted` bytes, as far as the size is known.
    fn room_for(&mut self, wanted: usize) -> ReserveOutcome {
        let next = self.input.next_capacity(wanted, self.pace());
        if wanted.max(next) <= self.account.budget().uncharged_input_limit() {
            self.account.release();
            return ReserveOutcome::Taken;
        }
        match self.account.try_reserve_input(wanted.max(next)) {
            ReserveOutcome::Taken => {
                self.stalled = None;
                ReserveOutcome::Taken
            }
            ReserveOutcome::Later if self.has_waited() => ReserveOutcome::Never,
            other => other,
        }
    }

    /// Returns whether the wait for memory has exceeded [`PATIENCE`]. The first call starts the
    /// wait.
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

    fn held(&self) -> BufferUsage {
        BufferUsage {
            received: self.input.len(),
            input: self.input.capacity(),
            unread: self.output.len() - self.sent,
            output: self.output.capacity(),
            queued: self.protocol.held(),
        }
    }

    /// Charges the memory that the connection holds.
    fn settle(&mut self) {
        let (held, client) = (self.held(), &self.client);
        self.account.settle(held, &client.load, || client.age_ms());
    }

    /// Releases buffers that are not needed between turns, and charges the rest.
    fn rest(&mut self, turn: TurnOutcome) {
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
        if turn == TurnOutcome::Stalled {
            self.account.set_waiting(MemoryWait::Now, &self.client.load);
        }
        self.client.is_busy.store(turn != TurnOutcome::Idle, Relaxed);
        let is_stranger = self.transport.is_shaking_hands() || !self.protocol.is_authenticated();
        let since = &self.client.load.stranger_ms;
        if is_stranger != (since.load(Relaxed) != 0) {
            let since_ms = if is_stranger { self.client.age_ms() + 1 } else { 0 };
            since.store(since_ms, Relaxed);
        }
    }

    /// Continues after a sync of the store.
    pub(crate) fn synced(&mut self, result: &alluvium::Result<()>) {
        if let Err(error) = result {
            // Replies sent earlier cannot be withdrawn. The unsent ones must not claim success.
            self.output.truncate(self.sent);
            self.protocol
                .report_sync_failure(&mut self.output, &error.to_string());
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

impl ProtocolConnection {
    /// Frees the space of sent replies once they fill most of the buffer.
    fn drop_sent(&mut self) {
        if self.sent < HIGH_WATER || self.sent < self.output.len() / 2 {
            return;
        }
        self.output = self.output.split_off(self.sent);
        self.sent = 0;
    }
}

/// Returns the message of a panic, if it has one.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    text.or(owned).unwrap_or("the panic has no message")
}

impl Drop for ProtocolConnection {
    fn drop(&mut self) {
        self.transport.close();
        self.common.clients.remove(self.client.id);
    }
}
