//! Cost estimates and advice: the command line, and the arguments that it refuses.

use crate::serve::Served;
use crate::{Place, Said};
use std::time::{Duration, Instant};

/// Arguments that need no store and little time.
const SMALL: [&str; 6] = ["--keys", "1e6", "--mix", "updates=50,hits=50", "--memory", "64M"];

fn asked(place: &Place, verb: &str, more: &[&str]) -> Said {
    place.run([verb].iter().chain(&SMALL).chain(more))
}

fn predicted(said: &Said, structure: &str) -> serde_json::Value {
    let json = said.json();
    let all = json["structures"].as_array().unwrap();
    let found = all
        .iter()
        .find(|one| one["structure"].as_str().unwrap().starts_with(structure));
    found
        .unwrap_or_else(|| panic!("{structure} is not in {json}"))
        .clone()
}

#[test]
fn a_model_answers_for_every_option() {
    let place = Place::new();
    let base = asked(&place, "model", &["--json"]).ended(0);
    let json = base.json();
    assert_eq!(json["structures"].as_array().unwrap().len(), 12);
    assert_eq!(json["question"]["keys"], 1e6);
    let tiered = |said: &Said, what: &str| predicted(said, "tiered")[what]["predicted"].as_f64().unwrap();
    let with = |more: &[&str]| asked(&place, "model", &[more, &["--json"]].concat()).ended(0);
    let reads = tiered(&base, "reads_hit");
    assert!(
        tiered(&with(&["--skew", "0.99"]), "reads_hit") < reads,
        "skew is cached"
    );
    let long = with(&["--value-bytes", "1000"]);
    assert!(tiered(&long, "reads_hit") > reads, "less of it is in memory");
    assert_eq!(long.json()["question"]["value_bytes"], 1000.0);
    assert_eq!(with(&["--key-bytes", "40"]).json()["question"]["key_bytes"], 40.0);
    let disk = with(&["--device", "hard-disk"]);
    assert!(tiered(&disk, "total_ns") > 10.0 * tiered(&base, "total_ns"));
    let scans = ["--mix", "scans=1", "--scan-records", "1000"];
    let few = ["model", "--keys", "1e6", "--memory", "64M", "--json"];
    let scans = place.run(few.iter().chain(&scans)).ended(0);
    assert_eq!(scans.json()["question"]["scan_records"], 1000.0);
    let life = predicted(&with(&["--endurance", "600T"]), "tiered");
    assert!(life["life_tb"].as_f64().unwrap() > 1.0, "{life}");
    let text = asked(&place, "model", &["--endurance", "600T"]).ended(0).text();
    assert!(
        text.contains("is worn out after") && text.contains("textbook"),
        "{text}"
    );
}

#[test]
fn advice_without_a_store_ranks_the_choices() {
    let place = Place::new();
    let said = asked(&place, "advise", &["--json"]).ended(0).json();
    let choices = said["choices"].as_array().unwrap();
    let totals: Vec<f64> = choices
        .iter()
        .map(|choice| choice["total_ns"]["predicted"].as_f64().unwrap())
        .collect();
    assert!(totals.is_sorted() && totals.len() == 14, "{totals:?}");
    assert_eq!(
        choices.iter().filter(|choice| choice["is_usual"] == true).count(),
        1
    );
    assert!(said["verdict"].as_str().unwrap().len() > 10 && said["leave_it"].is_boolean());
    assert!(said["seen"].is_null());
    let twice = asked(
        &place,
        "advise",
        &["--data", "2", "--memory-factor", "0.5x", "--json"],
    );
    let twice = twice.ended(0).json();
    assert_eq!(twice["question"]["keys"], 2e6);
    assert_eq!(twice["question"]["memory_bytes"], f64::from(32 << 20));
    let text = asked(&place, "advise", &[]).ended(0).text();
    assert!(
        text.contains("no observed workload") && text.contains("µs an operation"),
        "{text}"
    );
}

