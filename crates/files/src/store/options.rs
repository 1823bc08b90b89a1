//! Options of a file system.

use crate::error::{Error, ErrorKind, Result};
use crate::operations::FileLayout;
use crate::records::RecordSpace;
use crate::types::{ContentOrder, Timestamp};
use alluvium::{Compression, KeyspaceOptions, Structure, ValueOrder};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// Bytes of a block.
/// Tuning: `16 << 10` since 2026-11-29.
const BLOCK_BYTES: u32 = 16 << 10;

/// Most bytes of contents that stand in the inode.
/// Tuning: `2 << 10` since 2026-11-29.
const INLINE_BYTES: u32 = 2 << 10;

/// Longest values that stand in the leaves of inodes. An inode with contents, or with the target of
/// a symbolic link, is not longer. Not a tuning parameter.
const INODE_VALUE_BYTES: u32 = 8 << 10;

/// Returns the current time.
pub(crate) type FileClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Options for creating and opening a file system. All but the clock apply only to a file system
/// that is created: an existing one keeps what it was created with.
///
/// ```
/// use alluvium_files::{Files, FilesOptions};
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store")).unwrap();
/// let options = FilesOptions::new().block_bytes(64 << 10);
/// let files = Files::open_with(&db, "pictures", &options)?;
/// # Ok::<(), alluvium_files::Error>(())
/// ```
#[derive(Clone)]
pub struct FilesOptions {
    pub(crate) block_bytes: u32,
    pub(crate) inline_bytes: u32,
    pub(crate) order: ContentOrder,
    pub(crate) blocks: Structure,
    pub(crate) value_threshold: Option<u32>,
    pub(crate) value_order: ValueOrder,
    pub(crate) compression: Compression,
    pub(crate) clock: FileClock,
}

impl fmt::Debug for FilesOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilesOptions")
            .field("block_bytes", &self.block_bytes)
            .field("inline_bytes", &self.inline_bytes)
            .field("order", &self.order)
            .field("blocks", &self.blocks)
            .field("value_threshold", &self.value_threshold)
            .field("value_order", &self.value_order)
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}

impl Default for FilesOptions {
    fn default() -> FilesOptions {
        FilesOptions {
            block_bytes: BLOCK_BYTES,
            inline_bytes: INLINE_BYTES,
            order: ContentOrder::ByPath,
            blocks: Structure::Tiered,
            value_threshold: None,
            value_order: ValueOrder::Gathered,
            compression: Compression::None,
            clock: Arc::new(system_time),
        }
    }
}

fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or_default();
    Timestamp {
        seconds: since.as_secs() as i64,
        nanoseconds: since.subsec_nanos(),
    }
}

impl FilesOptions {
    /// Returns the default options.
    #[must_use]
    pub fn new() -> FilesOptions {
        FilesOptions::default()
    }

    /// Sets the size of a block, a power of two from 512 bytes to 1 MiB. Default: 16 KiB.
    #[must_use]
    pub fn block_bytes(mut self, bytes: u32) -> FilesOptions {
        self.block_bytes = bytes;
        self
    }

    /// Sets up to which size the contents of a file are stored with its attributes, at most 4 KiB
    /// and a block. Default: 2 KiB.
    #[must_use]
    pub fn inline_bytes(mut self, bytes: u32) -> FilesOptions {
        self.inline_bytes = bytes;
        self
    }

    /// Sets the order of the contents of different files in the store. Default:
    /// [`ContentOrder::ByPath`].
    #[must_use]
    pub fn order(mut self, order: ContentOrder) -> FilesOptions {
        self.order = order;
        self
    }

    /// Sets the structure that stores the blocks: a tree, levels or pages. Hashed structures have
    /// no range deletes, and volatile ones lose their contents. Default: the tiered tree.
    #[must_use]
    pub fn blocks(mut self, structure: Structure) -> FilesOptions {
        self.blocks = structure;
        self
    }

    /// Sets the maximum length in bytes of blocks that are stored in leaves, where merges bring the
    /// blocks of a file together. `None` means a quarter of a page.
    #[must_use]
    pub fn value_threshold(mut self, bytes: Option<u32>) -> FilesOptions {
        self.value_threshold = bytes;
        self
    }

    /// Sets whether compactions of the tiered tree bring scattered blocks together. Default:
    /// [`ValueOrder::Gathered`]. Other structures ignore it.
    #[must_use]
    pub fn value_order(mut self, order: ValueOrder) -> FilesOptions {
        self.value_order = order;
        self
    }

    /// Sets the compression of contents. Default: none.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> FilesOptions {
        self.compression = compression;
        self
    }

    /// Sets the clock that times are read from. Default: that of the system.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> FilesOptions {
        self.clock = Arc::new(clock);
        self
    }

    pub(crate) fn layout(&self) -> Result<FileLayout> {
        if matches!(self.blocks, Structure::Hashed(_) | Structure::Volatile(_)) {
            let message = format!(
                "blocks of files cannot be in the structure {}: choose tiered, levels or paged",
                self.blocks
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        FilesOptions::layout_of(self.block_bytes, self.inline_bytes, self.order)
    }

    /// Returns a layout, or an error if it is not possible.
    pub(crate) fn layout_of(block: u32, inline: u32, order: ContentOrder) -> Result<FileLayout> {
        let bad = |message: String| Err(Error::new(ErrorKind::InvalidArgument, message));
        if !block.is_power_of_two() || !(512..=1 << 20).contains(&block) {
            return bad(format!(
                "a block of {block} bytes is not possible: choose a power of two from 512 to 1048576"
            ));
        }
        if inline > block.min(4 << 10) {
            return bad(format!(
                "{inline} bytes of contents with the attributes are too many: choose at most {}",
                block.min(4 << 10)
            ));
        }
        Ok(FileLayout {
            block_bytes: u64::from(block),
            inline_bytes: u64::from(inline),
            order,
        })
    }

    /// Returns the options of the keyspace of branches.
    pub(crate) fn branches_keyspace(&self) -> KeyspaceOptions {
        KeyspaceOptions::new().merge_operator("append")
    }

    /// Returns the options of a keyspace.
    pub(crate) fn keyspace(&self, space: RecordSpace) -> KeyspaceOptions {
        let options = KeyspaceOptions::new();
        match space {
            RecordSpace::Names | RecordSpace::Extended | RecordSpace::System => options,
            RecordSpace::Inodes => options.value_threshold(INODE_VALUE_BYTES),
            RecordSpace::Counts => options.merge_operator("add"),
            RecordSpace::Times => options.merge_operator("maximum"),
            RecordSpace::Blocks | RecordSpace::Compressed => {
                let compression = match space {
                    RecordSpace::Compressed => Compression::Zstd,
                    _ => self.compression,
                };
                let options = options
                    .merge_operator("append")
                    .structure(self.blocks.clone())
                    .compression(compression);
                let options = match self.blocks {
                    Structure::Tiered => options.value_order(self.value_order),
                    _ => options,
                };
                match self.value_threshold {
                    Some(bytes) => options.value_threshold(bytes),
                    None => options,
                }
            }
        }
    }
}
