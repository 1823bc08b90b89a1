//! What was measured, and how lines of figures are made of it.

use super::entry::At;
use alluvium_bench::run::Row;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What all steps of an experiment have measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Of engines, step by step.
    pub steps: Vec<Taken>,
    /// Of a count in this process: named values.
    pub counts: Vec<Line>,
    /// What a reader must know of it: what was left out, and why.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What one step has measured: one row for each engine and phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Taken {
    /// The step's place on the axis.
    pub at: At,
    /// The rows.
    pub rows: Vec<Row>,
}

/// Figures that belong together: of one engine, or the quotient of two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Whose they are.
    pub name: String,
    /// The figures.
    pub points: Vec<Spot>,
}

/// A figure and its place on the axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spot {
    /// Where.
    pub at: At,
    /// How much.
    pub value: f64,
}

/// The rows of one engine in one step.
#[derive(Clone, Copy, Debug)]
pub struct Of<'a> {
    engine: &'a str,
    rows: &'a [Row],
}

impl<'a> Of<'a> {
    /// The row of a phase, by its name as typed or by what stands before its colon.
    #[must_use]
    pub fn phase(&self, name: &str) -> Option<&'a Row> {
        self.rows.iter().find(|row| {
            row.engine == self.engine && (row.phase == name || row.phase.split(':').next() == Some(name))
        })
    }

    /// Bytes written for each that the user wrote in the load, with what the engine did by itself
    /// afterwards.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let settled = self.phase("settle").or_else(|| self.phase("load"))?;
        settled.write_amplification
    }

    /// Bytes written and read for each that the user wrote in the load, with what the engine did by
    /// itself afterwards.
    #[must_use]
    pub fn load_amplification(&self) -> Option<f64> {
        let load = self.phase("load")?;
        let moved = |row: &Row| row.device_write_bytes + row.device_read_bytes;
        let bytes = moved(load) + self.phase("settle").map_or(0, moved);
        (load.user_written_bytes > 0).then(|| bytes as f64 / load.user_written_bytes as f64)
    }
}

impl Measured {
    /// The counts whose names begin with a word and a comma, by the rest of their names.
    #[must_use]
    pub fn under(&self, what: &str) -> Vec<Line> {
        let prefix = format!("{what}, ");
        let lines = self.counts.iter().filter_map(|line| {
            Some(Line {
                name: line.name.strip_prefix(&prefix)?.to_owned(),
                points: line.points.clone(),
            })
        });
        lines.collect()
    }

    /// The engines, in the order in which they were measured.
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

    /// A line for each engine, with a figure for each step that has one.
    pub fn by_step(&self, figure: impl Fn(Of<'_>) -> Option<f64>) -> Vec<Line> {
        self.lines(|engine| {
            let spot = |step: &Taken| {
                let rows = &step.rows;
                let value = figure(Of { engine, rows })?;
                let at = step.at.clone();
                Some(Spot { at, value })
            };
            self.steps.iter().filter_map(spot).collect()
        })
    }

    /// A line for each engine, with a figure for each of these phases of the first step that has
    /// one.
    pub fn by_phase(&self, phases: &[(&str, At)], figure: impl Fn(&Row) -> Option<f64>) -> Vec<Line> {
        self.lines(|engine| {
            let spot = |(phase, at): &(&str, At)| {
                let rows = &self.steps.first()?.rows;
                let value = figure(Of { engine, rows }.phase(phase)?)?;
                let at = at.clone();
                Some(Spot { at, value })
            };
            phases.iter().filter_map(spot).collect()
        })
    }

    fn lines(&self, points: impl Fn(&str) -> Vec<Spot>) -> Vec<Line> {
        let line = |engine: &str| Line {
            name: engine.to_owned(),
            points: points(engine),
        };
        let lines = self.engines().into_iter().map(line);
        lines.filter(|line| !line.points.is_empty()).collect()
    }
}

/// Every other engine's figures become one line: Alluvium's, divided by that engine's.
#[must_use]
pub(super) fn against(lines: &[Line], engine: &str) -> Vec<Line> {
    let find = |name: &str| lines.iter().find(|line| line.name == name);
    let (Some(ours), Some(theirs)) = (find("alluvium"), find(engine)) else {
        return Vec::new();
    };
    let quotient = |spot: &Spot| {
        let other = theirs.points.iter().find(|other| other.at == spot.at)?;
        let at = spot.at.clone();
        (other.value > 0.0).then(|| Spot {
            at,
            value: spot.value / other.value,
        })
    };
    vec![Line {
        name: format!("alluvium / {engine}"),
        points: ours.points.iter().filter_map(quotient).collect(),
    }]
}

/// Each line's figures become multiples of its figure at one place; lines without a figure there
/// are left out.
#[must_use]
pub(super) fn relative_to(lines: Vec<Line>, place: f64) -> Vec<Line> {
    let relative = |mut line: Line| {
        let base = value_at(&line, place).filter(|&base| base > 0.0)?;
        line.points.iter_mut().for_each(|spot| spot.value /= base);
        Some(line)
    };
    lines.into_iter().filter_map(relative).collect()
}

/// A line's figure at a number.
#[must_use]
pub(super) fn value_at(line: &Line, place: f64) -> Option<f64> {
    let spot = line.points.iter().find(|spot| spot.at == At::Number(place));
    spot.map(|spot| spot.value)
}

/// A place with a name.
pub(super) const fn name(name: &'static str) -> At {
    At::Name(Cow::Borrowed(name))
}

/// Thousand operations a second, of a phase that did any.
pub(super) fn thousands_per_s(row: &Row) -> Option<f64> {
    (row.operations > 0).then_some(row.ops_per_s / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: &str, phase: &str, ops_per_s: f64) -> Row {
        Row {
            engine: engine.into(),
            phase: phase.into(),
            ops_per_s,
            operations: 10,
            device_write_bytes: 300,
            device_read_bytes: 50,
            user_written_bytes: 100,
            write_amplification: Some(3.0),
            ..Row::default()
        }
    }

    fn measured() -> Measured {
        let step = |at: f64, factor: f64| Taken {
            at: At::Number(at),
            rows: vec![
                row("alluvium", "load", 4000.0 * factor),
                row("alluvium", "settle", 0.0),
                row("alluvium", "c:uniform", 1000.0 * factor),
                row("rocksdb", "load", 2000.0),
            ],
        };
        Measured {
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
        // Rocksdb has no row for it here.
        assert_eq!(value_at(&io[1], 1.0), Some(3.5));
        assert!(relative_to(io, 9.0).is_empty());
    }
}
