//! An interpreter of scripts, and what ends a script that runs for too long.

use super::cache::ScriptSource;
use super::{bit, json, msgpack, packing};
use mlua::{Error, Function, HookTriggers, Lua, LuaOptions, Result, StdLib, String, Table, Value, VmState};
use parking_lot::Mutex;
use ring::digest;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PRELUDE: &str = include_str!("prelude.lua");

/// Number of instructions after which the interpreter looks at the time. Not a tuning parameter.
const INSTRUCTIONS: u32 = 1000;

/// Maximum memory in bytes of an interpreter that is kept for another script, and maximum number of
/// compiled scripts in it. Not tuning parameters.
const MOST_KEPT_BYTES: usize = 1 << 20;
const MOST_FUNCTIONS: usize = 500;

/// Why a script is ended before it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptEnd {
    Killed,
    /// It has run for longer than `busy-reply-threshold`.
    TimedOut,
    /// It runs again with more locks.
    Restarted,
    /// A command has failed because of the store.
    Failed,
}

#[derive(Debug, Default)]
struct ControlState {
    is_running: bool,
    deadline: Option<Instant>,
    end: Option<ScriptEnd>,
}

/// The state of a script that other threads may end.
#[derive(Debug, Default)]
pub(super) struct ScriptControl {
    is_ending: AtomicBool,
    state: Mutex<ControlState>,
}

impl ScriptControl {
    pub(super) fn begin(&self, limit: Option<Duration>) {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        *self.state.lock() = ControlState {
            is_running: true,
            deadline,
            end: None,
        };
        self.is_ending.store(false, Ordering::Release);
    }

    /// Ends the script, unless something else ends it already.
    pub(super) fn end(&self, why: ScriptEnd) {
        self.state.lock().end.get_or_insert(why);
        self.is_ending.store(true, Ordering::Release);
    }

    /// Lets the script run for at most this time from now on.
    pub(super) fn shorten(&self, limit: Duration) {
        let mut state = self.state.lock();
        let deadline = Instant::now() + limit;
        state.deadline = Some(state.deadline.map_or(deadline, |known| known.min(deadline)));
    }

    /// Notes that the script has returned. Returns why it was ended, if it was.
    pub(super) fn finish(&self) -> Option<ScriptEnd> {
        let mut state = self.state.lock();
        state.is_running = false;
        state.end
    }

    /// Ends the script at another client's wish. Returns whether it runs.
    pub(super) fn kill(&self) -> bool {
        let is_running = self.state.lock().is_running;
        if is_running {
            self.end(ScriptEnd::Killed);
        }
        is_running
    }

    /// Returns whether the script is being ended, and ends it if its time is over.
    pub(super) fn is_ending(&self) -> bool {
        if self.is_ending.load(Ordering::Acquire) {
            return true;
        }
        let deadline = self.state.lock().deadline;
        let is_late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if is_late {
            self.end(ScriptEnd::TimedOut);
        }
        is_late
    }
}

/// A Lua interpreter with the libraries of scripts.
pub(super) struct ScriptEngine {
    lua: Lua,
    /// The functions of the server, of which `call` changes with each script.
    native: Table,
    run: Function,
    functions: HashMap<Box<str>, Function>,
    control: Arc<ScriptControl>,
    random: Arc<Mutex<fastrand::Rng>>,
}

impl ScriptEngine {
    pub(super) fn new() -> Result<ScriptEngine> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let control = Arc::new(ScriptControl::default());
        let random = Arc::new(Mutex::new(fastrand::Rng::with_seed(0)));
        let native = native(&lua, &control, &random)?;
        let run = lua.load(PRELUDE).set_name("@prelude").call(&native)?;
        let hook = Arc::clone(&control);
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS);
        lua.set_global_hook(triggers, move |_, _| match hook.is_ending() {
            true => Err(Error::runtime("the script is being ended")),
            false => Ok(VmState::Continue),
        })?;
        Ok(ScriptEngine {
            lua,
            native,
            run,
            functions: HashMap::new(),
            control,
            random,
        })
    }

    pub(super) fn lua(&self) -> &Lua {
        &self.lua
    }

    pub(super) fn native(&self) -> &Table {
        &self.native
    }

    pub(super) fn control(&self) -> &Arc<ScriptControl> {
        &self.control
    }

    pub(super) fn set_memory_limit(&self, bytes: usize) -> Result<()> {
        self.lua.set_memory_limit(bytes)?;
        Ok(())
    }

    /// Returns whether the interpreter occupies little memory, so that it may be kept.
    pub(super) fn is_small(&self) -> bool {
        self.functions.len() < MOST_FUNCTIONS && self.lua.used_memory() <= MOST_KEPT_BYTES
    }

    /// Compiles a script, or returns it if it is compiled.
    pub(super) fn compile(&mut self, script: &ScriptSource) -> Result<Function> {
        if let Some(function) = self.functions.get(&script.digest) {
            return Ok(function.clone());
        }
        let chunk = self.lua.load(&*script.text).set_name("@user_script");
        let function = chunk.set_mode(mlua::ChunkMode::Text).into_function()?;
        self.functions.insert(script.digest.clone(), function.clone());
        Ok(function)
    }

    /// Runs a script with its keys and arguments. Returns whether it has returned without an error,
    /// and its value or the error.
    pub(super) fn run(&self, script: &Function, keys: Table, arguments: Table) -> Result<(bool, Value)> {
        *self.random.lock() = fastrand::Rng::with_seed(0);
        self.run.call((script, keys, arguments))
    }
}

