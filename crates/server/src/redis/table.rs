//! The table of all commands: their arguments, keys, flags and handlers. The COMMAND command
//! reports from the same table that validates requests.

use super::commands::{
    acl, admin, bitfield, bits, blocking, clients, connection, describe, expiry, hashes, info, interactive,
    key_count_arguments, keys, latency, lists, memory, monitor_commands, ordered, pubsub, saving,
    scan_commands, sets, single, small, sort, sorted, strings, transactions,
};
use super::session::RedisSession;
use crate::error::CommandError;
use crate::protocol::resp::{Args, ReplyWriter, number};
use crate::redis::{events, scripting, subcommands};
use crate::store::{CommandTransaction, KeyEvent, Mode};
use std::sync::LazyLock;

pub(super) type DataHandler =
    fn(&mut CommandTransaction<'_>, Args<'_>, &mut ReplyWriter<'_>) -> Result<(), CommandError>;
pub(super) type SessionHandler =
    fn(&mut RedisSession, Args<'_>, &mut ReplyWriter<'_>) -> Result<(), CommandError>;

pub(super) type ScriptHandler = fn(
    &mut RedisSession,
    &mut CommandTransaction<'_>,
    Args<'_>,
    &mut ReplyWriter<'_>,
) -> Result<(), CommandError>;

/// A command's handler function.
#[derive(Clone, Copy)]
pub(super) enum CommandHandler {
    /// Executes a command on keys and values within its batch's transaction.
    Data(DataHandler),
    /// Executes a command on the connection or the server.
    Session(SessionHandler),
    /// Executes a script, whose commands are of both kinds, within a transaction.
    Script(ScriptHandler),
}

/// The command writes. It locks its keys exclusively.
const WRITE: u32 = 1;
/// The command reads several items that must be mutually consistent, such as a record and elements.
/// It locks its keys against writers.
const LOCKED: u32 = 2;
/// The command usually does not read the records of its keys.
const BLIND: u32 = 4;
/// The command never shares a batch with other commands.
const ALONE: u32 = 8;
/// The command locks all keys of all databases.
const ALL: u32 = 16;
/// The command is allowed before the client has authenticated.
const STRANGER: u32 = 32;
/// Between MULTI and EXEC, the command is executed immediately instead of being queued.
const IN_MULTI: u32 = 64;
/// The command's execution time depends little on the size of the values.
const FAST: u32 = 128;
/// With arguments besides its keys, the command may access another database. It then locks all
/// keys.
const ELSEWHERE: u32 = 256;
/// The command is rejected between MULTI and EXEC.
const NOT_IN_MULTI: u32 = 512;
/// The command is administrative. MONITOR does not show it.
const ADMIN: u32 = 1024;
/// MONITOR and SLOWLOG show the commands that this command executes instead of the command itself.
const UNSEEN: u32 = 2048;
/// The command's options may name a destination key and patterns of keys to read. With a pattern,
/// the command locks all keys.
const SORTS: u32 = 4096;
/// The command only inspects its keys, which does not count as using them.
const LOOKS: u32 = 8192;
/// The command changes databases other than the selected one.
const ACROSS: u32 = 16384;
/// The command accesses the record of its only key as a collection, does not change the key's
/// expiry time, and does not iterate over records.
const KEEPS: u32 = 32768;

/// The command may wait until another client changes one of its keys.
const BLOCKS: u32 = 1 << 16;

#[derive(Clone, Copy)]
pub(super) struct CommandSpec {
    pub(super) name: &'static str,
    /// Number of arguments, including the command name. The absolute value of a negative arity is a
    /// minimum.
    pub(super) arity: i32,
    flags: u32,
    /// The positions of the keys among the arguments: index of the first key, index of the last key
    /// (counted from the end if negative), and distance between keys. All three are 0 if there are
    /// no keys. If only the distance is 0, the second number is the index of the argument that
    /// states the number of keys, which follow it; the first number is then the index of a separate
    /// key, or 0 if there is none.
    pub(super) keys: (i32, i32, i32),
    pub(super) group: &'static str,
    pub(super) summary: &'static str,
    pub(super) action: CommandHandler,
    /// The event that changes by the command are reported as.
    pub(super) event: KeyEvent,
    /// The command's index in the statistics.
    index: u16,
    /// Index of the command's first subcommand in the statistics, or 0 if it has no subcommands.
    subcommands_at: u16,
}

impl CommandSpec {
    /// Returns the statistics index for a call: that of the subcommand if there is one, otherwise
    /// that of the command.
    #[inline]
    pub(super) fn counted_as(&self, args: Args<'_>) -> u16 {
        if self.subcommands_at == 0 {
            return self.index;
        }
        let position = args
            .get(1)
            .and_then(|word| subcommands::position(self.name, word));
        position.map_or(self.index, |position| self.subcommands_at + position)
    }

    /// Checks the subcommand among the arguments, if the command has subcommands.
    #[inline]
    pub(super) fn check_subcommand(&self, args: Args<'_>) -> Result<(), String> {
        match self.subcommands_at {
            0 => Ok(()),
            _ => subcommands::check(self.name, args),
        }
    }

    pub(super) fn is_refused_in_multi(&self) -> bool {
        self.has(NOT_IN_MULTI)
    }

    pub(super) fn is_admin(&self) -> bool {
        self.has(ADMIN)
    }

    /// Returns whether the command counts as a use of its keys.
    pub(super) fn uses_keys(&self) -> bool {
        !self.has(LOOKS)
    }

    pub(super) fn is_seen(&self) -> bool {
        !self.has(UNSEEN)
    }

    /// Returns whether CLIENT PAUSE WRITE suspends the command.
    pub(super) fn waits_for_writers(&self) -> bool {
        self.has(WRITE) || matches!(self.name, "exec" | "commit")
    }

    pub(super) fn takes(&self, count: usize) -> bool {
        subcommands::fits(self.arity, count)
    }

    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Returns whether the record of the command's key may stay decoded for the next command.
    pub(super) fn keeps_record(&self) -> bool {
        self.has(KEEPS)
    }

    pub(super) fn writes(&self) -> bool {
        self.has(WRITE)
    }

    /// Returns whether a client with subscriptions may send the command in the second version of
    /// the protocol.
    pub(super) fn is_for_subscribers(&self) -> bool {
        matches!(self.name, "ping" | "quit" | "reset")
            || self.name.ends_with("subscribe") && self.group == "pubsub"
    }

    /// Returns whether the command may wait until another client changes one of its keys.
    pub(super) fn blocks(&self) -> bool {
        self.has(BLOCKS)
    }

    pub(super) fn is_fast(&self) -> bool {
        self.has(FAST)
    }

    pub(super) fn allowed_before_auth(&self) -> bool {
        self.has(STRANGER)
    }

    pub(super) fn runs_in_multi(&self) -> bool {
        self.has(IN_MULTI)
    }

    pub(super) fn joins_batches(&self) -> bool {
        !self.has(ALONE)
    }

    pub(super) fn locks_all(&self, args: Args<'_>) -> bool {
        self.has(ALL)
            || (self.has(SORTS) && sort::reads_other_keys(args))
            || (self.has(ELSEWHERE) && args.len() > 1 + self.keys.1.unsigned_abs() as usize)
    }

    /// Returns whether the command changes a database other than `here`.
    pub(super) fn reaches_beyond(&self, args: Args<'_>, here: u8) -> bool {
        self.has(ACROSS) || (self.has(ELSEWHERE) && keys::copies_beyond(args, here))
    }

    /// Returns the mode in which the command locks its keys, or `None` if it locks none.
    pub(super) fn mode(&self) -> Option<Mode> {
        match (self.has(WRITE), self.has(LOCKED)) {
            (true, _) => Some(Mode::Exclusive),
            (false, true) => Some(Mode::Shared),
            (false, false) => None,
        }
    }

    /// Returns whether the command writes its keys without reading them. The caller must also check
    /// that none of the keys can have a collection.
    pub(super) fn is_blind(&self, args: Args<'_>) -> bool {
        self.has(BLIND) && (self.name != "set" || args.len() == 3)
    }

    pub(super) fn reads_records(&self) -> bool {
        !self.has(BLIND | ALONE)
    }

    /// Returns the number of records to prefetch for the command.
    pub(super) fn records(&self, args: Args<'_>) -> usize {
        match args.len() {
            _ if !self.reads_records() => 0,
            ..=2 => 1,
            _ => self.keys(args).count(),
        }
    }

    /// Returns an iterator over the keys among the arguments.
    pub(super) fn keys<'a>(&self, args: Args<'a>) -> CommandKeys<'a> {
        let (first, last, step) = self.keys;
        let (alone, first, count, step) = match self.keys {
            (_, 1.., 0) => {
                // An argument states the number of keys. If that number is invalid, return no keys
                // and let the command itself report the error.
                let said = number::integer(args.at(last as usize)).unwrap_or(0);
                let most = args.len() as i64 - i64::from(last) - 1;
                let count = if (0..=most).contains(&said) {
                    said as i32
                } else {
                    0
                };
                ((first > 0 && count > 0).then_some(first), last + 1, count, 1)
            }
            _ => {
                let last = if last < 0 { args.len() as i32 + last } else { last };
                let is_any = first > 0 && last >= first;
                let count = if is_any { (last - first) / step + 1 } else { 0 };
                (None, first, count, step)
            }
        };
        CommandKeys {
            args,
            alone: alone.map_or(0, |alone| alone as usize),
            next: first as usize,
            left: count as usize,
            step: step as usize,
            stored: self.has(SORTS).then(|| sort::stored_key(args)).flatten(),
        }
    }

    /// Calls `look` with every key among the arguments.
    #[inline]
    pub(super) fn each_key<'a>(&self, args: Args<'a>, mut look: impl FnMut(&'a [u8])) {
        // Most commands have a single key, right after the name.
        if self.keys == ONE && !self.has(SORTS) {
            args.get(1).into_iter().for_each(look);
        } else {
            self.keys(args).for_each(&mut look);
        }
    }

    /// Returns whether the command can have keys among its arguments.
    pub(super) fn may_have_keys(&self) -> bool {
        self.keys != NONE
    }

    /// Returns whether the keys' positions depend on the values of the arguments.
    pub(super) fn has_movable_keys(&self) -> bool {
        matches!(self.keys, (_, 1.., 0)) || self.has(SORTS)
    }

    /// Returns the first key's index, the last key's index and the distance between keys, as
    /// COMMAND INFO reports them. All are 0 if an argument states the number of keys and no key
    /// precedes it.
    pub(super) fn told_keys(&self) -> (i32, i32, i32) {
        match self.keys {
            (0, _, 0) => (0, 0, 0),
            (first, _, 0) => (first, first, 1),
            keys => keys,
        }
    }
}

