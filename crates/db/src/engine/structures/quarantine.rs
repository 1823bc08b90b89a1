//! Quarantines in-place pages in which a change has found damage. The rest of the store continues
//! without them.
//!
//! Pages are changed in place, so a change that fails halfway leaves them inconsistent. They are
//! then put into quarantine, and nothing is written to them any more. Every later generation lists
//! the pages as they were in the last generation before the quarantine, along with the writes that
//! they have missed since. The log keeps these writes until the first of the later generations is
//! durable.
//!
//! ```text
//!   set aside      reads and writes of keyspaces in pages fail with the damage; drops are taken
//!   opened again   reads see the pages as they were, and above them the writes that are kept
//!   repaired       what is damaged is gone, and the pages take the writes
//! ```

use super::DictionarySet;
use crate::error::{Error, Result};
use crate::options::kind::{DictionaryPlace, StructureKind};
use crate::schema::format::{self, LogWrite, LogWriteIter};
use crate::schema::manifest::{self, DictionaryBacklog, DictionaryEntry, Manifest};
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::contract::Dictionary;
use alluvium_dictionary::read::DataFiles;
use alluvium_storage::{DiskLocation, OnDiskObject as Kind};
use std::sync::atomic::Ordering;

/// Number of log bytes read at a time.
const READ_AT_ONCE: u64 = 1 << 20;

/// The quarantined in-place pages, and the writes that they have missed.
#[derive(Clone, Debug)]
pub(super) struct QuarantinedPages {
    /// The pages' manifest entry in the last generation before the quarantine.
    entry: DictionaryEntry,
    behind: DictionaryBacklog,
    /// Sequence number up to which all writes to the pages' keys are either in the pages or in
    /// `behind`.
    through: SequenceNumber,
    /// The error message, or a statement that the damage was found before the store was opened.
    cause: String,
    /// Whether the damage was found after the store was opened.
    is_new: bool,
}

/// Writes that have not reached a dictionary, which the engine must insert into a memtable.
#[derive(Debug)]
pub(in crate::engine) struct BacklogReplay {
    pub(in crate::engine) behind: DictionaryBacklog,
    /// The last sequence number that belongs to the memtable.
    pub(in crate::engine) cut: SequenceNumber,
    /// Whether the dictionary is in quarantine.
    pub(in crate::engine) is_aside: bool,
}

impl DictionarySet {
    #[inline]
    pub(in crate::engine) fn has_quarantined_pages(&self) -> bool {
        self.has_aside.load(Ordering::Acquire)
    }

    /// Returns all dictionaries except quarantined in-place pages.
    pub(in crate::engine) fn live(&self) -> impl Iterator<Item = (DictionaryPlace, &dyn Dictionary)> {
        let has_aside = self.has_quarantined_pages();
        let is_live = move |of: &DictionaryPlace| !(has_aside && *of == DictionaryPlace::PAGES);
        self.all().filter(move |(place, _)| is_live(place))
    }

    /// Quarantines the in-place pages because of `damage`. No checkpoint may be in progress.
    /// Returns false if the pages are already quarantined, or if no durable generation contains
    /// them.
    pub(in crate::engine) fn quarantine_pages(&self, damage: &alluvium_storage::Error) -> Result<bool> {
        let store = &self.home.store;
        let Some(paged) = self.paged.get().filter(|_| !self.has_quarantined_pages()) else {
            return Ok(false);
        };
        let superblock = store.superblock();
        let (durable, _) = manifest::read(DataFiles::of(store), &superblock.payload, Purpose::Recovery)?;
        let entry = durable.entry(StructureKind::Paged.dictionary());
        let Some(entry) = entry.filter(|entry| entry.kind == StructureKind::Paged.kind()) else {
            return Ok(false);
        };
        paged.quarantine(damage);
        *self.aside.lock() = Some(QuarantinedPages {
            entry: entry.clone(),
            behind: DictionaryBacklog::new(superblock.cut),
            through: superblock.cut,
            cause: damage.to_string(),
            is_new: true,
        });
        self.has_aside.store(true, Ordering::Release);
        tracing::error!(error = %damage, "paged keyspaces reject writes because their pages are damaged; the other keyspaces are not affected");
        Ok(true)
    }

