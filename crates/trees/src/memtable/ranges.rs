//! Range deletes: cut into disjoint fragments, so that a reader finds the one that covers a key by bisection.
//!
//! The fragments are kept in lists that never change, each at least twice as large as the next: a new delete is a list of
//! its own, and lists of a size are merged (Bentley and Saxe's logarithmic method, 1980). So adding costs about log n
//! copies a delete, however many there are, and readers share a snapshot of the lists.

use super::Full;
use super::arena::{Arena, UNIT};
use crate::sync::{AtomicUsize, Ordering};
use alluvium_base::Sequence;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// One range delete.
type Range = (Arc<[u8]>, Arc<[u8]>, Sequence);

/// A range that some deletes cover whole.
#[derive(Clone, Debug)]
struct Fragment {
    start: Arc<[u8]>,
    end: Arc<[u8]>,
    /// The sequence numbers of those deletes, newest first.
    sequences: Box<[Sequence]>,
}

/// Fragments in order of their starts, disjoint, and of how many deletes they are.
#[derive(Debug, Default)]
struct Fragments {
    fragments: Vec<Fragment>,
    deletes: usize,
    bytes: usize,
}

/// What writers change, one after the other.
#[derive(Debug, Default)]
struct Writing {
    all: Vec<Range>,
    /// Bytes that were taken from the arena's budget.
    taken: usize,
}

/// The range deletes of a memtable.
#[derive(Debug, Default)]
pub(super) struct RangeDeletes {
    /// How many there are, so that the common reader asks one word.
    count: AtomicUsize,
    writing: Mutex<Writing>,
    /// The largest list first.
    lists: RwLock<Arc<Vec<Arc<Fragments>>>>,
}

impl RangeDeletes {
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn read(&self) -> Arc<Vec<Arc<Fragments>>> {
        // The lock is held for the copy of a pointer only, by writers too.
        Arc::clone(&self.lists.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a delete, for which there must be room in the arena's budget; nothing is changed otherwise.
    pub(super) fn add(
        &self,
        start: &[u8],
        end: &[u8],
        sequence: Sequence,
        arena: &Arena,
    ) -> Result<(), Full> {
        if start >= end {
            return Ok(());
        }
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let range: Range = (start.into(), end.into(), sequence);
        let mut lists = self.read().to_vec();
        let mut newest = Arc::new(Fragments::of(&range));
        while let Some(list) = lists.pop_if(|list| list.deletes < 2 * newest.deletes) {
            newest = Arc::new(list.merge(&newest));
        }
        lists.push(newest);
        let deletes: usize = lists.iter().map(|list| list.bytes).sum();
        let bytes = deletes + (writing.all.len() + 1) * size_of::<Range>();
        if bytes > writing.taken {
            arena
                .take((bytes - writing.taken).next_multiple_of(UNIT), UNIT)
                .ok_or(Full)?;
            writing.taken = bytes.next_multiple_of(UNIT);
        }
        *self.lists.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(lists);
        writing.all.push(range);
        self.count.fetch_add(1, Ordering::Release);
        Ok(())
    }

    pub(super) fn covering(&self, key: &[u8], at: Sequence) -> Option<Sequence> {
        self.now()?.covering(key, at)
    }

    /// What there is now, if there is anything.
    pub(super) fn now(&self) -> Option<Deletes> {
        (!self.is_empty()).then(|| Deletes { lists: self.read() })
    }

    pub(super) fn all(&self) -> Vec<(Vec<u8>, Vec<u8>, Sequence)> {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let range = |(start, end, sequence): &Range| (start.to_vec(), end.to_vec(), *sequence);
        writing.all.iter().map(range).collect()
    }
}

/// The range deletes of a memtable at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Deletes {
    lists: Arc<Vec<Arc<Fragments>>>,
}

impl Deletes {
    /// The newest delete at or before `at` that covers a key.
    pub(crate) fn covering(&self, key: &[u8], at: Sequence) -> Option<Sequence> {
        let lists = self.lists.iter();
        lists.filter_map(|list| list.covering(key, at)).max()
    }

    /// A range around a key that deletes at or before `at` cover whole: of several one that goes on furthest.
    pub(crate) fn around(&self, key: &[u8], at: Sequence) -> Option<(&[u8], &[u8])> {
        let lists = self.lists.iter();
        let ranges = lists.filter_map(|list| list.around(key)?.bounds(at));
        ranges.max_by_key(|(_, end)| *end)
    }

