//! One Redis connection to a store. It parses and checks requests, executes them in batches, and
//! sends the replies in request order (S9).
//!
//! Its parts: `settings.rs` and `reply_mode.rs` (the client's settings), `identity.rs`
//! (authentication), `reader.rs` (request parsing), `suspension.rs` (reasons to wait), and
//! `activity.rs` (times of activity).

mod activity;
mod identity;
mod reader;
mod reply_mode;
mod settings;
mod suspension;

pub(super) use reply_mode::ReplyMode;
pub(super) use settings::SessionSettings;

use super::batch::{BatchOutcome, CommandBatch};
use super::commands::interactive::SessionTransaction;
use super::commands::pubsub::SessionSubscriptions;
use super::commands::transactions::MultiState;
use super::commands::{connection, monitor_commands, pubsub};
use super::paging::{PipelineFlowControl, ReplyFit, no_room};
use super::permission::NotAllowed;
use super::prefetch::ReadResult;
use super::scripting::{self, LentEngine, ScriptLocks};
use super::table::{CommandHandler, CommandSpec, SessionHandler};
use crate::net::{ProtocolSession, ReceiveBuffer, ServeOutcome};
use crate::observe::monitor::MonitorBacklog;
use crate::protocol::resp::{self, Args, BadRequest, ParsedRequests, ReplyWriter};
use crate::redis::{args, names};
use crate::shared::{ClientHandle, StoreContext};
use crate::store::ReadReservation;
use activity::SessionActivity;
use identity::SessionIdentity;
use reader::RequestReader;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use std::time::Instant;
use suspension::Suspension;

/// Maximum size in bytes of a delayed reply. A longer reply is sent immediately to free its memory,
/// but the requests after it are still delayed.
const MOST_HELD: usize = 64 << 10;

/// The state of one connection.
pub(crate) struct RedisSession {
    pub(super) shared: Arc<StoreContext>,
    pub(super) client: Arc<ClientHandle>,
    pub(super) settings: SessionSettings,
    pub(super) identity: SessionIdentity,
    pub(super) multi: MultiState,
    /// The transaction that the client has started with BEGIN, if any.
    pub(super) interactive: Option<Box<SessionTransaction>>,
    pub(super) paging: PipelineFlowControl,
    pub(super) feed: Option<Arc<MonitorBacklog>>,
    /// The interpreter of the script that runs.
    pub(super) engine: Option<LentEngine>,
    /// The locks of the script that runs, unless it has those of all keys or needs none.
    pub(super) script_locks: Option<ScriptLocks>,
    /// The error of a script that was ended, whose writes must be discarded.
    pub(super) ended_script: Option<String>,
    pub(super) subscriptions: Option<Box<SessionSubscriptions>>,
    /// Gives the connection another turn.
    pub(super) waker: Waker,
    pub(super) activity: SessionActivity,
    pub(super) reader: RequestReader,
    suspension: Option<Suspension>,
    /// The memory charge of a completed read, kept until the batch runs.
    pub(super) reservation: Option<ReadReservation>,
    pub(super) is_ending: bool,
    pub(super) wants_sync: bool,
}

/// Why a request is rejected without being executed.
enum RequestRefusal {
    Say(Cow<'static, str>),
    NotAllowed(NotAllowed),
}

/// Whether all requests have been executed or, if not, why execution stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExecutionFlow {
    Done,
    /// The remaining requests wait for a read from the store.
    Wait,
    /// The remaining requests wait until another client changes a key.
    Block,
    /// The remaining requests wait until the client has received part of a long reply.
    PartialReply,
    /// The remaining requests run after the replies have been sent.
    Send,
    /// The remaining requests wait until other clients have released memory.
    OutOfMemory,
}

