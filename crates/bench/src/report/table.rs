//! Human-readable tables of figures.

use super::{BenchReport, transactions};
use crate::run::ResultRow;

const HEAD: [&str; 15] = [
    "phase",
    "engine",
    "k ops/s",
    "spread",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "max ms",
    "cpu us/op",
    "reads/op",
    "read KB/op",
    "write MB",
    "write amp",
    "space",
    "rss MiB",
];

/// Formats a table of the results, with one line per phase and engine.
#[must_use]
pub fn table(report: &BenchReport) -> String {
    if transactions::is_of_transactions(report) {
        return transactions::table(report);
    }
    let mut phases: Vec<&str> = Vec::new();
    for row in &report.results {
        if !phases.contains(&row.phase.as_str()) {
            phases.push(&row.phase);
        }
    }
    let mut lines = vec![HEAD.map(str::to_owned).to_vec()];
    for phase in phases {
        for row in report.results.iter().filter(|row| row.phase == phase) {
            lines.push(cells(row));
        }
    }
    aligned(&lines, 2)
}

/// Aligns the cells of a table: the first `left` columns to the left, and the others to the right.
pub(super) fn aligned(lines: &[Vec<String>], left: usize) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let widths = lines.iter().map(|cells| cells[column].chars().count());
            widths.max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for cells in lines {
        for (column, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
            let cell = if column < left {
                format!("{cell:<width$}  ")
            } else {
                format!("{cell:>width$}  ")
            };
            text.push_str(&cell);
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

fn cells(row: &ResultRow) -> Vec<String> {
    let maybe = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let did = row.operations > 0;
    let of_ops = |text: String| if did { text } else { "-".to_owned() };
    let per_op = 1.0 / row.operations.max(1) as f64;
    vec![
        row.phase.clone(),
        row.engine.clone(),
        of_ops(format!("{:.1}", row.ops_per_s / 1e3)),
        row.spread
            .map_or_else(|| "-".to_owned(), |spread| format!("{:.0} %", 100.0 * spread)),
        of_ops(figures(row.latency.p50_us)),
        of_ops(figures(row.latency.p99_us)),
        of_ops(figures(row.latency.p999_us)),
        of_ops(figures(row.latency.max_us / 1e3)),
        of_ops(figures(row.cpu_us_per_op)),
        of_ops(format!("{:.3}", row.reads_per_op())),
        of_ops(figures(row.device_read_bytes as f64 * per_op / 1e3)),
        format!("{:.0}", row.device_write_bytes as f64 / 1e6),
        maybe(row.write_amplification, 2),
        maybe(row.space_amplification, 2),
        format!("{:.0}", row.rss_peak_bytes as f64 / f64::from(1 << 20)),
    ]
}

/// Formats the results as a Markdown table with a line per phase and a column per engine. A cell
/// contains thousands of operations per second, CPU time in microseconds per operation, device
/// reads per operation, and bytes written to the device per byte written by the user.
#[must_use]
pub fn markdown(report: &BenchReport) -> String {
    let mut engines: Vec<&str> = Vec::new();
    let mut phases: Vec<(&str, usize)> = Vec::new();
    for row in &report.results {
        if !engines.contains(&row.engine.as_str()) {
            engines.push(&row.engine);
        }
        if !phases.contains(&(row.phase.as_str(), row.threads)) {
            phases.push((&row.phase, row.threads));
        }
    }
    let mut text = format!("| phase, threads | {} |\n|---|", engines.join(" | "));
    text.push_str(&"---|".repeat(engines.len()));
    text.push('\n');
    for (phase, threads) in phases {
        let cell = |engine: &&str| {
            let found = report.results.iter().find(|row| {
                (row.engine.as_str(), row.phase.as_str(), row.threads) == (*engine, phase, threads)
            });
            found.map_or_else(|| "–".to_owned(), short)
        };
        let cells: Vec<String> = engines.iter().map(cell).collect();
        text.push_str(&format!("| {phase}, {threads} | {} |\n", cells.join(" | ")));
    }
    text
}

/// Formats the few figures of a result that a comparison of engines shows.
fn short(row: &ResultRow) -> String {
    let mut words = Vec::new();
    if row.operations > 0 {
        words.push(format!("{} k/s", figures(row.ops_per_s / 1e3)));
        words.push(format!("{} µs", figures(row.cpu_us_per_op)));
        if row.device_reads > 0 {
            words.push(format!("{} reads", figures(row.reads_per_op())));
        }
    }
    if let Some(written) = row.write_amplification {
        words.push(format!("{} written", figures(written)));
    }
    if row.operations == 0 {
        words.extend(
            row.space_amplification
                .map(|space| format!("{} space", figures(space))),
        );
    }
    words.join("; ")
}

/// Formats a value with approximately three significant digits.
pub(super) fn figures(value: f64) -> String {
    let digits = match value.abs() {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::machine::MachineInfo;

    #[test]
    fn a_page_has_a_line_for_each_phase_and_a_column_for_each_engine() {
        let text = markdown(&crate::report::tests::tiny(&["alluvium", "rocksdb"]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "| phase, threads | alluvium | rocksdb |");
        assert_eq!(lines[1], "|---|---|---|");
        assert_eq!(
            lines[2],
            "| load, 1 | 100 k/s; 3.00 µs; 0.30 reads; 2.00 written | 200 k/s; 3.00 µs; 0.30 reads; 2.00 written |"
        );
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn columns_stand_below_each_other() {
        let row = ResultRow {
            engine: "alluvium".into(),
            phase: "load".into(),
            operations: 100,
            ops_per_s: 123_456.0,
            ..ResultRow::default()
        };
        let report = BenchReport {
            machine: MachineInfo::default(),
            orders: Vec::new(),
            settings: Vec::new(),
            results: vec![row],
            repetitions: Vec::new(),
            failures: Vec::new(),
        };
        let text = table(&report);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        let end = lines[0].find("k ops/s").unwrap() + "k ops/s".len();
        assert_eq!(lines[1][..end].trim_end().chars().count(), end, "{text}");
        assert!(lines[1].contains("123.5"), "{text}");
    }
}
