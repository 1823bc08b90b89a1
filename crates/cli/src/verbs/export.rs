//! `export`: keys and values to a file.

use super::import::{field_separator, format_of};
use crate::Exit;
use crate::bytes::Encoding;
use crate::context::{self, Access, Context};
use crate::exit::failure;
use crate::formats::binary::Binary;
use crate::formats::csv::{self, CsvWriter, Header};
use crate::formats::json::JsonWriter;
use crate::formats::lines::{Lines, Parts};
use crate::formats::redis::Redis;
use crate::formats::{Format, WriteRows};
use crate::import::{PROGRESS, header_key};
use crate::range::{Bounds, Range};
use crate::remote::Direction;
use crate::screen::{self, Output};
use crate::{progress, sizes, stop};
use anyhow::{Context as _, Result};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  alluvium export all.kv                                 # the fastest, and it can say everything
  alluvium export people.csv                             # columns key and value
  alluvium export - --format jsonl --prefix user: | jq .
  alluvium export people.csv --values-only               # the rows that `import people.csv --key id` has stored
  alluvium export - --format redis | redis-cli --pipe

What is exported is the store of one moment, in the order of the keys; when a value expires is not exported. A file appears under its name \
when it is complete.";

/// How often the bar and Ctrl-C are looked at, in records.
const LOOK: u64 = 1024;

/// Write keys and values to a file, or to standard output.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Export {
    /// The file; `-` for standard output.
    #[arg(value_name = "FILE", default_value = "-")]
    pub file: PathBuf,
    /// The format; what the file's name says, if not chosen.
    #[arg(short, long, value_enum)]
    pub format: Option<Format>,
    /// The keyspace.
    #[arg(short, long, default_value = "default", value_name = "NAME")]
    pub keyspace: String,
    #[command(flatten)]
    pub range: Range,
    /// Write the values alone: rows of CSV below the header that they were imported with, lines, JSON objects.
    #[arg(long)]
    pub values_only: bool,
    /// Write no header.
    #[arg(long)]
    pub no_header: bool,
    /// What stands between the fields of CSV, or between key and value of lines.
    #[arg(long, value_name = "TEXT")]
    pub separator: Option<String>,
}

/// Keys and values, in order.
type Rows = Box<dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>>;

/// How many records and bytes went out.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    rows: u64,
    bytes: u64,
}

impl Export {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit> {
        let format = format_of(self.format, &self.file)?;
        let bounds = self.range.bounds(Encoding::default())?;
        stop::listen()?;
        let access = context.open_or_served()?;
        let mut writer = self.writer(format, &access)?;
        let bar = progress::bytes("exporting", None);
        let mut rows = self.rows(&access, &bounds)?;
        let written = if self.file.as_os_str() == "-" {
            let mut out = Output::new();
            let written = copy(&mut rows, &mut *writer, &mut out, &bar);
            written.and_then(|written| Ok(out.flush().map(|()| written)?))
        } else {
            self.to_file(&mut rows, &mut *writer, &bar)
        };
        bar.finish_and_clear();
        drop(rows);
        let closed = match access {
            Access::Own(db) => context::close(db),
            Access::Served(_) => Ok(()),
        };
        let written = written?;
        closed?;
        if context.is_json() && self.file.as_os_str() != "-" {
            let mut out = Output::new();
            out.json(&json!({ "rows": written.rows, "bytes": written.bytes }))?;
            out.flush()?;
        }
        screen::note(&format!(
            "{} rows, {}",
            sizes::count(written.rows),
            sizes::human(written.bytes)
        ));
        Ok(Exit::Done)
    }

    /// Keys and values, in order.
    fn rows(&self, access: &Access, bounds: &Bounds) -> Result<Rows> {
        Ok(match access {
            Access::Own(db) => {
                let rows = bounds.iter(&context::existing(db, &self.keyspace)?);
                Box::new(rows.map(|row| Ok(row.map(|(key, value)| (key, Vec::from(value)))?)))
            }
            Access::Served(server) => {
                screen::note("through the server: what is written meanwhile may be in it, or not");
                let to = bounds.to.as_deref();
                Box::new(server.pairs(&self.keyspace, &bounds.from, to, Direction::Forward))
            }
        })
    }

