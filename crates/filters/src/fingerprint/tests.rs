use super::*;

fn family(width: u32, independence: HashIndependence) -> FingerprintFamily {
    FingerprintFamily::new(0x0123_4567_89ab_cdef_0011_2233_4455_6677, width, independence).unwrap()
}

/// Returns the chi-square statistic for outcomes that should be equally likely. It has one degree
/// of freedom fewer than there are outcomes.
fn chi_square(counts: &[u32]) -> f64 {
    let total: u32 = counts.iter().sum();
    let expected = f64::from(total) / counts.len() as f64;
    counts
        .iter()
        .map(|&count| (f64::from(count) - expected).powi(2) / expected)
        .sum()
}

#[test]
fn every_character_is_uniform() {
    for (width, independence) in [
        (64, HashIndependence::Words(16)),
        (128, HashIndependence::Words(40)),
        (64, HashIndependence::Assumed),
        (128, HashIndependence::Assumed),
    ] {
        let family = family(width, independence);
        let alphabet = FingerprintAlphabet::new(width, 16).unwrap();
        let mut counts = vec![[0u32; 16]; width as usize / 4];
        for key in 0u32..8000 {
            let fingerprint = family.of(&key.to_le_bytes());
            for (at, counts) in counts.iter_mut().enumerate() {
                counts[alphabet.next(fingerprint, 4 * at as u32) as usize] += 1;
            }
        }
        for (at, counts) in counts.iter().enumerate() {
            // With 15 degrees of freedom, the statistic exceeds 44.3 once in 10,000 tests.
            assert!(chi_square(counts) < 44.3, "character {at} of {width}: {counts:?}");
        }
    }
}

#[test]
fn pairs_of_keys_have_independent_characters() {
    // Over many seeds, the characters of two fixed keys take each of their 16 pairs of values
    // equally often.
    let mut counts = [0u32; 16];
    for seed in 0..4000 {
        let family = FingerprintFamily::new(seed, 64, HashIndependence::Words(16)).unwrap();
        let alphabet = FingerprintAlphabet::new(64, 4).unwrap();
        let [one, two] = [b"one", b"two"].map(|key| alphabet.check(family.of(key), 2));
        counts[(4 * one + two) as usize] += 1;
    }
    assert!(chi_square(&counts) < 44.3, "{counts:?}");
}

#[test]
fn as_many_keys_as_the_degree_says_and_no_more_are_independent() {
    // A polynomial of degree 1 is a line, so three equidistant keys have equidistant values modulo
    // the prime.
    let lines = (0..200).filter(|&seed| {
        let family = FingerprintFamily::new(seed, 64, HashIndependence::Words(2)).unwrap();
        let [a, b, c] = [[1u8], [2], [3]].map(|key| family.of(&key).0 >> 64);
        let step = |from: u128, to: u128| (to as u64).wrapping_sub(from as u64);
        step(a, b).abs_diff(step(b, c)) <= 2
    });
    assert!(
        lines.count() > 40,
        "independence 2 shows its line unless the prime is passed"
    );
    let constant = family(64, HashIndependence::Words(1));
    assert_eq!(constant.of(b"one"), constant.of(b"two"));
}

#[test]
fn a_seed_gives_the_same_fingerprints_for_ever() {
    let of = |independence| family(128, independence).of(b"alluvium").0;
    assert_eq!(
        of(HashIndependence::Words(16)),
        PINNED[0],
        "{:#x}",
        of(HashIndependence::Words(16))
    );
    assert_eq!(
        of(HashIndependence::Assumed),
        PINNED[1],
        "{:#x}",
        of(HashIndependence::Assumed)
    );
}

const PINNED: [u128; 2] = [
    0x3f40_702b_36a0_d38b_3c12_911c_6049_13c0,
    0xf2cb_fdba_226f_1356_e3dc_3b7f_ba15_c42b,
];

#[test]
fn keys_that_are_alike_have_fingerprints_of_their_own() {
    let family = family(64, HashIndependence::Words(16));
    let mut keys: Vec<Vec<u8>> = (0..64).map(|length| vec![0; length]).collect();
    keys.extend((1..=255).map(|byte| vec![byte]));
    keys.extend((0..45).map(|at| {
        let mut key = vec![0; 45];
        key[at] = 1;
        key
    }));
    let mut fingerprints: Vec<_> = keys.iter().map(|key| family.of(key)).collect();
    fingerprints.sort_unstable();
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), keys.len());
}

#[test]
fn prefixes_extend_by_next_characters_and_never_meet_check_characters() {
    let family = family(64, HashIndependence::Words(16));
    for characters in [2, 4, 16, 64, 256] {
        let alphabet = FingerprintAlphabet::new(64, characters).unwrap();
        let bits = alphabet.character_bits();
        let fingerprint = family.of(b"prefix");
        for at in 0..40 {
            let extended =
                alphabet.prefix(fingerprint, at) << bits | u64::from(alphabet.next(fingerprint, at));
            assert_eq!(extended, alphabet.prefix(fingerprint, at + bits));
        }
        // The check character of the first level is the end of the 64 bits.
        let last = (fingerprint.0 >> 64) as u32 & (characters - 1);
        assert_eq!(alphabet.check(fingerprint, 1), last);
        assert!(alphabet.fits(32, 32 / bits) && !alphabet.fits(33, 32u32.div_ceil(bits)));
    }
}

#[test]
fn impossible_shapes_are_refused_by_name() {
    for characters in [0, 1, 3, 6, 100, 512] {
        let text = FingerprintAlphabet::new(64, characters).unwrap_err().to_string();
        assert!(text.contains("a power of two from 2 to 256"), "{text}");
    }
    assert!(FingerprintAlphabet::new(129, 4).is_err());
    for (width, words) in [(7, 16), (129, 16), (64, 0), (64, MAX_INDEPENDENCE + 1)] {
        assert!(FingerprintFamily::new(0, width, HashIndependence::Words(words)).is_err());
    }
    assert_eq!(
        FingerprintFamily::independence_for(1 << 20),
        HashIndependence::Words(42)
    );
}

#[test]
fn random_functions_fill_the_fullest_of_many_bins_with_few_balls() {
    // Lemma 1: with N balls in N / log N bins, every bin has Θ(log N) balls.
    for seed in 0..20 {
        let family = FingerprintFamily::new(seed, 64, FingerprintFamily::independence_for(1 << 14)).unwrap();
        let alphabet = FingerprintAlphabet::new(64, 2).unwrap();
        let mut bins = vec![0u32; 1 << 10];
        for key in 0u32..1 << 14 {
            bins[alphabet.prefix(family.of(&key.to_le_bytes()), 10) as usize] += 1;
        }
        let fullest = bins.iter().max().unwrap();
        assert!((20..56).contains(fullest), "{fullest}, 16 on average");
    }
}
