//! In every format, the reader reads back what the writer wrote, for arbitrary bytes that arrive in
//! arbitrary pieces.

use alluvium_cli::formats::binary::BinaryFormat;
use alluvium_cli::formats::csv::{
    self, CsvContent, CsvReader, CsvWriter, HeaderPolicy, LineEnd, TableLayout,
};
use alluvium_cli::formats::json::{JsonMapping, JsonReader, JsonWriter};
use alluvium_cli::formats::lines::{LineFormat, LineParts};
use alluvium_cli::formats::redis::RedisFormat;
use alluvium_cli::formats::{InputSource, KeyTemplate, NextRow, ReadRows, RowChange, RowChanges, WriteRows};
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::{Cursor, Read};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Delivers bytes in small pieces, as a pipe may.
struct Dribble(Cursor<Vec<u8>>, usize);

impl Read for Dribble {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = buffer.len().min(self.1);
        self.0.read(&mut buffer[..most])
    }
}

/// Byte sequences that are special in some format.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop_oneof![
        Just(b"\"".to_vec()),
        Just(b"\"\"".to_vec()),
        Just(b",".to_vec()),
        Just(b"\t".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\0".to_vec()),
        Just(b"\\".to_vec()),
        Just(b"\xef\xbb\xbf".to_vec()),
        Just(b"$3\r\n".to_vec()),
        vec(any::<u8>(), 1..4),
        "[a-zé]{1,5}".prop_map(String::into_bytes),
    ];
    vec(pieces, 0..6).prop_map(|pieces| pieces.concat())
}

fn pairs() -> impl Strategy<Value = Pairs> {
    vec((hostile(), hostile()), 0..12)
}

fn written(writer: &mut dyn WriteRows, pairs: &Pairs) -> Vec<u8> {
    let mut out = Vec::new();
    writer.begin(&mut out).unwrap();
    for (key, value) in pairs {
        writer.row(&mut out, key, value).unwrap();
    }
    writer.end(&mut out).unwrap();
    out
}

fn source(bytes: &[u8], at: usize, piece: usize) -> InputSource {
    InputSource::new(
        Box::new(Dribble(Cursor::new(bytes[at..].to_vec()), piece)),
        at as u64,
    )
}

/// Returns the pairs that a reader yields. After each row, a new reader continues from the same
/// position, as after a kill.
fn found(bytes: &[u8], piece: usize, reader: impl Fn(&mut InputSource, u64) -> Box<dyn ReadRows>) -> Pairs {
    let mut all = Pairs::new();
    let mut input = source(bytes, 0, piece);
    let mut current = reader(&mut input, 0);
    loop {
        let (mut row, mut changes) = (0, RowChanges::new());
        match current.next(&mut input, &mut row, &mut changes).unwrap() {
            NextRow::Row => {}
            NextRow::Bad(why) => panic!("{why}"),
            NextRow::End => return all,
        }
        for change in changes.iter() {
            let RowChange::Put(key, value, None) = change else {
                panic!("{change:?}")
            };
            all.push((key.to_vec(), value.to_vec()));
        }
        input.take(row);
        if all.len() % 2 == 1 {
            input = source(bytes, usize::try_from(input.offset()).unwrap(), piece);
            current = reader(&mut input, all.len() as u64);
        }
    }
}

fn head(header: &str, line_end: LineEnd) -> TableLayout {
    TableLayout {
        header: Some(header.as_bytes().to_vec()),
        columns: header.split([',', '\t']).count(),
        line_end,
    }
}

fn table(separator: u8, head: TableLayout) -> impl Fn(&mut InputSource, u64) -> Box<dyn ReadRows> {
    move |source, _| {
        let options = csv::CsvOptions {
            separator,
            key: KeyTemplate::parse("key").unwrap(),
            value: None,
        };
        if source.offset() == 0 {
            assert_eq!(csv::header(source, separator).unwrap(), head);
        }
        Box::new(CsvReader::new(&options, &head).unwrap())
    }
}

