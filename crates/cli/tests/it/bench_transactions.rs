//! `bench transactions`: tiny runs of the real binary and its child processes.

use crate::Place;

#[test]
fn transactions_are_measured_by_a_child_of_each_engine() {
    let place = Place::new();
    let data = place.path("bench data");
    let file = place.path("report.json");
    let words = [
        "bench",
        "transactions",
        "--no-cap",
        "--counters",
        "100",
        "--warm",
        "10",
        "--run",
        "60",
        "--directory",
        data.to_str().unwrap(),
        "--engines",
        "alluvium,alluvium-locking",
        "--phases",
        "commit:2,rmw:1,rmw:4",
        "--repetitions",
        "2",
        "--json",
        file.to_str().unwrap(),
    ];
    let said = place.run(words).ended(0);
    assert_eq!(said.text().lines().count(), 1 + 2 * 3, "{said:?}");
    assert!(said.text().contains("aborts/commit"), "{said:?}");
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let engines: Vec<&str> = report["repetitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["engine"].as_str().unwrap())
        .step_by(3)
        .collect();
    // The engines take turns, in reverse order in the second repetition.
    assert_eq!(
        engines,
        ["alluvium", "alluvium-locking", "alluvium-locking", "alluvium"]
    );
    let row = &report["results"][0];
    assert_eq!((&row["operations"], &row["threads"]), (&60.into(), &2.into()));
    assert!(row["aborts_per_op"].is_number(), "{row}");
    assert!(place.path("report-clients.svg").exists());
    assert!(!data.exists());
    for (flag, value, why) in [
        ("--phases", "rmw:0", "a number from 1 to 4096"),
        ("--counters", "0", "leaves nothing to measure"),
        ("--engines", "nothing-of-the-kind", "nothing-of-the-kind"),
    ] {
        let words = ["bench", "transactions", "--no-cap", flag, value];
        place.run(words).ended(2).complained(why);
    }
}
