//! Allocating and clearing ranges of files.

use super::contents::FileContents;
use super::{FileWriter, MAX_FILE_BYTES, invalid, too_large};
use crate::error::Result;
use crate::records::ReadDependence;
use crate::types::{AllocateMode, Inode};

impl FileWriter<'_> {
    /// Allocates, clears or removes a range. Space is not reserved: a range that was allocated is a
    /// hole until it is written.
    pub(crate) fn allocate(&self, inode: Inode, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        let record = self.reader().load_file(inode, ReadDependence::Update)?;
        if length == 0 {
            return Err(invalid("the range to be allocated is empty"));
        }
        let end = offset.checked_add(length);
        let Some(end) = end.filter(|&end| end <= MAX_FILE_BYTES) else {
            return Err(too_large(inode));
        };
        let mut contents = FileContents::new(self, inode, record);
        match mode {
            AllocateMode::KeepSize => return Ok(()),
            AllocateMode::Extend => (),
            AllocateMode::PunchHole | AllocateMode::Zero | AllocateMode::ZeroKeepSize => {
                contents.punch(offset, end)?;
            }
        }
        if matches!(mode, AllocateMode::Extend | AllocateMode::Zero) {
            contents.resize(end.max(contents.size()))?;
        }
        contents.save()
    }
}
