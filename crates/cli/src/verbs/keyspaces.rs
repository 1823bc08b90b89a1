//! `keyspaces`: which there are, and what they are created with.

use crate::Exit;
use crate::bytes;
use crate::confirm::Consent;
use crate::context::{self, Context};
use crate::exit::failure;
use crate::import::{PROGRESS, layout};
use crate::screen::Output;
use crate::sizes::{self, Bytes};
use alluvium::{Compression, Db, KeyspaceOptions};
use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium keyspaces                       # lists them
  alluvium keyspaces create events --compression zstd
  alluvium keyspaces create hits --merge-operator add
  alluvium keyspaces rename events old-events
  alluvium keyspaces drop old-events       # asks first; --yes does not";

/// List, create, drop and rename keyspaces.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Keyspaces {
    /// What to do; without it, list them.
    #[command(subcommand)]
    pub action: Option<Action>,
}

/// What can be done with keyspaces.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List them with what they were created with.
    #[command(after_help = "Example:\n  alluvium keyspaces list --json")]
    List {
        /// Also the one in which imports remember how far they are.
        #[arg(long)]
        all: bool,
    },
    /// Create one.
    #[command(after_help = "Example:\n  alluvium keyspaces create events --compression zstd")]
    Create(Create),
    /// Drop one with everything in it. Its space comes back in the background.
    #[command(after_help = "Example:\n  alluvium keyspaces drop events --yes")]
    Drop {
        /// Its name.
        name: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Give one another name.
    #[command(after_help = "Example:\n  alluvium keyspaces rename events old-events")]
    Rename {
        /// Its name now.
        from: String,
        /// Its name then.
        to: String,
    },
}

/// A new keyspace.
#[derive(Args, Debug)]
pub struct Create {
    /// Its name.
    pub name: String,
    /// How its pages are kept on the disk.
    #[arg(long, value_enum, default_value_t = Codec::None)]
    pub compression: Codec,
    /// Values longer than this are kept apart from their keys.
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub value_threshold: Option<Bytes>,
    /// The operator that folds what is merged: add or append.
    #[arg(long, value_name = "NAME")]
    pub merge_operator: Option<String>,
}

/// Compression as it is typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Codec {
    /// Pages as they are.
    None,
    /// Half the space where there is something to gain, little work.
    Lz4,
    /// Less space, more work.
    Zstd,
}

impl From<Codec> for Compression {
    fn from(codec: Codec) -> Compression {
        match codec {
            Codec::None => Compression::None,
            Codec::Lz4 => Compression::Lz4,
            Codec::Zstd => Compression::Zstd,
        }
    }
}

fn name_of(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "none",
        Compression::Lz4 => "lz4",
        Compression::Zstd => "zstd",
    }
}

impl Keyspaces {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit> {
        match &self.action {
            None | Some(Action::List { all: false }) => list(context, |name| name != PROGRESS),
            Some(Action::List { all: true }) => list(context, |_| true),
            Some(Action::Create(create)) => create.run(context),
            Some(Action::Drop { name, consent }) => {
                let db = context.open()?;
                context::existing(&db, name)?;
                consent.ask(&format!(
                    "the keyspace {name:?} and everything in it would be dropped"
                ))?;
                db.drop_keyspace(name)?;
                layout::forget(&db, name)?;
                context::close(db)?;
                Ok(Exit::Done)
            }
            Some(Action::Rename { from, to }) => {
                let db = context.open()?;
                context::existing(&db, from)?;
                db.rename_keyspace(from, to)?;
                layout::rename(&db, from, to)?;
                context::close(db)?;
                Ok(Exit::Done)
            }
        }
    }
}

impl Create {
    fn run(&self, context: &Context) -> Result<Exit> {
        let mut options = KeyspaceOptions::new().compression(self.compression.into());
        if let Some(Bytes(bytes)) = self.value_threshold {
            let Ok(bytes) = u32::try_from(bytes) else {
                return Err(failure(
                    Exit::Usage,
                    "--value-threshold is at most four pages: choose less",
                ));
            };
            options = options.value_threshold(bytes);
        }
        if let Some(operator) = &self.merge_operator {
            options = options.merge_operator(operator);
        }
        let db = context.open_or_create()?;
        if db.existing_keyspace(&self.name).is_ok() {
            let text = format!(
                "there is a keyspace {:?} already: drop or rename it first, or use it as it is",
                self.name
            );
            return Err(failure(Exit::Failed, text));
        }
        db.keyspace_with(&self.name, &options)
            .map_err(|error| match error {
                alluvium::Error::NotRegistered { name, .. } => {
                    let text = format!("there is no merge operator {name:?}: choose add or append");
                    failure(Exit::Usage, text)
                }
                error => error.into(),
            })?;
        context::close(db)?;
        Ok(Exit::Done)
    }
}

fn list(context: &Context, shown: impl Fn(&str) -> bool) -> Result<Exit> {
    let db = context.open_to_read()?;
    let mut out = Output::new();
    let names: Vec<String> = db.keyspaces().into_iter().filter(|name| shown(name)).collect();
    if context.is_json() {
        let all: Vec<Value> = names
            .iter()
            .map(|name| described(&db, name))
            .collect::<Result<_>>()?;
        out.json(&json!(all))?;
    } else {
        let text = |value: &Value| match value {
            Value::Null => "-".to_owned(),
            Value::String(text) => bytes::escape(text.as_bytes()),
            other => other.to_string(),
        };
        let columns = [
            "name",
            "compression",
            "value_threshold",
            "merge_operator",
            "compaction_filter",
        ];
        let row = |name: &String| -> Result<Vec<String>> {
            let all = described(&db, name)?;
            Ok(columns.iter().map(|column| text(&all[column])).collect())
        };
        let rows = names.iter().map(row).collect::<Result<Vec<_>>>()?;
        out.table(&columns, &rows)?;
    }
    out.flush()?;
    context::close(db)?;
    Ok(Exit::Done)
}

fn described(db: &Db, name: &str) -> Result<Value> {
    let keyspace = db.existing_keyspace(name)?;
    let options = keyspace.options();
    Ok(json!({
        "name": name,
        "compression": name_of(options.compression),
        "value_threshold": options.value_threshold,
        "merge_operator": options.merge_operator,
        "compaction_filter": options.compaction_filter,
    }))
}
