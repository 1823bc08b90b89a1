//! What must hold of a bloom filter's page.

use super::BloomView;
use super::format::{self, WORDS};
use crate::quotient::Violation;

impl BloomView<'_> {
    /// Every rule that page `number` breaks: its header; and that a line either has a bit set in
    /// each of its words or in none, because every key sets one in each.
    #[must_use]
    pub fn check(&self, number: u32) -> Vec<Violation> {
        let violation = |what| Violation {
            page: number,
            block: None,
            what,
        };
        let mut found = Vec::new();
        if let Err(error) = format::verify(self.geometry, self.page, number) {
            found.push(violation(error.to_string()));
        }
        for index in 0..self.geometry.lines as usize {
            let Some(line) = format::line(self.page, index) else {
                break;
            };
            let set = line.iter().filter(|&&word| word != 0).count();
            if set != 0 && set != WORDS {
                found.push(violation(format!(
                    "line {index} has bits set in {set} of {WORDS} words"
                )));
            }
        }
        found
    }
}
