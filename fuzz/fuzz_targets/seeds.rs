//! Writes the initial corpus: for each target a few inputs that lead to valid encodings.
//!
//! `fuzz/run` runs it before the targets. The encoders produce the inputs, so a new format version
//! needs no new files.
#![allow(clippy::disallowed_methods)]

#[path = "seeds/hashed.rs"]
mod hashed;
#[path = "seeds/structures.rs"]
mod structures;

use alluvium_base::bytes::ByteWriter;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Message, Purpose, checksum};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{BootId, Directory, FileOptions};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_filters::{FilterGeometry, FilterShape};
use alluvium_server::control::format::{ReplyFrame, frame};
use alluvium_server::control::{
    self, KeyChange, ManagementReply, ManagementRequest, RedisRequest as Commands,
};
use alluvium_server::datagram::format::{
    self as datagram, Datagram, DatagramDirection, DatagramHeader, DatagramOperation,
};
use alluvium_storage::extents::{AllocationClass, Extent, ExtentOptions, Extents, MapPointer, map_file};
use alluvium_storage::log::format::{RecordHeader, RecordKind, SegmentHeader};
use alluvium_storage::node::read_node;
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_storage::tiers::format::TierMark;
use alluvium_storage::tiers::list::{TierEntry, TierList};
use alluvium_storage::{NodeCodec, NodePointer, PageSize, TierFiles, superblock::Superblock};
use alluvium_trees::maplet::format::{MapletBody, MapletExtent, MapletRoot};
use alluvium_trees::run::{RangeWeight, RunBuilder, RunOptions};
use alluvium_trees::tiered::format::{StoredGroup, StoredNode, StoredPart, StoredPivot, StoredRun, TreeRoot};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

fn main() -> std::io::Result<()> {
    let corpus = PathBuf::from(std::env::args().nth(1).expect("usage: seeds FOLDER"));
    for (target, inputs) in [
        ("bytes", bytes()),
        ("node_pointer", node_pointers()),
        ("codec", codecs()),
        ("superblock", superblocks()),
        ("extent_map", extent_maps()),
        ("log_format", log_formats()),
        ("log_open", logs()),
        ("quotient", quotients()),
        ("trie", hashed::tries()),
        ("pachash", hashed::block_indexes()),
        ("listed", hashed::listed_filters()),
        ("sort", hashed::frames()),
        ("rest", hashed::indexes_at_rest()),
        ("maplet_directory", maplet_directories()),
        ("run", runs()),
        ("records", records()),
        ("trunk", trunks()),
        ("manifest", manifests()),
        ("map", structures::maps()),
        ("levels", structures::levels()),
        ("hashed", structures::hashed_structures()),
        ("paged", alluvium_trees::paged::examples()),
        ("resp", requests_of_redis()),
        ("memcached", requests_of_memcached()),
        ("control", messages_of_managers()),
        ("datagram", datagrams()),
        ("trace", traces()),
        ("file_records", alluvium_files::record_examples()),
        ("file_messages", alluvium_mount::service::message_examples()),
        ("kernel_requests", alluvium_mount::kernel_examples()),
    ] {
        let folder = corpus.join(target);
        fs::create_dir_all(&folder)?;
        for (index, input) in inputs.iter().enumerate() {
            fs::write(folder.join(format!("seed-{index}")), input)?;
        }
    }
    Ok(())
}

/// A header, and one operation of each kind.
fn traces() -> Vec<Vec<u8>> {
    let mut bytes = b"allvtrce".to_vec();
    bytes.extend(100u64.to_le_bytes());
    bytes.extend(6u64.to_le_bytes());
    for kind in 0..6u64 {
        bytes.extend(kind.to_le_bytes());
        bytes.extend((kind * 7).to_le_bytes());
    }
    vec![bytes]
}

fn datagrams() -> Vec<Vec<u8>> {
    let header = DatagramHeader {
        operation: DatagramOperation::Set,
        way: DatagramDirection::Request,
        sequence: 1,
        client: 2,
        hash: 3,
        expires_in_ms: 4,
        echo: 5,
    };
    let mut bytes = vec![0; 72];
    let (key, value) = (&b"key"[..], &b"value"[..]);
    let length = datagram::write(&Datagram { header, key, value }, &mut bytes);
    assert_eq!(length, Some(72));
    let directory = datagram::PortDirectory {
        seed: 1,
        ports: vec![1, 2],
    };
    vec![bytes, directory.encode()]
}

