//! Describes the machine on which a measurement ran.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The machine, and its state at the start of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineInfo {
    /// `model name` of the processor in `/proc/cpuinfo`, or an empty string if it has none.
    pub processor: String,
    /// Number of processors available to the process.
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    /// The block device that stores the files, and its read-ahead.
    pub device: String,
    pub file_system: String,
    /// Load average over one minute when the measurement started, which shows whether other
    /// programs were active.
    pub load: String,
    /// Start time of the measurement, in seconds since 1970.
    pub began_s: u64,
}

impl MachineInfo {
    /// Describes the current machine. `directory` contains the files of the measurement.
    #[must_use]
    pub fn here(directory: &Path) -> MachineInfo {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let line = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))
                .unwrap_or_default()
        };
        let memory = line(&read("/proc/meminfo"), "MemTotal");
        let memory = memory.trim_end_matches("kB").trim().parse::<u64>();
        let (device, file_system) = below(directory);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        MachineInfo {
            processor: line(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory.map_or(0, |kib| kib << 10),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            device,
            file_system,
            load: read("/proc/loadavg")
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned(),
            began_s: now.map_or(0, |now| now.as_secs()),
        }
    }

    /// Returns the name and the value of each property of the machine, as text for display.
    #[must_use]
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        vec![
            ("processor", format!("{} cores, {}", self.cores, self.processor)),
            ("memory", format!("{} MiB", self.memory_bytes >> 20)),
            ("kernel", self.kernel.clone()),
            ("device", self.device.clone()),
            ("file system", self.file_system.clone()),
            ("load before", self.load.clone()),
        ]
    }
}

/// Returns descriptions of a directory's block device and file system.
fn below(directory: &Path) -> (String, String) {
    use std::os::unix::fs::MetadataExt;
    let Ok(metadata) = fs::metadata(directory) else {
        return Default::default();
    };
    let (major, minor) = crate::account::device::split(metadata.dev());
    let number = format!("{major}:{minor}");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let file_system = mounts
        .lines()
        .filter(|line| line.split_whitespace().nth(2) == Some(&number))
        .find_map(|line| line.split_once(" - ")?.1.split_whitespace().next())
        .unwrap_or("unknown");
    let block = Path::new("/sys/dev/block").join(&number);
    let name = fs::canonicalize(&block)
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_else(|| number.clone());
    // A partition uses the queue of its disk.
    let setting = |what: &str| {
        [block.join("queue"), block.join("..").join("queue")]
            .iter()
            .find_map(|queue| fs::read_to_string(queue.join(what)).ok())
            .map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
    };
    let device = format!(
        "{name}, scheduler {}, read-ahead {} KiB",
        setting("scheduler"),
        setting("read_ahead_kb")
    );
    (device, file_system.to_owned())
}
