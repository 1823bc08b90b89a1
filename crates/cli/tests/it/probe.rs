//! Device measurement: refused directories, stored results, and the settings derived from them.

use crate::{Place, as_other_user};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A probe with the shortest run time.
const QUICK: [&str; 5] = ["probe", "--seconds", "1", "--space", "16M"];

#[test]
fn a_store_s_device_is_measured_and_the_samples_are_kept_beside_it() {
    let place = Place::new();
    place.done(["put", "a", "1"]);
    let svg = place.path("costs.svg");
    let said = place.done(QUICK.iter().copied().chain(["--svg", svg.to_str().unwrap()]));
    let text = said.text();
    for words in [
        "reads",
        "setup",
        "natural sizes",
        "sync",
        "advice",
        "profile",
        "MiB/s by size",
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    assert!(said.err.contains("note: "), "a file of 16 MiB is short: {said:?}");
    assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg"));
    assert!(place.path("store/probe.txt").exists());
    let names = std::fs::read_dir(place.path("store")).unwrap();
    let names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names
            .iter()
            .all(|name| !name.contains("alluvium-probe") && !name.ends_with(".new")),
        "{names:?}"
    );
    // The store still works, and the stored measurement prints the same text again.
    assert_eq!(place.done(["get", "a"]).text(), "1");
    place.done(["check"]);
    let stored = place.done(["probe", "--stored", "--json"]).json();
    assert_eq!(stored["file_bytes"], 16 << 20);
    assert!(stored["reads"]["affine"].is_object() && stored["samples"].is_array());
    let again = place.done(["probe", "--stored"]).text();
    assert_eq!(again, text);
}

#[test]
fn another_directory_is_left_as_it_was_unless_it_is_told_to_keep_the_samples() {
    let place = Place::new();
    let other = place.path("other");
    std::fs::create_dir(&other).unwrap();
    let other = other.to_str().unwrap();
    place.done(QUICK.iter().copied().chain([other]));
    assert_eq!(std::fs::read_dir(other).unwrap().count(), 0);
    place
        .run(["probe", "--stored", other])
        .ended(1)
        .complained("has no probe.txt");
    place.done(QUICK.iter().copied().chain([other, "--store"]));
    // A store may be created in the directory.
    place.done(["--db", other, "put", "a", "1"]);
    std::fs::write(Path::new(other).join("probe.txt"), "alluvium probe 1\nbegan\n").unwrap();
    place
        .run(["probe", "--stored", other])
        .ended(5)
        .complained("measure again with `alluvium probe`");
    place
        .run(["--db", other, "--measured-device", "get", "a"])
        .ended(3)
        .complained("--measured-device: probe.txt has 23 bytes");
    place.done(["--db", other, "get", "a"]);
}

#[test]
fn places_that_cannot_be_measured_are_refused_in_words_of_the_command_line() {
    let place = Place::new();
    let missing = place.path("missing");
    let missing = missing.to_str().unwrap();
    place
        .run(["probe", missing])
        .ended(1)
        .complained("create it, or name another one as PATH or --db");
    let file = place.file("file", "");
    place
        .run(["probe", file.to_str().unwrap()])
        .ended(2)
        .complained("PATH and --db must name a directory");
    std::fs::create_dir(place.path("store")).unwrap();
    place
        .run(["probe", "--space", "1M"])
        .ended(2)
        .complained("--space 1.00 MiB: a probe needs at least 16.0 MiB");
    place
        .run(["probe", "--space", "4000T"])
        .ended(2)
        .complained("a probe may use half of it at most");
    place.run(["probe", "--seconds", "0"]).ended(2);
    place
        .run(["probe", "--stored", "--space", "1G"])
        .ended(2)
        .complained("cannot be used with");
    let store = place.path("store");
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o500)).unwrap();
    let command = place.command(["probe", store.to_str().unwrap()]);
    let Some(mut command) = as_other_user(&command) else {
        return;
    };
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(3) && said.contains("no permission"),
        "{said}"
    );
}