    /// The same around every key just below `end`: of several one that begins first.
    pub(crate) fn reaching(&self, end: &[u8], at: Sequence) -> Option<(&[u8], &[u8])> {
        let lists = self.lists.iter();
        let ranges = lists.filter_map(|list| list.reaching(end)?.bounds(at));
        ranges.min_by_key(|(start, _)| *start)
    }
}

impl Fragment {
    /// Its range, if a reader at `at` finds it deleted.
    fn bounds(&self, at: Sequence) -> Option<(&[u8], &[u8])> {
        let oldest = self.sequences.last()?;
        (*oldest <= at).then_some((&self.start, &self.end))
    }
}

impl Fragments {
    fn of((start, end, sequence): &Range) -> Fragments {
        let mut fragments = Fragments {
            deletes: 1,
            ..Fragments::default()
        };
        fragments.push(start, end, Box::new([*sequence]));
        fragments
    }

    fn push(&mut self, start: &Arc<[u8]>, end: &Arc<[u8]>, sequences: Box<[Sequence]>) {
        // Keys are counted with every fragment that has them, though some share them.
        self.bytes += size_of::<Fragment>() + start.len() + end.len() + size_of_val(&sequences[..]);
        self.fragments.push(Fragment {
            start: Arc::clone(start),
            end: Arc::clone(end),
            sequences,
        });
    }

    fn covering(&self, key: &[u8], at: Sequence) -> Option<Sequence> {
        let fragment = self.around(key)?;
        let first = fragment.sequences.partition_point(|&sequence| sequence > at);
        fragment.sequences.get(first).copied()
    }

    /// The fragment that a key is in.
    fn around(&self, key: &[u8]) -> Option<&Fragment> {
        let after = self.fragments.partition_point(|fragment| *fragment.start <= *key);
        let fragment = &self.fragments[after.checked_sub(1)?];
        (*key < *fragment.end).then_some(fragment)
    }

    /// The fragment that holds every key just below `end`.
    fn reaching(&self, end: &[u8]) -> Option<&Fragment> {
        let below = self.fragments.partition_point(|fragment| *fragment.start < *end);
        let fragment = &self.fragments[below.checked_sub(1)?];
        (*end <= *fragment.end).then_some(fragment)
    }

    /// Both lists in one: wherever a fragment of either begins or ends, a fragment of the result does.
    fn merge(&self, other: &Fragments) -> Fragments {
        let mut merged = Fragments {
            deletes: self.deletes + other.deletes,
            ..Fragments::default()
        };
        let (mut ours, mut theirs) = (self.fragments.iter(), other.fragments.iter());
        let (mut our, mut their) = (ours.next().cloned(), theirs.next().cloned());
        while let (Some(one), Some(two)) = (&mut our, &mut their) {
            let (first, second) = if one.start <= two.start {
                (one, two)
            } else {
                (two, one)
            };
            if first.start < second.start {
                // What only one of them covers.
                let end = if first.end <= second.start {
                    &first.end
                } else {
                    &second.start
                };
                let end = Arc::clone(end);
                merged.push(&first.start, &end, first.sequences.clone());
                first.start = end;
            } else {
                let end = Arc::clone(if first.end <= second.end {
                    &first.end
                } else {
                    &second.end
                });
                let both = newest_first(&first.sequences, &second.sequences);
                merged.push(&first.start, &end, both);
                first.start = Arc::clone(&end);
                second.start = end;
            }
            // What is used up makes way.
            if our.as_ref().is_some_and(|one| one.start >= one.end) {
                our = ours.next().cloned();
            }
            if their.as_ref().is_some_and(|two| two.start >= two.end) {
                their = theirs.next().cloned();
            }
        }
        let rest = our.into_iter().chain(ours.cloned());
        for fragment in rest.chain(their.into_iter().chain(theirs.cloned())) {
            merged.push(&fragment.start, &fragment.end, fragment.sequences);
        }
        merged
    }
}

fn newest_first(one: &[Sequence], two: &[Sequence]) -> Box<[Sequence]> {
    let mut both = [one, two].concat();
    both.sort_unstable_by(|a, b| b.cmp(a));
    both.into()
}
