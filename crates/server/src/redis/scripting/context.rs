//! What a running script can reach: the commands that it calls, within its locks and permissions.

use super::engine::{ScriptControl, ScriptEnd};
use super::numbers::general;
use super::values;
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, RespVersion};
use crate::redis::batch::ReplyDelivery;
use crate::redis::commands::keys;
use crate::redis::names;
use crate::redis::session::RedisSession;
use crate::redis::table::{CommandHandler, CommandSpec};
use crate::store::{CommandTransaction, WorkingMemory};
use mlua::{Error, Lua, Value};
use std::borrow::Cow;

/// What a running script can reach.
pub(super) struct ScriptContext<'a, 's> {
    pub(super) session: &'a mut RedisSession,
    pub(super) transaction: &'a mut CommandTransaction<'s>,
    pub(super) control: &'a ScriptControl,
    /// The database that the script has selected.
    pub(super) database: u8,
    pub(super) working: WorkingMemory<'s>,
    /// The bytes of the transaction before the script, and what is charged for it.
    pub(super) before: usize,
    pub(super) charged: usize,
    /// The version in which commands reply to the script.
    pub(super) version: RespVersion,
    pub(super) is_readonly: bool,
    pub(super) failure: Option<CommandError>,
}

/// Returns the words of a command, or `None` if one is neither a string nor a number.
fn words(values: &[Value]) -> Option<Vec<Vec<u8>>> {
    let word = |value: &Value| match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(number.to_string().into_bytes()),
        Value::Number(number) => Some(general(*number, 17).into_bytes()),
        _ => None,
    };
    values.iter().map(word).collect()
}

/// Joins words to one buffer with their places.
fn join(words: &[Vec<u8>]) -> (Vec<u8>, Vec<(usize, usize)>) {
    let (mut bytes, mut places) = (Vec::new(), Vec::with_capacity(words.len()));
    for word in words {
        places.push((bytes.len(), bytes.len() + word.len()));
        bytes.extend_from_slice(word);
    }
    (bytes, places)
}

/// Returns whether a command on the connection or the server may be called by scripts.
fn is_for_scripts(command: &CommandSpec) -> bool {
    match command.action {
        CommandHandler::Data(_) => true,
        CommandHandler::Script(_) => false,
        CommandHandler::Session(_) => matches!(
            command.name,
            "command"
                | "echo"
                | "info"
                | "lastsave"
                | "lolwut"
                | "memory"
                | "ping"
                | "pubsub"
                | "role"
                | "select"
                | "time"
        ),
    }
}

impl ScriptContext<'_, '_> {
    pub(super) fn set_version(&mut self, number: i64) -> mlua::Result<()> {
        self.version = match number {
            2 => RespVersion::Two,
            3 => RespVersion::Three,
            _ => return Err(Error::runtime("RESP version must be 2 or 3.")),
        };
        Ok(())
    }

    pub(super) fn is_allowed(&mut self, values: &[Value]) -> mlua::Result<bool> {
        let words = words(values).ok_or_else(|| Error::runtime("arguments must be strings or integers"))?;
        let (bytes, places) = join(&words);
        let args = Args::new(&bytes, &places);
        let command = words.first().and_then(|name| names::find(name));
        let command =
            command.ok_or_else(|| Error::runtime("Invalid command passed to redis.acl_check_cmd()"))?;
        Ok(self.session.permit(command, args).is_ok())
    }

    /// Calls a command. Returns its reply, and whether it is an error.
    pub(super) fn call(&mut self, lua: &Lua, values: &[Value]) -> mlua::Result<(Value, bool)> {
        let reply = match words(values) {
            None => Err(Cow::Borrowed(
                "ERR Lua redis lib command arguments must be strings or integers",
            )),
            Some(words) if words.is_empty() => Err(Cow::Borrowed(
                "ERR Please specify at least one argument for this redis lib call",
            )),
            Some(words) => self.execute(&words),
        };
        let (value, has_failed) = match reply {
            Ok(bytes) => values::from_reply(lua, &bytes)?,
            Err(text) => {
                let table = lua.create_table()?;
                table.raw_set("err", &*text)?;
                (Value::Table(table), true)
            }
        };
        if has_failed
            && let Value::Table(table) = &value
            && let Some(Some(line)) = lua.inspect_stack(2, |debug| debug.current_line())
        {
            table.raw_set("line", line)?;
            table.raw_set("source", "@user_script")?;
        }
        Ok((value, has_failed))
    }

