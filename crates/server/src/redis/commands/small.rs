//! Minor commands that tools send: ROLE, WAIT, MODULE, LOLWUT.

use crate::error::Failure;
use crate::protocol::resp::{Args, Reply};
use crate::redis::args::integer;
use crate::redis::session::Session;
use crate::redis::subcommands::unknown_subcommand;

type Done = Result<(), Failure>;

pub(crate) fn role(session: &mut Session, _args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(session.shared.store.db.sequence() as i64);
    reply.array(0);
    Ok(())
}

/// There are no replicas, so WAIT returns at once.
pub(crate) fn wait(_session: &mut Session, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    integer(args.at(1))?;
    let timeout =
        integer(args.at(2)).map_err(|_| Failure::say("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(Failure::say("ERR timeout is negative"));
    }
    reply.integer(0);
    Ok(())
}

pub(crate) fn module(_session: &mut Session, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let verb = args.at(1).to_ascii_uppercase();
    match (&verb[..], args.len()) {
        (b"LIST", 2) => reply.array(0),
        (b"LOAD" | b"LOADEX" | b"UNLOAD", _) => {
            return Err(Failure::say("ERR this server takes no modules"));
        }
        (b"HELP", 2) => {
            let lines = [
                "MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "LIST -- the modules: none.",
                "HELP -- this text.",
            ];
            reply.array(lines.len());
            lines.iter().for_each(|line| reply.simple(line));
        }
        _ => return Err(unknown_subcommand("module", args)),
    }
    Ok(())
}

/// Layers of sediment, drawn from random numbers.
pub(crate) fn lolwut(_session: &mut Session, _args: Args<'_>, reply: &mut Reply<'_>) -> Done {
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
