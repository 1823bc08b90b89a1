//! An ordered map of writes whose clones share memory.
//!
//! The map is a list of chunks in key order. A clone shares all chunks with the original. A change
//! copies the chunk that it changes if a clone still refers to it, and the list of chunks once. An
//! iterator can therefore keep the state that it started with while the map changes.

use super::UserKeyBounds;
use super::write::KeyWrite;
use crate::locking::ranges::InlineKey;
use std::ops::Bound;
use std::sync::Arc;

/// Maximum number of writes in a chunk. A larger chunk is split in half.
const MOST_IN_CHUNK: usize = 64;

/// A write with its key.
type MapEntry = (InlineKey, Arc<KeyWrite>);

#[derive(Clone, Debug)]
struct MapChunk {
    /// Lower bound of the keys in the chunk.
    low: InlineKey,
    /// The writes of the chunk in key order. There is at least one.
    entries: Vec<MapEntry>,
}

/// The latest write of each key.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteMap {
    chunks: Arc<Vec<Arc<MapChunk>>>,
    len: usize,
}

impl WriteMap {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the index of the chunk that contains `key` if the map does.
    fn chunk_of(&self, key: &[u8]) -> Option<usize> {
        self.chunks
            .partition_point(|chunk| *chunk.low <= *key)
            .checked_sub(1)
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Arc<KeyWrite>> {
        let entries = &self.chunks[self.chunk_of(key)?].entries;
        let index = find(entries, key).ok()?;
        Some(&entries[index].1)
    }

    /// Sets the write of a key, and returns the one that it replaces.
    pub(super) fn insert(&mut self, key: InlineKey, write: Arc<KeyWrite>) -> Option<Arc<KeyWrite>> {
        let at = self.chunk_of(&key);
        let chunks = Arc::make_mut(&mut self.chunks);
        let Some(at) = at.or_else(|| (!chunks.is_empty()).then_some(0)) else {
            let (low, entries) = (key.clone(), vec![(key, write)]);
            chunks.push(Arc::new(MapChunk { low, entries }));
            self.len += 1;
            return None;
        };
        let is_last = at + 1 == chunks.len();
        let chunk = Arc::make_mut(&mut chunks[at]);
        if *key < *chunk.low {
            chunk.low.clone_from(&key);
        }
        let entries = &mut chunk.entries;
        match find(entries, &key) {
            Ok(index) => return Some(std::mem::replace(&mut entries[index].1, write)),
            Err(index) => entries.insert(index, (key, write)),
        }
        self.len += 1;
        if entries.len() > MOST_IN_CHUNK {
            // Keys often arrive in ascending order. The chunks that they leave behind are then
            // full.
            let kept = if is_last { MOST_IN_CHUNK } else { MOST_IN_CHUNK / 2 };
            let entries = entries.split_off(kept);
            let low = entries[0].0.clone();
            chunks.insert(at + 1, Arc::new(MapChunk { low, entries }));
        }
        None
    }

    /// Removes and returns the write of a key.
    pub(super) fn remove(&mut self, key: &[u8]) -> Option<Arc<KeyWrite>> {
        let at = self.chunk_of(key)?;
        let index = find(&self.chunks[at].entries, key).ok()?;
        let chunks = Arc::make_mut(&mut self.chunks);
        let entries = &mut Arc::make_mut(&mut chunks[at]).entries;
        let (_, removed) = entries.remove(index);
        if entries.is_empty() {
            chunks.remove(at);
        }
        self.len -= 1;
        Some(removed)
    }

    /// Returns all writes with their keys, in key order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&InlineKey, &KeyWrite)> {
        let entries = self.chunks.iter().flat_map(|chunk| chunk.entries.iter());
        entries.map(|(key, write)| (key, &**write))
    }

    /// Returns the written keys within bounds, in key order.
    pub(super) fn keys(&self, bounds: UserKeyBounds<'_>) -> Vec<InlineKey> {
        let mut cursor = self.cursor(bounds);
        let mut keys = Vec::new();
        while let Some((key, _)) = cursor.front() {
            keys.push(key.clone());
            cursor.pass_front();
        }
        keys
    }

    /// Returns a cursor over the writes within bounds. Later changes of the map do not affect it.
    pub(super) fn cursor(&self, (low, high): UserKeyBounds<'_>) -> MapCursor {
        let front = match low {
            Bound::Unbounded => MapPosition::default(),
            Bound::Included(key) => self.position(key, IsKeyPassed::No),
            Bound::Excluded(key) => self.position(key, IsKeyPassed::Yes),
        };
        let back = match high {
            Bound::Unbounded => MapPosition {
                chunk: self.chunks.len(),
                index: 0,
            },
            Bound::Included(key) => self.position(key, IsKeyPassed::Yes),
            Bound::Excluded(key) => self.position(key, IsKeyPassed::No),
        };
        MapCursor {
            chunks: Arc::clone(&self.chunks),
            front,
            back,
        }
    }

    /// Returns the position of the first write at or after `key`, or after `key` if it is passed.
    fn position(&self, key: &[u8], is_passed: IsKeyPassed) -> MapPosition {
        let Some(chunk) = self.chunk_of(key) else {
            return MapPosition::default();
        };
        let entries = &self.chunks[chunk].entries;
        let index = match find(entries, key) {
            Ok(index) => index + usize::from(is_passed == IsKeyPassed::Yes),
            Err(index) => index,
        };
        match index < entries.len() {
            true => MapPosition { chunk, index },
            false => MapPosition {
                chunk: chunk + 1,
                index: 0,
            },
        }
    }
}

