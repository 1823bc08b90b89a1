//! The size of a tree as `du` shows it on ext4, by which costs are divided.
//!
//! Every file system stores the same tree in another amount of space. Costs per byte are comparable
//! only if they are divided by one size (Conway 2020, §4.4).

use super::BLOCK_BYTES;
use crate::{ErrorContext, Result, StopRequest, check_stop};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Number of entries and bytes of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeTotals {
    pub files: u64,
    pub directories: u64,
    /// Length of all files in bytes.
    pub bytes: u64,
    /// Space on ext4 with blocks of 4 KiB: whole blocks of each file, and of each directory's
    /// entries.
    pub ext4_bytes: u64,
}

/// Longest target in bytes that ext4 keeps in the inode of a symbolic link.
const INLINE_LINK: u64 = 59;

/// Returns the length of a directory entry on ext4: a head of 8 bytes and the name, rounded up to
/// 4.
fn entry_bytes(name: usize) -> u64 {
    (8 + name as u64).next_multiple_of(4)
}

impl TreeTotals {
    /// Counts a tree.
    ///
    /// # Errors
    /// I/O errors, or the job was stopped.
    pub fn of(root: &Path, stop: StopRequest<'_>) -> Result<TreeTotals> {
        let mut totals = TreeTotals::default();
        let mut directories = vec![root.to_owned()];
        while let Some(directory) = directories.pop() {
            check_stop(stop)?;
            totals.directories += 1;
            // A directory has entries for itself and its parent, of 12 bytes each.
            let (mut used, mut blocks) = (24, 1);
            for entry in fs::read_dir(&directory).at("listing", &directory)? {
                let entry = entry.at("listing", &directory)?;
                let length = entry_bytes(entry.file_name().as_bytes().len());
                // An entry does not cross blocks.
                if used + length > BLOCK_BYTES {
                    (used, blocks) = (0, blocks + 1);
                }
                used += length;
                let path = entry.path();
                let status = fs::symlink_metadata(&path).at("reading the attributes of", &path)?;
                if status.is_dir() {
                    directories.push(path);
                } else {
                    totals.add_file(status.len(), status.is_symlink());
                }
            }
            totals.ext4_bytes += blocks * BLOCK_BYTES;
        }
        Ok(totals)
    }

    fn add_file(&mut self, length: u64, is_link: bool) {
        self.files += 1;
        self.bytes += length;
        if !(is_link && length <= INLINE_LINK) {
            self.ext4_bytes += length.next_multiple_of(BLOCK_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_directories_count_in_whole_blocks_and_short_links_not() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::create_dir(root.join("a")).unwrap();
        for (name, length) in [("empty", 0), ("a/one", 1), ("a/block", 4096), ("a/more", 4097)] {
            fs::write(root.join(name), vec![7; length]).unwrap();
        }
        std::os::unix::fs::symlink("a/one", root.join("link")).unwrap();
        let totals = TreeTotals::of(root, &|| false).unwrap();
        assert_eq!((totals.files, totals.directories), (5, 2));
        assert_eq!(totals.bytes, 1 + 4096 + 4097 + 5);
        // Blocks: 0 + 1 + 1 + 2, and one for each directory.
        assert_eq!(totals.ext4_bytes, 6 * 4096);
    }

    #[test]
    fn a_large_directory_has_several_blocks() {
        let place = tempfile::tempdir().unwrap();
        for number in 0..300 {
            fs::write(place.path().join(format!("{number:032}")), "").unwrap();
        }
        // Entries of 40 bytes: 101 fit beside those of the directory, then 102 in each block.
        assert_eq!(
            TreeTotals::of(place.path(), &|| false).unwrap().ext4_bytes,
            3 * 4096
        );
    }
}
