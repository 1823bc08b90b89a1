//! Export, import and export again: the bytes stay the same in every format, with all options, for
//! all records.

use crate::{Place, Said};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::fs;
use std::path::Path;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// Byte sequences that are special in some format.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        &b"\""[..],
        b"\"\"",
        b",",
        b";",
        b"\t",
        b"\n",
        b"\r\n",
        b"\r",
        b"\0",
        b"\\",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"$3\r\n",
        b"=",
        "Řeka".as_bytes(),
        b"a",
        b"key",
    ]);
    vec(pieces, 0..5).prop_map(|pieces| pieces.concat())
}

/// Formats with the options for their export and import.
const FORMATS: [(&str, &[&str]); 10] = [
    ("csv", &[]),
    ("csv", &["--no-header"]),
    ("csv", &["--separator", ";"]),
    ("tsv", &[]),
    ("tsv", &["--no-header"]),
    ("jsonl", &[]),
    ("lines", &["--separator", "="]),
    ("lines", &["--separator", "::"]),
    ("binary", &[]),
    ("redis", &[]),
];

#[test]
fn an_export_is_imported_and_exported_again_byte_for_byte() {
    let mut runner = TestRunner::new(Config {
        cases: 4,
        max_shrink_iters: 20,
        failure_persistence: None,
        ..Config::default()
    });
    let records = btree_map(hostile(), hostile(), 0..9);
    let round = |records: std::collections::BTreeMap<Vec<u8>, Vec<u8>>| {
        let place = Place::new();
        let db = alluvium::Options::new().memory(32 << 20);
        let db = db.open(place.path("store")).unwrap();
        let keyspace = db.keyspace("default").unwrap();
        for (key, value) in &records {
            keyspace.put(key, value).unwrap();
        }
        db.close().unwrap();
        let mut said_it = 0;
        for (index, (format, options)) in FORMATS.into_iter().enumerate() {
            let (file, again) = (
                place.path(&format!("{index}")),
                place.path(&format!("{index} again")),
            );
            let keyspace = format!("k{index}");
            let said = place.run([&["export", text(&file), "-f", format][..], options].concat());
            if said.code != Some(0) {
                // The lines format cannot represent every record, and says so.
                prop_assert!(
                    format == "lines" && said.err.contains("choose another"),
                    "{said:?}"
                );
                continue;
            }
            said_it += 1;
            place.done(
                [
                    &["import", text(&file), "-f", format, "-k", &keyspace][..],
                    options,
                ]
                .concat(),
            );
            place.done(
                [
                    &["export", text(&again), "-f", format, "-k", &keyspace][..],
                    options,
                ]
                .concat(),
            );
            let (before, after) = (fs::read(&file).unwrap(), fs::read(&again).unwrap());
            prop_assert_eq!(before, after, "{} {:?}", format, options);
        }
        prop_assert!(said_it >= 8);
        Ok(())
    };
    runner.run(&records, round).unwrap();
    // Cover an empty table, and one that every format can represent.
    round(std::collections::BTreeMap::new()).unwrap();
    round([(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), Vec::new())].into()).unwrap();
}

/// Imports a table with a key column, and exports its values in the given format.
fn there_and_back(place: &Place, table: &[u8], import: &[&str], export: &[&str]) -> Said {
    let file = place.file("table", table);
    place.done([&["import", text(&file), "-k", "table", "--restart"][..], import].concat());
    let said = place.done([&["export", "-", "--values-only", "-k", "table"][..], export].concat());
    place.done(["keyspaces", "drop", "table", "--yes"]);
    said
}

#[test]
fn tables_with_any_line_end_header_and_separator_come_back_byte_for_byte() {
    let place = Place::new();
    for end in ["\n", "\r\n", "\r"] {
        for (format, separator) in [("csv", ","), ("tsv", "\t"), ("csv", ";")] {
            for rows in [
                &["01|\"two\nlines \"\"so\"\"\"|", "02||x"][..],
                &["1|\"\"|\0"],
                &[],
            ] {
                let rows: String = rows.iter().map(|row| row.replace('|', separator) + end).collect();
                let header = format!("id|\"a name\"|b{end}").replace('|', separator);
                let with = ["-f", format, "--key", "id"];
                let mut options = vec!["-f", format];
                if separator == ";" {
                    options.extend(["--separator", ";"]);
                }
                let table = format!("{header}{rows}");
                let import = [&options[..], &["--key", "id"]].concat();
                let said = there_and_back(&place, table.as_bytes(), &import, &with[..2]);
                assert_eq!(said.text(), table, "{format} {separator:?} {end:?}");
                let import = [&options[..], &["--key", "1", "--no-header"]].concat();
                let said = there_and_back(&place, rows.as_bytes(), &import, &with[..2]);
                assert_eq!(said.text(), rows, "{format} {separator:?} {end:?}, no header");
            }
        }
    }
    // A byte order mark, and a header without a line end.
    let table = b"\xef\xbb\xbfid,a,b\r\n1,2,3\r\n";
    let said = there_and_back(&place, table, &["-f", "csv", "--key", "id"], &["-f", "csv"]);
    assert_eq!(said.out, table);
    let said = there_and_back(&place, b"id,a,b", &["-f", "csv", "--key", "id"], &["-f", "csv"]);
    assert_eq!(said.out, b"id,a,b\n");
    // Another separator leaves the fields unchanged.
    let said = there_and_back(
        &place,
        b"id,a,b\r\n1,\"x,y\",\t\r\n",
        &["-f", "csv", "--key", "id"],
        &["-f", "tsv"],
    );
    assert_eq!(said.text(), "id\ta\tb\r\n1\tx,y\t\"\t\"\r\n");
}

