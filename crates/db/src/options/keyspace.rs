//! Options for creating a keyspace.

use crate::error::{Error, Result};
use crate::options::Structure;
use alluvium_storage::NodeCodec;
use std::time::Duration;

/// Compression of a keyspace's pages on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Pages are stored without compression.
    #[default]
    None,
    /// LZ4. It halves the size of compressible data for little processor time.
    Lz4,
    /// Zstandard. It needs less space than LZ4, but more processor time.
    Zstd,
}

impl Compression {
    pub(crate) fn codec(self) -> NodeCodec {
        match self {
            Compression::None => NodeCodec::None,
            Compression::Lz4 => NodeCodec::Lz4,
            Compression::Zstd => NodeCodec::Zstd,
        }
    }
}

impl From<NodeCodec> for Compression {
    fn from(codec: NodeCodec) -> Compression {
        match codec {
            NodeCodec::None => Compression::None,
            NodeCodec::Lz4 => Compression::Lz4,
            NodeCodec::Zstd => Compression::Zstd,
        }
    }
}

/// Where compactions of the tiered tree leave values that are stored outside leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ValueOrder {
    /// A value stays where it was first written, so it is written once. A scan of values that were
    /// written at different times reads from as many places.
    #[default]
    Written,
    /// Compactions write values again, in the order of their keys, where they have become
    /// scattered. Scans of many values then read from few places. For keyspaces that are read in
    /// the order of keys, such as the contents of files.
    Gathered,
}

/// Options for creating a keyspace. They cannot be changed later.
///
/// ```
/// use alluvium::{Compression, KeyspaceOptions};
/// let options = KeyspaceOptions::new().compression(Compression::Lz4).merge_operator("add");
/// assert_eq!(options.compression, Compression::Lz4);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceOptions {
    /// Compression of pages on disk.
    pub compression: Compression,
    /// Maximum length in bytes of values stored in leaves; longer values are stored outside leaves.
    /// `None` means a quarter of a page.
    pub value_threshold: Option<u32>,
    /// Name of the merge operator: `add`, `append`, `minimum`, `maximum`, or an operator that the
    /// program has registered. Creating a keyspace fails if the name is unknown.
    pub merge_operator: Option<String>,
    /// Name of a registered compaction filter. A snapshot taken during a compaction may see some
    /// values from before the filter was applied, and others from after it.
    pub compaction_filter: Option<String>,
    /// The data structure that stores the keyspace.
    pub structure: Structure,
    /// Where compactions leave values that are stored outside leaves. Only the tiered tree gathers
    /// values; levels have the option `values=moved`.
    pub value_order: ValueOrder,
    /// How long a value that is put without an expiry time stays. `None` means for good. Counted in
    /// whole milliseconds, at least one.
    pub default_expiry: Option<Duration>,
}

impl KeyspaceOptions {
    /// Returns the default options: the tiered tree, no compression, no merge operator, and no
    /// compaction filter.
    #[must_use]
    pub fn new() -> KeyspaceOptions {
        KeyspaceOptions::default()
    }

    /// Sets the compression of pages on disk.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> KeyspaceOptions {
        self.compression = compression;
        self
    }

    /// Sets the maximum length in bytes of values stored in leaves. Longer values are stored
    /// outside leaves, where compactions do not copy them.
    #[must_use]
    pub fn value_threshold(mut self, bytes: u32) -> KeyspaceOptions {
        self.value_threshold = Some(bytes);
        self
    }

    /// Sets the structure that stores the keyspace.
    #[must_use]
    pub fn structure(mut self, structure: Structure) -> KeyspaceOptions {
        self.structure = structure;
        self
    }

    /// Sets where compactions leave values that are stored outside leaves.
    #[must_use]
    pub fn value_order(mut self, order: ValueOrder) -> KeyspaceOptions {
        self.value_order = order;
        self
    }

    /// Lets each value expire this long after it was put, unless [`Keyspace::put_until`] gives
    /// another time. It applies to all puts: of batches, transactions, ingests and conditional
    /// writes. Values that arise only from merges do not expire. [`Keyspace::persist`] lets a
    /// value stay.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use std::time::Duration;
    /// let an_hour = alluvium::KeyspaceOptions::new().default_expiry(Duration::from_secs(3600));
    /// let sessions = db.keyspace_with("sessions", &an_hour)?;
    /// sessions.put("7", "Ada")?;
    /// assert!(sessions.expires_at("7")?.is_some());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// [`Keyspace::put_until`]: crate::Keyspace::put_until
    /// [`Keyspace::persist`]: crate::Keyspace::persist
    #[must_use]
    pub fn default_expiry(mut self, after: Duration) -> KeyspaceOptions {
        self.default_expiry = Some(after);
        self
    }

    /// Returns how long a value that is put without an expiry time stays, in milliseconds.
    pub(crate) fn default_expiry_ms(&self) -> Option<u64> {
        let whole = |after: Duration| u64::try_from(after.as_millis()).unwrap_or(u64::MAX).max(1);
        self.default_expiry.map(whole)
    }

    /// Sets the merge operator by its name.
    #[must_use]
    pub fn merge_operator(mut self, name: &str) -> KeyspaceOptions {
        self.merge_operator = Some(name.to_owned());
        self
    }

    /// Returns [`Error::OptionsDiffer`] unless these options, which belong to the existing keyspace
    /// `keyspace`, equal the requested options `asked`.
    pub(crate) fn require(&self, keyspace: &str, asked: &KeyspaceOptions) -> Result<()> {
        let name = |name: &Option<String>| format!("{name:?}");
        let threshold = |options: &KeyspaceOptions| format!("{:?}", options.value_threshold);
        let order = |options: &KeyspaceOptions| format!("{:?}", options.value_order);
        let expiry = |options: &KeyspaceOptions| match options.default_expiry_ms() {
            Some(after_ms) => format!("{after_ms} ms"),
            None => "none".to_owned(),
        };
        let compression = |options: &KeyspaceOptions| format!("{:?}", options.compression);
        let structure = |options: &KeyspaceOptions| options.structure.to_string();
        let all = [
            ("structure", structure(self), structure(asked)),
            ("compression", compression(self), compression(asked)),
            ("value threshold", threshold(self), threshold(asked)),
            ("value order", order(self), order(asked)),
            ("default expiry", expiry(self), expiry(asked)),
            (
                "merge operator",
                name(&self.merge_operator),
                name(&asked.merge_operator),
            ),
            (
                "compaction filter",
                name(&self.compaction_filter),
                name(&asked.compaction_filter),
            ),
        ];
        match all.into_iter().find(|(_, has, asked)| has != asked) {
            None => Ok(()),
            Some((option, has, asked)) => Err(Error::OptionsDiffer {
                keyspace: keyspace.to_owned(),
                option,
                has,
                asked,
            }),
        }
    }

    /// Sets the compaction filter by its name.
    #[must_use]
    pub fn compaction_filter(mut self, name: &str) -> KeyspaceOptions {
        self.compaction_filter = Some(name.to_owned());
        self
    }
}
