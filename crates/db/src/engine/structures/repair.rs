//! Repairs damaged pages of runs, at which compactions, merges and scans would fail.

use super::DictionarySet;
use crate::error::Result;
use crate::options::kind::{DictionaryPlace, StructureKind};
use crate::schema::format;
use alluvium_dictionary::range::KeyRange;
use alluvium_hashes::hashed::HashRepairResult;
use alluvium_trees::RunRepairResult;
use alluvium_trees::tiered::LostRange;

impl DictionarySet {
    /// Rewrites damaged runs without their unreadable parts. Returns the lost key ranges and
    /// descriptions of the repairs.
    pub(in crate::engine) fn repair_runs(&self) -> Result<(Vec<LostRange>, Vec<String>)> {
        let (mut lost, mut done) = self.mend_hashed()?;
        let mut note = |mended: RunRepairResult, keyspaces: &str| {
            lost.extend(mended.lost);
            if mended.nodes > 0 {
                done.push(format!(
                    "{} unreadable leaves or index nodes of {keyspaces} were dropped, and the intact data around them was rewritten",
                    mended.nodes
                ));
            }
            if mended.values > 0 {
                done.push(format!(
                    "{} unreadable values of {keyspaces}, which are stored separately, were dropped, and the intact data around them was rewritten",
                    mended.values
                ));
            }
            if mended.filters > 0 {
                done.push(format!(
                    "{} filters of runs of {keyspaces} were rewritten with their runs",
                    mended.filters
                ));
            }
            if let Some(why) = mended.left {
                done.push(format!(
                    "damaged pages of {keyspaces} remain, because the intact data around them could not be rewritten: {why}"
                ));
            }
        };
        note(self.tree.repair()?, "the tree");
        for (_, levels) in self.levels.all() {
            note(levels.repair()?, "keyspaces in levels");
        }
        Ok((lost, done))
    }

    /// Like [`DictionarySet::repair_runs`], but only for the hashed structures.
    fn mend_hashed(&self) -> Result<(Vec<LostRange>, Vec<String>)> {
        let (mut lost, mut done) = (Vec::new(), Vec::new());
        for (number, hashed) in self.hashed.all() {
            let structure = StructureKind::Hashed;
            let place = DictionaryPlace { structure, number };
            self.note_mended(place, hashed.repair()?, &mut lost, &mut done);
        }
        Ok((lost, done))
    }

    /// Adds what the repair of a hashed structure lost to `lost`, and what it did to `done`.
    fn note_mended(
        &self,
        place: DictionaryPlace,
        mended: HashRepairResult,
        lost: &mut Vec<LostRange>,
        done: &mut Vec<String>,
    ) {
        let placed = self.placed.read();
        let hashed = placed.iter().filter(|(_, of)| **of == place);
        for gone in mended.gone {
            let what = gone.what;
            match gone.key {
                Some(key) => {
                    let behind = [&key[..], &[0]].concat();
                    let range = KeyRange::new(&key, Some(&behind));
                    lost.push(LostRange { range, what });
                }
                // A hash does not identify a keyspace, so each of the structure's keyspaces may
                // have lost data.
                None => lost.extend(hashed.clone().map(|(&keyspace, _)| LostRange {
                    range: KeyRange::new(&format::prefix(keyspace), Some(&format::prefix(keyspace + 1))),
                    what: what.clone(),
                })),
            }
        }
        if mended.runs > 0 {
            done.push(format!(
                "{} runs of hashed keyspaces were rewritten without their unreadable parts",
                mended.runs
            ));
        }
        if mended.filters > 0 {
            done.push(format!(
                "{} routing filters of hashed keyspaces were dropped; until merges write them again, lookups read all runs of their levels, or below their nodes",
                mended.filters
            ));
        }
        if let Some(why) = mended.left {
            done.push(format!(
                "damaged pages of hashed keyspaces remain, because the intact parts of their runs could not be rewritten: {why}"
            ));
        }
    }
}
