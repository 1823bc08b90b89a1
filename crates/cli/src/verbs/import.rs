//! `import`: the rows of a file into the store.

use crate::Exit;
use crate::context::{self, Context};
use crate::exit::failure;
use crate::formats::binary::Binary;
use crate::formats::csv::{self, CsvReader};
use crate::formats::json::{JsonReader, Shape};
use crate::formats::lines::{Lines, Parts};
use crate::formats::redis::Redis;
use crate::formats::{Format, ReadRows, Source, Template};
use crate::import::{End, Identity, Job, PROGRESS, Parser, Rejects, Saved, header_key};
use crate::screen::{self, Output};
use crate::{progress, sizes, stop};
use alluvium::{Db, Keyspace};
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  alluvium import people.csv --key id                     # each row under its id
  alluvium import cities.tsv --key '{country}/{city}' --value population
  alluvium import events.jsonl --key user.name -k events  # each line under a field of it
  alluvium import dump.kv                                 # what `alluvium export` has written
  zcat words.gz | alluvium import - --format lines
  alluvium import people.csv --key id --rejects bad.csv   # bad rows go there

An import that was stopped or killed goes on where it was when the same command is given again: how far it is stands in the store, \
committed with the rows. The exit code is 4 if there were bad rows.";

/// Put the rows of a file into the store.
///
/// Formats: csv and tsv (with a header), jsonl (an object a line), lines (a key a line, or key and value around --separator), binary (as
/// `export` writes it), redis (commands as `redis-cli --pipe` takes them: SET, SETEX, PSETEX, MSET, DEL, UNLINK).
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Import {
    /// The file; `-` for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The format; what the file's name says, if not chosen.
    #[arg(short, long, value_enum)]
    pub format: Option<Format>,
    /// The keyspace, created if it is not there.
    #[arg(short, long, default_value = "default", value_name = "NAME")]
    pub keyspace: String,
    /// The column or field that is the key, or a template of several: '{country}/{city}' [default: key].
    #[arg(long, value_name = "COLUMN", value_parser = Template::parse)]
    pub key: Option<Template>,
    /// The column or field that is the value [default: the other of two columns; the row or line as it stands of more].
    #[arg(long, value_name = "COLUMN", conflicts_with = "value_as")]
    pub value: Option<String>,
    /// The value is the whole row of CSV: as it stands, or as a JSON object.
    #[arg(long, value_enum)]
    pub value_as: Option<ValueAs>,
    /// The first row of CSV is data; columns are named 1, 2, 3 …
    #[arg(long)]
    pub no_header: bool,
    /// What stands between the fields of CSV, or between key and value of lines.
    #[arg(long, value_name = "TEXT")]
    pub separator: Option<String>,
    /// Rows that cannot be imported go to this file, instead of ending the import.
    #[arg(long, value_name = "FILE")]
    pub rejects: Option<PathBuf>,
    /// Begin at the beginning, whatever was imported before.
    #[arg(long)]
    pub restart: bool,
}

/// What becomes of a whole row.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ValueAs {
    /// Its bytes as they stand; `export --values-only` writes them again.
    Row,
    /// A JSON object of its columns.
    Json,
}

/// The separator of fields, one byte.
pub(crate) fn field_separator(format: Format, chosen: Option<&str>) -> Result<u8> {
    match (chosen.map(str::as_bytes), format) {
        (Some([byte]), _) if !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        (Some(_), _) => Err(failure(
            Exit::Usage,
            "--separator of csv and tsv is one byte and neither a quote nor a line end",
        )),
        (None, Format::Tsv) => Ok(b'\t'),
        (None, _) => Ok(b','),
    }
}

/// The format that was chosen, or that a file's name says.
pub(crate) fn format_of(chosen: Option<Format>, file: &Path) -> Result<Format> {
    chosen.or_else(|| Format::of_file(file)).ok_or_else(|| {
        let text = format!(
            "what format {} has is not clear: choose one with --format",
            file.display()
        );
        failure(Exit::Usage, text)
    })
}

