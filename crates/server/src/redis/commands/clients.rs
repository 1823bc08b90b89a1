//! The CLIENT command: information about connections, and operations on them.

use super::connection::set_name;
use crate::access::{AclUser, UserRegistry};
use crate::error::{CommandError, CommandResult};
use crate::net::WireProtocol;
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::{integer, is};
use crate::redis::blocking::WaitOutcome;
use crate::redis::pause::PauseScope;
use crate::redis::session::{RedisSession, ReplyMode};
use crate::redis::subcommands::unknown_subcommand;
use crate::shared::ClientHandle;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The flag that CLIENT LIST shows for a connection without any other flag.
const NO_FLAG: &str = "N";

const HELP: [&str; 17] = [
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GETNAME / SETNAME <name> -- returns or sets the name of this connection.",
    "GETREDIR -- returns -1, because this server does not track keys.",
    "ID -- returns the ID of this connection.",
    "INFO -- describes this connection in one line.",
    "KILL <ip:port> -- closes a connection.",
    "KILL <option> <value> [...] -- closes the connections that match all options: ID, ADDR, LADDR, TYPE, \
     USER, SKIPME (YES|NO).",
    "LIST [TYPE <type> | ID <id> ...] -- describes connections, one per line.",
    "NO-EVICT (ON|OFF) -- with ON, this connection is not closed when client memory runs out.",
    "NO-TOUCH (ON|OFF) -- with ON, commands of this connection do not change the last use of keys.",
    "PAUSE <milliseconds> [WRITE|ALL] -- suspends the commands of all connections, or only writes.",
    "REPLY (ON|OFF|SKIP) -- sends replies, sends none, or skips the next one.",
    "SETINFO (LIB-NAME|LIB-VER) <value> -- sets the name or version of the client library.",
    "TRACKINGINFO -- reports that tracking is off.",
    "UNBLOCK <id> [TIMEOUT|ERROR] -- ends the wait of a blocking command, as a timeout or with an error.",
    "UNPAUSE -- resumes the commands that PAUSE suspended.",
    "HELP -- prints this help.",
];

pub(crate) fn client(
    session: &mut RedisSession,
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
        (b"SETINFO", 4) => set_info(session, args, reply)?,
        (b"INFO", 2) => reply.verbatim(&(line(&session.client) + "\n")),
        (b"LIST", 2..) => list(session, args, reply)?,
        (b"REPLY", 3) => choose_replies(session, args, reply)?,
        (b"NO-EVICT" | b"NO-TOUCH", 3) if args.is(2, "ON") || args.is(2, "OFF") => {
            if verb == b"NO-EVICT" {
                let stays = &session.client.load.stays;
                stays.store(args.is(2, "ON"), Ordering::Relaxed);
            } else {
                session.settings.touches_keys = args.is(2, "OFF");
            }
            reply.ok();
        }
        (b"NO-EVICT" | b"NO-TOUCH", 3) => return Err(CommandError::SYNTAX),
        (b"KILL", 3..) => kill(session, args, reply)?,
        (b"PAUSE", 3 | 4) => pause(session, args, reply)?,
        (b"UNPAUSE", 2) => {
            session.shared.pause.end();
            reply.ok();
        }
        (b"UNBLOCK", 3 | 4) => {
            if args.len() == 4 && !args.is(3, "TIMEOUT") && !args.is(3, "ERROR") {
                return Err(CommandError::say(
                    "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
                ));
            }
            let outcome = match args.get(3) {
                Some(word) if is(word, "ERROR") => WaitOutcome::Unblocked,
                _ => WaitOutcome::TimedOut,
            };
            let id = u64::try_from(integer(args.at(2))?).unwrap_or(0);
            reply.truth(session.shared.waits.unblock(id, outcome));
        }
        (b"GETREDIR", 2) => reply.integer(-1),
        (b"TRACKINGINFO", 2) => {
            reply.map(3);
            reply.bulk(b"flags");
            reply.set(1);
            reply.bulk(b"off");
            reply.bulk(b"redirect");
            reply.integer(-1);
            reply.bulk(b"prefixes");
            reply.array(0);
        }
        (b"TRACKING", 3) if args.is(2, "OFF") => reply.ok(),
        (b"TRACKING", 3..) if args.is(2, "ON") => {
            return Err(CommandError::say("ERR this server does not support key tracking"));
        }
        (b"TRACKING", 3..) => return Err(CommandError::SYNTAX),
        (b"CACHING", 3) => {
            return Err(CommandError::say(
                "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
            ));
        }
        (b"HELP", 2) => {
            reply.array(HELP.len());
            HELP.iter().for_each(|line| reply.simple(line));
        }
        _ => return Err(unknown_subcommand("client", args)),
    }
    Ok(())
}

