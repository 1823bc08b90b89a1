//! The world's readers: point lookups and scans, of the tree alone and through the memtables,
//! interleaved with other work.

use crate::world::World;
use alluvium_base::SequenceNumber;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::{AppendOperator, MergeDirection};
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::Result;
use alluvium_stories::MemtableStack;
use std::sync::Arc;
use std::task::Poll;

/// The layers that a scan reads.
#[derive(Clone, Copy, Debug)]
enum Layers {
    Tree,
    All,
}

impl World {
    /// Performs a point lookup of the current state, through the memtables.
    pub(crate) fn get(&mut self) -> Result<()> {
        let key = self.key();
        let mut gather = [LookupState::new(MAX_SEQUENCE, self.now_ms, Some(&AppendOperator))];
        self.stack.gather(&self.tree, &[&key], &mut gather)?;
        let [gather] = gather;
        let found = gather.finish();
        let wanted = self.history.read(&key, MAX_SEQUENCE, self.now_ms);
        assert_eq!(found, wanted, "{} now\n{}", key.escape_ascii(), self.tree.draw());
        self.note(&found.unwrap_or_default());
        Ok(())
    }

    /// Performs point lookups of the tree at a snapshot.
    pub(crate) fn get_at(&mut self) -> Result<()> {
        let key = self.key();
        let at = self.some_snapshot();
        let found = self.tree.get(&key, at, self.now_ms)?;
        let wanted = self.history.read(&key, at, self.now_ms);
        assert_eq!(
            found,
            wanted,
            "{} at {at}\n{}",
            key.escape_ascii(),
            self.tree.draw()
        );
        let keys: Vec<Vec<u8>> = (0..self.random.usize(..20)).map(|_| self.key()).collect();
        let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let found = self.tree.multi_get(&refs, at, self.now_ms)?;
        for (key, found) in refs.iter().zip(found) {
            assert_eq!(
                found,
                self.history.read(key, at, self.now_ms),
                "{}",
                key.escape_ascii()
            );
        }
        // Also read the current state, including the memtables.
        let gather = |_| LookupState::new(MAX_SEQUENCE, self.now_ms, Some(&AppendOperator));
        let mut gathers: Vec<LookupState<'_>> = refs.iter().map(gather).collect();
        self.stack.gather(&self.tree, &refs, &mut gathers)?;
        for (key, gather) in refs.iter().zip(gathers) {
            let wanted = self.history.read(key, MAX_SEQUENCE, self.now_ms);
            assert_eq!(gather.finish(), wanted, "{}", key.escape_ascii());
        }
        self.poll_lookups()
    }

    /// Polls several lookups in random order, interleaved with other work.
    fn poll_lookups(&mut self) -> Result<()> {
        let at = self.sequence;
        self.snapshots.push(at);
        let stack: Arc<dyn MemtableOwner> = Arc::<MemtableStack>::clone(&self.stack);
        let mut lookups = Vec::new();
        for _ in 0..self.random.usize(..12) {
            let key = self.key();
            let lookup = self.tree.lookup_with(Arc::clone(&stack), &key, at, self.now_ms);
            let wanted = self.history.read(&key, at, self.now_ms);
            lookups.push((lookup, wanted));
        }
        while !lookups.is_empty() {
            let index = self.random.usize(..lookups.len());
            let (lookup, wanted) = &mut lookups[index];
            if let Poll::Ready(found) = lookup.poll() {
                assert_eq!(found?, *wanted, "{lookup:?} at {at}\n{}", self.tree.draw());
                lookups.swap_remove(index);
            }
            assert_eq!(Arc::strong_count(&self.memtable), 2);
            self.work_amid()?;
        }
        let index = self.snapshots.iter().rposition(|&snapshot| snapshot == at);
        self.snapshots.swap_remove(index.expect("it was pushed"));
        Ok(())
    }

    /// Performs other work in the middle of a read.
    fn work_amid(&mut self) -> Result<()> {
        match self.random.u32(..120) {
            0..3 => self.poll_step(),
            3..6 => self.poll_incorporation(),
            6 => self.seal(),
            7..20 => self.write(),
            _ => Ok(()),
        }
    }

