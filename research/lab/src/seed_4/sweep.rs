//! Sweeps of node sizes: dictionaries of the affine model on a disk with exact charges, and on the
//! local device.

use crate::entry::AxisPosition;
use crate::measurements::{FigurePoint, FigureSeries, name};
use crate::scratch::ScratchDirectory;
use alluvium_device::Directory;
use alluvium_device::ThrottledDirectory;
use alluvium_model::fit::affine::fit_relative;
use alluvium_model::presets::{HARD_DISKS, HardDisk};
use alluvium_trees::paged::node::ReplaceOperator;
use anyhow::Result;
use research_trees::affine::{
    AffineOptions, AffineTree, AffineVariant, FileSpace, MemorySpace, NodeSpace, RequestMeter,
};
use std::sync::Arc;
use std::time::Instant;

/// Bytes of a key, of an element, and of a stored element.
const KEY: usize = 16;
const ELEMENT: usize = 116;
const STORED: u64 = ELEMENT as u64 + 6;
/// Distance between loaded keys; inserts use the gaps.
const GAP: u64 = 1000;
/// Minimum number of nodes that the data fills, so that a tree is more than its root.
const NODES: u64 = 12;
/// Minimum number of node sizes, even for few records.
const LEAST_SIZES: usize = 3;

/// The number of children of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FanoutRule {
    /// A constant for all node sizes (TokuDB).
    Fixed(u32),
    /// The square root of the number of elements in a node.
    Root,
}

/// A tree of the sweep.
#[derive(Clone, Copy, Debug)]
pub(super) struct SweepTree {
    pub(super) name: &'static str,
    pub(super) variant: AffineVariant,
    pub(super) fanout: FanoutRule,
    /// Sub-block of a leaf in KiB; `None` uses the size that follows from the fanout.
    pub(super) leaf_block_kib: Option<u32>,
    /// Minimum node size in KiB.
    pub(super) least_kib: u32,
    /// Maximum node size in KiB.
    pub(super) most_kib: u32,
}

/// The storage of the trees.
#[derive(Clone, Copy, Debug)]
pub(super) enum SweepDevice<'a> {
    /// A disk of the affine model, charged for each request.
    Clock(&'a HardDisk),
    /// The local device, with direct I/O.
    Here,
    /// The local device, throttled to the pace of a disk.
    Throttled(&'a HardDisk),
}

/// The costs of operations at one node size.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeSizeCosts {
    pub(super) kib: u32,
    pub(super) insert_us: f64,
    pub(super) query_us: f64,
    /// Counted requests, where requests are charged.
    pub(super) insert: RequestAverages,
    pub(super) query: RequestAverages,
}

/// Average disk requests of one operation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestAverages {
    count: f64,
    bytes: f64,
}

impl RequestAverages {
    fn of(meter: RequestMeter, operations: u64) -> RequestAverages {
        RequestAverages {
            count: (meter.reads + meter.writes) as f64 / operations as f64,
            bytes: (meter.read_bytes + meter.written_bytes) as f64 / operations as f64,
        }
    }

    /// Returns the time of these requests on a disk, in microseconds.
    fn us(self, disk: &HardDisk) -> f64 {
        (self.count + disk.alpha() / 4096.0 * self.bytes) * disk.setup_ns as f64 / 1e3
    }
}

impl NodeSizeCosts {
    /// Returns the costs of the same requests on another disk.
    pub(super) fn on(self, disk: &HardDisk) -> NodeSizeCosts {
        NodeSizeCosts {
            insert_us: self.insert.us(disk),
            query_us: self.query.us(disk),
            ..self
        }
    }
}

