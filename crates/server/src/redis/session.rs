//! One connection: requests are looked up, checked, and executed in batches; replies come in order (S9).

use super::batch::Batch;
use super::table::{self, Action, Command};
use super::transactions::Multi;
use super::{args, connection, subcommands, watching};
use crate::monitor::Feed;
use crate::net::{Input, Protocol, Served};
use crate::resp::{self, Args, BadRequest, Parser, Reply, Requests, Version};
use crate::shared::{Client, Shared};
use alluvium::MultiGet;
use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

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
    pub(super) replies: Replies,
    pub(super) multi: Multi,
    pub(super) is_ending: bool,
    pub(super) wants_sync: bool,
    /// What MONITOR shows it.
    pub(super) feed: Option<Arc<Feed>>,
    /// When the batch under way was begun.
    pub(super) began: Option<Instant>,
    parser: Parser,
    requests: Option<Requests>,
    /// What stopped the reading of requests, behind those that were read.
    bad: Option<BadRequest>,
    waiting: Option<Waiting>,
}

/// Requests that wait for what a batch among them reads, or for the end of a pause.
struct Waiting {
    /// The first request of the batch.
    at: usize,
    reading: Option<MultiGet>,
}

/// What becomes of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Done,
    /// The rest waits for the store.
    Wait,
}

impl Session {
    pub(crate) fn new(shared: &Arc<Shared>, client: &Arc<Client>) -> Session {
        Session {
            shared: Arc::clone(shared),
            client: Arc::clone(client),
            database: 0,
            version: Version::Two,
            is_known: shared.config.password().is_none(),
            replies: Replies::On,
            multi: Multi::default(),
            is_ending: false,
            wants_sync: false,
            feed: None,
            began: None,
            parser: Parser::default(),
            requests: Some(Requests::default()),
            bad: None,
            waiting: None,
        }
    }

