//! The handlers of the Redis commands, with one file or folder per command family.
//!
//! *Scope*: for each command, its arguments, its reads and writes, and its reply.
//!
//! *Must not depend on*: how commands are found, checked and executed together (`redis/`).

pub(crate) mod acl;
pub(crate) mod admin;
pub(crate) mod bitfield;
pub(crate) mod bits;
pub(crate) mod blocking;
pub(crate) mod clients;
pub(crate) mod connection;
pub(crate) mod describe;
pub(crate) mod draw;
pub(crate) mod expiry;
pub(crate) mod foreign_settings;
pub(crate) mod hashes;
pub(crate) mod info;
pub(crate) mod interactive;
pub(crate) mod key_count_arguments;
pub(crate) mod keys;
pub(crate) mod latency;
pub(crate) mod limits;
pub(crate) mod lists;
pub(crate) mod memory;
pub(crate) mod monitor_commands;
pub(crate) mod ordered;
pub(crate) mod pubsub;
pub(crate) mod saving;
pub(crate) mod scan_commands;
pub(crate) mod set_operations;
pub(crate) mod sets;
pub(crate) mod single;
pub(crate) mod small;
pub(crate) mod sort;
pub(crate) mod sorted;
pub(crate) mod strings;
pub(crate) mod transactions;
