//! The register: the documents' descriptions of the experiments, joined to the procedures that
//! measure our figures.
//!
//! `register/seed-N.toml` has the experiments of a document. These files are compiled into the
//! program and parsed once; a parse error names the document, the experiment and the measure. A
//! text or an axis that several experiments share is defined once, at the head of the file.
//!
//! Invariant:
//!
//! - **L5** Experiments and procedures correspond one to one by id, and have the same measures.

use super::entry::{
    AxisLayout, AxisPosition, Experiment, ExperimentMeasure, FigureAxis, FigureComputation,
    MeasurementProcedure, PublishedPoint, PublishedSeries, PublishedValue,
};
use super::{seed_0, seed_1, seed_2, seed_3, seed_4};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The prefix of a reference to a text at the head of the file.
const SHARED: char = '@';

/// The experiments of one document.
struct DocumentRegister {
    document: &'static str,
    text: &'static str,
    procedures: Vec<&'static MeasurementProcedure>,
}

/// Returns all experiments, in the order of the documents and their files.
pub(super) fn experiments() -> &'static [Experiment] {
    static ALL: LazyLock<Vec<Experiment>> = LazyLock::new(|| {
        let mut all = Vec::new();
        for part in parts() {
            all.extend(part.read().unwrap_or_else(|why| panic!("{why:#}")));
        }
        all
    });
    &ALL
}

