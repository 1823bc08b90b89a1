//! Oracles: numbers in the documents that follow from arithmetic alone, compared with the results
//! of our models.
//!
//! *Scope*: the source of each number, and the model that computes it.
//!
//! *Must not depend on*: experiments that need a device or an engine; those are in the register of
//! the Lab.
//!
//! Invariants:
//!
//! - **L4** Our numbers are computed on request; no computed value is stored.

mod devices;
mod nodes;
mod silt;
mod writes;

use anyhow::Result;

/// The origin of a published number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberOrigin {
    /// The document states the number.
    Stated,
    /// The number was recomputed from the document's inputs, because the document prints too few
    /// digits.
    Recomputed,
}

/// A document's number and ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Oracle {
    /// The document, and the section, table or figure in it.
    pub section: &'static str,
    /// The quantity that the number measures.
    pub what: String,
    /// Whether the document states the number or it was recomputed.
    pub origin: NumberOrigin,
    /// The number in the document.
    pub published: f64,
    /// Maximum difference between the two numbers: the rounding error of the document's digits, or
    /// the permitted error of a simulation.
    pub within: f64,
    pub ours: f64,
}

impl Oracle {
    /// Returns whether our number agrees with the document's within [`within`](Oracle::within).
    #[must_use]
    pub fn holds(&self) -> bool {
        (self.ours - self.published).abs() <= self.within
    }
}

struct OracleSection {
    name: &'static str,
    rows: Vec<Oracle>,
}

impl OracleSection {
    fn new(name: &'static str) -> OracleSection {
        OracleSection {
            name,
            rows: Vec::new(),
        }
    }

    fn push(
        &mut self,
        origin: NumberOrigin,
        what: impl Into<String>,
        published: f64,
        within: f64,
        ours: f64,
    ) {
        self.rows.push(Oracle {
            section: self.name,
            what: what.into(),
            origin,
            published,
            within,
            ours,
        });
    }

    fn stated(&mut self, what: impl Into<String>, published: f64, within: f64, ours: f64) {
        self.push(NumberOrigin::Stated, what, published, within, ours);
    }

    fn recomputed(&mut self, what: impl Into<String>, published: f64, within: f64, ours: f64) {
        self.push(NumberOrigin::Recomputed, what, published, within, ours);
    }
}

/// Computes all oracles, in the order of the documents.
///
/// # Errors
/// When a model rejects its input, which is a bug in this list.
pub fn oracles() -> Result<Vec<Oracle>> {
    let mut all = Vec::new();
    for section in [
        silt::closed_form,
        writes::primitives,
        writes::leveldb,
        writes::merged,
        writes::simulated,
        writes::optimised,
        writes::policies,
        nodes::sizes,
        devices::solid_state,
        devices::hard_disks,
        devices::dictionary,
    ] {
        all.extend(section()?.rows);
    }
    Ok(all)
}

/// Formats oracles as a Markdown page.
#[must_use]
pub fn page(all: &[Oracle]) -> String {
    let mut text = String::from(
        "# Oracles\n\n\
        Numbers of the research that follow from arithmetic alone, beside what our models compute. `alluvium-lab oracles` computes them \
        and prints this page; a test compares the two, so that no number here is older than the code.\n\n\
        *Stated* numbers are those of the document. *Recomputed* ones follow from its formulas, where it gives fewer digits or none. The column \
        *within* is what their digits leave open, or what is allowed of a simulation.\n",
    );
    let mut section = "";
    for oracle in all {
        if oracle.section != section {
            section = oracle.section;
            text += &format!(
                "\n## {section}\n\n| number | document | within | ours | |\n|---|---:|---:|---:|---|\n"
            );
        }
        let origin = match oracle.origin {
            NumberOrigin::Stated => "",
            NumberOrigin::Recomputed => ", recomputed",
        };
        let verdict = if oracle.holds() { "✓" } else { "**differs**" };
        text += &format!(
            "| {}{origin} | {} | {} | {} | {verdict} |\n",
            oracle.what,
            digits(oracle.published),
            digits(oracle.within),
            digits(oracle.ours)
        );
    }
    text
}

/// Formats a number with four significant digits.
fn digits(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let size = number.abs().log10().floor();
    if !(-4.0..7.0).contains(&size) {
        return format!("{number:.3e}");
    }
    let after = (3.0 - size).max(0.0) as usize;
    let text = format!("{number:.after$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_the_numbers_of_the_documents() {
        let all = oracles().unwrap();
        assert!(all.len() > 150, "{}", all.len());
        let wrong: Vec<&Oracle> = all.iter().filter(|oracle| !oracle.holds()).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        for oracle in &all {
            let share = oracle.within / oracle.published.abs();
            assert!(share < 0.3, "what allows everything shows nothing: {oracle:?}");
        }
    }

    #[test]
    fn numbers_have_the_digits_that_count() {
        let shown = [5.414, 0.000_244, 25.0, 1e8, 100.0, 0.0, 13.158, 4194.3].map(digits);
        assert_eq!(
            shown,
            ["5.414", "0.000244", "25", "1.000e8", "100", "0", "13.16", "4194"]
        );
    }
}
