//! `files mkdir`, `mv`, `rm`, `compress`, `check`, `snapshot`, `promote`, `list` and `remove`.

use super::{FileCompression, FilesCommand, SnapshotAction, StorePath};
use crate::context::CommandContext;
use crate::terminal::confirm::Consent;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::ScreenOutput;
use alluvium_files::{COMPRESSION_ATTRIBUTE, FileKind, FilePaths as _, LastLink, RenameMode, SetMode};
use anyhow::Result;
use serde_json::json;
use std::io::Write;

/// The keyspaces of a file system begin with this name, and end with the name of their contents.
const PREFIX: &str = "files.";
const NAMES: &str = ".names";

pub(super) fn make_directory(
    command: &FilesCommand,
    context: &CommandContext,
    path: &[u8],
) -> Result<CommandExit> {
    command.changing(context, |open| {
        open.files.create_directories(path, 0o755)?;
        Ok(())
    })
}

pub(super) fn rename(
    command: &FilesCommand,
    context: &CommandContext,
    from: &[u8],
    to: &[u8],
) -> Result<CommandExit> {
    command.changing(context, |open| {
        let files = &*open.files;
        let (parent, name) = files.resolve_parent(from)?;
        let (new_parent, new_name) = match files.resolve_with(to, LastLink::Follow) {
            Ok(target) if files.attributes(target)?.kind == FileKind::Directory => (target, name.clone()),
            _ => files.resolve_parent(to)?,
        };
        files.rename(parent, &name, new_parent, &new_name, RenameMode::Replace)?;
        Ok(())
    })
}

pub(super) fn remove(
    command: &FilesCommand,
    context: &CommandContext,
    paths: &[StorePath],
    is_recursive: bool,
) -> Result<CommandExit> {
    command.changing(context, |open| {
        let files = &*open.files;
        for StorePath(path) in paths {
            let inode = files.resolve_with(path, LastLink::Keep)?;
            if files.attributes(inode)?.kind != FileKind::Directory {
                let (parent, name) = files.resolve_parent(path)?;
                files.unlink(parent, &name)?;
            } else if is_recursive {
                files.remove_all(path)?;
            } else {
                let text = format!(
                    "{} is a directory: add -r to remove it with everything in it",
                    String::from_utf8_lossy(path)
                );
                return Err(failure(CommandExit::Usage, text));
            }
        }
        Ok(())
    })
}

pub(super) fn compress(
    command: &FilesCommand,
    context: &CommandContext,
    path: &[u8],
    compression: FileCompression,
) -> Result<CommandExit> {
    let value: &[u8] = match compression {
        FileCompression::None => b"none",
        FileCompression::Zstd => b"zstd",
    };
    command.changing(context, |open| {
        let files = &*open.files;
        let mut found = Vec::new();
        files.walk(path, &mut |entry| {
            if matches!(entry.attributes.kind, FileKind::Directory | FileKind::Regular) {
                found.push(entry.attributes.inode);
            }
            Ok(())
        })?;
        for inode in found {
            files.set_extended_attribute(inode, COMPRESSION_ATTRIBUTE, value, SetMode::Any)?;
        }
        Ok(())
    })
}

pub(super) fn check(command: &FilesCommand, context: &CommandContext) -> Result<CommandExit> {
    command.managing(context, |open| {
        let report = open.check()?;
        let mut out = ScreenOutput::new();
        if context.is_json() {
            out.json(&json!({
                "directories": report.directories,
                "files": report.files,
                "names": report.names,
                "blocks": report.blocks,
                "bytes": report.bytes,
                "orphans": report.orphans,
                "open_transactions": report.branches,
                "findings": report.findings,
            }))?;
        } else {
            out.write_all(report.to_string().as_bytes())?;
        }
        out.flush()?;
        Ok(match report.is_whole() {
            true => CommandExit::Done,
            false => CommandExit::Damaged,
        })
    })
}

pub(super) fn snapshot(
    command: &FilesCommand,
    context: &CommandContext,
    action: &SnapshotAction,
) -> Result<CommandExit> {
    command.managing(context, |open| {
        match action {
            SnapshotAction::Create { name } => open.create_snapshot(name)?,
            SnapshotAction::Remove { name } => open.remove_snapshot(name)?,
            SnapshotAction::List => print_names(context, &open.snapshots()?)?,
        }
        Ok(CommandExit::Done)
    })
}

pub(super) fn promote(command: &FilesCommand, context: &CommandContext) -> Result<CommandExit> {
    command.managing(context, |open| {
        open.promote()?;
        Ok(CommandExit::Done)
    })
}

pub(super) fn list(context: &CommandContext) -> Result<CommandExit> {
    let store = context.open_to_read()?;
    let keyspaces = store.keyspaces()?;
    let names = keyspaces.iter().filter_map(|keyspace| keyspace["name"].as_str());
    let of_files = names.filter_map(|name| name.strip_prefix(PREFIX)?.strip_suffix(NAMES));
    let names: Vec<String> = of_files.map(str::to_owned).collect();
    store.close()?;
    print_names(context, &names)?;
    Ok(CommandExit::Done)
}

fn print_names(context: &CommandContext, names: &[String]) -> Result<()> {
    let mut out = ScreenOutput::new();
    if context.is_json() {
        out.json(&json!(names))?;
    } else {
        for name in names {
            out.line(name)?;
        }
    }
    out.flush()?;
    Ok(())
}

pub(super) fn remove_files(
    command: &FilesCommand,
    context: &CommandContext,
    consent: Consent,
) -> Result<CommandExit> {
    command.managing(context, |open| {
        consent.ask(&format!("All files of {} will be lost", command.files))?;
        open.remove()?;
        Ok(CommandExit::Done)
    })
}
