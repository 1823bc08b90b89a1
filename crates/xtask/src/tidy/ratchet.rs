//! The numbers in `crates/xtask/ratchet.toml`, which may only decrease. Each line is a comment or
//! `name = number`.

use super::{Workspace, sizes};
use anyhow::{Context, Result, bail};
use std::fs;

/// Upper limits for the workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ratchet {
    /// Lines of code of the longest file. Effective only above the aim for nine files in ten.
    pub longest_file: usize,
    /// Lines of code of the longest function. Effective only above the aim for functions.
    pub longest_function: usize,
    /// Number of functions longer than the aim.
    pub long_functions: usize,
    /// Number of lines with `tidy: allow`.
    pub allowances: usize,
    /// Types named by one word, in thousandths of all.
    pub one_word_types: usize,
    /// Types named by a bare participle, in thousandths of all.
    pub participle_types: usize,
    /// Number of names that four types or more share.
    pub shared_type_names: usize,
}

impl Ratchet {
    /// Path of the file with the numbers.
    pub const PATH: &str = "crates/xtask/ratchet.toml";

    /// Parses the numbers.
    ///
    /// # Errors
    /// A line that is neither a comment nor a number, an unknown name, or a missing one.
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

    /// Returns the same text with these numbers, comments included.
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

    /// Returns the lower value of each pair of numbers.
    #[must_use]
    pub fn lower_of(mut self, mut other: Ratchet) -> Ratchet {
        let values = other.fields().map(|(_, value)| *value);
        for ((_, field), value) in self.fields().into_iter().zip(values) {
            *field = (*field).min(value);
        }
        self
    }

    fn fields(&mut self) -> [(&'static str, &mut usize); 7] {
        [
            ("longest_file", &mut self.longest_file),
            ("longest_function", &mut self.longest_function),
            ("long_functions", &mut self.long_functions),
            ("allowances", &mut self.allowances),
            ("one_word_types", &mut self.one_word_types),
            ("participle_types", &mut self.participle_types),
            ("shared_type_names", &mut self.shared_type_names),
        ]
    }
}

/// Lowers the committed numbers to the current state of the workspace. Never raises one (X3).
///
/// # Errors
/// I/O errors of the file.
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

    const TEXT: &str = "# Why.\nlongest_file = 600\nlongest_function = 90\n\nlong_functions = 3\nallowances = 0\n\
        one_word_types = 40\nparticiple_types = 1\nshared_type_names = 15\n";

    #[test]
    fn numbers_are_read_and_only_ever_lowered() {
        let now = Ratchet::parse(TEXT).unwrap();
        let measured = Ratchet {
            longest_file: 700,
            longest_function: 80,
            long_functions: 2,
            allowances: 5,
            one_word_types: 41,
            participle_types: 1,
            shared_type_names: 15,
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
        assert!(
            refused("longest_file = 1")
                .contains("longest_function, long_functions, allowances, one_word_types")
        );
    }
}
