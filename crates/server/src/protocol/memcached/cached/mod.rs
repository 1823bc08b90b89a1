//! One memcached connection to a cache.
//!
//! *Scope*: the selection of requests that are executed together, and their execution.
//!
//! *Must not depend on*: sockets; the layout of an item in memory (`crate::cache`).

mod items;
mod login;
mod stats;

use super::execute::{check, execute, refuse};
use super::items::ItemStore;
use super::request::{self, MAX_KEY, MemcachedRequest, number};
use super::{run, text};
use crate::cache::{CacheContext, CachedItemHeader};
use crate::error::CommandError;
use crate::net::{HIGH_WATER, ProtocolSession, ReceiveBuffer, ServeOutcome};
use crate::observe::item_counts::count;
use crate::protocol::resp::number::write_integer;
use crate::shared::ClientHandle;
use crate::store::model::format::MemcachedItem;
use items::CachedItems;
use login::LoginState;
use run::{NextWork, RunLimits};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

/// Maximum number of requests to execute in one batch. Long replies reduce the actual number.
const AT_ONCE: usize = 64;

/// The state of one connection.
pub(crate) struct CachedSession {
    cached: Arc<CacheContext>,
    client: Arc<ClientHandle>,
    login: LoginState,
    /// Number of bytes of a refused data block still to be skipped.
    skipping: usize,
    /// Number of requests in the next batch.
    at_once: usize,
    /// Whether the next request that needs memory is refused because it has already waited too
    /// long.
    refuses: bool,
}

/// What to do with the connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CachedRequestOutcome {
    Replied,
    Quit,
}

impl CachedSession {
    pub(crate) fn new(cached: &Arc<CacheContext>, client: &Arc<ClientHandle>) -> CachedSession {
        CachedSession {
            cached: Arc::clone(cached),
            client: Arc::clone(client),
            login: LoginState::new(&cached.common),
            skipping: 0,
            at_once: AT_ONCE,
            refuses: false,
        }
    }

    /// Returns whether the next request must wait because the clients use too much memory. Requests
    /// that only set an item need not wait, because their replies are short.
    fn must_wait(&self, input: &[u8]) -> bool {
        let sets_only = input.starts_with(b"set ") || input.starts_with(b"ms ");
        self.cached.common.budget.is_full() && !sets_only
    }

    /// Executes at most `left` requests at the beginning of `bytes`. Returns the number of executed
    /// requests and their total length in bytes, or the outcome that ends this turn.
    fn step(
        &mut self,
        bytes: &[u8],
        left: usize,
        output: &mut Vec<u8>,
    ) -> Result<(usize, usize), ServeOutcome> {
        let most_block = self.most_block();
        let must_wait = self.must_wait(bytes);
        if must_wait && !self.refuses {
            return Err(ServeOutcome::Full);
        }
        let most = if must_wait { 1 } else { left.min(self.at_once) };
        match run::next(bytes, most_block, RunLimits::requests(most)) {
            NextWork::Nothing => Err(ServeOutcome::All),
            NextWork::Run(_, taken) if must_wait => {
                self.refuses = false;
                let limit = self.cached.common.budget.limit();
                let text = format!(
                    "SERVER_ERROR out of memory: all clients together may hold {limit} bytes; raise \
                     --client-memory"
                );
                self.refuse_bad(&text, output);
                Ok((1, taken))
            }
            NextWork::Run(requests, taken) => {
                let (count, done) = (requests.len(), self.run(&requests, output));
                if done == count {
                    self.at_once = (2 * self.at_once).min(AT_ONCE);
                    return Ok((done, taken));
                }
                self.at_once = (done / 4).max(1);
                Ok((done, bytes_of(bytes, most_block, done)))
            }
            NextWork::Alone(request, _) if self.run_alone(&request, output) == CachedRequestOutcome::Quit => {
                Err(ServeOutcome::Close)
            }
            NextWork::Alone(_, taken) => Ok((1, taken)),
            NextWork::Bad(error, taken) => {
                self.refuse_bad(error, output);
                Ok((1, taken))
            }
            NextWork::TooLarge(request, taken) => {
                self.refuse_too_large(&request, output);
                Ok((1, taken))
            }
            other => Err(super::session::ended(&other, output)),
        }
    }

    /// Discards the input bytes of a refused data block.
    fn skip(&mut self, input: &mut ReceiveBuffer) {
        let skipped = self.skipping.min(input.len());
        input.consume(skipped);
        self.skipping -= skipped;
    }

