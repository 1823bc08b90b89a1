//! `files put`, `get`, `cp`, `import` and `export`.

use super::FilesCommand;
use crate::context::CommandContext;
use crate::jobs::{progress, stop};
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::ScreenOutput;
use crate::values::sizes;
use alluvium_files::{
    AccessTimes, CopyProgress, FileKind, FilePaths as _, FileSystem, Inode, LastLink, OrdinaryDirectory,
    TreeCopier, WritePosition,
};
use anyhow::{Context as _, Result};
use indicatif::ProgressBar;
use serde_json::json;
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;

/// Bytes that are read and written at a time.
const PIECE: usize = 1 << 20;

pub(super) fn put(
    command: &FilesCommand,
    context: &CommandContext,
    source: &Path,
    path: &[u8],
) -> Result<CommandExit> {
    let mut source: Box<dyn Read> = match source.as_os_str() == "-" {
        true => Box::new(io::stdin().lock()),
        false => {
            let opened = File::open(source);
            Box::new(opened.with_context(|| format!("opening {}", source.display()))?)
        }
    };
    command.changing(context, |open| {
        let inode = open.files.write_file(path, &[], 0o644)?;
        let mut piece = vec![0; PIECE];
        let mut offset = 0;
        loop {
            let length = source.read(&mut piece).context("reading the source")?;
            if length == 0 {
                return Ok(());
            }
            open.files
                .write(inode, WritePosition::At(offset), &piece[..length])?;
            offset += length as u64;
        }
    })
}

pub(super) fn get(
    command: &FilesCommand,
    context: &CommandContext,
    path: &[u8],
    target: &Path,
) -> Result<CommandExit> {
    command.reading(context, |open| {
        let inode = open.files.resolve(path)?;
        let mut piece = open.files.read(inode, 0, PIECE)?;
        let what = || format!("writing {}", target.display());
        let mut out = File::create(target).with_context(what)?;
        let mut offset = 0;
        loop {
            out.write_all(&piece).with_context(what)?;
            offset += piece.len() as u64;
            if piece.len() < PIECE {
                return Ok(CommandExit::Done);
            }
            piece = open.files.read(inode, offset, PIECE)?;
        }
    })
}

pub(super) fn import(
    command: &FilesCommand,
    context: &CommandContext,
    directory: &Path,
    path: &[u8],
) -> Result<CommandExit> {
    let source = OrdinaryDirectory::open(directory, AccessTimes::Keep)?;
    stop::listen()?;
    let bar = progress::bytes("importing", None);
    let mut copied = CopyProgress::default();
    let exit = command.changing(context, |open| {
        let target = open.files.create_directories(path, 0o755)?;
        copied = copy_contents(&source, (&*open.files, target), &bar)?;
        Ok(())
    });
    bar.finish_and_clear();
    let exit = exit.map_err(|error| stopped(error, "nothing was imported"))?;
    report(context, &copied)?;
    Ok(exit)
}

pub(super) fn export(
    command: &FilesCommand,
    context: &CommandContext,
    path: &[u8],
    directory: &Path,
) -> Result<CommandExit> {
    std::fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    let target = OrdinaryDirectory::open(directory, AccessTimes::Keep)?;
    if !target.read_directory(Inode::ROOT, None, 1)?.is_empty() {
        let text = format!("{} is not empty: give a new directory", directory.display());
        return Err(failure(CommandExit::Usage, text));
    }
    stop::listen()?;
    let bar = progress::bytes("exporting", None);
    let exported = command.reading(context, |open| {
        let original = open.files.resolve(path)?;
        let mut tell = |done: &CopyProgress| tell(&bar, done);
        let mut copier = TreeCopier::new(&*open.files, &target, &mut tell);
        copier.copy_contents(original, Inode::ROOT)?;
        target.sync()?;
        let copied = copier.progress();
        bar.finish_and_clear();
        report(context, &copied)?;
        Ok(CommandExit::Done)
    });
    bar.finish_and_clear();
    exported.map_err(|error| stopped(error, "the export is not complete"))
}

pub(super) fn copy(
    command: &FilesCommand,
    context: &CommandContext,
    (from, to): (&[u8], &[u8]),
    is_recursive: bool,
) -> Result<CommandExit> {
    stop::listen()?;
    command
        .changing(context, |open| {
            let files = &*open.files;
            let original = files.resolve_with(from, LastLink::Keep)?;
            if files.attributes(original)?.kind == FileKind::Directory && !is_recursive {
                let text = format!(
                    "{} is a directory: add -r to copy it",
                    String::from_utf8_lossy(from)
                );
                return Err(failure(CommandExit::Usage, text));
            }
            let (_, own_name) = files.resolve_parent(from)?;
            let (parent, name) = match files.resolve(to) {
                Ok(target) if files.attributes(target)?.kind == FileKind::Directory => (target, own_name),
                _ => files.resolve_parent(to)?,
            };
            refuse_own_tree(files, original, parent, from)?;
            let mut tell = |_: &CopyProgress| go_on();
            TreeCopier::new(files, files, &mut tell).copy(original, parent, &name)?;
            Ok(())
        })
        .map_err(|error| stopped(error, "nothing was copied"))
}

/// Returns an error if `parent` is `original` or lies within it.
fn refuse_own_tree(files: &dyn FileSystem, original: Inode, parent: Inode, from: &[u8]) -> Result<()> {
    let mut above = parent;
    loop {
        if above == original {
            let text = format!("{} cannot be copied into itself", String::from_utf8_lossy(from));
            return Err(failure(CommandExit::Usage, text));
        }
        if above == Inode::ROOT {
            return Ok(());
        }
        above = files.parent(above)?;
    }
}

fn copy_contents(
    source: &dyn FileSystem,
    (files, target): (&dyn FileSystem, Inode),
    bar: &ProgressBar,
) -> Result<CopyProgress> {
    let mut tell = |done: &CopyProgress| tell(bar, done);
    let mut copier = TreeCopier::new(source, files, &mut tell);
    copier.copy_contents(Inode::ROOT, target)?;
    Ok(copier.progress())
}

fn tell(bar: &ProgressBar, done: &CopyProgress) -> ControlFlow<()> {
    bar.set_position(done.bytes);
    go_on()
}

fn go_on() -> ControlFlow<()> {
    match stop::asked() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// Replaces the error of a copy that Ctrl-C has stopped.
fn stopped(error: anyhow::Error, outcome: &str) -> anyhow::Error {
    match stop::asked() {
        true => failure(CommandExit::Interrupted, format!("stopped: {outcome}")),
        false => error,
    }
}

fn report(context: &CommandContext, copied: &CopyProgress) -> Result<()> {
    let mut out = ScreenOutput::new();
    if context.is_json() {
        out.json(&json!({
            "directories": copied.directories,
            "files": copied.files,
            "bytes": copied.bytes,
        }))?;
    } else {
        out.line(&format!(
            "{} files and {} directories, {}",
            copied.files,
            copied.directories,
            sizes::human(copied.bytes)
        ))?;
    }
    out.flush()?;
    Ok(())
}
