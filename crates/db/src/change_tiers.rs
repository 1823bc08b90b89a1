//! Changing the tiers of an open store: one is added, or everything is taken off one so that its
//! device can be replaced.

use crate::tiers::{check, settled};
use crate::{Db, Error, Result, TierOptions, place};
use alluvium_device::Directory;
use alluvium_device::file::FileDirectory;
use alluvium_storage::extents::TierLimits;
use alluvium_storage::tiers::list::{Listed, TierList};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often all is rewritten: what compactions under way had put on the tier goes the next time.
const PASSES: usize = 5;
/// How often, and how long, readers are waited for that still see what was rewritten.
const WAITS: usize = 100;
const WAIT: Duration = Duration::from_millis(5);

impl Db {
    /// Adds a tier in an empty directory, slower than those before, which compactions may write to
    /// from now on. Reads and writes go on meanwhile. The store remembers it.
    ///
    /// A crash meanwhile leaves the store with the tier or without it. Where the directory cannot
    /// be made a tier, nothing has changed. If it is a tier but not durable yet, because the disk
    /// of the first directory is full or fails, this says so and may be called again.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let (fast, large) = (place.path().join("fast"), place.path().join("large"));
    /// use alluvium::{Db, TierOptions};
    /// let db = Db::open(&fast)?;
    /// db.add_tier(&large, TierOptions::new().max_bytes(1 << 40))?;
    /// assert_eq!(db.stats().tiers.len(), 2);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadOption`] when the directory is one of the store's, or lies inside of one, or
    /// when there are as many as there can be; a `WrongTier` that says what the directory holds;
    /// [`Error::is_full`]; as the device says.
    pub fn add_tier(&self, path: impl AsRef<Path>, options: TierOptions) -> Result<()> {
        self.shared().healthy()?;
        // No copy of the store is under way, and no other change of its tiers.
        let _alone = self.engine().copying.write();
        self.engine().health()?;
        let path = settled(path.as_ref());
        let store = &self.engine().store;
        let own = |directory: &Arc<dyn Directory>| PathBuf::from(directory.describe());
        let known: Vec<PathBuf> = store.directories().iter().map(own).collect();
        let unfinished = usize::from(store.superblock().tiers);
        if let Some(tier) = known
            .iter()
            .skip(unfinished)
            .position(|known| settled(known) == path)
        {
            return self.end_adding((unfinished + tier) as u8);
        }
        let further = known
            .iter()
            .skip(1)
            .map(|path| (path.clone(), TierOptions::new()));
        let all: Vec<_> = further.chain([(path.clone(), options)]).collect();
        check(&known[0], &all)?;
        place::no_file(&path)?;
        let directory: Arc<dyn Directory> = Arc::new(FileDirectory::create(&path)?);
        self.add_tier_on(&directory, options)
    }

    /// Adds a tier in a directory of the caller's.
    pub(crate) fn add_tier_on(&self, directory: &Arc<dyn Directory>, options: TierOptions) -> Result<()> {
        let limits = TierLimits {
            max_bytes: options.max_bytes,
            ..TierLimits::default()
        };
        let tier = self.engine().store.begin_adding(directory, limits)?;
        self.end_adding(tier)
    }

    /// Makes a tier durable that was added, and has it take data.
    fn end_adding(&self, tier: u8) -> Result<()> {
        let store = &self.engine().store;
        // Where it is is known before the superblock counts it.
        self.note_tiers(tier, false)?;
        self.engine().checkpoint_now()?;
        Ok(store.end_adding(tier)?)
    }

