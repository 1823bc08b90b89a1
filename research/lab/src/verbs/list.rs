//! `alluvium-lab list`: lists the experiments of the register.

use super::{LabContext, ResultsDirectory};
use alluvium_cli::kit::{CommandExit, ScreenOutput};
use alluvium_lab::{Experiment, ExperimentMeasure, PublishedSeries, RunSize};
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;

/// All experiments.
#[derive(Args, Debug)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct LabListCommand {
    #[command(flatten)]
    pub(crate) place: ResultsDirectory,
}

const LIST_EXAMPLES: &str = "\
Examples:
  alluvium-lab list
  alluvium-lab list --json        # with all published figures";

const SIZES: [RunSize; 2] = [RunSize::Quick, RunSize::Full];

impl LabListCommand {
    pub(super) fn run(&self, context: &LabContext) -> Result<CommandExit> {
        self.place.check()?;
        let mut out = ScreenOutput::new();
        let sizes = |experiment: &Experiment| -> Vec<&str> {
            let is_there =
                |size: &RunSize| alluvium_lab::results_path(&self.place.results, experiment, *size).is_file();
            SIZES.into_iter().filter(is_there).map(RunSize::name).collect()
        };
        if context.json {
            let all: Vec<Value> = alluvium_lab::experiments()
                .map(|experiment| described(experiment, &sizes(experiment)))
                .collect();
            out.json(&Value::Array(all))?;
        } else {
            let row = |experiment: &'static Experiment| {
                let state = match (experiment.waits_for(), sizes(experiment)) {
                    (Some(structure), _) => format!("waits for {structure}"),
                    (None, sizes) if sizes.is_empty() => "can be run".to_owned(),
                    (None, sizes) => format!("has results: {}", sizes.join(", ")),
                };
                vec![
                    experiment.id.to_owned(),
                    experiment.title.to_owned(),
                    format!("{}, {}", experiment.section, experiment.figure),
                    state,
                ]
            };
            let rows: Vec<Vec<String>> = alluvium_lab::experiments().map(row).collect();
            out.table(
                &["experiment", "what it measures", "published in", "state"],
                &rows,
            )?;
        }
        out.flush()?;
        Ok(CommandExit::Done)
    }
}

/// Returns the JSON description of an experiment.
fn described(experiment: &Experiment, results: &[&str]) -> Value {
    let measures: Vec<Value> = experiment.measures.iter().map(of_measure).collect();
    let document = alluvium_lab::document(experiment.document());
    json!({
        "id": experiment.id,
        "title": experiment.title,
        "shows": experiment.shows,
        "author": document.map(|document| document.author),
        "document": document.map(|document| document.title),
        "section": experiment.section,
        "figure": experiment.figure,
        "setting": experiment.setting,
        "differs": experiment.differs,
        "waits_for": experiment.waits_for(),
        "measures": measures,
        "results": results,
    })
}

fn of_measure(measure: &ExperimentMeasure) -> Value {
    let published: Vec<Value> = measure.published.iter().map(of_published).collect();
    json!({
        "name": measure.name,
        "unit": measure.unit,
        "axis": measure.axis.name,
        "note": measure.note,
        "published": published,
    })
}

fn of_published(published: &PublishedSeries) -> Value {
    let points = published.points.iter().map(|point| {
        let span = point.value.span();
        json!({
            "at": point.at,
            "stated": point.value.to_string(),
            "low": span.map(|span| span.0),
            "high": span.map(|span| span.1),
        })
    });
    let points: Vec<Value> = points.collect();
    json!({ "name": published.name, "section": published.section, "points": points })
}