fn messages_of_managers() -> Vec<Vec<u8>> {
    let change = KeyChange {
        keyspace: "default".to_owned(),
        key: b"k".to_vec(),
        value: Some(b"value".to_vec()),
        expires_in_ms: Some(1000),
    };
    let requests = [
        ManagementRequest::Keyspaces,
        ManagementRequest::Write(vec![change.clone(), change.clone()]),
        ManagementRequest::Redis(Commands::Execute {
            database: 1,
            commands: vec![vec![b"GET".to_vec(), b"k".to_vec()]],
            also: vec![change],
        }),
    ];
    let parts = [
        ReplyFrame::Reply(ManagementReply::Pairs(vec![(b"k".to_vec(), b"v".to_vec())])),
        ReplyFrame::Failed {
            kind: control::FailureKind::Full,
            text: "full".to_owned(),
        },
    ];
    let requests = requests.iter().filter_map(|request| frame(request).ok());
    requests
        .chain(parts.iter().filter_map(|part| frame(part).ok()))
        .collect()
}

fn requests_of_redis() -> Vec<Vec<u8>> {
    let requests: [&[u8]; 4] = [
        b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
        b"set k \"a \\x41\" 'b'\r\nPING\r\n",
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n*0\r\n",
        b"*1\r\n$-1\r\n",
    ];
    requests.iter().map(|request| [&[3], *request].concat()).collect()
}

fn requests_of_memcached() -> Vec<Vec<u8>> {
    let requests: [&[u8]; 4] = [
        b"get a b\r\nset k 5 0 3 noreply\r\na\nb\r\n",
        b"cas k 0 0 1 7\r\nx\r\nincr k 1\r\n",
        b"ms k 2 T0 F1\r\nab\r\nmg k v\r\nmn\r\n",
        b"set k 0 0 1\r\nxx\r\nquit\r\n",
    ];
    requests.iter().map(|request| request.to_vec()).collect()
}

fn records() -> Vec<Vec<u8>> {
    use alluvium::simulation::format::{encode_keyspace, encode_one, encode_range, keyspace_key};
    let mut record = Vec::new();
    encode_one(
        &mut record,
        &[1],
        b"key",
        alluvium_base::MessageKind::Put,
        0,
        b"value",
    );
    encode_one(
        &mut record,
        &[1],
        b"key",
        alluvium_base::MessageKind::Put,
        7,
        b"value",
    );
    encode_one(
        &mut record,
        &[1],
        b"key",
        alluvium_base::MessageKind::Delete,
        0,
        b"",
    );
    encode_range(&mut record, &[1], &[2]);
    let options = alluvium::KeyspaceOptions::new().merge_operator("add");
    let mut keyspace = keyspace_key("rivers0").to_vec();
    keyspace.extend_from_slice(&encode_keyspace(300, 0, &options));
    vec![record, keyspace]
}

/// One call of each kind, and bytes that satisfy it.
fn bytes() -> Vec<Vec<u8>> {
    let calls = [0u8, 1, 2, 3, 4, 5, 5, 5, 30];
    let mut values = Vec::new();
    ByteWriter::new(&mut values)
        .u8(1)
        .u16(2)
        .u32(3)
        .u64(4)
        .u128(5)
        .varint(6)
        .varint(300)
        .varint(u64::MAX)
        .bytes(b"abc");
    let filler = vec![7; values.len() - calls.len()];
    vec![[&calls[..], &filler, &values].concat()]
}

fn pointer(codec: NodeCodec, pages: u8, encoded: &[u8]) -> NodePointer {
    NodePointer {
        offset: 1 << 20,
        birth: 3,
        checksum: checksum(encoded),
        encoded_len: encoded.len() as u32,
        tier: 0,
        pages,
        codec,
    }
}

