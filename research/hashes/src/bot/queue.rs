//! The character queue: sketches wait on tapes, in order, until the level that needs them is
//! full.

use super::options::QueueSchedule;
use super::prefix_group::PrefixGroupSorter;
use super::schedule::{series_of_leaf, series_of_promotion, sketches};
use super::sketch_runs::{ReverseRunScan, SketchItem, SketchMerge, SketchRunShape, SketchRunWriter, reduce};
use super::tape::Tape;
use crate::blocks::{BlockSpace, MachineModel, Result};
use alluvium_filters::fingerprint::{FingerprintAlphabet, WideFingerprint};

/// How prefixes and sketches are extracted from fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SketchExtractor {
    pub(super) alphabet: FingerprintAlphabet,
    /// log2 of the records per leaf: the bits of a prefix before its level's characters.
    pub(super) base_bits: u32,
    /// s, the last level for which sketches are kept.
    pub(super) last: u32,
}

impl SketchExtractor {
    /// Returns the prefix length of a level in bits.
    pub(super) fn prefix_bits(&self, level: u32) -> u32 {
        self.base_bits + level * self.alphabet.character_bits()
    }

    /// Returns the size of a sketch in the queue in bits: a check and a next character.
    pub(super) fn sketch_bits(&self) -> u32 {
        2 * self.alphabet.character_bits()
    }

    /// Returns the sketch of a level, with the check character in the low bits.
    pub(super) fn sketch(&self, fingerprint: WideFingerprint, level: u32) -> u32 {
        let next = self.alphabet.next(fingerprint, self.prefix_bits(level));
        self.alphabet.check(fingerprint, level) | next << self.alphabet.character_bits()
    }

    /// Returns the item with the sketches of several levels, keyed by the prefix of the first.
    pub(super) fn item(&self, fingerprint: WideFingerprint, levels: std::ops::Range<u32>) -> SketchItem {
        let prefix = self.alphabet.prefix(fingerprint, self.prefix_bits(levels.start));
        let mut payload = 0;
        for (at, level) in levels.enumerate() {
            payload |= u128::from(self.sketch(fingerprint, level)) << (at as u32 * self.sketch_bits());
        }
        SketchItem { prefix, payload }
    }

    /// Returns the shape of runs with the sketches of several levels.
    pub(super) fn shape(&self, levels: std::ops::Range<u32>) -> SketchRunShape {
        SketchRunShape {
            prefix_bits: self.prefix_bits(levels.start),
            payload_bits: levels.len() as u32 * self.sketch_bits(),
        }
    }

    /// Returns an item's sketch of the first level.
    pub(super) fn first(&self, item: SketchItem) -> u32 {
        item.payload as u32 & ((1 << self.sketch_bits()) - 1)
    }

    /// Extends the prefix of an item by `levels` next characters, which are taken from its first
    /// sketches.
    pub(super) fn extend(&self, item: SketchItem, levels: u32) -> SketchItem {
        let character = self.alphabet.character_bits();
        let (mut prefix, mut payload) = (item.prefix, item.payload);
        for _ in 0..levels {
            let next = (payload >> character) as u64 & u64::from(self.alphabet.characters() - 1);
            prefix = prefix << character | next;
            payload >>= self.sketch_bits();
        }
        SketchItem { prefix, payload }
    }

    /// Returns an item reduced to the sketches of `levels` levels.
    fn truncate(&self, item: SketchItem, levels: u32) -> SketchItem {
        let bits = levels * self.sketch_bits();
        let mask = if bits >= 128 { u128::MAX } else { (1 << bits) - 1 };
        SketchItem {
            payload: item.payload & mask,
            ..item
        }
    }
}

/// The tapes of a queue: with the ruler schedule, tape j contains series j; with β, tape i
/// contains the queue of level i.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CharacterQueue {
    pub(super) tapes: Vec<Tape>,
    /// The maximum number of runs merged for each level.
    pub(super) arity: Vec<u64>,
    /// The number of bits written for each level.
    pub(super) written_bits: Vec<u64>,
}

/// The receiver of promoted characters, called with the level's prefix and sketch.
pub(super) type CharacterSink<'f> = dyn FnMut(u64, u32) -> Result<()> + 'f;

