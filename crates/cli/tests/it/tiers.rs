//! A store on two directories, from the command line.

use crate::serve::Served;
use crate::{Place, Said, binary};

/// Runs the binary on the store `fast`, with a second directory if one is given.
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
    let (to, apart) = (place.path("to"), place.path("apart"));
    let [to, apart] = [&to, &apart].map(|path| path.to_str().unwrap());
    let refused = ["backup", to, "--to-tier", apart, "--to-tier", large];
    on(&place, None, &refused)
        .ended(3)
        .complained("give one for each");
    assert!(!place.path("to").exists(), "nothing is made for what is refused");
    on(&place, None, &["backup", to, "--to-tier", apart]).ended(0);
    assert!(place.path("apart/tier-1.data").is_file());
    let found = binary().args(["--db", to, "get", "Elbe"]).output().unwrap();
    assert_eq!(Said::from(found).ended(0).text().trim_end(), "1094 km");

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
        .complained("give each tier a directory of its own");
    assert!(!within.exists(), "nothing is made for what is refused");
}

#[test]
fn a_tier_is_added_drained_and_used_again() {
    let place = Place::new();
    let (large, other) = (place.path("large"), place.path("other"));
    let (large, other) = (large.to_str().unwrap(), other.to_str().unwrap());
    on(&place, None, &["put", "Elbe", "1094 km"]).ended(0);
    let listed = || on(&place, None, &["tiers"]).ended(0).text();
    assert_eq!(listed().lines().count(), 1);
    on(&place, None, &["tiers", "add", &format!("{large},bytes=1G")]).ended(0);
    let lines = listed();
    assert_eq!(lines.lines().count(), 2);
    let second = lines.lines().nth(1).unwrap();
    assert!(second.contains(large) && second.contains("takes data"), "{lines}");
    on(&place, None, &["tiers", "add", large])
        .ended(3)
        .complained("the same directory");
    on(&place, None, &["tiers", "drain", other])
        .ended(3)
        .complained("not a tier of the store");
    on(&place, None, &["tiers", "drain", large]).ended(0);
    assert!(listed().contains("takes nothing"), "{}", listed());
    on(&place, None, &["tiers", "use", large]).ended(0);
    assert!(!listed().contains("takes nothing"), "{}", listed());
    let json = on(&place, None, &["tiers", "list", "--json"]).ended(0).text();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[1]["directory"], large);
    assert_eq!(json[1]["takes_data"], true);
    // More directories than the store has are refused, with advice.
    on(&place, Some(other), &["--tier", large, "get", "Elbe"])
        .ended(3)
        .complained("alluvium tiers add");
}

#[test]
fn a_server_whose_second_directory_is_gone_is_asked_all_the_same() {
    let place = Place::new();
    let (large, away) = (place.path("large"), place.path("away"));
    let named = large.to_str().unwrap();
    place.run(["--tier", named, "put", "Elbe", "1094 km"]).ended(0);
    let served = Served::new(&place, &[]);
    std::fs::rename(&large, &away).unwrap();
    let listed = place.run(["tiers"]).ended(0).text();
    assert!(listed.contains(named), "{listed}");
    assert_eq!(place.run(["get", "Elbe"]).ended(0).text().trim_end(), "1094 km");
    place.run(["put", "Oder", "854 km"]).ended(0);
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
    // Without a server, the missing directory is an error.
    place.run(["get", "Elbe"]).ended(3).complained(named);
    std::fs::rename(&away, &large).unwrap();
    assert_eq!(place.run(["get", "Oder"]).ended(0).text().trim_end(), "854 km");
}

#[test]
fn a_drawing_says_which_runs_lie_on_which_tier() {
    let place = Place::new();
    let large = place.path("large");
    let large = large.to_str().unwrap();
    on(&place, Some(large), &["put", "Elbe", "1094 km"]).ended(0);
    on(&place, None, &["compact"]).ended(0);
    let drawing = on(&place, None, &["inspect"]).ended(0).text();
    for text in ["tier 0 in", "tier 1 in", large, "takes data", "of the tree"] {
        assert!(drawing.contains(text), "{text}: {drawing}");
    }
    let outline = on(&place, None, &["inspect", "--json"]).ended(0).json();
    let tiers = outline["tiers"].as_array().expect("two tiers");
    assert_eq!(tiers.len(), 2);
    assert_eq!(
        (&tiers[1]["tier"], &tiers[1]["state"]),
        (&1.into(), &"takes data".into())
    );
    let runs: u64 = tiers.iter().map(|tier| tier["run_count"].as_u64().unwrap()).sum();
    assert!(runs > 0, "{outline}");
    let run = &tiers[0]["runs"][0];
    assert!(run["group"].is_u64() && run["bytes"].is_u64(), "{outline}");
}
