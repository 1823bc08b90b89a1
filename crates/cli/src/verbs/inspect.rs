//! `inspect`: a drawing of the tree, and what a run of it is.

use crate::bytes::{escape, json_field};
use crate::context::{self, Context};
use crate::exit::{Exit, failure};
use crate::screen::{BOLD, Output};
use crate::sizes::{count, human};
use alluvium::{OutlineLayer, OutlineNode, OutlinePivot, OutlineRun, Underway};
use anyhow::Result;
use clap::Args;
use serde_json::{Map, Value, json};
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium inspect                  # the tree
  alluvium inspect --run 17.0       # a run of it
  alluvium inspect --json | jq '.root.pivots | length'

Each line is a node of the trunk or one of its children: the range of its keys, and the runs that it holds for them, oldest first; \
what has sunk is its own, what has not been compacted yet is pending. Keys begin with the number of their keyspace. Runs are named by their group and \
their place in it; --json and the web page say them.";

/// Draw the tree: which runs hold which keys, and where. Or say what a run holds, and which parts of the files it needs.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Inspect {
    /// A run, by its group and its place in it.
    #[arg(long, value_name = "GROUP.PLACE", value_parser = run_name)]
    pub run: Option<(u64, usize)>,
}

fn run_name(text: &str) -> Result<(u64, usize), String> {
    let parts = text.split_once('.');
    let name = parts.and_then(|(group, place)| Some((group.parse().ok()?, place.parse().ok()?)));
    name.ok_or_else(|| format!("{text:?} is no run: write its group and its place, as in 17.0"))
}

impl Inspect {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit> {
        let db = context.open_to_read()?;
        let mut out = Output::new();
        if let Some((group, place)) = self.run {
            let run = db.outline_run(group, place);
            context::close(db)?;
            let run = run.ok_or_else(|| {
                let text = format!(
                    "the tree has no run {group}.{place}: `alluvium inspect --json` says which there are"
                );
                failure(Exit::NotFound, text)
            })?;
            match context.is_json() {
                true => out.json(&run_json(&run))?,
                false => print_run(&mut out, &run)?,
            }
        } else if context.is_json() {
            let (outline, drawing) = (db.outline(), db.draw());
            context::close(db)?;
            out.json(&json!({
                "version": outline.version,
                "cut": outline.cut,
                "root": node(&outline.root),
                "drawing": drawing.lines().collect::<Vec<_>>(),
            }))?;
        } else {
            let drawing = db.draw();
            context::close(db)?;
            out.write_all(drawing.as_bytes())?;
        }
        out.flush()?;
        Ok(Exit::Done)
    }
}

/// A field of a JSON object that is bytes, as in exports.
fn put(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    let mut text = vec![b'{'];
    // Into memory, which takes everything.
    let written = json_field(&mut text, name, bytes).is_ok();
    text.push(b'}');
    let fields: Option<Map<String, Value>> = serde_json::from_slice(&text).ok();
    assert!(written && fields.is_some(), "a field of JSON is JSON");
    object.extend(fields.into_iter().flatten());
}

fn node(of: &OutlineNode) -> Value {
    let bundles = of.bundles.iter();
    let bundles: Vec<Value> = bundles
        .map(|bundle| json!({ "number": bundle.number, "runs": bundle.runs, "bytes": bundle.bytes }))
        .collect();
    let mut object = Map::new();
    object.insert("height".to_owned(), of.height.into());
    object.insert("bundles".to_owned(), bundles.into());
    let pivots: Vec<Value> = of.pivots.iter().map(pivot).collect();
    object.insert("pivots".to_owned(), pivots.into());
    object.into()
}

