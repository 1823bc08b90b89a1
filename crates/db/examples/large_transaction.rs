//! Writes a transaction larger than the memory of its store.
//!
//! ```text
//! cargo run --release -p alluvium --example large_transaction -- 5000
//! ```
//!
//! The argument is the number of megabytes to write. The example prints how many bytes the commit
//! wrote and how much memory the store uses.

use alluvium::{Db, Options, Result};
use std::time::Instant;

const VALUE: usize = 1000;

/// Returns the bytes that the store has written to its files.
fn written(db: &Db) -> u64 {
    db.stats().device.total().written_bytes
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
    let (before, began) = (written(&db), Instant::now());
    let transaction = db.begin();
    let count = megabytes * 1_000_000 / VALUE as u64;
    for number in 0..count {
        // Scatter the keys by multiplying with an odd number.
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let value = [number as u8; VALUE - 8];
        transaction.put(&records, key, value)?;
    }
    let (poured, wrote) = (began.elapsed(), written(&db));
    assert!(transaction.get(&records, 0u64.to_be_bytes())?.is_some());
    assert!(records.get(0u64.to_be_bytes())?.is_none(), "others see nothing");
    let commit = Instant::now();
    transaction.commit()?;
    println!(
        "{megabytes} MB in {:.1} s, committed in {:.2} s",
        poured.as_secs_f64(),
        commit.elapsed().as_secs_f64()
    );
    let total = written(&db) - before;
    println!(
        "written: {:.3} bytes a byte, {:.2} % of it by the commit",
        total as f64 / (megabytes as f64 * 1e6),
        (written(&db) - wrote) as f64 / (megabytes as f64 * 1e4)
    );
    println!("memory: {} MB in use", db.stats().memory.total() / 1_000_000);
    assert!(records.get(0u64.to_be_bytes())?.is_some());
    Ok(())
}
