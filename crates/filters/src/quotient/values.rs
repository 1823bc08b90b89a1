//! Iterator over the values found by a lookup.

use super::format::record;
use super::geometry::FilterGeometry;
use super::lookup::{LaneMatch, PageView};
use crate::Fingerprint;

/// Iterates over the distinct values of a fingerprint, from the newest (the greatest) to the
/// oldest, without allocating memory.
#[derive(Clone, Debug)]
pub struct FingerprintValues<'a> {
    geometry: &'a FilterGeometry,
    state: ValueSource<'a>,
}

#[derive(Clone, Debug)]
enum ValueSource<'a> {
    /// The lanes of one load that equal the fingerprint's remainder.
    Lanes(LaneMatch),
    /// The rest of a run in a page, compared word by word.
    Run {
        page: &'a [u8],
        remainder: u64,
        at: u32,
        end: u32,
    },
    /// The rest of the records in a spill page.
    Records {
        page: &'a [u8],
        fingerprint: Fingerprint,
        at: u32,
        end: u32,
    },
}

impl<'a> FingerprintValues<'a> {
    #[inline(always)]
    pub(super) fn among(geometry: &'a FilterGeometry, compared: LaneMatch) -> FingerprintValues<'a> {
        FingerprintValues {
            geometry,
            state: ValueSource::Lanes(compared),
        }
    }

    pub(super) fn in_run(view: PageView<'a>, remainder: u64, at: u32, end: u32) -> FingerprintValues<'a> {
        FingerprintValues {
            geometry: view.geometry,
            state: ValueSource::Run {
                page: view.page,
                remainder,
                at,
                end,
            },
        }
    }

    pub(super) fn in_records(
        geometry: &'a FilterGeometry,
        page: &'a [u8],
        fingerprint: Fingerprint,
        (at, end): (u32, u32),
    ) -> FingerprintValues<'a> {
        FingerprintValues {
            geometry,
            state: ValueSource::Records {
                page,
                fingerprint,
                at,
                end,
            },
        }
    }

    /// Returns whether there are no more values.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        match &self.state {
            ValueSource::Lanes(compared) => compared.equal == 0,
            _ => self.clone().next_slowly().is_none(),
        }
    }

    #[cold]
    #[inline(never)]
    fn next_slowly(&mut self) -> Option<u16> {
        let geometry = self.geometry;
        match &mut self.state {
            ValueSource::Lanes(_) => None,
            ValueSource::Run {
                page,
                remainder,
                at,
                end,
            } => {
                let mut run = PageView { geometry, page }.run(*at, *end);
                let found = run.find(|&(word, _)| word >> geometry.value_bits == *remainder);
                *at = run.position();
                found.map(|(word, _)| geometry.value(word))
            }
            ValueSource::Records {
                page,
                fingerprint,
                at,
                end,
            } => {
                if *at >= *end {
                    return None;
                }
                let (entry, _) = record(page, *at)?;
                *at += 1;
                (entry.fingerprint() == *fingerprint).then(|| entry.value())
            }
        }
    }
}

impl Iterator for FingerprintValues<'_> {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        let ValueSource::Lanes(compared) = &mut self.state else {
            return self.next_slowly();
        };
        if compared.equal == 0 {
            return None;
        }
        let bits = self.geometry.slot_bits;
        let lane = (compared.equal.trailing_zeros() + 1).wrapping_sub(bits);
        let value = self.geometry.value(compared.slots.wrapping_shr(lane));
        compared.equal &= compared.equal - 1;
        // A word that occurs twice is stored in two consecutive lanes, so skip the second one.
        let again = compared.slots.wrapping_shr(lane.wrapping_add(bits));
        if compared.equal != 0 && self.geometry.value(again) == value {
            compared.equal &= compared.equal - 1;
        }
        Some(value)
    }
}
