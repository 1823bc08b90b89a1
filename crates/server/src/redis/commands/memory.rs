//! The MEMORY command: memory usage of keys and of the store.

use crate::error::{CommandError, CommandResult};
use crate::observe::process;
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::{integer, is};
use crate::redis::session::RedisSession;
use crate::redis::subcommands::unknown_subcommand;
use crate::shared::StoreContext;
use crate::store::model::{CollectionHeader, CollectionKind, TypedValue, format};
use crate::store::{CommandTransaction, DATABASES, WalkDirection};

/// Number of elements that MEMORY USAGE samples by default.
const SAMPLES: u64 = 5;

const HELP: [&str; 7] = [
    "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DOCTOR -- explains problems with memory use.",
    "MALLOC-STATS -- prints the memory of each part of the store.",
    "PURGE -- does nothing: the server returns free memory by itself.",
    "STATS -- returns figures of memory use.",
    "USAGE <key> [SAMPLES <count>] -- returns the bytes that a key occupies in the store, estimated from 5 \
     elements by default; 0 samples all elements.",
    "HELP -- prints this help.",
];

pub(crate) fn memory(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let verb = args.at(1).to_ascii_uppercase();
    match (&verb[..], args.len()) {
        (b"USAGE", 3..) => usage(session, args, reply)?,
        (b"STATS", 2) => stats(&session.shared, reply),
        (b"DOCTOR", 2) => reply.verbatim(&crate::observe::health::of_memory(&session.shared)),
        (b"PURGE", 2) => reply.ok(),
        (b"MALLOC-STATS", 2) => reply.verbatim(&parts(&session.shared)),
        (b"HELP", 2) => {
            reply.array(HELP.len());
            HELP.iter().for_each(|line| reply.simple(line));
        }
        _ => return Err(unknown_subcommand("memory", args)),
    }
    Ok(())
}

fn usage(session: &RedisSession, args: Args<'_>, reply: &mut ReplyWriter<'_>) -> CommandResult {
    let mut samples = SAMPLES;
    match args.len() {
        3 => {}
        5 if is(args.at(3), "SAMPLES") => {
            samples = u64::try_from(integer(args.at(4))?).map_err(|_| CommandError::SYNTAX)?;
        }
        _ => return Err(CommandError::SYNTAX),
    }
    let store = &session.shared.store;
    let database = store.databases.number_of(session.settings.database);
    let mut transaction = CommandTransaction::new(store, database);
    let name = format::record_key(database, args.at(2)).len();
    let bytes = match transaction.entry(args.at(2))? {
        None => None,
        Some(TypedValue::Text(text)) => Some((name + text.record_len()) as u64),
        Some(TypedValue::Collection(collection)) => {
            let record = format::encode_collection(&collection).len();
            Some((name + record) as u64 + elements(&transaction, &collection, samples)?)
        }
    };
    match bytes {
        Some(bytes) => reply.integer(bytes as i64),
        None => reply.null(),
    }
    Ok(())
}

/// Returns the total size of a collection's elements in bytes. Estimates it from the first
/// `samples` elements, or computes it from all of them if `samples` is 0.
fn elements(
    transaction: &CommandTransaction<'_>,
    collection: &CollectionHeader,
    samples: u64,
) -> Result<u64, CommandError> {
    let start = format::elements(transaction.database, collection.number);
    let end = format::behind(&start);
    // A sorted set stores each member twice, once by member and once by score.
    let places = match collection.kind {
        CollectionKind::SortedSet => 2,
        CollectionKind::List | CollectionKind::Set | CollectionKind::Hash => 1,
    };
    let most = match samples {
        0 => u64::MAX,
        _ => samples.saturating_mul(places),
    };
    let (mut seen, mut bytes) = (0, 0);
    let mut scan = transaction.scan(start, end, WalkDirection::Forward);
    while seen < most
        && let Some((key, value)) = scan.next()?
    {
        seen += 1;
        bytes += (key.len() + value.len()) as u64;
    }
    if seen < most || seen == 0 {
        return Ok(bytes);
    }
    let all = u128::from(collection.count) * u128::from(places);
    Ok(u64::try_from(u128::from(bytes) * all / u128::from(seen)).unwrap_or(u64::MAX))
}

fn stats(shared: &StoreContext, reply: &mut ReplyWriter<'_>) {
    let used = shared.used_memory();
    let resident = process::resident_bytes().unwrap_or(used);
    let clients = shared.client_bytes();
    let memory = shared.store.db.stats().memory;
    let keys: u64 = (0..DATABASES)
        .map(|database| shared.store.approximate_records(database).unwrap_or(0))
        .sum();
    let numbers = [
        ("peak.allocated", shared.samples.peak_used(used)),
        ("total.allocated", used),
        ("startup.allocated", memory.tables),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", clients),
        ("cluster.links", 0),
        ("aof.buffer", memory.log),
        ("keys.count", keys),
        ("keys.bytes-per-key", used.checked_div(keys).unwrap_or(0)),
        ("dataset.bytes", used.saturating_sub(memory.tables)),
        (
            "alluvium.scan-cursors",
            shared.store.cursors.figures().bytes as u64,
        ),
        ("alluvium.memtables", memory.memtables),
        ("alluvium.log", memory.log),
        ("alluvium.tree", memory.tree),
        ("alluvium.budget", memory.budget),
    ];
    reply.map(numbers.len() + 3);
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(number as i64);
    }
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    for (name, number) in [
        (
            "dataset.percentage",
            100.0 * share(used.saturating_sub(memory.tables), used),
        ),
        (
            "peak.percentage",
            100.0 * share(used, shared.samples.peak_used(used)),
        ),
        ("fragmentation", share(resident, used)),
    ] {
        reply.bulk(name.as_bytes());
        reply.double(number);
    }
}

/// Returns the memory used by each part of the store, one part per line.
fn parts(shared: &StoreContext) -> String {
    let stats = shared.store.db.stats();
    let memory = &stats.memory;
    let lines = [
        ("memtables", memory.memtables),
        ("log", memory.log),
        ("cached pages", stats.cache.charged_bytes),
        ("cached records", stats.records.used_bytes),
        ("tree", memory.tree),
        ("tables", memory.tables),
        ("in use", shared.used_memory()),
        ("budget", memory.budget),
    ];
    lines
        .iter()
        .map(|(name, bytes)| format!("{name}: {bytes} bytes\n"))
        .collect()
}
