//! Measures device traffic, from three sources that cover different parts of it:
//!
//! - The *process* (`io` of proc(5)) covers the bytes that the process read from the device, and
//!   the bytes of pages that it dirtied or wrote past the page cache, minus those dropped before
//!   they were written. It excludes other processes and the traffic that the file system itself
//!   causes.
//! - The *group* (the block controller of control groups, version 1) covers reads exactly, as
//!   requests and bytes. Of the writes, it covers only those that bypass the page cache.
//! - The *block device* (`/proc/diskstats`) covers the traffic of all processes.
//!
//! The main figures of a report take read requests from the group, or from the block device if
//! there is no group, and bytes from the process.

use super::ProcfsProcess;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Reads and writes as counted by one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTraffic {
    /// Number of read requests, or zero if the source does not count requests.
    pub reads: u64,
    pub read_bytes: u64,
    /// Number of write requests, or zero if the source does not count requests.
    pub writes: u64,
    pub write_bytes: u64,
    /// Number of flushes of the device's own cache, or `None` if the source does not count them.
    #[serde(default)]
    pub flushes: Option<u64>,
}

impl DeviceTraffic {
    fn since(self, before: DeviceTraffic) -> DeviceTraffic {
        DeviceTraffic {
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            writes: self.writes.saturating_sub(before.writes),
            write_bytes: self.write_bytes.saturating_sub(before.write_bytes),
            flushes: self
                .flushes
                .zip(before.flushes)
                .map(|(now, before)| now.saturating_sub(before)),
        }
    }
}

/// The counters of all three sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficCounters {
    /// The counters of the process, without requests.
    pub process: Option<DeviceTraffic>,
    /// The counters of the control group, if there is one.
    pub group: Option<DeviceTraffic>,
    /// The counters of the block device that stores the directory, if there is one.
    pub block: Option<DeviceTraffic>,
}

impl TrafficCounters {
    #[must_use]
    pub fn now(process: &ProcfsProcess, directory: &Path, blkio: Option<&Path>) -> TrafficCounters {
        let device = fs::metadata(directory).map(|metadata| split(metadata.dev())).ok();
        TrafficCounters {
            process: of_process(&process.read("io")),
            group: blkio
                .zip(device)
                .and_then(|(group, device)| of_group(group, device)),
            block: device.and_then(|device| of_block(&fs::read_to_string("/proc/diskstats").ok()?, device)),
        }
    }

    /// Returns the increase of all counters since `before`.
    #[must_use]
    pub fn since(&self, before: &TrafficCounters) -> TrafficCounters {
        let since = |now: Option<DeviceTraffic>, before: Option<DeviceTraffic>| Some(now?.since(before?));
        TrafficCounters {
            process: since(self.process, before.process),
            group: since(self.group, before.group),
            block: since(self.block, before.block),
        }
    }

    /// Returns the number of read requests, from the most suitable source.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.group.or(self.block).map_or(0, |traffic| traffic.reads)
    }

    /// Returns the number of bytes read from the device.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.process
            .or(self.group)
            .or(self.block)
            .map_or(0, |traffic| traffic.read_bytes)
    }

    /// Returns the number of bytes written to the device.
    #[must_use]
    pub fn write_bytes(&self) -> u64 {
        self.process
            .or(self.block)
            .map_or(0, |traffic| traffic.write_bytes)
    }
}

/// Returns the major and minor number of a device, decoded as in the C library.
pub(crate) fn split(device: u64) -> (u32, u32) {
    (libc::major(device), libc::minor(device))
}

fn of_process(text: &str) -> Option<DeviceTraffic> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    Some(DeviceTraffic {
        read_bytes: field("read_bytes:")?,
        write_bytes: field("write_bytes:")?.saturating_sub(field("cancelled_write_bytes:")?),
        ..DeviceTraffic::default()
    })
}

fn of_group(group: &Path, device: (u32, u32)) -> Option<DeviceTraffic> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let (requests, bytes) = (
        read("blkio.throttle.io_serviced")?,
        read("blkio.throttle.io_service_bytes")?,
    );
    let field = |text: &str, what: &str| {
        let start = format!("{}:{} {what} ", device.0, device.1);
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.and_then(|number| number.trim().parse::<u64>().ok())
            .unwrap_or(0)
    };
    Some(DeviceTraffic {
        reads: field(&requests, "Read"),
        read_bytes: field(&bytes, "Read"),
        writes: field(&requests, "Write"),
        write_bytes: field(&bytes, "Write"),
        flushes: None,
    })
}

fn of_block(text: &str, device: (u32, u32)) -> Option<DeviceTraffic> {
    /// The sector size in bytes of the kernel's statistics, whatever the device.
    const SECTOR: u64 = 512;
    let line = text.lines().find(|line| {
        let mut fields = line.split_whitespace();
        let number = |field: Option<&str>| field.and_then(|field| field.parse::<u32>().ok());
        (number(fields.next()), number(fields.next())) == (Some(device.0), Some(device.1))
    })?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .skip(3)
        .map_while(|field| field.parse().ok())
        .collect();
    Some(DeviceTraffic {
        reads: *fields.first()?,
        read_bytes: fields.get(2)? * SECTOR,
        writes: *fields.get(4)?,
        write_bytes: fields.get(6)? * SECTOR,
        // Linux reports this field since version 5.5.
        flushes: fields.get(15).copied(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let io = "rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 4096\n";
        let process = of_process(io).unwrap();
        assert_eq!((process.read_bytes, process.write_bytes), (4096, 4096));
        let disks =
            "   7       0 loop0 9 9 9 9 9 9 9 9\n 254       0 vda 5 0 16 1 7 0 32 1 0 0 0 1 2 3 4 29 30\n";
        let block = of_block(disks, (254, 0)).unwrap();
        assert_eq!(
            block,
            DeviceTraffic {
                reads: 5,
                read_bytes: 8192,
                writes: 7,
                write_bytes: 16_384,
                flushes: Some(29),
            }
        );
        assert_eq!(of_block(disks, (8, 0)), None);
        assert_eq!(of_process("nothing"), None);
    }

    #[test]
    fn a_groups_counters_are_those_of_the_device() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(place.path().join(name), text).unwrap();
        write(
            "blkio.throttle.io_serviced",
            "254:0 Read 12\n254:0 Write 3\nTotal 15\n",
        );
        write(
            "blkio.throttle.io_service_bytes",
            "254:0 Read 49152\n8:0 Write 9\n",
        );
        let group = of_group(place.path(), (254, 0)).unwrap();
        assert_eq!(
            (group.reads, group.read_bytes, group.writes, group.write_bytes),
            (12, 49_152, 3, 0)
        );
        assert_eq!(of_group(&place.path().join("none"), (254, 0)), None);
    }
}
