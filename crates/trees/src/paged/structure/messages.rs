//! Stores a key's messages, either in the key's node or in separate pages.

use super::PagedDictionary;
use super::format::{self, APART_HEADER, MessagePointer, PageValue, PagedEntry, SharedPage, SharedSlot};
use crate::paged::buffer::{PageBuffer, PagePool};
use crate::paged::core::TreeCore;
use crate::paged::error::damaged_page;
use alluvium_storage::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn damaged(page: u64, expected: &str, found: String) -> Error {
    damaged_page(super::FILE, page, 0, expected, found)
}

/// Calls `tell` with the number and the messages of each separate page that a pointer leads to, in
/// order.
pub(super) fn pieces(
    core: &TreeCore<PagePool>,
    pointer: MessagePointer,
    tell: &mut dyn FnMut(u64, &[u8]),
) -> Result<()> {
    let (mut at, mut left) = (Some(pointer.page), pointer.len);
    while let Some(page) = at {
        let content = core.buffer.pin_shared(page)?;
        let found = format::read_apart(&content).filter(|(piece, _)| !piece.is_empty());
        let Some((piece, next)) = found else {
            return Err(damaged(page, "a piece of messages", "something else".to_owned()));
        };
        left = left
            .checked_sub(piece.len() as u64)
            .ok_or_else(|| damaged(page, "the end of messages", format!("{} bytes", piece.len())))?;
        tell(page, piece);
        at = next;
    }
    match left {
        0 => Ok(()),
        left => Err(damaged(
            pointer.page,
            "all of the messages",
            format!("{left} bytes too few"),
        )),
    }
}

/// The location of messages that are not stored in a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum MessagePlace {
    Pages(MessagePointer),
    Slot(SharedSlot),
}

impl MessagePlace {
    /// Returns the location of a value's messages, or `None` if they are in the node.
    pub(super) fn of(value: &[u8]) -> Option<MessagePlace> {
        match PageValue::decode(value).ok()? {
            PageValue::Inline(_) => None,
            PageValue::Separate(pointer) => Some(MessagePlace::Pages(pointer)),
            PageValue::Shared(slot) => Some(MessagePlace::Slot(slot)),
        }
    }
}

/// Shared pages with free slots, grouped by their number of slots. Pages that existed when the
/// store was opened are added once one of their slots is freed.
#[derive(Debug, Default)]
pub(super) struct SharedPages(BTreeMap<u16, BTreeSet<u64>>);

/// Returns the encoded messages in a slot of a shared page.
pub(super) fn in_slot(core: &TreeCore<PagePool>, slot: SharedSlot) -> Result<Vec<u8>> {
    let content = core.buffer.pin_shared(slot.page)?;
    let page = SharedPage::read(&content);
    let messages = page.and_then(|page| page.slot(&content, slot.number, slot.len));
    messages.map(<[u8]>::to_vec).ok_or_else(|| {
        let expected = format!("{} bytes of messages in slot {}", slot.len, slot.number);
        damaged(slot.page, &expected, "something else".to_owned())
    })
}

impl PagedDictionary {
    /// Reads and decodes a value's messages.
    pub(super) fn entries(&self, value: &[u8]) -> Result<Vec<PagedEntry>> {
        let root = self.core().root;
        let bad = |found| damaged(root, "messages of a key", found);
        match PageValue::decode(value).map_err(bad)? {
            PageValue::Inline(messages) => format::decode(messages).map_err(bad),
            PageValue::Separate(pointer) => {
                let mut bytes = Vec::new();
                pieces(self.core(), pointer, &mut |_, piece| {
                    bytes.extend_from_slice(piece);
                })?;
                format::decode(&bytes).map_err(|found| damaged(pointer.page, "messages of a key", found))
            }
            PageValue::Shared(slot) => format::decode(&in_slot(self.core(), slot)?)
                .map_err(|found| damaged(slot.page, "messages of a key", found)),
        }
    }

    /// Writes messages to a slot of a shared page or, if they are too long, to separate pages.
    /// Returns the value that refers to them.
    pub(super) fn write_out(&self, messages: &[u8]) -> Result<Vec<u8>> {
        let content = self.core().buffer.content_bytes();
        let value = match SharedPage::division(content, messages.len()) {
            Some(slots) => PageValue::Shared(self.write_slot(slots, messages)?),
            None => PageValue::Separate(self.write_apart(messages)?),
        };
        Ok(value.encode())
    }

