//! Draws a history from a seed. Ranges often extend to the end of their keyspace, and a few keys
//! are written repeatedly, so that features interact.

use super::ops::{
    Bytes, Edge, Ending, Expected, KeyNumber, KeyspaceNumber, Load, Operation, Read, Step, Transaction, View,
    Walk, Way, Write,
};
use super::plan::{Operator, StorePlan};
use alluvium::{Concurrency, Durability, Isolation};
use alluvium_device::simulated::CrashSurvival;
use fastrand::Rng;

/// Draws the operations of a history.
pub(crate) struct Draw<'p> {
    plan: &'p StorePlan,
    random: Rng,
}

impl<'p> Draw<'p> {
    pub(crate) fn new(plan: &'p StorePlan, seed: u64) -> Draw<'p> {
        Draw {
            plan,
            random: Rng::with_seed(seed),
        }
    }

    /// Draws this number of operations.
    pub(crate) fn history(&mut self, len: usize) -> Vec<Operation> {
        (0..len).map(|_| self.operation()).collect()
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.random.u32(..count) == 0
    }

    fn keyspace(&mut self) -> KeyspaceNumber {
        self.random.usize(..self.plan.keyspaces.len())
    }

    fn key(&mut self) -> KeyNumber {
        match self.one_in(3) {
            true => self.random.u16(..self.plan.keys.min(25)),
            false => self.random.u16(..self.plan.keys),
        }
    }

    fn keys(&mut self) -> Vec<KeyNumber> {
        (0..self.random.usize(1..20)).map(|_| self.key()).collect()
    }

    fn bytes(&mut self) -> Bytes {
        let random = &mut self.random;
        let len = match random.u32(..60) {
            0 => 0,
            1 => random.u32(1020..1030),
            2 => random.u32(95..105),
            3 => random.u32(295..305),
            4 => random.u32(4000..4200),
            5 if random.u32(..20) == 0 => random.u32(16_300..40_000),
            6 => random.u32(28..36),
            7 => random.u32(60..68),
            _ => random.u32(..120),
        };
        Bytes(len, random.u8(..))
    }

    fn edge(&mut self) -> Edge {
        match self.random.u32(..6) {
            0 | 1 => Edge::Whole,
            2 => Edge::Behind(self.key()),
            _ => Edge::At(self.key()),
        }
    }

    fn way(&mut self) -> Way {
        match self.random.u32(..3) {
            0 => Way::Forward,
            1 => Way::Backward,
            _ => Way::Both(self.random.u64(..)),
        }
    }

    fn walk(&mut self) -> Walk {
        Walk {
            low: self.edge(),
            high: self.edge(),
            way: self.way(),
            most: match self.one_in(4) {
                true => usize::MAX,
                false => self.random.usize(..40),
            },
        }
    }

    fn view(&mut self) -> View {
        match self.random.bool() {
            true => View::Now,
            false => View::Snapshot(self.random.usize(..8)),
        }
    }

    fn durability(&mut self) -> Durability {
        match self.random.u32(..20) {
            0 => Durability::Memory,
            1 => Durability::Disk,
            _ => Durability::Process,
        }
    }

    fn write(&mut self, of: KeyspaceNumber) -> Write {
        // An unordered keyspace has only one range, which covers all keys.
        let ranges = if self.plan.keyspaces[of].is_ordered() {
            4
        } else {
            1
        };
        self.write_with(of, ranges)
    }

    /// Draws a write. `ranges` is the probability of a range delete, in percent.
    fn write_with(&mut self, of: KeyspaceNumber, ranges: u32) -> Write {
        let plan = &self.plan.keyspaces[of];
        let merges = plan.operator != Operator::None;
        match self.random.u32(..100) {
            part if part < ranges => Write::DeleteRange(self.edge(), self.edge()),
            ..22 => Write::Delete(self.key()),
            22..48 if merges => Write::Merge(self.key(), self.bytes()),
            48..54 => Write::DeleteIn(self.key(), self.random.u64(1..4000)),
            54..62 => Write::PutFor(self.key(), self.bytes(), self.random.u64(1..4000)),
            _ => Write::Put(self.key(), self.bytes()),
        }
    }

    fn batch(&mut self) -> Operation {
        let count = if self.one_in(4) {
            self.random.usize(1..30)
        } else {
            1
        };
        // Occasionally empty neighbouring keyspaces in one batch.
        if self.one_in(60) {
            let first = self.keyspace();
            let all = self.plan.keyspaces.len();
            let count = self.random.usize(2..4);
            let writes = (first..all)
                .take(count)
                .map(|of| (of, Write::DeleteRange(Edge::Whole, Edge::Whole)));
            return Operation::Batch(self.durability(), writes.collect());
        }
        let writes = (0..count).map(|_| {
            let of = self.keyspace();
            (of, self.write(of))
        });
        let writes = writes.collect();
        Operation::Batch(self.durability(), writes)
    }

    fn expected(&mut self) -> Expected {
        match self.random.u32(..4) {
            0 | 1 => Expected::Right,
            2 => Expected::Absent,
            _ => Expected::Another,
        }
    }

    fn new_value(&mut self) -> Option<Bytes> {
        (!self.one_in(4)).then(|| self.bytes())
    }

    fn read(&mut self, of: KeyspaceNumber) -> Read {
        match self.random.u32(..100) {
            0..48 => Read::Get(self.view(), of, self.key()),
            48..55 => Read::Contains(of, self.key()),
            55..67 => Read::GetMany(self.view(), of, self.keys()),
            67..90 => Read::Walk(self.view(), of, self.walk()),
            90..95 => Read::Prefix(of, self.key(), self.random.usize(..4), self.way()),
            _ => Read::Unordered(self.view(), of),
        }
    }

    /// Draws a step of a transaction. Half of them are in one keyspace.
    fn step(&mut self, most_in: KeyspaceNumber) -> Step {
        let of = if self.random.bool() {
            most_in
        } else {
            self.keyspace()
        };
        match self.random.u32(..100) {
            0..56 => Step::Write(of, self.write_with(of, 6)),
            56..60 => Step::GetForUpdate(of, self.key()),
            60..65 => Step::Set(of, self.key(), self.expected(), self.new_value()),
            65..86 => Step::Read(self.read(of)),
            86..91 => Step::Savepoint,
            91..95 => Step::RollBackTo(self.random.usize(..8)),
            95..97 => Step::Release(self.random.usize(..8)),
            _ => Step::Other(of, self.write(of)),
        }
    }

    fn transaction(&mut self) -> Operation {
        let most = if self.one_in(8) { 150 } else { 25 };
        let is_left_alone = self.random.bool();
        let most_in = self.keyspace();
        let steps = (0..self.random.usize(..most)).map(|_| self.step(most_in));
        let mut steps: Vec<Step> = steps.collect();
        // Half of the transactions run without interleaved commits, because most of the others
        // conflict.
        steps.retain(|step| !is_left_alone || !matches!(step, Step::Other(..)));
        Operation::Transaction(Transaction {
            isolation: match self.random.bool() {
                true => Isolation::Serializable,
                false => Isolation::Snapshot,
            },
            concurrency: match self.random.bool() {
                true => Concurrency::Optimistic,
                false => Concurrency::Locking,
            },
            memory: self.random.bool().then(|| self.random.usize(1..3000)),
            steps,
            commit: (!self.one_in(4)).then(|| self.durability()),
        })
    }

    fn ingest(&mut self) -> Operation {
        let count = 1 << self.random.usize(..8);
        let records = (0..count).map(|_| {
            let lives_ms = self.one_in(6).then(|| self.random.u64(1..4000));
            (self.key(), self.bytes(), lives_ms)
        });
        let records = records.collect();
        let load = if self.one_in(4) {
            Load::GivenUp
        } else {
            Load::Finished
        };
        Operation::Ingest(self.keyspace(), records, load)
    }

    fn operation(&mut self) -> Operation {
        let of = self.keyspace();
        match self.random.u32(..1000) {
            0..400 => self.batch(),
            400..440 => Operation::Set(of, self.key(), self.expected(), self.new_value()),
            440..455 => Operation::Take(of, self.key()),
            455..670 => Operation::Read(self.read(of)),
            670..720 => Operation::Pass(self.random.u64(..200)),
            720..728 => Operation::Snapshot,
            728..738 => Operation::DropSnapshot(self.random.usize(..8)),
            738..742 => Operation::NameSnapshot,
            742..748 => Operation::RemoveSnapshot(self.random.usize(..8)),
            748..758 => Operation::Hold(of),
            758..780 => Operation::GoOn(self.random.usize(..8), self.way(), self.random.usize(..6)),
            780..788 => Operation::LetGo(self.random.usize(..8)),
            788..850 => self.transaction(),
            850..862 => self.ingest(),
            862..876 => Operation::Checkpoint,
            876..880 => Operation::Compact,
            880..940 => Operation::Work(self.random.u32(1..12)),
            940..970 => Operation::Read(Read::Keyspace(of)),
            970..980 => Operation::Read(Read::All),
            980..987 => Operation::Reopen(match self.random.u32(..4) {
                0 => Ending::Dropped,
                1 => Ending::Closed,
                _ => {
                    let survivals = CrashSurvival::ALL;
                    let survival = survivals[self.random.usize(..survivals.len())];
                    Ending::Crashed(survival, self.random.u64(..))
                }
            }),
            987..988 => Operation::BackUp,
            988..990 => Operation::DropKeyspace(of),
            990..992 => Operation::RenameKeyspace(of),
            992..994 => Operation::Check,
            994..995 => Operation::Narrow(self.random.u32(..64 << 10)),
            995..998 => Operation::Widen,
            998..999 => Operation::Damage(self.random.u64(..)),
            _ => Operation::Work(100),
        }
    }
}
