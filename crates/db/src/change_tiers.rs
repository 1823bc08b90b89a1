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
    /// This needs no space in the first directory, unless it has to be remembered that the tier is
    /// not drained any more. Where there is none for that, the tier takes data all the same, so
    /// that compactions may make some, and this says so: it may be called again then.
    ///
    /// # Errors
    /// [`Error::BadOption`] when the directory is no further tier of the store, or as above; a
    /// `WrongTier` that says what it holds now; as the device says, where it still fails. The tier
    /// is as before then.
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
        // Before it is remembered: where the first directory is full, this is what makes space.
        engine.store.open_tier(tier);
        // What had to wait for it goes on.
        engine.call_all();
        let noted = match self.note_tiers(tier, false) {
            Err(error) if error.is_full() => {
                engine.store.give_up_copies();
                engine.reclaim()?;
                self.note_tiers(tier, false)
            }
            other => other,
        };
        match noted {
            Err(error) if error.is_full() => Err(self.unremembered(tier, &error)),
            other => other,
        }
    }

    /// A tier takes data again, and that could not be remembered.
    fn unremembered(&self, tier: u8, error: &Error) -> Error {
        let directories = self.engine().store.directories();
        let path = directories.get(tier).map(|directory| directory.describe());
        let first = directories.first().describe();
        bad(format!(
            "{} takes data again, until the store is closed: {first} has no space to remember it ({error}). Free 4096 \
             bytes there, or wait until compactions have moved some data, and use the tier once more",
            path.unwrap_or_default()
        ))
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
        let first = &**store.directory();
        match TierList::read(first) {
            // It needs no space then.
            Ok(Some(written)) if written == list => Ok(()),
            _ => Ok(list.write(first)?),
        }
    }
}

fn bad(why: String) -> Error {
    Error::BadOption { option: "tier", why }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use crate::simulation::{OpenIn as _, Scale, Simulated as _};
    use crate::{ErrorKind, Options};
    use alluvium_device::Operation;
    use alluvium_device::simulated::{Fault, SimDirectory};
    use alluvium_sim::Part;
    use alluvium_storage::Directories;

    #[test]
    fn a_tier_is_used_again_although_the_first_directory_is_full() {
        let machine = SimDirectory::new(1);
        let whole: Arc<dyn Directory> = Arc::new(machine.reopen());
        let part = |prefix| Arc::new(Part::of(&whole, prefix));
        let directories = Directories::from(part("one.")).and(part("two."));
        let scale = Scale::small(7, 6 << 10, 96 << 10);
        let db = Options::new()
            .simulated(scale, || 1000)
            .open_in(directories)
            .unwrap();
        let (store, is_drained) = (&db.engine().store, || {
            let list = TierList::read(&**db.engine().store.directory());
            list.unwrap().unwrap().tiers[0].is_drained
        });
        let full = || Fault::full(Operation::Grow).on("one.tiers.new").sticky();
        // One that has failed was not drained: nothing is to be remembered.
        db.note_tiers(1, false).unwrap();
        machine.inject(full());
        db.use_tier_in(1).unwrap();
        machine.clear_faults();
        // One that was drained is used all the same, and the error says what to do.
        db.note_tiers(1, true).unwrap();
        store.close_tier(1);
        machine.inject(full());
        let error = db.use_tier_in(1).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
        assert!(
            text.contains("takes data again") && text.contains("4096 bytes"),
            "{text}"
        );
        assert!(store.takes_extents(1) && is_drained());
        machine.clear_faults();
        db.use_tier_in(1).unwrap();
        assert!(store.takes_extents(1) && !is_drained());
    }
}
