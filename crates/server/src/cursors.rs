//! Where walks over all keys go on: SCAN's cursors are numbers, its places are keys.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};

/// How many walks may be under way; the oldest are forgotten.
const WALKS: usize = 16 << 10;

/// Which numbers stand for which places. A number stands for the same place as long as it is known,
/// so that a client may ask twice.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    places: BTreeMap<u64, (u8, Vec<u8>)>,
    order: VecDeque<u64>,
    last: u64,
}

impl Cursors {
    /// Returns a number for the walk of a database that goes on at a key.
    pub(crate) fn keep(&self, database: u8, key: Vec<u8>) -> u64 {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        state.places.insert(number, (database, key));
        state.order.push_back(number);
        if state.order.len() > WALKS
            && let Some(oldest) = state.order.pop_front()
        {
            state.places.remove(&oldest);
        }
        number
    }

    /// Returns where a walk goes on.
    pub(crate) fn place(&self, database: u8, number: u64) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let (of, key) = state.places.get(&number)?;
        (*of == database).then(|| key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_walks_are_forgotten() {
        let cursors = Cursors::default();
        let first = cursors.keep(0, b"a".to_vec());
        assert_eq!(cursors.place(0, first), Some(b"a".to_vec()));
        assert_eq!(cursors.place(1, first), None);
        for _ in 0..WALKS {
            cursors.keep(0, b"b".to_vec());
        }
        assert_eq!(cursors.place(0, first), None);
        assert_eq!(cursors.state.lock().places.len(), WALKS);
    }
}
