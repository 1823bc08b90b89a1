//! Counters that are incremented without being read: `cargo run --release --example counter -p
//! alluvium`.

use alluvium::{Db, KeyspaceOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let db = Db::open(place.path().join("hits"))?;
    let hits = db.keyspace_with("hits", &KeyspaceOptions::new().merge_operator("add"))?;

    // Any number of threads may increment. Merges do not read, and no increment is lost.
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let hits = &hits;
            scope.spawn(move || {
                for visit in 0..100_000u64 {
                    let page = format!("/page/{}", (visit * 7 + thread) % 100);
                    hits.merge(page, 1i64.to_le_bytes())
                        .expect("the store takes writes");
                }
            });
        }
    });

    let mut total = 0;
    for pair in hits.prefix("/page/") {
        let (_, count) = pair?;
        total += i64::from_le_bytes(count[..].try_into()?);
    }
    println!("{total} visits of {} pages", hits.iter().count());
    assert_eq!(total, 400_000);
    Ok(())
}
