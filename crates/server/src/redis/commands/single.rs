//! Commands on replication, clusters, files and functions, as a single server without them answers.

use crate::error::{CommandError, CommandResult};
use crate::net::wait_hooks;
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::{integer, is};
use crate::redis::session::RedisSession;
use std::borrow::Cow;

const NO_CLUSTER: CommandError = CommandError::say("ERR This instance has cluster support disabled");

pub(crate) fn cluster(
    _session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    if !args.is(1, "HELP") {
        return Err(NO_CLUSTER);
    }
    let lines = [
        "CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "(all) -- return an error, because this server is not part of a cluster.",
        "HELP -- prints this help.",
    ];
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.simple(line));
    Ok(())
}

/// The commands ASKING, READONLY and READWRITE.
pub(crate) fn of_cluster(
    _session: &mut RedisSession,
    _args: Args<'_>,
    _reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    Err(NO_CLUSTER)
}

/// The commands REPLICAOF and SLAVEOF.
pub(crate) fn replica_of(
    _session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    if is(args.at(1), "NO") && is(args.at(2), "ONE") {
        reply.ok();
        return Ok(());
    }
    let port = integer(args.at(2)).ok().and_then(|port| u16::try_from(port).ok());
    if port.is_none() {
        return Err(CommandError::say("ERR Invalid master port"));
    }
    Err(CommandError::say(
        "ERR this server cannot be a replica; REPLICAOF accepts NO ONE only",
    ))
}

pub(crate) fn failover(
    _session: &mut RedisSession,
    args: Args<'_>,
    _reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    Err(match args.is(1, "ABORT") {
        true => CommandError::say("ERR No failover in progress."),
        false => CommandError::say("ERR FAILOVER requires connected replicas."),
    })
}

/// The command BGREWRITEAOF. A checkpoint makes the log short.
pub(crate) fn bgrewriteaof(
    session: &mut RedisSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    wait_hooks::about_to_wait();
    session.shared.store.db.checkpoint()?;
    reply.simple("Background append only file rewriting started");
    Ok(())
}

/// Parses the number of replicas and the timeout of WAIT and WAITAOF, which need no waiting: there
/// are no replicas.
fn check_wait(count: &[u8], timeout: &[u8]) -> Result<i64, CommandError> {
    let count = integer(count)?;
    let timeout =
        integer(timeout).map_err(|_| CommandError::say("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(CommandError::say("ERR timeout is negative"));
    }
    Ok(count)
}

/// The WAIT command. It replies immediately, because there are no replicas.
pub(crate) fn wait(
    _session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    check_wait(args.at(1), args.at(2))?;
    reply.integer(0);
    Ok(())
}

/// The WAITAOF command. Its reply is sent once all writes of the server are on the disk.
pub(crate) fn waitaof(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let local = integer(args.at(1))?;
    if !(0..=1).contains(&local) {
        return Err(CommandError::Refused(Cow::Borrowed(
            "ERR value is out of range, must be between 0 and 1",
        )));
    }
    check_wait(args.at(2), args.at(3))?;
    session.wants_sync = true;
    reply.array(2);
    reply.integer(1);
    reply.integer(0);
    Ok(())
}

/// The commands FCALL and `FCALL_RO`.
pub(crate) fn fcall(
    _session: &mut RedisSession,
    _args: Args<'_>,
    _reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    Err(CommandError::say("ERR Function not found"))
}

pub(crate) fn function(
    _session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let verb = args.at(1).to_ascii_uppercase();
    match &verb[..] {
        b"FLUSH" => reply.ok(),
        b"LIST" => reply.array(0),
        b"KILL" => return Err(CommandError::say("NOTBUSY No scripts in execution right now.")),
        b"STATS" => {
            reply.map(2);
            reply.bulk(b"running_script");
            reply.null();
            reply.bulk(b"engines");
            reply.map(0);
        }
        b"HELP" => {
            let lines = [
                "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "FLUSH [ASYNC|SYNC] -- does nothing, because there are no functions.",
                "LIST -- returns an empty list, because there are no functions.",
                "HELP -- prints this help.",
            ];
            reply.array(lines.len());
            lines.iter().for_each(|line| reply.simple(line));
        }
        _ => {
            return Err(CommandError::say(
                "ERR this server does not support functions; send scripts by EVAL",
            ));
        }
    }
    Ok(())
}
