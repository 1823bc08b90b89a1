//! The textual form of phases, for example `load`, `c`, `c:uniform`, `a:warm=20M+run=8s`,
//! `e:scan=1000+rate=5000` or `load:mix=50`.

use super::choose::RecordDistribution;
use super::mix::{WORKLOADS, YcsbMix};
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

/// The length of a warm-up or of a measured window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowLength {
    /// Number of operations, over all threads.
    Operations(u64),
    Milliseconds(u64),
}

impl WindowLength {
    /// Returns whether the length is zero.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        matches!(self, WindowLength::Operations(0) | WindowLength::Milliseconds(0))
    }
}

/// Parses a length: a number of operations such as `20M`, `500k` or `1000`, or a time such as `8s`,
/// `250ms` or `2min`.
///
/// # Errors
/// A message that describes why the text is invalid.
pub fn parse_amount(text: &str) -> Result<WindowLength, String> {
    let wrong = || {
        format!(
            "{text:?} is not an amount: write operations as in 500k or 20M, or a time as in 250ms, 8s or 2min"
        )
    };
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let (factor, is_time) = match &text[digits..] {
        "" => (1, false),
        "k" => (1000, false),
        "M" => (1_000_000, false),
        "G" => (1_000_000_000, false),
        "ms" => (1, true),
        "s" => (1000, true),
        "min" => (60_000, true),
        _ => return Err(wrong()),
    };
    let number = number.checked_mul(factor).ok_or_else(wrong)?;
    Ok(if is_time {
        WindowLength::Milliseconds(number)
    } else {
        WindowLength::Operations(number)
    })
}

/// Parses a number such as `20M`, `500k` or `1000`.
///
/// # Errors
/// A message that describes why the text is invalid.
pub fn parse_count(text: &str) -> Result<u64, String> {
    match parse_amount(text) {
        Ok(WindowLength::Operations(count)) => Ok(count),
        _ => Err(format!(
            "{text:?} is not a number: write one as in 1000, 500k or 20M"
        )),
    }
}

/// Maximum number of records in a workload, whose total size fits in 64 bits for any value length.
pub const MOST_RECORDS: u64 = 50_000_000_000;

/// Maximum number of threads that execute operations.
pub const MOST_THREADS: usize = 1024;

/// Parses a number of records.
///
/// A message as for [`parse_count`], or the maximum if the number is too large.
pub fn parse_records(text: &str) -> Result<u64, String> {
    // Report a number that does not fit in 64 bits as too large rather than as invalid.
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match parse_count(text) {
        Ok(records) if records <= MOST_RECORDS => Ok(records),
        Err(why) if !is_number => Err(why),
        _ => Err(format!("there are at most {MOST_RECORDS} records: write fewer")),
    }
}

/// Parses a number of threads.
///
/// # Errors
/// A message that describes the mistake or contains the maximum.
pub fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(threads) if threads <= MOST_THREADS => Ok(threads),
        Ok(_) => Err(format!("there are at most {MOST_THREADS} threads: write fewer")),
        Err(_) => Err(format!(
            "{text:?} is not a number of threads: write one from 1 to {MOST_THREADS}"
        )),
    }
}

/// Splits the textual form of a phase into its name and the words after the colon. `topic` returns
/// what a word specifies, which no two words may have in common.
pub(crate) fn words_of(text: &str, topic: fn(&str) -> &str) -> Result<(&str, Vec<&str>), String> {
    let Some((name, rest)) = text.split_once(':') else {
        return Ok((text, Vec::new()));
    };
    let words: Vec<&str> = rest.split('+').collect();
    if words.contains(&"") {
        return Err(format!(
            "a word is missing in {text:?}: write words after the colon with a + between them, or only {name}"
        ));
    }
    for (place, word) in words.iter().enumerate() {
        let mut before = words[..place].iter();
        if let Some(other) = before.find(|other| topic(other) == topic(word)) {
            return Err(format!(
                "{other:?} and {word:?} set the same thing twice in {text:?}: leave one of them out"
            ));
        }
    }
    Ok((name, words))
}

