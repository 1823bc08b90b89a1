//! Measurements, and their conversion to lines of figures.

use super::entry::AxisPosition;
use alluvium_bench::run::ResultRow;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The measurements of all steps of an experiment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MeasurementSet {
    /// Measurements of engines, by step.
    pub steps: Vec<StepMeasurement>,
    /// Named values from a count in this process.
    pub counts: Vec<FigureSeries>,
    /// Caveats, such as omitted measurements and the reason.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The measurements of one step: one row for each engine and phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepMeasurement {
    /// The step's place on the axis.
    pub at: AxisPosition,
    /// One row for each engine and phase.
    pub rows: Vec<ResultRow>,
}

/// A series of figures of one engine, or of the quotient of two engines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureSeries {
    /// The name of the engine, or of the quotient.
    pub name: String,
    /// The figures, each with its place on the axis.
    pub points: Vec<FigurePoint>,
}

/// A figure and its place on the axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigurePoint {
    /// The place on the axis.
    pub at: AxisPosition,
    /// The value in the measure's unit.
    pub value: f64,
}

/// The rows of one engine in one step.
#[derive(Clone, Copy, Debug)]
pub struct EngineRows<'a> {
    engine: &'a str,
    rows: &'a [ResultRow],
}

impl<'a> EngineRows<'a> {
    /// Returns the row of a phase, by its full name or by the part before its colon.
    #[must_use]
    pub fn phase(&self, name: &str) -> Option<&'a ResultRow> {
        self.rows.iter().find(|row| {
            row.engine == self.engine && (row.phase == name || row.phase.split(':').next() == Some(name))
        })
    }

    /// Returns the write amplification of the load: bytes written for each byte from the user,
    /// including the engine's background work afterwards.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let settled = self.phase("settle").or_else(|| self.phase("load"))?;
        settled.write_amplification
    }

    /// Returns the I/O amplification of the load: bytes read and written for each byte written by
    /// the user, including the engine's background work afterwards.
    #[must_use]
    pub fn load_amplification(&self) -> Option<f64> {
        let load = self.phase("load")?;
        let moved = |row: &ResultRow| row.device_write_bytes + row.device_read_bytes;
        let bytes = moved(load) + self.phase("settle").map_or(0, moved);
        (load.user_written_bytes > 0).then(|| bytes as f64 / load.user_written_bytes as f64)
    }
}

impl MeasurementSet {
    /// Returns the counts whose names start with `what` and a comma, with that prefix removed.
    #[must_use]
    pub fn series_with_prefix(&self, what: &str) -> Vec<FigureSeries> {
        let prefix = format!("{what}, ");
        let lines = self.counts.iter().filter_map(|line| {
            Some(FigureSeries {
                name: line.name.strip_prefix(&prefix)?.to_owned(),
                points: line.points.clone(),
            })
        });
        lines.collect()
    }

    /// Returns the engines in the order of measurement.
    #[must_use]
    pub fn engines(&self) -> Vec<&str> {
        let mut engines: Vec<&str> = Vec::new();
        for row in self.steps.iter().flat_map(|step| &step.rows) {
            if !engines.contains(&row.engine.as_str()) {
                engines.push(&row.engine);
            }
        }
        engines
    }

