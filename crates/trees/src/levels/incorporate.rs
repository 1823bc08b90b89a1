//! Incorporation: the share of a memtable becomes the newest run of level 0.

use super::Levels;
use super::policy;
use super::state::Written;
use crate::maplet::Maplet;
use crate::taking::Taking;
use alluvium_base::Purpose;
use alluvium_base::Sequence;
use alluvium_dictionary::contract::{Incorporate, Progress};
use alluvium_dictionary::merge::Older;
use alluvium_dictionary::placement::{self, Demand};
use alluvium_dictionary::share::Share;
use alluvium_storage::extents::Class;
use alluvium_storage::{Error, Result};
use std::sync::Arc;

/// A share of a memtable that is being written into a structure. Dropped before it is published, it
/// leaves no trace.
#[derive(Debug)]
pub struct Incorporation {
    levels: Levels,
    cut: Sequence,
    class: Class,
    taken: usize,
    state: State,
}

/// The state of an incorporation.
#[derive(Debug)]
enum State {
    Taking(Box<Taking>),
    /// The whole share is written; `None` if it was empty.
    Taken(Option<Box<Written>>),
    Published,
    /// It failed or was aborted: only the memtable has the messages.
    Broken,
}

impl Incorporation {
    pub(super) fn new(levels: &Levels, share: Share, class: Class) -> Result<Incorporation> {
        let shared = &levels.shared;
        let version = levels.version();
        debug_assert!(share.cut >= version.stamp.cut, "shares come in commit order");
        let cut = share.cut;
        let tier = levels.incoming_tier(share.memtable.bytes() as u64);
        let options = shared.options.run(Purpose::Incorporate, class, tier);
        let taking = Taking::new(
            &shared.home.store,
            &options,
            &shared.home.schema,
            shared.home.horizon.rule(Older::Elsewhere),
            share,
            |range| version.touches(range),
        )?;
        Ok(Incorporation {
            levels: levels.clone(),
            cut,
            class,
            taken: 0,
            state: State::Taking(Box::new(taking)),
        })
    }

    fn go_on(&mut self, records: usize) -> Result<Progress> {
        let mut taking = match std::mem::replace(&mut self.state, State::Broken) {
            State::Taking(taking) => taking,
            State::Broken => return Err(broken()),
            done => {
                self.state = done;
                return Ok(Progress::Done);
            }
        };
        let progress = taking.go_on(records)?;
        self.taken = taking.taken();
        if progress == Progress::More {
            self.state = State::Taking(taking);
            return Ok(Progress::More);
        }
        let built = taking.finish()?;
        let written = built.map(|mut built| {
            let shared = &self.levels.shared;
            let hashes = std::mem::take(&mut built.hashes);
            let spec = shared
                .options
                .maplet(Purpose::Incorporate, self.class, self.levels.incoming_tier(0));
            match Maplet::build(&shared.home.store, &spec, hashes, 0) {
                Ok(maplet) => Ok(Box::new(Written { built, maplet })),
                Err(error) => {
                    built.abandon(&shared.home.store);
                    Err(error)
                }
            }
        });
        self.state = State::Taken(written.transpose()?);
        Ok(Progress::Done)
    }
}

impl Levels {
    /// Returns the tier for `bytes` of incoming data, and for every filter.
    pub(super) fn incoming_tier(&self, bytes: u64) -> u8 {
        let demand = Demand::newest(bytes);
        placement::tier(&self.shared.home.store, &demand)
    }

    /// Returns the tier for `bytes` that a merge writes into a level.
    pub(super) fn tier(&self, level: usize, bytes: u64) -> u8 {
        let store = &self.shared.home.store;
        if store.tiers().count() == 1 {
            return 0;
        }
        let (spaces, all_bytes) = store.tier_space();
        match policy::tier(&self.shared.options.policy, level) {
            Some(tier) => {
                let demand = Demand::older(0, bytes);
                placement::choose_from(&spaces, usize::from(tier), &demand)
            }
            None => {
                let version = self.version();
                let (newer, all) = version.bytes_through(level);
                placement::choose(&spaces, &Demand::of_share(newer, all, all_bytes, bytes))
            }
        }
    }
}

impl Incorporate for Incorporation {
    fn poll(&mut self, records: usize) -> Result<Progress> {
        let result = self.go_on(records);
        self.levels.judge(result)
    }

    fn publish(&mut self) -> Result<()> {
        let written = match std::mem::replace(&mut self.state, State::Broken) {
            State::Taken(written) => written,
            State::Published => {
                self.state = State::Published;
                return Ok(());
            }
            State::Broken => return Err(broken()),
            State::Taking(_) => unreachable!("it is published once all of it was taken"),
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
        self.state = State::Published;
        Ok(())
    }

    fn taken(&self) -> usize {
        self.taken
    }
}

impl Drop for Incorporation {
    fn drop(&mut self) {
        if let State::Taken(Some(written)) = std::mem::replace(&mut self.state, State::Broken) {
            written.abandon(&self.levels.shared.home.store);
        }
    }
}

#[cold]
fn broken() -> Error {
    let cause = "writing a memtable out was broken off on its way into its levels".to_owned();
    Error::Poisoned { cause }
}
