//! One Redis connection to a cache. It parses and executes requests, and looks up consecutive GETs
//! in batches.

use super::super::args::{is, wrong_number};
use super::super::{names, subcommands, table::CommandSpec};
use super::commands::{self, CachedStringHandler};
use super::string_store::CachedTexts;
use crate::cache::{CacheContext, CachedItemHeader};
use crate::net::{HIGH_WATER, ProtocolSession, ReceiveBuffer, ServeOutcome};
use crate::protocol::resp::{
    self, Args, BadRequest, ParsedRequests, ReplyWriter, RequestParser, RespVersion,
};
use crate::shared::ClientHandle;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

/// Maximum number of GETs in one batched lookup.
const AT_ONCE: usize = 64;

/// Length of a GET's reply in bytes beyond which the next GETs are looked up one by one.
const LONG: usize = 16 << 10;

/// The state of one connection.
pub(crate) struct CachedSession {
    pub(super) cached: Arc<CacheContext>,
    pub(super) client: Arc<ClientHandle>,
    pub(super) version: RespVersion,
    /// Whether the client has authenticated successfully or need not authenticate.
    pub(super) is_authenticated: bool,
    /// Number of wrong passwords on this connection. The login delay increases with this number.
    pub(super) failed_logins: u32,
    /// When the delayed reply to a wrong password is due.
    pub(super) hold: Option<Duration>,
    pub(super) is_ending: bool,
    parser: RequestParser,
    requests: ParsedRequests,
    /// The parse error after the parsed requests, if any.
    bad: Option<BadRequest>,
    /// Index of the next request to execute.
    next: usize,
    /// When the current login delay ends, and the reply that is sent then.
    pause: Option<(Duration, Vec<u8>)>,
    /// Number of GETs in the next batched lookup.
    at_once: usize,
    /// Whether the next request that needs memory is refused because it has already waited too
    /// long.
    refuses: bool,
}

/// Whether all requests have been executed or, if not, when execution continues.
enum CachedExecutionFlow {
    Done,
    /// Execution continues after the replies have been sent.
    Send,
    /// Execution continues after the delay for a wrong password.
    Wait,
    /// Execution continues when other clients have released memory.
    Full,
}

impl CachedSession {
    pub(crate) fn new(cached: &Arc<CacheContext>, client: &Arc<ClientHandle>) -> CachedSession {
        CachedSession {
            cached: Arc::clone(cached),
            client: Arc::clone(client),
            version: RespVersion::Two,
            is_authenticated: cached.common.access.is_open(),
            failed_logins: 0,
            hold: None,
            is_ending: false,
            parser: RequestParser::default(),
            requests: ParsedRequests::default(),
            bad: None,
            next: 0,
            pause: None,
            at_once: AT_ONCE,
            refuses: false,
        }
    }

    /// Executes requests in order. Stops when a request must wait, or when the replies exceed
    /// [`HIGH_WATER`] bytes.
    fn execute(
        &mut self,
        requests: &ParsedRequests,
        buffer: &[u8],
        output: &mut Vec<u8>,
        waker: &Waker,
    ) -> CachedExecutionFlow {
        let cached = Arc::clone(&self.cached);
        let mut texts = CachedTexts::new(&cached.content, cached.content.now_ms());
        let before = output.len();
        if requests.len() - self.next > 1 {
            let ahead = (self.next..requests.len()).take(AT_ONCE);
            let keys = ahead.map(|at| requests.get(at, buffer).at(1));
            cached.content.prefetch(keys);
        }
        while self.next < requests.len() && !self.is_ending {
            if output.len() - before > HIGH_WATER {
                return CachedExecutionFlow::Send;
            }
            if self.must_wait(requests.get(self.next, buffer)) {
                if !std::mem::take(&mut self.refuses) {
                    return CachedExecutionFlow::Full;
                }
                self.next += 1;
                let text = super::super::paging::no_room("the reply", &cached.common.budget);
                self.refuse(&text, output);
                continue;
            }
            let gets = match self.is_authenticated {
                true => plain_gets(requests, self.next, self.at_once, buffer),
                false => SmallVec::new(),
            };
            if !gets.is_empty() {
                self.next += self.get(&gets, output);
                continue;
            }
            let args = requests.get(self.next, buffer);
            self.next += 1;
            let start = output.len();
            match self.admit(args) {
                Ok(CachedRequestAction::Texts(command, run)) => {
                    self.run(&mut texts, (command, run), args, output);
                }
                Ok(CachedRequestAction::Session(run)) => {
                    let done = run(self, args, &mut ReplyWriter::new(output, self.version));
                    if let Some(hold) = self.hold.take() {
                        self.hold_up(hold, output.split_off(start), done, waker);
                        return CachedExecutionFlow::Wait;
                    }
                    if let Err(failure) = done {
                        output.truncate(start);
                        self.refuse(&failure.to_string(), output);
                    }
                }
                Err(_) if args.is(0, "post") || args.is(0, "host:") => {
                    tracing::warn!(peer = %self.client.peer, "closed a connection: a client sent HTTP to the Redis port; a web page may have tried to send commands");
                    self.is_ending = true;
                }
                Err(text) => self.refuse(&text, output),
            }
        }
        CachedExecutionFlow::Done
    }

