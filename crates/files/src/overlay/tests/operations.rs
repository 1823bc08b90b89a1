//! Random operations, which are the same on any file system.

use super::{find, node, split};
use crate::contract::FileSystem;
use crate::types::{
    AllocateMode, AttributeChange, FileKind, Inode, RenameMode, SetMode, TimeChange, Timestamp, WritePosition,
};
use crate::{ErrorKind, Result};
use fastrand::Rng;

/// An operation by paths.
#[derive(Clone, Debug)]
pub(super) enum PathOperation {
    Make(String, FileKind, u32),
    Unnamed(String),
    Write(String, WritePosition, usize, u8),
    Read(String, u64, usize),
    Resize(String, u64),
    Allocate(String, AllocateMode, u64, u64),
    Copy(String, u64, String, u64, u64),
    Unlink(String),
    RemoveDirectory(String),
    Rename(String, String, RenameMode),
    Link(String, String),
    Mode(String, u32),
    Owner(String, u32, u32),
    Times(String, i64),
    SetExtended(String, u8, u8),
    RemoveExtended(String, u8),
    List(String),
    UnlinkHeld(String),
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "long name"];

fn path(rng: &mut Rng) -> String {
    let depth = 1 + rng.usize(0..3).max(rng.usize(0..3)) % 3;
    let names: Vec<&str> = (0..depth).map(|_| *rng.choice(&NAMES).unwrap()).collect();
    names.join("/")
}

fn offset(rng: &mut Rng) -> u64 {
    match rng.u8(0..4) {
        0 => rng.u64(0..200),
        1 => rng.u64(0..5) * 4096,
        2 => rng.u64(0..20_000),
        _ => rng.u64(0..320_000),
    }
}

impl PathOperation {
    pub(super) fn random(rng: &mut Rng) -> PathOperation {
        use PathOperation as Op;
        let kinds = [
            FileKind::Regular,
            FileKind::Regular,
            FileKind::Directory,
            FileKind::Directory,
            FileKind::Symlink,
            FileKind::Pipe,
        ];
        match rng.u8(0..40) {
            0..=8 => Op::Make(path(rng), *rng.choice(&kinds).unwrap(), rng.u32(0..0o1_0000)),
            9 => Op::Unnamed(path(rng)),
            10..=13 => {
                let at = if rng.bool() {
                    WritePosition::End
                } else {
                    WritePosition::At(offset(rng))
                };
                Op::Write(path(rng), at, rng.usize(0..10_000), rng.u8(..))
            }
            14 => Op::Read(path(rng), offset(rng), rng.usize(0..100_000)),
            15 => Op::Resize(path(rng), offset(rng)),
            16 => {
                let modes = [
                    AllocateMode::Extend,
                    AllocateMode::KeepSize,
                    AllocateMode::PunchHole,
                ];
                let length = rng.u64(0..20_000);
                Op::Allocate(path(rng), *rng.choice(&modes).unwrap(), offset(rng), length)
            }
            17 => Op::Copy(
                path(rng),
                offset(rng),
                path(rng),
                offset(rng),
                rng.u64(0..100_000),
            ),
            18..=20 => Op::Unlink(path(rng)),
            21..=22 => Op::RemoveDirectory(path(rng)),
            23..=29 => {
                let modes = [
                    RenameMode::Replace,
                    RenameMode::Replace,
                    RenameMode::Keep,
                    RenameMode::Exchange,
                ];
                Op::Rename(path(rng), path(rng), *rng.choice(&modes).unwrap())
            }
            30..=31 => Op::Link(path(rng), path(rng)),
            32 => Op::Mode(path(rng), rng.u32(0..0o1_0000)),
            33 => Op::Owner(path(rng), rng.u32(0..3), rng.u32(0..3)),
            34 => Op::Times(path(rng), rng.i64(-5..5_000_000_000)),
            35 => Op::SetExtended(path(rng), rng.u8(0..3), rng.u8(..)),
            36 => Op::RemoveExtended(path(rng), rng.u8(0..3)),
            37..=38 => Op::List(path(rng)),
            _ => Op::UnlinkHeld(path(rng)),
        }
    }

    /// Returns what the operation answers, in a form that can be compared: the kind of an error
    /// with its number, or what a caller sees.
    pub(super) fn run(&self, files: &dyn FileSystem) -> std::result::Result<Vec<u8>, (ErrorKind, i32)> {
        self.attempt(files).map_err(|error| (error.kind(), error.errno()))
    }

