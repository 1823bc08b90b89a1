//! H1: the law and the theorem for bundles of trees, compared with our bundles as a structure of a
//! store.
//!
//! Leaves are stored on the second tier and lists on the first. A lookup's fetches of lists and
//! leaves are therefore counted separately.

use super::theorems::{HITS, OPERATION, an_operation, here, hits};
use crate::entry::{AxisPosition, MeasurementProcedure};
use crate::measurements::{FigurePoint, FigureSeries, MeasurementSet, name};
use alluvium_base::{Message, message::MAX_SEQUENCE};
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::contract::{Dictionary as _, LookupReader as _, PointLookup as _, StepProgress};
use alluvium_dictionary::fetch::{BlockingFetch, NodeFetch, unwrap_ready};
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::rules::OneKeyspace;
use alluvium_dictionary::structure_context::StructureContext;
use alluvium_hashes::hashed::trees::HashLayout;
use alluvium_hashes::hashed::{HashedForm, HashedOptions, HashedStructure};
use alluvium_storage::extents::{AllocationClass, ExtentOptions};
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_storage::{NodePointer, NodeRef, TierDirectories};
use anyhow::{Result, ensure};
use std::cell::Cell;
use std::sync::Arc;
use std::task::Poll;

const VAIN: &str = "leaves read in vain";
const WRITTEN: &str = "entries written";

const GROWTHS: [u16; 3] = [2, 4, 16];
/// The value of λ whose counts are shown unscaled.
const SHOWN: u16 = 4;
/// Records of a leaf, and the maximum number of hash stores merged into one leaf. A merge allows
/// for one extra record for each hash store, which results in prefixes of 8 bits.
const LEAF: u64 = 252;
const STORES: u32 = 4;
/// Minimum number of records; fewer are not enough to count lookups.
const LEAST: u64 = 1 << 10;
/// Numbers from here on are never used as keys.
const ABSENT: u64 = 1 << 40;

pub(super) const H1: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/H1",
    ours: &[
        ("counts", an_operation),
        (VAIN, |measured| measured.series_with_prefix(VAIN)),
        (WRITTEN, |measured| measured.series_with_prefix(WRITTEN)),
        ("pages that a hit reads", hits),
    ],
    work: here(measure),
};

/// Counts the lists and leaves that lookups fetch.
struct FetchCounter<'g> {
    from: BlockingFetch<'g>,
    /// Pages fetched from the first and the second tier.
    pages: [Cell<u64>; 2],
}

impl<'g> FetchCounter<'g> {
    fn new(from: BlockingFetch<'g>) -> FetchCounter<'g> {
        FetchCounter {
            from,
            pages: Default::default(),
        }
    }

    fn count(&self, pointer: &NodePointer) {
        let pages = &self.pages[usize::from(pointer.tier).min(1)];
        pages.set(pages.get() + 1);
    }
}

impl NodeFetch for FetchCounter<'_> {
    fn peek(&self, pointer: &NodePointer) -> Option<NodeRef<'_>> {
        let node = self.from.peek(pointer)?;
        self.count(pointer);
        Some(node)
    }

    fn miss(&self, pointers: &[NodePointer]) -> Poll<alluvium_storage::Result<Vec<NodeRef<'_>>>> {
        pointers.iter().for_each(|pointer| self.count(pointer));
        self.from.miss(pointers)
    }

    fn blocking(&self) -> &BlockingFetch<'_> {
        &self.from
    }
}

/// Average pages fetched by a lookup.
#[derive(Clone, Copy, Debug)]
struct LookupPages {
    lists: f64,
    leaves: f64,
}

/// A bundle of trees of one part, on two tiers in memory.
struct TreeBundle {
    lambda: u16,
    hashed: HashedStructure,
    leaves: u64,
}

impl TreeBundle {
    fn create(lambda: u16) -> Result<TreeBundle> {
        let memory = || Arc::new(MemoryDirectory::new());
        let options = StoreOptions {
            extents: ExtentOptions {
                // Merges write to the second tier.
                planned_bytes: Some(0),
                ..ExtentOptions::default()
            },
            ..StoreOptions::default()
        };
        let store = Store::create(TierDirectories::from(memory()).and(memory()), &options, b"")?;
        let home = StructureContext {
            store: Arc::new(store),
            schema: Arc::new(OneKeyspace::default()),
            horizon: Arc::default(),
        };
        let options = HashedOptions {
            form: HashedForm::Bot { lambda },
            parts_log: 0,
            least_young: 2,
            most_young: STORES,
            ..HashedOptions::default()
        };
        let hashed = HashedStructure::create(home, options, 0)?;
        Ok(TreeBundle {
            lambda,
            hashed,
            leaves: 0,
        })
    }

