//! The front of a levels structure: how it is made, opened, changed and written.

use super::defragment::Ledger;
use super::format::Contents;
use super::options::LevelsOptions;
use super::state::{Age, Kept, Member, Runs, Version, groups, newest_first};
use super::waded::Waded;
use crate::scanning::Held;
use crate::stitch::Stitching;
use crate::whereabouts::{RunName, RunPlace};
use alluvium_base::Sequence;
use alluvium_dictionary::cut::Cut;
use alluvium_dictionary::home::{Home, judge};
use alluvium_dictionary::versioned::{RootWriter, Stamp, Versioned};
use alluvium_storage::{Place, Result, Structure};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The most bytes of contents that are in the root itself.
const INLINE: usize = 4 << 10;

/// Runs on levels. All methods may be called from any thread; clones share it.
#[derive(Clone)]
pub struct Levels {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) home: Home,
    pub(super) options: LevelsOptions,
    pub(super) versions: Versioned<Version>,
    pub(super) kept: Mutex<Kept>,
    /// Space is scarce: every merge may use the reserve.
    pub(super) is_scarce: AtomicBool,
    /// Bytes of memory that merges under way take.
    pub(super) merging_bytes: AtomicU64,
    /// What scans hold between their calls.
    pub(super) held: Held,
    /// Keys without a value that scans have waded through.
    pub(super) waded: Waded,
    /// Leaves that merges took over unread.
    pub(super) stitched: AtomicU64,
    /// What was written, and what of it for scans alone.
    pub(super) ledger: Ledger,
}

/// What a levels structure has, and what was done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelsStats {
    /// Levels.
    pub levels: u64,
    /// Runs on all of them.
    pub runs: u64,
    /// Leaves that merges took over unread.
    pub taken_over: u64,
    /// How often scans have jumped in the runs that there are: what they read next did not lie
    /// behind what they had read.
    pub jumps: u64,
    /// Runs that were written again because scans had paid as much.
    pub defragmented_runs: u64,
    /// Bytes that were written for that.
    pub defragmented_bytes: u64,
}

impl fmt::Debug for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.shared.versions.peek();
        let runs: Vec<usize> = version.levels.iter().map(Vec::len).collect();
        f.debug_struct("Levels")
            .field("policy", &self.shared.options.policy)
            .field("runs", &runs)
            .field("cut", &version.stamp.cut)
            .finish_non_exhaustive()
    }
}

