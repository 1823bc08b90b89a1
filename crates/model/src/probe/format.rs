//! The format of a probe's samples, version 1: lines of text in the file `probe.txt` in a store's
//! directory.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0    17  "alluvium probe 1\n": what it is, and its version
//!     17        lines, each a word, and what follows a blank:
//!               began SECONDS since 1970
//!               medium device, page-cache, memory or network
//!               file-system NAME
//!               span BYTES of the file
//!               elapsed NANOSECONDS
//!               window KIND ORDER ISSUE BYTES DEPTH ROUND REQUESTS ELAPSED CPU TYPICAL:
//!                      read or write; random, sequential or near; steady or batch;
//!                      the times in nanoseconds
//!               sync NANOSECONDS
//!               filled BYTES NANOSECONDS
//!               lasting BYTES NANOSECONDS
//!               note TEXT
//!               end XXH3 of all bytes before it, in 16 hexadecimal digits: the last line
//!               "\n" as often as makes the length a multiple of 512
//! ```
//!
//! Lines of the same kind are in chronological order. Each of the first five kinds occurs exactly
//! once. Numbers are decimal and less than 2⁶⁴. This version rejects unknown lines, so a new kind
//! of line needs a new version number.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use alluvium_base::checksum;
use alluvium_base::cost::AccessKind;
pub use alluvium_base::measurements::FILE;
use alluvium_base::measurements::{
    DeviceMeasurements, IssueMode, Medium, OffsetOrder, ProbePoint, ProbeSample, TransferSlice,
};
use std::fmt;
use std::fmt::Write as _;

/// Maximum size in bytes of a stored probe, which is many times the usual size.
pub const MOST_BYTES: usize = 1 << 20;

/// The file size is padded to a multiple of this number of bytes, because direct I/O reads whole
/// blocks.
const BLOCK: usize = 512;

const HEAD: &str = "alluvium probe ";
const VERSION: u32 = 1;

/// Maximum plausible number of requests in flight, and maximum plausible length of a request in
/// bytes.
const MOST_DEPTH: u32 = 1 << 16;
const MOST_REQUEST: u64 = 1 << 40;

/// The reason why bytes are not a valid stored probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadProbe {
    /// The bytes are not a stored probe, or a stored probe of another version.
    NotAProbe {
        /// The first bytes of the input, at most as many as the expected header.
        begin: String,
    },
    /// The header is valid, but a line after it is not.
    Damaged {
        /// Number of the invalid line, starting at 1.
        line: usize,
        expected: &'static str,
        found: String,
    },
    /// The input exceeds the maximum size of a stored probe.
    TooLong { bytes: usize },
}

impl fmt::Display for BadProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadProbe::NotAProbe { begin } => write!(
                f,
                "it begins with {begin:?}, but a stored probe of this version begins with \"{HEAD}{VERSION}\""
            ),
            BadProbe::Damaged {
                line,
                expected,
                found,
            } => write!(f, "line {line} has {found:?} where {expected} was expected"),
            BadProbe::TooLong { bytes } => {
                write!(
                    f,
                    "it has {bytes} bytes, but a stored probe has at most {MOST_BYTES}"
                )
            }
        }?;
        f.write_str("; remove it, and measure again with `alluvium probe`")
    }
}

impl std::error::Error for BadProbe {}

const MEDIA: [(Medium, &str); 4] = [
    (Medium::Device, "device"),
    (Medium::PageCache, "page-cache"),
    (Medium::Memory, "memory"),
    (Medium::Network, "network"),
];
const KINDS: [(AccessKind, &str); 2] = [(AccessKind::Read, "read"), (AccessKind::Write, "write")];
const ORDERS: [(OffsetOrder, &str); 3] = [
    (OffsetOrder::Random, "random"),
    (OffsetOrder::Sequential, "sequential"),
    (OffsetOrder::Near, "near"),
];
const ISSUES: [(IssueMode, &str); 2] = [(IssueMode::Steady, "steady"), (IssueMode::Batch, "batch")];

