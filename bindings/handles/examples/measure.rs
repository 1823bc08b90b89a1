//! Measures batched puts, a scan and single gets in Rust, as `bindings/measure` does in other
//! languages: measure PATH RECORDS.

use alluvium::{Options, WriteBatch};
use std::hint::black_box;
use std::time::Instant;

/// Records in a batch.
const BATCH: u64 = 1000;

fn key(number: u64) -> String {
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn main() -> alluvium::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("a path");
    let records: u64 = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .expect("a number of records");
    let db = "--memory 256M".parse::<Options>()?.open(path)?;
    let keyspace = db.keyspace("k")?;
    let keys: Vec<String> = (0..records).map(key).collect();
    let value = [b'v'; 100];

    let began = Instant::now();
    let mut batch = WriteBatch::new();
    for (number, key) in keys.iter().enumerate() {
        batch.put(&keyspace, key, value)?;
        if (number as u64 + 1).is_multiple_of(BATCH) {
            db.write(&batch)?;
            batch.clear();
        }
    }
    db.write(&batch)?;
    let puts = began.elapsed();
    db.checkpoint()?;

    let began = Instant::now();
    let (mut scanned, mut iter) = (0, keyspace.iter());
    while let Some((key, value)) = iter.lend()? {
        black_box((key, value));
        scanned += 1;
    }
    assert_eq!(scanned, records);
    let scan = began.elapsed();

    let began = Instant::now();
    for key in keys.iter().rev() {
        assert_eq!(keyspace.get(key)?.map(|value| value.len()), Some(100));
    }
    let gets = began.elapsed();
    for (what, time) in [("puts", puts), ("scan", scan), ("gets", gets)] {
        println!("rust {what} {:.0}", records as f64 / time.as_secs_f64());
    }
    db.close()
}
