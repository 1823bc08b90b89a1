//! `files send` and `receive`.

use super::FilesCommand;
use crate::context::CommandContext;
use crate::jobs::{progress, stop};
use crate::store::files;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::ScreenOutput;
use anyhow::{Context as _, Result};
use serde_json::json;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write};
use std::path::{Path, PathBuf};

/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// Returns the path of a file while it is written.
fn unfinished(target: &Path) -> PathBuf {
    let mut name = OsString::from(target);
    name.push(".unfinished");
    PathBuf::from(name)
}

pub(super) fn send(
    command: &FilesCommand,
    context: &CommandContext,
    (snapshot, since): (&str, Option<&str>),
    target: &Path,
) -> Result<CommandExit> {
    if target.as_os_str() != "-" {
        stop::listen()?;
        let part = unfinished(target);
        let what = || format!("writing {}", part.display());
        let mut file = File::create(&part).with_context(what)?;
        let sent = send_to(command, context, (snapshot, since), &mut file);
        let sent = sent.and_then(|exit| {
            file.sync_all().with_context(what)?;
            std::fs::rename(&part, target).with_context(|| format!("renaming {}", part.display()))?;
            Ok(exit)
        });
        if sent.is_err() {
            // What is left of it is of no use.
            let _ = std::fs::remove_file(&part);
        }
        return sent;
    }
    if io::stdout().is_terminal() {
        let text = "a stream is not for a terminal: give a file, or a pipe to `files receive`";
        return Err(failure(CommandExit::Usage, text.to_owned()));
    }
    send_to(command, context, (snapshot, since), &mut io::stdout().lock())
}

fn send_to(
    command: &FilesCommand,
    context: &CommandContext,
    (snapshot, since): (&str, Option<&str>),
    out: &mut dyn Write,
) -> Result<CommandExit> {
    let bar = progress::bytes("sending", None);
    let exit = command.managing(context, |open| {
        open.send(snapshot, since, &mut |part| {
            if stop::asked() {
                let text = "stopped: nothing was written";
                return Err(failure(CommandExit::Interrupted, text.to_owned()));
            }
            bar.inc(part.len() as u64);
            out.write_all(part).context("writing the stream")
        })?;
        out.flush().context("writing the stream")?;
        Ok(CommandExit::Done)
    });
    bar.finish_and_clear();
    exit
}

pub(super) fn receive(
    command: &FilesCommand,
    context: &CommandContext,
    source: &Path,
) -> Result<CommandExit> {
    command.require_newest()?;
    // An interrupt ends the process, also while it waits for bytes: nothing has changed then.
    let mut source: Box<dyn Read> = match source.as_os_str() == "-" {
        true => Box::new(io::stdin().lock()),
        false => {
            let opened = File::open(source);
            Box::new(opened.with_context(|| format!("opening {}", source.display()))?)
        }
    };
    let store = context.open_or_create()?;
    let bar = progress::bytes("receiving", None);
    let received = files::receive(context, &store, &command.files, &mut || {
        let mut piece = Vec::new();
        let mut limited = source.by_ref().take(PIECE);
        limited.read_to_end(&mut piece).context("reading the stream")?;
        bar.inc(piece.len() as u64);
        Ok(piece)
    });
    bar.finish_and_clear();
    let received = received?;
    store.close()?;
    let mut out = ScreenOutput::new();
    if context.is_json() {
        out.json(&json!({
            "snapshot": received.snapshot,
            "since": received.since,
            "records": received.records,
        }))?;
    } else if received.records == 0 {
        out.line(&format!(
            "the copy has the snapshot {} already",
            received.snapshot
        ))?;
    } else {
        out.line(&format!(
            "received the snapshot {}, {} records",
            received.snapshot, received.records
        ))?;
    }
    out.flush()?;
    Ok(CommandExit::Done)
}
