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
use std::sync::Arc;

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
        let files = Files::of(&self.shared.home.store);
        let version = self.version();
        let mut damaged = Vec::new();
        for member in &version.newest_first {
            // Parts of a run that stands in several places are looked at together.
            let is_same = |other: &&Arc<Member>| other.run.pointer() == member.run.pointer();
            let parts: Vec<&Arc<Member>> = version.newest_first.iter().filter(is_same).collect();
            if !Arc::ptr_eq(parts[0], member) {
                continue;
            }
            let within: Vec<KeyRange> = parts.iter().map(|part| part.range.clone()).collect();
            let nodes = member.run.damaged_within(files, &within);
            let has_bad_filter = has_bad_filter(member, files);
            if nodes.is_empty() && !has_bad_filter {
                continue;
            }
            if !nodes.is_empty() {
                mended.note(&nodes, &within, &*self.shared.home.schema);
            }
            for part in parts.iter().filter(|_| !nodes.is_empty()) {
                part.run
                    .leave_out(nodes.iter().map(|node| node.pointer).collect());
            }
            damaged.push((parts, has_bad_filter));
        }
        for (parts, has_bad_filter) in damaged {
            let mut is_written = true;
            for part in parts {
                is_written &= mended.judge(self.write_again(part))?;
            }
            mended.filters += u64::from(is_written && has_bad_filter);
        }
        Ok(mended)
    }

    /// Writes a run again, unless that is done: parts that have become one are written together.
    fn write_again(&self, member: &Arc<Member>) -> Result<()> {
        let Some(mut step) = MergeStep::again(self, member) else {
            return Ok(());
        };
        while step.poll(usize::MAX)? == Progress::More {}
        Ok(())
    }
}

/// Returns whether the filter of a run is damaged. One on a tier that cannot be read for now is not
/// known to be.
fn has_bad_filter(member: &Member, files: Files<'_>) -> bool {
    let found = member.maplet.check_from(files, &mut Amounts::default());
    !found.is_empty() && !matches!(member.maplet.missing(files, &[]), Err(Error::TierFails { .. }))
}
