//! Loads sorted records at the speed of the device: `cargo run --release --example bulk_load -p
//! alluvium [MEBIBYTES [DIRECTORY]]`.

use alluvium::Db;
use std::time::Instant;

/// Bytes of a value.
const VALUE: usize = 1 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mebibytes: u64 = arguments.next().map_or(Ok(64), |text| text.parse())?;
    let place = match arguments.next() {
        Some(directory) => tempfile::tempdir_in(directory)?,
        None => tempfile::tempdir()?,
    };
    let db = Db::open(place.path().join("store"))?;
    let readings = db.keyspace("readings")?;

    // Any iterator with ascending, distinct keys will do.
    let count = (mebibytes << 20) / VALUE as u64;
    let mut random = fastrand::Rng::with_seed(1);
    let mut value = [0; VALUE];
    random.fill(&mut value);
    let records = (0..count).map(|number| {
        value[..8].copy_from_slice(&number.to_le_bytes());
        (number.to_be_bytes(), value)
    });
    let begun = Instant::now();
    let loaded = readings.ingest(records)?;
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{loaded} records, {mebibytes} MiB in {seconds:.2} s: {:.0} MiB/s",
        mebibytes as f64 / seconds
    );

    // All records are visible now and survive a power loss.
    let some = readings.get((count / 2).to_be_bytes())?.expect("it was loaded");
    assert_eq!(some[..8], (count / 2).to_le_bytes());
    Ok(())
}
