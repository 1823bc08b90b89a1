//! Tests of attaching ingests: in which steps other commits continue, and what happens if commits
//! leave memory before they are validated.

use super::{engine, small};
use crate::engine::ingest::{AttachPreconditions, IngestAttachment};
use crate::engine::{ConditionVerdict, RunningIngest};
use crate::error::Result;
use crate::keyspace::Keyspace;
use crate::options::kind::DictionaryPlace;
use crate::schema::catalog::CommitKeyspaces;
use crate::schema::format;
use alluvium_base::Message;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Conditions that record the steps in which they are called. While other commits may continue,
/// each step makes a conditional commit.
struct RecordedConditions<'k> {
    other: &'k Keyspace,
    /// Number of times that the last step reports that commits have left memory.
    gaps: Cell<u32>,
    verdict: ConditionVerdict,
    steps: RefCell<Vec<&'static str>>,
}

impl RecordedConditions<'_> {
    fn commit_another(&self, step: &'static str) {
        let number = self.steps.borrow().len();
        let swapped = self
            .other
            .compare_and_set(number.to_be_bytes(), None, Some(step.as_bytes()));
        assert!(swapped.unwrap(), "{step}");
        self.steps.borrow_mut().push(step);
    }
}

impl AttachPreconditions for RecordedConditions<'_> {
    fn prepare(&self) -> Result<()> {
        self.commit_another("prepare");
        Ok(())
    }

    fn capture(&self) -> bool {
        self.commit_another("capture");
        true
    }

    fn validate_captured(&self) -> Result<()> {
        self.commit_another("validate");
        Ok(())
    }

    fn holds(&self, may_take_long: bool) -> Result<Option<ConditionVerdict>> {
        let step = if may_take_long { "alone at last" } else { "alone" };
        self.steps.borrow_mut().push(step);
        let left = self.gaps.get();
        self.gaps.set(left.saturating_sub(1));
        Ok((may_take_long || left == 0).then_some(self.verdict))
    }
}

fn ingest(keyspace: &Keyspace) -> (Arc<RunningIngest>, Vec<u8>) {
    let ingest = engine(keyspace).begin_ingest(DictionaryPlace::TREE).unwrap();
    let key = format::tree_key(&keyspace.definition().prefix, b"key");
    ingest.push(&key, Message::put(0, b"attached")).unwrap().unwrap();
    (ingest, key.to_vec())
}

/// Attaches an ingest of one key. Returns the steps of the condition, and whether the key exists
/// afterwards.
fn attach(gaps: u32, verdict: ConditionVerdict) -> (Vec<&'static str>, bool) {
    let db = small();
    let (keyspace, other) = (db.keyspace("k").unwrap(), db.keyspace("other").unwrap());
    let (ingest, key) = ingest(&keyspace);
    let terms = RecordedConditions {
        other: &other,
        gaps: Cell::new(gaps),
        verdict,
        steps: RefCell::default(),
    };
    let key = format::TreeKey::from(key);
    let attached = engine(&keyspace).attach(&IngestAttachment {
        ingests: &[&ingest],
        stretches: &[(key.clone(), key)],
        owners: CommitKeyspaces::One(keyspace.definition()),
        is_locked: false,
        terms: Some(&terms),
    });
    let is_attached = attached.unwrap().is_some();
    let value = keyspace.get("key").unwrap();
    assert_eq!(value.is_some(), is_attached);
    assert_eq!(db.check().unwrap(), [""; 0]);
    (terms.steps.into_inner(), is_attached)
}

#[test]
fn others_commit_until_the_last_step_of_an_attachment() {
    let steps = ["prepare", "capture", "validate", "alone"];
    assert_eq!(attach(0, ConditionVerdict::Go), (steps.to_vec(), true));
    assert_eq!(attach(0, ConditionVerdict::Stop), (steps.to_vec(), false));
}

#[test]
fn an_attachment_ends_although_commits_leave_the_memory_again_and_again() {
    let (steps, is_attached) = attach(u32::MAX, ConditionVerdict::Go);
    assert!(is_attached);
    assert_eq!(steps.iter().filter(|step| **step == "alone").count(), 3);
    assert_eq!(steps.last(), Some(&"alone at last"));
    let (steps, is_attached) = attach(2, ConditionVerdict::Go);
    assert!(is_attached && steps.last() == Some(&"alone"));
}
