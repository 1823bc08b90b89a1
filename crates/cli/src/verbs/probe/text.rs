//! Conclusions as text.

use super::chart::{self, figures};
use super::plural;
use crate::terminal::screen::{BOLD, ScreenOutput};
use crate::values::sizes::human;
use alluvium_base::measurements::DeviceMeasurements;
use alluvium_model::probe::{DeviceAdvice, DeviceParallelism, ProbeConclusions, RequestCosts, SHARES};
use std::io;
use std::path::Path;

pub(super) fn print(
    out: &mut ScreenOutput,
    path: &Path,
    measured: &DeviceMeasurements,
    conclusions: &ProbeConclusions,
) -> io::Result<()> {
    let rounds = measured.samples.iter().map(|window| window.round + 1).max();
    out.line(&format!(
        "{} on {}: a file of {}, {:.1} s, {} rounds",
        path.display(),
        measured.file_system,
        human(measured.span_bytes),
        measured.elapsed_ns as f64 / 1e9,
        rounds.unwrap_or(0)
    ))?;
    for costs in [&conclusions.reads, &conclusions.writes] {
        section(out, plural(costs.kind), &of_costs(costs))?;
    }
    section(out, "sync", &of_sync(conclusions))?;
    section(out, "processor", &of_processor(conclusions))?;
    if let Some(advice) = &conclusions.advice {
        section(out, "advice", &of_advice(advice))?;
    }
    section(out, "profile", &[of_profile(conclusions)])?;
    for chart in chart::charts(measured, conclusions) {
        out.line("")?;
        let title = out.styled(BOLD, &chart.title);
        out.line(&title)?;
        for line in chart::lines(&chart) {
            out.line(&line)?;
        }
    }
    Ok(())
}

/// Prints lines of text. The name of the section precedes the first line.
fn section(out: &mut ScreenOutput, name: &str, lines: &[String]) -> io::Result<()> {
    for (at, line) in lines.iter().enumerate() {
        let name = if at == 0 { name } else { "" };
        let name = out.styled(BOLD, &format!("{name:10}"));
        out.line(&format!("{name}{line}"))?;
    }
    Ok(())
}

fn microseconds(seconds: f64) -> String {
    format!("{} µs", figures(seconds * 1e6))
}

fn of_costs(costs: &RequestCosts) -> Vec<String> {
    let mut lines = Vec::new();
    match &costs.affine {
        Err(why) => lines.push(format!("no affine model: {why}")),
        Ok(fitted) => {
            let fit = fitted.fit;
            let plain = fitted.plain.map_or(String::new(), |plain| {
                format!(", {:.4} of the line of least squares", plain.r_squared)
            });
            lines.push(format!(
                "setup {}, {} ps a byte ({} MB/s), α {:.4} for 4 KiB",
                microseconds(fit.setup_s),
                figures(fit.per_byte_s * 1e12),
                figures(1e-6 / fit.per_byte_s),
                fit.alpha(4096)
            ));
            lines.push(format!(
                "R² {:.4}{plain}, RMS {}, worst error {:.0} %",
                fit.goodness.r_squared,
                microseconds(fit.goodness.rms),
                fit.goodness.worst_relative * 100.0
            ));
            let natural = SHARES.map(|share| {
                let bytes = fit.natural_bytes(share).round() as u64;
                format!("{} for {:.0} %", human(bytes), share * 100.0)
            });
            lines.push(format!("natural sizes: {} of the bandwidth", natural.join(", ")));
        }
    }
    lines.extend(of_parallel(costs));
    let list = |items: Vec<String>| items.join(", ");
    if !costs.in_order.is_empty() {
        let rates = costs
            .in_order
            .iter()
            .map(|(bytes, rate)| format!("{} {}/s", human(*bytes), human(*rate as u64)));
        lines.push(format!("in order: {}", list(rates.collect())));
    }
    if costs.small.len() > 1 {
        let wanted = |depth: &u32| [1, 4, 16, 64].contains(depth);
        let rates = costs.small.iter().filter(|(depth, _)| wanted(depth));
        let rates = rates.map(|(depth, rate)| format!("{} at depth {depth}", figures(rate / 4096.0)));
        lines.push(format!("random 4 KiB a second: {}", list(rates.collect())));
    }
    lines
}

