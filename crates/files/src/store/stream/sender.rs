//! The stream that a snapshot is sent as.

use super::differences::DifferenceWalk;
use super::format::{self, FrameChain, StreamHead};
use super::stamp_in;
use crate::error::{Error, ErrorKind, Result};
use crate::records::format::SnapshotStamp;
use crate::store::shared::FileStore;
use crate::store::snapshot::{self, FilesSnapshot};
use std::fmt;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Bytes of records that make a part full.
/// Tuning: `1 << 20` since 2026-11-30.
const PART_BYTES: usize = 1 << 20;

/// A snapshot of files as a stream of bytes, for [`SnapshotReceiver`](crate::SnapshotReceiver).
///
/// ```
/// use alluvium_files::{FilePaths, Files, SnapshotReceiver};
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store")).unwrap();
/// # let other_db = alluvium::Db::open(place.path().join("other")).unwrap();
/// let files = Files::open(&db, "home")?;
/// files.write_file(b"/diary", b"Monday", 0o600)?;
/// files.create_snapshot("monday")?;
/// files.write_file(b"/diary", b"Tuesday", 0o600)?;
/// files.create_snapshot("tuesday")?;
///
/// for (snapshot, since) in [("monday", None), ("tuesday", Some("monday"))] {
///     let mut receiver = SnapshotReceiver::new(&other_db, "home")?;
///     for part in files.send(snapshot, since)? {
///         receiver.push(&part?)?;
///     }
///     receiver.finish()?;
/// }
/// let copy = Files::open_existing(&other_db, "home")?;
/// assert_eq!(copy.read_file(b"/diary")?, b"Tuesday");
/// assert_eq!(copy.open_snapshot("monday")?.read_file(b"/diary")?, b"Monday");
/// # Ok::<(), alluvium_files::Error>(())
/// ```
pub struct SnapshotSender {
    head: Option<StreamHead>,
    walk: DifferenceWalk,
    is_at_end: bool,
    frames: FrameChain,
    records: u64,
}

impl fmt::Debug for SnapshotSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotSender")
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}

/// Returns a snapshot with the stamp that identifies it.
fn stamped(store: &Arc<FileStore>, name: &str) -> Result<(FilesSnapshot, SnapshotStamp)> {
    let snapshot = snapshot::open(store, name)?;
    match stamp_in(store, snapshot.as_store_snapshot())? {
        Some(stamp) => Ok((snapshot, stamp)),
        None => {
            let message = format!("an older version has taken the snapshot {name:?}: take another one");
            Err(Error::new(ErrorKind::NotSupported, message))
        }
    }
}

pub(crate) fn send(store: &Arc<FileStore>, name: &str, since: Option<&str>) -> Result<SnapshotSender> {
    let (now, stamp) = stamped(store, name)?;
    let now = now.as_store_snapshot().clone();
    let before = since.map(|since| stamped(store, since)).transpose()?;
    let layout = store.layout;
    let head = StreamHead {
        block_bytes: layout.block_bytes as u32,
        inline_bytes: layout.inline_bytes as u32,
        order: layout.order,
        snapshot: name.to_owned(),
        stamp,
        since: since
            .map(str::to_owned)
            .zip(before.as_ref().map(|(_, stamp)| *stamp)),
    };
    let walk = match before {
        None => DifferenceWalk::of_all(&store.spaces, now),
        Some((before, _)) => {
            let before = before.as_store_snapshot();
            if before.sequence() > now.sequence() {
                let since = since.unwrap_or_default();
                let message = format!("the snapshot {since:?} is newer than {name:?}: exchange them");
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
            DifferenceWalk::between(&store.db, &store.spaces, before.clone(), now)?
        }
    };
    Ok(SnapshotSender {
        head: Some(head),
        walk,
        is_at_end: false,
        frames: FrameChain::default(),
        records: 0,
    })
}

impl SnapshotSender {
    /// Returns the next part of the stream, of about 1 MiB and at most 4 MiB, or `None` at the end.
    ///
    /// # Errors
    /// `Damaged`; errors of the store.
    pub fn next_part(&mut self) -> Result<Option<Vec<u8>>> {
        if let Some(head) = self.head.take() {
            return Ok(Some(self.frames.frame(&format::encode_head(&head))));
        }
        if self.is_at_end {
            return Ok(None);
        }
        let mut body = format::records_body();
        let records = &mut self.records;
        self.is_at_end = self.walk.walk(&mut |record| {
            format::push_record(&mut body, record);
            *records += 1;
            match body.len() < PART_BYTES {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        let mut part = self.frames.frame(&body);
        if self.is_at_end {
            let end = format::encode_end(self.records);
            part.extend(self.frames.frame(&end));
        }
        Ok(Some(part))
    }

    /// Returns the number of records that the parts so far have.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns whether the changes were found in the log, and nothing else was read.
    #[cfg(test)]
    pub(crate) fn is_from_log(&self) -> bool {
        self.walk.is_from_log()
    }

    /// Writes the rest of the stream, and returns how many bytes it has.
    ///
    /// # Errors
    /// Errors of the store and of `out`.
    pub fn write_to(&mut self, out: &mut dyn Write) -> Result<u64> {
        let mut bytes = 0;
        while let Some(part) = self.next_part()? {
            out.write_all(&part)
                .map_err(|error| Error::from_system(&error, "writing the stream"))?;
            bytes += part.len() as u64;
        }
        Ok(bytes)
    }
}

impl Iterator for SnapshotSender {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        self.next_part().transpose()
    }
}
