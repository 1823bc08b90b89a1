//! The part of LMDB's C API (`lmdb.h`, 0.9) used here. Names and types follow the header.

use std::ffi::{c_char, c_int, c_uint, c_void};

macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[repr(C)]
        pub(super) struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque! { Env Txn Cursor }

/// `MDB_dbi`, the handle of a database.
pub(super) type Dbi = c_uint;

/// `MDB_val`.
#[repr(C)]
pub(super) struct Val {
    pub(super) bytes: usize,
    pub(super) data: *mut c_void,
}

pub(super) const NO_SYNC: c_uint = 0x1_0000;
pub(super) const RDONLY: c_uint = 0x2_0000;
pub(super) const NO_TLS: c_uint = 0x20_0000;
pub(super) const NO_READ_AHEAD: c_uint = 0x80_0000;
pub(super) const NOT_FOUND: c_int = -30_798;
pub(super) const OP_NEXT: c_uint = 8;
pub(super) const OP_SET_RANGE: c_uint = 17;

#[link(name = "lmdb")]
unsafe extern "C" {
    pub(super) fn mdb_strerror(error: c_int) -> *const c_char;
    pub(super) fn mdb_env_create(env: *mut *mut Env) -> c_int;
    pub(super) fn mdb_env_set_mapsize(env: *mut Env, bytes: usize) -> c_int;
    pub(super) fn mdb_env_set_maxreaders(env: *mut Env, readers: c_uint) -> c_int;
    pub(super) fn mdb_env_open(env: *mut Env, path: *const c_char, flags: c_uint, mode: u32) -> c_int;
    pub(super) fn mdb_env_sync(env: *mut Env, force: c_int) -> c_int;
    pub(super) fn mdb_env_close(env: *mut Env);
    pub(super) fn mdb_txn_begin(env: *mut Env, parent: *mut Txn, flags: c_uint, txn: *mut *mut Txn) -> c_int;
    pub(super) fn mdb_txn_commit(txn: *mut Txn) -> c_int;
    pub(super) fn mdb_txn_abort(txn: *mut Txn);
    pub(super) fn mdb_txn_reset(txn: *mut Txn);
    pub(super) fn mdb_txn_renew(txn: *mut Txn) -> c_int;
    pub(super) fn mdb_dbi_open(txn: *mut Txn, name: *const c_char, flags: c_uint, dbi: *mut Dbi) -> c_int;
    pub(super) fn mdb_get(txn: *mut Txn, dbi: Dbi, key: *mut Val, value: *mut Val) -> c_int;
    pub(super) fn mdb_put(txn: *mut Txn, dbi: Dbi, key: *mut Val, value: *mut Val, flags: c_uint) -> c_int;
    pub(super) fn mdb_del(txn: *mut Txn, dbi: Dbi, key: *mut Val, value: *mut Val) -> c_int;
    pub(super) fn mdb_cursor_open(txn: *mut Txn, dbi: Dbi, cursor: *mut *mut Cursor) -> c_int;
    pub(super) fn mdb_cursor_close(cursor: *mut Cursor);
    pub(super) fn mdb_cursor_get(cursor: *mut Cursor, key: *mut Val, value: *mut Val, op: c_uint) -> c_int;
}