/// An iterator over the keys among a command's arguments.
pub(super) struct CommandKeys<'a> {
    args: Args<'a>,
    /// Index of a separate key to return before the others, or 0 if there is none.
    alone: usize,
    /// Index of the next key, number of remaining keys, and distance between keys.
    next: usize,
    left: usize,
    step: usize,
    /// The destination key named by an option, if any. Returned last.
    stored: Option<&'a [u8]>,
}

impl<'a> Iterator for CommandKeys<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.alone > 0 {
            return self.args.get(std::mem::take(&mut self.alone));
        }
        if self.left > 0 {
            let key = self.args.get(self.next);
            self.next += self.step;
            self.left -= 1;
            if key.is_some() {
                return key;
            }
            // The arguments end before the last expected key.
            self.left = 0;
        }
        self.stored.take()
    }
}

const NONE: (i32, i32, i32) = (0, 0, 0);
const ONE: (i32, i32, i32) = (1, 1, 1);
const TWO: (i32, i32, i32) = (1, 2, 1);
const ALL_KEYS: (i32, i32, i32) = (1, -1, 1);
const PAIRS: (i32, i32, i32) = (1, -1, 2);

/// Returns the key positions of a command whose argument at index `at` states the number of keys.
const fn numbered(at: i32) -> (i32, i32, i32) {
    (0, at, 0)
}

