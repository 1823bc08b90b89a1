//! Compiles programs in C, and runs them with the library that was built with this test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of this package.
pub(crate) fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder with the libraries: that of this test's program.
pub(crate) fn libraries() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().unwrap().to_owned()
}

/// Returns a path of a tool, or `None` if it is missing.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths)
        .map(|path| path.join(name))
        .find(|path| path.exists())
}

/// A folder with a compiled program and the library under its names.
pub(crate) struct CompiledProgram {
    place: tempfile::TempDir,
}

impl CompiledProgram {
    /// Compiles a source file of this package, with the compiler that built Zstd.
    pub(crate) fn new(source: &str, flags: &[&str]) -> CompiledProgram {
        let place = tempfile::tempdir().unwrap();
        for name in ["liballuvium.so", "liballuvium.so.0"] {
            std::os::unix::fs::symlink(libraries().join("liballuvium_c.so"), place.path().join(name))
                .unwrap();
        }
        let built = Command::new("cc")
            .args([
                "-std=c11",
                "-D_GNU_SOURCE",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-O1",
                "-g",
            ])
            .args(flags)
            .arg("-I")
            .arg(folder().join("include"))
            .arg(folder().join(source))
            .arg("-L")
            .arg(place.path())
            .args(["-lalluvium", "-lpthread", "-o"])
            .arg(place.path().join("program"))
            .output()
            .unwrap();
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );
        CompiledProgram { place }
    }

    /// The folder of the program.
    pub(crate) fn folder(&self) -> &Path {
        self.place.path()
    }

    /// Runs the program. Returns its output if it has succeeded.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String, Output> {
        self.run_under(&[], arguments)
    }

    /// Runs the program under another one.
    pub(crate) fn run_under(&self, runner: &[&str], arguments: &[&str]) -> Result<String, Output> {
        let program = self.folder().join("program");
        let mut command = match runner.split_first() {
            None => Command::new(program),
            Some((runner, flags)) => {
                let mut command = Command::new(runner);
                command.args(flags).arg(program);
                command
            }
        };
        let output = command
            .args(arguments)
            .current_dir(self.folder())
            .env("LD_LIBRARY_PATH", self.folder())
            .output()
            .unwrap();
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout).unwrap()),
            false => Err(output),
        }
    }
}
