//! One file of a world: its versions and what lies between them.

use super::content::{Change, Content, PAGE, Page, Patch, pages_of};
use super::mapping::Region;
use std::ops::Range;
use std::sync::Arc;

/// A change that is not durable, and its place in the order of all changes of the world.
#[derive(Clone)]
pub(super) struct Pending {
    pub(super) order: u64,
    pub(super) change: Arc<Change>,
}

/// A file: what is durable, what is there, and the changes that lead from one to the other.
#[derive(Clone, Default)]
pub(super) struct FileState {
    /// What a power loss leaves at least.
    pub(super) durable: Content,
    /// What a read sees, but for stores through mappings that were not noticed yet.
    pub(super) current: Content,
    /// The version before the newest of every sector, for stale blocks.
    pub(super) older: Content,
    /// From `durable` towards `current`, in the order of completion.
    pub(super) pending: Vec<Pending>,
    /// Ranges in memory that hold newer bytes than `current` where they differ.
    pub(super) regions: Vec<Region>,
    /// How many syncs failed: a handle opened before the last of them is poisoned.
    pub(super) failed_syncs: u64,
    /// Open handles and mappings.
    pub(super) handles: u32,
}

/// Returns the sectors that a write of `bytes` at `offset` changes, each with all its bytes;
/// `current` gives those of a sector that the write covers in part.
pub(super) fn patches(current: &Content, offset: u64, bytes: &[u8]) -> Vec<Patch> {
    let mut patches = Vec::with_capacity(bytes.len() / PAGE as usize + 2);
    for (page, within) in pages_of(offset..offset + bytes.len() as u64) {
        let from = (page * PAGE + within.start as u64 - offset) as usize;
        let from = &bytes[from..from + within.len()];
        let mut data = match current.page(page) {
            Some(old) if within.start % 512 != 0 || within.end % 512 != 0 => Arc::clone(old),
            _ => Arc::new(Page::zeroed()),
        };
        let mask = Arc::make_mut(&mut data).write(within.start, from);
        patches.push(Patch { page, mask, data });
    }
    patches
}

impl FileState {
    /// Returns a file whose content is durable, nothing else being known of it.
    pub(super) fn settled(content: Content, older: Content) -> FileState {
        FileState {
            durable: content.clone(),
            current: content,
            older,
            ..FileState::default()
        }
    }

    /// A change is complete: reads see it, a crash may lose it.
    pub(super) fn complete(&mut self, order: u64, change: Arc<Change>) {
        if let Change::Write(patches) = &*change {
            for patch in patches {
                self.older.remember(&self.current, patch);
            }
        }
        for region in &self.regions {
            region.follow(&change, self.current.len());
        }
        self.current.apply(&change);
        self.pending.push(Pending { order, change });
    }

    /// The changes before `order` become durable.
    pub(super) fn make_durable(&mut self, order: u64) {
        let covered = self.pending.partition_point(|pending| pending.order < order);
        for pending in self.pending.drain(..covered) {
            self.durable.apply(&pending.change);
        }
    }

    /// A sync of a mapped range: the range's pages and the file's own attributes (its length, its
    /// holes) become durable.
    pub(super) fn make_range_durable(&mut self, range: &Range<u64>) {
        let destroys = |pending: &Pending| matches!(*pending.change, Change::Punch(_) | Change::Truncate(_));
        // What was there before a hole must not come back after it, so everything up to it goes
        // along.
        if let Some(last) = self.pending.iter().rev().find(|pending| destroys(pending)) {
            self.make_durable(last.order + 1);
        }
        let pages = range.start / PAGE..range.end.div_ceil(PAGE);
        for pending in std::mem::take(&mut self.pending) {
            let Change::Write(patches) = &*pending.change else {
                self.durable.apply(&pending.change);
                continue;
            };
            let (synced, left): (Vec<Patch>, Vec<Patch>) = patches
                .iter()
                .cloned()
                .partition(|patch| pages.contains(&patch.page));
            for patch in &synced {
                self.durable.put(patch.page, patch.mask, &patch.data);
            }
            if left.len() == patches.len() {
                self.pending.push(pending);
            } else if !left.is_empty() {
                let change = Arc::new(Change::Write(left));
                self.pending.push(Pending { change, ..pending });
            }
        }
    }

    /// Turns stores through mappings of `range` into changes, page by page; `order` numbers them.
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
            let change = Arc::new(Change::Write(vec![patch]));
            self.current.apply(&change);
            let order_now = *order;
            *order += 1;
            self.pending.push(Pending {
                order: order_now,
                change,
            });
        }
    }

    /// Reads what a process sees: the content, and what mappings hold above it.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) {
        self.current.read(offset, out);
        for region in &self.regions {
            region.copy_out(offset, out);
        }
    }
}

/// Returns the part of a patch within some sectors; nothing when none is left.
pub(super) fn masked(patch: &Patch, mask: u8) -> Option<Patch> {
    let mask = patch.mask & mask;
    (mask != 0).then(|| Patch {
        mask,
        page: patch.page,
        data: Arc::clone(&patch.data),
    })
}

/// Returns the sectors in which two versions of a page differ.
pub(super) fn differing(one: &[u8], other: &[u8]) -> u8 {
    let mut mask = 0;
    for (sector, (a, b)) in one.chunks(512).zip(other.chunks(512)).enumerate() {
        if a != b {
            mask |= 1 << sector;
        }
    }
    mask
}
