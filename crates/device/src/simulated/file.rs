//! A file of a world: its versions, and the changes between them.

use super::content::{FileChange, FileContent, PAGE, PagePatch, SimPage, pages_of};
use super::mapping::MappedRegion;
use std::ops::Range;
use std::sync::Arc;

/// A change that is not durable yet, and its position in the order of all changes of the world.
#[derive(Clone)]
pub(super) struct PendingChange {
    pub(super) order: u64,
    pub(super) change: Arc<FileChange>,
}

/// A file: its durable version, its current version, and the changes between them.
#[derive(Clone, Default)]
pub(super) struct SimFileState {
    /// The minimum that survives a power failure.
    pub(super) durable: FileContent,
    /// The version that reads return, except for stores through mappings that have not been noticed
    /// yet.
    pub(super) current: FileContent,
    /// The previous version of every sector, for stale blocks.
    pub(super) older: FileContent,
    /// The changes from `durable` to `current`, in order of completion.
    pub(super) pending: Vec<PendingChange>,
    /// Mapped ranges, whose bytes are newer wherever they differ from `current`.
    pub(super) regions: Vec<MappedRegion>,
    /// Number of failed syncs. A handle opened before the last of them is poisoned.
    pub(super) failed_syncs: u64,
    /// Number of open handles and mappings.
    pub(super) handles: u32,
}

/// Returns the sectors that a write of `bytes` at `offset` changes, each with all its bytes.
/// `current` supplies the remaining bytes of partly covered sectors.
pub(super) fn patches(current: &FileContent, offset: u64, bytes: &[u8]) -> Vec<PagePatch> {
    let mut patches = Vec::with_capacity(bytes.len() / PAGE as usize + 2);
    for (page, within) in pages_of(offset..offset + bytes.len() as u64) {
        let from = (page * PAGE + within.start as u64 - offset) as usize;
        let from = &bytes[from..from + within.len()];
        let mut data = match current.page(page) {
            Some(old) if within.start % 512 != 0 || within.end % 512 != 0 => Arc::clone(old),
            _ => Arc::new(SimPage::zeroed()),
        };
        let mask = Arc::make_mut(&mut data).write(within.start, from);
        patches.push(PagePatch { page, mask, data });
    }
    patches
}

impl SimFileState {
    /// Returns a file whose content is durable and that has no other history.
    pub(super) fn settled(content: FileContent, older: FileContent) -> SimFileState {
        SimFileState {
            durable: content.clone(),
            current: content,
            older,
            ..SimFileState::default()
        }
    }

    /// Completes a change: reads see it, and a crash may lose it.
    pub(super) fn complete(&mut self, order: u64, change: Arc<FileChange>) {
        if let FileChange::Write(patches) = &*change {
            for patch in patches {
                self.older.remember(&self.current, patch);
            }
        }
        for region in &self.regions {
            region.follow(&change, self.current.len());
        }
        self.current.apply(&change);
        self.pending.push(PendingChange { order, change });
    }

    /// Makes all changes before `order` durable.
    pub(super) fn make_durable(&mut self, order: u64) {
        let covered = self.pending.partition_point(|pending| pending.order < order);
        for pending in self.pending.drain(..covered) {
            self.durable.apply(&pending.change);
        }
    }

    /// Executes a sync of a mapped range, which makes the range's pages and the file's attributes
    /// (its length and holes) durable.
    pub(super) fn make_range_durable(&mut self, range: &Range<u64>) {
        let destroys = |pending: &PendingChange| {
            matches!(*pending.change, FileChange::Punch(_) | FileChange::Truncate(_))
        };
        // Data from before a hole must not reappear after it, so make all changes up to the hole
        // durable as well.
        if let Some(last) = self.pending.iter().rev().find(|pending| destroys(pending)) {
            self.make_durable(last.order + 1);
        }
        let pages = range.start / PAGE..range.end.div_ceil(PAGE);
        for pending in std::mem::take(&mut self.pending) {
            let FileChange::Write(patches) = &*pending.change else {
                self.durable.apply(&pending.change);
                continue;
            };
            let (synced, left): (Vec<PagePatch>, Vec<PagePatch>) = patches
                .iter()
                .cloned()
                .partition(|patch| pages.contains(&patch.page));
            for patch in &synced {
                self.durable.put(patch.page, patch.mask, &patch.data);
            }
            if left.len() == patches.len() {
                self.pending.push(pending);
            } else if !left.is_empty() {
                let change = Arc::new(FileChange::Write(left));
                self.pending.push(PendingChange { change, ..pending });
            }
        }
    }

    /// Turns stores through mappings of `range` into changes, one per page, which `order` numbers.
    pub(super) fn notice(&mut self, range: &Range<u64>, order: &mut u64) {
        if self.regions.is_empty() {
            return;
        }
        let mut found = Vec::new();
        for region in &self.regions {
            let both = range.start.max(region.start)..range.end.min(region.end());
            for (page, _) in pages_of(both) {
                found.extend(region.changed(page, &self.current));
            }
        }
        for patch in found {
            self.older.remember(&self.current, &patch);
            let change = Arc::new(FileChange::Write(vec![patch]));
            self.current.apply(&change);
            let order_now = *order;
            *order += 1;
            self.pending.push(PendingChange {
                order: order_now,
                change,
            });
        }
    }

    /// Reads the bytes that a process sees, which are the content overlaid with the mappings.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) {
        self.current.read(offset, out);
        for region in &self.regions {
            region.copy_out(offset, out);
        }
    }
}

/// Returns the part of a patch within the sectors of `mask`, or `None` if there is none.
pub(super) fn masked(patch: &PagePatch, mask: u8) -> Option<PagePatch> {
    let mask = patch.mask & mask;
    (mask != 0).then(|| PagePatch {
        mask,
        page: patch.page,
        data: Arc::clone(&patch.data),
    })
}

/// Returns the mask of the sectors in which two versions of a page differ.
pub(super) fn differing(one: &[u8], other: &[u8]) -> u8 {
    let mut mask = 0;
    for (sector, (a, b)) in one.chunks(512).zip(other.chunks(512)).enumerate() {
        if a != b {
            mask |= 1 << sector;
        }
    }
    mask
}
