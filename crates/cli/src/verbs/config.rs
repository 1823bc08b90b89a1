//! `config`: checks and prints configuration files of `serve`.

use crate::arguments::CliArguments;
use crate::config::{self, ConfigFile};
use crate::context::CommandContext;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::ScreenOutput;
use anyhow::Result;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, CommandFactory as _, Subcommand};
use serde_json::{Map, json};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  alluvium config default > alluvium.toml    # all settings, as comments
  alluvium config check alluvium.toml
  alluvium config show alluvium.toml         # what applies, and where it comes from
  alluvium serve --config alluvium.toml

A setting is a flag of `alluvium serve` without its dashes: `client-memory = \"64M\"`, `hashed = true`, `web-name = [\"a\", \"b\"]`. \
A flag that is given, and the environment, override the file.";

/// Check and print configuration files of `serve`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ConfigCommand {
    /// What to do.
    #[command(subcommand)]
    pub action: ConfigAction,
}

/// The subcommands of `config`.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Verify the names and values of a file.
    Check { file: PathBuf },
    /// Print all settings with their values, and whether the file, the environment or the default
    /// gives them.
    Show {
        /// The file. Without one, the defaults are shown.
        file: Option<PathBuf>,
    },
    /// Print a file with all settings as comments, each with its description and default.
    Default,
}

impl ConfigCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        match &self.action {
            ConfigAction::Check { file } => check(context, file),
            ConfigAction::Show { file } => show(context, file.as_deref()),
            ConfigAction::Default => print_defaults(),
        }
    }
}

/// Parses the command line of a server with this configuration file.
fn server_matches(file: Option<&Path>) -> Result<(ArgMatches, Option<ConfigFile>)> {
    let mut words = vec![OsString::from("alluvium"), OsString::from("serve")];
    if let Some(file) = file {
        words.extend(["--config".into(), OsString::from(file)]);
    }
    let (words, file) = config::completed(words)?;
    let matches = CliArguments::command().try_get_matches_from(words);
    let matches = matches.map_err(|error| in_file(file.as_ref(), &error))?;
    let serve = matches.subcommand_matches("serve").cloned();
    Ok((serve.unwrap_or_default(), file))
}

/// Returns the error of a command line that a file has completed.
pub(crate) fn in_file(file: Option<&ConfigFile>, error: &clap::Error) -> anyhow::Error {
    let place = file.map_or(String::new(), |file| {
        format!("with the settings of {}: ", file.path.display())
    });
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    failure(CommandExit::Usage, format!("{place}{}", text.trim_end()))
}

fn check(context: &CommandContext, file: &Path) -> Result<CommandExit> {
    let (_, found) = server_matches(Some(file))?;
    let count = found.map_or(0, |file| file.settings.len());
    let mut out = ScreenOutput::new();
    match context.is_json() {
        true => out.json(&json!({ "settings": count }))?,
        false => out.line(&format!("{}: {count} settings, all valid", file.display()))?,
    }
    out.flush()?;
    Ok(CommandExit::Done)
}

/// Returns the values of a setting as TOML, or `None` if it has none.
fn shown(argument: &Arg, matches: &ArgMatches) -> Option<String> {
    let id = argument.get_id().as_str();
    if config::is_switch(argument) {
        return Some(matches.get_flag(id).to_string());
    }
    let values = matches.get_raw(id)?;
    let texts: Vec<String> = values
        .map(|value| match argument.get_long() {
            Some("password") => "\"(hidden)\"".to_owned(),
            _ => format!("{:?}", value.to_string_lossy()),
        })
        .collect();
    match &texts[..] {
        [one] if !matches!(argument.get_action(), clap::ArgAction::Append) => Some(one.clone()),
        texts => Some(format!("[{}]", texts.join(", "))),
    }
}

fn show(context: &CommandContext, file: Option<&Path>) -> Result<CommandExit> {
    let (matches, found) = server_matches(file)?;
    let mut out = ScreenOutput::new();
    let mut all = Map::new();
    for argument in config::known_settings() {
        let name = argument.get_long().unwrap_or_default();
        let value = shown(&argument, &matches);
        let in_file = |found: &ConfigFile| found.settings.iter().any(|setting| setting.name == name);
        let source = match matches.value_source(argument.get_id().as_str()) {
            _ if value.is_none() => "not set",
            Some(ValueSource::EnvVariable) => "environment",
            Some(ValueSource::CommandLine) if found.as_ref().is_some_and(in_file) => "file",
            _ => "default",
        };
        if context.is_json() {
            all.insert(name.to_owned(), json!({ "value": value, "from": source }));
        } else {
            match value {
                Some(value) => out.line(&format!("{name} = {value} # {source}"))?,
                None => out.line(&format!("# {name} # {source}"))?,
            }
        }
    }
    if context.is_json() {
        out.json(&json!(all))?;
    }
    out.flush()?;
    Ok(CommandExit::Done)
}

fn print_defaults() -> Result<CommandExit> {
    let mut out = ScreenOutput::new();
    out.line("# Settings of `alluvium serve --config FILE`. A flag that is given, and the environment, override them.")?;
    let mut heading = None;
    for argument in config::known_settings() {
        let own = argument.get_help_heading().map(str::to_owned);
        if own != heading {
            heading = own;
            if let Some(heading) = &heading {
                out.line(&format!("\n## {heading}"))?;
            }
        }
        out.line("")?;
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        for line in help.lines() {
            out.line(&format!("# {line}"))?;
        }
        let name = argument.get_long().unwrap_or_default();
        let default = argument.get_default_values().first();
        let value = match default {
            _ if config::is_switch(&argument) => "false".to_owned(),
            Some(default) => format!("{:?}", default.to_string_lossy()),
            None => {
                let names = argument.get_value_names().unwrap_or_default();
                format!("\"{}\"", names.first().map_or("", |name| name.as_str()))
            }
        };
        match argument.get_action() {
            clap::ArgAction::Append => out.line(&format!("#{name} = [{value}]"))?,
            _ => out.line(&format!("#{name} = {value}"))?,
        }
    }
    out.flush()?;
    Ok(CommandExit::Done)
}