/// Parses the fields of rows with an independent library.
fn fields_by_csv_core(bytes: &[u8], separator: u8) -> Vec<Vec<Vec<u8>>> {
    let mut reader = csv_core::ReaderBuilder::new().delimiter(separator).build();
    let (mut rows, mut input) = (Vec::new(), bytes);
    let (mut room, mut ends) = (vec![0; 1 << 16], vec![0; 1 << 10]);
    loop {
        let (mut written, mut ended) = (0, 0);
        loop {
            let (result, read, out, more) =
                reader.read_record(input, &mut room[written..], &mut ends[ended..]);
            input = &input[read..];
            (written, ended) = (written + out, ended + more);
            match result {
                csv_core::ReadRecordResult::Record => break,
                csv_core::ReadRecordResult::End => return rows,
                csv_core::ReadRecordResult::InputEmpty => {}
                other => panic!("{other:?}"),
            }
        }
        let starts = std::iter::once(&0).chain(&ends);
        let fields = starts
            .zip(&ends[..ended])
            .map(|(&start, &end)| room[start..end].to_vec());
        rows.push(fields.collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn csv_and_tsv_say_everything(pairs in pairs(), piece in 1usize..9) {
        for (separator, header) in [(b',', "key,value"), (b'\t', "key\tvalue")] {
            let mut writer = CsvWriter::new(separator, CsvContent::Pairs, HeaderPolicy::Written).unwrap();
            let bytes = written(&mut writer, &pairs);
            let read = found(&bytes, piece, table(separator, head(header, LineEnd::Lf)));
            prop_assert_eq!(&read, &pairs);
            let fields = pairs.iter().map(|(key, value)| vec![key.clone(), value.clone()]).collect::<Vec<_>>();
            prop_assert_eq!(&fields_by_csv_core(&bytes, separator)[1..], fields);
        }
    }

    #[test]
    fn json_lines_say_everything(pairs in pairs(), piece in 1usize..9) {
        let bytes = written(&mut JsonWriter::Pairs, &pairs);
        prop_assert_eq!(found(&bytes, piece, |_, _| Box::new(JsonReader::new(JsonMapping::Pairs))), pairs);
    }

    #[test]
    fn values_of_json_are_kept_as_they_stand(
        number in "-?(0|[1-9][0-9]{0,40})([.][0-9]{1,30})?([eE][-+]?[0-9]{1,4})?",
        blank in "[ \t]{0,2}",
        piece in 1usize..9,
    ) {
        let nested = format!("{{\"z\":{blank}[{number},{blank}{number}{blank}],\"a\":{{\"n\":{number}}},\"a\":{number}}}");
        let row = format!("{{{blank}\"id\":{blank}{number}{blank},\"in\":{nested},\"v\":\"x\"}}");
        let read = |key: &str, value: Option<&str>| {
            let shape = JsonMapping::Fields(KeyTemplate::parse(key).unwrap(), value.map(str::to_owned));
            let mut pairs = found(row.as_bytes(), piece, |_, _| Box::new(JsonReader::new(shape.clone())));
            prop_assert_eq!(pairs.len(), 1);
            let (key, value) = pairs.remove(0);
            Ok((String::from_utf8(key).unwrap(), String::from_utf8(value).unwrap()))
        };
        prop_assert_eq!(read("id", Some("v"))?, (number.clone(), "x".to_owned()));
        prop_assert_eq!(read("{v}-{id}", Some("id"))?, (format!("x-{number}"), number.clone()));
        prop_assert_eq!(read("in.a", Some("in"))?, (number.clone(), nested));
        prop_assert_eq!(read("v", Some("in.z"))?.1, format!("[{number},{blank}{number}{blank}]"));
        let (key, value) = read("v", None)?;
        prop_assert_eq!(&value, &row);
        // Values that are rows are written back verbatim, even their numbers.
        let pairs = vec![(key.into_bytes(), value.into_bytes())];
        prop_assert_eq!(written(&mut JsonWriter::Values, &pairs), format!("{row}\n").into_bytes());
    }

    #[test]
    fn binary_says_everything(pairs in pairs(), piece in 1usize..9) {
        let bytes = written(&mut BinaryFormat::new(), &pairs);
        prop_assert_eq!(found(&bytes, piece, |_, behind| Box::new(BinaryFormat::behind(behind))), pairs);
    }

    #[test]
    fn redis_protocol_says_everything(pairs in pairs(), piece in 1usize..9) {
        let bytes = written(&mut RedisFormat::new(), &pairs);
        prop_assert_eq!(found(&bytes, piece, |_, _| Box::new(RedisFormat::new())), pairs);
    }

    #[test]
    fn lines_say_it_or_refuse(pairs in pairs(), piece in 1usize..9) {
        for separator in ["\t", "::", "aa"] {
            let mut writer = LineFormat::new(LineParts::Both(separator.as_bytes().to_vec()));
            let mut kept = Pairs::new();
            for (key, value) in &pairs {
                if writer.row(&mut Vec::new(), key, value).is_ok() {
                    kept.push((key.clone(), value.clone()));
                }
            }
            let bytes = written(&mut writer, &kept);
            let again = found(&bytes, piece, |_, _| Box::new(LineFormat::new(LineParts::Both(separator.as_bytes().to_vec()))));
            prop_assert_eq!(again, kept);
        }
    }

    #[test]
    fn rows_of_csv_are_kept_as_they_stand(
        cells in vec((hostile(), hostile(), hostile()), 0..8),
        end in prop::sample::select(LineEnd::ALL.to_vec()),
        piece in 1usize..9,
    ) {
        let mut writer = csv_core::Writer::new();
        let mut bytes = [b"key,a,b", end.bytes()].concat();
        let mut room = vec![0; 4096];
        for (key, a, b) in &cells {
            let mut at = 0;
            for (index, field) in [key, a, b].into_iter().enumerate() {
                if index > 0 {
                    at += writer.delimiter(&mut room[at..]).1;
                }
                at += writer.field(field, &mut room[at..]).2;
            }
            // The terminator also emits the closing quote of the last field.
            at += writer.terminator(&mut room[at..]).1;
            bytes.extend_from_slice(&room[..at - 1]);
            bytes.extend_from_slice(end.bytes());
        }
        let head = head("key,a,b", end);
        let rows = found(&bytes, piece, table(b',', head.clone()));
        let keys: Vec<_> = rows.iter().map(|row| &row.0).collect();
        prop_assert_eq!(keys, cells.iter().map(|cell| &cell.0).collect::<Vec<_>>());
        let again = written(&mut CsvWriter::new(b',', CsvContent::Table(b',', head.clone()), HeaderPolicy::Written).unwrap(), &rows);
        prop_assert_eq!(&again, &bytes);
        // Another separator leaves the fields unchanged.
        let tabs = written(&mut CsvWriter::new(b'\t', CsvContent::Table(b',', head), HeaderPolicy::Written).unwrap(), &rows);
        prop_assert_eq!(fields_by_csv_core(&tabs, b'\t'), fields_by_csv_core(&bytes, b','));
    }

    #[test]
    fn a_column_of_csv_says_everything(values in vec(hostile(), 0..8), piece in 1usize..9) {
        let pairs: Pairs = values.iter().map(|value| (value.clone(), value.clone())).collect();
        let mut writer = CsvWriter::new(b',', CsvContent::Fields("key".to_owned(), LineEnd::CrLf), HeaderPolicy::Written).unwrap();
        let bytes = written(&mut writer, &pairs);
        let read = found(&bytes, piece, table(b',', head("key", LineEnd::CrLf)));
        prop_assert_eq!(read.into_iter().map(|row| row.0).collect::<Vec<_>>(), values);
    }

    #[test]
    fn no_bytes_make_a_reader_of_csv_panic(pieces in vec(hostile(), 0..20), piece in 1usize..9) {
        let bytes = pieces.concat();
        let options = csv::CsvOptions { separator: b',', key: KeyTemplate::parse("1").unwrap(), value: None };
        let mut input = source(&bytes, 0, piece);
        let Ok(head) = csv::first_row(&mut input, b',') else { return Ok(()) };
        let mut reader = CsvReader::new(&options, &head).unwrap();
        let (mut row, mut changes) = (0, RowChanges::new());
        while let Ok(NextRow::Row | NextRow::Bad(_)) = reader.next(&mut input, &mut row, &mut changes) {
            prop_assert!(row > 0);
            input.take(row);
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in vec(any::<u8>(), 0..200), piece in 1usize..40) {
        let readers: [Box<dyn ReadRows>; 4] = [
            Box::new(JsonReader::new(JsonMapping::Pairs)),
            Box::new(BinaryFormat::new()),
            Box::new(RedisFormat::new()),
            Box::new(LineFormat::new(LineParts::Key)),
        ];
        for mut reader in readers {
            for start in [&b""[..], b"ALLUVKV\x01", b"*3\r\n$3\r\nSET\r\n$"] {
                let mut input = source(&[start, &bytes].concat(), 0, piece);
                let (mut row, mut changes) = (0, RowChanges::new());
                while let Ok(NextRow::Row | NextRow::Bad(_)) = reader.next(&mut input, &mut row, &mut changes) {
                    prop_assert!(row > 0);
                    input.take(row);
                    changes.clear();
                }
            }
        }
    }
}