/// Returns the word that represents a value in the format.
fn word<T: PartialEq>(table: &[(T, &'static str)], value: &T) -> &'static str {
    let found = table.iter().find(|(one, _)| one == value);
    found.map_or("", |&(_, word)| word)
}

/// Encodes measurements as the contents of `probe.txt`, including the checksum.
#[must_use]
pub fn encode(measured: &DeviceMeasurements) -> Vec<u8> {
    let mut text = format!("{HEAD}{VERSION}\n");
    let mut line = |words: fmt::Arguments<'_>| {
        text.write_fmt(words).expect("memory takes text");
        text.push('\n');
    };
    line(format_args!("began {}", measured.began_s));
    line(format_args!("medium {}", word(&MEDIA, &measured.medium)));
    line(format_args!("file-system {}", one_line(&measured.file_system)));
    line(format_args!("span {}", measured.span_bytes));
    line(format_args!("elapsed {}", measured.elapsed_ns));
    for window in &measured.samples {
        let point = window.point;
        line(format_args!(
            "window {} {} {} {} {} {} {} {} {} {}",
            word(&KINDS, &point.kind),
            word(&ORDERS, &point.order),
            word(&ISSUES, &point.issue),
            point.bytes,
            point.depth,
            window.round,
            window.requests,
            window.elapsed_ns,
            window.cpu_ns,
            window.typical_ns
        ));
    }
    for took_ns in &measured.syncs_ns {
        line(format_args!("sync {took_ns}"));
    }
    for (name, slices) in [("filled", &measured.filled), ("lasting", &measured.sustained)] {
        for slice in slices {
            line(format_args!("{name} {} {}", slice.bytes, slice.elapsed_ns));
        }
    }
    for note in &measured.notes {
        line(format_args!("note {}", one_line(note)));
    }
    let sum = checksum(text.as_bytes());
    text.push_str(&format!("end {sum:016x}\n"));
    let mut bytes = text.into_bytes();
    bytes.resize(bytes.len().next_multiple_of(BLOCK), b'\n');
    bytes
}

/// Replaces each line break by a blank, so that the text fits in one line of the format.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Decodes measurements from the contents of `probe.txt`.
///
/// # Errors
/// [`BadProbe`] if the bytes are invalid.
pub fn decode(bytes: &[u8]) -> Result<DeviceMeasurements, BadProbe> {
    if bytes.len() > MOST_BYTES {
        return Err(BadProbe::TooLong { bytes: bytes.len() });
    }
    let head = format!("{HEAD}{VERSION}\n");
    if !bytes.starts_with(head.as_bytes()) {
        let begin = bytes.get(..bytes.len().min(head.len())).unwrap_or_default();
        return Err(BadProbe::NotAProbe {
            begin: String::from_utf8_lossy(begin).into_owned(),
        });
    }
    let text = checked(bytes)?;
    let mut measured = DeviceMeasurements {
        began_s: 0,
        medium: Medium::Device,
        file_system: String::new(),
        span_bytes: 0,
        elapsed_ns: 0,
        samples: Vec::new(),
        syncs_ns: Vec::new(),
        filled: Vec::new(),
        sustained: Vec::new(),
        notes: Vec::new(),
    };
    let mut once = Vec::new();
    for (at, line) in text.lines().enumerate().skip(1) {
        let mut fields = LineFields::of(at + 1, line);
        if let Some(name) = fill_in(&mut measured, &mut fields)? {
            if once.contains(&name) {
                return Err(fields.bad("a line that does not repeat"));
            }
            once.push(name);
        }
    }
    if once.len() < ONCE.len() {
        return Err(BadProbe::Damaged {
            line: text.lines().count() + 1,
            expected: "one line each of began, medium, file-system, span and elapsed",
            found: "end".to_owned(),
        });
    }
    Ok(measured)
}

const ONCE: [&str; 5] = ["began", "medium", "file-system", "span", "elapsed"];

/// Verifies the checksum in the last line, and returns the lines before it.
fn checked(bytes: &[u8]) -> Result<&str, BadProbe> {
    let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
    let damaged = |line: usize, expected: &'static str, found: &[u8]| BadProbe::Damaged {
        line,
        expected,
        found: shortened(&String::from_utf8_lossy(found)),
    };
    let is_whole = bytes.len().is_multiple_of(BLOCK);
    let blank = bytes
        .iter()
        .rev()
        .take(BLOCK)
        .take_while(|&&byte| byte == b'\n')
        .count();
    let bytes = bytes.get(..bytes.len() - blank).unwrap_or_default();
    // The last line consists of "end " and 16 digits. Its line break was removed with the padding.
    let begin_of_end = bytes.len().saturating_sub(20);
    let (body, end) = bytes.split_at_checked(begin_of_end).unwrap_or((bytes, &[]));
    let is_end = is_whole && blank > 0 && body.ends_with(b"\n") && end.starts_with(b"end ");
    if !is_end {
        let last = bytes.split(|&byte| byte == b'\n').next_back();
        return Err(damaged(
            lines,
            "the last line with its checksum",
            last.unwrap_or_default(),
        ));
    }
    let expected = format!("end {:016x}", checksum(body));
    if expected.as_bytes() != end {
        return Err(damaged(lines, "the checksum of the preceding lines", end));
    }
    std::str::from_utf8(body).map_err(|_| damaged(1, "text", body))
}

/// Decodes a line and adds it to the measurements. Returns its first word if this kind of line may
/// occur only once.
fn fill_in(
    measured: &mut DeviceMeasurements,
    fields: &mut LineFields<'_>,
) -> Result<Option<&'static str>, BadProbe> {
    match fields.word {
        "began" => measured.began_s = fields.number()?,
        "medium" => measured.medium = fields.one_of(&MEDIA)?,
        "file-system" => measured.file_system = fields.all().to_owned(),
        "span" => measured.span_bytes = fields.number()?,
        "elapsed" => measured.elapsed_ns = fields.number()?,
        "window" => measured.samples.push(window(fields)?),
        "sync" => measured.syncs_ns.push(fields.number()?),
        "filled" => measured.filled.push(slice(fields)?),
        "lasting" => measured.sustained.push(slice(fields)?),
        "note" => measured.notes.push(fields.all().to_owned()),
        _ => return Err(fields.bad("a keyword of this version")),
    }
    fields.end()?;
    Ok(ONCE.into_iter().find(|name| *name == fields.word))
}

