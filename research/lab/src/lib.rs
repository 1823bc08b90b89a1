//! The Lab: a register of the experiments in the research that Alluvium builds on. It holds the
//! published figures and the code that measures ours.
//!
//! *Scope*: the claim and the source of each experiment; how to run it on the available engines;
//! the results, as figures, plots and a page.
//!
//! *Must not depend on*: how an engine is driven or how a phase is defined; both are in
//! `alluvium-bench`.
//!
//! Invariants:
//!
//! - **L1** An id names one experiment; its part before the slash is a document of `documents.rs`.
//! - **L2** A published value is stated by the document, or is marked as derived from stated
//!   values.
//! - **L3** Our figures are always measured by `run`; without a run there are none. An experiment
//!   whose structure is not built names the structure that it waits for.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod device_probe;
mod documents;
mod entry;
pub mod features;
mod measurements;
pub mod oracles;
mod page;
mod plan;
mod plot;
mod register;
mod results;
mod run;
mod scratch;
mod seed_0;
mod seed_1;
mod seed_2;
mod seed_3;
mod seed_4;
mod table;

pub use documents::{DOCUMENTS, SourceDocument, document};
pub use entry::{
    AxisLayout, AxisPosition, EngineWorkload, Experiment, ExperimentMeasure, ExperimentMethod, FigureAxis,
    FigureComputation, PublishedPoint, PublishedSeries, PublishedValue, RivalStudy, figure,
};
pub use measurements::{EngineRows, FigurePoint, FigureSeries, MeasurementSet, StepMeasurement};
pub use page::{GENERATOR, ReportEntry, page};
pub use plan::{ExperimentScale, ExperimentStep, RunSize, ScaleOverrides, StepTemplate, ThreadCount};
pub use plot::plot;
pub use results::{ExperimentResults, MeasureFigures, results_path};
pub use run::{RunEnvironment, RunRequest, check, run};
pub use seed_0::InsertPlan;
pub use table::{AxisRow, places};

/// Returns all experiments, grouped by document.
pub fn experiments() -> impl Iterator<Item = &'static Experiment> {
    register::experiments().iter()
}

/// Returns the experiment with this id. Case is ignored.
#[must_use]
pub fn find(id: &str) -> Option<&'static Experiment> {
    experiments().find(|experiment| experiment.id.eq_ignore_ascii_case(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_are_unique_and_name_a_document() {
        let mut ids = BTreeSet::new();
        for experiment in experiments() {
            assert!(
                ids.insert(experiment.id.to_ascii_lowercase()),
                "{}",
                experiment.id
            );
            assert!(document(experiment.document()).is_some(), "{}", experiment.id);
            let (_, name) = experiment.id.split_once('/').unwrap();
            assert!(
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()),
                "{}: ids become names of files",
                experiment.id
            );
            assert!(find(&experiment.id.to_lowercase()).is_some());
        }
        for name in ["S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9"] {
            assert!(
                ids.contains(&format!("seed-0/{name}").to_ascii_lowercase()),
                "{name}"
            );
        }
        for id in ["", "S1", "seed-0", "seed-0/", "seed-0/S1/..", "../seed-0/S1"] {
            assert!(find(id).is_none(), "{id}");
        }
    }

    #[test]
    fn every_entry_is_complete() {
        for experiment in experiments() {
            let id = experiment.id;
            for text in [
                experiment.title,
                experiment.shows,
                experiment.section,
                experiment.figure,
                experiment.setting,
            ] {
                assert!(!text.trim().is_empty(), "{id}");
            }
            assert!(experiment.section.starts_with('§'), "{id}");
            let sentence = experiment
                .shows
                .strip_suffix('.')
                .unwrap_or_else(|| panic!("{id}"));
            assert!(!sentence.contains(". "), "{id}: what it shows is one sentence");
            assert!(!experiment.differs.is_empty(), "{id}: our machine is another one");
            assert!(!experiment.measures.is_empty(), "{id}");
            let is_stated = |measure: &ExperimentMeasure| !measure.published.is_empty();
            assert!(
                experiment.measures.iter().any(is_stated),
                "{id}: no published value"
            );
            let names: BTreeSet<&str> = experiment.measures.iter().map(|measure| measure.name).collect();
            assert_eq!(
                names.len(),
                experiment.measures.len(),
                "{id}: measures are found by name"
            );
            for measure in experiment.measures {
                check_measure(id, measure);
            }
        }
    }

    fn check_measure(id: &str, measure: &ExperimentMeasure) {
        assert!(!measure.unit.is_empty() && !measure.axis.name.is_empty(), "{id}");
        assert!(
            !measure.published.is_empty() || !measure.note.is_empty(),
            "{id}, {}: a measure without a published value says why",
            measure.name
        );
        for published in measure.published {
            assert!(
                !published.name.is_empty() && published.section.starts_with('§'),
                "{id}"
            );
            assert!(!published.points.is_empty(), "{id}");
            for point in published.points {
                let is_number = point.at.number().is_some();
                assert_eq!(
                    is_number,
                    measure.axis.form != AxisLayout::Names,
                    "{id}, {}",
                    measure.name
                );
            }
        }
    }
}
