//! Backs up a store that is in use, and restores a store from the backup.
//!
//! `cargo run --example backup -p alluvium`

use alluvium::{Db, Progress, ProgressStage, Result};

fn report(progress: Progress) {
    let what = match progress.stage {
        ProgressStage::Copying => "copied",
        _ => "checked",
    };
    println!("{what} {:3.0} %", 100.0 * progress.fraction());
}

fn main() -> Result<()> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let path = |name| place.path().join(name);
    let (store, backup, restored) = (path("store"), path("backup"), path("restored"));

    let db = Db::open(&store)?;
    let rivers = db.keyspace("rivers")?;
    rivers.put("Elbe", "1094 km")?;

    // Writes may continue during the backup. The copy contains every commit acknowledged before the
    // call.
    let at = db.checkpoint_to_with(&backup, report)?;
    println!("the backup holds every commit up to number {at}");

    rivers.delete("Elbe")?;
    db.close()?;

    // The backup is an ordinary store. Restoring copies it and reads all of it once, so any damage
    // is detected now.
    alluvium::Options::new().restore(&backup, &restored, report)?;
    let db = Db::open(&restored)?;
    let value = db
        .keyspace("rivers")?
        .get("Elbe")?
        .expect("it was there at the time");
    println!("Elbe: {}", String::from_utf8_lossy(&value));
    Ok(())
}
