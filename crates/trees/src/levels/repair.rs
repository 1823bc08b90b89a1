//! Repairs damaged leaves, index nodes and values, which make every merge and scan fail that
//! reaches them, and damaged filter pages, which make lookups fail. A repair rewrites the affected
//! runs. The contents of damaged leaves are lost, but a filter is rebuilt from its run without
//! loss.

use super::LevelsDictionary;
use super::merge::MergeStep;
use super::state::LevelMember;
use crate::repair_result::RunRepairResult;
use alluvium_dictionary::contract::{MaintenanceStep, StepProgress};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::{CheckReadTotals, DataFiles};
use alluvium_storage::{Error, Result};
use std::sync::Arc;

impl LevelsDictionary {
    /// Repairs the structure. Rewrites each run with damaged leaves, index nodes or values without
    /// the damaged parts, and each run with a damaged filter. Reads the whole structure to find the
    /// damage. The caller must prevent all other changes of the structure. The next checkpoint
    /// makes the repair durable.
    ///
    /// # Errors
    /// I/O errors. Repairs completed before the error remain.
    ///
    /// # Panics
    /// If a merge is running.
    pub fn repair(&self) -> Result<RunRepairResult> {
        let mut mended = RunRepairResult::default();
        let files = DataFiles::of(&self.shared.home.store);
        let version = self.version();
        let mut damaged = Vec::new();
        for member in &version.newest_first {
            // Examine all parts of a run together, even if they occur in several places.
            let is_same = |other: &&Arc<LevelMember>| other.run.pointer() == member.run.pointer();
            let parts: Vec<&Arc<LevelMember>> = version.newest_first.iter().filter(is_same).collect();
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
                is_written &= mended.record_outcome(self.write_again(part))?;
            }
            mended.filters += u64::from(is_written && has_bad_filter);
        }
        Ok(mended)
    }

    /// Rewrites a run in place. Does nothing if the run was already rewritten with another of its
    /// parts.
    fn write_again(&self, member: &Arc<LevelMember>) -> Result<()> {
        let Some(mut step) = MergeStep::start_repair(self, member) else {
            return Ok(());
        };
        while step.poll(usize::MAX)? == StepProgress::More {}
        Ok(())
    }
}

/// Returns whether a run's filter is damaged. A filter on a tier that is currently unreadable does
/// not count as damaged.
fn has_bad_filter(member: &LevelMember, files: DataFiles<'_>) -> bool {
    let found = member.maplet.check_from(files, &mut CheckReadTotals::default());
    !found.is_empty() && !matches!(member.maplet.missing(files, &[]), Err(Error::TierFails { .. }))
}
