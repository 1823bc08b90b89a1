//! Ingests: runs that are built beside everything else, become part of the tree as one commit, and
//! are made durable at once, for no log has them.

use super::db::Db;
use super::flaw::Flaw;
use super::trouble;
use alluvium_base::Message;
use alluvium_sim::generate::value;
use alluvium_sim::{Durability, Trouble, World, Write};
use alluvium_storage::extents::Class;
use alluvium_storage::{Result, log};
use alluvium_trees::tiered::Ingest;

/// An ingest, and what it has taken.
pub(super) struct UnderWay {
    ingest: Ingest,
    taken: Vec<Write>,
}

impl Db {
    /// A slice of an ingest: it takes records, is attached, or is dropped.
    pub(super) fn ingest(&mut self, choice: u32, world: &World) -> std::result::Result<(), Trouble> {
        match ((choice >> 5) % 8, self.ingest.take()) {
            (0, Some(_)) => Ok(()),
            (1..5, Some(under_way)) => self.attach(under_way, world),
            (_, under_way) => self.take_more(choice, under_way).map_err(trouble),
        }
    }

    fn take_more(&mut self, choice: u32, under_way: Option<UnderWay>) -> Result<()> {
        let mut under_way = match under_way {
            Some(under_way) => under_way,
            None => UnderWay {
                ingest: self.tree.ingest(Class::Normal)?,
                taken: Vec::new(),
            },
        };
        let seed = u64::from(choice);
        let last = under_way.taken.last().map_or(0, |write| {
            let digits = write
                .key
                .get(5..13)
                .and_then(|digits| str::from_utf8(digits).ok());
            u32::from_str_radix(digits.expect("a key with digits"), 16).expect("hexadecimal digits")
        });
        let stride = 1 + (choice >> 8) % (1 << 22);
        for number in 1..(choice >> 16) % 200 {
            let Some(at) = last.checked_add(number.saturating_mul(stride)) else {
                break;
            };
            let key = format!("wide/{at:08x}/0").into_bytes();
            if under_way.taken.last().is_some_and(|last| last.key >= key) {
                break;
            }
            let value = value(seed, &key, (seed as usize >> 4) % 300);
            under_way.ingest.push(&key, Message::put(0, &value))?;
            under_way.taken.push(Write {
                key,
                value: Some(value),
            });
        }
        self.ingest = Some(under_way);
        Ok(())
    }

    /// Everything before it sinks into the tree, then it is attached, then a checkpoint makes it
    /// durable. A record of the log takes its place among the commits.
    fn attach(&mut self, under_way: UnderWay, world: &World) -> std::result::Result<(), Trouble> {
        let UnderWay { ingest, taken } = under_way;
        if taken.is_empty() {
            return Ok(());
        }
        self.seal(world).map_err(trouble)?;
        self.finish_incorporation(world).map_err(trouble)?;
        let number = world.ledger.begin(&taken);
        let result = self.attach_now(ingest);
        if let Err(error) = result {
            if error.is_full() {
                world.ledger.withdraw(number);
            } else {
                world.ledger.doubt(number);
            }
            return Err(trouble(error));
        }
        self.commits.push((self.last(), number));
        world.ledger.acknowledge(number, Durability::Memory);
        world.coverage.hit("ingest");
        self.is_unlogged = self.flaw != Flaw::LeavesIngestsToTheLog;
        self.log_again(number, world).map_err(trouble)
    }

    fn attach_now(&mut self, ingest: Ingest) -> Result<()> {
        self.store().health()?;
        let result =
            self.store()
                .log()
                .append(self.next, 1, &super::ops::encode(&[]), log::Durability::Memory);
        self.store().judge(result)?;
        self.next += 1;
        self.base = self.last();
        self.restack();
        ingest.attach(self.last())
    }

    /// What no log has is durable before anything that a log has follows.
    pub(super) fn log_again(&mut self, covered: usize, world: &World) -> Result<()> {
        if self.is_unlogged {
            self.checkpoint(true, covered, world)?;
        }
        Ok(())
    }
}
