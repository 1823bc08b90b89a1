//! The subcommands of commands, and the errors for unknown subcommands and wrong numbers of
//! arguments.

use crate::error::CommandError;
use crate::protocol::resp::Args;
use std::borrow::Cow;

/// The names of a command's subcommands, with the arities from the command table.
pub(super) type SubcommandList = &'static [(&'static str, i32)];

#[rustfmt::skip]
static ACL: SubcommandList = &[
    ("cat", -2), ("deluser", -3), ("dryrun", -4), ("genpass", -2), ("getuser", 3), ("help", 2), ("list", 2), ("load", 2), ("log", -2),
    ("save", 2), ("setuser", -3), ("users", 2), ("whoami", 2),
];

#[rustfmt::skip]
static CLIENT: SubcommandList = &[
    ("caching", 3), ("getname", 2), ("getredir", 2), ("help", 2), ("id", 2), ("info", 2), ("kill", -3), ("list", -2), ("no-evict", 3),
    ("no-touch", 3), ("pause", -3), ("reply", 3), ("setinfo", 4), ("setname", 3), ("tracking", -3), ("trackinginfo", 2), ("unblock", -3),
    ("unpause", 2),
];

static COMMAND: SubcommandList = &[
    ("count", 2),
    ("docs", -2),
    ("getkeys", -4),
    ("getkeysandflags", -4),
    ("help", 2),
    ("info", -2),
    ("list", -2),
];

static CONFIG: SubcommandList = &[
    ("get", -3),
    ("help", 2),
    ("resetstat", 2),
    ("rewrite", 2),
    ("set", -4),
];

static OBJECT: SubcommandList = &[
    ("encoding", 3),
    ("freq", 3),
    ("help", 2),
    ("idletime", 3),
    ("refcount", 3),
];

static SLOWLOG: SubcommandList = &[("get", -2), ("help", 2), ("len", 2), ("reset", 2)];

static LATENCY: SubcommandList = &[
    ("doctor", 2),
    ("graph", 3),
    ("help", 2),
    ("histogram", -2),
    ("history", 3),
    ("latest", 2),
    ("reset", -2),
];

static MEMORY: SubcommandList = &[
    ("doctor", 2),
    ("help", 2),
    ("malloc-stats", 2),
    ("purge", 2),
    ("stats", 2),
    ("usage", -3),
];

static MODULE: SubcommandList = &[
    ("help", 2),
    ("list", 2),
    ("load", -3),
    ("loadex", -3),
    ("unload", 3),
];

static PUBSUB: SubcommandList = &[
    ("channels", -2),
    ("help", 2),
    ("numpat", 2),
    ("numsub", -2),
    ("shardchannels", -2),
    ("shardnumsub", -2),
];

static FUNCTION: SubcommandList = &[
    ("delete", 3),
    ("dump", 2),
    ("flush", -2),
    ("help", 2),
    ("kill", 2),
    ("list", -2),
    ("load", -3),
    ("restore", -3),
    ("stats", 2),
];

static SCRIPT: SubcommandList = &[
    ("debug", 3),
    ("exists", -3),
    ("flush", -2),
    ("help", 2),
    ("kill", 2),
    ("load", 3),
];

static SNAPSHOT: SubcommandList = &[("create", 3), ("drop", 3), ("get", 4), ("list", 2)];

/// Returns whether a command with an arity accepts `count` arguments. The absolute value of a
/// negative arity is a minimum.
pub(super) fn fits(arity: i32, count: usize) -> bool {
    let least = arity.unsigned_abs() as usize;
    if arity < 0 { count >= least } else { count == least }
}

pub(super) fn of(command: &str) -> Option<SubcommandList> {
    Some(match command {
        "acl" => ACL,
        "client" => CLIENT,
        "command" => COMMAND,
        "config" => CONFIG,
        "function" => FUNCTION,
        "latency" => LATENCY,
        "memory" => MEMORY,
        "module" => MODULE,
        "object" => OBJECT,
        "pubsub" => PUBSUB,
        "script" => SCRIPT,
        "slowlog" => SLOWLOG,
        "snapshot" => SNAPSHOT,
        _ => return None,
    })
}

/// Returns the subcommands of a command, or an empty list if it has none.
pub(super) fn names(command: &str) -> SubcommandList {
    of(command).unwrap_or_default()
}

/// Returns a subcommand's position in the command's list.
pub(super) fn position(command: &str, word: &[u8]) -> Option<u16> {
    let mut names = names(command).iter();
    let position = names.position(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
    position.map(|position| position as u16)
}

/// If the command has subcommands, checks the subcommand and its number of arguments. Errors are
/// worded as in Redis.
pub(super) fn check(command: &str, args: Args<'_>) -> Result<(), String> {
    let (Some(subcommands), Some(word)) = (of(command), args.get(1)) else {
        return Ok(());
    };
    let found = subcommands
        .iter()
        .find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
    match found {
        None => Err(format!(
            "ERR unknown subcommand '{}'. Try {} HELP.",
            String::from_utf8_lossy(&word[..word.len().min(128)]),
            command.to_ascii_uppercase()
        )),
        Some((name, arity)) if !fits(*arity, args.len()) => Err(format!(
            "ERR wrong number of arguments for '{command}|{name}' command"
        )),
        Some(_) => Ok(()),
    }
}

/// Returns the error for an unknown subcommand or a wrong number of arguments, worded as in Redis.
pub(super) fn unknown_subcommand(command: &str, args: Args<'_>) -> CommandError {
    CommandError::Refused(Cow::Owned(format!(
        "ERR unknown subcommand or wrong number of arguments for '{}'. Try {} HELP.",
        String::from_utf8_lossy(args.at(1)),
        command.to_ascii_uppercase(),
    )))
}
