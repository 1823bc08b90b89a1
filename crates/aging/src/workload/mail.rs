//! A mail server with Maildir: a message is a file, a mailbox a directory (Conway 2020, §4.8).
//!
//! Each day delivers and deletes messages in random mailboxes, equally likely. A message is written
//! to `tmp`, synced and renamed to `cur`.

use super::text::{generator, random_characters};
use super::{AgingWorkload, StepRelation};
use crate::{ErrorContext, Result, StopRequest};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Part of the seed.
const DAYS: u64 = u64::MAX - 4;

/// The parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailParameters {
    pub users: u64,
    /// Mailboxes of each user.
    pub mailboxes: u64,
    /// Messages of each mailbox at the begin.
    pub messages: u64,
    /// Largest message in bytes. Lengths are uniform from 1.
    pub most_bytes: usize,
    /// Deliveries and deletions of a day.
    pub operations: u64,
    pub seed: u64,
}

impl MailParameters {
    /// Returns the parameters of the source: 2 users, 80 mailboxes each, 1,000 messages each of up
    /// to 32 KiB, and 8,000 operations a day.
    #[must_use]
    pub fn published(seed: u64) -> MailParameters {
        MailParameters {
            users: 2,
            mailboxes: 80,
            messages: 1000,
            most_bytes: 32 << 10,
            operations: 8000,
            seed,
        }
    }
}

/// A message: its serial number, from which its name and contents are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MailMessage {
    serial: u64,
}

/// What a day does to one mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MailOperation {
    Deliver(usize, MailMessage),
    Delete(usize, MailMessage),
}

/// The state of all mailboxes.
#[derive(Clone, Debug)]
pub struct MailWorkload {
    parameters: MailParameters,
    random: fastrand::Rng,
    mailboxes: Vec<Vec<MailMessage>>,
    next_serial: u64,
}

impl MailWorkload {
    #[must_use]
    pub fn new(parameters: MailParameters) -> MailWorkload {
        let mailboxes = (parameters.users * parameters.mailboxes).max(1) as usize;
        MailWorkload {
            parameters,
            random: generator(parameters.seed, DAYS),
            mailboxes: vec![Vec::new(); mailboxes],
            next_serial: 0,
        }
    }

    /// Returns the operations of a step, and applies them to the state.
    fn plan(&mut self, step: u64) -> Vec<MailOperation> {
        if step == 0 {
            let (mailboxes, messages) = (self.mailboxes.len(), self.parameters.messages);
            let each = |mailbox| (0..messages).map(move |_| mailbox);
            return (0..mailboxes)
                .flat_map(each)
                .map(|mailbox| self.deliver(mailbox))
                .collect();
        }
        (0..self.parameters.operations)
            .map(|_| {
                let mailbox = self.random.usize(..self.mailboxes.len());
                let is_delivery = self.random.bool();
                match self.mailboxes[mailbox].len() {
                    count if count > 0 && !is_delivery => {
                        let at = self.random.usize(..count);
                        MailOperation::Delete(mailbox, self.mailboxes[mailbox].swap_remove(at))
                    }
                    _ => self.deliver(mailbox),
                }
            })
            .collect()
    }

    fn deliver(&mut self, mailbox: usize) -> MailOperation {
        let message = MailMessage {
            serial: self.next_serial,
        };
        self.next_serial += 1;
        self.mailboxes[mailbox].push(message);
        MailOperation::Deliver(mailbox, message)
    }

    fn mailbox_path(&self, root: &Path, mailbox: usize) -> PathBuf {
        let each = self.parameters.mailboxes.max(1) as usize;
        root.join(format!("user-{}/box-{:03}", mailbox / each, mailbox % each))
    }

    fn contents(&self, message: MailMessage) -> Vec<u8> {
        let mut random = generator(self.parameters.seed, message.serial);
        let length = random.usize(1..=self.parameters.most_bytes);
        random_characters(&mut random, length)
    }

    fn carry_out(&self, root: &Path, operation: MailOperation, is_first: bool) -> Result<()> {
        match operation {
            MailOperation::Deliver(mailbox, message) => {
                let mailbox = self.mailbox_path(root, mailbox);
                let written = mailbox.join("tmp").join(message.file_name());
                let mut file = File::create_new(&written).at("creating", &written)?;
                file.write_all(&self.contents(message)).at("writing", &written)?;
                // The first tree is imported, not delivered: it is synced as a whole.
                if !is_first {
                    file.sync_all().at("syncing", &written)?;
                }
                let kept = mailbox.join("cur").join(message.file_name());
                fs::rename(&written, &kept).at("renaming to", &kept)
            }
            MailOperation::Delete(mailbox, message) => {
                let path = self.mailbox_path(root, mailbox).join("cur");
                let path = path.join(message.file_name());
                fs::remove_file(&path).at("removing", &path)
            }
        }
    }
}

impl MailMessage {
    /// Returns the name of the file, as Maildir forms it: seconds, a unique part, flags.
    fn file_name(self) -> String {
        format!("{}.M{}P1.aging:2,S", 1_500_000_000 + self.serial / 4, self.serial)
    }
}

impl AgingWorkload for MailWorkload {
    fn relation(&self) -> StepRelation {
        StepRelation::Cumulative
    }

    fn perform(&mut self, root: &Path, step: u64, _: StopRequest<'_>) -> Result<()> {
        if step == 0 {
            for mailbox in 0..self.mailboxes.len() {
                for name in ["cur", "new", "tmp"] {
                    let directory = self.mailbox_path(root, mailbox).join(name);
                    fs::create_dir_all(&directory).at("creating", &directory)?;
                }
            }
        }
        for operation in self.plan(step) {
            self.carry_out(root, operation, step == 0)?;
        }
        Ok(())
    }

    fn skip(&mut self, step: u64) {
        self.plan(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_and_deletions_are_equally_likely_and_only_what_exists_is_deleted() {
        let mut workload = MailWorkload::new(MailParameters {
            mailboxes: 5,
            messages: 40,
            ..MailParameters::published(3)
        });
        let first = workload.plan(0);
        assert_eq!(first.len(), 400);
        let day = workload.plan(1);
        let deliveries = day
            .iter()
            .filter(|operation| matches!(operation, MailOperation::Deliver(..)));
        let deliveries = deliveries.count();
        assert!((3900..=4300).contains(&deliveries), "{deliveries} of 8000");
        let mut kept = vec![Vec::new(); 10];
        for operation in first.into_iter().chain(day) {
            match operation {
                MailOperation::Deliver(mailbox, message) => kept[mailbox].push(message),
                MailOperation::Delete(mailbox, message) => {
                    let at = kept[mailbox].iter().position(|kept| *kept == message);
                    kept[mailbox].swap_remove(at.expect("it was delivered"));
                }
            }
        }
        let count = |mailboxes: &[Vec<MailMessage>]| mailboxes.iter().map(Vec::len).sum::<usize>();
        assert_eq!(count(&kept), count(&workload.mailboxes));
    }
}
