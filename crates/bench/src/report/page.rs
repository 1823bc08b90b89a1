//! Writes a self-contained HTML page with the whole report: machine, settings, table and plots.

use super::plots::SvgPlot;
use super::{BenchReport, script, table};
use std::fmt::Write;

#[must_use]
pub fn page(report: &BenchReport, plots: &[SvgPlot]) -> String {
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Alluvium, measured</title>\n<style>\nbody { font: 15px/1.5 sans-serif; margin: 2em \
         auto; max-width: 70em; padding: 0 1em }\npre { overflow-x: auto; background: #f5f5f5; padding: 1em; font-size: 12px }\ntd { padding: 0 1em 0 0; \
         vertical-align: top }\nsvg { max-width: 100%; height: auto }\n</style>\n<h1>Alluvium, measured</h1>\n",
    );
    let list = |page: &mut String, title: &str, lines: &[(String, String)]| {
        let _ = writeln!(page, "<h2>{}</h2>\n<table>", escaped(title));
        for (name, text) in lines {
            let _ = writeln!(page, "<tr><td>{}<td>{}", escaped(name), escaped(text));
        }
        page.push_str("</table>\n");
    };
    let machine: Vec<(String, String)> = report
        .machine
        .lines()
        .into_iter()
        .map(|(name, text)| (name.to_owned(), text))
        .collect();
    list(&mut page, "The machine", &machine);
    list(&mut page, "The measurement", &report.orders);
    let _ = writeln!(
        page,
        "<h2>Figures</h2>\n<pre>{}</pre>",
        escaped(&table::table(report))
    );
    let over_time = script::text(report);
    if !over_time.is_empty() {
        let _ = writeln!(page, "<h2>Over time</h2>\n<pre>{}</pre>", escaped(&over_time));
    }
    if !report.failures.is_empty() {
        let failures: Vec<(String, String)> = report
            .failures
            .iter()
            .map(|failure| {
                (
                    format!("{}, repetition {}", failure.engine, failure.repetition),
                    failure.why.clone(),
                )
            })
            .collect();
        list(&mut page, "What failed", &failures);
    }
    for plot in plots {
        page.push_str(&plot.svg);
        page.push('\n');
    }
    for (engine, settings) in &report.settings {
        list(&mut page, &format!("Settings of {engine}"), settings);
    }
    page.push_str("</html>\n");
    page
}

#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::tiny;
    use crate::run::RepetitionFailure;

    #[test]
    fn the_page_holds_everything_and_nothing_is_markup_that_should_not_be() {
        let mut report = tiny(&["alluvium"]);
        report.orders.push(("data".into(), "<b>2 & 3</b>".into()));
        report.failures.push(RepetitionFailure {
            engine: "rocksdb".into(),
            repetition: 2,
            why: "killed & gone".into(),
        });
        let plots = [SvgPlot {
            name: "throughput",
            svg: "<svg></svg>".into(),
        }];
        let page = page(&report, &plots);
        assert!(page.contains("&lt;b&gt;2 &amp; 3&lt;/b&gt;") && page.contains("<svg></svg>"));
        assert!(page.contains("rocksdb, repetition 2<td>killed &amp; gone"));
        assert!(page.contains("alluvium") && page.ends_with("</html>\n"));
    }
}
