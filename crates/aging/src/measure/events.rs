//! Reads block requests from the text of tracefs (`trace`, `trace_pipe`) and of `blkparse`.

use super::score::BlockRequest;

/// A device as major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    pub major: u32,
    pub minor: u32,
}

impl DeviceNumber {
    /// Parses `7,0` or `7:0`.
    #[must_use]
    pub fn parse(text: &str) -> Option<DeviceNumber> {
        let (major, minor) = text.trim().split_once([',', ':'])?;
        Some(DeviceNumber {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }

    /// Returns the number as the kernel's filters of events compare it.
    #[must_use]
    pub fn kernel_number(self) -> u64 {
        u64::from(self.major) << 20 | u64::from(self.minor)
    }
}

impl std::fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// Whether a request reads, or does anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestDirection {
    Read,
    Other,
}

/// A request that was issued to a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockEvent {
    /// Time in seconds, of the clock of the trace.
    pub seconds: f64,
    pub device: DeviceNumber,
    pub direction: RequestDirection,
    pub request: BlockRequest,
}

/// Parses a line. Returns `None` for lines that describe no request: comments, other events, and
/// requests without sectors, such as flushes.
#[must_use]
pub fn parse_line(line: &str) -> Option<BlockEvent> {
    match line.split_once(": block_rq_issue: ") {
        Some((before, event)) => tracefs_event(before, event),
        None => blkparse_event(line),
    }
}

/// Parses `7,0 RA 4096 () 1234 + 8 none,0,0 [grep]`; before it stand the thread, the processor,
/// flags and the time.
fn tracefs_event(before: &str, event: &str) -> Option<BlockEvent> {
    let seconds = before.split_whitespace().next_back()?.parse().ok()?;
    let mut words = event.split_whitespace();
    let (device, kind) = (words.next()?, words.next()?);
    // The bytes of a command that only drivers understand stand in parentheses.
    let (_, place) = event.split_once(") ")?;
    event_of(seconds, device, kind, place)
}

/// Parses `7,0 1 42 0.000123456 4321 D R 1234 + 8 [grep]`, the default format of `blkparse`; `D` is
/// an issued request.
fn blkparse_event(line: &str) -> Option<BlockEvent> {
    let mut words = line.split_whitespace();
    let device = words.next()?;
    let seconds = words.nth(2)?.parse().ok()?;
    let (action, kind) = (words.nth(1)?, words.next()?);
    let place: Vec<&str> = words.collect();
    match action {
        "D" => event_of(seconds, device, kind, &place.join(" ")),
        _ => None,
    }
}

fn event_of(seconds: f64, device: &str, kind: &str, place: &str) -> Option<BlockEvent> {
    let mut words = place.split_whitespace();
    let sector = words.next()?.parse().ok()?;
    let sectors: u64 = words.nth(1)?.parse().ok()?;
    let direction = match kind.starts_with('R') {
        true => RequestDirection::Read,
        false => RequestDirection::Other,
    };
    (sectors > 0).then_some(BlockEvent {
        seconds,
        device: DeviceNumber::parse(device)?,
        direction,
        request: BlockRequest { sector, sectors },
    })
}

/// Returns the reads of a device in their order of time. Without a device, the trace must contain
/// reads of one device only.
///
/// # Errors
/// The devices in the trace, if there are several and none was selected.
pub fn reads_of(text: &str, device: Option<DeviceNumber>) -> Result<Vec<BlockRequest>, Vec<DeviceNumber>> {
    let mut events: Vec<BlockEvent> = text
        .lines()
        .filter_map(parse_line)
        .filter(|event| event.direction == RequestDirection::Read)
        .filter(|event| device.is_none_or(|device| device == event.device))
        .collect();
    let mut devices: Vec<DeviceNumber> = events.iter().map(|event| event.device).collect();
    devices.sort_unstable();
    devices.dedup();
    if devices.len() > 1 {
        return Err(devices);
    }
    // The buffers of several processors are merged by the kernel as they are read.
    events.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    Ok(events.into_iter().map(|event| event.request).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
# tracer: nop
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
            grep-812     [001] ..... 100.000300: block_rq_issue: 7,0 RA 4096 () 16 + 8 none,0,0 [grep]
 kworker/u4:3: x-77      [000] d..1. 100.000100: block_rq_issue: 7,0 R 8192 () 0 + 16 be,0,4 [a ) b]
            grep-812     [001] ..... 100.000350: block_rq_complete: 7,0 R () 16 + 8 none,0,0 [0]
            grep-812     [001] ..... 100.000400: block_rq_issue: 7,0 WS 4096 () 900 + 8 none,0,0 [jbd2]
            grep-812     [001] ..... 100.000450: block_rq_issue: 7,0 FF 0 () 0 + 0 none,0,0 [jbd2]
            grep-812     [001] ..... 100.000500: block_rq_issue: 7,0 RM 4096 () 24 + 8 [grep]
";

    #[test]
    fn the_reads_of_a_trace_are_found_in_order_of_time() {
        let reads = reads_of(TRACE, None).unwrap();
        let expected = [(0, 16), (16, 8), (24, 8)];
        assert_eq!(
            reads,
            expected.map(|(sector, sectors)| BlockRequest { sector, sectors })
        );
        assert_eq!(reads_of(TRACE, DeviceNumber::parse("7:1")).unwrap(), []);
    }

    #[test]
    fn blkparse_lines_are_read_where_they_issue() {
        let line = "  7,0    1       42     0.000123456  4321  D   R 1234 + 8 [grep]";
        let event = parse_line(line).unwrap();
        assert_eq!((event.request.sector, event.request.sectors), (1234, 8));
        assert_eq!(parse_line(&line.replace(" D ", " Q ")), None);
        assert_eq!(parse_line("CPU0 (7,0):"), None);
    }

    #[test]
    fn a_trace_of_two_devices_needs_a_choice() {
        let two = format!("{TRACE}{}", TRACE.replace("7,0", "8,16"));
        let devices = reads_of(&two, None).unwrap_err();
        assert_eq!(
            devices.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["7:0", "8:16"]
        );
        assert_eq!(reads_of(&two, DeviceNumber::parse("8,16")).unwrap().len(), 3);
        assert_eq!(
            DeviceNumber::parse("8,16").unwrap().kernel_number(),
            (8 << 20) + 16
        );
    }
}
