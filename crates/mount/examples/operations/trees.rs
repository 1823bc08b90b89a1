//! Trees of small files: the work of package managers, archives and version control.

use crate::Outcome;
use crate::place::Place;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Sizes of files in bytes, each as frequent as the others: those of a tree of installed packages,
/// of which half are shorter than 2 KiB and few are long.
const SIZES: [usize; 20] = [
    120, 350, 400, 620, 800, 900, 1100, 1300, 1500, 1800, 2100, 2600, 3200, 4000, 5200, 7000, 9500, 14_000,
    24_000, 60_000,
];
/// Directories of a package, below its own, and files in each.
const DIRECTORIES: [&str; 4] = ["", "lib", "dist", "dist/types"];
const FILES: usize = 10;
/// Files of the tree that is archived and cloned.
const SOURCE_FILES: usize = 3000;

/// What a tree of files is worked on with, outside of the measured places.
pub(crate) struct TreeInputs {
    files: usize,
    directory: PathBuf,
}

/// The time of one step, in seconds. `None`: its program is missing.
pub(crate) struct TreeTime {
    pub(crate) step: &'static str,
    pub(crate) seconds: Option<f64>,
}

impl TreeInputs {
    /// Makes an archive and a repository of a source tree in an empty directory.
    pub(crate) fn new(directory: &Path, files: usize) -> Outcome<TreeInputs> {
        let source = directory.join("source");
        create(&source, SOURCE_FILES)?;
        let inputs = TreeInputs {
            files,
            directory: directory.to_owned(),
        };
        run(
            "tar",
            &[
                "cf",
                &inputs.path("source.tar"),
                "-C",
                &inputs.path("source"),
                ".",
            ],
        )?;
        let git = |arguments: &[&str]| {
            let source = inputs.path("source");
            let identity = ["-C", &source, "-c", "user.name=a", "-c", "user.email=a@b.c"];
            run("git", &[&identity[..], arguments].concat())
        };
        git(&["init", "-q"])?;
        git(&["add", "."])?;
        git(&["commit", "-q", "-m", "all"])?;
        Ok(inputs)
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }
}

/// Runs a program. Returns whether it is there.
fn run(program: &str, arguments: &[&str]) -> io::Result<bool> {
    let status = Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => Ok(true),
        Ok(status) => Err(io::Error::other(format!("{program} {arguments:?}: {status}"))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the path of a file of a tree.
fn file(base: &Path, number: usize) -> PathBuf {
    directory(base, number / FILES).join(format!("module-{}.js", number % FILES))
}

/// Returns the path of a directory of a tree.
fn directory(base: &Path, number: usize) -> PathBuf {
    let package = base.join(format!("package-{:04}", number / DIRECTORIES.len()));
    package.join(DIRECTORIES[number % DIRECTORIES.len()])
}

/// Returns the contents of a file: text that does not repeat.
fn contents(number: usize) -> Vec<u8> {
    let mut state = number as u64 + 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        b'a' + ((state >> 33) % 26) as u8
    };
    (0..SIZES[number % SIZES.len()]).map(|_| next()).collect()
}

/// Creates a tree of `files` files.
fn create(base: &Path, files: usize) -> io::Result<()> {
    fs::create_dir(base)?;
    for number in 0..files {
        if number % FILES == 0 {
            fs::create_dir_all(directory(base, number / FILES))?;
        }
        fs::write(file(base, number), contents(number))?;
    }
    Ok(())
}

/// Visits all entries of a tree.
fn stat_all(base: &Path) -> io::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(base)? {
        let entry = entry?;
        count += 1;
        if entry.metadata()?.is_dir() {
            count += stat_all(&entry.path())?;
        }
    }
    Ok(count)
}

fn read_all(base: &Path, files: usize) -> io::Result<()> {
    for number in 0..files {
        let found = fs::read(file(base, number))?.len();
        if found != SIZES[number % SIZES.len()] {
            return Err(io::Error::other(format!("file {number} has {found} bytes")));
        }
    }
    Ok(())
}

/// Measures all steps in a place. Before each, a mount is mounted again, so that the kernel
/// remembers nothing of it.
pub(crate) fn all(place: &mut Place, inputs: &TreeInputs) -> Outcome<Vec<TreeTime>> {
    let mut times = Vec::new();
    let base = place.directory().to_owned();
    let path = |name: &str| base.join(name).display().to_string();
    let mut step = |step: &'static str, work: &dyn Fn() -> io::Result<bool>| -> Outcome<()> {
        place.forget()?;
        let start = Instant::now();
        let is_done = work()?;
        let seconds = is_done.then(|| start.elapsed().as_secs_f64());
        times.push(TreeTime { step, seconds });
        Ok(())
    };
    let (tree, files) = (base.join("tree"), inputs.files);
    step("create", &|| create(&tree, files).map(|()| true))?;
    step("stat all", &|| stat_all(&tree).map(|count| count > files))?;
    step("read all", &|| read_all(&tree, files).map(|()| true))?;
    step("rm -rf", &|| run("rm", &["-rf", &path("tree")]))?;
    fs::create_dir(base.join("unpacked"))?;
    step("tar x", &|| {
        run(
            "tar",
            &["xf", &inputs.path("source.tar"), "-C", &path("unpacked")],
        )
    })?;
    step("git clone", &|| {
        run("git", &["clone", "-q", &inputs.path("source"), &path("clone")])
    })?;
    step("git status", &|| {
        run("git", &["-C", &path("clone"), "status", "--porcelain"])
    })?;
    step("rm -rf of both", &|| {
        run("rm", &["-rf", &path("unpacked"), &path("clone")])
    })?;
    Ok(times)
}
