//! Measures single operations on files: processor time and time of each.
//!
//! ```sh
//! cargo run --release -p alluvium-files --example operations -- 20000
//! ```
//!
//! The argument is the number of files. The store lies in the directory for temporary files.

use alluvium::Options;
use alluvium_files::{
    AttributeChange, FileKind, FileSystem, Files, Inode, NewNode, RenameMode, WritePosition,
};
use std::error::Error;
use std::time::{Duration, Instant};

/// Returns the processor time of this process.
fn processor_time() -> Duration {
    // SAFETY: the call fills the structure, which is plain data.
    let usage = unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let of = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    of(usage.ru_utime) + of(usage.ru_stime)
}

fn each(
    name: &str,
    count: u64,
    mut body: impl FnMut(u64) -> alluvium_files::Result<()>,
) -> Result<(), Box<dyn Error>> {
    let (began, processor) = (Instant::now(), processor_time());
    for number in 0..count {
        body(number)?;
    }
    let of = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
    println!(
        "{name:28} {:8.1} us  {:8.1} us of processor",
        of(began.elapsed()),
        of(processor_time().saturating_sub(processor))
    );
    Ok(())
}

fn name(number: u64) -> Vec<u8> {
    format!("file-{number}").into_bytes()
}

fn node(kind: FileKind) -> NewNode<'static> {
    NewNode {
        kind,
        mode: 0o644,
        user: 0,
        group: 0,
        device: 0,
        target: b"",
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let count = std::env::args()
        .nth(1)
        .map_or(Ok(20_000), |text| text.parse::<u64>())?;
    let place = tempfile::tempdir()?;
    let db = Options::new().memory(64 << 20).open(place.path().join("store"))?;
    let files = Files::open(&db, "measured")?;
    let root = Inode::ROOT;
    let mut inodes = Vec::new();
    each("snapshot", count, |_| {
        drop(db.snapshot());
        Ok(())
    })?;
    each("transaction, empty", count, |_| Ok(db.begin().commit()?))?;
    each("create", count, |number| {
        let created = files.create(root, &name(number), &node(FileKind::Regular))?;
        inodes.push(created.inode);
        Ok(())
    })?;
    let inode = |number: u64| inodes[number as usize];
    each("lookup", count, |number| {
        files.lookup(root, &name(number)).map(drop)
    })?;
    each("lookup, absent", count, |number| {
        files
            .lookup(root, &name(number + count))
            .map_or(Ok(()), |_| Ok(()))
    })?;
    each("attributes", count, |number| {
        files.attributes(inode(number)).map(drop)
    })?;
    each("attributes of directory", count, |_| {
        files.attributes(root).map(drop)
    })?;
    measure_attributes(&files, count, &inodes)?;
    measure_contents(&files, count, &inodes)?;
    measure_branches(&files, &inodes)?;
    measure_names(&files, count, &inodes)
}

/// Measures the beginning of branches, and commits of one change, which do not depend on the number
/// of files.
fn measure_branches(files: &Files, inodes: &[Inode]) -> Result<(), Box<dyn Error>> {
    let branch = |number: u64| format!("branch-{number}");
    let few = (inodes.len() as u64).min(100);
    each("begin a branch", few, |number| {
        files.begin_branch(&branch(number), None)
    })?;
    let inode = |number: u64| inodes[number as usize];
    each("open a branch and write", few, |number| {
        let opened = files.open_branch(&branch(number))?;
        opened
            .write(inode(number), WritePosition::At(0), &[9; 100])
            .map(drop)
    })?;
    each("changes of a branch", few, |number| {
        files.branch_changes(&branch(number)).map(drop)
    })?;
    each("commit a branch", few, |number| {
        files.commit_branch(&branch(number))
    })
}

fn measure_attributes(files: &Files, count: u64, inodes: &[Inode]) -> Result<(), Box<dyn Error>> {
    let inode = |number: u64| inodes[number as usize];
    let change = AttributeChange {
        mode: Some(0o600),
        ..AttributeChange::default()
    };
    each("set_attributes", count, |number| {
        files.set_attributes(inode(number), &change).map(drop)
    })?;
    each("hold and release", count, |number| {
        files.hold(inode(number))?;
        files.release(inode(number))
    })?;
    Ok(())
}

fn measure_contents(files: &Files, count: u64, inodes: &[Inode]) -> Result<(), Box<dyn Error>> {
    let inode = |number: u64| inodes[number as usize];
    for length in [1000, 4096, 16_384, 131_072] {
        let data = vec![7; length];
        each(&format!("write {length}"), count / 10, |number| {
            files.write(inode(number), WritePosition::At(0), &data).map(drop)
        })?;
    }
    each("read 4096 of 131072", count / 10, |number| {
        files.read(inode(number), 8192, 4096).map(drop)
    })?;
    each("read 131072", count / 10, |number| {
        files.read(inode(number), 0, 131_072).map(drop)
    })?;
    let log = inode(count - 1);
    each("append 100", count, |_| {
        files.write(log, WritePosition::End, &[7; 100]).map(drop)
    })?;
    each("overwrite 100", count, |number| {
        files
            .write(log, WritePosition::At(number * 100), &[8; 100])
            .map(drop)
    })?;
    Ok(())
}

fn measure_names(files: &Files, count: u64, inodes: &[Inode]) -> Result<(), Box<dyn Error>> {
    let (inode, root) = (|number: u64| inodes[number as usize], Inode::ROOT);
    each("read_directory 1000", count / 1000, |_| {
        files.read_directory(root, None, 1000).map(drop)
    })?;
    each("link", count, |number| {
        files
            .link(inode(number), root, format!("link-{number}").as_bytes())
            .map(drop)
    })?;
    each("rename", count, |number| {
        let new = format!("moved-{number}");
        files.rename(root, &name(number), root, new.as_bytes(), RenameMode::Replace)
    })?;
    each("unlink one of two", count, |number| {
        files.unlink(root, format!("link-{number}").as_bytes())
    })?;
    each("unlink", count, |number| {
        files.unlink(root, format!("moved-{number}").as_bytes())
    })?;
    each("create directory", count, |number| {
        files
            .create(root, &name(number), &node(FileKind::Directory))
            .map(drop)
    })?;
    each("remove directory", count, |number| {
        files.remove_directory(root, &name(number))
    })?;
    Ok(())
}
