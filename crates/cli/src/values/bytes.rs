//! Byte strings on the command line and in the output. They can be written as text, in hexadecimal,
//! or in base 64.

use crate::terminal::exit::{CommandExit, failure};
use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Map, Value};
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

/// How bytes are written on the command line and printed.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct ByteEncoding {
    /// Read and print keys and values in hexadecimal.
    #[arg(long, conflicts_with = "base64")]
    pub hex: bool,
    /// Read and print keys and values in base 64.
    #[arg(long)]
    pub base64: bool,
}

impl ByteEncoding {
    pub(crate) fn read(self, text: &OsStr) -> Result<Vec<u8>> {
        self.decode(text.as_bytes())
    }

    /// Decodes a text in this encoding. White space around the text is ignored unless the encoding
    /// allows it.
    pub(crate) fn decode(self, text: &[u8]) -> Result<Vec<u8>> {
        let wrong = |why: &dyn std::fmt::Display| {
            let text = text.escape_ascii().to_string();
            let name = self.name();
            failure(
                CommandExit::Usage,
                format!("{text:?} is not valid for --{name}: {why}; correct it, or leave --{name} out"),
            )
        };
        if self.hex {
            hex::decode(text.trim_ascii()).map_err(|why| wrong(&why))
        } else if self.base64 {
            STANDARD.decode(text.trim_ascii()).map_err(|why| wrong(&why))
        } else {
            Ok(text.to_vec())
        }
    }

    fn name(self) -> &'static str {
        if self.hex { "hex" } else { "base64" }
    }

    pub(crate) fn is_plain(self) -> bool {
        !self.hex && !self.base64
    }

    /// Formats bytes for a line of text: in the chosen encoding or, by default, as text with
    /// unprintable bytes escaped.
    pub(crate) fn show(self, bytes: &[u8]) -> String {
        if self.hex {
            hex::encode(bytes)
        } else if self.base64 {
            STANDARD.encode(bytes)
        } else {
            escape(bytes)
        }
    }
}

/// Escapes backslashes, control characters and invalid UTF-8, as in `\n`, `\\` or `\x1b`, so that
/// the result contains no tabs or line ends.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                c if c.is_ascii_control() => text.push_str(&format!("\\x{:02x}", c as u32)),
                // A terminal might interpret the remaining control characters.
                c if c.is_control() => {
                    let mut bytes = [0; 4];
                    for byte in c.encode_utf8(&mut bytes).bytes() {
                        text.push_str(&format!("\\x{byte:02x}"));
                    }
                }
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Adds a field to a JSON object: `name` with the text, or `name_base64` if the bytes are not valid
/// UTF-8.
pub(crate) fn add_json_field(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => object.insert(format!("{name}_base64"), STANDARD.encode(bytes).into()),
    };
}

/// Writes a field of a JSON object: `"name":"text"`, or `"name_base64":"…"` if the bytes are not
/// valid UTF-8.
pub(crate) fn json_field(out: &mut impl Write, name: &str, bytes: &[u8]) -> io::Result<()> {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            write!(out, "\"{name}\":")?;
            serde_json::to_writer(out, text)?;
            Ok(())
        }
        Err(_) => write!(out, "\"{name}_base64\":\"{}\"", STANDARD.encode(bytes)),
    }
}

/// Writes a key and its value as a JSON object on a single line.
pub(crate) fn json_record(out: &mut impl Write, key: &[u8], value: Option<&[u8]>) -> io::Result<()> {
    out.write_all(b"{")?;
    json_field(out, "key", key)?;
    if let Some(value) = value {
        out.write_all(b",")?;
        json_field(out, "value", value)?;
    }
    out.write_all(b"}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium::text::unescape;

    #[test]
    fn what_is_shown_is_one_line_that_no_terminal_obeys() {
        assert_eq!(escape("Elbe\tist\nlang\\".as_bytes()), "Elbe\\tist\\nlang\\\\");
        assert_eq!(escape(b"\x1b[31m\xff\xc2\x9b"), "\\x1b[31m\\xff\\xc2\\x9b");
        assert_eq!(escape("Řeka".as_bytes()), "Řeka");
    }

    #[test]
    fn what_is_shown_is_read_again() {
        let all: Vec<u8> = (0..=255).chain("Řeka \\ \u{9b}".bytes()).collect();
        assert_eq!(unescape(escape(&all).as_bytes()), Ok(all));
        for wrong in [&b"\\"[..], b"\\q", b"\\x4", b"\\xg0"] {
            assert!(unescape(wrong).is_err(), "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn chosen_encodings_are_read_and_shown() {
        let hex = ByteEncoding {
            hex: true,
            base64: false,
        };
        assert_eq!(hex.decode(b" 00ff\n").unwrap(), [0, 255]);
        assert_eq!(hex.show(&[0, 255]), "00ff");
        assert!(hex.decode(b"0g").is_err());
        let base64 = ByteEncoding {
            hex: false,
            base64: true,
        };
        assert_eq!(base64.decode(b"AP8=").unwrap(), [0, 255]);
        assert_eq!(base64.show(&[0, 255]), "AP8=");
    }

    #[test]
    fn what_is_no_text_is_base_64_in_json() {
        let mut out = Vec::new();
        json_record(&mut out, b"a\"b", Some(&[0xff])).unwrap();
        assert_eq!(out, b"{\"key\":\"a\\\"b\",\"value_base64\":\"/w==\"}\n");
    }
}
