//! `files ls`, `files cat` and `files du`.

use super::{FilesCommand, StorePath};
use crate::context::CommandContext;
use crate::terminal::exit::CommandExit;
use crate::terminal::screen::ScreenOutput;
use crate::values::bytes::{add_json_field, escape};
use crate::values::sizes;
use alluvium_files::{Attributes, FileKind, FilePaths as _, FileSystem, Inode, LastLink};
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Number of entries that are read at a time.
const PAGE: usize = 1000;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// A line of a listing.
struct ListedFile {
    name: Vec<u8>,
    attributes: Attributes,
    target: Option<Vec<u8>>,
}

pub(super) fn list(
    command: &FilesCommand,
    context: &CommandContext,
    path: &[u8],
    is_long: bool,
) -> Result<CommandExit> {
    command.reading(context, |open| {
        let files = &*open.files;
        let inode = files.resolve_with(path, LastLink::Keep)?;
        let found = files.attributes(inode)?;
        let mut out = ScreenOutput::new();
        if found.kind == FileKind::Directory {
            let mut after: Option<Vec<u8>> = None;
            loop {
                let page = files.read_directory(inode, after.as_deref(), PAGE)?;
                let Some(last) = page.last() else {
                    break;
                };
                after = Some(last.name.clone());
                for entry in page {
                    let line = listed(files, entry.name, entry.inode)?;
                    print(context, &mut out, &line, is_long)?;
                }
            }
        } else {
            let line = listed(files, path.to_vec(), inode)?;
            print(context, &mut out, &line, is_long)?;
        }
        out.flush()?;
        Ok(CommandExit::Done)
    })
}

fn listed(files: &dyn FileSystem, name: Vec<u8>, inode: Inode) -> Result<ListedFile> {
    let attributes = files.attributes(inode)?;
    let target = match attributes.kind {
        FileKind::Symlink => Some(files.read_link(inode)?),
        _ => None,
    };
    Ok(ListedFile {
        name,
        attributes,
        target,
    })
}

fn print(context: &CommandContext, out: &mut ScreenOutput, line: &ListedFile, is_long: bool) -> Result<()> {
    if context.is_json() {
        return out.json(&described(line));
    }
    if is_long {
        let found = &line.attributes;
        let head = format!(
            "{}{} {:>4} {:>6} {:>6} {:>12} {}  ",
            letter(found.kind),
            permissions(found.mode),
            found.links,
            found.user,
            found.group,
            found.size,
            date(found.modified.seconds)
        );
        out.write_all(head.as_bytes())?;
    }
    out.write_all(escape(&line.name).as_bytes())?;
    if let Some(target) = line.target.as_ref().filter(|_| is_long) {
        out.write_all(b" -> ")?;
        out.write_all(escape(target).as_bytes())?;
    }
    out.write_all(b"\n")?;
    Ok(())
}

fn described(line: &ListedFile) -> Value {
    let found = &line.attributes;
    let mut fields = Map::new();
    add_json_field(&mut fields, "name", &line.name);
    match &line.target {
        Some(target) => add_json_field(&mut fields, "target", target),
        None => drop(fields.insert("target".to_owned(), Value::Null)),
    }
    let others = json!({
        "kind": format!("{:?}", found.kind).to_lowercase(),
        "inode": found.inode.0,
        "mode": format!("{:04o}", found.mode),
        "links": found.links,
        "user": found.user,
        "group": found.group,
        "size": found.size,
        "modified_seconds": found.modified.seconds,
    });
    fields.extend(others.as_object().cloned().unwrap_or_default());
    fields.into()
}

pub(super) fn letter(kind: FileKind) -> char {
    match kind {
        FileKind::Regular => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::Pipe => 'p',
        FileKind::Socket => 's',
        FileKind::BlockDevice => 'b',
        FileKind::CharacterDevice => 'c',
    }
}

/// Returns permission bits as `ls` writes them.
pub(super) fn permissions(mode: u32) -> String {
    let mut text = String::new();
    for (shift, special, lower, upper) in [
        (6, 0o4000, 's', 'S'),
        (3, 0o2000, 's', 'S'),
        (0, 0o1000, 't', 'T'),
    ] {
        let bits = mode >> shift;
        text.push(if bits & 4 == 0 { '-' } else { 'r' });
        text.push(if bits & 2 == 0 { '-' } else { 'w' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, true) => lower,
            (false, true) => upper,
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// Returns a time as `YYYY-MM-DD HH:MM` in UTC (the algorithm `civil_from_days` of Hinnant, 2013).
pub(crate) fn date(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}",
        rest / 3600,
        rest % 3600 / 60
    )
}

pub(super) fn cat(
    command: &FilesCommand,
    context: &CommandContext,
    paths: &[StorePath],
) -> Result<CommandExit> {
    command.reading(context, |open| {
        let mut out = io::stdout().lock();
        for StorePath(path) in paths {
            let inode = open.files.resolve(path)?;
            let mut offset = 0;
            loop {
                let piece = open.files.read(inode, offset, PIECE)?;
                out.write_all(&piece)?;
                offset += piece.len() as u64;
                if piece.len() < PIECE {
                    break;
                }
            }
        }
        out.flush()?;
        Ok(CommandExit::Done)
    })
}

pub(super) fn usage(command: &FilesCommand, context: &CommandContext, path: &[u8]) -> Result<CommandExit> {
    command.reading(context, |open| {
        let used = open.files.usage(path)?;
        let mut out = ScreenOutput::new();
        if context.is_json() {
            out.json(&json!({
                "directories": used.directories,
                "files": used.files,
                "bytes": used.bytes,
                "occupied_bytes": used.occupied_bytes,
            }))?;
        } else {
            out.line(&format!(
                "{} in {} files and {} directories, which occupy {}",
                sizes::human(used.bytes),
                used.files,
                used.directories,
                sizes::human(used.occupied_bytes)
            ))?;
        }
        out.flush()?;
        Ok(CommandExit::Done)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00"),
            (951_827_696, "2000-02-29 12:34"),
            (-1, "1969-12-31 23:59"),
            (4_107_542_400, "2100-03-01 00:00"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }

    #[test]
    fn permissions_are_written_like_those_of_ls() {
        for (mode, text) in [
            (0o644, "rw-r--r--"),
            (0o4755, "rwsr-xr-x"),
            (0o2640, "rw-r-S---"),
            (0o1777, "rwxrwxrwt"),
            (0o1666, "rw-rw-rwT"),
        ] {
            assert_eq!(permissions(mode), text);
        }
    }
}
