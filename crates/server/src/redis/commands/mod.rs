//! The functions of the commands of Redis, a file or folder for each family.
//!
//! *Knows*: the arguments of each command, its reads and writes, its reply.
//!
//! *Does not know*: how commands are found, checked and executed together (`redis/`).
//!
//! *Read in this order*: `strings.rs`, `bits.rs` and `bitfield.rs`, `keys.rs`, `expiry.rs`,
//! `scan_commands.rs`, `hashes.rs`, `sets.rs` with `set_operations.rs`, `draw.rs` (random
//! elements), `lists/`, `sorted/`, `key_count_arguments.rs`, `sort.rs`, `ordered.rs` (extensions to
//! Redis); `acl.rs` (permissions); `connection.rs`, `transactions.rs`, `interactive.rs` (BEGIN and
//! COMMIT), `admin.rs` and `limits.rs` (CONFIG), `saving.rs`, `clients.rs`, `info/`, `describe.rs`,
//! `latency.rs`, `memory.rs`, `small.rs`, `monitor_commands.rs` (MONITOR).

pub(crate) mod acl;
pub(crate) mod admin;
pub(crate) mod bitfield;
pub(crate) mod bits;
pub(crate) mod clients;
pub(crate) mod connection;
pub(crate) mod describe;
pub(crate) mod draw;
pub(crate) mod expiry;
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
pub(crate) mod saving;
pub(crate) mod scan_commands;
pub(crate) mod set_operations;
pub(crate) mod sets;
pub(crate) mod small;
pub(crate) mod sort;
pub(crate) mod sorted;
pub(crate) mod strings;
pub(crate) mod transactions;