/// Formats a connection's properties as a line of CLIENT LIST.
pub(crate) fn line(client: &ClientHandle) -> String {
    let age_ms = client.age_ms();
    let idle_ms = age_ms.saturating_sub(client.last_ms.load(Ordering::Relaxed));
    let queued = client.queued.load(Ordering::Relaxed);
    let mut flags = String::new();
    if client.is_monitor.load(Ordering::Relaxed) {
        flags.push('O');
    }
    if queued >= 0 {
        flags.push('x');
    }
    if client.is_subscriber() {
        flags.push('P');
    }
    if client.is_blocked.load(Ordering::Relaxed) {
        flags.push('b');
    }
    let place = client.peer.flags();
    if place != NO_FLAG || flags.is_empty() {
        flags += place;
    }
    if client.load.stays.load(Ordering::Relaxed) {
        flags.push('e');
    }
    let load = &client.load;
    let received = load.received.load(Ordering::Relaxed);
    let unread = load.unread.load(Ordering::Relaxed);
    let output = load.output.load(Ordering::Relaxed);
    let library = client.library.lock().clone();
    let subscriptions = client
        .subscriptions
        .each_ref()
        .map(|count| count.load(Ordering::Relaxed));
    // After MULTI, all memory besides the buffers counts as the transaction's; otherwise it counts
    // as that of arguments and watched keys.
    let (held, has_begun) = (load.queued.load(Ordering::Relaxed), queued >= 0);
    format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db={} sub={} psub={} ssub={} multi={queued} \
         qbuf={received} qbuf-free={} argv-mem={} multi-mem={} rbs={output} rbp={unread} obl={unread} oll=0 omem={output} tot-mem={} events={} \
         cmd={} user={} redir=-1 resp={} lib-name={} lib-ver={}",
        client.id,
        client.peer,
        client.local,
        client.descriptor.load(Ordering::Relaxed),
        client.name.lock(),
        age_ms / 1000,
        idle_ms / 1000,
        client.database.load(Ordering::Relaxed),
        subscriptions[0],
        subscriptions[1],
        subscriptions[2],
        load.input.load(Ordering::Relaxed).saturating_sub(received),
        if has_begun { 0 } else { held },
        if has_begun { held } else { 0 },
        load.total(),
        if unread > 0 { "rw" } else { "r" },
        client.last_command(),
        client.user.lock().name(),
        client.version.load(Ordering::Relaxed),
        library.0,
        library.1,
    )
}

/// Returns all connections that use the Redis protocol.
fn redis_clients(session: &RedisSession) -> Vec<Arc<ClientHandle>> {
    let mut all = session.shared.clients.list();
    all.retain(|client| client.language == WireProtocol::Redis);
    all
}

/// The type of connections that a TYPE argument selects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientType {
    /// Connections without subscriptions.
    Normal,
    Subscriber,
    /// Masters and replicas, which do not exist.
    None,
}

impl ClientType {
    fn has(self, client: &ClientHandle) -> bool {
        match self {
            ClientType::Normal => !client.is_subscriber(),
            ClientType::Subscriber => client.is_subscriber(),
            ClientType::None => false,
        }
    }
}

fn client_type(word: &[u8]) -> Result<ClientType, CommandError> {
    for (name, chosen) in [
        ("normal", ClientType::Normal),
        ("pubsub", ClientType::Subscriber),
        ("master", ClientType::None),
        ("replica", ClientType::None),
        ("slave", ClientType::None),
    ] {
        if is(word, name) {
            return Ok(chosen);
        }
    }
    Err(CommandError::Refused(Cow::Owned(format!(
        "ERR Unknown client type '{}'",
        String::from_utf8_lossy(word)
    ))))
}

fn list(session: &RedisSession, args: Args<'_>, reply: &mut ReplyWriter<'_>) -> CommandResult {
    let mut all = redis_clients(session);
    if args.len() == 4 && args.is(2, "TYPE") {
        let chosen = client_type(args.at(3))?;
        all.retain(|client| chosen.has(client));
    } else if args.len() > 3 && args.is(2, "ID") {
        let mut wanted = Vec::new();
        for text in args.from(3).iter() {
            wanted.push(integer(text).map_err(|_| CommandError::say("ERR Invalid client ID"))?);
        }
        let found = |id: &i64| all.iter().find(|client| client.id as i64 == *id).cloned();
        all = wanted.iter().filter_map(found).collect();
    } else if args.len() != 2 {
        return Err(CommandError::SYNTAX);
    }
    let lines: String = all.iter().map(|client| line(client) + "\n").collect();
    reply.verbatim(&lines);
    Ok(())
}

fn set_info(session: &RedisSession, args: Args<'_>, reply: &mut ReplyWriter<'_>) -> CommandResult {
    let value = args.at(3);
    if !value.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err(CommandError::Refused(Cow::Owned(format!(
            "ERR {} cannot contain spaces, newlines or special characters.",
            String::from_utf8_lossy(args.at(2)).to_ascii_lowercase()
        ))));
    }
    let value = String::from_utf8_lossy(value).into_owned();
    let mut library = session.client.library.lock();
    if args.is(2, "LIB-NAME") {
        library.0 = value;
    } else if args.is(2, "LIB-VER") {
        library.1 = value;
    } else {
        return Err(CommandError::Refused(Cow::Owned(format!(
            "ERR Unrecognized option '{}'",
            String::from_utf8_lossy(args.at(2))
        ))));
    }
    reply.ok();
    Ok(())
}

