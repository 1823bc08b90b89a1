//! Studies of third-party systems for entries of the Lab: `alluvium-rivals study NAME`.
//!
//! *Scope*: the workload for each system, which runs in a separate directory; the counters that it
//! reads.
//!
//! *Must not depend on*: published values; how figures are drawn.
//!
//! - **RS1** A study leaves no files and no processes after it ends.
//! - **RS2** A system that is not installed has no figures, and a note reports this.

#[cfg(feature = "berkeley-db")]
mod berkeley_inserts;
#[cfg(feature = "berkeley-db")]
mod berkeley_pages;
#[cfg(feature = "mariadb")]
mod change_buffer;
#[cfg(feature = "leveldb")]
mod level_db;

use alluvium_lab::MeasurementSet;
#[cfg(any(feature = "berkeley-db", feature = "leveldb", feature = "mariadb"))]
use alluvium_lab::{AxisPosition, FigurePoint, FigureSeries};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// A measurement of one system, selected by name.
#[derive(Clone, Copy, Debug)]
pub struct SystemStudy {
    /// The name on the command line.
    pub name: &'static str,
    measure: fn(&Path, u64) -> Result<MeasurementSet>,
}

/// The studies compiled into this build.
pub const STUDIES: &[SystemStudy] = &[
    #[cfg(feature = "berkeley-db")]
    SystemStudy {
        name: "berkeley-pages",
        measure: berkeley_pages::measure,
    },
    #[cfg(feature = "berkeley-db")]
    SystemStudy {
        name: "berkeley-inserts",
        measure: berkeley_inserts::measure,
    },
    #[cfg(feature = "mariadb")]
    SystemStudy {
        name: "change-buffer",
        measure: change_buffer::measure,
    },
    #[cfg(feature = "leveldb")]
    SystemStudy {
        name: "leveldb-inserts",
        measure: level_db::measure,
    },
];

impl SystemStudy {
    /// Measures with `records` records in `directory`, which must not exist yet.
    ///
    /// # Errors
    /// When the directory cannot be created; when there are too few records; errors of the system.
    pub fn make(&self, directory: &Path, records: u64) -> Result<MeasurementSet> {
        let place = StudyDirectory::new(directory)?;
        (self.measure)(place.path(), records)
    }
}

/// A directory that is created, and removed on drop (RS1).
pub(crate) struct StudyDirectory(PathBuf);

impl StudyDirectory {
    pub(crate) fn new(path: &Path) -> Result<StudyDirectory> {
        let why = || {
            format!(
                "making {}: --directory names one where that is not there yet",
                path.display()
            )
        };
        let parent = path.parent().unwrap_or(path);
        fs::create_dir_all(parent).with_context(why)?;
        fs::create_dir(path).with_context(why)?;
        Ok(StudyDirectory(fs::canonicalize(path)?))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for StudyDirectory {
    fn drop(&mut self) {
        // The measurement is valid even if the directory cannot be removed; the user can remove it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a line of figures at numeric places.
#[cfg(any(feature = "berkeley-db", feature = "leveldb", feature = "mariadb"))]
fn line(name: String, points: &[(f64, f64)]) -> FigureSeries {
    let spot = |&(at, value): &(f64, f64)| FigurePoint {
        at: AxisPosition::Number(at),
        value,
    };
    FigureSeries {
        name,
        points: points.iter().map(spot).collect(),
    }
}
