//! The permission catalogue. It lists how every command and subcommand accesses keys, and which
//! operations clients can execute on other protocols' ports.

use super::classes::{self, CommandClasses};
use super::commands::{bitfield, sort};
use super::subcommands;
use super::table::{self, CommandSpec};
use crate::protocol::resp::Args;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

/// The index of a catalogue entry.
pub(crate) type CatalogId = usize;

/// An operation that can be permitted or denied: a command, a subcommand, or an operation on
/// another protocol's port.
#[derive(Debug)]
pub(crate) struct CatalogEntry {
    /// The name of the command, or `command|subcommand`.
    pub(crate) name: Cow<'static, str>,
    pub(crate) classes: CommandClasses,
    /// The indexes of the command's subcommands, which directly follow it in the catalogue.
    pub(crate) subcommands: Range<CatalogId>,
    /// Whether the entry is a subcommand.
    pub(crate) is_subcommand: bool,
}

#[derive(Debug)]
pub(crate) struct PermissionCatalog {
    pub(crate) entries: Vec<CatalogEntry>,
    by_name: HashMap<Cow<'static, str>, CatalogId>,
}

pub(crate) static CATALOG: LazyLock<PermissionCatalog> = LazyLock::new(PermissionCatalog::new);

/// The name of an operation on another protocol's port, and its classes.
type PortOperation = (&'static str, &'static [&'static str]);

/// For each protocol other than Redis, the operations on its port with their classes.
#[rustfmt::skip]
static ELSEWHERE: [(&str, &[PortOperation]); 2] = [
    ("memcached", &[
        ("get", &["read", "fast"]),
        ("set", &["write", "fast"]),
        ("flush", &["write", "dangerous", "slow"]),
        ("stats", &["dangerous", "slow"]),
    ]),
    ("page", &[
        ("stats", &["dangerous", "slow"]),
        ("keys", &["keyspace", "read", "dangerous", "slow"]),
    ]),
];

impl PermissionCatalog {
    fn new() -> PermissionCatalog {
        let mut catalog = PermissionCatalog {
            entries: Vec::new(),
            by_name: HashMap::new(),
        };
        for command in table::all() {
            let parts = subcommands::of(command.name).unwrap_or_default();
            let own = classes::of_command(command, !parts.is_empty());
            let parts = parts
                .iter()
                .map(|(name, _)| (*name, classes::of_subcommand(command, name)));
            catalog.add(command.name, own, parts.collect());
        }
        for (name, parts) in ELSEWHERE {
            let parts = parts
                .iter()
                .map(|(part, names)| (*part, CommandClasses::of(names)));
            catalog.add(name, CommandClasses::of(&["slow"]), parts.collect());
        }
        catalog
    }

    fn add(
        &mut self,
        name: &'static str,
        classes: CommandClasses,
        parts: Vec<(&'static str, CommandClasses)>,
    ) {
        let first = self.entries.len() + 1;
        let own = (Cow::Borrowed(name), classes, first..first + parts.len(), false);
        let parts = parts
            .into_iter()
            .map(|(part, classes)| (Cow::Owned(format!("{name}|{part}")), classes, 0..0, true));
        for (name, classes, subcommands, is_subcommand) in std::iter::once(own).chain(parts) {
            self.by_name.insert(name.clone(), self.entries.len());
            self.entries.push(CatalogEntry {
                name,
                classes,
                subcommands,
                is_subcommand,
            });
        }
    }

    /// Returns the index of a command, or of a subcommand given as `command|subcommand`. Ignores
    /// case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<CatalogId> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.by_name.get(&*name).copied()
    }
}

/// Returns the names of the classes of a command, or of a subcommand given as `command|subcommand`.
pub(super) fn classes_of(name: &str) -> Vec<&'static str> {
    let own = CATALOG.by_name.get(name);
    let own = own.map_or_else(CommandClasses::default, |&id| CATALOG.entries[id].classes);
    let is_own = |name: &&&str| own.has(CommandClasses::of(&[**name]));
    classes::NAMES.iter().filter(is_own).copied().collect()
}

/// Returns whether a command is administrative. If the command has subcommands, this depends on the
/// subcommand.
pub(super) fn is_administrative(command: &CommandSpec, args: Args<'_>) -> bool {
    let asked = AccessRequest::of(command, args);
    match CATALOG.entries[asked.id].is_subcommand {
        true => CATALOG.entries[asked.id]
            .classes
            .has(CommandClasses::of(&["admin"])),
        false => command.is_admin(),
    }
}

/// How a command uses a key, as far as permissions are concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyAccess {
    /// The command discloses the value of the key.
    pub(crate) reads: bool,
    /// The command changes the value of the key.
    pub(crate) writes: bool,
}

