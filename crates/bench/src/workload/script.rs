//! Scripts: sequences of phases without pauses or warm-ups, for example `load, a:30s,
//! e:uniform+30s, delete=90%, a:30s`.

use super::phase::{
    KeyPresence, PhaseDefaults, PhaseTask, ScanLengths, WindowLength, WorkloadPhase, parse_amount, topic,
    words_of,
};
use anyhow::{Result, anyhow};

/// Describes the parts of a script, for error messages.
const ALLOWED: &str = "a script has parts such as load (the first), a:30s, e:uniform+30s, c:2M or delete=90%, separated by commas";

/// Parses a script. Each phase is named by its position and its text, so that equal phases can be
/// told apart.
///
/// # Errors
/// The invalid part, and the allowed syntax.
pub fn parse(text: &str, rate: Option<f64>) -> Result<Vec<WorkloadPhase>> {
    let parts = text.split(',').map(str::trim).enumerate();
    parts
        .map(|(at, part)| {
            let mut phase = read(part, at == 0, rate)
                .map_err(|why| anyhow!("part {} of the script, {part:?}: {why}; {ALLOWED}", at + 1))?;
            phase.name = format!("{} {part}", at + 1);
            Ok(phase)
        })
        .collect()
}

/// Returns whether any phase of a script deletes records.
#[must_use]
pub fn deletes(phases: &[WorkloadPhase]) -> bool {
    phases
        .iter()
        .any(|phase| matches!(phase.task, PhaseTask::Delete { .. }))
}

fn read(part: &str, is_first: bool, rate: Option<f64>) -> Result<WorkloadPhase, String> {
    if part.is_empty() {
        return Err("the part is empty".to_owned());
    }
    if let Some(share) = part.strip_prefix("delete") {
        return Ok(WorkloadPhase {
            name: String::new(),
            task: PhaseTask::Delete {
                percent: percent(share)?,
            },
            scan: ScanLengths::Uniform(1),
            wanted: KeyPresence::default(),
            warm: WindowLength::Operations(0),
            run: WindowLength::Operations(0),
            rate,
        });
    }
    // Let `words_of` accept two times, because the check below rejects them with a better message.
    let (name, words) = words_of(part, |word| {
        match word.starts_with(|c: char| c.is_ascii_digit()) {
            true => word,
            false => topic(word),
        }
    })?;
    let (mut amount, mut others) = (None, Vec::new());
    for word in words {
        if word.starts_with("warm=") || word.starts_with("run=") {
            return Err("a script has no warm-up; write its time alone, as in a:30s".to_owned());
        }
        if !word.starts_with(|c: char| c.is_ascii_digit()) {
            others.push(word);
            continue;
        }
        let parsed = parse_amount(word)?;
        if parsed.is_nothing() {
            return Err(format!("{word} must be longer than 0"));
        }
        if amount.replace(parsed).is_some() {
            return Err("the part has two times".to_owned());
        }
    }
    let is_load = name == "load";
    let run = match (is_load, amount) {
        (false, Some(amount)) => amount,
        (true, None) if is_first => WindowLength::Operations(0),
        (true, None) => return Err("records are loaded once, before anything else".to_owned()),
        (true, Some(_)) => return Err("a load cannot have a time".to_owned()),
        (false, None) => WindowLength::Operations(0),
    };
    let defaults = PhaseDefaults {
        warm: WindowLength::Operations(0),
        run,
        rate,
    };
    let text = match others.is_empty() {
        true => name.to_owned(),
        false => format!("{name}:{}", others.join("+")),
    };
    let phase = WorkloadPhase::parse(&text, defaults).map_err(|error| format!("{error:#}"))?;
    if !is_load && amount.is_none() {
        return Err("give a time, as in a:30s".to_owned());
    }
    Ok(phase)
}

/// Parses the share of a deletion, such as `=90%`, from 1 to 99 percent.
fn percent(share: &str) -> Result<u8, String> {
    let number = share
        .strip_prefix('=')
        .and_then(|share| share.strip_suffix('%'))
        .and_then(|digits| digits.parse::<u8>().ok());
    number
        .filter(|percent| (1..100).contains(percent))
        .ok_or_else(|| "give a share of the records from delete=1% to delete=99%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_part_by_part() {
        let phases = parse(
            "load, a:30s, e:uniform+500ms,delete=90%, a:30s, c:2M+rate=5000",
            None,
        )
        .unwrap();
        let names: Vec<&str> = phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "1 load",
                "2 a:30s",
                "3 e:uniform+500ms",
                "4 delete=90%",
                "5 a:30s",
                "6 c:2M+rate=5000"
            ]
        );
        assert_eq!(phases[0].task, PhaseTask::Load);
        assert_eq!(phases[1].run, WindowLength::Milliseconds(30_000));
        assert_eq!(phases[2].run, WindowLength::Milliseconds(500));
        assert_eq!(phases[3].task, PhaseTask::Delete { percent: 90 });
        assert_eq!(
            (phases[5].run, phases[5].rate),
            (WindowLength::Operations(2_000_000), Some(5000.0))
        );
        assert!(phases.iter().all(|phase| phase.warm.is_nothing()));
        assert!(deletes(&phases) && !deletes(&phases[..3]));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_part_and_what_is_allowed() {
        for (text, part, why) in [
            ("load,,a:3s", "part 2 of the script, \"\"", "the part is empty"),
            (
                "load, a",
                "part 2 of the script, \"a\"",
                "give a time, as in a:30s",
            ),
            ("load, a:3x", "part 2", "not an amount"),
            ("load, a:0s", "part 2", "must be longer than 0"),
            ("load, a:3s+4s", "part 2", "two times"),
            ("load, x:3s", "part 2", "the phases are load, a"),
            ("load, a:fast+3s", "part 2", "unknown"),
            ("load, a:warm=3s+3s", "part 2", "a script has no warm-up"),
            ("a:3s, load", "part 2", "before anything else"),
            ("load:3s", "part 1", "cannot have a time"),
            ("load, delete=100%", "part 2", "delete=1% to delete=99%"),
            ("load, delete=0%", "part 2", "delete=1% to delete=99%"),
            ("load, delete=9", "part 2", "delete=1% to delete=99%"),
            ("load, delete", "part 2", "delete=1% to delete=99%"),
            ("", "part 1", "the part is empty"),
        ] {
            let error = parse(text, None).unwrap_err().to_string();
            assert!(error.starts_with(part), "{text}: {error}");
            assert!(error.contains(why), "{text}: {error}");
            assert!(error.ends_with(ALLOWED), "{text}: {error}");
        }
    }
}
