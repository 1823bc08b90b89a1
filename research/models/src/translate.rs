//! Lemma 1 of Bender: an algorithm for the DAM model can be run in the affine model, and the
//! reverse, within a constant factor of the cost.
//!
//! The unit of both models is the affine setup; blocks have B = 1/α bytes, the half-bandwidth
//! size. An affine algorithm of cost C becomes a DAM algorithm of cost at most 4C that needs two
//! more blocks of memory, and a DAM algorithm of cost C becomes an affine algorithm of cost 2C in
//! the same memory. The tests check both directions on random accesses.

use alluvium_base::cost::{AccessKind, DeviceAccess};
use std::ops::Range;

/// Returns the numbers of the blocks that an access touches.
fn blocks(access: &DeviceAccess, block: u64) -> Range<u64> {
    if access.len == 0 {
        return 0..0;
    }
    access.offset / block..(access.offset + access.len).div_ceil(block)
}

/// Returns the block accesses that replace one access of any size in a DAM algorithm. A read
/// becomes a read of every block it touches. A write first reads the partially covered blocks at
/// its ends, then writes every block it touches.
///
/// ```
/// use alluvium_base::cost::{DeviceAccess, AccessKind};
/// use research_models::translate::to_blocks;
/// let write = DeviceAccess { file: 0, offset: 100, len: 4096, kind: AccessKind::Write };
/// let kinds: Vec<_> = to_blocks(&write, 4096).iter().map(|access| access.kind).collect();
/// assert_eq!(kinds, [AccessKind::Read, AccessKind::Read, AccessKind::Write]);
/// ```
///
/// # Panics
/// When `block` is zero.
#[must_use]
pub fn to_blocks(access: &DeviceAccess, block: u64) -> Vec<DeviceAccess> {
    let touched = blocks(access, block);
    let whole = |first: u64, count: u64, kind| DeviceAccess {
        file: access.file,
        offset: first * block,
        len: count * block,
        kind,
    };
    if touched.is_empty() {
        return Vec::new();
    }
    let mut accesses = Vec::with_capacity(3);
    let count = touched.end - touched.start;
    if access.kind == AccessKind::Write {
        let starts_inside = !access.offset.is_multiple_of(block);
        let ends_inside = !(access.offset + access.len).is_multiple_of(block);
        if starts_inside {
            accesses.push(whole(touched.start, 1, AccessKind::Read));
        }
        if ends_inside && !(starts_inside && count == 1) {
            accesses.push(whole(touched.end - 1, 1, AccessKind::Read));
        }
    }
    accesses.push(whole(touched.start, count, access.kind));
    accesses
}

/// Returns the affine accesses of a DAM algorithm: one block-sized access for every block.
///
/// # Panics
/// When `block` is zero.
#[must_use]
pub fn to_single_blocks(access: &DeviceAccess, block: u64) -> Vec<DeviceAccess> {
    blocks(access, block)
        .map(|number| DeviceAccess {
            offset: number * block,
            len: block,
            ..*access
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_base::cost::CostClock;
    use alluvium_model::{AffineClock, DamClock};
    use proptest::prelude::*;

    fn accesses() -> impl Strategy<Value = Vec<DeviceAccess>> {
        let access =
            (0u64..1 << 30, 0u32..24, 0u64..1 << 24, any::<bool>()).prop_map(|(offset, bits, len, write)| {
                DeviceAccess {
                    file: 0,
                    offset,
                    // Lengths of every order of magnitude.
                    len: 1 + len % (1 << bits),
                    kind: if write {
                        AccessKind::Write
                    } else {
                        AccessKind::Read
                    },
                }
            });
        proptest::collection::vec(access, 1..60)
    }

    fn total(clock: &mut dyn CostClock, accesses: impl IntoIterator<Item = DeviceAccess>) -> u64 {
        accesses.into_iter().fold(0, |_, access| {
            clock.charge(0, &access).expect("serial clocks forbid nothing")
        })
    }

    /// Blocks of B bytes, a setup of B × `byte_ns`: so 1/α = B.
    fn device() -> impl Strategy<Value = (u64, u64)> {
        (9u32..22, 1u64..100).prop_map(|(bits, byte_ns)| (1 << bits, byte_ns))
    }

    proptest! {
        #[test]
        fn an_affine_algorithm_costs_at_most_four_times_as_much_on_the_dam(
            accesses in accesses(), (block, byte_ns) in device()
        ) {
            let affine = total(&mut AffineClock::new(block * byte_ns, byte_ns, 1), accesses.clone());
            let translated = accesses.iter().flat_map(|access| to_blocks(access, block));
            let dam = total(&mut DamClock::new(block, block * byte_ns), translated);
            prop_assert!(dam <= 4 * affine, "{dam} > 4 × {affine}");
        }

        #[test]
        fn a_dam_algorithm_costs_exactly_twice_as_much_on_the_affine_device(
            accesses in accesses(), (block, byte_ns) in device()
        ) {
            let dam = total(&mut DamClock::new(block, block * byte_ns), accesses.clone());
            let translated = accesses.iter().flat_map(|access| to_single_blocks(access, block));
            let affine = total(&mut AffineClock::new(block * byte_ns, byte_ns, 1), translated);
            prop_assert_eq!(affine, 2 * dam);
        }

        #[test]
        fn the_translation_covers_every_byte_and_holds_two_more_blocks_at_most(
            accesses in accesses(), (block, _) in device()
        ) {
            for access in accesses {
                let translated = to_blocks(&access, block);
                let main = translated.last().expect("an access of some bytes touches a block");
                prop_assert!(main.kind == access.kind);
                prop_assert!(main.offset <= access.offset && access.offset + access.len <= main.offset + main.len);
                // Memory: the block-aligned extent compared with the access's own bytes.
                prop_assert!(main.len < access.len + 2 * block);
                let read_back = translated.len() - 1;
                prop_assert!(read_back <= 2 && (access.kind == AccessKind::Write || read_back == 0));
            }
        }
    }

    #[test]
    fn a_write_inside_one_block_reads_it_back_once() {
        let write = |offset, len| DeviceAccess {
            file: 0,
            offset,
            len,
            kind: AccessKind::Write,
        };
        assert_eq!(to_blocks(&write(10, 20), 512).len(), 2);
        assert_eq!(to_blocks(&write(0, 20), 512).len(), 2);
        assert_eq!(to_blocks(&write(500, 20), 512).len(), 3);
        assert_eq!(to_blocks(&write(512, 1024), 512).len(), 1);
        assert!(to_blocks(&write(512, 0), 512).is_empty());
    }
}
