//! Creating, renaming and dropping keyspaces.

use crate::{Place, lines};

#[test]
fn keyspaces_are_created_listed_renamed_and_dropped() {
    let place = Place::new();
    place.done([
        "keyspaces",
        "create",
        "events",
        "--compression",
        "zstd",
        "--value-threshold",
        "2K",
    ]);
    place.done(["keyspaces", "create", "hits", "--merge-operator", "add"]);
    place.done(["put", "-k", "events", "a", "1"]);
    place.done(["keyspaces", "create", "trial", "--structure", "levels,k=4"]);
    place.done(["put", "-k", "trial", "a", "2"]);
    assert_eq!(place.done(["get", "-k", "trial", "a"]).out, b"2");
    let list = place.done(["keyspaces"]).text();
    assert_eq!(
        lines(&list),
        [
            "events\tzstd\t2048\t-\t-\ttiered",
            "hits\tnone\t-\tadd\t-\ttiered",
            "trial\tnone\t-\t-\t-\tlevels,samt,k=4",
        ]
    );
    let json = place.done(["keyspaces", "list", "--json"]).json();
    assert_eq!(json[0]["compression"], "zstd");
    assert_eq!(json[1]["merge_operator"], "add");
    place.done(["keyspaces", "rename", "events", "old events"]);
    assert_eq!(place.done(["get", "-k", "old events", "a"]).out, b"1");
    assert!(place.done(["keyspaces"]).text().starts_with("hits\t"));
    place.done(["keyspaces", "drop", "old events", "--yes"]);
    place.run(["get", "-k", "old events", "a"]).ended(1);
}

#[test]
fn values_of_a_keyspace_with_a_default_expiry_disappear() {
    let place = Place::new();
    place.done([
        "keyspaces",
        "create",
        "brief",
        "--default-expiry",
        "1ms",
        "--structure",
        "paged",
    ]);
    place.done(["keyspaces", "create", "long", "--default-expiry", "7d"]);
    let json = place.done(["keyspaces", "list", "--json"]).json();
    assert_eq!(
        (&json[0]["default_expiry_ms"], &json[1]["default_expiry_ms"]),
        (&1.into(), &604_800_000.into())
    );
    for keyspace in ["brief", "long"] {
        place.done(["put", "-k", keyspace, "a", "1"]);
    }
    std::thread::sleep(std::time::Duration::from_millis(5));
    place.run(["get", "-k", "brief", "a"]).ended(1);
    assert_eq!(place.done(["get", "-k", "long", "a"]).out, b"1");
    place
        .run(["keyspaces", "create", "never", "--default-expiry", "soon"])
        .ended(2);
}

#[test]
fn keyspaces_with_other_options_have_levels_of_their_own() {
    let place = Place::new();
    for (name, structure) in [
        ("a", "levels,k=4"),
        ("b", "levels,k=8"),
        ("c", "levels,k=4"),
        ("d", "hashed,form=boa,lambda=4"),
        ("e", "hashed,form=bot,lambda=4"),
    ] {
        place.done(["keyspaces", "create", name, "--structure", structure]);
        place.done(["put", "-k", name, "key", name]);
    }
    let list = place.done(["keyspaces"]).text();
    assert_eq!(
        lines(&list),
        [
            "a\tnone\t-\t-\t-\tlevels,samt,k=4",
            "b\tnone\t-\t-\t-\tlevels,samt,k=8",
            "c\tnone\t-\t-\t-\tlevels,samt,k=4",
            "d\tnone\t-\t-\t-\thashed,form=boa,lambda=4,refined=yes",
            "e\tnone\t-\t-\t-\thashed,form=bot,lambda=4",
        ]
    );
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!(place.done(["get", "-k", name, "key"]).out, name.as_bytes());
    }
    let stats = place.done(["stats"]).text();
    for said in [
        "levels,samt,k=4: keyspaces a, c, ",
        "levels,samt,k=8: keyspace b, ",
        "hashed,form=boa,lambda=4,refined=yes: keyspace d, ",
        "hashed,form=bot,lambda=4: keyspace e, ",
    ] {
        assert!(stats.contains(said), "{said}: {stats}");
    }
    let json = place.done(["stats", "--json"]).json();
    let all = json["dictionaries"].as_array().unwrap();
    assert_eq!(all.len(), 4);
    assert_eq!(all[0]["structure"], "levels,samt,k=4");
    assert_eq!(all[0]["keyspaces"], serde_json::json!(["a", "c"]));
    assert!(all[0]["runs"].as_u64() > Some(0), "{json}");
    place.done(["check"]);
    place.done(["keyspaces", "drop", "b", "--yes"]);
    place.done(["compact"]);
    let json = place.done(["stats", "--json"]).json();
    assert_eq!(json["dictionaries"].as_array().unwrap().len(), 3, "{json}");
    place
        .run(["keyspaces", "create", "v", "--structure", "volatile,bytes=1M"])
        .ended(0);
    place
        .run(["keyspaces", "create", "w", "--structure", "volatile,bytes=2M"])
        .ended(3)
        .complained("share this setting");
}

