//! The yardstick: a bloom filter whose every key sets its bits in one cache line.
//!
//! *Knows*: lines of eight words; a hash chooses the page, the line, and one bit in each word (the
//! "split block" of Putze, Sanders and Singler, "Cache-, hash- and space-efficient bloom filters",
//! and of Parquet). It is the fastest portable form: no branch, one line, eight bits whatever the
//! size.
//!
//! *Does not know*: keys; values; how to forget a key or to be merged without keys, which is why
//! the trees use [`crate::quotient`].
//!
//! *Read in this order*: [`BloomGeometry`], [`BloomView`], `format`, `check`.
//!
//! F8 of the crate: a key that was put in is found.

mod check;
mod format;

use crate::{Error, Result};
use alluvium_base::prefetch;
use format::{LINE_BYTES, WORDS};

/// How many bits of a hash choose a bit in a word.
const BIT_BITS: u32 = 6;
const _: () = assert!(1 << BIT_BITS == u64::BITS);

/// Odd numbers; multiplied by a hash, the highest bits of the products are the bits to set (those
/// of Parquet's specification).
const SALTS: [u32; WORDS] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// How many pages a filter has, and how large they are.
///
/// ```
/// use alluvium_filters::{BloomGeometry, BloomView, BloomPage, hash};
/// let geometry = BloomGeometry::for_keys(1000, 0.001, 4096)?;
/// let mut filter = vec![0; geometry.bytes() as usize];
/// for (number, page) in filter.chunks_mut(4096).enumerate() {
///     BloomPage::create(&geometry, page, number as u32)?;
/// }
/// let of = |key: &[u8]| (hash(0, key), geometry.page_of(hash(0, key)) as usize * 4096);
/// let (pear, at) = of(b"pear");
/// BloomPage::new(&geometry, &mut filter[at..at + 4096])?.insert(pear);
/// assert!(BloomView::new(&geometry, &filter[at..at + 4096])?.contains(pear));
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BloomGeometry {
    pages: u32,
    page_bytes: u32,
    /// Lines of a page.
    lines: u32,
}

impl BloomGeometry {
    /// A filter of `pages` pages.
    ///
    /// # Errors
    /// [`Error::Shape`] when there are none, or pages are no power of two from 4 KiB to 64 KiB.
    pub fn with_pages(pages: u32, page_bytes: u32) -> Result<BloomGeometry> {
        if pages == 0 || !page_bytes.is_power_of_two() || !(4096..=65536).contains(&page_bytes) {
            let what = format!("{pages} pages of {page_bytes} bytes");
            return Err(Error::shape(
                what,
                "a page or more, of a power of two from 4096 to 65536 bytes",
            ));
        }
        Ok(BloomGeometry {
            pages,
            page_bytes,
            lines: page_bytes / LINE_BYTES as u32 - 1,
        })
    }

