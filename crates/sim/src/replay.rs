//! The one-line description from which a failure can be replayed, which names the story, the seed,
//! the steps and the crashes.
//!
//! ```text
//! ALLUVIUM_SIM="story=toy seed=17 steps=0-3,7 path=123:none:ab12/4:random:77" \
//!     cargo test -p alluvium-sim -- toy
//! ```
//!
//! The field `path` lists the crashes. Each consists of the device operation before which it
//! happens, the survival mode, and the seed of the image. Operations are counted separately in each
//! life: the first life is the run itself, and each crash image begins the next. A `-` means that
//! the failure occurred without a crash. The field `fault` describes an injected device fault.

use alluvium_device::DeviceOperation;
use alluvium_device::simulated::{CrashSurvival, InjectedFailure, InjectedFault, SimDirectory};
use std::fmt;
use std::str::FromStr;

/// The environment variable with the description of the failure to replay.
pub const VARIABLE: &str = "ALLUVIUM_SIM";

/// If this environment variable is set, every device operation is printed, which helps to study a
/// replay.
pub const LOUD: &str = "ALLUVIUM_SIM_LOUD";

/// A crash that ends a life before one of its device operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlannedCrash {
    /// The index of the operation in its life, counted from 0. One more than the index of the last
    /// operation means a crash after the last step.
    pub call: u64,
    /// The survival mode, which determines what data survives the crash.
    pub survival: CrashSurvival,
    /// The seed from which the random choices of the image are derived.
    pub seed: u64,
}

/// A device fault that is injected at one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FaultAt {
    pub operation: DeviceOperation,
    pub kind: FaultKind,
    /// Which call of this operation fails, counted from 1.
    pub call: u64,
    /// Whether only this call fails, or all later calls of the same operation too.
    pub lasting: FaultLasting,
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The operation returns the error `EIO`.
    Io,
    /// The operation fails because the disk is full.
    Full,
    /// The disk has a capacity of [`FaultAt::call`] bytes. The field `operation` is unused.
    Capacity,
}

/// Whether a fault affects a single call or is permanent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultLasting {
    Once,
    /// All later calls of the operation fail too.
    Sticky,
}

impl FaultAt {
    /// Makes a simulated machine inject the fault.
    pub fn inject(&self, machine: &SimDirectory) {
        let failure = match self.kind {
            FaultKind::Io => InjectedFailure::Io,
            FaultKind::Full => InjectedFailure::Full,
            FaultKind::Capacity => return machine.set_capacity(self.call),
        };
        let fault = InjectedFault::new(self.operation, failure).at(self.call);
        machine.inject(match self.lasting {
            FaultLasting::Once => fault,
            FaultLasting::Sticky => fault.sticky(),
        });
    }
}

/// Everything needed to replay a failure with the same code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayTarget {
    pub story: String,
    /// The seed of the run.
    pub seed: u64,
    /// The steps to run, as indexes into the steps that the story generates from its seed.
    pub steps: Vec<usize>,
    /// The crashes, in order. Each interrupts the life that began after the previous one.
    pub path: Vec<PlannedCrash>,
    /// The injected device fault, if any.
    pub fault: Option<FaultAt>,
}

/// The device operations that can be made to fail, and their names in the description of a failure.
pub const FALLIBLE: [(DeviceOperation, &str); 11] = [
    (DeviceOperation::Read, "read"),
    (DeviceOperation::Write, "write"),
    (DeviceOperation::Sync, "sync"),
    (DeviceOperation::Grow, "grow"),
    (DeviceOperation::Truncate, "truncate"),
    (DeviceOperation::PunchHole, "punch"),
    (DeviceOperation::Create, "create"),
    (DeviceOperation::Open, "open"),
    (DeviceOperation::Rename, "rename"),
    (DeviceOperation::Remove, "remove"),
    (DeviceOperation::SyncDirectory, "sync-directory"),
];

const KINDS: [(FaultKind, &str); 3] = [
    (FaultKind::Io, "io"),
    (FaultKind::Full, "full"),
    (FaultKind::Capacity, "capacity"),
];

fn survival_name(survival: CrashSurvival) -> &'static str {
    match survival {
        CrashSurvival::Process => "process",
        CrashSurvival::All => "all",
        CrashSurvival::None => "none",
        CrashSurvival::Random => "random",
        CrashSurvival::Reordered => "reordered",
    }
}

/// Writes a list of numbers as ranges, such as `0-3,7`.
fn write_ranges(f: &mut fmt::Formatter<'_>, numbers: &[usize]) -> fmt::Result {
    if numbers.is_empty() {
        return f.write_str("-");
    }
    let mut at = 0;
    while at < numbers.len() {
        let run = (at..numbers.len())
            .take_while(|&i| numbers[i] == numbers[at] + (i - at))
            .count();
        let comma = if at == 0 { "" } else { "," };
        match run {
            1 => write!(f, "{comma}{}", numbers[at])?,
            _ => write!(f, "{comma}{}-{}", numbers[at], numbers[at + run - 1])?,
        }
        at += run;
    }
    Ok(())
}

