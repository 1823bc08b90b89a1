//! `transactions`: lists open transactions and the old versions that the store retains for them.

use crate::context::CommandContext;
use crate::remote::RemoteServerArgs;
use crate::terminal::exit::CommandExit;
use crate::terminal::screen::ScreenOutput;
use crate::values::sizes::{count, human};
use alluvium_server::control::ManagementRequest;
use anyhow::Result;
use clap::Args;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  alluvium transactions
  alluvium transactions --server http://127.0.0.1:7070
  alluvium transactions --json | jq '.transactions[] | select(.age_ms > 60000)'

A transaction or a snapshot retains the versions that it may read: data that later commits overwrite or delete is not freed. \
A locking serializable transaction reads the newest versions and retains none; it holds locks.";

/// List the open transactions and kept snapshots of a store that a server has open, and the old
/// versions that they retain.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct TransactionsCommand {
    #[command(flatten)]
    pub elsewhere: RemoteServerArgs,
}

impl TransactionsCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let said = match self.elsewhere.remote()? {
            Some(server) => server.json("/api/transactions")?,
            None => {
                let store = context.open_to_read()?;
                let said = store.json(&ManagementRequest::Transactions)?;
                store.close()?;
                said
            }
        };
        let mut out = ScreenOutput::new();
        match context.is_json() {
            true => out.json(&said)?,
            false => print(&mut out, &said)?,
        }
        out.flush()?;
        Ok(CommandExit::Done)
    }
}

const HEAD: [&str; 8] = [
    "id",
    "age",
    "isolation",
    "mechanism",
    "memory",
    "on disk",
    "locks",
    "holds back",
];

fn print(out: &mut ScreenOutput, said: &Value) -> Result<()> {
    let list = |name: &str| said[name].as_array().into_iter().flatten();
    let mut rows: Vec<Vec<String>> = list("transactions").map(transaction).collect();
    rows.extend(list("snapshots").map(snapshot));
    if !rows.is_empty() {
        out.table(&HEAD, &rows)?;
    }
    let number = |name: &str| said[name].as_u64().unwrap_or_default();
    for (name, shown, what) in [
        ("transactions_open", "transactions", "transactions are open"),
        ("snapshots_kept", "snapshots", "snapshots are kept"),
    ] {
        let more = number(name).saturating_sub(list(shown).count() as u64);
        if more > 0 {
            out.line(&format!("{} more {what}", count(more)))?;
        }
    }
    out.line(&format!(
        "{} open, {} of memory; {} kept snapshots; {} other readers; {}",
        count(number("transactions_open")),
        human(number("memory_bytes")),
        count(number("snapshots_kept")),
        count(number("other_readers")),
        held(said["commits_held"].as_u64())
    ))?;
    Ok(())
}

fn transaction(info: &Value) -> Vec<String> {
    let word = |name: &str| info[name].as_str().unwrap_or("-").to_owned();
    let number = |name: &str| info[name].as_u64().unwrap_or_default();
    let mut locks = count(number("locks"));
    let waits = info["waits_for"].as_array().into_iter().flatten();
    let waits: Vec<String> = waits.map(ToString::to_string).collect();
    if !waits.is_empty() {
        locks = format!("{locks}, waits for {}", waits.join(", "));
    }
    vec![
        number("number").to_string(),
        age(number("age_ms")),
        word("isolation"),
        word("mechanism"),
        human(number("memory_bytes")),
        human(number("spilled_bytes")),
        locks,
        held(info["commits_held"].as_u64()),
    ]
}

fn snapshot(info: &Value) -> Vec<String> {
    let name = info["name"].as_str().unwrap_or("-");
    let of = |text: &str| text.to_owned();
    let held = held(info["commits_held"].as_u64());
    vec![
        format!("{name:?}"),
        of("-"),
        of("snapshot"),
        of("kept"),
        of("-"),
        of("-"),
        of("-"),
        held,
    ]
}

/// Describes how many versions the store retains for a reader.
fn held(commits: Option<u64>) -> String {
    match commits {
        None | Some(0) => "nothing".to_owned(),
        Some(1) => "what 1 commit replaced".to_owned(),
        Some(commits) => format!("what {} commits replaced", count(commits)),
    }
}

fn age(ms: u64) -> String {
    let age = Duration::from_millis(ms);
    match age.as_secs() {
        0..60 => format!("{:.1} s", age.as_secs_f64()),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_for_people() {
        assert_eq!(age(1500), "1.5 s");
        assert_eq!(age(61_000), "1 min 1 s");
        assert_eq!(age(2 * 3_600_000 + 60_000), "2 h 1 min");
    }

    #[test]
    fn what_is_held_is_said_in_words() {
        assert_eq!(held(None), "nothing");
        assert_eq!(held(Some(1)), "what 1 commit replaced");
        assert_eq!(held(Some(12_000)), "what 12,000 commits replaced");
    }
}