impl SweepTree {
    fn options(&self, kib: u32) -> AffineOptions {
        let node_bytes = kib << 10;
        let elements = node_bytes / ELEMENT as u32;
        let fanout = match self.fanout {
            FanoutRule::Fixed(children) => children,
            FanoutRule::Root => f64::from(elements).sqrt().floor() as u32,
        };
        AffineOptions {
            node_bytes,
            fanout,
            element_bytes: ELEMENT as u32,
            leaf_block_bytes: self.leaf_block_kib.map(|kib| kib << 10),
            variant: self.variant,
            // Only the root is in memory. With a quarter of the data in memory, as in the document,
            // all inner nodes of a B-tree would be in memory, and the node size would have no
            // effect.
            memory_bytes: 0,
        }
    }

    /// Returns the node sizes in KiB for this number of records.
    pub(super) fn sizes(&self, records: u64) -> Vec<u32> {
        let most = (records * STORED / NODES) >> 10;
        let all = (0..)
            .map(|step| self.least_kib << step)
            .take_while(|kib| *kib <= self.most_kib);
        let sizes = all
            .enumerate()
            .filter(|(at, kib)| *at < LEAST_SIZES || u64::from(*kib) <= most);
        sizes.map(|(_, kib)| kib).collect()
    }

    pub(super) fn sweep(&self, place: SweepDevice<'_>, records: u64) -> Result<Vec<NodeSizeCosts>> {
        self.sizes(records)
            .into_iter()
            .map(|kib| {
                let options = self.options(kib);
                match place {
                    SweepDevice::Clock(disk) => on_clock(disk, kib, options, records),
                    SweepDevice::Here => here(kib, options, records, None),
                    SweepDevice::Throttled(disk) => here(kib, options, records, Some(disk)),
                }
            })
            .collect()
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:0KEY$}").into_bytes()
}

/// Loads a tree and ages it until its buffers have reached their steady fill.
fn load<S: NodeSpace>(space: S, options: AffineOptions, records: u64) -> Result<AffineTree<S>> {
    let mut tree = AffineTree::create(space, options, Arc::new(ReplaceOperator))?;
    let value = vec![b'v'; ELEMENT - KEY];
    tree.load_sorted((0..records).map(|number| (key(number * GAP), value.clone())))?;
    insert(&mut tree, records, aging(options, records), 1)?;
    tree.commit(b"")?;
    Ok(tree)
}

/// Returns the number of inserts that age a tree: a hundredth of its records, but for buffered
/// trees at least three times the capacity of the root.
fn aging(options: AffineOptions, records: u64) -> u64 {
    match options.variant {
        AffineVariant::BTree => (records / 100).min(2000),
        _ => (records / 100)
            .max(3 * u64::from(options.node_bytes) / ELEMENT as u64)
            .min(records),
    }
}

fn insert<S: NodeSpace>(tree: &mut AffineTree<S>, records: u64, count: u64, seed: u64) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let value = vec![b'w'; ELEMENT - KEY];
    for _ in 0..count {
        tree.insert(&key(random.u64(0..records * GAP)), &value)?;
    }
    Ok(())
}

fn query<S: NodeSpace>(tree: &AffineTree<S>, records: u64, count: u64) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..count {
        tree.get(&key(random.u64(0..records) * GAP))?;
    }
    Ok(())
}

/// Returns the number of measured inserts and queries. Inserts fill the root of a buffered tree
/// twice.
fn counts(options: AffineOptions, records: u64) -> (u64, u64) {
    let filling = match options.variant {
        AffineVariant::BTree => 1000,
        _ => 2 * u64::from(options.node_bytes) / ELEMENT as u64,
    };
    (filling.max(1000).min(records.max(1000)), 500)
}

fn on_clock(disk: &HardDisk, kib: u32, options: AffineOptions, records: u64) -> Result<NodeSizeCosts> {
    let mut tree = load(MemorySpace::new(1 << 44), options, records)?;
    let (inserts, queries) = counts(options, records);
    let before = tree.space().meter();
    query(&tree, records, queries)?;
    let between = tree.space().meter();
    insert(&mut tree, records, inserts, 2)?;
    let after = tree.space().meter();
    let point = NodeSizeCosts {
        kib,
        insert: RequestAverages::of(after.since(between), inserts),
        query: RequestAverages::of(between.since(before), queries),
        ..NodeSizeCosts::default()
    };
    Ok(point.on(disk))
}

