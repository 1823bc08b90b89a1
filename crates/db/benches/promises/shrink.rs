//! Disk space of a store after nine tenths of its data were deleted.

use super::{Sizes, disk_bytes, key, mib, value};
use alluvium::Options;
use std::time::{Duration, Instant};

pub(super) fn run(sizes: &Sizes) {
    for (name, in_order) in [
        ("nine of ten keys anywhere", false),
        ("nine tenths of the range", true),
    ] {
        let place = sizes.place();
        let store = place.path().join("store");
        let db = Options::new().memory(sizes.memory).open(&store).unwrap();
        let keyspace = db.keyspace("main").unwrap();
        let records = sizes.bytes / 5 / 124;
        let body = value(7, 100);
        for number in 0..records {
            keyspace.put(key(number), &body).unwrap();
        }
        db.sync().unwrap();
        let before = disk_bytes(&store);
        let began = Instant::now();
        if in_order {
            let start = "user".to_owned().into_bytes();
            let end = [&b"user"[..], &(u64::MAX / 10 * 9).to_be_bytes()].concat();
            keyspace.delete_range(start, Some(&end)).unwrap();
        } else {
            for number in (0..records).filter(|number| number % 10 != 0) {
                keyspace.delete(key(number)).unwrap();
            }
        }
        let live = records / 10 * 124;
        println!(
            "{name} of {records}: {:.0} MiB before, deleted in {:.1} s, {:.0} MiB live",
            mib(before),
            began.elapsed().as_secs_f64(),
            mib(live)
        );
        let deleted = Instant::now();
        for after in [0, sizes.patience / 6, sizes.patience / 2, sizes.patience] {
            std::thread::sleep(Duration::from_secs(after).saturating_sub(deleted.elapsed()));
            let now = disk_bytes(&store);
            let (log, space) = (db.stats().log.disk_bytes, db.stats().space);
            println!(
                "  after {after:>2} s: {:.0} MiB, {:.2} x live: {:.1} in use, {:.1} in their extents, {:.1} dead, {:.1} kept free, {:.1} of log",
                mib(now),
                now as f64 / live as f64,
                mib(space.live_bytes),
                mib(space.live_extent_bytes),
                mib(space.dead_bytes),
                mib(space.backed_bytes),
                mib(log),
            );
        }
    }
}