#[test]
fn a_hashed_keyspace_is_walked_over_in_no_order() {
    let place = Place::new();
    place.done(["keyspaces", "create", "blobs", "--structure", "hashed,index=trie"]);
    let list = place.done(["keyspaces"]).text();
    assert_eq!(lines(&list), ["blobs\tnone\t-\t-\t-\thashed,index=trie"]);
    for key in ["Elbe", "Oder", "Rhein", "Weser"] {
        place.done(["put", "-k", "blobs", key, "river"]);
    }
    assert_eq!(place.done(["get", "-k", "blobs", "Oder"]).out, b"river");
    let all = place.done(["scan", "-k", "blobs", "--keys-only"]).text();
    let all = lines(&all);
    let mut sorted = all.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["Elbe", "Oder", "Rhein", "Weser"]);
    // Page by page, each starting after the last key of the previous page.
    let first = place
        .done(["scan", "-k", "blobs", "--keys-only", "-n", "1"])
        .text();
    assert_eq!(lines(&first), all[..1]);
    let rest = place
        .done(["scan", "-k", "blobs", "--keys-only", "--after", all[0]])
        .text();
    assert_eq!(lines(&rest), all[1..]);
    let lines_of = ["--format", "lines", "--separator", ":"];
    let export = ["export", "-k", "blobs", "-"];
    let exported = place.done(export.iter().chain(&lines_of)).text();
    let pairs: Vec<String> = all.iter().map(|key| format!("{key}:river")).collect();
    assert_eq!(lines(&exported), pairs);
    for ordered in [
        &["scan", "-k", "blobs", "--prefix", "E"][..],
        &["scan", "-k", "blobs", "--reverse"],
        &["export", "-k", "blobs", "-", "--format", "jsonl", "--from", "F"],
        &["delete", "-k", "blobs", "--from", "A", "--to", "F"],
    ] {
        place.run(ordered).ended(3).complained("have no order");
    }
    place.done(["delete", "-k", "blobs", "Oder"]);
    let stats = place.done(["stats", "--json"]).json();
    assert!(stats["hashed"]["memory_bytes"].is_u64(), "{stats}");
    place.done(["check"]);
    place.done(["delete", "-k", "blobs", "--prefix", "", "--yes"]);
    assert_eq!(place.done(["scan", "-k", "blobs"]).out, b"");
}

#[test]
fn what_cannot_be_is_refused() {
    let place = Place::new();
    place.done(["keyspaces", "create", "a"]);
    place.done(["keyspaces", "create", "b"]);
    place
        .run(["keyspaces", "create", "a"])
        .ended(3)
        .complained("already");
    place
        .run(["keyspaces", "rename", "a", "b"])
        .ended(3)
        .complained("already");
    place
        .run(["keyspaces", "rename", "x", "y"])
        .ended(1)
        .complained("no keyspace");
    place
        .run(["keyspaces", "drop", "x"])
        .ended(1)
        .complained("no keyspace");
    place
        .run(["keyspaces", "create", "c", "--structure", "levels,k=1"])
        .ended(2)
        .complained("k");
    place
        .run(["keyspaces", "create", "c", "--structure", "pyramid"])
        .ended(2)
        .complained("pyramid");
    place
        .run(["keyspaces", "create", "c", "--merge-operator", "sing"])
        .ended(2)
        .complained("unknown merge operator \"sing\"; choose add or append");
    place
        .run(["keyspaces", "create", "c", "--value-threshold", "5G"])
        .ended(2);
    place
        .run(["keyspaces", "create", "c", "--compression", "rar"])
        .ended(2)
        .complained("zstd");
}

#[test]
fn names_that_lists_cannot_show_are_refused() {
    let place = Place::new();
    place.done(["put", "a", "1"]);
    for (name, why) in [
        ("", "at least one character"),
        ("a\nb", "\"a\\nb\" contains a control character"),
    ] {
        place.run(["keyspaces", "create", name]).ended(3).complained(why);
        place.run(["put", "-k", name, "a", "1"]).ended(3).complained(why);
        place
            .run(["keyspaces", "rename", "default", name])
            .ended(3)
            .complained(why);
    }
    assert_eq!(lines(&place.done(["keyspaces", "list"]).text()).len(), 1);
}
