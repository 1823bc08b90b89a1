//! Scans: one cursor for each live run, merged; one leaf's range after the other.

use super::gather::Gather;
use super::node::Node;
use super::tree::Tree;
use crate::fetch;
use crate::merge::{Direction, Merged};
use crate::range::KeyRange;
use crate::run::{self, Access, Cursor, RangeDeletes};
use alluvium_base::{Purpose, Sequence};
use alluvium_storage::Result;
use std::fmt;
use std::task::Poll;

/// Deleted keys in a row after which a scan looks for the end of the range delete that covers them.
const PATIENCE: u32 = 4;
/// Deleted keys in a row after which a scan asks for what it wades through to be compacted.
const WADING: u32 = 512;

/// A walk over the keys of a range that have a value, for a reader at one sequence number.
///
/// It holds a sequence number and a position, never a version: when the tree has changed, it finds its place anew, so that it keeps
/// neither memory nor extents from being used again.
pub struct Iter {
    tree: Tree,
    range: KeyRange,
    direction: Direction,
    at: Sequence,
    now_ms: u64,
    segment: Option<Segment>,
    /// The last key that was taken, dead or alive, or the bound that a seek set.
    position: Position,
    key: Vec<u8>,
    value: Vec<u8>,
    dead: u32,
    /// How many records will probably be taken, from now on.
    expected: usize,
}

#[derive(Clone, Debug)]
enum Position {
    /// Before everything, in the iterator's direction.
    Start,
    /// At this key or behind it.
    At(Vec<u8>),
    /// Behind this key.
    Behind(Vec<u8>),
    /// Behind everything.
    End,
}

/// A leaf, by a key.
enum Probe {
    /// The leaf in whose range the key is.
    Holds(Vec<u8>),
    /// The leaf in whose range the keys just below it are.
    Before(Vec<u8>),
    /// The last leaf.
    Last,
}

/// The cursors within one leaf's range.
struct Segment {
    version: u64,
    /// The leaf's range, cut to the iterator's.
    range: KeyRange,
    merged: Merged<Cursor>,
    /// The range deletes of each source that has any.
    deletes: Vec<(usize, RangeDeletes)>,
}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter")
            .field("range", &self.range)
            .field("direction", &self.direction)
            .field("at", &self.at)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl Tree {
    /// A walk over `range` in key order or against it, for a reader at `at` to whom puts that expire at or before `now_ms` are gone.
    #[must_use]
    pub fn iter(&self, range: KeyRange, direction: Direction, at: Sequence, now_ms: u64) -> Iter {
        Iter {
            tree: self.clone(),
            range,
            direction,
            at,
            now_ms,
            segment: None,
            position: Position::Start,
            key: Vec::new(),
            value: Vec::new(),
            dead: 0,
            expected: 0,
        }
    }
}

impl Iter {
    /// Goes before the first key at or behind `key`, in the iterator's direction.
    pub fn seek(&mut self, key: &[u8]) {
        self.position = Position::At(key.to_vec());
        self.segment = None;
        self.dead = 0;
    }

    /// About so many records will be taken: what they need is read at once, instead of more and more ahead as a scan goes on.
    pub fn expect(&mut self, records: usize) {
        self.expected = records;
    }

