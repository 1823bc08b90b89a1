//! Lists the allocation units that contain a leaf's separate values. Index entries store these
//! lists, so that a leaf and its values can be adopted without reading either.

use alluvium_storage::NodePointer;
use alluvium_storage::extents::UNIT;

/// Maximum number of units listed for a leaf. A leaf with values in more units cannot be adopted.
const MOST: usize = 64;
/// In nodes of sequentially written values, at most about one byte in this many value bytes is
/// unused.
const SLACK: u64 = 4;
const _: () = assert!(
    MOST <= u16::MAX as usize,
    "units of a leaf are counted in 16 bits"
);

/// An allocation unit of a tier, and the number of bytes that a leaf's values occupy in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ValueUnit {
    pub(super) tier: u8,
    pub(super) unit: u32,
    pub(super) live: u32,
}

/// The allocation units that contain a leaf's separate values. Empty if it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ValueUnits {
    /// Number of records in the leaf that have a separate value.
    pub(super) records: u16,
    list: Vec<ValueUnit>,
    /// Whether there were too many units to list. The list is then empty.
    too_many: bool,
}

impl ValueUnits {
    /// Creates the unit list of a leaf with `records` separate values. `list` must be sorted.
    pub(super) fn of(records: u16, list: Vec<ValueUnit>) -> ValueUnits {
        ValueUnits {
            records,
            list,
            too_many: false,
        }
    }

    pub(super) fn clear(&mut self) {
        (self.records, self.too_many) = (0, false);
        self.list.clear();
    }

    /// Clears the list and marks it as incomplete.
    pub(super) fn forget(&mut self) {
        self.list.clear();
        self.too_many = true;
    }

    /// Adds a node that contains `live` bytes of the leaf's values.
    pub(super) fn add(&mut self, node: &NodePointer, live: u64) {
        if self.too_many {
            return;
        }
        let (unit, bytes) = (u32::try_from(node.offset / UNIT), u32::try_from(live));
        let (Ok(unit), Ok(live)) = (unit, bytes) else {
            return self.forget();
        };
        let is_it = |listed: &ValueUnit| (listed.tier, listed.unit) == (node.tier, unit);
        match self.list.iter().rposition(is_it) {
            Some(place) => self.list[place].live = self.list[place].live.saturating_add(live),
            None if self.list.len() == MOST => self.forget(),
            None => self.list.push(ValueUnit {
                tier: node.tier,
                unit,
                live,
            }),
        }
        debug_assert!(self.list.len() <= MOST, "no more are listed");
    }

    /// Sorts the units. Must be called after all nodes have been added.
    pub(super) fn settle(&mut self) {
        self.list.sort_unstable();
        debug_assert!(
            self.list.is_sorted_by_key(|listed| (listed.tier, listed.unit)),
            "each unit once"
        );
    }

    /// Returns the units, sorted by tier and number.
    pub(super) fn list(&self) -> &[ValueUnit] {
        &self.list
    }

    /// Returns whether the list contains no unit.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns whether the values are stored about as close together as sequentially written ones.
    pub(super) fn lie_together(&self) -> bool {
        let live: u64 = self.list.iter().map(|listed| u64::from(listed.live)).sum();
        let most = (live + live / SLACK) / UNIT + 2;
        self.list.len() as u64 <= most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_storage::NodeCodec;

    fn node(tier: u8, offset: u64) -> NodePointer {
        NodePointer {
            offset,
            birth: 1,
            checksum: 0,
            encoded_len: 4096,
            tier,
            pages: 1,
            codec: NodeCodec::None,
        }
    }

    fn unit(tier: u8, unit: u32, live: u32) -> ValueUnit {
        ValueUnit { tier, unit, live }
    }

    #[test]
    fn a_unit_is_listed_once_with_all_that_is_live_in_it() {
        let mut units = ValueUnits::default();
        for (tier, offset, live) in [
            (0, 5 * UNIT, 10),
            (0, 4 * UNIT, 1),
            (0, 5 * UNIT + 4096, 5),
            (1, 5 * UNIT, 7),
        ] {
            units.add(&node(tier, offset), live);
        }
        units.settle();
        assert_eq!(units.list(), [unit(0, 4, 1), unit(0, 5, 15), unit(1, 5, 7)]);
    }

    #[test]
    fn more_units_than_are_listed_are_none() {
        let mut units = ValueUnits::default();
        (0..MOST as u64).for_each(|number| units.add(&node(0, number * UNIT), 1));
        assert_eq!(units.list().len(), MOST);
        units.add(&node(0, 3 * UNIT), 1);
        assert_eq!(units.list().len(), MOST, "it is listed");
        units.add(&node(0, MOST as u64 * UNIT), 1);
        units.add(&node(0, 0), 1);
        assert!(units.is_empty());
        units.clear();
        units.add(&node(0, 0), 1);
        assert_eq!(units.list(), [unit(0, 0, 1)]);
    }

    #[test]
    fn values_behind_each_other_lie_together_and_scattered_ones_do_not() {
        let of = |count: u32, apart: u32, live: u32| {
            let list = (0..count).map(|number| unit(0, number * apart, live)).collect();
            ValueUnits::of(1, list)
        };
        assert!(of(4, 1, UNIT as u32 / 8 * 7).lie_together());
        assert!(of(2, 9, 100).lie_together(), "the end of a unit, and the next");
        assert!(!of(3, 9, 4000).lie_together());
        assert!(!of(20, 9, 4000).lie_together());
        assert!(of(0, 1, 0).lie_together());
    }
}
