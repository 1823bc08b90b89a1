//! Errors for invalid parameters, with the parameter's name, its value, and the rule that it
//! violates.

use std::fmt;

/// The error of a parameter outside the domain of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BadParameter {
    pub name: &'static str,
    pub value: f64,
    /// The rule that the value must satisfy, in words.
    pub must: &'static str,
}

impl fmt::Display for BadParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, but must be {}", self.name, self.value, self.must)
    }
}

impl std::error::Error for BadParameter {}

/// Returns the value if `holds` is true, and otherwise an error that states the rule `must`.
pub fn require(name: &'static str, value: f64, holds: bool, must: &'static str) -> Result<f64, BadParameter> {
    if holds {
        Ok(value)
    } else {
        Err(BadParameter { name, value, must })
    }
}

/// Returns the value if it is positive and finite, and an error otherwise.
pub fn positive(name: &'static str, value: f64) -> Result<f64, BadParameter> {
    require(
        name,
        value,
        value.is_finite() && value > 0.0,
        "positive and finite",
    )
}

/// Returns the value if it is finite and at least `least`, and otherwise an error that states the
/// rule `must`.
pub fn at_least(name: &'static str, value: f64, least: f64, must: &'static str) -> Result<f64, BadParameter> {
    require(name, value, value.is_finite() && value >= least, must)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_none_pass_no_rule() {
        assert!(positive("x", f64::NAN).is_err() && positive("x", f64::INFINITY).is_err());
        assert!(at_least("x", f64::NAN, 0.0, "at least 0").is_err());
        assert_eq!(positive("x", 2.0), Ok(2.0));
        let refused = at_least("the fanout", 1.0, 2.0, "at least 2, and finite").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the fanout is 1, but must be at least 2, and finite"
        );
    }
}
