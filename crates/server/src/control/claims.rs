//! Names, each of which one connection can claim at a time.
//!
//! A killed command may leave a request in progress; its connection ends when the request is done.
//! A command that resumes the work first claims the same name and thereby waits for that request.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(super) struct ClaimRegistry {
    taken: Mutex<BTreeSet<Vec<u8>>>,
    released: Condvar,
}

/// A claimed name, released on drop.
#[derive(Debug)]
pub(super) struct NameClaim {
    claims: Arc<ClaimRegistry>,
    name: Vec<u8>,
}

impl ClaimRegistry {
    /// Claims a name, after waiting for its current owner. Returns `None` if the owner keeps it for
    /// `patience`.
    pub(super) fn take(self: &Arc<ClaimRegistry>, name: &[u8], patience: Duration) -> Option<NameClaim> {
        let until = Instant::now() + patience;
        let mut taken = self.taken.lock();
        while !taken.insert(name.to_vec()) {
            if self.released.wait_until(&mut taken, until).timed_out() && taken.contains(name) {
                return None;
            }
        }
        Some(NameClaim {
            claims: Arc::clone(self),
            name: name.to_vec(),
        })
    }
}

impl Drop for NameClaim {
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
        let claims = Arc::new(ClaimRegistry::default());
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