fn window(fields: &mut LineFields<'_>) -> Result<ProbeSample, BadProbe> {
    let point = ProbePoint {
        kind: fields.one_of(&KINDS)?,
        order: fields.one_of(&ORDERS)?,
        issue: fields.one_of(&ISSUES)?,
        bytes: fields.number()?,
        depth: fields.small_number()?,
    };
    if point.bytes == 0 || point.bytes > MOST_REQUEST || point.depth == 0 || point.depth > MOST_DEPTH {
        return Err(fields.bad("a request whose size and depth are within the limits"));
    }
    Ok(ProbeSample {
        point,
        round: fields.small_number()?,
        requests: fields.number()?,
        elapsed_ns: fields.number()?,
        cpu_ns: fields.number()?,
        typical_ns: fields.number()?,
    })
}

fn slice(fields: &mut LineFields<'_>) -> Result<TransferSlice, BadProbe> {
    Ok(TransferSlice {
        bytes: fields.number()?,
        elapsed_ns: fields.number()?,
    })
}

/// A line whose fields are parsed one after the other.
struct LineFields<'a> {
    number: usize,
    line: &'a str,
    word: &'a str,
    rest: &'a str,
}

impl<'a> LineFields<'a> {
    fn of(number: usize, line: &'a str) -> LineFields<'a> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        LineFields {
            number,
            line,
            word,
            rest,
        }
    }

    fn bad(&self, expected: &'static str) -> BadProbe {
        BadProbe::Damaged {
            line: self.number,
            expected,
            found: shortened(self.line),
        }
    }