/// The context of queue operations.
#[derive(Clone, Copy)]
pub(super) struct QueueContext<'s> {
    pub(super) space: &'s dyn BlockSpace,
    pub(super) machine: MachineModel,
    pub(super) cut: SketchExtractor,
    pub(super) schedule: QueueSchedule,
}

impl CharacterQueue {
    pub(super) fn new(last: u32) -> CharacterQueue {
        let tapes = vec![Tape::default(); last as usize + 1];
        CharacterQueue {
            tapes,
            arity: vec![0; last as usize + 1],
            written_bits: vec![0; last as usize + 1],
        }
    }

    /// Adds the records of a new leaf.
    pub(super) fn add_leaf(&mut self, ways: QueueContext<'_>, records: &[WideFingerprint]) -> Result<()> {
        let cut = ways.cut;
        let mut add = |tape: usize, levels: std::ops::Range<u32>| -> Result<()> {
            let mut items: Vec<SketchItem> = records
                .iter()
                .map(|&record| cut.item(record, levels.clone()))
                .collect();
            items.sort_by_key(|item| item.prefix);
            let before = self.tapes[tape].bytes();
            let mut run = SketchRunWriter::new(&self.tapes[tape], cut.shape(levels), items.len() as u64);
            for item in items {
                run.push(&mut self.tapes[tape], ways.space, ways.machine, item)?;
            }
            run.finish(&mut self.tapes[tape], ways.space, ways.machine)?;
            self.written_bits[0] += 8 * (self.tapes[tape].bytes() - before);
            Ok(())
        };
        match ways.schedule {
            // Series 1 goes directly to the root of level 1.
            QueueSchedule::Ruler => series_of_leaf(cut.last)
                .filter(|&j| j > 1)
                .try_for_each(|j| add(j as usize, sketches(j, cut.last))),
            QueueSchedule::Every { .. } => add(0, 1..cut.last + 1),
        }
    }

    /// Passes on the characters that level `level` needs about the full level below it, in order
    /// of prefix and log.
    pub(super) fn promote(
        &mut self,
        ways: QueueContext<'_>,
        level: u32,
        sink: &mut CharacterSink<'_>,
    ) -> Result<()> {
        match ways.schedule {
            QueueSchedule::Ruler => self.promote_series(ways, level, sink),
            QueueSchedule::Every { beta } => self.promote_every(ways, level, beta, sink),
        }
    }

    /// Merges the series of a level, and forwards the characters for later levels.
    fn promote_series(&mut self, ways: QueueContext<'_>, j: u32, sink: &mut CharacterSink<'_>) -> Result<()> {
        let QueueContext {
            space, machine, cut, ..
        } = ways;
        let shape = cut.shape(sketches(j, cut.last));
        let tape = std::mem::take(&mut self.tapes[j as usize]);
        let (entries, runs) = (tape.entries, tape.runs);
        self.arity[j as usize] = self.arity[j as usize].max(runs);
        let (mut tape, places) = reduce(tape, space, machine, shape)?;
        let mut stream = SketchMerge::new(&tape, space, machine, &places, shape)?;
        let mut born: Vec<SeriesWriter> = series_of_promotion(j, cut.last)
            .map(|series| {
                let tape = std::mem::take(&mut self.tapes[series as usize]);
                SeriesWriter::new(series, series - j, tape, cut, entries)
            })
            .collect();
        let before: u64 = born.iter().map(|born| born.tape.bytes()).sum();
        let mut prefix = None;
        while let Some(item) = stream.next()? {
            if prefix != Some(item.prefix) {
                born.iter_mut().try_for_each(|born| born.end_group(ways))?;
                prefix = Some(item.prefix);
            }
            sink(item.prefix, cut.first(item))?;
            born.iter_mut().try_for_each(|born| born.push(item, ways))?;
        }
        stream.end(space);
        tape.clear(space);
        for mut born in born {
            born.end_group(ways)?;
            born.run.finish(&mut born.tape, space, machine)?;
            self.written_bits[j as usize] += 8 * born.tape.bytes();
            self.tapes[born.series as usize] = born.tape;
        }
        self.written_bits[j as usize] -= 8 * before;
        Ok(())
    }

