//! SILT's closed form (Lim §2.6) and its write model for skewed keys (Algorithm 5).

use super::OracleSection;
use alluvium_model::Popularity;
use alluvium_model::silt::{SiltModel, write_amplification};
use anyhow::Result;

const YEAR_S: f64 = 365.25 * 86_400.0;
const GIB: f64 = 1_073_741_824.0;
/// Number of slots in a hash store, and the occupied fraction when it is full.
const SLOTS: f64 = 131_072.0;
const FULL: f64 = 0.93;

pub(super) fn closed_form() -> Result<OracleSection> {
    let mut section = OracleSection::new("Lim 2015, §2.6: SILT");
    let example = SiltModel::example();
    let costs = example.costs()?;
    section.stated("write amplification (2.4)", 5.4, 0.05, costs.write_amplification);
    section.stated("hash stores, on average (2.5)", 31.0, 0.5, costs.hash_stores);
    section.stated(
        "read amplification (2.6)",
        1.008,
        0.0005,
        costs.read_amplification,
    );
    section.stated(
        "bytes of memory for an entry (2.7)",
        0.73,
        0.005,
        costs.memory_bytes,
    );
    let life = example.lifetime_seconds(5000.0, 1024.0, 256.0 * GIB, 1e4)? / YEAR_S;
    section.recomputed("years of a device (2.8)", 3.15, 0.01, life);
    let wrong = 8.0 / 2f64.powi(15);
    section.stated("false positives, 8 / 2^15", wrong, 1e-9, costs.false_positives);
    for (merged, writes, reads, memory) in [
        (1e6, 27.1, 1.0012, 0.472),
        (2.25e6, 13.2, 1.0025, 0.522),
        (5.0625e6, 7.01, 1.0053, 0.635),
        (11.390_625e6, 4.27, 1.0116, 0.889),
        (17.085_937_5e6, 3.54, 1.0173, 1.118),
    ] {
        let costs = SiltModel { merged, ..example }.costs()?;
        let of = |what: &str| format!("Figure 2.8, {:.2} million merged: {what}", merged / 1e6);
        section.recomputed(of("write amplification"), writes, 0.05, costs.write_amplification);
        section.recomputed(of("read amplification"), reads, 0.0001, costs.read_amplification);
        section.recomputed(of("bytes of memory"), memory, 0.003, costs.memory_bytes);
    }
    let (uniform, skewed) = (
        Popularity::uniform(25_000_000)?,
        Popularity::zipf(25_000_000, 0.99)?,
    );
    let writes = |keys: &Popularity, stores: f64| write_amplification(keys, SLOTS, FULL, stores);
    section.stated("Algorithm 5, uniform keys", 5.4, 0.05, writes(&uniform, 62.0)?);
    section.stated("Algorithm 5, Zipf 0.99", 3.0, 0.05, writes(&skewed, 62.0)?);
    section.stated(
        "Algorithm 5, Zipf 0.99, 25 hash stores",
        5.4,
        0.08,
        writes(&skewed, 25.0)?,
    );
    let memory = |stores: f64| {
        let merged = stores * FULL * SLOTS;
        SiltModel { merged, ..example }
            .costs()
            .map(|costs| costs.memory_bytes)
    };
    section.stated(
        "bytes of memory with 25 hash stores (A12)",
        0.56,
        0.01,
        memory(25.0)?,
    );
    section.stated(
        "memory saved by them, in percent (A12)",
        26.0,
        2.0,
        100.0 * (1.0 - memory(25.0)? / memory(62.0)?),
    );
    Ok(section)
}
