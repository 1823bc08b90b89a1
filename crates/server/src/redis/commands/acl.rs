//! The ACL command: users, their permissions, and the log of denied requests.

use crate::access::{AccessDenial, AclSelector, AclUser, DenialReason, describe, hex};
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::integer;
use crate::redis::catalog::{AccessRequest, CATALOG};
use crate::redis::classes::{self, CommandClasses};
use crate::redis::names;
use crate::redis::permission::OwnConnectionPolicy;
use crate::redis::session::RedisSession;
use crate::redis::subcommands::unknown_subcommand;
use std::borrow::Cow;
use std::sync::Arc;

/// Maximum size of a password that ACL GENPASS generates, in bits.
const MOST_BITS: i64 = 4096;

const HELP: [&str; 24] = [
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the file of --users.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current users to the file of --users.",
    "SETUSER <username> <attribute> [<attribute> ...], USERS, WHOAMI",
    "    Create or modify a user, list all names of users, return that of this connection.",
    "HELP",
];

/// Returns an error with the given text.
fn refused(text: impl std::fmt::Display) -> CommandError {
    CommandError::Refused(Cow::Owned(format!("ERR {text}")))
}

pub(crate) fn acl(session: &mut RedisSession, args: Args<'_>, reply: &mut ReplyWriter<'_>) -> CommandResult {
    let verb = args.at(1).to_ascii_uppercase();
    let shared = Arc::clone(&session.shared);
    let access = &shared.access;
    match (&verb[..], args.len()) {
        (b"WHOAMI", 2) => reply.bulk(session.identity.user.name().as_bytes()),
        (b"LIST", 2) => {
            let all = access.all();
            reply.array(all.len());
            all.iter().for_each(|user| reply.bulk(&describe(user)));
        }
        (b"USERS", 2) => {
            let all = access.all();
            reply.array(all.len());
            all.iter().for_each(|user| reply.bulk(user.name().as_bytes()));
        }
        (b"GETUSER", 3) => match access.find(args.at(2)) {
            Some(user) => show(&user, reply),
            None => reply.null(),
        },
        (b"CAT", 2) => {
            reply.array(classes::NAMES.len());
            classes::NAMES.iter().for_each(|name| reply.bulk(name.as_bytes()));
        }
        (b"CAT", 3) => cat(args.at(2), reply)?,
        (b"GENPASS", 2 | 3) => {
            let bits = args.get(2).map_or(Ok(256), integer)?;
            if !(1..=MOST_BITS).contains(&bits) {
                return Err(refused(format_args!(
                    "ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
                     {MOST_BITS}"
                )));
            }
            reply.bulk(password(bits as usize)?.as_bytes());
        }
        (b"LOG", 3) if args.is(2, "RESET") => {
            access.denied.reset();
            reply.ok();
        }
        (b"LOG", 2 | 3) => {
            let most = args.get(2).map_or(Ok(10), integer)?;
            log(session, usize::try_from(most).unwrap_or(0), reply);
        }
        (b"DRYRUN", 4..) => dry_run(session, args, reply)?,
        (b"HELP", 2) => {
            reply.array(HELP.len());
            HELP.iter().for_each(|line| reply.simple(line));
        }
        _ => change(session, &verb, args, reply)?,
    }
    Ok(())
}

/// Executes the subcommands that change or delete users.
fn change(
    session: &mut RedisSession,
    verb: &[u8],
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let shared = Arc::clone(&session.shared);
    let access = &shared.access;
    match (verb, args.len()) {
        (b"SETUSER", 3..) => {
            let ended = access
                .set_user(args.at(2), args.from(3).iter())
                .map_err(refused)?;
            session.end_connections_of(ended.as_slice(), OwnConnectionPolicy::Stays);
            reply.ok();
        }
        (b"DELUSER", 3..) => {
            let deleted = access
                .delete(&args.from(2).iter().collect::<Vec<_>>())
                .map_err(refused)?;
            session.end_connections_of(&deleted, OwnConnectionPolicy::Ends);
            reply.count(deleted.len());
        }
        (b"LOAD" | b"SAVE", 2) if !access.has_file() => {
            return Err(CommandError::say(
                "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL \
                 SETUSER command, and to start the server with --users FILE in order to store them.",
            ));
        }
        (b"LOAD", 2) => {
            let ended = access.load().map_err(refused)?;
            session.end_connections_of(&ended, OwnConnectionPolicy::Ends);
            reply.ok();
        }
        (b"SAVE", 2) => {
            access.save().map_err(refused)?;
            reply.ok();
        }
        _ => return Err(unknown_subcommand("acl", args)),
    }
    Ok(())
}

