//! Runs scripts: their arguments, their locks, and the commands that they call.

use super::cache::{ScriptFlags, ScriptSource};
use super::engine::{ScriptControl, ScriptEnd, ScriptEngine, digest_of, message, message_of};
use super::numbers::general;
use super::{LentEngine, values};
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter, RespVersion};
use crate::redis::args::integer;
use crate::redis::batch::ReplyDelivery;
use crate::redis::commands::keys;
use crate::redis::names;
use crate::redis::session::RedisSession;
use crate::redis::subcommands::unknown_subcommand;
use crate::redis::table::{CommandHandler, CommandSpec};
use crate::store::{CommandTransaction, KeyLockGuard, KeyLockRequest, Mode, ServerStore, WorkingMemory};
use mlua::{Error, Function, Lua, Table, Value, Variadic};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Number of runs of a script with the locks of the keys that it has named. Then it runs with the
/// locks of all keys. Not a tuning parameter.
const MOST_RUNS: usize = 4;

/// A key with the number that clients use for its database.
type LockedKey = (u8, Box<[u8]>);

/// The locks under which a script runs, if not those of all keys.
pub(crate) struct ScriptLocks {
    held: BTreeSet<LockedKey>,
    /// The keys that the script has named without their locks.
    missing: Vec<LockedKey>,
    wants_all: bool,
}

/// A call of EVAL or a similar command.
struct ScriptCall<'a> {
    script: Arc<ScriptSource>,
    keys: Args<'a>,
    key_count: usize,
    is_readonly: bool,
}

/// How a run of a script has ended.
enum ScriptOutcome {
    /// The reply is written.
    Done,
    /// The script runs again with more locks.
    Restart,
}

fn refused(text: String) -> CommandError {
    CommandError::Refused(Cow::Owned(text))
}

impl<'a> ScriptCall<'a> {
    fn read(session: &RedisSession, args: Args<'a>) -> Result<ScriptCall<'a>, CommandError> {
        let name = args.at(0).to_ascii_lowercase();
        let key_count = integer(args.at(2))?;
        if key_count > args.len() as i64 - 3 {
            return Err(CommandError::say(
                "ERR Number of keys can't be greater than number of args",
            ));
        }
        let key_count = usize::try_from(key_count)
            .map_err(|_| CommandError::say("ERR Number of keys can't be negative"))?;
        let script = match name.starts_with(b"evalsha") {
            true => {
                let digest = String::from_utf8_lossy(args.at(1)).to_ascii_lowercase();
                session
                    .shared
                    .scripts
                    .find(&digest)
                    .ok_or(CommandError::say("NOSCRIPT No matching script. Please use EVAL."))?
            }
            false => {
                let digest = digest_of(args.at(1));
                match session.shared.scripts.find(&digest) {
                    Some(script) => script,
                    None => read_script(digest, args.at(1))?,
                }
            }
        };
        Ok(ScriptCall {
            is_readonly: name.ends_with(b"_ro") || script.flags.is_readonly,
            script,
            keys: args.from(3),
            key_count,
        })
    }
}

/// Reads the first line of a script, which may state its flags.
fn read_script(digest: String, text: &[u8]) -> Result<Arc<ScriptSource>, CommandError> {
    let mut flags = ScriptFlags::default();
    let mut body = text;
    if let Some(rest) = text.strip_prefix(b"#!") {
        let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        let mut words = line.split_whitespace();
        let engine = words.next().unwrap_or_default();
        if !engine.eq_ignore_ascii_case("lua") {
            return Err(refused(format!(
                "ERR Unexpected engine in script shebang: {engine}"
            )));
        }
        for word in words {
            let Some(list) = word.strip_prefix("flags=") else {
                return Err(refused(format!("ERR Unknown lua shebang option: {word}")));
            };
            for flag in list.split(',').filter(|flag| !flag.is_empty()) {
                match flag {
                    "no-writes" => flags.is_readonly = true,
                    "allow-oom" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                    _ => return Err(refused(format!("ERR Unexpected flag in script shebang: {flag}"))),
                }
            }
        }
        // The end of the line stays, so that errors have the right number of their line.
        body = &rest[end..];
    }
    Ok(Arc::new(ScriptSource {
        digest: digest.into(),
        text: body.into(),
        flags,
    }))
}

/// Runs EVAL or a similar command in a transaction of its own.
pub(crate) fn eval_alone(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let call = ScriptCall::read(session, args)?;
    let shared = Arc::clone(&session.shared);
    session.engine = Some(lend(session)?);
    let refuses = std::mem::replace(&mut session.paging.refuses, true);
    let result = run_with_locks(session, &shared.store, &call, reply);
    (session.engine, session.script_locks, session.paging.refuses) = (None, None, refuses);
    session.ended_script = None;
    result
}

/// Takes an interpreter. The caller must hold no locks of keys.
pub(crate) fn lend(session: &RedisSession) -> Result<LentEngine, CommandError> {
    let lent = session.shared.scripts.lend();
    lent.map_err(|error| refused(format!("ERR cannot run scripts: {}", message_of(&error))))
}

fn run_with_locks(
    session: &mut RedisSession,
    store: &ServerStore,
    call: &ScriptCall<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let database = session.settings.database;
    let declared = call.keys.iter().take(call.key_count);
    let mut wanted: BTreeSet<LockedKey> = declared.map(|key| (database, key.into())).collect();
    let (mut wants_all, mut runs, start) = (false, 0, reply.position());
    loop {
        let mode = match call.is_readonly {
            true => Mode::Shared,
            false => Mode::Exclusive,
        };
        let held = lock(store, &wanted, wants_all, mode);
        let number = store.databases.number_of(database);
        let mut transaction = CommandTransaction::new(store, number);
        transaction.client = session.client.id;
        session.script_locks = (!wants_all).then(|| ScriptLocks {
            held: wanted.clone(),
            missing: Vec::new(),
            wants_all: false,
        });
        match run(session, &mut transaction, call, reply)? {
            ScriptOutcome::Done => {
                session.commit(&mut transaction, &held)?;
                return Ok(());
            }
            ScriptOutcome::Restart => {
                drop(transaction);
                reply.rewind(start);
                runs += 1;
                if let Some(locks) = session.script_locks.take() {
                    wants_all = locks.wants_all || runs >= MOST_RUNS;
                    wanted.extend(locks.missing);
                }
            }
        }
    }
}

fn lock<'s>(
    store: &'s ServerStore,
    keys: &BTreeSet<LockedKey>,
    wants_all: bool,
    mode: Mode,
) -> KeyLockGuard<'s> {
    loop {
        let numbers = store.databases.numbers();
        let mut wanted = KeyLockRequest::default();
        match wants_all {
            true => wanted.everything(),
            false => {
                for (database, key) in keys {
                    wanted.key(numbers[usize::from(*database)], key, mode);
                }
            }
        }
        let held = store.locks.lock(wanted);
        // If databases were swapped before the locks were acquired (S24), retry.
        if store.databases.numbers() == numbers {
            return held;
        }
    }
}

