//! Runs scripts: their arguments, their locks, and the commands that they call.

use super::cache::{ScriptFlags, ScriptSource};
use super::context::ScriptContext;
use super::engine::{ScriptEnd, ScriptEngine, digest_of, message, message_of};
use super::{LentEngine, values};
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter, RespVersion};
use crate::redis::args::integer;
use crate::redis::session::RedisSession;
use crate::store::{CommandTransaction, KeyLockGuard, KeyLockRequest, Mode, ServerStore, WorkingMemory};
use mlua::{Function, Lua, Table, Value, Variadic};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Number of runs of a script with the locks of the keys that it has named. Then it runs with the
/// locks of all keys. Not a tuning parameter.
const MOST_RUNS: usize = 4;

/// A key with the number that clients use for its database.
pub(super) type LockedKey = (u8, Box<[u8]>);

/// The locks under which a script runs, if not those of all keys.
pub(crate) struct ScriptLocks {
    pub(super) held: BTreeSet<LockedKey>,
    /// The keys that the script has named without their locks.
    pub(super) missing: Vec<LockedKey>,
    pub(super) wants_all: bool,
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

pub(super) fn refused(text: String) -> CommandError {
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
pub(super) fn read_script(digest: String, text: &[u8]) -> Result<Arc<ScriptSource>, CommandError> {
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
