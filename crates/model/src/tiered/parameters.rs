//! What is predicted: the shape of a tree, and what its records are like.

use crate::parameter::{BadParameter, at_least, positive, require};
use crate::profile::best_node;

/// Whether all values are equally long: their ends are not stored then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// All are equally long.
    Equal,
    /// They differ.
    Varied,
}

/// What the records are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Records {
    /// Bytes of a key, on average.
    pub key_bytes: f64,
    /// Bytes of a value, on average.
    pub value_bytes: f64,
    /// Whether values are equally long.
    pub values: Lengths,
}

/// The shape of a tree, and what it writes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// m: bytes of a memtable.
    pub memtable_bytes: f64,
    /// Bytes that a record takes in a memtable beside its key and value.
    pub overhead_bytes: f64,
    /// F: how many children a node has.
    pub fanout: u32,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Bits of a fingerprint.
    pub fingerprint_bits: u32,
    /// Bytes that the device moves in the time in which a request begins.
    pub half_bandwidth: u64,
}

impl Default for Shape {
    /// Returns the shape of a store with 512 MiB of memory on an SSD.
    fn default() -> Shape {
        Shape {
            memtable_bytes: 32.0 * 1024.0 * 1024.0,
            overhead_bytes: 160.0,
            fanout: 8,
            page_bytes: 4096,
            fingerprint_bits: 33,
            half_bandwidth: alluvium_base::DeviceProfile::SSD.half_bandwidth(),
        }
    }
}

/// The longest keys that a store takes, in bytes.
const MOST_KEY: f64 = 65_536.0;
/// The longest values that a store takes, in bytes.
const MOST_VALUE: f64 = 4_294_967_296.0;
/// The largest fan-out: a node is a list of its children.
const MOST_FANOUT: u32 = 1024;
/// Pages of a leaf, at most.
const MOST_PAGES: u64 = 16;

impl Records {
    /// Returns the bytes of a record that users count: those of its key and its value.
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

impl Shape {
    /// Returns F·m: the live bytes above which a node flushes, or a leaf splits.
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

    /// Returns the bytes of a run's leaf for records of a length: of whole pages, as many as
    /// cost least to read (see [`best_node`]).
    pub(crate) fn leaf_bytes(&self, record: f64) -> f64 {
        let best = best_node(record as u64, self.half_bandwidth);
        let pages = (best + self.page_bytes / 2) / self.page_bytes;
        (pages.clamp(1, MOST_PAGES) * self.page_bytes) as f64
    }
}