const FILE: &str = "dictionary";

fn here(kib: u32, options: AffineOptions, records: u64, disk: Option<&HardDisk>) -> Result<NodeSizeCosts> {
    let scratch = ScratchDirectory::new()?;
    drop(load(
        FileSpace::create(&*scratch.directory, FILE)?,
        options,
        records,
    )?);
    let directory: Arc<dyn Directory> = match disk {
        None => scratch.directory.clone(),
        Some(disk) => Arc::new(ThrottledDirectory::new(
            scratch.directory.clone(),
            Box::new(disk.clock()),
        )),
    };
    let space = FileSpace::open(&*directory, FILE)?;
    let (mut tree, _) = AffineTree::open(space, options.memory_bytes, Arc::new(ReplaceOperator))?;
    let (mut inserts, mut queries) = counts(options, records);
    if disk.is_some() {
        // Each operation needs tens of milliseconds. Messages that remain in the root cost nothing.
        queries = 40;
        inserts = if options.variant == AffineVariant::BTree {
            40
        } else {
            inserts
        };
    }
    let start = Instant::now();
    query(&tree, records, queries)?;
    let query_us = start.elapsed().as_secs_f64() * 1e6 / queries as f64;
    let start = Instant::now();
    insert(&mut tree, records, inserts, 2)?;
    let insert_us = start.elapsed().as_secs_f64() * 1e6 / inserts as f64;
    Ok(NodeSizeCosts {
        kib,
        insert_us,
        query_us,
        ..NodeSizeCosts::default()
    })
}

/// Returns one figure of a sweep as a line.
pub(super) fn line(what: &str, who: &str, points: &[NodeSizeCosts], of: FigureSelector) -> FigureSeries {
    let spot = |point: &NodeSizeCosts| FigurePoint {
        at: AxisPosition::Number(f64::from(point.kib)),
        value: of(point),
    };
    FigureSeries {
        name: format!("{what}, {who}"),
        points: points.iter().map(spot).collect(),
    }
}

/// Converts a published line, in microseconds, to points.
pub(super) fn points_of(line: &FigureSeries) -> Vec<NodeSizeCosts> {
    let point = |spot: &FigurePoint| {
        Some(NodeSizeCosts {
            kib: spot.at.number()? as u32,
            insert_us: spot.value,
            query_us: spot.value,
            ..NodeSizeCosts::default()
        })
    };
    line.points.iter().filter_map(point).collect()
}

/// Returns the node size in KiB with the lowest value of a figure.
pub(super) fn best(points: &[NodeSizeCosts], of: FigureSelector) -> f64 {
    let least = points.iter().min_by(|one, other| of(one).total_cmp(&of(other)));
    least.map_or(0.0, |point| f64::from(point.kib))
}

/// Returns the time of an insert in microseconds.
pub(super) fn insert_us(point: &NodeSizeCosts) -> f64 {
    point.insert_us
}

/// Returns the time of a query in microseconds.
pub(super) fn query_us(point: &NodeSizeCosts) -> f64 {
    point.query_us
}

/// Selects a figure of a point.
pub(super) type FigureSelector = fn(&NodeSizeCosts) -> f64;
/// Both operations and their names on an axis.
pub(super) const OPERATIONS: [(&str, FigureSelector); 2] = [("inserts", insert_us), ("queries", query_us)];

/// Returns the largest measured node size in KiB that does not exceed `kib`.
pub(super) fn largest(points: &[NodeSizeCosts], kib: f64) -> f64 {
    let sizes = points.iter().map(|point| f64::from(point.kib));
    sizes.filter(|size| *size <= kib).fold(0.0, f64::max)
}

/// Prefix of figures that list the optimal nodes on each disk of Table 2.
pub(super) const DISKS: &str = "disks";

