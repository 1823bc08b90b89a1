//! Formats advice as text and as JSON.

use super::observed_workload::{ObservedWorkload, WorkloadSource};
use super::rank::StructureAdvice;
use crate::terminal::screen::{BOLD, ScreenOutput};
use crate::verbs::model::table;
use alluvium_model::structures::{MachineProfile, StructureCost, WorkloadProfile};
use serde_json::{Value, json};
use std::io;

/// Formats a time in milliseconds since 1970 as the date and hour in UTC. The Gregorian calendar is
/// computed in eras of 400 years that begin in March.
pub(crate) fn moment(ms: u64) -> String {
    let (hours, minutes) = (ms / 3_600_000, ms / 60_000 % 60);
    let days = hours / 24 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year + later;
    format!("{year}-{month:02}-{day:02} {:02}:{minutes:02} UTC", hours % 24)
}

/// Describes the period over which the workload was observed.
fn hours(seen: &ObservedWorkload) -> String {
    let name = match &seen.source {
        WorkloadSource::Trace(file) => {
            return format!(
                "trace {file}, {:.0} operations, in {} parts",
                seen.total.total(),
                seen.hours.len()
            );
        }
        WorkloadSource::Keyspace(name) => name,
    };
    match (seen.hours.first(), seen.hours.last()) {
        (Some((first, _)), Some((last, _))) => format!(
            "keyspace {name:?}, {} hours from {} to {}",
            seen.hours.len(),
            moment(*first),
            moment(last + 3_600_000)
        ),
        _ => format!("keyspace {name:?}"),
    }
}

pub(super) fn print(
    out: &mut ScreenOutput,
    workload: &WorkloadProfile,
    machine: &MachineProfile,
    seen: Option<&ObservedWorkload>,
    advice: &StructureAdvice,
) -> io::Result<()> {
    match seen {
        Some(seen) => {
            out.line(&format!("observed: {}", hours(seen)))?;
            if seen.in_order > 0.9 {
                out.line("writes arrive in key order: real costs are lower than those below, which assume scattered keys")?;
            }
        }
        None => out.line("no observed workload: the figures are for the workload on the command line")?,
    }
    for line in table::asked(workload, machine) {
        out.line(&line)?;
    }
    let beside = seen.map_or(&[][..], |seen| &seen.beside[..]);
    if !beside.is_empty() {
        let title = out.styled(BOLD, "predicted now, and measured since opening");
        out.line(&title)?;
    }
    for row in beside {
        let verdict = match row.is_within {
            true => "within the band",
            false => "outside the band",
        };
        let [p10, predicted, p90] = row.band;
        out.line(&format!(
            "  {:24} {predicted:8.2} ({p10:.2}–{p90:.2})   measured {:.2}: {verdict}",
            row.what.replace('_', " "),
            row.measured
        ))?;
    }
    let costs: Vec<StructureCost> = advice.choices.iter().map(|choice| choice.cost.clone()).collect();
    table::print(out, &costs)?;
    for choice in advice.choices.iter().filter(|choice| choice.regret > 0.0) {
        out.line(&format!(
            "  {}: costs up to {:.0} % more than the best choice in an observed hour",
            choice.cost.name,
            100.0 * choice.regret
        ))?;
    }
    let verdict = out.styled(BOLD, &advice.verdict);
    out.line(&verdict)
}

pub(super) fn json_of(
    workload: &WorkloadProfile,
    machine: &MachineProfile,
    seen: Option<&ObservedWorkload>,
    advice: &StructureAdvice,
) -> Value {
    let choices: Vec<Value> = (advice.choices.iter())
        .map(|choice| {
            let mut cost = table::json_of(&choice.cost);
            cost["regret"] = choice.regret.into();
            cost["is_usual"] = choice.is_usual.into();
            cost
        })
        .collect();
    let beside = seen.map_or(&[][..], |seen| &seen.beside[..]).iter().map(|row| {
        let [p10, predicted, p90] = row.band;
        json!({
            "what": row.what, "p10": p10, "predicted": predicted, "p90": p90, "measured": row.measured,
            "within_band": row.is_within,
        })
    });
    json!({
        "question": table::question_json(workload, machine),
        "seen": seen.map(|seen| json!({
            "keyspace": match &seen.source {
                WorkloadSource::Keyspace(name) => Some(name),
                WorkloadSource::Trace(_) => None,
            },
            "trace": match &seen.source {
                WorkloadSource::Trace(file) => Some(file),
                WorkloadSource::Keyspace(_) => None,
            },
            "began_ms": seen.hours.first().map(|hour| hour.0),
            "hours": seen.hours.len(),
            "in_order": seen.in_order,
            "memory_bytes": seen.memory_bytes,
        })),
        "predicted_beside_measured": beside.collect::<Vec<_>>(),
        "choices": choices,
        "leave_it": advice.leaves_it,
        "verdict": advice.verdict,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        assert_eq!(moment(0), "1970-01-01 00:00 UTC");
        assert_eq!(moment(951_782_400_000), "2000-02-29 00:00 UTC");
        assert_eq!(moment(1_735_686_000_000), "2024-12-31 23:00 UTC");
    }
}