fn find(entries: &[MapEntry], key: &[u8]) -> Result<usize, usize> {
    entries.binary_search_by(|(other, _)| (**other).cmp(key))
}

/// Whether a position is after the given key even if the map contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IsKeyPassed {
    No,
    Yes,
}

/// A position in a map. The end of a chunk is the start of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct MapPosition {
    chunk: usize,
    index: usize,
}

/// A double-ended cursor over a part of a [`WriteMap`], in the state in which it was created.
#[derive(Clone, Debug)]
pub(super) struct MapCursor {
    chunks: Arc<Vec<Arc<MapChunk>>>,
    front: MapPosition,
    /// The position after the last write that has not been passed.
    back: MapPosition,
}

impl MapCursor {
    fn at(&self, position: MapPosition) -> (&InlineKey, &Arc<KeyWrite>) {
        let (key, write) = &self.chunks[position.chunk].entries[position.index];
        (key, write)
    }

    /// Returns the next write at the front without passing it.
    pub(super) fn front(&self) -> Option<(&InlineKey, &Arc<KeyWrite>)> {
        (self.front < self.back).then(|| self.at(self.front))
    }

    /// Returns the next write at the back without passing it.
    pub(super) fn back(&self) -> Option<(&InlineKey, &Arc<KeyWrite>)> {
        (self.front < self.back).then(|| self.at(self.before_back()))
    }

    /// Passes the write that [`MapCursor::front`] returns.
    pub(super) fn pass_front(&mut self) {
        self.front.index += 1;
        if self.front.index == self.chunks[self.front.chunk].entries.len() {
            self.front = MapPosition {
                chunk: self.front.chunk + 1,
                index: 0,
            };
        }
    }

    /// Passes the write that [`MapCursor::back`] returns.
    pub(super) fn pass_back(&mut self) {
        self.back = self.before_back();
    }

    fn before_back(&self) -> MapPosition {
        let MapPosition { chunk, index } = self.back;
        match index.checked_sub(1) {
            Some(index) => MapPosition { chunk, index },
            None => MapPosition {
                chunk: chunk - 1,
                index: self.chunks[chunk - 1].entries.len() - 1,
            },
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn number(write: &KeyWrite) -> u64 {
        match write {
            KeyWrite::Put { expires_ms, .. } => *expires_ms,
            _ => unreachable!("only puts are inserted"),
        }
    }

    type Model = BTreeMap<Vec<u8>, u64>;

    fn check(random: &mut fastrand::Rng, map: &WriteMap, model: &Model) {
        assert_eq!(map.len(), model.len());
        let all: Vec<(Vec<u8>, u64)> = map.iter().map(|(key, w)| (key.to_vec(), number(w))).collect();
        let expected: Vec<(Vec<u8>, u64)> = model.iter().map(|(key, w)| (key.clone(), *w)).collect();
        assert_eq!(all, expected);
        let (low, high) = (random.u16(..3000), random.u16(..3000));
        let (low, high) = (low.min(high).to_be_bytes(), high.max(low).to_be_bytes());
        let bound = |random: &mut fastrand::Rng, key| match random.u8(..3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(key),
            _ => Bound::Excluded(key),
        };
        let bounds = (bound(random, &low[..]), bound(random, &high[..]));
        if bounds == (Bound::Excluded(&low[..]), Bound::Excluded(&low[..])) {
            return;
        }
        let mut expected = model.range::<[u8], _>(bounds);
        let mut cursor = map.cursor(bounds);
        loop {
            let (next, found) = match random.bool() {
                true => (expected.next(), cursor.front()),
                false => (expected.next_back(), cursor.back()),
            };
            let found = found.map(|(key, write)| (key.to_vec(), number(write)));
            assert_eq!(found, next.map(|(key, write)| (key.clone(), *write)));
            let Some((key, _)) = found else { break };
            match cursor.front().is_some_and(|(front, _)| **front == *key) {
                true => cursor.pass_front(),
                false => cursor.pass_back(),
            }
        }
    }

    #[test]
    fn a_map_and_its_clones_behave_like_sorted_maps_of_their_time() {
        let mut random = fastrand::Rng::with_seed(31);
        let (mut map, mut model) = (WriteMap::default(), Model::new());
        let mut clones: Vec<(WriteMap, Model)> = Vec::new();
        for turn in 0..20_000_u64 {
            let key = match turn < 4000 {
                true => (turn as u16 % 3000).to_be_bytes(),
                false => random.u16(..3000).to_be_bytes(),
            };
            let removes = turn > 8000 && random.u64(..20_000) < turn;
            let (found, expected) = match removes {
                true => (map.remove(&key), model.remove(&key[..])),
                false => {
                    let write = Arc::new(KeyWrite::of(Some(b""), turn));
                    (
                        map.insert(InlineKey::from_slice(&key), write),
                        model.insert(key.to_vec(), turn),
                    )
                }
            };
            assert_eq!(found.as_deref().map(number), expected, "turn {turn}");
            let key = random.u16(..3000).to_be_bytes();
            let (found, expected) = (map.get(&key), model.get(&key[..]));
            assert_eq!(found.map(|write| number(write)), expected.copied());
            if turn % 500 == 0 {
                check(&mut random, &map, &model);
                clones.push((map.clone(), model.clone()));
                for (map, model) in &clones {
                    check(&mut random, map, model);
                }
                if clones.len() > 4 {
                    clones.remove(random.usize(..4));
                }
            }
        }
    }
}
