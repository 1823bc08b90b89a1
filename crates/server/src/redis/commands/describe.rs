//! The commands COMMAND and OBJECT, which describe commands and value encodings.

use crate::access::glob;
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter, number};
use crate::redis::args::is;
use crate::redis::session::RedisSession;
use crate::redis::subcommands::unknown_subcommand;
use crate::redis::table::{self, CommandHandler, CommandSpec};
use crate::redis::{catalog, names, subcommands};
use crate::store::model::{CollectionHeader, CollectionKind, TypedValue, format};
use crate::store::{CommandTransaction, WalkDirection};

const HELP: [&str; 9] = [
    "COMMAND [<subcommand> [<arg> [value] [opt] ...]]. Subcommands are:",
    "(none) -- describes all commands.",
    "COUNT -- returns the number of commands.",
    "DOCS [<name> ...] -- returns the documentation of commands.",
    "GETKEYS <command> [<arg> ...] -- returns the keys among the arguments.",
    "GETKEYSANDFLAGS <command> [<arg> ...] -- returns the keys and how the command accesses them.",
    "INFO [<name> ...] -- describes the arguments and keys of commands.",
    "LIST [FILTERBY (MODULE <name> | ACLCAT <category> | PATTERN <pattern>)] -- returns the names of commands.",
    "HELP -- prints this help.",
];

pub(crate) fn command(
    _session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let verb = args.at(1).to_ascii_uppercase();
    match (&verb[..], args.len()) {
        (b"", 1) => all(reply),
        (b"COUNT", 2) => reply.count(table::all().count()),
        (b"INFO", 2) => all(reply),
        (b"INFO", _) => {
            reply.array(args.len() - 2);
            for name in args.from(2).iter() {
                match named(name) {
                    Some((command, None)) => describe(command, reply),
                    Some((command, Some(subcommand))) => describe_part(command, subcommand, reply),
                    None => reply.null_array(),
                }
            }
        }
        (b"LIST", 2..) => list(args, reply)?,
        (b"DOCS", _) => docs(args, reply),
        (b"GETKEYS", 4..) => get_keys(args.from(2), reply)?,
        (b"GETKEYSANDFLAGS", 4..) => get_keys_and_flags(args.from(2), reply)?,
        (b"HELP", 2) => {
            reply.array(HELP.len());
            HELP.iter().for_each(|line| reply.simple(line));
        }
        _ => return Err(unknown_subcommand("command", args)),
    }
    Ok(())
}

/// A subcommand's name and arity.
type SubcommandArity = (&'static str, i32);

/// Returns the command with this name. For a name of the form `command|subcommand`, also returns
/// the subcommand.
fn named(name: &[u8]) -> Option<(&'static CommandSpec, Option<&'static SubcommandArity>)> {
    let Some(at) = name.iter().position(|&byte| byte == b'|') else {
        return Some((names::find(name)?, None));
    };
    let command = names::find(&name[..at])?;
    let mut parts = subcommands::names(command.name).iter();
    let part = parts.find(|(word, _)| is(&name[at + 1..], word))?;
    Some((command, Some(part)))
}

/// The filter of COMMAND LIST.
enum CommandFilter<'a> {
    None,
    Category(&'a [u8]),
    Pattern(Vec<u8>),
    /// Selects a module's commands. There are no modules, so it selects nothing.
    Nothing,
}

fn list(args: Args<'_>, reply: &mut ReplyWriter<'_>) -> CommandResult {
    let filter = match args.len() {
        2 => CommandFilter::None,
        5 if args.is(2, "FILTERBY") && args.is(3, "MODULE") => CommandFilter::Nothing,
        5 if args.is(2, "FILTERBY") && args.is(3, "ACLCAT") => CommandFilter::Category(args.at(4)),
        5 if args.is(2, "FILTERBY") && args.is(3, "PATTERN") => {
            CommandFilter::Pattern(args.at(4).to_ascii_lowercase())
        }
        _ => return Err(CommandError::SYNTAX),
    };
    let mut names = Vec::new();
    for command in table::all() {
        let fits = |name: &str| match &filter {
            CommandFilter::None => true,
            CommandFilter::Nothing => false,
            CommandFilter::Category(wanted) => {
                catalog::classes_of(name).iter().any(|class| is(wanted, class))
            }
            CommandFilter::Pattern(pattern) => glob::fits(pattern, name.as_bytes()),
        };
        if fits(command.name) {
            names.push(command.name.to_owned());
        }
        for (word, _) in subcommands::names(command.name) {
            let name = format!("{}|{word}", command.name);
            if fits(&name) {
                names.push(name);
            }
        }
    }
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name.as_bytes()));
    Ok(())
}

