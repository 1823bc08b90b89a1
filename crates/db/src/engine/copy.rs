//! A copy of the store in another directory, while reading and writing go on.

use super::Engine;
use super::open::store_options;
use crate::progress::{Progress, Stage};
use crate::{Error, Result};
use alluvium_base::Sequence;
use alluvium_device::Directory;
use std::sync::Arc;

/// Makes the number of a copy out of this opening's and the generation's: odd, so that no two of them become one.
const MIX: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

impl Engine {
    /// Copies every commit that everybody sees now. Answers the last one that the copy holds: later ones may be in it, too.
    pub(crate) fn copy_to(
        &self,
        target: &Arc<dyn Directory>,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<Sequence> {
        // Whoever closes the store waits for it, and ends it at its next step.
        let _copying = self.copying.read();
        // Of a store that is read only, what is in memory goes no further than what the copy is made from.
        self.is_open()?;
        self.store.health()?;
        self.checkpoint_everything()?;
        let kept = self.store.keep(&store_options(&self.plan))?;
        let id = (self.plan.scale.id ^ u128::from(kept.cut())).wrapping_mul(MIX);
        let copied = kept.copy_to(target, id, &mut |copied| {
            tell(Progress::new(
                Stage::Copying,
                copied.done_bytes,
                copied.total_bytes,
            ));
            self.is_open()
                .map_err(|closed| alluvium_storage::Error::Poisoned {
                    cause: closed.to_string(),
                })
        });
        match copied {
            Err(_) if self.is_open().is_err() => Err(Error::Closed),
            other => Ok(other.map(|()| kept.cut())?),
        }
    }
}
