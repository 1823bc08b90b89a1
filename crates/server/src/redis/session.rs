//! One connection: requests are looked up, checked, and executed in batches; replies come in order
//! (S9).

use super::batch::{Awaited, Batch, Ran, ReadResult};
use super::interactive::Begun;
use super::paging::{Fits, Paging, no_room};
use super::permission::NotAllowed;
use super::table::{Action, Command, OnSession};
use super::transactions::Multi;
use super::{args, connection, names, watching};
use crate::access::User;
use crate::monitor::Feed;
use crate::net::{Input, Protocol, Served};
use crate::resp::{self, Args, BadRequest, Parser, Progress, Reply, Requests, Tail, Version};
use crate::shared::{Client, Shared};
use crate::store::Reading;
use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A reply that is longer is not held until it is due: no memory waits for a client. What it sends
/// next waits all the same.
const MOST_HELD: usize = 64 << 10;

/// What happens to replies, as CLIENT REPLY says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replies {
    On,
    Off,
    /// Not to the next command.
    SkipNext,
}

/// The state of one connection.
pub(crate) struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) client: Arc<Client>,
    pub(super) database: u8,
    pub(super) version: Version,
    pub(super) is_known: bool,
    pub(super) user: Arc<User>,
    /// How many wrong passwords were given.
    pub(super) strikes: u32,
    /// When the reply to one is sent that was given just now.
    pub(super) hold: Option<Duration>,
    /// Whether EXEC executes what was queued.
    pub(super) is_executing: bool,
    /// Whether its reads count as uses of keys, which CLIENT NO-TOUCH says.
    pub(super) touches_keys: bool,
    pub(super) replies: Replies,
    pub(super) multi: Multi,
    /// What BEGIN has begun.
    pub(super) interactive: Option<Box<Begun>>,
    /// How many commands found no memory for what they need.
    pub(super) refusals: u64,
    pub(super) is_ending: bool,
    pub(super) wants_sync: bool,
    pub(super) paging: Paging,
    /// What MONITOR shows it.
    pub(super) feed: Option<Arc<Feed>>,
    /// When the batch under way was begun.
    pub(super) began: Option<Instant>,
    /// When the last batch ended, until it is noted.
    pub(super) ended: Option<Instant>,
    /// Whether the last requests were noted, and with them that bytes have come.
    has_noted: bool,
    pub(super) parser: Parser,
    pub(super) requests: Option<Requests>,
    /// What stopped the reading of requests, behind those that were read.
    bad: Option<BadRequest>,
    waiting: Option<Waiting>,
    /// The memory of what was waited for, until it is executed.
    pub(super) room: Option<Reading>,
    pause: Option<Pause>,
    /// The rest of a long reply.
    pub(super) tail: Option<Box<dyn Tail>>,
    /// The first request behind the one with the long reply.
    behind_tail: usize,
}

/// Requests that wait for the answer to a wrong password.
struct Pause {
    /// The request that is next.
    at: usize,
    until: Duration,
    /// What is sent then.
    reply: Vec<u8>,
}

/// Why a request is not executed.
enum Refusal {
    Say(Cow<'static, str>),
    NotAllowed(NotAllowed),
}

/// Requests that wait for what a batch among them reads, or for the end of a pause.
struct Waiting {
    /// The first request of the batch.
    at: usize,
    /// How many requests the batch has. It may have another number when it is next looked at: rules
    /// of users change.
    count: usize,
    /// What it reads; nothing if it waits for the end of a pause.
    reading: Option<Box<Awaited>>,
}

/// What becomes of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Done,
    /// The rest waits for the store.
    Wait,
    /// The rest waits until the client has taken a part of a long reply.
    Part,
    /// The rest has its turn once the replies are sent.
    Send,
    /// The rest waits for memory of clients.
    Full,
}

impl Session {
    pub(crate) fn new(shared: &Arc<Shared>, client: &Arc<Client>) -> Session {
        Session {
            shared: Arc::clone(shared),
            client: Arc::clone(client),
            database: 0,
            version: Version::Two,
            is_known: shared.access.is_open(),
            user: shared.access.default_user(),
            strikes: 0,
            hold: None,
            is_executing: false,
            touches_keys: true,
            replies: Replies::On,
            multi: Multi::default(),
            interactive: None,
            refusals: 0,
            is_ending: false,
            wants_sync: false,
            paging: Paging::default(),
            feed: None,
            began: None,
            ended: None,
            has_noted: false,
            parser: Parser::default(),
            requests: Some(Requests::default()),
            bad: None,
            waiting: None,
            room: None,
            pause: None,
            tail: None,
            behind_tail: 0,
        }
    }

