//! The table of all commands: arguments, keys, flags, functions. COMMAND reports from the same
//! table that validates arguments.

use super::commands::{
    acl, admin, bitfield, bits, clients, connection, describe, expiry, hashes, info, interactive,
    key_count_arguments, keys, latency, lists, memory, monitor_commands, ordered, saving, scan_commands,
    sets, small, sort, sorted, strings, transactions,
};
use super::session::RedisSession;
use crate::error::CommandError;
use crate::protocol::resp::{Args, ReplyWriter, number};
use crate::redis::subcommands;
use crate::store::{CommandTransaction, Mode};
use std::sync::LazyLock;

pub(super) type DataHandler =
    fn(&mut CommandTransaction<'_>, Args<'_>, &mut ReplyWriter<'_>) -> Result<(), CommandError>;
pub(super) type SessionHandler =
    fn(&mut RedisSession, Args<'_>, &mut ReplyWriter<'_>) -> Result<(), CommandError>;

/// The function of a command.
#[derive(Clone, Copy)]
pub(super) enum CommandHandler {
    /// Works on keys and values, in the transaction of its batch.
    Data(DataHandler),
    /// Works on the connection or the server.
    Session(SessionHandler),
}

/// It writes, and locks its keys exclusively.
const WRITE: u16 = 1;
/// It reads more than records, or several that must be consistent, and locks its keys against
/// writers.
const LOCKED: u16 = 2;
/// It usually does not read the records of its keys.
const BLIND: u16 = 4;
/// It is executed alone, not in a batch.
const ALONE: u16 = 8;
/// It locks all keys of all databases.
const ALL: u16 = 16;
/// An unauthenticated client may send it.
const STRANGER: u16 = 32;
/// It is executed, not queued, between MULTI and EXEC.
const IN_MULTI: u16 = 64;
/// Its time does not depend much on the size of values.
const FAST: u16 = 128;
/// With arguments besides its keys it may access another database, and locks all keys.
const ELSEWHERE: u16 = 256;
/// It is refused between MULTI and EXEC.
const NOT_IN_MULTI: u16 = 512;
/// It is administrative. MONITOR does not show it.
const ADMIN: u16 = 1024;
/// Neither MONITOR nor SLOWLOG shows it, because the commands that it executes are shown.
const UNSEEN: u16 = 2048;
/// Its options may name a destination key, and keys by pattern. With these it locks all keys.
const SORTS: u16 = 4096;
/// It inspects its keys only, which does not count as a use.
const LOOKS: u16 = 8192;
/// It changes databases other than the selected one.
const ACROSS: u16 = 16384;
/// It accesses the record of its only key as a collection, does not touch the expiry time, and does
/// not walk over records.
const KEEPS: u16 = 32768;

#[derive(Clone, Copy)]
pub(super) struct CommandSpec {
    pub(super) name: &'static str,
    /// Number of arguments including the name; a minimum if negative.
    pub(super) arity: i32,
    flags: u16,
    /// The first key, the last (from the end if negative), and the step; all 0 without keys. If
    /// only the step is 0, the second number is the index of the argument that gives the number of
    /// keys; a separate key precedes it if the first number is not 0.
    pub(super) keys: (i32, i32, i32),
    pub(super) group: &'static str,
    pub(super) summary: &'static str,
    pub(super) action: CommandHandler,
    /// Its index in the statistics.
    index: u16,
    /// Index of its first subcommand in the statistics, or 0.
    subcommands_at: u16,
}

impl CommandSpec {
    /// Returns the index under which a call is counted: that of the subcommand, if any.
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

    /// Checks its subcommand, if it has subcommands.
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

    /// Returns whether it counts as a use of its keys.
    pub(super) fn uses_keys(&self) -> bool {
        !self.has(LOOKS)
    }

    pub(super) fn is_seen(&self) -> bool {
        !self.has(UNSEEN)
    }

    /// Returns whether CLIENT PAUSE WRITE suspends it.
    pub(super) fn waits_for_writers(&self) -> bool {
        self.has(WRITE) || matches!(self.name, "exec" | "commit")
    }

    pub(super) fn takes(&self, count: usize) -> bool {
        subcommands::fits(self.arity, count)
    }

    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Returns whether the record of its key may be kept decoded for the next command.
    pub(super) fn keeps_record(&self) -> bool {
        self.has(KEEPS)
    }

    pub(super) fn writes(&self) -> bool {
        self.has(WRITE)
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

    /// Returns whether it changes a database other than `here`.
    pub(super) fn reaches_beyond(&self, args: Args<'_>, here: u8) -> bool {
        self.has(ACROSS) || (self.has(ELSEWHERE) && keys::copies_beyond(args, here))
    }

    /// Returns how it locks its keys.
    pub(super) fn mode(&self) -> Option<Mode> {
        match (self.has(WRITE), self.has(LOCKED)) {
            (true, _) => Some(Mode::Exclusive),
            (false, true) => Some(Mode::Shared),
            (false, false) => None,
        }
    }

    /// Returns whether it writes its keys without reading them, provided that none may have a
    /// collection.
    pub(super) fn is_blind(&self, args: Args<'_>) -> bool {
        self.has(BLIND) && (self.name != "set" || args.len() == 3)
    }

    pub(super) fn reads_records(&self) -> bool {
        !self.has(BLIND | ALONE)
    }

    /// Returns the number of records to prefetch for it.
    pub(super) fn records(&self, args: Args<'_>) -> usize {
        match args.len() {
            _ if !self.reads_records() => 0,
            ..=2 => 1,
            _ => self.keys(args).count(),
        }
    }

    /// Returns the keys among its arguments.
    pub(super) fn keys<'a>(&self, args: Args<'a>) -> CommandKeys<'a> {
        let (first, last, step) = self.keys;
        let (alone, first, count, step) = match self.keys {
            (_, 1.., 0) => {
                // An argument gives the number of keys. If it is invalid there are no keys; the
                // command refuses it.
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

    /// Calls `look` with each key among its arguments.
    #[inline]
    pub(super) fn each_key<'a>(&self, args: Args<'a>, mut look: impl FnMut(&'a [u8])) {
        // Most commands have one key after their name.
        if self.keys == ONE && !self.has(SORTS) {
            args.get(1).into_iter().for_each(look);
        } else {
            self.keys(args).for_each(&mut look);
        }
    }

    /// Returns whether any of its arguments can be a key.
    pub(super) fn may_have_keys(&self) -> bool {
        self.keys != NONE
    }

    /// Returns whether an argument gives the number of keys.
    pub(super) fn has_movable_keys(&self) -> bool {
        matches!(self.keys, (_, 1.., 0)) || self.has(SORTS)
    }

    /// Returns the first key, the last and the step for COMMAND INFO; zeros if an argument gives
    /// the number of keys.
    pub(super) fn told_keys(&self) -> (i32, i32, i32) {
        match self.keys {
            (0, _, 0) => (0, 0, 0),
            (first, _, 0) => (first, first, 1),
            keys => keys,
        }
    }
}

/// An iterator over the keys among the arguments of a command.
pub(super) struct CommandKeys<'a> {
    args: Args<'a>,
    /// Index of a separate key before the others, or 0.
    alone: usize,
    /// Index of the next key, the number of remaining keys, and the step.
    next: usize,
    left: usize,
    step: usize,
    /// A destination key named by an option, which comes last.
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
            // There are too few arguments.
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

/// Keys whose number is at an index.
const fn numbered(at: i32) -> (i32, i32, i32) {
    (0, at, 0)
}

/// Keys whose number is at an index, after a destination key.
const fn stored(at: i32) -> (i32, i32, i32) {
    (1, at, 0)
}

const fn data(
    group: &'static str,
    name: &'static str,
    arity: i32,
    flags: u16,
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
        index: 0,
        subcommands_at: 0,
    }
}

const fn session(
    group: &'static str,
    name: &'static str,
    arity: i32,
    flags: u16,
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
        index: 0,
        subcommands_at: 0,
    }
}

/// A command of the connection that has keys.
const fn with_keys(keys: (i32, i32, i32), command: &CommandSpec) -> CommandSpec {
    CommandSpec { keys, ..*command }
}

#[rustfmt::skip]
static STRINGS: &[CommandSpec] = &[
    data("string", "append", 3, WRITE | FAST, ONE, |t, a, r| strings::append(t, a, r), "Appends to a string, which is created if there is none."),
    data("bitmap", "bitcount", -2, 0, ONE, bits::bit_count, "How many bits are set."),
    data("bitmap", "bitfield", -2, WRITE, ONE, bitfield::bit_field, "Reads and changes integers within a string."),
    data("bitmap", "bitfield_ro", -2, FAST, ONE, bitfield::bit_field_ro, "Reads integers within a string."),
    data("bitmap", "bitop", -4, WRITE, (2, -1, 1), bits::bit_op, "Joins the bits of strings and stores them."),
    data("bitmap", "bitpos", -3, 0, ONE, bits::bit_pos, "Where the first bit is that is set, or not set."),
    data("string", "decr", 2, WRITE | FAST, ONE, |t, a, r| strings::decr(t, a, r), "Subtracts one from an integer."),
    data("string", "decrby", 3, WRITE | FAST, ONE, |t, a, r| strings::decr_by(t, a, r), "Subtracts from an integer."),
    data("string", "get", 2, FAST, ONE, |t, a, r| strings::get(t, a, r), "A string."),
    data("bitmap", "getbit", 3, FAST, ONE, bits::get_bit, "A bit."),
    data("string", "getdel", 2, WRITE | FAST, ONE, |t, a, r| strings::get_del(t, a, r), "A string, which is deleted."),
    data("string", "getex", -2, WRITE | FAST, ONE, |t, a, r| strings::get_ex(t, a, r), "A string, whose expiry is set."),
    data("string", "getrange", 4, 0, ONE, |t, a, r| strings::get_range(t, a, r), "A part of a string."),
    data("string", "getset", 3, WRITE | FAST, ONE, |t, a, r| strings::get_set(t, a, r), "A string, which is replaced."),
    data("string", "incr", 2, WRITE | FAST, ONE, |t, a, r| strings::incr(t, a, r), "Adds one to an integer."),
    data("string", "incrby", 3, WRITE | FAST, ONE, |t, a, r| strings::incr_by(t, a, r), "Adds to an integer."),
    data("string", "incrbyfloat", 3, WRITE | FAST, ONE, |t, a, r| strings::incr_by_float(t, a, r), "Adds to a decimal number."),
    data("string", "lcs", -3, 0, TWO, bits::lcs, "The longest common subsequence of two strings."),
    data("string", "mget", -2, FAST, ALL_KEYS, |t, a, r| strings::mget(t, a, r), "Several strings."),
    data("string", "mset", -3, WRITE | BLIND, PAIRS, |t, a, r| strings::mset(t, a, r), "Sets several strings, all or none."),
    data("string", "msetnx", -3, WRITE, PAIRS, |t, a, r| strings::mset_nx(t, a, r), "Sets several strings if none of the keys is there."),
    data("string", "psetex", 4, WRITE | BLIND, ONE, |t, a, r| strings::pset_ex(t, a, r), "Sets a string that expires, in milliseconds."),
    data("string", "set", -3, WRITE | BLIND, ONE, |t, a, r| strings::set(t, a, r), "Sets a string."),
    data("bitmap", "setbit", 4, WRITE, ONE, bits::set_bit, "Sets a bit."),
    data("string", "setex", 4, WRITE | BLIND, ONE, |t, a, r| strings::set_ex(t, a, r), "Sets a string that expires, in seconds."),
    data("string", "setnx", 3, WRITE | FAST, ONE, |t, a, r| strings::set_nx(t, a, r), "Sets a string if the key is not there."),
    data("string", "setrange", 4, WRITE, ONE, |t, a, r| strings::set_range(t, a, r), "Overwrites a part of a string."),
    data("string", "strlen", 2, FAST, ONE, |t, a, r| strings::strlen(t, a, r), "The length of a string."),
    data("string", "substr", 4, 0, ONE, |t, a, r| strings::get_range(t, a, r), "A part of a string."),
];

#[rustfmt::skip]
static KEYS: &[CommandSpec] = &[
    data("generic", "copy", -3, WRITE | ELSEWHERE, TWO, keys::copy, "Copies a key with what it holds."),
    data("generic", "del", -2, WRITE, ALL_KEYS, |t, a, r| keys::del(t, a, r), "Deletes keys."),
    data("generic", "exists", -2, FAST | LOOKS, ALL_KEYS, |t, a, r| keys::exists(t, a, r), "How many of the keys are there."),
    data("generic", "expire", -3, WRITE | FAST, ONE, |t, a, r| expiry::expire(t, a, r), "Lets a key expire after a number of seconds."),
    data("generic", "expireat", -3, WRITE | FAST, ONE, |t, a, r| expiry::expire_at(t, a, r), "Lets a key expire at a time in seconds."),
    data("generic", "expiretime", 2, FAST | LOOKS, ONE, |t, a, r| expiry::expire_time(t, a, r), "When a key expires, in seconds."),
    data("generic", "keys", 2, ALONE, NONE, scan_commands::keys, "All keys that fit a pattern."),
    data("generic", "move", 3, WRITE | FAST | ALL | ACROSS, ONE, keys::move_key, "Moves a key to another database."),
    data("generic", "object", -2, LOCKED | LOOKS, (2, 2, 1), describe::object, "What a key's value is like inside."),
    data("generic", "persist", 2, WRITE | FAST, ONE, |t, a, r| expiry::persist(t, a, r), "Lets a key expire no more."),
    data("generic", "pexpire", -3, WRITE | FAST, ONE, |t, a, r| expiry::pexpire(t, a, r), "Lets a key expire after a number of milliseconds."),
    data("generic", "pexpireat", -3, WRITE | FAST, ONE, |t, a, r| expiry::pexpire_at(t, a, r), "Lets a key expire at a time in milliseconds."),
    data("generic", "pexpiretime", 2, FAST | LOOKS, ONE, |t, a, r| expiry::pexpire_time(t, a, r), "When a key expires, in milliseconds."),
    data("generic", "pttl", 2, FAST | LOOKS, ONE, |t, a, r| expiry::pttl(t, a, r), "In how many milliseconds a key expires."),
    data("generic", "randomkey", 1, ALONE, NONE, scan_commands::random_key, "Any key."),
    data("generic", "rename", 3, WRITE, TWO, keys::rename, "Gives a key another name."),
    data("generic", "renamenx", 3, WRITE | FAST, TWO, keys::rename_nx, "Gives a key another name that no key has."),
    data("generic", "scan", -2, ALONE, NONE, scan_commands::scan, "Some of all keys, and where to go on."),
    data("generic", "sort", -2, WRITE | ALONE | SORTS, ONE, sort::sort, "Elements in order, or what other keys have for them; may be stored."),
    data("generic", "sort_ro", -2, LOCKED | ALONE | SORTS, ONE, sort::sort_ro, "Elements in order, or what other keys have for them."),
    data("generic", "touch", -2, FAST, ALL_KEYS, |t, a, r| keys::exists(t, a, r), "How many of the keys are there."),
    data("generic", "ttl", 2, FAST | LOOKS, ONE, |t, a, r| expiry::ttl(t, a, r), "In how many seconds a key expires."),
    data("server", "swapdb", 3, WRITE | FAST | ALL | ACROSS, NONE, keys::swap_db, "Swaps two databases."),
    data("generic", "type", 2, FAST | LOOKS, ONE, |t, a, r| keys::type_of(t, a, r), "The type of what a key holds."),
    data("generic", "unlink", -2, WRITE | FAST, ALL_KEYS, |t, a, r| keys::del(t, a, r), "Deletes keys."),
    data("server", "dbsize", 1, ALONE | FAST, NONE, scan_commands::size, "How many keys there are."),
    data("server", "flushall", -1, WRITE | ALONE | ALL | ACROSS, NONE, keys::flush_all, "Deletes everything in all databases."),
    data("server", "flushdb", -1, WRITE | ALONE | ALL, NONE, keys::flush_db, "Deletes everything in this database."),
    data("ordered", "delrange", 3, WRITE | ALONE | ALL, NONE, ordered::del_range, "Deletes all keys of a range."),
    data("ordered", "range", -3, ALONE, NONE, ordered::range, "Keys and strings of a range, in order."),
    data("ordered", "revrange", -3, ALONE, NONE, ordered::rev_range, "Keys and strings of a range, in reverse order."),
    data("ordered", "snapshot", -2, ALONE, (3, 3, 1), ordered::snapshot, "Keeps everything as it is now under a name, and reads it."),
];

#[rustfmt::skip]
static HASHES: &[CommandSpec] = &[
    data("hash", "hdel", -3, WRITE | FAST | KEEPS, ONE, hashes::hdel, "Deletes fields."),
    data("hash", "hexists", 3, LOCKED | FAST | KEEPS, ONE, hashes::hexists, "Whether a field is there."),
    data("hash", "hget", 3, LOCKED | FAST | KEEPS, ONE, hashes::hget, "The value of a field."),
    data("hash", "hgetall", 2, LOCKED, ONE, hashes::hgetall, "All fields and values."),
    data("hash", "hincrby", 4, WRITE | FAST | KEEPS, ONE, hashes::hincr_by, "Adds to an integer in a field."),
    data("hash", "hincrbyfloat", 4, WRITE | FAST | KEEPS, ONE, hashes::hincr_by_float, "Adds to a decimal number in a field."),
    data("hash", "hkeys", 2, LOCKED, ONE, hashes::hkeys, "All fields."),
    data("hash", "hlen", 2, FAST | KEEPS, ONE, hashes::hlen, "How many fields there are."),
    data("hash", "hmget", -3, LOCKED | FAST | KEEPS, ONE, hashes::hmget, "The values of fields."),
    data("hash", "hmset", -4, WRITE | FAST | KEEPS, ONE, hashes::hmset, "Sets fields."),
    data("hash", "hrandfield", -2, LOCKED, ONE, hashes::hrandfield, "Any fields."),
    data("hash", "hscan", -3, LOCKED, ONE, hashes::hscan, "Some fields, and where to go on."),
    data("hash", "hset", -4, WRITE | FAST | KEEPS, ONE, hashes::hset, "Sets fields."),
    data("hash", "hsetnx", 4, WRITE | FAST | KEEPS, ONE, hashes::hset_nx, "Sets a field if it is not there."),
    data("hash", "hstrlen", 3, LOCKED | FAST | KEEPS, ONE, hashes::hstrlen, "The length of a field's value."),
    data("hash", "hvals", 2, LOCKED, ONE, hashes::hvals, "All values."),
];

#[rustfmt::skip]
static SETS: &[CommandSpec] = &[
    data("set", "sadd", -3, WRITE | FAST | KEEPS, ONE, sets::sadd, "Adds members."),
    data("set", "scard", 2, FAST | KEEPS, ONE, sets::scard, "How many members there are."),
    data("set", "sdiff", -2, LOCKED, ALL_KEYS, sets::sdiff, "The members of the first set that no other has."),
    data("set", "sdiffstore", -3, WRITE, ALL_KEYS, sets::sdiff_store, "Stores the members of the first set that no other has."),
    data("set", "sinter", -2, LOCKED, ALL_KEYS, sets::sinter, "The members that all sets have."),
    data("set", "sintercard", -3, LOCKED, numbered(1), sorted::sintercard, "How many members all sets have."),
    data("set", "sinterstore", -3, WRITE, ALL_KEYS, sets::sinter_store, "Stores the members that all sets have."),
    data("set", "sismember", 3, LOCKED | FAST | KEEPS, ONE, sets::sismember, "Whether a member is there."),
    data("set", "smembers", 2, LOCKED, ONE, sets::smembers, "All members."),
    data("set", "smismember", -3, LOCKED | FAST | KEEPS, ONE, sets::smismember, "Which of the members are there."),
    data("set", "smove", 4, WRITE | FAST, TWO, sets::smove, "Moves a member to another set."),
    data("set", "spop", -2, WRITE | FAST, ONE, sets::spop, "Any members, which are removed."),
    data("set", "srandmember", -2, LOCKED, ONE, sets::srandmember, "Any members."),
    data("set", "srem", -3, WRITE | FAST | KEEPS, ONE, sets::srem, "Removes members."),
    data("set", "sscan", -3, LOCKED, ONE, sets::sscan, "Some members, and where to go on."),
    data("set", "sunion", -2, LOCKED, ALL_KEYS, sets::sunion, "The members that any set has."),
    data("set", "sunionstore", -3, WRITE, ALL_KEYS, sets::sunion_store, "Stores the members that any set has."),
];

#[rustfmt::skip]
static LISTS: &[CommandSpec] = &[
    data("list", "lindex", 3, LOCKED | KEEPS, ONE, lists::lindex, "An element by its index."),
    data("list", "linsert", 5, WRITE, ONE, lists::linsert, "Inserts an element before or behind another."),
    data("list", "llen", 2, FAST | KEEPS, ONE, lists::llen, "How many elements there are."),
    data("list", "lmpop", -4, WRITE, numbered(1), key_count_arguments::lmpop, "Elements from an end of the first list that has any, which are removed."),
    data("list", "lmove", 5, WRITE, TWO, lists::lmove, "Moves an element from an end of a list to one of another."),
    data("list", "lpop", -2, WRITE | FAST | KEEPS, ONE, lists::lpop, "The first elements, which are removed."),
    data("list", "lpos", -3, LOCKED, ONE, lists::lpos, "Where an element is."),
    data("list", "lpush", -3, WRITE | FAST | KEEPS, ONE, lists::lpush, "Adds elements at the beginning."),
    data("list", "lpushx", -3, WRITE | FAST | KEEPS, ONE, lists::lpushx, "Adds elements at the beginning if there is a list."),
    data("list", "lrange", 4, LOCKED, ONE, lists::lrange, "Elements by their indexes."),
    data("list", "lrem", 4, WRITE, ONE, lists::lrem, "Removes elements that are equal to one."),
    data("list", "lset", 4, WRITE | KEEPS, ONE, lists::lset, "Replaces an element."),
    data("list", "ltrim", 4, WRITE, ONE, lists::ltrim, "Keeps elements by their indexes."),
    data("list", "rpop", -2, WRITE | FAST | KEEPS, ONE, lists::rpop, "The last elements, which are removed."),
    data("list", "rpoplpush", 3, WRITE, TWO, lists::rpoplpush, "Moves the last element to the beginning of another list."),
    data("list", "rpush", -3, WRITE | FAST | KEEPS, ONE, lists::rpush, "Adds elements at the end."),
    data("list", "rpushx", -3, WRITE | FAST | KEEPS, ONE, lists::rpushx, "Adds elements at the end if there is a list."),
];

#[rustfmt::skip]
static SORTED: &[CommandSpec] = &[
    data("sorted-set", "zadd", -4, WRITE | FAST | KEEPS, ONE, sorted::zadd, "Adds members with scores."),
    data("sorted-set", "zcard", 2, FAST | KEEPS, ONE, sorted::zcard, "How many members there are."),
    data("sorted-set", "zcount", 4, LOCKED | FAST, ONE, sorted::zcount, "How many members have scores of a range."),
    data("sorted-set", "zdiff", -3, LOCKED, numbered(1), sorted::zdiff, "The members of the first set that no other has."),
    data("sorted-set", "zdiffstore", -4, WRITE, stored(2), sorted::zdiff_store, "Stores the members of the first set that no other has."),
    data("sorted-set", "zincrby", 4, WRITE | FAST | KEEPS, ONE, sorted::zincr_by, "Adds to the score of a member."),
    data("sorted-set", "zinter", -3, LOCKED, numbered(1), sorted::zinter, "The members that all sets have."),
    data("sorted-set", "zintercard", -3, LOCKED, numbered(1), sorted::zintercard, "How many members all sets have."),
    data("sorted-set", "zinterstore", -4, WRITE, stored(2), sorted::zinter_store, "Stores the members that all sets have."),
    data("sorted-set", "zlexcount", 4, LOCKED | FAST, ONE, sorted::zlexcount, "How many members there are in a range of members."),
    data("sorted-set", "zmpop", -4, WRITE, numbered(1), key_count_arguments::zmpop, "Members from an end of the first set that has any, which are removed."),
    data("sorted-set", "zmscore", -3, LOCKED | FAST | KEEPS, ONE, sorted::zmscore, "The scores of members."),
    data("sorted-set", "zpopmax", -2, WRITE | FAST, ONE, sorted::zpopmax, "The last members, which are removed."),
    data("sorted-set", "zpopmin", -2, WRITE | FAST, ONE, sorted::zpopmin, "The first members, which are removed."),
    data("sorted-set", "zrandmember", -2, LOCKED, ONE, sorted::zrandmember, "Any members."),
    data("sorted-set", "zrange", -4, LOCKED, ONE, sorted::zrange, "Members by their indexes, scores, or order."),
    data("sorted-set", "zrangebylex", -4, LOCKED, ONE, sorted::zrange_by_lex, "Members of a range of members."),
    data("sorted-set", "zrangebyscore", -4, LOCKED, ONE, sorted::zrange_by_score, "Members with scores of a range."),
    data("sorted-set", "zrangestore", -5, WRITE, TWO, sorted::zrange_store, "Stores members by their indexes, scores, or order."),
    data("sorted-set", "zrank", 3, LOCKED | FAST, ONE, sorted::zrank, "The index of a member."),
    data("sorted-set", "zrem", -3, WRITE | FAST | KEEPS, ONE, sorted::zrem, "Removes members."),
    data("sorted-set", "zremrangebylex", 4, WRITE, ONE, sorted::zrem_range_by_lex, "Removes members of a range of members."),
    data("sorted-set", "zremrangebyrank", 4, WRITE, ONE, sorted::zrem_range_by_rank, "Removes members by their indexes."),
    data("sorted-set", "zremrangebyscore", 4, WRITE, ONE, sorted::zrem_range_by_score, "Removes members with scores of a range."),
    data("sorted-set", "zrevrange", -4, LOCKED, ONE, sorted::zrev_range, "Members by their indexes from the end."),
    data("sorted-set", "zrevrangebylex", -4, LOCKED, ONE, sorted::zrev_range_by_lex, "Members of a range of members, in reverse order."),
    data("sorted-set", "zrevrangebyscore", -4, LOCKED, ONE, sorted::zrev_range_by_score, "Members with scores of a range, in reverse order."),
    data("sorted-set", "zrevrank", 3, LOCKED | FAST, ONE, sorted::zrev_rank, "The index of a member from the end."),
    data("sorted-set", "zscan", -3, LOCKED, ONE, sorted::zscan, "Some members with scores, and where to go on."),
    data("sorted-set", "zscore", 3, LOCKED | FAST | KEEPS, ONE, sorted::zscore, "The score of a member."),
    data("sorted-set", "zunion", -3, LOCKED, numbered(1), sorted::zunion, "The members that any set has."),
    data("sorted-set", "zunionstore", -4, WRITE, stored(2), sorted::zunion_store, "Stores the members that any set has."),
];

#[rustfmt::skip]
static SERVER: &[CommandSpec] = &[
    session("server", "acl", -2, ADMIN, acl::acl, "Users, and what they may do."),
    session("connection", "auth", -2, STRANGER | FAST, connection::auth, "Says who the client is."),
    session("connection", "client", -2, 0, clients::client, "What is known of connections."),
    session("connection", "echo", 2, FAST, connection::echo, "What was sent."),
    session("connection", "hello", -1, STRANGER | FAST, connection::hello, "Chooses the version of the protocol."),
    session("connection", "ping", -1, FAST, connection::ping, "PONG, or what was sent."),
    session("connection", "quit", -1, STRANGER | IN_MULTI | FAST, connection::quit, "Ends the connection."),
    session("connection", "reset", 1, STRANGER | IN_MULTI | FAST, connection::reset, "Makes the connection as good as new."),
    session("connection", "select", 2, FAST, connection::select, "Chooses a database."),
    session("server", "bgsave", -1, ADMIN, saving::bgsave, "Makes a backup in the background."),
    session("server", "command", -1, 0, describe::command, "What commands there are."),
    session("server", "config", -2, ADMIN, admin::config, "Reads and changes settings."),
    session("server", "debug", -2, ADMIN, admin::debug, "Sleeps, for tests."),
    session("server", "latency", -2, ADMIN, latency::latency, "How long commands took."),
    session("server", "lolwut", -1, FAST, small::lolwut, "A picture, and the version."),
    CommandSpec { keys: (2, 2, 1), ..session("server", "memory", -2, 0, memory::memory, "What takes how much memory.") },
    session("server", "module", -2, ADMIN, small::module, "Modules, of which there are none."),
    session("server", "monitor", 1, ADMIN | NOT_IN_MULTI, monitor_commands::monitor, "Shows every command that is executed."),
    session("server", "role", 1, FAST, small::role, "That this server is a master without replicas."),
    session("server", "shutdown", -1, ADMIN | NOT_IN_MULTI, monitor_commands::shutdown, "Ends the server."),
    session("generic", "wait", 3, 0, small::wait, "How many replicas have everything: none."),
    session("server", "info", -1, 0, info::info, "What the server is doing, in numbers."),
    session("server", "lastsave", 1, FAST | ADMIN, saving::lastsave, "When the last backup was made."),
    session("server", "save", 1, ADMIN | NOT_IN_MULTI, saving::save, "Makes a backup."),
    session("server", "slowlog", -2, ADMIN, admin::slowlog, "Commands that took long."),
    session("server", "time", 1, FAST, admin::time, "The time."),
    session("transactions", "abort", 1, NOT_IN_MULTI | FAST, interactive::abort, "Ends a transaction: nothing of it is written."),
    session("transactions", "begin", -1, NOT_IN_MULTI | FAST, interactive::begin, "Begins a transaction of what follows until COMMIT."),
    session("transactions", "commit", 1, NOT_IN_MULTI, interactive::commit, "Writes all of a transaction, or nothing if it met a conflict."),
    session("transactions", "discard", 1, IN_MULTI | FAST, transactions::discard, "Forgets what was queued since MULTI."),
    session("transactions", "exec", 1, IN_MULTI | UNSEEN, transactions::exec, "Executes what was queued since MULTI, all or nothing."),
    session("transactions", "multi", 1, IN_MULTI | FAST, transactions::multi, "Queues what follows."),
    session("transactions", "unwatch", 1, FAST, transactions::unwatch, "Forgets all watches."),
    with_keys(ALL_KEYS, &session("transactions", "watch", -2, IN_MULTI | FAST, transactions::watch, "Lets EXEC fail if a key is written to before.")),
];

/// All commands with their indexes, and the names under which calls are counted.
static NUMBERED: LazyLock<(Vec<CommandSpec>, Vec<String>)> = LazyLock::new(|| {
    let tables = [STRINGS, KEYS, HASHES, SETS, LISTS, SORTED, SERVER];
    let mut commands: Vec<CommandSpec> = tables.into_iter().flatten().copied().collect();
    let mut names: Vec<String> = commands.iter().map(|command| command.name.to_owned()).collect();
    for (index, command) in commands.iter_mut().enumerate() {
        command.index = index as u16;
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

/// Returns the names under which calls are counted, by index.
pub(crate) fn counted_names() -> &'static [String] {
    &NUMBERED.1
}

#[cfg(test)]
mod tests {
    use crate::protocol::resp::{ParsedRequests, RequestLimits, RequestParser};
    use crate::redis::names::find;

    fn keys_of(line: &str) -> Vec<String> {
        let mut buffer = format!("{line}\r\n").into_bytes();
        let mut requests = ParsedRequests::default();
        let limits = RequestLimits {
            bytes: 1000,
            argument: 1000,
            arguments: 100,
            line: 1000,
        };
        RequestParser::default()
            .parse(&mut buffer, &mut requests, &limits, 1)
            .unwrap();
        let args = requests.get(0, &buffer);
        let command = find(args.at(0)).unwrap();
        let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
        let (keys, mut each) = (command.keys(args).map(text).collect(), Vec::new());
        command.each_key(args, |key| each.push(text(key)));
        assert_eq!(each, keys, "{line}");
        keys
    }

    #[test]
    fn keys_are_found_among_the_arguments() {
        assert_eq!(keys_of("SET a 1 EX 5"), ["a"]);
        assert_eq!(keys_of("MSET a 1 b 2"), ["a", "b"]);
        assert_eq!(keys_of("DEL a b c"), ["a", "b", "c"]);
        assert_eq!(keys_of("RENAME a b"), ["a", "b"]);
        assert_eq!(keys_of("OBJECT ENCODING a"), ["a"]);
        assert_eq!(keys_of("OBJECT HELP"), [""; 0]);
        assert_eq!(keys_of("PING a"), [""; 0]);
        assert_eq!(keys_of("ZUNION 2 a b WITHSCORES"), ["a", "b"]);
        assert_eq!(keys_of("ZUNIONSTORE to 1 a WEIGHTS 2"), ["to", "a"]);
        assert_eq!(keys_of("ZUNION 9 a b"), [""; 0]);
        assert_eq!(keys_of("ZUNION -1 a b"), [""; 0]);
        assert_eq!(keys_of("LMPOP x a LEFT"), [""; 0]);
        assert_eq!(keys_of("SORT a BY w_* STORE x STORE b"), ["a", "b"]);
        assert_eq!(keys_of("SORT a BY STORE GET STORE"), ["a"]);
    }
}
