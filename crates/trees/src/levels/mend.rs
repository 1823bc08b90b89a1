//! Damaged leaves, index nodes and values, which would stop every merge and scan that comes to
//! them, and damaged pages of filters, which would stop lookups: a repair writes their runs again.
//! What the leaves had is lost; a filter has nothing that its run does not have.

use super::Levels;
use super::merge::MergeStep;
use super::state::Member;
use crate::mended::Mended;
use alluvium_dictionary::contract::{Progress, Step};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::{Amounts, Files};
use alluvium_storage::{Error, Result};

impl Levels {
    /// Writes runs with damaged leaves, index nodes or values again, without these, and runs with
    /// damaged filters. Reads everything. Nothing else may change the structure meanwhile. The next
    /// checkpoint makes it durable.
    ///
    /// # Errors
    /// As the device says. What was mended stays so.
    ///
    /// # Panics
    /// When a merge is under way.
    pub fn mend(&self) -> Result<Mended> {
        let mut mended = Mended::default();
        let within = [KeyRange::everything()];
        let files = Files::of(&self.shared.home.store);
        for member in &self.version().newest_first {
            let nodes = member.run.damaged_within(files, &within);
            let has_bad_filter = has_bad_filter(member, files);
            if nodes.is_empty() && !has_bad_filter {
                continue;
            }
            if !nodes.is_empty() {
                mended.note(&nodes, &within, &*self.shared.home.schema);
                member
                    .run
                    .leave_out(nodes.iter().map(|node| node.pointer).collect());
            }
            let mut step = MergeStep::again(self, member);
            let written = loop {
                match step.poll(usize::MAX) {
                    Ok(Progress::More) => {}
                    other => break other,
                }
            };
            let is_written = mended.judge(written.map(|_| ()))?;
            mended.filters += u64::from(is_written && has_bad_filter);
        }
        Ok(mended)
    }
}

/// Returns whether the filter of a run is damaged. One on a tier that cannot be read for now is not
/// known to be.
fn has_bad_filter(member: &Member, files: Files<'_>) -> bool {
    let found = member.maplet.check_from(files, &mut Amounts::default());
    !found.is_empty() && !matches!(member.maplet.missing(files, &[]), Err(Error::TierFails { .. }))
}
