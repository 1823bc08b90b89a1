//! One memcached connection to a store, which parses and executes requests in runs.

mod refuse;

use super::dump::{self, MetadataDump};
use super::execute::{check, execute, refuse};
use super::items::{self, ItemAccess, ItemKey, StoredItems};
use super::outcome::{ExecutionProgress, RequestRunOutcome, RunProgress};
use super::permission::{AuthDelay, AuthDelayState, AuthOutcome};
use super::request::{self, MemcachedRequest, ParsedInput};
use super::run::{self, NextWork, RunLimits};
use super::text::TOO_LARGE;
use super::{stats, text};
use crate::access::AclUser;
use crate::error::CommandError;
use crate::net::{HIGH_WATER, ProtocolSession, ReceiveBuffer, ServeOutcome};
use crate::shared::{ClientHandle, StoreContext};
use crate::store::{KeyLockRequest, ReadReservation, ServerStore};
use alluvium::{MultiGetFuture, Value};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

/// Once a run has written more bytes than this, its writes are committed in several parts of whole
/// requests. The limit is lower if the clients' memory budget divided by `SHARE` is lower.
const MOST_BYTES: usize = 16 << 20;
const SHARE: usize = 8;

/// Maximum length in bytes of the value in a `set` that authenticates a client.
pub(super) const MOST_CREDENTIALS: usize = 2048;

/// Maximum size in bytes of a request from an unauthenticated client.
pub(super) const UNKNOWN_INPUT: usize = 8 << 10;

/// Initial and maximum limit on the number of read requests that a session executes in one run. The
/// limit adapts to the length of the items, because all items read in a run are in memory at the
/// same time.
const FIRST: usize = 16;
const MOST: usize = 64;

/// The state of one connection.
pub(crate) struct MemcachedSession {
    pub(super) shared: Arc<StoreContext>,
    pub(super) client: Arc<ClientHandle>,
    pub(super) user: Arc<AclUser>,
    /// Whether the client has authenticated successfully or need not authenticate.
    pub(super) is_authenticated: bool,
    /// Number of wrong passwords on this connection. The login delay increases with this number.
    pub(super) failed_logins: u32,
    pub(super) pause: Option<AuthDelay>,
    /// Number of bytes of a refused data block still to be skipped.
    skipping: usize,
    wants_sync: bool,
    waiting: Option<PendingRun>,
    /// Maximum number of reading requests in the next run. Long items reduce it.
    reads: usize,
    /// Whether the next request that needs memory is refused because it has already waited too
    /// long.
    refuses: bool,
    /// The `lru_crawler metadump` in progress. Later requests wait until it is complete.
    dump: Option<MetadataDump>,
}

/// A run that waits for its items to be read.
struct PendingRun {
    /// Number of requests in the run. More may have arrived since it began to wait.
    requests: usize,
    reading: MultiGetFuture,
    /// The read's memory charge, released with this value.
    _room: ReadReservation,
}

/// The items returned by a completed read.
type ReadResult = alluvium::Result<Vec<Option<Value>>>;

/// What to do with the connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestOutcome {
    Replied,
    Quit,
}

impl MemcachedSession {
    pub(crate) fn new(shared: &Arc<StoreContext>, client: &Arc<ClientHandle>) -> MemcachedSession {
        MemcachedSession {
            shared: Arc::clone(shared),
            client: Arc::clone(client),
            user: shared.access.default_user(),
            is_authenticated: shared.access.is_open(),
            failed_logins: 0,
            pause: None,
            skipping: 0,
            wants_sync: false,
            waiting: None,
            reads: FIRST,
            refuses: false,
            dump: None,
        }
    }

