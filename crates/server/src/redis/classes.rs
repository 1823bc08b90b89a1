//! Classes of commands, which let one rule permit many commands. They are Redis's ACL categories
//! and contain the same commands.

use super::table::{CommandHandler, CommandSpec};

/// All class names in the order of Redis. A command may belong to several classes, and some classes
/// contain no commands of this server.
pub(crate) const NAMES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandClasses(u32);

impl CommandClasses {
    /// Returns the class with this name, ignoring case, or `None` if there is none.
    pub(crate) fn named(name: &[u8]) -> Option<CommandClasses> {
        let found = NAMES
            .iter()
            .position(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        found.map(|index| CommandClasses(1 << index))
    }

    /// Returns the union of the classes with these names, all of which must be valid.
    pub(super) fn of(names: &[&str]) -> CommandClasses {
        names.iter().fold(CommandClasses::default(), |all, name| {
            let one = CommandClasses::named(name.as_bytes());
            CommandClasses(all.0 | one.expect("only names of classes are used here").0)
        })
    }

    /// Returns whether two sets of classes overlap.
    pub(crate) fn has(self, other: CommandClasses) -> bool {
        self.0 & other.0 != 0
    }
}

/// Returns the classes that all commands of a group in the command table share.
fn of_group(group: &str) -> &'static [&'static str] {
    match group {
        "string" => &["string"],
        "generic" | "ordered" => &["keyspace"],
        "hash" => &["hash"],
        "set" => &["set"],
        "list" => &["list"],
        "sorted-set" => &["sortedset"],
        "connection" => &["connection"],
        "transactions" => &["transaction"],
        "bitmap" => &["bitmap"],
        "hyperloglog" => &["hyperloglog"],
        "geo" => &["geo"],
        "stream" => &["stream"],
        "pubsub" => &["pubsub"],
        "scripting" => &["scripting"],
        _ => &[],
    }
}

/// Returns a command's classes beyond those implied by its group and flags.
fn besides(name: &str) -> &'static [&'static str] {
    match name {
        "lolwut" => &["read"],
        "wait" | "waitaof" => &["connection"],
        "asking" | "readonly" | "readwrite" => &["connection"],
        "keys" | "info" => &["dangerous"],
        "sort" | "sort_ro" => &["set", "sortedset", "list", "dangerous"],
        "blmove" | "blmpop" | "blpop" | "brpop" | "brpoplpush" | "bzmpop" | "bzpopmax" | "bzpopmin" => {
            &["blocking"]
        }
        "delrange" => &["dangerous"],
        "dbsize" => &["keyspace"],
        "flushall" | "flushdb" | "swapdb" => &["keyspace", "dangerous"],
        "command" => &["connection"],
        "bgrewriteaof" | "bgsave" | "debug" | "failover" | "lastsave" | "monitor" | "replicaof" | "role"
        | "save" | "shutdown" | "slaveof" => &["admin", "dangerous"],
        _ => &[],
    }
}

/// Returns a command's classes. As in Redis, a command with subcommands is classified only as slow,
/// and the other classes apply to its subcommands.
pub(super) fn of_command(command: &CommandSpec, has_subcommands: bool) -> CommandClasses {
    let pace = if command.is_fast() { "fast" } else { "slow" };
    let mut names = vec![pace];
    if !has_subcommands || command.name == "command" {
        if let CommandHandler::Data(_) = command.action
            && command.group != "pubsub"
        {
            names.push(if command.writes() { "write" } else { "read" });
        }
        if !matches!(command.name, "wait" | "waitaof" | "sort" | "sort_ro") {
            names.extend(of_group(command.group));
        }
        names.extend(besides(command.name));
    }
    CommandClasses::of(&names)
}

/// Returns a subcommand's classes.
pub(super) fn of_subcommand(command: &CommandSpec, subcommand: &str) -> CommandClasses {
    let mut names = vec!["slow"];
    names.extend(match (command.name, subcommand) {
        ("client", "kill" | "list" | "no-evict" | "pause" | "unblock" | "unpause") => {
            &["connection", "admin", "dangerous"][..]
        }
        ("client" | "command", _) => &["connection"],
        ("function", "delete" | "flush" | "load" | "restore") => &["write", "scripting"],
        ("script" | "function", _) => &["scripting"],
        ("acl", "cat" | "genpass" | "help" | "whoami") => &[],
        (_, "help") if command.group != "generic" => &[],
        ("acl" | "config" | "slowlog" | "latency" | "module", _) => &["admin", "dangerous"],
        ("pubsub", _) => &["pubsub"],
        ("memory", "usage") => &["read"],
        ("memory", _) => &[],
        ("object", "help") => &["keyspace"],
        ("snapshot", "create" | "drop") => &["keyspace", "write", "dangerous"],
        _ => &["keyspace", "read"],
    });
    CommandClasses::of(&names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_classes_are_found_in_any_spelling() {
        assert_eq!(CommandClasses::named(b"READ"), Some(CommandClasses(2)));
        assert_eq!(CommandClasses::named(b"nosuch"), None);
        assert!(CommandClasses::of(&["read", "slow"]).has(CommandClasses::of(&["slow", "hash"])));
        assert!(!CommandClasses::of(&["read"]).has(CommandClasses::of(&["write"])));
    }
}
