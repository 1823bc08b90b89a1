//! Virtual time: it moves only when a thread waits.

use alluvium_base::cost::{Access, CostClock};

/// The time of a world, and the clock that says what requests cost. Without one everything is free.
#[derive(Default)]
pub(super) struct Time {
    pub(super) now_ns: u64,
    pub(super) clock: Option<Box<dyn CostClock>>,
}

impl Time {
    /// When an access issued now is done.
    ///
    /// # Panics
    /// When the model forbids it beside another one: a bug of the caller that issued the two.
    pub(super) fn charge(&mut self, file: &str, access: &Access) -> u64 {
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