fn pivot(of: &OutlinePivot) -> Value {
    let layers = |layers: &[OutlineLayer]| layers.iter().map(layer).collect::<Vec<Value>>();
    let mut object = Map::new();
    put(&mut object, "low", &of.range.low);
    if let Some(high) = &of.range.high {
        put(&mut object, "high", high);
    }
    object.insert("own".to_owned(), layers(&of.own).into());
    object.insert("pending".to_owned(), layers(&of.pending).into());
    let compaction = of.compaction.map(|how| match how {
        Underway::Queued => "queued",
        Underway::Running => "running",
    });
    object.insert("compaction".to_owned(), compaction.into());
    object.insert("child".to_owned(), of.child.as_deref().map_or(Value::Null, node));
    object.into()
}

fn layer(of: &OutlineLayer) -> Value {
    let runs: Vec<String> = of
        .runs
        .iter()
        .map(|place| format!("{}.{place}", of.group))
        .collect();
    json!({
        "bundle": of.bundle,
        "runs": runs,
        "is_clipped": of.is_clipped,
        "bytes": of.bytes,
        "records": of.records,
        "tombstones": of.tombstones,
    })
}

fn run_json(run: &OutlineRun) -> Value {
    let summary = &run.summary;
    let extents = run.extents.iter().map(|used| {
        let mut object = Map::new();
        object.insert("tier".to_owned(), used.extent.tier.into());
        object.insert("offset".to_owned(), used.extent.offset().into());
        object.insert("bytes".to_owned(), used.extent.bytes().into());
        put(&mut object, "low", &used.low);
        put(&mut object, "high", &used.high);
        object.insert("live_bytes".to_owned(), used.live.into());
        object.insert("is_inherited".to_owned(), used.inherited.into());
        Value::from(object)
    });
    let extents: Vec<Value> = extents.collect();
    let mut object = Map::new();
    put(&mut object, "low", &run.low);
    put(&mut object, "high", &run.high);
    for (name, number) in [
        ("records", summary.records),
        ("keys", summary.keys),
        ("tombstones", summary.tombstones),
        ("merges", summary.merges),
        ("separate_values", summary.separate),
        ("range_deletes", summary.range_deletes),
        ("lowest_sequence", summary.lowest_sequence),
        ("highest_sequence", summary.highest_sequence),
        ("bytes", summary.bytes),
        ("value_bytes", summary.value_bytes),
        ("leaves", summary.leaves),
        ("height", u64::from(run.height)),
    ] {
        object.insert(name.to_owned(), number.into());
    }
    object.insert("footer".to_owned(), run.footer.clone().into());
    object.insert("extents".to_owned(), extents.into());
    object.into()
}

fn print_run(out: &mut Output, run: &OutlineRun) -> Result<()> {
    let summary = &run.summary;
    for (name, text) in [
        ("from", escape(&run.low)),
        ("to", escape(&run.high)),
        (
            "records",
            format!(
                "{} of {} keys: {} deletes, {} merges, {} with their values elsewhere, {} range deletes",
                count(summary.records),
                count(summary.keys),
                count(summary.tombstones),
                count(summary.merges),
                count(summary.separate),
                count(summary.range_deletes)
            ),
        ),
        (
            "commits",
            format!("{} to {}", summary.lowest_sequence, summary.highest_sequence),
        ),
        (
            "size",
            format!(
                "{} in {} leaves, {} of it values; {} levels of index nodes",
                human(summary.bytes),
                count(summary.leaves),
                human(summary.value_bytes),
                run.height
            ),
        ),
        ("footer", run.footer.clone()),
    ] {
        out.line(&format!("{name:8} {text}"))?;
    }
    let title = out.styled(BOLD, "extents");
    out.line(&title)?;
    for used in &run.extents {
        let whose = if used.inherited { "of another run, " } else { "" };
        out.line(&format!(
            "  tier {} at offset {}: {}, {whose}{} of it needed, keys from {} to {}",
            used.extent.tier,
            used.extent.offset(),
            human(used.extent.bytes()),
            human(used.live),
            escape(&used.low),
            escape(&used.high)
        ))?;
    }
    Ok(())
}
