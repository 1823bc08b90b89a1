//! `advise --apply`: requests a change of settings from the process that has the store open, which
//! then measures the effect of the change.

use super::observed_workload::ObservedWorkload;
use super::{AdviseCommand, SAW_NOTHING};
use crate::context::CommandContext;
use crate::jobs::stop;
use crate::store::{StoreHandle, StoreOwner};
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen;
use crate::terminal::screen::{BOLD, ScreenOutput};
use alluvium_server::control::ManagementRequest;
use anyhow::Result;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;

/// How often the outcome of a change is queried.
const LOOK: Duration = Duration::from_millis(500);

/// Parses a share such as `0.25` or `25%`. It must be from zero to three quarters. Returns the
/// share in thousandths.
pub(super) fn share(text: &str) -> Result<u32, String> {
    let text = text.trim();
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse::<f64>(),
    };
    match number {
        Ok(share) if (0.0..=0.75).contains(&share) => Ok((1000.0 * share).round() as u32),
        _ => Err(format!(
            "{text:?} is not a share of the caches: write a number from 0 to 0.75, as in 0.25 or 25%"
        )),
    }
}

impl AdviseCommand {
    /// Requests the change that the store itself advises, or the share that the command line
    /// specifies.
    pub(super) fn apply(&self, context: &CommandContext) -> Result<CommandExit> {
        if self.asks_what_if() {
            let text = "--apply uses the observed workload only: leave out the options that describe another workload or machine";
            return Err(failure(CommandExit::Usage, text));
        }
        let store = context.open_to_read()?;
        if store.holder() == StoreOwner::Us {
            store.close()?;
            let text = "no other process has the store open, and a change lasts only until the store is closed: \
                        start `alluvium serve`, or set `Options::record_memory` in your program";
            return Err(failure(CommandExit::Usage, text));
        }
        if self.records.is_none()
            && ObservedWorkload::of(&store.json(&ManagementRequest::Stats)?, None).is_none()
        {
            store.close()?;
            let text = format!(
                "{SAW_NOTHING}, so there is no advice to apply: run the command again after some requests, or give the share with --records"
            );
            return Err(failure(CommandExit::NotFound, text));
        }
        let request = ManagementRequest::ApplyAdvice {
            record_permille: self.records,
        };
        let change = store.json(&request)?;
        let change = match change.is_null() {
            true => change,
            false => watched(context, &store, change)?,
        };
        store.close()?;
        show(context, &change)
    }
}

/// Waits until the store has kept or reverted the change, or until Ctrl-C. After Ctrl-C, the store
/// continues to measure on its own.
fn watched(context: &CommandContext, store: &StoreHandle, mut change: Value) -> Result<Value> {
    if !context.is_json() {
        screen::note(&format!(
            "{}; the store watches the change for about a minute, or longer if lookups are few, and undoes it if they read more: Ctrl-C ends only the waiting",
            words(&change)
        ));
    }
    while change["is_watched"] == true && !stop::asked() {
        std::thread::sleep(LOOK);
        let all = store.json(&ManagementRequest::Trials)?;
        let began = &change["began_ms"];
        let found = all.as_array().and_then(|all| {
            let ours = all.iter().rev().find(|one| one["began_ms"] == *began);
            ours.cloned()
        });
        // Many later changes have pushed this one off the list of recent changes.
        let Some(found) = found else {
            break;
        };
        change = found;
    }
    Ok(change)
}

fn words(change: &Value) -> String {
    let of = |name: &str| change[name].as_f64().unwrap_or(0.0);
    format!(
        "records use {:.0} % of the caches instead of {:.0} %; predicted reads per lookup: {:.3} ({:.3}–{:.3})",
        100.0 * of("record_share"),
        100.0 * of("record_share_before"),
        of("predicted"),
        of("p10"),
        of("p90")
    )
}

fn show(context: &CommandContext, change: &Value) -> Result<CommandExit> {
    let mut out = ScreenOutput::new();
    if context.is_json() {
        out.json(change)?;
    } else if change.is_null() {
        out.line(
            "leave it: no other share for records is cheaper by more than the uncertainty of the model",
        )?;
    } else {
        let reads = |name: &str| match change[name].as_f64() {
            Some(reads) => format!("{reads:.3}"),
            None => "too few lookups".to_owned(),
        };
        out.line(&words(change))?;
        out.line(&format!(
            "reads per lookup: {} before, {} since",
            reads("reads_before"),
            reads("reads_measured")
        ))?;
        let outcome = out.styled(BOLD, change["outcome"].as_str().unwrap_or_default());
        out.line(&outcome)?;
    }
    out.flush()?;
    Ok(CommandExit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_or_refused_in_words() {
        assert_eq!(
            (share("0.25"), share("50%"), share("0"), share(" 75 % ")),
            (Ok(250), Ok(500), Ok(0), Ok(750))
        );
        for bad in ["", "-1", "0.8", "76%", "NaN", "half"] {
            assert!(share(bad).unwrap_err().contains("not a share"), "{bad}");
        }
    }
}