impl Levels {
    /// Creates an empty structure that holds every commit up to `cut`: none of them is about its
    /// keys.
    ///
    /// ```
    /// use alluvium_base::{Message, message::LAST};
    /// use alluvium_device::memory::MemoryDirectory;
    /// use alluvium_dictionary::contract::{Dictionary, Lookup, Progress};
    /// use alluvium_dictionary::gather::Gather;
    /// use alluvium_dictionary::key::Key;
    /// use alluvium_dictionary::lookup;
    /// use alluvium_dictionary::memtable::Memtable;
    /// use alluvium_dictionary::rules::OneKeyspace;
    /// use alluvium_dictionary::share::Share;
    /// use alluvium_storage::extents::Class;
    /// use alluvium_storage::store::{Store, StoreOptions};
    /// use alluvium_trees::levels::{Levels, LevelsOptions};
    /// use alluvium_trees::map::Home;
    /// use std::sync::Arc;
    ///
    /// let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// let home = Home {
    ///     store: Arc::new(store),
    ///     schema: Arc::new(OneKeyspace::default()),
    ///     horizon: Arc::default(),
    /// };
    /// let options = LevelsOptions::default().with_policy("samt,k=4".parse()?);
    /// let levels = Levels::create(home.clone(), options.clone(), 0)?;
    /// for at in 1..=5 {
    ///     let memtable = Memtable::new(1 << 20);
    ///     memtable.insert(b"Elbe", Message::put(at, b"1094 km")).unwrap();
    ///     let mut taking = levels.incorporate(Share::whole(Arc::new(memtable), at), Class::Normal)?;
    ///     while taking.poll(1000)? == Progress::More {}
    ///     taking.publish()?;
    /// }
    /// assert_eq!(levels.runs(), [5]);
    /// let mut merge = levels.next_step()?.expect("four of five runs are to become one");
    /// while merge.poll(1000)? == Progress::More {}
    /// let root = levels.stand()?.root;
    /// let levels = Levels::open(home, &options, &root, 5)?;
    /// let mut gather = Gather::new(LAST, 0, None);
    /// lookup::gather(&levels.reader(), Key::new(b"Elbe"), &mut gather)?;
    /// assert_eq!(gather.finish().unwrap(), b"1094 km");
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadOption`](alluvium_storage::Error::BadOption) when the policy is no good.
    pub fn create(home: Home, options: LevelsOptions, cut: Sequence) -> Result<Levels> {
        options.policy.validate()?;
        options.stitching.validate()?;
        let version = Version::new(Stamp::first(cut), Runs::new(), 0);
        Ok(Levels::assemble(home, options, version, Kept::default()))
    }

    /// Opens the structure with this root, and with every commit up to `cut`. Its policy and the
    /// length of its fingerprints are those that it was created with.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt), or as the device says.
    pub fn open(home: Home, options: &LevelsOptions, root: &[u8], cut: Sequence) -> Result<Levels> {
        let page_size = home.store.page_size();
        let (root, contents) = RootWriter::open(&home.store, root, &place(), |bytes, place| {
            Contents::decode(bytes, place, page_size)
        })?;
        let options = LevelsOptions {
            policy: contents.policy.clone(),
            fingerprint_bits: contents.fingerprint_bits,
            // A function is not kept: it is the caller's.
            stitching: match contents.stitching.is_on() {
                true => contents.stitching,
                false => Stitching {
                    moves_values: contents.stitching.moves_values,
                    defragment_percent: contents.stitching.defragment_percent,
                    ..options.stitching
                },
            },
            ..options.clone()
        };
        let levels = contents.open(&home.store)?;
        let version = Version::new(Stamp::first(cut), levels, contents.next_age);
        let kept = Kept {
            root,
            ..Kept::default()
        };
        Ok(Levels::assemble(home, options, version, kept))
    }

    fn assemble(home: Home, options: LevelsOptions, version: Version, kept: Kept) -> Levels {
        assert!(options.unit_bytes > 0, "a memtable has bytes");
        Levels {
            shared: Arc::new(Shared {
                home,
                options,
                versions: Versioned::new(version),
                kept: Mutex::new(kept),
                is_scarce: AtomicBool::new(false),
                merging_bytes: AtomicU64::new(0),
                held: Held::default(),
                waded: Waded::default(),
                stitched: AtomicU64::new(0),
                ledger: Ledger::default(),
            }),
        }
    }

    /// Returns how it is built.
    #[must_use]
    pub fn options(&self) -> &LevelsOptions {
        &self.shared.options
    }

    /// Returns how many runs each level has.
    #[must_use]
    pub fn runs(&self) -> Vec<usize> {
        let version = self.version();
        version.levels.iter().map(|level| groups(level).count()).collect()
    }

    /// Returns what it has, and what was done since it was opened.
    #[must_use]
    pub fn stats(&self) -> LevelsStats {
        let version = self.version();
        let (defragmented_runs, defragmented_bytes) = self.defragmented();
        LevelsStats {
            levels: version.levels.len() as u64,
            runs: version.newest_first.len() as u64,
            taken_over: self.stitched(),
            jumps: self.jumps(),
            defragmented_runs,
            defragmented_bytes,
        }
    }

    /// Returns on which tiers its runs lie: by level, and in each from the oldest on.
    #[must_use]
    pub fn places(&self) -> Vec<RunPlace> {
        let version = self.version();
        let mut places = Vec::new();
        for (level, runs) in version.levels.iter().enumerate() {
            for (place, member) in runs.iter().enumerate() {
                let name = RunName::Level { level, place };
                places.push(RunPlace::of(name, &member.run, Some(&member.maplet)));
            }
        }
        places
    }

    /// Returns how many leaves merges have taken over unread since the structure was opened.
    #[must_use]
    pub fn stitched(&self) -> u64 {
        self.shared.stitched.load(Ordering::Relaxed)
    }

    /// Limits what scans hold between their calls to `bytes` bytes, all of them together, but for a
    /// little that each needs.
    pub fn limit_scans(&self, bytes: u64) {
        self.shared.held.limit(bytes);
    }

    pub(super) fn version(&self) -> Arc<Version> {
        self.shared.versions.load()
    }

    pub(super) fn judge<T>(&self, result: Result<T>) -> Result<T> {
        judge(&self.shared.home.store, result)
    }

    /// Makes a version with other runs the current one. What only the old one had is unlinked.
    /// `kept` is what is held while that goes on.
    pub(super) fn publish(&self, _kept: &mut Kept, levels: Runs, cut: Sequence, next_age: Age) {
        let gone = self.show(levels, cut, next_age);
        let store = &self.shared.home.store;
        let epoch = store.epochs().current();
        for extent in gone.iter().flat_map(|member| member.extents()) {
            store.extents().release(extent, epoch);
        }
    }

    /// Makes a version with other runs the current one. Returns those that only the old one had:
    /// their extents are the caller's to unlink.
    pub(super) fn show(&self, levels: Runs, cut: Sequence, next_age: Age) -> Vec<Arc<Member>> {
        let old = self.version();
        assert!(next_age >= old.next_age, "ages rise (V2)");
        let mut levels = levels;
        while levels.last().is_some_and(Vec::is_empty) {
            levels.pop();
        }
        let version = Version {
            stamp: old.stamp.changed(cut),
            newest_first: newest_first(&levels),
            levels,
            next_age,
        };
        assert!(version.is_ordered(), "newer runs stand above older ones (V2)");
        let stays = |gone: &Arc<Member>| {
            version
                .newest_first
                .iter()
                .any(|member| Arc::ptr_eq(member, gone))
        };
        let gone: Vec<Arc<Member>> = old
            .newest_first
            .iter()
            .filter(|member| !stays(member))
            .cloned()
            .collect();
        self.shared.versions.publish(version);
        gone
    }

    /// Raises the cut.
    pub(super) fn raise(&self, cut: Sequence) {
        let _kept = self.shared.kept.lock();
        let old = self.version();
        self.shared.versions.publish(Version {
            stamp: old.stamp.advanced(cut),
            ..(*old).clone()
        });
    }

    /// Writes the root of the current contents unless it is written. They stay current until the
    /// cut is dropped.
    pub(super) fn cut_here(&self) -> Result<Cut<'_>> {
        let Shared { home, options, .. } = &*self.shared;
        let mut kept = self.shared.kept.lock();
        let version = self.version();
        let encode = || Contents::of(&version, options).encode();
        let root = kept
            .root
            .write(&home.store, &version.stamp, INLINE, encode)?
            .to_vec();
        Ok(Cut::new(root, version.stamp.cut, kept))
    }
}

/// Where the root of a structure is, for errors: others keep it.
pub(super) fn place() -> Place {
    Place::new(Structure::Node, "the root of levels", 0)
}
