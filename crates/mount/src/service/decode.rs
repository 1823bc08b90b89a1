//! Decodes arbitrary bytes as messages of a stream, for fuzzing.

use super::format::{frame, read};
use super::message::{FileOperation, FilesReply, FilesRequest, FilesView};
use alluvium_files::{DirectoryEntry, ErrorKind, FileKind, Inode, RenameMode, WritePosition};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Decodes the frames of a stream as requests and as replies, and returns how many of both there
/// are. Each message is encoded and decoded again.
///
/// ```
/// use alluvium_mount::service::{decode_messages, message_examples};
/// assert!(message_examples().iter().all(|example| decode_messages(example) > 0));
/// assert_eq!(decode_messages(b""), 0);
/// ```
///
/// # Panics
/// If a message is another one after that.
#[must_use]
pub fn decode_messages(bytes: &[u8]) -> usize {
    decode_all::<FilesRequest>(bytes) + decode_all::<FilesReply>(bytes)
}

fn decode_all<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> usize {
    let (mut stream, mut found) = (bytes, 0);
    while let Ok(Some(message)) = read::<T>(&mut stream) {
        let again = frame(&message).ok().map(|bytes| read::<T>(&mut &bytes[..]));
        assert_eq!(again.and_then(Result::ok).flatten(), Some(message));
        found += 1;
    }
    found
}

