//! The command SCRIPT.

use super::engine::{digest_of, message_of};
use super::run::{lend, read_script, refused};
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::session::RedisSession;
use crate::redis::subcommands::unknown_subcommand;
use std::sync::Arc;

pub(crate) fn script(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let scripts = Arc::clone(&session.shared.scripts);
    let verb = args.at(1).to_ascii_uppercase();
    match (&verb[..], args.len()) {
        (b"LOAD", 3) => {
            let script = read_script(digest_of(args.at(2)), args.at(2))?;
            let mut lent = lend(session)?;
            lent.engine().compile(&script).map_err(|error| {
                refused(format!(
                    "ERR Error compiling script (new function): {}",
                    message_of(&error)
                ))
            })?;
            scripts.add(&script, true).map_err(|full| {
                refused(format!(
                    "OOM the cache of scripts has no room: it has {} bytes; send SCRIPT FLUSH, or raise --client-memory \
                     (CONFIG SET maxmemory-clients)",
                    full.most
                ))
            })?;
            reply.bulk(script.digest.as_bytes());
        }
        (b"EXISTS", 3..) => {
            reply.array(args.len() - 2);
            for digest in args.from(2).iter() {
                let digest = String::from_utf8_lossy(digest).to_ascii_lowercase();
                reply.truth(scripts.has(&digest));
            }
        }
        (b"FLUSH", 2) => {
            scripts.flush();
            reply.ok();
        }
        (b"FLUSH", 3) if args.is(2, "SYNC") || args.is(2, "ASYNC") => {
            scripts.flush();
            reply.ok();
        }
        (b"FLUSH", _) => {
            return Err(CommandError::say(
                "ERR SCRIPT FLUSH only support SYNC|ASYNC option",
            ));
        }
        (b"KILL", 2) => {
            if !scripts.kill() {
                return Err(CommandError::say("NOTBUSY No scripts in execution right now."));
            }
            reply.ok();
        }
        (b"DEBUG", 3) => return Err(CommandError::say("ERR this server does not support SCRIPT DEBUG")),
        (b"HELP", 2) => {
            let lines = [
                "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "EXISTS <sha1> [<sha1> ...] -- returns whether scripts are cached.",
                "FLUSH [ASYNC|SYNC] -- forgets all scripts.",
                "KILL -- ends the scripts that run; nothing of them is written.",
                "LOAD <script> -- caches a script without running it, and returns its digest.",
                "HELP -- prints this help.",
            ];
            reply.array(lines.len());
            lines.iter().for_each(|line| reply.simple(line));
        }
        _ => return Err(unknown_subcommand("script", args)),
    }
    Ok(())
}
