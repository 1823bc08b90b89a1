//! Virtual time, which advances only when a thread waits.

use alluvium_base::cost::{CostClock, DeviceAccess};

/// The current time of a world, and the clock that charges requests. Without a clock, all requests
/// are free.
#[derive(Default)]
pub(super) struct VirtualTime {
    pub(super) now_ns: u64,
    pub(super) clock: Option<Box<dyn CostClock>>,
}

impl VirtualTime {
    /// Returns the completion time of an access issued now.
    ///
    /// # Panics
    /// If the model forbids the access together with another one, which is a bug in the caller that
    /// issued both.
    pub(super) fn charge(&mut self, file: &str, access: &DeviceAccess) -> u64 {
        let Some(clock) = &mut self.clock else {
            return self.now_ns;
        };
        match clock.charge(self.now_ns, access) {
            Ok(done_ns) => {
                assert!(
                    done_ns >= self.now_ns,
                    "the cost clock finished an access at {done_ns} ns that was issued at {} ns",
                    self.now_ns
                );
                done_ns
            }
            Err(fault) => panic!(
                "{:?} of {} bytes at {} of {file}: {fault}; issue the one after the other is complete",
                access.kind, access.len, access.offset
            ),
        }
    }
}
