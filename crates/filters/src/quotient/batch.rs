//! Batches of lookups whose cache misses overlap.
//!
//! A lookup reads a block and then the slots that the block refers to, which makes two dependent
//! cache misses. A batch first prefetches all blocks, then reads the blocks and prefetches all
//! slots, and then compares the slots. It serves the maplets on a path through a tree, and the keys
//! of a `multi_get`.

use super::bits::{BitKernel, BitOperations, PortableBits};
use super::format::{QuotientBlock, load, slots_at};
use super::lookup::{LaneMatch, PageLookup, PageView, aim, equal_lanes};
use super::values::FingerprintValues;
use crate::Fingerprint;
use alluvium_base::prefetch;

/// Marks a run that a single load of slots does not settle.
const UNSETTLED: u32 = u32::MAX;

/// A stage prefetches a cache line this many lookups before the next stage uses it. A greater
/// distance hides more latency. At 16, the prefetches of both stages already keep as many cache
/// misses outstanding as a core supports.
const AHEAD: usize = 16;

/// Number of entries in the ring of lookups in progress. It is a power of two, and more than twice
/// the prefetch distance.
const RING: usize = 64;
const _: () = assert!(RING > 2 * AHEAD && RING.is_power_of_two());

/// Looks up each fingerprint in its page, and calls `each` with the index of the fingerprint and
/// the result. The pages may belong to different filters.
///
/// ```
/// use alluvium_filters::{
///     FilterEntry, FilterGeometry, FilterImage, FilterShape, PageLookup, QuotientMaplet,
///     hash, lookup_many,
/// };
/// let geometry = FilterGeometry::for_entries(100, FilterShape::new(40, 4))?;
/// let mut maplet = QuotientMaplet::new(geometry);
/// let fingerprint = |key: u32| geometry.fingerprint(hash(0, &key.to_le_bytes()));
/// maplet.insert(FilterEntry::new(fingerprint(1), 6))?;
/// let bytes = maplet.to_bytes();
/// let image = FilterImage::new(&geometry, &bytes)?;
///
/// let probes =
///     [0, 1, 2].map(|key| (image.view(fingerprint(key)).unwrap(), fingerprint(key)));
/// let mut found = Vec::new();
/// lookup_many(&probes, |number, answer| {
///     let PageLookup::InPage(values) = answer else {
///         panic!("nothing has spilled")
///     };
///     found.extend(values.map(|value| (number, value)));
/// });
/// assert_eq!(found, [(1, 6)]);
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
pub fn lookup_many<'a>(probes: &[(PageView<'a>, Fingerprint)], mut each: impl FnMut(usize, PageLookup<'a>)) {
    // All pages are processed with the kernel of the first page's geometry.
    match probes.first().map(|(view, _)| view.geometry.kernel) {
        None => (),
        Some(BitKernel::Portable) => in_stages::<PortableBits>(probes, &mut each),
        // SAFETY: `BitKernel::detect` returns this kernel only if the processor has the required
        // features.
        #[cfg(target_arch = "x86_64")]
        Some(BitKernel::Bmi2) => unsafe { in_stages_bmi2(probes, &mut each) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
fn in_stages_bmi2<'a>(probes: &[(PageView<'a>, Fingerprint)], each: &mut impl FnMut(usize, PageLookup<'a>)) {
    in_stages::<super::bits::Bmi2Bits>(probes, each);
}

/// Ring of the lookups between two stages. Each word has a separate array, so that a stage can load
/// one while another stage's store is still pending.
struct LookupRing {
    block: [u32; RING],
    quotient: [u32; RING],
    remainder: [u64; RING],
    /// Bit offset in the page of the quotient's run.
    bit: [u32; RING],
    len: [u32; RING],
}

/// Each iteration executes one stage for each of three lookups, which are [`AHEAD`] lookups apart.
#[inline(always)]
fn in_stages<'a, B: BitOperations>(
    probes: &[(PageView<'a>, Fingerprint)],
    each: &mut impl FnMut(usize, PageLookup<'a>),
) {
    let mut underway = LookupRing {
        block: [0; RING],
        quotient: [0; RING],
        remainder: [0; RING],
        bit: [0; RING],
        len: [0; RING],
    };
    for turn in 0..probes.len() + 2 * AHEAD {
        if let Some((view, fingerprint)) = probes.get(turn) {
            let place = view.geometry.place(*fingerprint);
            prefetch(view.page, QuotientBlock::at(place.block));
            let slot = turn % RING;
            underway.block[slot] = place.block;
            underway.quotient[slot] = place.quotient;
            underway.remainder[slot] = place.remainder;
        }
        if let Some((view, _)) = probes.get(turn.wrapping_sub(AHEAD)) {
            let slot = turn.wrapping_sub(AHEAD) % RING;
            let block = QuotientBlock::read(view.page, underway.block[slot]).unwrap_or_default();
            let aim = aim::<B>(view.geometry, block, underway.quotient[slot]);
            // A quotient that is not occupied has no slots to prefetch. Prefetch the line of its
            // block instead, to avoid an unpredictable branch.
            let (here, there) = (
                QuotientBlock::at(underway.block[slot]) as u32 * 8,
                slots_at(view.geometry, aim.position),
            );
            let bit = std::hint::select_unpredictable(aim.len == 0, here, there);
            prefetch(view.page, bit as usize / 8);
            underway.bit[slot] = bit;
            underway.len[slot] = if aim.settled { aim.len } else { UNSETTLED };
        }
        let index = turn.wrapping_sub(2 * AHEAD);
        if let Some((view, fingerprint)) = probes.get(index) {
            let slot = index % RING;
            let slots = load(view.page, underway.bit[slot]).unwrap_or(0);
            let equal = equal_lanes::<B>(view.geometry, slots, underway.len[slot], underway.remainder[slot]);
            each(
                index,
                if underway.len[slot] == UNSETTLED {
                    view.lookup_slowly(*fingerprint)
                } else {
                    PageLookup::InPage(FingerprintValues::among(
                        view.geometry,
                        LaneMatch { slots, equal },
                    ))
                },
            );
        }
    }
}