/// Returns the key positions of a command whose first argument is a destination key and whose
/// argument at index `at` states the number of the other keys.
const fn stored(at: i32) -> (i32, i32, i32) {
    (1, at, 0)
}

const fn data(
    group: &'static str,
    name: &'static str,
    arity: i32,
    flags: u32,
    keys: (i32, i32, i32),
    run: DataHandler,
    summary: &'static str,
) -> CommandSpec {
    let action = CommandHandler::Data(run);
    CommandSpec {
        name,
        arity,
        flags,
        keys,
        group,
        summary,
        action,
        event: KeyEvent::INTERNAL,
        index: 0,
        subcommands_at: 0,
    }
}

const fn session(
    group: &'static str,
    name: &'static str,
    arity: i32,
    flags: u32,
    run: SessionHandler,
    summary: &'static str,
) -> CommandSpec {
    let action = CommandHandler::Session(run);
    CommandSpec {
        name,
        arity,
        flags: flags | ALONE,
        keys: NONE,
        group,
        summary,
        action,
        event: KeyEvent::INTERNAL,
        index: 0,
        subcommands_at: 0,
    }
}

/// Returns a command that runs a script.
const fn script(name: &'static str, flags: u32, summary: &'static str) -> CommandSpec {
    CommandSpec {
        keys: numbered(2),
        action: CommandHandler::Script(scripting::eval),
        ..session("scripting", name, -3, flags, single::fcall, summary)
    }
}

/// Adds key positions to a command on the connection or the server.
const fn with_keys(keys: (i32, i32, i32), command: &CommandSpec) -> CommandSpec {
    CommandSpec { keys, ..*command }
}

#[rustfmt::skip]
static STRINGS: &[CommandSpec] = &[
    data("string", "append", 3, WRITE | FAST, ONE, |t, a, r| strings::append(t, a, r), "Appends to a string; creates the string if the key does not exist."),
    data("bitmap", "bitcount", -2, 0, ONE, bits::bit_count, "Returns the number of set bits in a string."),
    data("bitmap", "bitfield", -2, WRITE, ONE, bitfield::bit_field, "Reads and changes integers within a string."),
    data("bitmap", "bitfield_ro", -2, FAST, ONE, bitfield::bit_field_ro, "Reads integers within a string."),
    data("bitmap", "bitop", -4, WRITE, (2, -1, 1), bits::bit_op, "Combines the bits of strings by AND, OR, XOR or NOT, and stores the result."),
    data("bitmap", "bitpos", -3, 0, ONE, bits::bit_pos, "Returns the position of the first bit that is set, or not set."),
    data("string", "decr", 2, WRITE | FAST, ONE, |t, a, r| strings::decr(t, a, r), "Subtracts one from an integer."),
    data("string", "decrby", 3, WRITE | FAST, ONE, |t, a, r| strings::decr_by(t, a, r), "Subtracts from an integer."),
    data("string", "get", 2, FAST, ONE, |t, a, r| strings::get(t, a, r), "Returns a string."),
    data("bitmap", "getbit", 3, FAST, ONE, bits::get_bit, "Returns a bit of a string."),
    data("string", "getdel", 2, WRITE | FAST, ONE, |t, a, r| strings::get_del(t, a, r), "Returns a string and deletes it."),
    data("string", "getex", -2, WRITE | FAST, ONE, |t, a, r| strings::get_ex(t, a, r), "Returns a string and sets its expiry."),
    data("string", "getrange", 4, 0, ONE, |t, a, r| strings::get_range(t, a, r), "Returns a part of a string."),
    data("string", "getset", 3, WRITE | FAST, ONE, |t, a, r| strings::get_set(t, a, r), "Returns a string and replaces it."),
    data("string", "incr", 2, WRITE | FAST, ONE, |t, a, r| strings::incr(t, a, r), "Adds one to an integer."),
    data("string", "incrby", 3, WRITE | FAST, ONE, |t, a, r| strings::incr_by(t, a, r), "Adds to an integer."),
    data("string", "incrbyfloat", 3, WRITE | FAST, ONE, |t, a, r| strings::incr_by_float(t, a, r), "Adds to a decimal number."),
    data("string", "lcs", -3, 0, TWO, bits::lcs, "Returns the longest common subsequence of two strings."),
    data("string", "mget", -2, FAST, ALL_KEYS, |t, a, r| strings::mget(t, a, r), "Returns several strings."),
    data("string", "mset", -3, WRITE | BLIND, PAIRS, |t, a, r| strings::mset(t, a, r), "Sets several strings, all or none."),
    data("string", "msetnx", -3, WRITE, PAIRS, |t, a, r| strings::mset_nx(t, a, r), "Sets several strings if none of the keys exists."),
    data("string", "psetex", 4, WRITE | BLIND, ONE, |t, a, r| strings::pset_ex(t, a, r), "Sets a string and its expiry in milliseconds."),
    data("string", "set", -3, WRITE | BLIND, ONE, |t, a, r| strings::set(t, a, r), "Sets a string."),
    data("bitmap", "setbit", 4, WRITE, ONE, bits::set_bit, "Sets or clears a bit of a string."),
    data("string", "setex", 4, WRITE | BLIND, ONE, |t, a, r| strings::set_ex(t, a, r), "Sets a string and its expiry in seconds."),
    data("string", "setnx", 3, WRITE | FAST, ONE, |t, a, r| strings::set_nx(t, a, r), "Sets a string if the key does not exist."),
    data("string", "setrange", 4, WRITE, ONE, |t, a, r| strings::set_range(t, a, r), "Overwrites a part of a string."),
    data("string", "strlen", 2, FAST, ONE, |t, a, r| strings::strlen(t, a, r), "Returns the length of a string in bytes."),
    data("string", "substr", 4, 0, ONE, |t, a, r| strings::get_range(t, a, r), "Returns a part of a string."),
];

