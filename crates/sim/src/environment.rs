//! Settings of simulation tests from environment variables.

/// Returns the number in the environment variable `name`, or `otherwise` if the variable is not
/// set.
///
/// ```
/// assert_eq!(alluvium_sim::environment::number("ALLUVIUM_SIM_A_NAME_THAT_NOBODY_SETS", 7), 7);
/// ```
///
/// # Panics
/// If the variable is set but does not contain a number.
#[must_use]
pub fn number(name: &str, otherwise: u64) -> u64 {
    wanted(name).unwrap_or(otherwise)
}

/// Returns the number in the environment variable `name`, or `None` if the variable is not set.
///
/// # Panics
/// If the variable is set but does not contain a number.
#[must_use]
pub fn wanted(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Returns how many crash images a test judges: `own`, unless `ALLUVIUM_SIM_POINTS` is set. A plain
/// number in the variable replaces `own`, and a value such as `x10` multiplies it by ten.
///
/// # Panics
/// If the variable is set but invalid.
#[must_use]
pub fn points(own: u64) -> u64 {
    let Ok(text) = std::env::var("ALLUVIUM_SIM_POINTS") else {
        return own;
    };
    sized(&text, own).unwrap_or_else(|| panic!("ALLUVIUM_SIM_POINTS is a number, or x and a number"))
}

/// Returns `all` if `ALLUVIUM_TESTS=all` requests every part of each test, and `gate` otherwise.
/// The gate runs only some parts, and `.ci/nightly` runs all of them.
///
/// ```
/// use alluvium_sim::environment::effort;
/// let every_page = (0..100).step_by(effort(7, 1));
/// assert!(every_page.count() >= 15);
/// ```
///
/// # Panics
/// If the variable is set to another value.
#[must_use]
pub fn effort<T>(gate: T, all: T) -> T {
    match std::env::var("ALLUVIUM_TESTS").as_deref() {
        Err(_) => gate,
        Ok("all") => all,
        Ok(other) => panic!("ALLUVIUM_TESTS is {other:?}: all is the only value"),
    }
}

/// Parses the number of crash images for a test whose default is `own`. Returns `None` if `text` is
/// invalid.
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
