//! Scripts in Lua 5.1: EVAL, EVALSHA and SCRIPT.
//!
//! *Scope*: interpreters, their libraries and what ends a script; the cache of scripts; the locks
//! under which a script runs; the conversion of replies and Lua values.
//!
//! *Must not depend on*: sockets, the encoding of types in keys.
//!
//! A script runs in one transaction, which commits at its end. It begins with the locks of the
//! keys that it declares. When it names another key, it is ended, and runs again with the lock of
//! that key too; after some attempts, with the locks of all keys. Nothing of an ended run is
//! visible, so a script can always be ended.
//!
//! Invariants:
//!
//! - **S35** A script reads and writes only keys that are locked until its commit is visible,
//!   except that commands which walk over all keys read them as they do outside of scripts.
//! - **S36** A script that is ended has written nothing. A script that fails by an error keeps what
//!   it has written before, as in Redis.

mod bit;
mod cache;
mod context;
mod engine;
mod json;
mod msgpack;
mod numbers;
mod packing;
mod run;
mod script_command;
mod values;

pub(crate) use cache::{LentEngine, ScriptRegistry};
pub(super) use run::lend;
pub(crate) use run::{ScriptLocks, eval, eval_alone};
pub(super) use script_command::script;
