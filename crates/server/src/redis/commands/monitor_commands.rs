//! The commands MONITOR and SHUTDOWN, and the redaction of secrets in displayed commands.

use crate::error::{CommandError, CommandResult};
use crate::net::wait_hooks;
use crate::observe::monitor;
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::catalog;
use crate::redis::session::RedisSession;
use crate::redis::table::CommandSpec;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The text that MONITOR and SLOWLOG show instead of a password.
const REDACTED: &[u8] = b"(redacted)";

/// Returns the indexes of the arguments that are, or may be, secrets.
fn secrets(command: &CommandSpec, args: Args<'_>) -> Range<usize> {
    match command.name {
        "auth" => 1..args.len(),
        "hello" => {
            let at = (2..args.len()).find(|&index| args.is(index, "AUTH"));
            at.map_or(0..0, |at| at + 1..args.len())
        }
        "config" if args.is(1, "SET") => {
            let at = (2..args.len())
                .step_by(2)
                .find(|&index| args.is(index, "requirepass"));
            at.map_or(0..0, |at| at + 1..args.len())
        }
        "acl" if args.is(1, "SETUSER") => 2..args.len(),
        _ => 0..0,
    }
}

/// Returns a command's name and arguments, with secrets redacted.
pub(crate) fn words<'a>(
    command: &CommandSpec,
    args: Args<'a>,
) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
    let secret = secrets(command, args);
    (0..args.len()).map(move |index| match secret.contains(&index) {
        true => REDACTED,
        false => args.at(index),
    })
}

impl RedisSession {
    /// Sends a command to all connections that execute MONITOR, unless the command is
    /// administrative.
    pub(in crate::redis) fn show(&self, command: &CommandSpec, args: Args<'_>) {
        if !self.shared.monitors.are_there() || catalog::is_administrative(command, args) {
            return;
        }
        let now_us = self.shared.store.now_ms() * 1000;
        let address = self.client.peer.to_string();
        let line = monitor::line(now_us, self.settings.database, &address, words(command, args));
        self.shared.monitors.show(&line);
    }
}

pub(crate) fn monitor(
    session: &mut RedisSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    if session.feed.is_none() {
        session.feed = Some(session.shared.monitors.join());
        session.client.is_monitor.store(true, Ordering::Relaxed);
    }
    reply.ok();
    Ok(())
}

/// Writes the MONITOR output that the connection has not received yet.
pub(super) fn show_rest(session: &RedisSession, reply: &mut ReplyWriter<'_>) {
    let mut lines = Vec::new();
    if let Some(feed) = &session.feed {
        feed.take(&mut lines);
    }
    reply.raw(&lines);
}

/// Ends MONITOR on this connection.
pub(crate) fn stop_monitoring(session: &mut RedisSession) {
    if let Some(feed) = session.feed.take() {
        session.shared.monitors.leave(&feed);
        session.client.is_monitor.store(false, Ordering::Relaxed);
    }
}

pub(crate) fn shutdown(
    session: &mut RedisSession,
    args: Args<'_>,
    _reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (mut saves, mut skips, mut forces, mut aborts) = (false, false, false, false);
    for index in 1..args.len() {
        if args.is(index, "SAVE") {
            saves = true;
        } else if args.is(index, "NOSAVE") {
            skips = true;
        } else if args.is(index, "FORCE") {
            forces = true;
        } else if args.is(index, "ABORT") {
            aborts = true;
        } else if !args.is(index, "NOW") {
            return Err(CommandError::SYNTAX);
        }
    }
    if (saves && skips) || (aborts && args.len() > 2) {
        return Err(CommandError::SYNTAX);
    }
    if aborts {
        return Err(CommandError::say("ERR No shutdown in progress."));
    }
    let shared = Arc::clone(&session.shared);
    let Some(stop) = shared.stop.get() else {
        return Err(CommandError::say("ERR the server is still starting; try again"));
    };
    if saves {
        wait_hooks::about_to_wait();
        if let Err(error) = shared.store.db.checkpoint()
            && !forces
        {
            tracing::error!(%error, "SHUTDOWN SAVE failed; the server keeps running");
            return Err(CommandError::say("ERR Errors trying to SHUTDOWN. Check logs."));
        }
    }
    tracing::warn!(client = session.client.id, peer = %session.client.peer, "a client sent SHUTDOWN; the server stops");
    stop();
    session.is_ending = true;
    Ok(())
}
