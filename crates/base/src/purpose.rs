//! I/O purposes. Every request states its purpose, so that I/O can be counted separately for each.

/// The purpose for which a block is read or written.
///
/// ```
/// use alluvium_base::Purpose;
/// assert_eq!(Purpose::ALL.len(), Purpose::COUNT);
/// assert_eq!(Purpose::Log.name(), "log");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Purpose {
    /// Reads and writes of superblocks and their directory entries.
    Superblock = 0,
    /// Writes of the extent map during a checkpoint, and its reads when a store is opened.
    Extents = 1,
    /// Writes and syncs of the write-ahead log.
    Log = 2,
    /// Writes of the contents of a memtable during a flush.
    Incorporate = 3,
    /// Reads and writes of runs and maplets during compactions.
    Compact = 4,
    /// Writes of trunk nodes during a checkpoint, and their reads when a store is opened.
    Trunk = 5,
    /// Reads that a point lookup waits for.
    Lookup = 6,
    /// Reads that a scan waits for, and the read-ahead of scans.
    Scan = 7,
    /// Reads of the log and of pages during recovery, when a store is opened.
    Recovery = 8,
    /// Reads for consistency checks, and reads and writes for backups.
    Check = 9,
    /// Requests of a probe, which measures a device.
    Probe = 10,
    /// I/O of tests, and everything else.
    Other = 11,
}

impl Purpose {
    /// Number of purposes, which is the length of [`Purpose::ALL`].
    pub const COUNT: usize = 12;

    /// All purposes, in the order of their numbers.
    pub const ALL: [Purpose; Purpose::COUNT] = [
        Purpose::Superblock,
        Purpose::Extents,
        Purpose::Log,
        Purpose::Incorporate,
        Purpose::Compact,
        Purpose::Trunk,
        Purpose::Lookup,
        Purpose::Scan,
        Purpose::Recovery,
        Purpose::Check,
        Purpose::Probe,
        Purpose::Other,
    ];

    /// Returns a short name of the purpose, for tables and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Superblock => "superblock",
            Purpose::Extents => "extents",
            Purpose::Log => "log",
            Purpose::Incorporate => "incorporate",
            Purpose::Compact => "compact",
            Purpose::Trunk => "trunk",
            Purpose::Lookup => "lookup",
            Purpose::Scan => "scan",
            Purpose::Recovery => "recovery",
            Purpose::Check => "check",
            Purpose::Probe => "probe",
            Purpose::Other => "other",
        }
    }
}

const _: () = {
    let mut index = 0;
    while index < Purpose::COUNT {
        assert!(
            Purpose::ALL[index] as usize == index,
            "ALL lists the purposes in the order of their numbers"
        );
        index += 1;
    }
};
