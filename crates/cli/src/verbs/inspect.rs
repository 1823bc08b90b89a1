//! `inspect`: draws the tree of a store and describes its runs.

use crate::context::CommandContext;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::{BOLD, ScreenOutput};
use crate::values::bytes::escape;
use crate::values::sizes::{count, human};
use alluvium_server::control::ManagementRequest;
use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::Value;
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium inspect                  # the tree
  alluvium inspect --run 17.0       # a run of it
  alluvium inspect --json | jq '.root.pivots | length'
  alluvium inspect --json | jq '.levels[] | .structure, (.levels[] | .run_count)'

Each line is a node of the trunk or one of its children, with its range of keys and its runs for them, oldest first. `own` runs have been \
compacted for the child, `pending` ones have not. Keys begin with the number of their keyspace. A run is named by its group and \
its place in the group; --json and the web page show the names. For keyspaces in levels, the command shows for each set of options the runs of each \
level, oldest first: their sizes, how much of it other runs wrote (adopted leaves, and values), and of which additions each was merged. For keyspaces in pages, the command reads every node, and shows how full the nodes of each \
level are, which messages wait, and how many pages are free. For a store with several tiers, it shows how full each is, whether it fails, the size of the \
copies on the first one, and the runs of the tree and of levels on each.";

/// Show the nodes and runs of the tree and the runs of levels, or the contents of one run and the
/// parts of the files that it needs.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct InspectCommand {
    /// Show only the run with this group and position, as in 17.0.
    #[arg(long, value_name = "GROUP.PLACE", value_parser = run_name)]
    pub run: Option<(u64, usize)>,
}

fn run_name(text: &str) -> Result<(u64, usize), String> {
    let parts = text.split_once('.');
    let name = parts.and_then(|(group, place)| Some((group.parse().ok()?, place.parse().ok()?)));
    name.ok_or_else(|| {
        format!("{text:?} is not the name of a run: write its group and its place, as in 17.0")
    })
}

impl InspectCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let store = context.open_to_read()?;
        let mut out = ScreenOutput::new();
        if let Some((group, place)) = self.run {
            let run = store.json(&ManagementRequest::Run {
                group,
                place: place as u64,
            })?;
            store.close()?;
            if run.is_null() {
                let text =
                    format!("the tree has no run {group}.{place}: `alluvium inspect --json` shows all runs");
                return Err(failure(CommandExit::NotFound, text));
            }
            match context.is_json() {
                true => out.json(&run)?,
                false => print_run(&mut out, &run)?,
            }
        } else if context.is_json() {
            let outline = store.json(&ManagementRequest::Outline)?;
            store.close()?;
            out.json(&outline)?;
        } else {
            let drawing = store.text(&ManagementRequest::Drawing)?;
            store.close()?;
            out.write_all(drawing.as_bytes())?;
        }
        out.flush()?;
        Ok(CommandExit::Done)
    }
}

/// Formats the bytes in a field of a JSON object for display.
fn shown(of: &Value, name: &str) -> String {
    let text = of[name].as_str().map(|text| text.as_bytes().to_vec());
    let bytes = text.or_else(|| STANDARD.decode(of[format!("{name}_base64")].as_str()?).ok());
    escape(&bytes.unwrap_or_default())
}

fn print_run(out: &mut ScreenOutput, run: &Value) -> Result<()> {
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or_default();
    let of_run = |name: &str| number(run, name);
    for (name, text) in [
        ("from", shown(run, "low")),
        ("to", shown(run, "high")),
        (
            "records",
            format!(
                "{} of {} keys: {} deletes, {} merges, {} with their values elsewhere, {} range deletes",
                count(of_run("records")),
                count(of_run("keys")),
                count(of_run("tombstones")),
                count(of_run("merges")),
                count(of_run("separate_values")),
                count(of_run("range_deletes"))
            ),
        ),
        (
            "commits",
            format!("{} to {}", of_run("lowest_sequence"), of_run("highest_sequence")),
        ),
        (
            "size",
            format!(
                "{} in {} leaves, {} of it values; {} levels of index nodes",
                human(of_run("bytes")),
                count(of_run("leaves")),
                human(of_run("value_bytes")),
                of_run("height")
            ),
        ),
        ("footer", run["footer"].as_str().unwrap_or_default().to_owned()),
    ] {
        out.line(&format!("{name:8} {text}"))?;
    }
    let title = out.styled(BOLD, "extents");
    out.line(&title)?;
    for used in run["extents"].as_array().into_iter().flatten() {
        let whose = if used["is_inherited"] == true {
            "of another run, "
        } else {
            ""
        };
        out.line(&format!(
            "  tier {} at offset {}: {}, {whose}{} of it needed, keys from {} to {}",
            used["tier"],
            number(used, "offset"),
            human(number(used, "bytes")),
            human(number(used, "live_bytes")),
            shown(used, "low"),
            shown(used, "high")
        ))?;
    }
    Ok(())
}
