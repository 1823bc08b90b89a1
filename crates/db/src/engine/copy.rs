//! Copies the open store to another directory while reads and writes continue.

use super::Engine;
use super::recovery::store_options;
use crate::engine::progress::{Progress, ProgressStage};
use crate::error::{Error, Result};
use crate::schema::manifest;
use alluvium_base::SequenceNumber;
use alluvium_dictionary::read::DataFiles;
use alluvium_storage::TierDirectories;
use alluvium_storage::store::{SideFiles, StoreCopy};

/// Multiplier for deriving a copy's identifier from the store's identifier for this opening and the
/// copied generation. It is odd, so that different inputs yield different identifiers.
const MIX: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

impl Engine {
    /// Copies the store like [`Engine::copy_to`], and then verifies the copy. Removes the copy if
    /// it has defects.
    pub(crate) fn back_up(
        &self,
        target: &TierDirectories,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<SequenceNumber> {
        let cut = self.copy_to(target, tell)?;
        let findings = self.findings(target, tell);
        match findings {
            Ok(findings) if findings.is_empty() => Ok(cut),
            other => {
                target.undo_creation();
                Err(Error::BadCopy { findings: other? })
            }
        }
    }

    /// Verifies a copy, which must not be open. Returns the defects found.
    fn findings(&self, target: &TierDirectories, tell: &mut dyn FnMut(Progress)) -> Result<Vec<String>> {
        let copy = StoreCopy::open(target.clone())?;
        let files = DataFiles {
            tiers: copy.tiers(),
            page_size: self.plan.page_size,
        };
        let live_bytes = self.store.usage().0.total().live_bytes;
        let payload = &copy.superblock().payload;
        let checked =
            manifest::reachability::check(files, target.first(), payload, live_bytes, &mut |checked| {
                tell(Progress::new(
                    ProgressStage::Checking,
                    checked.done_bytes,
                    checked.total_bytes,
                ));
                self.still_open()
            });
        match checked {
            Err(_) if self.is_open().is_err() => Err(Error::Closed),
            other => Ok([copy.findings(), &other?.into_sentences()].concat()),
        }
    }

    fn still_open(&self) -> alluvium_storage::Result<()> {
        self.is_open()
            .map_err(|closed| alluvium_storage::Error::Poisoned {
                cause: closed.to_string(),
            })
    }

    /// Copies every visible commit to another directory. Returns the sequence number up to which
    /// the copy is guaranteed to contain all commits. It may also contain later ones.
    pub(crate) fn copy_to(
        &self,
        target: &TierDirectories,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<SequenceNumber> {
        // A thread that closes the store waits for this guard. Once the store is marked as closed,
        // the copy fails at its next step.
        let _copying = self.copying.read();
        // A read-only store may be copied, so do not call `Engine::health`, which fails for one.
        // Writes of a read-only store go only to an in-memory layer above the files being copied.
        self.is_open()?;
        self.store.health()?;
        self.checkpoint_everything()?;
        let (kept, beside) = loop {
            // Hold the pages before choosing the generation, so that none of the pages that it
            // needs are freed.
            let held = self.dictionaries.hold();
            let kept = self.store.pin_durable(&store_options(&self.plan))?;
            if let Some(beside) = held.at(&self.store, kept.payload())? {
                break (kept, beside);
            }
            // The generation lists pages that no keyspace uses any more, or pages created after the
            // hold.
            self.checkpoint_now()?;
        };
        let beside: Vec<&dyn SideFiles> = beside.iter().map(|pages| pages as &dyn SideFiles).collect();
        let id = (self.plan.scale.id ^ u128::from(kept.cut())).wrapping_mul(MIX);
        let copied = kept.copy_with(target.clone(), id, &beside, &mut |copied| {
            tell(Progress::new(
                ProgressStage::Copying,
                copied.done_bytes,
                copied.total_bytes,
            ));
            self.still_open()
        });
        match copied {
            Err(_) if self.is_open().is_err() => Err(Error::Closed),
            other => Ok(other.map(|()| kept.cut())?),
        }
    }
}