fn parts() -> [DocumentRegister; 5] {
    let part = |document, text, procedures: &[&'static MeasurementProcedure]| DocumentRegister {
        document,
        text,
        procedures: procedures.to_vec(),
    };
    [
        part(
            "seed-0",
            include_str!("../register/seed-0.toml"),
            &seed_0::PROCEDURES,
        ),
        DocumentRegister {
            document: "seed-1",
            text: include_str!("../register/seed-1.toml"),
            procedures: seed_1::procedures().collect(),
        },
        part(
            "seed-2",
            include_str!("../register/seed-2.toml"),
            &seed_2::PROCEDURES,
        ),
        part(
            "seed-3",
            include_str!("../register/seed-3.toml"),
            &seed_3::PROCEDURES,
        ),
        part(
            "seed-4",
            include_str!("../register/seed-4.toml"),
            &seed_4::PROCEDURES,
        ),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegisterFile {
    #[serde(default)]
    texts: BTreeMap<String, String>,
    #[serde(default)]
    axes: BTreeMap<String, AxisEntry>,
    /// Each table is deserialized separately, so that an error can name it.
    experiment: Vec<toml::Table>,
}

/// An axis: the form of its places, and its name.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum AxisEntry {
    Names(String),
    Linear(String),
    Logarithmic(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentEntry {
    id: String,
    title: String,
    shows: String,
    section: String,
    figure: String,
    setting: String,
    differs: Vec<String>,
    measure: Vec<toml::Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasureEntry {
    name: String,
    unit: String,
    axis: String,
    #[serde(default)]
    note: String,
    #[serde(default)]
    published: Vec<PublishedEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedEntry {
    name: String,
    /// Defaults to the experiment's section.
    section: Option<String>,
    points: Vec<PointEntry>,
}

/// A point. It has exactly one value, in one of the forms of `Value`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PointEntry {
    at: AxisPosition,
    is: Option<f64>,
    about: Option<f64>,
    between: Option<[f64; 2]>,
    derived: Option<DerivedValue>,
    below: Option<f64>,
    said: Option<String>,
}

/// A value that follows from stated ones.
#[derive(Deserialize)]
#[serde(untagged)]
enum DerivedValue {
    Number(f64),
    /// The computation, as in `521 / 430`.
    Computation(String),
}

/// The shared definitions at the head of a file.
struct SharedDefinitions {
    texts: BTreeMap<String, &'static str>,
    axes: BTreeMap<String, FigureAxis>,
}

impl DocumentRegister {
    fn read(&self) -> Result<Vec<Experiment>> {
        self.join()
            .with_context(|| format!("register/{}.toml", self.document))
    }

    /// Joins each experiment to its procedure.
    fn join(&self) -> Result<Vec<Experiment>> {
        let sheet: RegisterFile = toml::from_str(self.text)?;
        let head = SharedDefinitions::new(sheet.texts, sheet.axes);
        let mut procedures: BTreeMap<&str, &MeasurementProcedure> = BTreeMap::new();
        for procedure in &self.procedures {
            let other = procedures.insert(procedure.id, procedure);
            ensure!(other.is_none(), "{} has two procedures", procedure.id);
        }
        let mut all = Vec::new();
        for table in sheet.experiment {
            let id = name_of(&table, "id");
            let experiment = head.experiment(table, &mut procedures).with_context(|| id)?;
            let document = experiment.document();
            ensure!(
                document == self.document,
                "{} is of another document",
                experiment.id
            );
            all.push(experiment);
        }
        if let Some(id) = procedures.keys().next() {
            bail!("{id} has a procedure, and is not here");
        }
        Ok(all)
    }
}

impl SharedDefinitions {
    fn new(texts: BTreeMap<String, String>, axes: BTreeMap<String, AxisEntry>) -> SharedDefinitions {
        let texts = texts.into_iter().map(|(name, text)| (name, keep(text)));
        let axes = axes.into_iter().map(|(name, axis)| (name, axis.into()));
        SharedDefinitions {
            texts: texts.collect(),
            axes: axes.collect(),
        }
    }

    /// Resolves a reference to a text at the head of the file; other texts are returned as they
    /// are.
    fn text(&self, text: String) -> Result<&'static str> {
        match text.strip_prefix(SHARED) {
            Some(name) => {
                let shared = self.texts.get(name).copied();
                shared.with_context(|| format!("no text has the name {name:?}"))
            }
            None => Ok(keep(text)),
        }
    }

    /// Joins an entry to its procedure, which is removed from `left`.
    fn experiment(
        &self,
        table: toml::Table,
        left: &mut BTreeMap<&str, &MeasurementProcedure>,
    ) -> Result<Experiment> {
        let entry: ExperimentEntry = table.try_into()?;
        let procedure = left
            .remove(entry.id.as_str())
            .context("no procedure has this id")?;
        let section = keep(entry.section);
        let mut ours: BTreeMap<&str, FigureComputation> = procedure.ours.iter().copied().collect();
        ensure!(
            ours.len() == procedure.ours.len(),
            "its procedure has a measure twice"
        );
        let mut measures = Vec::new();
        for table in entry.measure {
            let name = name_of(&table, "name");
            let measure = self.measure(table, section, &mut ours);
            measures.push(measure.with_context(|| format!("{name:?}"))?);
        }
        if let Some(name) = ours.keys().next() {
            bail!("its procedure has the measure {name:?}, which is not here");
        }
        let differs: Result<Vec<&str>> = entry.differs.into_iter().map(|text| self.text(text)).collect();
        Ok(Experiment {
            id: procedure.id,
            title: keep(entry.title),
            shows: keep(entry.shows),
            section,
            figure: keep(entry.figure),
            setting: self.text(entry.setting)?,
            differs: differs?.leak(),
            measures: measures.leak(),
            work: procedure.work,
        })
    }

    fn measure(
        &self,
        table: toml::Table,
        section: &'static str,
        left: &mut BTreeMap<&str, FigureComputation>,
    ) -> Result<ExperimentMeasure> {
        let entry: MeasureEntry = table.try_into()?;
        let ours = left.remove(entry.name.as_str());
        let axis = self.axes.get(&entry.axis).copied();
        let published: Result<Vec<PublishedSeries>> = entry
            .published
            .into_iter()
            .map(|published| published.read(section))
            .collect();
        Ok(ExperimentMeasure {
            ours: ours.context("no procedure has this measure")?,
            axis: axis.with_context(|| format!("no axis has the name {:?}", entry.axis))?,
            name: keep(entry.name),
            unit: keep(entry.unit),
            published: published?.leak(),
            note: self.text(entry.note)?,
        })
    }
}

impl PublishedEntry {
    fn read(self, section: &'static str) -> Result<PublishedSeries> {
        let points: Result<Vec<PublishedPoint>> = self.points.into_iter().map(PointEntry::read).collect();
        Ok(PublishedSeries {
            points: points.with_context(|| format!("{:?}", self.name))?.leak(),
            name: keep(self.name),
            section: self.section.map_or(section, keep),
        })
    }
}

impl PointEntry {
    fn read(self) -> Result<PublishedPoint> {
        let derived = self.derived.map(|derived| derived.number()).transpose()?;
        let forms = [
            self.is.map(PublishedValue::Is),
            self.about.map(PublishedValue::About),
            self.between.map(|[low, high]| PublishedValue::Between(low, high)),
            derived.map(PublishedValue::Derived),
            self.below.map(PublishedValue::Below),
            self.said.map(|words| PublishedValue::Said(keep(words))),
        ];
        let mut values = forms.into_iter().flatten();
        match (values.next(), values.next()) {
            (Some(value), None) => Ok(PublishedPoint { at: self.at, value }),
            (None, _) => bail!("the point at {} has no value", self.at),
            (Some(_), Some(_)) => bail!("the point at {} has two values", self.at),
        }
    }
}

impl DerivedValue {
    fn number(&self) -> Result<f64> {
        match self {
            DerivedValue::Number(number) => Ok(*number),
            DerivedValue::Computation(text) => {
                computed(text).with_context(|| format!("{text:?} is no product or quotient of numbers"))
            }
        }
    }
}

impl From<AxisEntry> for FigureAxis {
    fn from(entry: AxisEntry) -> FigureAxis {
        let (name, form) = match entry {
            AxisEntry::Names(name) => (name, AxisLayout::Names),
            AxisEntry::Linear(name) => (name, AxisLayout::Linear),
            AxisEntry::Logarithmic(name) => (name, AxisLayout::Logarithmic),
        };
        FigureAxis {
            name: keep(name),
            form,
        }
    }
}

/// Evaluates products and quotients from left to right. Operators are surrounded by spaces.
fn computed(text: &str) -> Option<f64> {
    let mut words = text.split(' ');
    let mut value: f64 = words.next()?.parse().ok()?;
    while let Some(sign) = words.next() {
        let number: f64 = words.next()?.parse().ok()?;
        match sign {
            "*" => value *= number,
            "/" => value /= number,
            _ => return None,
        }
    }
    Some(value)
}

/// Returns the name of an entry for an error message, before the entry has been validated.
fn name_of(table: &toml::Table, key: &str) -> String {
    let name = table.get(key).and_then(toml::Value::as_str);
    name.unwrap_or("an entry without a name").to_owned()
}

/// Leaks a text. The register is parsed once and lives as long as the program.
fn keep(text: String) -> &'static str {
    text.leak()
}

#[cfg(test)]
mod tests;
