//! Forwarding of signals to commands in views. A terminal sends its signals to the command itself,
//! which is in the same process group, so only those that a process has sent are passed on.

use parking_lot::Mutex;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// Which signals to this process a command gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalForwarding {
    /// SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1 and SIGUSR2, while the command runs. They do not
    /// end this process then.
    ToCommand,
    /// None.
    Off,
}

const SIGNALS: [libc::c_int; 6] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
];
const NONE: i32 = -1;

/// The process handles of the commands that get signals. More than these at once get none.
static COMMANDS: [AtomicI32; 32] = [const { AtomicI32::new(NONE) }; 32];
/// The handlers that were there before, and the number of commands.
static BEFORE: Mutex<(usize, Vec<libc::sigaction>)> = Mutex::new((0, Vec::new()));

/// Forwards signals to a command until it is dropped.
pub(super) struct ForwardedSignals {
    slot: Option<usize>,
    _handle: Arc<OwnedFd>,
}

extern "C" fn forward(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid pointer to a handler that asks for it.
    if unsafe { (*info).si_code } > 0 {
        return;
    }
    // SAFETY: the address of this thread's errno is always valid.
    let errno = unsafe { *libc::__errno_location() };
    for command in &COMMANDS {
        let handle = command.load(Ordering::Relaxed);
        if handle != NONE {
            // SAFETY: the call takes a null pointer for the information, and is permitted in
            // handlers.
            unsafe {
                libc::syscall(
                    libc::SYS_pidfd_send_signal,
                    handle,
                    signal,
                    std::ptr::null::<libc::siginfo_t>(),
                    0,
                );
            }
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn install() -> Vec<libc::sigaction> {
    let install = |&signal: &libc::c_int| {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: an action of zeros is valid; the handler has the signature that SA_SIGINFO asks
        // for, and both pointers live during the call.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = forward as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, before.as_mut_ptr());
            before.assume_init()
        }
    };
    SIGNALS.iter().map(install).collect()
}

impl ForwardedSignals {
    pub(super) fn to(handle: Arc<OwnedFd>) -> ForwardedSignals {
        let mut before = BEFORE.lock();
        let number = handle.as_raw_fd();
        let free = |slot: &AtomicI32| {
            slot.compare_exchange(NONE, number, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        let slot = COMMANDS.iter().position(free);
        if before.0 == 0 {
            before.1 = install();
        }
        before.0 += 1;
        ForwardedSignals {
            slot,
            _handle: handle,
        }
    }
}

impl Drop for ForwardedSignals {
    fn drop(&mut self) {
        let mut before = BEFORE.lock();
        if let Some(slot) = self.slot {
            COMMANDS[slot].store(NONE, Ordering::Relaxed);
        }
        before.0 -= 1;
        if before.0 == 0 {
            for (signal, action) in SIGNALS.iter().zip(before.1.drain(..)) {
                // SAFETY: the action was returned by the call that replaced it.
                unsafe { libc::sigaction(*signal, &raw const action, std::ptr::null_mut()) };
            }
        }
    }
}
