//! What commands there are, and what values are like inside.

use super::args::is;
use super::catalog;
use super::connection::unknown_subcommand;
use super::session::Session;
use super::table::{self, Action, Command};
use crate::error::Failure;
use crate::model::{Collection, Entry, Kind, format};
use crate::resp::{Args, Reply, number};
use crate::store::{Direction, Transaction};

type Done = Result<(), Failure>;

pub(super) fn command(_session: &mut Session, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let verb = args.at(1).to_ascii_uppercase();
    match (&verb[..], args.len()) {
        (b"", 1) => all(reply),
        (b"COUNT", 2) => reply.count(table::all().count()),
        (b"INFO", 2) => all(reply),
        (b"INFO", _) => {
            reply.array(args.len() - 2);
            for name in args.from(2).iter() {
                match table::find(name) {
                    Some(command) => describe(command, reply),
                    None => reply.null_array(),
                }
            }
        }
        (b"LIST", 2) => {
            reply.array(table::all().count());
            table::all().for_each(|command| reply.bulk(command.name.as_bytes()));
        }
        (b"DOCS", _) => {
            let is_wanted = |command: &&Command| {
                args.len() == 2 || args.from(2).iter().any(|name| is(name, command.name))
            };
            reply.map(table::all().filter(is_wanted).count());
            for command in table::all().filter(is_wanted) {
                reply.bulk(command.name.as_bytes());
                reply.map(2);
                for (name, value) in [("summary", command.summary), ("group", command.group)] {
                    reply.bulk(name.as_bytes());
                    reply.bulk(value.as_bytes());
                }
            }
        }
        (b"GETKEYS", 3..) => get_keys(args.from(2), reply)?,
        _ => return Err(unknown_subcommand("command", args)),
    }
    Ok(())
}

fn get_keys(args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let command = table::find(args.at(0)).ok_or(Failure::say("ERR Invalid command specified"))?;
    if !command.takes(args.len()) {
        return Err(Failure::say(
            "ERR Invalid number of arguments specified for command",
        ));
    }
    let keys: Vec<&[u8]> = command.keys(args).collect();
    if keys.is_empty() {
        return Err(Failure::say("ERR The command has no key arguments"));
    }
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

fn all(reply: &mut Reply<'_>) {
    reply.array(table::all().count());
    table::all().for_each(|command| describe(command, reply));
}

fn describe(command: &Command, reply: &mut Reply<'_>) {
    let is_data = matches!(command.action, Action::Data(_));
    let mut flags = Vec::new();
    match (is_data, command.writes()) {
        (true, true) => flags.push("write"),
        (true, false) => flags.push("readonly"),
        (false, _) => flags.push("noscript"),
    }
    if command.is_fast() {
        flags.push("fast");
    }
    if command.is_for_strangers() {
        flags.push("no_auth");
    }
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(i64::from(command.arity));
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    for number in [command.keys.0, command.keys.1, command.keys.2] {
        reply.integer(i64::from(number));
    }
    let classes = catalog::classes_of(command);
    reply.set(classes.len());
    classes
        .iter()
        .for_each(|class| reply.simple(&format!("@{class}")));
    for _ in 0..3 {
        reply.array(0);
    }
}

/// Up to how many elements, and how long ones, Redis keeps in one piece.
const LISTPACK_ELEMENTS: u64 = 128;
const LISTPACK_BYTES: usize = 64;
const INTSET_ELEMENTS: u64 = 512;

pub(super) fn object(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let verb = args.at(1).to_ascii_uppercase();
    match (&verb[..], args.len()) {
        (b"ENCODING", 3) => {
            let name = match transaction.entry(args.at(2))? {
                None => None,
                Some(Entry::Text(text)) => Some(match text.len() {
                    _ if number::integer(&text).is_some() => "int",
                    0..=44 => "embstr",
                    _ => "raw",
                }),
                Some(Entry::Collection(collection)) => Some(encoding(transaction, &collection)?),
            };
            reply.bulk_or_null(name.map(str::as_bytes));
        }
        (b"REFCOUNT" | b"IDLETIME", 3) => {
            if transaction.entry(args.at(2))?.is_some() {
                reply.truth(verb == b"REFCOUNT");
            } else {
                reply.null();
            }
        }
        (b"FREQ", 3) if transaction.entry(args.at(2))?.is_none() => reply.null(),
        (b"FREQ", 3) => {
            return Err(Failure::say(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
                 switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        (b"HELP", 2) => {
            let lines = [
                "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "ENCODING <key> -- how Redis would keep a value of this kind.",
                "REFCOUNT <key> -- 1.",
                "IDLETIME <key> -- 0: it is not noted who reads what.",
            ];
            reply.array(lines.len());
            lines.iter().for_each(|line| reply.simple(line));
        }
        _ => return Err(unknown_subcommand("object", args)),
    }
    Ok(())
}

/// How Redis would keep a collection. Here all are kept alike.
fn encoding(transaction: &Transaction<'_>, collection: &Collection) -> Result<&'static str, Failure> {
    let (small, large, most) = match collection.kind {
        Kind::List => return Ok("quicklist"),
        Kind::Set => ("intset", "hashtable", INTSET_ELEMENTS),
        Kind::Hash => ("listpack", "hashtable", LISTPACK_ELEMENTS),
        Kind::SortedSet => ("listpack", "skiplist", LISTPACK_ELEMENTS),
    };
    if collection.count > most {
        return Ok(large);
    }
    let start = format::elements(transaction.database, collection.number);
    let end = format::behind(&start);
    let mut scan = transaction.scan(start, end, Direction::Forward);
    while let Some((key, value)) = scan.next()? {
        let is_small = match collection.kind {
            Kind::Set => number::integer(format::member_of(&key).1).is_some(),
            Kind::Hash => format::member_of(&key).1.len().max(value.len()) <= LISTPACK_BYTES,
            Kind::SortedSet | Kind::List => format::sorted_member_of(&key).1.len() <= LISTPACK_BYTES,
        };
        if !is_small {
            return Ok(large);
        }
    }
    Ok(small)
}
