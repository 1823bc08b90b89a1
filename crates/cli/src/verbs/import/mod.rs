//! `import`: loads the rows of a file into the store.
//!
//! *Scope*: the command line, the input, the messages.
//!
//! *Must not depend on*: how rows become commits, and the progress of an import; both are in the
//! folder `import/`.

mod input;
mod sort;

use crate::context::CommandContext;
use crate::formats::binary::BinaryFormat;
use crate::formats::csv::{self, CsvReader, LineEnd};
use crate::formats::json::{JsonMapping, JsonReader};
use crate::formats::lines::{LineFormat, LineParts};
use crate::formats::redis::RedisFormat;
use crate::formats::{FileFormat, InputSource, KeyTemplate, ReadRows};
use crate::import::{
    ImportIdentity, ImportJob, ImportLayout, ImportOutcome, ImportProgress, ImportTarget, KeyUniqueness,
    PROGRESS, RejectsFile, RowParser, RowRetention,
};
use crate::jobs::{progress, stop};
use crate::store::StoreHandle;
use crate::store::typed::RedisDatabaseArgs;
use crate::terminal::confirm::Consent;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::{self, ScreenOutput};
use crate::values::sizes;
use alluvium_server::control::ManagementRequest;
use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  alluvium import people.csv --key id                     # the key is the column id, the value the whole row
  alluvium import cities.tsv --key '{country}/{city}' --value population
  alluvium import events.jsonl --key user.name -k events  # the key is a field of the object
  alluvium import dump.kv                                 # a file of `alluvium export`
  zcat words.gz | alluvium import - --format lines
  alluvium import people.csv --key id --rejects bad.csv   # writes bad rows to bad.csv, and continues
  alluvium import large.jsonl --key id --sort             # sorts the rows first, then loads them
  alluvium import dump.redis --redis-db 0                 # executes Redis commands in order

The same command continues an import that was stopped or killed: the store records the position in the input with the rows. An import that fails \
before its first row changes nothing. Of several rows with the same key the last one remains, and the command prints their number. --memory also \
limits the length of a row, to 16M or more. The exit code is 4 if there were bad rows.";

/// Import the rows of a file.
///
/// Formats: csv and tsv (with a header), jsonl (one object per line), lines (one key per line, or a
/// key and a value around --separator), binary (as `export` writes it), redis (commands as
/// `redis-cli --pipe` takes them: SET, SETEX, PSETEX, MSET, DEL, UNLINK; all commands on keys with
/// --redis-db).
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ImportCommand {
    /// The file; `-` for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The format [default: by the extension of the file's name].
    #[arg(short, long, value_enum)]
    pub format: Option<FileFormat>,
    /// The keyspace, created if it does not exist.
    #[arg(short, long, default_value = "default", value_name = "NAME")]
    pub keyspace: String,
    /// The column or field that is the key, or a template of several: '{country}/{city}' [default:
    /// key, or column 1 with --no-header].
    #[arg(long, value_name = "COLUMN", value_parser = KeyTemplate::parse)]
    pub key: Option<KeyTemplate>,
    /// The column or field that is the value [default: in a table of two columns, the one that is
    /// not the key; otherwise the whole row or line].
    #[arg(long, value_name = "COLUMN", conflicts_with = "value_as")]
    pub value: Option<String>,
    /// Use the whole row of csv or tsv as the value: unchanged, or as a JSON object.
    #[arg(long, value_enum)]
    pub value_as: Option<ValueAs>,
    /// Treat the first row of csv or tsv as data, and name the columns 1, 2, 3 …
    #[arg(long)]
    pub no_header: bool,
    /// The separator of the fields of csv and tsv, one byte, or of key and value in lines [default:
    /// a comma for csv, a tab for tsv, keys only for lines].
    #[arg(long, value_name = "TEXT")]
    pub separator: Option<String>,
    /// If a row cannot be imported, write it to this file and continue.
    #[arg(long, value_name = "FILE")]
    pub rejects: Option<PathBuf>,
    /// Refuse a row whose key already has a value, from an earlier row or from before the import.
    #[arg(long)]
    pub unique: bool,
    /// Start at the beginning of the file, instead of continuing an interrupted import.
    #[arg(long)]
    pub restart: bool,
    #[command(flatten)]
    pub sort: sort::ImportSortArgs,
    #[command(flatten)]
    pub database: RedisDatabaseArgs,
    #[command(flatten)]
    pub consent: Consent,
}