#[rustfmt::skip]
static KEYS: &[CommandSpec] = &[
    data("generic", "copy", -3, WRITE | ELSEWHERE, TWO, keys::copy, "Copies the value of a key to another key."),
    data("generic", "del", -2, WRITE, ALL_KEYS, |t, a, r| keys::del(t, a, r), "Deletes keys."),
    data("generic", "exists", -2, FAST | LOOKS, ALL_KEYS, |t, a, r| keys::exists(t, a, r), "Returns how many of the keys exist."),
    data("generic", "expire", -3, WRITE | FAST, ONE, |t, a, r| expiry::expire(t, a, r), "Sets the time after which a key expires, in seconds."),
    data("generic", "expireat", -3, WRITE | FAST, ONE, |t, a, r| expiry::expire_at(t, a, r), "Sets the time at which a key expires, in seconds since 1970."),
    data("generic", "expiretime", 2, FAST | LOOKS, ONE, |t, a, r| expiry::expire_time(t, a, r), "Returns the time at which a key expires, in seconds since 1970."),
    data("generic", "keys", 2, ALONE, NONE, scan_commands::keys, "Returns all keys that match a pattern."),
    data("generic", "move", 3, WRITE | FAST | ALL | ACROSS, ONE, keys::move_key, "Moves a key to another database."),
    data("generic", "object", -2, LOCKED | LOOKS, (2, 2, 1), describe::object, "Describes how the value of a key is stored and used."),
    data("generic", "persist", 2, WRITE | FAST, ONE, |t, a, r| expiry::persist(t, a, r), "Removes the expiry of a key."),
    data("generic", "pexpire", -3, WRITE | FAST, ONE, |t, a, r| expiry::pexpire(t, a, r), "Sets the time after which a key expires, in milliseconds."),
    data("generic", "pexpireat", -3, WRITE | FAST, ONE, |t, a, r| expiry::pexpire_at(t, a, r), "Sets the time at which a key expires, in milliseconds since 1970."),
    data("generic", "pexpiretime", 2, FAST | LOOKS, ONE, |t, a, r| expiry::pexpire_time(t, a, r), "Returns the time at which a key expires, in milliseconds since 1970."),
    data("generic", "pttl", 2, FAST | LOOKS, ONE, |t, a, r| expiry::pttl(t, a, r), "Returns the time until a key expires, in milliseconds."),
    data("generic", "randomkey", 1, ALONE, NONE, scan_commands::random_key, "Returns a random key."),
    data("generic", "rename", 3, WRITE, TWO, keys::rename, "Renames a key; replaces an existing key of the new name."),
    data("generic", "renamenx", 3, WRITE | FAST, TWO, keys::rename_nx, "Renames a key if no key has the new name."),
    data("generic", "scan", -2, ALONE, NONE, scan_commands::scan, "Returns some keys, and a cursor to continue from."),
    data("generic", "sort", -2, WRITE | ALONE | SORTS, ONE, sort::sort, "Returns or stores the sorted elements of a list, set or sorted set, or values of other keys for them."),
    data("generic", "sort_ro", -2, LOCKED | ALONE | SORTS, ONE, sort::sort_ro, "Returns the sorted elements of a list, set or sorted set, or values of other keys for them."),
    data("generic", "touch", -2, FAST, ALL_KEYS, |t, a, r| keys::exists(t, a, r), "Marks keys as used, and returns how many of them exist."),
    data("generic", "ttl", 2, FAST | LOOKS, ONE, |t, a, r| expiry::ttl(t, a, r), "Returns the time until a key expires, in seconds."),
    data("server", "swapdb", 3, WRITE | FAST | ALL | ACROSS, NONE, keys::swap_db, "Swaps two databases."),
    data("generic", "type", 2, FAST | LOOKS, ONE, |t, a, r| keys::type_of(t, a, r), "Returns the type of the value of a key."),
    data("generic", "unlink", -2, WRITE | FAST, ALL_KEYS, |t, a, r| keys::del(t, a, r), "Deletes keys."),
    data("server", "dbsize", 1, ALONE | FAST, NONE, scan_commands::size, "Returns the number of keys in the database."),
    data("server", "flushall", -1, WRITE | ALONE | ALL | ACROSS, NONE, keys::flush_all, "Deletes all keys of all databases."),
    data("server", "flushdb", -1, WRITE | ALONE | ALL, NONE, keys::flush_db, "Deletes all keys of the database."),
    data("ordered", "delrange", 3, WRITE | ALONE | ALL, NONE, ordered::del_range, "Deletes all keys in a range."),
    data("ordered", "range", -3, ALONE, NONE, ordered::range, "Returns the keys and strings in a range, in order."),
    data("ordered", "revrange", -3, ALONE, NONE, ordered::rev_range, "Returns the keys and strings in a range, in reverse order."),
    data("ordered", "snapshot", -2, ALONE, (3, 3, 1), ordered::snapshot, "Creates, lists, reads and drops named snapshots of the store."),
];

