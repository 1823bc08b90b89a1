//! Records the requests that the kernel issues to a block device, with the events of tracefs.
//!
//! The recorder has an instance of tracefs of its own, so other users of tracing are not disturbed.

use super::events::{DeviceNumber, reads_of};
use super::score::BlockRequest;
use crate::volumes::mounts;
use crate::{Error, ErrorContext, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const PREFIX: &str = "alluvium-aging-";
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Size of the kernel's buffer for each processor, in KiB.
const BUFFER_KIB: u32 = 16 << 10;
/// How often the buffer is emptied.
const PERIOD: Duration = Duration::from_millis(10);

/// The reads of a device while a recorder ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedReads {
    /// In the order of their issue.
    pub requests: Vec<BlockRequest>,
    /// Number of events that the kernel dropped because its buffer was full.
    pub lost: u64,
}

/// A running recorder. Its instance of tracefs is removed when it is dropped.
#[derive(Debug)]
pub struct EventRecorder {
    instance: PathBuf,
    device: DeviceNumber,
    is_ending: Arc<AtomicBool>,
    reader: Option<JoinHandle<std::io::Result<Vec<u8>>>>,
    /// Where this recorder mounted tracefs, if it was mounted nowhere.
    mounted: Option<PathBuf>,
}

impl EventRecorder {
    /// Starts recording. If tracefs is not mounted, it is mounted below the directory `scratch` for
    /// as long as the recorder lives.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the kernel has no events of block devices, or if the process may
    /// not use them.
    pub fn start(device: DeviceNumber, scratch: &Path) -> Result<EventRecorder> {
        let (root, mounted) = tracefs(scratch)?;
        let instances = root.join("instances");
        remove_stale(&instances);
        let instance = instances.join(format!("{PREFIX}{}-{}", std::process::id(), device.minor));
        let mut recorder = EventRecorder {
            instance,
            device,
            is_ending: Arc::default(),
            reader: None,
            mounted,
        };
        fs::create_dir(&recorder.instance).map_err(|error| {
            Error::Unavailable(format!(
                "block events cannot be recorded: creating {}: {error}; run the command as root, or record a trace elsewhere and give it as \
                 --input",
                recorder.instance.display()
            ))
        })?;
        recorder.write("buffer_size_kb", &BUFFER_KIB.to_string())?;
        // One clock for all processors, by which their events are sorted.
        recorder.write("trace_clock", "mono")?;
        let event = "events/block/block_rq_issue";
        let number = device.kernel_number();
        recorder.write(&format!("{event}/filter"), &format!("dev == {number}"))?;
        recorder.write(&format!("{event}/enable"), "1")?;
        recorder.write("tracing_on", "1")?;
        recorder.reader = Some(recorder.spawn_reader()?);
        Ok(recorder)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.instance.join(name);
        fs::write(&path, text).at("writing to", &path)
    }

    fn spawn_reader(&self) -> Result<JoinHandle<std::io::Result<Vec<u8>>>> {
        let path = self.instance.join("trace_pipe");
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipe = rustix::fs::open(&path, flags, Mode::empty()).at("opening", &path)?;
        let is_ending = Arc::clone(&self.is_ending);
        Ok(std::thread::spawn(move || {
            let (mut text, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
            loop {
                // If the recorder is ending, the buffer is emptied once more.
                let is_last = is_ending.load(Ordering::Acquire);
                loop {
                    match rustix::io::read(&pipe, &mut buffer[..]) {
                        Ok(0) | Err(Errno::AGAIN) => break,
                        Ok(length) => text.extend_from_slice(&buffer[..length]),
                        Err(Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                if is_last {
                    return Ok(text);
                }
                std::thread::sleep(PERIOD);
            }
        }))
    }

    /// Ends recording and returns the reads.
    ///
    /// # Errors
    /// I/O errors.
    pub fn finish(mut self) -> Result<RecordedReads> {
        self.write("tracing_on", "0")?;
        let text = self.end_reader()?;
        let text = String::from_utf8_lossy(&text);
        let requests = reads_of(&text, Some(self.device)).unwrap_or_default();
        Ok(RecordedReads {
            requests,
            lost: self.lost()?,
        })
    }

    fn end_reader(&mut self) -> Result<Vec<u8>> {
        self.is_ending.store(true, Ordering::Release);
        let Some(reader) = self.reader.take() else {
            return Ok(Vec::new());
        };
        reader
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .at("reading events of", &self.instance)
    }

    /// Sums up the events that the buffers of all processors lost.
    fn lost(&self) -> Result<u64> {
        let path = self.instance.join("per_cpu");
        let mut lost = 0;
        for entry in fs::read_dir(&path).at("listing", &path)? {
            let stats = entry.at("listing", &path)?.path().join("stats");
            let text = fs::read_to_string(&stats).at("reading", &stats)?;
            let overrun = text.lines().find_map(|line| line.strip_prefix("overrun:"));
            lost += overrun
                .and_then(|number| number.trim().parse::<u64>().ok())
                .unwrap_or(0);
        }
        Ok(lost)
    }
}

impl Drop for EventRecorder {
    fn drop(&mut self) {
        // The instance cannot be removed while the reader has its pipe open.
        let _ = self.end_reader();
        let _ = fs::remove_dir(&self.instance);
        if let Some(mounted) = &self.mounted {
            let _ = mounts::unmount(mounted);
            let _ = fs::remove_dir(mounted);
        }
    }
}

/// Returns where tracefs is mounted, and the directory if it was mounted for this call.
fn tracefs(scratch: &Path) -> Result<(PathBuf, Option<PathBuf>)> {
    let has_events = |root: &Path| root.join("events/block/block_rq_issue").is_dir();
    if let Some(root) = PLACES
        .map(PathBuf::from)
        .into_iter()
        .find(|root| has_events(root))
    {
        return Ok((root, None));
    }
    let own = scratch.join("tracefs");
    fs::create_dir_all(&own).at("creating", &own)?;
    let refused = |why: String| {
        Error::Unavailable(format!(
            "block events cannot be recorded: {why}; run the command as root on a kernel with CONFIG_BLK_DEV_IO_TRACE, or record a trace \
             elsewhere and give it as --input"
        ))
    };
    mounts::mount("tracefs", Path::new("tracefs"), &own, "rw").map_err(|error| refused(error.to_string()))?;
    if has_events(&own) {
        return Ok((own.clone(), Some(own)));
    }
    let _ = mounts::unmount(&own);
    Err(refused("the kernel has no events of block devices".to_owned()))
}

/// Removes instances of recorders whose process was killed.
fn remove_stale(instances: &Path) {
    let Ok(entries) = fs::read_dir(instances) else {
        return;
    };
    for entry in entries.filter_map(std::result::Result::ok) {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
