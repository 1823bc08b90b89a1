//! Whether any bundle that waits in the root may hold a key, in one look.
//!
//! Every bundle has a maplet, and a lookup asks them all, nearly always in vain: a root holds two
//! dozen bundles of a memtable each, and a hundred times as much lies below. The digest is a Bloom
//! filter in memory over all of them; a lookup of a key that it denies skips the root's bundles. It
//! is derived (nothing of it is ever on the device). It is built once lookups have asked in vain
//! often enough for it to pay; without lookups, there is none.
//!
//! ```text
//!   version 7 ──┐                        a version's digest covers every bundle of its root, or there is none
//!   version 8 ──┼── digest  ░█░░█░█░     what is incorporated is added before its version is published
//!   version 9 ──┘                        what is flushed stays in it, until it is full and rebuilt
//! ```
//!
//! Invariants:
//!
//! - **D1** A digest denies no key of a bundle in the root of a version that has it: keys are added
//!   before the version is published, and never taken out. More may be added while versions use it,
//!   so a search asks once and keeps to the answer.
//! - **D2** A root with a range delete among its bundles has none: a range delete speaks of keys
//!   that no filter has.
//!
//! The filter has blocks of a cache line with six bits for each key ([`Line`]), by the fingerprints
//! that maplets have: about one unknown key in a hundred passes when it is full, one in two
//! thousand when it is new.

use crate::maplet::Reading;
use crate::tiered::tree::{Tree, Trunk};
use crate::tiered::trunk::{Group, Node};
use alluvium_base::Purpose;
use alluvium_dictionary::contract::Progress;
use alluvium_filters::{Bits, Block as _, Bloom, Line};
use alluvium_storage::{Hold, Result};
use parking_lot::Mutex;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bits of the filter for each key of its capacity.
const BITS_PER_KEY: u64 = 10;

/// The filter's capacity, in multiples of the keys that there are when it is built.
const ROOM: u64 = 2;
const LEAST_ROOM: u64 = 1 << 10;

/// With fewer groups in the root there is little to pass by.
const LEAST_GROUPS: usize = 4;
/// Build the filter once lookups have probed `entries / ENTRIES_PER_QUESTION` maplets without it:
/// probing a maplet costs three to four times as much as adding an entry.
const ENTRIES_PER_QUESTION: u64 = 4;
/// It takes this part of a memtable at most: with tiny records it would cost more memory than it is
/// worth.
const MEMTABLE_PART: u64 = 2;

/// The filter.
pub(crate) struct Digest {
    bloom: Bloom<Line>,
    fingerprint_bits: u8,
    room: u64,
    /// How many fingerprints were added; the thread that adds holds the lock.
    added: Mutex<u64>,
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digest")
            .field("bytes", &self.bytes())
            .field("room", &self.room)
            .finish_non_exhaustive()
    }
}

impl Digest {
    fn new(fingerprint_bits: u8, room: u64) -> Digest {
        let blocks = (room * BITS_PER_KEY).div_ceil(u64::from(Line::BITS));
        Digest {
            bloom: Bloom::new(blocks as usize),
            fingerprint_bits,
            room,
            added: Mutex::new(0),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bloom.bytes() as u64
    }

    /// The bits of a fingerprint, which is too short to be a hash: it is mixed again.
    #[inline]
    fn place(&self, fingerprint: u64) -> Bits<'_, Line> {
        let mixed = (fingerprint ^ fingerprint >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.bloom.of(mixed)
    }

    fn fingerprint(&self, hash: u64) -> u64 {
        hash >> (64 - self.fingerprint_bits)
    }

    /// Has the processor bring what an answer takes.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.place(self.fingerprint(hash)).prefetch();
    }

    /// Whether a key may be there, by its hash.
    #[inline]
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        // A reader that sees a version sees what was added before it was published (D1).
        self.place(self.fingerprint(hash)).may_be_there()
    }

    /// Adds fingerprints, if they fit. Returns whether they did.
    fn add(&self, fingerprints: impl ExactSizeIterator<Item = u64>) -> bool {
        let mut added = self.added.lock();
        *added += fingerprints.len() as u64;
        if *added > self.room {
            return false;
        }
        for fingerprint in fingerprints {
            // The lock is held: no other thread adds.
            self.place(fingerprint).add_alone();
        }
        true
    }

    /// Adds the keys with these hashes, if they fit. Returns whether they did.
    pub(crate) fn add_hashes(&self, hashes: &[u64]) -> bool {
        self.add(hashes.iter().map(|&hash| self.fingerprint(hash)))
    }
}

/// A digest, and the groups that it covers.
#[derive(Debug)]
pub(crate) struct Covered {
    digest: Arc<Digest>,
    groups: HashSet<u64>,
}

impl Covered {
    pub(crate) fn bytes(&self) -> u64 {
        self.digest.bytes()
    }
}

