//! A client connection, which receives requests, has them served, and sends the replies.

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

/// Maximum number of receive-serve-send rounds in one turn, after which other connections get their
/// turns.
const ROUNDS: usize = 8;

/// Size of unsent replies in bytes beyond which no further requests of the connection are served.
pub(crate) const HIGH_WATER: usize = 256 << 10;

/// Maximum capacity in bytes of a reply buffer kept for reuse. Larger buffers are freed.
const KEPT_OUTPUT: usize = 64 << 10;

/// Memory in bytes beyond which a connection is charged while it is being served. Other connections
/// are charged at the end of their turn.
const CHARGED_AT_ONCE: usize = 512 << 10;

/// Time for which a request or reply waits for memory before it is rejected. The limit prevents a
/// deadlock among connections that wait for memory while holding some.
const PATIENCE: Duration = Duration::from_secs(10);

thread_local! {
    /// An empty reply buffer shared by all connections of a thread, so that an idle connection
    /// needs no buffer of its own.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Frees the current thread's reusable reply buffer.
pub(super) fn forget_spare() {
    drop(SPARE.take());
}

/// The result of serving the received requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServeOutcome {
    /// All complete requests in the input were served. Further input is needed.
    All,
    /// Some requests were served. The input contains further complete requests.
    Some,
    /// The next request waits for the store to read data. The store then calls the connection's
    /// waker.
    Wait,
    /// The next request waits until another client does something, which may never happen. The
    /// session then calls the connection's waker.
    Block,
    /// The next reply needs more memory than is left in the clients' budget. Serving continues once
    /// memory is released.
    Full,
    /// The connection must be closed after its output has been sent.
    Close,
}

/// A protocol session: parses requests from a byte buffer and produces replies.
pub(crate) trait ProtocolSession: Send {
    /// Serves requests at the beginning of `input`, consumes their bytes, and appends the replies
    /// to `output`. After [`ServeOutcome::Wait`], the caller calls this again with the same input,
    /// at the latest when `waker` has been called.
    fn serve(&mut self, input: &mut ReceiveBuffer, output: &mut Vec<u8>, waker: &Waker) -> ServeOutcome;

    /// Returns the total size in bytes of the incomplete request in the input, as far as known, or
    /// 0 if there is none.
    fn announced(&mut self, input: &mut ReceiveBuffer) -> usize;

    /// Rejects the incomplete request because the clients' budget has no memory for it. Its
    /// remaining bytes are skipped when they arrive.
    fn refuse_announced(&mut self, input: &mut ReceiveBuffer, output: &mut Vec<u8>);

    /// Rejects the reply that waits for memory. The next call of `serve` writes the error reply.
    fn refuse_reply(&mut self);

    /// Returns the memory in bytes that the session uses besides input and output.
    fn held(&self) -> usize;

    /// Appends messages from other connections to `output`, and registers `waker` for further ones.
    /// Returns false if the connection must be closed.
    fn append_pushed(&mut self, _output: &mut Vec<u8>, _waker: &Waker) -> bool {
        true
    }

    /// Returns whether the pending messages from other connections exceed their limit. The
    /// connection must then be closed.
    fn is_overrun(&self) -> bool {
        false
    }

    /// Returns whether the served requests must be made durable before their replies are sent, and
    /// clears this flag. Called once after each call of `serve`.
    fn takes_sync(&mut self) -> bool;

    /// Returns whether the session has recorded the client's activity since the last call.
    /// Otherwise the caller must do so.
    fn takes_note(&mut self) -> bool {
        false
    }

    /// Returns whether the client has authenticated, or does not have to.
    fn is_authenticated(&self) -> bool;

    /// Appends an error reply saying that writes could not be made durable.
    fn report_sync_failure(&mut self, output: &mut Vec<u8>, why: &str);
}

/// The event that a connection needs before its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnOutcome {
    /// The socket has input or accepts further output.
    Idle,
    /// The connection needs no event, because it has more input to serve immediately.
    Again,
    /// The store has read the requested data and calls the connection's waker.
    Store,
    /// Another client does something that the connection waits for.
    Blocked,
    /// Other connections release memory in the clients' budget.
    Stalled,
    /// The store has been synced to the device.
    Sync,
    /// The connection is closed and gets no further turn.
    Closed,
}

/// The result of receiving from the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiveOutcome {
    Some,
    /// Nothing was received, so the connection's turn ends with the contained outcome.
    Nothing(TurnOutcome),
    /// Nothing was received. The next round of the turn receives again.
    Again,
}

