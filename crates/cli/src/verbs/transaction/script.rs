//! Parses the lines of a script.

use crate::values::bytes::ByteEncoding;
use alluvium::text::split_words;
use alluvium_server::control::{ReadPurpose, ScanContent, ScanOrder, ScanRequest, TransactionStep};

/// The names of all operations. The error for an unknown operation lists them.
const OPERATIONS: &str = "use, get, get-for-update, put, delete, delete-range, scan, savepoint, rollback-to, \
                          commit, rollback";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptLine {
    /// The line is empty or contains only a comment.
    Blank,
    /// Sets the default keyspace for the following lines.
    Use(String),
    Step(TransactionStep),
}

/// Returns whether a line is empty or contains only a comment.
pub(super) fn is_blank(line: &[u8]) -> bool {
    split_words(line).is_ok_and(|words| words.is_empty())
}

/// Parses a line. `keyspace` is the current default keyspace.
pub(super) fn parse(line: &[u8], encoding: ByteEncoding, keyspace: &str) -> Result<ScriptLine, String> {
    let words = split_words(line)?;
    let Some((first, rest)) = words.split_first() else {
        return Ok(ScriptLine::Blank);
    };
    if let Some(read) = operation(first, rest, encoding, keyspace) {
        return read;
    }
    // The first word may name a keyspace, which then applies only to this line.
    let named = rest.split_first().and_then(|(second, rest)| {
        let read = name(first).and_then(|keyspace| operation(second, rest, encoding, &keyspace).transpose());
        read.transpose()
    });
    match named {
        Some(Ok(ScriptLine::Use(_))) | None => Err(format!(
            "{:?} is not an operation: the operations are {OPERATIONS}, with or without a keyspace before them",
            first.escape_ascii().to_string()
        )),
        Some(read) => read,
    }
}

/// Parses an operation and its arguments. Returns `None` if the name of the operation is unknown.
fn operation(
    word: &[u8],
    rest: &[Vec<u8>],
    encoding: ByteEncoding,
    keyspace: &str,
) -> Option<Result<ScriptLine, String>> {
    let keyspace = keyspace.to_owned();
    let bytes = |word: &Vec<u8>| decoded(encoding, word);
    let step = |step: Result<TransactionStep, String>| step.map(ScriptLine::Step);
    let wanted = |words: &str| {
        let said = String::from_utf8_lossy(word).into_owned();
        Err(format!(
            "write `{}`, with double quotes around a key or value that has blanks",
            format!("{said} {words}").trim_end()
        ))
    };
    let get = |keyspace, key: &Vec<u8>, purpose| {
        step(bytes(key).map(|key| TransactionStep::Get {
            keyspace,
            key,
            purpose,
        }))
    };
    Some(match (word, rest) {
        (b"use", [word]) => name(word).map(ScriptLine::Use),
        (b"use", _) => wanted("KEYSPACE"),
        (b"get", [key]) => get(keyspace, key, ReadPurpose::Value),
        (b"get-for-update", [key]) => get(keyspace, key, ReadPurpose::Update),
        (b"get" | b"get-for-update", _) => wanted("KEY"),
        (b"put", [key, value]) => step(bytes(key).and_then(|key| {
            Ok(TransactionStep::Put {
                keyspace,
                key,
                value: bytes(value)?,
            })
        })),
        (b"put", _) => wanted("KEY VALUE"),
        (b"delete", [key]) => step(bytes(key).map(|key| TransactionStep::Delete { keyspace, key })),
        (b"delete", _) => wanted("KEY"),
        (b"delete-range", [from, to @ ..]) if to.len() <= 1 => {
            step(bounds(Some(from), to.first(), bytes).map(|range| deleted(keyspace, range)))
        }
        (b"delete-range", _) => wanted("FROM [TO]"),
        (b"scan", words) if words.len() <= 2 => {
            step(bounds(words.first(), words.get(1), bytes).map(|range| scanned(keyspace, range)))
        }
        (b"scan", _) => wanted("[FROM [TO]]"),
        (b"savepoint", [word]) => step(name(word).map(TransactionStep::Savepoint)),
        (b"rollback-to", [word]) => step(name(word).map(TransactionStep::RollbackTo)),
        (b"savepoint" | b"rollback-to", _) => wanted("NAME"),
        (b"commit", []) => Ok(ScriptLine::Step(TransactionStep::Commit)),
        (b"rollback", []) => Ok(ScriptLine::Step(TransactionStep::Rollback)),
        (b"commit" | b"rollback", _) => wanted(""),
        _ => return None,
    })
}

/// The first key of a range, and its exclusive end if it has one.
type ScriptRange = (Vec<u8>, Option<Vec<u8>>);

