//! Creation of inodes, and further names of inodes.

use super::{FileWriter, MAX_LINKS, MAX_TARGET_BYTES, check_name, damaged, exists};
use crate::error::{Error, ErrorKind, Result};
use crate::records::format::{self, InodeRecord, OrphanKind};
use crate::records::locality::Locality;
use crate::records::{ReadDependence, RecordSpace};
use crate::types::{Attributes, ContentOrder, FileKind, Inode, NewNode};

/// The bit of a mode that hands the group of a directory on to what is created in it.
const SET_GROUP: u32 = 0o2000;

impl FileWriter<'_> {
    pub(crate) fn create(&self, parent: Inode, name: &[u8], node: &NewNode<'_>) -> Result<Attributes> {
        check_name(name)?;
        let directory = self.load_living_directory(parent)?;
        if self.entry_to_change(parent, name)?.is_some() {
            return Err(exists(parent, name));
        }
        let inode = self.context.next_inode(parent)?;
        let mut record = self.new_record(&directory, node)?;
        record.links = 1;
        let has_contents = matches!(node.kind, FileKind::Regular | FileKind::Directory);
        if has_contents && self.context.layout().order == ContentOrder::ByPath {
            record.locality = directory.locality.child(inode, node.kind, name);
        }
        record.known_as = (parent.0, name.to_vec());
        self.put_entry(parent, name, inode, node.kind)?;
        self.add_inode(inode, &record)?;
        if node.kind == FileKind::Directory {
            self.add_directory(inode, parent, name)?;
        }
        self.touch_directory(parent)?;
        self.reader().attributes_of(inode, &record)
    }

    /// Creates what only directories have.
    fn add_directory(&self, inode: Inode, parent: Inode, name: &[u8]) -> Result<()> {
        self.place_directory(inode, parent, name)?;
        self.note_time(inode, format::ACCESSED)?;
        self.touch_directory(inode)?;
        self.count_subdirectories(parent, 1)
    }

    /// Notes where a directory lies.
    pub(super) fn place_directory(&self, inode: Inode, parent: Inode, name: &[u8]) -> Result<()> {
        let (key, place) = (format::parent_key(inode), format::parent(parent, name));
        self.records.put(RecordSpace::System, &key, &place)
    }

    pub(crate) fn create_unnamed(&self, parent: Inode, node: &NewNode<'_>) -> Result<Attributes> {
        let directory = self.load_living_directory(parent)?;
        let inode = self.context.next_inode(parent)?;
        let mut record = self.new_record(&directory, node)?;
        // Its blocks stand before those of the directory's files.
        record.locality = directory.locality;
        self.add_inode(inode, &record)?;
        self.add_orphan(inode, OrphanKind::Unnamed)?;
        self.reader().attributes_of(inode, &record)
    }

    fn add_inode(&self, inode: Inode, record: &InodeRecord) -> Result<()> {
        self.save(inode, record)?;
        self.changes.borrow_mut().created.push(inode);
        Ok(())
    }

    /// Lists an inode without names.
    pub(super) fn add_orphan(&self, inode: Inode, kind: OrphanKind) -> Result<()> {
        let key = format::orphan_key(inode);
        self.records
            .put(RecordSpace::System, &key, &format::orphan(kind))?;
        self.changes.borrow_mut().orphaned.push(inode);
        Ok(())
    }

    /// Returns the record of a new inode without names.
    fn new_record(&self, directory: &InodeRecord, node: &NewNode<'_>) -> Result<InodeRecord> {
        let is_symlink = node.kind == FileKind::Symlink;
        if is_symlink && node.target.len() > MAX_TARGET_BYTES {
            let message = format!(
                "the target of a symbolic link has {} bytes: at most {MAX_TARGET_BYTES} are possible",
                node.target.len()
            );
            return Err(Error::new(ErrorKind::NameTooLong, message));
        }
        let now = self.context.now();
        let inherits = directory.mode & SET_GROUP != 0;
        let mode = match node.kind {
            FileKind::Directory if inherits => node.mode | SET_GROUP,
            _ => node.mode,
        };
        Ok(InodeRecord {
            kind: node.kind,
            mode: mode & 0o7777,
            user: node.user,
            group: if inherits { directory.group } else { node.group },
            links: 0,
            generation: self.context.generation(),
            size: if is_symlink { node.target.len() as u64 } else { 0 },
            blocks: 0,
            tail: 0,
            device: match node.kind {
                FileKind::BlockDevice | FileKind::CharacterDevice => node.device,
                _ => 0,
            },
            is_extended: false,
            created: now,
            accessed: now,
            modified: now,
            changed: now,
            known_as: (0, Vec::new()),
            is_compressed: directory.is_compressed
                && matches!(node.kind, FileKind::Regular | FileKind::Directory),
            locality: Locality::default(),
            inline: match node.kind {
                FileKind::Regular => Some(Vec::new()),
                FileKind::Symlink => Some(node.target.to_vec()),
                _ => None,
            },
        })
    }

    pub(crate) fn link(&self, inode: Inode, parent: Inode, name: &[u8]) -> Result<Attributes> {
        check_name(name)?;
        self.load_living_directory(parent)?;
        let mut record = self.reader().load(inode, ReadDependence::Update)?;
        if record.kind == FileKind::Directory {
            let message = format!("inode {} is a directory: it has one name only", inode.0);
            return Err(Error::new(ErrorKind::NotPermitted, message));
        }
        if self.entry_to_change(parent, name)?.is_some() {
            return Err(exists(parent, name));
        }
        if record.links >= MAX_LINKS {
            let message = format!("inode {} has {} names already", inode.0, record.links);
            return Err(Error::new(ErrorKind::TooManyLinks, message));
        }
        if record.links == 0 {
            self.adopt(inode)?;
        }
        record.links += 1;
        record.changed = self.context.now();
        record.known_as = (parent.0, name.to_vec());
        self.save(inode, &record)?;
        self.put_entry(parent, name, inode, record.kind)?;
        self.touch_directory(parent)?;
        self.reader().attributes_of(inode, &record)
    }

    /// Takes a file that was created without a name from the list of orphans.
    fn adopt(&self, inode: Inode) -> Result<()> {
        let key = format::orphan_key(inode);
        let orphan = self
            .records
            .get(RecordSpace::System, &key, ReadDependence::Update)?;
        let kind = orphan.as_deref().map(format::decode_orphan).transpose();
        let kind = kind.map_err(|damage| damaged(RecordSpace::System, &key, damage))?;
        if kind != Some(OrphanKind::Unnamed) {
            let message = format!("inode {} has no name any more", inode.0);
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        self.records.delete(RecordSpace::System, &key)?;
        self.changes.borrow_mut().adopted.push(inode);
        Ok(())
    }
}