/// A connection, with its socket, its protocol session and its buffers.
pub(crate) struct ProtocolConnection {
    transport: Transport,
    protocol: Box<dyn ProtocolSession>,
    common: Arc<ServerContext>,
    client: Arc<ClientHandle>,
    input: ReceiveBuffer,
    output: Vec<u8>,
    sent: usize,
    /// Whether the input may contain complete requests that have not been served.
    has_more: bool,
    /// Whether the last read received all bytes that the socket had. The poller reports new input
    /// only after such a read.
    is_drained: bool,
    /// Whether the poller has reported that the client closed its sending side. The report can
    /// arrive together with the client's last bytes, so the stream must still be read to its end.
    has_client_ended: bool,
    is_ending: bool,
    /// Whether a request is waiting for the store.
    is_waiting: bool,
    /// When the connection began to wait for memory, or `None` if it is not waiting.
    stalled: Option<Instant>,
    account: MemoryAccount,
    /// Whether bytes were received or sent during this turn.
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

    /// Sets the waker that the store calls when a pending read completes. It gives the connection
    /// its next turn.
    pub(crate) fn is_woken_by(&mut self, waker: Waker) {
        self.waker = waker;
    }

    pub(crate) fn socket(&mut self) -> &mut ClientSocket {
        self.transport.socket()
    }

    /// Returns whether another client or the reaper has asked to close the connection.
    pub(crate) fn is_killed(&self) -> bool {
        self.client.is_killed.load(Relaxed)
    }

    /// Called when the poller reports that the client has closed its sending side.
    pub(crate) fn client_has_ended(&mut self) {
        self.has_client_ended = true;
    }

    /// Returns whether the connection will be closed as soon as its replies have been sent.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Returns whether there are replies that have not been sent.
    pub(crate) fn has_output(&self) -> bool {
        self.sent < self.output.len()
    }

    /// Receives, serves and sends as much as possible without waiting for the socket. May wait for
    /// the store.
    ///
    /// If a command panics, only this connection is closed. The panic is logged and counted, and
    /// unsent output is discarded. Unwinding releases the command's locks and transactions.
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

    /// Sends messages from other connections, unless the connection already has much unsent output.
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
                "closed a connection: it read the output of MONITOR or the messages of its subscriptions too slowly \
                 (CONFIG SET client-output-buffer-limit)"
            );
        }
        if self.output.len() > before {
            self.send()?;
        }
        Ok(goes_on)
    }

    fn rounds(&mut self) -> io::Result<TurnOutcome> {
        // The poller reports new input only once, and may have done so since the last turn. The
        // socket must therefore be read again.
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
                // The client must first read its outstanding replies. The poller reports when the
                // socket accepts further output.
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
            self.is_waiting = matches!(served, ServeOutcome::Wait | ServeOutcome::Block);
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
            if served == ServeOutcome::Block {
                // The client would not read the reply.
                return Ok(match self.has_client_ended {
                    true => TurnOutcome::Closed,
                    false => TurnOutcome::Blocked,
                });
            }
            if self.is_waiting {
                return Ok(TurnOutcome::Store);
            }
            if self.is_drained && !self.has_more && !self.is_ending {
                // Before the next request's bytes arrive, reserve memory for it or reject it.
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

    /// Lets the protocol session serve the received requests.
    fn serve(&mut self) -> ServeOutcome {
        if self.output.capacity() == 0 {
            self.output = SPARE.take();
        }
        self.protocol
            .serve(&mut self.input, &mut self.output, &self.waker)
    }

    /// Reads from the socket once if memory for the incomplete request is available.
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
                // The client has closed only its sending side and may still read replies.
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
            // The read was interrupted. The turn's next round reads again.
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(ReceiveOutcome::Again),
            Err(error) => return Err(error),
        }
        Ok(ReceiveOutcome::Some)
    }

    /// Returns the total size in bytes of the incomplete request, as far as known.
    fn announced(&mut self) -> usize {
        match self.input.len() {
            0 => 0,
            _ => self.protocol.announced(&mut self.input),
        }
    }

    /// Returns how much to read from the socket at once: a small amount while much of the clients'
    /// budget is used.
    fn pace(&self) -> ReceiveAmount {
        match self.account.budget().is_tight() {
            true => ReceiveAmount::Little,
            false => ReceiveAmount::Much,
        }
    }

    /// Reserves memory for a request's input. `wanted` is the request size in bytes, as far as
    /// known.
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

    /// Returns whether the connection has waited for memory for at least [`PATIENCE`]. The first
    /// call starts the clock.
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

    /// Charges the connection's current memory to the budget.
    fn settle(&mut self) {
        let (held, client) = (self.held(), &self.client);
        self.account.settle(held, &client.load, || client.age_ms());
    }

    /// Ends a turn: frees the buffers that the next turn does not need, and charges the remaining
    /// memory.
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

    /// Continues the connection after a sync of the store has succeeded or failed.
    pub(crate) fn synced(&mut self, result: &alluvium::Result<()>) {
        if let Err(error) = result {
            // Replies already sent cannot be withdrawn. Discard the unsent ones, because they would
            // report success.
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
    /// Removes sent replies from the buffer once they occupy most of it.
    fn drop_sent(&mut self) {
        if self.sent < HIGH_WATER || self.sent < self.output.len() / 2 {
            return;
        }
        self.output = self.output.split_off(self.sent);
        self.sent = 0;
    }
}

/// Returns the message of a panic, or a placeholder if it has none.
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
