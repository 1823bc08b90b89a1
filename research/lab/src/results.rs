//! The results of a run on disk: one JSON file for each experiment and size.

use super::entry::{AxisPosition, Experiment};
use super::measurements::{FigureSeries, MeasurementSet};
use super::plan::RunSize;
use alluvium_bench::report::machine::MachineInfo;
use alluvium_bench::run::RepetitionFailure;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Version of the file format.
const FORM: u32 = 1;
/// Maximum file size. The Lab never writes a longer file.
const MOST_BYTES: u64 = 64 << 20;
/// Maximum value of a figure; greater values are rejected because no axis can show them.
const MOST: f64 = 1e15;

/// The results of one run of an experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExperimentResults {
    /// Version of the file format.
    pub form: u32,
    /// The id of the experiment.
    pub id: String,
    /// The size of the run.
    pub size: RunSize,
    /// The version of Alluvium that was measured.
    pub version: String,
    /// The command line that repeats the run.
    pub command: String,
    /// The computer that ran it.
    pub machine: MachineInfo,
    /// The parameters, such as records, memory and threads.
    pub setup: Vec<(String, String)>,
    /// The settings of each engine.
    pub settings: Vec<(String, Vec<(String, String)>)>,
    /// Caveats for readers of this run's figures.
    pub notes: Vec<String>,
    pub failures: Vec<RepetitionFailure>,
    /// Our figures, grouped by measure.
    pub figures: Vec<MeasureFigures>,
    /// The measurements from which the figures were computed.
    pub measured: MeasurementSet,
}

/// Our figures of one measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasureFigures {
    /// The name of the measure.
    pub measure: String,
    /// The unit of the values.
    pub unit: String,
    /// The values, one line for each engine or quotient.
    pub lines: Vec<FigureSeries>,
}

impl ExperimentResults {
    /// The format version that this build writes.
    pub(super) const FORM: u32 = FORM;

    /// Returns the lines of a measure.
    #[must_use]
    pub fn lines(&self, measure: &str) -> &[FigureSeries] {
        let found = self.figures.iter().find(|figures| figures.measure == measure);
        found.map_or(&[], |figures| &figures.lines)
    }

    /// Writes the results to a file in `directory`, creating the directory if necessary. An
    /// existing file is replaced atomically.
    ///
    /// # Errors
    /// I/O errors.
    pub fn write(&self, directory: &Path, experiment: &Experiment) -> Result<PathBuf> {
        fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
        let path = results_path(directory, experiment, self.size);
        let part = path.with_extension("json.part");
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(&part, text).with_context(|| format!("writing {}", part.display()))?;
        fs::rename(&part, &path)
            .with_context(|| format!("renaming {} to {}", part.display(), path.display()))?;
        Ok(path)
    }

    /// Reads the results of an experiment from a directory. Returns `None` if the file is missing.
    ///
    /// # Errors
    /// I/O errors; when the file does not contain results of this experiment.
    pub fn read(
        directory: &Path,
        experiment: &Experiment,
        size: RunSize,
    ) -> Result<Option<ExperimentResults>> {
        let path = results_path(directory, experiment, size);
        let file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        let mut text = String::new();
        file.take(MOST_BYTES + 1)
            .read_to_string(&mut text)
            .with_context(|| format!("reading {}", path.display()))?;
        let wrong = || {
            format!(
                "{} does not hold results of `alluvium-lab run {}`: remove it and run that again",
                path.display(),
                experiment.id
            )
        };
        ensure!(text.len() as u64 <= MOST_BYTES, "{}: it is too long", wrong());
        let results: ExperimentResults = serde_json::from_str(&text).with_context(wrong)?;
        results.check(experiment, size).with_context(wrong)?;
        Ok(Some(results))
    }

