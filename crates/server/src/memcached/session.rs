//! One connection: requests are read and executed one after the other.

use super::items::Items;
use super::request::{self, Found, Request};
use super::{meta, stats, text};
use crate::error::Failure;
use crate::net::{Input, Protocol, Served};
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

/// The state of one connection.
pub(crate) struct Session {
    pub(super) shared: Arc<Shared>,
    /// Bytes of a refused block that are still to come.
    skipping: usize,
    wants_sync: bool,
}

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Replied,
    Quit,
}

impl Session {
    pub(crate) fn new(shared: &Arc<Shared>) -> Session {
        Session {
            shared: Arc::clone(shared),
            skipping: 0,
            wants_sync: false,
        }
    }

    fn run(&mut self, request: &Request<'_>, output: &mut Vec<u8>) -> End {
        let start = output.len();
        self.shared.counters.commands.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(&self.shared);
        let mut items = Items::new(&shared.store);
        let result = self.dispatch(request, &mut items, output);
        self.wants_sync |= items.has_written && shared.store.waits_for_disk();
        match result {
            Ok(end) => end,
            Err(failure) => {
                self.shared.counters.errors.fetch_add(1, Ordering::Relaxed);
                output.truncate(start);
                if request.is_quiet() && matches!(failure, Failure::Refused(_)) {
                    return End::Replied;
                }
                let text = match failure {
                    Failure::Refused(text) => text.into_owned(),
                    Failure::Store(error) if error.is_full() => {
                        format!("SERVER_ERROR out of memory storing object: {error}")
                    }
                    Failure::Store(error) => format!("SERVER_ERROR {error}"),
                };
                output.extend_from_slice(text.replace(['\r', '\n'], " ").as_bytes());
                output.extend_from_slice(b"\r\n");
                End::Replied
            }
        }
    }

    fn dispatch(
        &mut self,
        request: &Request<'_>,
        items: &mut Items<'_>,
        output: &mut Vec<u8>,
    ) -> Result<End, Failure> {
        let counters = &self.shared.counters;
        self.shared.flush_if_due(items)?;
        if request.words.len() == 1 && matches!(request.word(0), b"mg" | b"md" | b"ma") {
            return Err(Failure::say("ERROR"));
        }
        match request.word(0) {
            b"get" | b"gets" | b"gat" | b"gats" => text::get(request, items, counters, output)?,
            b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => {
                text::store(request, items, counters, output)?;
            }
            b"incr" | b"decr" => text::arithmetic(request, items, output)?,
            b"touch" => text::touch(request, items, counters, output)?,
            b"delete" => text::delete(request, items, output)?,
            b"flush_all" => text::flush(request, items, &self.shared, output)?,
            b"verbosity" => text::verbosity(request, output)?,
            b"version" => {
                output.extend_from_slice(format!("VERSION {}\r\n", stats::VERSION).as_bytes());
            }
            b"stats" => stats::stats(request, &self.shared, output)?,
            b"quit" => return Ok(End::Quit),
            b"mg" => meta::get(request, items, counters, output)?,
            b"ms" => meta::set(request, items, counters, output)?,
            b"md" => meta::delete(request, items, output)?,
            b"ma" => meta::arithmetic(request, items, output)?,
            b"me" => meta::describe(request, items, output)?,
            b"mn" => output.extend_from_slice(b"MN\r\n"),
            b"shutdown" => return Err(Failure::say("ERROR: shutdown not enabled")),
            _ => return Err(Failure::say("ERROR")),
        }
        Ok(End::Replied)
    }
}

impl Protocol for Session {
    fn serve(&mut self, input: &mut Input, output: &mut Vec<u8>, _waker: &Waker) -> Served {
        let most = self.shared.config.limits.request;
        for _ in 0..self.shared.config.limits.batch {
            let skipped = self.skipping.min(input.len());
            input.consume(skipped);
            self.skipping -= skipped;
            if input.len() == 0 {
                return Served::All;
            }
            let taken = match request::read(input.bytes(), most) {
                Found::Nothing => return Served::All,
                Found::Request(request, taken) => {
                    if self.run(&request, output) == End::Quit {
                        return Served::Close;
                    }
                    taken
                }
                Found::Bad(error, taken) => {
                    self.shared.counters.errors.fetch_add(1, Ordering::Relaxed);
                    output.extend_from_slice(error.as_bytes());
                    output.extend_from_slice(b"\r\n");
                    taken
                }
                Found::Endless => {
                    output.extend_from_slice(b"CLIENT_ERROR line too long\r\n");
                    return Served::Close;
                }
            };
            self.skipping = taken;
        }
        let skipped = self.skipping.min(input.len());
        input.consume(skipped);
        self.skipping -= skipped;
        Served::Some
    }

    fn takes_sync(&mut self) -> bool {
        std::mem::take(&mut self.wants_sync)
    }

    fn lost(&mut self, output: &mut Vec<u8>, why: &str) {
        output.extend_from_slice(format!("SERVER_ERROR not durable: {why}\r\n").as_bytes());
    }
}

impl Shared {
    /// Deletes all items if somebody has asked for it and the time has come.
    fn flush_if_due(&self, items: &mut Items<'_>) -> Result<(), Failure> {
        let due = self.flush_at.load(Ordering::Acquire);
        if due == 0 || due > items.now_ms {
            return Ok(());
        }
        let taken = self
            .flush_at
            .compare_exchange(due, 0, Ordering::AcqRel, Ordering::Acquire);
        if taken.is_ok() {
            items.flush()?;
        }
        Ok(())
    }
}
