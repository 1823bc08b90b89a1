//! A copy of the store in another directory, while reading and writing go on.

use super::Engine;
use super::open::store_options;
use crate::manifest;
use crate::progress::{Progress, Stage};
use crate::{Error, Result};
use alluvium_base::Sequence;
use alluvium_dictionary::read::Files;
use alluvium_storage::Directories;
use alluvium_storage::store::{Beside, Copy};

/// Makes the number of a copy out of this opening's and the generation's: odd, so that no two of
/// them become one.
const MIX: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

impl Engine {
    /// As [`Engine::copy_to`], and reads the copy: one that is damaged is removed.
    pub(crate) fn back_up(&self, target: &Directories, tell: &mut dyn FnMut(Progress)) -> Result<Sequence> {
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

    /// Returns what is wrong with a copy that is not open.
    fn findings(&self, target: &Directories, tell: &mut dyn FnMut(Progress)) -> Result<Vec<String>> {
        let copy = Copy::open(target.clone())?;
        let files = Files {
            tiers: copy.tiers(),
            page_size: self.plan.page_size,
        };
        let live_bytes = self.store.usage().0.total().live_bytes;
        let payload = &copy.superblock().payload;
        let checked = manifest::files::check(files, target.first(), payload, live_bytes, &mut |checked| {
            tell(Progress::new(
                Stage::Checking,
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

    /// Copies every commit that everybody sees now. Answers the last one that the copy holds: later
    /// ones may be in it, too.
    pub(crate) fn copy_to(&self, target: &Directories, tell: &mut dyn FnMut(Progress)) -> Result<Sequence> {
        // A thread that closes the store waits for it, and ends it at its next step.
        let _copying = self.copying.read();
        // Of a store that is read only, what is in memory goes no further than what the copy is
        // made from.
        self.is_open()?;
        self.store.health()?;
        self.checkpoint_everything()?;
        let (kept, beside) = loop {
            // Before the generation: what that has of it is kept then.
            let held = self.dictionaries.hold();
            let kept = self.store.keep(&store_options(&self.plan))?;
            if let Some(beside) = held.at(&self.store, kept.payload())? {
                break (kept, beside);
            }
            // The durable generation has some that nothing is in any more, or it came just now.
            self.checkpoint_now()?;
        };
        let beside: Vec<&dyn Beside> = beside.iter().map(|pages| pages as &dyn Beside).collect();
        let id = (self.plan.scale.id ^ u128::from(kept.cut())).wrapping_mul(MIX);
        let copied = kept.copy_with(target.clone(), id, &beside, &mut |copied| {
            tell(Progress::new(
                Stage::Copying,
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
