//! Predicts the device reads of lookups for a given amount of memory.
//!
//! A lookup queries a page of each maplet on its path, then reads the index nodes and the leaf of
//! the newest run that contains the key. [`cache`](crate::cache) predicts which of these pages the
//! page cache contains. The record cache is assumed to contain the most recently requested records
//! (Che et al., "Hierarchical Web Caching Systems", 2002). A leaf of *k* records is requested
//! whenever any of its keys is. The keys in a young run are mostly popular ones.

use super::WriteSimulation;
use super::amounts::{RunGroup, SimulatedRun};
use super::node::SimulatedNode;
use crate::Popularity;
use crate::cache::{CacheLoad, CacheResidency, EvictionTimes, IdleProbabilities};
use crate::parameter::{BadParameter, at_least, require};

/// The sizes of the caches, and the mix of lookups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookupSettings {
    /// Size of the page cache in bytes.
    pub page_cache_bytes: f64,
    /// Size of the record cache in bytes.
    pub record_cache_bytes: f64,
    /// Fraction of lookups whose keys do not exist.
    pub misses: f64,
    /// Fraction of these lookups whose keys were deleted, so that there may be a tombstone.
    pub deleted: f64,
}

/// The predicted device reads of lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LookupReads {
    /// Device reads per lookup of a key that exists.
    pub hit: f64,
    /// Device reads per lookup of a key that does not exist.
    pub miss: f64,
    /// Average of `hit` and `miss`, weighted by their shares of the lookups.
    pub mean: f64,
    /// Reads of maplets and index nodes per lookup of a key that exists, which `hit` includes.
    pub guides: f64,
    /// Fraction of the lookups of existing keys that the record cache answers.
    pub record_hits: f64,
    /// Number of maplets that a lookup queries.
    pub questions: f64,
    /// Bytes of maplets and index nodes, including roots. With this much memory, a lookup needs
    /// only one device read.
    pub guide_bytes: f64,
}

/// Overhead in bytes of a record in the record cache, besides its key and value.
pub(crate) const RECORD_OVERHEAD: f64 = 48.0;
/// Fraction of the page cache's bytes that holds pages. The rest is for its tables and for reads in
/// progress.
const PAGES: f64 = 0.9;
/// Bytes of unused page frames: 64 free ones, and about half as many that readers may still pin.
const FREE: f64 = 96.0 * 4096.0;
/// Fraction of lookups below which the record cache counts as answering all of them.
const FEW: f64 = 1e-9;
/// Number of sampled paths through the tree.
const WAYS: usize = 6;
/// Number of bisection steps of the search for the characteristic time T.
const STEPS: usize = 50;

/// A number of pages with the same request rate.
#[derive(Clone, Copy, Debug)]
struct IndexPages {
    pages: f64,
    /// Requests of one page per lookup.
    rate: f64,
}

/// The leaves of a run, as part of one path through the tree.
#[derive(Clone, Debug)]
struct RunLeaves {
    pages: f64,
    /// Fraction of all keys that the path stands for.
    share: f64,
    /// Number of records in a leaf of the run.
    in_leaf: f64,
    /// For each popularity group, the fraction of its keys that are in the run, and the fraction of
    /// those that are in no newer run.
    groups: Vec<(f64, f64)>,
    /// Fraction of those keys that were requested since they were last merged with all older data.
    /// Only these keys can have a tombstone.
    requested: Vec<f64>,
}

impl WriteSimulation {
    /// Predicts the device reads of lookups, on the assumption that lookups of existing keys are as
    /// skewed as updates.
    ///
    /// # Errors
    /// [`BadParameter`] if the memory is negative, or if the misses are not between 0 and 1.
    pub fn reads(&self, lookups: &LookupSettings) -> Result<LookupReads, BadParameter> {
        at_least(
            "the page cache",
            lookups.page_cache_bytes,
            0.0,
            "finite, and not negative",
        )?;
        at_least(
            "the record cache",
            lookups.record_cache_bytes,
            0.0,
            "finite, and not negative",
        )?;
        let misses = lookups.misses;
        require(
            "the share of misses",
            misses,
            (0.0..=1.0).contains(&misses),
            "from 0 to 1",
        )?;
        let deleted = at_least("the share of deleted keys", lookups.deleted, 0.0, "from 0 to 1")?;
        require(
            "the share of deleted keys",
            deleted,
            deleted <= 1.0,
            "from 0 to 1",
        )?;
        Ok(ReadModel::new(self, lookups).reads())
    }