/// Returns what a word of a phase specifies.
pub(crate) fn topic(word: &str) -> &str {
    match word.split_once('=').map_or(word, |(what, _)| what) {
        "uniform" | "zipf" | "ycsb" | "latest" => "uniform",
        "scan" | "exactly" => "scan",
        other => other,
    }
}

/// The work of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseTask {
    Load,
    /// Runs operations of a mix on records that a distribution chooses.
    Mix {
        mix: YcsbMix,
        /// The distribution that chooses records.
        distribution: RecordDistribution,
    },
    /// Deletes a share of the records, chosen by the seed.
    Delete {
        /// Percentage of records to delete, from 1 to 99.
        percent: u8,
    },
    /// Replays the operations of a trace.
    Trace {
        file: std::path::PathBuf,
    },
}

/// A unit of work with a measurement of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadPhase {
    /// The textual form of the phase, which identifies it in reports.
    pub name: String,
    pub task: PhaseTask,
    pub scan: ScanLengths,
    /// Whether reads of single keys ask for existing or absent keys.
    #[serde(default)]
    pub wanted: KeyPresence,
    /// Length of the warm-up before the measurement, which the results do not include.
    pub warm: WindowLength,
    pub run: WindowLength,
    /// Scheduled number of operations per second, over all threads, or `None` for full speed.
    pub rate: Option<f64>,
}

/// Whether reads of single keys ask for existing or absent keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyPresence {
    #[default]
    Present,
    /// Keys that no record ever has.
    Absent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanLengths {
    /// The length is uniformly distributed from one to this number of records, as in YCSB.
    Uniform(usize),
    /// Each scan reads exactly this number of records.
    Exactly(usize),
}

impl ScanLengths {
    pub fn draw(self, random: &mut fastrand::Rng) -> usize {
        match self {
            ScanLengths::Uniform(most) => random.usize(1..=most),
            ScanLengths::Exactly(length) => length,
        }
    }
}

/// The values for phases that do not specify their own.
#[derive(Clone, Copy, Debug)]
pub struct PhaseDefaults {
    pub warm: WindowLength,
    pub run: WindowLength,
    /// Scheduled number of operations per second, or `None` for full speed.
    pub rate: Option<f64>,
}

/// Maximum number of records per scan in YCSB.
const SCAN: usize = 100;

impl WorkloadPhase {
    /// Parses a phase.
    ///
    /// # Errors
    /// A message that describes why the text is invalid.
    pub fn parse(text: &str, defaults: PhaseDefaults) -> Result<WorkloadPhase> {
        let (name, words) = words_of(text, topic).map_err(anyhow::Error::msg)?;
        let mut phase = WorkloadPhase {
            name: text.to_owned(),
            task: PhaseTask::Load,
            scan: ScanLengths::Uniform(SCAN),
            wanted: KeyPresence::default(),
            warm: defaults.warm,
            run: defaults.run,
            rate: defaults.rate,
        };
        if name != "load" {
            let Some(workload) = WORKLOADS.iter().find(|workload| workload.name == name) else {
                bail!(
                    "there is no phase {name:?}: the phases are load, a, b, c, d, e, f and m (64 reads at once)"
                );
            };
            phase.task = PhaseTask::Mix {
                mix: workload.mix,
                distribution: workload.distribution,
            };
        }
        for word in words {
            phase
                .set(word)
                .map_err(|why| anyhow::anyhow!("phase {text:?}: {why}"))?;
        }
        Ok(phase)
    }