    /// Executes a command on strings while holding its locks.
    fn run(
        &self,
        texts: &mut CachedTexts<'_>,
        (command, run): (&CommandSpec, CachedStringHandler),
        args: Args<'_>,
        output: &mut Vec<u8>,
    ) {
        let content = &self.cached.content;
        let start = output.len();
        let done = commands::check(content, command, args).and_then(|()| {
            let _locked = command.writes().then(|| content.lock_all(command.keys(args)));
            let most = self.cached.common.config.max_output();
            run(
                texts,
                args,
                &mut ReplyWriter::new(output, self.version).at_most(most),
            )
        });
        if let Err(failure) = done {
            output.truncate(start);
            self.refuse(&failure.to_string(), output);
        }
    }

    /// Returns whether a request must wait because the clients use too much memory. A plain SET
    /// need not wait, because its reply is short.
    fn must_wait(&self, args: Args<'_>) -> bool {
        let sets_only = is(args.at(0), "set") && args.len() == 3;
        self.cached.common.budget.is_full() && !sets_only
    }

    /// Executes GETs of these keys until their replies become long. Returns the number of GETs
    /// executed.
    fn get(&mut self, keys: &[&[u8]], output: &mut Vec<u8>) -> usize {
        let (version, before) = (self.version, output.len());
        let (mut done, mut hits, mut longest) = (0, 0, 0);
        self.cached.content.read_many(keys, |_, stored| {
            if output.len() - before > HIGH_WATER {
                return;
            }
            done += 1;
            let mut reply = ReplyWriter::new(output, version);
            match stored {
                Some(stored) => {
                    hits += 1;
                    longest = longest.max(stored.len());
                    reply.bulk(&stored[CachedItemHeader::length(stored)..]);
                }
                None => reply.null(),
            }
        });
        self.at_once = if longest > LONG { 1 } else { AT_ONCE };
        let counters = &self.cached.common.counters;
        counters.items_got.fetch_add(done as u64, Ordering::Relaxed);
        counters.items_hit.fetch_add(hits, Ordering::Relaxed);
        done
    }

    /// Returns the handler for a request, or the error if the request is rejected.
    fn admit(&self, args: Args<'_>) -> Result<CachedRequestAction, String> {
        let found = names::find(args.at(0)).filter(|command| commands::has(command.name));
        let Some(command) = found else {
            return Err(commands::unknown(args.at(0)));
        };
        if !command.takes(args.len()) {
            return Err(wrong_number(command.name).to_string());
        }
        subcommands::check(command.name, args)?;
        if !self.is_authenticated && !command.allowed_before_auth() {
            return Err("NOAUTH Authentication required.".to_owned());
        }
        if let Some(run) = commands::on_texts(command.name) {
            return Ok(CachedRequestAction::Texts(command, run));
        }
        let run = commands::on_session(command.name).expect("a cache has the command");
        Ok(CachedRequestAction::Session(run))
    }

    /// Suspends the connection until the delayed reply to a wrong password is due.
    fn hold_up(
        &mut self,
        until: Duration,
        reply: Vec<u8>,
        done: Result<(), crate::error::CommandError>,
        waker: &Waker,
    ) {
        let mut said = Vec::new();
        match done {
            Ok(()) => said = reply,
            Err(failure) => self.refuse(&failure.to_string(), &mut said),
        }
        self.cached.common.access.delays.clock().wake_at(until, waker);
        self.pause = Some((until, said));
    }

    fn refuse(&self, text: &str, output: &mut Vec<u8>) {
        self.cached.common.count_error(text);
        ReplyWriter::new(output, self.version).error(text);
    }

