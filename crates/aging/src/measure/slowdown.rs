//! The model of slowdown: a scan transfers its bytes at the device's bandwidth, and each piece that
//! does not continue the previous one adds a seek (Conway 2020, §4.1).

/// What reads cost on a device.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SeekModel {
    /// Bandwidth of long reads in bytes per second.
    pub bytes_per_s: f64,
    /// Time of a seek in seconds.
    pub seek_s: f64,
}

impl SeekModel {
    /// The disk of the example in Conway 2020, §4.1. No machine that measures has it: its times are
    /// modelled.
    pub const DISK: SeekModel = SeekModel {
        bytes_per_s: 100.0 * 1024.0 * 1024.0,
        seek_s: 0.005,
    };

    /// Returns the predicted time in seconds of reading `bytes` bytes with `seeks` seeks.
    ///
    /// ```
    /// use alluvium_aging::measure::slowdown::SeekModel;
    /// // The example of the source: 100 MiB in 200 pieces take twice as long as in one.
    /// assert_eq!(SeekModel::DISK.seconds(100 << 20, 200), 2.0);
    /// ```
    #[must_use]
    pub fn seconds(&self, bytes: u64, seeks: u64) -> f64 {
        bytes as f64 / self.bytes_per_s + seeks as f64 * self.seek_s
    }
}