/// Runs EVAL or a similar command within a transaction that has the locks of all keys, or needs
/// none.
pub(crate) fn eval(
    session: &mut RedisSession,
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let call = ScriptCall::read(session, args)?;
    let is_own = session.engine.is_none();
    if is_own {
        session.engine = Some(lend(session)?);
    }
    let version = session.settings.version;
    let database = transaction.database;
    let result = run(session, transaction, &call, reply);
    transaction.database = database;
    session.settings.version = version;
    if is_own {
        session.engine = None;
    }
    match result? {
        ScriptOutcome::Done => Ok(()),
        ScriptOutcome::Restart => unreachable!("the script needs no further locks"),
    }
}

/// Runs a script once in a transaction, and writes its reply.
fn run(
    session: &mut RedisSession,
    transaction: &mut CommandTransaction<'_>,
    call: &ScriptCall<'_>,
    reply: &mut ReplyWriter<'_>,
) -> Result<ScriptOutcome, CommandError> {
    let mut lent = session.engine.take().expect("the caller has lent one");
    let result = run_in(&mut lent, session, transaction, call, reply);
    session.engine = Some(lent);
    result
}

fn run_in(
    lent: &mut LentEngine,
    session: &mut RedisSession,
    transaction: &mut CommandTransaction<'_>,
    call: &ScriptCall<'_>,
    reply: &mut ReplyWriter<'_>,
) -> Result<ScriptOutcome, CommandError> {
    let engine = lent.engine();
    let function = engine.compile(&call.script).map_err(|error| {
        refused(format!(
            "ERR Error compiling script (new function): {}",
            message_of(&error)
        ))
    })?;
    // A script that does not fit into the cache runs all the same.
    let _ = session.shared.scripts.add(&call.script, false);
    let control = Arc::clone(engine.control());
    control.begin(session.shared.scripts.time_limit());
    let version = session.settings.version;
    let context = RefCell::new(ScriptContext {
        database: session.settings.database,
        working: WorkingMemory::new(transaction.store),
        before: transaction.bytes(),
        charged: 0,
        session,
        transaction,
        control: &control,
        version: RespVersion::Two,
        is_readonly: call.is_readonly,
        failure: None,
    });
    let result = run_scoped(engine, &function, call, &context);
    let end = control.finish();
    let context = context.into_inner();
    context.transaction.settle();
    let (chosen, failure) = (context.version, context.failure);
    context.session.settings.version = version;
    match end {
        Some(ScriptEnd::Restarted) => return Ok(ScriptOutcome::Restart),
        Some(end) => {
            let why = match (end, failure) {
                (ScriptEnd::Failed, Some(failure)) => failure,
                _ => refused(end_text(context.session, end)),
            };
            context.session.ended_script = Some(why.to_string());
            return Err(why);
        }
        None => {}
    }
    write_result(result, &call.script, reply, chosen);
    Ok(ScriptOutcome::Done)
}

