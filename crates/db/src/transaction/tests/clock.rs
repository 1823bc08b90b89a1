//! Tests of transactions with expiring values. The test controls the clock.

use super::driver::scale;
use crate::admin::simulation::DirectoryOpener as _;
use crate::options::Options;
use crate::transaction::Transaction;
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

#[test]
fn no_compaction_takes_away_what_has_expired_since_the_begin() {
    for in_range in [false, true] {
        let now = Arc::new(AtomicU64::new(1000));
        let clock = Arc::clone(&now);
        let options = Options::new()
            .memory(16 << 20)
            .simulated(scale(), move || clock.load(Relaxed));
        let db = options.open_in(Arc::new(MemoryDirectory::new())).unwrap();
        let seas = db.keyspace("seas").unwrap();
        let until = SystemTime::UNIX_EPOCH + Duration::from_millis(2000);
        seas.put_until("x", "1", until).unwrap();
        db.checkpoint().unwrap();
        let own = db.begin();
        now.store(3000, Relaxed);
        assert!(seas.get("x").unwrap().is_none());
        db.compact().unwrap();
        let seen = |own: &Transaction| match in_range {
            true => own.iter(&seas).count(),
            false => usize::from(own.contains(&seas, "x").unwrap()),
        };
        assert_eq!(seen(&own), 1, "it reads by the clock of its begin");
        drop(own);
        db.compact().unwrap();
        // If the clock is set back, the value stays expired.
        now.store(1000, Relaxed);
        assert_eq!(seen(&db.begin()), 0);
    }
}
