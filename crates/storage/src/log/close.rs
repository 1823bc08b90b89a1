//! The mark of a clean close: a small file that says where the log ended.
//!
//! Records name the synced watermark of the past only, so damage to the last of them looks like the end of the log. After a
//! clean close the end is known, and is kept apart from what it guards: whatever is damaged, the mark or a segment, the
//! other is sound. The mark counts until a later incarnation has begun; it is never removed.

use super::format::{BLOCK_BYTES, CloseMark};
use crate::Result;
use alluvium_base::Purpose;
use alluvium_device::{Buffer, Device, Directory, Error, FileOptions};
use std::sync::Arc;

/// The file's name.
pub(super) const FILE: &str = "log-closed";

/// Both copies, in bytes.
const BYTES: u64 = 2 * BLOCK_BYTES as u64;

/// Opens the file, or makes it while there is room. Its name and length are durable; `None` when the disk is full.
///
/// # Errors
/// As the device says.
pub(super) fn prepare(directory: &dyn Directory) -> Result<Option<Arc<dyn Device>>> {
    let file = match directory.open(FILE, FileOptions::BUFFERED) {
        Ok(file) if file.len() >= BYTES => return Ok(Some(file)),
        Ok(file) => Ok(file),
        Err(Error::NotFound { .. }) => directory.create(FILE, FileOptions::BUFFERED),
        Err(error) => Err(error),
    };
    let made = file.and_then(|file| {
        file.grow(BYTES)?;
        file.sync(Purpose::Log)?;
        directory.sync()?;
        Ok(file)
    });
    match made {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.is_disk_full() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The mark, if there is one of this store; in the inner result what is wrong with the file.
///
/// # Errors
/// As the device says.
pub(super) fn read(
    directory: &dyn Directory,
    identity: u64,
) -> Result<std::result::Result<Option<CloseMark>, String>> {
    let file = match directory.open(FILE, FileOptions::BUFFERED) {
        Ok(file) => file,
        Err(Error::NotFound { .. }) => return Ok(Ok(None)),
        Err(error) => return Err(error.into()),
    };
    let len = file.len().min(BYTES) / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
    if len == 0 {
        return Ok(Ok(None));
    }
    let bytes = file.read_at(0, len as usize, Purpose::Recovery)?;
    Ok(CloseMark::decode(&bytes).map(|mark| mark.filter(|mark| mark.identity == identity)))
}

/// Takes away whatever the file holds, durably.
///
/// # Errors
/// As the device says.
pub(super) fn clear(file: &dyn Device) -> Result<()> {
    file.write_at(0, Buffer::zeroed(BYTES as usize), Purpose::Log)?;
    file.sync(Purpose::Log)?;
    Ok(())
}

/// Writes the mark, durably.
///
/// # Errors
/// As the device says.
pub(super) fn write(file: &dyn Device, mark: &CloseMark) -> Result<()> {
    file.write_at(0, Buffer::padded(&mark.encode()), Purpose::Log)?;
    file.sync(Purpose::Log)?;
    Ok(())
}
