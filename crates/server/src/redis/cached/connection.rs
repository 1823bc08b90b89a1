//! A cache's commands on the connection: authentication, protocol version, and connection
//! properties.

use super::super::args::{OptionParser, integer, is, wrong_number};
use super::session::CachedSession;
use crate::access::LoginResult;
use crate::error::{CommandError, CommandResult};
use crate::net::WireProtocol;
use crate::protocol::resp::{Args, ReplyWriter, RespVersion};
use crate::redis::commands::clients::line;
use crate::redis::commands::connection::{HelloRequest, check_name};
use crate::redis::subcommands::unknown_subcommand;
use std::borrow::Cow;
use std::sync::atomic::Ordering;

pub(super) fn ping(
    _session: &mut CachedSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    match args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(args.at(1)),
        _ => return Err(wrong_number("ping")),
    }
    Ok(())
}

pub(super) fn echo(
    _session: &mut CachedSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    reply.bulk(args.at(1));
    Ok(())
}

pub(super) fn select(
    _session: &mut CachedSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    match integer(args.at(1))? {
        0 => reply.ok(),
        _ => {
            return Err(CommandError::say(
                "ERR DB index is out of range: in cache mode there is only database 0",
            ));
        }
    }
    Ok(())
}

/// Authenticates the connection. If the password is wrong, the error reply is delayed.
fn identify(session: &mut CachedSession, user: &[u8], password: &[u8]) -> CommandResult {
    let access = &session.cached.common.access;
    match access.log_in(
        session.client.peer.place(),
        &mut session.failed_logins,
        user,
        password,
    ) {
        LoginResult::Yes(user) => {
            *session.client.user.lock() = user;
            session.is_authenticated = true;
            Ok(())
        }
        LoginResult::No(time) => {
            session.hold = Some(time);
            Err(CommandError::say(
                "WRONGPASS invalid username-password pair or user is disabled.",
            ))
        }
    }
}

pub(super) fn auth(
    session: &mut CachedSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    match args.len() {
        2 if session.cached.common.access.default_needs_no_password() => {
            return Err(CommandError::say(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ));
        }
        2 => identify(session, b"default", args.at(1))?,
        3 => identify(session, args.at(1), args.at(2))?,
        _ => return Err(CommandError::SYNTAX),
    }
    reply.ok();
    Ok(())
}

pub(super) fn hello(
    session: &mut CachedSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let greeting = HelloRequest::read(args, session.version)?;
    if let Some((user, password)) = greeting.login {
        identify(session, user, password)?;
    }
    greeting.check(session.is_authenticated)?;
    if let Some(name) = greeting.name {
        set_name(session, name)?;
    }
    session.version = greeting.version;
    greeting.reply(&session.client, reply);
    Ok(())
}

fn set_name(session: &CachedSession, name: &[u8]) -> CommandResult {
    check_name(name)?;
    *session.client.name.lock() = String::from_utf8_lossy(name).into_owned();
    Ok(())
}

pub(super) fn quit(
    session: &mut CachedSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    session.is_ending = true;
    reply.ok();
    Ok(())
}

pub(super) fn reset(
    session: &mut CachedSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    session.version = RespVersion::Two;
    session.is_authenticated = session.cached.common.access.is_open();
    *session.client.user.lock() = session.cached.common.access.default_user();
    session.client.name.lock().clear();
    session.client.version.store(2, Ordering::Relaxed);
    reply.simple("RESET");
    Ok(())
}

/// The CLIENT command. Supports only the subcommands that client libraries use.
pub(super) fn client(
    session: &mut CachedSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let verb = args.at(1).to_ascii_uppercase();
    match (&verb[..], args.len()) {
        (b"ID", 2) => reply.integer(session.client.id as i64),
        (b"GETNAME", 2) => {
            let name = session.client.name.lock().clone();
            reply.bulk_or_null(Some(name.as_bytes()).filter(|name| !name.is_empty()));
        }
        (b"SETNAME", 3) => {
            set_name(session, args.at(2))?;
            reply.ok();
        }
        (b"SETINFO", 4) => {
            check_name(args.at(3))?;
            let value = String::from_utf8_lossy(args.at(3)).into_owned();
            let mut library = session.client.library.lock();
            match args.at(2) {
                word if is(word, "LIB-NAME") => library.0 = value,
                word if is(word, "LIB-VER") => library.1 = value,
                word => {
                    let word = String::from_utf8_lossy(word);
                    let text = format!("ERR Unrecognized option '{word}'");
                    return Err(CommandError::Refused(Cow::Owned(text)));
                }
            }
            reply.ok();
        }
        (b"INFO", 2) => reply.verbatim(&(line(&session.client) + "\n")),
        (b"LIST", 2) => {
            let mut all = session.cached.common.clients.list();
            all.retain(|client| client.language == WireProtocol::Redis);
            let lines: String = all.iter().map(|client| line(client) + "\n").collect();
            reply.verbatim(&lines);
        }
        (b"NO-EVICT" | b"NO-TOUCH", 3) => {
            let mut options = OptionParser::new(args, 2);
            let word = options.value()?;
            if !is(word, "ON") && !is(word, "OFF") {
                return Err(CommandError::SYNTAX);
            }
            if verb == b"NO-EVICT" {
                let stays = &session.client.load.stays;
                stays.store(is(word, "ON"), Ordering::Relaxed);
            }
            reply.ok();
        }
        _ => return Err(unknown_subcommand("client", args)),
    }
    Ok(())
}