fn deleted(keyspace: String, (from, to): ScriptRange) -> TransactionStep {
    TransactionStep::DeleteRange { keyspace, from, to }
}

fn scanned(keyspace: String, (from, to): ScriptRange) -> TransactionStep {
    TransactionStep::Scan(ScanRequest {
        keyspace,
        from,
        to,
        direction: ScanOrder::Forward,
        limit: None,
        what: ScanContent::Pairs,
    })
}

fn bounds(
    from: Option<&Vec<u8>>,
    to: Option<&Vec<u8>>,
    bytes: impl Fn(&Vec<u8>) -> Result<Vec<u8>, String>,
) -> Result<ScriptRange, String> {
    let from = from.map(&bytes).transpose()?.unwrap_or_default();
    let to = to.map(&bytes).transpose()?;
    match &to {
        Some(to) if *to <= from => Err("the end of the range must be greater than its start".to_owned()),
        _ => Ok((from, to)),
    }
}

fn decoded(encoding: ByteEncoding, word: &[u8]) -> Result<Vec<u8>, String> {
    encoding.decode(word).map_err(|error| error.to_string())
}

fn name(word: &[u8]) -> Result<String, String> {
    let text = String::from_utf8(word.to_vec());
    text.map_err(|_| "names of keyspaces and savepoints must be UTF-8 text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<ScriptLine, String> {
        parse(line.as_bytes(), ByteEncoding::default(), "default")
    }

    fn put(keyspace: &str, key: &[u8], value: &[u8]) -> Result<ScriptLine, String> {
        Ok(ScriptLine::Step(TransactionStep::Put {
            keyspace: keyspace.to_owned(),
            key: key.to_vec(),
            value: value.to_vec(),
        }))
    }

    #[test]
    fn words_are_plain_quoted_or_escaped() {
        assert_eq!(read("put Elbe 1094"), put("default", b"Elbe", b"1094"));
        assert_eq!(
            read(r#"  put "river Elbe" "say \"km\" \\" # long"#),
            put("default", b"river Elbe", b"say \"km\" \\")
        );
        assert_eq!(read(r#"put a\x00\n """#), put("default", b"a\0\n", b""));
        assert_eq!(read("put a#1 b"), put("default", b"a#1", b"b"));
        assert_eq!(read("   # nothing"), Ok(ScriptLine::Blank));
        assert_eq!(read(""), Ok(ScriptLine::Blank));
    }

    #[test]
    fn a_keyspace_stands_before_an_operation_or_is_used_from_then_on() {
        assert_eq!(read("rivers put Elbe 1"), put("rivers", b"Elbe", b"1"));
        assert_eq!(read("\"my rivers\" put Elbe 1"), put("my rivers", b"Elbe", b"1"));
        assert_eq!(read("use get"), Ok(ScriptLine::Use("get".to_owned())));
        // A first word that names an operation is never taken for a keyspace.
        assert!(read("get put a b").is_err());
    }

    #[test]
    fn bytes_are_typed_as_chosen() {
        let hex = ByteEncoding {
            hex: true,
            base64: false,
        };
        assert_eq!(
            parse(b"put 00ff 61", hex, "default"),
            put("default", &[0, 255], b"a")
        );
        assert!(parse(b"put 0 61", hex, "default").unwrap_err().contains("--hex"));
    }

    #[test]
    fn bad_lines_say_what_to_write() {
        for (line, said) in [
            ("putt a b", "not an operation"),
            ("rivers use lakes", "not an operation"),
            ("rivers lakes put a b", "not an operation"),
            ("put a", "put KEY VALUE"),
            ("get", "get KEY"),
            ("commit now", "`commit`"),
            ("scan a b c", "scan [FROM [TO]]"),
            ("scan b a", "greater than its start"),
            ("delete-range", "delete-range FROM [TO]"),
            ("put \"a b", "never closed"),
            ("put \"a\"b c", "closing quote"),
            ("put a\\q b", "backslash"),
            ("savepoint \\xff", "UTF-8"),
        ] {
            let why = read(line).unwrap_err();
            assert!(why.contains(said), "{line}: {why}");
        }
    }

    #[test]
    fn no_bytes_are_a_panic() {
        let mut random = fastrand::Rng::with_seed(28);
        let parts: [&[u8]; 14] = [
            b"put", b"use", b"scan", b" ", b"\t", b"\"", b"\\", b"\\x", b"f", b"0", b"#", b"\xff", b"a",
            b"commit",
        ];
        for _ in 0..50_000 {
            let line: Vec<u8> = (0..random.usize(..9))
                .flat_map(|_| parts[random.usize(..parts.len())].to_vec())
                .collect();
            // Parsing may succeed or fail, but it must not panic.
            let _ = parse(&line, ByteEncoding::default(), "default");
        }
    }
}
