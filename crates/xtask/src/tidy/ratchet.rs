//! The numbers that may only go down, in `crates/xtask/ratchet.toml`: a comment or `name = number`
//! a line.

use super::{Workspace, sizes};
use anyhow::{Context, Result, bail};
use std::fs;

/// The worst that the workspace may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ratchet {
    /// Lines of code of the longest file. It binds above the aim for nine files in ten.
    pub longest_file: usize,
    /// Lines of code of the longest function. It binds above the aim.
    pub longest_function: usize,
    /// How many functions are over the aim.
    pub long_functions: usize,
    /// How many lines say `tidy: allow`.
    pub allowances: usize,
}

impl Ratchet {
    /// Where the numbers are.
    pub const PATH: &str = "crates/xtask/ratchet.toml";

    /// Reads the numbers.
    ///
    /// # Errors
    /// When a line is neither comment nor number, a name is unknown, or one is missing.
    pub fn parse(text: &str) -> Result<Ratchet> {
        let mut ratchet = Ratchet::default();
        let mut missing: Vec<&str> = ratchet.fields().map(|(name, _)| name).to_vec();
        for (index, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        {
            let at = || format!("{}:{}: {line:?} is not `name = number`", Self::PATH, index + 1);
            let (name, value) = line.split_once('=').with_context(at)?;
            let value = value.trim().parse().with_context(at)?;
            let mut fields = ratchet.fields();
            let Some((name, field)) = fields.iter_mut().find(|(known, _)| *known == name.trim()) else {
                bail!(
                    "{}:{}: there is no number called {}",
                    Self::PATH,
                    index + 1,
                    name.trim()
                );
            };
            **field = value;
            missing.retain(|left| left != name);
        }
        if !missing.is_empty() {
            bail!("{}: {} missing", Self::PATH, missing.join(", "));
        }
        Ok(ratchet)
    }

    /// The same text with these numbers, comments kept.
    #[must_use]
    pub fn write_into(mut self, text: &str) -> String {
        let fields = self.fields();
        let line = |line: &str| {
            let name = line.split('=').next().unwrap_or(line).trim();
            let field = fields
                .iter()
                .find(|(known, _)| *known == name && !line.starts_with('#'));
            field.map_or_else(|| line.to_owned(), |(name, value)| format!("{name} = {value}"))
        };
        text.lines().map(|text| line(text) + "\n").collect()
    }

    /// Each number the lower of the two.
    #[must_use]
    pub fn lower_of(mut self, mut other: Ratchet) -> Ratchet {
        let values = other.fields().map(|(_, value)| *value);
        for ((_, field), value) in self.fields().into_iter().zip(values) {
            *field = (*field).min(value);
        }
        self
    }

    fn fields(&mut self) -> [(&'static str, &mut usize); 4] {
        [
            ("longest_file", &mut self.longest_file),
            ("longest_function", &mut self.longest_function),
            ("long_functions", &mut self.long_functions),
            ("allowances", &mut self.allowances),
        ]
    }
}

/// Lowers the committed numbers to what the workspace holds. Never raises one (X3).
///
/// # Errors
/// When the file cannot be read or written.
pub fn lower(workspace: &mut Workspace) -> Result<()> {
    let path = workspace.root.join(Ratchet::PATH);
    let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let lowered = Ratchet::parse(&text)?.lower_of(sizes::measure(workspace));
    fs::write(&path, lowered.write_into(&text))
        .with_context(|| format!("{} cannot be written", path.display()))?;
    workspace.ratchet = lowered;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# Why.\nlongest_file = 600\nlongest_function = 90\n\nlong_functions = 3\nallowances = 0\n";

    #[test]
    fn numbers_are_read_and_only_ever_lowered() {
        let now = Ratchet::parse(TEXT).unwrap();
        let measured = Ratchet {
            longest_file: 700,
            longest_function: 80,
            long_functions: 2,
            allowances: 5,
        };
        let lowered = now.lower_of(measured).write_into(TEXT);
        let expected = TEXT
            .replace("function = 90", "function = 80")
            .replace("functions = 3\nall", "functions = 2\nall");
        assert_eq!(lowered, expected);
    }

    #[test]
    fn a_file_with_a_wrong_an_unknown_or_a_missing_number_is_refused() {
        let refused = |text: &str| Ratchet::parse(text).unwrap_err().to_string();
        assert!(refused(&TEXT.replace("600", "many")).contains("ratchet.toml:2"));
        assert!(refused(&TEXT.replace("allowances", "kindness")).contains("no number called kindness"));
        assert!(refused("longest_file = 1").contains("longest_function, long_functions, allowances missing"));
    }
}
