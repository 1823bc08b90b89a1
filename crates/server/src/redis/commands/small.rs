//! Minor commands that client tools send: ROLE, MODULE and LOLWUT.

use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::session::RedisSession;
use crate::redis::subcommands::unknown_subcommand;

pub(crate) fn role(
    session: &mut RedisSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(session.shared.store.db.sequence() as i64);
    reply.array(0);
    Ok(())
}

pub(crate) fn module(
    _session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let verb = args.at(1).to_ascii_uppercase();
    match (&verb[..], args.len()) {
        (b"LIST", 2) => reply.array(0),
        (b"LOAD" | b"LOADEX" | b"UNLOAD", _) => {
            return Err(CommandError::say("ERR this server does not support modules"));
        }
        (b"HELP", 2) => {
            let lines = [
                "MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "LIST -- returns an empty list, because there are no modules.",
                "HELP -- prints this help.",
            ];
            reply.array(lines.len());
            lines.iter().for_each(|line| reply.simple(line));
        }
        _ => return Err(unknown_subcommand("module", args)),
    }
    Ok(())
}

/// The LOLWUT command. Draws layers of sediment from random numbers.
pub(crate) fn lolwut(
    _session: &mut RedisSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    const WIDTH: usize = 60;
    let mut text = String::new();
    for (depth, grain) in [" ", ".", ":", "~", "=", "%", "#"].iter().enumerate() {
        for _ in 0..WIDTH {
            let is_mixed = fastrand::usize(..8) < depth.min(3);
            text += if is_mixed { "." } else { grain };
        }
        text += "\n";
    }
    text += &format!(
        "\nAlluvium {}, as Redis ver. {}\n",
        env!("CARGO_PKG_VERSION"),
        super::info::REDIS_VERSION
    );
    reply.verbatim(&text);
    Ok(())
}
