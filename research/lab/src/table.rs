//! Published values and ours as a table in plain text.

use super::entry::{AxisLayout, AxisPosition, ExperimentMeasure, figure};
use super::measurements::FigureSeries;

/// A place on a measure's axis, with the values there.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisRow {
    /// The place on the axis.
    pub at: AxisPosition,
    /// The value of each published series; an empty string where the series has none.
    pub published: Vec<String>,
    /// The value of each of our lines; an empty string where the line has none.
    pub ours: Vec<String>,
}

/// Returns all places of a measure with a published value or one of ours. Numbers are in ascending
/// order.
#[must_use]
pub fn places(measure: &ExperimentMeasure, ours: &[FigureSeries]) -> Vec<AxisRow> {
    let stated = measure.published.iter().flat_map(|published| published.points);
    let stated = stated.map(|point| &point.at);
    let measured = ours
        .iter()
        .flat_map(|line| line.points.iter().map(|spot| &spot.at));
    let mut all: Vec<&AxisPosition> = Vec::new();
    for at in stated.chain(measured) {
        if !all.contains(&at) {
            all.push(at);
        }
    }
    if measure.axis.form != AxisLayout::Names {
        let number = |at: &AxisPosition| at.number().unwrap_or(f64::MAX);
        all.sort_by(|one, other| number(one).total_cmp(&number(other)));
    }
    all.into_iter().map(|at| place(measure, ours, at)).collect()
}

fn place(measure: &ExperimentMeasure, ours: &[FigureSeries], at: &AxisPosition) -> AxisRow {
    let published = measure.published.iter().map(|published| {
        let points = published.points.iter().filter(|point| point.at == *at);
        let values: Vec<String> = points.map(|point| point.value.to_string()).collect();
        values.join("; ")
    });
    let ours = ours.iter().map(|line| {
        let spot = line.points.iter().find(|spot| spot.at == *at);
        spot.map_or_else(String::new, |spot| figure(spot.value))
    });
    AxisRow {
        at: at.clone(),
        published: published.collect(),
        ours: ours.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FigurePoint, find};

    #[test]
    fn values_stand_beside_each_other_in_the_order_of_their_numbers() {
        let measure = &find("seed-0/S5").unwrap().measures[0];
        let spot = |at, value| FigurePoint {
            at: AxisPosition::Number(at),
            value,
        };
        let ours = FigureSeries {
            name: "alluvium".into(),
            points: vec![spot(100.0, 2000.4), spot(90.0, 1.0)],
        };
        let rows = places(measure, &[ours]);
        let shown: Vec<String> = rows
            .iter()
            .map(|row| format!("{}|{}|{}", row.at, row.published.join("|"), row.ours.join("|")))
            .collect();
        assert_eq!(shown, ["0|349|430|", "50||521|", "90|||1", "100|614|866|2,000"]);
    }
}
