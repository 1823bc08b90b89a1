//! Looking many fingerprints up at once, so that their cache misses overlap.
//!
//! A lookup reads a block and then the slots that the block points to: two misses, one after the other. A batch first
//! asks for all blocks, then reads them and asks for all slots, then compares. The maplets on a path through a tree are probed
//! like this, and so are the keys of a `multi_get`.

use super::bits::{Bits, Kernel, Portable};
use super::format::{Block, SLOT_LOAD_BYTES, slots_at};
use super::geometry::Place;
use super::lookup::{ASK, Aim, Compared, Found, PageView, aim, equal_lanes};
use super::values::Values;
use crate::Fingerprint;
use crate::prefetch::prefetch;

/// How many lookups are under way together: more than a core has line fill buffers, and few enough for the first cache.
pub const BATCH: usize = 32;

/// Looks each fingerprint up in the page beside it, and hands `each` its number and what was found. The pages may be of many filters.
///
/// ```
/// use alluvium_filters::{Entry, Found, Geometry, Image, Maplet, Shape, hash, lookup_many};
/// let geometry = Geometry::for_entries(100, Shape::new(40, 4))?;
/// let mut maplet = Maplet::new(geometry);
/// let fingerprint = |key: u32| geometry.fingerprint(hash(0, &key.to_le_bytes()));
/// maplet.insert(Entry::new(fingerprint(1), 6))?;
/// let bytes = maplet.to_bytes();
/// let image = Image::new(&geometry, &bytes)?;
///
/// let probes = [0, 1, 2].map(|key| (image.view(fingerprint(key)).unwrap(), fingerprint(key)));
/// let mut found = Vec::new();
/// lookup_many(&probes, |number, answer| {
///     let Found::Here(values) = answer else { panic!("nothing has spilled") };
///     found.extend(values.map(|value| (number, value)));
/// });
/// assert_eq!(found, [(1, 6)]);
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
pub fn lookup_many<'a>(probes: &[(PageView<'a>, Fingerprint)], mut each: impl FnMut(usize, Found<'a>)) {
    let mut compared = [Compared { slots: 0, equal: 0 }; BATCH];
    for (batch, probes) in probes.chunks(BATCH).enumerate() {
        compare_many(probes, &mut compared);
        for (index, (&(view, fingerprint), &compared)) in probes.iter().zip(&compared).enumerate() {
            let found = match compared.equal {
                ASK => view.lookup_slowly(fingerprint),
                _ => Found::Here(Values::among(view.geometry, compared)),
            };
            each(batch * BATCH + index, found);
        }
    }
}

/// Compares up to [`BATCH`] probes. All pages of a batch are answered with the kernel of the first one's geometry.
fn compare_many(probes: &[(PageView<'_>, Fingerprint)], compared: &mut [Compared; BATCH]) {
    let Some((first, _)) = probes.first() else { return };
    match first.geometry.kernel {
        Kernel::Portable => in_stages::<Portable>(probes, compared),
        // SAFETY: `Kernel::detect` chooses this kernel only when the processor has the features.
        #[cfg(target_arch = "x86_64")]
        Kernel::Bmi2 => unsafe { in_stages_bmi2(probes, compared) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
fn in_stages_bmi2(probes: &[(PageView<'_>, Fingerprint)], compared: &mut [Compared; BATCH]) {
    in_stages::<super::bits::Bmi2>(probes, compared);
}

#[inline(always)]
fn in_stages<B: Bits>(probes: &[(PageView<'_>, Fingerprint)], compared: &mut [Compared; BATCH]) {
    let mut places = [Place::default(); BATCH];
    for (place, (view, fingerprint)) in places.iter_mut().zip(probes) {
        *place = view.geometry.place(*fingerprint);
        prefetch(view.page, Block::at(place.block));
    }
    let mut aims = [(Aim::default(), 0); BATCH];
    for ((aimed, place), (view, _)) in aims.iter_mut().zip(&places).zip(probes) {
        let block = Block::read(view.page, place.block).unwrap_or_default();
        let aim = aim::<B>(view.geometry, block, place.quotient);
        let bit = slots_at(view.geometry, aim.position);
        prefetch(view.page, bit as usize / 8);
        *aimed = (aim, bit);
    }
    for (index, (view, _)) in probes.iter().enumerate() {
        let (aim, bit) = aims[index];
        let at = bit as usize / 8;
        let bytes = view
            .page
            .get(at..at + SLOT_LOAD_BYTES)
            .and_then(|bytes| bytes.first_chunk());
        // tidy: allow format: slots are compared where they lie; `format.rs` says how they do
        let slots = bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes)) >> (bit % 8);
        let equal = equal_lanes::<B>(view.geometry, slots, aim.len, places[index].remainder);
        let equal = if aim.occupied == 0 || bytes.is_none() {
            0
        } else {
            equal
        };
        compared[index] = Compared {
            slots,
            equal: if aim.settled { equal } else { ASK },
        };
    }
}
