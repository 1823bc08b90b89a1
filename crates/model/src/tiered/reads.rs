//! What lookups read from the device, given what is in memory.
//!
//! A lookup asks a page of each maplet on its way, and reads the leaf of the newest run that has
//! its key, behind index nodes of that run. Which pages the cache has is in
//! [`cache`](crate::cache); the cache of records has those that were asked for last (Che et al.,
//! "Hierarchical Web Caching Systems", 2002). A leaf of *k* records is asked for with any of its
//! keys; those of a young run are keys that are popular.

use super::Flow;
use super::amounts::{Group, Run};
use super::node::Node;
use crate::Popularity;
use crate::cache::{Idle, Load, Stay, Times};
use crate::parameter::{BadParameter, at_least, require};

/// Memory, and what is looked up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lookups {
    /// Bytes of the cache of pages.
    pub page_cache_bytes: f64,
    /// Bytes of the cache of records.
    pub record_cache_bytes: f64,
    /// The share of lookups whose key is not there.
    pub misses: f64,
    /// The share of those whose key was deleted: a record may be there that says so.
    pub deleted: f64,
}

/// What lookups read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reads {
    /// Reads for a key that is there.
    pub hit: f64,
    /// Reads for a key that is not.
    pub miss: f64,
    /// Reads on average.
    pub mean: f64,
    /// Of the reads for a key that is there, those of maplets and index nodes.
    pub guides: f64,
    /// The share of lookups of keys that the cache of records answers.
    pub record_hits: f64,
    /// Maplets that a lookup asks.
    pub questions: f64,
    /// Bytes of maplets and index nodes, roots included: what must be in memory for one read a
    /// lookup.
    pub guide_bytes: f64,
}

/// Bytes of a record in the cache of records, beside its key and value.
pub(crate) const RECORD_OVERHEAD: f64 = 48.0;
/// The share of a cache's bytes that pages have: others are its tables, and what is being read.
const PAGES: f64 = 0.9;
/// Bytes of frames between two pages: 64 that are free, and about a half as many that readers may
/// still have.
const FREE: f64 = 96.0 * 4096.0;
/// The share of lookups below which none asks the tree: the cache of records answers all.
const FEW: f64 = 1e-9;
/// Ways through the tree that stand for all of them.
const WAYS: usize = 6;
/// Halvings of the interval in which T lies.
const STEPS: usize = 50;

/// Pages that are asked for equally often.
#[derive(Clone, Copy, Debug)]
struct Guides {
    pages: f64,
    /// How often one of them is asked for, for each lookup.
    rate: f64,
}

/// The leaves of one run on one way.
#[derive(Clone, Debug)]
struct Leaves {
    pages: f64,
    /// The share of all keys that this way stands for.
    share: f64,
    /// Records of a leaf.
    in_leaf: f64,
    /// For each group of popularity: the share of its keys that the run has, and the share of
    /// those that no newer run has.
    groups: Vec<(f64, f64)>,
    /// Of these keys, those that were requested since they were merged with all that is older: only
    /// of them a record says that they were deleted.
    requested: Vec<f64>,
}

impl Flow {
    /// Estimates what lookups read: those of keys that are there are as popular as updates.
    ///
    /// # Errors
    /// [`BadParameter`] if the memory is negative, or the misses are no share.
    pub fn reads(&self, lookups: &Lookups) -> Result<Reads, BadParameter> {
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
        Ok(Model::new(self, lookups).reads())
    }

    fn page(&self) -> f64 {
        self.shape.page_bytes as f64
    }
}

struct Model<'f> {
    flow: &'f Flow,
    lookups: Lookups,
    /// How popular a key of each group is among the lookups that the record cache leaves.
    rates: Vec<f64>,
    record_hits: f64,
    guides: Vec<Guides>,
    /// Pages of the roots of indexes, which are in memory beside the caches.
    roots: f64,
    leaves: Vec<Leaves>,
    questions: f64,
    /// Runs that answer for a stranger, on a way.
    strangers: f64,
}

