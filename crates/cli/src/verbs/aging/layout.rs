//! `aging layout`: where the blocks of files lie.

use super::{figure, told};
use crate::context::CommandContext;
use crate::jobs::stop;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::ScreenOutput;
use crate::values::sizes::count;
use alluvium_aging::measure::layout::{StaticLayout, read_tree};
use alluvium_aging::measure::picture::{draw, spans_by_file};
use anyhow::{Context as _, Result};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  alluvium aging layout ~/src
  alluvium aging layout big.img --svg big.svg

The scores are 1 for perfect layouts. That of files counts blocks that follow their predecessor in the file; that of the tree also counts \
the first block of a file, in the order in which `grep -r` reads the files. Btrfs reports addresses of its volume instead of the device.";

/// Show the layout score, the degree of fragmentation and the extents of a file or a tree.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct LayoutCommand {
    /// A file or a directory.
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Draw the extents into an SVG file: address to the right, files upwards.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

impl LayoutCommand {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let files = read_tree(&self.path, &stop::asked)
            .map_err(told)?
            .ok_or_else(|| {
                let text = format!(
                    "the file system of {} does not report extents (FIEMAP): use `alluvium aging dls` there",
                    self.path.display()
                );
                failure(CommandExit::Failed, text)
            })?;
        let layout = StaticLayout::of(&files);
        if let Some(path) = &self.svg {
            let title = format!("blocks of {}", self.path.display());
            let svg = draw(&title, "file", &spans_by_file(&files)).map_err(told)?;
            std::fs::write(path, svg).with_context(|| format!("writing {}", path.display()))?;
        }
        let mut out = ScreenOutput::new();
        if context.is_json() {
            out.json(&serde_json::json!({
                "files": layout.files,
                "extents": layout.extents,
                "ideal_extents": layout.ideal_extents,
                "layout_score": layout.layout_score,
                "tree_score": layout.tree_score,
                "degree_of_fragmentation": layout.degree_of_fragmentation(),
                "extents_per_file": layout.extents_per_file(),
            }))?;
        } else {
            out.line(&format!(
                "layout score {}, of the tree {}",
                figure(layout.layout_score, 4),
                figure(layout.tree_score, 4)
            ))?;
            out.line(&format!(
                "degree of fragmentation {}: {} extents, ideal {}",
                figure(layout.degree_of_fragmentation(), 3),
                count(layout.extents),
                count(layout.ideal_extents)
            ))?;
            out.line(&format!(
                "{} files with blocks, {} extents each",
                count(layout.files),
                figure(layout.extents_per_file(), 3)
            ))?;
        }
        out.flush()?;
        Ok(CommandExit::Done)
    }
}
