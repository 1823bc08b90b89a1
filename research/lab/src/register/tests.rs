//! Files match procedures, values keep their forms, and errors name the entry.

use super::*;
use crate::entry::ExperimentMethod;
use crate::measurements::{FigureSeries, MeasurementSet};
use std::collections::BTreeSet;

fn nothing(_: &MeasurementSet) -> Vec<FigureSeries> {
    Vec::new()
}

const ONE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-9/X1",
    ours: &[("speed", nothing)],
    work: ExperimentMethod::Waits("a structure"),
};

/// Returns an experiment with these points.
fn with_points(points: &str) -> String {
    format!(
        "[texts]\nmachine = \"Another machine.\"\n\n\
         [axes]\nthreads = {{ linear = \"threads\" }}\n\n\
         [[experiment]]\nid = \"seed-9/X1\"\ntitle = \"A title\"\nshows = \"A claim.\"\n\
         section = \"§1\"\nfigure = \"Figure 1\"\nsetting = \"@machine\"\n\
         differs = [\"@machine\", \"One thread.\"]\n\n\
         [[experiment.measure]]\nname = \"speed\"\nunit = \"MB/s\"\naxis = \"threads\"\n\
         published = [{{ name = \"document\", points = [{points}] }}]\n"
    )
}

fn read(text: &str, procedures: &[&'static MeasurementProcedure]) -> Result<Vec<Experiment>> {
    let part = DocumentRegister {
        document: "seed-9",
        text: text.to_owned().leak(),
        procedures: procedures.to_vec(),
    };
    part.read()
}

#[test]
fn files_and_procedures_have_the_same_experiments_and_measures() {
    type Names = BTreeMap<String, BTreeSet<String>>;
    let mut count = 0;
    for part in parts() {
        let sheet: RegisterFile = toml::from_str(part.text).unwrap();
        let named = |table: &toml::Table| {
            let measures = table["measure"].as_array().unwrap().iter();
            let names = measures.map(|measure| measure["name"].as_str().unwrap().to_owned());
            (table["id"].as_str().unwrap().to_owned(), names.collect())
        };
        let said: Names = sheet.experiment.iter().map(named).collect();
        let computed = |procedure: &&MeasurementProcedure| {
            let names = procedure.ours.iter().map(|(name, _)| (*name).to_owned());
            (procedure.id.to_owned(), names.collect())
        };
        let computed: Names = part.procedures.iter().map(computed).collect();
        assert_eq!(said, computed, "{}", part.document);
        assert_eq!(sheet.experiment.len(), part.procedures.len(), "{}", part.document);
        assert_eq!(
            part.read().unwrap().len(),
            part.procedures.len(),
            "{}",
            part.document
        );
        count += part.procedures.len();
    }
    assert_eq!(count, experiments().len());
}

#[test]
fn what_stands_at_the_head_is_used() {
    for part in parts() {
        let sheet: RegisterFile = toml::from_str(part.text).unwrap();
        for name in sheet.texts.keys() {
            let times = part.text.matches(&format!("\"@{name}\"")).count();
            assert!(times >= 2, "{}: {name} is used {times} times", part.document);
        }
        for name in sheet.axes.keys() {
            assert!(
                part.text.contains(&format!("\naxis = \"{name}\"\n")),
                "{}: {name}",
                part.document
            );
        }
    }
}

#[test]
fn values_keep_the_forms_in_which_they_are_stated() {
    let text = with_points(
        "{ at = 1, is = 349 }, { at = 2, about = 7.5 }, { at = 3, between = [75.5, 76.9] }, \
         { at = 4, derived = 1.21 }, { at = 5, derived = \"521 / 430\" }, \
         { at = 6, derived = \"0.5 * 2.6 * 1024\" }, { at = 7, below = 1.2 }, \
         { at = \"uniform\", said = \"unusable\" }",
    );
    let all = read(&text, &[&ONE]).unwrap();
    let experiment = &all[0];
    assert_eq!(experiment.differs, ["Another machine.", "One thread."]);
    assert_eq!(experiment.setting, "Another machine.");
    let measure = &experiment.measures[0];
    assert_eq!(
        (measure.axis.name, measure.axis.form),
        ("threads", AxisLayout::Linear)
    );
    let published = &measure.published[0];
    assert_eq!(published.section, "§1", "the experiment's, if it has none");
    let values: Vec<PublishedValue> = published.points.iter().map(|point| point.value).collect();
    assert_eq!(
        values,
        [
            PublishedValue::Is(349.0),
            PublishedValue::About(7.5),
            PublishedValue::Between(75.5, 76.9),
            PublishedValue::Derived(1.21),
            PublishedValue::Derived(521.0 / 430.0),
            PublishedValue::Derived(0.5 * 2.6 * 1024.0),
            PublishedValue::Below(1.2),
            PublishedValue::Said("unusable"),
        ]
    );
    assert_eq!(published.points[0].at, AxisPosition::Number(1.0));
    assert_eq!(published.points[7].at, AxisPosition::Name("uniform".into()));
}

#[test]
fn errors_name_the_document_the_experiment_and_the_measure() {
    let good = with_points("{ at = 1, is = 349 }");
    assert!(read(&good, &[&ONE]).is_ok());
    let point = "seed-9/X1: \"speed\": \"document\": the point at 1";
    let cases = [
        (with_points("{ at = 1 }"), format!("{point} has no value")),
        (
            with_points("{ at = 1, is = 2, about = 2 }"),
            format!("{point} has two values"),
        ),
        (
            with_points("{ at = 1, derived = \"2 +\" }"),
            "\"2 +\" is no product".into(),
        ),
        (
            with_points("{ at = 1, is = \"2\" }"),
            "seed-9/X1: \"speed\": ".into(),
        ),
        (with_points("{ at = 1, iz = 2 }"), "unknown field `iz`".into()),
        (
            with_points("{ at = 1, is = 2 "),
            "TOML parse error at line".into(),
        ),
        (
            good.replace("title = \"A title\"\n", ""),
            "seed-9/X1: missing field `title`".into(),
        ),
        (
            good.replace("\"@machine\", \"One", "\"@machines\", \"One"),
            "seed-9/X1: no text has the name \"machines\"".into(),
        ),
        (
            good.replace("axis = \"threads\"", "axis = \"thread\""),
            "seed-9/X1: \"speed\": no axis has the name \"thread\"".into(),
        ),
        (
            good.replace("name = \"speed\"", "name = \"speeds\""),
            "seed-9/X1: \"speeds\": no procedure has this measure".into(),
        ),
        (
            good.replace("/X1", "/X2"),
            "seed-9/X2: no procedure has this id".into(),
        ),
        (
            good.replace("id = ", "name = "),
            "an entry without a name: ".into(),
        ),
    ];
    for (text, words) in cases {
        let why = format!("{:#}", read(&text, &[&ONE]).unwrap_err());
        assert!(why.starts_with("register/seed-9.toml: "), "{why}");
        assert!(why.contains(&words), "{words:?} is not in {why:?}");
    }
}

#[test]
fn procedures_without_an_entry_are_refused() {
    const TWO: MeasurementProcedure = MeasurementProcedure {
        ours: &[("speed", nothing), ("size", nothing)],
        ..ONE
    };
    const OTHER: MeasurementProcedure = MeasurementProcedure {
        id: "seed-9/X2",
        ..ONE
    };
    let text = with_points("{ at = 1, is = 349 }");
    for (procedures, words) in [
        (
            &[&TWO] as &[_],
            "seed-9/X1: its procedure has the measure \"size\"",
        ),
        (&[&ONE, &OTHER], "seed-9/X2 has a procedure, and is not here"),
        (&[&ONE, &ONE], "seed-9/X1 has two procedures"),
    ] {
        let why = format!("{:#}", read(&text, procedures).unwrap_err());
        assert!(why.contains(words), "{words:?} is not in {why:?}");
    }
    let twice = format!("{text}\n{}", &text[text.find("[[experiment]]").unwrap()..]);
    let why = format!("{:#}", read(&twice, &[&ONE]).unwrap_err());
    assert!(why.contains("seed-9/X1: no procedure has this id"), "{why}");
}
