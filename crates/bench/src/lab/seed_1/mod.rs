//! Experiments of Lim's thesis (2015): chapter 3, entropy-coded tries over sorted data at rest, and
//! chapter 5, tables in memory.
//!
//! Names: E1 to E9 are the tables and figures of section 3.4 in their order; M1 to M11 those of
//! section 5.4, in `mica/`.

mod build;
mod harness;
mod lookup;
mod mica;
mod perfect;
mod size;
mod update;

use super::entry::Experiment;

/// All of them.
pub(super) fn experiments() -> impl Iterator<Item = &'static Experiment> {
    OF_TRIES.into_iter().chain(mica::EXPERIMENTS)
}

/// Those of chapter 3.
const OF_TRIES: [&Experiment; 9] = [
    &build::E1,
    &build::E2,
    &size::E3,
    &update::E4,
    &lookup::E5,
    &size::E6,
    &size::E7,
    &build::E8,
    &size::E9,
];

/// The machine of section 3.4.
const SETTING: &str = "Core i7-860 with 4 cores at 2.8 GHz, 4 GiB of memory, three Intel 510 SSDs as RAID-0, Ubuntu 11.04; sorting by Nsort; \
                       records of about 1 KB whose keys are hashes of URLs.";

/// What holds of every experiment here.
const KEYS: &str = "The document hashes URLs, whose list is not to be had. Ours are numbers: hashing leaves no structure in either.";

/// What holds of everything that reaches a device.
const DEVICE: &str = "Machine and device are others than the document's, and ours has one thread where it does not say otherwise: compare ratios, not rates. \
                      Files are in the system's directory for temporary files, past the page cache.";

/// What is ours under the document's name.
const EPH: &str = "External perfect hashing is implemented again from its description, as EPH-Sort: 2.8 bits a key where the document's has 3.9. \
                   EPH-Part, with its own partitioning, is not measured.";