fn docs(args: Args<'_>, reply: &mut ReplyWriter<'_>) {
    let is_wanted =
        |command: &&CommandSpec| args.len() == 2 || args.from(2).iter().any(|name| is(name, command.name));
    let found: Vec<&CommandSpec> = table::all().filter(is_wanted).collect();
    reply.map(found.len());
    for command in found {
        let parts = subcommands::names(command.name);
        reply.bulk(command.name.as_bytes());
        reply.map(if parts.is_empty() { 2 } else { 3 });
        for (name, value) in [("summary", command.summary), ("group", command.group)] {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
        if parts.is_empty() {
            continue;
        }
        reply.bulk(b"subcommands");
        reply.map(parts.len());
        for (word, _) in parts {
            reply.bulk(format!("{}|{word}", command.name).as_bytes());
            reply.map(1);
            reply.bulk(b"group");
            reply.bulk(command.group.as_bytes());
        }
    }
}

/// The index of the key argument in subcommands with a key.
const KEY_OF_SUBCOMMAND: u32 = 2;

/// Returns the command at the beginning of the arguments, and its keys. Checks for errors in the
/// same order as Redis: unknown command, command that cannot have keys, wrong number of arguments,
/// invalid keys.
fn keys_of<'a>(args: Args<'a>) -> Result<(&'static CommandSpec, Vec<&'a [u8]>), CommandError> {
    const UNKNOWN: CommandError = CommandError::say("ERR Invalid command specified");
    let command = names::find(args.at(0)).ok_or(UNKNOWN)?;
    let (mut arity, mut has_keys) = (command.arity, command.may_have_keys());
    let parts = subcommands::names(command.name);
    if !parts.is_empty() && args.len() > 1 {
        let part = parts.iter().find(|(word, _)| args.is(1, word));
        let (_, least) = *part.ok_or(UNKNOWN)?;
        arity = least;
        has_keys &= least.unsigned_abs() > KEY_OF_SUBCOMMAND;
    }
    if !has_keys {
        return Err(CommandError::say("ERR The command has no key arguments"));
    }
    if !subcommands::fits(arity, args.len()) {
        return Err(CommandError::say(
            "ERR Invalid number of arguments specified for command",
        ));
    }
    let keys: Vec<&[u8]> = command.keys(args).collect();
    if keys.is_empty() {
        return Err(CommandError::say("ERR Invalid arguments specified for command"));
    }
    Ok((command, keys))
}