/// Returns the optimal nodes on each disk of Table 2, computed from one sweep of counts.
pub(super) fn by_disk(who: &str, points: &[NodeSizeCosts]) -> Vec<FigureSeries> {
    let line = |(what, figure): (&str, FigureSelector)| FigureSeries {
        name: format!("{DISKS}, {who}, {what}"),
        points: HARD_DISKS
            .iter()
            .map(|disk| {
                let there: Vec<NodeSizeCosts> = points.iter().map(|point| point.on(disk)).collect();
                FigurePoint {
                    at: name(disk.name),
                    value: best(&there, figure),
                }
            })
            .collect(),
    };
    OPERATIONS.map(line).to_vec()
}

/// Returns the figure at a node size as a multiple of the minimum, or `None` if that size was not
/// measured.
pub(super) fn beyond(points: &[NodeSizeCosts], kib: f64, of: FigureSelector) -> Option<f64> {
    let point = points.iter().find(|point| f64::from(point.kib) == kib)?;
    let least = points.iter().map(of).fold(f64::INFINITY, f64::min);
    (least > 0.0).then(|| of(point) / least)
}

/// A curve c(1 + αB)·g(B) of Table 3, fitted to points: α per element, and the root mean square
/// error.
#[derive(Clone, Copy, Debug)]
pub(super) struct FittedCurve {
    pub(super) alpha: f64,
    pub(super) rms: f64,
}

/// Fits a curve. Returns `None` if the points contradict it.
pub(super) fn curve(
    points: &[NodeSizeCosts],
    of: FigureSelector,
    shape: fn(f64) -> f64,
) -> Option<FittedCurve> {
    let elements = |point: &NodeSizeCosts| f64::from(point.kib) * 1024.0 / ELEMENT as f64;
    let samples = points
        .iter()
        .map(|point| (elements(point) as u64, of(point) / shape(elements(point))));
    let fit = fit_relative(&samples.collect::<Vec<_>>()).ok()?;
    let error = |point: &NodeSizeCosts| fit.seconds(elements(point)) * shape(elements(point)) - of(point);
    let squares: f64 = points.iter().map(|point| error(point).powi(2)).sum();
    Some(FittedCurve {
        alpha: fit.alpha(1),
        rms: (squares / points.len() as f64).sqrt(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_found_again_from_its_points() {
        let points: Vec<NodeSizeCosts> = (2..12)
            .map(|step| {
                let elements = f64::from(1 << step) * 1024.0 / ELEMENT as f64;
                let insert_us = 15.0 * (1.0 + 2e-4 * elements) / elements.ln();
                NodeSizeCosts {
                    kib: 1 << step,
                    insert_us,
                    query_us: 1.0,
                    ..NodeSizeCosts::default()
                }
            })
            .collect();
        let found = curve(&points, |point| point.insert_us, |elements| elements.ln().recip()).unwrap();
        assert!(
            (found.alpha / 2e-4 - 1.0).abs() < 0.02 && found.rms < 0.05,
            "{found:?}"
        );
        let insert_us = |point: &NodeSizeCosts| point.insert_us;
        assert_eq!(best(&points, insert_us), 128.0);
        let times = beyond(&points, 2048.0, insert_us).unwrap();
        assert!((1.5..4.0).contains(&times), "{times}");
        assert_eq!(beyond(&points, 128.0, insert_us), Some(1.0));
        assert_eq!(beyond(&points, 4096.0, insert_us), None);
    }

    #[test]
    fn sizes_are_those_that_data_allows_and_three_at_least() {
        let subject = SweepTree {
            name: "B-tree",
            variant: AffineVariant::BTree,
            fanout: FanoutRule::Root,
            leaf_block_kib: None,
            least_kib: 4,
            most_kib: 16 << 10,
        };
        assert_eq!(subject.sizes(2000), [4, 8, 16]);
        assert_eq!(subject.sizes(1 << 19).last(), Some(&4096));
        assert_eq!(subject.sizes(1 << 30).last(), Some(&(16 << 10)));
    }
}
