//! Taking everything off a tier, so that its device can be replaced.

use crate::tiers::settled;
use crate::{Db, Error, Result};
use alluvium_storage::tiers::list::{Listed, TierList};
use std::path::Path;
use std::time::Duration;

/// How often all is rewritten: what compactions under way had put on the tier goes the next time.
const PASSES: usize = 5;
/// How often, and how long, readers are waited for that still see what was rewritten.
const WAITS: usize = 100;
const WAIT: Duration = Duration::from_millis(5);

impl Db {
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
        self.note_drained(tier, true)?;
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

    /// Has a tier that was drained take data again.
    ///
    /// # Errors
    /// [`Error::BadOption`] when the directory is no further tier of the store; as the device says.
    pub fn use_tier(&self, path: impl AsRef<Path>) -> Result<()> {
        self.shared().healthy()?;
        let tier = self.further_tier(path.as_ref())?;
        self.note_drained(tier, false)?;
        self.engine().store.open_tier(tier);
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

    /// Remembers whether a tier takes nothing new.
    fn note_drained(&self, tier: u8, is_drained: bool) -> Result<()> {
        let store = &self.engine().store;
        let first = &**store.directory();
        let id = store.superblock().store;
        let known = TierList::read(first).ok().flatten();
        let mut list = known.filter(|list| list.store == id).unwrap_or_else(|| {
            let all = store.directories().iter().zip(0..).skip(1);
            let listed = all.map(|(directory, tier)| Listed {
                tier,
                path: directory.describe(),
                max_bytes: store.extents().limits(tier).max_bytes,
                is_drained: !store.takes_extents(tier),
            });
            TierList {
                store: id,
                tiers: listed.collect(),
            }
        });
        if let Some(listed) = list.tiers.iter_mut().find(|listed| listed.tier == tier) {
            listed.is_drained = is_drained;
        }
        Ok(list.write(first)?)
    }
}

fn bad(why: String) -> Error {
    Error::BadOption { option: "tier", why }
}
