//! Names of an index's files, and the order in which they are created and renamed (I2).

use super::error::{Error, Result};
use super::format::{FORMAT_VERSION, IndexFileHeader, IndexFormatError};
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, BLOCK, Device, Directory, DirectoryLock, FileOptions, IoBatch};
use std::sync::Arc;

/// Approximate number of bytes per I/O operation on an index file.
const AT_ONCE: u64 = 1 << 20;

/// Exclusive access to an index's files. Dropping it releases the lock.
#[derive(Debug)]
pub(super) struct IndexFiles {
    pub(super) directory: Arc<dyn Directory>,
    pub(super) name: String,
    _lock: DirectoryLock,
}

/// Returns the name of the data file with an ID.
pub(super) fn data_name(name: &str, id: u64) -> String {
    format!("{name}.{id:016x}.data")
}

impl IndexFiles {
    /// Locks an index for writing, and removes what an earlier, unfinished build has left behind.
    pub(super) fn new(directory: Arc<dyn Directory>, name: &str) -> Result<IndexFiles> {
        let lock = directory.lock(&format!("{name}.lock"))?;
        let site = IndexFiles {
            directory,
            name: name.to_owned(),
            _lock: lock,
        };
        let kept = match read_header(&*site.directory, name) {
            Ok((header, _)) => Some(header.data),
            Err(Error::Device(alluvium_device::Error::NotFound { .. })) => None,
            // A damaged index file may still name its data file, so remove nothing.
            Err(_) => return Ok(site),
        };
        site.clear(kept)?;
        Ok(site)
    }

    fn building(&self) -> [String; 2] {
        [
            format!("{}.building", self.name),
            format!("{}.data.building", self.name),
        ]
    }

    /// Removes unfinished files, and all data files except the one with the ID `kept`.
    fn clear(&self, kept: Option<u64>) -> Result<()> {
        let kept = kept.map(|id| data_name(&self.name, id));
        for file in self.directory.list()? {
            let Some(rest) = file
                .strip_prefix(&self.name)
                .and_then(|rest| rest.strip_prefix('.'))
            else {
                continue;
            };
            let id = rest.strip_suffix(".data");
            let is_data = id.is_some_and(|id| id.len() == 16 && u64::from_str_radix(id, 16).is_ok());
            let is_old = is_data && kept.as_ref() != Some(&file);
            if is_old || self.building().contains(&file) {
                self.directory.remove(&file)?;
            }
        }
        Ok(())
    }

    /// Creates a data file under its temporary name.
    pub(super) fn create_data(&self) -> Result<Arc<dyn Device>> {
        let [_, data] = self.building();
        match self.directory.remove(&data) {
            Ok(()) | Err(alluvium_device::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.directory.create(&data, FileOptions::DIRECT)?)
    }

    /// Gives the finished data file its final name, which contains its ID.
    pub(super) fn name_data(&self, id: u64) -> Result<()> {
        let [_, data] = self.building();
        Ok(self.directory.rename(&data, &data_name(&self.name, id))?)
    }

    /// Writes the index file and makes it current by renaming it. The data file must already have
    /// its final name. Older data files are removed.
    pub(super) fn install(&self, header: &IndexFileHeader, index: &[u8]) -> Result<()> {
        let [building, _] = self.building();
        match self.directory.remove(&building) {
            Ok(()) | Err(alluvium_device::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let bytes = header.encode(index);
        let device = self.directory.create(&building, FileOptions::DIRECT)?;
        device.grow((bytes.len() as u64).next_multiple_of(BLOCK))?;
        for (piece, offset) in bytes
            .chunks(AT_ONCE as usize)
            .zip((0..).step_by(AT_ONCE as usize))
        {
            device.write_at(offset, AlignedBuffer::padded(piece), Purpose::Other)?;
        }
        device.sync(Purpose::Other)?;
        // Make the data file's name durable before the index file that refers to it gets its final
        // name.
        self.directory.sync()?;
        self.directory.rename(&building, &self.name)?;
        self.directory.sync()?;
        self.clear(Some(header.data))
    }
}

/// Reads and decodes an index file. Returns its header, and its tries or block index in encoded
/// form.
pub(super) fn read_header(directory: &dyn Directory, name: &str) -> Result<(IndexFileHeader, Vec<u8>)> {
    let device = directory.open(name, FileOptions::DIRECT.read_only())?;
    let whole = device.len() / BLOCK * BLOCK;
    let mut bytes = Vec::new();
    for offset in (0..whole).step_by(AT_ONCE as usize) {
        let len = AT_ONCE.min(whole - offset) as usize;
        let mut batch = IoBatch::with_capacity(1);
        batch.read(offset, AlignedBuffer::zeroed(len), Purpose::Recovery);
        for buffer in device.run(batch)? {
            bytes.extend_from_slice(&buffer);
        }
    }
    match IndexFileHeader::decode(&bytes) {
        Ok((header, index)) => {
            let index = index.to_vec();
            Ok((header, index))
        }
        Err(IndexFormatError::Newer(found)) => Err(Error::NewerFormat {
            file: name.to_owned(),
            found,
            supported: FORMAT_VERSION,
        }),
        Err(IndexFormatError::Damaged(offset, expected, found)) => Err(Error::Damaged {
            file: name.to_owned(),
            offset,
            expected,
            found,
        }),
    }
}