impl RedisSession {
    pub(crate) fn new(shared: &Arc<StoreContext>, client: &Arc<ClientHandle>) -> RedisSession {
        RedisSession {
            shared: Arc::clone(shared),
            client: Arc::clone(client),
            settings: SessionSettings::default(),
            identity: SessionIdentity::new(&shared.access),
            multi: MultiState::default(),
            interactive: None,
            paging: PipelineFlowControl::default(),
            feed: None,
            engine: None,
            script_locks: None,
            ended_script: None,
            subscriptions: None,
            waker: Waker::noop().clone(),
            activity: SessionActivity::default(),
            reader: RequestReader::default(),
            suspension: None,
            reservation: None,
            is_ending: false,
            wants_sync: false,
        }
    }

    /// Executes requests in order, combining consecutive ones into batches where possible.
    /// Continues a suspended execution where it stopped.
    fn execute(
        &mut self,
        requests: &ParsedRequests,
        buffer: &[u8],
        output: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> ExecutionFlow {
        let (mut index, mut read) = match self.resume(output, context) {
            Ok(resumed) => resumed,
            Err(flow) => return flow,
        };
        while index < requests.len() && !self.is_ending {
            let at = index;
            if self.paging.pauses(at, output.len()) {
                return ExecutionFlow::Send;
            }
            let args = requests.get(index, buffer);
            index += 1;
            let command = match self.admit(args) {
                Ok(command) => command,
                // No command has such a name, so an HTTP line always ends up here.
                Err(_) if is_http(args) => {
                    self.drop_http();
                    break;
                }
                Err(refusal) => {
                    read = None;
                    self.refuse_request(args, &refusal, output);
                    continue;
                }
            };
            if self.shared.pause.is_on() && read.is_none() && self.is_paused(command, context) {
                return self.suspend(Suspension::ClientPause { next: at });
            }
            if self.multi.is_begun() && !command.runs_in_multi() {
                self.queue(command, args, output);
                continue;
            }
            match command.action {
                CommandHandler::Session(run) => {
                    let start = output.len();
                    self.run_alone((command, run), args, output);
                    if let Some(until) = self.identity.take_delay() {
                        let reply = match output.len() - start > MOST_HELD {
                            true => Vec::new(),
                            false => output.split_off(start),
                        };
                        return self.delay(until, reply, index, context);
                    }
                }
                CommandHandler::Data(_) | CommandHandler::Script(_) if self.interactive.is_some() => {
                    self.run_within(command, args, output);
                }
                CommandHandler::Script(_) => self.run_alone((command, scripting::eval_alone), args, output),
                CommandHandler::Data(_) => {
                    let batch = self.gather(requests, buffer, command, at);
                    let read = read.take().filter(|(of, _)| *of == batch.len());
                    let read = read.map(|(_, result)| result);
                    match self.run_batch(&batch, at, read, output, context) {
                        Ok(next) => index = next,
                        Err(flow) => return flow,
                    }
                }
            }
        }
        self.note(requests.len());
        ExecutionFlow::Done
    }

    /// Executes a batch that begins with request `at`. Returns the index of the next request, or
    /// the reason why execution stops there.
    fn run_batch(
        &mut self,
        batch: &CommandBatch<'_>,
        at: usize,
        read: Option<ReadResult>,
        output: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Result<usize, ExecutionFlow> {
        let (start, before) = (output.len(), self.settings.reply_mode);
        let (executed, tail) = match self.run(batch, read, output, context) {
            BatchOutcome::Commands(executed, tail) => (executed, tail),
            BatchOutcome::Blocks(waiting) => {
                self.client.is_blocked.store(true, Ordering::Relaxed);
                self.suspend(Suspension::Change {
                    waiting,
                    next: at + 1,
                });
                return Err(ExecutionFlow::Block);
            }
            BatchOutcome::Waits(awaited) => {
                let (next, count) = (at, batch.len());
                return Err(self.suspend(Suspension::Read { awaited, next, count }));
            }
        };
        self.settings.reply_mode.apply(before, output, start);
        if let Some(tail) = tail {
            let next = at + executed;
            self.suspend(Suspension::PartialReply { tail, next });
            return Err(ExecutionFlow::PartialReply);
        }
        match self.paging.adapt_to_result(at, executed) {
            (next, ReplyFit::Yes) => Ok(next),
            (_, ReplyFit::NotYet) => Err(ExecutionFlow::OutOfMemory),
        }
    }

    /// Rejects a request before execution and writes an error reply.
    fn refuse_request(&mut self, args: Args<'_>, refusal: &RequestRefusal, output: &mut Vec<u8>) {
        let text = match refusal {
            RequestRefusal::Say(text) => Cow::Borrowed(&**text),
            RequestRefusal::NotAllowed(denied) => {
                self.note_denied(denied);
                Cow::Owned(denied.text())
            }
        };
        self.fail_transaction();
        let mut text = text;
        if let Some(command) = names::find(args.at(0)) {
            let counted_as = command.counted_as(args);
            self.client.set_last_command(counted_as);
            self.shared.tally.of(counted_as).rejected();
            if let Some(ended) = self.refused_end(command, &text) {
                text = Cow::Owned(ended);
            }
        }
        self.shared.count_error(&text);
        self.reply(output, |reply| reply.error(&text));
    }

    /// Closes a connection that received HTTP. Otherwise a malicious web page could make a browser
    /// send commands in the body of an HTTP request.
    fn drop_http(&mut self) {
        self.is_ending = true;
        tracing::warn!(
            peer = %self.client.peer,
            "closed a connection: a client sent HTTP to the Redis port; a web page may have tried to send \
             commands"
        );
    }

    /// Returns whether CLIENT PAUSE suspends a command. It does not suspend commands that MULTI
    /// queues or commands after BEGIN, but it suspends their EXEC or COMMIT.
    fn is_paused(&self, command: &CommandSpec, context: &Context<'_>) -> bool {
        let is_queued = self.multi.is_begun() && !command.runs_in_multi();
        let is_within = self.interactive.is_some() && !matches!(command.action, CommandHandler::Session(_));
        let is_exempt = is_queued || is_within || command.name == "client" || command.allowed_before_auth();
        !is_exempt
            && self
                .shared
                .pause
                .holds(|| command.waits_for_writers(), context.waker())
    }

    /// Executes a command on the connection or the server.
    fn run_alone(
        &mut self,
        (command, run): (&CommandSpec, SessionHandler),
        args: Args<'_>,
        output: &mut Vec<u8>,
    ) {
        let start = output.len();
        let SessionSettings {
            version, reply_mode, ..
        } = self.settings;
        let counted_as = command.counted_as(args);
        self.client.set_last_command(counted_as);
        // MONITOR shows most commands before they run. It shows EXEC after the commands that it
        // executes, authentication afterwards because it may be suspended and run later, and RESET
        // after it has ended this connection's own MONITOR.
        let shows_first = command.is_seen() && !matches!(command.name, "auth" | "hello" | "reset");
        if shows_first {
            self.show(command, args);
        }
        let began = Instant::now();
        if let Err(failure) = run(self, args, &mut ReplyWriter::new(output, version)) {
            output.truncate(start);
            let text = failure.to_string();
            self.shared.count_error(&text);
            self.shared.tally.of(counted_as).failed();
            ReplyWriter::new(output, self.settings.version).error(&text);
        }
        let took = began.elapsed();
        self.shared.tally.of(counted_as).called(1, took);
        if !shows_first {
            self.show(command, args);
        }
        if command.is_seen() {
            self.note_slow(command, args, took);
        }
        self.note_reply_within(output, start);
        self.settings.reply_mode.apply(reply_mode, output, start);
    }

    /// Returns a request's command if it can run in the same batch as the requests before it,
    /// otherwise `None`.
    pub(super) fn joins(&self, args: Args<'_>) -> Option<&'static CommandSpec> {
        if self.multi.is_begun() {
            return None;
        }
        let command = self.admit(args).ok()?;
        (matches!(command.action, CommandHandler::Data(_)) && command.joins_batches()).then_some(command)
    }

    /// Returns a request's command, or the reason for rejecting the request.
    fn admit(&self, args: Args<'_>) -> Result<&'static CommandSpec, RequestRefusal> {
        let say = |text| RequestRefusal::Say(Cow::Owned(text));
        let Some(command) = names::find(args.at(0)) else {
            return Err(say(args::unknown(args)));
        };
        if !command.takes(args.len()) {
            return Err(say(args::wrong_number(command.name).to_string()));
        }
        command.check_subcommand(args).map_err(say)?;
        if !self.identity.is_authenticated && !command.allowed_before_auth() {
            return Err(RequestRefusal::Say(Cow::Borrowed(
                "NOAUTH Authentication required.",
            )));
        }
        if !self.identity.user.allows_all() {
            self.permit(command, args).map_err(RequestRefusal::NotAllowed)?;
        }
        if self.multi.is_begun() && command.is_refused_in_multi() {
            let text = "ERR Command not allowed inside a transaction";
            return Err(RequestRefusal::Say(Cow::Borrowed(text)));
        }
        if self.is_subscriber_only() && !command.is_for_subscribers() {
            return Err(say(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                command.name
            )));
        }
        Ok(command)
    }

    pub(super) fn reply(&mut self, output: &mut Vec<u8>, write: impl FnOnce(&mut ReplyWriter<'_>)) {
        let (start, before) = (output.len(), self.settings.reply_mode);
        write(&mut ReplyWriter::new(output, self.settings.version));
        self.settings.reply_mode.apply(before, output, start);
    }

    fn queue(&mut self, command: &'static CommandSpec, args: Args<'_>, output: &mut Vec<u8>) {
        if !self.has_room_in_queue(args) {
            self.multi.fail();
            let counters = &self.shared.counters;
            counters.memory_refusals.fetch_add(1, Ordering::Relaxed);
            let text = no_room("the transaction", &self.shared.budget);
            self.shared.count_error(&text);
            self.shared.tally.of(command.counted_as(args)).rejected();
            return self.reply(output, |reply| reply.error(&text));
        }
        let result = self
            .multi
            .push(command, args, self.shared.config.limits.transaction);
        self.client
            .queued
            .store(self.multi.len() as i64, Ordering::Relaxed);
        self.reply(output, |reply| match result {
            Ok(()) => reply.simple("QUEUED"),
            Err(failure) => reply.error(&failure.to_string()),
        });
    }

    /// Updates this connection's properties in other connections' CLIENT LIST.
    fn note(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.shared
            .counters
            .commands
            .fetch_add(count as u64, Ordering::Relaxed);
        let age_ms = self.client.age_ms_at(self.activity.note());
        self.client.last_ms.store(age_ms, Ordering::Relaxed);
        self.client.load.moved_ms.store(age_ms, Ordering::Relaxed);
    }

    fn limits(&self) -> resp::RequestLimits {
        if self.identity.is_authenticated {
            self.shared.config.limits.of_requests()
        } else {
            resp::RequestLimits::STRANGER
        }
    }
}

impl ProtocolSession for RedisSession {
    fn serve(&mut self, input: &mut ReceiveBuffer, output: &mut Vec<u8>, waker: &Waker) -> ServeOutcome {
        self.client.load.received.store(input.len(), Ordering::Relaxed);
        if !self.waker.will_wake(waker) {
            self.waker = waker.clone();
        }
        let mut requests = self.reader.take();
        let most = self.shared.config.limits.batch;
        if self.suspension.is_none() && !self.paging.is_paused() {
            let limits = self.limits();
            self.reader.read(input.bytes(), &mut requests, &limits, most);
        }
        let mut context = Context::from_waker(waker);
        let flow = self.execute(&requests, input.bytes(), output, &mut context);
        if flow == ExecutionFlow::OutOfMemory {
            // The discarded reply has made the buffer large, so shrink it.
            output.shrink_to_fit();
        }
        if (self.feed.is_some() || self.subscriptions.is_some()) && !self.append_pushed(output, waker) {
            return ServeOutcome::Close;
        }
        if flow != ExecutionFlow::Done {
            self.reader.put_back(requests);
            return match flow {
                ExecutionFlow::Wait => ServeOutcome::Wait,
                ExecutionFlow::Block => ServeOutcome::Block,
                ExecutionFlow::OutOfMemory => ServeOutcome::Full,
                ExecutionFlow::PartialReply if self.is_ending => ServeOutcome::Close,
                ExecutionFlow::PartialReply | ExecutionFlow::Send | ExecutionFlow::Done => ServeOutcome::Some,
            };
        }
        let is_full = requests.len() >= most;
        input.consume(requests.consumed());
        requests.forget();
        self.reader.put_back(requests);
        if let Some(bad) = self.reader.take_error()
            && !self.is_ending
        {
            self.refuse(&bad, output);
        }
        if self.is_ending {
            return ServeOutcome::Close;
        }
        if is_full && input.len() > 0 {
            ServeOutcome::Some
        } else {
            ServeOutcome::All
        }
    }

    fn announced(&mut self, _input: &mut ReceiveBuffer) -> usize {
        self.reader.announced()
    }

    fn refuse_announced(&mut self, _input: &mut ReceiveBuffer, output: &mut Vec<u8>) {
        self.refuse_begun(output);
    }

    fn refuse_reply(&mut self) {
        self.paging.refuses = true;
    }

    fn held(&self) -> usize {
        let shown = self.feed.as_ref().map_or(0, |feed| feed.held())
            + self.subscriptions.as_ref().map_or(0, |held| held.held());
        self.reader.memory() + self.multi.held() + self.within_held() + shown + self.waiting_held()
    }

    fn append_pushed(&mut self, output: &mut Vec<u8>, waker: &Waker) -> bool {
        // Do not insert messages between the parts of a long reply.
        if self.is_in_reply() {
            return !self.is_overrun();
        }
        if let Some(feed) = &self.feed {
            feed.is_woken_by(waker);
            if !feed.take(output) {
                return false;
            }
        }
        self.append_messages(output, waker)
    }

    fn is_overrun(&self) -> bool {
        let held = self.subscriptions.as_ref();
        self.feed.as_ref().is_some_and(|feed| feed.is_overrun())
            || held.is_some_and(|held| held.subscriber().is_overrun())
    }

    fn takes_sync(&mut self) -> bool {
        std::mem::take(&mut self.wants_sync)
    }

    fn takes_note(&mut self) -> bool {
        self.activity.take_noted()
    }

    fn is_authenticated(&self) -> bool {
        self.identity.is_authenticated
    }

    fn report_sync_failure(&mut self, output: &mut Vec<u8>, why: &str) {
        ReplyWriter::new(output, self.settings.version)
            .error(&format!("ERR the write is not durable: {why}"));
    }
}

impl RedisSession {
    fn refuse(&mut self, bad: &BadRequest, output: &mut Vec<u8>) {
        let text = format!("ERR {bad}");
        self.shared.count_error(&text);
        ReplyWriter::new(output, self.settings.version).error(&text);
        self.is_ending = true;
    }
}

impl Drop for RedisSession {
    fn drop(&mut self) {
        connection::forget(self);
        self.stop_waiting();
        pubsub::unsubscribe_all(self);
        monitor_commands::stop_monitoring(self);
        let store = &self.shared.store;
        store.cursors.close(self.client.id, &store.budget);
    }
}

/// Returns whether a request is a line of HTTP: `POST …` or `Host: …`. Redis uses the same
/// criterion.
fn is_http(args: Args<'_>) -> bool {
    args.is(0, "post") || args.is(0, "host:")
}
