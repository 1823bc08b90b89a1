//! `sort`: sorts lines or fixed-length records, including inputs larger than memory.
//!
//! *Scope*: the command line, the input and the output.
//!
//! *Must not depend on*: how runs are written and merged; that is left to the sorter in the crate
//! `storage`. The division into threads is in `jobs/sorting.rs`.

mod feed;

use crate::context::CommandContext;
use crate::jobs::sorting::{self, told};
use crate::jobs::{progress, stop};
use crate::store::private;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen;
use crate::values::sizes::{self, ByteSize};
use alluvium_device::file::FileDirectory;
use alluvium_storage::sort::{EqualKeyPolicy, SortOptions, SortRecordLayout, SortSpool};
use anyhow::{Context as _, Result};
use clap::Args;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  alluvium sort words.txt --output sorted.txt
  alluvium sort a.txt b.txt --unique --memory 1G | head
  alluvium sort log.bin --record-bytes 64 --key 8,16 --output sorted.bin

Lines are compared byte by byte, as `LC_ALL=C sort` does. Records with equal keys keep their order. Data that does not fit into --memory \
[default: 512M] goes to temporary files, which have no names, so nothing is left of them. The output gets its name when it is \
complete, and may be one of the inputs.";

/// Default value of --memory in bytes.
const MEMORY: u64 = 512 << 20;
const MEMORY_FLAG: &str = "--memory";
/// Maximum number of threads. More would be idle.
const MOST_THREADS: usize = 8;
/// Prefix of the names of temporary files. Each file is unlinked as soon as it has been created.
const NAME: &str = "alluvium-sort";

/// Sort lines or fixed-length records, including inputs larger than memory.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SortCommand {
    /// The input files; `-` for standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    pub files: Vec<PathBuf>,
    /// The output file; `-` for standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// Sort records of this many bytes instead of lines.
    #[arg(long, value_name = "N")]
    pub record_bytes: Option<u32>,
    /// The key of a record: its first byte, counted from 0, and its length [default: the whole
    /// record].
    #[arg(long, value_name = "OFFSET,LENGTH", value_parser = parse_key, requires = "record_bytes")]
    pub key: Option<(u32, u32)>,
    /// Write only the first of several equal lines, or of records with the same key.
    #[arg(short, long)]
    pub unique: bool,
    /// The number of threads, which divide the memory equally among them [default: one per
    /// processor, at most 8].
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// The directory for temporary files [default: that of the output, or the system's].
    #[arg(long, value_name = "DIRECTORY")]
    pub temporary: Option<PathBuf>,
    /// The largest number of bytes to read per second, to spare the device [default: unlimited].
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub rate: Option<ByteSize>,
}

fn parse_key(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once(',');
    let read = |(offset, length): (&str, &str)| Some((offset.parse().ok()?, length.parse().ok()?));
    parts
        .and_then(read)
        .filter(|&(_, length): &(u32, u32)| length > 0)
        .ok_or_else(|| format!("{text:?} is not a key: write its first byte and its length, as in 8,16"))
}

impl SortCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let threads = self
            .threads
            .unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
        let threads = threads.clamp(1, MOST_THREADS);
        let memory = context.memory.unwrap_or(MEMORY) / threads as u64;
        let options = SortOptions {
            equal: if self.unique {
                EqualKeyPolicy::KeepFirst
            } else {
                EqualKeyPolicy::KeepAll
            },
            memory_bytes: usize::try_from(memory).unwrap_or(usize::MAX),
            ..SortOptions::new(self.layout())
        };
        let directory = self.directory()?;
        let spool =
            SortSpool::new(Arc::new(directory), NAME, options).map_err(|error| told(error, MEMORY_FLAG))?;
        stop::listen()?;
        let started = Instant::now();
        let bar = progress::bytes("sorting", self.total());
        let feed = feed::SortInputReader::new(self.record_bytes, self.rate.map(|rate| rate.0), &bar);
        let job = sorting::SortJob {
            spool: &spool,
            threads,
            is_lines: self.record_bytes.is_none(),
            flag: MEMORY_FLAG,
        };
        let sorted = job.runs(|chunks| feed.all(&self.files, chunks));
        let written = sorted.and_then(|inputs| {
            bar.set_message("merging");
            job.merge(inputs, |write| self.write(write))
        });
        bar.finish_and_clear();
        let (records, bytes) = written?;
        let took = started.elapsed();
        screen::note(&format!(
            "{} {}, {}, {}/s",
            sizes::count(records),
            if self.record_bytes.is_some() {
                "records"
            } else {
                "lines"
            },
            sizes::human(bytes),
            sizes::human(progress::per_second(bytes, 0, took))
        ));
        Ok(CommandExit::Done)
    }

    fn layout(&self) -> SortRecordLayout {
        match self.record_bytes {
            None => SortRecordLayout::Variable,
            Some(record_bytes) => {
                let (key_offset, key_bytes) = self.key.unwrap_or((0, record_bytes));
                SortRecordLayout::Fixed {
                    record_bytes,
                    key_offset,
                    key_bytes,
                }
            }
        }
    }

    /// Returns the total size of all inputs in bytes, or `None` if any of them is not a file.
    fn total(&self) -> Option<u64> {
        let bytes = |file: &PathBuf| {
            let metadata = file.metadata().ok()?;
            metadata.is_file().then_some(metadata.len())
        };
        self.files.iter().map(bytes).sum()
    }

    /// Returns the directory for temporary files.
    fn directory(&self) -> Result<FileDirectory> {
        let beside = || {
            let parent = self.output.parent()?;
            let is_file = self.output.as_os_str() != "-" && !self.output.starts_with("/dev");
            is_file.then(|| match parent.as_os_str().is_empty() {
                true => PathBuf::from("."),
                false => parent.to_owned(),
            })
        };
        let path = self
            .temporary
            .clone()
            .or_else(beside)
            .unwrap_or_else(std::env::temp_dir);
        let what = || {
            format!(
                "opening {} for temporary files; name another with --temporary",
                path.display()
            )
        };
        FileDirectory::open(&path).with_context(what)
    }

    /// Opens the output, which is standard output or a file, and runs `job` to write it. A file
    /// gets its name only after the job has succeeded.
    fn write(&self, job: &mut dyn FnMut(&mut (dyn Write + Send)) -> Result<()>) -> Result<()> {
        let is_special = self.output.metadata().is_ok_and(|metadata| !metadata.is_file());
        if self.output.as_os_str() == "-" {
            return job(&mut io::stdout());
        }
        if is_special {
            let what = || format!("writing to {}", self.output.display());
            let mut file = File::options()
                .write(true)
                .open(&self.output)
                .with_context(what)?;
            return job(&mut file);
        }
        let mut partial = self.output.clone().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let what = || format!("writing {}", partial.display());
        let mut file = private::create(&partial).with_context(what)?;
        let written = job(&mut file).and_then(|()| {
            fs::rename(&partial, &self.output).with_context(|| format!("naming {}", self.output.display()))
        });
        if written.is_err() {
            // Remove the incomplete file, which is useless. If that fails, at least it does not
            // have the output's name.
            let _ = fs::remove_file(&partial);
        }
        written
    }
}

/// Opens an input file. The path `-` denotes standard input.
fn open(path: &Path) -> Result<Box<dyn Read>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        let text = format!("{} is a directory: name a file", path.display());
        return Err(failure(CommandExit::Failed, text));
    }
    Ok(Box::new(file))
}
