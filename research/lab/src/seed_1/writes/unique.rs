//! A2: how many different keys requests have.

use super::{SETTING, Sheet, place, popularity};
use crate::entry::{Axis, Experiment, Form, Measure, Published, Value, Work, at};
use crate::measured::Measured;
use anyhow::Result;

const UNIQUE: &str = "different keys";
const SKEWS: [(&str, f64); 3] = [("uniform", 0.0), ("Zipf 0.99", 0.99), ("Zipf 1.2", 1.2)];

pub(super) const A2: Experiment = Experiment {
    id: "seed-1/A2",
    title: "Different keys among requests",
    shows: "Skewed requests name far fewer keys, so that merges drop more of what they read.",
    section: "§4.3.1",
    figure: "Figure 4.4",
    setting: SETTING,
    differs: &[
        "The document draws curves; the values beside ours follow from its formulas for 100 million keys.",
    ],
    measures: &[Measure {
        name: "different keys, of all keys",
        unit: "share",
        axis: Axis {
            name: "requests for each key",
            form: Form::Logarithmic,
        },
        published: &[
            Published {
                name: "uniform",
                section: "§4.3.1",
                points: &[
                    at(0.01, Value::Derived(0.009_95)),
                    at(1.0, Value::Derived(0.632)),
                    at(10.0, Value::Derived(1.0)),
                ],
            },
            Published {
                name: "Zipf 0.99",
                section: "§4.3.1",
                points: &[
                    at(0.01, Value::Derived(0.004_41)),
                    at(1.0, Value::Derived(0.189)),
                    at(10.0, Value::Derived(0.712)),
                ],
            },
            Published {
                name: "Zipf 1.2",
                section: "§4.3.1",
                points: &[
                    at(0.01, Value::Derived(0.001_12)),
                    at(1.0, Value::Derived(0.0398)),
                    at(10.0, Value::Derived(0.198)),
                ],
            },
        ],
        note: "",
        ours: |measured| measured.under(UNIQUE),
    }],
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
