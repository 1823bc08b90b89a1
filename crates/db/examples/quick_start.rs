//! First steps with a store: `cargo run --example quick_start -p alluvium`.

use alluvium::{Db, WriteBatch};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    // A store is a directory. It is created if it does not exist.
    let db = Db::open(place.path().join("rivers"))?;
    let rivers = db.keyspace("rivers")?;

    rivers.put("Elbe", "1094 km")?;
    rivers.put("Oder", "840 km")?;
    println!(
        "The Elbe is {} long.",
        rivers.get("Elbe")?.expect("it was just put").escape_ascii()
    );

    // A batch is atomic.
    let mut batch = WriteBatch::new();
    batch.put(&rivers, "Rhine", "1233 km")?.delete(&rivers, "Oder")?;
    db.write(&batch)?;

    // A snapshot does not see later writes.
    let before = db.snapshot();
    rivers.put("Danube", "2850 km")?;
    assert_eq!(before.get(&rivers, "Danube")?, None);

    for pair in rivers.iter() {
        let (name, length) = pair?;
        println!("{}: {}", name.escape_ascii(), length.escape_ascii());
    }
    // Dropping the last handle also closes the store, but only `close` reports errors.
    drop((rivers, before));
    db.close()?;
    Ok(())
}
