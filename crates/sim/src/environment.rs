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

/// Returns how many images a test judges: as many as its own number says, unless
/// `ALLUVIUM_SIM_POINTS` is set. A plain number there replaces the test's own one; `x10` stands for
/// ten times the test's own.
///
/// # Panics
/// When it is set to something else.
#[must_use]
pub fn points(own: u64) -> u64 {
    let Ok(text) = std::env::var("ALLUVIUM_SIM_POINTS") else {
        return own;
    };
    sized(&text, own).unwrap_or_else(|| panic!("ALLUVIUM_SIM_POINTS is a number, or x and a number"))
}

/// Returns the first of two amounts of work, or the second where `ALLUVIUM_TESTS=all` asks for
/// every part of each test: the gate tries some, `.ci/nightly` all of them.
///
/// ```
/// use alluvium_sim::environment::effort;
/// let every_page = (0..100).step_by(effort(7, 1));
/// assert!(every_page.count() >= 15);
/// ```
///
/// # Panics
/// When the variable is set to something else.
#[must_use]
pub fn effort<T>(gate: T, all: T) -> T {
    match std::env::var("ALLUVIUM_TESTS").as_deref() {
        Err(_) => gate,
        Ok("all") => all,
        Ok(other) => panic!("ALLUVIUM_TESTS is {other:?}: all is the only value"),
    }
}

/// Returns the number that `text` stands for where the test's own one is `own`.
fn sized(text: &str, own: u64) -> Option<u64> {
    match text.strip_prefix('x') {
        Some(times) => Some(own.saturating_mul(times.parse().ok()?)),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::sized;

    #[test]
    fn a_size_is_a_number_or_a_multiple_of_the_own_one() {
        assert_eq!(sized("5000", 160), Some(5000));
        assert_eq!(sized("x10", 160), Some(1600));
        assert_eq!(sized("x1", 160), Some(160));
        for bad in ["", "x", "10x", "x-1", "many"] {
            assert_eq!(sized(bad, 160), None, "{bad}");
        }
    }
}
