//! What a run is told from outside.

/// A number that an environment variable sets, or another one when it is not set.
///
/// ```
/// assert_eq!(alluvium_sim::environment::number("ALLUVIUM_SIM_A_NAME_THAT_NOBODY_SETS", 7), 7);
/// ```
///
/// # Panics
/// When it is set to something else.
#[must_use]
pub fn number(name: &str, otherwise: u64) -> u64 {
    wanted(name).unwrap_or(otherwise)
}

/// The number that an environment variable sets, if it is set.
///
/// # Panics
/// When it is set to something else.
#[must_use]
pub fn wanted(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}
