//! Measures batched puts, a scan and single gets in Rust, as `bindings/measure` does in other
//! languages: measure PATH RECORDS.

#![allow(clippy::disallowed_methods)]

use alluvium::{Options, WriteBatch};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Records in a batch.
const BATCH: u64 = 1000;

/// Returns the time that this thread has had a processor.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    Duration::from_nanos(
        text.split(' ')
            .next()
            .and_then(|text| text.parse().ok())
            .expect("a number"),
    )
}

/// The beginning of a measurement.
struct Stopwatch(Instant, Duration);

impl Stopwatch {
    fn start() -> Stopwatch {
        Stopwatch(Instant::now(), processor_time())
    }

    /// Prints how many records a second were handled, by the clock and by processor time.
    fn stop(&self, what: &str, records: u64) {
        let rate = |time: Duration| records as f64 / time.as_secs_f64();
        let (wall, processor) = (rate(self.0.elapsed()), rate(processor_time() - self.1));
        println!("rust {what} {wall:.0} {processor:.0}");
    }
}

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

    let watch = Stopwatch::start();
    let mut batch = WriteBatch::new();
    for (number, key) in keys.iter().enumerate() {
        batch.put(&keyspace, key, value)?;
        if (number as u64 + 1).is_multiple_of(BATCH) {
            db.write(&batch)?;
            batch.clear();
        }
    }
    db.write(&batch)?;
    watch.stop("puts", records);
    db.checkpoint()?;

    let watch = Stopwatch::start();
    let (mut scanned, mut iter) = (0, keyspace.iter());
    while let Some((key, value)) = iter.lend()? {
        black_box((key, value));
        scanned += 1;
    }
    assert_eq!(scanned, records);
    watch.stop("scan", records);

    // The first pass fills the caches.
    for pass in ["first-gets", "gets"] {
        let watch = Stopwatch::start();
        for key in keys.iter().rev() {
            assert_eq!(keyspace.get(key)?.map(|value| value.len()), Some(100));
        }
        watch.stop(pass, records);
    }
    db.close()
}