    /// Executes requests in order until their replies become long. Looks up consecutive gets in one
    /// batch. Returns the number of executed requests.
    fn run(&self, requests: &[MemcachedRequest<'_>], output: &mut Vec<u8>) -> usize {
        let CacheContext { common, content } = &*self.cached;
        let mut items = CachedItems::new(content, content.now_ms(), common.budget.reply_room());
        if requests.len() > 1 {
            content.prefetch(requests.iter().map(|request| request.word(1)));
        }
        let (mut at, before) = (0, output.len());
        while let Some(request) = requests.get(at)
            && output.len() - before <= HIGH_WATER
        {
            let gets = requests[at..].iter().take_while(|request| is_plain_get(request));
            let gets = gets.count();
            if gets > 0 {
                at += self.get(&requests[at..at + gets], output);
                continue;
            }
            at += 1;
            let start = output.len();
            let executed = match set(request, &mut items, output) {
                Some(Ok(())) => {
                    common.counters.items_set.fetch_add(1, Ordering::Relaxed);
                    count(&common.counters.items.stored);
                    Ok(())
                }
                Some(Err(failure)) => Err(failure),
                None => check(request).and_then(|()| execute(request, &mut items, &common.counters, output)),
            };
            if let Err(failure) = executed {
                output.truncate(start);
                common.counters.errors.fetch_add(1, Ordering::Relaxed);
                refuse(&failure, request, output);
            }
        }
        let counters = &common.counters;
        counters.commands.fetch_add(at as u64, Ordering::Relaxed);
        at
    }

    /// Executes requests for one item each until their replies become long. Returns the number of
    /// executed requests.
    fn get(&self, requests: &[MemcachedRequest<'_>], output: &mut Vec<u8>) -> usize {
        let keys: SmallVec<[&[u8]; AT_ONCE]> = requests.iter().map(|request| request.word(1)).collect();
        let (mut done, mut hits, before) = (0, 0, output.len());
        self.cached.content.read_many(&keys, |at, stored| {
            if output.len() - before > HIGH_WATER {
                return;
            }
            done += 1;
            if let Some(stored) = stored {
                hits += 1;
                let (head, length) = CachedItemHeader::read(stored);
                output.extend_from_slice(b"VALUE ");
                output.extend_from_slice(keys[at]);
                output.push(b' ');
                write_integer(output, i64::from(head.flags));
                output.push(b' ');
                write_integer(output, (stored.len() - length) as i64);
                if requests[at].word(0) == b"gets" {
                    output.extend_from_slice(format!(" {}", head.cas).as_bytes());
                }
                output.extend_from_slice(b"\r\n");
                output.extend_from_slice(&stored[length..]);
                output.extend_from_slice(b"\r\n");
            }
            output.extend_from_slice(b"END\r\n");
        });
        let counters = &self.cached.common.counters;
        counters.items_got.fetch_add(done as u64, Ordering::Relaxed);
        counters.items_hit.fetch_add(hits, Ordering::Relaxed);
        done
    }

    /// Executes a request that does not concern individual items.
    fn run_alone(&self, request: &MemcachedRequest<'_>, output: &mut Vec<u8>) -> CachedRequestOutcome {
        let start = output.len();
        let counters = &self.cached.common.counters;
        counters.commands.fetch_add(1, Ordering::Relaxed);
        self.dispatch_alone(request, output).unwrap_or_else(|failure| {
            output.truncate(start);
            counters.errors.fetch_add(1, Ordering::Relaxed);
            refuse(&failure, request, output);
            CachedRequestOutcome::Replied
        })
    }

    fn dispatch_alone(
        &self,
        request: &MemcachedRequest<'_>,
        output: &mut Vec<u8>,
    ) -> Result<CachedRequestOutcome, CommandError> {
        match request.word(0) {
            b"flush_all" => self.flush(request, output)?,
            b"verbosity" => text::verbosity(request, output)?,
            b"version" => {
                output.extend_from_slice(format!("VERSION {}\r\n", super::stats::VERSION).as_bytes());
            }
            b"stats" => stats::stats(request, &self.cached, output)?,
            b"quit" => return Ok(CachedRequestOutcome::Quit),
            b"mn" => output.extend_from_slice(b"MN\r\n"),
            b"shutdown" => return Err(CommandError::say("ERROR: shutdown not enabled")),
            b"lru_crawler" | b"lru" | b"slabs" | b"watch" | b"cache_memlimit" => {
                return Err(CommandError::say(
                    "ERROR: not supported by alluvium in cache mode",
                ));
            }
            _ => return Err(CommandError::say("ERROR")),
        }
        Ok(CachedRequestOutcome::Replied)
    }

    /// Executes `flush_all`: deletes all items immediately, or schedules the deletion after a
    /// delay.
    fn flush(&self, request: &MemcachedRequest<'_>, output: &mut Vec<u8>) -> Result<(), CommandError> {
        let CacheContext { common, content } = &*self.cached;
        let delay = text::flush_delay(request)?;
        common.counters.item_flushes.fetch_add(1, Ordering::Relaxed);
        if delay > 0 {
            let items = CachedItems::new(content, content.now_ms(), 0);
            common.flush_at.store(items.expiry(delay), Ordering::Release);
        } else {
            content.clear();
        }
        text::say(request, output, "OK");
        Ok(())
    }

    /// Deletes all items if a scheduled `flush_all` is due.
    fn flush_if_due(&self) {
        let CacheContext { common, content } = &*self.cached;
        let due = common.flush_at.load(Ordering::Acquire);
        if due == 0 || due > content.now_ms() {
            return;
        }
        let taken = common
            .flush_at
            .compare_exchange(due, 0, Ordering::AcqRel, Ordering::Acquire);
        if taken.is_ok() {
            content.clear();
        }
    }

    /// Replies to an unparsable request with an error.
    fn refuse_bad(&self, error: &str, output: &mut Vec<u8>) {
        let counters = &self.cached.common.counters;
        counters.errors.fetch_add(1, Ordering::Relaxed);
        output.extend_from_slice(error.as_bytes());
        output.extend_from_slice(b"\r\n");
    }

    /// Rejects an oversized item, and deletes the item that it was meant to replace.
    fn refuse_too_large(&self, request: &MemcachedRequest<'_>, output: &mut Vec<u8>) {
        let CacheContext { common, content } = &*self.cached;
        common.counters.errors.fetch_add(1, Ordering::Relaxed);
        if let Some(key) = run::outdated(request) {
            let _locked = content.lock(&key);
            content.delete(&key);
        }
        refuse(&CommandError::say(text::TOO_LARGE), request, output);
    }

    /// Returns the maximum data block length in bytes. A request that announces a longer block is
    /// rejected before the block arrives.
    fn most_block(&self) -> usize {
        let limits = &self.cached.common.config.limits;
        limits.request.min(self.cached.content.most_value_bytes())
    }
}

/// Returns the total length of the input's first `requests` requests in bytes.
fn bytes_of(input: &[u8], most_block: usize, requests: usize) -> usize {
    match run::next(input, most_block, RunLimits::requests(requests)) {
        NextWork::Run(found, taken) if found.len() == requests => taken,
        _ => unreachable!("requests were read that are there"),
    }
}

/// Returns whether a request is a valid `get` or `gets` of a single item.
fn is_plain_get(request: &MemcachedRequest<'_>) -> bool {
    let is_get = request.words.len() == 2 && matches!(request.word(0), b"get" | b"gets");
    is_get && request.word(1).len() <= MAX_KEY
}

/// Executes a request if it is a valid `set`. Otherwise returns `None`.
fn set(
    request: &MemcachedRequest<'_>,
    items: &mut CachedItems<'_>,
    output: &mut Vec<u8>,
) -> Option<Result<(), CommandError>> {
    let key = request.word(1);
    if request.word(0) != b"set" || key.is_empty() || key.len() > MAX_KEY {
        return None;
    }
    let (flags, seconds) = (number::<u32>(request.word(2))?, number::<i64>(request.word(3))?);
    let item = MemcachedItem {
        flags,
        cas: items.next_cas(),
        expires_ms: items.expiry(seconds),
        touched: items.now_s(),
        staleness: 0,
        value: request.block,
    };
    let set = items.set(key, &item);
    if set.is_ok() {
        text::say(request, output, "STORED");
    }
    Some(set)
}

impl ProtocolSession for CachedSession {
    fn serve(&mut self, input: &mut ReceiveBuffer, output: &mut Vec<u8>, waker: &Waker) -> ServeOutcome {
        let mut left = self.cached.common.config.limits.batch;
        if let Some(served) = self.login.resume(&self.cached.common, output) {
            return served;
        }
        self.flush_if_due();
        let before = output.len();
        while left > 0 {
            self.skip(input);
            if input.len() == 0 {
                return ServeOutcome::All;
            }
            if output.len().saturating_sub(before) > HIGH_WATER {
                return ServeOutcome::Some;
            }
            if !self.login.is_authenticated {
                let cached = Arc::clone(&self.cached);
                let answer = self
                    .login
                    .serve(&cached.common, &self.client, input, output, waker);
                match answer {
                    Ok(taken) => self.skipping = taken,
                    Err((taken, served)) => {
                        self.skipping = taken;
                        return served;
                    }
                }
                continue;
            }
            match self.step(input.bytes(), left, output) {
                Ok((done, taken)) => {
                    left = left.saturating_sub(done);
                    self.skipping = taken;
                }
                Err(served) => return served,
            }
        }
        self.skip(input);
        ServeOutcome::Some
    }

    fn announced(&mut self, input: &mut ReceiveBuffer) -> usize {
        match self.skipping {
            0 => request::announced(input.bytes(), self.most_block()),
            _ => 0,
        }
    }

    fn refuse_announced(&mut self, input: &mut ReceiveBuffer, output: &mut Vec<u8>) {
        self.skipping = self.announced(input).max(input.len());
        let common = &self.cached.common;
        common.counters.errors.fetch_add(1, Ordering::Relaxed);
        output.extend_from_slice(super::session::no_room(common.budget.limit()).as_bytes());
        self.skip(input);
    }

    fn refuse_reply(&mut self) {
        self.refuses = true;
    }

    fn held(&self) -> usize {
        0
    }

    fn takes_sync(&mut self) -> bool {
        false
    }

    fn is_authenticated(&self) -> bool {
        self.login.is_authenticated
    }

    fn report_sync_failure(&mut self, _output: &mut Vec<u8>, why: &str) {
        unreachable!("nothing of a cache waits for the disk: {why}");
    }
}
