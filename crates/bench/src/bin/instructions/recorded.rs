//! The text format of recorded counts, and the parser of callgrind's output.

use anyhow::{Context, Result, ensure};
use std::fmt;
use std::str::FromStr;

/// Numbers of instructions per operation, and the compiler and architecture they were counted for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct InstructionCounts {
    pub(super) machine: String,
    pub(super) counts: Vec<(String, f64)>,
}

const HEAD: &str = "# Instructions for each operation, by callgrind: `cargo run --release -p alluvium-bench --bin instructions -- record` writes this file.";
const MACHINE: &str = "# counted with: ";

impl fmt::Display for InstructionCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}\n{MACHINE}{}", self.machine)?;
        for (name, count) in &self.counts {
            writeln!(f, "{name}: {count:.1}")?;
        }
        Ok(())
    }
}

impl FromStr for InstructionCounts {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<InstructionCounts> {
        let machine = text
            .lines()
            .find_map(|line| line.strip_prefix(MACHINE))
            .with_context(|| format!("there is no line that begins with {MACHINE:?}"))?;
        let counts = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
            .map(|line| {
                let (name, count) = line
                    .split_once(": ")
                    .with_context(|| format!("{line:?} is not a count"))?;
                let count: f64 = count
                    .trim()
                    .parse()
                    .with_context(|| format!("{line:?} is not a count"))?;
                ensure!(count > 0.0, "{line:?}: a count must be greater than 0");
                Ok((name.to_owned(), count))
            })
            .collect::<Result<_>>()?;
        Ok(InstructionCounts {
            machine: machine.to_owned(),
            counts,
        })
    }
}

/// Returns the inclusive instruction count of a function from the table that `callgrind_annotate`
/// prints. The table has a line for each source file that contributes to the function. The largest
/// value of these lines is the count of the whole function.
pub(super) fn total(table: &str, function: &str) -> Result<u64> {
    let end = format!(":{function}");
    table
        .lines()
        .filter(|line| {
            line.split(" [")
                .next()
                .is_some_and(|line| line.trim_end().ends_with(&end))
        })
        .filter_map(|line| line.split_whitespace().next()?.replace(',', "").parse().ok())
        .max()
        .with_context(|| format!("callgrind has counted no instructions of {function}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let recorded = InstructionCounts {
            machine: "rustc 1.95.0, x86_64".into(),
            counts: vec![("put".into(), 1234.5), ("get, cached pages".into(), 99.0)],
        };
        assert_eq!(
            recorded.to_string().parse::<InstructionCounts>().unwrap(),
            recorded
        );
        assert!("put: 3".parse::<InstructionCounts>().is_err());
        assert!(
            "# counted with: x\nput: many"
                .parse::<InstructionCounts>()
                .is_err()
        );
        assert!("# counted with: x\nput: 0".parse::<InstructionCounts>().is_err());
    }

    #[test]
    fn the_largest_line_of_a_function_is_its_sum() {
        let table = "\
506,779,725 (100.0%)  PROGRAM TOTALS\n\
 87,083,082 (17.18%)  /src/work.rs:measured_put [/target/instructions]\n\
 68,883,049 (13.59%)  /src/keyspace.rs:measured_put\n\
     20,000 (00.01%)  /src/work.rs:measured_put_many [/target/instructions]\n";
        assert_eq!(total(table, "measured_put").unwrap(), 87_083_082);
        assert!(total(table, "measured_get").is_err());
    }
}
