//! Copying ranges of contents.

use super::contents::FileContents;
use super::{FileWriter, MAX_FILE_BYTES, invalid, too_large};
use crate::error::{ErrorKind, Result};
use crate::records::ReadDependence;
use crate::types::{Inode, SeekTarget};

/// Number of bytes that are copied together.
/// Tuning: `1 << 20` since 2026-11-29.
const BYTES_AT_ONCE: u64 = 1 << 20;

impl FileWriter<'_> {
    /// Copies a range with its holes. Values are copied: the store does not share them between
    /// keys.
    pub(crate) fn copy_range(
        &self,
        from: Inode,
        from_offset: u64,
        to: Inode,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        let reader = self.reader();
        let source = reader.load_file(from, ReadDependence::Shared)?;
        let target = reader.load_file(to, ReadDependence::Update)?;
        let length = source.size.saturating_sub(from_offset).min(length);
        let end = to_offset.checked_add(length);
        let Some(end) = end.filter(|&end| end <= MAX_FILE_BYTES) else {
            return Err(too_large(to));
        };
        if from == to && from_offset < end && to_offset < from_offset + length {
            return Err(invalid(format!(
                "the ranges to be copied within inode {} overlap",
                to.0
            )));
        }
        if length == 0 {
            return Ok(0);
        }
        let mut contents = FileContents::new(self, to, target);
        let (mut done, mut bytes) = (0, Vec::new());
        while done < length {
            let at = from_offset + done;
            // The source's blocks do not change, even if it is the target: the ranges are apart.
            let data = match reader.seek_contents(from, &source, at, SeekTarget::Data) {
                Ok(data) => data.min(from_offset + length),
                Err(error) if error.kind() == ErrorKind::NoSuchOffset => from_offset + length,
                Err(error) => return Err(error),
            };
            if data > at {
                let place = to_offset + done;
                contents.punch(place, place + (data - at))?;
                done += data - at;
                continue;
            }
            let hole = reader.seek_contents(from, &source, at, SeekTarget::Hole)?;
            let until = (hole - from_offset).min(length);
            while done < until {
                let part = (until - done).min(BYTES_AT_ONCE);
                reader.read_contents(from, &source, from_offset + done, part as usize, &mut bytes)?;
                contents.write(to_offset + done, &bytes)?;
                done += part;
            }
        }
        contents.resize(end.max(contents.size()))?;
        contents.save()?;
        Ok(length)
    }
}
