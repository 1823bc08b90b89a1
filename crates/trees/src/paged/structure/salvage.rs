//! Recovers a tree from damaged pages, with all data that is still readable.
//!
//! A node that cannot be read is replaced by an empty one. If it is a leaf, its content is lost,
//! but messages for its key range in nodes above it are kept. If it is an inner node, the whole
//! subtree is lost. If the separate pages of a value cannot be read, only that value is lost. Pages
//! that can no longer be reached are freed.

use super::format::{self, PageValue, SharedPage};
use super::{AnyTree, PagedDictionary, PagedOptions, messages};
use crate::paged::buffer::{FreeLists, PageBuffer};
use crate::paged::node::{MessageAction, PageContentKind, child_at, kind, level, set_first_child, set_head};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::structure_context::StructureContext;
use alluvium_storage::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// A key range whose data has been lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostKeys {
    pub range: KeyRange,
    /// A description of the lost data and of the cause.
    pub what: String,
}

struct NodeVisit {
    page: u64,
    /// The level of the parent, or `None` for the root.
    above: Option<u8>,
    range: KeyRange,
}

/// The result of visiting all nodes of a damaged tree.
#[derive(Default)]
struct SalvageScan {
    /// Numbers of the pages that can be reached from the root.
    used: BTreeSet<u64>,
    lost: Vec<LostKeys>,
    /// For each shared page, the slots whose values can be reached.
    slots: BTreeMap<u64, u64>,
    /// Keys whose values cannot be read.
    unreadable: Vec<Vec<u8>>,
}

fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. })
}

impl PagedDictionary {
    /// Opens damaged pages as far as they can be read, and repairs them. Returns the tree and the
    /// key ranges whose data was lost.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the root cannot be read; I/O errors.
    pub fn open_salvaged(
        home: StructureContext,
        options: &PagedOptions,
        root: &[u8],
        cut: SequenceNumber,
    ) -> Result<(PagedDictionary, Vec<LostKeys>)> {
        let paged = PagedDictionary::open_with(home, options, (root, cut), FreeLists::Salvaged)?;
        let lost = paged.poison_on_error(paged.repair())?;
        Ok((paged, lost))
    }

    fn repair(&self) -> Result<Vec<LostKeys>> {
        let mut writer = self.shared.writer.lock();
        let _alone = self.shared.gate.write();
        let core = self.core();
        let mut walked = self.walk_down()?;
        for key in std::mem::take(&mut walked.unreadable) {
            self.forget(&key)?;
            let after = [&key[..], &[0]].concat();
            walked.lost.push(LostKeys {
                range: KeyRange::new(&key, Some(&after)),
                what: "the value, whose pages cannot be read".to_owned(),
            });
        }
        let lost = std::mem::take(&mut walked.lost);
        if !lost.is_empty() {
            writer.is_current = false;
            lost.iter().for_each(|lost| core.note(&lost.range.low));
            self.shared.tree.merge_noted()?;
            walked = self.walk_down()?;
        }
        let SalvageScan { used, slots, .. } = walked;
        for (page, slots) in slots {
            writer.is_current &= !self.keep_slots(page, slots)?;
        }
        // Free the pages that cannot be reached: pages below a lost node, pages of lost values, and
        // pages in unreadable free lists.
        let free: BTreeSet<u64> = core.buffer.free_pages().into_iter().collect();
        let pages = core.buffer.statistics().pages;
        let unused = (0..pages).filter(|page| !used.contains(page) && !free.contains(page));
        let unused: Vec<u64> = unused.collect();
        writer.is_current &= unused.is_empty();
        core.buffer.give_up(unused);
        Ok(lost)
    }

    /// Deletes a key without reading its value.
    fn forget(&self, key: &[u8]) -> Result<()> {
        self.shared.tree.write(key, None)?;
        if let AnyTree::Beps(tree) = &self.shared.tree {
            tree.drain_at(key)?;
        }
        self.shared.dropped.0.lock().clear();
        Ok(())
    }