    /// Executes a run, or only part of it if its replies become long. Returns the number of
    /// executed requests or, if there were none, the outcome that ends this turn.
    fn serve_run(
        &mut self,
        requests: &[MemcachedRequest<'_>],
        read: Option<ReadResult>,
        output: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Result<usize, ServeOutcome> {
        let start = output.len();
        match self.run(requests, read, output, context) {
            ExecutionProgress::Waits(reading) => {
                let (reading, room) = *reading;
                self.waiting = Some(PendingRun {
                    requests: requests.len(),
                    reading,
                    _room: room,
                });
                Err(ServeOutcome::Wait)
            }
            ExecutionProgress::Full => Err(ServeOutcome::Full),
            ExecutionProgress::All => {
                let bytes = output.len().saturating_sub(start);
                self.shared.store.sizes.note(bytes / requests.len().max(1));
                self.reads = (2 * self.reads).min(MOST);
                Ok(requests.len())
            }
            ExecutionProgress::Part(executed) => {
                self.reads = executed.max(1);
                Ok(executed)
            }
        }
    }

    /// Executes a run and writes its replies. If items must first be read from the device, executes
    /// nothing and returns the pending read. Once it has completed, the caller must call this again
    /// with its result in `read`.
    fn run(
        &mut self,
        requests: &[MemcachedRequest<'_>],
        read: Option<ReadResult>,
        output: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> ExecutionProgress {
        let shared = Arc::clone(&self.shared);
        let _turn = shared.store.turn_to_write(run::written_bytes(requests));
        let refuses = std::mem::take(&mut self.refuses);
        let mut done = RunProgress::at(0, output.len());
        let mut ran = self.try_run(requests, read, Some(context), output, &mut done);
        if matches!(ran, Ok(RequestRunOutcome::WantsCare)) {
            ran = self.try_run(requests, None, None, output, &mut done);
        }
        let mut executed = requests.len();
        match ran {
            Ok(RequestRunOutcome::Waits(reading)) => return ExecutionProgress::Waits(reading),
            Ok(RequestRunOutcome::Full) if refuses => {
                self.refuse_to_read(&requests[0], output);
                executed = 1;
            }
            Ok(RequestRunOutcome::Full) => return ExecutionProgress::Full,
            Ok(RequestRunOutcome::Part(part)) => executed = part,
            Ok(_) => {}
            Err(failure) => {
                // The writes of the remaining requests were not committed, so discard their
                // replies.
                output.truncate(done.position);
                let rest = &requests[done.requests..];
                match rest.len() > 1 && failure.may_spare_others() {
                    true => self.run_one_by_one(rest, output),
                    false => rest
                        .iter()
                        .for_each(|request| self.refuse(&failure, request, output)),
                }
            }
        }
        let counters = &self.shared.counters;
        counters.commands.fetch_add(executed as u64, Ordering::Relaxed);
        if executed < requests.len() {
            return ExecutionProgress::Part(executed);
        }
        ExecutionProgress::All
    }

    /// After a run has failed, executes its requests one by one to find those that fail. Blocks
    /// until their items are read.
    fn run_one_by_one(&mut self, requests: &[MemcachedRequest<'_>], output: &mut Vec<u8>) {
        for request in requests {
            let mut done = RunProgress::at(0, output.len());
            if let Err(failure) = self.try_run(std::slice::from_ref(request), None, None, output, &mut done) {
                output.truncate(done.position);
                self.refuse(&failure, request, output);
            }
        }
    }

    /// Executes the requests of a run that `done` does not include. If `context` is `None`, blocks
    /// until items are read, and locks all items, including those that are only read.
    fn try_run(
        &mut self,
        requests: &[MemcachedRequest<'_>],
        read: Option<ReadResult>,
        context: Option<&mut Context<'_>>,
        output: &mut Vec<u8>,
        done: &mut RunProgress,
    ) -> Result<RequestRunOutcome, CommandError> {
        let shared = Arc::clone(&self.shared);
        let store = &*shared.store;
        self.flush_if_due()?;
        let is_careful = context.is_none();
        let mut wanted = KeyLockRequest::default();
        let mut keys: Vec<ItemKey> = Vec::new();
        // Prefetch only this many items. Further items are read one by one.
        let most_read = store.sizes.most();
        for request in &requests[done.requests..] {
            run::accesses(request, is_careful, |key, access| {
                StoredItems::lock(&mut wanted, key, access);
                if access != ItemAccess::Overwrites && keys.len() < most_read {
                    keys.push(ItemKey::from_slice(key));
                }
            });
        }
        let needs_locks = !wanted.is_empty();
        let _held = store.locks.lock(wanted);
        let mut items = StoredItems::new(store, !keys.is_empty(), is_careful);
        items.reply_room = self.shared.budget.reply_room();
        if !keys.is_empty() {
            match read_keys(store, &keys, read, needs_locks, context)? {
                Ok(values) => items.has_read(keys, values),
                Err(waits) => return Ok(waits),
            }
        }
        let before = output.len();
        let most_bytes = MOST_BYTES.min(shared.budget.limit() / SHARE);
        for (index, request) in requests.iter().enumerate().skip(done.requests) {
            if output.len().saturating_sub(before) > HIGH_WATER {
                self.commit(&mut items)?;
                return Ok(RequestRunOutcome::Part(index));
            }
            let start = output.len();
            let here = RunProgress::at(index, start);
            if items.bytes > most_bytes {
                self.commit(&mut items)?;
                *done = here;
            }
            if let Err(failure) = self.execute(request, &mut items, output) {
                output.truncate(start);
                self.refuse(&failure, request, output);
            }
            self.bound(request, start, items.reply_room, output);
            if items.wants_care {
                // Commit the preceding requests' writes, so that these requests are neither
                // executed nor counted twice.
                self.commit(&mut items)?;
                *done = here;
                return Ok(RequestRunOutcome::WantsCare);
            }
        }
        self.commit(&mut items)?;
        Ok(RequestRunOutcome::Whole)
    }

    /// Replaces a reply of more than `most` bytes with an error. `most` is the memory available to
    /// clients when the run began. Commands that return items have stopped writing at about that
    /// size.
    fn bound(&self, request: &MemcachedRequest<'_>, start: usize, most: usize, output: &mut Vec<u8>) {
        let only_reads = matches!(request.word(0), b"get" | b"gets" | b"mg");
        if !only_reads || output.len().saturating_sub(start) <= most {
            return;
        }
        output.truncate(start);
        output.shrink_to_fit();
        let counters = &self.shared.counters;
        counters.memory_refusals.fetch_add(1, Ordering::Relaxed);
        counters.errors.fetch_add(1, Ordering::Relaxed);
        output.extend_from_slice(b"SERVER_ERROR out of memory writing get response (--client-memory)\r\n");
    }

    fn commit(&mut self, items: &mut StoredItems<'_>) -> Result<(), CommandError> {
        let has_written = items.commit()?;
        self.wants_sync |= has_written && self.shared.store.waits_for_disk();
        Ok(())
    }

    fn execute(
        &self,
        request: &MemcachedRequest<'_>,
        items: &mut StoredItems<'_>,
        output: &mut Vec<u8>,
    ) -> Result<(), CommandError> {
        check(request)?;
        self.permit_items(request)?;
        execute(request, items, &self.shared.counters, output)
    }

    fn refuse(&self, failure: &CommandError, request: &MemcachedRequest<'_>, output: &mut Vec<u8>) {
        self.shared.counters.errors.fetch_add(1, Ordering::Relaxed);
        refuse(failure, request, output);
    }

    /// Executes a request that does not concern individual items.
    fn run_alone(&mut self, request: &MemcachedRequest<'_>, output: &mut Vec<u8>) -> RequestOutcome {
        let start = output.len();
        self.shared.counters.commands.fetch_add(1, Ordering::Relaxed);
        self.dispatch_alone(request, output).unwrap_or_else(|failure| {
            output.truncate(start);
            self.refuse(&failure, request, output);
            RequestOutcome::Replied
        })
    }

    fn dispatch_alone(
        &mut self,
        request: &MemcachedRequest<'_>,
        output: &mut Vec<u8>,
    ) -> Result<RequestOutcome, CommandError> {
        self.flush_if_due()?;
        self.permit_alone(request)?;
        match request.word(0) {
            b"flush_all" => {
                let has_written = text::flush(request, &self.shared, output)?;
                self.wants_sync |= has_written && self.shared.store.waits_for_disk();
            }
            b"verbosity" => text::verbosity(request, output)?,
            b"version" => {
                output.extend_from_slice(format!("VERSION {}\r\n", stats::VERSION).as_bytes());
            }
            b"stats" => stats::stats(request, &self.shared, output)?,
            b"lru_crawler" if request.word(1) == b"metadump" => {
                self.dump = Some(MetadataDump::new(request, &self.shared.store)?);
            }
            b"lru_crawler" => {
                output.extend_from_slice(dump::crawler(request)?.as_bytes());
                output.extend_from_slice(b"\r\n");
            }
            b"quit" => return Ok(RequestOutcome::Quit),
            b"mn" => output.extend_from_slice(b"MN\r\n"),
            b"shutdown" => return Err(CommandError::say("ERROR: shutdown not enabled")),
            _ => return Err(CommandError::say("ERROR")),
        }
        Ok(RequestOutcome::Replied)
    }

    /// Deletes all items if a scheduled `flush_all` is due.
    fn flush_if_due(&mut self) -> Result<(), CommandError> {
        let shared = &self.shared;
        let due = shared.flush_at.load(Ordering::Acquire);
        if due == 0 || due > shared.store.now_ms() {
            return Ok(());
        }
        let taken = shared
            .flush_at
            .compare_exchange(due, 0, Ordering::AcqRel, Ordering::Acquire);
        if taken.is_ok() {
            items::flush(&shared.store)?;
            self.wants_sync |= self.shared.store.waits_for_disk();
        }
        Ok(())
    }

    /// Executes one request of an unauthenticated client. As in memcached, it must be a `set` of
    /// any key, whose value consists of the user name, a blank and the password. Returns `None` if
    /// the next request may run in the same turn.
    fn log_in(
        &mut self,
        input: &mut ReceiveBuffer,
        output: &mut Vec<u8>,
        waker: &Waker,
    ) -> Option<ServeOutcome> {
        let arrived = input.len();
        let (text, taken) = match request::read(input.bytes(), MOST_CREDENTIALS) {
            ParsedInput::Nothing if arrived > UNKNOWN_INPUT => return Some(ServeOutcome::Close),
            ParsedInput::Nothing => return Some(ServeOutcome::All),
            ParsedInput::Http => return Some(ServeOutcome::Close),
            ParsedInput::Binary(header) => {
                output.extend_from_slice(&request::binary_refusal(header));
                return Some(ServeOutcome::Close);
            }
            ParsedInput::Endless => return Some(ServeOutcome::Close),
            ParsedInput::Bad(error, taken) => (error, taken),
            ParsedInput::TooLarge(_, taken) => (TOO_LARGE, taken),
            ParsedInput::Request(request, taken) if taken > UNKNOWN_INPUT || request.word(0) == b"quit" => {
                return Some(ServeOutcome::Close);
            }
            ParsedInput::Request(request, taken) if request.word(0) == b"set" => {
                match self.identify(request.block, waker) {
                    AuthOutcome::Yes => ("STORED", taken),
                    AuthOutcome::No => {
                        self.shared.counters.errors.fetch_add(1, Ordering::Relaxed);
                        self.skipping = taken;
                        return Some(ServeOutcome::Wait);
                    }
                }
            }
            ParsedInput::Request(_, taken) => ("CLIENT_ERROR unauthenticated", taken),
        };
        if !self.is_authenticated {
            self.shared.counters.errors.fetch_add(1, Ordering::Relaxed);
        }
        output.extend_from_slice(text.as_bytes());
        output.extend_from_slice(b"\r\n");
        self.skipping = taken;
        None
    }

    /// Discards the input bytes of a refused data block.
    fn skip(&mut self, input: &mut ReceiveBuffer) {
        let skipped = self.skipping.min(input.len());
        input.consume(skipped);
        self.skipping -= skipped;
    }
}

/// Returns the error reply to a request that exceeds the clients' memory budget.
pub(super) fn no_room(limit: usize) -> String {
    format!(
        "SERVER_ERROR out of memory storing object: all clients together may hold {limit} bytes; raise \
         --client-memory\r\n"
    )
}

/// Closes a connection that received HTTP. Otherwise a malicious web page could make a browser send
/// commands in the body of an HTTP request.
pub(super) fn drop_http() -> ServeOutcome {
    tracing::warn!(
        "closed a connection: a client sent HTTP to the memcached port; a web page may have tried to send \
         commands"
    );
    ServeOutcome::Close
}

impl MemcachedSession {
    /// Returns the next run's limits and, if it had to wait for a read, the read's result. Returns
    /// `None` while the read is incomplete.
    fn resume(&mut self, left: usize, context: &mut Context<'_>) -> Option<(RunLimits, Option<ReadResult>)> {
        let Some(mut waiting) = self.waiting.take() else {
            let most = RunLimits {
                requests: left,
                reads: self.reads.min(self.shared.store.sizes.most()),
            };
            return Some((most, None));
        };
        match Pin::new(&mut waiting.reading).poll(context) {
            Poll::Ready(result) => Some((RunLimits::requests(waiting.requests), Some(result))),
            Poll::Pending => {
                self.waiting = Some(waiting);
                None
            }
        }
    }
}

/// Writes an error in the client's protocol, and closes the connection because the input is
/// invalid.
pub(super) fn ended(next: &NextWork<'_>, output: &mut Vec<u8>) -> ServeOutcome {
    match next {
        NextWork::Http => return drop_http(),
        NextWork::Endless => output.extend_from_slice(b"CLIENT_ERROR line too long\r\n"),
        NextWork::Binary(header) => output.extend_from_slice(&request::binary_refusal(header)),
        NextWork::Nothing
        | NextWork::Run(..)
        | NextWork::Alone(..)
        | NextWork::Bad(..)
        | NextWork::TooLarge(..) => {
            unreachable!("what can be answered ends no connection")
        }
    }
    ServeOutcome::Close
}

impl MemcachedSession {
    /// Writes the next page of the current `lru_crawler metadump`.
    fn write_dump(&mut self, output: &mut Vec<u8>) -> ServeOutcome {
        let Some(mut dump) = self.dump.take() else {
            return ServeOutcome::Some;
        };
        match dump.write(output) {
            Ok(true) => {}
            Ok(false) => self.dump = Some(dump),
            Err(error) => {
                tracing::warn!(client = self.client.id, %error, "closed a connection: the dump of items failed");
                return ServeOutcome::Close;
            }
        }
        ServeOutcome::Some
    }
}

/// Reads a run's items. If this must wait for the device or for memory, returns an outcome that
/// says so. A run with locks reads the values again, because earlier ones may have changed before
/// the locks were acquired; it usually finds them in memory.
fn read_keys(
    store: &ServerStore,
    keys: &[ItemKey],
    read: Option<ReadResult>,
    needs_locks: bool,
    context: Option<&mut Context<'_>>,
) -> Result<Result<Vec<Option<Value>>, RequestRunOutcome>, CommandError> {
    let context = match (read, context) {
        (Some(values), _) if !needs_locks => return Ok(Ok(values?)),
        (Some(Err(error)), _) => return Err(error.into()),
        (Some(Ok(_)), _) | (None, None) => return Ok(Ok(store.read_all(&store.items, keys)?)),
        (None, Some(context)) => context,
    };
    if let Some(values) = store.items.multi_get_in_memory(keys)? {
        return Ok(Ok(values));
    }
    let Some(memory) = store.room_to_read(keys.len()) else {
        return Ok(Err(RequestRunOutcome::Full));
    };
    let mut reading = store.items.multi_get_async(keys);
    match Pin::new(&mut reading).poll(context) {
        Poll::Ready(values) => Ok(Ok(values?)),
        Poll::Pending => Ok(Err(RequestRunOutcome::Waits(Box::new((reading, memory))))),
    }
}

impl ProtocolSession for MemcachedSession {
    fn serve(&mut self, input: &mut ReceiveBuffer, output: &mut Vec<u8>, waker: &Waker) -> ServeOutcome {
        let (most_block, mut left) = (self.shared.config.limits.request, self.shared.config.limits.batch);
        let mut context = Context::from_waker(waker);
        match self.paused() {
            AuthDelayState::Over(reply) => output.extend_from_slice(reply.as_bytes()),
            AuthDelayState::StillOn => return ServeOutcome::Wait,
            AuthDelayState::Ends => return ServeOutcome::Close,
        }
        let before = output.len();
        while left > 0 {
            self.skip(input);
            if self.dump.is_some() {
                // Later requests wait until the whole dump has been written, which happens page by
                // page.
                return self.write_dump(output);
            }
            if input.len() == 0 {
                return ServeOutcome::All;
            }
            if output.len().saturating_sub(before) > HIGH_WATER {
                return ServeOutcome::Some;
            }
            if !self.is_authenticated {
                match self.log_in(input, output, waker) {
                    Some(served) => return served,
                    None => continue,
                }
            }
            let Some((most, read)) = self.resume(left, &mut context) else {
                return ServeOutcome::Wait;
            };
            let bytes: &[u8] = input.bytes();
            self.skipping = match run::next(bytes, most_block, most) {
                NextWork::Nothing => return ServeOutcome::All,
                NextWork::Run(requests, taken) => {
                    let executed = match self.serve_run(&requests, read, output, &mut context) {
                        Ok(executed) => executed,
                        Err(served) => return served,
                    };
                    left = left.saturating_sub(executed);
                    match run::next(bytes, most_block, RunLimits::requests(executed)) {
                        NextWork::Run(_, part) if executed < requests.len() => part,
                        _ => taken,
                    }
                }
                NextWork::Alone(request, taken) => {
                    if self.run_alone(&request, output) == RequestOutcome::Quit {
                        return ServeOutcome::Close;
                    }
                    left -= 1;
                    taken
                }
                NextWork::Bad(error, taken) => {
                    self.refuse_unread(error.as_bytes(), output);
                    left -= 1;
                    taken
                }
                NextWork::TooLarge(request, taken) => {
                    self.refuse_too_large(&request, output);
                    left -= 1;
                    taken
                }
                other => return ended(&other, output),
            };
        }
        self.skip(input);
        match self.dump {
            Some(_) => self.write_dump(output),
            None => ServeOutcome::Some,
        }
    }

    fn announced(&mut self, input: &mut ReceiveBuffer) -> usize {
        match self.skipping {
            0 => request::announced(input.bytes(), self.shared.config.limits.request),
            _ => 0,
        }
    }

    fn refuse_announced(&mut self, input: &mut ReceiveBuffer, output: &mut Vec<u8>) {
        self.skipping = self.announced(input).max(input.len());
        self.shared.counters.errors.fetch_add(1, Ordering::Relaxed);
        output.extend_from_slice(no_room(self.shared.budget.limit()).as_bytes());
        self.skip(input);
    }

    fn refuse_reply(&mut self) {
        self.refuses = true;
    }

    fn held(&self) -> usize {
        0
    }

    fn takes_sync(&mut self) -> bool {
        std::mem::take(&mut self.wants_sync)
    }

    fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    fn report_sync_failure(&mut self, output: &mut Vec<u8>, why: &str) {
        output.extend_from_slice(format!("SERVER_ERROR the write is not durable: {why}\r\n").as_bytes());
    }
}

#[cfg(test)]
mod tests;