    /// The smallest filter that answers wrongly with at most this probability once it holds `keys`
    /// keys.
    ///
    /// # Errors
    /// [`Error::Shape`] when no filter of at most 2³² - 1 pages does.
    pub fn for_keys(keys: u64, false_positive_rate: f64, page_bytes: u32) -> Result<BloomGeometry> {
        let (mut low, mut high) = (1, u32::MAX);
        let rate = |pages| {
            BloomGeometry::with_pages(pages, page_bytes).map(|geometry| geometry.false_positive_rate(keys))
        };
        if rate(high)? > false_positive_rate {
            return Err(Error::shape(
                format!("{keys} keys at {false_positive_rate:e}"),
                "a higher rate, or fewer keys",
            ));
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if rate(middle)? <= false_positive_rate {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        BloomGeometry::with_pages(low, page_bytes)
    }

    /// Returns the probability that a filter of `keys` keys answers for a key that was never put
    /// in. It is the probability that a bit is set in each word of a line, averaged over the
    /// number of keys in a line, which is Poisson-distributed.
    #[must_use]
    pub fn false_positive_rate(&self, keys: u64) -> f64 {
        let mean = keys as f64 / (f64::from(self.pages) * f64::from(self.lines));
        if mean > 600.0 {
            return 1.0;
        }
        let unset = 1.0 - 1.0 / f64::from(u64::BITS);
        let mut probability = (-mean).exp();
        let mut rate = 0.0;
        for in_line in 1..=(mean + 12.0 * mean.sqrt() + 24.0) as u32 {
            probability *= mean / f64::from(in_line);
            rate += probability * (1.0 - unset.powi(in_line as i32)).powi(WORDS as i32);
        }
        rate
    }

    /// The page that a hash belongs to.
    #[must_use]
    #[inline]
    pub fn page_of(&self, hash: u64) -> u32 {
        ((u128::from(hash) * u128::from(self.pages)) >> 64) as u32
    }

    /// The line within its page.
    #[inline(always)]
    fn line_of(&self, hash: u64) -> usize {
        let in_page = hash.wrapping_mul(u64::from(self.pages));
        ((u128::from(in_page) * u128::from(self.lines)) >> 64) as usize
    }

    /// How many pages.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Bytes of all pages.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.pages) * u64::from(self.page_bytes)
    }
}

/// Which bit a hash sets in each word.
#[inline(always)]
fn shifts_of(hash: u64) -> [u32; WORDS] {
    SALTS.map(|salt| (hash as u32).wrapping_mul(salt) >> (u32::BITS - BIT_BITS))
}

/// A page as it lies in a cache. Whatever the bytes are, every call returns.
#[derive(Clone, Copy, Debug)]
pub struct BloomView<'a> {
    geometry: &'a BloomGeometry,
    page: &'a [u8],
}

impl<'a> BloomView<'a> {
    /// A view of a page. Only its length is checked; [`BloomView::check`] checks the rest.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the page has not the geometry's length.
    #[inline]
    pub fn new(geometry: &'a BloomGeometry, page: &'a [u8]) -> Result<BloomView<'a>> {
        if page.len() != geometry.page_bytes as usize {
            return Err(wrong_length(geometry, page));
        }
        Ok(BloomView { geometry, page })
    }

    /// Whether a hash that belongs to this page ([`BloomGeometry::page_of`]) may have been put in.
    #[must_use]
    #[inline]
    pub fn contains(&self, hash: u64) -> bool {
        let Some(line) = format::line(self.page, self.geometry.line_of(hash)) else {
            return false;
        };
        let set = line
            .iter()
            .zip(shifts_of(hash))
            .fold(1, |set, (word, shift)| set & (word >> shift));
        set == 1
    }

    /// Hints that the line of a hash will be read soon.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(self.page, (self.geometry.line_of(hash) + 1) * LINE_BYTES);
    }
}

#[cold]
fn wrong_length(geometry: &BloomGeometry, page: &[u8]) -> Error {
    Error::corrupt(
        0,
        "length",
        format!("{} bytes", geometry.page_bytes),
        format!("{} bytes", page.len()),
    )
}

/// A page that is being filled.
#[derive(Debug)]
pub struct BloomPage<'a> {
    geometry: &'a BloomGeometry,
    page: &'a mut [u8],
}

