//! `export`: writes keys and values to a file.

use super::import::{field_separator, format_of};
use crate::context::CommandContext;
use crate::formats::binary::BinaryFormat;
use crate::formats::csv::{self, CsvWriter, HeaderPolicy, LineEnd};
use crate::formats::json::JsonWriter;
use crate::formats::lines::{LineFormat, LineParts};
use crate::formats::redis::RedisFormat;
use crate::formats::{FileFormat, WriteRows};
use crate::import::{ImportLayout, PROGRESS, layout_key};
use crate::jobs::{progress, stop};
use crate::store::typed::{self, RedisDatabaseArgs};
use crate::store::{RedisKeyPart, StoreHandle, private, walk};
use crate::terminal::confirm::Consent;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::{self, ScreenOutput};
use crate::values::bytes::ByteEncoding;
use crate::values::range::{ByteBounds, KeyRangeArgs};
use crate::values::sizes;
use alluvium_server::control::{RedisRequest as Keys, ScanContent, ScanOrder};
use anyhow::{Context as _, Result};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  alluvium export all.kv                                 # the fastest format, for any keys and values
  alluvium export people.csv                             # columns key and value
  alluvium export - --format jsonl --prefix user: | jq .
  alluvium export people.csv --values-only               # the rows that `import people.csv --key id` has stored
  alluvium export - --format redis | redis-cli --pipe
  alluvium export all.redis --redis-db 0                 # keys of Redis clients of all types, with their expiry

The export shows the store at one moment, in key order. Expiry times are exported only with --redis-db, \
in the formats jsonl and redis. The file gets its name when it is complete; \
an existing file is replaced after a question, or with --yes.";

/// Number of records, or parts of records, between two updates of the progress bar and checks for
/// Ctrl-C.
const LOOK: u64 = 1024;

/// Write keys and values to a file, or to standard output.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ExportCommand {
    /// The file; `-` for standard output.
    #[arg(value_name = "FILE", default_value = "-")]
    pub file: PathBuf,
    /// The format [default: by the extension of the file's name].
    #[arg(short, long, value_enum)]
    pub format: Option<FileFormat>,
    /// The keyspace.
    #[arg(short, long, default_value = "default", value_name = "NAME")]
    pub keyspace: String,
    #[command(flatten)]
    pub range: KeyRangeArgs,
    /// Write only the values: rows of CSV as they were imported, or one column; lines; JSON
    /// objects.
    #[arg(long)]
    pub values_only: bool,
    /// Write csv or tsv without a header.
    #[arg(long)]
    pub no_header: bool,
    /// The separator of the fields of csv and tsv, one byte, or of key and value in lines [default:
    /// a comma for csv, a tab for tsv, keys only for lines].
    #[arg(long, value_name = "TEXT")]
    pub separator: Option<String>,
    #[command(flatten)]
    pub database: RedisDatabaseArgs,
    #[command(flatten)]
    pub consent: Consent,
}

/// The rows to export, and the form to write them in.
struct RowExport<'s> {
    store: &'s StoreHandle,
    keyspace: &'s str,
    database: Option<u8>,
    bounds: ByteBounds,
    format: FileFormat,
    writer: Box<dyn WriteRows>,
}

/// The destination of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExportDestination {
    Output,
    /// The output is a pipe or a device.
    Device,
    File,
}

/// The numbers of records and bytes that have been written.
#[derive(Clone, Copy, Debug, Default)]
struct ExportCounts {
    rows: u64,
    bytes: u64,
    /// Number of parts written so far, which determines when the next periodic check is due.
    looks: u64,
}

