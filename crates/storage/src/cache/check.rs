//! Consistency check of the cache: examines the page table and all frames, and returns every
//! violation of the cache's invariants.

use super::frame::{FrameId, FrameState};
use super::geometry::CLASSES;
use super::{NodeCache, NodeCacheInner};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// A violated invariant of a node cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheViolation {
    /// The name of the invariant in the module headers, such as `C3`.
    pub invariant: &'static str,
    pub found: String,
}

impl fmt::Display for CacheViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.found)
    }
}

/// Where the check found a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FramePlacement {
    Free,
    Listed,
    Retired,
}

impl NodeCache {
    /// Checks the page table, every frame and every list, and returns all violations. The cache
    /// must not be used during the check.
    #[must_use]
    pub fn check(&self) -> Vec<CacheViolation> {
        let mut found = Vec::new();
        let mut say = |invariant, text: String| {
            found.push(CacheViolation {
                invariant,
                found: text,
            });
        };
        let shared = &self.shared;
        let frames = shared.cut_frames();
        let places = shared.places(&frames, &mut say);
        shared.check_table(&places, &frames, &mut say);
        shared.check_frames(&places, &frames, &mut say);
        shared.check_counts(&frames, &mut say);
        found
    }
}

impl NodeCacheInner {
    /// Returns all frames of the chunks in use, each with its class and whether its chunk is being
    /// drained.
    fn cut_frames(&self) -> HashMap<FrameId, (usize, bool)> {
        let mut frames = HashMap::new();
        for (class, owner) in self.chunks.classes.iter().enumerate() {
            for &chunk in owner.chunks.read().iter() {
                frames.extend(self.frames_of(chunk, class).map(|frame| (frame, (class, false))));
            }
        }
        for (chunk, class) in self.chunks.drained_chunks() {
            frames.extend(self.frames_of(chunk, class).map(|frame| (frame, (class, true))));
        }
        frames
    }

    /// Returns where each frame was found: in a list, or in the page table.
    fn places(
        &self,
        frames: &HashMap<FrameId, (usize, bool)>,
        say: &mut impl FnMut(&'static str, String),
    ) -> HashMap<FrameId, FramePlacement> {
        let mut all = Vec::new();
        for lane in &self.lanes {
            let (free, retired) = lane.lock().frames();
            all.extend(free.into_iter().map(|frame| (frame, FramePlacement::Free)));
            all.extend(retired.into_iter().map(|frame| (frame, FramePlacement::Retired)));
        }
        for class in 0..CLASSES {
            let pool = self.chunks.classes[class].pool.lock();
            all.extend(pool.iter().map(|&frame| (frame, FramePlacement::Free)));
        }
        let guard = self.epochs.pin();
        let words = self.tables.visit(&guard, |table| table.dump().0);
        all.extend(
            words
                .into_iter()
                .map(|(_, frame)| (frame, FramePlacement::Listed)),
        );
        let mut places = HashMap::new();
        for (frame, place) in all {
            if let Some(other) = places.insert(frame, place) {
                say(
                    "C3",
                    format!("{frame:?} is in two places: {other:?} and {place:?}"),
                );
            }
            match frames.get(&frame) {
                None => say("C3", format!("{frame:?} is {place:?} but of no chunk")),
                Some((_, true)) if place != FramePlacement::Listed => {
                    say(
                        "C3",
                        format!("{frame:?} is {place:?} though its chunk is being drained"),
                    );
                }
                Some(_) => {}
            }
        }
        places
    }

    fn check_table(
        &self,
        places: &HashMap<FrameId, FramePlacement>,
        frames: &HashMap<FrameId, (usize, bool)>,
        say: &mut impl FnMut(&'static str, String),
    ) {
        let guard = self.epochs.pin();
        self.tables.visit(&guard, |table| {
            let (words, mut passes) = table.dump();
            let mut keys = HashSet::new();
            for (bucket, frame) in words {
                if !frames.contains_key(&frame) {
                    continue; // This violation was already reported.
                }
                let key = self.header(frame).key();
                let distance = table.distance(key.hash(), bucket);
                for step in 1..=distance.min(passes.len()) {
                    let passed = (bucket + passes.len() - step) % passes.len();
                    passes[passed] = passes[passed].wrapping_sub(1);
                }
                if self.find_frame(&key, key.hash(), &guard) != Some(frame) {
                    say(
                        "W3",
                        format!("{frame:?} is not found by its key {key:?}, {distance} buckets from home"),
                    );
                }
                if !keys.insert(format!("{key:?}")) {
                    say(
                        "W2",
                        format!("{frame:?} holds a node that another frame holds: {key:?}"),
                    );
                }
            }
            for (bucket, pass) in passes.iter().enumerate().filter(|&(_, &pass)| pass != 0) {
                say(
                    "W3",
                    format!("bucket {bucket} counts {} nodes too many", *pass as i64),
                );
            }
        });
        for (frame, place) in places {
            let resident = self.header(*frame).state() == FrameState::Resident;
            if (*place == FramePlacement::Listed) != resident {
                say(
                    "C3",
                    format!("{frame:?} is {place:?} and {:?}", self.header(*frame).state()),
                );
            }
        }
    }

    fn check_frames(
        &self,
        places: &HashMap<FrameId, FramePlacement>,
        frames: &HashMap<FrameId, (usize, bool)>,
        say: &mut impl FnMut(&'static str, String),
    ) {
        for (frame, (class, draining)) in frames {
            let header = self.header(*frame);
            if header.class() != *class || header.is_draining() != *draining {
                say(
                    "C3",
                    format!("{frame:?} of class {class} is marked as of {}", header.class()),
                );
            }
            let expected = match (header.state(), draining) {
                (FrameState::Free, false) => Some(FramePlacement::Free),
                (FrameState::Retired, false) => Some(FramePlacement::Retired),
                (FrameState::Resident, _) => Some(FramePlacement::Listed),
                (FrameState::Filling, _) | (FrameState::Free | FrameState::Retired, true) => None,
            };
            if places.get(frame).copied() != expected {
                say(
                    "C3",
                    format!("{frame:?} is {:?} but in {:?}", header.state(), places.get(frame)),
                );
            }
        }
    }

    fn check_counts(
        &self,
        frames: &HashMap<FrameId, (usize, bool)>,
        say: &mut impl FnMut(&'static str, String),
    ) {
        let stats = NodeCache::stats_of(self);
        let bytes = |wanted: &dyn Fn(&FrameId) -> bool| -> u64 {
            frames
                .keys()
                .filter(|frame| wanted(frame))
                .map(|&frame| self.frame_bytes(frame))
                .sum()
        };
        let resident = bytes(&|frame| self.header(*frame).state() == FrameState::Resident);
        let pinned = bytes(&|frame| self.header(*frame).pins() > 0);
        let filling = frames
            .keys()
            .filter(|&&frame| self.header(frame).state() == FrameState::Filling)
            .count();
        if resident != stats.resident_bytes || pinned != stats.pinned_bytes {
            say(
                "C5",
                format!("{resident} bytes are resident and {pinned} pinned, counted are {stats:?}"),
            );
        }
        if filling > self.flights.len() {
            say(
                "C3",
                format!(
                    "{filling} frames are being filled by {} reads",
                    self.flights.len()
                ),
            );
        }
        if stats.charged_bytes > stats.budget_bytes
            && stats.draining_chunks == 0
            && stats.private_bytes + stats.working_bytes == 0
        {
            say("C5", format!("the budget is exceeded: {stats:?}"));
        }
    }
}
