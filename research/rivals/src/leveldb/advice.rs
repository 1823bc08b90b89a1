//! Advises the kernel that access to LevelDB's mapped tables is random. LevelDB maps a table when
//! it opens it, and has no API for such advice.

use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between checks for new mappings.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct AdviceThread {
    shared: Arc<AdviceFlags>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct AdviceFlags {
    is_wanted: AtomicBool,
    is_over: AtomicBool,
}

impl AdviceThread {
    pub(super) fn start() -> Result<AdviceThread> {
        let shared = Arc::new(AdviceFlags::default());
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("advice".into())
            .spawn(move || advise_always(&of_thread))
            .context("starting a thread")?;
        Ok(AdviceThread {
            shared,
            thread: Some(thread),
        })
    }

    /// Enables the advice; called when keys are looked up.
    pub(super) fn enable_advice(&self) {
        if !self.shared.is_wanted.load(Ordering::Relaxed) {
            self.shared.is_wanted.store(true, Ordering::Relaxed);
            advise(&mut Vec::new());
        }
    }

    pub(super) fn stop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread does not panic. If it did, only its advice would be missing.
            let _ = thread.join();
        }
    }
}

fn advise_always(shared: &AdviceFlags) {
    let mut known = Vec::new();
    while !shared.is_over.load(Ordering::Relaxed) {
        if shared.is_wanted.load(Ordering::Relaxed) {
            advise(&mut known);
        }
        std::thread::sleep(LOOK);
    }
}

/// Advises each mapping of a table that is not in `known` yet.
fn advise(known: &mut Vec<(usize, usize)>) {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
        return;
    };
    let tables: Vec<(usize, usize)> = maps.lines().filter_map(table).collect();
    for &(start, end) in tables.iter().filter(|range| !known.contains(range)) {
        // SAFETY: advice changes no byte. If the mapping no longer exists, the call fails or
        // advises the mapping that has replaced it.
        unsafe {
            madvise(start as *mut std::ffi::c_void, end - start, MADV_RANDOM);
        }
    }
    *known = tables;
}

/// Returns the address range of a line of `/proc/self/maps` if it maps a table.
fn table(line: &str) -> Option<(usize, usize)> {
    if !line.ends_with(".ldb") {
        return None;
    }
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    Some((
        usize::from_str_radix(start, 16).ok()?,
        usize::from_str_radix(end, 16).ok()?,
    ))
}

const MADV_RANDOM: i32 = 1;

unsafe extern "C" {
    fn madvise(start: *mut std::ffi::c_void, bytes: usize, advice: i32) -> i32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_are_advised() {
        let line = "7f0000000000-7f0000010000 r--s 00000000 fe:00 123   /data/store/000012.ldb";
        assert_eq!(table(line), Some((0x7f00_0000_0000, 0x7f00_0001_0000)));
        assert_eq!(table(&line.replace(".ldb", ".so")), None);
    }
}
