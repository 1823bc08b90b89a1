//! Where the messages of a key are: in its node, or in pages of their own.

use super::Paged;
use super::format::{self, APART_HEADER, Entry, Pointer, Value};
use crate::paged::buffer::{PageBuffer, Pool};
use crate::paged::core::Core;
use crate::paged::error::{Error, Result};

fn damaged(page: u64, expected: &str, found: String) -> Error {
    Error::Corrupt {
        file: super::FILE.to_owned(),
        page,
        offset: 0,
        expected: expected.to_owned(),
        found,
    }
}

/// Hands the pages of messages to `tell`.
pub(super) fn pieces(core: &Core<Pool>, pointer: Pointer, tell: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
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

impl Paged {
    /// Reads the messages of a value.
    pub(super) fn entries(&self, value: &[u8]) -> Result<Vec<Entry>> {
        let root = self.core().root;
        let bad = |found| damaged(root, "messages of a key", found);
        match Value::decode(value).map_err(bad)? {
            Value::Here(messages) => format::decode(messages).map_err(bad),
            Value::Apart(pointer) => {
                let mut bytes = Vec::new();
                pieces(self.core(), pointer, &mut |_, piece| {
                    bytes.extend_from_slice(piece);
                })?;
                format::decode(&bytes).map_err(|found| damaged(pointer.page, "messages of a key", found))
            }
        }
    }

    /// Writes messages to pages of their own.
    pub(super) fn write_apart(&self, messages: &[u8]) -> Result<Pointer> {
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
        Ok(Pointer {
            page: next.expect("there is a piece"),
            len: messages.len() as u64,
        })
    }

    /// Gives the pages from `first` on back.
    pub(super) fn free_apart(&self, first: u64) -> Result<()> {
        let buffer = &self.core().buffer;
        let mut at = Some(first);
        while let Some(page) = at {
            let content = buffer.pin_exclusive(page)?;
            let Some((_, next)) = format::read_apart(&content) else {
                return Err(damaged(page, "a piece of messages", "something else".to_owned()));
            };
            buffer.free(content);
            at = next;
        }
        Ok(())
    }

    /// Gives the pages back of values that the tree has no more (PV5).
    pub(super) fn free_dropped(&self) -> Result<()> {
        let dropped = std::mem::take(&mut *self.shared.dropped.0.lock());
        dropped
            .into_iter()
            .try_for_each(|pointer| self.free_apart(pointer.page))
    }
}