    fn next(&mut self) -> &'a str {
        let (field, rest) = self.rest.split_once(' ').unwrap_or((self.rest, ""));
        self.rest = rest;
        field
    }

    /// Consumes the rest of the line, including blanks, and returns it.
    fn all(&mut self) -> &'a str {
        std::mem::take(&mut self.rest)
    }

    fn number(&mut self) -> Result<u64, BadProbe> {
        let field = self.next();
        field.parse().map_err(|_| self.bad("a number"))
    }

    fn small_number(&mut self) -> Result<u32, BadProbe> {
        let field = self.next();
        field.parse().map_err(|_| self.bad("a number"))
    }

    fn one_of<T: Copy>(&mut self, table: &[(T, &'static str)]) -> Result<T, BadProbe> {
        let field = self.next();
        let found = table.iter().find(|(_, word)| *word == field);
        found
            .map(|&(value, _)| value)
            .ok_or_else(|| self.bad("one of the known words"))
    }

    fn end(&self) -> Result<(), BadProbe> {
        match self.rest {
            "" => Ok(()),
            _ => Err(self.bad("the end of the line")),
        }
    }
}

/// Truncates a text to a length that suits an error message.
fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> DeviceMeasurements {
        DeviceMeasurements {
            began_s: 1_790_000_000,
            medium: Medium::PageCache,
            file_system: "file system 0x1".to_owned(),
            span_bytes: 16 << 20,
            elapsed_ns: 5,
            samples: vec![
                ProbeSample {
                    point: ProbePoint::reads(4096),
                    round: 0,
                    requests: 10,
                    elapsed_ns: 1000,
                    cpu_ns: 50,
                    typical_ns: 99,
                },
                ProbeSample {
                    point: ProbePoint::writes(4096)
                        .in_order(OffsetOrder::Near)
                        .in_batches(32),
                    round: 3,
                    requests: u64::MAX,
                    elapsed_ns: 0,
                    cpu_ns: 0,
                    typical_ns: 0,
                },
            ],
            syncs_ns: vec![7, 8],
            filled: vec![TransferSlice {
                bytes: 1,
                elapsed_ns: 2,
            }],
            sustained: vec![TransferSlice {
                bytes: 3,
                elapsed_ns: 4,
            }],
            notes: vec!["two\nlines".to_owned(), String::new()],
        }
    }

    #[test]
    fn the_bytes_of_version_1_are_these() {
        let expected = "alluvium probe 1\nbegan 1790000000\nmedium page-cache\nfile-system file system 0x1\n\
            span 16777216\nelapsed 5\nwindow read random steady 4096 1 0 10 1000 50 99\n\
            window write near batch 4096 32 3 18446744073709551615 0 0 0\nsync 7\nsync 8\nfilled 1 2\n\
            lasting 3 4\nnote two lines\nnote \n";
        let bytes = encode(&samples());
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(text.starts_with(expected), "{text}");
        let (end, blank) = text[expected.len()..].split_at(21);
        assert_eq!(end, "end 802a20786fb4941b\n");
        assert!(blank.bytes().all(|byte| byte == b'\n') && text.len() == 512);
        let decoded = decode(&bytes).unwrap();
        let mut same = samples();
        same.notes[0] = "two lines".to_owned();
        assert_eq!(decoded, same);
    }

    #[test]
    fn every_changed_byte_and_every_missing_end_is_an_error() {
        let bytes = encode(&samples());
        for at in 0..bytes.len() {
            for change in [1, 0x20, 0x80] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                let bad = decode(&changed).unwrap_err().to_string();
                assert!(bad.ends_with("measure again with `alluvium probe`"), "{bad}");
            }
            assert!(decode(&bytes[..at]).is_err(), "{at} bytes");
        }
        let mut longer = bytes.clone();
        longer.push(b'\n');
        assert!(decode(&longer).is_err());
        longer.resize(1024, b'\n');
        assert!(decode(&longer).is_err());
        assert!(matches!(
            decode(&vec![b'a'; MOST_BYTES + 1]),
            Err(BadProbe::TooLong { .. })
        ));
    }

    /// Returns a stored probe with these lines and a valid checksum.
    fn sealed(lines: &str) -> Vec<u8> {
        let text = format!("{HEAD}{VERSION}\n{lines}");
        let mut bytes = format!("{text}end {:016x}\n", checksum(text.as_bytes())).into_bytes();
        bytes.resize(bytes.len().next_multiple_of(BLOCK), b'\n');
        bytes
    }

    #[test]
    fn what_is_whole_and_wrong_is_an_error_with_its_line() {
        let right = "began 1\nmedium device\nfile-system ext4\nspan 1\nelapsed 1\n";
        assert!(decode(&sealed(right)).is_ok());
        for (line, wrong) in [
            (7, "sync -1\n"),
            (7, "sync 18446744073709551616\n"),
            (7, "sync 1 2\n"),
            (7, "sync\n"),
            (7, "span 1\n"),
            (7, "novelty 1\n"),
            (7, "window read random steady 0 1 0 1 1 1 1\n"),
            (7, "window read random steady 4096 0 0 1 1 1 1\n"),
            (7, "window read random steady 4096 4294967296 0 1 1 1 1\n"),
            (7, "window read upwards steady 4096 1 0 1 1 1 1\n"),
            (7, "window read random steady 4096 1 0 1 1 1\n"),
            (8, "sync 1\n\n"),
        ] {
            let bad = decode(&sealed(&format!("{right}{wrong}"))).unwrap_err();
            assert!(
                matches!(bad, BadProbe::Damaged { line: at, .. } if at == line),
                "{wrong}: {bad}"
            );
        }
        let missing = decode(&sealed("began 1\n")).unwrap_err();
        assert!(missing.to_string().contains("file-system"), "{missing}");
        let other = b"alluvium probe 2\nend\n";
        assert!(decode(other).unwrap_err().to_string().contains("probe 2"));
    }
}