fn node_pointers() -> Vec<Vec<u8>> {
    let mut plain = vec![0];
    pointer(NodeCodec::None, 1, &[9; 4096]).encode(&mut plain);
    pointer(NodeCodec::None, 16, &[9; 65536]).encode(&mut plain);
    let mut packed = vec![4];
    pointer(NodeCodec::Lz4, 1, b"some bytes").encode(&mut packed);
    pointer(NodeCodec::Zstd, 16, b"some other bytes").encode(&mut packed);
    vec![plain, packed]
}

/// For each codec a compressible node: once encoded, once as content.
fn codecs() -> Vec<Vec<u8>> {
    let node: Vec<u8> = (0..PageSize::MIN.bytes()).map(|at| (at / 97) as u8).collect();
    let mut inputs = Vec::new();
    for (number, codec) in [(1, NodeCodec::Lz4), (2, NodeCodec::Zstd)] {
        let mut encoded = Vec::new();
        codec.encode(&node, &mut encoded);
        inputs.push([&[number << 4][..], &encoded].concat());
        inputs.push([&[number << 4][..], &node].concat());
    }
    inputs
}

fn superblocks() -> Vec<Vec<u8>> {
    let superblock = Superblock {
        store: 0x1234,
        generation: 7,
        cut: 99,
        synced: 98,
        page_size: PageSize::MIN,
        tiers: 1,
        map: MapPointer {
            file: 1,
            length: 1024,
            checksum: 5,
            generation: 7,
            snapshot: 512,
            records: 2,
        },
        payload: b"payload".to_vec(),
    };
    let sealed = superblock.encode(1);
    let open = &sealed[..256];
    let mark = TierMark {
        store: 0x1234,
        tier: 1,
    }
    .encode();
    let list = TierList {
        store: 0x1234,
        tiers: vec![TierEntry {
            tier: 1,
            path: "/slow".to_owned(),
            max_bytes: Some(1 << 40),
            is_drained: false,
        }],
    }
    .encode();
    vec![
        [&[2][..], &sealed].concat(),
        [&[3][..], open].concat(),
        [&[2][..], &mark].concat(),
        [&[2][..], &list].concat(),
        [&[3][..], &mark[..64]].concat(),
    ]
}

/// A map file with its pointer, and records for the target to seal: three consecutive extents, then
/// one of them removed.
fn extent_maps() -> Vec<Vec<u8>> {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let tiers = Arc::new(TierFiles::create(&[directory.as_ref(); 2]).expect("memory"));
    let extents = Extents::create(tiers, ExtentOptions::default()).expect("memory");
    let mut pointer = None;
    for generation in 1..4u64 {
        let extent = extents
            .allocate(0, generation as u32, AllocationClass::Normal)
            .expect("memory");
        extents.install(&[(extent, 1000 * generation)]);
        pointer = Some(
            extents
                .write_map(&directory, extents.freeze(generation))
                .expect("memory"),
        );
        extents.made_durable(generation);
    }
    let pointer = pointer.expect("three were written");
    let file = directory
        .open(&map_file(pointer.file), FileOptions::DIRECT)
        .expect("just written");
    let map = file
        .read_at(0, pointer.length as usize, Purpose::Other)
        .expect("just written");
    let mut raw = vec![0];
    pointer.encode(&mut raw);
    raw.extend_from_slice(&map);
    const ONE_UNIT_NO_GAP_ONE_REFERENCE_ALL_LIVE: u8 = 2 | 4 | 8 | 16;
    let row = [1, 0, 0, 1, 2, ONE_UNIT_NO_GAP_ONE_REFERENCE_ALL_LIVE | 32, 2];
    let gone = [0, 1, 1, 2, 1 | 2, 1];
    vec![raw, [&row[..], &gone].concat()]
}

/// A header block, with and without a valid checksum, and a record.
fn log_formats() -> Vec<Vec<u8>> {
    let block = SegmentHeader {
        slot: 0,
        number: 1,
        incarnation: 1,
        base: 0,
        boot: BootId([7; 16]),
        generation: 1,
        synced: 0,
        len: 4096,
        identity: 0,
        lane: 0,
        mapped: true,
    }
    .encode();
    let record = RecordHeader {
        len: 5,
        count: 1,
        first: 1,
        synced: 0,
        complete: 0,
        kind: RecordKind::Data,
    };
    let record = [&record.encode(0, 0, b"hello")[..], b"hello"].concat();
    let (sealed, open) = ([&[0], &block[..]].concat(), [&[1], &block[..96]].concat());
    vec![sealed, open, [&[0], &record[..]].concat()]
}