    /// Keeps the in-place pages quarantined if they were quarantined when this manifest's
    /// generation was made.
    pub(super) fn stays_aside(&mut self, manifest: &Manifest, cut: SequenceNumber) {
        let id = StructureKind::Paged.dictionary();
        if let (Some(behind), Some(entry)) = (manifest.behind.get(&id), manifest.entry(id)) {
            let cause = "a change found damage when the store was open before".to_owned();
            tracing::error!("paged keyspaces reject writes: {cause}");
            *self.aside.get_mut() = Some(QuarantinedPages {
                entry: entry.clone(),
                behind: behind.clone(),
                through: cut,
                cause,
                is_new: false,
            });
            *self.has_aside.get_mut() = true;
        }
    }

    /// Returns the writes that the engine must put into a memtable. Only the first call returns
    /// them.
    pub(in crate::engine) fn take_held(&self) -> Option<BacklogReplay> {
        self.held.lock().take()
    }

    /// Ends the quarantine, because no keyspace uses the pages any more.
    pub(super) fn forget_aside(&mut self) {
        self.has_left_damage |= self.aside.get_mut().take().is_some();
        *self.has_aside.get_mut() = false;
    }

    /// Returns the quarantined pages' manifest entry for a generation that contains all commits up
    /// to `at`, and the writes that the pages have missed. Returns `None` if there is no
    /// quarantine.
    pub(super) fn aside_at(
        &self,
        at: SequenceNumber,
    ) -> alluvium_storage::Result<Option<(DictionaryEntry, DictionaryBacklog)>> {
        let mut aside = self.aside.lock();
        let Some(aside) = aside.as_mut() else {
            return Ok(None);
        };
        let placed = self.placed.read();
        let is_own = |key: &[u8]| {
            let keyspace = format::split(key).map(|(_, id)| id);
            keyspace.and_then(|id| placed.get(&id)) == Some(&DictionaryPlace::PAGES)
        };
        while aside.through < at {
            let (after, behind) = (aside.through, &mut aside.behind);
            let reached = self
                .home
                .store
                .log()
                .read_after(after, at, READ_AT_ONCE, &mut |record| {
                    for (sequence, write) in (record.first..).zip(LogWriteIter::new(record.payload)) {
                        let mut own = Vec::new();
                        match write {
                            Ok(LogWrite::One {
                                key,
                                kind,
                                expires_ms,
                                operand,
                            }) if is_own(key) => {
                                format::encode_one(&mut own, &[], key, kind, expires_ms, operand);
                            }
                            Ok(LogWrite::Range { start, end }) if is_own(start) => {
                                format::encode_range(&mut own, start, end);
                            }
                            _ => continue,
                        }
                        behind.push(sequence, &own);
                    }
                })?;
            let Some(reached) = reached.filter(|&reached| reached > after) else {
                let place = DiskLocation::new(Kind::LogRecord, "log", 0);
                let expected = format!("the record of sequence {}", after + 1);
                return Err(alluvium_storage::Error::corrupt(place, expected, "none"));
            };
            aside.through = reached;
        }
        Ok(Some((aside.entry.clone(), aside.behind.clone())))
    }

    /// Fails if the in-place pages are quarantined. `keyspace` returns the keyspace's name for the
    /// error message.
    pub(crate) fn require_pages(&self, keyspace: impl FnOnce() -> String) -> Result<()> {
        match &*self.aside.lock() {
            None => Ok(()),
            Some(aside) => Err(Error::KeyspaceDamaged {
                keyspace: keyspace(),
                cause: aside.cause.clone(),
            }),
        }
    }

    /// Returns the number of a paged keyspace to which any of these writes belongs, if there is
    /// one.
    pub(in crate::engine) fn in_pages(&self, writes: LogWriteIter<'_>) -> Option<format::KeyspaceId> {
        let placed = self.placed.read();
        let ids = writes.flatten().filter_map(|write| match write {
            LogWrite::One { key, .. }
            | LogWrite::Range { start: key, .. }
            | LogWrite::Ingest { first: key, .. } => format::split(key).map(|(_, id)| id),
            LogWrite::Volatile => None,
        });
        let mut own = ids.filter(|id| placed.get(id) == Some(&DictionaryPlace::PAGES));
        own.next()
    }

    /// Returns a sentence that describes the quarantine, and whether the pages cannot be checked
    /// until the store is reopened. Returns `None` if there is no quarantine.
    pub(in crate::engine) fn aside_finding(&self) -> Option<(String, bool)> {
        let aside = self.aside.lock();
        let aside = aside.as_ref()?;
        let finding = format!(
            "paged keyspaces are set aside and reject writes: {}; {} writes wait for a repair",
            aside.cause, aside.behind.count
        );
        Some((finding, aside.is_new))
    }
}