    /// Rewrites what lies on a tier to the others, and has it take nothing new until
    /// [`Db::use_tier`]. Reads and writes go on meanwhile. It stays a tier of the store, with next
    /// to nothing in it: its directory can be moved to another device while the store is closed.
    ///
    /// All data of the store is rewritten, as [`Db::compact`] does. A crash meanwhile loses
    /// nothing. The tier takes nothing new after the next opening either, and this may be called
    /// again.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let (fast, large) = (place.path().join("fast"), place.path().join("large"));
    /// use alluvium::{Options, TierOptions};
    /// let db = Options::new().fast_bytes(0).tier(&large, TierOptions::new()).open(&fast)?;
    /// db.keyspace("rivers")?.put("Elbe", "1094 km")?;
    /// db.compact()?;
    /// db.drain_tier(&large)?;
    /// assert_eq!(db.stats().tiers[1].space.live_bytes, 0);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadOption`] when the directory is no further tier of the store, when the others
    /// have no space for what it holds, or when readers still hold some of it; as [`Db::compact`].
    pub fn drain_tier(&self, path: impl AsRef<Path>) -> Result<()> {
        self.shared().healthy()?;
        let tier = self.further_tier(path.as_ref())?;
        let engine = self.engine();
        let store = &engine.store;
        self.require_space_without(tier)?;
        self.note_tiers(tier, true)?;
        store.close_tier(tier);
        for _ in 0..PASSES {
            engine.compact()?;
            for _ in 0..WAITS {
                let usage = &store.usage().0.tiers[usize::from(tier)];
                match (usage.live_extents, usage.dead_bytes) {
                    (0, 0) => return Ok(()),
                    (0, _) => {}
                    // What a step had put there goes with the next pass.
                    _ => break,
                }
                // Readers that had begun before may still see it.
                std::thread::sleep(WAIT);
                engine.checkpoint_now()?;
            }
        }
        Err(bad(format!(
            "{} has data that readers still use, or that was written meanwhile: drain it again",
            path.as_ref().display()
        )))
    }

    /// Has a tier take data again that was drained, or that has failed since the store was opened.
    /// Of one that failed the file is opened once more.
    ///
    /// # Errors
    /// [`Error::BadOption`] when the directory is no further tier of the store; a `WrongTier` that
    /// says what it holds now; as the device says, where it still fails. The tier is as before
    /// then.
    pub fn use_tier(&self, path: impl AsRef<Path>) -> Result<()> {
        self.shared().healthy()?;
        let path = path.as_ref();
        let tier = self.further_tier(path)?;
        self.readmit(tier, || Ok(Arc::new(FileDirectory::open(path)?) as _))
    }

    /// Has a tier take data again, in its directory as it is open or as it is opened now.
    pub(crate) fn readmit(
        &self,
        tier: u8,
        opened: impl FnOnce() -> alluvium_storage::Result<Arc<dyn Directory>>,
    ) -> Result<()> {
        let engine = self.engine();
        engine.store.readmit_tier(tier, opened)?;
        self.note_tiers(tier, false)?;
        engine.store.open_tier(tier);
        // What had to wait for it goes on.
        engine.call_all();
        Ok(())
    }

    /// Returns which further tier a directory is.
    fn further_tier(&self, path: &Path) -> Result<u8> {
        let wanted = settled(path);
        let directories = self.engine().store.directories();
        let is_it = |tier: &u8| {
            let directory = directories.get(*tier);
            directory.is_some_and(|directory| settled(Path::new(&directory.describe())) == wanted)
        };
        match (0..directories.count() as u8).find(is_it) {
            Some(0) => Err(bad(format!(
                "{} is the first directory of the store, which has the superblock and the log: it cannot be drained",
                path.display()
            ))),
            Some(tier) => Ok(tier),
            None => Err(bad(format!("{} is no tier of the store", path.display()))),
        }
    }

    fn require_space_without(&self, tier: u8) -> Result<()> {
        let store = &self.engine().store;
        let held = store.usage().0.tiers[usize::from(tier)].live_extent_bytes;
        let (spaces, _) = store.tier_space();
        let others = spaces
            .iter()
            .zip(0u8..)
            .filter(|(space, number)| *number != tier && space.is_open);
        let free = others.fold(0u64, |sum, (space, _)| sum.saturating_add(space.free_bytes));
        if free >= held {
            return Ok(());
        }
        Err(bad(format!(
            "the tier holds {held} bytes, and the others have space for {free}: raise their limits, or delete something"
        )))
    }

    /// Remembers where the tiers are, and whether one takes nothing new.
    fn note_tiers(&self, changed: u8, is_drained: bool) -> Result<()> {
        let store = &self.engine().store;
        let all = store.directories().iter().zip(0..).skip(1);
        let listed = all.map(|(directory, tier)| Listed {
            tier,
            path: directory.describe(),
            max_bytes: store.extents().limits(tier).max_bytes,
            is_drained: match tier == changed {
                true => is_drained,
                false => store.is_closed(tier),
            },
        });
        let list = TierList {
            store: store.superblock().store,
            tiers: listed.collect(),
        };
        Ok(list.write(&**store.directory())?)
    }
}

fn bad(why: String) -> Error {
    Error::BadOption { option: "tier", why }
}