    fn attempt(&self, files: &dyn FileSystem) -> Result<Vec<u8>> {
        use PathOperation as Op;
        let nothing = |()| Vec::new();
        match self {
            Op::Make(path, kind, mode) => {
                let (parent, name) = split(path);
                // Linux gives all symbolic links this mode.
                let mode = if *kind == FileKind::Symlink { 0o777 } else { *mode };
                let made = files.create(find(files, parent)?, name, &node(*kind, mode))?;
                Ok(format!("{:?} {:o}", made.kind, made.mode).into_bytes())
            }
            Op::Unnamed(path) => {
                let (parent, name) = split(path);
                let parent = find(files, parent)?;
                let made = files
                    .create_unnamed(parent, &node(FileKind::Regular, 0o640))?
                    .inode;
                files.write(made, WritePosition::At(3), b"unnamed")?;
                let linked = files.link(made, parent, name);
                files.release(made)?;
                linked.map(|linked| linked.links.to_string().into_bytes())
            }
            Op::Write(path, position, length, byte) => {
                let at = files.write(find(files, path)?, *position, &vec![*byte; *length])?;
                Ok(at.to_string().into_bytes())
            }
            Op::Read(path, offset, length) => files.read(find(files, path)?, *offset, *length),
            Op::Resize(path, size) => change(files, path, |change| change.size = Some(*size)),
            Op::Allocate(path, mode, offset, length) => files
                .allocate(find(files, path)?, *mode, *offset, *length)
                .map(nothing),
            Op::Copy(from, at, to, to_at, length) => {
                let (from, to) = (find(files, from)?, find(files, to)?);
                Ok(files
                    .copy_range(from, *at, to, *to_at, *length)?
                    .to_string()
                    .into_bytes())
            }
            Op::Unlink(path) => super::unlink(files, path).map(nothing),
            Op::RemoveDirectory(path) => super::remove_directory(files, path).map(nothing),
            other => other.attempt_on_names(files),
        }
    }

    /// Attempts an operation on names or attributes.
    fn attempt_on_names(&self, files: &dyn FileSystem) -> Result<Vec<u8>> {
        use PathOperation as Op;
        let nothing = |()| Vec::new();
        match self {
            Op::Rename(from, to, mode) => {
                let ((from, name), (to, new_name)) = (split(from), split(to));
                let (from, to) = (find(files, from)?, find(files, to)?);
                files.rename(from, name, to, new_name, *mode).map(nothing)
            }
            Op::Link(from, to) => super::link(files, from, to).map(nothing),
            Op::Mode(path, mode) => change(files, path, |change| change.mode = Some(*mode)),
            Op::Owner(path, user, group) => change(files, path, |change| {
                (change.user, change.group) = (Some(*user), Some(*group));
                // Linux clears bits of the mode, which a mount does for other file systems.
                change.mode = Some(0o650);
            }),
            Op::Times(path, seconds) => {
                let time = TimeChange::At(Timestamp {
                    seconds: *seconds,
                    nanoseconds: 7,
                });
                change(files, path, |change| change.modified = Some(time))
            }
            Op::SetExtended(path, name, value) => {
                if !takes_extended(files, path)? {
                    return Ok(Vec::new());
                }
                let name = format!("user.{name}");
                let value = vec![*value; usize::from(*value)];
                files
                    .set_extended_attribute(find(files, path)?, name.as_bytes(), &value, SetMode::Any)
                    .map(nothing)
            }
            Op::RemoveExtended(path, name) => {
                if !takes_extended(files, path)? {
                    return Ok(Vec::new());
                }
                let name = format!("user.{name}");
                files
                    .remove_extended_attribute(find(files, path)?, name.as_bytes())
                    .map(nothing)
            }
            Op::List(path) => {
                let entries = files.read_directory(find(files, path)?, None, 100)?;
                Ok(entries
                    .into_iter()
                    .flat_map(|entry| entry.name.into_iter().chain([b'/']))
                    .collect())
            }
            Op::UnlinkHeld(path) => unlink_held(files, path),
            other => unreachable!("{other:?} is attempted before"),
        }
    }
}

/// Returns whether Linux lets users set extended attributes of what a path leads to.
fn takes_extended(files: &dyn FileSystem, path: &str) -> Result<bool> {
    let kind = files.attributes(find(files, path)?)?.kind;
    Ok(matches!(kind, FileKind::Regular | FileKind::Directory))
}

fn change(files: &dyn FileSystem, path: &str, set: impl FnOnce(&mut AttributeChange)) -> Result<Vec<u8>> {
    let mut change = AttributeChange::default();
    set(&mut change);
    let inode = find(files, path)?;
    if change.mode.is_some() && files.attributes(inode)?.kind == FileKind::Symlink {
        return Ok(Vec::new());
    }
    let found = files.set_attributes(inode, &change)?;
    Ok(format!("{:o} {} {}", found.mode, found.user, found.group).into_bytes())
}

/// Reads and writes a file after its name is gone, which an open descriptor allows.
fn unlink_held(files: &dyn FileSystem, path: &str) -> Result<Vec<u8>> {
    let inode: Inode = find(files, path)?;
    files.hold(inode)?;
    let result = (|| {
        super::unlink(files, path)?;
        let links = files.attributes(inode)?.links;
        files.write(inode, WritePosition::At(5), b"held")?;
        let mut data = files.read(inode, 0, 100)?;
        data.push(links as u8);
        Ok(data)
    })();
    files.release(inode)?;
    result
}