    /// Inserts records until the bundle has this many leaves.
    fn grow(&mut self, leaves: u64) -> Result<()> {
        let stores = u64::from(self.lambda).min(STORES.into());
        let each = LEAF / stores;
        for store in self.leaves * stores..leaves * stores {
            self.put(each * store..each * (store + 1))?;
            while let Some(mut step) = self.hashed.next_step()? {
                while step.poll(LEAF as usize)? == StepProgress::More {}
            }
        }
        self.leaves = leaves;
        let stats = self.hashed.stats();
        ensure!(
            stats.hash_stores == 0 && stats.runs == leaves,
            "{} of {leaves} leaves, and {} hash stores",
            stats.runs,
            stats.hash_stores
        );
        Ok(())
    }

    fn put(&self, numbers: std::ops::Range<u64>) -> Result<()> {
        let memtable = Memtable::new(1 << 20);
        let mut last = self.hashed.cut();
        for number in numbers {
            last += 1;
            let value = number.to_le_bytes();
            let taken = memtable.insert(&number.to_be_bytes(), Message::put(last, &value));
            ensure!(taken.is_ok(), "a memtable takes the {LEAF} records of a leaf");
        }
        let share = MemtableSlice::whole(Arc::new(memtable), last);
        let mut writing = self.hashed.incorporate(share, AllocationClass::Normal)?;
        while writing.poll(LEAF as usize)? == StepProgress::More {}
        Ok(writing.publish()?)
    }

    /// Looks up keys, all of which are present or all absent.
    fn look(&self, is_there: bool, numbers: impl Iterator<Item = u64>) -> Result<LookupPages> {
        let reader = self.hashed.reader();
        let fetch = FetchCounter::new(reader.nodes());
        let mut count = 0u64;
        for number in numbers {
            let (mut gather, mut search) = (LookupState::new(MAX_SEQUENCE, 0, None), reader.new_search());
            let key = number.to_be_bytes();
            unwrap_ready(reader.search(LookupKey::new(&key), &mut gather, &mut search, &fetch))?;
            ensure!(
                gather.finish().is_some() == is_there,
                "key {number} is missing, or there in vain"
            );
            count += 1;
        }
        let [lists, leaves] = fetch.pages.map(|pages| pages.get() as f64 / count.max(1) as f64);
        Ok(LookupPages { lists, leaves })
    }

    /// Looks up existing keys, spread over the whole key range.
    fn hits(&self, lookups: u64) -> Result<LookupPages> {
        let records = self.leaves * LEAF;
        let step = (records / lookups).max(1) as usize;
        self.look(true, (0..records).step_by(step))
    }

    /// Returns the list entries written for each record.
    fn written(&self) -> f64 {
        self.hashed.stats().merged_entries as f64 / (self.leaves * LEAF) as f64
    }

    /// Returns the theorem's bound on entries per record, with its constant, for trees up to this
    /// height.
    fn bound(&self, heights: u64) -> f64 {
        let (lambda, heights) = (f64::from(self.lambda), heights as f64);
        let cut = HashLayout::of_leaf(0, self.lambda.ilog2() as u8, LEAF);
        heights * (lambda + 1.0) / 2.0 + 1.0 + (heights / f64::from(cut.beta())).floor()
    }
}

/// Counts for one λ, by place.
#[derive(Default)]
struct BundleCounts {
    vain: Vec<FigurePoint>,
    written: Vec<FigurePoint>,
    lists: Vec<FigurePoint>,
    leaves: Vec<FigurePoint>,
    /// For the largest number of records: entries written per record, and the reads of a hit.
    last: Option<(f64, LookupPages)>,
}

