//! Flush of a sealed memtable: writes a run with its maplet, and adds it as the newest bundle of
//! the root.

use crate::maplet::{self, Maplet};
use crate::run::Built;
use crate::taking::Taking;
use crate::tiered::trunk::{Digest, Group, Part, Rank, Trunk};
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::contract::Progress;
use alluvium_dictionary::merge::Older;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::share::Share;
use alluvium_storage::extents::Class;
use alluvium_storage::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The flush of one memtable. Dropping it unfinished discards its output.
#[derive(Debug)]
pub struct Incorporation {
    trunk: Arc<Trunk>,
    /// The cut of the share.
    cut: Sequence,
    class: Class,
    taking: Option<Taking>,
    taken: usize,
    state: State,
}

/// The progress of an incorporation.
#[derive(Debug)]
enum State {
    /// Messages are being read.
    Taking,
    /// All messages are written and ready to be published. `None` if there were none.
    Taken(Option<Box<Bundle>>),
    /// The messages are visible in the tree.
    Published,
    /// The incorporation failed while it was being published.
    Broken,
}

/// A run and its maplet that are not in the tree yet.
#[derive(Debug)]
struct Bundle {
    built: Built,
    written: maplet::Written,
    digest: Option<Arc<Digest>>,
}

impl Incorporation {
    /// Starts to flush a share of a sealed memtable, which contains every commit after the cut of
    /// the previous memtable up to its own cut.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    pub(crate) fn new(trunk: &Arc<Trunk>, share: Share, class: Class) -> Result<Incorporation> {
        debug_assert!(
            share.cut >= trunk.peek().stamp.cut,
            "a memtable up to {} is newer than the tree (T1)",
            share.cut
        );
        let rule = trunk.horizon.rule(Older::Elsewhere);
        let tier = trunk.incoming_tier(share.memtable.bytes() as u64);
        let options = trunk.run_options(Purpose::Incorporate, class, tier);
        let (store, schema) = (&trunk.store, &trunk.options.schema);
        let cut = share.cut;
        let root = &trunk.peek().root;
        let touches = |range: &KeyRange| root.touches(range);
        let taking = Taking::new(store, &options, schema, rule, share, touches)?;
        Ok(Incorporation {
            trunk: Arc::clone(trunk),
            cut,
            class,
            taking: Some(taking),
            taken: 0,
            state: State::Taking,
        })
    }

    /// Runs a slice of the work: about `records` records. When it returns `Progress::Done`, the
    /// tree contains the messages, and the memtable may be dropped.
    ///
    /// # Errors
    /// [`Error::Full`](alluvium_storage::Error::Full), and I/O errors. The tree is unchanged, and
    /// the caller must start again.
    pub fn poll(&mut self, records: usize) -> Result<Progress> {
        if self.take(records)? == Progress::More {
            return Ok(Progress::More);
        }
        self.publish()?;
        Ok(Progress::Done)
    }

    /// Like [`Incorporation::poll`], without the publication, which is left to
    /// [`Incorporation::publish`].
    ///
    /// # Errors
    /// See [`Incorporation::poll`].
    pub fn take(&mut self, records: usize) -> Result<Progress> {
        if !matches!(self.state, State::Taking) {
            return Ok(Progress::Done);
        }
        let result = self.go_on(records);
        self.trunk.judge(result)
    }

    /// Publishes the messages in the tree, after all of them were read.
    ///
    /// # Errors
    /// See [`Incorporation::poll`].
    ///
    /// # Panics
    /// If messages are left to read.
    pub fn publish(&mut self) -> Result<()> {
        let result = self.install();
        self.trunk.judge(result)
    }

    /// Returns the number of messages read so far.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken
    }

    fn go_on(&mut self, records: usize) -> Result<Progress> {
        let Some(taking) = &mut self.taking else {
            return Err(broken());
        };
        let progress = taking.go_on(records);
        self.taken = taking.taken();
        if progress? == Progress::More {
            return Ok(Progress::More);
        }
        let bundle = self.finish()?;
        self.state = State::Taken(bundle.map(Box::new));
        Ok(Progress::Done)
    }

    /// Completes the run and its maplet. `None` for a share without messages.
    fn finish(&mut self) -> Result<Option<Bundle>> {
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
            Ok(written) => Ok(Some(Bundle {
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
        // After an error or a panic before publication, only the memtable contains its messages.
        let bundle = match std::mem::replace(&mut self.state, State::Broken) {
            State::Taken(bundle) => bundle,
            State::Published => {
                self.state = State::Published;
                return Ok(());
            }
            State::Broken => return Err(broken()),
            State::Taking => unreachable!("it is published once all of it was taken"),
        };
        let (trunk, cut) = (&self.trunk, self.cut);
        let Some(bundle) = bundle else {
            trunk.change(Some(cut), |_, _, root| Ok(Some(root.draft())))?;
            self.state = State::Published;
            return Ok(());
        };
        let Bundle {
            built,
            written,
            digest,
        } = *bundle;
        let bytes = built.run.summary().bytes + written.maplet.bytes();
        let group = Group::new(
            trunk.next_group(),
            [Some(built.run.clone())],
            written.maplet.clone(),
        );
        let number = group.id;
        let part = Part {
            group: Arc::new(group),
            clip: None,
        };
        let changed = trunk.change(Some(cut), |state, shaper, root| {
            let received = shaper.receive(root, vec![part])?;
            let nodes = shaper.settle(received, Rank::Root)?;
            // No operation can fail from here on. The extents become part of the generation being
            // built.
            trunk.install_extents(&built.run, &built.extents, &written.extents);
            if let Some(digest) = &digest {
                state.cover(digest, number);
            }
            Ok(Some(shaper.crown(nodes)))
        });
        if let Err(error) = changed {
            built.abandon(&trunk.store);
            written.abandon(&trunk.store);
            return Err(error);
        }
        self.state = State::Published;
        let tallies = &trunk.tallies;
        tallies.incorporations.fetch_add(1, Ordering::Relaxed);
        tallies.incorporated_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Incorporation {
    fn drop(&mut self) {
        if let State::Taken(Some(bundle)) = std::mem::replace(&mut self.state, State::Broken) {
            let store = &self.trunk.store;
            bundle.built.abandon(store);
            bundle.written.abandon(store);
        }
    }
}

#[cold]
fn broken() -> Error {
    let cause = "writing a memtable out was broken off on its way into the tree".to_owned();
    Error::Poisoned { cause }
}
