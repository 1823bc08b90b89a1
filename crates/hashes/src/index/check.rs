//! Consistency check of an index, which reads all records and compares them with the index.

use super::data::DataReader;
use super::error::{Error, Result};
use super::format::hash_of;
use super::open::StaticIndex;
use super::options::StaticIndexKind;
use alluvium_filters::{pachash, trie};

/// Number of records and blocks that a check has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexCheckTotals {
    pub records: u64,
    pub blocks: u64,
}

impl StaticIndex {
    /// Reads all records. Checks that each block is intact, that hashes are ascending (I3), and
    /// that the index locates each record in its block.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::Filter`] for the first violation.
    pub fn check(&self) -> Result<IndexCheckTotals> {
        let (header, file) = (&self.header, self.device.name());
        let per_block = header.shape.block_records();
        let damaged = |number: u64, expected: String, found: String| Error::Damaged {
            file: file.to_owned(),
            offset: number / per_block * u64::from(header.shape.block_bytes),
            expected,
            found,
        };
        self.check_index()?;
        let mut reader = DataReader::new(&*self.device, header.seed, header.shape, header.records);
        let (mut last, mut number) = (None, 0);
        while let Some(record) = reader.next()? {
            let key = &record[..header.shape.key_bytes as usize];
            let hash = hash_of(header.seed, key);
            if last.is_some_and(|last| last >= hash) {
                let found = format!("{hash:02x?} after {last:02x?}");
                return Err(damaged(
                    number,
                    "records in the order of their hashes".to_owned(),
                    found,
                ));
            }
            let (blocks, record) = self.locate(key)?;
            let leads = blocks.contains(&(number / per_block))
                && record.is_none_or(|record| record as u64 == number % per_block);
            if !leads {
                let expected = format!("record {number} where the index says");
                return Err(damaged(number, expected, format!("{blocks:?} {record:?}")));
            }
            (last, number) = (Some(hash), number + 1);
        }
        if reader.id() != header.data {
            let expected = format!("records with the id {:016x}", header.data);
            return Err(damaged(0, expected, format!("{:016x}", reader.id())));
        }
        Ok(IndexCheckTotals {
            records: number,
            blocks: header.shape.blocks(number),
        })
    }

    /// Checks that the tries, or the block index, are consistent in themselves, without reading the
    /// records.
    fn check_index(&self) -> Result<()> {
        let violations: Vec<String> = match self.header.kind {
            StaticIndexKind::Blocks => {
                let index = pachash::BlockIndex::open(&self.bytes)?;
                index
                    .check()
                    .iter()
                    .map(|violation| format!("{violation:?}"))
                    .collect()
            }
            StaticIndexKind::Dense | StaticIndexKind::Sparse => {
                let key_bytes = super::format::HASH_BYTES as u32;
                let index = trie::TrieIndex::open(&self.codes, key_bytes, &self.bytes)?;
                index
                    .check()
                    .iter()
                    .map(|violation| format!("{violation:?}"))
                    .collect()
            }
        };
        match violations.first() {
            None => Ok(()),
            Some(first) => Err(Error::Damaged {
                file: self.device.name().to_owned(),
                offset: super::format::HEADER_BYTES as u64,
                expected: "a sound index".to_owned(),
                found: first.clone(),
            }),
        }
    }
}