fn get_keys(args: Args<'_>, reply: &mut ReplyWriter<'_>) -> CommandResult {
    let (_, keys) = keys_of(args)?;
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

fn get_keys_and_flags(args: Args<'_>, reply: &mut ReplyWriter<'_>) -> CommandResult {
    let (command, keys) = keys_of(args)?;
    let flags: &[&str] = match command.name {
        "set" | "setex" | "psetex" | "mset" => &["OW", "update"],
        "del" | "unlink" => &["RM", "delete"],
        _ if command.writes() => &["RW", "access", "update"],
        _ => &["RO", "access"],
    };
    reply.array(keys.len());
    for key in keys {
        reply.array(2);
        reply.bulk(key);
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
    Ok(())
}

fn all(reply: &mut ReplyWriter<'_>) {
    reply.array(table::all().count());
    table::all().for_each(|command| describe(command, reply));
}

fn flags(command: &CommandSpec) -> Vec<&'static str> {
    let is_data = matches!(command.action, CommandHandler::Data(_));
    let mut flags = Vec::new();
    if command.group == "pubsub" {
        flags.push("pubsub");
    }
    match (is_data && command.group != "pubsub", command.writes()) {
        (true, true) => flags.push("write"),
        (true, false) => flags.push("readonly"),
        (false, _) if is_data => {}
        (false, _) => flags.push("noscript"),
    }
    if command.is_admin() {
        flags.push("admin");
    }
    if command.blocks() {
        flags.push("blocking");
    }
    if command.is_fast() {
        flags.push("fast");
    }
    if command.allowed_before_auth() {
        flags.push("no_auth");
    }
    if command.is_refused_in_multi() {
        flags.push("no_multi");
    }
    if command.has_movable_keys() {
        flags.push("movablekeys");
    }
    flags
}

pub(crate) fn describe(command: &CommandSpec, reply: &mut ReplyWriter<'_>) {
    begin(command, command.name, command.arity, reply);
    let parts = subcommands::names(command.name);
    reply.set(parts.len());
    for part in parts {
        describe_part(command, part, reply);
    }
}

fn describe_part(command: &CommandSpec, (word, arity): &SubcommandArity, reply: &mut ReplyWriter<'_>) {
    begin(command, &format!("{}|{word}", command.name), *arity, reply);
    reply.set(0);
}

/// Writes a command's description without its subcommands.
fn begin(command: &CommandSpec, name: &str, arity: i32, reply: &mut ReplyWriter<'_>) {
    let flags = flags(command);
    reply.array(10);
    reply.bulk(name.as_bytes());
    reply.integer(i64::from(arity));
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    let (first, last, step) = command.told_keys();
    for number in [first, last, step] {
        reply.integer(i64::from(number));
    }
    let classes = catalog::classes_of(name);
    reply.set(classes.len());
    classes
        .iter()
        .for_each(|class| reply.simple(&format!("@{class}")));
    // This server reports no hints and no key specifications.
    reply.set(0);
    reply.set(0);
}

/// Up to these limits, Redis uses compact encodings. They concern the number of elements and an
/// element's length in bytes.
const LISTPACK_ELEMENTS: u64 = 128;
const LISTPACK_BYTES: usize = 64;
const INTSET_ELEMENTS: u64 = 512;

pub(crate) fn object(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let verb = args.at(1).to_ascii_uppercase();
    match (&verb[..], args.len()) {
        (b"ENCODING", 3) => {
            let name = match transaction.entry(args.at(2))? {
                None => None,
                Some(TypedValue::Text(text)) => Some(match text.len() {
                    _ if number::integer(&text).is_some() => "int",
                    0..=44 => "embstr",
                    _ => "raw",
                }),
                Some(TypedValue::Collection(collection)) => Some(encoding(transaction, &collection)?),
            };
            reply.bulk_or_null(name.map(str::as_bytes));
        }
        (b"REFCOUNT" | b"IDLETIME", 3) => {
            let (key, now_ms) = (args.at(2), transaction.now_ms);
            let idle_s = transaction.store.uses.idle_s(transaction.database, key, now_ms);
            match transaction.entry(key)? {
                None => reply.null(),
                Some(_) if verb == b"REFCOUNT" => reply.integer(1),
                Some(_) => reply.integer(i64::from(idle_s)),
            }
        }
        (b"FREQ", 3) if transaction.entry(args.at(2))?.is_none() => reply.null(),
        (b"FREQ", 3) => {
            return Err(CommandError::say(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
                 switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        (b"HELP", 2) => {
            let lines = [
                "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "ENCODING <key> -- returns the encoding that Redis would use for the value.",
                "REFCOUNT <key> -- returns 1.",
                "IDLETIME <key> -- returns a lower bound of the seconds since the last use of the key.",
            ];
            reply.array(lines.len());
            lines.iter().for_each(|line| reply.simple(line));
        }
        _ => return Err(unknown_subcommand("object", args)),
    }
    Ok(())
}

/// Returns the name of the encoding that Redis would use for a collection. This server uses the
/// same encoding for all collections.
fn encoding(
    transaction: &CommandTransaction<'_>,
    collection: &CollectionHeader,
) -> Result<&'static str, CommandError> {
    let (small, large, most) = match collection.kind {
        CollectionKind::List => return Ok("quicklist"),
        CollectionKind::Set => ("intset", "hashtable", INTSET_ELEMENTS),
        CollectionKind::Hash => ("listpack", "hashtable", LISTPACK_ELEMENTS),
        CollectionKind::SortedSet => ("listpack", "skiplist", LISTPACK_ELEMENTS),
    };
    if collection.count > most {
        return Ok(large);
    }
    let start = format::elements(transaction.database, collection.number);
    let end = format::behind(&start);
    let mut scan = transaction.scan(start, end, WalkDirection::Forward);
    while let Some((key, value)) = scan.next()? {
        let is_small = match collection.kind {
            CollectionKind::Set => number::integer(format::member_of(&key).1).is_some(),
            CollectionKind::Hash => format::member_of(&key).1.len().max(value.len()) <= LISTPACK_BYTES,
            CollectionKind::SortedSet | CollectionKind::List => {
                format::sorted_member_of(&key).1.len() <= LISTPACK_BYTES
            }
        };
        if !is_small {
            return Ok(large);
        }
    }
    Ok(small)
}
