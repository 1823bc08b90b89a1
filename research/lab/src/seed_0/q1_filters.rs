//! Q1: the cost and the false-positive rate of a quotient filter.

use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigurePoint, FigureSeries, MeasurementSet, name};
use alluvium_filters::{
    BloomFilter, Error, FilterBuilder, FilterEntry, FilterGeometry, FilterImage, FilterShape, hash,
};
use anyhow::Result;

/// False-positive rate of a filter with remainders of eight bits.
const RATE: f64 = 1.0 / 256.0;
const SEED: u64 = 1;

const WRONG: &str = "wrong answers";
const SPACE: &str = "space";

pub(super) const PROCEDURE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/Q1",
    ours: &[
        ("wrong answers", |measured| counted(measured, WRONG)),
        ("space against a blocked Bloom filter", |measured| {
            counted(measured, SPACE)
        }),
    ],
    work: ExperimentMethod::Here {
        quick: 1_000_000,
        full: 30_000_000,
        // Their fingerprints are sorted in memory.
        most: 100_000_000,
        measure,
    },
};

fn counted(measured: &MeasurementSet, what: &str) -> Vec<FigureSeries> {
    let lines = measured.counts.iter().filter(|line| line.name == what);
    lines
        .map(|line| FigureSeries {
            name: "alluvium".into(),
            points: line.points.clone(),
        })
        .collect()
}

/// Returns the hash of a key. Numbers below the count are in the filter; the others are not.
fn hash_of(number: u64) -> u64 {
    hash(SEED, &number.to_le_bytes())
}

fn measure(keys: u64) -> Result<MeasurementSet> {
    let (quotient, quotient_bytes) = quotient(keys)?;
    let (bloom, bloom_bytes) = bloom(keys);
    let spot = |place, value| FigurePoint {
        at: name(place),
        value,
    };
    Ok(MeasurementSet {
        counts: vec![
            FigureSeries {
                name: WRONG.into(),
                points: vec![spot("quotient", quotient), spot("Bloom", bloom)],
            },
            FigureSeries {
                name: SPACE.into(),
                points: vec![spot("quotient", quotient_bytes as f64 / bloom_bytes as f64)],
            },
        ],
        ..MeasurementSet::default()
    })
}

/// Returns the false-positive rate of a quotient filter, and its bytes.
fn quotient(keys: u64) -> Result<(f64, u64)> {
    // The rate is keys / 2^bits. Choose the smallest number of bits that keeps it below the target.
    let bits = (8..=48).find(|&bits| keys as f64 / 2f64.powi(bits) <= RATE);
    let bits =
        bits.ok_or_else(|| anyhow::anyhow!("--records: no fingerprint is long enough for {keys} keys"))?;
    let geometry = FilterGeometry::for_entries(keys, FilterShape::new(bits as u32, 0))?;
    let mut entries: Vec<FilterEntry> = (0..keys)
        .map(|number| FilterEntry::new(geometry.fingerprint(hash_of(number)), 0))
        .collect();
    alluvium_filters::sort(&mut entries);
    let mut bytes = Vec::new();
    let mut builder = FilterBuilder::new(geometry, |page: &[u8]| -> Result<(), Error> {
        bytes.extend_from_slice(page);
        Ok(())
    });
    for entry in entries {
        builder.push(entry, 1)?;
    }
    builder.finish()?;
    let image = FilterImage::new(&geometry, &bytes)?;
    for number in 0..keys.min(1000) {
        anyhow::ensure!(
            image.contains(geometry.fingerprint(hash_of(number)))?,
            "the quotient filter has lost key {number}"
        );
    }
    let mut wrong = 0u64;
    for number in keys..2 * keys {
        wrong += u64::from(image.contains(geometry.fingerprint(hash_of(number)))?);
    }
    Ok((wrong as f64 / keys as f64, bytes.len() as u64))
}

/// Returns the same for a blocked Bloom filter built for the same rate.
fn bloom(keys: u64) -> (f64, u64) {
    let (mut low, mut high) = (1, keys.max(1) as usize);
    while low < high {
        let middle = low + (high - low) / 2;
        if BloomFilter::<alluvium_filters::LineBlock>::false_positive_rate(middle, keys) <= RATE {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let filter: BloomFilter<alluvium_filters::LineBlock> = BloomFilter::new(low);
    for number in 0..keys {
        filter.of(hash_of(number)).add_alone();
    }
    let passes = |number: &u64| filter.of(hash_of(*number)).may_contain();
    let wrong = (keys..2 * keys).filter(passes).count();
    (wrong as f64 / keys as f64, filter.bytes() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_wrong_about_as_often_as_it_was_made_to_be() {
        let measured = measure(50_000).unwrap();
        let wrong = counted(&measured, WRONG);
        for spot in &wrong[0].points {
            assert!(spot.value > RATE / 4.0 && spot.value < RATE * 1.2, "{spot:?}");
        }
        let space = counted(&measured, SPACE)[0].points[0].value;
        assert!((0.5..1.5).contains(&space), "{space}");
    }
}