    /// Checks the current login delay. If it is over, sends the delayed reply and returns `None`.
    /// Otherwise returns the outcome that ends this turn.
    fn resume(&mut self, output: &mut Vec<u8>) -> Option<ServeOutcome> {
        let (until, reply) = self.pause.take()?;
        let delays = &self.cached.common.access.delays;
        if delays.is_over() {
            return Some(ServeOutcome::Close);
        }
        if delays.clock().now() < until {
            self.pause = Some((until, reply));
            return Some(ServeOutcome::Wait);
        }
        output.extend_from_slice(&reply);
        None
    }

    fn limits(&self) -> resp::RequestLimits {
        match self.is_authenticated {
            true => self.cached.common.config.limits.of_requests(),
            false => resp::RequestLimits::STRANGER,
        }
    }

    /// Updates this connection's properties in other connections' CLIENT LIST.
    fn note(&self, requests: &ParsedRequests, buffer: &[u8]) {
        let Some(last) = requests.len().checked_sub(1) else {
            return;
        };
        let args = requests.get(last, buffer);
        if let Some(command) = names::find(args.at(0)) {
            self.client.set_last_command(command.counted_as(args));
        }
        let age_ms = self.client.age_ms();
        self.client.last_ms.store(age_ms, Ordering::Relaxed);
        let counters = &self.cached.common.counters;
        counters
            .commands
            .fetch_add(requests.len() as u64, Ordering::Relaxed);
    }
}

/// The handler for a request.
enum CachedRequestAction {
    Texts(&'static CommandSpec, CachedStringHandler),
    Session(commands::CachedSessionHandler),
}

/// Returns the keys of consecutive valid GETs, beginning with request `from`.
fn plain_gets<'a>(
    requests: &'a ParsedRequests,
    from: usize,
    most: usize,
    buffer: &'a [u8],
) -> SmallVec<[&'a [u8]; AT_ONCE]> {
    let requests = (from..requests.len()).map(|at| requests.get(at, buffer));
    requests
        .take(most)
        .take_while(|args| args.len() == 2 && is(args.at(0), "get"))
        .map(|args| args.at(1))
        .collect()
}

impl ProtocolSession for CachedSession {
    fn serve(&mut self, input: &mut ReceiveBuffer, output: &mut Vec<u8>, waker: &Waker) -> ServeOutcome {
        if let Some(served) = self.resume(output) {
            return served;
        }
        self.client.load.received.store(input.len(), Ordering::Relaxed);
        let mut requests = std::mem::take(&mut self.requests);
        let most = self.cached.common.config.limits.batch;
        if self.next == 0 {
            let limits = self.limits();
            let parsed = self.parser.parse(input.bytes(), &mut requests, &limits, most);
            self.bad = parsed.err();
        }
        let next = self.execute(&requests, input.bytes(), output, waker);
        match next {
            CachedExecutionFlow::Done => {}
            CachedExecutionFlow::Send => {
                self.requests = requests;
                return ServeOutcome::Some;
            }
            CachedExecutionFlow::Wait => {
                self.requests = requests;
                return ServeOutcome::Wait;
            }
            CachedExecutionFlow::Full => {
                self.requests = requests;
                return ServeOutcome::Full;
            }
        }
        let is_full = requests.len() >= most;
        self.note(&requests, input.bytes());
        input.consume(requests.consumed());
        requests.forget();
        self.requests = requests;
        self.next = 0;
        if let Some(bad) = self.bad.take()
            && !self.is_ending
        {
            self.refuse(&format!("ERR {bad}"), output);
            self.is_ending = true;
        }
        match (self.is_ending, is_full && input.len() > 0) {
            (true, _) => ServeOutcome::Close,
            (false, true) => ServeOutcome::Some,
            (false, false) => ServeOutcome::All,
        }
    }

    fn announced(&mut self, _input: &mut ReceiveBuffer) -> usize {
        self.parser.announced()
    }

    fn refuse_announced(&mut self, _input: &mut ReceiveBuffer, output: &mut Vec<u8>) {
        let refused = self.parser.refuse(&mut self.requests);
        self.is_ending |= !refused;
        let text = super::super::paging::no_room("the request", &self.cached.common.budget);
        self.refuse(&text, output);
    }

    fn refuse_reply(&mut self) {
        self.refuses = true;
    }

    fn held(&self) -> usize {
        self.requests.memory()
    }

    fn takes_sync(&mut self) -> bool {
        false
    }

    fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    fn report_sync_failure(&mut self, _output: &mut Vec<u8>, why: &str) {
        unreachable!("nothing of a cache waits for the disk: {why}");
    }
}
