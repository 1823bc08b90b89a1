//! Prints those groups of `stats` that are not lists of numbers: predictions next to measurements,
//! settings chosen by the store, and changes made since the store was opened.

use crate::terminal::screen::{BOLD, ScreenOutput};
use crate::verbs::advise::moment;
use serde_json::Value;
use std::io;

/// Prints a group of `stats` if it is not a list of numbers. Returns whether it was printed.
pub(super) fn print(out: &mut ScreenOutput, group: &str, said: &Value) -> io::Result<bool> {
    match group {
        "forecast" => forecast(out, said)?,
        "chosen" => chosen(out, said)?,
        "changes" => changes(out, said)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn title(out: &mut ScreenOutput, text: &str) -> io::Result<()> {
    let title = out.styled(BOLD, text);
    out.line(&title)
}

fn row(of: &Value) -> Option<String> {
    let number = |name: &str| of[name].as_f64();
    let measured = match number("measured") {
        Some(measured) => format!("{measured:.3}"),
        None => "too few operations".to_owned(),
    };
    let verdict = match of["within_band"].as_bool() {
        Some(true) => ": within the band",
        Some(false) => ": outside the band",
        None => "",
    };
    Some(format!(
        "{:22} {:>10.3} ({:.3}–{:.3}), measured {measured}{verdict}",
        of["what"].as_str()?.replace('_', " "),
        number("predicted")?,
        number("p10")?,
        number("p90")?
    ))
}

fn forecast(out: &mut ScreenOutput, said: &Value) -> io::Result<()> {
    let Some(keyspace) = said["keyspace"].as_str() else {
        return Ok(());
    };
    let structure = said["structure"].as_str().unwrap_or_default();
    title(
        out,
        &format!("predicted and measured since opening: {structure}, keyspace {keyspace}"),
    )?;
    for line in said["now"].as_array().into_iter().flatten().filter_map(row) {
        out.line(&format!("  {line}"))?;
    }
    for hour in said["past"].as_array().into_iter().flatten() {
        let at = |name: &str| moment(hour[name].as_u64().unwrap_or(0));
        out.line(&format!("  {} to {}", at("began_ms"), at("ended_ms")))?;
        for line in hour["was"].as_array().into_iter().flatten().filter_map(row) {
            out.line(&format!("    {line}"))?;
        }
    }
    Ok(())
}

fn chosen(out: &mut ScreenOutput, said: &Value) -> io::Result<()> {
    title(out, "chosen")?;
    for (name, choice) in said.as_object().into_iter().flatten() {
        let of = |part: &str| choice[part].as_str().unwrap_or_default();
        out.line(&format!("  {name:12} {}: {}", of("value"), of("why")))?;
    }
    Ok(())
}

fn changes(out: &mut ScreenOutput, said: &Value) -> io::Result<()> {
    let all = said.as_array().filter(|all| !all.is_empty());
    let Some(all) = all else {
        return Ok(());
    };
    title(out, "changes by advice")?;
    for change in all {
        let number = |name: &str| change[name].as_f64().unwrap_or(0.0);
        let measured = match change["reads_measured"].as_f64() {
            Some(reads) => format!("{reads:.3}"),
            None => "nothing so far".to_owned(),
        };
        out.line(&format!(
            "  {} records use {:.0} % of the caches instead of {:.0} %; predicted {:.3} ({:.3}–{:.3}), measured {measured}: {}",
            moment(change["began_ms"].as_u64().unwrap_or(0)),
            100.0 * number("record_share"),
            100.0 * number("record_share_before"),
            number("predicted"),
            number("p10"),
            number("p90"),
            change["outcome"].as_str().unwrap_or_default()
        ))?;
    }
    Ok(())
}
