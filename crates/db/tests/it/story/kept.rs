//! Named snapshots, which are created, removed, and compared after every crash.

use super::ops::KEYSPACES;
use super::{Pairs, System, trouble};
use alluvium_base::checksum;
use alluvium_sim::{ModelWrite, PromisedDurability, StoryEnvironment, StoryError};

/// Number of background slices that run immediately after a removal.
const BEHIND: u32 = 100;

/// First byte of the ledger keys for named snapshots. No keyspace has this letter.
const KEPT: u8 = b's';

/// Returns the ledger entries of a named snapshot: one key per keyspace, with the commit at which
/// the snapshot was taken and a digest of its contents as the value.
pub(super) fn kept(name: &str, at: u64, pairs: &Pairs) -> Vec<ModelWrite> {
    let digest = |letter: u8| {
        let own = pairs.iter().filter(|(key, _)| key[0] == letter);
        own.fold((0, 0), |(sum, count), (key, value)| {
            (checksum::seeded(checksum::seeded(sum, key), value), count + 1)
        })
    };
    let write = |letter| {
        let (sum, count) = digest(letter);
        ModelWrite {
            key: [&[KEPT, letter], name.as_bytes()].concat(),
            value: Some(format!("at {at}: {count} pairs, {sum:016x}").into_bytes()),
        }
    };
    KEYSPACES.into_iter().map(write).collect()
}

impl System {
    /// Creates a named snapshot or removes the first one. The ledger records the contents of each,
    /// so that they are compared after every crash.
    pub(super) fn toggle_named(&mut self, world: &StoryEnvironment) -> Result<(), StoryError> {
        let there = self.db.snapshots();
        let at = self.db.sequence();
        if there.is_empty() || there.len() < 2 && !at.is_multiple_of(3) {
            let name = loop {
                self.names += 1;
                let name = format!("{}-{}", there.len(), at + self.names);
                // An earlier opening may have used the same name.
                if there.iter().all(|(other, _)| *other != name) {
                    break name;
                }
            };
            let writes = kept(&name, at, &self.everything()?);
            self.commit(&writes, PromisedDurability::Process, world, |system| {
                let snapshot = system.db.create_snapshot(&name)?;
                Ok(snapshot.sequence() == at)
            })?;
            self.named.insert(name);
            return Ok(());
        }
        let (name, at) = &there[0];
        let mut writes = kept(name, *at, &Pairs::new());
        writes.iter_mut().for_each(|write| write.value = None);
        self.commit(&writes, PromisedDurability::Process, world, |system| {
            system.db.remove_snapshot(name).map(|()| true)
        })?;
        // Compactions may discard the versions that the snapshot retained, and checkpoints persist
        // their output. The name may still reappear after a crash.
        world.ledger.set_activity(Some("crash behind a removed snapshot"));
        for _ in 0..BEHIND {
            if !self.db.work().map_err(trouble)? {
                break;
            }
        }
        world.coverage.hit(if self.named.remove(name) {
            "named snapshot removed"
        } else {
            "named snapshot of an earlier opening"
        });
        Ok(())
    }

    /// Returns the ledger entries of all current named snapshots.
    pub(super) fn kept_now(&self) -> Result<Vec<ModelWrite>, StoryError> {
        let mut all = Vec::new();
        for (name, at) in self.db.snapshots() {
            let snapshot = self.db.open_snapshot(&name).map_err(trouble)?;
            if snapshot.sequence() != at {
                return Err(StoryError::wrong(format!(
                    "snapshot {name} is at {}, not at {at}",
                    snapshot.sequence()
                )));
            }
            all.extend(kept(&name, at, &self.everything_at(&snapshot)?));
        }
        Ok(all)
    }
}