impl KeyAccess {
    /// The command discloses at most whether the key exists or how long its value is.
    pub(crate) const ANY: KeyAccess = KeyAccess::new(false, false);
    pub(crate) const READ: KeyAccess = KeyAccess::new(true, false);
    pub(crate) const WRITE: KeyAccess = KeyAccess::new(false, true);
    pub(crate) const BOTH: KeyAccess = KeyAccess::new(true, true);

    const fn new(reads: bool, writes: bool) -> KeyAccess {
        KeyAccess { reads, writes }
    }
}

/// Returns how a command accesses its first key and how it accesses its other keys, following the
/// definitions of Redis.
fn needs(command: &CommandSpec, args: Args<'_>) -> (KeyAccess, KeyAccess) {
    let both = |need| (need, need);
    match command.name {
        "copy" => (KeyAccess::READ, KeyAccess::WRITE),
        "rename" | "renamenx" | "smove" | "blmove" | "brpoplpush" | "lmove" | "rpoplpush" => {
            (KeyAccess::BOTH, KeyAccess::WRITE)
        }
        "sort" | "sort_ro" => (KeyAccess::READ, KeyAccess::WRITE),
        "bitfield" if bitfield::only_reads(args) => both(KeyAccess::READ),
        "bitop" | "sdiffstore" | "sinterstore" | "sunionstore" | "zrangestore" | "zdiffstore"
        | "zinterstore" | "zunionstore" => (KeyAccess::WRITE, KeyAccess::READ),
        "set" if args.from(3).iter().any(|word| word.eq_ignore_ascii_case(b"GET")) => both(KeyAccess::BOTH),
        "append" | "del" | "expire" | "expireat" | "hdel" | "hmset" | "hset" | "hsetnx" | "linsert"
        | "lpush" | "lpushx" | "lrem" | "lset" | "ltrim" | "mset" | "msetnx" | "persist" | "pexpire"
        | "pexpireat" | "psetex" | "rpush" | "rpushx" | "sadd" | "set" | "setex" | "setnx" | "setrange"
        | "srem" | "unlink" | "zadd" | "zrem" | "zremrangebylex" | "zremrangebyrank" | "zremrangebyscore" => {
            both(KeyAccess::WRITE)
        }
        "exists" | "hexists" | "hlen" | "hstrlen" | "llen" | "memory" | "object" | "scard" | "sismember"
        | "strlen" | "touch" | "type" | "watch" | "zcard" => both(KeyAccess::ANY),
        _ if command.writes() => both(KeyAccess::BOTH),
        _ => both(KeyAccess::READ),
    }
}

/// Returns how a command accesses keys that are not among its arguments, or `None` if it accesses
/// none.
fn need_of_all(command: &CommandSpec, args: Args<'_>) -> Option<KeyAccess> {
    match command.name {
        "range" | "revrange" => Some(KeyAccess::READ),
        "delrange" => Some(KeyAccess::WRITE),
        "sort" | "sort_ro" if sort::reads_other_keys(args) => Some(KeyAccess::READ),
        _ => None,
    }
}

