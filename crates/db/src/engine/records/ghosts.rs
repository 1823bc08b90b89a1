//! Which keys were asked for or dropped not long ago, by two bytes of their hash each.

use super::table::pick;

/// Ghosts of a bucket.
const GHOSTS: usize = 8;

/// Bytes of one ghost.
pub(super) const GHOST_BYTES: usize = size_of::<u16>();

/// Buckets in which the newest ghost stands first and pushes the oldest out.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    buckets: Box<[[u16; GHOSTS]]>,
}

fn tag(hash: u64) -> u16 {
    (hash >> 32) as u16 | 1
}

impl Ghosts {
    /// Of at least so many keys.
    pub(super) fn new(keys: usize) -> Ghosts {
        Ghosts {
            buckets: vec![[0; GHOSTS]; keys.div_ceil(GHOSTS)].into_boxed_slice(),
        }
    }

    /// How many keys it remembers.
    pub(super) fn keys(&self) -> usize {
        self.buckets.len() * GHOSTS
    }

    pub(super) fn bytes(&self) -> usize {
        self.keys() * GHOST_BYTES
    }

    fn bucket(&mut self, hash: u64) -> Option<&mut [u16; GHOSTS]> {
        let count = self.buckets.len();
        (count > 0).then(|| &mut self.buckets[pick(hash, count)])
    }

    /// Remembers a key.
    pub(super) fn note(&mut self, hash: u64) {
        if let Some(bucket) = self.bucket(hash) {
            bucket.rotate_right(1);
            bucket[0] = tag(hash);
        }
    }

    /// Whether it remembers a key, which it then does no more.
    pub(super) fn take(&mut self, hash: u64) -> bool {
        let tag = tag(hash);
        let Some(bucket) = self.bucket(hash) else {
            return false;
        };
        let found = bucket.iter().position(|&ghost| ghost == tag);
        if let Some(at) = found {
            bucket[at..].rotate_left(1);
            bucket[GHOSTS - 1] = 0;
        }
        found.is_some()
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_ghost_goes_first() {
        let mut ghosts = Ghosts::new(8);
        for key in 0..9u64 {
            ghosts.note(key << 33);
        }
        assert!(!ghosts.take(0));
        assert!((1..9u64).all(|key| ghosts.take(key << 33) && !ghosts.take(key << 33)));
        assert!(!Ghosts::new(0).take(0));
    }
}