impl Import {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit> {
        let format = format_of(self.format, &self.file)?;
        self.check(format)?;
        let (reader, total, input) = self.input()?;
        stop::listen()?;
        let db = context.open_or_create()?;
        let keyspace = context::wanted(&db, &self.keyspace)?;
        let places = context::wanted(&db, PROGRESS)?;
        let identity = Identity {
            keyspace: self.keyspace.clone(),
            input,
        };
        let (job, parser) = self.job(format, reader, &db, keyspace, places, identity)?;
        let (started, first) = (Instant::now(), parser.saved.offset);
        let bar = progress::bytes("importing", total);
        bar.set_position(first);
        bar.reset_eta();
        let ended = job.run(parser, |offset| bar.set_position(offset));
        bar.finish_and_clear();
        // Whatever became of it: what was committed is kept by closing in order.
        let closed = context::close(db);
        let (end, saved) = ended?;
        let offset = saved.offset;
        closed?;
        let seconds = started.elapsed().as_secs_f64();
        let mut out = Output::new();
        if context.is_json() {
            out.json(&json!({
                "is_complete": end == End::Complete,
                "rows": saved.rows,
                "rejected": saved.rejected,
                "bytes": offset,
                "resumed_at_byte": first,
                "seconds": seconds,
            }))?;
            out.flush()?;
        }
        let rate = sizes::human(((offset - first) as f64 / seconds.max(1e-6)) as u64);
        let rejected = match saved.rejected {
            0 => String::new(),
            some => format!(", {} rejected", sizes::count(some)),
        };
        screen::note(&format!("{} rows{rejected}, {rate}/s", sizes::count(saved.rows)));
        Ok(match end {
            End::Stopped => {
                screen::complain("stopped; the same command goes on from here");
                Exit::Interrupted
            }
            End::Complete if saved.rejected > 0 => Exit::BadRows,
            End::Complete => Exit::Done,
        })
    }