    /// Returns a line for each engine, with one figure for each step that has one.
    pub fn by_step(&self, figure: impl Fn(EngineRows<'_>) -> Option<f64>) -> Vec<FigureSeries> {
        self.lines(|engine| {
            let spot = |step: &StepMeasurement| {
                let rows = &step.rows;
                let value = figure(EngineRows { engine, rows })?;
                let at = step.at.clone();
                Some(FigurePoint { at, value })
            };
            self.steps.iter().filter_map(spot).collect()
        })
    }

    /// Returns a line for each engine, with one figure for each of these phases, taken from the
    /// first step that has it.
    pub fn by_phase(
        &self,
        phases: &[(&str, AxisPosition)],
        figure: impl Fn(&ResultRow) -> Option<f64>,
    ) -> Vec<FigureSeries> {
        self.lines(|engine| {
            let spot = |(phase, at): &(&str, AxisPosition)| {
                let rows = &self.steps.first()?.rows;
                let value = figure(EngineRows { engine, rows }.phase(phase)?)?;
                let at = at.clone();
                Some(FigurePoint { at, value })
            };
            phases.iter().filter_map(spot).collect()
        })
    }

    fn lines(&self, points: impl Fn(&str) -> Vec<FigurePoint>) -> Vec<FigureSeries> {
        let line = |engine: &str| FigureSeries {
            name: engine.to_owned(),
            points: points(engine),
        };
        let lines = self.engines().into_iter().map(line);
        lines.filter(|line| !line.points.is_empty()).collect()
    }
}

/// Returns a line for each other engine: Alluvium's figures divided by that engine's.
#[must_use]
pub(super) fn against(lines: &[FigureSeries], engine: &str) -> Vec<FigureSeries> {
    let find = |name: &str| lines.iter().find(|line| line.name == name);
    let (Some(ours), Some(theirs)) = (find("alluvium"), find(engine)) else {
        return Vec::new();
    };
    let quotient = |spot: &FigurePoint| {
        let other = theirs.points.iter().find(|other| other.at == spot.at)?;
        let at = spot.at.clone();
        (other.value > 0.0).then(|| FigurePoint {
            at,
            value: spot.value / other.value,
        })
    };
    vec![FigureSeries {
        name: format!("alluvium / {engine}"),
        points: ours.points.iter().filter_map(quotient).collect(),
    }]
}

/// Divides the figures of each line by its figure at `place`. Lines without a figure there are
/// dropped.
#[must_use]
pub(super) fn relative_to(lines: Vec<FigureSeries>, place: f64) -> Vec<FigureSeries> {
    let relative = |mut line: FigureSeries| {
        let base = value_at(&line, place).filter(|&base| base > 0.0)?;
        line.points.iter_mut().for_each(|spot| spot.value /= base);
        Some(line)
    };
    lines.into_iter().filter_map(relative).collect()
}

/// Returns a line's figure at a number on the axis.
#[must_use]
pub(super) fn value_at(line: &FigureSeries, place: f64) -> Option<f64> {
    let spot = line
        .points
        .iter()
        .find(|spot| spot.at == AxisPosition::Number(place));
    spot.map(|spot| spot.value)
}

/// Returns a category on an axis.
pub(super) const fn name(name: &'static str) -> AxisPosition {
    AxisPosition::Name(Cow::Borrowed(name))
}

/// Returns the throughput in thousand operations a second, if the phase did any operations.
pub(super) fn thousands_per_s(row: &ResultRow) -> Option<f64> {
    (row.operations > 0).then_some(row.ops_per_s / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: &str, phase: &str, ops_per_s: f64) -> ResultRow {
        ResultRow {
            engine: engine.into(),
            phase: phase.into(),
            ops_per_s,
            operations: 10,
            device_write_bytes: 300,
            device_read_bytes: 50,
            user_written_bytes: 100,
            write_amplification: Some(3.0),
            ..ResultRow::default()
        }
    }

    fn measured() -> MeasurementSet {
        let step = |at: f64, factor: f64| StepMeasurement {
            at: AxisPosition::Number(at),
            rows: vec![
                row("alluvium", "load", 4000.0 * factor),
                row("alluvium", "settle", 0.0),
                row("alluvium", "c:uniform", 1000.0 * factor),
                row("rocksdb", "load", 2000.0),
            ],
        };
        MeasurementSet {
            steps: vec![step(1.0, 1.0), step(2.0, 1.5)],
            counts: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn lines_are_made_over_steps_and_over_phases() {
        let measured = measured();
        let loads = measured.by_step(|of| thousands_per_s(of.phase("load")?));
        assert_eq!((loads.len(), value_at(&loads[0], 2.0)), (2, Some(6.0)));
        let quotient = against(&loads, "rocksdb");
        assert_eq!(
            (quotient[0].name.as_str(), value_at(&quotient[0], 1.0)),
            ("alluvium / rocksdb", Some(2.0))
        );
        assert!(against(&loads, "leveldb").is_empty());
        let speed_up = relative_to(loads, 1.0);
        assert_eq!(value_at(&speed_up[0], 2.0), Some(1.5));
        let phases = [("load", name("load")), ("c", name("C")), ("e", name("E"))];
        let by_phase = measured.by_phase(&phases, thousands_per_s);
        assert_eq!(by_phase[0].points.len(), 2, "{by_phase:?}");
        assert_eq!(by_phase[1].points.len(), 1);
    }

    #[test]
    fn a_load_counts_what_the_engine_does_afterwards() {
        let io = measured().by_step(|of| of.load_amplification());
        assert_eq!(value_at(&io[0], 1.0), Some(7.0));
        // RocksDB has no row for this step.
        assert_eq!(value_at(&io[1], 1.0), Some(3.5));
        assert!(relative_to(io, 9.0).is_empty());
    }
}
