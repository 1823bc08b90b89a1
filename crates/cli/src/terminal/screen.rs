//! Output of verbs. Data is written to standard output, and everything else to standard error.
//! Colours and aligned columns are used only on terminals.

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use anyhow::Result;
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const KEY: Style = AnsiColor::Cyan.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// Buffered standard output. It remains locked until this object is dropped.
#[derive(Debug)]
pub struct ScreenOutput {
    inner: BufWriter<StdoutLock<'static>>,
    is_terminal: bool,
    is_coloured: bool,
}

impl Default for ScreenOutput {
    fn default() -> ScreenOutput {
        ScreenOutput::new()
    }
}

impl ScreenOutput {
    #[must_use]
    pub fn new() -> ScreenOutput {
        let stdout = io::stdout();
        ScreenOutput {
            is_terminal: stdout.is_terminal(),
            is_coloured: AutoStream::choice(&stdout) != ColorChoice::Never,
            inner: BufWriter::with_capacity(1 << 16, stdout.lock()),
        }
    }

    /// Returns whether standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Styles the text if the output is coloured, and returns it unchanged otherwise.
    pub(crate) fn styled(&self, style: Style, text: &str) -> String {
        if self.is_coloured {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.inner, "{text}")
    }

    /// Writes a JSON value, indented on a terminal and on one line otherwise.
    ///
    /// # Errors
    /// I/O errors.
    pub fn json(&mut self, value: &Value) -> Result<()> {
        if self.is_terminal {
            serde_json::to_writer_pretty(&mut self.inner, value)?;
        } else {
            serde_json::to_writer(&mut self.inner, value)?;
        }
        Ok(self.inner.write_all(b"\n")?)
    }

    /// Writes a table. On a terminal the columns are aligned, and `head` is written as the first
    /// row. Otherwise the fields are separated by tabs and `head` is omitted.
    ///
    /// # Errors
    /// I/O errors.
    pub fn table(&mut self, head: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
        if !self.is_terminal {
            for row in rows {
                writeln!(self.inner, "{}", row.join("\t"))?;
            }
            return Ok(());
        }
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|cell| cell.chars().count())
                .chain([head[column].chars().count()])
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let pad = |cells: &[&str]| {
            let padded = cells
                .iter()
                .zip(&widths)
                .map(|(cell, &width)| format!("{cell:width$}"));
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let title = self.styled(BOLD, &pad(head));
        writeln!(self.inner, "{title}")?;
        for row in rows {
            let cells: Vec<&str> = row.iter().map(String::as_str).collect();
            writeln!(self.inner, "{}", pad(&cells))?;
        }
        Ok(())
    }
}

impl Write for ScreenOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Returns whether a character is visible when it is printed. Combining marks are treated as
/// invisible.
fn is_seen(c: char) -> bool {
    match c {
        ' '..='~' | '\n' | '\t' => true,
        // The zero-width non-joiner is treated as a combining mark.
        '\u{200c}' => false,
        c => ["x", c.encode_utf8(&mut [0; 4])].concat().escape_debug().count() == 2,
    }
}

/// Escapes characters that are invisible or that a terminal would interpret. Each is replaced by
/// its code point, for example `\u{feff}`.
fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_seen) {
        return Cow::Borrowed(text);
    }
    let mut seen = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_seen(c) {
            true => seen.push(c),
            false => seen.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(seen)
}

fn on_stderr(style: Style, word: &str, text: &str) {
    let mut stderr = anstream::stderr().lock();
    let text = visible(text);
    // If writing to standard error fails, nothing is left on which to report the failure.
    let _ = writeln!(stderr, "{style}{word}{style:#}{text}");
}

/// Prints an error message on standard error.
pub(crate) fn complain(text: &str) {
    on_stderr(BAD, "alluvium: ", text);
}

/// Prints a note for the user on standard error.
pub fn note(text: &str) {
    on_stderr(DIM, "", text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_show_characters_that_are_not_seen_by_their_numbers() {
        for text in ["plain: \"a\"\n\tb", "Řeka, e\u{301}, กำ, 日本, 🙂"] {
            assert_eq!(visible(text), text);
        }
        assert_eq!(visible("'\u{feff}SET'"), "'\\u{feff}SET'");
        assert_eq!(
            visible("\u{200b}\u{200c}\u{202e}\u{a0}"),
            "\\u{200b}\\u{200c}\\u{202e}\\u{a0}"
        );
        assert_eq!(visible("\x1b[31m\u{9b}\u{2028}"), "\\u{1b}[31m\\u{9b}\\u{2028}");
    }
}
