//! `files history`.

use super::FilesCommand;
use super::list::{date, letter, permissions};
use crate::context::CommandContext;
use crate::terminal::exit::CommandExit;
use crate::terminal::screen::ScreenOutput;
use alluvium_files::{FileVersion, Inode};
use anyhow::Result;
use serde_json::{Value, json};
use std::io::Write;

pub(super) fn print(command: &FilesCommand, context: &CommandContext, path: &[u8]) -> Result<CommandExit> {
    command.managing(context, |open| {
        let versions = open.history(path)?;
        let mut out = ScreenOutput::new();
        for (index, version) in versions.iter().enumerate().rev() {
            let before = index.checked_sub(1).and_then(|before| versions.get(before));
            let change = change_since(before, version);
            if context.is_json() {
                out.json(&described(version, change))?;
            } else {
                out.line(&line(version, change))?;
            }
        }
        out.flush()?;
        Ok(CommandExit::Done)
    })
}

/// Returns what a version is compared with the one before it.
fn change_since(before: Option<&FileVersion>, version: &FileVersion) -> &'static str {
    let inode = |version: &FileVersion| -> Option<Inode> { Some(version.attributes.as_ref()?.inode) };
    match (before.map(inode), inode(version)) {
        (None, Some(_)) => "first",
        (Some(None), Some(_)) => "added",
        (Some(before), now) if now.is_some() && before == now => "changed",
        (Some(_), Some(_)) => "replaced",
        (Some(Some(_)), None) => "removed",
        (_, None) => "absent",
    }
}

fn line(version: &FileVersion, change: &str) -> String {
    let mut places = version.snapshots.clone();
    if version.is_newest {
        places.push("(newest)".to_owned());
    }
    let places = places.join(" ");
    match &version.attributes {
        None => format!("{change:<9} {:>12}  {:<16}  {:<10}  {places}", "-", "-", "-"),
        Some(found) => {
            let size = match version.entries {
                Some(entries) => format!("{entries} entries"),
                None => found.size.to_string(),
            };
            format!(
                "{change:<9} {size:>12}  {:<16}  {}{}  {places}",
                date(found.modified.seconds),
                letter(found.kind),
                permissions(found.mode)
            )
        }
    }
}

fn described(version: &FileVersion, change: &str) -> Value {
    let found = version.attributes.as_ref();
    json!({
        "change": change,
        "snapshots": version.snapshots,
        "is_newest": version.is_newest,
        "exists": found.is_some(),
        "kind": found.map(|found| format!("{:?}", found.kind).to_lowercase()),
        "inode": found.map(|found| found.inode.0),
        "size": found.map(|found| found.size),
        "entries": version.entries,
        "mode": found.map(|found| format!("{:04o}", found.mode)),
        "user": found.map(|found| found.user),
        "group": found.map(|found| found.group),
        "modified_seconds": found.map(|found| found.modified.seconds),
    })
}
