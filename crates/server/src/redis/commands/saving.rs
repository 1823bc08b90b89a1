//! BGSAVE, SAVE and LASTSAVE: backups into the directory set by `--backup-dir` or `CONFIG SET dir`.

use crate::error::Failure;
use crate::net::waits;
use crate::protocol::resp::{Args, Reply};
use crate::redis::backups::Backups;
use crate::redis::session::Session;
use std::borrow::Cow;
use std::sync::atomic::Ordering;

type Done = Result<(), Failure>;

pub(crate) fn save(session: &mut Session, _args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let turn = Backups::begin(&session.shared)?;
    waits::about_to_wait();
    turn.run()?;
    reply.ok();
    Ok(())
}

pub(crate) fn bgsave(session: &mut Session, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    if args.len() > 2 || (args.len() == 2 && !args.is(1, "SCHEDULE")) {
        return Err(Failure::SYNTAX);
    }
    let turn = Backups::begin(&session.shared)?;
    std::thread::Builder::new()
        .name("alluvium-save".to_owned())
        // The outcome is recorded and logged by `run`.
        .spawn(move || drop(turn.run()))
        .map_err(|error| Failure::Refused(Cow::Owned(format!("ERR no thread for it: {error}"))))?;
    reply.simple("Background saving started");
    Ok(())
}

pub(crate) fn lastsave(session: &mut Session, _args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    reply.integer(session.shared.saved.load(Ordering::Relaxed) as i64);
    Ok(())
}
