//! Merges runs and in-memory sorted chunks into a single stream of records.

use super::chunk::{SortedChunk, common_bytes};
use super::error::Result;
use super::format::{RecordParts, prefix};
use super::options::{EqualKeyPolicy, SortOptions, SortRecordLayout};
use super::reader::SortedRunReader;
use super::spool::SortedInput;
use super::tree::LoserTree;

/// A stream of records in key order.
#[derive(Debug)]
pub struct SortMerge {
    layout: SortRecordLayout,
    equal: EqualKeyPolicy,
    sources: Vec<MergeSource>,
    heads: Vec<SourceHead>,
    tree: Option<LoserTree>,
    /// Length of the common prefix of all keys, which is not compared.
    skip: usize,
    /// A zero byte and the key of the last record, maintained only if records with equal keys are
    /// dropped.
    last: Vec<u8>,
    /// Whether a record was returned, whose source must advance before the next one is.
    begun: bool,
}

#[derive(Debug)]
enum MergeSource {
    Run(Box<SortedRunReader>),
    Chunk(SortedChunk, usize),
}

/// The part of a source's current record that is compared first.
#[derive(Clone, Copy, Debug)]
struct SourceHead {
    prefix: u64,
    is_live: bool,
    order: u64,
}

/// A record returned by a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortRecord<'m> {
    bytes: &'m [u8],
    parts: RecordParts,
}

impl<'m> SortRecord<'m> {
    #[must_use]
    #[inline]
    pub fn key(&self) -> &'m [u8] {
        &self.bytes[self.parts.key_at..self.parts.key_at + self.parts.key_bytes]
    }

    /// Returns the value of the record, which is the whole record if records have a fixed length.
    #[must_use]
    #[inline]
    pub fn value(&self) -> &'m [u8] {
        &self.bytes[self.parts.value_at..]
    }

    /// Returns the record as encoded in runs.
    pub(super) fn encoded(&self) -> &'m [u8] {
        self.bytes
    }
}

impl MergeSource {
    #[inline]
    fn current(&self) -> (&[u8], RecordParts) {
        match self {
            MergeSource::Run(reader) => (reader.record(), reader.parts),
            MergeSource::Chunk(chunk, at) => chunk.record(at.wrapping_sub(1)).unwrap_or_default(),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        let (bytes, parts) = self.current();
        &bytes[parts.key_at..parts.key_at + parts.key_bytes]
    }

    /// Advances to the next record. Returns `false` if there is none.
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        match self {
            MergeSource::Run(reader) => reader.advance(),
            MergeSource::Chunk(chunk, at) => {
                *at += 1;
                Ok(*at <= chunk.len())
            }
        }
    }

    fn order(&self) -> u64 {
        match self {
            MergeSource::Run(reader) => reader.number(),
            MergeSource::Chunk(chunk, _) => chunk.number,
        }
    }
}

impl SortMerge {
    /// Opens all inputs, and reads the first record of each.
    pub(super) fn new(options: &SortOptions, inputs: Vec<SortedInput>) -> Result<SortMerge> {
        let skip = common(&inputs);
        let mut sources: Vec<MergeSource> = inputs
            .into_iter()
            .map(|input| match input {
                SortedInput::Run(run) => {
                    MergeSource::Run(Box::new(SortedRunReader::new(run, options.layout)))
                }
                SortedInput::Chunk(chunk) => MergeSource::Chunk(chunk, 0),
            })
            .collect();
        let mut heads = Vec::with_capacity(sources.len());
        for source in &mut sources {
            let order = source.order();
            let is_live = source.advance()?;
            let mut head = SourceHead {
                prefix: u64::MAX,
                is_live,
                // If the last of several records with equal keys is to be kept, it must come first.
                order: if options.equal == EqualKeyPolicy::KeepLast {
                    u64::MAX - order
                } else {
                    order
                },
            };
            if is_live {
                head.prefix = prefix(source.key(), skip);
            }
            heads.push(head);
        }
        let mut merge = SortMerge {
            layout: options.layout,
            equal: options.equal,
            sources,
            heads,
            tree: None,
            skip,
            last: Vec::new(),
            begun: false,
        };
        assert_eq!(merge.heads.len(), merge.sources.len(), "every source has a head");
        if !merge.sources.is_empty() {
            let (sources, heads) = (&merge.sources, &merge.heads);
            let before = |a, b| is_before(sources, heads, skip, a, b);
            merge.tree = Some(LoserTree::new(sources.len(), before));
        }
        Ok(merge)
    }

    /// Returns the layout of the records in the stream.
    #[must_use]
    pub fn layout(&self) -> SortRecordLayout {
        self.layout
    }

    /// Returns the next record, or `None` after the last one.
    ///
    /// # Errors
    /// [`Error::Damaged`](super::Error::Damaged) if a run is damaged; I/O errors.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Result<Option<SortRecord<'_>>> {
        loop {
            if self.begun {
                self.advance()?;
            }
            self.begun = true;
            let winner = match &self.tree {
                Some(tree) if self.heads[tree.winner()].is_live => tree.winner(),
                _ => {
                    self.begun = false;
                    return Ok(None);
                }
            };
            if self.equal == EqualKeyPolicy::KeepAll || self.is_other(winner) {
                let (bytes, parts) = self.sources[winner].current();
                return Ok(Some(SortRecord { bytes, parts }));
            }
        }
    }

    /// Advances the source of the record returned last.
    #[inline]
    fn advance(&mut self) -> Result<()> {
        let Some(tree) = &mut self.tree else { return Ok(()) };
        let winner = tree.winner();
        let source = &mut self.sources[winner];
        let head = &mut self.heads[winner];
        if source.advance()? {
            head.prefix = prefix(source.key(), self.skip);
        } else {
            (head.is_live, head.prefix) = (false, u64::MAX);
        }
        let (sources, heads, skip) = (&self.sources, &self.heads, self.skip);
        tree.replay(|a, b| is_before(sources, heads, skip, a, b));
        Ok(())
    }

    /// Returns whether the key of a source differs from the last key. If so, it becomes the last
    /// key.
    fn is_other(&mut self, winner: usize) -> bool {
        let key = self.sources[winner].key();
        // The leading zero byte distinguishes an empty last key from none.
        if !self.last.is_empty() && &self.last[1..] == key {
            return false;
        }
        self.last.clear();
        self.last.push(0);
        self.last.extend_from_slice(key);
        assert!(!self.last.is_empty(), "a key that came is told from none");
        true
    }
}

/// Returns whether the current record of one source comes before that of another.
#[inline]
fn is_before(sources: &[MergeSource], heads: &[SourceHead], skip: usize, one: u32, other: u32) -> bool {
    let (one, other) = (one as usize, other as usize);
    let (a, b) = (&heads[one], &heads[other]);
    if a.prefix != b.prefix {
        return a.prefix < b.prefix;
    }
    if !(a.is_live && b.is_live) {
        return a.is_live;
    }
    let rest = |source: usize| sources[source].key().get(skip..).unwrap_or_default();
    rest(one).cmp(rest(other)).then(a.order.cmp(&b.order)).is_lt()
}

/// Returns the length in bytes of the common prefix of all keys in the inputs.
pub(super) fn common(inputs: &[SortedInput]) -> usize {
    let mut all = inputs
        .iter()
        .filter(|input| !input.is_empty())
        .map(SortedInput::common);
    let Some(first) = all.next() else { return 0 };
    all.fold(first.len(), |least, other| least.min(common_bytes(first, other)))
}
