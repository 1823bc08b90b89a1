//! Names of which each has one connection at a time.
//!
//! A command that was killed may have a request under way still: its connection ends when that is
//! done. Who goes on where it has stopped takes the same name first, and so waits for that.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The names that are taken.
#[derive(Debug, Default)]
pub(super) struct Claims {
    taken: Mutex<BTreeSet<Vec<u8>>>,
    released: Condvar,
}

/// A name that is taken until this is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    claims: Arc<Claims>,
    name: Vec<u8>,
}

impl Claims {
    /// Takes a name, once no other has it. None if one has it for as long as `patience`.
    pub(super) fn take(self: &Arc<Claims>, name: &[u8], patience: Duration) -> Option<Claim> {
        let until = Instant::now() + patience;
        let mut taken = self.taken.lock();
        while !taken.insert(name.to_vec()) {
            if self.released.wait_until(&mut taken, until).timed_out() && taken.contains(name) {
                return None;
            }
        }
        Some(Claim {
            claims: Arc::clone(self),
            name: name.to_vec(),
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let was_taken = self.claims.taken.lock().remove(&self.name);
        assert!(was_taken, "a name is released by who has taken it");
        self.claims.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_owner_at_a_time() {
        let claims = Arc::new(Claims::default());
        let first = claims.take(b"a", Duration::ZERO).unwrap();
        assert!(claims.take(b"a", Duration::ZERO).is_none());
        assert!(claims.take(b"b", Duration::ZERO).is_some());
        let waiting = std::thread::spawn({
            let claims = Arc::clone(&claims);
            move || claims.take(b"a", Duration::from_secs(600)).is_some()
        });
        drop(first);
        assert!(waiting.join().unwrap(), "it was released");
        assert!(claims.take(b"a", Duration::ZERO).is_some());
    }
}