    fn execute(&mut self, words: &[Vec<u8>]) -> Result<Vec<u8>, Cow<'static, str>> {
        if self.control.is_ending() {
            return Err(Cow::Borrowed("ERR the script is being ended"));
        }
        let (bytes, places) = join(words);
        let args = Args::new(&bytes, &places);
        let command = names::find(args.at(0)).ok_or("ERR Unknown Redis command called from script")?;
        if !command.takes(args.len()) {
            return Err(Cow::Borrowed(
                "ERR Wrong number of args calling Redis command from script",
            ));
        }
        command.check_subcommand(args)?;
        if !is_for_scripts(command) {
            return Err(Cow::Borrowed("ERR This Redis command is not allowed from script"));
        }
        let sends = matches!(command.name, "publish" | "spublish");
        if self.is_readonly && (command.writes() || sends) {
            return Err(Cow::Borrowed(
                "ERR Write commands are not allowed from read-only scripts.",
            ));
        }
        self.check_permission(command, args)?;
        if command.name == "select" {
            let database = keys::database(args.at(1)).map_err(|failure| failure.to_string())?;
            self.database = database;
            self.transaction.database = self.transaction.number_of(database);
            return Ok(b"+OK\r\n".to_vec());
        }
        if !self.has_locks(command, args) {
            self.control.end(ScriptEnd::Restarted);
            return Err(Cow::Borrowed("ERR the script runs again"));
        }
        self.apply(command, args)
    }

    fn check_permission(&self, command: &CommandSpec, args: Args<'_>) -> Result<(), Cow<'static, str>> {
        if self.session.identity.user.allows_all() {
            return Ok(());
        }
        let Err(denied) = self.session.permit(command, args) else {
            return Ok(());
        };
        self.session.note_denied(&denied);
        Err(Cow::Borrowed(match denied.is_of_command() {
            true => "NOPERM The user executing the script can't run this command or subcommand",
            false => {
                "NOPERM The user executing the script can't access at least one of the keys mentioned in the command \
                 arguments"
            }
        }))
    }

    /// Returns whether the locks of the keys of a command are held. Otherwise notes those that are
    /// missing.
    fn has_locks(&mut self, command: &CommandSpec, args: Args<'_>) -> bool {
        let Some(locks) = &mut self.session.script_locks else {
            return true;
        };
        if command.locks_all(args) || command.reaches_beyond(args, self.database) {
            locks.wants_all = true;
            return false;
        }
        let database = self.database;
        command.each_key(args, |key| {
            let place = (database, key.into());
            if !locks.held.contains(&place) {
                locks.missing.push(place);
            }
        });
        locks.missing.is_empty()
    }

    fn apply(&mut self, command: &'static CommandSpec, args: Args<'_>) -> Result<Vec<u8>, Cow<'static, str>> {
        let began = std::time::Instant::now();
        let mut output = Vec::new();
        let own = std::mem::replace(&mut self.session.settings.version, self.version);
        let applied = self
            .session
            .apply(command, args, self.transaction, &mut output, ReplyDelivery::Whole);
        self.session.settings.version = own;
        let counted_as = command.counted_as(args);
        self.session
            .shared
            .tally
            .of(counted_as)
            .called(1, began.elapsed());
        let charged = applied.and_then(|_| self.charge());
        if let Err(failure) = charged {
            let text = failure.to_string();
            self.failure = Some(failure);
            self.control.end(ScriptEnd::Failed);
            return Err(Cow::Owned(text));
        }
        Ok(output)
    }

    /// Charges what the script has written so far.
    fn charge(&mut self) -> CommandResult {
        let written = self.transaction.bytes().saturating_sub(self.before);
        if self.transaction.bytes() > self.session.shared.config.limits.transaction {
            return Err(CommandError::say("ERR transaction exceeds the limit of its size"));
        }
        self.working.add(written.saturating_sub(self.charged))?;
        self.charged = self.charged.max(written);
        Ok(())
    }
}
