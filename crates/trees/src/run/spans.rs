//! Determines the key ranges whose readers need an extent. While nodes are written, the ranges are
//! collected by allocation unit. Once the extents are known, the ranges of their units are
//! combined.

use super::ExtentUse;
use alluvium_storage::NodePointer;
use alluvium_storage::extents::{Extent, UNIT};
use std::collections::BTreeMap;

/// Maximum length of a bound in bytes. A longer lower bound is truncated. A longer upper bound is
/// replaced by the next higher key of at most this length.
const MAX_BOUND: usize = 256;

/// The interval of keys whose readers need the nodes that start in one allocation unit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UnitSpan {
    low: Box<[u8]>,
    high: Box<[u8]>,
    live: u64,
}

/// The key intervals of all units, by tier and unit number.
#[derive(Debug, Default)]
pub(super) struct UnitSpans {
    units: BTreeMap<(u8, u64), UnitSpan>,
}

impl UnitSpans {
    /// Records that readers of keys from `low` to `high` need a node, and use `live` bytes of it.
    pub(super) fn add(&mut self, node: &NodePointer, low: &[u8], high: &[u8], live: u64) {
        self.add_unit((node.tier, node.offset / UNIT), low, high, live);
    }

    /// Like [`UnitSpans::add`], but for all nodes that start in one unit of a tier.
    pub(super) fn add_unit(&mut self, unit: (u8, u64), low: &[u8], high: &[u8], live: u64) {
        let (low, high) = (rounded_down(low), rounded_up(high));
        debug_assert!(*low <= *high, "a span has keys");
        match self.units.get_mut(&unit) {
            Some(span) => span.widen(low, &high, live),
            None => {
                let span = UnitSpan {
                    low: low.into(),
                    high: high.into(),
                    live,
                };
                self.units.insert(unit, span);
            }
        }
    }

    /// Removes the intervals of all units in an extent, and combines them into one. Returns `None`
    /// if no unit of the extent has an interval.
    pub(super) fn take(&mut self, extent: Extent, inherited: bool) -> Option<ExtentUse> {
        let units = (extent.tier, u64::from(extent.start))..(extent.tier, u64::from(extent.end()));
        let mut whole: Option<UnitSpan> = None;
        let keys: Vec<_> = self.units.range(units).map(|(unit, _)| *unit).collect();
        for span in keys.iter().filter_map(|unit| self.units.remove(unit)) {
            match &mut whole {
                Some(whole) => whole.widen(&span.low, &span.high, span.live),
                None => whole = Some(span),
            }
        }
        debug_assert!(
            whole.as_ref().is_none_or(|span| span.low <= span.high),
            "a span has keys"
        );
        whole.map(|UnitSpan { low, high, live }| ExtentUse {
            extent,
            low,
            high,
            inherited,
            live,
        })
    }

    /// Returns a unit whose interval [`UnitSpans::take`] has not removed, if there is one.
    pub(super) fn left_over(&self) -> Option<(u8, u64)> {
        self.units.keys().next().copied()
    }
}

impl UnitSpan {
    fn widen(&mut self, low: &[u8], high: &[u8], live: u64) {
        debug_assert!(low <= high && self.low <= self.high, "a span has keys");
        if *low < *self.low {
            self.low = low.into();
        }
        if *high > *self.high {
            self.high = high.into();
        }
        self.live += live;
        debug_assert!(
            *self.low <= *low && *high <= *self.high,
            "a span only widens (R2)"
        );
    }
}

/// Returns bounds of limited length around the keys from `low` to `high`, inclusive.
pub(super) fn bounds(low: &[u8], high: &[u8]) -> (Box<[u8]>, Box<[u8]>) {
    (rounded_down(low).into(), rounded_up(high).into())
}

/// Returns a key of limited length that is at or below `key`.
pub(super) fn rounded_down(key: &[u8]) -> &[u8] {
    &key[..key.len().min(MAX_BOUND)]
}

/// Returns a key of limited length that is at or above `key`, or `key` itself if there is none.
pub(super) fn rounded_up(key: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    if key.len() <= MAX_BOUND {
        return key.into();
    }
    let mut short = key[..MAX_BOUND].to_vec();
    debug_assert!(key.len() > MAX_BOUND, "short keys are their own bounds");
    while let Some(last) = short.pop() {
        if last < u8::MAX {
            short.push(last + 1);
            return short.into();
        }
    }
    key.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_storage::NodeCodec;

    fn node(unit: u64) -> NodePointer {
        NodePointer {
            offset: unit * UNIT + 4096,
            birth: 1,
            checksum: 0,
            encoded_len: 4096,
            tier: 0,
            pages: 1,
            codec: NodeCodec::None,
        }
    }

    #[test]
    fn an_extent_is_needed_by_the_keys_of_all_its_nodes() {
        let mut spans = UnitSpans::default();
        spans.add(&node(8), b"c", b"d", 10);
        spans.add(&node(9), b"d", b"f", 10);
        spans.add(&node(8), b"b", b"c", 1);
        spans.add(&node(16), b"x", b"y", 5);
        let extent = |start| Extent {
            tier: 0,
            start,
            units: 8,
        };
        let found = spans.take(extent(8), false).unwrap();
        assert_eq!(
            (&*found.low, &*found.high, found.live),
            (&b"b"[..], &b"f"[..], 21)
        );
        assert_eq!(spans.left_over(), Some((0, 16)));
        assert!(spans.take(extent(8), false).is_none());
        assert!(spans.take(extent(16), true).unwrap().inherited);
        assert_eq!(spans.left_over(), None);
    }

    #[test]
    fn long_bounds_are_rounded_outwards() {
        let long = [&[7; 256][..], b"tail"].concat();
        assert_eq!(rounded_down(&long), &[7; 256]);
        assert!(*rounded_up(&long) > long[..] && rounded_up(&long).len() == 256);
        let high = vec![255; 300];
        assert_eq!(*rounded_up(&high), high[..]);
        let carried = [&[1; 200][..], &[255; 100]].concat();
        assert_eq!(*rounded_up(&carried), [&[1; 199][..], &[2]].concat());
    }
}