impl ExportCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let format = format_of(self.format, &self.file)?;
        let bounds = self.range.bounds(ByteEncoding::default())?;
        let to = self.destination()?;
        stop::listen()?;
        if self.values_only && self.database.redis_db.is_some() {
            let text = "--values-only cannot be used with --redis-db: leave one of them out";
            return Err(failure(CommandExit::Usage, text));
        }
        let store = context.open_to_read()?;
        if self.database.redis_db.is_none() {
            store.require_keyspace(&self.keyspace)?;
            store.tell_of_raw(&self.keyspace);
        }
        let bar = progress::bytes("exporting", None);
        let rows = RowExport {
            store: &store,
            keyspace: &self.keyspace,
            database: self.database.redis_db,
            bounds,
            format,
            writer: self.writer(format, &store)?,
        };
        let written = match to {
            ExportDestination::Output => {
                let mut out = ScreenOutput::new();
                let written = rows.copy(&mut out, &bar);
                written.and_then(|written| Ok(out.flush().map(|()| written)?))
            }
            ExportDestination::Device => self.to_device(rows, &bar),
            ExportDestination::File => self.to_file(rows, &bar),
        };
        bar.finish_and_clear();
        let closed = store.close();
        let written = written?;
        closed?;
        if context.is_json() && self.file.as_os_str() != "-" {
            let mut out = ScreenOutput::new();
            out.json(&json!({ "rows": written.rows, "bytes": written.bytes }))?;
            out.flush()?;
        }
        screen::note(&format!(
            "{} rows, {}",
            sizes::count(written.rows),
            sizes::human(written.bytes)
        ));
        Ok(CommandExit::Done)
    }

    fn writer(&self, format: FileFormat, store: &StoreHandle) -> Result<Box<dyn WriteRows>> {
        let values = self.values_only;
        let unknown = |option: &str| {
            failure(
                CommandExit::Usage,
                format!(
                    "{option} does not apply to the format {}: leave it out",
                    format.name()
                ),
            )
        };
        if self.no_header && !matches!(format, FileFormat::Csv | FileFormat::Tsv) {
            return Err(unknown("--no-header"));
        }
        if self.separator.is_some()
            && !matches!(format, FileFormat::Csv | FileFormat::Tsv | FileFormat::Lines)
        {
            return Err(unknown("--separator"));
        }
        Ok(match format {
            FileFormat::Csv | FileFormat::Tsv => {
                let header = match self.no_header {
                    true => HeaderPolicy::Left,
                    false => HeaderPolicy::Written,
                };
                let writer = match values {
                    true => self.values_writer(format, header, self.layout(store)?)?,
                    false => {
                        let separator = field_separator(format, self.separator.as_deref())?;
                        CsvWriter::new(separator, csv::CsvContent::Pairs, header)?
                    }
                };
                Box::new(writer)
            }
            FileFormat::Jsonl if values => Box::new(JsonWriter::Values),
            FileFormat::Jsonl => Box::new(JsonWriter::Pairs),
            FileFormat::Lines => Box::new(LineFormat::new(match &self.separator {
                _ if values => LineParts::Value,
                Some(separator) if !separator.is_empty() => LineParts::Both(separator.clone().into_bytes()),
                Some(_) => {
                    return Err(failure(
                        CommandExit::Usage,
                        "--separator is empty: give the text between key and value",
                    ));
                }
                None => LineParts::Key,
            })),
            FileFormat::Binary | FileFormat::Redis if values => return Err(unknown("--values-only")),
            FileFormat::Binary => Box::new(BinaryFormat::new()),
            FileFormat::Redis => Box::new(RedisFormat::new()),
        })
    }

    /// Returns a writer for values only. Values that are rows of a table are written as the table
    /// from which they were imported, and all others as a single column.
    fn values_writer(
        &self,
        format: FileFormat,
        header: HeaderPolicy,
        layout: Option<ImportLayout>,
    ) -> Result<CsvWriter> {
        let chosen = field_separator(format, self.separator.as_deref())?;
        let Some(layout) = layout else {
            let rows = csv::CsvContent::Fields("value".to_owned(), LineEnd::default());
            return Ok(CsvWriter::new(chosen, rows, header)?);
        };
        let is_alike = layout.format == format && self.separator.is_none();
        let separator = if is_alike { layout.separator } else { chosen };
        let header = match layout.head.header {
            None => HeaderPolicy::Left,
            Some(_) => header,
        };
        let rows = match layout.column {
            Some(name) => csv::CsvContent::Fields(name, layout.head.line_end),
            None => csv::CsvContent::Table(layout.separator, layout.head),
        };
        Ok(CsvWriter::new(separator, rows, header)?)
    }

    /// Returns the layout of the table from which the keyspace was imported, if any.
    fn layout(&self, store: &StoreHandle) -> Result<Option<ImportLayout>> {
        // The keyspace of import progress does not exist if nothing was ever imported.
        if !store.has_keyspace(PROGRESS)? {
            return Ok(None);
        }
        let kept = store.value(PROGRESS, &layout_key(&self.keyspace))?;
        kept.map(|kept| ImportLayout::decode(&kept)).transpose()
    }

    /// Determines where the export is written. An existing file is replaced only after
    /// confirmation.
    fn destination(&self) -> Result<ExportDestination> {
        if self.file.as_os_str() == "-" {
            return Ok(ExportDestination::Output);
        }
        let Ok(metadata) = self.file.metadata() else {
            return Ok(ExportDestination::File);
        };
        if metadata.is_dir() {
            let text = format!("{} is a directory: name a file", self.file.display());
            return Err(failure(CommandExit::Usage, text));
        }
        if !metadata.is_file() {
            return Ok(ExportDestination::Device);
        }
        let loss = format!("{} exists already and would be replaced", self.file.display());
        self.consent.ask(&loss)?;
        Ok(ExportDestination::File)
    }

    /// Exports directly to a pipe or a device, without a temporary file.
    fn to_device(&self, rows: RowExport<'_>, bar: &ProgressBar) -> Result<ExportCounts> {
        let what = || format!("writing to {}", self.file.display());
        let file = File::options().write(true).open(&self.file).with_context(what)?;
        let mut out = BufWriter::with_capacity(1 << 18, file);
        let written = rows.copy(&mut out, bar)?;
        out.flush().with_context(what)?;
        Ok(written)
    }

    /// Exports to a temporary file in the target's directory, and then renames it to the target.
    fn to_file(&self, rows: RowExport<'_>, bar: &ProgressBar) -> Result<ExportCounts> {
        let partial = beside(&self.file);
        let what = || format!("writing {}", partial.display());
        let file = private::create(&partial).with_context(what)?;
        let mut out = BufWriter::with_capacity(1 << 18, file);
        let written = rows.copy(&mut out, bar).and_then(|written| {
            out.flush().with_context(what)?;
            out.get_ref().sync_all().with_context(what)?;
            fs::rename(&partial, &self.file)
                .with_context(|| format!("renaming the output to {}", self.file.display()))?;
            Ok(written)
        });
        if written.is_err() {
            // Remove the incomplete file, which is useless. If that fails, at least it does not
            // have the target's name.
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

impl RowExport<'_> {
    fn copy(self, out: &mut dyn Write, bar: &ProgressBar) -> Result<ExportCounts> {
        let scan = walk(self.keyspace, self.bounds, ScanOrder::Forward, ScanContent::Pairs);
        let mut written = ExportCounts::default();
        let mut writer = self.writer;
        let Some(database) = self.database else {
            writer.begin(out)?;
            self.store.scan(scan, &mut |key, value| {
                writer.row(out, &key, &value)?;
                written.rows += 1;
                written.count(key.len() + value.len(), bar)
            })?;
            writer.end(out)?;
            return Ok(written);
        };
        let mut writer = typed::RedisKeyWriter::new(self.format, writer);
        writer.begin(out)?;
        self.store
            .typed(Keys::Scan { database, scan }, &mut |part| match part {
                RedisKeyPart::Key(key) => {
                    written.rows += 1;
                    written.count(key.key.len(), bar)?;
                    writer.key(out, key)
                }
                RedisKeyPart::Elements(elements) => {
                    let bytes = elements.iter().map(|(first, second)| first.len() + second.len());
                    written.count(bytes.sum(), bar)?;
                    writer.elements(out, &elements)
                }
            })?;
        writer.end(out)?;
        Ok(written)
    }
}

impl ExportCounts {
    /// Counts the bytes written. If a stop was requested, returns an error, which ends the export.
    fn count(&mut self, bytes: usize, bar: &ProgressBar) -> Result<()> {
        self.bytes += bytes as u64;
        self.looks += 1;
        if self.looks.is_multiple_of(LOOK) {
            bar.set_position(self.bytes);
            if stop::asked() {
                return Err(failure(
                    CommandExit::Interrupted,
                    "stopped: the output is incomplete; run the command again",
                ));
            }
        }
        Ok(())
    }
}
