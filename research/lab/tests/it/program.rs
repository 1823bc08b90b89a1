//! The program: the register, tiny runs of every experiment with the real binary, the page, and
//! rejected arguments.

use crate::{Place, Said};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;

/// Runs `alluvium-lab run` with few records.
fn run(place: &Place, ids: &[&str], more: &[&str]) -> Said {
    let (data, results) = (place.path("lab data"), place.path("results"));
    let mut words = vec!["run"];
    words.extend(ids);
    words.extend(["--quick", "--warm", "50", "--run", "200"]);
    if !more.contains(&"--records") {
        words.extend(["--records", "2000"]);
    }
    words.extend(["--settle", "0s", "--no-cap"]);
    words.extend(["--directory", data.to_str().unwrap()]);
    words.extend(["--results", results.to_str().unwrap()]);
    words.extend(more);
    // The memory limit is the experiment's, not the one for the stores of these tests.
    let mut command = crate::binary();
    command.args(&words).stdin(std::process::Stdio::null());
    command.output().expect("the binary runs").into()
}

fn listed(place: &Place) -> Vec<serde_json::Value> {
    let results = place.path("results");
    let words = ["list", "--json", "--results", results.to_str().unwrap()];
    place.done(words).json().as_array().unwrap().clone()
}

/// Returns whether the experiment makes file systems, which needs root and loop devices.
fn makes_file_systems(id: &str) -> bool {
    ["seed-3/S6", "seed-3/S7"].contains(&id)
        || id.strip_prefix("seed-0/A").is_some_and(|number| number != "0")
}

/// Returns whether this process is root and may make loop devices, as in a container it may not.
fn can_make_file_systems() -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let control = std::fs::OpenOptions::new().write(true).open("/dev/loop-control");
    is_root && control.is_ok()
}

fn is_runnable(entry: &serde_json::Value) -> bool {
    entry["waits_for"].is_null()
}

#[test]
fn the_register_is_a_table_and_json() {
    let place = Place::new();
    let all = listed(&place);
    let table = place.done(["list"]).text();
    assert_eq!(table.lines().count(), all.len());
    let mut ids = BTreeSet::new();
    for entry in &all {
        let id = entry["id"].as_str().unwrap();
        assert!(ids.insert(id.to_owned()), "{id}");
        assert!(
            table.lines().any(|line| line.starts_with(&format!("{id}\t"))),
            "{id}"
        );
        for name in [
            "title", "shows", "author", "document", "section", "figure", "setting",
        ] {
            assert!(!entry[name].as_str().unwrap().is_empty(), "{name} of {id}");
        }
        assert!(!entry["measures"].as_array().unwrap().is_empty());
        assert!(!entry["differs"].as_array().unwrap().is_empty());
    }
    for number in 1..=9 {
        assert!(ids.contains(&format!("seed-0/S{number}")));
    }
    let speeds = all.iter().find(|entry| entry["id"] == "seed-0/S5").unwrap();
    let point = &speeds["measures"][0]["published"][0]["points"][0];
    assert_eq!((&point["at"], &point["low"]), (&0.0.into(), &349.0.into()));
}

#[test]
fn every_experiment_that_can_run_runs_and_has_its_place_in_the_page() {
    let place = Place::new();
    let results = place.path("results");
    let all = listed(&place);
    let of = |what: fn(&serde_json::Value) -> bool| -> Vec<&str> {
        let some = all.iter().filter(|entry| what(entry));
        some.map(|entry| entry["id"].as_str().unwrap()).collect()
    };
    let mut runnable = of(is_runnable);
    // A study of third-party systems needs these systems, and the program `alluvium-rivals`.
    // Experiments that make file systems have a test of their own.
    runnable.retain(|id| {
        let experiment = alluvium_lab::find(id).unwrap();
        !matches!(experiment.work, alluvium_lab::ExperimentMethod::Study(_)) && !makes_file_systems(id)
    });
    assert!(runnable.len() >= 10);
    let printed = run(&place, &runnable, &[]).ended(0).text();
    assert!(!place.path("lab data").exists(), "its files are gone");
    for id in &runnable {
        let file = results.join(format!("{}.quick.json", id.replace('/', "-")));
        let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!((&kept["id"], &kept["size"]), (&(*id).into(), &"quick".into()));
        assert!(kept["command"].as_str().unwrap().contains(id), "{kept}");
        assert_eq!(kept["failures"], serde_json::json!([]), "{id}");
        for figures in kept["figures"].as_array().unwrap() {
            let name = figures["measure"].as_str().unwrap();
            let lines = figures["lines"].as_array().unwrap();
            // A curve is fitted only if the measured times allow it.
            if name.contains("of the curve") {
                continue;
            }
            // Quotients need another engine. It is not measured here, so there must be no quotient.
            assert_eq!(
                lines.is_empty(),
                ["against RocksDB", "against LevelDB"]
                    .iter()
                    .any(|other| name.contains(other)),
                "{id}: {figures}"
            );
            // Counts and simulations have other line names.
            let is_engine = id.starts_with("seed-0/S");
            assert!(
                !is_engine || lines.iter().all(|line| line["name"] == "alluvium"),
                "{id}: {figures}"
            );
        }
        assert!(printed.contains("alluvium: "), "{printed}");
    }
    let page = place.path("page.html");
    let words = [
        "report",
        page.to_str().unwrap(),
        "--results",
        results.to_str().unwrap(),
    ];
    place.done(words);
    let html = std::fs::read_to_string(&page).unwrap();
    for entry in &all {
        let id = entry["id"].as_str().unwrap();
        let is_section = html.contains(&format!("<section id=\"{}\">", id.replace('/', "-")));
        assert_eq!(is_section, runnable.contains(&id), "{id}");
        assert!(html.contains(&format!("{id}: ")), "{id}");
    }
    assert!(html.contains("alluvium (ours)") && html.contains("--records 2000"));
    // The Lab may overwrite a page of its making. The default location is the results directory.
    place.done(words);
    place.done(["report", "--results", results.to_str().unwrap()]);
    assert!(results.join("report.html").is_file());
    assert!(listed(&place).iter().all(|entry| {
        let sizes = entry["results"].as_array().unwrap();
        sizes.len() == usize::from(runnable.contains(&entry["id"].as_str().unwrap()))
    }));
}

