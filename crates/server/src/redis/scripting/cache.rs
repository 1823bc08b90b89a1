//! The scripts that clients have sent, the interpreters that run them, and the scripts that run
//! now.

use super::engine::{ScriptControl, ScriptEngine};
use crate::net::{ConnectionBudget, wait_hooks};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The cached scripts may occupy the clients' memory divided by this. Not a tuning parameter.
const CACHE_PART: usize = 8;

/// An interpreter may occupy the clients' memory divided by this. Not a tuning parameter.
const ENGINE_PART: usize = 8;

/// Maximum memory of an interpreter in bytes, if the clients have much. Not a tuning parameter.
const MOST_ENGINE_BYTES: usize = 64 << 20;

/// Maximum number of scripts that run at the same time. Not a tuning parameter.
const MOST_RUNNING: usize = 4;

/// Approximate memory in bytes of a cached script besides its text.
const PER_SCRIPT: usize = 256;

/// For how long a script may run while the server stops. Not a tuning parameter.
const LAST_LIMIT: Duration = Duration::from_secs(1);

/// The default of `busy-reply-threshold`, which is that of Redis. Not a tuning parameter.
const TIME_LIMIT_MS: u64 = 5000;

/// What the first line of a script says about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ScriptFlags {
    pub(super) is_readonly: bool,
}

/// A script: its text without the first line if that only has flags, and its digest.
#[derive(Debug)]
pub(super) struct ScriptSource {
    /// The SHA-1 digest of the text, in lower-case hexadecimal digits.
    pub(super) digest: Box<str>,
    pub(super) text: Box<[u8]>,
    pub(super) flags: ScriptFlags,
}

impl ScriptSource {
    fn memory(&self) -> usize {
        self.text.len() + PER_SCRIPT
    }
}

/// A cached script with its position in the order of use.
struct CachedScript {
    script: Arc<ScriptSource>,
    used: u64,
    /// Whether SCRIPT LOAD has loaded it, so that it stays until SCRIPT FLUSH.
    is_loaded: bool,
}

#[derive(Default)]
struct CachedScripts {
    scripts: HashMap<Box<str>, CachedScript>,
    /// The scripts that may be evicted, by their last use.
    evictable: BTreeMap<u64, Box<str>>,
    bytes: usize,
    clock: u64,
    evicted: u64,
}

impl CachedScripts {
    fn evict_one(&mut self) -> bool {
        let Some((_, digest)) = self.evictable.pop_first() else {
            return false;
        };
        if let Some(cached) = self.scripts.remove(&digest) {
            self.bytes -= cached.script.memory();
        }
        self.evicted += 1;
        true
    }
}

/// The interpreters that no script uses.
#[derive(Default)]
struct IdleEngines {
    engines: Vec<ScriptEngine>,
    running: usize,
}

/// The scripts of a server.
pub(crate) struct ScriptRegistry {
    cached: Mutex<CachedScripts>,
    idle: Mutex<IdleEngines>,
    changed: Condvar,
    /// The scripts that run now.
    controls: Mutex<Vec<Arc<ScriptControl>>>,
    budget: Arc<ConnectionBudget>,
    time_limit_ms: AtomicU64,
    /// Whether the server stops.
    is_over: AtomicBool,
}

impl fmt::Debug for ScriptRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptRegistry").finish_non_exhaustive()
    }
}

/// The cache has no memory for a script.
#[derive(Debug)]
pub(super) struct CacheFull {
    /// The limit in bytes.
    pub(super) most: usize,
}

impl ScriptRegistry {
    pub(crate) fn new(budget: &Arc<ConnectionBudget>) -> ScriptRegistry {
        ScriptRegistry {
            cached: Mutex::default(),
            idle: Mutex::default(),
            changed: Condvar::new(),
            controls: Mutex::default(),
            budget: Arc::clone(budget),
            time_limit_ms: AtomicU64::new(TIME_LIMIT_MS),
            is_over: AtomicBool::new(false),
        }
    }

