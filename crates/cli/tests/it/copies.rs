//! Copies of files in other stores: `files send`, `receive` and `promote`.

use crate::Place;
use crate::files::{RunningMount, need_mounts, sample, tree};
use std::fs;
use std::path::Path;

/// Makes a store with files, and returns it with a stream of its snapshot.
fn sent(place: &Place) -> String {
    let origin = place.path("origin");
    sample(&origin);
    place.done(["files", "import", origin.to_str().unwrap()]);
    place.done(["files", "snapshot", "create", "monday"]);
    let stream = place.path("monday.stream").to_str().unwrap().to_owned();
    place.done(["files", "send", "monday", &stream]);
    stream
}

#[test]
fn a_copy_follows_by_streams() {
    let (place, other) = (Place::new(), Place::new());
    let whole = sent(&place);
    let said = other.done(["files", "receive", &whole]);
    assert!(
        said.text().starts_with("received the snapshot monday, "),
        "{}",
        said.text()
    );
    let exported = |place: &Place, name: &str| {
        let target = place.path(name);
        place.done(["files", "export", "/", target.to_str().unwrap()]);
        tree(&target)
    };
    assert_eq!(exported(&other, "one"), exported(&place, "one"));

    place.fed(["files", "put", "-", "/a/short"], b"changed").ended(0);
    place.done(["files", "rm", "/a/b/long"]);
    place.done(["files", "snapshot", "create", "tuesday"]);
    let changes = place
        .command(["files", "send", "tuesday", "--since", "monday"])
        .output()
        .unwrap()
        .stdout;
    assert!(changes.len() < 3000, "{} bytes", changes.len());
    other
        .fed(["files", "receive"], &changes[..changes.len() - 1])
        .ended(5);
    other.fed(["files", "receive"], &changes).ended(0);
    assert_eq!(exported(&other, "two"), exported(&place, "two"));
    let again = other.fed(["files", "receive"], &changes).ended(0);
    assert_eq!(again.text(), "the copy has the snapshot tuesday already\n");
    other.done(["files", "check"]);

    let refused = other.fed(["files", "put", "-", "/x"], b"x");
    assert!(refused.err.contains("files promote"), "{}", refused.err);
    other.done(["files", "promote"]);
    other.fed(["files", "put", "-", "/x"], b"x").ended(0);
    // A failed command leaves no file.
    let missing = place.path("sunday.stream");
    let failed = place.run(["files", "send", "sunday", missing.to_str().unwrap()]);
    assert_ne!(failed.code, Some(0));
    let left = fs::read_dir(place.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert!(
        left.into_iter()
            .all(|name| !name.to_string_lossy().contains("sunday"))
    );
}

#[test]
fn a_mounted_copy_shows_what_a_stream_brings() {
    need_mounts!();
    let (place, other) = (Place::new(), Place::new());
    let whole = sent(&place);
    other.done(["files", "receive", &whole]);
    let mounted = RunningMount::new(&other, &[]);
    assert_eq!(fs::read(mounted.directory.join("a/short")).unwrap(), b"river");
    let error = fs::write(mounted.directory.join("a/short"), "x").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EROFS));

    place
        .fed(["files", "put", "-", "/a/short"], b"a longer river")
        .ended(0);
    place.done(["files", "snapshot", "create", "tuesday"]);
    let changes = place.path("changes").to_str().unwrap().to_owned();
    place.done(["files", "send", "tuesday", &changes, "--since", "monday"]);
    other.done(["files", "receive", &changes]);
    assert_eq!(
        fs::read(mounted.directory.join("a/short")).unwrap(),
        b"a longer river"
    );
    // The process that has the store open sends as well.
    let third = Place::new();
    let stream = other.path("again").to_str().unwrap().to_owned();
    other.done(["files", "send", "tuesday", &stream]);
    third.done(["files", "receive", &stream]);
    other.done(["files", "promote"]);
    fs::write(mounted.directory.join("a/short"), "mine").unwrap();
    mounted.end();
    let target = third.path("target");
    third.done(["files", "export", "/", target.to_str().unwrap()]);
    assert_eq!(fs::read(target.join("a/short")).unwrap(), b"a longer river");
}
