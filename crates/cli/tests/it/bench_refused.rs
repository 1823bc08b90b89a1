//! `bench` refuses invalid arguments before it measures anything.

use crate::Place;

#[test]
fn what_is_too_much_or_said_twice_is_refused_with_what_is_allowed() {
    let place = Place::new();
    let label = format!("alluvium:{}", "a".repeat(300));
    for (verb, words, said) in [
        (
            "ycsb",
            ["--records", "18446744073709551615"],
            "at most 50000000000 records",
        ),
        ("ycsb", ["--threads", "100000000"], "at most 1024 threads"),
        ("ycsb", ["--engines", &label], "at most 64 letters"),
        (
            "ycsb",
            ["--engines", "alluvium:a,alluvium:a"],
            "alluvium:a is named twice",
        ),
        ("ycsb", ["--engines", "none,alluvium,none"], "none is named twice"),
        (
            "ycsb",
            ["--phases", "load,c:absent+absent+zipf"],
            "set the same thing twice",
        ),
        ("ycsb", ["--phases", "load,c:"], "a word is missing"),
        (
            "ycsb",
            ["--script", "load, c:2s+zipf+uniform"],
            "set the same thing twice",
        ),
        ("server", ["--threads", "100000000"], "at most 1024 threads"),
        ("server", ["--connections", "100000000"], "at most 50000"),
        ("server", ["--servers", "redis,redis"], "redis is named twice"),
        (
            "transactions",
            ["--engines", "alluvium,alluvium"],
            "alluvium is named twice",
        ),
        (
            "transactions",
            ["--phases", "rmw:4+8"],
            "set the same thing twice",
        ),
        (
            "ceiling",
            ["--records", "18446744073709551615"],
            "at most 50000000000 records",
        ),
    ] {
        let arguments = ["bench", verb].into_iter().chain(words);
        place.run(arguments).ended(2).complained(said);
    }
    assert!(!place.path("alluvium-bench-data").exists());
    let mix = ["model", "--mix", "hits=1,hits=2"];
    place.run(mix).ended(2).complained("hits is given twice");
}

#[test]
fn an_option_that_an_engine_refuses_is_known_before_anything_is_loaded() {
    let place = Place::new();
    let data = place.path("bench data");
    for (option, said) in [
        (
            "alluvium:b.nosuch=1",
            "has no option \"nosuch\"; it has the options structure",
        ),
        ("alluvium:b.structure=levels,k=none", "levels,k=none"),
    ] {
        let mut words = vec!["bench", "ycsb", "--no-cap", "--records", "2000", "--run", "500"];
        words.extend(["--engines", "alluvium:a,alluvium:b", "--engine-option", option]);
        words.extend(["--directory", data.to_str().unwrap()]);
        let refused = place.run(words).ended(2);
        assert!(
            refused.err.contains("--engine-option: ") && refused.err.contains(said),
            "{refused:?}"
        );
        // No engine was started and no file is left.
        assert!(!refused.err.contains("alluvium:a: "), "{refused:?}");
        assert!(!data.exists());
    }
}
