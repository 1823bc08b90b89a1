//! LMDB through its C API.
//!
//! Configured as its documentation recommends: no read-ahead, because the data is larger than
//! memory and access is random; `MDB_NOSYNC`, so that a commit is in the page cache when it returns
//! and survives the death of the process; one transaction for each operation. LMDB has neither a
//! log nor a cache; it relies on the page cache.

mod ffi;

use crate::c_interop::{c_path, chars, slice};
use alluvium_bench::engine::{BenchEngine, EachPair, EngineSession, EngineSetup};
use anyhow::{Result, bail};
use std::ffi::{CStr, c_int};
use std::ptr;

/// Size of the map, in multiples of the data. B-tree leaves are two thirds full, and freed pages
/// are not reused while a reader may need them.
const MAP_TO_DATA_RATIO: u64 = 4;
const LEAST_MAP: u64 = 1 << 30;

struct LmdbEngine {
    env: *mut ffi::Env,
    dbi: ffi::Dbi,
    map_bytes: u64,
}

// SAFETY: any number of threads may use an environment, each with separate transactions.
unsafe impl Send for LmdbEngine {}
// SAFETY: as above.
unsafe impl Sync for LmdbEngine {}

fn check(code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: for every code there is a text that is never freed.
    let text = unsafe { CStr::from_ptr(ffi::mdb_strerror(code)) };
    bail!("{}", text.to_string_lossy())
}

fn val(bytes: &[u8]) -> ffi::Val {
    ffi::Val {
        bytes: bytes.len(),
        data: chars(bytes).cast_mut().cast(),
    }
}

const EMPTY: ffi::Val = ffi::Val {
    bytes: 0,
    data: ptr::null_mut(),
};

pub(crate) fn open(setup: &EngineSetup) -> Result<Box<dyn BenchEngine>> {
    let directory = setup.directory.join("store");
    std::fs::create_dir_all(&directory)?;
    let path = c_path(&directory)?;
    let map_bytes = (setup.records * (setup.value_bytes as u64 + 64) * MAP_TO_DATA_RATIO).max(LEAST_MAP);
    let mut env = ptr::null_mut();
    // SAFETY: the environment is what the library has just made.
    check(unsafe { ffi::mdb_env_create(&raw mut env) })?;
    let mut engine = LmdbEngine {
        env,
        dbi: 0,
        map_bytes,
    };
    // SAFETY: as above; the path ends with zero and lives through the call. The transaction ends
    // here, whatever happens.
    unsafe {
        check(ffi::mdb_env_set_mapsize(env, map_bytes as usize))?;
        check(ffi::mdb_env_set_maxreaders(env, setup.threads as u32 + 8))?;
        let flags = ffi::NO_SYNC | ffi::NO_TLS | ffi::NO_READ_AHEAD;
        check(ffi::mdb_env_open(env, path.as_ptr(), flags, 0o644))?;
        let mut txn = ptr::null_mut();
        check(ffi::mdb_txn_begin(env, ptr::null_mut(), 0, &raw mut txn))?;
        if let Err(error) = check(ffi::mdb_dbi_open(txn, ptr::null(), 0, &raw mut engine.dbi)) {
            ffi::mdb_txn_abort(txn);
            return Err(error);
        }
        check(ffi::mdb_txn_commit(txn))?;
    }
    Ok(Box::new(engine))
}

impl Drop for LmdbEngine {
    fn drop(&mut self) {
        // SAFETY: sessions borrow this and are gone, with their transactions.
        unsafe { ffi::mdb_env_close(self.env) };
    }
}

impl BenchEngine for LmdbEngine {
    fn session(&self) -> Result<Box<dyn EngineSession + '_>> {
        let mut read = ptr::null_mut();
        // SAFETY: the environment is open; the transaction belongs to the session, which aborts it.
        // It holds nothing while it is reset.
        unsafe {
            check(ffi::mdb_txn_begin(
                self.env,
                ptr::null_mut(),
                ffi::RDONLY,
                &raw mut read,
            ))?;
            ffi::mdb_txn_reset(read);
        }
        Ok(Box::new(LmdbSession { engine: self, read }))
    }

    fn flush(&self) -> Result<()> {
        // SAFETY: the environment is open.
        check(unsafe { ffi::mdb_env_sync(self.env, 1) })
    }

    fn settings(&self) -> Vec<(String, String)> {
        [
            ("version", "liblmdb 0.9".to_owned()),
            ("flags", "MDB_NOSYNC, MDB_NORDAHEAD, MDB_NOTLS".to_owned()),
            ("map", format!("{} MiB", self.map_bytes >> 20)),
            ("memory", "the page cache".to_owned()),
            (
                "durability",
                "no log: a commit for each put, in the page cache".to_owned(),
            ),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.flush()
    }
}

