//! Fragmentation between files: small files are created in an order that differs more and more from
//! that of their names (Conway 2020, §4.6).
//!
//! In round n, the first n percent of two random permutations of the files are swapped in the order
//! of creation: round 0 is sorted, round 100 random.

use super::text::{generator, random_bytes};
use super::{AgingWorkload, StepRelation};
use crate::measure::cold::for_each_file;
use crate::{Error, ErrorContext, Result, StopRequest, check_stop};
use std::fs;
use std::path::{Path, PathBuf};

/// Parts of the seed.
const NAMES: u64 = u64::MAX - 2;
const PERMUTATIONS: u64 = u64::MAX - 3;

/// The parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfileWorkload {
    /// Paths of the files, sorted.
    names: Vec<PathBuf>,
    file_bytes: usize,
    seed: u64,
}

impl InterfileWorkload {
    /// Returns a workload on a tree of about twelve files a directory, as source trees have them.
    #[must_use]
    pub fn synthetic(files: u64, file_bytes: usize, seed: u64) -> InterfileWorkload {
        let mut random = generator(seed, NAMES);
        let directories = (files / 12).max(1);
        let mut names: Vec<PathBuf> = (0..files)
            .map(|number| {
                let directory = random.u64(..directories);
                let path = format!(
                    "d{:02}/s{:03}/file-{number:06}.cc",
                    directory % 16,
                    directory / 16
                );
                PathBuf::from(path)
            })
            .collect();
        names.sort();
        InterfileWorkload {
            names,
            file_bytes,
            seed,
        }
    }

    /// Returns a workload with the names of the files of a tree. The files are only listed.
    ///
    /// # Errors
    /// I/O errors, or there are no files.
    pub fn like(
        tree: &Path,
        file_bytes: usize,
        seed: u64,
        stop: StopRequest<'_>,
    ) -> Result<InterfileWorkload> {
        let mut names = Vec::new();
        for_each_file(tree, stop, &mut |path| {
            names.extend(path.strip_prefix(tree).map(Path::to_owned));
            Ok(())
        })?;
        names.sort();
        match names.is_empty() {
            true => Err(Error::Refused(format!(
                "{} has no files: name a tree of files whose names are used",
                tree.display()
            ))),
            false => Ok(InterfileWorkload {
                names,
                file_bytes,
                seed,
            }),
        }
    }

    /// Returns the order in which files are created in a round.
    fn order(&self, percent: u64) -> Vec<usize> {
        let mut random = generator(self.seed, PERMUTATIONS);
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        let (mut one, mut other) = (order.clone(), order.clone());
        random.shuffle(&mut one);
        random.shuffle(&mut other);
        let swapped = order.len() as u64 * percent.min(100) / 100;
        for (&one, &other) in one.iter().zip(&other).take(swapped as usize) {
            order.swap(one, other);
        }
        order
    }
}

impl AgingWorkload for InterfileWorkload {
    fn relation(&self) -> StepRelation {
        StepRelation::Independent
    }

    fn perform(&mut self, root: &Path, step: u64, stop: StopRequest<'_>) -> Result<()> {
        for number in self.order(step) {
            check_stop(stop)?;
            let path = root.join(&self.names[number]);
            let directory = path.parent().unwrap_or(root);
            fs::create_dir_all(directory).at("creating", directory)?;
            let mut random = generator(self.seed, number as u64);
            fs::write(&path, random_bytes(&mut random, self.file_bytes)).at("writing", &path)?;
        }
        Ok(())
    }

    fn skip(&mut self, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_zero_is_sorted_and_later_rounds_move_more_files() {
        let workload = InterfileWorkload::synthetic(1000, 16, 7);
        let moved = |percent| {
            let order = workload.order(percent);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.iter().copied().eq(0..1000), "a permutation");
            order.iter().enumerate().filter(|(at, file)| at != *file).count()
        };
        assert_eq!(moved(0), 0);
        let tenth = moved(10);
        assert!(
            (150..=200).contains(&tenth),
            "{tenth} of 1000 files moved by 100 swaps"
        );
        assert!(moved(100) > 800);
    }

    #[test]
    fn names_of_a_tree_are_used_and_an_empty_one_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let refused = InterfileWorkload::like(place.path(), 16, 1, &|| false).unwrap_err();
        assert!(refused.to_string().contains("has no files"), "{refused}");
        fs::create_dir(place.path().join("a")).unwrap();
        fs::write(place.path().join("a/b"), "").unwrap();
        let workload = InterfileWorkload::like(place.path(), 16, 1, &|| false).unwrap();
        assert_eq!(workload.names, [PathBuf::from("a/b")]);
    }
}
