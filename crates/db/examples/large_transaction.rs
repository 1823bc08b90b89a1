//! A transaction larger than the memory of its store.
//!
//! ```text
//! cargo run --release -p alluvium --example large_transaction -- 5000
//! ```
//!
//! The number says how many megabytes are written. It tells what the commit wrote, and how much
//! memory the process took at most.

use alluvium::{Options, Result};
use std::time::Instant;

const VALUE: usize = 1000;

/// Returns a field of a file of this process, such as `VmHWM` of `status`; 0 where there is none.
fn field(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    number.unwrap_or(0)
}

fn main() -> Result<()> {
    let megabytes: u64 = std::env::args()
        .nth(1)
        .and_then(|number| number.parse().ok())
        .unwrap_or(40);
    let directory = tempfile::tempdir().expect("a directory for temporary files");
    let db = Options::new()
        .memory(256 << 20)
        .open(directory.path().join("store"))?;
    let records = db.keyspace("records")?;
    let written = || field("io", "write_bytes:");
    let (before, began) = (written(), Instant::now());
    let mut transaction = db.begin();
    let count = megabytes * 1_000_000 / VALUE as u64;
    for number in 0..count {
        // Scattered keys: multiplied by an odd number.
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let value = [number as u8; VALUE - 8];
        transaction.put(&records, key, value)?;
    }
    let (poured, wrote) = (began.elapsed(), written());
    assert!(transaction.get(&records, 0u64.to_be_bytes())?.is_some());
    assert!(records.get(0u64.to_be_bytes())?.is_none(), "others see nothing");
    let commit = Instant::now();
    transaction.commit()?;
    println!(
        "{megabytes} MB in {:.1} s, committed in {:.2} s",
        poured.as_secs_f64(),
        commit.elapsed().as_secs_f64()
    );
    let total = written() - before;
    println!(
        "written: {:.3} bytes a byte, {:.2} % of it by the commit",
        total as f64 / (megabytes as f64 * 1e6),
        (written() - wrote) as f64 / (megabytes as f64 * 1e4)
    );
    println!("memory: {} MB at most", field("status", "VmHWM") / 1000);
    assert!(records.get(0u64.to_be_bytes())?.is_some());
    Ok(())
}