fn choose_replies(session: &mut RedisSession, args: Args<'_>, reply: &mut ReplyWriter<'_>) -> CommandResult {
    if args.is(2, "ON") {
        session.settings.reply_mode = ReplyMode::On;
        reply.ok();
    } else if args.is(2, "OFF") {
        session.settings.reply_mode = ReplyMode::Off;
    } else if args.is(2, "SKIP") {
        if session.settings.reply_mode == ReplyMode::On {
            session.settings.reply_mode = ReplyMode::SkipNext;
        }
    } else {
        return Err(CommandError::SYNTAX);
    }
    Ok(())
}

fn pause(session: &RedisSession, args: Args<'_>, reply: &mut ReplyWriter<'_>) -> CommandResult {
    let scope = match args.get(3) {
        None => PauseScope::All,
        Some(word) if is(word, "ALL") => PauseScope::All,
        Some(word) if is(word, "WRITE") => PauseScope::Writes,
        Some(_) => return Err(CommandError::say("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let length = integer(args.at(2))
        .map_err(|_| CommandError::say("ERR timeout is not an integer or out of range"))?;
    let length = u64::try_from(length).map_err(|_| CommandError::say("ERR timeout is negative"))?;
    session.shared.pause.begin(Duration::from_millis(length), scope);
    reply.ok();
    Ok(())
}

struct KillFilter {
    id: Option<i64>,
    peer: Option<String>,
    local: Option<String>,
    user: Option<Arc<AclUser>>,
    of_type: Option<ClientType>,
    skips_itself: bool,
}

impl KillFilter {
    fn read(access: &UserRegistry, args: Args<'_>) -> Result<KillFilter, CommandError> {
        let text = |index: usize| String::from_utf8_lossy(args.at(index)).into_owned();
        let mut victims = KillFilter {
            id: None,
            peer: None,
            local: None,
            user: None,
            of_type: None,
            skips_itself: args.len() > 3,
        };
        if args.len() == 3 {
            victims.peer = Some(text(2));
            return Ok(victims);
        }
        for at in (2..args.len()).step_by(2) {
            let value = args.get(at + 1).ok_or(CommandError::SYNTAX)?;
            if args.is(at, "ID") {
                let id = integer(value).ok().filter(|&id| id > 0);
                let why = CommandError::say("ERR client-id should be greater than 0");
                victims.id = Some(id.ok_or(why)?);
            } else if args.is(at, "ADDR") {
                victims.peer = Some(text(at + 1));
            } else if args.is(at, "LADDR") {
                victims.local = Some(text(at + 1));
            } else if args.is(at, "TYPE") {
                victims.of_type = Some(client_type(value)?);
            } else if args.is(at, "USER") {
                let found = access.find(value).ok_or_else(|| {
                    let name = String::from_utf8_lossy(value);
                    CommandError::Refused(Cow::Owned(format!("ERR No such user '{name}'")))
                });
                victims.user = Some(found?);
            } else if args.is(at, "SKIPME") && is(value, "YES") {
                victims.skips_itself = true;
            } else if args.is(at, "SKIPME") && is(value, "NO") {
                victims.skips_itself = false;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(victims)
    }

    fn has(&self, client: &ClientHandle) -> bool {
        self.of_type.is_none_or(|chosen| chosen.has(client))
            && self.id.is_none_or(|id| client.id as i64 == id)
            && self
                .user
                .as_ref()
                .is_none_or(|user| client.user.lock().name() == user.name())
            && self
                .peer
                .as_ref()
                .is_none_or(|peer| client.peer.to_string() == *peer)
            && self
                .local
                .as_ref()
                .is_none_or(|local| client.local.to_string() == *local)
    }
}

fn kill(session: &mut RedisSession, args: Args<'_>, reply: &mut ReplyWriter<'_>) -> CommandResult {
    let victims = KillFilter::read(&session.shared.access, args)?;
    let mut count = 0;
    for client in redis_clients(session).iter().filter(|client| victims.has(client)) {
        let is_itself = client.id == session.client.id;
        if is_itself && victims.skips_itself {
            continue;
        }
        // Close this connection after sending its reply.
        if is_itself {
            session.is_ending = true;
        } else {
            client.is_killed.store(true, Ordering::Relaxed);
            session.shared.clients.remove(client.id);
        }
        count += 1;
    }
    if let Some(wake) = session.shared.wake.get() {
        wake();
    }
    match (args.len(), count) {
        (3, 0) => return Err(CommandError::say("ERR No such client")),
        (3, _) => reply.ok(),
        _ => reply.count(count),
    }
    Ok(())
}