    fn walk_down(&self) -> Result<SalvageScan> {
        let core = self.core();
        let mut walked = SalvageScan::default();
        let mut todo = vec![NodeVisit {
            page: core.root,
            above: None,
            range: KeyRange::new(&[], None),
        }];
        while let Some(visit) = todo.pop() {
            let pinned = match visit.above {
                None => core.buffer.pin_shared(visit.page),
                Some(above) => core.shared(visit.page, above),
            };
            match pinned {
                Ok(node) if walked.used.insert(visit.page) => {
                    self.look_at(&node, &visit, &mut walked, &mut todo)?;
                }
                Ok(_) => {}
                Err(error) if is_damage(&error) && visit.above.is_some() => {
                    // A page number past the end of the file means that the parent is not a valid
                    // node, which cannot be repaired here.
                    if visit.page >= core.buffer.statistics().pages {
                        return Err(error);
                    }
                    let at = visit.above.map_or(0, |above| above.saturating_sub(1));
                    self.replace(visit.page, at)?;
                    walked.lost.push(LostKeys {
                        range: visit.range.clone(),
                        what: format!("all but the writes newer than its pages ({error})"),
                    });
                    todo.push(visit);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(walked)
    }

    fn look_at(
        &self,
        node: &[u8],
        visit: &NodeVisit,
        walked: &mut SalvageScan,
        todo: &mut Vec<NodeVisit>,
    ) -> Result<()> {
        let shape = &self.core().shape;
        if kind(node) == Some(PageContentKind::Leaf) {
            for at in 0..shape.pairs.len(node) {
                self.read_value(shape.pairs.key(node, at), shape.pairs.value(node, at), walked)?;
            }
            return Ok(());
        }
        if kind(node) == Some(PageContentKind::Buffered) {
            let buffer = shape.buffer_of(node);
            for at in 0..buffer.len(node) {
                let message = buffer.message(node, at);
                if message.action == MessageAction::Insert {
                    self.read_value(message.key, message.operand, walked)?;
                }
            }
        }
        let pivots = shape.pivots_of(node);
        for at in 0..=pivots.len(node) {
            let mut range = visit.range.clone();
            if at > 0 {
                range.low = pivots.key(node, at - 1).into();
            }
            if at < pivots.len(node) {
                range.high = Some(pivots.key(node, at).into());
            }
            todo.push(NodeVisit {
                page: child_at(&pivots, node, at),
                above: Some(level(node)),
                range,
            });
        }
        Ok(())
    }

    /// Replaces an unreadable page by a node on level `at` that has no keys below it.
    fn replace(&self, page: u64, at: u8) -> Result<()> {
        let (buffer, inner) = (
            &self.core().buffer,
            match &self.shared.tree {
                AnyTree::Beps(_) => PageContentKind::Buffered,
                AnyTree::Bplus(_) => PageContentKind::Wide,
            },
        );
        let head = |node: &mut [u8], level: u8, child: Option<u64>| match child {
            None => set_head(node, PageContentKind::Leaf, level),
            Some(child) => {
                set_head(node, inner, level);
                set_first_child(node, child);
            }
        };
        let mut child = None;
        for below in 0..at {
            let mut node = buffer.allocate()?;
            head(&mut node, below, child);
            child = Some(node.number());
        }
        let mut node = buffer.take_over(page)?;
        head(&mut node, at, child);
        assert!(level(&node) == at, "it has the level of what was there");
        Ok(())
    }

    /// Reads a key's value. Adds the value's pages to the reachable ones or, if the value cannot be
    /// read, adds the key to `unreadable`.
    fn read_value(&self, key: &[u8], value: &[u8], walked: &mut SalvageScan) -> Result<()> {
        let (mut pages, mut slot_of) = (Vec::new(), None);
        let readable = match PageValue::decode(value) {
            Ok(PageValue::Inline(messages)) => format::decode(messages).is_ok(),
            Ok(PageValue::Separate(pointer)) => {
                let mut bytes = Vec::new();
                let read = messages::pieces(self.core(), pointer, &mut |page, piece| {
                    pages.push(page);
                    bytes.extend_from_slice(piece);
                });
                match read {
                    Ok(()) => format::decode(&bytes).is_ok(),
                    Err(error) if is_damage(&error) => false,
                    Err(error) => return Err(error),
                }
            }
            Ok(PageValue::Shared(slot)) => match messages::in_slot(self.core(), slot) {
                Ok(messages) => {
                    slot_of = Some(slot);
                    format::decode(&messages).is_ok()
                }
                Err(error) if is_damage(&error) => false,
                Err(error) => return Err(error),
            },
            Err(_) => false,
        };
        if !readable {
            walked.unreadable.push(key.to_vec());
            return Ok(());
        }
        walked.used.extend(pages);
        if let Some(slot) = slot_of {
            walked.used.insert(slot.page);
            *walked.slots.entry(slot.page).or_default() |= SharedPage::bit(slot.number);
        }
        Ok(())
    }
}
