//! Handles failed stores into mappings.
//!
//! A store cannot return an error. The kernel may be unable to execute one because the file system
//! has shut down after a device failure, because the file was shortened, or because space that
//! should be allocated is missing. It then sends the signal `SIGBUS`, which kills the process by
//! default. This module catches the signal. It replaces the failed page with anonymous memory so
//! that the store completes, and marks the mapping as broken. Writers check this mark before they
//! report their data as written.
//!
//! If the signal's address is not in a watched mapping, the signal is passed to the previously
//! installed handler.

use super::sys::MappedPages;
use libc::{c_int, c_void, siginfo_t};
use parking_lot::Mutex;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// An address range that the handler watches. Entries are reused but never freed, because a handler
/// may read them at any time.
#[derive(Debug, Default)]
struct WatchedRange {
    /// First address of the range; 0 while the entry is unused.
    start: AtomicUsize,
    end: AtomicUsize,
    broken: AtomicBool,
    next: AtomicPtr<WatchedRange>,
}

/// Head of the list of all entries.
static FIRST: AtomicPtr<WatchedRange> = AtomicPtr::new(ptr::null_mut());
/// Held while an entry is acquired for a range.
static TAKING: Mutex<()> = Mutex::new(());
/// Size of a memory page in bytes, which the handler uses.
static PAGE: AtomicUsize = AtomicUsize::new(4096);

/// The previously installed handler, which is written once, before the new handler is installed.
struct PreviousHandler(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: the thread that installs the handler writes the value once, before it does so. Afterwards
// the value is only read.
unsafe impl Sync for PreviousHandler {}

/// A signal handler, both as the kernel's address and as a function to call.
#[repr(C)]
union Handler {
    address: usize,
    plain: extern "C" fn(c_int),
    informed: extern "C" fn(c_int, *mut siginfo_t, *mut c_void),
}

static BEFORE: PreviousHandler = PreviousHandler(UnsafeCell::new(MaybeUninit::uninit()));

/// Watches an address range until it is dropped.
#[derive(Debug)]
pub(super) struct MappingGuard {
    watched: &'static WatchedRange,
}

impl MappingGuard {
    /// Starts watching the pages of a mapping. The guard must be dropped before the pages are
    /// unmapped.
    pub(super) fn of(pages: &MappedPages) -> MappingGuard {
        install();
        let _taking = TAKING.lock();
        let mut found = FIRST.load(Ordering::Acquire);
        // SAFETY: entries of the list are never freed.
        while let Some(watched) = unsafe { found.as_ref() }
            && watched.start.load(Ordering::Acquire) != 0
        {
            found = watched.next.load(Ordering::Acquire);
        }
        // SAFETY: as above.
        let watched: &'static WatchedRange = match unsafe { found.as_ref() } {
            Some(watched) => watched,
            None => {
                let new = Box::leak(Box::<WatchedRange>::default());
                new.next.store(FIRST.load(Ordering::Acquire), Ordering::Release);
                FIRST.store(new, Ordering::Release);
                new
            }
        };
        let start = pages.start().as_ptr() as usize;
        watched.broken.store(false, Ordering::Release);
        watched.end.store(start + pages.len(), Ordering::Release);
        watched.start.store(start, Ordering::Release);
        MappingGuard { watched }
    }

    /// Returns the flag that is set when a store into the range fails. The flag belongs to this
    /// range while the guard lives.
    pub(super) fn mark(&self) -> &'static AtomicBool {
        &self.watched.broken
    }

    /// Returns whether a store into the range has failed.
    pub(super) fn is_broken(&self) -> bool {
        self.watched.broken.load(Ordering::Acquire)
    }
}

impl Drop for MappingGuard {
    fn drop(&mut self) {
        self.watched.start.store(0, Ordering::Release);
    }
}

/// Installs the signal handler on the first call. If the system refuses, the disposition of
/// `SIGBUS` stays as it was.
fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        PAGE.store(rustix::param::page_size(), Ordering::Release);
        // SAFETY: zeros are valid for this type, and `BEFORE` is written before the handler that
        // reads it can run.
        unsafe {
            let before = (*BEFORE.0.get()).as_mut_ptr();
            if libc::sigaction(libc::SIGBUS, ptr::null(), before) != 0 {
                return;
            }
            let mut ours: libc::sigaction = std::mem::zeroed();
            ours.sa_sigaction = on_bus_error as *const () as usize;
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut ours.sa_mask);
            libc::sigaction(libc::SIGBUS, &raw const ours, ptr::null_mut());
        }
    });
}

/// Handles `SIGBUS`. Like any signal handler, it uses only atomics and system calls.
extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: for this signal, the kernel passes the address of the failed access.
    let address = unsafe { (*info).si_addr() } as usize;
    let mut next = FIRST.load(Ordering::Acquire);
    // SAFETY: entries of the list are never freed.
    while let Some(watched) = unsafe { next.as_ref() } {
        let start = watched.start.load(Ordering::Acquire);
        if start != 0 && (start..watched.end.load(Ordering::Acquire)).contains(&address) {
            if replace_page(address) {
                watched.broken.store(true, Ordering::Release);
                return;
            }
            break;
        }
        next = watched.next.load(Ordering::Acquire);
    }
    // SAFETY: `BEFORE` was written before this handler was installed, and its handler has the type
    // that its flags say.
    unsafe {
        let before = (*BEFORE.0.get()).assume_init_ref();
        match before.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                // After this handler returns, the CPU retries the faulting instruction. The
                // instruction faults again, and the kernel then applies the default action.
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const default, ptr::null_mut());
            }
            address if before.sa_flags & libc::SA_SIGINFO != 0 => {
                (Handler { address }.informed)(signal, info, context);
            }
            address => (Handler { address }.plain)(signal),
        }
    }
}

/// Replaces the page that contains `address` with anonymous memory. Returns whether this succeeded.
fn replace_page(address: usize) -> bool {
    let page = PAGE.load(Ordering::Acquire);
    // SAFETY: the page belongs to a watched mapping, and stays mapped while that mapping is
    // watched. `errno` is restored, because the interrupted code may be about to read it.
    unsafe {
        let errno = *libc::__errno_location();
        let mapped = libc::mmap(
            (address - address % page) as *mut c_void,
            page,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        );
        *libc::__errno_location() = errno;
        mapped != libc::MAP_FAILED
    }
}