/// Counts every height for which there are enough keys, but at least one.
fn count(lambda: u16, keys: u64) -> Result<BundleCounts> {
    let lookups = (keys / 4).clamp(2000, 50_000);
    let factor = u64::from(lambda);
    let most = (keys / LEAF).max(factor - 1);
    let (mut bundle, mut counts) = (TreeBundle::create(lambda)?, BundleCounts::default());
    for height in 1.. {
        // One level, whose root has all children but one.
        let leaves = (factor - 1) * factor.pow(height - 1);
        if leaves > most {
            break;
        }
        bundle.grow(leaves)?;
        let read = bundle.look(false, ABSENT..ABSENT + lookups)?;
        counts.vain.push(FigurePoint {
            at: AxisPosition::Number(f64::from(height)),
            value: read.leaves * factor.pow(height) as f64,
        });
        // All levels up to this height are equally full.
        let leaves = factor.pow(height) - 1;
        if leaves > most {
            break;
        }
        bundle.grow(leaves)?;
        let (written, read) = (bundle.written(), bundle.hits(lookups)?);
        let spot = |value| FigurePoint {
            at: AxisPosition::Number((leaves * LEAF) as f64),
            value,
        };
        counts.written.push(spot(written / bundle.bound(height.into())));
        counts.lists.push(spot(read.lists));
        counts.leaves.push(spot(read.leaves));
        counts.last = Some((written, read));
    }
    Ok(counts)
}

fn measure(keys: u64) -> Result<MeasurementSet> {
    ensure!(
        keys >= LEAST,
        "--records {keys}: fewer than {LEAST} are too few leaves of {LEAF}"
    );
    let mut counts = Vec::new();
    for lambda in GROWTHS {
        let counted = count(lambda, keys)?;
        if let (SHOWN, Some((written, read))) = (lambda, counted.last) {
            let places = [
                ("insert, entries", written),
                ("query, lists", read.lists),
                ("query, leaves", read.leaves),
            ];
            let spot = |(place, value)| FigurePoint {
                at: name(place),
                value,
            };
            counts.push(FigureSeries {
                name: format!("{OPERATION}, alluvium, λ = {SHOWN}"),
                points: places.into_iter().map(spot).collect(),
            });
        }
        let lines = [
            (VAIN, "", counted.vain),
            (WRITTEN, "", counted.written),
            (HITS, ", lists", counted.lists),
            (HITS, ", records", counted.leaves),
        ];
        counts.extend(lines.map(|(what, of, points)| FigureSeries {
            name: format!("{what}, λ = {lambda}{of}"),
            points,
        }));
    }
    Ok(MeasurementSet {
        counts,
        ..MeasurementSet::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::theorems::log;
    use super::*;

    #[test]
    fn lists_keep_the_law_and_the_bound_in_a_store() {
        let measured = measure(1 << 14).unwrap();
        let vain = measured.series_with_prefix(VAIN);
        let written = measured.series_with_prefix(WRITTEN);
        assert_eq!((vain.len(), written.len()), (3, 3));
        for (lines, heights) in [(&vain, [7, 3, 1]), (&written, [6, 3, 1])] {
            let points: Vec<usize> = lines.iter().map(|line| line.points.len()).collect();
            assert_eq!(points, heights);
        }
        for (lambda, line) in GROWTHS.into_iter().zip(&vain) {
            // There are about λ − 1 entries for λ prefixes.
            let expected = (1.0 - 1.0 / f64::from(lambda)) * LEAF as f64 / 256.0;
            for spot in &line.points {
                let times = f64::from(lambda).powf(spot.at.number().unwrap());
                // Four standard deviations of 4096 lookups.
                let spread = 4.0 * (expected * times / 4096.0).sqrt();
                assert!(
                    (spot.value - expected).abs() <= spread + 0.1 * expected,
                    "λ = {lambda}: {spot:?}, {expected} expected"
                );
            }
        }
        for spot in written.iter().flat_map(|line| &line.points) {
            assert!((0.6..=1.0).contains(&spot.value), "{spot:?}");
        }
        for line in hits(&measured) {
            let is_of_records = line.name.ends_with("records");
            for spot in &line.points {
                let levels = log(2.0, spot.at.number().unwrap() / LEAF as f64 + 1.0);
                let most = if is_of_records {
                    2.1
                } else {
                    levels * (levels + 3.0) / 2.0 + 1.0
                };
                assert!((1.0..=most).contains(&spot.value), "{}: {spot:?}", line.name);
            }
        }
        let shown = an_operation(&measured);
        assert_eq!(shown[0].points.len(), 3);
        assert!(measure(100).is_err());
    }
}
