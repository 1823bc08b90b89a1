//! The connection itself: authentication, protocol version, properties.

use super::keys::database;
use super::watching;
use crate::error::Failure;
use crate::protocol::resp::{Args, Reply, Version};
use crate::redis::args::{Options, integer, is};
use crate::redis::session::{Session, Settings};
use crate::shared::Client;
use std::borrow::Cow;
use std::sync::atomic::Ordering;

type Done = Result<(), Failure>;

pub(crate) fn ping(_session: &mut Session, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    match args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(args.at(1)),
        _ => return Err(crate::redis::args::wrong_number("ping")),
    }
    Ok(())
}

pub(crate) fn echo(_session: &mut Session, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    reply.bulk(args.at(1));
    Ok(())
}

pub(crate) fn select(session: &mut Session, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    session.settings.database = database(args.at(1))?;
    session
        .client
        .database
        .store(session.settings.database, Ordering::Relaxed);
    reply.ok();
    Ok(())
}

pub(crate) fn auth(session: &mut Session, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    match args.len() {
        2 if session.shared.access.default_needs_no_password() => {
            return Err(Failure::say(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ));
        }
        2 => session.identify(args.at(0), b"default", args.at(1))?,
        3 => session.identify(args.at(0), args.at(1), args.at(2))?,
        _ => return Err(Failure::SYNTAX),
    }
    reply.ok();
    Ok(())
}

/// The arguments of HELLO.
pub(crate) struct Greeting<'a> {
    pub(crate) version: Version,
    /// A user and a password.
    pub(crate) login: Option<(&'a [u8], &'a [u8])>,
    pub(crate) name: Option<&'a [u8]>,
}

impl<'a> Greeting<'a> {
    /// Parses the arguments of HELLO. `now` is the current version.
    pub(crate) fn read(args: Args<'a>, now: Version) -> Result<Greeting<'a>, Failure> {
        let mut version = now;
        if let Some(text) = args.get(1) {
            version = match integer(text) {
                Ok(2) => Version::Two,
                Ok(3) => Version::Three,
                Ok(_) => return Err(Failure::say("NOPROTO unsupported protocol version")),
                Err(_) => {
                    return Err(Failure::say(
                        "ERR Protocol version is not an integer or out of range",
                    ));
                }
            };
        }
        let (mut login, mut name) = (None, None);
        let mut options = Options::new(args, 2);
        while let Some(word) = options.next() {
            if is(word, "AUTH") && options.left() >= 2 {
                login = Some((options.value()?, options.value()?));
            } else if is(word, "SETNAME") && options.left() >= 1 {
                name = Some(options.value()?);
            } else {
                let word = String::from_utf8_lossy(word);
                return Err(Failure::Refused(Cow::Owned(format!(
                    "ERR Syntax error in HELLO option '{word}'"
                ))));
            }
        }
        Ok(Greeting { version, login, name })
    }

    /// Refuses a client that is not authenticated.
    pub(crate) fn check(&self, is_known: bool) -> Done {
        if is_known {
            return Ok(());
        }
        Err(Failure::say(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ))
    }

    /// Records the chosen version and replies in it.
    pub(crate) fn reply(&self, client: &Client, reply: &mut Reply<'_>) {
        let number = if self.version == Version::Three { 3 } else { 2 };
        client.version.store(number, Ordering::Relaxed);
        describe(client, reply, self.version);
    }
}

pub(crate) fn hello(session: &mut Session, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let greeting = Greeting::read(args, session.settings.version)?;
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

/// Writes the reply to HELLO in the chosen version.
fn describe(client: &Client, reply: &mut Reply<'_>, version: Version) {
    let mut out = Vec::new();
    let mut map = Reply::new(&mut out, version);
    map.map(7);
    let text = |map: &mut Reply<'_>, name: &str, value: &str| {
        map.bulk(name.as_bytes());
        map.bulk(value.as_bytes());
    };
    text(&mut map, "server", "redis");
    text(&mut map, "version", super::info::REDIS_VERSION);
    map.bulk(b"proto");
    map.integer(if version == Version::Three { 3 } else { 2 });
    map.bulk(b"id");
    map.integer(client.id as i64);
    text(&mut map, "mode", "standalone");
    text(&mut map, "role", "master");
    map.bulk(b"modules");
    map.array(0);
    reply.raw(&out);
}

pub(crate) fn quit(session: &mut Session, _args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    session.is_ending = true;
    reply.ok();
    Ok(())
}

pub(crate) fn reset(session: &mut Session, _args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    forget(session);
    watching::show_rest(session, reply);
    watching::stop_monitoring(session);
    session.settings = Settings::default();
    session.become_user(session.shared.access.default_user());
    session.identity.is_authenticated = session.shared.access.is_open();
    session.client.name.lock().clear();
    session.client.load.stays.store(false, Ordering::Relaxed);
    session.client.database.store(0, Ordering::Relaxed);
    session.client.version.store(2, Ordering::Relaxed);
    reply.simple("RESET");
    Ok(())
}

/// Releases what a session holds elsewhere.
pub(crate) fn forget(session: &mut Session) {
    session.multi.end(&session.shared.store);
    session.interactive = None;
    session.client.queued.store(-1, Ordering::Relaxed);
}

/// Refuses a name that would make a line of CLIENT LIST ambiguous.
pub(crate) fn check_name(name: &[u8]) -> Done {
    if !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err(Failure::say(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ));
    }
    Ok(())
}

pub(crate) fn set_name(session: &Session, name: &[u8]) -> Done {
    check_name(name)?;
    *session.client.name.lock() = String::from_utf8_lossy(name).into_owned();
    Ok(())
}