impl Trunk {
    /// The digest of a version with this root, if it covers its bundles. Otherwise there is none
    /// any more.
    pub(crate) fn digest_for(&mut self, root: &Node) -> Option<Arc<Digest>> {
        let covered = self.digest.as_ref()?;
        let is_covered = |group: &Arc<Group>| covered.groups.contains(&group.id) && !deletes_ranges(group);
        if waiting(root).all(is_covered) {
            return Some(Arc::clone(&covered.digest));
        }
        self.digest = None;
        None
    }

    /// A group was added to a digest.
    pub(crate) fn cover(&mut self, digest: &Arc<Digest>, group: u64) {
        if let Some(covered) = &mut self.digest
            && Arc::ptr_eq(&covered.digest, digest)
        {
            covered.groups.insert(group);
        }
    }
}

/// The groups of all bundles that wait in a root.
fn waiting(root: &Node) -> impl Iterator<Item = &Arc<Group>> {
    let parts = root.bundles.iter().flat_map(|bundle| &bundle.parts);
    parts.map(|part| &part.group)
}

fn deletes_ranges(group: &Group) -> bool {
    group.runs().any(|(_, run)| !run.range_deletes().is_empty())
}

impl Tree {
    /// Lookups have asked the maplets of the root's bundles so often.
    pub(crate) fn note_questions(&self, questions: u64) {
        self.shared.questions.fetch_add(questions, Ordering::Relaxed);
    }

    /// A digest of the root's bundles to be made, if lookups have paid for one.
    ///
    /// ```
    /// # use alluvium_device::memory::MemoryDirectory;
    /// # use alluvium_storage::store::{Store, StoreOptions};
    /// # use alluvium_trees::tiered::{Tree, TreeOptions};
    /// # use std::sync::Arc;
    /// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// # let tree = Tree::create(Arc::new(store), TreeOptions::default());
    /// assert!(tree.digest_due().is_none()); // nobody has looked anything up
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    #[must_use]
    pub fn digest_due(&self) -> Option<Digesting> {
        let questions = self.shared.questions.load(Ordering::Relaxed);
        if questions == 0 {
            return None;
        }
        let version = self.peek();
        let (mut groups, mut entries) = (0, 0);
        for group in waiting(&version.root) {
            groups += 1;
            entries += group.maplet.entries();
        }
        if groups < LEAST_GROUPS || questions * ENTRIES_PER_QUESTION < entries {
            return None;
        }
        self.shared.questions.store(0, Ordering::Relaxed);
        self.digest()
    }

    /// A digest of the root's bundles to be made, whatever it costs; none where there is one, or
    /// there can be none.
    #[must_use]
    pub fn digest(&self) -> Option<Digesting> {
        let hold = self.shared.store.epochs().hold();
        let version = self.version();
        let groups: VecDeque<Arc<Group>> = waiting(&version.root).cloned().collect();
        let entries: u64 = groups.iter().map(|group| group.maplet.entries()).sum();
        let bits = self.shared.options.fingerprint_bits;
        let room = (entries * ROOM).max(LEAST_ROOM);
        let is_large = room * BITS_PER_KEY / 8 > self.shared.options.shape.memtable / MEMTABLE_PART;
        if version.digest.is_some() || is_large || groups.iter().any(|group| deletes_ranges(group)) {
            return None;
        }
        let digest = Digest::new(bits, room);
        self.shared
            .totals
            .digesting
            .fetch_add(digest.bytes(), Ordering::Relaxed);
        Some(Digesting {
            tree: self.clone(),
            _hold: hold,
            covered: groups.iter().map(|group| group.id).collect(),
            groups,
            digest: Arc::new(digest),
            reading: None,
        })
    }
}

/// A digest that is being made. Dropped unfinished, it leaves nothing behind.
#[derive(Debug)]
pub struct Digesting {
    tree: Tree,
    /// The maplets' extents are not used again meanwhile.
    _hold: Hold,
    groups: VecDeque<Arc<Group>>,
    covered: HashSet<u64>,
    digest: Arc<Digest>,
    reading: Option<Reading>,
}

impl Digesting {
    /// Does a slice of the work: about `entries` entries.
    ///
    /// # Errors
    /// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt): nothing has
    /// changed.
    pub fn poll(&mut self, entries: usize) -> Result<Progress> {
        let tiers = self.tree.shared.store.tiers();
        let bits = u32::from(self.digest.fingerprint_bits);
        let mut left = entries;
        while left > 0 {
            if self.reading.is_none() {
                let Some(group) = self.groups.pop_front() else {
                    return Ok(self.install());
                };
                self.reading = Some(group.maplet.read_entries(tiers, Purpose::Compact)?);
            }
            let reading = self.reading.as_mut().expect("it was just begun");
            match reading.next_page()? {
                Some(page) => {
                    left = left.saturating_sub(page.len().max(1));
                    if !self
                        .digest
                        .add(page.iter().map(|entry| entry.fingerprint().number(bits)))
                    {
                        // So much came meanwhile that it is of no use.
                        return Ok(Progress::Done);
                    }
                }
                None => self.reading = None,
            }
        }
        Ok(Progress::More)
    }