    /// Executes requests in order, neighbours that may be executed together as a batch. Goes on
    /// where it had to wait.
    fn execute(
        &mut self,
        requests: &Requests,
        buffer: &[u8],
        output: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Flow {
        let (mut index, mut read) = match self.resume(output, context) {
            Ok(resumed) => resumed,
            Err(flow) => return flow,
        };
        while index < requests.len() && !self.is_ending {
            let at = index;
            if self.paging.pauses(at, output.len()) {
                return Flow::Send;
            }
            let args = requests.get(index, buffer);
            index += 1;
            let command = match self.admit(args) {
                Ok(command) => command,
                // No command is called like that.
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
                return self.wait_at(at);
            }
            if self.multi.is_begun() && !command.runs_in_multi() {
                self.queue(command, args, output);
                continue;
            }
            match command.action {
                Action::Session(run) => {
                    let start = output.len();
                    self.run_alone((command, run), args, output);
                    if let Some(until) = self.hold.take() {
                        let reply = match output.len() - start > MOST_HELD {
                            true => Vec::new(),
                            false => output.split_off(start),
                        };
                        return self.pause(until, index, reply, context);
                    }
                }
                Action::Data(_) if self.interactive.is_some() => self.run_within(command, args, output),
                Action::Data(_) => {
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
        Flow::Done
    }

    /// Executes a batch that begins with the request `at`. Returns the request that is next, or why
    /// that is not executed now.
    fn run_batch(
        &mut self,
        batch: &Batch<'_>,
        at: usize,
        read: Option<ReadResult>,
        output: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Result<usize, Flow> {
        let (start, replies) = (output.len(), self.replies);
        let executed = match self.run(batch, read, output, context) {
            Ran::Commands(executed) => executed,
            Ran::Waits(reading) => {
                self.waiting = Some(Waiting {
                    at,
                    count: batch.len(),
                    reading: Some(reading),
                });
                return Err(Flow::Wait);
            }
        };
        self.hold_back(replies, output, start);
        if self.tail.is_some() {
            self.behind_tail = at + executed;
            return Err(Flow::Part);
        }
        match self.paging.learn(at, executed) {
            (next, Fits::Yes) => Ok(next),
            (_, Fits::NotYet) => Err(Flow::Full),
        }
    }

    /// Which request is next, and what was read for it if it had to wait; or why it still has to.
    fn resume(
        &mut self,
        output: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Result<(usize, Option<(usize, ReadResult)>), Flow> {
        let first = self.paging.begin(output.len());
        if let Some(pause) = self.pause.take() {
            let delays = &self.shared.access.delays;
            if delays.is_over() {
                self.is_ending = true;
                return Err(Flow::Done);
            }
            if delays.clock().now() < pause.until {
                self.pause = Some(pause);
                return Err(Flow::Wait);
            }
            output.extend_from_slice(&pause.reply);
            return Ok((pause.at, None));
        }
        if let Some(mut waiting) = self.waiting.take() {
            let Some(reading) = &mut waiting.reading else {
                return Ok((waiting.at, None));
            };
            return match Pin::new(&mut reading.reading).poll(context) {
                Poll::Ready(values) => {
                    let number = reading.number;
                    self.room = waiting.reading.take().map(|reading| reading.memory);
                    Ok((waiting.at, Some((waiting.count, ReadResult { values, number }))))
                }
                Poll::Pending => {
                    self.waiting = Some(waiting);
                    Err(Flow::Wait)
                }
            };
        }
        let Some(tail) = self.tail.take() else {
            return Ok((first, None));
        };
        match self.write_part(tail, output) {
            Flow::Done => Ok((self.behind_tail, None)),
            other => Err(other),
        }
    }

    /// Writes a part of a long reply. What was sent of one that cannot be completed is no reply:
    /// the connection ends.
    fn write_part(&mut self, mut tail: Box<dyn Tail>, output: &mut Vec<u8>) -> Flow {
        match tail.write(&mut Reply::new(output, self.version)) {
            Ok(Progress::Whole) => return Flow::Done,
            Ok(Progress::More) => self.tail = Some(tail),
            Err(error) => {
                tracing::warn!(client = self.client.id, %error, "closed: a long reply could not be completed");
                self.is_ending = true;
            }
        }
        Flow::Part
    }

    /// Lets nothing of this connection happen until the answer to a wrong password is due. The
    /// request `at` is the next one.
    fn pause(&mut self, until: Duration, at: usize, reply: Vec<u8>, context: &Context<'_>) -> Flow {
        let clock = self.shared.access.delays.clock();
        clock.wake_at(until, context.waker());
        self.pause = Some(Pause { at, until, reply });
        Flow::Wait
    }

    /// Refuses a request before it is executed.
    fn refuse_request(&mut self, args: Args<'_>, refusal: &Refusal, output: &mut Vec<u8>) {
        let text = match refusal {
            Refusal::Say(text) => Cow::Borrowed(&**text),
            Refusal::NotAllowed(denied) => {
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

    /// Ends a connection that speaks HTTP: a web page could make a browser send commands in a
    /// request's body.
    fn drop_http(&mut self) {
        self.is_ending = true;
        tracing::warn!(
            peer = %self.client.peer,
            "closed: a client of the Redis port spoke HTTP; a web page may have tried to send commands"
        );
    }

    /// A request waits until a pause is over.
    fn wait_at(&mut self, at: usize) -> Flow {
        self.waiting = Some(Waiting {
            at,
            count: 0,
            reading: None,
        });
        Flow::Wait
    }

    /// Whether CLIENT PAUSE holds a command. What is queued for EXEC waits with it, and what was
    /// written since BEGIN with COMMIT.
    fn is_paused(&self, command: &Command, context: &Context<'_>) -> bool {
        let is_queued = self.multi.is_begun() && !command.runs_in_multi();
        let is_within = self.interactive.is_some() && matches!(command.action, Action::Data(_));
        let is_exempt = is_queued || is_within || command.name == "client" || command.is_for_strangers();
        !is_exempt
            && self
                .shared
                .pause
                .holds(|| command.waits_for_writers(), context.waker())
    }

    /// Executes a command of the connection or the server.
    fn run_alone(&mut self, (command, run): (&Command, OnSession), args: Args<'_>, output: &mut Vec<u8>) {
        let (start, replies, version) = (output.len(), self.replies, self.version);
        let counted_as = command.counted_as(args);
        self.client.set_last_command(counted_as);
        // EXEC stands behind what it executes; one that says who it is may have to wait, and is
        // executed later; who has said RESET watches no more.
        let shows_first = command.is_seen() && !matches!(command.name, "auth" | "hello" | "reset");
        if shows_first {
            self.show(command, args);
        }
        let began = Instant::now();
        if let Err(failure) = run(self, args, &mut Reply::new(output, version)) {
            output.truncate(start);
            let text = failure.to_string();
            self.shared.count_error(&text);
            self.shared.tally.of(counted_as).failed();
            Reply::new(output, self.version).error(&text);
        }
        let took = began.elapsed();
        self.shared.tally.of(counted_as).called(1, took);
        if !shows_first {
            self.show(command, args);
        }
        if command.is_seen() {
            self.note_slow(command, args, took);
        }
        self.hold_back(replies, output, start);
    }

    /// Whether a request can be executed with those before it.
    pub(super) fn joins(&self, args: Args<'_>) -> Option<&'static Command> {
        if self.multi.is_begun() {
            return None;
        }
        let command = self.admit(args).ok()?;
        (matches!(command.action, Action::Data(_)) && command.joins_batches()).then_some(command)
    }

    /// What a request asks for, if it may.
    fn admit(&self, args: Args<'_>) -> Result<&'static Command, Refusal> {
        let say = |text| Refusal::Say(Cow::Owned(text));
        let Some(command) = names::find(args.at(0)) else {
            return Err(say(args::unknown(args)));
        };
        if !command.takes(args.len()) {
            return Err(say(args::wrong_number(command.name).to_string()));
        }
        command.check_subcommand(args).map_err(say)?;
        if !self.is_known && !command.is_for_strangers() {
            return Err(Refusal::Say(Cow::Borrowed("NOAUTH Authentication required.")));
        }
        if !self.user.allows_all() {
            self.permit(command, args).map_err(Refusal::NotAllowed)?;
        }
        if self.multi.is_begun() && command.is_refused_in_multi() {
            let text = "ERR Command not allowed inside a transaction";
            return Err(Refusal::Say(Cow::Borrowed(text)));
        }
        Ok(command)
    }

    pub(super) fn reply(&mut self, output: &mut Vec<u8>, write: impl FnOnce(&mut Reply<'_>)) {
        let (start, replies) = (output.len(), self.replies);
        write(&mut Reply::new(output, self.version));
        self.hold_back(replies, output, start);
    }

    fn queue(&mut self, command: &'static Command, args: Args<'_>, output: &mut Vec<u8>) {
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

    /// Drops replies that the client does not want. `before` is what it wanted when the command
    /// began.
    pub(super) fn hold_back(&mut self, before: Replies, output: &mut Vec<u8>, start: usize) {
        match before {
            Replies::Off if self.replies == Replies::On => {}
            Replies::Off => output.truncate(start),
            // CLIENT REPLY ON has a reply even when it was to be skipped.
            Replies::SkipNext if self.replies == Replies::On => {}
            Replies::SkipNext => {
                output.truncate(start);
                if self.replies == Replies::SkipNext {
                    self.replies = Replies::On;
                }
            }
            Replies::On if self.replies != Replies::On => output.truncate(start),
            Replies::On => {}
        }
    }

    /// What others see of this connection.
    fn note(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.shared
            .counters
            .commands
            .fetch_add(count as u64, Ordering::Relaxed);
        let now = self.ended.take().unwrap_or_else(Instant::now);
        let age_ms = self.client.age_ms_at(now);
        self.client.last_ms.store(age_ms, Ordering::Relaxed);
        self.client.load.moved_ms.store(age_ms, Ordering::Relaxed);
        self.has_noted = true;
    }

    fn limits(&self) -> resp::Limits {
        if self.is_known {
            self.shared.config.limits.of_requests()
        } else {
            resp::Limits::STRANGER
        }
    }
}

impl Protocol for Session {
    fn serve(&mut self, input: &mut Input, output: &mut Vec<u8>, waker: &Waker) -> Served {
        self.client.load.received.store(input.len(), Ordering::Relaxed);
        let mut requests = self.requests.take().unwrap_or_default();
        let most = self.shared.config.limits.batch;
        let is_held_up = self.waiting.is_some() || self.pause.is_some() || self.tail.is_some();
        if !is_held_up && !self.paging.is_paused() {
            let limits = self.limits();
            let parsed = self.parser.parse(input.bytes(), &mut requests, &limits, most);
            self.bad = parsed.err();
        }
        let mut context = Context::from_waker(waker);
        let flow = self.execute(&requests, input.bytes(), output, &mut context);
        if flow == Flow::Full {
            // A reply that was taken back has made it long.
            output.shrink_to_fit();
        }
        if self.feed.is_some() && !self.pushed(output, waker) {
            return Served::Close;
        }
        if flow != Flow::Done {
            self.requests = Some(requests);
            return match flow {
                Flow::Wait => Served::Wait,
                Flow::Full => Served::Full,
                Flow::Part if self.is_ending => Served::Close,
                Flow::Part | Flow::Send | Flow::Done => Served::Some,
            };
        }
        let is_full = requests.len() >= most;
        input.consume(requests.consumed());
        requests.forget();
        self.requests = Some(requests);
        if let Some(bad) = self.bad.take()
            && !self.is_ending
        {
            self.refuse(&bad, output);
        }
        if self.is_ending {
            return Served::Close;
        }
        if is_full && input.len() > 0 {
            Served::Some
        } else {
            Served::All
        }
    }

    fn announced(&mut self, _input: &mut Input) -> usize {
        self.parser.announced()
    }

    fn refuse_announced(&mut self, _input: &mut Input, output: &mut Vec<u8>) {
        self.refuse_begun(output);
    }

    fn refuse_reply(&mut self) {
        self.paging.refuses = true;
    }

    fn held(&self) -> usize {
        let shown = self.feed.as_ref().map_or(0, |feed| feed.held());
        self.requests.as_ref().map_or(0, Requests::memory) + self.multi.held() + self.within_held() + shown
    }

    fn pushed(&mut self, output: &mut Vec<u8>, waker: &Waker) -> bool {
        let Some(feed) = &self.feed else {
            return true;
        };
        feed.is_woken_by(waker);
        // Nothing comes between the parts of a long reply.
        self.tail.is_some() || feed.take(output)
    }

    fn is_overrun(&self) -> bool {
        self.feed.as_ref().is_some_and(|feed| feed.is_overrun())
    }

    fn takes_sync(&mut self) -> bool {
        std::mem::take(&mut self.wants_sync)
    }

    fn takes_note(&mut self) -> bool {
        std::mem::take(&mut self.has_noted)
    }

    fn is_known(&self) -> bool {
        self.is_known
    }

    fn lost(&mut self, output: &mut Vec<u8>, why: &str) {
        Reply::new(output, self.version).error(&format!("ERR not durable: {why}"));
    }
}

impl Session {
    fn refuse(&mut self, bad: &BadRequest, output: &mut Vec<u8>) {
        let text = format!("ERR {bad}");
        self.shared.count_error(&text);
        Reply::new(output, self.version).error(&text);
        self.is_ending = true;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        connection::forget(self);
        watching::stop_monitoring(self);
        let store = &self.shared.store;
        store.cursors.close(self.client.id, &store.budget);
    }
}

/// Whether a request is a line of HTTP: `POST …` or `Host: …`, as Redis looks for them.
fn is_http(args: Args<'_>) -> bool {
    args.is(0, "post") || args.is(0, "host:")
}
