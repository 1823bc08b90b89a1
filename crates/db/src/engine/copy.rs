//! Copies the store to another directory, while reads and writes continue.

use super::Engine;
use super::recovery::store_options;
use crate::engine::progress::{Progress, ProgressStage};
use crate::error::{Error, Result};
use crate::schema::manifest;
use alluvium_base::SequenceNumber;
use alluvium_dictionary::read::DataFiles;
use alluvium_storage::TierDirectories;
use alluvium_storage::store::{SideFiles, StoreCopy};

/// Multiplier that derives a copy's identifier from this opening's and the generation's. It is odd,
/// so that the mapping is injective.
const MIX: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

impl Engine {
    /// Like [`Engine::copy_to`], and verifies the copy. A damaged copy is removed.
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

    /// Verifies a copy that is not open. Returns the findings.
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

    /// Copies every visible commit. Returns the last commit that the copy is guaranteed to contain;
    /// it may contain later ones.
    pub(crate) fn copy_to(
        &self,
        target: &TierDirectories,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<SequenceNumber> {
        // A thread that closes the store waits for this guard; the copy stops at its next step.
        let _copying = self.copying.read();
        // This does not call `Engine::health`, because a read-only store may be copied, too: its
        // writes go only to a layer in memory above the source of the copy.
        self.is_open()?;
        self.store.health()?;
        self.checkpoint_everything()?;
        let (kept, beside) = loop {
            // Hold the pages before the generation is chosen, so that the pages that it needs are
            // kept.
            let held = self.dictionaries.hold();
            let kept = self.store.pin_durable(&store_options(&self.plan))?;
            if let Some(beside) = held.at(&self.store, kept.payload())? {
                break (kept, beside);
            }
            // The generation lists pages that no keyspace uses any more, or that were created since
            // the hold.
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
