//! A sealed memtable becomes a run with its maplet, and the newest bundle of the root.

use super::compact::Progress;
use super::node::{Group, Part};
use super::shape::Rank;
use super::tree::Tree;
use crate::maplet::Maplet;
use crate::run::Builder;
use alluvium_base::message::LAST;
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::merge::{Folder, Older, Rule};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::record::{Record, Value};
use alluvium_dictionary::rules::Keyspace;
use alluvium_storage::extents::Class;
use alluvium_storage::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The writing out of one memtable. Dropped unfinished, it leaves nothing behind.
#[derive(Debug)]
pub struct Incorporation {
    tree: Tree,
    memtable: Arc<Memtable>,
    cut: Sequence,
    rule: Rule,
    class: Class,
    builder: Option<Builder>,
    keyspace: Keyspace,
    /// The last key that was taken; none before the first.
    last: Option<Vec<u8>>,
    taken: usize,
    is_installed: bool,
}

impl Tree {
    /// Begins to write out a sealed memtable, which holds every commit after the last one's cut up to `cut`. Memtables are
    /// incorporated in their order. `class` says whether it may use the reserve: it does when it holds deletes only.
    ///
    /// # Errors
    /// As [`Builder::new`].
    pub fn incorporate(&self, memtable: Arc<Memtable>, cut: Sequence, class: Class) -> Result<Incorporation> {
        let rule = self.shared.horizon.rule(Older::Elsewhere);
        let options = self.run_options(Purpose::Incorporate, class);
        let mut builder = Builder::new(&self.shared.store, &options)?;
        if memtable.has_range_deletes() {
            let mut deletes = memtable.range_deletes();
            // The tree holds nothing as new as the memtable's oldest message, and the records that follow were not deleted.
            deletes.level(rule.horizon);
            deletes.fold(&[rule.horizon]);
            let root = &self.peek().root;
            // Where the tree has nothing, a delete that every reader sees has nothing left to delete (G4).
            deletes.retain(|start, end, sequence| {
                sequence > rule.horizon || root.touches(&KeyRange::new(start, Some(end)))
            });
            builder.delete_ranges(Arc::new(deletes.finish()));
        }
        Ok(Incorporation {
            tree: self.clone(),
            memtable,
            cut,
            rule,
            class,
            builder: Some(builder),
            keyspace: Keyspace::new(&self.shared.options.schema),
            last: None,
            taken: 0,
            is_installed: false,
        })
    }
}

impl Incorporation {
    /// A slice of the work: about so many records. With the last one the memtable's messages are in the tree, and it may be
    /// dropped.
    ///
    /// # Errors
    /// [`Error::Full`](alluvium_storage::Error::Full), and as the device says: nothing has changed then, and it must begin anew.
    pub fn poll(&mut self, records: usize) -> Result<Progress> {
        let result = self.go_on(records);
        self.tree.judge(result)
    }

    /// How many of the memtable's messages were taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken
    }

    fn go_on(&mut self, records: usize) -> Result<Progress> {
        if self.is_installed {
            return Ok(Progress::Done);
        }
        let Some(builder) = &mut self.builder else {
            // It was taken, and an error or a panic came before the tree had it: only the memtable has its messages still.
            let cause = "writing a memtable out was broken off on its way into the tree".to_owned();
            return Err(Error::Poisoned { cause });
        };
        let mut cursor = self.memtable.cursor();
        match &self.last {
            None => cursor.first(),
            Some(last) => {
                cursor.seek(last);
                if cursor.key() == Some(last) {
                    cursor.next();
                }
            }
        }
        debug_assert!(self.last.is_some() || self.taken == 0, "it goes on behind a key");
        let until = self.taken.saturating_add(records);
        while let Some(key) = cursor.key() {
            if self.taken >= until {
                return Ok(Progress::More);
            }
            let memtable = &self.memtable;
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
            cursor.next();
        }
        self.install()?;
        debug_assert!(self.builder.is_none(), "what was built is installed");
        self.is_installed = true;
        Ok(Progress::Done)
    }

    fn install(&mut self) -> Result<()> {
        let tree = &self.tree;
        let builder = self.builder.take().expect("it is installed once");
        let Some(mut built) = builder.finish()? else {
            tree.change(Some(self.cut), |_, _, root| Ok(Some(root.draft())))?;
            return Ok(());
        };
        let hashes = std::mem::take(&mut built.hashes);
        let digest = tree.peek().digest.clone();
        let digest = digest.filter(|digest| digest.add_hashes(&hashes));
        let spec = tree.maplet_spec(Purpose::Incorporate, self.class);
        let written = match Maplet::build(&tree.shared.store, &spec, hashes, 0) {
            Ok(written) => written,
            Err(error) => {
                built.abandon(&tree.shared.store);
                return Err(error);
            }
        };
        let bytes = built.run.summary().bytes + written.maplet.bytes();
        let group = Group::new(
            tree.next_group(),
            [Some(built.run.clone())],
            written.maplet.clone(),
        );
        let number = group.id;
        let part = Part {
            group: Arc::new(group),
            clip: None,
        };
        let changed = tree.change(Some(self.cut), |trunk, shaper, root| {
            let received = shaper.receive(root, vec![part])?;
            let nodes = shaper.settle(received, Rank::Root)?;
            // Nothing can fail any more: what was written becomes part of the generation being built.
            tree.install_extents(&built.run, &built.extents, &written.extents);
            if let Some(digest) = &digest {
                trunk.cover(digest, number);
            }
            Ok(Some(shaper.crown(nodes)))
        });
        if let Err(error) = changed {
            built.abandon(&tree.shared.store);
            written.abandon(&tree.shared.store);
            return Err(error);
        }
        let tallies = &tree.shared.tallies;
        tallies.incorporations.fetch_add(1, Ordering::Relaxed);
        tallies.incorporated_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}