    /// The next key that has a value, and the value.
    ///
    /// # Errors
    /// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt). Asked again, it tries again.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let found = self.find_next();
        if found.is_err() {
            self.segment = None;
        }
        Ok(found?.then_some((&self.key, &self.value)))
    }

    fn find_next(&mut self) -> Result<bool> {
        // What the current version refers to stays while this guard is pinned.
        let _guard = self.tree.shared.store.epochs().pin();
        loop {
            let number = self.tree.peek().number;
            if self
                .segment
                .as_ref()
                .is_none_or(|segment| segment.version != number)
                && !self.open()?
            {
                return Ok(false);
            }
            while self
                .segment
                .as_ref()
                .is_some_and(|segment| segment.merged.key().is_some())
            {
                if self.take_key()? {
                    self.dead = 0;
                    self.expected = self.expected.saturating_sub(1);
                    return Ok(true);
                }
                self.skip()?;
            }
            self.leave();
        }
    }

    /// Opens the leaf where the position is; none when the range ends before.
    fn open(&mut self) -> Result<bool> {
        let tree = self.tree.clone();
        let version = tree.peek();
        let Some(probe) = self.probe() else {
            return Ok(false);
        };
        let leaf = leaf_of(&version.root, &probe);
        let range = leaf.range.intersect(&self.range);
        if range.is_empty() {
            self.position = Position::End;
            return Ok(false);
        }
        let mut sources = Vec::new();
        let mut node: &Node = &version.root;
        loop {
            let pivot = node.pivot_for(&leaf.range.low);
            let shared_by = node.pivots[pivot].child.as_deref().map_or(1, Node::leaves);
            for layer in node.stack(pivot).rev() {
                let records =
                    layer.weight.records as f64 / shared_by as f64 / layer.part.group.runs.len() as f64;
                let within = layer.part.within(&range);
                for (_, run) in layer.part.group.runs().rev() {
                    if within.overlaps(run.low(), run.high()) {
                        sources.push((run.clone(), within.clone(), records));
                    }
                }
            }
            match node.pivots[pivot].child.as_deref() {
                Some(child) => node = child,
                None => break,
            }
        }
        tree.note_scan(leaf, matches!(self.position, Position::Start | Position::At(_)));
        let mut deletes = Vec::new();
        let mut cursors = Vec::with_capacity(sources.len());
        let all: f64 = sources.iter().map(|(.., records)| records).sum();
        for (run, mut within, records) in sources {
            self.narrow(&mut within, &deletes);
            if !within.overlaps(run.low(), run.high()) {
                continue;
            }
            if !run.range_deletes().is_empty() {
                deletes.push((cursors.len(), run.range_deletes().within(&within)));
            }
            let mut cursor = run.cursor(tree.store(), within, self.direction, Access::Cached);
            cursor.expect(self.leaves(&run, records / all.max(1.0)));
            cursors.push(cursor);
        }
        let from = match &self.position {
            Position::At(key) | Position::Behind(key) if range.contains(key) => Some(&key[..]),
            _ => None,
        };
        run::open_many(&mut cursors, from)?;
        let mut segment = Segment {
            version: version.number,
            range,
            merged: Merged::new(cursors, self.direction),
            deletes,
        };
        if let Position::Behind(key) = &self.position {
            while segment.merged.key() == Some(key) {
                segment.merged.advance()?;
            }
        }
        self.segment = Some(segment);
        Ok(true)
    }

    /// How many leaves of a run will probably be needed, when it has this share of the records.
    fn leaves(&self, run: &run::Run, share: f64) -> usize {
        let summary = run.summary();
        let records = self.expected as f64 * share;
        let leaves = records * summary.leaves as f64 / summary.records.max(1) as f64;
        // The first of them is entered somewhere in its middle.
        if self.expected == 0 {
            1
        } else {
            (leaves + 1.0).round() as usize
        }
    }

    /// Leaves out of an older source what newer range deletes cover from the position on: it need not be walked through.
    fn narrow(&self, within: &mut KeyRange, newer: &[(usize, RangeDeletes)]) {
        let counts =
            |fragment: &&run::Fragment| fragment.sequences.iter().any(|&sequence| sequence <= self.at);
        match self.direction {
            Direction::Forward => {
                if let Position::At(key) | Position::Behind(key) = &self.position
                    && *within.low < **key
                {
                    within.low = key.as_slice().into();
                }
                let covering = |low: &[u8]| {
                    newer
                        .iter()
                        .find_map(|(_, deletes)| deletes.fragment(low).filter(counts))
                };
                while let Some(fragment) = covering(&within.low) {
                    within.low.clone_from(&fragment.end);
                }
            }
            Direction::Backward => {
                // The last key that counts is at or before a key, or before the end: the fragment that reaches there covers it.
                let covering = |high: &[u8]| {
                    newer
                        .iter()
                        .find_map(|(_, deletes)| deletes.reaching(high).filter(counts))
                };
                while let Some(fragment) = within.high.as_deref().and_then(covering) {
                    within.high = Some(fragment.start.clone());
                }
            }
        }
    }

    /// Where the leaf to be opened is; none when there is nothing left.
    fn probe(&self) -> Option<Probe> {
        let range = &self.range;
        let before_the_end = || match &range.high {
            Some(high) => Probe::Before(high.to_vec()),
            None => Probe::Last,
        };
        match (&self.position, self.direction) {
            (Position::End, _) => None,
            (Position::Start, Direction::Forward) => Some(Probe::Holds(range.low.to_vec())),
            (Position::Start, Direction::Backward) => Some(before_the_end()),
            (Position::At(key) | Position::Behind(key), Direction::Forward) => {
                let key = key.as_slice().max(&range.low);
                (!range.ends_before(key)).then(|| Probe::Holds(key.to_vec()))
            }
            (Position::At(key) | Position::Behind(key), Direction::Backward) if **key < *range.low => None,
            (Position::At(key) | Position::Behind(key), Direction::Backward) if range.ends_before(key) => {
                Some(before_the_end())
            }
            (Position::At(key), Direction::Backward) => Some(Probe::Holds(key.clone())),
            (Position::Behind(key), Direction::Backward) => Some(Probe::Before(key.clone())),
        }
    }

    /// Goes beyond the leaf that was walked through.
    fn leave(&mut self) {
        let Some(segment) = self.segment.take() else {
            return;
        };
        self.position = match self.direction {
            Direction::Forward => match segment.range.high {
                Some(high) if !self.range.ends_before(&high) => Position::At(high.into_vec()),
                _ => Position::End,
            },
            Direction::Backward if segment.range.low <= self.range.low => Position::End,
            Direction::Backward => Position::Behind(segment.range.low.into_vec()),
        };
    }

    /// Takes the key that the cursors stand at, with all its messages; whether it has a value.
    fn take_key(&mut self) -> Result<bool> {
        let tree = self.tree.clone();
        let segment = self.segment.as_mut().expect("a leaf is open");
        self.key.clear();
        self.key
            .extend_from_slice(segment.merged.key().unwrap_or_default());
        let operator = tree.options().schema.operator(&self.key);
        let mut gather = Gather::new(self.at, self.now_ms, operator);
        for (_, deletes) in &segment.deletes {
            gather.range_deleted(deletes.covering(&self.key, self.at));
        }
        while let Some(winner) = segment.merged.winner() {
            let source = segment.merged.source(winner);
            if source.key() != Some(&self.key[..]) {
                break;
            }
            if !gather.is_decided() {
                let record = source.record();
                // A decided lookup takes no more, and an undecided one goes on by itself.
                let _ = fetch::found(gather.known.record(&record, operator, |pointer, out| {
                    let guard = tree.store().epochs().pin();
                    Poll::Ready(run::read_value(
                        tree.store().cache(),
                        &guard,
                        pointer,
                        Purpose::Scan,
                        out,
                    ))
                }))?;
            }
            segment.merged.advance()?;
        }
        self.position = Position::Behind(self.key.clone());
        match gather.finish() {
            Some(value) => {
                self.value = value;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// After a dead key: where a range delete covers what comes next, its end is sought in everything older.
    fn skip(&mut self) -> Result<()> {
        self.dead += 1;
        if self.dead == WADING {
            self.tree.note_wading(&self.key);
        }
        if !self.dead.is_multiple_of(PATIENCE) {
            return Ok(());
        }
        let segment = self.segment.as_mut().expect("a leaf is open");
        let Some(key) = segment.merged.key().map(<[u8]>::to_vec) else {
            return Ok(());
        };
        let mut moved = false;
        for (source, deletes) in &segment.deletes {
            let Some(fragment) = deletes.fragment(&key) else {
                continue;
            };
            if !fragment.sequences.iter().any(|&sequence| sequence <= self.at) {
                continue;
            }
            // Everything in older sources is older than the delete (G1).
            for cursor in segment.merged.sources_mut().iter_mut().skip(source + 1) {
                let inside = cursor
                    .key()
                    .is_some_and(|at| *fragment.start <= *at && *at < *fragment.end);
                if !inside {
                    continue;
                }
                moved = true;
                match self.direction {
                    Direction::Forward => cursor.seek(&fragment.end)?,
                    Direction::Backward => {
                        cursor.seek(&fragment.start)?;
                        while cursor.key() == Some(&fragment.start) {
                            cursor.advance()?;
                        }
                    }
                }
            }
        }
        if moved {
            segment.merged.rebuild();
        }
        Ok(())
    }
}

/// The leaf that a scan enters.
fn leaf_of<'v>(root: &'v Node, probe: &Probe) -> &'v Node {
    let mut node = root;
    loop {
        let pivot = match probe {
            Probe::Last => node.pivots.len() - 1,
            Probe::Holds(key) => node.pivot_for(key),
            Probe::Before(key) => {
                let below = node.pivots.partition_point(|pivot| *pivot.low < **key);
                below.saturating_sub(1)
            }
        };
        match node.pivots[pivot].child.as_deref() {
            Some(child) => node = child,
            None => return node,
        }
    }
}
