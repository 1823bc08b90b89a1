//! Who may read what the binary makes, and who may speak to its server.

use crate::{Place, binary};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// All that lies in a directory, and the directory itself.
fn all_in(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            all.extend(all_in(&entry.unwrap().path()));
        }
    }
    all
}

#[test]
fn what_holds_data_is_its_owners_alone() {
    let place = Place::new();
    place.done(["put", "Elbe", "1094"]);
    let (store, backup) = (place.path("store"), place.path("backup"));
    let (rows, value) = (place.path("rows.csv"), place.path("value"));
    place.done(["backup", backup.to_str().unwrap()]);
    place.done(["export", rows.to_str().unwrap()]);
    place.done(["get", "Elbe", "-o", value.to_str().unwrap()]);
    let made = [&store, &backup, &rows, &value].map(|path| all_in(path)).concat();
    assert!(made.len() > 8, "{made:?}");
    for path in &made {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(path), expected, "{}", path.display());
    }
    // What exists keeps its mode.
    for (path, known) in [(&store, 0o755), (&value, 0o644)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(known)).unwrap();
    }
    place.done(["put", "Oder", "854"]);
    place.done(["get", "Oder", "-o", value.to_str().unwrap()]);
    assert_eq!((mode(&store), mode(&value)), (0o755, 0o644));
}

#[test]
fn a_stricter_mask_is_kept() {
    let place = Place::new();
    place.done(["put", "Elbe", "1094"]);
    let value = place.path("value");
    let get = binary();
    let said = std::process::Command::new("sh")
        .args(["-c", "umask 0277 && exec \"$0\" get Elbe -o \"$1\""])
        .args([get.get_program(), value.as_os_str()])
        .env("ALLUVIUM_DB", place.path("store"))
        .output()
        .unwrap();
    assert!(said.status.success(), "{said:?}");
    assert_eq!(mode(&value), 0o400);
}
