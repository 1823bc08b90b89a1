//! T2 to T5: what the theorems of chapter 2 say of its hash tables. The chapter has no experiment.

use crate::lab::entry::{Axis, Experiment, Form, Measure, Published, Value, Work, named};

const OPERATIONS: Axis = Axis {
    name: "operation",
    form: Form::Names,
};

const SETTING: &str = "A bound, not a measurement: N items, M of them in memory, blocks of B, growth factor λ; D is how often the key was inserted or deleted.";

const DIFFERS: &[&str] = &[
    "The document proves bounds and measures nothing. The experiment that will stand here counts I/Os for growing N and fits them to the bound.",
];

const UNIT: &str = "I/Os for an operation";

pub(super) const T2: Experiment = Experiment {
    id: "seed-0/T2",
    title: "I/Os of a BOA, the bundle of arrays",
    shows: "A bundle of arrays with routing filters meets the optimal trade-off between insertions and queries in external memory.",
    section: "§2.3 and §2.4",
    figure: "Theorem 2",
    setting: SETTING,
    differs: DIFFERS,
    measures: &[Measure {
        name: "I/Os",
        unit: UNIT,
        axis: OPERATIONS,
        published: &[Published {
            name: "BOA",
            section: "§2.1",
            points: &[
                named("insert", Value::Said("O((λ + log_{M/B} N + log_λ N) / B)")),
                named("query", Value::Said("O(D log_λ N)")),
            ],
        }],
        note: "",
        ours: |_| Vec::new(),
    }],
    work: Work::Waits("the BOA hash table with its refined routing filters (§2.4)"),
};

pub(super) const T3: Experiment = Experiment {
    id: "seed-0/T3",
    title: "I/Os of a BOT, the bundle of trees",
    shows: "A bundle of trees over one log, which never moves a record, is optimal over a larger range of growth factors.",
    section: "§2.5",
    figure: "Theorem 3",
    setting: SETTING,
    differs: DIFFERS,
    measures: &[Measure {
        name: "I/Os",
        unit: UNIT,
        axis: OPERATIONS,
        published: &[Published {
            name: "BOT",
            section: "§2.1",
            points: &[
                named("insert", Value::Said("O((λ + log_{M/B} N + log log M) / B)")),
                named("query", Value::Said("O(D log_λ N)")),
            ],
        }],
        note: "",
        ours: |_| Vec::new(),
    }],
    work: Work::Waits("the BOT hash table with its routing trees and character queues (§2.5)"),
};

pub(super) const T4: Experiment = Experiment {
    id: "seed-0/T4",
    title: "Reads and writes of an asymmetric BOT",
    shows: "Where writes are dearer than reads, a BOT can trade some of its writes for reads.",
    section: "§2.7",
    figure: "Theorem 4",
    setting: SETTING,
    differs: DIFFERS,
    measures: &[Measure {
        name: "I/Os",
        unit: UNIT,
        axis: OPERATIONS,
        published: &[Published {
            name: "β-asymmetric BOT",
            section: "§2.1",
            points: &[
                named("insert, writes", Value::Said("O((λ + (1/β) log_λ N) / B)")),
                named("insert, reads", Value::Said("O((λ + β) / B)")),
                named("query, reads", Value::Said("O(D log_λ N)")),
            ],
        }],
        note: "The bound of reads leaves out a term of its own proof: (1/β) log_λ N.",
        ours: |_| Vec::new(),
    }],
    work: Work::Waits("the β-asymmetric BOT hash table (§2.7)"),
};

pub(super) const T5: Experiment = Experiment {
    id: "seed-0/T5",
    title: "I/Os of a cache-oblivious BOT",
    shows: "A hash table that knows neither the size of blocks nor that of memory meets the bounds of the BOT.",
    section: "§2.6",
    figure: "Theorem 5",
    setting: SETTING,
    differs: DIFFERS,
    measures: &[Measure {
        name: "I/Os",
        unit: UNIT,
        axis: OPERATIONS,
        published: &[Published {
            name: "COBOT",
            section: "§2.6",
            points: &[
                named("insert", Value::Said("O((λ + log_{M/B} N + log log M) / B)")),
                named("query", Value::Said("O(D log_λ N)")),
            ],
        }],
        note: "",
        ours: |_| Vec::new(),
    }],
    work: Work::Waits("the cache-oblivious BOT hash table (COBOT, §2.6)"),
};