/// Runs a script with functions that reach the client and the transaction.
fn run_scoped(
    engine: &ScriptEngine,
    function: &Function,
    call: &ScriptCall<'_>,
    context: &RefCell<ScriptContext<'_, '_>>,
) -> mlua::Result<(bool, Value)> {
    engine.lua().scope(|scope| {
        let run_command =
            scope.create_function(|lua, words: Variadic<Value>| context.borrow_mut().call(lua, &words))?;
        engine.native().raw_set("call", run_command)?;
        let redis: Table = engine.native().raw_get("redis")?;
        let choose = scope.create_function(|_, number: i64| context.borrow_mut().set_version(number))?;
        redis.raw_set("setresp", choose)?;
        let check =
            scope.create_function(|_, words: Variadic<Value>| context.borrow_mut().is_allowed(&words))?;
        redis.raw_set("acl_check_cmd", check)?;
        let (keys, arguments) = tables(engine.lua(), call)?;
        engine.run(function, keys, arguments)
    })
}

/// Writes the reply of a script that has returned or failed.
fn write_result(
    result: mlua::Result<(bool, Value)>,
    script: &ScriptSource,
    reply: &mut ReplyWriter<'_>,
    version: RespVersion,
) {
    let start = reply.position();
    let written = match result {
        Ok((true, value)) => values::write_reply(&value, reply, version),
        Ok((false, failure)) => {
            reply.error(&error_text(&failure, script));
            Ok(())
        }
        Err(error) => Err(error),
    };
    if let Err(error) = written {
        reply.rewind(start);
        let text = message_of(&error);
        let has_code = text.split(' ').next().is_some_and(|word| word == "ERR");
        reply.error(&if has_code { text } else { format!("ERR {text}") });
    }
}

fn end_text(session: &RedisSession, end: ScriptEnd) -> String {
    match end {
        ScriptEnd::TimedOut => format!(
            "ERR the script has run for longer than busy-reply-threshold, {} ms, and nothing of it is written; do less \
             in one script, or raise the setting",
            session.shared.scripts.time_limit_ms()
        ),
        _ => "ERR Error running script: Script killed by user with SCRIPT KILL. Nothing of it is written."
            .to_owned(),
    }
}

/// Returns the tables KEYS and ARGV.
fn tables(lua: &Lua, call: &ScriptCall<'_>) -> mlua::Result<(Table, Table)> {
    let (keys, arguments) = (lua.create_table()?, lua.create_table()?);
    for (index, word) in call.keys.iter().enumerate() {
        let text = lua.create_string(word)?;
        match index < call.key_count {
            true => keys.raw_set(index + 1, text)?,
            false => arguments.raw_set(index + 1 - call.key_count, text)?,
        }
    }
    Ok((keys, arguments))
}

/// Returns the error reply for an error that a script has not caught.
fn error_text(failure: &Value, script: &ScriptSource) -> String {
    if let Value::Table(table) = failure
        && let Ok(Value::String(text)) = table.raw_get::<Value>("err")
    {
        let text = text.to_string_lossy();
        return match table.raw_get::<Value>("line") {
            Ok(Value::Integer(line)) => {
                format!("{text} script: {}, on @user_script:{line}.", script.digest)
            }
            _ => text,
        };
    }
    let text = message(failure);
    let line = text
        .strip_prefix("user_script:")
        .and_then(|rest| rest.split(':').next());
    match line {
        Some(line) => format!("ERR {text} script: {}, on @user_script:{line}.", script.digest),
        None => format!("ERR {text}"),
    }
}

/// What a running script can reach.
struct ScriptContext<'a, 's> {
    session: &'a mut RedisSession,
    transaction: &'a mut CommandTransaction<'s>,
    control: &'a ScriptControl,
    /// The database that the script has selected.
    database: u8,
    working: WorkingMemory<'s>,
    /// The bytes of the transaction before the script, and what is charged for it.
    before: usize,
    charged: usize,
    /// The version in which commands reply to the script.
    version: RespVersion,
    is_readonly: bool,
    failure: Option<CommandError>,
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
    fn set_version(&mut self, number: i64) -> mlua::Result<()> {
        self.version = match number {
            2 => RespVersion::Two,
            3 => RespVersion::Three,
            _ => return Err(Error::runtime("RESP version must be 2 or 3.")),
        };
        Ok(())
    }

    fn is_allowed(&mut self, values: &[Value]) -> mlua::Result<bool> {
        let words = words(values).ok_or_else(|| Error::runtime("arguments must be strings or integers"))?;
        let (bytes, places) = join(&words);
        let args = Args::new(&bytes, &places);
        let command = words.first().and_then(|name| names::find(name));
        let command =
            command.ok_or_else(|| Error::runtime("Invalid command passed to redis.acl_check_cmd()"))?;
        Ok(self.session.permit(command, args).is_ok())
    }

    /// Calls a command. Returns its reply, and whether it is an error.
    fn call(&mut self, lua: &Lua, values: &[Value]) -> mlua::Result<(Value, bool)> {
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

/// The command SCRIPT.
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