#[rustfmt::skip]
static HASHES: &[CommandSpec] = &[
    data("hash", "hdel", -3, WRITE | FAST | KEEPS, ONE, hashes::hdel, "Deletes fields of a hash."),
    data("hash", "hexists", 3, LOCKED | FAST | KEEPS, ONE, hashes::hexists, "Returns whether a field of a hash exists."),
    data("hash", "hget", 3, LOCKED | FAST | KEEPS, ONE, hashes::hget, "Returns the value of a field of a hash."),
    data("hash", "hgetall", 2, LOCKED, ONE, hashes::hgetall, "Returns all fields and values of a hash."),
    data("hash", "hincrby", 4, WRITE | FAST | KEEPS, ONE, hashes::hincr_by, "Adds to an integer in a field of a hash."),
    data("hash", "hincrbyfloat", 4, WRITE | FAST | KEEPS, ONE, hashes::hincr_by_float, "Adds to a decimal number in a field of a hash."),
    data("hash", "hkeys", 2, LOCKED, ONE, hashes::hkeys, "Returns all fields of a hash."),
    data("hash", "hlen", 2, FAST | KEEPS, ONE, hashes::hlen, "Returns the number of fields of a hash."),
    data("hash", "hmget", -3, LOCKED | FAST | KEEPS, ONE, hashes::hmget, "Returns the values of fields of a hash."),
    data("hash", "hmset", -4, WRITE | FAST | KEEPS, ONE, hashes::hmset, "Sets fields of a hash."),
    data("hash", "hrandfield", -2, LOCKED, ONE, hashes::hrandfield, "Returns random fields of a hash."),
    data("hash", "hscan", -3, LOCKED, ONE, hashes::hscan, "Returns some fields and values of a hash, and a cursor to continue from."),
    data("hash", "hset", -4, WRITE | FAST | KEEPS, ONE, hashes::hset, "Sets fields of a hash."),
    data("hash", "hsetnx", 4, WRITE | FAST | KEEPS, ONE, hashes::hset_nx, "Sets a field of a hash if the field does not exist."),
    data("hash", "hstrlen", 3, LOCKED | FAST | KEEPS, ONE, hashes::hstrlen, "Returns the length of the value of a field of a hash, in bytes."),
    data("hash", "hvals", 2, LOCKED, ONE, hashes::hvals, "Returns all values of a hash."),
];

#[rustfmt::skip]
static SETS: &[CommandSpec] = &[
    data("set", "sadd", -3, WRITE | FAST | KEEPS, ONE, sets::sadd, "Adds members to a set."),
    data("set", "scard", 2, FAST | KEEPS, ONE, sets::scard, "Returns the number of members of a set."),
    data("set", "sdiff", -2, LOCKED, ALL_KEYS, sets::sdiff, "Returns the members of the first set that are in none of the others."),
    data("set", "sdiffstore", -3, WRITE, ALL_KEYS, sets::sdiff_store, "Stores the members of the first set that are in none of the others."),
    data("set", "sinter", -2, LOCKED, ALL_KEYS, sets::sinter, "Returns the members that are in all sets."),
    data("set", "sintercard", -3, LOCKED, numbered(1), sorted::sintercard, "Returns the number of members that are in all sets."),
    data("set", "sinterstore", -3, WRITE, ALL_KEYS, sets::sinter_store, "Stores the members that are in all sets."),
    data("set", "sismember", 3, LOCKED | FAST | KEEPS, ONE, sets::sismember, "Returns whether a set has a member."),
    data("set", "smembers", 2, LOCKED, ONE, sets::smembers, "Returns all members of a set."),
    data("set", "smismember", -3, LOCKED | FAST | KEEPS, ONE, sets::smismember, "Returns for each of several members whether a set has it."),
    data("set", "smove", 4, WRITE | FAST, TWO, sets::smove, "Moves a member to another set."),
    data("set", "spop", -2, WRITE | FAST, ONE, sets::spop, "Removes random members of a set and returns them."),
    data("set", "srandmember", -2, LOCKED, ONE, sets::srandmember, "Returns random members of a set."),
    data("set", "srem", -3, WRITE | FAST | KEEPS, ONE, sets::srem, "Removes members of a set."),
    data("set", "sscan", -3, LOCKED, ONE, sets::sscan, "Returns some members of a set, and a cursor to continue from."),
    data("set", "sunion", -2, LOCKED, ALL_KEYS, sets::sunion, "Returns the members that are in any of the sets."),
    data("set", "sunionstore", -3, WRITE, ALL_KEYS, sets::sunion_store, "Stores the members that are in any of the sets."),
];

