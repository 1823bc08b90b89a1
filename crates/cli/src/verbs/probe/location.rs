//! Checks whether a location can be measured, and explains in terms of the command line why not.

use crate::terminal::exit::{CommandExit, failure};
use crate::values::sizes::{ByteSize, human};
use alluvium_base::GIB;
use alluvium_base::measurements::Medium;
use alluvium_device::Error;
use alluvium_device::probe::{FileSystemInfo, LEAST_SPACE, place_of};
use anyhow::Result;
use std::path::Path;

/// A location that has passed the checks.
#[derive(Debug)]
pub(super) struct ProbeLocation {
    pub(super) place: FileSystemInfo,
    pub(super) space_bytes: u64,
}

/// Examines the directory and its file system, and returns the location if it can be measured.
pub(super) fn look(path: &Path, network: bool, space: Option<ByteSize>) -> Result<ProbeLocation> {
    let place = place_of(path).map_err(|error| refused(path, error))?;
    if place.medium == Medium::Network && !network {
        let text = format!(
            "{} is on a network file system ({}), so the probe would measure the network and a server, too: \
             add --network to do so",
            path.display(),
            place.file_system
        );
        return Err(failure(CommandExit::Usage, text));
    }
    let space_bytes = space_of(path, place.free_bytes, space)?;
    Ok(ProbeLocation { place, space_bytes })
}

/// Returns the size in bytes of the file that the measurement uses.
fn space_of(path: &Path, free: u64, asked: Option<ByteSize>) -> Result<u64> {
    if free < 2 * LEAST_SPACE {
        return Err(full(path, free));
    }
    let Some(ByteSize(asked)) = asked else {
        return Ok((free / 10).clamp(LEAST_SPACE, GIB));
    };
    if asked < LEAST_SPACE {
        let text = format!(
            "--space {}: a probe needs at least {}",
            human(asked),
            human(LEAST_SPACE)
        );
        return Err(failure(CommandExit::Usage, text));
    }
    if asked > free / 2 {
        let text = format!(
            "--space {}: {} has {} free, and a probe may use half of it at most",
            human(asked),
            path.display(),
            human(free)
        );
        return Err(failure(CommandExit::Usage, text));
    }
    Ok(asked)
}

/// Returns the error for a location with too little free space.
pub(super) fn full(path: &Path, free: u64) -> anyhow::Error {
    let text = format!(
        "{} has {} free, and a probe needs {} and leaves as much free: free some space, or name another directory",
        path.display(),
        human(free),
        human(LEAST_SPACE)
    );
    failure(CommandExit::Full, text)
}

/// Rephrases an error of the device in terms of the command line.
pub(super) fn refused(path: &Path, error: Error) -> anyhow::Error {
    let path = path.display();
    match error {
        Error::NotFound { .. } => failure(
            CommandExit::NotFound,
            format!("there is no directory {path}: create it, or name another one as PATH or --db"),
        ),
        Error::Unsupported { .. } => failure(
            CommandExit::Usage,
            format!("{path} cannot be measured: PATH and --db must name a directory ({error})"),
        ),
        Error::ReadOnlyFileSystem { .. } => failure(
            CommandExit::Failed,
            format!(
                "{path} is on a file system that is mounted read-only, and a probe writes a file: mount it for writing, or name another directory"
            ),
        ),
        Error::PermissionDenied { .. } => failure(
            CommandExit::Failed,
            format!(
                "no permission to write in {path}: run the probe as its owner, or name another directory"
            ),
        ),
        Error::DiskFull { .. } => failure(
            CommandExit::Full,
            format!("{path} is full ({error}): free some space, or give a smaller --space"),
        ),
        error => anyhow::Error::new(error).context(format!("measuring {path}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_device::DeviceOperation;

    fn space(free: u64, asked: Option<u64>) -> Result<u64, String> {
        space_of(Path::new("/x"), free, asked.map(ByteSize)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_file_takes_what_is_asked_for_or_a_tenth_of_what_is_free() {
        assert_eq!(space(100 * GIB, None), Ok(GIB));
        assert_eq!(space(GIB, None), Ok(GIB / 10));
        assert_eq!(space(2 * LEAST_SPACE, None), Ok(LEAST_SPACE));
        assert_eq!(space(100 * GIB, Some(8 * GIB)), Ok(8 * GIB));
        let small = space(100 * GIB, Some(1)).unwrap_err();
        assert!(small.starts_with("--space 1 B:"), "{small}");
        let large = space(GIB, Some(GIB)).unwrap_err();
        assert!(large.contains("/x has 1.00 GiB free"), "{large}");
        let full = space(1, None).unwrap_err();
        assert!(full.contains("free some space"), "{full}");
    }

    #[test]
    fn errors_of_places_say_what_to_do() {
        let (operation, file) = (DeviceOperation::Create, "f".to_owned());
        for (error, exit, words) in [
            (
                Error::NotFound { file: file.clone() },
                CommandExit::NotFound,
                "as PATH or --db",
            ),
            (
                Error::ReadOnlyFileSystem {
                    operation,
                    file: file.clone(),
                },
                CommandExit::Failed,
                "mount it for writing",
            ),
            (
                Error::PermissionDenied {
                    operation,
                    file: file.clone(),
                },
                CommandExit::Failed,
                "as its owner",
            ),
            (
                Error::DiskFull {
                    operation,
                    file,
                    wanted: 1,
                },
                CommandExit::Full,
                "--space",
            ),
        ] {
            let refused = refused(Path::new("/x"), error);
            assert_eq!(crate::terminal::exit::classify(&refused), exit, "{refused}");
            let text = refused.to_string();
            assert!(text.contains(words) && text.contains("/x"), "{text}");
        }
    }
}