fn of_parallel(costs: &RequestCosts) -> Vec<String> {
    let interval = costs.parallelism_interval().map_or(String::new(), |(low, high)| {
        format!(" ({low:.1} to {high:.1} in nine of ten draws)")
    });
    let head = match costs.parallelism {
        DeviceParallelism::Unknown => "P unknown".to_owned(),
        DeviceParallelism::One => "P 1: further requests add nothing".to_owned(),
        DeviceParallelism::Knee(knee) => format!("P {knee:.2}{interval}"),
        DeviceParallelism::Beyond(depth) => {
            format!("P beyond {depth}: the throughput grew up to the largest depth")
        }
    };
    let mut lines = vec![match (&costs.parallel, costs.parallelism) {
        (_, DeviceParallelism::One) => head,
        (Err(why), _) => format!("{head}: {why}"),
        (Ok(fit), _) => format!(
            "{head}: each adds {} MiB/s up to {} MiB/s, R² {:.4}, RMS {} MiB/s",
            figures(fit.per_request),
            figures(fit.plateau),
            fit.goodness.r_squared,
            figures(fit.goodness.rms)
        ),
    }];
    if let (Ok(fit), Some(gain)) = (&costs.parallel, costs.gain) {
        lines.push(format!(
            "parallel requests are {} times as fast as single ones: this predicts times within {:.0} %, a model of one at \
             a time (DAM) within {:.0} %",
            figures(gain.times),
            gain.worst_time * 100.0,
            fit.worst_time_dam * 100.0
        ));
    }
    lines
}

fn of_sync(conclusions: &ProbeConclusions) -> Vec<String> {
    let of = |sync: alluvium_model::probe::SyncLatencies| {
        format!(
            "median {}, nine of ten within {} (of {})",
            microseconds(sync.median_ns as f64 / 1e9),
            microseconds(sync.most_ns as f64 / 1e9),
            sync.count
        )
    };
    conclusions.sync.map(of).into_iter().collect()
}

fn of_processor(conclusions: &ProbeConclusions) -> Vec<String> {
    let processor = conclusions.processor;
    let us = |ns: u64| microseconds(ns as f64 / 1e9);
    let alone = processor
        .alone_ns
        .map(|ns| format!("{} for a read by itself", us(ns)));
    let batched = processor
        .batched_ns
        .map(|ns| format!("{} in a batch of {}", us(ns), processor.batch));
    let both: Vec<String> = alone.into_iter().chain(batched).collect();
    match both.is_empty() {
        true => Vec::new(),
        false => vec![both.join(", ")],
    }
}

fn of_advice(advice: &DeviceAdvice) -> Vec<String> {
    let mut lines = vec![format!(
        "pages of {}, read-ahead of {}, {} requests under way",
        human(advice.page_bytes),
        human(advice.read_ahead_bytes),
        advice.depth
    )];
    if let (Some(node), Some(buffered)) = (advice.b_tree_node_bytes, advice.buffered_node_bytes) {
        lines.push(format!(
            "nodes of {} in a B-tree, of {} in a Bε-tree that mostly writes",
            human(node),
            human(buffered)
        ));
    }
    lines
}

fn of_profile(conclusions: &ProbeConclusions) -> String {
    let Some(profile) = conclusions.profile else {
        return "none".to_owned();
    };
    let reliable = match conclusions.reliable_profile() {
        Ok(_) => "",
        Err(_) => ", not reliable: see the notes",
    };
    format!(
        "setup_ns {}, byte_ps {}, parallelism {}, io_cpu_ns {}{reliable}",
        profile.setup_ns, profile.byte_ps, profile.parallelism, profile.io_cpu_ns
    )
}
