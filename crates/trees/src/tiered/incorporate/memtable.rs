//! Flushes a sealed memtable: writes a run and its maplet, and adds them to the root as its newest
//! bundle.

use crate::maplet::{self, Maplet};
use crate::memtable_flush::MemtableRunWriter;
use crate::run::BuiltRun;
use crate::tiered::trunk::{MapletGroup, NodeRank, RootFilter, Trunk, TrunkPart};
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::contract::StepProgress;
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::merge::OlderData;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The flush of one memtable. Dropping it before it is finished discards its output.
#[derive(Debug)]
pub struct TreeIncorporation {
    trunk: Arc<Trunk>,
    /// The sequence number up to which the tree contains every commit once this flush is published.
    cut: SequenceNumber,
    class: AllocationClass,
    taking: Option<MemtableRunWriter>,
    taken: usize,
    state: FlushState,
}

/// The progress of a flush.
#[derive(Debug)]
enum FlushState {
    Writing,
    /// All messages have been written, and the run is ready to be published. `None` if there were
    /// no messages.
    Complete(Option<Box<ProvisionalBundle>>),
    /// The messages are visible in the tree.
    Published,
    /// The flush failed while it was publishing its result.
    Broken,
}

/// A run and its maplet that have been written but are not in the tree yet.
#[derive(Debug)]
struct ProvisionalBundle {
    built: BuiltRun,
    written: maplet::WrittenMaplet,
    digest: Option<Arc<RootFilter>>,
}

impl TreeIncorporation {
    /// Starts to flush a slice of a sealed memtable. The slice must contain every commit after the
    /// previously flushed memtable, up to and including the sequence number `share.cut`.
    ///
    /// # Errors
    /// An error if the disk is full; I/O errors.
    pub(crate) fn new(
        trunk: &Arc<Trunk>,
        share: MemtableSlice,
        class: AllocationClass,
    ) -> Result<TreeIncorporation> {
        debug_assert!(
            share.cut >= trunk.peek().stamp.cut,
            "a memtable up to {} is newer than the tree (T1)",
            share.cut
        );
        let rule = trunk.horizon.rule(OlderData::Elsewhere);
        let tier = trunk.incoming_tier(share.memtable.bytes() as u64);
        let options = trunk.run_options(Purpose::Incorporate, class, tier);
        let (store, schema) = (&trunk.store, &trunk.options.schema);
        let cut = share.cut;
        let root = &trunk.peek().root;
        let touches = |range: &KeyRange| root.touches(range);
        let taking = MemtableRunWriter::new(store, &options, schema, rule, share, touches)?;
        Ok(TreeIncorporation {
            trunk: Arc::clone(trunk),
            cut,
            class,
            taking: Some(taking),
            taken: 0,
            state: FlushState::Writing,
        })
    }

    /// Runs one slice of the flush, which processes about `records` records. After it has returned
    /// `StepProgress::Done`, the tree contains all messages, and the memtable may be dropped.
    ///
    /// # Errors
    /// [`Error::Full`] or I/O errors. The tree is unchanged, and the caller must start a new flush.
    pub fn poll(&mut self, records: usize) -> Result<StepProgress> {
        if self.take(records)? == StepProgress::More {
            return Ok(StepProgress::More);
        }
        self.publish()?;
        Ok(StepProgress::Done)
    }

    /// Like [`TreeIncorporation::poll`], but does not publish the messages. Once this returns
    /// `StepProgress::Done`, the caller must call [`TreeIncorporation::publish`].
    ///
    /// # Errors
    /// See [`TreeIncorporation::poll`].
    pub fn take(&mut self, records: usize) -> Result<StepProgress> {
        if !matches!(self.state, FlushState::Writing) {
            return Ok(StepProgress::Done);
        }
        let result = self.go_on(records);
        self.trunk.poison_on_error(result)
    }

    /// Publishes the messages in the tree. All of them must have been written before.
    ///
    /// # Errors
    /// See [`TreeIncorporation::poll`].
    ///
    /// # Panics
    /// If not all messages have been written.
    pub fn publish(&mut self) -> Result<()> {
        let result = self.install();
        self.trunk.poison_on_error(result)
    }

