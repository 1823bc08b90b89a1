//! Studies of systems of others, which entries of the Lab ask for: `alluvium-rivals study NAME`.
//!
//! *Knows*: what is done with each system, in a directory of its own; what it counts meanwhile.
//!
//! *Does not know*: what was published; how figures are drawn.
//!
//! *Read in this order*: this file; `pages.rs` and `inserts.rs` (Berkeley DB), `change_buffer.rs`
//! (MariaDB), `level_db.rs`.
//!
//! - **RS1** A study leaves nothing behind: no file, no process.
//! - **RS2** A system that is not installed has no figures, and a note says so.

#[cfg(feature = "mariadb")]
mod change_buffer;
#[cfg(feature = "berkeley-db")]
mod inserts;
#[cfg(feature = "leveldb")]
mod level_db;
#[cfg(feature = "berkeley-db")]
mod pages;

use alluvium_lab::Measured;
#[cfg(any(feature = "berkeley-db", feature = "leveldb", feature = "mariadb"))]
use alluvium_lab::{At, Line, Spot};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// A study.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// What it is called on the command line.
    pub name: &'static str,
    measure: fn(&Path, u64) -> Result<Measured>,
}

/// The studies that this was built with.
pub const STUDIES: &[Study] = &[
    #[cfg(feature = "berkeley-db")]
    Study {
        name: "berkeley-pages",
        measure: pages::measure,
    },
    #[cfg(feature = "berkeley-db")]
    Study {
        name: "berkeley-inserts",
        measure: inserts::measure,
    },
    #[cfg(feature = "mariadb")]
    Study {
        name: "change-buffer",
        measure: change_buffer::measure,
    },
    #[cfg(feature = "leveldb")]
    Study {
        name: "leveldb-inserts",
        measure: level_db::measure,
    },
];

impl Study {
    /// Measures with `records` records, in a directory that is not there yet.
    ///
    /// # Errors
    /// When the directory cannot be made, or there are too few records; as the system says.
    pub fn make(&self, directory: &Path, records: u64) -> Result<Measured> {
        let place = Place::new(directory)?;
        (self.measure)(place.path(), records)
    }
}

/// A directory that is made, and removed in the end (RS1).
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new(path: &Path) -> Result<Place> {
        let why = || {
            format!(
                "making {}: --directory names one where that is not there yet",
                path.display()
            )
        };
        let parent = path.parent().unwrap_or(path);
        fs::create_dir_all(parent).with_context(why)?;
        fs::create_dir(path).with_context(why)?;
        Ok(Place(fs::canonicalize(path)?))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed can be removed by hand; the measurement stands.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Figures at numbers.
#[cfg(any(feature = "berkeley-db", feature = "leveldb", feature = "mariadb"))]
fn line(name: String, points: &[(f64, f64)]) -> Line {
    let spot = |&(at, value): &(f64, f64)| Spot {
        at: At::Number(at),
        value,
    };
    Line {
        name,
        points: points.iter().map(spot).collect(),
    }
}