    /// The current version has the digest from now on, unless there is more to cover by now.
    fn install(&mut self) -> Progress {
        let mut trunk = self.tree.lock();
        let version = self.tree.version();
        for group in waiting(&version.root) {
            if deletes_ranges(group) {
                return Progress::Done;
            }
            if self.covered.insert(group.id) {
                self.groups.push_back(Arc::clone(group));
            }
        }
        if !self.groups.is_empty() {
            return Progress::More;
        }
        trunk.digest = Some(Covered {
            digest: Arc::clone(&self.digest),
            groups: std::mem::take(&mut self.covered),
        });
        self.tree.publish_digest(&mut trunk, &version);
        Progress::Done
    }
}

impl Drop for Digesting {
    fn drop(&mut self) {
        let bytes = self.digest.bytes();
        self.tree
            .shared
            .totals
            .digesting
            .fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::search::{Search, Way};
    use super::*;
    use crate::tiered::TreeOptions;
    use alluvium_base::Message;
    use alluvium_base::message::LAST;
    use alluvium_device::memory::MemoryDirectory;
    use alluvium_dictionary::memtable::Memtable;
    use alluvium_filters as filters;
    use alluvium_storage::extents::Class;
    use alluvium_storage::store::{Store, StoreOptions};

    #[test]
    fn nothing_that_was_added_is_denied_and_nearly_everything_else_is() {
        let hash = |number: u64| filters::hash(0, &number.to_le_bytes());
        let digest = Digest::new(33, 10_000);
        let added: Vec<u64> = (0..10_000).map(hash).collect();
        assert!(digest.add_hashes(&added[..5_000]));
        let strangers = |digest: &Digest| (10_000..110_000).filter(|&n| digest.may_hold(hash(n))).count();
        let new = strangers(&digest);
        assert!(digest.add_hashes(&added[5_000..]));
        assert!(added.iter().all(|&hash| digest.may_hold(hash)));
        let full = strangers(&digest);
        assert!(
            (1..200).contains(&new) && (400..2_000).contains(&full),
            "{new} and {full} of 100,000"
        );
        assert!(!digest.add_hashes(&added[..1]), "there is no room");
    }

    /// Writes keys `from..from + 200` with their numbers.
    fn write(tree: &Tree, from: u64, deletes_range: bool) {
        let memtable = Memtable::new(1 << 20);
        for number in from..from + 200 {
            let message = Message::put(number + 1, b"here");
            memtable.insert(&number.to_be_bytes(), message).unwrap();
        }
        let cut = from + 200;
        if deletes_range {
            memtable.delete_range(&[0xf0], &[0xff], cut).unwrap();
        }
        let mut writing = tree.incorporate(Arc::new(memtable), cut, Class::Normal).unwrap();
        while writing.poll(50).unwrap() == Progress::More {}
    }

    fn make(mut digesting: Digesting) {
        while digesting.poll(30).unwrap() == Progress::More {}
    }

    fn has_digest(tree: &Tree) -> bool {
        tree.version().digest.is_some()
    }

    #[test]
    fn what_is_incorporated_later_is_covered_until_there_is_no_room() {
        let directory = Arc::new(MemoryDirectory::new());
        let store = Arc::new(Store::create(directory, &StoreOptions::default(), b"").unwrap());
        let tree = Tree::create(store, TreeOptions::default());
        (0..5).for_each(|memtable| write(&tree, memtable * 200, false));
        assert!(tree.digest_due().is_none() && tree.memory().digest == 0);
        let mut search = Search::default();
        let mut asked = |key: u64| {
            search.restart();
            Way::of(&tree.version(), &key.to_be_bytes(), &mut search).len()
        };
        assert_eq!(asked(1 << 40), 5, "nobody knows");
        // Two are made at once, and something is incorporated meanwhile.
        let digesting = [tree.digest().unwrap(), tree.digest().unwrap()];
        write(&tree, 1000, false);
        digesting.into_iter().for_each(make);
        assert!(has_digest(&tree) && tree.memory().digest > 0 && tree.digest().is_none());
        write(&tree, 1200, false);
        let strangers = (1 << 40..).take(1000);
        let passed = strangers.map(&mut asked).filter(|&maplets| maplets > 0).count();
        assert!(has_digest(&tree) && passed < 50, "{passed} of 1,000 pass");
        for key in 0..1400u64 {
            let found = tree.get(&key.to_be_bytes(), LAST, 0).unwrap();
            assert_eq!(found.as_deref(), Some(&b"here"[..]), "{key}");
        }
        // There is room for twice what there was.
        (7..12).for_each(|memtable| write(&tree, memtable * 200, false));
        assert!(!has_digest(&tree) && tree.memory().digest == 0);
        for key in 1 << 40..(1 << 40) + 2000u64 {
            assert_eq!(tree.get(&key.to_be_bytes(), LAST, 0).unwrap(), None);
        }
        make(tree.digest_due().expect("lookups have paid for it"));
        assert!(has_digest(&tree));
        write(&tree, 2400, true);
        assert!(!has_digest(&tree) && tree.digest().is_none(), "D2");
    }
}