/// How a whole row is stored as a value.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ValueAs {
    /// The unchanged row, as `export --values-only` writes it.
    Row,
    /// A JSON object of its columns.
    Json,
}

/// Returns the field separator, which must be a single byte.
pub(crate) fn field_separator(format: FileFormat, chosen: Option<&str>) -> Result<u8> {
    match (chosen.map(str::as_bytes), format) {
        (Some([byte]), _) if !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        (Some(_), _) => Err(failure(
            CommandExit::Usage,
            "--separator of csv and tsv must be one byte, and neither a quote nor a line end",
        )),
        (None, FileFormat::Tsv) => Ok(b'\t'),
        (None, _) => Ok(b','),
    }
}

/// Returns the format that the user chose, or else the one that the file name implies.
pub(crate) fn format_of(chosen: Option<FileFormat>, file: &Path) -> Result<FileFormat> {
    chosen.or_else(|| FileFormat::of_file(file)).ok_or_else(|| {
        let text = format!(
            "the format of {} is not known from its name: choose one with --format",
            file.display()
        );
        failure(CommandExit::Usage, text)
    })
}

/// Duplicate detection may use the store's memory divided by this number.
const SEEN: u64 = 8;
/// Lower bound in bytes of the row length limit.
const LEAST_ROW: u64 = 16 << 20;

/// Assumed memory in bytes of a store that another process has open.
const MEMORY: u64 = 256 << 20;

/// The keyspaces that this import has created.
struct CreatedKeyspaces {
    keyspace: Option<String>,
    has_places: bool,
}

impl CreatedKeyspaces {
    /// Creates the keyspaces that an import writes to, unless they exist. Returns those that it
    /// created.
    fn for_import(store: &StoreHandle, to: &ImportTarget) -> Result<CreatedKeyspaces> {
        let keyspace = match to {
            ImportTarget::Keyspace(name) => store.ensure_keyspace(name)?.then(|| name.clone()),
            ImportTarget::Database(_) => None,
        };
        let has_places = store.ensure_keyspace(PROGRESS)?;
        Ok(CreatedKeyspaces { keyspace, has_places })
    }

    /// Drops the created keyspaces, after an import that has written no rows.
    fn undo(&self, store: &StoreHandle) -> Result<()> {
        if let Some(name) = &self.keyspace {
            store.change(&ManagementRequest::DropKeyspace(name.clone()))?;
        }
        if self.has_places {
            store.change(&ManagementRequest::DropKeyspace(PROGRESS.to_owned()))?;
        }
        Ok(())
    }
}

/// Locks the identity of the import, so that no other import of the same input can run. Waits for a
/// while if a killed import holds the lock, because another process may still be writing its last
/// rows.
fn claim(store: &StoreHandle, identity: &ImportIdentity) -> Result<()> {
    match store.is_changed(&ManagementRequest::Claim(identity.key()))? {
        true => Ok(()),
        false => Err(failure(
            CommandExit::Failed,
            "another import of the same input into the same target is running: wait until it has ended",
        )),
    }
}

/// Returns the memory in bytes for detecting duplicate keys.
fn seen_bytes(store: &StoreHandle, context: &CommandContext) -> usize {
    let memory = store.memory().or(context.memory).unwrap_or(MEMORY);
    usize::try_from(memory / SEEN).unwrap_or(usize::MAX)
}

/// Returns the exit code of an import. Prints a note if the import was stopped.
fn told_exit(end: ImportOutcome, saved: &ImportProgress) -> CommandExit {
    match end {
        ImportOutcome::Stopped => {
            screen::complain(match saved.rows {
                0 => "stopped before the first row: nothing is imported",
                _ => "stopped; run the same command again to continue",
            });
            CommandExit::Interrupted
        }
        ImportOutcome::Complete if saved.rejected > 0 => CommandExit::BadRows,
        ImportOutcome::Complete => CommandExit::Done,
    }
}

