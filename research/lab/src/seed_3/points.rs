//! S4: lookups in levels that are merged, and in levels that are not.

use super::harness::{KEY, LEVELS, Shape, Store, key, line, per_second};
use crate::entry::{Axis, Experiment, Form, Measure, Published, Value, Work, named};
use crate::measured::{Measured, name};
use alluvium::LevelsOptions;
use anyhow::Result;

const LOOKUPS: &str = "lookups";
const MERGED: &str = "merged";
const NEVER: &str = "not merged";
const STITCHED: &str = "merged, f = 0";
const VALUE: usize = 3800;
/// Lookups for each of the records, at most.
const MOST_LOOKUPS: u64 = 100_000;
/// Memtables of the document's 10 GB.
const EVICTIONS: u64 = 1280;

pub(super) const S4: Experiment = Experiment {
    id: "seed-3/S4",
    title: "Lookups in many runs and in few",
    shows: "With filters and few runs a lookup is one read of the device, and with a thousand runs filters themselves take the time.",
    section: "§6.3.2",
    figure: "in the text",
    setting: "GTSSLv2 with 10 GB in pairs of 4 KiB on an Intel X-25M, after 1,280 evictions.",
    differs: &[LEVELS],
    measures: &[Measure {
        name: "lookups of keys that are there",
        unit: "a second",
        axis: Axis {
            name: "levels",
            form: Form::Names,
        },
        published: &[Published {
            name: "VT-tree",
            section: "§6.3.2",
            points: &[
                named(MERGED, Value::Between(3900.0, 4000.0)),
                named(NEVER, Value::Is(1400.0)),
            ],
        }],
        note: "The document's device does 3,000 random reads a second; ours is another, so the quotient of the two says more.",
        ours: |measured| measured.under(LOOKUPS),
    }],
    work: Work::Here {
        quick: 20_000,
        full: 2_611_200,
        most: 1 << 24,
        measure,
    },
};

fn measure(records: u64) -> Result<Measured> {
    let shape = Shape::of((records / EVICTIONS).max(16), VALUE);
    let mut order: Vec<u64> = (0..records).collect();
    fastrand::Rng::with_seed(4).shuffle(&mut order);
    let mut random = fastrand::Rng::with_seed(5);
    let asked: Vec<[u8; KEY]> = (0..records.min(MOST_LOOKUPS))
        .map(|_| key(random.u64(..records), 0))
        .collect();
    let mut points = Vec::new();
    for (place, levels) in [
        (MERGED, LevelsOptions::samt(4)),
        (STITCHED, LevelsOptions::samt(4).stitch(0)),
        (NEVER, LevelsOptions::never()),
    ] {
        let store = Store::new(shape, &levels)?;
        store.load(order.iter().map(|&number| key(number, 0)))?;
        let took = store.reopen()?.look(&asked)?;
        points.push((name(place), per_second(asked.len() as u64, took)));
    }
    Ok(Measured {
        counts: vec![line(LOOKUPS, "Alluvium", points)],
        ..Measured::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_found_in_each_kind_of_levels() {
        let measured = measure(400).unwrap();
        assert_eq!(measured.under(LOOKUPS)[0].points.len(), 3);
    }
}