    /// Returns the number of messages read from the memtable so far.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken
    }

    fn go_on(&mut self, records: usize) -> Result<StepProgress> {
        let Some(taking) = &mut self.taking else {
            return Err(broken());
        };
        let progress = taking.go_on(records);
        self.taken = taking.taken();
        if progress? == StepProgress::More {
            return Ok(StepProgress::More);
        }
        let bundle = self.finish()?;
        self.state = FlushState::Complete(bundle.map(Box::new));
        Ok(StepProgress::Done)
    }

    /// Completes the run and its maplet. Returns `None` if the slice contains no messages.
    fn finish(&mut self) -> Result<Option<ProvisionalBundle>> {
        let trunk = &self.trunk;
        let taking = self.taking.take().expect("it is finished once");
        let Some(mut built) = taking.finish()? else {
            return Ok(None);
        };
        let hashes = std::mem::take(&mut built.hashes);
        let digest = trunk.peek().digest.clone();
        let digest = digest.filter(|digest| digest.add_hashes(&hashes));
        let tier = trunk.incoming_tier(0);
        let spec = trunk.maplet_spec(Purpose::Incorporate, self.class, tier);
        match Maplet::build(&trunk.store, &spec, hashes, 0) {
            Ok(written) => Ok(Some(ProvisionalBundle {
                built,
                written,
                digest,
            })),
            Err(error) => {
                built.abandon(&trunk.store);
                Err(error)
            }
        }
    }

    fn install(&mut self) -> Result<()> {
        // Mark the flush as broken first: after an error or a panic before publication, only the
        // memtable contains the messages.
        let bundle = match std::mem::replace(&mut self.state, FlushState::Broken) {
            FlushState::Complete(bundle) => bundle,
            FlushState::Published => {
                self.state = FlushState::Published;
                return Ok(());
            }
            FlushState::Broken => return Err(broken()),
            FlushState::Writing => unreachable!("it is published once all of it was taken"),
        };
        let (trunk, cut) = (&self.trunk, self.cut);
        let Some(bundle) = bundle else {
            trunk.change(Some(cut), |_, _, root| Ok(Some(root.draft())))?;
            self.state = FlushState::Published;
            return Ok(());
        };
        let ProvisionalBundle {
            built,
            written,
            digest,
        } = *bundle;
        let bytes = built.run.summary().bytes + written.maplet.bytes();
        let group = MapletGroup::new(
            trunk.next_group(),
            [Some(built.run.clone())],
            written.maplet.clone(),
        );
        let number = group.id;
        let part = TrunkPart {
            group: Arc::new(group),
            clip: None,
        };
        let changed = trunk.change(Some(cut), |state, shaper, root| {
            let received = shaper.receive(root, vec![part])?;
            let nodes = shaper.flush_and_split(received, NodeRank::Root)?;
            // Nothing can fail after this point. The extents join the generation that is being
            // built.
            trunk.install_extents(&built.run, &built.extents, &written.extents);
            if let Some(digest) = &digest {
                state.cover(digest, number);
            }
            Ok(Some(shaper.add_root_levels(nodes)))
        });
        if let Err(error) = changed {
            built.abandon(&trunk.store);
            written.abandon(&trunk.store);
            return Err(error);
        }
        self.state = FlushState::Published;
        let tallies = &trunk.tallies;
        tallies.incorporations.fetch_add(1, Ordering::Relaxed);
        tallies.incorporated_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for TreeIncorporation {
    fn drop(&mut self) {
        if let FlushState::Complete(Some(bundle)) = std::mem::replace(&mut self.state, FlushState::Broken) {
            let store = &self.trunk.store;
            bundle.built.abandon(store);
            bundle.written.abandon(store);
        }
    }
}

#[cold]
fn broken() -> Error {
    let cause = "writing a memtable into the tree was interrupted".to_owned();
    Error::Poisoned { cause }
}