/// Two segments of one boot: a note and three records in the first, a record after a gap in the
/// second. The same for another boot, sealed.
fn logs() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for boot in [0u8, 1] {
        let start = [2, 0, 1, 0];
        let first = [boot, 1, 1, 0, 1, 0, 0, 0, 0, 4];
        let note = [2, 1, 0, 0, 0];
        let data = |first: u8| [4, first, 1, 0, 2, b'a', b'b'];
        let second = [boot, 2, 1, 0, 1, 0, 0, 0, 1, 1 + boot];
        let seal = [3, 0, 0, 5, 0];
        let parts: [&[u8]; 9] = [
            &start,
            &first,
            &note,
            &data(1),
            &data(2),
            &data(3),
            &second,
            &data(5),
            &seal,
        ];
        inputs.push(parts.concat());
    }
    inputs
}

/// A geometry, and small filters with and without values, valid and damaged.
fn quotients() -> Vec<Vec<u8>> {
    let mut geometry = Vec::new();
    let shape = FilterShape::new(20, 4);
    FilterGeometry::with_pages(2, shape)
        .expect("a usual geometry")
        .encode(&mut geometry);
    let keys: Vec<u8> = (0..200).collect();
    let with = |start: [u8; 5]| [&start[..], &keys].concat();
    vec![
        geometry,
        with([12, 4, 1, 90, 0]),
        with([32, 0, 0, 90, 0]),
        with([4, 2, 2, 90, 9]),
    ]
}

/// A directory whose body is inside its root, and one whose body has two parts.
fn maplet_directories() -> Vec<Vec<u8>> {
    let extent = |start, units| Extent {
        tier: 0,
        start,
        units,
    };
    let (pages, last) = (3, extent(9, 1));
    let mut root = MapletRoot {
        geometry: FilterGeometry::with_pages(2, FilterShape::new(36, 4)).expect("a usual geometry"),
        entries: 30,
        pages,
        spilled: 1,
        repeats: 0,
        values: 2,
        stretches: vec![
            MapletExtent {
                extent: extent(2, 1),
                pages: 2,
                live_bytes: 8192,
            },
            MapletExtent {
                extent: last,
                pages: 1,
                live_bytes: 8192,
            },
        ],
        parts: Vec::new(),
    };
    let body = MapletBody {
        values: vec![(1, 10), (3, 20)],
        checksums: vec![7; pages as usize],
    };
    let whole = root.encode(&body.encode(), PageSize::MIN);
    root.parts = vec![
        NodePointer {
            birth: 1,
            ..pointer(NodeCodec::None, 16, &[9; 65536])
        };
        2
    ];
    let apart = root.encode(&[], PageSize::MIN);
    let trimmed = |node: &[u8]| [&[9, 1, 0], &node[..512]].concat();
    vec![trimmed(&whole), trimmed(&apart)]
}

/// The first leaf, an index node and the footer of runs with several kinds of records, and the head
/// of a long leaf.
fn runs() -> Vec<Vec<u8>> {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let options = StoreOptions {
        cache_bytes: 4 << 20,
        ..StoreOptions::default()
    };
    let store = Store::create(directory, &options, b"").expect("memory");
    let mut inputs = Vec::new();
    for (kind, count) in [(0, 40), (1, 40), (2, 20_000), (3, 3), (4, 2000)] {
        let options = RunOptions {
            leaf_keys: kind == 4,
            ..RunOptions::new(Purpose::Other)
        };
        let mut builder = RunBuilder::new(&store, &options).expect("good options");
        let key = |number: u64| match kind {
            3 => [vec![number as u8; 50_000], vec![1; 15_000]].concat(),
            _ => format!("{number:08}").into_bytes(),
        };
        for number in 0..count {
            let mut put = Message::put(MAX_SEQUENCE - number, b"value");
            let long = [7; 2000];
            if kind == 1 && number % 3 == 0 {
                (put.expires_ms, put.operand) = (number, &long);
            }
            builder.push(&key(number), put.into()).expect("memory");
            if kind == 1 {
                let delete = Message::delete(MAX_SEQUENCE - 1000);
                builder.push(&key(number), delete.into()).expect("memory");
            }
        }
        builder.delete_range(b"a", b"b", 7);
        let built = builder.finish().expect("memory").expect("there are records");
        let guard = store.epochs().pin();
        let leaf = built
            .run
            .locate(&key(0), store.cache(), &guard, Purpose::Other)
            .expect("sound")
            .expect("there is a leaf");
        for pointer in [leaf, *built.run.pointer()] {
            let node = read_node(store.tiers(), &pointer, store.page_size(), Purpose::Other).expect("sound");
            inputs.push([&[0, 0][..], &node].concat());
            let end = node
                .iter()
                .rposition(|byte| *byte != 0)
                .map_or(0, |last| last + 1);
            inputs.push([&[0, 2][..], &node[..end], &[9, 0, 1, 40, 0, 255]].concat());
        }
    }
    inputs
}