impl<'a> BloomPage<'a> {
    /// Makes `page` the empty page `number`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it has not the geometry's length.
    pub fn create(geometry: &'a BloomGeometry, page: &'a mut [u8], number: u32) -> Result<BloomPage<'a>> {
        let made = BloomPage::new(geometry, page)?;
        format::write_empty(geometry, made.page, number);
        Ok(made)
    }

    /// A page that [`BloomPage::create`] has made.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it has not the geometry's length.
    #[inline]
    pub fn new(geometry: &'a BloomGeometry, page: &'a mut [u8]) -> Result<BloomPage<'a>> {
        if page.len() != geometry.page_bytes as usize {
            return Err(wrong_length(geometry, page));
        }
        Ok(BloomPage { geometry, page })
    }

    /// Puts a hash in that belongs to this page.
    #[inline]
    pub fn insert(&mut self, hash: u64) {
        let number = self.geometry.line_of(hash);
        if let Some(mut line) = format::line(self.page, number) {
            for (word, shift) in line.iter_mut().zip(shifts_of(hash)) {
                *word |= 1 << shift;
            }
            format::set_line(self.page, number, line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(geometry: &BloomGeometry, hashes: impl Iterator<Item = u64>) -> Vec<u8> {
        let size = geometry.page_bytes as usize;
        let mut filter = vec![0; geometry.bytes() as usize];
        for (number, page) in filter.chunks_mut(size).enumerate() {
            BloomPage::create(geometry, page, number as u32).unwrap();
        }
        for hash in hashes {
            let at = geometry.page_of(hash) as usize * size;
            BloomPage::new(geometry, &mut filter[at..at + size])
                .unwrap()
                .insert(hash);
        }
        filter
    }

    fn contains(geometry: &BloomGeometry, filter: &[u8], hash: u64) -> bool {
        let size = geometry.page_bytes as usize;
        let at = geometry.page_of(hash) as usize * size;
        BloomView::new(geometry, &filter[at..at + size])
            .unwrap()
            .contains(hash)
    }

    #[test]
    fn what_was_put_in_is_found_and_strangers_are_rarely_taken_for_it() {
        for (rate, page_bytes) in [(0.01, 4096), (0.004, 16384), (0.000_25, 65536)] {
            let mut random = fastrand::Rng::with_seed(5);
            let keys: Vec<u64> = (0..60_000).map(|_| random.u64(..)).collect();
            let geometry = BloomGeometry::for_keys(60_000, rate, page_bytes).unwrap();
            let filter = filled(&geometry, keys.iter().copied());
            assert!(keys.iter().all(|&key| contains(&geometry, &filter, key)));
            let strangers = 400_000;
            let wrong = (0..strangers)
                .filter(|_| contains(&geometry, &filter, random.u64(..)))
                .count();
            let (found, theory) = (
                wrong as f64 / f64::from(strangers),
                geometry.false_positive_rate(60_000),
            );
            assert!(
                theory <= rate && found < theory * 1.3 + 3e-5,
                "found {found:e}, theory {theory:e}, wanted {rate:e}"
            );
            assert!(
                filter.chunks(page_bytes as usize).zip(0..).all(|(page, number)| {
                    BloomView::new(&geometry, page).unwrap().check(number).is_empty()
                })
            );
        }
    }

    #[test]
    fn no_bytes_make_a_lookup_panic() {
        let mut random = fastrand::Rng::with_seed(6);
        let geometry = BloomGeometry::with_pages(2, 4096).unwrap();
        let page: Vec<u8> = (0..4096).map(|_| random.u8(..)).collect();
        let view = BloomView::new(&geometry, &page).unwrap();
        for _ in 0..1000 {
            let hash = random.u64(..);
            view.prefetch(hash);
            let _ = view.contains(hash);
        }
        assert!(!view.check(0).is_empty());
        assert!(BloomView::new(&geometry, &page[1..]).is_err());
        assert!(BloomGeometry::with_pages(0, 4096).is_err() && BloomGeometry::with_pages(1, 4097).is_err());
    }

    #[test]
    fn a_page_whose_words_disagree_is_reported() {
        let geometry = BloomGeometry::with_pages(1, 4096).unwrap();
        let mut filter = filled(&geometry, [1, u64::MAX / 2].into_iter());
        assert!(BloomView::new(&geometry, &filter).unwrap().check(0).is_empty());
        filter[64 * 6] |= 1;
        assert_eq!(BloomView::new(&geometry, &filter).unwrap().check(0).len(), 1);
        filter[0] = b'B';
        assert_eq!(BloomView::new(&geometry, &filter).unwrap().check(0).len(), 2);
    }
}
