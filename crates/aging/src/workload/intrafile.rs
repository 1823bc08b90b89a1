//! Fragmentation within files: several files grow in turns (Conway 2020, §4.5).
//!
//! In round r, each file is first written to its final size less r chunks, one file after the
//! other. Then r passes append a chunk to each file in turn. Each write is followed by `fsync`.

use super::text::{generator, random_bytes};
use super::{AgingWorkload, StepRelation};
use crate::{ErrorContext, Result, StopRequest, check_stop};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// The parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntrafileWorkload {
    pub files: u64,
    /// Final size of each file, in chunks.
    pub chunks: u64,
    pub chunk_bytes: usize,
    pub seed: u64,
}

impl IntrafileWorkload {
    /// Returns the workload of the source: 10 files of 400 KiB, chunks of 4 KiB, rounds 0 to 100.
    #[must_use]
    pub fn published(seed: u64) -> IntrafileWorkload {
        IntrafileWorkload {
            files: 10,
            chunks: 100,
            chunk_bytes: 4096,
            seed,
        }
    }
}

impl AgingWorkload for IntrafileWorkload {
    fn relation(&self) -> StepRelation {
        StepRelation::Independent
    }

    fn perform(&mut self, root: &Path, step: u64, stop: StopRequest<'_>) -> Result<()> {
        let directory = root.join("files");
        fs::create_dir(&directory).at("creating", &directory)?;
        let appended = step.min(self.chunks);
        let first = (self.chunks - appended) as usize * self.chunk_bytes;
        let mut files = Vec::new();
        for number in 0..self.files {
            check_stop(stop)?;
            let path = directory.join(format!("file-{number:02}"));
            let mut random = generator(self.seed, number);
            let mut file = File::create_new(&path).at("creating", &path)?;
            write_synced(&mut file, &random_bytes(&mut random, first), &path)?;
            files.push((file, path, random));
        }
        for _ in 0..appended {
            check_stop(stop)?;
            for (file, path, random) in &mut files {
                write_synced(file, &random_bytes(random, self.chunk_bytes), path)?;
            }
        }
        Ok(())
    }

    fn skip(&mut self, _: u64) {}
}

fn write_synced(file: &mut File, bytes: &[u8], path: &Path) -> Result<()> {
    file.write_all(bytes).at("writing", path)?;
    file.sync_all().at("syncing", path)
}
