//! The kernel's counts of requests to a block device (`/sys/block/NAME/stat`). They have no noise,
//! in contrast to times.

use crate::{Error, ErrorContext, Result};
use std::fs;
use std::ops::Sub;
use std::path::Path;

/// Requests and bytes since the device was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTraffic {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
}

impl DeviceTraffic {
    /// Reads the counts of a device such as `loop0`.
    ///
    /// # Errors
    /// I/O errors.
    pub fn of(name: &str) -> Result<DeviceTraffic> {
        let path = Path::new("/sys/block").join(name).join("stat");
        let text = fs::read_to_string(&path).at("reading", &path)?;
        DeviceTraffic::parse(&text)
            .ok_or_else(|| Error::Refused(format!("{} has no counts: {text:?}", path.display())))
    }

    fn parse(text: &str) -> Option<DeviceTraffic> {
        let numbers: Vec<u64> = text
            .split_whitespace()
            .map_while(|word| word.parse().ok())
            .collect();
        Some(DeviceTraffic {
            reads: *numbers.first()?,
            read_bytes: numbers.get(2)? * 512,
            writes: *numbers.get(4)?,
            written_bytes: numbers.get(6)? * 512,
        })
    }
}

impl Sub for DeviceTraffic {
    type Output = DeviceTraffic;

    fn sub(self, before: DeviceTraffic) -> DeviceTraffic {
        DeviceTraffic {
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            writes: self.writes.saturating_sub(before.writes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_the_kernel_are_told_apart() {
        let text = "  100   1  800  7  20  2  160  9  0  12  16  0 0 0 0 3 1\n";
        let traffic = DeviceTraffic::parse(text).unwrap();
        let expected = DeviceTraffic {
            reads: 100,
            read_bytes: 800 * 512,
            writes: 20,
            written_bytes: 160 * 512,
        };
        assert_eq!(traffic, expected);
        assert_eq!((traffic - expected).reads, 0);
        assert_eq!(DeviceTraffic::parse("1 2 3"), None);
    }
}
