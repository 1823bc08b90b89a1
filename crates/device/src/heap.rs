//! Configures what the C library's allocator does with freed memory.

#[cfg(target_env = "gnu")]
use std::sync::atomic::{AtomicBool, Ordering};

/// From this size in bytes on, an allocation is mapped individually, so that freeing it returns its
/// memory to the system.
#[cfg(target_env = "gnu")]
const MAPPED_FROM: libc::c_int = 1 << 20;

/// Maximum number of free bytes that each heap may retain at its end.
#[cfg(target_env = "gnu")]
const KEPT: libc::c_int = 1 << 20;

/// Number of heaps per processor. Threads share the heaps, and contend if there are too few: with
/// one heap per processor, two busy threads ended up on the same heap. Each heap also retains the
/// gaps between its blocks, so more heaps use more memory: glibc's default of eight per processor
/// used 13 % more.
#[cfg(target_env = "gnu")]
const HEAPS_PER_CORE: usize = 2;

/// Makes the allocator return freed memory to the system, so that the resident size follows the
/// memory in use.
///
/// By default, glibc retains tens of megabytes in each of its eight heaps per processor after large
/// buffers were freed. The settings apply to the whole process, so a program should call this
/// function first, before it creates threads. Without glibc, the function does nothing.
pub fn give_freed_memory_back() {
    #[cfg(target_env = "gnu")]
    {
        IS_WANTED.store(true, Ordering::Relaxed);
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let heaps = cores.max(2).saturating_mul(HEAPS_PER_CORE);
        let heaps = libc::c_int::try_from(heaps).unwrap_or(libc::c_int::MAX);
        for (setting, value) in [
            (libc::M_ARENA_MAX, heaps),
            (libc::M_MMAP_THRESHOLD, MAPPED_FROM),
            (libc::M_TRIM_THRESHOLD, KEPT),
        ] {
            // SAFETY: `mallopt` accepts any two integers, and its result says whether it knows the
            // setting. Nothing but memory use depends on that.
            unsafe { libc::mallopt(setting, value) };
        }
    }
}

/// Set by [`give_freed_memory_back`], and never cleared.
#[cfg(target_env = "gnu")]
static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// Returns whole pages that are free between used blocks to the system. This takes about a
/// millisecond per hundred megabytes, during which allocating threads have to wait.
///
/// Does nothing unless [`give_freed_memory_back`] was called before, because it affects the memory
/// of the whole process.
pub fn give_back_between_blocks() {
    #[cfg(target_env = "gnu")]
    if IS_WANTED.load(Ordering::Relaxed) {
        // SAFETY: `malloc_trim` locks the heaps itself and touches only free memory.
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use crate::machine::memory_of_process;

    const CHILD: &str = "ALLUVIUM_HEAP_CHILD";

    #[test]
    fn a_child_frees_long_buffers_in_many_threads() {
        let Ok(setting) = std::env::var(CHILD) else { return };
        if setting == "set" {
            super::give_freed_memory_back();
        }
        let barrier = std::sync::Barrier::new(16);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    // The lengths grow as those of a buffer do, and each free teaches glibc to keep
                    // more.
                    for length in (1..9).map(|part| part << 20) {
                        drop(vec![1u8; length]);
                    }
                    // Small allocations beyond the long ones keep these from being returned by
                    // themselves.
                    let kept: Vec<Vec<u8>> = (0..8).map(|_| vec![1u8; 2 << 20]).collect();
                    drop(kept);
                    barrier.wait();
                });
            }
        });
        println!("resident {}", memory_of_process("VmRSS").expect("Linux says it"));
    }

    const SPREAD: &str = "ALLUVIUM_HEAP_SPREAD";

    #[test]
    fn a_child_frees_blocks_between_others() {
        let Ok(setting) = std::env::var(SPREAD) else {
            return;
        };
        if setting == "set" {
            super::give_freed_memory_back();
        }
        // Keep every eighth block, so that no heap has a free end.
        let mut blocks: Vec<Vec<u8>> = (0..8192).map(|_| vec![1u8; 8 << 10]).collect();
        let mut index = 0;
        blocks.retain(|_| {
            index += 1;
            index % 8 == 0
        });
        super::give_back_between_blocks();
        println!("resident {}", memory_of_process("VmRSS").expect("Linux says it"));
        assert_eq!(blocks.len(), 1024);
    }

    /// Returns the resident size of a test in a separate process with a setting.
    fn resident_of(test: &str, variable: &str, setting: &str) -> u64 {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(variable, setting)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.split("resident ").nth(1));
        line.unwrap_or_else(|| panic!("{text}")).trim().parse().unwrap()
    }

    #[test]
    fn what_is_free_between_blocks_goes_back_when_the_program_wants_it() {
        let of = |setting| {
            let test = "heap::tests::a_child_frees_blocks_between_others";
            resident_of(test, SPREAD, setting)
        };
        let (usual, set) = (of("usual"), of("set"));
        println!("resident {} KiB, {} KiB by itself", set >> 10, usual >> 10);
        assert!(set < 40 << 20 && usual > 60 << 20, "{set} {usual}");
    }

    #[test]
    fn freed_memory_goes_back_to_the_system() {
        let resident = |setting| {
            let test = "heap::tests::a_child_frees_long_buffers_in_many_threads";
            resident_of(test, CHILD, setting)
        };
        let (usual, set) = (resident("usual"), resident("set"));
        println!("resident {} KiB, {} KiB by itself", set >> 10, usual >> 10);
        assert!(set < 32 << 20, "{set}");
    }
}
