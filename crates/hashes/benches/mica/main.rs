//! Tables in memory: `cargo bench -p alluvium-hashes --bench mica -- [quick]
//! [exclusive|shared|ratios] [tiny|small|large]`.
//!
//! Two threads, two partitions. Requests are drawn before the measurement: the key's number, its
//! hash and the operation. Figures are operations per second of wall time, and the threads'
//! processor time per operation, which varies less on a busy machine.

mod exclusive;
mod load;
mod ratios;
mod shared;
#[path = "../../tests/it/zipf.rs"]
mod zipf;

use load::{DATASETS, Dataset, FULL, QUICK, TINY};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asks = |name: &str| arguments.iter().any(|argument| argument == name);
    let scale = match (asks("--bench"), asks("quick")) {
        (false, _) => TINY,
        (true, true) => QUICK,
        (true, false) => FULL,
    };
    // Names of another kind do not restrict the choice.
    let chooses = |name: &str, others: &[&str]| {
        let named = |name: &&str| asks(name);
        named(&name) || !others.iter().any(named)
    };
    let parts = ["exclusive", "shared", "ratios"];
    let names = DATASETS.map(|dataset: Dataset| dataset.name);
    for dataset in DATASETS
        .into_iter()
        .filter(|dataset| chooses(dataset.name, &names))
    {
        if chooses("exclusive", &parts) {
            exclusive::run(&scale, dataset);
        }
        if chooses("shared", &parts) {
            shared::run(&scale, dataset);
        }
    }
    if chooses("ratios", &parts) {
        ratios::run(&scale);
    }
}
