//! Attributes of inodes.

use super::{FileReader, FileWriter, contents::FileContents, damaged, invalid, is_a_directory};
use crate::error::Result;
use crate::records::format::{self, InodeRecord};
use crate::records::{ReadDependence, RecordSpace};
use crate::types::{AttributeChange, Attributes, FileKind, Inode, TimeChange, Timestamp};

/// Unit of `Attributes::blocks`, in bytes.
const UNIT: u64 = 512;

impl FileReader<'_> {
    pub(crate) fn attributes(&self, inode: Inode) -> Result<Attributes> {
        let record = self.load(inode, ReadDependence::Isolated)?;
        self.attributes_of(inode, &record)
    }

    /// Returns the attributes of an inode whose record has been read.
    pub(crate) fn attributes_of(&self, inode: Inode, record: &InodeRecord) -> Result<Attributes> {
        let mut attributes = Attributes {
            inode,
            generation: record.generation,
            kind: record.kind,
            mode: record.mode,
            user: record.user,
            group: record.group,
            links: record.links,
            size: record.size,
            blocks: self.occupied(record).div_ceil(UNIT),
            device: record.device,
            accessed: record.accessed,
            modified: record.modified,
            changed: record.changed,
            created: record.created,
        };
        if record.kind == FileKind::Directory {
            self.add_counted(&mut attributes)?;
        }
        Ok(attributes)
    }

    /// Returns the approximate number of bytes that contents occupy.
    fn occupied(&self, record: &InodeRecord) -> u64 {
        match &record.inline {
            Some(contents) => contents.len() as u64,
            None if record.blocks == record.size.div_ceil(self.block_bytes) => record.size,
            None => record.blocks * self.block_bytes,
        }
    }

    /// Adds to a directory's attributes what transactions change by merging.
    fn add_counted(&self, attributes: &mut Attributes) -> Result<()> {
        let inode = attributes.inode;
        if attributes.links > 0 {
            let subdirectories = u32::try_from(self.subdirectories(inode)?).unwrap_or(0);
            attributes.links = subdirectories.saturating_add(2);
        }
        let keys =
            [format::MODIFIED, format::CHANGED, format::ACCESSED].map(|which| format::time_key(inode, which));
        let times = self.records.get_many(RecordSpace::Times, &keys)?;
        let places = [
            &mut attributes.modified,
            &mut attributes.changed,
            &mut attributes.accessed,
        ];
        for ((place, time), key) in places.into_iter().zip(times).zip(&keys) {
            if let Some(time) = time {
                let decoded = format::decode_ordered_time(&time);
                *place = decoded.map_err(|damage| damaged(RecordSpace::Times, key, damage))?;
            }
        }
        Ok(())
    }

    /// Returns the number of subdirectories of a directory.
    pub(crate) fn subdirectories(&self, directory: Inode) -> Result<i64> {
        let key = format::inode_key(directory);
        let count = self
            .records
            .get(RecordSpace::Counts, &key, ReadDependence::Untracked)?;
        match count {
            None => Ok(0),
            Some(count) => {
                format::decode_count(&count).map_err(|damage| damaged(RecordSpace::Counts, &key, damage))
            }
        }
    }
}

impl FileWriter<'_> {
    pub(crate) fn set_attributes(&self, inode: Inode, change: &AttributeChange) -> Result<Attributes> {
        let mut record = self.reader().load(inode, ReadDependence::Update)?;
        let before = record.clone();
        record.mode = change.mode.map_or(record.mode, |mode| mode & 0o7777);
        record.user = change.user.unwrap_or(record.user);
        record.group = change.group.unwrap_or(record.group);
        if record.kind == FileKind::Directory {
            if change.size.is_some() {
                return Err(is_a_directory(inode));
            }
            if record != before {
                self.save(inode, &record)?;
            }
            self.set_directory_times(inode, change)?;
            return self.reader().attributes_of(inode, &record);
        }
        if let Some(size) = change.size {
            record = self.resize(inode, record, size)?;
        }
        let now = self.context.now();
        let time = |change: TimeChange| match change {
            TimeChange::Now => now,
            TimeChange::At(time) => time,
        };
        record.accessed = change.accessed.map_or(record.accessed, time);
        record.modified = change.modified.map_or(record.modified, time);
        if *change != AttributeChange::default() {
            // As after a write: the record differs from the one before, whatever the clock says.
            record.changed = now.max(record.changed.next());
            self.save(inode, &record)?;
        }
        self.reader().attributes_of(inode, &record)
    }

    /// Sets the size of a file and the time of its last change.
    fn resize(&self, inode: Inode, record: InodeRecord, size: u64) -> Result<InodeRecord> {
        if record.kind != FileKind::Regular {
            return Err(invalid(format!("inode {} is no regular file", inode.0)));
        }
        let mut contents = FileContents::new(self, inode, record);
        contents.resize(size)?;
        let mut record = contents.into_record();
        record.modified = self.context.now();
        Ok(record)
    }

    fn set_directory_times(&self, directory: Inode, change: &AttributeChange) -> Result<()> {
        if *change == AttributeChange::default() {
            return Ok(());
        }
        for (which, time) in [
            (format::MODIFIED, change.modified),
            (format::ACCESSED, change.accessed),
        ] {
            match time {
                None => (),
                Some(TimeChange::Now) => self.set_time(directory, which, self.context.now())?,
                Some(TimeChange::At(time)) => self.set_time(directory, which, time)?,
            }
        }
        self.note_time(directory, format::CHANGED)
    }

    /// Sets a time of a directory. A later time is merged, so that it does not conflict with the
    /// changes of others.
    fn set_time(&self, directory: Inode, which: u8, time: Timestamp) -> Result<()> {
        let (key, time) = (format::time_key(directory, which), format::ordered_time(time));
        let before = self
            .records
            .get(RecordSpace::Times, &key, ReadDependence::Untracked)?;
        match before.is_some_and(|before| *before > time[..]) {
            true => self.records.put(RecordSpace::Times, &key, &time)?,
            false => self.records.merge(RecordSpace::Times, &key, &time)?,
        }
        Ok(())
    }
}
