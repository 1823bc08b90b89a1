//! Reading a store without write access: as a user who may not write, and on a read-only mount.

use crate::{Place, Said, as_other_user};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Creates a store that is not closed cleanly, and returns the expected output of a scan.
fn store(place: &Place) -> String {
    let db = alluvium::Options::new()
        .memory(32 << 20)
        .open(place.path("open"))
        .unwrap();
    let keyspace = db.keyspace("default").unwrap();
    let mut wanted = String::new();
    for number in 0..3000 {
        keyspace.put(format!("{number:05}"), number.to_string()).unwrap();
        wanted.push_str(&format!("{number:05}\t{number}\n"));
        if number == 2000 {
            db.checkpoint().unwrap();
        }
    }
    db.sync().unwrap();
    fs::create_dir(place.path("store")).unwrap();
    for entry in fs::read_dir(place.path("open")).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, place.path("store").join(from.file_name().unwrap())).unwrap();
    }
    db.close().unwrap();
    wanted
}

/// Asserts that every read-only subcommand succeeds and reports once that the store is opened for
/// reading only, and that subcommands that write fail.
fn reads(run: &dyn Fn(&[&str]) -> Said, wanted: &str, why: &str) {
    let noted = |arguments: &[&str]| {
        let said = run(arguments).ended(0);
        assert_eq!(
            said.err.matches("is opened for reading only").count(),
            1,
            "{said:?}"
        );
        said.complained(why)
    };
    assert!(noted(&["scan"]).text() == wanted, "the scan differs");
    assert_eq!(noted(&["get", "02999"]).text(), "2999");
    assert!(noted(&["keyspaces"]).text().starts_with("default\t"));
    assert!(noted(&["stats", "--json"]).json()["store"]["last_commit"].is_number());
    noted(&["inspect"]);
    noted(&["check"]).complained("the store is whole");
    assert_eq!(noted(&["export", "-", "-f", "csv"]).text().lines().count(), 3001);
    run(&["put", "a", "1"]).ended(3);
    run(&["delete", "00001"]).ended(3);
}

#[test]
fn a_user_who_may_only_read_reads() {
    let place = Place::new();
    let wanted = store(&place);
    let root = place.path("");
    set_mode(&root, 0o755);
    for entry in fs::read_dir(place.path("store")).unwrap() {
        set_mode(&entry.unwrap().path(), 0o444);
    }
    set_mode(&place.path("store"), 0o555);
    if as_other_user(&place.command(["check"])).is_none() {
        return;
    }
    let run = |arguments: &[&str]| -> Said {
        let mut command = as_other_user(&place.command(arguments)).expect("it could before");
        command
            .env("ALLUVIUM_DB", place.path("store"))
            .stdin(Stdio::null());
        command.output().expect("the binary runs").into()
    };
    reads(&run, &wanted, "are not writable");
    set_mode(&place.path("store"), 0o755);
    for entry in fs::read_dir(place.path("store")).unwrap() {
        set_mode(&entry.unwrap().path(), 0o644);
    }
    // A store that another process has open for writing is refused.
    let _db = alluvium::Db::open(place.path("store")).unwrap();
    run(&["get", "00001"]).ended(6);
}

/// Runs the binary on the store in a private mount namespace, in which a script has first mounted
/// something.
fn mounted(place: &Place, script: &str, store: &Path, arguments: &[&str]) -> Said {
    let command = place.command(arguments);
    let mut inside = Command::new("unshare");
    inside
        .args(["--mount", "sh", "-c", script])
        .arg(store)
        .arg(command.get_program())
        .args(command.get_args())
        .env("ALLUVIUM_DB", store)
        .env("SOURCE", place.path("store"))
        .env("MOUNT", place.path("mount"))
        .stdin(Stdio::null());
    inside.output().map_or_else(
        |error| Said {
            code: None,
            out: Vec::new(),
            err: error.to_string(),
        },
        Said::from,
    )
}

#[test]
fn a_store_on_a_full_disk_is_read() {
    let place = Place::new();
    let wanted = store(&place);
    fs::create_dir(place.path("mount")).unwrap();
    let script = "mount -t tmpfs -o size=64m none \"$MOUNT\" && cp -R \"$SOURCE\" \"$0\" && \
        { head -c 100000000 /dev/zero >\"$MOUNT/rest\" 2>&1 || true; } && exec \"$@\"";
    let run = |arguments: &[&str]| mounted(&place, script, &place.path("mount/store"), arguments);
    if run(&["--version"]).code != Some(0) {
        alluvium_device::skipped!("mounts", "only root mounts, and not in every container");
        return;
    }
    assert!(run(&["scan"]).ended(0).text() == wanted, "the scan differs");
    assert_eq!(run(&["get", "02999"]).ended(0).text(), "2999");
    run(&["check"]).ended(0).complained("the store is whole");
    let exported = run(&["export", "-", "-f", "csv"]).ended(0);
    assert_eq!(exported.text().lines().count(), 3001);
}

#[test]
fn a_store_on_a_mount_for_reading_only_is_read() {
    let place = Place::new();
    let wanted = store(&place);
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
    let mounted = |arguments: &[&str]| mounted(&place, script, &place.path("store"), arguments);
    if mounted(&["--version"]).code != Some(0) {
        alluvium_device::skipped!("mounts", "only root mounts, and not in every container");
        return;
    }
    reads(&mounted, &wanted, "mounted read-only");
}
