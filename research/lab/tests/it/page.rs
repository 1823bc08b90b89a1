//! The page of the Lab: it is well formed and complete, and escapes the contents of results.

use alluvium_bench::report::machine::MachineInfo;
use alluvium_bench::run::RepetitionFailure;
use alluvium_lab::{
    AxisPosition, Experiment, ExperimentResults, FigurePoint, FigureSeries, GENERATOR, MeasureFigures,
    MeasurementSet, ReportEntry, RunSize, experiments, page,
};

const HOSTILE: &str = "<script>alert(1)</script> \"quoted\" & 'more'";

/// Results with a figure wherever the document has a value, and with texts that contain markup.
fn results(experiment: &Experiment) -> ExperimentResults {
    let figures = experiment.measures.iter().map(|measure| {
        let places: Vec<AxisPosition> = measure
            .published
            .iter()
            .flat_map(|published| published.points)
            .map(|point| point.at.clone())
            .chain([AxisPosition::Name(HOSTILE.into()), AxisPosition::Number(7.0)])
            .collect();
        let point = |(number, at): (usize, AxisPosition)| FigurePoint {
            at,
            value: 3.5 * number as f64,
        };
        MeasureFigures {
            measure: measure.name.into(),
            unit: measure.unit.into(),
            lines: vec![FigureSeries {
                name: HOSTILE.into(),
                points: places.into_iter().enumerate().map(point).collect(),
            }],
        }
    });
    ExperimentResults {
        form: 1,
        id: experiment.id.into(),
        size: RunSize::Full,
        version: HOSTILE.into(),
        command: HOSTILE.into(),
        machine: MachineInfo {
            processor: HOSTILE.into(),
            ..MachineInfo::default()
        },
        setup: vec![(HOSTILE.into(), HOSTILE.into())],
        settings: vec![(HOSTILE.into(), vec![(HOSTILE.into(), HOSTILE.into())])],
        notes: vec![HOSTILE.into()],
        failures: vec![RepetitionFailure {
            engine: HOSTILE.into(),
            repetition: 1,
            why: HOSTILE.into(),
        }],
        figures: figures.collect(),
        measured: MeasurementSet::default(),
    }
}

fn entries(has_results: impl Fn(&Experiment) -> bool) -> Vec<ReportEntry> {
    experiments()
        .map(|experiment| ReportEntry {
            experiment,
            results: has_results(experiment).then(|| results(experiment)),
        })
        .collect()
}

/// Elements without an end tag.
const VOID: [&str; 3] = ["meta", "br", "link"];

/// Returns the elements of a page in order, each with its attributes. Panics if an element is not
/// closed in order or if a character is not escaped.
#[track_caller]
fn parse(html: &str) -> Vec<(String, String)> {
    let mut rest = html.strip_prefix("<!DOCTYPE html>\n").expect("a doctype");
    let (mut open, mut all): (Vec<String>, Vec<(String, String)>) = (Vec::new(), Vec::new());
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        let is_style = open.last().is_some_and(|name| name == "style");
        assert!(is_style || !text.contains('>'), "{text:?}");
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("a tag has an end");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        assert!(
            !tag.contains('<') && tag.matches('"').count().is_multiple_of(2),
            "{tag:?}"
        );
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "{all:?}");
            continue;
        }
        let is_closed = tag.ends_with('/');
        let tag = tag.trim_end_matches('/');
        let (name, attributes) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "{name:?}");
        all.push((name.to_owned(), attributes.to_owned()));
        if !is_closed && !VOID.contains(&name) {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?} are not closed");
    all
}

/// Returns the values of an attribute.
fn values<'a>(elements: &'a [(String, String)], attribute: &str) -> Vec<&'a str> {
    let start = format!("{attribute}=\"");
    let value = |(_, attributes): &'a (String, String)| {
        let at = attributes.find(&start)? + start.len();
        attributes[at..].split('"').next()
    };
    elements.iter().filter_map(value).collect()
}

#[test]
fn the_page_is_well_formed_and_has_every_experiment() {
    for html in [
        page(&entries(|_| true)).unwrap(),
        page(&entries(|experiment| experiment.waits_for().is_none())).unwrap(),
        page(&entries(|_| false)).unwrap(),
    ] {
        let elements = parse(&html);
        let ids = values(&elements, "id");
        for experiment in experiments() {
            let anchor = experiment.id.replace('/', "-");
            let count = ids.iter().filter(|id| **id == anchor).count();
            assert_eq!(count, 1, "{anchor}");
        }
        for target in values(&elements, "href") {
            let anchor = target.strip_prefix('#').expect("nothing from elsewhere");
            assert!(ids.contains(&anchor), "{target}");
        }
        assert!(values(&elements, "src").is_empty());
        assert!(
            !elements
                .iter()
                .any(|(name, _)| name == "script" || name == "link")
        );
        let mark = html.find(GENERATOR).expect("a later report knows it as its own");
        assert!(mark < 4000, "it is looked for in the first lines");
        for word in [
            "name=\"viewport\"",
            "prefers-color-scheme: dark",
            "overflow-x: auto",
        ] {
            assert!(html.contains(word), "{word}");
        }
    }
}

#[test]
fn published_values_and_ours_stand_side_by_side_with_a_plot() {
    let html = page(&entries(|_| true)).unwrap();
    assert!(html.contains("<th scope=\"row\">100</th><td>614</td><td>866</td><td>"));
    assert!(html.contains("2,000 to 2,400") && html.contains("1,331 (derived)"));
    let plots = html.matches("<svg ").count();
    let measures = experiments().flat_map(|experiment| experiment.measures).count();
    assert!(plots >= measures - 1, "{plots} plots of {measures} measures");
    assert!(html.contains("Conway, §3.7.4, Figure 3.6"));
    let without = page(&entries(|experiment| experiment.id == "seed-0/S5")).unwrap();
    assert!(without.contains("<code>alluvium-lab run seed-0/S7</code>"));
}
