//! The commands BGSAVE, SAVE and LASTSAVE. They write backups to the directory given with
//! `--backup-dir` or `CONFIG SET dir`.

use crate::error::{CommandError, CommandResult};
use crate::net::wait_hooks;
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::backups::BackupManager;
use crate::redis::session::RedisSession;
use std::borrow::Cow;
use std::sync::atomic::Ordering;

pub(crate) fn save(
    session: &mut RedisSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let turn = BackupManager::begin(&session.shared)?;
    wait_hooks::about_to_wait();
    turn.run()?;
    reply.ok();
    Ok(())
}

pub(crate) fn bgsave(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    if args.len() > 2 || (args.len() == 2 && !args.is(1, "SCHEDULE")) {
        return Err(CommandError::SYNTAX);
    }
    let turn = BackupManager::begin(&session.shared)?;
    std::thread::Builder::new()
        .name("alluvium-save".to_owned())
        // Ignore the result, because `run` stores and logs the outcome.
        .spawn(move || drop(turn.run()))
        .map_err(|error| {
            CommandError::Refused(Cow::Owned(format!(
                "ERR cannot start a thread for the backup: {error}"
            )))
        })?;
    reply.simple("Background saving started");
    Ok(())
}

pub(crate) fn lastsave(
    session: &mut RedisSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    reply.integer(session.shared.saved.load(Ordering::Relaxed) as i64);
    Ok(())
}