struct LmdbSession<'a> {
    engine: &'a LmdbEngine,
    /// A read transaction that is renewed for each operation.
    read: *mut ffi::Txn,
}

// SAFETY: without thread-local storage (`MDB_NOTLS`), a read transaction is not bound to a thread.
unsafe impl Send for LmdbSession<'_> {}

impl Drop for LmdbSession<'_> {
    fn drop(&mut self) {
        // SAFETY: it is this session's, and ends once.
        unsafe { ffi::mdb_txn_abort(self.read) };
    }
}

impl LmdbSession<'_> {
    /// Runs `work` in a new write transaction.
    fn writing(&self, work: impl FnOnce(*mut ffi::Txn, ffi::Dbi) -> Result<()>) -> Result<()> {
        let mut txn = ptr::null_mut();
        // SAFETY: the environment is open, and the transaction ends here.
        unsafe {
            check(ffi::mdb_txn_begin(
                self.engine.env,
                ptr::null_mut(),
                0,
                &raw mut txn,
            ))?;
            if let Err(error) = work(txn, self.engine.dbi) {
                ffi::mdb_txn_abort(txn);
                return Err(error);
            }
            check(ffi::mdb_txn_commit(txn))
        }
    }

    /// Runs `work` in the read transaction, renewed to the current snapshot.
    fn reading<T>(&mut self, work: impl FnOnce(*mut ffi::Txn, ffi::Dbi) -> Result<T>) -> Result<T> {
        // SAFETY: the transaction is this session's and was reset.
        check(unsafe { ffi::mdb_txn_renew(self.read) })?;
        let result = work(self.read, self.engine.dbi);
        // SAFETY: nothing that was read is used any more.
        unsafe { ffi::mdb_txn_reset(self.read) };
        result
    }
}

impl EngineSession for LmdbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (mut key, mut value) = (val(key), val(value));
        self.writing(|txn, dbi| {
            // SAFETY: the transaction is live; key and value live through the call.
            check(unsafe { ffi::mdb_put(txn, dbi, &raw mut key, &raw mut value, 0) })
        })
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let mut key = val(key);
        self.writing(|txn, dbi| {
            // SAFETY: the transaction is live; the key lives through the call.
            match unsafe { ffi::mdb_del(txn, dbi, &raw mut key, ptr::null_mut()) } {
                ffi::NOT_FOUND => Ok(()),
                code => check(code),
            }
        })
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.reading(|txn, dbi| {
            let (mut key, mut value) = (val(key), EMPTY);
            // SAFETY: the transaction is live; what it finds is in the map and stays until it is
            // reset.
            unsafe {
                let code = ffi::mdb_get(txn, dbi, &raw mut key, &raw mut value);
                if code == ffi::NOT_FOUND {
                    return Ok(false);
                }
                check(code)?;
                found(slice(value.data.cast(), value.bytes));
            }
            Ok(true)
        })
    }

    fn scan(&mut self, from: &[u8], limit: usize, each: EachPair<'_>) -> Result<usize> {
        self.reading(|txn, dbi| {
            let (mut key, mut value) = (val(from), EMPTY);
            let mut cursor = ptr::null_mut();
            // SAFETY: the transaction is live; the cursor is closed before it is reset; what it
            // shows is in the map.
            unsafe {
                check(ffi::mdb_cursor_open(txn, dbi, &raw mut cursor))?;
                let mut count = 0;
                let mut code = ffi::mdb_cursor_get(cursor, &raw mut key, &raw mut value, ffi::OP_SET_RANGE);
                while code == 0 && count < limit {
                    each(
                        slice(key.data.cast(), key.bytes),
                        slice(value.data.cast(), value.bytes),
                    );
                    count += 1;
                    if count < limit {
                        code = ffi::mdb_cursor_get(cursor, &raw mut key, &raw mut value, ffi::OP_NEXT);
                    }
                }
                ffi::mdb_cursor_close(cursor);
                if code != ffi::NOT_FOUND {
                    check(code)?;
                }
                Ok(count)
            }
        })
    }
}