    /// Returns for how many milliseconds a script may run; 0 means any time.
    pub(crate) fn time_limit_ms(&self) -> u64 {
        self.time_limit_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn set_time_limit_ms(&self, milliseconds: u64) {
        self.time_limit_ms.store(milliseconds, Ordering::Relaxed);
    }

    /// Returns a cached script by its digest in lower case, and notes its use.
    pub(super) fn find(&self, digest: &str) -> Option<Arc<ScriptSource>> {
        let mut cached = self.cached.lock();
        cached.clock += 1;
        let now = cached.clock;
        let found = cached.scripts.get_mut(digest)?;
        let (script, before) = (Arc::clone(&found.script), std::mem::replace(&mut found.used, now));
        if !found.is_loaded {
            cached.evictable.remove(&before);
            cached.evictable.insert(now, digest.into());
        }
        Some(script)
    }

    /// Returns whether a script is cached.
    pub(super) fn has(&self, digest: &str) -> bool {
        self.cached.lock().scripts.contains_key(digest)
    }

    /// Caches a script, and evicts scripts of EVAL if necessary, the least recently used first.
    pub(super) fn add(&self, script: &Arc<ScriptSource>, is_loaded: bool) -> Result<(), CacheFull> {
        let most = self.budget.limit() / CACHE_PART;
        let mut cached = self.cached.lock();
        cached.clock += 1;
        let used = cached.clock;
        if let Some(found) = cached.scripts.get_mut(&script.digest) {
            if is_loaded && !std::mem::replace(&mut found.is_loaded, true) {
                let before = found.used;
                cached.evictable.remove(&before);
            }
            return Ok(());
        }
        while cached.bytes + script.memory() > most {
            if !cached.evict_one() {
                return Err(CacheFull { most });
            }
        }
        cached.bytes += script.memory();
        let digest = script.digest.clone();
        if !is_loaded {
            cached.evictable.insert(used, digest.clone());
        }
        let script = Arc::clone(script);
        cached.scripts.insert(
            digest,
            CachedScript {
                script,
                used,
                is_loaded,
            },
        );
        Ok(())
    }

    /// Forgets all scripts.
    pub(super) fn flush(&self) {
        let mut cached = self.cached.lock();
        cached.scripts.clear();
        cached.evictable.clear();
        cached.bytes = 0;
        drop(cached);
        self.idle.lock().engines.clear();
    }

    /// Returns the number of cached scripts, their memory in bytes, and the number of evicted ones.
    pub(crate) fn counts(&self) -> (usize, usize, u64) {
        let cached = self.cached.lock();
        (cached.scripts.len(), cached.bytes, cached.evicted)
    }

    /// Returns an interpreter for a script, and waits if too many scripts run. The caller must hold
    /// no locks of keys.
    pub(super) fn lend(self: &Arc<ScriptRegistry>) -> mlua::Result<LentEngine> {
        let mut idle = self.idle.lock();
        while idle.running >= MOST_RUNNING {
            wait_hooks::about_to_wait();
            self.changed.wait(&mut idle);
        }
        idle.running += 1;
        let engine = idle.engines.pop();
        drop(idle);
        let most = (self.budget.limit() / ENGINE_PART).min(MOST_ENGINE_BYTES);
        let mut lent = LentEngine {
            registry: Arc::clone(self),
            engine: None,
            charged: most,
        };
        self.budget.charge(most);
        let engine = match engine {
            Some(engine) => engine,
            None => ScriptEngine::new()?,
        };
        engine.set_memory_limit(most)?;
        self.controls.lock().push(Arc::clone(engine.control()));
        lent.engine = Some(engine);
        Ok(lent)
    }

    /// Ends all scripts that run. Returns whether there are any.
    pub(super) fn kill(&self) -> bool {
        let controls = self.controls.lock();
        controls.iter().filter(|control| control.kill()).count() > 0
    }

    /// Returns for how long a script may run.
    pub(super) fn time_limit(&self) -> Option<Duration> {
        let milliseconds = self.time_limit_ms();
        let limit = (milliseconds > 0).then(|| Duration::from_millis(milliseconds));
        match self.is_over.load(Ordering::Acquire) {
            true => Some(limit.map_or(LAST_LIMIT, |limit| limit.min(LAST_LIMIT))),
            false => limit,
        }
    }

    /// Ends the scripts that run for longer than a second from now on, because the server stops.
    pub(crate) fn close(&self) {
        self.is_over.store(true, Ordering::Release);
        for control in self.controls.lock().iter() {
            control.shorten(LAST_LIMIT);
        }
    }
}

/// An interpreter that runs a script. Dropping it returns it to the registry.
pub(crate) struct LentEngine {
    registry: Arc<ScriptRegistry>,
    engine: Option<ScriptEngine>,
    charged: usize,
}

impl LentEngine {
    pub(super) fn engine(&mut self) -> &mut ScriptEngine {
        self.engine.as_mut().expect("it is lent until it is dropped")
    }
}

impl Drop for LentEngine {
    fn drop(&mut self) {
        self.registry.budget.uncharge(self.charged);
        let engine = self.engine.take();
        if let Some(engine) = &engine {
            let mut controls = self.registry.controls.lock();
            controls.retain(|control| !Arc::ptr_eq(control, engine.control()));
        }
        let mut idle = self.registry.idle.lock();
        idle.running -= 1;
        // After a panic, the interpreter may be in any state.
        if let Some(engine) = engine.filter(|engine| engine.is_small() && !std::thread::panicking()) {
            idle.engines.push(engine);
        }
        self.registry.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(name: &str) -> Arc<ScriptSource> {
        Arc::new(ScriptSource {
            digest: name.into(),
            text: vec![b' '; 30_000].into(),
            flags: ScriptFlags::default(),
        })
    }

    #[test]
    fn scripts_of_eval_make_room_and_loaded_ones_stay() {
        // The cache has room for four of these scripts.
        let registry = ScriptRegistry::new(&Arc::new(ConnectionBudget::new(1 << 20)));
        let add = |name: &str, is_loaded| registry.add(&script(name), is_loaded).is_ok();
        assert!(add("a", false) && add("b", true) && add("c", false) && add("d", false));
        assert!(registry.find("a").is_some());
        assert!(add("e", false));
        assert_eq!(
            ["a", "b", "c", "d", "e"].map(|name| registry.has(name)),
            [true, true, false, true, true]
        );
        assert!(add("a", true) && add("f", true) && add("g", true) && !add("h", true));
        assert_eq!((registry.counts().0, registry.counts().2), (4, 3));
        registry.flush();
        assert_eq!(registry.counts().0, 0);
        assert!(add("h", true));
    }
}
