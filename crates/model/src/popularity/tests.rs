//! Tests against the results of Lim §4.2, and of `Unique` against counted distinct keys.

use super::*;
use std::collections::HashSet;

fn near(found: f64, wanted: f64, relative: f64) {
    assert!((found / wanted - 1.0).abs() < relative, "{found}, not {wanted}");
}

#[test]
fn a_hundred_million_keys_have_the_unique_keys_of_the_source() {
    let rows = [
        (0.0, [9.95e5, 6.321e7, 1.0e8]),
        (0.99, [4.414e5, 1.889e7, 7.119e7]),
        (1.2, [1.122e5, 3.977e6, 1.984e7]),
    ];
    for (skew, wanted) in rows {
        let popularity = Popularity::zipf(100_000_000, skew).unwrap();
        for (requests, wanted) in [1e6, 1e8, 1e9].into_iter().zip(wanted) {
            near(popularity.unique(requests).unwrap(), wanted, 6e-4);
        }
    }
    let skewed = Popularity::zipf(100_000_000, 0.99).unwrap();
    near(skewed.merge(1e7, 9e7).unwrap(), 9.034e7, 5e-5);
}

#[test]
fn a_cursor_goes_around_a_level_of_ten_million_keys_in_the_interval_of_the_source() {
    let uniform = Popularity::uniform(100_000_000).unwrap();
    let size = 10.0 * 1_048_576.0;
    near(uniform.cursor_interval(size).unwrap(), 2.258e7, 5e-4);
    near(uniform.unique_inverse(size).unwrap(), 1.108e7, 5e-4);
    // Lemma 4.5: the densities at all distances from the cursor add up to the size of the level.
    for skew in [0.0, 0.99] {
        let popularity = Popularity::zipf(1_000_000, skew).unwrap();
        let sum: f64 = (0..2000)
            .map(|d| popularity.density(2e5, (f64::from(d) + 0.5) / 2000.0).unwrap())
            .sum();
        near(sum / 2000.0 * 1e6, 2e5, 1e-4);
    }
}

#[test]
fn the_hottest_of_192_mi_keys_is_nine_million_times_the_average() {
    let popularity = Popularity::zipf(192 << 20, 0.99).unwrap();
    near(
        popularity.groups()[0].probability * popularity.keys(),
        9.30e6,
        5e-4,
    );
}

#[test]
fn groups_change_no_result_in_its_first_four_digits() {
    for skew in [0.2, 0.99, 1.4] {
        let coarse = Popularity::zipf(1_000_000, skew).unwrap();
        let fine = Popularity::zipf_in_groups(1_000_000, skew, 1.0005).unwrap();
        assert!(coarse.groups().len() < 700 && fine.groups().len() > 10 * coarse.groups().len());
        for requests in [1e3, 1e5, 1e7] {
            let (coarse, fine) = (coarse.unique_of(requests), fine.unique_of(requests));
            near(coarse, fine, 5e-5);
        }
        near(coarse.interval_of(1e5), fine.interval_of(1e5), 5e-5);
    }
}

#[test]
fn unique_counts_what_drawn_requests_hold() {
    let mut random = SplitMix64::from_seed(11);
    for keys in [10_000, 300_000] {
        for skew in [0.0, 0.6, 0.99, 1.2] {
            let popularity = Popularity::zipf(keys, skew).unwrap();
            let requests = popularity.requests().unwrap();
            let seen: HashSet<usize> = (0..keys).map(|_| requests.draw(&mut random)).collect();
            assert!(seen.iter().all(|&rank| rank < keys as usize));
            near(seen.len() as f64, popularity.unique(keys as f64).unwrap(), 0.03);
        }
    }
}

#[test]
fn unique_and_its_inverse_undo_each_other_from_the_first_key_to_nearly_all() {
    for skew in [0.0, 0.5, 0.99, 1.4] {
        let popularity = Popularity::zipf(1_000_000_000, skew).unwrap();
        for share in [1e-9, 1e-6, 0.01, 0.3, 0.5, 0.7, 0.99, 0.999_999] {
            let size = share * popularity.keys();
            let requests = popularity.unique_inverse(size).unwrap();
            near(popularity.unique(requests).unwrap(), size, 1e-9);
            let interval = popularity.cursor_interval(size).unwrap();
            assert!(interval >= requests, "U2: {interval} {requests}");
        }
        assert_eq!(popularity.unique_inverse(1e9), Ok(f64::INFINITY));
        assert_eq!(popularity.unique_inverse(0.0), Ok(0.0));
        near(popularity.unique(f64::INFINITY).unwrap(), 1e9, 1e-12);
    }
}

#[test]
fn merge_is_the_addition_of_requests() {
    let popularity = Popularity::zipf(1_000_000, 0.99).unwrap();
    let unique = |requests: f64| popularity.unique(requests).unwrap();
    near(
        popularity.merge(unique(3e5), unique(5e5)).unwrap(),
        unique(8e5),
        1e-9,
    );
    near(popularity.merge(4e5, 1e6).unwrap(), 1e6, 1e-12);
    assert_eq!(popularity.merge(0.0, 0.0), Ok(0.0));
}

#[test]
fn measured_popularity_is_that_of_the_counts() {
    let counts = (1..=20_000_u64).map(|rank| 20_000_000 / rank);
    let measured = Popularity::measured(counts).unwrap();
    let zipf = Popularity::zipf(20_000, 1.0).unwrap();
    assert!(measured.groups().len() < 1000, "{}", measured.groups().len());
    for requests in [1e2, 1e4, 1e6] {
        near(
            measured.unique(requests).unwrap(),
            zipf.unique(requests).unwrap(),
            1e-3,
        );
    }
    let alike = Popularity::measured([7; 1000]).unwrap();
    assert_eq!(alike, Popularity::uniform(1000).unwrap());
}

#[test]
fn norms_of_uniform_keys_are_their_number() {
    let uniform = Popularity::uniform(1000).unwrap();
    near(uniform.half_norm(), 1000.0, 1e-12);
    near(uniform.sum_of_squares(), 0.001, 1e-12);
    // The document gives 41.2 as the bound of ball recycling with 10 000 balls.
    near(
        20_999.0 / Popularity::zipf(1000, 1.0).unwrap().half_norm(),
        41.2,
        2e-3,
    );
}

#[test]
fn popularity_that_is_none_is_refused_by_name() {
    for bad in [-0.1, f64::NAN, f64::INFINITY, 1e6] {
        assert_eq!(Popularity::zipf(1000, bad).unwrap_err().name, "the skew");
    }
    for keys in [0, 1] {
        assert_eq!(Popularity::uniform(keys).unwrap_err().name, "the number of keys");
        assert!(Popularity::zipf(keys, 1.0).is_err());
    }
    assert_eq!(
        Popularity::measured([3, 0]).unwrap_err().name,
        "the requests of a key"
    );
    assert_eq!(Popularity::of_requests([1, 1]).unwrap_err().value, 1.0);
    let popularity = Popularity::uniform(100).unwrap();
    for bad in [-1.0, f64::NAN, 101.0] {
        assert!(popularity.unique_inverse(bad).is_err() && popularity.merge(bad, 1.0).is_err());
        assert!(popularity.cursor_interval(bad).is_err() && popularity.density(1.0, bad).is_err());
    }
    assert!(popularity.unique(-1.0).is_err() && popularity.unique(f64::NAN).is_err());
}
