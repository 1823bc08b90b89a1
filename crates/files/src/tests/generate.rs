//! Random operations.

use super::perform::FileOperation;
use super::reference::{COMPRESSION, ReferenceFiles};
use crate::{AllocateMode, FileKind, Inode, RenameMode, SeekTarget, SetMode, WritePosition};
use fastrand::Rng;

const NAMES: [&[u8]; 7] = [
    b"a",
    b"b",
    b"c",
    b"d",
    b".snapshots",
    b"\xff\x01\n\"",
    &[255; 255],
];
const ATTRIBUTES: [&[u8]; 4] = [b"user.a", b"user.b", b"system.posix_acl_access", COMPRESSION];

/// Largest offset that operations use.
const MOST: u64 = 9000;

fn name(random: &mut Rng) -> Vec<u8> {
    NAMES[random.usize(..NAMES.len())].to_vec()
}

fn attribute(random: &mut Rng) -> Vec<u8> {
    ATTRIBUTES[random.usize(..ATTRIBUTES.len())].to_vec()
}

/// Returns an inode that exists, mostly of the kind that is asked for.
fn inode(random: &mut Rng, files: &ReferenceFiles, kind: FileKind) -> Inode {
    let any = random.u8(..16) == 0;
    let all = files.nodes.iter().filter(|(_, node)| any || node.kind == kind);
    let all: Vec<Inode> = all.map(|(&inode, _)| inode).collect();
    match all.is_empty() {
        true => Inode::ROOT,
        false => all[random.usize(..all.len())],
    }
}

fn kind(random: &mut Rng) -> FileKind {
    match random.u8(..10) {
        0..4 => FileKind::Directory,
        4 => FileKind::Symlink,
        5 => FileKind::Pipe,
        _ => FileKind::Regular,
    }
}

/// Returns an offset, often one near the end of a block.
fn offset(random: &mut Rng) -> u64 {
    match random.u8(..3) {
        0 => random.u64(..MOST / 512) * 512,
        1 => random.u64(..200),
        _ => random.u64(..MOST),
    }
}

fn data(random: &mut Rng) -> Vec<u8> {
    let length = match random.u8(..4) {
        0 => random.usize(..2000),
        1 => 512,
        _ => random.usize(..60),
    };
    [random.u8(1..), 0, random.u8(..)].repeat(length.div_ceil(3))[..length].to_vec()
}

/// Returns an operation, which may fail.
pub(super) fn operation(random: &mut Rng, files: &ReferenceFiles) -> FileOperation {
    let directory = inode(random, files, FileKind::Directory);
    let file = inode(random, files, FileKind::Regular);
    match random.u8(..100) {
        0..4 => FileOperation::Lookup(directory, name(random)),
        4..7 => FileOperation::Attributes(file),
        7..9 => FileOperation::Parent(directory),
        9..14 => FileOperation::Resize(file, offset(random)),
        14..17 => FileOperation::SetMode([file, directory][random.usize(..2)], random.u32(..0o2000)),
        17..32 => FileOperation::Create(directory, name(random), kind(random)),
        32..34 => FileOperation::CreateUnnamed(directory),
        34..39 => FileOperation::Link(file, directory, name(random)),
        39..46 => FileOperation::Unlink(directory, name(random)),
        46..50 => FileOperation::RemoveDirectory(directory, name(random)),
        50..60 => {
            let to = inode(random, files, FileKind::Directory);
            let modes = [
                RenameMode::Replace,
                RenameMode::Replace,
                RenameMode::Exchange,
                RenameMode::Keep,
            ];
            let mode = modes[random.usize(..4)];
            FileOperation::Rename(directory, name(random), to, name(random), mode)
        }
        60..63 => FileOperation::Hold(file),
        63..66 => FileOperation::Release(held(random, files)),
        66..70 => FileOperation::Read(file, offset(random), random.usize(..3000)),
        70..78 => {
            let position = match random.u8(..3) {
                0 => WritePosition::End,
                _ => WritePosition::At(offset(random)),
            };
            FileOperation::Write(file, position, data(random))
        }
        78..82 => {
            let modes = [
                AllocateMode::Extend,
                AllocateMode::KeepSize,
                AllocateMode::PunchHole,
                AllocateMode::Zero,
                AllocateMode::ZeroKeepSize,
            ];
            FileOperation::Allocate(file, modes[random.usize(..5)], offset(random), offset(random))
        }
        82..85 => {
            let target = [SeekTarget::Data, SeekTarget::Hole][random.usize(..2)];
            FileOperation::Seek(file, offset(random), target)
        }
        85..88 => {
            let to = inode(random, files, FileKind::Regular);
            FileOperation::Copy(file, offset(random), to, offset(random), offset(random))
        }
        88..91 => FileOperation::List(directory),
        91..93 => FileOperation::GetExtended(file, attribute(random)),
        93..96 => {
            let mode = [SetMode::Any, SetMode::Create, SetMode::Replace][random.usize(..3)];
            let inode = [file, directory][random.usize(..2)];
            let name = attribute(random);
            let value = match name == COMPRESSION {
                true => [&b"zstd"[..], b"zstd", b"none", b"lz9"][random.usize(..4)].to_vec(),
                false => data(random),
            };
            FileOperation::SetExtended(inode, name, value, mode)
        }
        96..98 => FileOperation::RemoveExtended(file, attribute(random)),
        _ => FileOperation::ListExtended([file, directory][random.usize(..2)]),
    }
}

fn held(random: &mut Rng, files: &ReferenceFiles) -> Inode {
    let held: Vec<Inode> = files.view.holds.keys().copied().collect();
    match held.is_empty() {
        true => Inode::ROOT,
        false => held[random.usize(..held.len())],
    }
}