#[test]
fn keys_without_an_order_are_advised_where_lookups_are_most_and_nothing_is_walked_over() {
    let place = Place::new();
    let data = [
        "--keys",
        "1e8",
        "--key-bytes",
        "20",
        "--value-bytes",
        "44",
        "--memory",
        "64M",
    ];
    let advised = |mix: &str| {
        let arguments = ["advise", "--mix", mix, "--json"];
        place.run(arguments.iter().chain(&data)).ended(0).json()
    };
    let lookups = advised("updates=5,hits=45,misses=50");
    assert_eq!(lookups["choices"][0]["structure"], "hashed, index=pachash");
    let verdict = lookups["verdict"].as_str().unwrap();
    assert!(verdict.contains("--structure hashed,index=pachash`"), "{verdict}");
    let scans = advised("updates=5,hits=45,misses=49,scans=1");
    let names = scans["choices"].as_array().unwrap().iter();
    let names: Vec<&str> = names
        .map(|choice| choice["structure"].as_str().unwrap())
        .collect();
    assert!(names.iter().all(|name| !name.starts_with("hashed")), "{names:?}");
}

#[test]
fn numbers_that_cannot_be_are_refused_with_the_option_and_the_reason() {
    let place = Place::new();
    for (more, words) in [
        (&["--skew", "-0.5"][..], "the skew"),
        (&["--skew", "NaN"], "not a number"),
        (&["--skew", "9"], "at most 5"),
        (&["--value-bytes", "inf"], "not a number"),
        (&["--key-bytes", "0"], "the key's bytes"),
        (&["--scan-records", "NaN"], "not a number"),
        (&["--endurance", "none"], "endurance"),
        (&["--device", "/no/such/place"], "probe"),
    ] {
        for verb in ["model", "advise"] {
            let said = asked(&place, verb, more);
            assert!(matches!(said.code, Some(1..=3)), "{verb} {more:?}: {said:?}");
            assert!(said.err.contains(words), "{verb} {more:?}: {said:?}");
        }
    }
    let run = |arguments: &[&str], code: i32, words: &str| {
        let said = place.run(arguments).ended(code);
        assert!(said.err.contains(words), "{arguments:?}: {said:?}");
    };
    let mix = ["--mix", "updates=1"];
    run(&[&["model", "--memory", "0"], &mix[..]].concat(), 2, "memory");
    run(
        &[&["model", "--keys", "1e30"], &mix[..]].concat(),
        2,
        "the number of keys",
    );
    run(
        &[&["model", "--keys", "0"], &mix[..]].concat(),
        2,
        "the number of keys",
    );
    run(&["model", "--mix", "updates=0"], 2, "the number of operations");
    run(&["model", "--mix", "reads=1"], 2, "not an operation");
    run(&["model", "--mix", "hits=-1"], 2, "the hits");
    for (option, words) in [("--data", "not a factor"), ("--memory-factor", "not a factor")] {
        for bad in ["0", "NaN", "-1"] {
            let option = format!("{option}={bad}");
            let said = asked(&place, "advise", &[&option]).ended(2);
            assert!(
                said.err.contains(words) || said.err.contains("not a number"),
                "{said:?}"
            );
        }
    }
    run(&["advise", "--records", "0.5"], 2, "--apply");
    run(&["advise", "--apply", "--records", "0.9"], 2, "not a share");
    run(&["advise", "--apply", "--data", "2"], 2, "leave out");
    run(&["advise", "--trace", "x", "--keyspace", "y"], 2, "--keyspace");
    let directory = place.path("directory");
    std::fs::create_dir(&directory).unwrap();
    let trace = ["advise", "--trace", directory.to_str().unwrap()];
    run(&trace, 2, "is a directory: name the file");
    run(&["advise", "--trace", "x"], 1, "x");
}