impl<'f> Model<'f> {
    fn new(flow: &'f Flow, lookups: &Lookups) -> Model<'f> {
        let mut model = Model {
            flow,
            lookups: *lookups,
            rates: Vec::new(),
            record_hits: 0.0,
            guides: Vec::new(),
            roots: 0.0,
            leaves: Vec::new(),
            questions: 0.0,
            strangers: 0.0,
        };
        model.cache_records();
        model.see_guides();
        let mut ways = Vec::new();
        ways_of(&flow.root, &mut Vec::new(), &mut ways);
        let step = (ways.len() / WAYS).max(1);
        let chosen: Vec<_> = ways.iter().step_by(step).collect();
        let width: f64 = chosen.iter().map(|way| way.width).sum();
        for way in &chosen {
            model.see_way(way, way.width / width);
        }
        model.see_index();
        model
    }

    /// Finds which lookups the cache of records answers.
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

    /// Lookups that ask the tree.
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

    /// Notes the leaves on one way, newest run first; `share` is the way's share of all.
    fn see_way(&mut self, way: &Way<'_>, share: f64) {
        let (scale, bits) = (&self.flow.scale, self.flow.shape.fingerprint_bits);
        let popularity = scale.uniques.popularity();
        let keys = popularity.keys();
        // Each group's keys that no newer run has.
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
                let of = |run: &Run, rate: f64| {
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
                self.leaves.push(Leaves {
                    requested,
                    in_leaf: amount.records() / pages,
                    pages,
                    share,
                    groups,
                });
            }
        }
        self.strangers += strangers * share;
    }

    /// Adds the index nodes above leaves; the root of each run is in memory.
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

    /// Returns how often keys of each group are not asked for.
    fn idles(&self, times: &Times) -> Vec<Idle> {
        self.rates.iter().map(|rate| times.idle(*rate)).collect()
    }

    /// Returns how often a key of a run is asked for there, on average, and how often it is idle.
    fn keys(&self, leaves: &Leaves, idles: &[Idle]) -> (f64, Idle) {
        let groups = self.flow.scale.uniques.popularity().groups();
        let rated = || groups.iter().zip(&leaves.groups).zip(&self.rates);
        let all: f64 = rated().map(|((group, (has, _)), _)| group.keys * has).sum();
        let rate = rated().map(|((group, (has, newest)), rate)| group.keys * has * newest * rate);
        let idle = groups.iter().zip(&leaves.groups).zip(idles);
        let idle = idle.map(|((group, (has, newest)), idle)| (group.keys * has, idle.with_chance(*newest)));
        (rate.sum::<f64>() / all.max(f64::MIN_POSITIVE), Idle::mean(idle))
    }

    /// Returns what pages take that are there.
    fn load(&self, times: &Times) -> Load {
        let mut load = Load::default();
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

    fn reads(&self) -> Reads {
        let times = Times::of(of_pages(self.lookups.page_cache_bytes), |times| self.load(times));
        let missed = |guide: &Guides| guide.pages * guide.rate * (1.0 - times.page(guide.rate).there);
        let asking = self.asking();
        let guides = match asking > FEW {
            true => self.guides.iter().map(missed).sum::<f64>() / asking,
            false => 0.0,
        };
        let (leaf, found, requested) = self.leaf_reads(&times);
        let pages: f64 = self.guides.iter().map(|guide| guide.pages).sum();
        let from_tree = 1.0 - self.record_hits;
        let false_reads = self.strangers.min(self.questions);
        let of_found = |reads: f64| if found > FEW { reads / found } else { 0.0 };
        let hit = (guides + of_found(leaf)) * from_tree;
        let tombstones = of_found(requested);
        let miss = guides + false_reads + self.lookups.deleted * tombstones;
        Reads {
            hit,
            miss,
            mean: hit * (1.0 - self.lookups.misses) + miss * self.lookups.misses,
            guides: guides * from_tree,
            record_hits: self.record_hits,
            questions: self.questions,
            guide_bytes: (pages + self.roots) * self.flow.page(),
        }
    }

    /// Returns the reads of leaves, the lookups that look for one, and those of the reads whose
    /// record may be a delete.
    fn leaf_reads(&self, times: &Times) -> (f64, f64, f64) {
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
                // The key of a lookup is one whose newest record is here.
                let stay = times.stay(rate + others * rate_of_others, idle.and(of_others));
                found += asks;
                reads += asks * (1.0 - stay.there);
                of_requested += asks * requested * (1.0 - stay.there);
            }
        }
        (reads, found, of_requested)
    }
}

