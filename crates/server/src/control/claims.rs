//! A registry of named locks. Only one connection at a time can hold a name's lock.
//!
//! A killed client can leave a request running in the server; its connection ends only when that
//! request is complete. A client that resumes the work locks the same name first, and thereby waits
//! for the earlier request.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(super) struct ClaimRegistry {
    taken: Mutex<BTreeSet<Vec<u8>>>,
    released: Condvar,
}

/// A name's lock, released on drop.
#[derive(Debug)]
pub(super) struct NameClaim {
    claims: Arc<ClaimRegistry>,
    name: Vec<u8>,
}

impl ClaimRegistry {
    /// Locks a name, waiting for at most `patience` while another connection holds it. Returns
    /// `None` if the name is still locked after that time.
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