#[test]
fn a_store_that_has_seen_nothing_says_so() {
    let place = Place::new();
    place.run(["advise"]).ended(1);
    place.done(["put", "a", "1"]);
    let said = place.run(["advise"]).ended(1);
    assert!(said.err.contains("no request since it was opened"), "{said:?}");
    let said = place.run(["advise", "--keyspace", "default"]).ended(1);
    assert!(said.err.contains("no request to \"default\""), "{said:?}");
    // A given mix makes up for missing observations, but not for a missing keyspace.
    for none in ["none", "redis.keys.0", "redis.keys.*"] {
        for more in [&[][..], &SMALL] {
            let said = place
                .run(["advise", "--keyspace", none].iter().chain(more))
                .ended(1);
            let words = format!("there is no keyspace {none:?}");
            assert!(said.err.contains(&words), "{said:?}");
        }
    }
    let said = place.run(["advise", "--apply"]).ended(2);
    assert!(said.err.contains("alluvium serve"), "{said:?}");
}

#[test]
fn there_is_no_advice_to_apply_for_a_server_that_has_seen_nothing() {
    let place = Place::new();
    let _served = Served::new(&place, &["--web", "off", "--memory", "16M"]);
    // The sampler may have seen the server's own writes at startup; usually it has seen nothing.
    let said = [&["advise"][..], &["advise", "--apply"]].map(|arguments| place.run(arguments));
    let saw_nothing = |said: &Said| said.err.contains("no request since it was opened");
    for said in &said {
        assert_eq!(said.code == Some(1), saw_nothing(said), "{said:?}");
    }
    assert_eq!(saw_nothing(&said[0]), saw_nothing(&said[1]), "{said:?}");
}

#[test]
fn a_damaged_profile_is_an_error_that_says_what_to_do() {
    let place = Place::new();
    let damaged = place.file("probe.txt", "alluvium probe 1\nread 4096 x\n");
    let damaged = damaged.to_str().unwrap();
    for verb in ["model", "advise"] {
        let said = asked(&place, verb, &["--device", damaged]).ended(5);
        assert!(said.err.contains("probe.txt"), "{said:?}");
    }
    place.done(["put", "a", "1"]);
    std::fs::write(place.path("store/probe.txt"), "nothing of the kind").unwrap();
    asked(&place, "model", &[]).ended(5);
    place.run(["probe", "--stored"]).ended(5);
}

#[test]
fn a_trace_is_advised_on_and_a_damaged_one_refused() {
    let place = Place::new();
    let trace = place.path("a.trace");
    let trace = trace.to_str().unwrap();
    let record = [
        "bench",
        "trace",
        "record",
        trace,
        "--phase",
        "a",
        "--records",
        "10k",
    ];
    place.done(record.iter().chain(&["--operations", "20k"]));
    let advise = [
        "advise",
        "--trace",
        trace,
        "--memory",
        "64M",
        "--value-bytes",
        "500",
    ];
    let said = place.done(advise.iter().chain(&["--json"])).json();
    assert_eq!(said["seen"]["trace"], trace);
    assert_eq!(
        (&said["question"]["keys"], &said["seen"]["hours"]),
        (&1e4.into(), &48.into())
    );
    assert_eq!(said["question"]["value_bytes"], 500.0);
    let skew = said["question"]["skew"].as_f64().unwrap();
    assert!(
        (0.85..1.15).contains(&skew),
        "workload a is skewed by 0.99: {skew}"
    );
    let hits = said["question"]["mix"]["hits"].as_f64().unwrap();
    assert!((9_000.0..11_000.0).contains(&hits), "{hits}");
    assert!(place.done(advise).text().contains("in 48 parts"));
    let whole = std::fs::read(trace).unwrap();
    std::fs::write(trace, &whole[..whole.len() - 5]).unwrap();
    let said = place.run(advise).ended(5);
    assert!(said.err.contains("record it again"), "{said:?}");
    let mut kind = whole;
    kind[24 + 16 * 7] = 77;
    std::fs::write(trace, &kind).unwrap();
    let said = place.run(advise).ended(5);
    assert!(
        said.err.contains("the operation 7") && said.err.contains("kind 77"),
        "{said:?}"
    );
    place.run(["advise", "--trace", "/no/such/trace"]).ended(1);
}

