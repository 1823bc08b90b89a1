//! What is printed, and where: data to standard output, everything else to standard error; colours
//! and columns for terminals only.

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use anyhow::Result;
use serde_json::Value;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const KEY: Style = AnsiColor::Cyan.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// Standard output: buffered, whatever it is.
#[derive(Debug)]
pub(crate) struct Output {
    inner: BufWriter<StdoutLock<'static>>,
    is_terminal: bool,
    is_coloured: bool,
}

impl Output {
    pub(crate) fn new() -> Output {
        let stdout = io::stdout();
        Output {
            is_terminal: stdout.is_terminal(),
            is_coloured: AutoStream::choice(&stdout) != ColorChoice::Never,
            inner: BufWriter::with_capacity(1 << 16, stdout.lock()),
        }
    }

    /// Returns whether a person looks at it.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns the text in a style where styles are wanted.
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

    /// A JSON value on a line of its own; spread over several for people.
    pub(crate) fn json(&mut self, value: &Value) -> Result<()> {
        if self.is_terminal {
            serde_json::to_writer_pretty(&mut self.inner, value)?;
        } else {
            serde_json::to_writer(&mut self.inner, value)?;
        }
        Ok(self.inner.write_all(b"\n")?)
    }

    /// Rows whose columns stand below each other on a terminal, and are separated by tabs
    /// elsewhere. The first row names the columns; it is for people alone.
    pub(crate) fn table(&mut self, head: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
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

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn on_stderr(style: Style, word: &str, text: &str) {
    let mut stderr = anstream::stderr().lock();
    // Where it cannot be written, nothing can be done about it.
    let _ = writeln!(stderr, "{style}{word}{style:#}{text}");
}

/// An error, on standard error.
pub(crate) fn complain(text: &str) {
    on_stderr(BAD, "alluvium: ", text);
}

/// What a person wants to know and a program does not, on standard error.
pub(crate) fn note(text: &str) {
    on_stderr(DIM, "", text);
}
