//! `alluvium-lab features`: the features of the systems of Spillane (2012), and those of Alluvium.

use super::LabContext;
use alluvium_cli::kit::{CommandExit, ScreenOutput};
use alluvium_lab::features::{self, COLUMNS, OURS, PUBLISHED};
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::io::Write;

/// The matrix of features, with the test that proves each of ours.
#[derive(Args, Debug)]
pub(crate) struct LabFeaturesCommand {}

impl LabFeaturesCommand {
    pub(super) fn run(&self, context: &LabContext) -> Result<CommandExit> {
        let mut out = ScreenOutput::new();
        if context.json {
            let published: Vec<_> = PUBLISHED
                .iter()
                .map(|system| json!({ "name": system.name, "features": system.features }))
                .collect();
            let ours: Vec<_> = COLUMNS
                .iter()
                .zip(OURS)
                .map(|(column, feature)| {
                    json!({ "column": column, "value": feature.value, "file": feature.file, "test": feature.test })
                })
                .collect();
            out.json(&json!({ "columns": COLUMNS, "published": published, "ours": ours }))?;
        } else {
            out.write_all(features::page().as_bytes())?;
        }
        out.flush()?;
        Ok(CommandExit::Done)
    }
}
