//! Writes metric families in Prometheus's text format.

use alluvium::LatencyDistribution;
use std::fmt::Write;

/// A histogram contains every fourth bucket bound of the latency distribution.
const COARSE: usize = 4;

/// The type of a metric family.
#[derive(Clone, Copy)]
pub(super) enum MetricType {
    Counter,
    Gauge,
    Histogram,
}

impl MetricType {
    fn word(self) -> &'static str {
        match self {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        }
    }
}

/// The metrics text written so far.
#[derive(Default)]
pub(super) struct MetricsText(String);

impl MetricsText {
    pub(super) fn finish(self) -> String {
        self.0
    }

    pub(super) fn family(&mut self, name: &str, kind: MetricType, help: &str) {
        let _ = writeln!(self.0, "# HELP alluvium_{name} {help}");
        let _ = writeln!(self.0, "# TYPE alluvium_{name} {}", kind.word());
    }

    /// Writes a metric family with a single value.
    pub(super) fn one(&mut self, name: &str, kind: MetricType, help: &str, value: f64) {
        self.family(name, kind, help);
        let _ = writeln!(self.0, "alluvium_{name} {value}");
    }

    /// Writes a metric family with several values, distinguished by a label.
    pub(super) fn each(
        &mut self,
        name: &str,
        kind: MetricType,
        help: &str,
        label: &str,
        values: &[(&str, f64)],
    ) {
        self.family(name, kind, help);
        for (word, value) in values {
            let _ = writeln!(self.0, "alluvium_{name}{{{label}=\"{word}\"}} {value}");
        }
    }

    /// Writes one value of a family. `labels` is the text between the braces.
    pub(super) fn labelled(&mut self, name: &str, labels: &str, value: f64) {
        let _ = writeln!(self.0, "alluvium_{name}{{{labels}}} {value}");
    }

    /// Writes one of a family's histograms, distinguished by a label.
    pub(super) fn histogram(&mut self, name: &str, label: &str, word: &str, times: &LatencyDistribution) {
        let mut line = |bound: &str, count: u64| {
            let _ = writeln!(
                self.0,
                "alluvium_{name}_bucket{{{label}=\"{word}\",le=\"{bound}\"}} {count}"
            );
        };
        for (bound_ns, count) in times.cumulative().step_by(COARSE) {
            line(&(bound_ns as f64 / 1e9).to_string(), count);
        }
        line("+Inf", times.timed());
        let sum = times.sum_ns() / 1e9;
        let _ = writeln!(self.0, "alluvium_{name}_sum{{{label}=\"{word}\"}} {sum}");
        let _ = writeln!(
            self.0,
            "alluvium_{name}_count{{{label}=\"{word}\"}} {}",
            times.timed()
        );
    }
}