/// Returns the text of an error: its first line, without the stack.
pub(super) fn message(failure: &Value) -> std::string::String {
    match failure {
        Value::Error(error) => message_of(error),
        Value::String(text) => text.to_string_lossy(),
        other => format!("(error object is a {} value)", other.type_name()),
    }
}

/// Returns the text of an error: its first line, without the stack.
pub(super) fn message_of(error: &Error) -> std::string::String {
    let text = match error {
        Error::CallbackError { cause, .. } => return message_of(cause),
        Error::RuntimeError(text) | Error::MemoryError(text) => text.clone(),
        Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    text.lines().next().unwrap_or_default().to_owned()
}

/// Returns the SHA-1 digest of a text in lower-case hexadecimal digits.
pub(super) fn digest_of(text: &[u8]) -> std::string::String {
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text);
    let mut hex = std::string::String::with_capacity(40);
    for byte in digest.as_ref() {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// Returns the functions of the server that the prelude uses.
fn native(lua: &Lua, control: &Arc<ScriptControl>, random: &Arc<Mutex<fastrand::Rng>>) -> Result<Table> {
    let native = lua.create_table()?;
    native.set("bit", bit::library(lua)?)?;
    native.set("cjson", json::library(lua)?)?;
    native.set("cmsgpack", msgpack::library(lua)?)?;
    native.set("struct", packing::library(lua)?)?;
    native.set("redis", redis(lua)?)?;
    let ending = Arc::clone(control);
    let is_ending = lua.create_function(move |_, ()| Ok(ending.is_ending()))?;
    native.set("is_ending", is_ending)?;
    let message = |_: &Lua, failure: Value| Ok(message(&failure));
    native.set("message", lua.create_function(message)?)?;
    let started = Instant::now();
    let clock = lua.create_function(move |_, ()| Ok(started.elapsed().as_secs_f64()))?;
    native.set("clock", clock)?;
    // As in Redis, every script sees the same numbers.
    let generator = Arc::clone(random);
    let next = move |_: &Lua, (low, high): (Option<f64>, Option<f64>)| {
        let part = generator.lock().f64();
        let (low, high) = match (low, high) {
            (None, _) => return Ok(part),
            (Some(high), None) => (1.0, high.floor()),
            (Some(low), Some(high)) => (low.floor(), high.floor()),
        };
        if low > high {
            return Err(Error::runtime("bad argument to 'random' (interval is empty)"));
        }
        Ok((part * (high - low + 1.0)).floor() + low)
    };
    native.set("random", lua.create_function(next)?)?;
    let generator = Arc::clone(random);
    let seed = move |_: &Lua, seed: f64| {
        *generator.lock() = fastrand::Rng::with_seed(seed.to_bits());
        Ok(())
    };
    native.set("randomseed", lua.create_function(seed)?)?;
    Ok(native)
}

/// Returns the table `redis` without the functions that need a client.
fn redis(lua: &Lua) -> Result<Table> {
    let redis = lua.create_table()?;
    for (level, name) in ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"]
        .into_iter()
        .enumerate()
    {
        redis.set(name, level)?;
    }
    for (name, value) in [
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
    ] {
        redis.set(name, value)?;
    }
    redis.set("REDIS_VERSION", crate::redis::commands::info::REDIS_VERSION)?;
    redis.set("REDIS_VERSION_NUM", version_number())?;
    let sha1hex = |_: &Lua, text: String| Ok(digest_of(&text.as_bytes()));
    redis.set("sha1hex", lua.create_function(sha1hex)?)?;
    let error_reply = |lua: &Lua, text: String| {
        let table = lua.create_table()?;
        let bytes = text.as_bytes();
        let line = bytes.strip_prefix(b"-").unwrap_or(&bytes);
        let line = match line.contains(&b' ') {
            true => line.to_vec(),
            false => [b"ERR ", line].concat(),
        };
        table.raw_set("err", lua.create_string(line)?)?;
        Ok(table)
    };
    redis.set("error_reply", lua.create_function(error_reply)?)?;
    let status_reply = |lua: &Lua, text: String| {
        let table = lua.create_table()?;
        table.raw_set("ok", text)?;
        Ok(table)
    };
    redis.set("status_reply", lua.create_function(status_reply)?)?;
    let log = |_: &Lua, (level, text): (i64, String)| {
        let text = text.to_string_lossy();
        match level {
            0 => tracing::debug!(text, "a script"),
            1 | 2 => tracing::info!(text, "a script"),
            3 => tracing::warn!(text, "a script"),
            _ => return Err(Error::runtime("Invalid log level.")),
        }
        Ok(())
    };
    redis.set("log", lua.create_function(log)?)?;
    redis.set("set_repl", lua.create_function(|_, _: i64| Ok(()))?)?;
    redis.set("replicate_commands", lua.create_function(|_, ()| Ok(true))?)?;
    redis.set("breakpoint", lua.create_function(|_, ()| Ok(false))?)?;
    redis.set("debug", lua.create_function(|_, _: mlua::MultiValue| Ok(()))?)?;
    Ok(redis)
}

/// Returns the version of Redis that the server reports, in three bytes.
fn version_number() -> u32 {
    let parts = crate::redis::commands::info::REDIS_VERSION.split('.');
    parts.fold(0, |number, part| number << 8 | part.parse::<u32>().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns random bytes, which often look like the beginning of something valid.
    fn noise(random: &mut fastrand::Rng, letters: &[u8]) -> Vec<u8> {
        let byte = |random: &mut fastrand::Rng| match random.u8(..4) {
            0 => random.u8(..),
            _ => letters[random.usize(..letters.len())],
        };
        (0..random.usize(..40)).map(|_| byte(random)).collect()
    }

    #[test]
    fn no_input_makes_a_library_panic_and_what_is_packed_is_unpacked() {
        let engine = ScriptEngine::new().unwrap();
        engine.set_memory_limit(32 << 20).unwrap();
        let function = |library: &str, name: &str| {
            let library: Table = engine.native().get(library).unwrap();
            library.get::<Function>(name).unwrap()
        };
        let (decode, encode) = (function("cjson", "decode"), function("cjson", "encode"));
        let (unpack, pack) = (function("cmsgpack", "unpack"), function("cmsgpack", "pack"));
        let (read, write) = (function("struct", "unpack"), function("struct", "pack"));
        let size = function("struct", "size");
        let random = &mut fastrand::Rng::with_seed(64);
        let text = |bytes: &[u8]| engine.lua().create_string(bytes).unwrap();
        for round in 0..20_000 {
            let json = noise(random, b"[]{}\",:\\u0e1.-+ntrfalsue \t");
            if let Ok(value) = decode.call::<Value>(text(&json)) {
                let again: String = encode.call(&value).unwrap();
                let other: Value = decode.call(&again).unwrap();
                assert_eq!(encode.call::<String>(other).unwrap(), again, "round {round}");
            }
            let packed = noise(
                random,
                &[
                    0x81, 0x92, 0xA1, 0xC0, 0xC4, 0xCA, 0xCB, 0xD1, 0xD9, 0xDC, 0xDE, 1,
                ],
            );
            if let Ok(values) = unpack.call::<mlua::MultiValue>(text(&packed))
                && !values.is_empty()
            {
                let _: String = pack.call(values).unwrap();
            }
            let (format, bytes) = (
                noise(random, b"<>!bBhHlLTiIfdxcs0123489 "),
                noise(random, &[0, 1, 255]),
            );
            let _ = size.call::<Value>(text(&format));
            let at = random.i64(-2..9);
            if let Ok(mut values) = read.call::<mlua::MultiValue>((text(&format), text(&bytes), at)) {
                values.push_front(Value::String(text(&format)));
                let _ = write.call::<Value>(values);
            }
        }
    }
}
