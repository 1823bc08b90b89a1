//! The character queue: sketches wait on tapes, in order, until the level that needs them is
//! full.

use super::group::Group;
use super::options::Schedule;
use super::schedule::{born_of, born_of_leaf, sketches};
use super::series::{Item, RunWriter, Shape, Stream, Walk, reduce};
use super::tape::Tape;
use crate::blocks::{Machine, Result, Space};
use alluvium_filters::fingerprint::{Alphabet, WideFingerprint};

/// How prefixes and sketches are extracted from fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) alphabet: Alphabet,
    /// log2 of the records per leaf: the bits of a prefix before its level's characters.
    pub(super) base_bits: u32,
    /// s, the last level for which sketches are kept.
    pub(super) last: u32,
}

impl Cut {
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
    pub(super) fn item(&self, fingerprint: WideFingerprint, levels: std::ops::Range<u32>) -> Item {
        let prefix = self.alphabet.prefix(fingerprint, self.prefix_bits(levels.start));
        let mut payload = 0;
        for (at, level) in levels.enumerate() {
            payload |= u128::from(self.sketch(fingerprint, level)) << (at as u32 * self.sketch_bits());
        }
        Item { prefix, payload }
    }

    /// Returns the shape of runs with the sketches of several levels.
    pub(super) fn shape(&self, levels: std::ops::Range<u32>) -> Shape {
        Shape {
            prefix_bits: self.prefix_bits(levels.start),
            payload_bits: levels.len() as u32 * self.sketch_bits(),
        }
    }

    /// Returns an item's sketch of the first level.
    pub(super) fn first(&self, item: Item) -> u32 {
        item.payload as u32 & ((1 << self.sketch_bits()) - 1)
    }

    /// Extends the prefix of an item by `levels` next characters, which are taken from its first
    /// sketches.
    pub(super) fn extend(&self, item: Item, levels: u32) -> Item {
        let character = self.alphabet.character_bits();
        let (mut prefix, mut payload) = (item.prefix, item.payload);
        for _ in 0..levels {
            let next = (payload >> character) as u64 & u64::from(self.alphabet.characters() - 1);
            prefix = prefix << character | next;
            payload >>= self.sketch_bits();
        }
        Item { prefix, payload }
    }

    /// Returns an item reduced to the sketches of `levels` levels.
    fn truncate(&self, item: Item, levels: u32) -> Item {
        let bits = levels * self.sketch_bits();
        let mask = if bits >= 128 { u128::MAX } else { (1 << bits) - 1 };
        Item {
            payload: item.payload & mask,
            ..item
        }
    }
}

/// The tapes of a queue: with the ruler schedule, tape j contains series j; with β, tape i
/// contains the queue of level i.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Queue {
    pub(super) tapes: Vec<Tape>,
    /// The maximum number of runs merged for each level.
    pub(super) arity: Vec<u64>,
    /// The number of bits written for each level.
    pub(super) written_bits: Vec<u64>,
}

/// The receiver of promoted characters, called with the level's prefix and sketch.
pub(super) type Sink<'f> = dyn FnMut(u64, u32) -> Result<()> + 'f;

/// The context of queue operations.
#[derive(Clone, Copy)]
pub(super) struct Ways<'s> {
    pub(super) space: &'s dyn Space,
    pub(super) machine: Machine,
    pub(super) cut: Cut,
    pub(super) schedule: Schedule,
}

impl Queue {
    pub(super) fn new(last: u32) -> Queue {
        let tapes = vec![Tape::default(); last as usize + 1];
        Queue {
            tapes,
            arity: vec![0; last as usize + 1],
            written_bits: vec![0; last as usize + 1],
        }
    }

    /// Adds the records of a new leaf.
    pub(super) fn add_leaf(&mut self, ways: Ways<'_>, records: &[WideFingerprint]) -> Result<()> {
        let cut = ways.cut;
        let mut add = |tape: usize, levels: std::ops::Range<u32>| -> Result<()> {
            let mut items: Vec<Item> = records
                .iter()
                .map(|&record| cut.item(record, levels.clone()))
                .collect();
            items.sort_by_key(|item| item.prefix);
            let before = self.tapes[tape].bytes();
            let mut run = RunWriter::new(&self.tapes[tape], cut.shape(levels), items.len() as u64);
            for item in items {
                run.push(&mut self.tapes[tape], ways.space, ways.machine, item)?;
            }
            run.finish(&mut self.tapes[tape], ways.space, ways.machine)?;
            self.written_bits[0] += 8 * (self.tapes[tape].bytes() - before);
            Ok(())
        };
        match ways.schedule {
            // Series 1 goes directly to the root of level 1.
            Schedule::Ruler => born_of_leaf(cut.last)
                .filter(|&j| j > 1)
                .try_for_each(|j| add(j as usize, sketches(j, cut.last))),
            Schedule::Every { .. } => add(0, 1..cut.last + 1),
        }
    }