#[test]
fn experiments_on_file_systems_run_where_these_can_be_made() {
    let place = Place::new();
    let ids = ["seed-0/A1", "seed-0/A4", "seed-3/S6", "seed-3/S7"];
    let said = run(&place, &ids, &["--records", "100"]);
    if !can_make_file_systems() {
        // The reason is said, and nothing is kept.
        assert_ne!(said.code, Some(0), "{said:?}");
        let reasons = ["needs root", "no file system can be made here"];
        assert!(reasons.iter().any(|reason| said.err.contains(reason)), "{said:?}");
        assert!(!place.path("results/seed-0-A1.quick.json").exists());
        return;
    }
    said.ended(0);
    for (id, measures) in [
        ("seed-0-A1", 4),
        ("seed-0-A4", 1),
        ("seed-3-S6", 3),
        ("seed-3-S7", 4),
    ] {
        let file = place.path(&format!("results/{id}.quick.json"));
        let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let figures = kept["figures"].as_array().unwrap();
        assert_eq!(figures.len(), measures, "{kept}");
        let systems = figures[0]["lines"].as_array().unwrap();
        assert!(!systems.is_empty(), "{kept}");
        for line in systems {
            for point in line["points"].as_array().unwrap() {
                assert!(point["value"].as_f64().unwrap() > 0.0, "{kept}");
            }
        }
    }
    run(&place, &["seed-0/A5"], &[])
        .ended(3)
        .complained("aging run git --warm");
}

#[test]
fn ids_that_are_none_are_refused_and_nothing_is_made() {
    let place = Place::new();
    let long = "x".repeat(5000);
    for id in [
        "",
        "S1",
        "seed-0/S99",
        "../../etc/passwd",
        "seed-0/S1/../../x",
        "seed-0\\S1",
        "seed-0/S1\u{1b}[31m",
        &long,
    ] {
        let said = run(&place, &[id], &[]).ended(2).complained("ID \"");
        assert!(said.err.contains("alluvium-lab list"), "{said:?}");
        assert!(!said.err.contains('\u{1b}') && said.err.len() < 1000, "{said:?}");
    }
    assert!(!place.path("results").exists() && !place.path("lab data").exists());
}

#[test]
fn flags_that_make_no_sense_are_named() {
    let place = Place::new();
    for (id, words, complaint) in [
        ("seed-0/S5", &["--full"][..], "--full"),
        (
            "seed-0/S4",
            &["--memory", "128M"],
            "--memory is not for this experiment",
        ),
        ("seed-0/S5", &["--memory", "1M"], "--memory"),
        ("seed-0/S5", &["--engines", ""], "--engines"),
        ("seed-0/S5", &["--engines", "../../x"], "../../x"),
    ] {
        run(&place, &[id], words).ended(2).complained(complaint);
    }
    for (words, complaint) in [
        (&["--records", "0"][..], "--records 0"),
        (&["--records", "1000000G"], "--records"),
        (&["--run", "0s"], "--run 0"),
        (&["--settle", "100"], "--settle"),
    ] {
        let all = [&["run", "seed-0/S5"][..], words].concat();
        let said: Said = crate::binary().args(all).output().unwrap().into();
        said.ended(2).complained(complaint);
    }
    let said: Said = crate::binary()
        .args(["run", "seed-0/Q1", "--records", "1G"])
        .output()
        .unwrap()
        .into();
    said.ended(2).complained("takes 100000000 at most");
}

#[test]
fn files_of_others_are_left_alone() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("lab data/alluvium")).unwrap();
    let mine = place.file("lab data/alluvium/mine.txt", "dear");
    run(&place, &["seed-0/S5"], &[])
        .ended(2)
        .complained("--directory")
        .complained("not empty");
    assert_eq!(std::fs::read_to_string(mine).unwrap(), "dear");

    let file = place.file("a file", "dear");
    let text = file.to_str().unwrap();
    for words in [
        &["list", "--results", text][..],
        &["report", "--results", text],
        &["run", "seed-0/Q1", "--results", text],
    ] {
        place
            .run(words)
            .ended(2)
            .complained("--results")
            .complained("that is a file");
    }

    let none = place.path("no results");
    let none = none.to_str().unwrap();
    place
        .run(["report", "--results", none])
        .ended(1)
        .complained("there are no results");
    // An experiment without a store does not check the store directory.
    run(&place, &["seed-0/Q1"], &[]).ended(0);
    let results = place.path("results");
    let results = results.to_str().unwrap();
    place
        .run(["report", text, "--results", results])
        .ended(2)
        .complained("no page of the Lab");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "dear");
    std::fs::write(place.path("results/seed-0-S5.quick.json"), "{\"id\": 7}").unwrap();
    place
        .run(["report", "--results", results])
        .ended(3)
        .complained("seed-0-S5.quick.json does not hold results");
}

#[test]
fn the_numbers_of_the_research_are_what_the_models_compute_today() {
    let place = Place::new();
    let said = place.done(["oracles"]).text();
    assert!(!said.contains("differs**"), "{said}");
    let all = place.done(["oracles", "--json"]).json();
    let all = all.as_array().unwrap();
    assert!(all.len() > 150 && all.iter().all(|one| one["holds"] == true));
}
