//! A2: the number of distinct keys in a sequence of requests.

use super::{Sheet, place, popularity};
use crate::entry::{Procedure, Work};
use crate::measured::Measured;
use anyhow::Result;

const UNIQUE: &str = "different keys";
const SKEWS: [(&str, f64); 3] = [("uniform", 0.0), ("Zipf 0.99", 0.99), ("Zipf 1.2", 1.2)];

pub(super) const A2: Procedure = Procedure {
    id: "seed-1/A2",
    ours: &[("different keys, of all keys", |measured| measured.under(UNIQUE))],
    work: Work::Here {
        quick: 100_000_000,
        full: 100_000_000,
        most: 10_000_000_000,
        measure,
    },
};

fn measure(keys: u64) -> Result<Measured> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = Sheet::default();
    for (name, skew) in SKEWS {
        let popularity = popularity(keys, skew)?;
        for share in [0.001, 0.01, 0.1, 1.0, 10.0] {
            let unique = popularity.unique(share * keys as f64)?;
            sheet.put(UNIQUE, name, place(share), unique / keys as f64);
        }
    }
    Ok(sheet.measured())
}