    /// Passes on the characters that level `level` needs about the full level below it, in order
    /// of prefix and log.
    pub(super) fn promote(&mut self, ways: Ways<'_>, level: u32, sink: &mut Sink<'_>) -> Result<()> {
        match ways.schedule {
            Schedule::Ruler => self.promote_series(ways, level, sink),
            Schedule::Every { beta } => self.promote_every(ways, level, beta, sink),
        }
    }

    /// Merges the series of a level, and forwards the characters for later levels.
    fn promote_series(&mut self, ways: Ways<'_>, j: u32, sink: &mut Sink<'_>) -> Result<()> {
        let Ways {
            space, machine, cut, ..
        } = ways;
        let shape = cut.shape(sketches(j, cut.last));
        let tape = std::mem::take(&mut self.tapes[j as usize]);
        let (entries, runs) = (tape.entries, tape.runs);
        self.arity[j as usize] = self.arity[j as usize].max(runs);
        let (mut tape, places) = reduce(tape, space, machine, shape)?;
        let mut stream = Stream::new(&tape, space, machine, &places, shape)?;
        let mut born: Vec<Born> = born_of(j, cut.last)
            .map(|series| {
                let tape = std::mem::take(&mut self.tapes[series as usize]);
                Born::new(series, series - j, tape, cut, entries)
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
    fn promote_every(&mut self, ways: Ways<'_>, level: u32, beta: u32, sink: &mut Sink<'_>) -> Result<()> {
        let Ways {
            space, machine, cut, ..
        } = ways;
        let full = level - 1;
        let writes = full.is_multiple_of(beta);
        let from = if writes { full - beta } else { full - full % beta };
        let runs = u64::from(cut.alphabet.characters()).saturating_pow(full - from);
        let shape = cut.shape(from + 1..cut.last + 1);
        self.arity[level as usize] = self.arity[level as usize].max(runs);
        let mut source = std::mem::take(&mut self.tapes[from as usize]);
        let mut places = Walk::new(&source, space, machine).next(runs, shape)?;
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
        let mut run = RunWriter::new(&out, target, expected);
        let mut place = |item: Item| -> Result<()> {
            sink(item.prefix, cut.first(item))?;
            if writes {
                run.push(&mut out, space, machine, item)
            } else {
                Ok(())
            }
        };
        let mut group = Group::new(target);
        let mut stream = Stream::new(&source, space, machine, &places, shape)?;
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
struct Born {
    series: u32,
    levels: u32,
    tape: Tape,
    run: RunWriter,
    cut: Cut,
    expected: u64,
    group: Vec<Item>,
}

impl Born {
    fn new(series: u32, levels: u32, tape: Tape, cut: Cut, expected: u64) -> Born {
        let shape = cut.shape(sketches(series, cut.last));
        let run = RunWriter::new(&tape, shape, expected);
        Born {
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
    fn push(&mut self, item: Item, ways: Ways<'_>) -> Result<()> {
        if self.group.len() >= super::group::MOST {
            self.end_group(ways)?;
            let shape = self.cut.shape(sketches(self.series, self.cut.last));
            let ended = std::mem::replace(&mut self.run, RunWriter::new(&self.tape, shape, self.expected));
            ended.finish(&mut self.tape, ways.space, ways.machine)?;
            // The completed run is now on the tape, so the new run starts after it.
            self.run = RunWriter::new(&self.tape, shape, self.expected);
        }
        let held = sketches(self.series, self.cut.last).len() as u32;
        self.group
            .push(self.cut.truncate(self.cut.extend(item, self.levels), held));
        Ok(())
    }

    fn end_group(&mut self, ways: Ways<'_>) -> Result<()> {
        // Longer prefixes change the order of items whose prefixes were equal; the sort is
        // stable.
        self.group.sort_by_key(|item| item.prefix);
        for item in self.group.drain(..) {
            self.run.push(&mut self.tape, ways.space, ways.machine, item)?;
        }
        Ok(())
    }
}