    fn some_snapshot(&mut self) -> SequenceNumber {
        let at = self.random.usize(..=self.snapshots.len());
        self.snapshots.get(at).copied().unwrap_or(self.tree.cut())
    }

    /// Scans a range in either direction, interleaved with other work. Reads either the tree at a
    /// snapshot, or the current state through the memtables.
    pub(crate) fn scan(&mut self) -> Result<()> {
        let layers = if self.random.bool() {
            Layers::Tree
        } else {
            Layers::All
        };
        let at = match layers {
            Layers::Tree => self.some_snapshot(),
            Layers::All => self.sequence,
        };
        // The sequence number counts as a snapshot during the scan.
        self.snapshots.push(at);
        let result = self.scan_at(at, layers);
        let index = self.snapshots.iter().rposition(|&snapshot| snapshot == at);
        self.snapshots.swap_remove(index.expect("it was pushed"));
        result
    }

    /// Compares the contents of every snapshot with the reference.
    pub(crate) fn compare_snapshots(&mut self) -> Result<()> {
        let cut = self.tree.cut();
        for at in self.snapshots.clone().into_iter().filter(|&at| at <= cut) {
            let mut wanted = self.history.scan(at, self.now_ms);
            let direction = if self.random.bool() {
                MergeDirection::Forward
            } else {
                wanted.reverse();
                MergeDirection::Backward
            };
            let mut iter = self.tree.iter(KeyRange::everything(), direction, at, self.now_ms);
            for (key, value) in &wanted {
                let found = iter.next()?;
                assert!(
                    found == Some((&key[..], &value[..])),
                    "{direction:?} at {at} of {:?}, cut {cut}: expected {}, found {:?}\n{}",
                    self.snapshots,
                    key.escape_ascii(),
                    found.map(|(key, _)| key.escape_ascii().to_string()),
                    self.tree.draw()
                );
            }
            assert_eq!(iter.next()?, None, "{direction:?} at {at}");
        }
        Ok(())
    }

    fn some_range(&mut self) -> KeyRange {
        let (one, other) = (self.key(), self.key());
        match self.random.u8(..4) {
            0 => KeyRange::everything(),
            1 => KeyRange::new(&one, None),
            _ if one < other => KeyRange::new(&one, Some(&other)),
            _ => KeyRange::new(&other, Some(&one)),
        }
    }

    fn scan_at(&mut self, at: SequenceNumber, layers: Layers) -> Result<()> {
        let range = self.some_range();
        let direction = if self.random.bool() {
            MergeDirection::Forward
        } else {
            MergeDirection::Backward
        };
        let mut wanted = self.history.scan(at, self.now_ms);
        wanted.retain(|(key, _)| range.contains(key));
        if direction == MergeDirection::Backward {
            wanted.reverse();
        }
        let stack: Arc<dyn MemtableOwner> = Arc::<MemtableStack>::clone(&self.stack);
        let mut iter = match layers {
            Layers::Tree => self.tree.iter(range.clone(), direction, at, self.now_ms),
            Layers::All => self
                .tree
                .iter_with(stack, range.clone(), direction, at, self.now_ms),
        };
        if self.random.bool() {
            let key = self.key();
            iter.seek(&key);
            wanted.retain(|(found, _)| match direction {
                MergeDirection::Forward => *found >= key,
                MergeDirection::Backward => *found <= key,
            });
        }
        let most = self.random.usize(..400);
        if self.random.bool() {
            iter.expect(self.random.usize(..600));
        }
        let mut wanted = wanted.into_iter();
        for number in 0..most {
            let found = iter.next()?.map(|(key, value)| (key.to_vec(), value.to_vec()));
            let expected = wanted.next();
            assert!(
                found == expected,
                "record {number} of {range:?} {direction:?} of {layers:?} at {at}: found {:?}, expected {:?}\n{}",
                found.as_ref().map(|(key, _)| key.escape_ascii().to_string()),
                expected.as_ref().map(|(key, _)| key.escape_ascii().to_string()),
                self.tree.draw()
            );
            // The world and the list have one reference each. The iterator must not hold another
            // between calls.
            assert_eq!(Arc::strong_count(&self.memtable), 2);
            let Some((key, _)) = found else { break };
            self.note(&key);
            self.work_amid()?;
        }
        Ok(())
    }
}
