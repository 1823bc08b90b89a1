//! Flushes slices of memtables. Each becomes the newest run of level 0.

use super::LevelsDictionary;
use super::policy;
use super::state::ProvisionalRun;
use crate::maplet::Maplet;
use crate::memtable_flush::MemtableRunWriter;
use alluvium_base::Purpose;
use alluvium_base::SequenceNumber;
use alluvium_dictionary::contract::{MemtableIncorporation, StepProgress};
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::merge::OlderData;
use alluvium_dictionary::placement::{self, PlacementRequest};
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::{Error, Result};
use std::sync::Arc;

/// The flush of a memtable slice to an LSM tree. Dropping it before it is published frees
/// everything that it has written.
#[derive(Debug)]
pub struct LevelsIncorporation {
    levels: LevelsDictionary,
    cut: SequenceNumber,
    class: AllocationClass,
    taken: usize,
    state: IncorporationState,
}

/// The state of a memtable slice's flush.
#[derive(Debug)]
enum IncorporationState {
    Writing(Box<MemtableRunWriter>),
    /// The whole slice has been written; `None` if it had no messages.
    Complete(Option<Box<ProvisionalRun>>),
    Published,
    /// The flush has failed or was aborted, so only the memtable has the messages.
    Broken,
}

impl LevelsIncorporation {
    pub(super) fn new(
        levels: &LevelsDictionary,
        share: MemtableSlice,
        class: AllocationClass,
    ) -> Result<LevelsIncorporation> {
        let shared = &levels.shared;
        let version = levels.version();
        debug_assert!(share.cut >= version.stamp.cut, "shares come in commit order");
        let cut = share.cut;
        let tier = levels.incoming_tier(share.memtable.bytes() as u64);
        let options = shared.options.run(Purpose::Incorporate, class, tier);
        let taking = MemtableRunWriter::new(
            &shared.home.store,
            &options,
            &shared.home.schema,
            shared.home.horizon.rule(OlderData::Elsewhere),
            share,
            |range| version.touches(range),
        )?;
        Ok(LevelsIncorporation {
            levels: levels.clone(),
            cut,
            class,
            taken: 0,
            state: IncorporationState::Writing(Box::new(taking)),
        })
    }

    fn go_on(&mut self, records: usize) -> Result<StepProgress> {
        let mut taking = match std::mem::replace(&mut self.state, IncorporationState::Broken) {
            IncorporationState::Writing(taking) => taking,
            IncorporationState::Broken => return Err(broken()),
            done => {
                self.state = done;
                return Ok(StepProgress::Done);
            }
        };
        let progress = taking.go_on(records)?;
        self.taken = taking.taken();
        if progress == StepProgress::More {
            self.state = IncorporationState::Writing(taking);
            return Ok(StepProgress::More);
        }
        let built = taking.finish()?;
        let written = built.map(|mut built| {
            let shared = &self.levels.shared;
            let hashes = std::mem::take(&mut built.hashes);
            let spec = shared
                .options
                .maplet(Purpose::Incorporate, self.class, self.levels.incoming_tier(0));
            match Maplet::build(&shared.home.store, &spec, hashes, 0) {
                Ok(maplet) => Ok(Box::new(ProvisionalRun { built, maplet })),
                Err(error) => {
                    built.abandon(&shared.home.store);
                    Err(error)
                }
            }
        });
        self.state = IncorporationState::Complete(written.transpose()?);
        Ok(StepProgress::Done)
    }
}

impl LevelsDictionary {
    /// Returns the storage tier for `bytes` bytes of new data. For a filter, `bytes` is 0, because
    /// it is stored on the preferred tier for new data whatever its size.
    pub(super) fn incoming_tier(&self, bytes: u64) -> u8 {
        let demand = PlacementRequest::newest(bytes);
        placement::tier(&self.shared.home.store, &demand)
    }

    /// Returns the storage tier for a run of `bytes` bytes that a merge adds to `level`.
    pub(super) fn tier(&self, level: usize, bytes: u64) -> u8 {
        let store = &self.shared.home.store;
        if store.tiers().count() == 1 {
            return 0;
        }
        let (spaces, all_bytes) = store.tier_space();
        match policy::tier(&self.shared.options.policy, level) {
            Some(tier) => {
                let demand = PlacementRequest::older(0, bytes);
                placement::choose_from(&spaces, usize::from(tier), &demand)
            }
            None => {
                let version = self.version();
                let (newer, all) = version.bytes_through(level);
                placement::choose(&spaces, &PlacementRequest::of_share(newer, all, all_bytes, bytes))
            }
        }
    }
}

impl MemtableIncorporation for LevelsIncorporation {
    fn poll(&mut self, records: usize) -> Result<StepProgress> {
        let result = self.go_on(records);
        self.levels.poison_on_error(result)
    }

    fn publish(&mut self) -> Result<()> {
        let written = match std::mem::replace(&mut self.state, IncorporationState::Broken) {
            IncorporationState::Complete(written) => written,
            IncorporationState::Published => {
                self.state = IncorporationState::Published;
                return Ok(());
            }
            IncorporationState::Broken => return Err(broken()),
            IncorporationState::Writing(_) => unreachable!("it is published once all of it was taken"),
        };
        match written {
            None => self.levels.raise(self.cut),
            Some(written) => {
                let mut kept = self.levels.shared.kept.lock();
                let version = self.levels.version();
                let age = version.next_age;
                let member = written.install(&self.levels.shared.home.store, (age, age));
                self.levels.shared.ledger.note_written(member.run.summary().bytes);
                let mut runs = version.levels.clone();
                if runs.is_empty() {
                    runs.push(Vec::new());
                }
                runs[0].push(Arc::new(member));
                self.levels.publish(&mut kept, runs, self.cut, age + 1);
            }
        }
        self.state = IncorporationState::Published;
        Ok(())
    }

    fn taken(&self) -> usize {
        self.taken
    }
}

impl Drop for LevelsIncorporation {
    fn drop(&mut self) {
        if let IncorporationState::Complete(Some(written)) =
            std::mem::replace(&mut self.state, IncorporationState::Broken)
        {
            written.abandon(&self.levels.shared.home.store);
        }
    }
}

#[cold]
fn broken() -> Error {
    let cause = "writing a memtable into its levels was interrupted".to_owned();
    Error::Poisoned { cause }
}
