//! The names in a directory: durable names, current names, and the changes between them.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A file's number. Unlike a name, it never changes and is never reused in the same world.
pub(super) type FileId = u32;

type NameMap = BTreeMap<Arc<str>, FileId>;

/// One change of a name.
#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Create {
        name: Arc<str>,
        file: FileId,
    },
    Rename {
        from: Arc<str>,
        to: Arc<str>,
        file: FileId,
    },
    Remove {
        name: Arc<str>,
        file: FileId,
    },
}

#[derive(Clone, Debug)]
struct PendingNameChange {
    order: u64,
    change: NameChange,
}

/// Versions of the directory's names, which share their maps until one of them changes.
#[derive(Clone, Debug, Default)]
pub(super) struct DirectoryNames {
    durable: Arc<NameMap>,
    current: Arc<NameMap>,
    pending: Vec<PendingNameChange>,
}

fn apply(map: &mut NameMap, change: &NameChange) {
    match change {
        NameChange::Create { name, file } => {
            map.insert(Arc::clone(name), *file);
        }
        NameChange::Rename { from, to, file } => {
            if map.get(from) == Some(file) {
                map.remove(from);
            }
            map.insert(Arc::clone(to), *file);
        }
        NameChange::Remove { name, file } => {
            if map.get(name) == Some(file) {
                map.remove(name);
            }
        }
    }
}

impl DirectoryNames {
    pub(super) fn get(&self, name: &str) -> Option<FileId> {
        self.current.get(name).copied()
    }

    /// Returns every name and its file, sorted by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, FileId)> {
        self.current.iter().map(|(name, file)| (name, *file))
    }

    /// Returns every file that could have a name after a crash now.
    pub(super) fn reachable(&self) -> impl Iterator<Item = FileId> {
        let pending = self.pending.iter().map(|pending| match pending.change {
            NameChange::Create { file, .. }
            | NameChange::Rename { file, .. }
            | NameChange::Remove { file, .. } => file,
        });
        let named = self.current.values().chain(self.durable.values()).copied();
        named.chain(pending)
    }

    pub(super) fn is_named(&self, file: FileId) -> bool {
        self.current.values().any(|&named| named == file)
    }

    pub(super) fn change(&mut self, order: u64, change: NameChange) {
        apply(Arc::make_mut(&mut self.current), &change);
        self.pending.push(PendingNameChange { order, change });
    }

    /// Records a sync of the directory.
    pub(super) fn make_durable(&mut self) {
        self.pending.clear();
        self.durable = Arc::clone(&self.current);
    }

    /// Records a failed sync of the directory, in which the changes selected by `survives` became
    /// durable.
    pub(super) fn settle(&mut self, mut survives: impl FnMut(u64) -> bool) {
        self.durable = Arc::clone(&self.survivor(&mut survives).current);
        self.pending.clear();
    }

    /// Returns the position of the first change that is not durable.
    pub(super) fn first_pending(&self) -> Option<u64> {
        self.pending.first().map(|pending| pending.order)
    }

    /// Returns the names after a power failure in which the changes selected by `survives` were
    /// durable.
    pub(super) fn survivor(&self, mut survives: impl FnMut(u64) -> bool) -> DirectoryNames {
        let mut map = Arc::clone(&self.durable);
        for pending in &self.pending {
            if survives(pending.order) {
                apply(Arc::make_mut(&mut map), &pending.change);
            }
        }
        DirectoryNames {
            durable: Arc::clone(&map),
            current: map,
            pending: Vec::new(),
        }
    }

    /// Returns the current names, all of them durable.
    pub(super) fn as_now(&self) -> DirectoryNames {
        DirectoryNames {
            durable: Arc::clone(&self.current),
            current: Arc::clone(&self.current),
            pending: Vec::new(),
        }
    }

    /// Removes a name from all versions. This is damage rather than an operation.
    pub(super) fn forget(&mut self, name: &str) {
        Arc::make_mut(&mut self.current).remove(name);
        Arc::make_mut(&mut self.durable).remove(name);
        self.pending
            .retain(|pending| !matches!(&pending.change, NameChange::Create { name: new, .. } | NameChange::Rename { to: new, .. } if &**new == name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(changes: &[NameChange]) -> DirectoryNames {
        let mut names = DirectoryNames::default();
        for (order, change) in changes.iter().enumerate() {
            names.change(order as u64, change.clone());
        }
        names
    }

    fn create(name: &str, file: FileId) -> NameChange {
        NameChange::Create {
            name: name.into(),
            file,
        }
    }

    fn listed(names: &DirectoryNames) -> Vec<(String, FileId)> {
        names
            .iter()
            .map(|(name, file)| (name.to_string(), file))
            .collect()
    }

    #[test]
    fn a_rename_replaces_and_can_be_lost_without_what_it_replaced() {
        let mut names = names(&[create("old", 1), create("new", 2)]);
        names.make_durable();
        let rename = NameChange::Rename {
            from: "new".into(),
            to: "old".into(),
            file: 2,
        };
        names.change(9, rename);
        assert_eq!(listed(&names), [("old".to_owned(), 2)]);
        let lost = names.survivor(|_| false);
        assert_eq!(listed(&lost), [("new".to_owned(), 2), ("old".to_owned(), 1)]);
        assert_eq!(listed(&names.survivor(|_| true)), listed(&names));
        assert_eq!(names.first_pending(), Some(9));
    }

    #[test]
    fn a_file_removed_without_a_sync_is_still_reachable() {
        let mut names = names(&[create("a", 1)]);
        names.make_durable();
        names.change(
            1,
            NameChange::Remove {
                name: "a".into(),
                file: 1,
            },
        );
        assert!(!names.is_named(1));
        assert!(names.reachable().any(|file| file == 1));
        names.make_durable();
        assert!(!names.reachable().any(|file| file == 1));
    }
}
