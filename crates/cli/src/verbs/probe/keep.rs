//! Saves measured samples in the directory of a store, in the file `probe.txt`.

use crate::store::private;
use crate::terminal::exit::{CommandExit, failure};
use alluvium_base::measurements::DeviceMeasurements;
use alluvium_model::probe::format::{self, FILE, MOST_BYTES};
use anyhow::{Context as _, Result};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Returns whether a directory contains a store.
pub(super) fn is_store(path: &Path) -> bool {
    path.join("superblock").exists()
}

/// Writes samples atomically. If this fails, the file has either its old or its new content.
pub(super) fn write(path: &Path, measured: &DeviceMeasurements) -> Result<()> {
    let (file, new) = (path.join(FILE), path.join(format!("{FILE}.new")));
    let written = private::write(&new, &format::encode(measured))
        .and_then(|()| File::open(&new)?.sync_all())
        .and_then(|()| std::fs::rename(&new, &file))
        .and_then(|()| File::open(path)?.sync_all());
    written.with_context(|| format!("saving the samples in {}", file.display()))
}

/// Reads the samples saved in the directory of a store.
pub(super) fn read(path: &Path) -> Result<DeviceMeasurements> {
    let file = path.join(FILE);
    if file.exists() {
        return read_file(&file);
    }
    let text = format!(
        "{} has no {FILE}: measure first, with `alluvium probe --store`",
        path.display()
    );
    Err(failure(CommandExit::NotFound, text))
}

/// Reads samples from a file.
pub(super) fn read_file(file: &Path) -> Result<DeviceMeasurements> {
    let mut bytes = Vec::new();
    // Read one byte more than the limit, to detect a file that is too long.
    let read = File::open(file).and_then(|open| open.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes));
    read.with_context(|| format!("reading {}", file.display()))?;
    format::decode(&bytes).map_err(|bad| failure(CommandExit::Damaged, format!("{}: {bad}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::exit::classify;
    use alluvium_base::measurements::Medium;

    #[test]
    fn what_is_kept_is_read_again_and_damage_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let missing = read(place.path()).unwrap_err();
        assert_eq!(classify(&missing), CommandExit::NotFound, "{missing}");
        let measured = DeviceMeasurements {
            began_s: 1,
            medium: Medium::Device,
            file_system: "ext4".to_owned(),
            span_bytes: 2,
            elapsed_ns: 3,
            samples: Vec::new(),
            syncs_ns: vec![4],
            filled: Vec::new(),
            sustained: Vec::new(),
            notes: Vec::new(),
        };
        for _ in 0..2 {
            write(place.path(), &measured).unwrap();
            assert_eq!(read(place.path()).unwrap(), measured);
        }
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
        std::fs::write(place.path().join(FILE), "alluvium probe 9\n").unwrap();
        let damaged = read(place.path()).unwrap_err();
        assert_eq!(classify(&damaged), CommandExit::Damaged);
        assert!(damaged.to_string().contains("probe.txt: it begins"), "{damaged}");
        std::fs::write(place.path().join(FILE), vec![b'a'; MOST_BYTES + 7]).unwrap();
        assert!(read(place.path()).unwrap_err().to_string().contains("at most"));
    }
}