impl fmt::Display for ReplayTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "story={} seed={} steps=", self.story, self.seed)?;
        write_ranges(f, &self.steps)?;
        f.write_str(" path=")?;
        if self.path.is_empty() {
            f.write_str("-")?;
        }
        for (index, turn) in self.path.iter().enumerate() {
            let slash = if index == 0 { "" } else { "/" };
            write!(
                f,
                "{slash}{}:{}:{:x}",
                turn.call,
                survival_name(turn.survival),
                turn.seed
            )?;
        }
        if let Some(fault) = &self.fault {
            let operation = FALLIBLE
                .iter()
                .find(|(operation, _)| *operation == fault.operation);
            let operation = operation.map_or("read", |(_, name)| name);
            let kind = KINDS
                .iter()
                .find(|(kind, _)| *kind == fault.kind)
                .map_or("io", |(_, name)| name);
            let lasting = if fault.lasting == FaultLasting::Once {
                "once"
            } else {
                "sticky"
            };
            write!(f, " fault={operation}:{kind}:{}:{lasting}", fault.call)?;
        }
        Ok(())
    }
}

/// Why a line is not a valid description of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTarget(String);

impl fmt::Display for BadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VARIABLE} is not a line that a failure printed: {}", self.0)
    }
}

impl std::error::Error for BadTarget {}

fn number<T: FromStr>(text: &str) -> Result<T, BadTarget> {
    text.parse()
        .map_err(|_| BadTarget(format!("{text} is not a number")))
}

fn parse_steps(text: &str) -> Result<Vec<usize>, BadTarget> {
    let mut steps = Vec::new();
    for part in text.split(',').filter(|_| text != "-") {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        steps.extend(number::<usize>(first)?..=number::<usize>(last)?);
    }
    Ok(steps)
}

fn parse_turn(text: &str) -> Result<PlannedCrash, BadTarget> {
    let bad = || BadTarget(format!("{text} is not call:survival:seed"));
    let mut parts = text.split(':');
    let (Some(call), Some(name), Some(seed), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(bad());
    };
    let survival = CrashSurvival::ALL
        .into_iter()
        .find(|survival| survival_name(*survival) == name);
    Ok(PlannedCrash {
        call: number(call)?,
        survival: survival.ok_or_else(bad)?,
        seed: u64::from_str_radix(seed, 16).map_err(|_| bad())?,
    })
}

fn parse_fault(text: &str) -> Result<FaultAt, BadTarget> {
    let bad = || BadTarget(format!("{text} is not operation:kind:call:lasting"));
    let mut parts = text.split(':');
    let operation = parts
        .next()
        .and_then(|name| FALLIBLE.iter().find(|(_, known)| *known == name));
    let kind = parts
        .next()
        .and_then(|name| KINDS.iter().find(|(_, known)| *known == name));
    let kind = kind.ok_or_else(bad)?.0;
    let call = number(parts.next().ok_or_else(bad)?)?;
    let lasting = match parts.next() {
        Some("once") => FaultLasting::Once,
        Some("sticky") => FaultLasting::Sticky,
        _ => return Err(bad()),
    };
    Ok(FaultAt {
        operation: operation.ok_or_else(bad)?.0,
        kind,
        call,
        lasting,
    })
}

impl FromStr for ReplayTarget {
    type Err = BadTarget;

    fn from_str(line: &str) -> Result<ReplayTarget, BadTarget> {
        let mut target = ReplayTarget {
            story: String::new(),
            seed: 0,
            steps: Vec::new(),
            path: Vec::new(),
            fault: None,
        };
        for field in line.split_whitespace() {
            let (name, value) = field
                .split_once('=')
                .ok_or_else(|| BadTarget(format!("{field} is not name=value")))?;
            match name {
                "story" => value.clone_into(&mut target.story),
                "seed" => target.seed = number(value)?,
                "steps" => target.steps = parse_steps(value)?,
                "path" if value == "-" => {}
                "path" => target.path = value.split('/').map(parse_turn).collect::<Result<_, _>>()?,
                "fault" => target.fault = Some(parse_fault(value)?),
                _ => return Err(BadTarget(format!("there is no field {name}"))),
            }
        }
        Ok(target)
    }
}

/// Returns the failure that the environment variable asks to replay, or `None` if the variable is
/// not set. If there is one, stories must run nothing else.
///
/// # Panics
/// If the variable is set but invalid, so that a mistyped description does not run other tests
/// instead.
#[must_use]
pub fn requested() -> Option<ReplayTarget> {
    let line = std::env::var(VARIABLE).ok()?;
    Some(line.parse().unwrap_or_else(|error| panic!("{error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_back() {
        let turn = |call, survival| PlannedCrash {
            call,
            survival,
            seed: 0xab,
        };
        let target = ReplayTarget {
            story: "toy".to_owned(),
            seed: 17,
            steps: vec![0, 1, 2, 3, 7, 9, 10],
            path: vec![turn(3, CrashSurvival::None), turn(4, CrashSurvival::Reordered)],
            fault: None,
        };
        let line = "story=toy seed=17 steps=0-3,7,9-10 path=3:none:ab/4:reordered:ab";
        assert_eq!(target.to_string(), line);
        assert_eq!(line.parse(), Ok(target));
        let bare = "story=toy seed=1 steps=- path=- fault=sync:io:12:sticky";
        assert_eq!(bare.parse::<ReplayTarget>().unwrap().to_string(), bare);
    }

    #[test]
    fn anything_else_is_refused_with_a_reason() {
        for line in [
            "story",
            "seed=x",
            "steps=1-x",
            "path=1:none",
            "path=1:some:0",
            "fault=sync:io:1",
            "x=1",
        ] {
            let error = line.parse::<ReplayTarget>().unwrap_err().to_string();
            assert!(error.starts_with("ALLUVIUM_SIM is not a line"), "{error}");
        }
    }
}
