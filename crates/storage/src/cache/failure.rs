//! Copies of read errors. An [`Error`] is not `Clone`, but every reader that waited for a failed
//! read must get one.

use crate::Error;
use alluvium_device as device;
use std::io;

/// Returns a copy of a read error, with the same variant, location and message.
pub(super) fn copy(error: &Error) -> Error {
    match error {
        Error::Corrupt {
            place,
            expected,
            found,
        } => Error::corrupt(place.clone(), expected.clone(), found.clone()),
        Error::Device(error) => Error::Device(copy_of_device(error)),
        Error::TierFails {
            tier,
            directory,
            access,
            cause,
        } => Error::TierFails {
            tier: *tier,
            directory: directory.clone(),
            access: *access,
            cause: cause.clone(),
        },
        // Reads return no other errors at present. For any other variant, preserve at least the
        // message.
        other => Error::Device(device::Error::Io {
            operation: device::DeviceOperation::Read,
            file: String::new(),
            offset: 0,
            len: 0,
            source: io::Error::other(other.to_string()),
        }),
    }
}

fn copy_of_device(error: &device::Error) -> device::Error {
    match error {
        device::Error::NotFound { file } => device::Error::NotFound { file: file.clone() },
        device::Error::PermissionDenied { operation, file } => device::Error::PermissionDenied {
            operation: *operation,
            file: file.clone(),
        },
        device::Error::PastEnd {
            operation,
            file,
            offset,
            len,
            end,
        } => device::Error::PastEnd {
            operation: *operation,
            file: file.clone(),
            offset: *offset,
            len: *len,
            end: *end,
        },
        device::Error::Crashed { operation, file } => device::Error::Crashed {
            operation: *operation,
            file: file.clone(),
        },
        device::Error::Poisoned { operation, file } => device::Error::Poisoned {
            operation: *operation,
            file: file.clone(),
        },
        device::Error::Io {
            operation,
            file,
            offset,
            len,
            source,
        } => device::Error::Io {
            operation: *operation,
            file: file.clone(),
            offset: *offset,
            len: *len,
            source: copy_of_io(source),
        },
        other => device::Error::Io {
            operation: device::DeviceOperation::Read,
            file: String::new(),
            offset: 0,
            len: 0,
            source: io::Error::other(other.to_string()),
        },
    }
}

fn copy_of_io(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DiskLocation, OnDiskObject};

    #[test]
    fn a_copy_says_what_the_original_says() {
        let (operation, file) = (device::DeviceOperation::Read, "tier-0.data".to_owned());
        let originals = [
            Error::corrupt(
                DiskLocation::new(OnDiskObject::Node, "tier-0.data", 4096),
                "checksum 1",
                "2",
            ),
            Error::Device(device::Error::PastEnd {
                operation,
                file: file.clone(),
                offset: 4096,
                len: 8192,
                end: 4096,
            }),
            Error::Device(device::Error::Crashed {
                operation,
                file: file.clone(),
            }),
            Error::Device(device::Error::Io {
                operation,
                file: file.clone(),
                offset: 1,
                len: 2,
                source: io::Error::from_raw_os_error(5),
            }),
            Error::Device(device::Error::Io {
                operation,
                file,
                offset: 1,
                len: 2,
                source: io::Error::new(io::ErrorKind::TimedOut, "the disk sleeps"),
            }),
        ];
        for original in originals {
            assert_eq!(copy(&original).to_string(), original.to_string());
            assert_eq!(
                std::mem::discriminant(&copy(&original)),
                std::mem::discriminant(&original)
            );
        }
    }
}
