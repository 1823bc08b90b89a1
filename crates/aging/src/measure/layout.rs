//! The static layout of a tree, from the extents of its files: the layout score of Smith and
//! Seltzer (the share of a file's blocks that follow their predecessor), the degree of
//! fragmentation, and the score of the whole tree in the order of a scan.

use super::BLOCK_BYTES;
use super::cold::for_each_file;
use super::extents::{PhysicalExtent, extents_of};
use super::score::{BlockRequest, DynamicLayoutScore, SECTOR_BYTES, ratio};
use crate::{Result, StopRequest};
use std::path::{Path, PathBuf};

/// Longest extent of ext4, which an ideal layout consists of.
const IDEAL_EXTENT: u64 = 128 << 20;

/// The extents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLayout {
    pub path: PathBuf,
    /// In the order of the file. Adjacent extents are merged where the blocks follow each other.
    pub extents: Vec<PhysicalExtent>,
}

/// The layout of all files of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StaticLayout {
    /// Number of files with blocks on the device.
    pub files: u64,
    /// Number of extents, merged where blocks follow each other.
    pub extents: u64,
    /// Number of extents of an ideal layout: one per file and 128 MiB.
    pub ideal_extents: u64,
    /// Share of the blocks of a file that follow their predecessor in the file. `None` if no file
    /// has two blocks.
    pub layout_score: Option<f64>,
    /// Share of all blocks that follow their predecessor in the order of a scan of the tree, across
    /// files.
    pub tree_score: Option<f64>,
}

impl StaticLayout {
    /// Computes the measures from the files, in the order in which a scan reads them.
    #[must_use]
    pub fn of(files: &[FileLayout]) -> StaticLayout {
        let mut layout = StaticLayout::default();
        let (mut contiguous, mut successors) = (0, 0);
        let mut scan = Vec::new();
        for file in files.iter().filter(|file| !file.extents.is_empty()) {
            let length: u64 = file.extents.iter().map(|extent| extent.length).sum();
            layout.files += 1;
            layout.extents += file.extents.len() as u64;
            layout.ideal_extents += length.div_ceil(IDEAL_EXTENT).max(1);
            let blocks = length.div_ceil(BLOCK_BYTES).max(1);
            successors += blocks - 1;
            contiguous += (blocks - 1).saturating_sub(file.extents.len() as u64 - 1);
            scan.extend(file.extents.iter().map(|extent| BlockRequest {
                sector: extent.physical / SECTOR_BYTES,
                sectors: extent.length / SECTOR_BYTES,
            }));
        }
        layout.layout_score = ratio(contiguous, successors + 1);
        layout.tree_score = DynamicLayoutScore::of(&scan).by_block();
        layout
    }

    /// Returns the number of extents divided by that of an ideal layout, or `None` without extents.
    #[must_use]
    pub fn degree_of_fragmentation(&self) -> Option<f64> {
        (self.ideal_extents > 0).then(|| self.extents as f64 / self.ideal_extents as f64)
    }

    /// Returns the mean number of extents of a file, or `None` without files.
    #[must_use]
    pub fn extents_per_file(&self) -> Option<f64> {
        (self.files > 0).then(|| self.extents as f64 / self.files as f64)
    }
}

/// Reads the extents of all files of a tree, in the order of a scan. `None` if the file system does
/// not report extents.
///
/// # Errors
/// I/O errors, or the job was stopped.
pub fn read_tree(root: &Path, stop: StopRequest<'_>) -> Result<Option<Vec<FileLayout>>> {
    let (mut files, mut is_known) = (Vec::new(), true);
    for_each_file(root, stop, &mut |path| {
        if is_known {
            match extents_of(path)? {
                Some(extents) => files.push(FileLayout {
                    path: path.to_owned(),
                    extents: merged(&extents),
                }),
                None => is_known = false,
            }
        }
        Ok(())
    })?;
    Ok(is_known.then_some(files))
}

/// Merges extents whose blocks follow each other in the file and on the device.
fn merged(extents: &[PhysicalExtent]) -> Vec<PhysicalExtent> {
    let mut merged: Vec<PhysicalExtent> = Vec::with_capacity(extents.len());
    for extent in extents {
        match merged.last_mut() {
            Some(last)
                if last.physical.saturating_add(last.length) == extent.physical
                    && last.logical.saturating_add(last.length) == extent.logical =>
            {
                last.length += extent.length;
            }
            _ => merged.push(*extent),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file from pairs of a physical block and a number of blocks.
    fn file(name: &str, pieces: &[(u64, u64)]) -> FileLayout {
        let mut logical = 0;
        let extents: Vec<PhysicalExtent> = pieces
            .iter()
            .map(|&(block, blocks)| {
                let extent = PhysicalExtent {
                    logical,
                    physical: block * BLOCK_BYTES,
                    length: blocks * BLOCK_BYTES,
                };
                logical += extent.length;
                extent
            })
            .collect();
        FileLayout {
            path: name.into(),
            extents: merged(&extents),
        }
    }

    #[test]
    fn a_sequential_tree_has_scores_one_and_an_ideal_number_of_extents() {
        let files = [file("a", &[(100, 10)]), file("b", &[(110, 5), (115, 5)])];
        let layout = StaticLayout::of(&files);
        assert_eq!((layout.layout_score, layout.tree_score), (Some(1.0), Some(1.0)));
        assert_eq!((layout.files, layout.extents), (2, 2));
        assert_eq!(layout.degree_of_fragmentation(), Some(1.0));
    }

    #[test]
    fn a_strided_file_has_score_zero() {
        let pieces: Vec<(u64, u64)> = (0..50).map(|at| (at * 2, 1)).collect();
        let layout = StaticLayout::of(&[file("a", &pieces)]);
        assert_eq!((layout.layout_score, layout.tree_score), (Some(0.0), Some(0.0)));
        assert_eq!(layout.degree_of_fragmentation(), Some(50.0));
        assert_eq!(layout.extents_per_file(), Some(50.0));
    }

    #[test]
    fn a_file_of_two_halves_loses_one_block_and_interleaved_halves_lose_all() {
        let halves = StaticLayout::of(&[file("a", &[(500, 50), (100, 50)])]);
        assert_eq!(halves.layout_score, Some(98.0 / 99.0));
        let interleaved: Vec<(u64, u64)> = (0..50).flat_map(|at| [(at, 1), (1000 + at, 1)]).collect();
        let layout = StaticLayout::of(&[file("a", &interleaved)]);
        assert_eq!(layout.layout_score, Some(0.0));
    }

    #[test]
    fn scattered_small_files_are_whole_each_and_scattered_as_a_tree() {
        let files: Vec<FileLayout> = (0..20).map(|at| file("x", &[(at * 7, 1)])).collect();
        let layout = StaticLayout::of(&files);
        assert_eq!((layout.layout_score, layout.tree_score), (None, Some(0.0)));
        assert_eq!(layout.degree_of_fragmentation(), Some(1.0));
        assert_eq!(StaticLayout::of(&[file("empty", &[])]).extents_per_file(), None);
    }

    #[test]
    fn a_long_file_may_have_an_extent_for_each_128_mib() {
        let blocks = (300 << 20) / BLOCK_BYTES;
        let layout = StaticLayout::of(&[file("a", &[(0, blocks)])]);
        assert_eq!((layout.extents, layout.ideal_extents), (1, 3));
    }
}