    fn writer(&self, format: Format, access: &Access) -> Result<Box<dyn WriteRows>> {
        let values = self.values_only;
        let unknown = |option: &str| {
            failure(
                Exit::Usage,
                format!(
                    "{option} means nothing for the format {}: leave it out",
                    format.name()
                ),
            )
        };
        if self.no_header && !matches!(format, Format::Csv | Format::Tsv) {
            return Err(unknown("--no-header"));
        }
        if self.separator.is_some() && !matches!(format, Format::Csv | Format::Tsv | Format::Lines) {
            return Err(unknown("--separator"));
        }
        Ok(match format {
            Format::Csv | Format::Tsv => {
                let separator = field_separator(format, self.separator.as_deref())?;
                let rows = if values {
                    csv::Rows::Values(self.kept_header(access)?)
                } else {
                    csv::Rows::Pairs
                };
                let header = if self.no_header {
                    Header::Left
                } else {
                    Header::Written
                };
                Box::new(CsvWriter::new(separator, rows, header))
            }
            Format::Jsonl if values => Box::new(JsonWriter::Values),
            Format::Jsonl => Box::new(JsonWriter::Pairs),
            Format::Lines => Box::new(Lines::new(match &self.separator {
                _ if values => Parts::Value,
                Some(separator) if !separator.is_empty() => Parts::Both(separator.clone().into_bytes()),
                Some(_) => {
                    return Err(failure(
                        Exit::Usage,
                        "--separator is empty: write what shall stand between key and value",
                    ));
                }
                None => Parts::Key,
            })),
            Format::Binary | Format::Redis if values => return Err(unknown("--values-only")),
            Format::Binary => Box::new(Binary::new()),
            Format::Redis => Box::new(Redis::new()),
        })
    }

    /// The header of the rows that the keyspace's values are.
    fn kept_header(&self, access: &Access) -> Result<Option<Vec<u8>>> {
        let key = header_key(&self.keyspace);
        match access {
            Access::Own(db) => match db.existing_keyspace(PROGRESS) {
                Ok(places) => Ok(places.get(key)?.map(Vec::from)),
                Err(_) => Ok(None),
            },
            // Without imports there is no such keyspace.
            Access::Served(server) => Ok(server.value(PROGRESS, &key).ok().flatten()),
        }
    }

    /// Into a file beside it, which then takes its name.
    fn to_file(&self, rows: &mut Rows, writer: &mut dyn WriteRows, bar: &ProgressBar) -> Result<Written> {
        let partial = beside(&self.file);
        let what = || format!("writing {}", partial.display());
        let file = File::create(&partial).with_context(what)?;
        let mut out = BufWriter::with_capacity(1 << 18, file);
        let written = copy(rows, writer, &mut out, bar).and_then(|written| {
            out.flush().with_context(what)?;
            out.get_ref().sync_all().with_context(what)?;
            fs::rename(&partial, &self.file).with_context(|| format!("naming {}", self.file.display()))?;
            Ok(written)
        });
        if written.is_err() {
            // Nobody needs half of it; if it cannot be removed, it is not under the file's name at least.
            let _ = fs::remove_file(&partial);
        }
        written
    }
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

fn copy(
    rows: &mut Rows,
    writer: &mut dyn WriteRows,
    out: &mut dyn Write,
    bar: &ProgressBar,
) -> Result<Written> {
    let mut written = Written::default();
    writer.begin(out)?;
    for row in rows {
        let (key, value) = row?;
        writer.row(out, &key, &value)?;
        written.rows += 1;
        written.bytes += (key.len() + value.len()) as u64;
        if written.rows.is_multiple_of(LOOK) {
            bar.set_position(written.bytes);
            if stop::asked() {
                return Err(failure(
                    Exit::Interrupted,
                    "stopped: what was written is not complete; run the command again",
                ));
            }
        }
    }
    writer.end(out)?;
    Ok(written)
}
