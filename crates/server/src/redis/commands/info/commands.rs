//! INFO's Commandstats, Errorstats and Latencystats sections.

use super::line;
use crate::observe::command_stats::CommandFigures;
use crate::redis::counted_names;
use crate::shared::StoreContext;

/// Calls `each` with the name and statistics of every command that was called, rejected or failed.
fn each_used(shared: &StoreContext, mut each: impl FnMut(&str, &CommandFigures)) {
    for (index, name) in (0..).zip(counted_names()) {
        let figures = shared.tally.of(index).figures();
        if figures.calls + figures.rejected + figures.failed > 0 {
            each(name, &figures);
        }
    }
}

pub(super) fn commands(shared: &StoreContext, text: &mut String) {
    each_used(shared, |name, figures| {
        let mean = figures.took_us as f64 / figures.calls.max(1) as f64;
        let value = format_args!(
            "calls={},usec={},usec_per_call={mean:.2},rejected_calls={},failed_calls={}",
            figures.calls, figures.took_us, figures.rejected, figures.failed
        );
        line(text, &format!("cmdstat_{name}"), value);
    });
}

pub(super) fn errors(shared: &StoreContext, text: &mut String) {
    for (kind, count) in shared.tally.errors() {
        line(text, &format!("errorstat_{kind}"), format_args!("count={count}"));
    }
}

pub(super) fn latencies(shared: &StoreContext, text: &mut String) {
    each_used(shared, |name, figures| {
        if figures.calls == 0 {
            return;
        }
        let value = format_args!(
            "p50={:.3},p99={:.3},p99.9={:.3}",
            figures.within_us(0.5),
            figures.within_us(0.99),
            figures.within_us(0.999)
        );
        line(text, &format!("latency_percentiles_usec_{name}"), value);
    });
}
