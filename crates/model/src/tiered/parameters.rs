//! The input of a prediction: the shape of a tree, and the properties of its records.

use crate::parameter::{BadParameter, at_least, positive, require};
use crate::profile::best_node;

/// Whether all values have the same length, in which case leaves do not store where values end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueLengths {
    /// All values have the same length.
    Equal,
    Varied,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordProfile {
    /// Average key length in bytes.
    pub key_bytes: f64,
    /// Average value length in bytes.
    pub value_bytes: f64,
    /// Whether all values have the same length.
    pub values: ValueLengths,
}

/// The shape of a tree and the properties of its device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeShape {
    /// m: the size of a memtable in bytes.
    pub memtable_bytes: f64,
    /// Overhead in bytes of a record in a memtable, besides its key and value.
    pub overhead_bytes: f64,
    /// F: the maximum number of children of a node.
    pub fanout: u32,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Bits per fingerprint in maplets.
    pub fingerprint_bits: u32,
    /// Bytes that the device transfers in the setup time of a request.
    pub half_bandwidth: u64,
}

impl Default for TreeShape {
    /// Returns the shape of the tree in a store with 512 MiB of memory on an SSD.
    fn default() -> TreeShape {
        TreeShape {
            memtable_bytes: 32.0 * 1024.0 * 1024.0,
            overhead_bytes: 160.0,
            fanout: 8,
            page_bytes: 4096,
            fingerprint_bits: 33,
            half_bandwidth: alluvium_base::DeviceProfile::SSD.half_bandwidth(),
        }
    }
}

/// Maximum key length of a store, in bytes.
const MOST_KEY: f64 = 65_536.0;
/// Maximum value length of a store, in bytes.
const MOST_VALUE: f64 = 4_294_967_296.0;
/// Maximum fanout, which is limited because a node is a list of its children.
const MOST_FANOUT: u32 = 1024;
/// Maximum number of pages in a leaf.
const MOST_PAGES: u64 = 16;

impl RecordProfile {
    /// Returns the size of a record's key and value in bytes.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.key_bytes + self.value_bytes
    }

    pub(super) fn checked(&self) -> Result<(), BadParameter> {
        let key = positive("the key's bytes", self.key_bytes)?;
        require("the key's bytes", key, key <= MOST_KEY, "at most 65536")?;
        let value = at_least(
            "the value's bytes",
            self.value_bytes,
            0.0,
            "finite, and not negative",
        )?;
        require("the value's bytes", value, value <= MOST_VALUE, "at most 2^32")?;
        Ok(())
    }
}

impl TreeShape {
    /// Returns F·m, the number of live bytes above which a node flushes or a leaf splits.
    #[must_use]
    pub fn node_bytes(&self) -> f64 {
        f64::from(self.fanout) * self.memtable_bytes
    }

    pub(super) fn checked(&self) -> Result<(), BadParameter> {
        positive("the memtable", self.memtable_bytes)?;
        at_least(
            "the overhead",
            self.overhead_bytes,
            0.0,
            "finite, and not negative",
        )?;
        let fanout = f64::from(self.fanout);
        let grows = (2..=MOST_FANOUT).contains(&self.fanout);
        require("the fanout", fanout, grows, "from 2 to 1024")?;
        let page = self.page_bytes.is_power_of_two() && (4096..=65_536).contains(&self.page_bytes);
        let must = "a power of two from 4096 to 65536";
        require("the page", self.page_bytes as f64, page, must)?;
        let bits = (8..=48).contains(&self.fingerprint_bits);
        let value = f64::from(self.fingerprint_bits);
        require("the fingerprint's bits", value, bits, "from 8 to 48")?;
        Ok(())
    }

    /// Returns the leaf size in bytes for records of `record` bytes: the number of whole pages with
    /// the lowest read cost (see [`best_node`]).
    pub(crate) fn leaf_bytes(&self, record: f64) -> f64 {
        let best = best_node(record as u64, self.half_bandwidth);
        let pages = (best + self.page_bytes / 2) / self.page_bytes;
        (pages.clamp(1, MOST_PAGES) * self.page_bytes) as f64
    }
}