/// Manifests of one dictionary, of two, and of two with the same structure, and payloads.
fn manifests() -> Vec<Vec<u8>> {
    use alluvium::simulation::format::manifest::{
        DictionaryBacklog, DictionaryEntry, Manifest, SuperblockPayload,
    };
    let entry = |id, kind| DictionaryEntry {
        id,
        kind,
        root: vec![kind; 20],
    };
    let one = Manifest {
        dictionaries: vec![entry(0, 0)],
        ..Manifest::default()
    };
    let mut behind = DictionaryBacklog::new(5);
    behind.push(7, &[4; 9]);
    let two = Manifest {
        dictionaries: vec![entry(0, 0), entry(1, 250)],
        keyspaces: [(2, 1), (300, 1)].into(),
        catalog: Some([(b"\0kone".to_vec(), vec![2; 20]), (b"\0n".to_vec(), vec![3; 4])].into()),
        time_ms: 1 << 40,
        behind: [(1, behind)].into(),
    };
    let several = Manifest {
        dictionaries: vec![entry(0, 1), entry(2, 2), entry(258, 2)],
        keyspaces: [(2, 2), (3, 258)].into(),
        behind: [].into(),
        ..two.clone()
    };
    vec![
        one.encode(),
        two.encode(),
        SuperblockPayload::Inline(two).encode(),
        SuperblockPayload::Inline(several).encode(),
    ]
}

/// A node of two pivots over a group of three runs, and a payload, each after the byte that selects
/// it.
fn trunks() -> Vec<Vec<u8>> {
    let at = |offset| NodePointer {
        offset,
        birth: 3,
        checksum: 7,
        encoded_len: 4096,
        tier: 0,
        pages: 1,
        codec: NodeCodec::None,
    };
    let pointer = |offset| ValuePointer {
        node: at(offset),
        at: 0,
        len: 100,
    };
    let weight = RangeWeight {
        bytes: 5000,
        records: 40,
        tombstones: 1,
    };
    let run = |offset, base| {
        let pointer = at(offset);
        Some(StoredRun { pointer, base })
    };
    let part = |clip| StoredPart { group: 0, clip };
    let pivot = |low: &[u8], offset| StoredPivot {
        low: low.into(),
        child: Some(pointer(offset)),
        own: vec![(part(None), weight)],
        live: vec![vec![weight]],
    };
    let form = StoredNode {
        height: 1,
        next: 4,
        range: KeyRange::everything(),
        groups: vec![StoredGroup {
            id: 1,
            maplet: at(4096),
            runs: vec![run(8192, 0), None, run(20480, 9)],
        }],
        clips: vec![KeyRange::new(b"d", Some(b"t"))],
        bundles: vec![vec![part(Some(0))]],
        pivots: vec![pivot(b"", 12288), pivot(b"m", 16384)],
    };
    let root = TreeRoot {
        fingerprint_bits: 33,
        next_group: 2,
        trunk: pointer(4096),
    };
    let encoded = [form.encode(), root.encode()];
    (0u8..)
        .zip(encoded)
        .map(|(choice, bytes)| [vec![choice], bytes].concat())
        .collect()
}
