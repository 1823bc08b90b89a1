//! Stores measurements by sensor and time, and retains only recent ones: `cargo run --release
//! --example time_series -p alluvium`.

use alluvium::{Db, Keyspace};
use std::time::{Duration, SystemTime};

/// Returns a key that places the measurements of a sensor next to each other, ordered by time.
fn key(sensor: u32, second: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&sensor.to_be_bytes());
    key[4..].copy_from_slice(&second.to_be_bytes());
    key
}

fn mean(series: &Keyspace, sensor: u32, seconds: std::ops::Range<u64>) -> Result<f64, alluvium::Error> {
    let (mut sum, mut count) = (0.0, 0u32);
    for pair in series.range(key(sensor, seconds.start)..key(sensor, seconds.end)) {
        let (_, value) = pair?;
        sum += f64::from_le_bytes(value[..].try_into().expect("eight bytes were put"));
        count += 1;
    }
    Ok(sum / f64::from(count.max(1)))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let db = Db::open(place.path().join("series"))?;
    let series = db.keyspace("temperature")?;

    for second in 0..2_000u64 {
        for sensor in 0..50u32 {
            let value = 20.0 + f64::from(sensor) + (second as f64 / 300.0).sin();
            series.put(key(sensor, second), value.to_le_bytes())?;
        }
    }
    println!(
        "sensor 7, seconds 500 to 600: {:.2} degrees",
        mean(&series, 7, 500..600)?
    );
    let newest = series
        .prefix(7u32.to_be_bytes())
        .next_back()
        .expect("there are some")?;
    println!(
        "its newest: {:.2} degrees",
        f64::from_le_bytes(newest.1[..].try_into()?)
    );

    // Manual retention writes one small record per sensor, however many measurements it deletes.
    for sensor in 0..50 {
        series.delete_range(key(sensor, 0), Some(&key(sensor, 1_000)))?;
    }
    assert_eq!(series.iter().count(), 50 * 1_000);

    // With automatic retention, expired values disappear for readers immediately, and their space
    // is reclaimed.
    let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    series.put_until(key(99, 0), 1.5f64.to_le_bytes(), tomorrow)?;
    println!("{} measurements are kept", series.iter().count());
    Ok(())
}