impl ImportCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let format = format_of(self.format, &self.file)?;
        self.check(format)?;
        let (reader, total, input) = self.input()?;
        stop::listen_impatiently()?;
        let (to, identity) = self.target(input);
        // A new store is created only if there is something to import.
        let store = match context.path.exists() {
            true => Some(context.open_or_create()?),
            false => None,
        };
        store.iter().try_for_each(|store| claim(store, &identity))?;
        let first = self.earlier(store.as_ref(), &identity, format)?;
        // A sort reads the input from its beginning, and progress then counts keys rather than
        // bytes.
        let mut saved = match self.sort.sort {
            true => ImportProgress {
                options: first.options.clone(),
                ..ImportProgress::default()
            },
            false => first.clone(),
        };
        let sorting = self.sort.begin(format, &context.path, total)?;
        let longest = context.memory.map_or(u64::MAX, |memory| memory.max(LEAST_ROW));
        let mut source = reader
            .at(&saved)?
            .longest(usize::try_from(longest).unwrap_or(usize::MAX));
        let rows = self.reader(format, &mut source, &mut saved)?;
        let rejects = self.rejects(&first, &saved)?;
        let store = match store {
            Some(store) => store,
            None => context.open_or_create()?,
        };
        let created = CreatedKeyspaces::for_import(&store, &to)?;
        let first = ImportProgress {
            layout: saved.layout.clone(),
            ..first
        };
        let job = self.job(&store, &to, identity, &saved);
        let memory = match &sorting {
            // The sort detects duplicate keys itself.
            Some(_) => 0,
            None => seen_bytes(&store, context),
        };
        let (name, read_from) = ((self.file.display().to_string(), format), saved.offset);
        let mut parser = RowParser::new(source, rows, rejects, saved, name, memory);
        parser.keeps_lines = self.unique || self.database.redis_db.is_some();
        let started = Instant::now();
        let bar = progress::bytes_from("importing", total, read_from);
        let (saved, ended) = match &sorting {
            Some(sorting) => {
                bar.set_message("sorting");
                parser.kept = RowRetention::Nothing;
                job.run_sorted(parser, sorting, &first, &bar)
            }
            None => job.run(parser, |offset| bar.set_position(offset)),
        };
        bar.finish_and_clear();
        let is_complete = matches!(ended, Ok(ImportOutcome::Complete));
        let undone = match saved.rows == 0 && (!is_complete || saved.rejected > 0) {
            true => created.undo(&store),
            false => Ok(()),
        };
        // Close the store cleanly even after an error, to preserve what was committed.
        let closed = store.close();
        let end = ended?;
        undone.and(closed)?;
        let first = ImportProgress {
            offset: read_from,
            ..first
        };
        self.tell(context, end, (&first, &saved), started.elapsed())?;
        Ok(told_exit(end, &saved))
    }

    /// Returns the target of the import, and the identity under which its progress is stored.
    fn target(&self, input: String) -> (ImportTarget, ImportIdentity) {
        let (to, keyspace) = match self.database.redis_db {
            Some(database) => (ImportTarget::Database(database), format!("--redis-db {database}")),
            None => (
                ImportTarget::Keyspace(self.keyspace.clone()),
                self.keyspace.clone(),
            ),
        };
        (to, ImportIdentity { keyspace, input })
    }

    /// Reports the result of an import. `done` contains the progress before and after this run; the
    /// difference is what this run has imported.
    fn tell(
        &self,
        context: &CommandContext,
        end: ImportOutcome,
        done: (&ImportProgress, &ImportProgress),
        took: Duration,
    ) -> Result<()> {
        let (first, saved) = done;
        if context.is_json() {
            let mut out = ScreenOutput::new();
            out.json(&json!({
                "is_complete": end == ImportOutcome::Complete,
                "rows": saved.rows,
                "rows_of_this_run": saved.rows - first.rows,
                "rejected": saved.rejected,
                "duplicates": saved.duplicates,
                "duplicates_are_all": !saved.is_partial,
                "bytes": saved.offset,
                "resumed_at_byte": first.offset,
                "seconds": took.as_secs_f64(),
            }))?;
            out.flush()?;
        }
        let mut text = format!("{} rows", sizes::count(saved.rows));
        if first.rows > 0 {
            text += &format!(", {} of them now", sizes::count(saved.rows - first.rows));
        }
        if saved.rejected > 0 {
            text += &format!(", {} rejected", sizes::count(saved.rejected));
        }
        if saved.duplicates > 0 {
            let least = if saved.is_partial { "at least " } else { "" };
            text += &format!(
                ", {least}{} with the key of an earlier row, which they replace",
                sizes::count(saved.duplicates)
            );
        }
        let rate = progress::per_second(saved.offset, first.offset, took);
        screen::note(&format!("{text}, {}/s", sizes::human(rate)));
        Ok(())
    }

    /// Rejects options that do not apply to the format.
    fn check(&self, format: FileFormat) -> Result<()> {
        let is_table = matches!(format, FileFormat::Csv | FileFormat::Tsv);
        let is_json = format == FileFormat::Jsonl;
        if self.unique && self.database.redis_db.is_some() {
            let text = "--unique cannot be used with --redis-db: leave one of them out";
            return Err(failure(CommandExit::Usage, text));
        }
        let wrong = [
            ("--key", self.key.is_some(), is_table || is_json),
            (
                "--value",
                self.value.is_some(),
                is_table || is_json && self.key.is_some(),
            ),
            ("--value-as", self.value_as.is_some(), is_table),
            ("--no-header", self.no_header, is_table),
            (
                "--separator",
                self.separator.is_some(),
                is_table || format == FileFormat::Lines,
            ),
        ];
        for (option, is_given, is_known) in wrong {
            if is_given && !is_known {
                let text = format!(
                    "{option} does not apply to the format {}: leave it out",
                    format.name()
                );
                return Err(failure(CommandExit::Usage, text));
            }
        }
        Ok(())
    }

    /// Returns the options that determine how rows are interpreted, as they appear on a command
    /// line.
    fn options(&self, format: FileFormat) -> String {
        let mut text = format!("--format {}", format.name());
        let value_as = self.value_as.map(|value| match value {
            ValueAs::Row => "row",
            ValueAs::Json => "json",
        });
        for (flag, value) in [
            ("--key", self.key.as_ref().map(KeyTemplate::text)),
            ("--value", self.value.as_deref()),
            ("--value-as", value_as),
            ("--separator", self.separator.as_deref()),
        ] {
            if let Some(value) = value {
                text += &format!(" {flag} {value:?}");
            }
        }
        for (flag, is_given) in [
            ("--no-header", self.no_header),
            ("--rejects", self.rejects.is_some()),
            ("--unique", self.unique),
            ("--sort", self.sort.sort),
        ] {
            if is_given {
                text += &format!(" {flag}");
            }
        }
        text
    }

    /// Returns the progress of an earlier import of the same input. Ignores an import that wrote no
    /// rows.
    fn earlier(
        &self,
        store: Option<&StoreHandle>,
        identity: &ImportIdentity,
        format: FileFormat,
    ) -> Result<ImportProgress> {
        let options = self.options(format);
        let begun = ImportProgress {
            options,
            ..ImportProgress::default()
        };
        let Some(store) = store.filter(|_| !self.restart) else {
            return Ok(begun);
        };
        let is_there = self.database.redis_db.is_some() || store.has_keyspace(&self.keyspace)?;
        if !is_there || !store.has_keyspace(PROGRESS)? {
            return Ok(begun);
        }
        let Some(saved) = store.value(PROGRESS, &identity.key())? else {
            return Ok(begun);
        };
        let saved = ImportProgress::decode(&saved)?.settled(store, &self.keyspace)?;
        if saved.rows == 0 {
            return Ok(begun);
        }
        saved.fits(&begun.options)?;
        let (rows, offset) = (sizes::count(saved.rows), sizes::count(saved.offset));
        screen::note(&match self.sort.sort {
            true => format!("sorting again, then continuing after the {rows} imported keys"),
            false => format!("continuing after {rows} rows, at byte {offset}"),
        });
        Ok(saved)
    }

    fn job<'a>(
        &self,
        store: &'a StoreHandle,
        to: &ImportTarget,
        identity: ImportIdentity,
        saved: &ImportProgress,
    ) -> ImportJob<'a> {
        let uniqueness = match self.unique {
            true => KeyUniqueness::Refused,
            false => KeyUniqueness::Replaced,
        };
        let layout = match to {
            ImportTarget::Keyspace(_) => saved.layout.clone(),
            // Redis values do not come from rows of a table, so there is no layout to store.
            ImportTarget::Database(_) => None,
        };
        ImportJob::new(store, to.clone(), identity, layout, uniqueness)
    }

    /// Opens the rejects file if the user has requested one. `first` is the progress of an earlier
    /// import, and `saved` is the position at which reading starts.
    fn rejects(&self, first: &ImportProgress, saved: &ImportProgress) -> Result<Option<RejectsFile>> {
        let Some(path) = self.rejects.as_deref() else {
            return Ok(None);
        };
        if let Ok(metadata) = path.metadata() {
            if path.canonicalize().ok() == self.file.canonicalize().ok() {
                let text = "--rejects names the input itself: name another file";
                return Err(failure(CommandExit::Usage, text));
            }
            if metadata.is_file() && metadata.len() > 0 && first.rows == 0 {
                let loss = format!("{} exists already and would be replaced", path.display());
                self.consent.ask(&loss)?;
            }
        }
        let mut rejects = RejectsFile::open(path, saved.rejects_bytes)?;
        if let Some(head) = saved.layout.as_ref().map(|layout| &layout.head)
            && let Some(header) = &head.header
        {
            rejects.header(&[header, head.line_end.bytes()].concat())?;
        }
        Ok(Some(rejects))
    }

    fn reader(
        &self,
        format: FileFormat,
        source: &mut InputSource,
        saved: &mut ImportProgress,
    ) -> Result<Box<dyn ReadRows + Send>> {
        if matches!(format, FileFormat::Jsonl | FileFormat::Lines | FileFormat::Redis) {
            source.take_mark()?;
        }
        Ok(match format {
            FileFormat::Csv | FileFormat::Tsv => Box::new(self.csv(format, source, saved)?),
            FileFormat::Jsonl => Box::new(JsonReader::new(match &self.key {
                Some(key) => JsonMapping::Fields(key.clone(), self.value.clone()),
                None => JsonMapping::Pairs,
            })),
            FileFormat::Lines => Box::new(LineFormat::new(match &self.separator {
                Some(separator) if separator.is_empty() => {
                    return Err(failure(
                        CommandExit::Usage,
                        "--separator is empty: give the text between key and value",
                    ));
                }
                Some(separator) => LineParts::Both(separator.clone().into_bytes()),
                None => LineParts::Key,
            })),
            FileFormat::Binary => Box::new(BinaryFormat::behind(saved.rows + saved.rejected)),
            FileFormat::Redis if self.database.redis_db.is_some() => Box::new(RedisFormat::of_commands()),
            FileFormat::Redis => Box::new(RedisFormat::new()),
        })
    }

    fn csv(
        &self,
        format: FileFormat,
        source: &mut InputSource,
        saved: &mut ImportProgress,
    ) -> Result<CsvReader> {
        let separator = field_separator(format, self.separator.as_deref())?;
        let wrong =
            |error: io::Error| failure(CommandExit::Usage, format!("{}: {error}", self.file.display()));
        let kept = saved.layout.take();
        let head = match &kept {
            Some(layout) => layout.head.clone(),
            None if self.no_header => csv::first_row(source, separator).map_err(wrong)?,
            None => {
                let head = csv::header(source, separator).map_err(wrong)?;
                let header = head.header.as_deref().unwrap_or_default();
                saved.lines += memchr::memchr_iter(b'\n', header).count() as u64;
                saved.lines += u64::from(head.line_end != LineEnd::Cr);
                head
            }
        };
        let value = match (&self.value, self.value_as) {
            (Some(column), _) => Some(csv::CsvValueSource::Column(column.clone())),
            (None, Some(ValueAs::Row)) => Some(csv::CsvValueSource::Row),
            (None, Some(ValueAs::Json)) => Some(csv::CsvValueSource::Json),
            (None, None) => None,
        };
        let first = if self.no_header { "1" } else { "key" };
        let key = match &self.key {
            Some(key) => key.clone(),
            None => KeyTemplate::parse(first).map_err(|why| failure(CommandExit::Usage, why))?,
        };
        let options = csv::CsvOptions {
            separator,
            key,
            value,
        };
        let reader = CsvReader::new(&options, &head);
        let reader = reader.map_err(|error| {
            let hint = if self.key.is_none() {
                ": choose the key with --key"
            } else {
                ""
            };
            failure(
                CommandExit::Usage,
                format!("{}: {error}{hint}", self.file.display()),
            )
        })?;
        saved.layout = Some(kept.unwrap_or_else(|| ImportLayout {
            format,
            separator,
            head,
            column: reader.value_column().map(str::to_owned),
        }));
        Ok(reader)
    }
}
