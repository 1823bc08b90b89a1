//! The purpose of an I/O. Every request carries one, so that counters break down I/O by purpose.

/// Why a block is read or written.
///
/// ```
/// use alluvium_base::Purpose;
/// assert_eq!(Purpose::ALL.len(), Purpose::COUNT);
/// assert_eq!(Purpose::Log.name(), "log");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Purpose {
    /// Superblocks and their directory entries.
    Superblock = 0,
    /// Writing the extent map at a cut, reading it at open.
    Extents = 1,
    /// Writing and syncing the write-ahead log.
    Log = 2,
    /// Writing the contents of a memtable in a flush.
    Incorporate = 3,
    /// Reading and writing runs and maplets in compactions.
    Compact = 4,
    /// Writing trunk nodes at a checkpoint, reading them at open.
    Trunk = 5,
    /// Reads that a point lookup waits for.
    Lookup = 6,
    /// Reads that a scan waits for, and its read-ahead.
    Scan = 7,
    /// Reading log and pages when a store is opened.
    Recovery = 8,
    /// Walking structures to check them, and copying them for backups.
    Check = 9,
    /// Requests of a probe that measures a device.
    Probe = 10,
    /// Tests and all other uses.
    Other = 11,
}

impl Purpose {
    /// Number of purposes, and length of [`Purpose::ALL`].
    pub const COUNT: usize = 12;

    /// All purposes, ordered by number.
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

    /// Returns a short name for tables and metrics.
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
