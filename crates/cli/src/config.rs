//! The configuration file of `serve`.
//!
//! *Scope*: which settings a file has, where they stand, and how they complete a command line.
//!
//! *Must not depend on*: what the settings mean.
//!
//! Each setting is a flag of `serve` without its dashes, so the parser of the command line checks
//! the values of a file as well. A flag that is given overrides the file.

use crate::arguments::CliArguments;
use crate::terminal::exit::{CommandExit, failure};
use anyhow::{Context as _, Result};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory as _};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use toml_edit::{Document, Value};

/// Flags of `serve` that a file cannot have.
const NOT_IN_FILES: [&str; 4] = ["config", "json", "help", "version"];

/// How similar a name must be to be suggested, from 0 to 1.
const SIMILAR: f64 = 0.7;

/// A setting in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigSetting {
    /// The flag without its dashes.
    pub(crate) name: String,
    /// The values. `None` for a flag without a value.
    values: Option<Vec<String>>,
}

/// A configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    pub(crate) settings: Vec<ConfigSetting>,
}

/// Returns the flags that a file can set, in the order of the help text.
pub(crate) fn known_settings() -> Vec<Arg> {
    let root = CliArguments::command();
    let serve = root.find_subcommand("serve").cloned().unwrap_or_default();
    let all = serve.get_arguments().chain(root.get_arguments());
    let settable = all.filter(|argument| {
        let name = argument.get_long();
        name.is_some_and(|name| !NOT_IN_FILES.contains(&name))
    });
    settable.cloned().collect()
}

/// Returns whether a flag has no value.
pub(crate) fn is_switch(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::SetTrue)
}

/// Adds the settings of the configuration file that a command line names, as far as the command
/// line and the environment do not set them, and returns the completed command line with the file.
pub(crate) fn completed(mut words: Vec<OsString>) -> Result<(Vec<OsString>, Option<ConfigFile>)> {
    if !words.iter().any(|word| word == "serve") {
        return Ok((words, None));
    }
    // What is wrong in the command line is reported when it is parsed as a whole.
    let parser = CliArguments::command().ignore_errors(true);
    let Ok(matches) = parser.try_get_matches_from(&words) else {
        return Ok((words, None));
    };
    let Some(serve) = matches.subcommand_matches("serve") else {
        return Ok((words, None));
    };
    let path = serve.try_get_one::<PathBuf>("config").ok().flatten();
    let Some(path) = path else {
        return Ok((words, None));
    };
    let file = ConfigFile::read(path)?;
    for setting in &file.settings {
        if !is_given(serve, &setting.name) {
            setting.append_to(&mut words);
        }
    }
    Ok((words, Some(file)))
}