/// Writes the reply to ACL GETUSER, which contains the properties of a user.
fn show(user: &AclUser, reply: &mut ReplyWriter<'_>) {
    let shown = user.shown();
    reply.map(6);
    reply.bulk(b"flags");
    reply.set(shown.flags.len());
    shown.flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(shown.passwords.len());
    let passwords = shown.passwords.iter();
    passwords.for_each(|password| reply.bulk(hex(password).as_bytes()));
    show_selector(&shown.selectors[0], reply);
    reply.bulk(b"selectors");
    reply.array(shown.selectors.len() - 1);
    for selector in &shown.selectors[1..] {
        reply.map(3);
        show_selector(selector, reply);
    }
}

/// Writes the three fields of a selector: its commands, keys and channels.
fn show_selector(selector: &AclSelector, reply: &mut ReplyWriter<'_>) {
    let parts = [
        ("commands", selector.commands()),
        ("keys", selector.keys()),
        ("channels", selector.channels()),
    ];
    for (name, value) in parts {
        reply.bulk(name.as_bytes());
        reply.bulk(&value);
    }
}

fn cat(name: &[u8], reply: &mut ReplyWriter<'_>) -> CommandResult {
    let class = CommandClasses::named(name).ok_or_else(|| {
        let name = String::from_utf8_lossy(&name[..name.len().min(128)]).into_owned();
        refused(format_args!("Unknown category '{name}'"))
    })?;
    let is_in = |entry: &&crate::redis::catalog::CatalogEntry| entry.classes.has(class);
    reply.array(CATALOG.entries.iter().filter(is_in).count());
    let found = CATALOG.entries.iter().filter(is_in);
    found.for_each(|entry| reply.bulk(entry.name.as_bytes()));
    Ok(())
}

/// Generates a random password of at least `bits` bits, as a hexadecimal number.
fn password(bits: usize) -> Result<String, CommandError> {
    let digits = bits.div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    let filled = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
    filled.map_err(|_| CommandError::say("ERR cannot read random bytes from the operating system"))?;
    let mut text = hex(&bytes);
    text.truncate(digits);
    Ok(text)
}

fn log(session: &RedisSession, most: usize, reply: &mut ReplyWriter<'_>) {
    let now_ms = session.shared.store.now_ms();
    let entries = session.shared.access.denied.newest(most);
    reply.array(entries.len());
    for entry in entries {
        let reason = match entry.reason {
            DenialReason::Command => "command",
            DenialReason::Key => "key",
            DenialReason::Auth => "auth",
        };
        let context = match entry.context {
            crate::access::DenialContext::TopLevel => "toplevel",
            crate::access::DenialContext::Multi => "multi",
        };
        reply.map(7);
        reply.bulk(b"count");
        reply.integer(entry.count as i64);
        let texts: [(&str, &[u8]); 4] = [
            ("reason", reason.as_bytes()),
            ("context", context.as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user),
        ];
        for (name, value) in texts {
            reply.bulk(name.as_bytes());
            reply.bulk(value);
        }
        reply.bulk(b"age-seconds");
        reply.double(now_ms.saturating_sub(entry.at_ms) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(entry.client.as_bytes());
    }
}

fn dry_run(session: &RedisSession, args: Args<'_>, reply: &mut ReplyWriter<'_>) -> CommandResult {
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let user = session.shared.access.find(args.at(2));
    let user = user.ok_or_else(|| refused(format_args!("User '{}' not found", text(args.at(2)))))?;
    let asked = args.from(3);
    let command = names::find(asked.at(0))
        .ok_or_else(|| refused(format_args!("Command '{}' not found", text(asked.at(0)))))?;
    if !command.takes(asked.len()) {
        return Err(crate::redis::args::wrong_number(command.name));
    }
    crate::redis::subcommands::check(command.name, asked)
        .map_err(|why| CommandError::Refused(Cow::Owned(why)))?;
    let asked = AccessRequest::of(command, asked);
    match user.check(&asked) {
        Ok(()) => reply.ok(),
        Err(AccessDenial::Command) => reply.bulk(
            format!(
                "This user has no permissions to run the '{}' command",
                asked.name()
            )
            .as_bytes(),
        ),
        Err(AccessDenial::Key(key)) => reply.bulk(
            &[
                b"This user has no permissions to access the '",
                &key[..],
                b"' key",
            ]
            .concat(),
        ),
    }
    Ok(())
}
