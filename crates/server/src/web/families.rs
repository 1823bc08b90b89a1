//! Families of numbers, in the text format of Prometheus.

use alluvium::Distribution;
use std::fmt::Write;

/// Bounds that a histogram shows: one in this number of a distribution's.
const COARSE: usize = 4;

/// How a family of numbers changes.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// What was written so far.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    /// Returns all of it.
    pub(super) fn finish(self) -> String {
        self.0
    }

    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let _ = writeln!(self.0, "# HELP alluvium_{name} {help}");
        let _ = writeln!(self.0, "# TYPE alluvium_{name} {}", kind.word());
    }

    /// A family of one number.
    pub(super) fn one(&mut self, name: &str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help);
        let _ = writeln!(self.0, "alluvium_{name} {value}");
    }

    /// A family of several, told apart by a label.
    pub(super) fn each(&mut self, name: &str, kind: Kind, help: &str, label: &str, values: &[(&str, f64)]) {
        self.family(name, kind, help);
        for (word, value) in values {
            let _ = writeln!(self.0, "alluvium_{name}{{{label}=\"{word}\"}} {value}");
        }
    }

    /// A number of a family, with its labels as they stand in braces.
    pub(super) fn labelled(&mut self, name: &str, labels: &str, value: f64) {
        let _ = writeln!(self.0, "alluvium_{name}{{{labels}}} {value}");
    }

    /// One of a family of histograms.
    pub(super) fn histogram(&mut self, name: &str, label: &str, word: &str, times: &Distribution) {
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
