//! Experiments of Lim's thesis (2015): chapter 2, SILT; chapter 3, entropy-coded tries over sorted
//! data at rest; chapter 4, what merging writes; chapter 5, tables in memory.
//!
//! Names: E1 to E9 are the tables and figures of section 3.4 in their order; S1 to S14 are those of
//! section 2.5; A1 to A13 are those of chapter 4, in `writes/`; M1 to M11 are those of section 5.4,
//! in `mica/`.

mod build;
mod formula;
mod harness;
mod lookup;
mod memory;
mod mica;
mod ours;
mod perfect;
mod rates;
mod server;
mod silt;
mod size;
mod update;
mod writes;

use super::entry::Experiment;

/// All of them.
pub(super) fn experiments() -> impl Iterator<Item = &'static Experiment> {
    OF_STORES_AND_TRIES
        .into_iter()
        .chain(writes::EXPERIMENTS)
        .chain(mica::EXPERIMENTS)
}

/// Those of chapters 2 and 3.
const OF_STORES_AND_TRIES: [&Experiment; 23] = [
    &server::S1,
    &server::S2,
    &server::S3,
    &server::S4,
    &server::S5,
    &memory::S6,
    &memory::S7,
    &server::S8,
    &rates::S9,
    &rates::S10,
    &rates::S11,
    &rates::S12,
    &formula::S13,
    &memory::S14,
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

/// The machine of section 2.5.
const SILT_SETTING: &str = "Core i7-860 with 4 cores at 2.8 GHz, 8 GiB of memory, a Crucial C300 SSD (48,000 random reads of 1 KiB a second), another SSD for sorting; \
                            keys of 20 bytes, values of 1,000 or 44 bytes, 4 instances.";

/// What holds of SILT's own stores here.
const COMPOSED: &str = "“SILT” is the document's three stores with real indexes over keys in memory, as one instance; entries are counted, not written. Tables are smaller than the \
                        document's in the same proportion as the data, so that 31 hash stores on average and a write amplification of 5.4 stay.";

/// What holds of our hashed keyspaces here.
const OURS: &str = "“alluvium” is a hashed keyspace of a store with a sixteenth of the data as memory: memtables in the place of logs, pages in the place of entries, merges when hash stores have \
                    a quarter of the sorted store.";

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