/// A request, reduced to the properties that determine its permission.
#[derive(Debug)]
pub(crate) struct AccessRequest<'a> {
    pub(crate) id: CatalogId,
    /// Whether every client may execute the request, even without authentication.
    pub(crate) is_free: bool,
    /// The first argument after the command name.
    pub(crate) first_arg: Option<&'a [u8]>,
    pub(crate) keys: SmallVec<[(&'a [u8], KeyAccess); 4]>,
    /// The access to keys that the request does not name, if any.
    pub(crate) of_all: Option<KeyAccess>,
    /// The channels that the request names.
    pub(crate) channels: ChannelNames<'a>,
}

/// The channels or patterns that a request names.
#[derive(Debug, Default)]
pub(crate) enum ChannelNames<'a> {
    #[default]
    None,
    Channels(SmallVec<[&'a [u8]; 1]>),
    Patterns(SmallVec<[&'a [u8]; 1]>),
}

impl<'a> ChannelNames<'a> {
    fn of(command: &CommandSpec, args: Args<'a>) -> ChannelNames<'a> {
        match command.name {
            "publish" | "spublish" => ChannelNames::Channels(args.get(1).into_iter().collect()),
            "subscribe" | "ssubscribe" => ChannelNames::Channels(args.from(1).iter().collect()),
            "psubscribe" => ChannelNames::Patterns(args.from(1).iter().collect()),
            _ => ChannelNames::None,
        }
    }
}

impl<'a> AccessRequest<'a> {
    /// Creates the access request of a Redis command with its arguments.
    pub(super) fn of(command: &CommandSpec, args: Args<'a>) -> AccessRequest<'a> {
        let own = CATALOG.by_name.get(command.name);
        let own = *own.expect("the catalog has every command of the table");
        let part = args.get(1).and_then(|word| {
            let mut parts = CATALOG.entries[own].subcommands.clone();
            parts.find(|&part| {
                let name = &CATALOG.entries[part].name[command.name.len() + 1..];
                word.eq_ignore_ascii_case(name.as_bytes())
            })
        });
        let (first, others) = needs(command, args);
        let with_need = |(index, key)| (key, if index == 0 { first } else { others });
        AccessRequest {
            id: part.unwrap_or(own),
            is_free: command.allowed_before_auth(),
            first_arg: args.get(1),
            keys: command.keys(args).enumerate().map(with_need).collect(),
            of_all: need_of_all(command, args),
            channels: ChannelNames::of(command, args),
        }
    }

    /// Creates the access request for an operation on another protocol's port.
    pub(crate) fn elsewhere(name: &str, keys: SmallVec<[(&'a [u8], KeyAccess); 4]>) -> AccessRequest<'a> {
        let id = CATALOG.by_name.get(name);
        AccessRequest {
            id: *id.expect("the catalog has what other ports do"),
            is_free: false,
            first_arg: None,
            keys,
            of_all: None,
            channels: ChannelNames::None,
        }
    }

    /// Returns the name of the command or operation.
    pub(crate) fn name(&self) -> &'static str {
        &CATALOG.entries[self.id].name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_subcommands_are_found_in_any_spelling() {
        let name = |text: &str| CATALOG.find(text.as_bytes()).map(|id| &*CATALOG.entries[id].name);
        assert_eq!(name("GET"), Some("get"));
        assert_eq!(name("Client|Kill"), Some("client|kill"));
        assert_eq!(name("memcached|get"), Some("memcached|get"));
        assert_eq!(name("client|nosuch"), None);
        assert_eq!(CATALOG.by_name.len(), CATALOG.entries.len());
        for entry in &CATALOG.entries {
            for part in entry.subcommands.clone() {
                let part = &CATALOG.entries[part];
                assert!(part.is_subcommand && part.name.starts_with(&*entry.name));
            }
        }
    }
}