    /// Refuses options that mean nothing for a format, before anything is done.
    fn check(&self, format: Format) -> Result<()> {
        let is_table = matches!(format, Format::Csv | Format::Tsv);
        let is_json = format == Format::Jsonl;
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
                is_table || format == Format::Lines,
            ),
        ];
        for (option, is_given, is_known) in wrong {
            if is_given && !is_known {
                let text = format!(
                    "{option} means nothing for the format {}: leave it out",
                    format.name()
                );
                return Err(failure(Exit::Usage, text));
            }
        }
        Ok(())
    }

    /// The stream, its length if that is known, and its name for later.
    fn input(&self) -> Result<(Input, Option<u64>, String)> {
        if self.file.as_os_str() == "-" {
            return Ok((Input::Pipe, None, "-".to_owned()));
        }
        let what = || format!("opening {}", self.file.display());
        let file = File::open(&self.file).with_context(what)?;
        let metadata = file.metadata().with_context(what)?;
        if metadata.is_dir() {
            return Err(failure(
                Exit::Failed,
                format!("{} is a directory: name a file", self.file.display()),
            ));
        }
        let name = self
            .file
            .canonicalize()
            .with_context(what)?
            .to_string_lossy()
            .into_owned();
        if metadata.is_file() {
            return Ok((Input::File(file), Some(metadata.len()), name));
        }
        Ok((Input::Device(file), None, name))
    }

    /// Everything of the command line that decides what a row means.
    fn options(&self, format: Format) -> String {
        let json = json!({
            "format": format.name(),
            "key": self.key.as_ref().map(|key| format!("{:?}", key.parts())),
            "value": self.value,
            "value_as": self.value_as.map(|value| format!("{value:?}")),
            "no_header": self.no_header,
            "separator": self.separator,
            "rejects": self.rejects.is_some(),
        });
        json.to_string()
    }

    fn job<'a>(
        &self,
        format: Format,
        input: Input,
        db: &'a Db,
        keyspace: Keyspace,
        places: Keyspace,
        identity: Identity,
    ) -> Result<(Job<'a>, Parser)> {
        let options = self.options(format);
        let earlier = match places.get(identity.key())? {
            Some(saved) if !self.restart => Some(Saved::decode(&saved)?),
            _ => None,
        };
        let mut saved = match earlier {
            Some(saved) => {
                saved.fits(&options)?;
                let saved = saved.settled(&keyspace)?;
                screen::note(&format!(
                    "going on behind {} rows, at byte {}",
                    sizes::count(saved.rows),
                    sizes::count(saved.offset)
                ));
                saved
            }
            None => Saved {
                options,
                ..Saved::default()
            },
        };
        let mut source = input.at(&saved)?;
        let reader = self.reader(format, &mut source, &mut saved)?;
        if let (Some(header), Format::Csv | Format::Tsv) = (&saved.header, format) {
            places.put(header_key(&self.keyspace), header)?;
        }
        let mut rejects = self
            .rejects
            .as_deref()
            .map(|path| Rejects::open(path, saved.rejects_bytes))
            .transpose()?;
        if let (Some(rejects), Some(header)) = (&mut rejects, &saved.header) {
            rejects.header(header)?;
        }
        let parser = Parser {
            source,
            reader,
            rejects,
            saved,
            name: self.file.display().to_string(),
            format,
        };
        Ok((Job::new(db, keyspace, places, identity), parser))
    }

    fn reader(
        &self,
        format: Format,
        source: &mut Source,
        saved: &mut Saved,
    ) -> Result<Box<dyn ReadRows + Send>> {
        Ok(match format {
            Format::Csv | Format::Tsv => Box::new(self.csv(format, source, saved)?),
            Format::Jsonl => Box::new(JsonReader::new(match &self.key {
                Some(key) => Shape::Fields(key.clone(), self.value.clone()),
                None => Shape::Pairs,
            })),
            Format::Lines => Box::new(Lines::new(match &self.separator {
                Some(separator) if separator.is_empty() => {
                    return Err(failure(
                        Exit::Usage,
                        "--separator is empty: write what stands between key and value",
                    ));
                }
                Some(separator) => Parts::Both(separator.clone().into_bytes()),
                None => Parts::Key,
            })),
            Format::Binary => Box::new(Binary::behind(saved.rows + saved.rejected)),
            Format::Redis => Box::new(Redis::new()),
        })
    }

    fn csv(&self, format: Format, source: &mut Source, saved: &mut Saved) -> Result<CsvReader> {
        let separator = field_separator(format, self.separator.as_deref())?;
        let is_at_start = source.offset() == 0;
        let wrong = |error: io::Error| failure(Exit::Usage, format!("{}: {error}", self.file.display()));
        if is_at_start && self.no_header {
            saved.columns = csv::columns(source, separator).map_err(wrong)? as u64;
        } else if is_at_start {
            let header = csv::header(source, separator).map_err(wrong)?;
            saved.lines += memchr::memchr_iter(b'\n', &header).count() as u64;
            saved.header = Some(header);
        }
        let value = match (&self.value, self.value_as) {
            (Some(column), _) => Some(csv::Value::Column(column.clone())),
            (None, Some(ValueAs::Row)) => Some(csv::Value::Row),
            (None, Some(ValueAs::Json)) => Some(csv::Value::Json),
            (None, None) => None,
        };
        let first = if self.no_header { "1" } else { "key" };
        let key = match &self.key {
            Some(key) => key.clone(),
            None => Template::parse(first).map_err(|why| failure(Exit::Usage, why))?,
        };
        let options = csv::Options {
            separator,
            key,
            value,
        };
        let reader = CsvReader::new(&options, saved.header.as_deref(), saved.columns as usize);
        reader.map_err(|error| {
            let hint = if self.key.is_none() {
                ": choose the key with --key"
            } else {
                ""
            };
            failure(Exit::Usage, format!("{}: {error}{hint}", self.file.display()))
        })
    }
}

/// Where the bytes come from.
enum Input {
    Pipe,
    Device(File),
    File(File),
}

impl Input {
    /// The stream at the place up to which it was imported, if it is the same.
    fn at(self, saved: &Saved) -> Result<Source> {
        let before = saved.offset - saved.tail_bytes.min(saved.offset);
        let mut reader: Box<dyn Read + Send> = match self {
            Input::Pipe => Box::new(io::stdin()),
            Input::Device(file) => Box::new(file),
            Input::File(mut file) => {
                file.seek(SeekFrom::Start(before))?;
                return checked(Box::new(file), saved);
            }
        };
        io::copy(&mut (&mut reader).take(before), &mut io::sink())?;
        checked(reader, saved)
    }
}

fn checked(mut reader: Box<dyn Read + Send>, saved: &Saved) -> Result<Source> {
    let mut tail = Vec::new();
    (&mut reader).take(saved.tail_bytes).read_to_end(&mut tail)?;
    if saved.offset > 0 {
        saved.continues(&tail)?;
    }
    Ok(Source::new(reader, saved.offset))
}