    fn check(&self, experiment: &Experiment, size: RunSize) -> Result<()> {
        ensure!(
            self.form == FORM,
            "its form is {}, and this version reads {FORM}",
            self.form
        );
        ensure!(
            self.id == experiment.id && self.size == size,
            "it says that it is {:?}, {}",
            self.id,
            self.size.name()
        );
        for line in self.figures.iter().flat_map(|figures| &figures.lines) {
            for spot in &line.points {
                let place = match spot.at {
                    AxisPosition::Number(number) => number,
                    AxisPosition::Name(_) => 0.0,
                };
                if ![place, spot.value]
                    .iter()
                    .all(|number| (0.0..MOST).contains(number))
                {
                    bail!(
                        "the figure {} of {:?} at {} is impossible",
                        spot.value,
                        line.name,
                        spot.at
                    );
                }
            }
        }
        Ok(())
    }
}

/// Returns the path of an experiment's results.
#[must_use]
pub fn results_path(directory: &Path, experiment: &Experiment, size: RunSize) -> PathBuf {
    // Ids are constants of the register: letters, digits, dashes and one slash.
    directory.join(format!(
        "{}.{}.json",
        experiment.id.replace('/', "-"),
        size.name()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FigurePoint, find};

    fn results(experiment: &Experiment) -> ExperimentResults {
        ExperimentResults {
            form: FORM,
            id: experiment.id.into(),
            size: RunSize::Quick,
            version: "0".into(),
            command: "alluvium-lab run".into(),
            machine: MachineInfo::default(),
            setup: Vec::new(),
            settings: Vec::new(),
            notes: Vec::new(),
            failures: Vec::new(),
            figures: vec![MeasureFigures {
                measure: "throughput".into(),
                unit: "a second".into(),
                lines: vec![FigureSeries {
                    name: "alluvium".into(),
                    points: vec![FigurePoint {
                        at: AxisPosition::Number(50.0),
                        value: 1.0 / 3.0,
                    }],
                }],
            }],
            measured: MeasurementSet::default(),
        }
    }

    #[test]
    fn results_are_read_as_they_were_written() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("made");
        let experiment = find("seed-0/S5").unwrap();
        assert!(
            ExperimentResults::read(&directory, experiment, RunSize::Quick)
                .unwrap()
                .is_none()
        );
        let written = results(experiment);
        let path = written.write(&directory, experiment).unwrap();
        assert_eq!(path, directory.join("seed-0-S5.quick.json"));
        let read = ExperimentResults::read(&directory, experiment, RunSize::Quick)
            .unwrap()
            .unwrap();
        assert_eq!(read.figures, written.figures);
        assert_eq!(read.lines("throughput").len(), 1);
        assert!(read.lines("weather").is_empty());
        assert!(
            ExperimentResults::read(&directory, experiment, RunSize::Full)
                .unwrap()
                .is_none()
        );
        let names = fs::read_dir(&directory).unwrap().count();
        assert_eq!(names, 1, "nothing else is left");
    }

    #[test]
    fn files_that_are_no_results_are_refused_by_name() {
        let place = tempfile::tempdir().unwrap();
        let experiment = find("seed-0/S5").unwrap();
        let path = results_path(place.path(), experiment, RunSize::Quick);
        let of = |change: &dyn Fn(&mut ExperimentResults)| {
            let mut results = results(experiment);
            change(&mut results);
            serde_json::to_string(&results).unwrap()
        };
        for text in [
            "{}".to_owned(),
            "<html>".to_owned(),
            of(&|results| results.form = 2),
            of(&|results| results.id = "seed-0/S6".into()),
            of(&|results| results.size = RunSize::Full),
            of(&|results| results.figures[0].lines[0].points[0].value = 1e300),
            of(&|results| results.figures[0].lines[0].points[0].value = -1.0),
            of(&|results| results.figures[0].lines[0].points[0].at = AxisPosition::Number(1e300)),
        ] {
            fs::write(&path, text).unwrap();
            let error = format!(
                "{:#}",
                ExperimentResults::read(place.path(), experiment, RunSize::Quick).unwrap_err()
            );
            assert!(error.contains("seed-0-S5.quick.json"), "{error}");
            assert!(error.contains("does not hold results"), "{error}");
        }
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(ExperimentResults::read(place.path(), experiment, RunSize::Quick).is_err());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(ExperimentResults::read(place.path(), experiment, RunSize::Quick).is_err());
    }
}