#[rustfmt::skip]
static LISTS: &[CommandSpec] = &[
    data("list", "blmove", 6, WRITE | ALONE | BLOCKS, TWO, blocking::blmove, "Moves an element from an end of a list to an end of another list, and returns it; waits for one."),
    data("list", "blmpop", -5, WRITE | ALONE | BLOCKS, numbered(2), blocking::blmpop, "Removes elements from an end of the first list that is not empty, and returns them; waits for them."),
    data("list", "blpop", -3, WRITE | ALONE | BLOCKS, (1, -2, 1), blocking::blpop, "Removes the first element of the first list that is not empty, and returns it; waits for one."),
    data("list", "brpop", -3, WRITE | ALONE | BLOCKS, (1, -2, 1), blocking::brpop, "Removes the last element of the first list that is not empty, and returns it; waits for one."),
    data("list", "brpoplpush", 4, WRITE | ALONE | BLOCKS, TWO, blocking::brpoplpush, "Moves the last element of a list to the beginning of another list, and returns it; waits for one."),
    data("list", "lindex", 3, LOCKED | KEEPS, ONE, lists::lindex, "Returns an element of a list by its index."),
    data("list", "linsert", 5, WRITE, ONE, lists::linsert, "Inserts an element before or after another one of a list."),
    data("list", "llen", 2, FAST | KEEPS, ONE, lists::llen, "Returns the number of elements of a list."),
    data("list", "lmpop", -4, WRITE, numbered(1), key_count_arguments::lmpop, "Removes elements from an end of the first list that is not empty, and returns them."),
    data("list", "lmove", 5, WRITE, TWO, lists::lmove, "Moves an element from an end of a list to an end of another list, and returns it."),
    data("list", "lpop", -2, WRITE | FAST | KEEPS, ONE, lists::lpop, "Removes the first elements of a list and returns them."),
    data("list", "lpos", -3, LOCKED, ONE, lists::lpos, "Returns the indexes of elements of a list that equal a value."),
    data("list", "lpush", -3, WRITE | FAST | KEEPS, ONE, lists::lpush, "Adds elements at the beginning of a list; creates the list if the key does not exist."),
    data("list", "lpushx", -3, WRITE | FAST | KEEPS, ONE, lists::lpushx, "Adds elements at the beginning of a list that exists."),
    data("list", "lrange", 4, LOCKED, ONE, lists::lrange, "Returns a range of elements of a list."),
    data("list", "lrem", 4, WRITE, ONE, lists::lrem, "Removes elements of a list that equal a value."),
    data("list", "lset", 4, WRITE | KEEPS, ONE, lists::lset, "Replaces an element of a list by its index."),
    data("list", "ltrim", 4, WRITE, ONE, lists::ltrim, "Removes all elements of a list outside a range of indexes."),
    data("list", "rpop", -2, WRITE | FAST | KEEPS, ONE, lists::rpop, "Removes the last elements of a list and returns them."),
    data("list", "rpoplpush", 3, WRITE, TWO, lists::rpoplpush, "Moves the last element of a list to the beginning of another list, and returns it."),
    data("list", "rpush", -3, WRITE | FAST | KEEPS, ONE, lists::rpush, "Adds elements at the end of a list; creates the list if the key does not exist."),
    data("list", "rpushx", -3, WRITE | FAST | KEEPS, ONE, lists::rpushx, "Adds elements at the end of a list that exists."),
];