/// Returns streams that [`decode_messages`] accepts.
///
/// # Panics
/// Never: the messages are short.
#[must_use]
pub fn message_examples() -> Vec<Vec<u8>> {
    let file = || b"file".to_vec();
    let requests = [
        FilesRequest::Open {
            name: "main".to_owned(),
            view: FilesView::Branch("update".to_owned()),
        },
        FilesRequest::Operate(FileOperation::Lookup(Inode(1), file())),
        FilesRequest::Operate(FileOperation::Rename(
            Inode(1),
            file(),
            Inode(2),
            file(),
            RenameMode::Exchange,
        )),
        FilesRequest::Operate(FileOperation::Write(Inode(3), WritePosition::At(9), file())),
        FilesRequest::Commit { is_durable: true },
        FilesRequest::BeginBranch {
            name: "update".to_owned(),
            parent: None,
        },
        FilesRequest::History(file()),
        FilesRequest::Send {
            snapshot: "tuesday".to_owned(),
            since: Some("monday".to_owned()),
        },
        FilesRequest::Part(file()),
    ];
    let replies = [
        FilesReply::Done,
        FilesReply::Bytes(file()),
        FilesReply::Entries(vec![DirectoryEntry {
            name: file(),
            inode: Inode(3),
            kind: FileKind::Regular,
        }]),
        FilesReply::Failed {
            kind: ErrorKind::NotFound,
            errno: 2,
            text: "missing".to_owned(),
        },
    ];
    let requests = requests.iter().map(frame);
    let replies = replies.iter().map(frame);
    requests
        .chain(replies)
        .map(|bytes| bytes.expect("a short message"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::message::NodeDescription;
    use super::super::session::FilesService;
    use super::*;
    use alluvium::{Db, Options};
    use alluvium_files::{AllocateMode, AttributeChange, Files, FilesOptions, TimeChange, Timestamp};
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn no_bytes_make_the_decoder_of_messages_panic() {
        let mut random = fastrand::Rng::with_seed(0x5E55);
        let examples = message_examples();
        let mut accepted = 0;
        for _ in 0..100_000 {
            let mut bytes = examples[random.usize(..examples.len())].clone();
            for _ in 0..random.usize(..4) {
                match (random.u8(..4), bytes.len()) {
                    (_, 0) | (0, _) => bytes.push(random.u8(..)),
                    (1, length) => bytes.truncate(random.usize(..length)),
                    (_, length) => bytes[random.usize(..length)] = random.u8(..),
                }
            }
            accepted += decode_messages(&bytes);
        }
        assert!(accepted > 10_000, "{accepted}");
    }

    const NUMBERS: [u64; 14] = [
        0,
        1,
        511,
        513,
        4096,
        1 << 20,
        u32::MAX as u64,
        1 << 40,
        i64::MAX as u64 - 1,
        i64::MAX as u64,
        1 << 63,
        (1 << 63) + 1,
        u64::MAX - 1,
        u64::MAX,
    ];

    /// Draws requests with numbers at the limits and names that no file may have.
    struct HostileClient {
        random: fastrand::Rng,
    }

    impl HostileClient {
        fn number(&mut self) -> u64 {
            match self.random.u8(..3) {
                0 => self.random.u64(..3000),
                _ => NUMBERS[self.random.usize(..NUMBERS.len())],
            }
        }

        fn inode(&mut self) -> Inode {
            match self.random.u8(..8) {
                0 => Inode(self.number()),
                1 | 2 => Inode(1),
                _ => Inode(self.random.u64(1..40)),
            }
        }

        fn bytes(&mut self) -> Vec<u8> {
            let length = [0, 1, 100, 600, 5000][self.random.usize(..5)];
            vec![self.random.u8(..); length]
        }

        fn name(&mut self) -> Vec<u8> {
            match self.random.u8(..24) {
                0 => Vec::new(),
                1 => b".".to_vec(),
                2 => b"..".to_vec(),
                3 => b"a/b".to_vec(),
                4 => b"a\0b".to_vec(),
                5 => vec![b'x'; 255],
                6 => vec![b'x'; 256],
                7 => vec![255; 70_000],
                8 => b".snapshots".to_vec(),
                _ => vec![b'a' + self.random.u8(..5)],
            }
        }

        /// Draws a value that is one byte in a message.
        fn choice<T: DeserializeOwned>(&mut self) -> T {
            loop {
                if let Ok(value) = postcard::from_bytes(&[self.random.u8(..10)]) {
                    return value;
                }
            }
        }

        fn time(&mut self) -> TimeChange {
            TimeChange::At(Timestamp {
                seconds: self.number().cast_signed(),
                nanoseconds: [0, 999_999_999, 1_000_000_000, u32::MAX][self.random.usize(..4)],
            })
        }

        fn change(&mut self) -> AttributeChange {
            let which = self.random.u8(..);
            AttributeChange {
                mode: (which & 1 != 0).then(|| self.random.u32(..)),
                user: (which & 2 != 0).then(|| self.random.u32(..)),
                size: (which & 12 == 0).then(|| self.number()),
                accessed: (which & 16 != 0).then(|| self.time()),
                modified: (which & 32 != 0).then(|| self.time()),
                ..AttributeChange::default()
            }
        }

        fn node(&mut self) -> NodeDescription {
            NodeDescription {
                kind: self.choice(),
                mode: self.random.u32(..),
                user: self.random.u32(..),
                group: self.random.u32(..),
                device: self.number(),
                target: self.bytes(),
            }
        }

        fn operation(&mut self) -> FileOperation {
            use FileOperation as Operation;
            let (inode, name) = (self.inode(), self.name());
            match self.random.u8(..28) {
                0 => Operation::Lookup(inode, name),
                1 => Operation::Attributes(inode),
                2 => Operation::Parent(inode),
                3 => Operation::SetAttributes(inode, self.change()),
                4..8 => Operation::Create(inode, name, self.node()),
                8 => Operation::CreateUnnamed(inode, self.node()),
                9 => Operation::Link(self.inode(), inode, name),
                10 => Operation::Unlink(inode, name),
                11 => Operation::RemoveDirectory(inode, name),
                12 => Operation::Rename(inode, name, self.inode(), self.name(), self.choice()),
                13 => Operation::ReadLink(inode),
                14 => Operation::Hold(inode),
                15 => Operation::Release(inode),
                16 => Operation::Read(inode, self.number(), self.number() as u32),
                17 => Operation::Write(inode, WritePosition::At(self.number()), self.bytes()),
                18 => Operation::Write(inode, WritePosition::End, self.bytes()),
                19 => {
                    let mode: AllocateMode = self.choice();
                    Operation::Allocate(inode, mode, self.number(), self.number())
                }
                20 => Operation::Seek(inode, self.number(), self.choice()),
                21 => {
                    let (from, to, length) = (self.number(), self.number(), self.number());
                    Operation::CopyRange(inode, from, self.inode(), to, length)
                }
                22 => {
                    let after = self.random.bool().then(|| self.name());
                    Operation::ReadDirectory(inode, after, self.number() as u32)
                }
                23 => Operation::ExtendedAttribute(inode, name),
                24 => Operation::ExtendedAttributes(inode),
                25 => {
                    let value = self.bytes();
                    Operation::SetExtendedAttribute(inode, name, value, self.choice())
                }
                26 => Operation::RemoveExtendedAttribute(inode, name),
                _ => Operation::Space,
            }
        }

        fn text(&mut self) -> String {
            let names = ["", "b", "main", "a/b", "b\0", "é", "a:1", "branches"];
            let long = "x".repeat(70_000);
            match self.random.u8(..12) {
                0 => long,
                _ => names[self.random.usize(..names.len())].to_owned(),
            }
        }

        fn request(&mut self) -> FilesRequest {
            match self.random.u8(..120) {
                0 => FilesRequest::CreateSnapshot(self.text()),
                1 => FilesRequest::RemoveSnapshot(self.text()),
                2 => FilesRequest::Snapshots,
                3 => FilesRequest::AllBranches,
                4 => FilesRequest::BeginBranch {
                    name: self.text(),
                    parent: self.random.bool().then(|| self.text()),
                },
                5 => FilesRequest::BranchChanges {
                    name: self.text(),
                    position: self.number(),
                },
                6 => FilesRequest::CommitBranch(self.text()),
                7 => FilesRequest::AbortBranch(self.text()),
                8 => FilesRequest::History([b"/", &self.name()[..], b"/", &self.name()].concat()),
                9 => FilesRequest::Publish,
                10 => FilesRequest::EndView,
                11 => FilesRequest::Send {
                    snapshot: "old".to_owned(),
                    since: self.random.bool().then(|| self.text()),
                },
                12 => FilesRequest::NextPart,
                13 => FilesRequest::Part(self.name()),
                14 => FilesRequest::EndReceive,
                15 => FilesRequest::Promote,
                16 => FilesRequest::Receive(self.text()),
                17 => FilesRequest::Open {
                    name: self.text(),
                    view: FilesView::Newest,
                },
                _ => FilesRequest::Operate(self.operation()),
            }
        }
    }

    fn ask(stream: &mut UnixStream, request: &FilesRequest) -> FilesReply {
        stream.write_all(&frame(request).unwrap()).unwrap();
        read(stream).unwrap().unwrap()
    }

    /// Sends hostile requests to a view, and returns how many were done.
    fn attack(db: &Db, view: FilesView, seed: u64, count: u32) -> u32 {
        let mut client = HostileClient {
            random: fastrand::Rng::with_seed(seed),
        };
        let (mut stream, other) = UnixStream::pair().unwrap();
        let service = FilesService::new(db);
        let mut done = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| service.serve(other));
            let open = FilesRequest::Open {
                name: "main".to_owned(),
                view,
            };
            assert_eq!(ask(&mut stream, &open), FilesReply::Done);
            for _ in 0..count {
                let request = client.request();
                match ask(&mut stream, &request) {
                    FilesReply::Failed { kind, text, .. } => {
                        let is_bug = matches!(kind, ErrorKind::Io | ErrorKind::Damaged);
                        let request = format!("{request:?}");
                        assert!(!is_bug, "seed {seed}: {request:.300}: {text:.300}");
                    }
                    _ => done += 1,
                }
            }
            drop(stream);
        });
        done
    }

    #[test]
    fn no_request_makes_a_session_panic_or_damages_files() {
        let db = Options::new().memory(32 << 20).in_memory().unwrap();
        let options = FilesOptions::new().block_bytes(512).inline_bytes(100);
        let files = Files::open_with(&db, "main", &options).unwrap();
        files.create_snapshot("old").unwrap();
        files.begin_branch("work", None).unwrap();
        let views = [
            FilesView::Newest,
            FilesView::Transaction,
            FilesView::Snapshot("old".to_owned()),
            FilesView::Branch("work".to_owned()),
        ];
        let mut done = 0;
        for (seed, view) in (1..).zip(views) {
            done += attack(&db, view, seed, 1500);
            let report = files.check().unwrap();
            assert!(report.is_whole(), "seed {seed}: {report}");
        }
        assert!(done > 500, "{done}");
        if files.branches().unwrap().iter().any(|found| found.name == "work") {
            let ended = files.commit_branch("work");
            assert!(ended.is_ok() || files.abort_branch("work").is_ok());
        }
        let report = files.check().unwrap();
        assert!(report.is_whole(), "{report}");
    }
}
