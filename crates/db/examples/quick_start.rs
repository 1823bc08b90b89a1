//! The first five minutes: `cargo run --example quick_start -p alluvium`.

use alluvium::{Db, WriteBatch};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    // A directory is a store; it is created if there is none.
    let db = Db::open(place.path().join("rivers"))?;
    let rivers = db.keyspace("rivers")?;

    rivers.put("Elbe", "1094 km")?;
    rivers.put("Oder", "840 km")?;
    println!(
        "The Elbe is {} long.",
        rivers.get("Elbe")?.expect("it was just put").escape_ascii()
    );

    // All of a batch, or nothing.
    let mut batch = WriteBatch::new();
    batch.put(&rivers, "Rhine", "1233 km")?.delete(&rivers, "Oder")?;
    db.write(&batch)?;

    // What a snapshot sees does not change.
    let before = db.snapshot();
    rivers.put("Danube", "2850 km")?;
    assert_eq!(before.get(&rivers, "Danube")?, None);

    for pair in rivers.iter() {
        let (name, length) = pair?;
        println!("{}: {}", name.escape_ascii(), length.escape_ascii());
    }
    // The last handle that is dropped closes the store, too; this one can say what went wrong.
    drop((rivers, before));
    db.close()?;
    Ok(())
}
