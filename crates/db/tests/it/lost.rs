//! Reporting lost commits. A log is damaged before the store is opened on another machine, and
//! opening reports which commits are missing.

use alluvium::simulation::{DirectoryOpener as _, StoreScale};
use alluvium::{Durability, ErrorKind, Options, WriteBatch};
use alluvium_device::simulated::{Corruption, CrashSurvival, SimDirectory};
use alluvium_device::{BootId, Directory as _};
use std::sync::Arc;

fn options() -> Options {
    Options::new().simulated(StoreScale::small(52, 64 << 10, 768 << 10), || 1000)
}

#[test]
fn an_opening_and_a_check_tell_of_commits_that_are_gone_before_others() {
    let machine = SimDirectory::new(52);
    let db = options().open_in(Arc::new(machine.clone())).unwrap();
    let keyspace = db.keyspace("rivers").unwrap();
    for number in 0..400 {
        keyspace.put(format!("{number:03}"), [7; 60]).unwrap();
    }
    let last = db.sequence();
    let image = |boot| {
        let image = machine.image(CrashSurvival::All, 1);
        image.set_boot_id(boot);
        image
    };
    let other = BootId([9; 16]);
    let whole = options().open_existing_in(Arc::new(image(other))).unwrap();
    assert_eq!(whole.lost_commits(), None);
    assert_eq!(whole.check_report(|_| ()).unwrap().notes, [""; 0]);
    let mut told = 0;
    for name in machine.list().unwrap() {
        if !name.starts_with("log-") || name == "log-mark" {
            continue;
        }
        let damaged = image(other);
        if !damaged
            .corrupt(&name, &Corruption::Zero { range: 4096..8192 })
            .unwrap()
        {
            continue;
        }
        let db = options().open_existing_in(Arc::new(damaged)).unwrap();
        if db.sequence() == last {
            continue;
        }
        told += 1;
        let lost = db.lost_commits().expect("commits are gone");
        assert_eq!((lost.last, lost.written), (db.sequence(), Some(last)));
        let text = lost.to_string();
        assert!(text.contains(&name) && text.contains("power failure"), "{text}");
        let report = db.check_report(|_| ()).unwrap();
        assert!(
            report.is_whole() && report.to_string().contains(&text),
            "{report}"
        );
        assert_eq!(report.notes, [text]);
        let same = image(machine.boot_id());
        same.corrupt(&name, &Corruption::Zero { range: 4096..8192 })
            .unwrap();
        let refused = options().open_existing_in(Arc::new(same)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    }
    assert!(told > 0, "no damage hit a commit");
}

#[test]
fn a_durable_write_that_changes_nothing_keeps_what_came_before_it() {
    let machine = SimDirectory::new(9);
    let options = || Options::new().memory(16 << 20).durability(Durability::Memory);
    let db = options().open_in(Arc::new(machine.reopen())).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    db.sync().unwrap();
    keyspace.put("before", "it").unwrap();
    // The range ends before it begins, so the delete has no effect.
    let mut batch = WriteBatch::new().durability(Durability::Disk);
    batch.delete_range(&keyspace, "z", Some(&b"a"[..])).unwrap();
    db.write(&batch).unwrap();
    let survivor = machine.image(CrashSurvival::None, 1);
    let db = options().open_in(Arc::new(survivor)).unwrap();
    let keyspace = db.existing_keyspace("k").unwrap();
    assert_eq!(keyspace.get("before").unwrap().unwrap(), b"it");
}
