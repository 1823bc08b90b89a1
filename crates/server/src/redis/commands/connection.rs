//! Commands on the connection: authentication, protocol version, selected database, and name.

use super::keys::database;
use super::{monitor_commands, pubsub};
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter, RespVersion};
use crate::redis::args::{OptionParser, integer, is};
use crate::redis::session::{RedisSession, SessionSettings};
use crate::shared::ClientHandle;
use std::borrow::Cow;
use std::sync::atomic::Ordering;

pub(crate) fn ping(session: &mut RedisSession, args: Args<'_>, reply: &mut ReplyWriter<'_>) -> CommandResult {
    match args.len() {
        1 | 2 if session.is_subscriber_only() => {
            reply.array(2);
            reply.bulk(b"pong");
            reply.bulk(args.get(1).unwrap_or_default());
        }
        1 => reply.simple("PONG"),
        2 => reply.bulk(args.at(1)),
        _ => return Err(crate::redis::args::wrong_number("ping")),
    }
    Ok(())
}

pub(crate) fn echo(
    _session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    reply.bulk(args.at(1));
    Ok(())
}

pub(crate) fn select(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    session.settings.database = database(args.at(1))?;
    session
        .client
        .database
        .store(session.settings.database, Ordering::Relaxed);
    reply.ok();
    Ok(())
}

pub(crate) fn auth(session: &mut RedisSession, args: Args<'_>, reply: &mut ReplyWriter<'_>) -> CommandResult {
    match args.len() {
        2 if session.shared.access.default_needs_no_password() => {
            return Err(CommandError::say(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ));
        }
        2 => session.identify(args.at(0), b"default", args.at(1))?,
        3 => session.identify(args.at(0), args.at(1), args.at(2))?,
        _ => return Err(CommandError::SYNTAX),
    }
    reply.ok();
    Ok(())
}

pub(crate) struct HelloRequest<'a> {
    pub(crate) version: RespVersion,
    /// The user name and password, if the client authenticates with this command.
    pub(crate) login: Option<(&'a [u8], &'a [u8])>,
    pub(crate) name: Option<&'a [u8]>,
}

impl<'a> HelloRequest<'a> {
    /// Parses the arguments of HELLO. `now` is the connection's current protocol version.
    pub(crate) fn read(args: Args<'a>, now: RespVersion) -> Result<HelloRequest<'a>, CommandError> {
        let mut version = now;
        if let Some(text) = args.get(1) {
            version = match integer(text) {
                Ok(2) => RespVersion::Two,
                Ok(3) => RespVersion::Three,
                Ok(_) => return Err(CommandError::say("NOPROTO unsupported protocol version")),
                Err(_) => {
                    return Err(CommandError::say(
                        "ERR Protocol version is not an integer or out of range",
                    ));
                }
            };
        }
        let (mut login, mut name) = (None, None);
        let mut options = OptionParser::new(args, 2);
        while let Some(word) = options.next() {
            if is(word, "AUTH") && options.left() >= 2 {
                login = Some((options.value()?, options.value()?));
            } else if is(word, "SETNAME") && options.left() >= 1 {
                name = Some(options.value()?);
            } else {
                let word = String::from_utf8_lossy(word);
                return Err(CommandError::Refused(Cow::Owned(format!(
                    "ERR Syntax error in HELLO option '{word}'"
                ))));
            }
        }
        Ok(HelloRequest { version, login, name })
    }

    /// Returns an error unless the client has authenticated, which `is_known` tells.
    pub(crate) fn check(&self, is_known: bool) -> CommandResult {
        if is_known {
            return Ok(());
        }
        Err(CommandError::say(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ))
    }

    /// Writes the reply to HELLO in the requested protocol version, and updates the version in
    /// CLIENT LIST.
    pub(crate) fn reply(&self, client: &ClientHandle, reply: &mut ReplyWriter<'_>) {
        let number = if self.version == RespVersion::Three { 3 } else { 2 };
        client.version.store(number, Ordering::Relaxed);
        describe(client, reply, self.version);
    }
}

pub(crate) fn hello(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let greeting = HelloRequest::read(args, session.settings.version)?;
    if let Some((user, password)) = greeting.login {
        session.identify(args.at(0), user, password)?;
    }
    greeting.check(session.identity.is_authenticated)?;
    if let Some(name) = greeting.name {
        set_name(session, name)?;
    }
    session.settings.version = greeting.version;
    greeting.reply(&session.client, reply);
    Ok(())
}

/// Writes the reply to HELLO in the requested protocol version.
fn describe(client: &ClientHandle, reply: &mut ReplyWriter<'_>, version: RespVersion) {
    let mut out = Vec::new();
    let mut map = ReplyWriter::new(&mut out, version);
    map.map(7);
    let text = |map: &mut ReplyWriter<'_>, name: &str, value: &str| {
        map.bulk(name.as_bytes());
        map.bulk(value.as_bytes());
    };
    text(&mut map, "server", "redis");
    text(&mut map, "version", super::info::REDIS_VERSION);
    map.bulk(b"proto");
    map.integer(if version == RespVersion::Three { 3 } else { 2 });
    map.bulk(b"id");
    map.integer(client.id as i64);
    text(&mut map, "mode", "standalone");
    text(&mut map, "role", "master");
    map.bulk(b"modules");
    map.array(0);
    reply.raw(&out);
}

pub(crate) fn quit(
    session: &mut RedisSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    session.is_ending = true;
    reply.ok();
    Ok(())
}

pub(crate) fn reset(
    session: &mut RedisSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    forget(session);
    monitor_commands::show_rest(session, reply);
    monitor_commands::stop_monitoring(session);
    pubsub::unsubscribe_all(session);
    session.settings = SessionSettings::default();
    session.become_user(session.shared.access.default_user());
    session.identity.is_authenticated = session.shared.access.is_open();
    session.client.name.lock().clear();
    session.client.load.stays.store(false, Ordering::Relaxed);
    session.client.database.store(0, Ordering::Relaxed);
    session.client.version.store(2, Ordering::Relaxed);
    reply.simple("RESET");
    Ok(())
}

/// Ends everything that a session has started: its transaction, and the watches on keys.
pub(crate) fn forget(session: &mut RedisSession) {
    session.multi.end(&session.shared.store);
    session.interactive = None;
    session.client.queued.store(-1, Ordering::Relaxed);
}

/// Returns an error if a client name contains characters that would make a CLIENT LIST line
/// ambiguous.
pub(crate) fn check_name(name: &[u8]) -> CommandResult {
    if !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err(CommandError::say(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ));
    }
    Ok(())
}

pub(crate) fn set_name(session: &RedisSession, name: &[u8]) -> CommandResult {
    check_name(name)?;
    *session.client.name.lock() = String::from_utf8_lossy(name).into_owned();
    Ok(())
}
