//! The commands that a cache supports, and their handler functions.

use super::super::args::is;
use super::super::table::CommandSpec;
use super::session::CachedSession;
use super::string_store::{CachedTexts, fits};
use super::{connection, info, server};
use crate::cache::ItemCache;
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::commands::{expiry, keys, strings};
use alluvium::cache::MAX_KEY_BYTES;

/// The handler of a command on a cache's keys.
pub(super) type CachedStringHandler =
    fn(&mut CachedTexts<'_>, Args<'_>, &mut ReplyWriter<'_>) -> CommandResult;

/// The handler of a command on the connection, the server or the whole cache.
pub(super) type CachedSessionHandler =
    fn(&mut CachedSession, Args<'_>, &mut ReplyWriter<'_>) -> CommandResult;

/// Returns the handler of a command on strings, or `None` if a cache does not support the command
/// or it is of another kind.
pub(super) fn on_texts(name: &str) -> Option<CachedStringHandler> {
    Some(match name {
        "get" => |t, a, r| strings::get(t, a, r),
        "set" => |t, a, r| strings::set(t, a, r),
        "mget" => |t, a, r| strings::mget(t, a, r),
        "mset" => |t, a, r| strings::mset(t, a, r),
        "msetnx" => |t, a, r| strings::mset_nx(t, a, r),
        "del" | "unlink" => |t, a, r| keys::del(t, a, r),
        "exists" | "touch" => |t, a, r| keys::exists(t, a, r),
        "type" => |t, a, r| keys::type_of(t, a, r),
        "incr" => |t, a, r| strings::incr(t, a, r),
        "decr" => |t, a, r| strings::decr(t, a, r),
        "incrby" => |t, a, r| strings::incr_by(t, a, r),
        "decrby" => |t, a, r| strings::decr_by(t, a, r),
        "incrbyfloat" => |t, a, r| strings::incr_by_float(t, a, r),
        "append" => |t, a, r| strings::append(t, a, r),
        "strlen" => |t, a, r| strings::strlen(t, a, r),
        "getrange" | "substr" => |t, a, r| strings::get_range(t, a, r),
        "setrange" => |t, a, r| strings::set_range(t, a, r),
        "getset" => |t, a, r| strings::get_set(t, a, r),
        "getdel" => |t, a, r| strings::get_del(t, a, r),
        "getex" => |t, a, r| strings::get_ex(t, a, r),
        "setnx" => |t, a, r| strings::set_nx(t, a, r),
        "setex" => |t, a, r| strings::set_ex(t, a, r),
        "psetex" => |t, a, r| strings::pset_ex(t, a, r),
        "expire" => |t, a, r| expiry::expire(t, a, r),
        "pexpire" => |t, a, r| expiry::pexpire(t, a, r),
        "expireat" => |t, a, r| expiry::expire_at(t, a, r),
        "pexpireat" => |t, a, r| expiry::pexpire_at(t, a, r),
        "ttl" => |t, a, r| expiry::ttl(t, a, r),
        "pttl" => |t, a, r| expiry::pttl(t, a, r),
        "expiretime" => |t, a, r| expiry::expire_time(t, a, r),
        "pexpiretime" => |t, a, r| expiry::pexpire_time(t, a, r),
        "persist" => |t, a, r| expiry::persist(t, a, r),
        _ => return None,
    })
}

/// Returns the handler of a command on the connection, the server or the whole cache, or `None` if
/// a cache does not support the command or it is of another kind.
pub(super) fn on_session(name: &str) -> Option<CachedSessionHandler> {
    Some(match name {
        "ping" => connection::ping,
        "echo" => connection::echo,
        "auth" => connection::auth,
        "hello" => connection::hello,
        "select" => connection::select,
        "quit" => connection::quit,
        "reset" => connection::reset,
        "client" => connection::client,
        "command" => server::command,
        "config" => server::config,
        "dbsize" => server::size,
        "flushall" | "flushdb" => server::flush,
        "time" => server::time,
        "info" => info::info,
        _ => return None,
    })
}

/// Returns whether a cache supports the command `name`.
pub(super) fn has(name: &str) -> bool {
    on_texts(name).is_some() || on_session(name).is_some()
}

/// Rejects a command if any of its keys or values is too long for a cache, before the command
/// stores anything (S11).
pub(super) fn check(content: &ItemCache, command: &CommandSpec, args: Args<'_>) -> CommandResult {
    // An argument short enough for a key is also short enough for a value.
    if args.iter().all(|arg| arg.len() <= MAX_KEY_BYTES) {
        return Ok(());
    }
    for key in command.keys(args) {
        if key.len() > MAX_KEY_BYTES {
            return Err(CommandError::Refused(
                format!(
                    "ERR a key of {} bytes is too long: the maximum in cache mode is {MAX_KEY_BYTES} bytes",
                    key.len()
                )
                .into(),
            ));
        }
    }
    args.iter().try_for_each(|arg| fits(content, arg.len()))
}

/// Returns the error for a command that a cache does not support.
pub(super) fn unknown(name: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&name[..name.len().min(128)]);
    format!(
        "ERR unknown command '{shown}' in cache mode: `alluvium serve --cache` supports only strings and \
         their expiry (see COMMAND LIST); without --cache it supports the other types and stores them on \
         disk"
    )
}

/// Returns whether the first argument, the subcommand, equals `word`.
pub(super) fn verb(args: Args<'_>, word: &str) -> bool {
    is(args.at(1), word)
}