    fn page(&self) -> f64 {
        self.shape.page_bytes as f64
    }
}

struct ReadModel<'f> {
    flow: &'f WriteSimulation,
    lookups: LookupSettings,
    /// For each popularity group, the rate of requests for one key that miss the record cache.
    rates: Vec<f64>,
    record_hits: f64,
    guides: Vec<IndexPages>,
    /// Number of index root pages, which are in memory but not in the caches.
    roots: f64,
    leaves: Vec<RunLeaves>,
    questions: f64,
    /// Average number of runs that maplets falsely return for a key that does not exist.
    false_positives: f64,
}

impl<'f> ReadModel<'f> {
    fn new(flow: &'f WriteSimulation, lookups: &LookupSettings) -> ReadModel<'f> {
        let mut model = ReadModel {
            flow,
            lookups: *lookups,
            rates: Vec::new(),
            record_hits: 0.0,
            guides: Vec::new(),
            roots: 0.0,
            leaves: Vec::new(),
            questions: 0.0,
            false_positives: 0.0,
        };
        model.cache_records();
        model.see_guides();
        let mut ways = Vec::new();
        ways_of(&flow.root, &mut Vec::new(), &mut ways);
        let step = (ways.len() / WAYS).max(1);
        let chosen: Vec<_> = ways.iter().step_by(step).collect();
        let width: f64 = chosen.iter().map(|way| way.width).sum();
        for way in &chosen {
            model.add_path(way, way.width / width);
        }
        model.see_index();
        model
    }

    /// Computes which lookups the record cache answers.
    fn cache_records(&mut self) {
        let groups = self.flow.scale.uniques.popularity().groups();
        let record = self.flow.records.bytes() + RECORD_OVERHEAD;
        let capacity = self.lookups.record_cache_bytes / record;
        let hits = 1.0 - self.lookups.misses;
        let there = |time: f64| -> f64 {
            let held = groups
                .iter()
                .map(|group| group.keys * held(hits * group.probability, time));
            held.sum()
        };
        let time = solve(capacity, there);
        let of = |probability: f64| held(hits * probability, time);
        self.record_hits = groups
            .iter()
            .map(|group| group.keys * group.probability * of(group.probability))
            .sum();
        self.rates = groups
            .iter()
            .map(|group| hits * group.probability * (1.0 - of(group.probability)))
            .collect();
    }

    /// Returns the fraction of lookups that miss the record cache and so reach the tree.
    fn asking(&self) -> f64 {
        1.0 - (1.0 - self.lookups.misses) * self.record_hits
    }

    fn see_guides(&mut self) {
        let asking = self.asking();
        let (guides, flow) = (&mut self.guides, self.flow);
        let uniques = &flow.scale.uniques;
        let mut questions = 0.0;
        flow.root.visit(&mut |node| {
            for pivot in &node.pivots {
                for group in pivot.stack() {
                    let runs = group.runs.len() as f64;
                    let (pages, _) = flow.scale.formats.maplet_pages(group.entries(uniques), runs);
                    let share = (pivot.width / group.width).min(1.0);
                    questions += pivot.width;
                    add(guides, (pages * share).max(1e-9), asking * pivot.width);
                }
            }
        });
        self.questions = questions;
    }

    /// Adds the leaves on a path, newest run first. `share` is the fraction of all keys that the
    /// path stands for.
    fn add_path(&mut self, way: &LeafPath<'_>, share: f64) {
        let (scale, bits) = (&self.flow.scale, self.flow.shape.fingerprint_bits);
        let popularity = scale.uniques.popularity();
        let keys = popularity.keys();
        // For each popularity group, the fraction of its keys that are in no newer run.
        let mut left = vec![1.0; popularity.groups().len()];
        let mut strangers = 0.0;
        for group in way.groups.iter().rev() {
            strangers += group.entries(&scale.uniques) / f64::from(bits).exp2();
            for run in group.runs.iter().rev() {
                let amount = run.amount(&scale.uniques, share);
                let pages = scale.formats.leaves(&amount);
                if pages <= 0.0 {
                    continue;
                }
                let of = |run: &SimulatedRun, rate: f64| {
                    let requested = -(-rate * run.requests).exp_m1();
                    requested + (1.0 - requested) * (run.base / keys).min(1.0)
                };
                let groups = popularity.groups().iter().zip(&left);
                let groups: Vec<(f64, f64)> = groups
                    .map(|(group, left)| (of(run, group.probability), *left))
                    .collect();
                for (left, (has, _)) in left.iter_mut().zip(&groups) {
                    *left *= 1.0 - has;
                }
                let requested = popularity.groups().iter().zip(&groups);
                let requested = requested.map(|(group, (has, _))| {
                    let requested = -(-group.probability * run.requests).exp_m1();
                    requested / has.max(f64::MIN_POSITIVE)
                });
                let requested = requested.collect();
                self.leaves.push(RunLeaves {
                    requested,
                    in_leaf: amount.records() / pages,
                    pages,
                    share,
                    groups,
                });
            }
        }
        self.false_positives += strangers * share;
    }

    /// Adds the index nodes above the leaves, except the root of each run, which is always in
    /// memory.
    fn see_index(&mut self) {
        let (flow, mut pages, mut roots) = (self.flow, 0.0, 0.0);
        flow.root.visit(&mut |node| {
            for pivot in &node.pivots {
                for run in pivot.stack().flat_map(|group| &group.runs) {
                    let whole = flow
                        .scale
                        .formats
                        .leaves(&run.amount(&flow.scale.uniques, run.width));
                    let share = (pivot.width / run.width).min(1.0);
                    pages += (flow.scale.formats.index_pages(whole) - 1.0) * share;
                    roots += share;
                }
            }
        });
        self.roots = roots;
        if pages > 0.0 {
            let hits = self
                .rates
                .iter()
                .zip(self.flow.scale.uniques.popularity().groups());
            let rate: f64 = hits.map(|(rate, group)| rate * group.keys).sum();
            add(&mut self.guides, pages, rate);
        }
    }

    /// Returns, for each popularity group, the probabilities that a given key of the group is not
    /// requested within the characteristic times.
    fn idles(&self, times: &EvictionTimes) -> Vec<IdleProbabilities> {
        self.rates.iter().map(|rate| times.idle(*rate)).collect()
    }

    /// Returns the average request rate of a run's keys, and the average probabilities that such a
    /// key is not requested within the characteristic times.
    fn keys(&self, leaves: &RunLeaves, idles: &[IdleProbabilities]) -> (f64, IdleProbabilities) {
        let groups = self.flow.scale.uniques.popularity().groups();
        let rated = || groups.iter().zip(&leaves.groups).zip(&self.rates);
        let all: f64 = rated().map(|((group, (has, _)), _)| group.keys * has).sum();
        let rate = rated().map(|((group, (has, newest)), rate)| group.keys * has * newest * rate);
        let idle = groups.iter().zip(&leaves.groups).zip(idles);
        let idle = idle.map(|((group, (has, newest)), idle)| (group.keys * has, idle.with_chance(*newest)));
        (
            rate.sum::<f64>() / all.max(f64::MIN_POSITIVE),
            IdleProbabilities::mean(idle),
        )
    }

    /// Returns the page cache's load for given characteristic times.
    fn load(&self, times: &EvictionTimes) -> CacheLoad {
        let mut load = CacheLoad::default();
        for guide in &self.guides {
            load.add(guide.pages * self.flow.page(), times.page(guide.rate));
        }
        let leaf = self.flow.scale.formats.leaf();
        let groups = self.flow.scale.uniques.popularity().groups();
        let idles = self.idles(times);
        for leaves in &self.leaves {
            let others = (leaves.in_leaf - 1.0).max(0.0);
            let (rate_of_others, of_one) = self.keys(leaves, &idles);
            let of_others = of_one.of_many(others);
            let there = groups.iter().zip(&leaves.groups);
            let all: f64 = there.map(|(group, (has, _))| group.keys * has).sum();
            let bytes = leaves.pages * leaf / all.max(f64::MIN_POSITIVE);
            let rated = groups.iter().zip(&self.rates).zip(&idles).zip(&leaves.groups);
            for (((group, rate), idle), (has, newest)) in rated {
                let idle = idle.with_chance(*newest).and(of_others);
                let stay = times.stay(rate * newest + others * rate_of_others, idle);
                load.add(bytes * group.keys * has, stay);
            }
        }
        load
    }

    fn reads(&self) -> LookupReads {
        let times = EvictionTimes::of(of_pages(self.lookups.page_cache_bytes), |times| self.load(times));
        let missed = |guide: &IndexPages| guide.pages * guide.rate * (1.0 - times.page(guide.rate).there);
        let asking = self.asking();
        let guides = match asking > FEW {
            true => self.guides.iter().map(missed).sum::<f64>() / asking,
            false => 0.0,
        };
        let (leaf, found, requested) = self.leaf_reads(&times);
        let pages: f64 = self.guides.iter().map(|guide| guide.pages).sum();
        let from_tree = 1.0 - self.record_hits;
        let false_reads = self.false_positives.min(self.questions);
        let of_found = |reads: f64| if found > FEW { reads / found } else { 0.0 };
        let hit = (guides + of_found(leaf)) * from_tree;
        let tombstones = of_found(requested);
        let miss = guides + false_reads + self.lookups.deleted * tombstones;
        LookupReads {
            hit,
            miss,
            mean: hit * (1.0 - self.lookups.misses) + miss * self.lookups.misses,
            guides: guides * from_tree,
            record_hits: self.record_hits,
            questions: self.questions,
            guide_bytes: (pages + self.roots) * self.flow.page(),
        }
    }

    /// Returns three numbers per lookup: leaf reads, lookups that need a leaf, and reads that may
    /// find a tombstone.
    fn leaf_reads(&self, times: &EvictionTimes) -> (f64, f64, f64) {
        let groups = self.flow.scale.uniques.popularity().groups();
        let (mut reads, mut found, mut of_requested) = (0.0, 0.0, 0.0);
        let idles = self.idles(times);
        for leaves in &self.leaves {
            let others = (leaves.in_leaf - 1.0).max(0.0);
            let (rate_of_others, of_one) = self.keys(leaves, &idles);
            let of_others = of_one.of_many(others);
            let rated = groups.iter().zip(&self.rates).zip(&idles).zip(&leaves.groups);
            let rated = rated.zip(&leaves.requested);
            for ((((group, rate), idle), (has, newest)), requested) in rated {
                let asks = leaves.share * group.keys * rate * has * newest;
                // The page is requested by lookups of the key, whose latest record it contains, and
                // by lookups of its other keys.
                let stay = times.stay(rate + others * rate_of_others, idle.and(of_others));
                found += asks;
                reads += asks * (1.0 - stay.there);
                of_requested += asks * requested * (1.0 - stay.there);
            }
        }
        (reads, found, of_requested)
    }
}

/// Returns how many of a cache's bytes hold pages.
fn of_pages(cache_bytes: f64) -> f64 {
    (PAGES * cache_bytes - FREE).max(cache_bytes / 4.0)
}

/// Returns the probability that an item with this request rate is requested within `time`.
fn held(rate: f64, time: f64) -> f64 {
    if time.is_infinite() {
        1.0
    } else {
        -(-rate * time).exp_m1()
    }
}

/// Returns a cache's characteristic time, within which as many items are requested as fit into the
/// cache. The result is infinite if all items fit.
fn solve(capacity: f64, asked: impl Fn(f64) -> f64) -> f64 {
    if capacity <= 0.0 {
        return 0.0;
    }
    if asked(f64::INFINITY) <= capacity {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (-10.0_f64, 60.0_f64);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if asked(middle.exp()) <= capacity {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.exp()
}

/// Returns the miss rate of a page cache of `cache_bytes` bytes. A page has `page_bytes` bytes and
/// contains `in_page` scattered keys.
pub(crate) fn missed(popularity: &Popularity, in_page: f64, page_bytes: f64, cache_bytes: f64) -> f64 {
    missed_behind(popularity, 0.0, in_page, page_bytes, cache_bytes)
}

/// Returns the fraction of requests that reach the device if a cache of `records` records comes
/// before the page cache.
pub(crate) fn missed_behind(
    popularity: &Popularity,
    records: f64,
    in_page: f64,
    page_bytes: f64,
    cache_bytes: f64,
) -> f64 {
    let kept = |time: f64| -> f64 {
        let of = |group: &crate::popularity::KeyGroup| group.keys * held(group.probability, time);
        popularity.groups().iter().map(of).sum()
    };
    let records_time = solve(records, kept);
    // The requests of each key that miss the record cache.
    let left: Vec<(f64, f64)> = popularity
        .groups()
        .iter()
        .map(|group| {
            let missed = 1.0 - held(group.probability, records_time);
            (group.keys, group.probability * missed)
        })
        .collect();
    let keys = popularity.keys();
    let mean = left.iter().map(|(keys, rate)| keys * rate).sum::<f64>() / keys;
    let others = (in_page - 1.0).max(0.0);
    let stays = |times: &EvictionTimes| -> Vec<CacheResidency> {
        let idles: Vec<IdleProbabilities> = left.iter().map(|(_, rate)| times.idle(*rate)).collect();
        let weighed = left.iter().zip(&idles);
        let of_one = IdleProbabilities::mean(weighed.map(|((keys, _), idle)| (*keys, *idle)));
        let of_others = of_one.of_many(others);
        let stay = |((_, rate), idle): (&(f64, f64), &IdleProbabilities)| {
            times.stay(rate + others * mean, idle.and(of_others))
        };
        left.iter().zip(&idles).map(stay).collect()
    };
    let times = EvictionTimes::of(of_pages(cache_bytes), |times| {
        let mut load = CacheLoad::default();
        for ((keys, _), stay) in left.iter().zip(stays(times)) {
            load.add(keys / in_page * page_bytes, stay);
        }
        load
    });
    let all = left.iter().zip(stays(&times));
    all.map(|((keys, rate), stay)| keys * rate * (1.0 - stay.there))
        .sum()
}

/// Adds pages to the list, combining them with pages of a similar request rate.
fn add(guides: &mut Vec<IndexPages>, pages: f64, rate_of_all: f64) {
    let rate = rate_of_all / pages;
    let near = guides
        .iter_mut()
        .find(|guide| (guide.rate / rate - 1.0).abs() < 0.02);
    match near {
        Some(guide) => {
            guide.rate = (guide.rate * guide.pages + rate_of_all) / (guide.pages + pages);
            guide.pages += pages;
        }
        None => guides.push(IndexPages { pages, rate }),
    }
}

/// The groups of runs on the path from the root to a leaf, oldest first.
struct LeafPath<'n> {
    width: f64,
    groups: Vec<&'n RunGroup>,
}

fn ways_of<'n>(node: &'n SimulatedNode, above: &mut Vec<&'n RunGroup>, ways: &mut Vec<LeafPath<'n>>) {
    for pivot in &node.pivots {
        let before = above.len();
        above.extend(pivot.stack().collect::<Vec<_>>().into_iter().rev());
        match &pivot.child {
            Some(child) => ways_of(child, above, ways),
            None => ways.push(LeafPath {
                width: pivot.width,
                groups: above.iter().rev().copied().collect(),
            }),
        }
        above.truncate(before);
    }
}
