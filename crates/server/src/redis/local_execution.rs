//! Executes commands without a connection, for the command-line interface. Uses the same command
//! table, locks and transactions as client connections.

use super::table::{self, CommandHandler, CommandSpec};
use super::{names, subcommands};
use crate::error::CommandError;
use crate::protocol::resp::{Args, ReplyWriter, RespVersion};
use crate::store::{CommandTransaction, KeyLockRequest, Mode, ServerStore};
use alluvium::WriteBatch;

/// A command with its arguments, stored as positions in one buffer.
struct PreparedCommand {
    command: &'static CommandSpec,
    run: table::DataHandler,
    bytes: Vec<u8>,
    places: Vec<(usize, usize)>,
}

impl PreparedCommand {
    fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.places)
    }
}

/// Executes commands in one commit, which also contains the changes that `also` adds, and returns
/// their replies. If a command is refused, commits nothing; the last reply is then the error.
pub(crate) fn execute(
    store: &ServerStore,
    database: u8,
    commands: &[Vec<Vec<u8>>],
    also: impl FnOnce(&mut WriteBatch) -> alluvium::Result<()>,
) -> Result<Vec<Vec<u8>>, CommandError> {
    let mut prepared = Vec::with_capacity(commands.len());
    for words in commands {
        match prepare(words, database) {
            Ok(command) => prepared.push(command),
            // Return empty replies for the preceding commands, because they are not executed.
            Err(text) => {
                let mut replies = vec![Vec::new(); prepared.len()];
                replies.push(error(&text));
                return Ok(replies);
            }
        }
    }
    let (held, number) = loop {
        let number = store.databases.number_of(database);
        let mut wanted = KeyLockRequest::default();
        for command in &prepared {
            if command.command.locks_all(command.args()) {
                wanted.everything();
            }
            for key in command.command.keys(command.args()) {
                wanted.key(number, key, Mode::Exclusive);
            }
        }
        let held = store.locks.lock(wanted);
        // If the database was swapped before the locks were acquired (S24), retry.
        if store.databases.number_of(database) == number {
            break (held, number);
        }
    };
    let mut transaction = CommandTransaction::new(store, number);
    let mut replies = Vec::with_capacity(prepared.len());
    for command in &prepared {
        let mut out = Vec::new();
        transaction.begin_command(command.command.event);
        let result = (command.run)(
            &mut transaction,
            command.args(),
            &mut ReplyWriter::new(&mut out, RespVersion::Two),
        );
        match result {
            Ok(()) => replies.push(out),
            Err(failure @ (CommandError::Refused(_) | CommandError::NoRoom { .. })) => {
                replies.push(error(&failure.to_string()));
                return Ok(replies);
            }
            Err(failure @ CommandError::Store(_)) => return Err(failure),
        }
    }
    transaction.commit_with(&held, also)?;
    Ok(replies)
}

fn error(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    ReplyWriter::new(&mut out, RespVersion::Two).error(text);
    out
}

/// Looks up a command and checks that it can run here: it must work on keys, have a valid number of
/// arguments, and change no database other than `database`.
fn prepare(words: &[Vec<u8>], database: u8) -> Result<PreparedCommand, String> {
    let (mut bytes, mut places) = (Vec::new(), Vec::with_capacity(words.len()));
    for word in words {
        places.push((bytes.len(), bytes.len() + word.len()));
        bytes.extend_from_slice(word);
    }
    let args = Args::new(&bytes, &places);
    let shown = String::from_utf8_lossy(&args.at(0)[..args.at(0).len().min(64)]).into_owned();
    let command = names::find(args.at(0)).ok_or_else(|| format!("ERR unknown command '{shown}'"))?;
    let CommandHandler::Data(run) = command.action else {
        return Err(format!(
            "ERR '{shown}' needs a connection to a server; only commands on keys can run here"
        ));
    };
    if !command.takes(args.len()) {
        return Err(super::args::wrong_number(command.name).to_string());
    }
    subcommands::check(command.name, args)?;
    if command.reaches_beyond(args, database) {
        return Err(format!(
            "ERR '{shown}' would change other databases than {database}, the selected one; leave it out, or \
             send it to a server"
        ));
    }
    Ok(PreparedCommand {
        command,
        run,
        bytes,
        places,
    })
}
