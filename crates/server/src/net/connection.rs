//! One connection: receive, serve, send.

use super::input::Input;
use super::transport::Transport;
use crate::shared::{Client, Shared};
use std::any::Any;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;

/// How many times in a row a connection is served before others have their turn.
const ROUNDS: usize = 8;

/// Output that waits for a slow reader; while there is more, nothing else of the connection is served.
const HIGH_WATER: usize = 256 << 10;

/// Buffers of replies up to this size are kept for the next ones.
const KEPT_OUTPUT: usize = 64 << 10;

/// What a protocol made of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// Everything that is complete; more input is needed.
    All,
    /// Some; it wants to go on with what is there.
    Some,
    /// What could be done before the store has read something; it wakes the connection then.
    Wait,
    /// The connection ends once the output is sent.
    Close,
}

/// A language that connections speak: requests in, replies out.
pub(crate) trait Protocol: Send {
    /// Serves requests at the beginning of `input`, consumes them and appends their replies to `output`. When it says [`Served::Wait`] it is called
    /// again with the same input once `waker` was told, or earlier.
    fn serve(&mut self, input: &mut Input, output: &mut Vec<u8>, waker: &Waker) -> Served;

    /// Appends what others have for the connection to `output`, and tells them to wake it by `waker` when there is more; false if it must end.
    fn pushed(&mut self, _output: &mut Vec<u8>, _waker: &Waker) -> bool {
        true
    }

    /// Whether what was served must be on the disk before its replies are sent; asked once after each call of `serve`.
    fn takes_sync(&mut self) -> bool;

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
    /// For the disk.
    Sync,
    /// For nothing: it has ended.
    Closed,
}

/// A connection with all that belongs to it.
pub(crate) struct Connection {
    transport: Transport,
    protocol: Box<dyn Protocol>,
    shared: Arc<Shared>,
    client: Arc<Client>,
    input: Input,
    output: Vec<u8>,
    sent: usize,
    /// Whether complete requests may be left in the input.
    has_more: bool,
    /// Whether the last read has taken everything that the socket had. Only then will it say when there is more.
    is_drained: bool,
    is_ending: bool,
    /// Whether a request waits for the store.
    is_waiting: bool,
    waker: Waker,
}

impl Connection {
    pub(crate) fn new(
        transport: Transport,
        protocol: Box<dyn Protocol>,
        shared: Arc<Shared>,
        client: Arc<Client>,
    ) -> Connection {
        Connection {
            transport,
            protocol,
            shared,
            client,
            input: Input::default(),
            output: Vec::new(),
            sent: 0,
            has_more: false,
            is_drained: false,
            is_ending: false,
            is_waiting: false,
            waker: Waker::noop().clone(),
        }
    }

    /// Whom the store tells that what a request waits for is there.
    pub(crate) fn is_woken_by(&mut self, waker: Waker) {
        self.waker = waker;
    }

    pub(crate) fn socket(&mut self) -> &mut mio::net::TcpStream {
        self.transport.socket()
    }

    /// Whether somebody wants it ended.
    pub(crate) fn is_killed(&self) -> bool {
        self.client.is_killed.load(Relaxed)
    }

    /// Whether replies wait for the socket.
    pub(crate) fn has_output(&self) -> bool {
        self.sent < self.output.len()
    }

    /// Receives, serves and sends as much as is possible without waiting for the socket. It may wait for the store.
    ///
    /// A panic in a command ends this connection alone: it is logged and counted, and what has not
    /// been sent is dropped. Locks and transactions of the command go while it unwinds.
    pub(crate) fn turn(&mut self) -> Turn {
        match catch_unwind(AssertUnwindSafe(|| self.rounds())) {
            Ok(Ok(turn)) => {
                self.input.rest();
                self.note_memory();
                turn
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, client = self.client.id, "a connection broke");
                Turn::Closed
            }
            Err(panic) => {
                self.shared.counters.panics.fetch_add(1, Relaxed);
                let why = panic_text(&*panic);
                tracing::error!(client = self.client.id, why, "closed: a command panicked");
                Turn::Closed
            }
        }
    }

    /// Notes what the buffers hold, for who asks how much memory connections take.
    fn note_memory(&self) {
        let memory = &self.client.memory;
        let input = self.input.len() as u64;
        let output = (self.output.len() - self.sent) as u64;
        memory.input.store(input, Relaxed);
        memory.input_room.store(self.input.room() - input, Relaxed);
        memory.output.store(output, Relaxed);
        memory.output_room.store(self.output.capacity() as u64, Relaxed);
    }

    fn rounds(&mut self) -> io::Result<Turn> {
        for _ in 0..ROUNDS {
            self.send()?;
            if !self.protocol.pushed(&mut self.output, &self.waker) {
                tracing::warn!(
                    client = self.client.id,
                    "closed: it did not take what MONITOR shows"
                );
                return Ok(Turn::Closed);
            }
            self.send()?;
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
            if self.is_waiting {
                // The socket may have said that there is more, and says it only once.
                self.is_drained = false;
            } else if !self.has_more {
                match self.input.fill(&mut self.transport) {
                    Ok((_, 0)) => return Ok(Turn::Closed),
                    Ok((asked, got)) => {
                        self.is_drained = got < asked && self.transport.is_drained_by_short_reads();
                        self.shared.counters.received.fetch_add(got as u64, Relaxed);
                        self.shared.counters.reads.fetch_add(1, Relaxed);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Turn::Idle),
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                }
            }
            let served = self
                .protocol
                .serve(&mut self.input, &mut self.output, &self.waker);
            self.is_waiting = served == Served::Wait;
            self.has_more = served == Served::Some;
            self.is_ending = served == Served::Close;
            if self.output.len() - self.sent > self.shared.config.max_output() {
                self.shared.counters.output_overflows.fetch_add(1, Relaxed);
                tracing::warn!(
                    client = self.client.id,
                    "closed: its replies exceed the output buffer"
                );
                return Ok(Turn::Closed);
            }
            if self.protocol.takes_sync() {
                return Ok(Turn::Sync);
            }
            self.send()?;
            if self.is_waiting {
                return Ok(Turn::Store);
            }
            if self.is_drained && !self.has_more && !self.is_ending {
                return Ok(Turn::Idle);
            }
        }
        Ok(Turn::Again)
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
                    self.shared.counters.sent.fetch_add(count as u64, Relaxed);
                    self.shared.counters.writes.fetch_add(1, Relaxed);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
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

/// Returns the message of a panic, as far as it has one.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    text.or(owned).unwrap_or("no message")
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.transport.close();
        self.shared.clients.remove(self.client.id);
    }
}