/// Returns the bytes of pages in a cache.
fn of_pages(cache_bytes: f64) -> f64 {
    (PAGES * cache_bytes - FREE).max(cache_bytes / 4.0)
}

/// Returns the chance that something asked for with this rate was asked for within a time.
fn held(rate: f64, time: f64) -> f64 {
    if time.is_infinite() {
        1.0
    } else {
        -(-rate * time).exp_m1()
    }
}

/// Returns the time within which as much is asked for as fits; infinite if all of it fits.
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

/// Returns the share of requests whose page is not in a cache of `cache_bytes`, for pages of
/// `in_page` scattered keys each, `page_bytes` long.
pub(crate) fn missed(popularity: &Popularity, in_page: f64, page_bytes: f64, cache_bytes: f64) -> f64 {
    missed_behind(popularity, 0.0, in_page, page_bytes, cache_bytes)
}

/// Returns the same where a cache of this number of records is asked first: the share of requests
/// that reach the device.
pub(crate) fn missed_behind(
    popularity: &Popularity,
    records: f64,
    in_page: f64,
    page_bytes: f64,
    cache_bytes: f64,
) -> f64 {
    let kept = |time: f64| -> f64 {
        let of = |group: &crate::popularity::Group| group.keys * held(group.probability, time);
        popularity.groups().iter().map(of).sum()
    };
    let records_time = solve(records, kept);
    // What is left of each key's requests.
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
    let stays = |times: &Times| -> Vec<Stay> {
        let idles: Vec<Idle> = left.iter().map(|(_, rate)| times.idle(*rate)).collect();
        let weighed = left.iter().zip(&idles);
        let of_one = Idle::mean(weighed.map(|((keys, _), idle)| (*keys, *idle)));
        let of_others = of_one.of_many(others);
        let stay =
            |((_, rate), idle): (&(f64, f64), &Idle)| times.stay(rate + others * mean, idle.and(of_others));
        left.iter().zip(&idles).map(stay).collect()
    };
    let times = Times::of(of_pages(cache_bytes), |times| {
        let mut load = Load::default();
        for ((keys, _), stay) in left.iter().zip(stays(times)) {
            load.add(keys / in_page * page_bytes, stay);
        }
        load
    });
    let all = left.iter().zip(stays(&times));
    all.map(|((keys, rate), stay)| keys * rate * (1.0 - stay.there))
        .sum()
}

/// Adds pages to those asked for about as often.
fn add(guides: &mut Vec<Guides>, pages: f64, rate_of_all: f64) {
    let rate = rate_of_all / pages;
    let near = guides
        .iter_mut()
        .find(|guide| (guide.rate / rate - 1.0).abs() < 0.02);
    match near {
        Some(guide) => {
            guide.rate = (guide.rate * guide.pages + rate_of_all) / (guide.pages + pages);
            guide.pages += pages;
        }
        None => guides.push(Guides { pages, rate }),
    }
}

/// The groups from the root to one leaf, oldest first.
struct Way<'n> {
    width: f64,
    groups: Vec<&'n Group>,
}

fn ways_of<'n>(node: &'n Node, above: &mut Vec<&'n Group>, ways: &mut Vec<Way<'n>>) {
    for pivot in &node.pivots {
        let before = above.len();
        above.extend(pivot.stack().collect::<Vec<_>>().into_iter().rev());
        match &pivot.child {
            Some(child) => ways_of(child, above, ways),
            None => ways.push(Way {
                width: pivot.width,
                groups: above.iter().rev().copied().collect(),
            }),
        }
        above.truncate(before);
    }
}
