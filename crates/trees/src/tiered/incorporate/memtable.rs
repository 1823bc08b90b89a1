//! A sealed memtable becomes a run with its maplet, and the newest bundle of the root.

use crate::maplet::{self, Maplet};
use crate::run::{Builder, Built};
use crate::tiered::trunk::{Digest, Group, Part, Rank, Trunk};
use alluvium_base::Purpose;
use alluvium_base::message::LAST;
use alluvium_dictionary::contract::Progress;
use alluvium_dictionary::merge::{Folder, Older, Rule};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::record::{Record, Value};
use alluvium_dictionary::rules::Keyspace;
use alluvium_dictionary::share::Share;
use alluvium_storage::extents::Class;
use alluvium_storage::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The writing out of one memtable. Dropped unfinished, it leaves nothing behind.
#[derive(Debug)]
pub struct Incorporation {
    trunk: Arc<Trunk>,
    share: Share,
    rule: Rule,
    class: Class,
    builder: Option<Builder>,
    keyspace: Keyspace,
    /// The last key that was taken; none before the first.
    last: Option<Vec<u8>>,
    taken: usize,
    state: State,
}

/// How far an incorporation has come.
#[derive(Debug)]
enum State {
    /// Messages are being taken.
    Taking,
    /// All of them are written, if there were any: they can be published.
    Taken(Option<Box<Bundle>>),
    /// The tree has them.
    Published,
    /// It was broken off on its way into the tree.
    Broken,
}

/// A run and its maplet, which the tree does not have yet.
#[derive(Debug)]
struct Bundle {
    built: Built,
    written: maplet::Written,
    digest: Option<Arc<Digest>>,
}

impl Incorporation {
    /// Begins to write out a share of a sealed memtable, which holds every commit after the last
    /// one's cut up to its own.
    ///
    /// # Errors
    /// As [`Builder::new`].
    pub(crate) fn new(trunk: &Arc<Trunk>, share: Share, class: Class) -> Result<Incorporation> {
        debug_assert!(
            share.cut >= trunk.peek().cut,
            "a memtable up to {} is newer than the tree (T1)",
            share.cut
        );
        let rule = trunk.horizon.rule(Older::Elsewhere);
        let options = trunk.run_options(Purpose::Incorporate, class);
        let mut builder = Builder::new(&trunk.store, &options)?;
        if share.memtable.has_range_deletes() {
            let mut deletes = share.memtable.range_deletes();
            // The tree holds nothing as new as the memtable's oldest message, and the records that
            // follow were not deleted.
            deletes.level(rule.horizon);
            deletes.fold(&[rule.horizon]);
            let root = &trunk.peek().root;
            // Where the tree has nothing, a delete that every reader sees has nothing left to
            // delete (G4).
            deletes.retain(|start, end, sequence| {
                share.contains(start)
                    && (sequence > rule.horizon || root.touches(&KeyRange::new(start, Some(end))))
            });
            builder.delete_ranges(Arc::new(deletes.finish()));
        }
        Ok(Incorporation {
            trunk: Arc::clone(trunk),
            share,
            rule,
            class,
            builder: Some(builder),
            keyspace: Keyspace::new(&trunk.options.schema),
            last: None,
            taken: 0,
            state: State::Taking,
        })
    }

    /// Does a slice of the work: about `records` records. With the last one the memtable's messages
    /// are in the tree, and it may be dropped.
    ///
    /// # Errors
    /// [`Error::Full`](alluvium_storage::Error::Full), and as the device says: nothing has changed
    /// then, and the caller starts again.
    pub fn poll(&mut self, records: usize) -> Result<Progress> {
        if self.take(records)? == Progress::More {
            return Ok(Progress::More);
        }
        self.publish()?;
        Ok(Progress::Done)
    }

    /// As [`Incorporation::poll`], but leaves what was taken to [`Incorporation::publish`].
    ///
    /// # Errors
    /// As [`Incorporation::poll`].
    pub fn take(&mut self, records: usize) -> Result<Progress> {
        if !matches!(self.state, State::Taking) {
            return Ok(Progress::Done);
        }
        let result = self.go_on(records);
        self.trunk.judge(result)
    }

    /// The memtable's messages, all of which were taken, are in the tree from now on.
    ///
    /// # Errors
    /// As [`Incorporation::poll`].
    ///
    /// # Panics
    /// Before all of them were taken.
    pub fn publish(&mut self) -> Result<()> {
        let result = self.install();
        self.trunk.judge(result)
    }

    /// How many of the memtable's messages were taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken
    }

    fn go_on(&mut self, records: usize) -> Result<Progress> {
        let Some(builder) = &mut self.builder else {
            return Err(broken());
        };
        let share = &self.share;
        let mut cursor = match &self.last {
            None => share.first(),
            Some(last) => share.behind(last),
        };
        let until = self.taken.saturating_add(records);
        while let Some(key) = cursor.key() {
            if self.taken >= until {
                return Ok(Progress::More);
            }
            let memtable = &share.memtable;
            let deleted = |reader| memtable.range_deleted(key, reader);
            if let Some(rules) = self.keyspace.enter(key) {
                builder.begin_keyspace(rules.codec, rules.value_threshold)?;
            }
            let mut folder = Folder::new(&self.rule, self.keyspace.rules().operator.as_deref());
            let mut pushed = Ok(());
            folder.fold(cursor.versions(LAST), deleted, |folded| {
                if pushed.is_ok() {
                    let record = Record {
                        sequence: folded.sequence,
                        kind: folded.kind,
                        expires_ms: folded.expires_ms,
                        value: Value::Inline(folded.operand),
                    };
                    pushed = builder.push(key, record);
                }
            });
            pushed?;
            self.taken += cursor.versions(LAST).count();
            let last = self.last.get_or_insert_with(Vec::new);
            debug_assert!(last.is_empty() || &last[..] < key, "keys ascend");
            last.clear();
            last.extend_from_slice(key);
            share.next(&mut cursor);
        }
        let bundle = self.finish()?;
        self.state = State::Taken(bundle.map(Box::new));
        Ok(Progress::Done)
    }

    /// Writes what is left of the run, and its maplet; none of a share without messages.
    fn finish(&mut self) -> Result<Option<Bundle>> {
        let trunk = &self.trunk;
        let builder = self.builder.take().expect("it is finished once");
        let Some(mut built) = builder.finish()? else {
            return Ok(None);
        };
        let hashes = std::mem::take(&mut built.hashes);
        let digest = trunk.peek().digest.clone();
        let digest = digest.filter(|digest| digest.add_hashes(&hashes));
        let spec = trunk.maplet_spec(Purpose::Incorporate, self.class);
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
        // Where an error or a panic comes before the tree has it, only the memtable has its
        // messages still.
        let bundle = match std::mem::replace(&mut self.state, State::Broken) {
            State::Taken(bundle) => bundle,
            State::Published => {
                self.state = State::Published;
                return Ok(());
            }
            State::Broken => return Err(broken()),
            State::Taking => unreachable!("it is published once all of it was taken"),
        };
        let (trunk, cut) = (&self.trunk, self.share.cut);
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
            // Nothing can fail any more: what was written becomes part of the generation being
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