    fn set(&mut self, word: &str) -> Result<(), String> {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let wanted = match name {
            "uniform" => Some(RecordDistribution::Uniform),
            "zipf" => Some(RecordDistribution::Zipf),
            "ycsb" => Some(RecordDistribution::Ycsb),
            "latest" => Some(RecordDistribution::Latest),
            _ => None,
        };
        match (&mut self.task, wanted) {
            (PhaseTask::Mix { distribution, .. }, Some(wanted)) => {
                *distribution = wanted;
                return Ok(());
            }
            (_, Some(_)) => {
                return Err(format!(
                    "{name} applies to a to f and m only: a load puts every record once"
                ));
            }
            (_, None) => {}
        }
        let length = |value: &str| match parse_count(value)? as usize {
            0 => Err("a scan reads at least one record".to_owned()),
            length => Ok(length),
        };
        match name {
            "absent" => match self.task {
                PhaseTask::Mix { mix, .. } if mix.read > 0 => self.wanted = KeyPresence::Absent,
                _ => return Err("absent is for phases that read single keys: a, b, c, d and f".to_owned()),
            },
            "warm" => self.warm = parse_amount(value)?,
            "run" => self.run = parse_amount(value)?,
            "scan" => self.scan = ScanLengths::Uniform(length(value)?),
            "exactly" => self.scan = ScanLengths::Exactly(length(value)?),
            "rate" => match parse_count(value)? {
                0 => return Err("rate=0 would begin no operation: give a number above 0".to_owned()),
                rate => self.rate = Some(rate as f64),
            },
            _ => {
                return Err(format!(
                    "{name:?} is unknown: write uniform, zipf, ycsb, latest, absent, warm=, run=, scan=, exactly= or \
                     rate="
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: PhaseDefaults = PhaseDefaults {
        warm: WindowLength::Milliseconds(8000),
        run: WindowLength::Milliseconds(8000),
        rate: None,
    };

    #[test]
    fn phases_are_read_as_they_are_typed() {
        let phase = WorkloadPhase::parse("c:uniform+warm=20M+run=8s+rate=5000", DEFAULTS).unwrap();
        assert!(
            matches!(phase.task, PhaseTask::Mix { distribution: RecordDistribution::Uniform, mix } if mix.read == 100)
        );
        assert_eq!(phase.warm, WindowLength::Operations(20_000_000));
        assert_eq!(
            (phase.run, phase.rate),
            (WindowLength::Milliseconds(8000), Some(5000.0))
        );
        assert_eq!(
            WorkloadPhase::parse("load", DEFAULTS).unwrap().task,
            PhaseTask::Load
        );
        let scans = WorkloadPhase::parse("e:exactly=1000", DEFAULTS).unwrap();
        let misses = WorkloadPhase::parse("c:absent+uniform", DEFAULTS).unwrap();
        assert_eq!(
            (misses.wanted, scans.wanted),
            (KeyPresence::Absent, KeyPresence::Present)
        );
        assert_eq!(scans.scan, ScanLengths::Exactly(1000));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (text, word) in [
            ("x", "the phases are load, a"),
            ("load:zipf", "every record once"),
            ("c:warm=many", "not an amount"),
            ("e:scan=0", "at least one"),
            ("c:fast", "unknown"),
            ("e:absent", "read single keys"),
            ("c:rate=0", "would begin no operation"),
            ("load:absent", "read single keys"),
            (
                "c:absent+absent+zipf",
                "\"absent\" and \"absent\" set the same thing twice",
            ),
            ("c:zipf+uniform", "leave one of them out"),
            ("e:scan=5+exactly=7", "leave one of them out"),
            ("c:", "or only c"),
            ("c:+zipf", "a word is missing"),
            ("c:zipf++absent", "a word is missing"),
            ("load:", "or only load"),
        ] {
            let error = WorkloadPhase::parse(text, DEFAULTS).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn numbers_that_are_too_large_are_refused_with_the_most() {
        assert_eq!(parse_records("50G"), Ok(MOST_RECORDS));
        assert_eq!(parse_threads("1024"), Ok(MOST_THREADS));
        for text in [
            "51G",
            "18446744073709551615",
            "18446744073709551616",
            "50000000001",
        ] {
            let why = parse_records(text).unwrap_err();
            assert!(why.contains("at most 50000000000 records"), "{why}");
        }
        assert!(parse_records("8s").unwrap_err().contains("not a number"));
        assert!(parse_threads("100000000").unwrap_err().contains("at most 1024"));
        assert!(parse_threads("many").unwrap_err().contains("from 1 to 1024"));
    }

    #[test]
    fn lengths_of_scans_are_even() {
        let mut random = fastrand::Rng::with_seed(2);
        let drawn: Vec<usize> = (0..10_000)
            .map(|_| ScanLengths::Uniform(100).draw(&mut random))
            .collect();
        assert!(drawn.iter().all(|length| (1..=100).contains(length)));
        let average = drawn.iter().sum::<usize>() as f64 / 10_000.0;
        assert!((average - 50.5).abs() < 1.5, "{average}");
    }
}