/// Returns whether the command line or the environment sets a flag.
pub(crate) fn is_given(matches: &ArgMatches, name: &str) -> bool {
    let source = matches.value_source(&name.replace('-', "_"));
    matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

impl ConfigSetting {
    fn append_to(&self, words: &mut Vec<OsString>) {
        let flag = format!("--{}", self.name);
        match &self.values {
            None => words.push(flag.into()),
            Some(values) => words.extend(values.iter().map(|value| format!("{flag}={value}").into())),
        }
    }
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// `Usage`, with the line, for a file that is not TOML, has an unknown setting, or a value of
    /// another kind.
    pub(crate) fn read(path: &Path) -> Result<ConfigFile> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        ConfigFile::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<ConfigFile> {
        let refuse = |at: Option<usize>, why: String| {
            let line = at.map(|at| text[..at.min(text.len())].matches('\n').count() + 1);
            let line = line.map_or(String::new(), |line| format!(", line {line}"));
            failure(CommandExit::Usage, format!("{}{line}: {why}", path.display()))
        };
        let parsed = Document::parse(text).map_err(|error| {
            let at = error.span().map(|span| span.start);
            refuse(at, error.message().to_owned())
        })?;
        let known = known_settings();
        let mut settings = Vec::new();
        for (name, item) in parsed.as_table() {
            let at = parsed.as_table().key(name).and_then(|key| key.span());
            let at = at.map(|span| span.start);
            let Some(argument) = known.iter().find(|argument| argument.get_long() == Some(name)) else {
                return Err(refuse(at, unknown(name, &known)));
            };
            let Some(value) = item.as_value() else {
                return Err(refuse(at, format!("{name} is a setting: write `{name} = …`")));
            };
            if let Some(values) = values_of(argument, value).map_err(|why| refuse(at, why))? {
                settings.push(values);
            }
        }
        Ok(ConfigFile {
            path: path.to_owned(),
            settings,
        })
    }

    /// Returns the names of settings that differ from those of another version of the file.
    pub(crate) fn changed_since(&self, earlier: &ConfigFile) -> Vec<String> {
        let is_in = |setting: &ConfigSetting, file: &ConfigFile| file.settings.contains(setting);
        let new = self.settings.iter().filter(|setting| !is_in(setting, earlier));
        let old = earlier.settings.iter().filter(|setting| !is_in(setting, self));
        let mut names: Vec<String> = new.chain(old).map(|setting| setting.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the value of a setting.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let setting = self.settings.iter().find(|setting| setting.name == name)?;
        setting.values.as_ref()?.first().map(String::as_str)
    }
}

fn unknown(name: &str, known: &[Arg]) -> String {
    let similar = known.iter().filter_map(Arg::get_long).map(|other| {
        let similarity = strsim::jaro_winkler(name, other);
        (other, similarity)
    });
    let best = similar
        .filter(|(_, similarity)| *similarity >= SIMILAR)
        .max_by(|one, other| one.1.total_cmp(&other.1));
    match best {
        Some((other, _)) => format!("there is no setting {name:?}; did you mean {other:?}?"),
        None => format!("there is no setting {name:?}: `alluvium config default` prints all of them"),
    }
}

/// Returns a setting with the values of a file, or `None` for a switch that is off.
fn values_of(argument: &Arg, value: &Value) -> Result<Option<ConfigSetting>, String> {
    let name = argument.get_long().unwrap_or_default().to_owned();
    if is_switch(argument) {
        return match value.as_bool() {
            Some(is_on) => Ok(is_on.then_some(ConfigSetting { name, values: None })),
            None => Err(format!("{name} is true or false")),
        };
    }
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.value().clone()),
        Value::Integer(number) => Some(number.value().to_string()),
        Value::Float(number) => Some(number.value().to_string()),
        _ => None,
    };
    let values = match value {
        Value::Array(values) if matches!(argument.get_action(), ArgAction::Append) => {
            values.iter().map(text).collect()
        }
        value => text(value).map(|text| vec![text]),
    };
    match values {
        Some(values) => Ok(Some(ConfigSetting {
            name,
            values: Some(values),
        })),
        None => Err(format!("{name} needs a text or a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<ConfigFile> {
        ConfigFile::parse(Path::new("a.toml"), text)
    }

    fn refusal(text: &str) -> String {
        parsed(text).unwrap_err().to_string()
    }

    #[test]
    fn settings_become_flags() {
        let file = parsed(
            "redis = \"off\" # a comment\nhashed = true\nunprotected = false\nmax-clients = 7\n\
             web-name = [\"a\", \"b\"]\nmemory = \"64M\"\n",
        );
        let mut words = Vec::new();
        for setting in &file.unwrap().settings {
            setting.append_to(&mut words);
        }
        let expected = [
            "--redis=off",
            "--hashed",
            "--max-clients=7",
            "--web-name=a",
            "--web-name=b",
            "--memory=64M",
        ];
        assert_eq!(words, expected.map(OsString::from));
    }

    #[test]
    fn mistakes_are_named_with_their_lines() {
        let said = refusal("redis = \"off\"\n\nclient-memroy = \"1M\"\n");
        assert!(
            said.starts_with("a.toml, line 3: there is no setting \"client-memroy\""),
            "{said}"
        );
        assert!(said.ends_with("did you mean \"client-memory\"?"), "{said}");
        assert!(refusal("x1 = 2").contains("config default"));
        assert!(refusal("[serve]\nredis = 1").contains("line 1"));
        assert!(refusal("redis = 1\nredis = 2").contains("line 2"));
        assert_eq!(refusal("\nhashed = 1"), "a.toml, line 2: hashed is true or false");
        assert!(refusal("redis = [1]").contains("needs a text or a number"));
        assert!(refusal("config = \"other\"").contains("no setting"));
        assert!(refusal("redis = ").starts_with("a.toml, line 1: "));
    }

    #[test]
    fn changes_between_versions_are_named() {
        let one = parsed("redis = \"off\"\nhashed = true\nmemory = 7\n").unwrap();
        let other = parsed("memory = 7\nredis = \"on\"\nweb = \"off\"\n").unwrap();
        assert_eq!(other.changed_since(&one), ["hashed", "redis", "web"]);
        assert!(one.changed_since(&one).is_empty());
        assert_eq!(one.value("redis"), Some("off"));
    }

    #[test]
    fn flags_override_the_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.toml");
        std::fs::write(&path, "redis = \"off\"\nmemcached = \"off\"\nmemory = \"32M\"\n").unwrap();
        let words = |text: &str| {
            let text = text.replace("FILE", path.to_str().unwrap());
            text.split(' ').map(OsString::from).collect::<Vec<_>>()
        };
        let (full, file) = completed(words("alluvium serve --config FILE --memory 64M --redis=:1")).unwrap();
        assert_eq!(full[7..], ["--memcached=off"].map(OsString::from));
        assert_eq!(file.unwrap().settings.len(), 3);
        let (same, none) = completed(words("alluvium get --db x key")).unwrap();
        assert!(none.is_none() && same.len() == 5);
    }
}