#[rustfmt::skip]
static SORTED: &[CommandSpec] = &[
    data("sorted-set", "bzmpop", -5, WRITE | ALONE | BLOCKS, numbered(2), blocking::bzmpop, "Removes members with the lowest or highest scores from the first sorted set that is not empty, and returns them; waits for them."),
    data("sorted-set", "bzpopmax", -3, WRITE | FAST | ALONE | BLOCKS, (1, -2, 1), blocking::bzpopmax, "Removes the member with the highest score from the first sorted set that is not empty, and returns it; waits for one."),
    data("sorted-set", "bzpopmin", -3, WRITE | FAST | ALONE | BLOCKS, (1, -2, 1), blocking::bzpopmin, "Removes the member with the lowest score from the first sorted set that is not empty, and returns it; waits for one."),
    data("sorted-set", "zadd", -4, WRITE | FAST | KEEPS, ONE, sorted::zadd, "Adds members to a sorted set, or changes their scores."),
    data("sorted-set", "zcard", 2, FAST | KEEPS, ONE, sorted::zcard, "Returns the number of members of a sorted set."),
    data("sorted-set", "zcount", 4, LOCKED | FAST, ONE, sorted::zcount, "Returns the number of members whose scores are in a range."),
    data("sorted-set", "zdiff", -3, LOCKED, numbered(1), sorted::zdiff, "Returns the members of the first sorted set that are in none of the others."),
    data("sorted-set", "zdiffstore", -4, WRITE, stored(2), sorted::zdiff_store, "Stores the members of the first sorted set that are in none of the others."),
    data("sorted-set", "zincrby", 4, WRITE | FAST | KEEPS, ONE, sorted::zincr_by, "Adds to the score of a member of a sorted set."),
    data("sorted-set", "zinter", -3, LOCKED, numbered(1), sorted::zinter, "Returns the members that are in all sorted sets."),
    data("sorted-set", "zintercard", -3, LOCKED, numbered(1), sorted::zintercard, "Returns the number of members that are in all sorted sets."),
    data("sorted-set", "zinterstore", -4, WRITE, stored(2), sorted::zinter_store, "Stores the members that are in all sorted sets."),
    data("sorted-set", "zlexcount", 4, LOCKED | FAST, ONE, sorted::zlexcount, "Returns the number of members in a range of members."),
    data("sorted-set", "zmpop", -4, WRITE, numbered(1), key_count_arguments::zmpop, "Removes members with the lowest or highest scores from the first sorted set that is not empty, and returns them."),
    data("sorted-set", "zmscore", -3, LOCKED | FAST | KEEPS, ONE, sorted::zmscore, "Returns the scores of members of a sorted set."),
    data("sorted-set", "zpopmax", -2, WRITE | FAST, ONE, sorted::zpopmax, "Removes the members with the highest scores and returns them."),
    data("sorted-set", "zpopmin", -2, WRITE | FAST, ONE, sorted::zpopmin, "Removes the members with the lowest scores and returns them."),
    data("sorted-set", "zrandmember", -2, LOCKED, ONE, sorted::zrandmember, "Returns random members of a sorted set."),
    data("sorted-set", "zrange", -4, LOCKED, ONE, sorted::zrange, "Returns members of a sorted set in a range of indexes, scores or members."),
    data("sorted-set", "zrangebylex", -4, LOCKED, ONE, sorted::zrange_by_lex, "Returns the members in a range of members."),
    data("sorted-set", "zrangebyscore", -4, LOCKED, ONE, sorted::zrange_by_score, "Returns the members whose scores are in a range."),
    data("sorted-set", "zrangestore", -5, WRITE, TWO, sorted::zrange_store, "Stores members of a sorted set in a range of indexes, scores or members."),
    data("sorted-set", "zrank", 3, LOCKED | FAST, ONE, sorted::zrank, "Returns the index of a member, from the lowest score."),
    data("sorted-set", "zrem", -3, WRITE | FAST | KEEPS, ONE, sorted::zrem, "Removes members of a sorted set."),
    data("sorted-set", "zremrangebylex", 4, WRITE, ONE, sorted::zrem_range_by_lex, "Removes the members in a range of members."),
    data("sorted-set", "zremrangebyrank", 4, WRITE, ONE, sorted::zrem_range_by_rank, "Removes the members in a range of indexes."),
    data("sorted-set", "zremrangebyscore", 4, WRITE, ONE, sorted::zrem_range_by_score, "Removes the members whose scores are in a range."),
    data("sorted-set", "zrevrange", -4, LOCKED, ONE, sorted::zrev_range, "Returns the members in a range of indexes, from the highest score."),
    data("sorted-set", "zrevrangebylex", -4, LOCKED, ONE, sorted::zrev_range_by_lex, "Returns the members in a range of members, in reverse order."),
    data("sorted-set", "zrevrangebyscore", -4, LOCKED, ONE, sorted::zrev_range_by_score, "Returns the members whose scores are in a range, in reverse order."),
    data("sorted-set", "zrevrank", 3, LOCKED | FAST, ONE, sorted::zrev_rank, "Returns the index of a member, from the highest score."),
    data("sorted-set", "zscan", -3, LOCKED, ONE, sorted::zscan, "Returns some members and scores of a sorted set, and a cursor to continue from."),
    data("sorted-set", "zscore", 3, LOCKED | FAST | KEEPS, ONE, sorted::zscore, "Returns the score of a member of a sorted set."),
    data("sorted-set", "zunion", -3, LOCKED, numbered(1), sorted::zunion, "Returns the members that are in any of the sorted sets."),
    data("sorted-set", "zunionstore", -4, WRITE, stored(2), sorted::zunion_store, "Stores the members that are in any of the sorted sets."),
];

#[rustfmt::skip]
static MESSAGES: &[CommandSpec] = &[
    data("pubsub", "publish", 3, FAST | BLIND, NONE, pubsub::publish, "Sends a message to the subscribers of a channel."),
    data("pubsub", "spublish", 3, FAST | BLIND, NONE, pubsub::spublish, "Sends a message to the subscribers of a sharded channel."),
    session("pubsub", "psubscribe", -2, 0, pubsub::psubscribe, "Subscribes to the channels that match patterns."),
    session("pubsub", "pubsub", -2, 0, pubsub::pubsub, "Lists channels, and counts their subscribers."),
    session("pubsub", "punsubscribe", -1, 0, pubsub::punsubscribe, "Ends subscriptions of patterns, by default all."),
    session("pubsub", "ssubscribe", -2, 0, pubsub::ssubscribe, "Subscribes to sharded channels."),
    session("pubsub", "subscribe", -2, 0, pubsub::subscribe, "Subscribes to channels."),
    session("pubsub", "sunsubscribe", -1, 0, pubsub::sunsubscribe, "Ends subscriptions of sharded channels, by default all."),
    session("pubsub", "unsubscribe", -1, 0, pubsub::unsubscribe, "Ends subscriptions of channels, by default all."),
];

#[rustfmt::skip]
static SCRIPTS: &[CommandSpec] = &[
    script("eval", WRITE, "Runs a script in Lua."),
    script("eval_ro", 0, "Runs a script in Lua that only reads."),
    script("evalsha", WRITE, "Runs a cached script."),
    script("evalsha_ro", 0, "Runs a cached script that only reads."),
    with_keys(numbered(2), &session("scripting", "fcall", -3, 0, single::fcall, "Returns an error, because the server has no functions.")),
    with_keys(numbered(2), &session("scripting", "fcall_ro", -3, 0, single::fcall, "Returns an error, because the server has no functions.")),
    session("scripting", "function", -2, 0, single::function, "Lists functions; this server has none."),
    session("scripting", "script", -2, 0, scripting::script, "Caches, forgets and ends scripts."),
];