    /// Writes messages into a free slot of a shared page with `slots` slots.
    fn write_slot(&self, slots: u16, messages: &[u8]) -> Result<SharedSlot> {
        let buffer = &self.core().buffer;
        let len = messages.len() as u64;
        let mut shared = self.shared.shared_pages.lock();
        let open = shared.0.entry(slots).or_default();
        while let Some(&page) = open.first() {
            let mut content = buffer.pin_exclusive(page)?;
            let header = SharedPage::read(&content).filter(|header| header.slots == slots);
            let Some((header, number)) = header.and_then(|header| Some((header, header.free_slot()?))) else {
                open.remove(&page);
                continue;
            };
            header.fill(&mut content, number, messages);
            return Ok(SharedSlot { page, number, len });
        }
        let mut content = buffer.allocate()?;
        let page = content.number();
        SharedPage { slots, used: 0 }.fill(&mut content, 0, messages);
        open.insert(page);
        Ok(SharedSlot { page, number: 0, len })
    }

    /// Frees a slot, and its page too if no other slot is in use.
    fn free_slot(&self, slot: SharedSlot) -> Result<()> {
        let buffer = &self.core().buffer;
        let mut shared = self.shared.shared_pages.lock();
        let pinned = buffer.pin_exclusive(slot.page);
        let mut content = pinned.inspect_err(|_| self.free_later(MessagePlace::Slot(slot)))?;
        let bit = SharedPage::bit(slot.number);
        let header = SharedPage::read(&content).filter(|header| header.used & bit != 0);
        let Some(mut header) = header else {
            return Err(damaged(
                slot.page,
                "a slot that is used",
                "something else".to_owned(),
            ));
        };
        header.used &= !bit;
        if header.used == 0 {
            shared.0.entry(header.slots).or_default().remove(&slot.page);
            buffer.free(content);
            return Ok(());
        }
        header.write(&mut content);
        shared.0.entry(header.slots).or_default().insert(slot.page);
        Ok(())
    }

    /// Replaces the set of slots that a shared page has in use. Returns whether this changed the
    /// page.
    pub(super) fn keep_slots(&self, page: u64, used: u64) -> Result<bool> {
        let content = self.core().buffer.pin_shared(page)?;
        let Some(header) = SharedPage::read(&content).filter(|header| header.used != used) else {
            return Ok(false);
        };
        drop(content);
        let mut content = self.core().buffer.pin_exclusive(page)?;
        SharedPage { used, ..header }.write(&mut content);
        Ok(true)
    }

    /// Writes messages to a chain of separate pages.
    pub(super) fn write_apart(&self, messages: &[u8]) -> Result<MessagePointer> {
        let buffer = &self.core().buffer;
        let most = buffer.content_bytes() - APART_HEADER;
        assert!(most > 0 && !messages.is_empty(), "a page holds some bytes");
        let mut next = None;
        for piece in messages.chunks(most).rev() {
            let mut page = match buffer.allocate() {
                Ok(page) => page,
                Err(error) => {
                    next.map_or(Ok(()), |page| self.free_apart(page))?;
                    return Err(error);
                }
            };
            format::write_apart(&mut page, piece, next);
            next = Some(page.number());
        }
        Ok(MessagePointer {
            page: next.expect("there is a piece"),
            len: messages.len() as u64,
        })
    }

    /// Frees the chain of pages that begins with `first`. Pages that cannot be read now are freed
    /// later.
    pub(super) fn free_apart(&self, first: u64) -> Result<()> {
        let buffer = &self.core().buffer;
        let mut at = Some(first);
        while let Some(page) = at {
            let left = MessagePlace::Pages(MessagePointer { page, len: 0 });
            let content = buffer
                .pin_exclusive(page)
                .inspect_err(|_| self.free_later(left))?;
            let Some((_, next)) = format::read_apart(&content) else {
                return Err(damaged(page, "a piece of messages", "something else".to_owned()));
            };
            buffer.free(content);
            at = next;
        }
        Ok(())
    }

    /// Frees the pages and slots of values that have left the tree (PV5). If an error occurs, the
    /// next call frees the remaining ones. No checkpoint root is returned until they are freed.
    pub(super) fn free_dropped(&self) -> Result<()> {
        while let Some(place) = self.next_dropped() {
            match place {
                MessagePlace::Pages(pointer) => self.free_apart(pointer.page)?,
                MessagePlace::Slot(slot) => self.free_slot(slot)?,
            }
        }
        Ok(())
    }

    fn next_dropped(&self) -> Option<MessagePlace> {
        self.shared.dropped.0.lock().pop()
    }

    /// Records the location of messages that have left the tree, so that the next call of
    /// [`PagedDictionary::free_dropped`] frees them.
    fn free_later(&self, place: MessagePlace) {
        self.shared.dropped.0.lock().push(place);
    }
}
