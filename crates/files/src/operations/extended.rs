//! Extended attributes.

use super::compression::COMPRESSION_ATTRIBUTE;
use super::{FileReader, FileWriter, invalid};
use crate::error::{Error, ErrorKind, Result};
use crate::records::{ReadDependence, RecordSpace, RecordValue, WalkedValues, format};
use crate::types::{FileKind, Inode, SetMode};
use std::ops::ControlFlow;

/// Longest value of an extended attribute, in bytes.
const MAX_VALUE_BYTES: usize = 64 << 10;

pub(super) fn missing(inode: Inode, name: &[u8]) -> Error {
    let message = format!("inode {} has no attribute \"{}\"", inode.0, name.escape_ascii());
    Error::new(ErrorKind::NoAttribute, message)
}

fn check_attribute_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.contains(&0) {
        return Err(invalid(
            "the name of an extended attribute has no bytes, or a zero byte",
        ));
    }
    if name.len() > format::MAX_NAME {
        let message = format!(
            "the name of an extended attribute has {} bytes: at most 255 are possible",
            name.len()
        );
        return Err(Error::new(ErrorKind::NameTooLong, message));
    }
    Ok(())
}

impl FileReader<'_> {
    pub(crate) fn extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<Vec<u8>> {
        let record = self.load(inode, ReadDependence::Isolated)?;
        if name == COMPRESSION_ATTRIBUTE {
            return self.compression(inode, &record);
        }
        if !record.is_extended {
            return Err(missing(inode, name));
        }
        let key = format::name_key(inode, name);
        let value = self
            .records
            .get(RecordSpace::Extended, &key, ReadDependence::Isolated)?;
        value
            .map(RecordValue::into_vec)
            .ok_or_else(|| missing(inode, name))
    }

    pub(crate) fn extended_attributes(&self, inode: Inode) -> Result<Vec<Vec<u8>>> {
        let record = self.load(inode, ReadDependence::Isolated)?;
        let mut names = Vec::new();
        if record.is_compressed {
            names.push(COMPRESSION_ATTRIBUTE.to_vec());
        }
        if !record.is_extended {
            return Ok(names);
        }
        let (low, high) = (format::inode_key(inode), format::inode_end(inode));
        let high = high.as_ref().map(|high| &high[..]);
        self.records.walk(
            RecordSpace::Extended,
            &low,
            high,
            WalkedValues::Short,
            &mut |key, _| {
                names.extend(key.get(low.len()..).map(<[u8]>::to_vec));
                ControlFlow::Continue(())
            },
        )?;
        names.sort_unstable();
        Ok(names)
    }
}

impl FileWriter<'_> {
    pub(crate) fn set_extended_attribute(
        &self,
        inode: Inode,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        check_attribute_name(name)?;
        if name == COMPRESSION_ATTRIBUTE {
            return self.set_compression(inode, value, mode);
        }
        if value.len() > MAX_VALUE_BYTES {
            let message = format!(
                "the attribute \"{}\" of inode {} has {} bytes: at most {MAX_VALUE_BYTES} are possible",
                name.escape_ascii(),
                inode.0,
                value.len()
            );
            return Err(Error::new(ErrorKind::AttributeTooLarge, message));
        }
        self.reader().load(inode, ReadDependence::Shared)?;
        let key = format::name_key(inode, name);
        let before = self
            .records
            .get(RecordSpace::Extended, &key, ReadDependence::Update)?;
        match (mode, before) {
            (SetMode::Create, Some(_)) => {
                let message = format!(
                    "inode {} has an attribute \"{}\" already",
                    inode.0,
                    name.escape_ascii()
                );
                return Err(Error::new(ErrorKind::Exists, message));
            }
            (SetMode::Replace, None) => return Err(missing(inode, name)),
            _ => (),
        }
        self.records.put(RecordSpace::Extended, &key, value)?;
        self.note_extended(inode)
    }

    pub(crate) fn remove_extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<()> {
        if name == COMPRESSION_ATTRIBUTE {
            return self.remove_compression(inode);
        }
        self.reader().load(inode, ReadDependence::Shared)?;
        let key = format::name_key(inode, name);
        let before = self
            .records
            .get(RecordSpace::Extended, &key, ReadDependence::Update)?;
        if before.is_none() {
            return Err(missing(inode, name));
        }
        self.records.delete(RecordSpace::Extended, &key)?;
        self.note_extended(inode)
    }

    /// Notes that an inode has had extended attributes, and when they changed.
    fn note_extended(&self, inode: Inode) -> Result<()> {
        let mut record = self.reader().load(inode, ReadDependence::Update)?;
        let is_directory = record.kind == FileKind::Directory;
        if !is_directory || !record.is_extended {
            record.is_extended = true;
            record.changed = self.context.now();
            self.save(inode, &record)?;
        }
        match is_directory {
            true => self.note_time(inode, format::CHANGED),
            false => Ok(()),
        }
    }
}