    /// Merges the runs of the nearest queue below, of which the last belong to the full level. If
    /// the full level is itself a queue level, also writes the characters that later levels need.
    fn promote_every(
        &mut self,
        ways: QueueContext<'_>,
        level: u32,
        beta: u32,
        sink: &mut CharacterSink<'_>,
    ) -> Result<()> {
        let QueueContext {
            space, machine, cut, ..
        } = ways;
        let full = level - 1;
        let writes = full.is_multiple_of(beta);
        let from = if writes { full - beta } else { full - full % beta };
        let runs = u64::from(cut.alphabet.characters()).saturating_pow(full - from);
        let shape = cut.shape(from + 1..cut.last + 1);
        self.arity[level as usize] = self.arity[level as usize].max(runs);
        let mut source = std::mem::take(&mut self.tapes[from as usize]);
        let mut places = ReverseRunScan::new(&source, space, machine).next(runs, shape)?;
        places.reverse();
        let expected = places.iter().map(|place| place.trailer.count).sum();
        let levels = full - from;
        let target = cut.shape(level..cut.last + 1);
        let mut out = if writes {
            std::mem::take(&mut self.tapes[full as usize])
        } else {
            Tape::default()
        };
        let before = out.bytes();
        let mut run = SketchRunWriter::new(&out, target, expected);
        let mut place = |item: SketchItem| -> Result<()> {
            sink(item.prefix, cut.first(item))?;
            if writes {
                run.push(&mut out, space, machine, item)
            } else {
                Ok(())
            }
        };
        let mut group = PrefixGroupSorter::new(target);
        let mut stream = SketchMerge::new(&source, space, machine, &places, shape)?;
        let mut prefix = None;
        while let Some(item) = stream.next()? {
            if prefix != Some(item.prefix) {
                group.drain(space, machine, &mut place)?;
                prefix = Some(item.prefix);
            }
            group.push(cut.extend(item, levels), space, machine)?;
        }
        group.drain(space, machine, &mut place)?;
        stream.end(space);
        if writes {
            run.finish(&mut out, space, machine)?;
            self.written_bits[level as usize] += 8 * (out.bytes() - before);
            source.clear(space);
            self.tapes[full as usize] = out;
        }
        self.tapes[from as usize] = source;
        Ok(())
    }
}

/// A series to which a promotion adds a run.
struct SeriesWriter {
    series: u32,
    levels: u32,
    tape: Tape,
    run: SketchRunWriter,
    cut: SketchExtractor,
    expected: u64,
    group: Vec<SketchItem>,
}

impl SeriesWriter {
    fn new(series: u32, levels: u32, tape: Tape, cut: SketchExtractor, expected: u64) -> SeriesWriter {
        let shape = cut.shape(sketches(series, cut.last));
        let run = SketchRunWriter::new(&tape, shape, expected);
        SeriesWriter {
            series,
            levels,
            tape,
            run,
            cut,
            expected,
            group: Vec::new(),
        }
    }

    /// Adds an item of the group. A group that exceeds the memory limit continues in a new run;
    /// its later records are also later in the log (T5).
    fn push(&mut self, item: SketchItem, ways: QueueContext<'_>) -> Result<()> {
        if self.group.len() >= super::prefix_group::MOST {
            self.end_group(ways)?;
            let shape = self.cut.shape(sketches(self.series, self.cut.last));
            let ended = std::mem::replace(
                &mut self.run,
                SketchRunWriter::new(&self.tape, shape, self.expected),
            );
            ended.finish(&mut self.tape, ways.space, ways.machine)?;
            // The completed run is now on the tape, so the new run starts after it.
            self.run = SketchRunWriter::new(&self.tape, shape, self.expected);
        }
        let held = sketches(self.series, self.cut.last).len() as u32;
        self.group
            .push(self.cut.truncate(self.cut.extend(item, self.levels), held));
        Ok(())
    }

    fn end_group(&mut self, ways: QueueContext<'_>) -> Result<()> {
        // Longer prefixes change the order of items whose prefixes were equal; the sort is
        // stable.
        self.group.sort_by_key(|item| item.prefix);
        for item in self.group.drain(..) {
            self.run.push(&mut self.tape, ways.space, ways.machine, item)?;
        }
        Ok(())
    }
}
