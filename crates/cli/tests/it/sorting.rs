//! `sort` and `index`.

use crate::{Place, Said, binary};
use std::fmt::Write as _;

fn words(count: u64) -> String {
    let mut random = fastrand::Rng::with_seed(3);
    let mut text = String::new();
    for _ in 0..count {
        let bits = random.u32(1..32);
        writeln!(text, "{:x}", random.u32(0..1 << bits)).unwrap();
    }
    text
}

fn names(place: &Place) -> Vec<String> {
    let directory = std::fs::read_dir(place.path("")).unwrap();
    let names = directory.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Runs the binary with the given memory.
fn with(memory: &str, arguments: &[&str]) -> Said {
    let mut command = binary();
    command.args(["--memory", memory]).args(arguments);
    command.output().expect("the binary runs").into()
}

#[test]
fn lines_are_sorted_as_their_bytes_say_whatever_the_memory_and_the_threads() {
    let place = Place::new();
    let text = words(60_000);
    place.file("words", &text);
    let mut expected: Vec<&str> = text.lines().collect();
    expected.sort_unstable();
    let words = place.path("words");
    let words = words.to_str().unwrap();
    for (memory, threads) in [
        ("32M", "1"),
        ("32M", "3"),
        ("128K", "1"),
        ("256K", "2"),
        ("300K", "4"),
    ] {
        let said = with(memory, &["sort", words, "--threads", threads]).ended(0);
        assert!(
            said.text().lines().eq(expected.iter().copied()),
            "{memory}, {threads} threads"
        );
    }
    expected.dedup();
    with("256K", &["sort", words, "-u", "--output", words]).ended(0);
    let found = std::fs::read_to_string(place.path("words")).unwrap();
    assert!(found.lines().eq(expected.iter().copied()));
    assert_eq!(names(&place), ["words"], "nothing is left behind");
}

#[test]
fn standard_input_and_a_last_line_without_an_end_are_sorted() {
    let place = Place::new();
    let said = place.fed(["sort"], b"b\n\na\0x\nab").ended(0);
    assert_eq!(said.out, b"\na\0x\nab\nb\n");
    assert_eq!(place.fed(["sort", "--rate", "100M"], b"").ended(0).out, b"");
}

#[test]
fn records_are_sorted_by_their_key_and_keep_their_order_otherwise() {
    let place = Place::new();
    let said = place.fed(
        ["sort", "--record-bytes", "4", "--key", "2,1"],
        b"1_b_2_a_3_b_4_a_",
    );
    assert_eq!(said.ended(0).out, b"2_a_4_a_1_b_3_b_");
    let said = place.fed(
        ["sort", "--record-bytes", "4", "--key", "2,1", "--unique"],
        b"1_b_2_a_3_b_4_a_",
    );
    assert_eq!(said.ended(0).out, b"2_a_1_b_");
    let said = place.fed(["sort", "--record-bytes", "4"], b"b___a___x");
    said.ended(3)
        .complained("1 bytes are left after 2 records of 4 bytes");
    place
        .fed(["sort", "--record-bytes", "4", "--key", "2,3"], b"")
        .ended(2)
        .complained("--key");
    place.run(["sort", "--key", "2,3"]).ended(2);
    place.run(["sort", "/nowhere"]).ended(3).complained("/nowhere");
    with("1K", &["sort", "--threads", "1"])
        .ended(2)
        .complained("--memory: 1024 bytes are too few");
}

fn records(numbers: std::ops::Range<u32>, step: u32) -> Vec<u8> {
    let record = |number: u32| format!("{:08}{:04}", number * step, number % 10_000).into_bytes();
    numbers.flat_map(record).collect()
}

#[test]
fn an_index_is_built_asked_updated_converted_and_checked() {
    let place = Place::new();
    place.file("records", records(0..20_000, 1));
    place.file("more", records(20_000..20_010, 1));
    place.file("gone", b"0000000300000004");
    let at = |name: &str| place.path(name).to_str().unwrap().to_owned();
    let (index, data) = (at("x.index"), at("records"));
    let build = [
        "index",
        "build",
        &index,
        &data,
        "--key-bytes",
        "8",
        "--value-bytes",
    ];
    place.done(build.iter().copied().chain(["4"]));
    assert_eq!(place.done(["index", "get", &index, "00000003"]).text(), "0003");
    let said = place.run(["index", "get", &index, "99999999"]).ended(1);
    said.complained("99999999");
    place
        .run(["index", "get", &index, "3"])
        .ended(2)
        .complained("the key has 1 bytes");
    place.done([
        "index",
        "update",
        &index,
        "--put",
        &at("more"),
        "--delete",
        &at("gone"),
    ]);
    place.run(["index", "get", &index, "00000003"]).ended(1);
    let said = place.done(["index", "get", &index, "3030303230303039", "--hex"]);
    assert_eq!(said.text().trim(), "30303039");
    for kind in ["sparse", "blocks", "dense"] {
        place.done(["index", "convert", &index, "--kind", kind]);
        let stat = place.done(["--json", "index", "stat", &index, "--check"]).json();
        assert_eq!(stat["records"], 20_008);
        assert_eq!(stat["kind"], kind);
        assert!(stat["bits_per_key"].as_f64().unwrap() < 3.0, "{stat}");
    }
    place
        .run(build.iter().copied().chain(["5"]))
        .ended(3)
        .complained("are left after");
    assert_eq!(
        place.done(["index", "get", &index, "00000005"]).text(),
        "0005",
        "the old index stays"
    );
    place
        .run(["index", "stat", &at("none")])
        .ended(1)
        .complained("index build");
    place
        .run(["index", "update", &index])
        .ended(2)
        .complained("--put");
}

#[test]
fn a_damaged_index_is_told_with_its_code() {
    let place = Place::new();
    let data = place.file("records", records(0..2000, 1));
    let index = place.path("x");
    let (index, data) = (index.to_str().unwrap(), data.to_str().unwrap());
    place.done([
        "index",
        "build",
        index,
        data,
        "--key-bytes",
        "8",
        "--value-bytes",
        "4",
    ]);
    let name = names(&place)
        .into_iter()
        .find(|name| name.ends_with(".data"))
        .unwrap();
    let mut bytes = std::fs::read(place.path(&name)).unwrap();
    bytes[5000] ^= 1;
    place.file(&name, bytes);
    let said = place.run(["index", "stat", index, "--check"]).ended(5);
    said.complained("offset 4096");
}
