//! What a merge of levels reads: a run whose leaves are read only where that is needed.

use super::policy::{StitchView, Stitching};
use crate::fuse::{Input, Source};
use crate::run::{self, Access, Builder, Cursor, Leaf, Leaves, Run};
use alluvium_base::Purpose;
use alluvium_dictionary::merge::{self, Direction, Older};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::record::Record;
use alluvium_dictionary::rules::Schema;
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// A run that a merge walks through, leaf by leaf where leaves may be taken over unread, or all of
/// it at once.
pub(super) struct Stitched {
    run: Run,
    store: Arc<Store>,
    rules: Rules,
    /// None where all of it is read.
    leaves: Option<Leaves>,
    /// Leaves whose index entries were read; the position is before the first, unless the cursor
    /// is at a key.
    ahead: VecDeque<Leaf>,
    /// Leaves that are read with the next one before the policy is asked again.
    window: usize,
    cursor: Option<Cursor>,
    /// Leaves that were taken over.
    pub(super) adopted: u64,
}

/// Which leaves may be taken over.
#[derive(Clone)]
pub(super) struct Rules {
    pub(super) stitching: Stitching,
    pub(super) schema: Arc<dyn Schema>,
    /// Whether filters look at every record.
    pub(super) asks_filters: bool,
    pub(super) older: Older,
}

impl Stitched {
    /// Opens the inputs of a merge, newest first.
    pub(super) fn open_all(store: &Arc<Store>, sources: Vec<Source>, rules: &Rules) -> Result<Vec<Stitched>> {
        // A range delete may be about any leaf.
        let may_stitch =
            rules.stitching.is_on() && sources.iter().all(|source| source.run.range_deletes().is_empty());
        let mut inputs = Vec::with_capacity(sources.len());
        let mut whole = Vec::new();
        for source in sources {
            assert!(
                source.range == KeyRange::everything(),
                "a level's runs count everywhere"
            );
            let leaves = match may_stitch && source.run.is_adoptable() {
                true => Some(Leaves::new(&source.run, store, Purpose::Compact)?),
                false => None,
            };
            if leaves.is_none() {
                whole.push(
                    source
                        .run
                        .cursor(store, source.range, Direction::Forward, Access::Replacing),
                );
            }
            inputs.push(Stitched {
                run: source.run,
                store: Arc::clone(store),
                rules: rules.clone(),
                leaves,
                ahead: VecDeque::new(),
                window: 1,
                cursor: None,
                adopted: 0,
            });
        }
        // The first reads of all are under way before any is waited for.
        run::open_many(&mut whole, None)?;
        let mut whole = whole.into_iter();
        for input in &mut inputs {
            match input.leaves {
                None => input.cursor = whole.next(),
                Some(_) => {
                    input.look_ahead(1)?;
                }
            }
        }
        Ok(inputs)
    }

    /// Returns whether it reads a run.
    pub(super) fn is_of(&self, run: &Run) -> bool {
        self.run.pointer() == run.pointer()
    }

    /// Reads index entries until there are `count` leaves ahead, if there are as many. Returns
    /// whether there are.
    fn look_ahead(&mut self, count: usize) -> Result<bool> {
        while self.ahead.len() < count {
            let next = match &mut self.leaves {
                Some(leaves) => leaves.next()?,
                None => None,
            };
            match next {
                Some(leaf) => self.ahead.push_back(leaf),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Returns whether the leaf at a place ahead may be taken over, where no other input has keys
    /// before `bound`.
    fn may_adopt(&self, place: usize, bound: Option<&[u8]>) -> bool {
        let leaf = &self.ahead[place];
        let Some(fence) = leaf.fence() else {
            return false;
        };
        let is_alone = bound.is_none_or(|bound| fence <= bound);
        let follows = place == 0 || leaf.follows(&self.ahead[place - 1]);
        let is_kept = self.rules.older == Older::Elsewhere || !leaf.has_deletes();
        is_alone && follows && is_kept && self.run.is_full(leaf) && !self.is_filtered(leaf, fence)
    }

    /// Returns whether a filter may look at a leaf's records.
    fn is_filtered(&self, leaf: &Leaf, fence: &[u8]) -> bool {
        if !self.rules.asks_filters {
            return false;
        }
        let schema = &self.rules.schema;
        let prefix = schema.prefix_len(leaf.separator());
        // A bound may be shorter than the name of its keyspace, or be of the next one.
        let is_one = schema.prefix_len(fence) == prefix && fence.starts_with(&leaf.separator()[..prefix]);
        !is_one || schema.rules(fence).filter.is_some()
    }

    /// Goes on behind the leaves that were read or taken over.
    fn pass(&mut self, count: usize) -> Result<()> {
        self.ahead.drain(..count);
        self.look_ahead(1)?;
        Ok(())
    }
}

impl merge::Source for Stitched {
    type Error = Error;

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        match &self.cursor {
            Some(cursor) => cursor.key(),
            None => self.ahead.front().map(Leaf::separator),
        }
    }

    fn advance(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else {
            return Ok(());
        };
        cursor.advance()?;
        if cursor.key().is_none() && self.leaves.is_some() {
            self.cursor = None;
        }
        Ok(())
    }
}

impl Input for Stitched {
    #[inline]
    fn record(&self) -> Record<'_> {
        self.cursor.as_ref().expect("it stands at a record").record()
    }

    #[inline]
    fn is_unread(&self) -> bool {
        self.cursor.is_none() && !self.ahead.is_empty()
    }

    /// Reads the next leaves: as many as the policy has found too few to be taken over.
    fn enter(&mut self) -> Result<()> {
        let window = std::mem::replace(&mut self.window, 1).clamp(1, self.ahead.len());
        assert!(self.is_unread(), "it stands before a leaf");
        let low = self.ahead[0].separator().to_vec();
        let high = self.ahead[window - 1].fence().map(<[u8]>::to_vec);
        let range = KeyRange::new(&low, high.as_deref());
        let mut cursor = self
            .run
            .cursor(&self.store, range, Direction::Forward, Access::Replacing);
        cursor.start()?;
        self.pass(window)?;
        // A leaf has a record, so that the next leaf is not skipped.
        self.cursor = Some(cursor).filter(|cursor| cursor.key().is_some());
        Ok(())
    }

    fn stitch(&mut self, bound: Option<&[u8]>, builder: &mut Builder) -> Result<usize> {
        let mut count = 0;
        while self.look_ahead(count + 1)? && self.may_adopt(count, bound) {
            count += 1;
        }
        let view = StitchView {
            leaves: count as u64,
            before: builder.last_key(),
            first: self.ahead[0].separator(),
            end: self.ahead[count.saturating_sub(1)].fence(),
            next: bound,
        };
        if count == 0 || !self.rules.stitching.chooses(&view) {
            self.window = count.max(1);
            return Ok(0);
        }
        for leaf in self.ahead.iter().take(count) {
            builder.adopt(leaf, &self.run)?;
        }
        self.adopted += count as u64;
        self.pass(count)?;
        Ok(count)
    }
}
