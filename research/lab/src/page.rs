//! The HTML page of the Lab: a single self-contained file for dark and light, large and small
//! screens.

use super::documents::{DOCUMENTS, document};
use super::entry::{Experiment, ExperimentMeasure};
use super::measurements::FigureSeries;
use super::plot::plot;
use super::results::ExperimentResults;
use super::table::places;
use alluvium_bench::report::page::escaped;
use anyhow::Result;
use std::fmt::Write;

/// The marker that identifies a page as written by the Lab.
pub const GENERATOR: &str = "<meta name=\"generator\" content=\"alluvium-lab report\">";

const STYLE: &str = "\
:root { color-scheme: light dark; --back: #fff; --text: #1c2128; --soft: #5a6470; --line: #d5dae0; --card: #f5f7f9; --link: #0b62c4 }
@media (prefers-color-scheme: dark) { :root { --back: #12161b; --text: #e3e8ee; --soft: #9aa6b2; --line: #333c46; --card: #1a2027; --link: #6db3ff } }
* { box-sizing: border-box }
body { background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 56rem; padding: 1rem }
a { color: var(--link) }
h1, h2, h3 { line-height: 1.25 }
section { border-top: 1px solid var(--line); margin-top: 2rem; padding-top: .5rem }
.soft { color: var(--soft) }
.wide { overflow-x: auto }
.wide svg { display: block; height: auto; max-width: 44rem; min-width: 32rem; width: 100% }
table { border-collapse: collapse; font-size: .9rem; min-width: 100% }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .6rem .35rem 0; text-align: left; vertical-align: top }
pre { background: var(--card); border-radius: .4rem; overflow-x: auto; padding: .6rem .8rem }
dl { display: grid; gap: .1rem 1rem; grid-template-columns: max-content 1fr }
dt { color: var(--soft) }
dd { margin: 0; overflow-wrap: anywhere }
@media (max-width: 32rem) { dl { display: block } dd { margin: 0 0 .4rem } }
";

/// An experiment and its results.
#[derive(Debug)]
pub struct ReportEntry {
    pub experiment: &'static Experiment,
    /// Results of the full size if present, otherwise of the quick size; `None` if it was never
    /// run.
    pub results: Option<ExperimentResults>,
}

/// Renders the page of all experiments. Experiments without results are listed by name only.
///
/// # Errors
/// When a plot cannot be drawn.
pub fn page(entries: &[ReportEntry]) -> Result<String> {
    let measured: Vec<(&Experiment, &ExperimentResults)> = entries
        .iter()
        .filter_map(|entry| Some((entry.experiment, entry.results.as_ref()?)))
        .collect();
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         {GENERATOR}\n<title>Alluvium: the Lab</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>The Lab</h1>\n\
         <p>Experiments of the research that Alluvium builds on: the published figures, and ours beside them. \
         Published figures are those that a document states in words and numbers.</p>\n"
    );
    contents(&mut page, &measured);
    for (experiment, results) in &measured {
        section(&mut page, experiment, results)?;
    }
    others(&mut page, entries);
    sources(&mut page);
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

/// Converts an id to an HTML anchor.
fn anchor(id: &str) -> String {
    id.replace('/', "-")
}

fn contents(page: &mut String, measured: &[(&Experiment, &ExperimentResults)]) {
    page.push_str("<nav>\n<ul>\n");
    for (experiment, _) in measured {
        let _ = writeln!(
            page,
            "<li><a href=\"#{}\">{}</a> {}</li>",
            anchor(experiment.id),
            experiment.id,
            escaped(experiment.title)
        );
    }
    page.push_str("<li><a href=\"#others\">Not measured</a></li>\n</ul>\n</nav>\n");
}

fn section(page: &mut String, experiment: &Experiment, results: &ExperimentResults) -> Result<()> {
    let _ = writeln!(
        page,
        "<section id=\"{}\">\n<h2>{}: {}</h2>\n<p>{}</p>",
        anchor(experiment.id),
        experiment.id,
        escaped(experiment.title),
        escaped(experiment.shows)
    );
    let author = document(experiment.document()).map_or("", |document| document.author);
    definitions(
        page,
        &[
            (
                "Source",
                format!("{author}, {}, {}", experiment.section, experiment.figure),
            ),
            ("Published with", experiment.setting.to_owned()),
            ("Ours", of_run(results)),
        ],
    );
    let _ = writeln!(page, "<pre>{}</pre>", escaped(&results.command));
    for measure in experiment.measures {
        let lines = results.lines(measure.name);
        let _ = writeln!(
            page,
            "<h3>{}</h3>\n<p class=\"soft\">In {}.</p>",
            escaped(&capital(measure.name)),
            escaped(measure.unit)
        );
        table(page, measure, lines);
        if let Some(svg) = plot(measure, lines)? {
            let _ = writeln!(page, "<div class=\"wide\">{svg}</div>");
        }
        if !measure.note.is_empty() {
            let _ = writeln!(page, "<p class=\"soft\">{}</p>", escaped(measure.note));
        }
    }
    remarks(page, experiment, results);
    page.push_str("</section>\n");
    Ok(())
}

/// Summarises, in one line, the run that produced our figures.
fn of_run(results: &ExperimentResults) -> String {
    let mut text = format!("alluvium {}, {} size", results.version, results.size.name());
    for (name, value) in &results.setup {
        let _ = write!(text, "; {name}: {value}");
    }
    text
}

fn remarks(page: &mut String, experiment: &Experiment, results: &ExperimentResults) {
    let list = |page: &mut String, title: &str, items: &[String]| {
        if items.is_empty() {
            return;
        }
        let _ = writeln!(page, "<h3>{title}</h3>\n<ul>");
        for item in items {
            let _ = writeln!(page, "<li>{}</li>", escaped(item));
        }
        page.push_str("</ul>\n");
    };
    let differs: Vec<String> = experiment.differs.iter().map(|text| (*text).to_owned()).collect();
    list(page, "Where ours differs", &differs);
    list(page, "Of this run", &results.notes);
    let failures: Vec<String> = results.failures.iter().map(ToString::to_string).collect();
    list(page, "What failed", &failures);
    page.push_str("<h3>The machine</h3>\n");
    let lines = results.machine.lines();
    let settings = results.settings.iter().map(|(engine, settings)| {
        let settings: Vec<String> = settings
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        (engine.as_str(), settings.join(", "))
    });
    definitions(page, &lines.into_iter().chain(settings).collect::<Vec<_>>());
}

fn definitions(page: &mut String, all: &[(&str, String)]) {
    page.push_str("<dl>\n");
    for (name, text) in all {
        let _ = writeln!(page, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(text));
    }
    page.push_str("</dl>\n");
}

/// Writes the table of published values and ours, one row for each place.
fn table(page: &mut String, measure: &ExperimentMeasure, ours: &[FigureSeries]) {
    page.push_str("<div class=\"wide\"><table>\n<thead><tr>");
    let _ = write!(page, "<th scope=\"col\">{}</th>", escaped(measure.axis.name));
    for published in measure.published {
        let _ = write!(
            page,
            "<th scope=\"col\">{}<br><span class=\"soft\">published, {}</span></th>",
            escaped(published.name),
            escaped(published.section)
        );
    }
    for line in ours {
        let _ = write!(
            page,
            "<th scope=\"col\">{}<br><span class=\"soft\">ours</span></th>",
            escaped(&line.name)
        );
    }
    if ours.is_empty() {
        page.push_str("<th scope=\"col\">ours</th>");
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for place in places(measure, ours) {
        let _ = write!(
            page,
            "<tr><th scope=\"row\">{}</th>",
            escaped(&place.at.to_string())
        );
        for text in place.published.iter().chain(&place.ours) {
            cell(page, text);
        }
        if ours.is_empty() {
            cell(page, "not measured");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
}

fn cell(page: &mut String, text: &str) {
    let text = if text.is_empty() { "–" } else { text };
    let _ = write!(page, "<td>{}</td>", escaped(text));
}

fn others(page: &mut String, entries: &[ReportEntry]) {
    page.push_str("<section id=\"others\">\n<h2>Not measured</h2>\n");
    let others: Vec<&Experiment> = entries
        .iter()
        .filter(|entry| entry.results.is_none())
        .map(|entry| entry.experiment)
        .collect();
    if others.is_empty() {
        page.push_str("<p>Everything in the register has results.</p>\n</section>\n");
        return;
    }
    page.push_str("<ul>\n");
    for experiment in others {
        let state = match experiment.waits_for() {
            Some(structure) => format!("waits for {}", escaped(structure)),
            None => format!("<code>alluvium-lab run {}</code>", experiment.id),
        };
        let _ = writeln!(
            page,
            "<li id=\"{}\">{}: {} <span class=\"soft\">{state}</span></li>",
            anchor(experiment.id),
            experiment.id,
            escaped(experiment.title)
        );
    }
    page.push_str("</ul>\n</section>\n");
}

fn sources(page: &mut String) {
    page.push_str("<section id=\"sources\">\n<h2>Documents</h2>\n<dl>\n");
    for document in DOCUMENTS {
        let _ = writeln!(
            page,
            "<dt>{}</dt><dd>{}, <cite>{}</cite>, {}.</dd>",
            document.id,
            escaped(document.author),
            escaped(document.title),
            escaped(document.published)
        );
    }
    page.push_str("</dl>\n</section>\n");
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