#[test]
fn a_probe_refuses_numbers_that_are_none() {
    let place = Place::new();
    std::fs::create_dir(place.path("store")).unwrap();
    for (option, bad) in [
        ("--seconds", "NaN"),
        ("--seconds", "-1"),
        ("--space", "NaN"),
        ("--space", "0"),
    ] {
        let said = place.run(["probe", &format!("{option}={bad}")]).ended(2);
        assert!(said.err.contains(option), "{option} {bad}: {said:?}");
    }
    assert_eq!(std::fs::read_dir(place.path("store")).unwrap().count(), 0);
}

#[test]
fn a_server_changes_itself_and_tells_of_it() {
    let place = Place::new();
    let served = Served::new(&place, &["--web", "off", "--memory", "16M"]);
    let rows: String = (0..60_000u32)
        .map(|number| format!("{:08x},{number:0>80}\n", number.wrapping_mul(2_654_435_761)))
        .collect();
    let rows = place.file("rows.csv", format!("key,value\n{rows}"));
    place.done(["import", rows.to_str().unwrap(), "-k", "rows"]);
    let keys: Vec<String> = (0..4000u32)
        .map(|number| format!("{:08x}", (number * 13).wrapping_mul(2_654_435_761)))
        .collect();
    let get = ["get", "-k", "rows"].iter().copied();
    place.run(get.chain(keys.iter().map(String::as_str)));
    // A concurrent reader sees the change, and a second change is refused.
    let apply = std::thread::scope(|scope| {
        let apply = scope.spawn(|| place.run(["advise", "--apply", "--records", "20%", "--json"]));
        let began = Instant::now();
        let watched = loop {
            let stats = place.done(["stats", "--json"]).json();
            if let Some(change) = stats["changes"].as_array().and_then(|all| all.last().cloned()) {
                break change;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{stats}");
        };
        assert_eq!(watched["record_share"], 0.2);
        assert_eq!(watched["outcome"], "watched");
        let second = place.run(["advise", "--apply", "--records", "30%"]);
        assert!(second.err.contains("is being watched"), "{second:?}");
        // Stopping the server also ends the wait.
        drop(served);
        apply.join().unwrap()
    });
    apply
        .ended(3)
        .complained("the process that has the store open has ended");
}

#[test]
fn stats_say_what_was_chosen_and_what_was_predicted() {
    let place = Place::new();
    let _served = Served::new(&place, &["--web", "off", "--memory", "16M"]);
    let rows: String = (0..20_000)
        .map(|number| format!("{number:05},v{number}\n"))
        .collect();
    let rows = place.file("rows.csv", format!("key,value\n{rows}"));
    place.done(["import", rows.to_str().unwrap(), "-k", "rows"]);
    for number in 0..50 {
        place.run([
            "get",
            "-k",
            "rows",
            &format!("{number:05}"),
            &format!("{:05}", number + 7),
        ]);
    }
    let stats = place.done(["stats", "--json"]).json();
    let chosen = &stats["chosen"];
    assert_eq!(chosen["memtable"]["value"], "1048576 bytes");
    for name in ["memory", "leaf", "records", "device", "structure"] {
        let why = chosen[name]["why"].as_str().unwrap_or_default();
        assert!(why.len() > 10, "{name}: {chosen}");
    }
    assert!(
        chosen["structure"]["why"]
            .as_str()
            .unwrap()
            .contains("µs an operation"),
        "{chosen}"
    );
    let text = place.done(["stats"]).text();
    assert!(text.contains("chosen") && text.contains("memtable"), "{text}");
    if !stats["forecast"].is_null() {
        assert_eq!(stats["forecast"]["now"].as_array().unwrap().len(), 6);
        assert!(text.contains("predicted and measured"), "{text}");
    }
}
