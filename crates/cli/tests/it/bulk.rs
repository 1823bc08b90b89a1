//! Imports and exports.

use crate::{Place, lines};
use std::fs;
use std::path::Path;

fn hostile(place: &Place) {
    let db = alluvium::Db::open(place.path("store")).unwrap();
    let keyspace = db.keyspace("default").unwrap();
    for i in 0..=255u8 {
        keyspace
            .put([b'k', i, b'"', b'\n', i], [i, b',', b'\t', 0, b'\r', b'"'])
            .unwrap();
    }
    keyspace.put("", "").unwrap();
    keyspace.put("text", "Řeka, \"Labe\"\n").unwrap();
    db.close().unwrap();
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

#[test]
fn what_is_exported_and_imported_is_the_same_store_in_every_format() {
    let place = Place::new();
    hostile(&place);
    let before = place.done(["scan", "--json"]).out;
    for name in ["a.csv", "a.tsv", "a.jsonl", "a.kv", "a.redis"] {
        let file = place.path(name);
        place.done(["export", text(&file)]);
        place.done(["import", text(&file), "-k", name]);
        assert_eq!(place.done(["scan", "--json", "-k", name]).out, before, "{name}");
        let again = place.done(["export", "-", "-k", name, "-f", name_of(name)]).out;
        assert_eq!(again, fs::read(&file).unwrap(), "{name}");
    }
    place
        .run(["export", text(&place.path("a.txt"))])
        .ended(3)
        .complained("--format");
    assert!(!place.path("a.txt").exists() && !place.path("a.txt.partial").exists());
}

fn name_of(file: &str) -> &str {
    match file.rsplit_once('.').unwrap().1 {
        "kv" => "binary",
        other => other,
    }
}

#[test]
fn rows_of_csv_come_back_byte_for_byte_with_their_header() {
    let place = Place::new();
    let rows = "id,name,note\n01,\"Elbe, the\",\"two\nlines\"\n02,Oder,\"\"\n03,Weser,x\n";
    let file = place.file("rivers.csv", rows);
    place
        .done(["import", text(&file), "--key", "id"])
        .complained("3 rows");
    assert_eq!(place.done(["get", "02"]).text(), "02,Oder,\"\"");
    assert_eq!(
        place.done(["export", "-", "-f", "csv", "--values-only"]).text(),
        rows
    );
    place.done([
        "import",
        text(&file),
        "--key",
        "{name}/{id}",
        "--value-as",
        "json",
        "-k",
        "json",
    ]);
    let json = r#"{"id":"01","name":"Elbe, the","note":"two\nlines"}"#;
    assert_eq!(place.done(["get", "-k", "json", "Elbe, the/01"]).text(), json);
    place.done([
        "import",
        text(&file),
        "--key",
        "id",
        "--value",
        "name",
        "-k",
        "names",
    ]);
    assert_eq!(place.done(["get", "-k", "names", "01"]).text(), "Elbe, the");
    let bare = place.file("bare.csv", "a;1\r\nb;2\r\n");
    place.done([
        "import",
        text(&bare),
        "--no-header",
        "--separator",
        ";",
        "-k",
        "bare",
    ]);
    assert_eq!(
        lines(&place.done(["scan", "-k", "bare"]).text()),
        ["a\t1", "b\t2"]
    );
    place.run(["import", text(&file)]).ended(2).complained("--key");
    place
        .run(["import", text(&file), "--key", "river"])
        .ended(2)
        .complained("no column \"river\"");
}

#[test]
fn rows_whose_keys_are_long_numbers_keep_apart() {
    let place = Place::new();
    let numbers = [
        "18446744073709551616",
        "18446744073709551617",
        "277447099861456945273576150847928801582",
        "277447099861456945273576150847928801583",
    ];
    let values = ["0.023884810507297517", "-0", "1e3", "1E400"];
    let rows = numbers.iter().zip(values);
    let rows: Vec<String> = rows
        .map(|(id, x)| format!("{{\"id\":{id},\"x\":{x}}}\n"))
        .collect();
    let file = place.file("a.jsonl", rows.concat());
    for sort in [&[][..], &["--sort"]] {
        let import = ["import", text(&file), "--key", "id", "--value", "x"];
        let said = place.done(import.iter().chain(sort).chain(&["-k", "fields"]));
        assert!(!said.err.contains("earlier row"), "{said:?}");
        let wanted = numbers.iter().zip(values);
        let wanted: Vec<String> = wanted.map(|(id, x)| format!("{id}\t{x}")).collect();
        assert_eq!(lines(&place.done(["scan", "-k", "fields"]).text()), wanted);
        place.done(["delete", "--prefix", "", "--yes", "-k", "fields"]);
    }
    place.done(["import", text(&file), "--key", "id", "-k", "rows"]);
    let again = place.done(["export", "-", "-k", "rows", "-f", "jsonl", "--values-only"]);
    assert_eq!(again.text(), rows.concat());
}

#[test]
fn lines_of_json_are_stored_as_they_stand_under_a_field() {
    let place = Place::new();
    let file = place.file(
        "a.jsonl",
        "{\"user\": {\"name\": \"ann\"}, \"n\": 1}\n{\"user\":{\"name\":\"bob\"},\"n\":[2]}\n",
    );
    place.done(["import", text(&file), "--key", "user.name"]);
    assert_eq!(
        place.done(["get", "ann"]).text(),
        "{\"user\": {\"name\": \"ann\"}, \"n\": 1}"
    );
    assert_eq!(
        place.done(["export", "-", "-f", "jsonl", "--values-only"]).out,
        fs::read(&file).unwrap()
    );
    place.done([
        "import",
        text(&file),
        "--key",
        "u:{user.name}",
        "--value",
        "n",
        "-k",
        "n",
    ]);
    assert_eq!(place.done(["get", "-k", "n", "u:bob"]).text(), "[2]");
}

#[test]
fn lines_and_redis_commands_come_from_standard_input() {
    let place = Place::new();
    place.fed(["import", "-", "-f", "lines"], b"b\na\n\xff").ended(0);
    assert_eq!(place.done(["export", "-", "-f", "lines"]).out, b"a\nb\n\xff\n");
    place
        .fed(
            ["import", "-", "-f", "lines", "--separator", "=", "-k", "pairs"],
            b"a=1\nb==2\n",
        )
        .ended(0);
    assert_eq!(
        lines(&place.done(["scan", "-k", "pairs"]).text()),
        ["a\t1", "b\t=2"]
    );
    let commands = b"SET a 1\r\nMSET b 2 c 3\n*2\r\n$3\r\nDEL\r\n$1\r\nb\r\n*5\r\n$3\r\nset\r\n$1\r\nd\r\n$1\r\n4\r\n$2\r\npx\r\n$1\r\n1\r\n";
    place
        .fed(["import", "-", "-f", "redis", "-k", "r"], commands)
        .ended(0);
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(lines(&place.done(["scan", "-k", "r"]).text()), ["a\t1", "c\t3"]);
    place
        .fed(["import", "-", "-f", "redis"], b"HSET a b c\n")
        .ended(4)
        .complained("line 1: HSET");
    place
        .fed(["import", "-", "-f", "redis", "--restart"], b"*1\r\n$9\r\nPI")
        .ended(4)
        .complained("cut short");
}

#[test]
fn a_bad_row_is_named_and_ends_the_import_which_goes_on_when_it_is_corrected() {
    let place = Place::new();
    let file = place.file("a.csv", "key,value\na,1\nb\nc,3\n");
    place
        .run(["import", text(&file)])
        .ended(4)
        .complained("a.csv, line 3: 1 columns instead of 2");
    assert_eq!(place.done(["scan"]).text(), "a\t1\n");
    place.file("a.csv", "key,value\na,1\nb,2\nc,3\n");
    place
        .done(["import", text(&file)])
        .complained("continuing after 1 rows");
    assert_eq!(lines(&place.done(["scan"]).text()).len(), 3);
    assert_eq!(place.done(["keyspaces"]).text().lines().count(), 1);
    assert_eq!(
        place.done(["keyspaces", "list", "--all"]).text().lines().count(),
        2
    );
}

#[test]
fn bad_rows_go_to_a_file_that_can_be_corrected_and_imported_itself() {
    let place = Place::new();
    let long = "k".repeat(70_000);
    let file = place.file(
        "a.csv",
        format!("key,value\na,1\nb\nc,3\n{long},4\n\"d\ne\",5,6\n"),
    );
    let bad = place.path("bad.csv");
    let said = place
        .run(["import", text(&file), "--rejects", text(&bad), "--json"])
        .ended(4);
    let (json, err) = (said.json(), said.err);
    assert_eq!((&json["rows"], &json["rejected"]), (&2.into(), &3.into()));
    assert!(
        err.contains("line 3") && err.contains("line 5: a key of 70000 bytes") && err.contains("line 6"),
        "{err}"
    );
    assert_eq!(
        fs::read_to_string(&bad).unwrap(),
        format!("key,value\nb\n{long},4\n\"d\ne\",5,6\n")
    );
    assert_eq!(lines(&place.done(["scan"]).text()), ["a\t1", "c\t3"]);
}

#[test]
fn options_that_mean_nothing_are_refused() {
    let place = Place::new();
    let file = place.file("a.kv", "");
    place
        .run(["import", text(&file), "--key", "a"])
        .ended(2)
        .complained("--key does not apply");
    place
        .run(["import", "x.csv", "--key", "{"])
        .ended(2)
        .complained("brace");
    place.run(["import", "nothing"]).ended(2).complained("--format");
    place
        .run(["import", "nothing.csv"])
        .ended(3)
        .complained("nothing.csv");
    place
        .run(["import", text(&file)])
        .ended(4)
        .complained("not a binary export");
    place.done(["put", "a", "1"]);
    place
        .run(["export", "a.kv", "--values-only"])
        .ended(2)
        .complained("--values-only");
    place
        .run(["export", "-", "-f", "redis", "--no-header"])
        .ended(2)
        .complained("--no-header");
}

#[test]
fn rows_in_order_and_out_of_order_end_as_what_was_said_last() {
    let place = Place::new();
    let mut wanted = std::collections::BTreeMap::new();
    let mut text = String::from("key,value\n");
    let mut row = |key: u32, value: String| {
        text.push_str(&format!("{key:07},{value}\n"));
        wanted.insert(format!("{key:07}"), value);
    };
    // Several megabytes of ascending keys, then lower keys again, descending keys, ascending keys,
    // and one key repeatedly.
    for key in 0..60_000 {
        row(key, format!("first {key} {}", "x".repeat(60)));
    }
    for key in (100..50_000).step_by(7) {
        row(key, format!("second {key}"));
    }
    for key in (60_000..70_000).rev() {
        row(key, format!("down {key} {}", "y".repeat(60)));
    }
    for key in 70_000..150_000 {
        row(key, format!("third {key} {}", "z".repeat(60)));
    }
    for round in 0..3 {
        row(149_999, format!("again {round}"));
    }
    let file = place.file("rows.csv", &text);
    let json = place.done(["import", file.to_str().unwrap(), "--json"]).json();
    assert_eq!(json["rows"], text.lines().count() as u64 - 1);
    let exported = place.done(["export", "-", "-f", "csv"]).text();
    let rows = wanted.iter().map(|(key, value)| format!("{key},{value}\n"));
    assert!(
        exported == format!("key,value\n{}", rows.collect::<String>()),
        "the export differs"
    );
    place.done(["check"]);
}

#[test]
fn keys_that_come_twice_are_counted_and_refused_on_demand() {
    let place = Place::new();
    let file = place.file("a.csv", "key,value\nb,1\na,1\nb,2\nc,1\na,2\nb,3\n");
    let said = place.done(["import", text(&file), "--json"]);
    let json = said.json();
    assert_eq!(
        (&json["rows"], &json["duplicates"], &json["duplicates_are_all"]),
        (&6.into(), &3.into(), &true.into())
    );
    said.complained("6 rows, 3 with the key of an earlier row, which they replace");
    assert_eq!(lines(&place.done(["scan"]).text()), ["a\t2", "b\t3", "c\t1"]);
    // Keys that existed before the import do not count as duplicates.
    let said = place.done(["import", text(&file), "--json"]);
    assert_eq!(said.json()["duplicates"], 3);
    place
        .run(["import", text(&file), "-k", "new", "--unique"])
        .ended(4)
        .complained("a.csv: line 4: the key \"b\" has a value already");
    place.run(["scan", "-k", "new"]).ended(1);
    let file = place.file("b.csv", "key,value\na,1\nd,1\n");
    place
        .run(["import", text(&file), "--unique"])
        .ended(4)
        .complained("line 2: the key \"a\" has a value already");
    assert_eq!(place.done(["get", "a"]).out, b"2");
    let file = place.file("c.csv", "key,value\ne,1\nd,1\n");
    place.done(["import", text(&file), "--unique"]);
    assert_eq!(place.done(["scan"]).text().lines().count(), 5);
}

#[test]
fn duplicates_among_many_rows_are_found_by_both_ways_of_writing() {
    let place = Place::new();
    let row = |key: u32| format!("{key:07},{}\n", "x".repeat(60));
    let mut table = String::from("key,value\n");
    // Enough ascending rows to start a bulk load, then one of them again.
    (0..120_000).for_each(|key| table.push_str(&row(key)));
    table.push_str(&row(60_000));
    let file = place.file("rows.csv", &table);
    let json = place.done(["import", text(&file), "--json"]).json();
    assert_eq!(json["duplicates"], 1, "{json}");
    place
        .run(["import", text(&file), "-k", "unique", "--unique"])
        .ended(4)
        .complained("line 120002: the key \"0060000\"");
    assert!(
        place
            .done(["scan", "-k", "unique", "--keys-only"])
            .text()
            .lines()
            .count()
            <= 120_000
    );
}

#[test]
fn an_import_that_failed_before_its_first_row_leaves_nothing() {
    let place = Place::new();
    let file = place.file("a.csv", "key,value\na,1\n");
    // The store is not created if the arguments already doom the import.
    place.run(["import", text(&file), "--key", "river"]).ended(2);
    assert!(!place.path("store").exists());
    place.done(["keyspaces", "create", "other"]);
    let keyspaces = || place.done(["keyspaces", "list", "--all"]).text();
    let before = keyspaces();
    for (wrong, code) in [
        (&["--key", "river"][..], 2),
        (&["-f", "jsonl"], 4),
        (&["-f", "binary"], 4),
        (&["-f", "lines", "--separator", "="], 4),
        (&["-f", "lines", "--separator", "=", "--rejects", "/dev/null"], 4),
    ] {
        place
            .run([&["import", text(&file), "-k", "new"][..], wrong].concat())
            .ended(code);
        assert_eq!(keyspaces(), before, "{wrong:?}");
    }
    // Other options are accepted, because no import has begun.
    place.done(["import", text(&file), "-k", "new"]);
    assert_eq!(place.done(["scan", "-k", "new"]).text(), "a\t1\n");
    // An existing keyspace keeps its records and its table layout.
    place
        .run(["import", text(&file), "-k", "new", "-f", "jsonl"])
        .ended(4);
    assert_eq!(place.done(["scan", "-k", "new"]).text(), "a\t1\n");
    // An empty table is valid.
    let empty = place.file("empty.csv", "key,value\n");
    place.done(["import", text(&empty), "-k", "empty"]);
    assert_eq!(
        place.done(["export", "-", "-f", "csv", "-k", "empty"]).text(),
        "key,value\n"
    );
}

#[test]
fn the_mark_of_the_byte_order_is_no_part_of_the_first_row() {
    let place = Place::new();
    let mark = "\u{feff}";
    for (name, rows, options, wanted) in [
        ("a.csv", "1,a\n2,b\n", &["--no-header"][..], "1\ta|2\tb"),
        ("b.csv", "key,value\n1,a\n", &[], "1\ta"),
        ("a.txt", "one\ntwo\n", &[], "one\t|two\t"),
        ("b.txt", "1=a\n2=b\n", &["--separator", "="], "1\ta|2\tb"),
        ("a.jsonl", "{\"key\":\"1\",\"value\":\"a\"}\n", &[], "1\ta"),
        ("a.redis", "SET 1 a\n", &[], "1\ta"),
        (
            "b.redis",
            "*3\r\n$3\r\nSET\r\n$1\r\n1\r\n$1\r\na\r\n",
            &[],
            "1\ta",
        ),
    ] {
        let file = place.file(name, format!("{mark}{rows}"));
        place.done([&["import", text(&file), "-k", name], options].concat());
        let scanned = place.done(["scan", "-k", name]).text();
        assert_eq!(lines(&scanned).join("|"), wanted, "{name}");
    }
    // A second mark within the file belongs to its row, and the error message shows it.
    let file = place.file(
        "c.jsonl",
        format!("{{\"key\":\"1\",\"value\":\"a\"}}\n{mark}{{}}\n"),
    );
    place
        .run(["import", text(&file), "-k", "c"])
        .ended(4)
        .complained("line 2")
        .complained("at \"\\u{feff}{}\"");
    let file = place.file("c.redis", format!("SET 1 a\n{mark}SET 2 b\n"));
    for options in [&["-k", "d"][..], &["--redis-db", "1"]] {
        place
            .run([&["import", text(&file)], options].concat())
            .ended(4)
            .complained("\\u{feff}SET");
    }
}

#[test]
fn rows_that_begin_with_the_mark_of_the_byte_order_are_exported_and_imported_again() {
    let place = Place::new();
    let key = "\u{feff}key";
    place.done(["put", key, "value"]);
    let table = place.file("table.csv", format!("zzz,1,2\n{key},3,4\n"));
    place.done(["import", text(&table), "--no-header", "-k", "table"]);
    place.done(["delete", "zzz", "-k", "table"]);
    let exports: [(&str, &[&str], &[&str]); 5] = [
        ("a.txt", &["--separator", "="], &[]),
        ("a.csv", &["--no-header"], &["--no-header"]),
        ("a.tsv", &[], &[]),
        (
            "b.csv",
            &["-k", "table", "--values-only", "--no-header"],
            &["--no-header"],
        ),
        ("a.jsonl", &[], &[]),
    ];
    for (name, options, header) in exports {
        let file = place.path(name);
        place.done([&["export", text(&file)], options].concat());
        let separator = if name == "a.txt" { options } else { header };
        place.done([&["import", text(&file), "-k", name], separator].concat());
        let keys = place.done(["scan", "-k", name, "--keys-only"]).text();
        assert_eq!(keys, format!("{key}\n"), "{name}");
    }
}
