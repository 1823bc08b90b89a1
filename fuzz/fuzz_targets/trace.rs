//! Recorded traces: no input panics, and a decoded trace has the number of operations that its
//! header states.

#![no_main]

use alluvium_bench::workload::trace::{PARTS, TracePart, summarise};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(summary) = summarise(input) else { return };
    assert!(summary.parts.len() as u64 <= PARTS);
    let operations = summary.head.operations;
    let counted: u64 = summary.parts.iter().map(TracePart::total).sum();
    // A read before a write counts as two operations.
    assert!((operations..=2 * operations).contains(&counted));
    assert!(summary.samples <= operations);
});
