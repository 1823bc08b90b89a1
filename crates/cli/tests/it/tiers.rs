//! A store over two directories, as it is typed.

use crate::{Place, Said, binary};

/// The binary on the store `fast`, with another directory if one is given.
fn on(place: &Place, tier: Option<&str>, arguments: &[&str]) -> Said {
    let mut command = binary();
    command.arg("--db").arg(place.path("fast"));
    if let Some(tier) = tier {
        command.args(["--tier", tier]);
    }
    command.args(arguments);
    command.output().expect("the binary runs").into()
}

#[test]
fn a_second_directory_is_remembered_shown_moved_and_copied() {
    let place = Place::new();
    let large = place.path("large");
    let large = large.to_str().unwrap();
    on(
        &place,
        Some(&format!("{large},bytes=1G")),
        &["put", "Elbe", "1094 km"],
    )
    .ended(0);
    let found = on(&place, None, &["get", "Elbe"]).ended(0).text();
    assert_eq!(found.trim_end(), "1094 km");
    let said = on(&place, None, &["stats"]).ended(0).text();
    assert!(said.contains("tier 0") && said.contains("tier 1"), "{said}");
    assert!(said.contains(large) && said.contains("capacity bytes"), "{said}");

    let copy = place.path("copy");
    on(&place, None, &["backup", copy.to_str().unwrap()]).ended(0);
    assert!(place.path("copy.tier-1").is_dir());

    let moved = place.path("moved");
    std::fs::rename(large, &moved).unwrap();
    on(&place, None, &["get", "Elbe"])
        .ended(3)
        .complained(large)
        .complained("--tier");
    let found = on(&place, moved.to_str(), &["get", "Elbe"]).ended(0).text();
    assert_eq!(found.trim_end(), "1094 km");
    let within = place.path("fast/within");
    on(&place, within.to_str(), &["get", "Elbe"])
        .ended(3)
        .complained("each tier has a directory to itself");
    assert!(!within.exists(), "nothing is made for what is refused");
}