    /// Executes requests in order, neighbours that may be executed together as a batch. Goes on where it had to wait.
    fn execute(
        &mut self,
        requests: &Requests,
        buffer: &[u8],
        output: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Flow {
        let (mut index, mut read) = (0, None);
        if let Some(mut waiting) = self.waiting.take() {
            index = waiting.at;
            let polled = waiting
                .reading
                .as_mut()
                .map(|reading| Pin::new(reading).poll(context));
            if let Some(Poll::Pending) = polled {
                self.waiting = Some(waiting);
                return Flow::Wait;
            }
            if let Some(Poll::Ready(result)) = polled {
                read = Some(result);
            }
        }
        while index < requests.len() && !self.is_ending {
            let (at, args) = (index, requests.get(index, buffer));
            index += 1;
            if is_http(args) {
                self.drop_http();
                break;
            }
            let command = match self.admit(args) {
                Ok(command) => command,
                Err(text) => {
                    self.reject(args, &text, output);
                    continue;
                }
            };
            if self.shared.pause.is_on() && read.is_none() && self.is_paused(command, context) {
                self.waiting = Some(Waiting { at, reading: None });
                return Flow::Wait;
            }
            if self.multi.is_begun() && !command.runs_in_multi() {
                self.queue(command, args, output);
                continue;
            }
            match command.action {
                Action::Session(_) => self.run_alone(command, args, output),
                Action::Data(_) => {
                    let mut batch = Batch::new(command, args);
                    while index < requests.len()
                        && self.replies == Replies::On
                        && let Some(next) = self.joins(requests.get(index, buffer))
                    {
                        batch.push(next, requests.get(index, buffer));
                        index += 1;
                    }
                    let (start, replies) = (output.len(), self.replies);
                    if let Some(reading) = self.run(&batch, read.take(), output, context) {
                        self.waiting = Some(Waiting {
                            at,
                            reading: Some(reading),
                        });
                        return Flow::Wait;
                    }
                    self.hold_back(replies, output, start);
                }
            }
        }
        self.note(requests, buffer);
        Flow::Done
    }

    /// Ends a connection that speaks HTTP: a web page could make a browser send commands in a request's body.
    fn drop_http(&mut self) {
        self.is_ending = true;
        tracing::warn!(
            peer = %self.client.peer,
            "closed: a client of the Redis port spoke HTTP; a web page may have tried to send commands"
        );
    }

    /// Whether CLIENT PAUSE holds a command. What is queued for EXEC waits with it.
    fn is_paused(&self, command: &Command, context: &Context<'_>) -> bool {
        let is_queued = self.multi.is_begun() && !command.runs_in_multi();
        let is_exempt = is_queued || command.name == "client" || command.is_for_strangers();
        !is_exempt
            && self
                .shared
                .pause
                .holds(|| command.waits_for_writers(), context.waker())
    }

    /// Refuses a request before it is executed.
    fn reject(&mut self, args: Args<'_>, text: &str, output: &mut Vec<u8>) {
        self.multi.fail();
        if let Some(command) = table::find(args.at(0)) {
            self.shared.tally.of(command.counted_as(args)).rejected();
        }
        self.shared.count_error(text);
        self.reply(output, |reply| reply.error(text));
    }

    /// Executes a command of the connection or the server.
    fn run_alone(&mut self, command: &'static Command, args: Args<'_>, output: &mut Vec<u8>) {
        let (start, replies, version) = (output.len(), self.replies, self.version);
        let counted_as = command.counted_as(args);
        self.client.set_last_command(counted_as);
        let is_shown = command.name != "exec" && command.name != "monitor";
        if is_shown {
            self.show(command, args);
        }
        let began = Instant::now();
        let Action::Session(run) = command.action else {
            return;
        };
        if let Err(failure) = run(self, args, &mut Reply::new(output, version)) {
            output.truncate(start);
            let text = failure.to_string();
            self.shared.count_error(&text);
            self.shared.tally.of(counted_as).failed();
            Reply::new(output, self.version).error(&text);
        }
        let took = began.elapsed();
        self.shared.tally.of(counted_as).called(1, took);
        if command.is_seen() {
            self.note_slow(command, args, took);
        } else {
            self.show(command, args);
        }
        self.hold_back(replies, output, start);
    }

    /// Shows a command to those who said MONITOR.
    pub(super) fn show(&self, command: &Command, args: Args<'_>) {
        if self.shared.monitors.are_there() && !command.is_admin() {
            watching::show(self, command, args);
        }
    }

    /// Whether a request can be executed with those before it.
    fn joins(&self, args: Args<'_>) -> Option<&'static Command> {
        if self.multi.is_begun() {
            return None;
        }
        let command = self.admit(args).ok()?;
        (matches!(command.action, Action::Data(_)) && command.joins_batches()).then_some(command)
    }

    /// What a request asks for, if it may.
    fn admit(&self, args: Args<'_>) -> Result<&'static Command, Cow<'static, str>> {
        let Some(command) = table::find(args.at(0)) else {
            return Err(Cow::Owned(unknown(args)));
        };
        if !command.takes(args.len()) {
            return Err(Cow::Owned(args::wrong_number(command.name).to_string()));
        }
        subcommands::check(command.name, args)?;
        if !self.is_known && !command.is_for_strangers() {
            return Err(Cow::Borrowed("NOAUTH Authentication required."));
        }
        if self.multi.is_begun() && command.is_refused_in_multi() {
            return Err(Cow::Borrowed("ERR Command not allowed inside a transaction"));
        }
        Ok(command)
    }

    fn reply(&mut self, output: &mut Vec<u8>, write: impl FnOnce(&mut Reply<'_>)) {
        let (start, replies) = (output.len(), self.replies);
        write(&mut Reply::new(output, self.version));
        self.hold_back(replies, output, start);
    }

    fn queue(&mut self, command: &'static Command, args: Args<'_>, output: &mut Vec<u8>) {
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

    /// Drops replies that the client does not want. `before` is what it wanted when the command began.
    fn hold_back(&mut self, before: Replies, output: &mut Vec<u8>, start: usize) {
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
    fn note(&mut self, requests: &Requests, buffer: &[u8]) {
        let count = requests.len();
        if count == 0 {
            return;
        }
        self.shared
            .counters
            .commands
            .fetch_add(count as u64, Ordering::Relaxed);
        let since = self.client.since.elapsed().as_millis() as u64;
        self.client.last_ms.store(since, Ordering::Relaxed);
        let last = requests.get(count - 1, buffer);
        if let Some(command) = table::find(last.at(0)) {
            self.client.set_last_command(command.counted_as(last));
        }
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
        self.client
            .memory
            .input
            .store(input.len() as u64, Ordering::Relaxed);
        let mut requests = self.requests.take().unwrap_or_default();
        let most = self.shared.config.limits.batch;
        if self.waiting.is_none() {
            let limits = self.limits();
            let parsed = self.parser.parse(input.bytes(), &mut requests, &limits, most);
            self.bad = parsed.err();
        }
        let mut context = Context::from_waker(waker);
        let flow = self.execute(&requests, input.bytes(), output, &mut context);
        if self.feed.is_some() && !self.pushed(output, waker) {
            return Served::Close;
        }
        if flow == Flow::Wait {
            self.requests = Some(requests);
            return Served::Wait;
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

    fn pushed(&mut self, output: &mut Vec<u8>, waker: &Waker) -> bool {
        let Some(feed) = &self.feed else {
            return true;
        };
        feed.is_woken_by(waker);
        feed.take(output)
    }

    fn takes_sync(&mut self) -> bool {
        std::mem::take(&mut self.wants_sync)
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
    }
}

/// Whether a request is a line of HTTP: `POST …` or `Host: …`, as Redis looks for them.
fn is_http(args: Args<'_>) -> bool {
    args.is(0, "post") || args.is(0, "host:")
}

/// The error of a command that does not exist, as Redis words it.
fn unknown(args: Args<'_>) -> String {
    const MOST: usize = 128;
    let shown =
        |bytes: &[u8], most: usize| String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned();
    let mut text = format!(
        "ERR unknown command '{}', with args beginning with: ",
        shown(args.at(0), MOST)
    );
    let mut left = MOST;
    for arg in args.from(1).iter() {
        if left == 0 {
            break;
        }
        let part = shown(arg, left);
        left = left.saturating_sub(part.len() + 3);
        text += &format!("'{part}' ");
    }
    text
}