#[rustfmt::skip]
static SERVER: &[CommandSpec] = &[
    session("server", "acl", -2, ADMIN, acl::acl, "Manages users and their permissions."),
    session("connection", "auth", -2, STRANGER | FAST, connection::auth, "Authenticates the connection."),
    session("connection", "client", -2, 0, clients::client, "Lists, names, pauses and closes connections."),
    session("connection", "echo", 2, FAST, connection::echo, "Returns its argument."),
    session("connection", "hello", -1, STRANGER | FAST, connection::hello, "Chooses the version of the protocol, and returns facts about the server."),
    session("connection", "ping", -1, FAST, connection::ping, "Returns PONG, or its argument."),
    session("connection", "quit", -1, STRANGER | IN_MULTI | FAST, connection::quit, "Closes the connection."),
    session("connection", "reset", 1, STRANGER | IN_MULTI | FAST, connection::reset, "Resets the connection to its initial state."),
    session("connection", "select", 2, FAST, connection::select, "Selects the database of the connection."),
    session("server", "bgsave", -1, ADMIN, saving::bgsave, "Makes a backup in the background."),
    session("server", "command", -1, 0, describe::command, "Describes the commands of the server."),
    session("server", "config", -2, ADMIN, admin::config, "Reads and changes settings."),
    session("server", "debug", -2, ADMIN, admin::debug, "Sleeps or panics, for tests."),
    session("server", "latency", -2, ADMIN, latency::latency, "Reports the execution times of commands and slow events."),
    session("server", "lolwut", -1, FAST, small::lolwut, "Draws a picture and prints the version."),
    CommandSpec { keys: (2, 2, 1), ..session("server", "memory", -2, 0, memory::memory, "Reports the memory use of the server, its parts and keys.") },
    session("server", "module", -2, ADMIN, small::module, "Lists modules; this server has none."),
    session("server", "monitor", 1, ADMIN | NOT_IN_MULTI, monitor_commands::monitor, "Shows every command that the server executes."),
    session("server", "role", 1, FAST, small::role, "Returns that the server is a master without replicas."),
    session("server", "shutdown", -1, ADMIN | NOT_IN_MULTI, monitor_commands::shutdown, "Stops the server."),
    session("generic", "wait", 3, 0, single::wait, "Returns 0, because the server has no replicas."),
    session("generic", "waitaof", 4, 0, single::waitaof, "Waits until all writes are on the disk of the server, which has no replicas."),
    session("cluster", "asking", 1, FAST, single::of_cluster, "Returns an error, because the server is not part of a cluster."),
    session("cluster", "cluster", -2, 0, single::cluster, "Returns an error, because the server is not part of a cluster."),
    session("cluster", "readonly", 1, FAST, single::of_cluster, "Returns an error, because the server is not part of a cluster."),
    session("cluster", "readwrite", 1, FAST, single::of_cluster, "Returns an error, because the server is not part of a cluster."),
    session("server", "bgrewriteaof", 1, ADMIN, single::bgrewriteaof, "Makes a checkpoint, which shortens the log."),
    session("server", "failover", -1, ADMIN, single::failover, "Returns an error, because the server has no replicas."),
    session("server", "replicaof", 3, ADMIN, single::replica_of, "Accepts NO ONE, because the server is a master."),
    session("server", "slaveof", 3, ADMIN, single::replica_of, "Accepts NO ONE, because the server is a master."),
    session("server", "info", -1, 0, info::info, "Returns facts and figures about the server."),
    session("server", "lastsave", 1, FAST | ADMIN, saving::lastsave, "Returns the time of the last backup, in seconds since 1970."),
    session("server", "save", 1, ADMIN | NOT_IN_MULTI, saving::save, "Makes a backup."),
    session("server", "slowlog", -2, ADMIN, admin::slowlog, "Returns commands that were slow."),
    session("server", "time", 1, FAST, admin::time, "Returns the time of the server."),
    session("transactions", "abort", 1, NOT_IN_MULTI | FAST, interactive::abort, "Ends a transaction without writing anything."),
    session("transactions", "begin", -1, NOT_IN_MULTI | FAST, interactive::begin, "Begins a transaction, which lasts until COMMIT or ABORT."),
    session("transactions", "commit", 1, NOT_IN_MULTI, interactive::commit, "Writes the changes of a transaction, or none of them after a conflict."),
    session("transactions", "discard", 1, IN_MULTI | FAST, transactions::discard, "Discards the commands that were queued since MULTI."),
    session("transactions", "exec", 1, IN_MULTI | UNSEEN, transactions::exec, "Executes the commands that were queued since MULTI, all or none."),
    session("transactions", "multi", 1, IN_MULTI | FAST, transactions::multi, "Queues the following commands until EXEC or DISCARD."),
    session("transactions", "unwatch", 1, FAST, transactions::unwatch, "Stops watching all keys."),
    with_keys(ALL_KEYS, &session("transactions", "watch", -2, IN_MULTI | FAST, transactions::watch, "Watches keys: EXEC fails if one of them changes before.")),
];

/// All commands with their statistics indexes, and the names under which calls are counted.
static NUMBERED: LazyLock<(Vec<CommandSpec>, Vec<String>)> = LazyLock::new(|| {
    let tables = [
        STRINGS, KEYS, HASHES, SETS, LISTS, SORTED, MESSAGES, SCRIPTS, SERVER,
    ];
    let mut commands: Vec<CommandSpec> = tables.into_iter().flatten().copied().collect();
    let mut names: Vec<String> = commands.iter().map(|command| command.name.to_owned()).collect();
    for (index, command) in commands.iter_mut().enumerate() {
        command.index = index as u16;
        command.event = events::of_command(command.name, command.group);
        let subcommands = subcommands::names(command.name);
        if !subcommands.is_empty() {
            command.subcommands_at = names.len() as u16;
        }
        names.extend(
            subcommands
                .iter()
                .map(|(word, _)| format!("{}|{word}", command.name)),
        );
    }
    (commands, names)
});

pub(super) fn all() -> impl Iterator<Item = &'static CommandSpec> {
    NUMBERED.0.iter()
}

/// Returns the names under which calls are counted. A name's position is its statistics index.
pub(crate) fn counted_names() -> &'static [String] {
    &NUMBERED.1
}

#[cfg(test)]
mod tests;
