//! Prefetching of cache lines.

/// Hints that the cache line of `bytes[at]` will be read soon. Does nothing if `at` is out of
/// bounds, or if the target has no prefetch instruction.
///
/// ```
/// alluvium_base::prefetch(&[1, 2, 3], 0);
/// ```
///
/// Measured: lookups in a 256 MiB filter take 35 to 45 ns each with hints and 100 to 120 ns
/// without.
#[inline(always)]
pub fn prefetch(bytes: &[u8], at: usize) {
    if let Some(byte) = bytes.get(at) {
        prefetch_line(byte);
    }
}

/// Hints that the first cache line of `value` will be read soon. Does nothing if the target has no
/// prefetch instruction.
///
/// ```
/// alluvium_base::prefetch_line(&[1, 2, 3]);
/// ```
#[inline(always)]
pub fn prefetch_line<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect that a program can observe, and the pointer refers to a
        // value that is borrowed for the duration of the call.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