#[test]
fn values_that_are_one_column_are_written_below_its_name_alone() {
    let place = Place::new();
    let table = b"city,\"po,p\"\r\nA,1\r\nB,\"x\"\"\ny\"\r\nC,\r\n";
    let said = there_and_back(&place, table, &["-f", "csv", "--key", "city"], &["-f", "csv"]);
    assert_eq!(said.text(), "\"po,p\"\r\n1\r\n\"x\"\"\ny\"\r\n\"\"\r\n");
    // The same for values that were not imported from a table.
    place.done(["put", "a", "x,\"y\"\n"]);
    let said = place.done(["export", "-", "-f", "csv", "--values-only"]);
    assert_eq!(said.text(), "value\n\"x,\"\"y\"\"\n\"\n");
    // A value that is not a row of the table is refused; the message names its key.
    let file = place.file("rows.csv", "id,a,b\n1,2,3\n");
    place.done(["import", text(&file), "--key", "id", "-k", "rows"]);
    place.done(["put", "-k", "rows", "7", "x\ny"]);
    place
        .run(["export", "-", "-f", "csv", "-k", "rows", "--values-only"])
        .ended(3)
        .complained("the key \"7\" is not a row with the 3 columns");
}

#[test]
fn a_layout_goes_where_its_keyspace_goes() {
    let place = Place::new();
    let table = "id,a,b\r\n1,2,3\r\n";
    let file = place.file("rows.csv", table);
    place.done(["import", text(&file), "--key", "id", "-k", "rows"]);
    place.done(["keyspaces", "rename", "rows", "other"]);
    let values = |keyspace: &str| {
        place
            .done(["export", "-", "-f", "csv", "-k", keyspace, "--values-only"])
            .text()
    };
    assert_eq!(values("other"), table);
    place.done(["keyspaces", "drop", "other", "--yes"]);
    place.done(["put", "-k", "other", "a", "1"]);
    assert_eq!(values("other"), "value\n1\n");
}

#[test]
fn a_quote_that_is_never_closed_is_an_error_with_its_line() {
    let place = Place::new();
    let file = place.file("a.csv", "key,value\n\na,1\nb,\"2\nc,3\nd,4\n");
    place
        .run(["import", text(&file)])
        .ended(4)
        .complained("a.csv, line 4: the quote that opens here is never closed")
        .complained("the rows before it are imported");
    assert_eq!(place.done(["scan"]).text(), "a\t1\n");
    // The text after the second quote reveals that the first one is not closed.
    let file = place.file("b.csv", "key,value\na,\"1\nb,\"2\"\nc,3\n");
    place
        .run(["import", text(&file), "-k", "b"])
        .ended(4)
        .complained("b.csv, line 2: text follows the closing quote of column 2")
        .complained("nothing is imported");
    // The same in a header.
    let file = place.file("c.csv", "key,\"value\na,1\n");
    place
        .run(["import", text(&file), "-k", "c"])
        .ended(2)
        .complained("never closed");
}

#[test]
fn a_row_takes_bounded_memory() {
    let place = Place::new();
    let mut child = place
        .command(["import", "-", "-f", "csv"])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let status = std::path::PathBuf::from(format!("/proc/{}/status", child.id()));
    let peak = || {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
    };
    use std::io::Write;
    stdin.write_all(b"key,value\na,1\nb,\"").unwrap();
    let (block, mut most, mut fed) = (vec![b'x'; 1 << 20], 0, 0);
    while fed < 256 && stdin.write_all(&block).is_ok() {
        most = peak().unwrap_or(most).max(most);
        fed += 1;
    }
    drop(stdin);
    let said: Said = child.wait_with_output().unwrap().into();
    said.ended(4)
        .complained("line 3: the quote that opens here is not closed")
        .complained("--memory");
    assert!(fed < 64, "{fed} MiB were taken");
    assert!((1..160 << 10).contains(&most), "{most} KiB");
}
