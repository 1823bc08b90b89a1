//! The flags of stores, keyspaces and transactions.

use super::{FlagReader, parse_duration, parse_size, parse_tier, unknown};
use crate::error::{Error, Result};
use crate::options::{
    BackgroundLimits, Compression, Concurrency, Durability, Isolation, KeyspaceOptions, OpenMode, Options,
    Structure, TierOptions, TransactionOptions,
};
use std::str::FromStr;

const DURABILITIES: [(&str, Durability); 3] = [
    ("memory", Durability::Memory),
    ("process", Durability::Process),
    ("disk", Durability::Disk),
];
const COMPRESSIONS: [(&str, Compression); 3] = [
    ("none", Compression::None),
    ("lz4", Compression::Lz4),
    ("zstd", Compression::Zstd),
];
const MODES: [(&str, OpenMode); 4] = [
    ("open-or-create", OpenMode::OpenOrCreate),
    ("existing", OpenMode::Existing),
    ("new", OpenMode::New),
    ("read-only", OpenMode::ReadOnly),
];
const ISOLATIONS: [(&str, Isolation); 2] = [
    ("serializable", Isolation::Serializable),
    ("snapshot", Isolation::Snapshot),
];

fn number<T: FromStr>(text: &str) -> std::result::Result<T, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a number in range"))
}

fn length(text: &str) -> std::result::Result<usize, String> {
    let bytes = parse_size(text)?;
    usize::try_from(bytes).map_err(|_| format!("{text:?} is too large"))
}

fn short_length(text: &str) -> std::result::Result<u32, String> {
    let bytes = parse_size(text)?;
    u32::try_from(bytes).map_err(|_| format!("{text:?} is too large"))
}

impl FromStr for Durability {
    type Err = Error;

    /// Parses `memory`, `process` or `disk`.
    fn from_str(text: &str) -> Result<Durability> {
        let found = DURABILITIES.iter().find(|(name, _)| *name == text);
        found
            .map(|(_, durability)| *durability)
            .ok_or_else(|| Error::BadOption {
                option: "durability",
                why: format!("{text:?} is none of memory, process, disk"),
            })
    }
}

impl FromStr for Options {
    type Err = Error;

    /// Parses the options of a store, each of which is a method of [`Options`] with the same name:
    /// `--memory SIZE`, `--durability memory|process|disk`, `--sync-interval DURATION`, `--mode
    /// open-or-create|existing|new|read-only`, `--workers NUMBER`, `--page-size SIZE`, `--log-limit
    /// SIZE`, `--keep-log SIZE`, `--max-bytes SIZE`, `--fast-bytes SIZE`, `--copy-hot SIZE`,
    /// `--record-memory SIZE`, `--background-bytes SIZE`, `--background-percent NUMBER`,
    /// `--measured-device`, and `--tier PATH[,bytes=SIZE]`, which may be repeated.
    fn from_str(text: &str) -> Result<Options> {
        let mut flags = FlagReader::new(text)?;
        let mut options = Options::new();
        let mut background = BackgroundLimits::new();
        while let Some(flag) = flags.next(&["tier"])? {
            options = match flag.as_str() {
                "memory" => options.memory(flags.value(parse_size)?),
                "durability" => options.durability(flags.choice(&DURABILITIES)?),
                "sync-interval" => options.sync_interval(flags.value(parse_duration)?),
                "mode" => options.mode(flags.choice(&MODES)?),
                "workers" => options.workers(flags.value(number)?),
                "page-size" => options.page_size(flags.value(short_length)?),
                "log-limit" => options.log_limit(flags.value(parse_size)?),
                "keep-log" => options.keep_log(flags.value(parse_size)?),
                "max-bytes" => options.max_bytes(flags.value(parse_size)?),
                "fast-bytes" => options.fast_bytes(flags.value(parse_size)?),
                "copy-hot" => options.copy_hot(flags.value(parse_size)?),
                "record-memory" => options.record_memory(flags.value(parse_size)?),
                "measured-device" => options.measured_device(),
                "tier" => {
                    let (path, max_bytes) = flags.value(parse_tier)?;
                    let limited = max_bytes.map(|bytes| TierOptions::new().max_bytes(bytes));
                    options.tier(path, limited.unwrap_or_default())
                }
                "background-bytes" => {
                    background = background.bytes_per_second(flags.value(parse_size)?);
                    options.background(background)
                }
                "background-percent" => {
                    background = background.cpu_percent(flags.value(number)?);
                    options.background(background)
                }
                other => {
                    let flags = "memory durability sync-interval mode workers page-size log-limit keep-log max-bytes \
                                 fast-bytes copy-hot record-memory background-bytes background-percent \
                                 measured-device tier";
                    return Err(unknown(other, &flags.split_whitespace().collect::<Vec<_>>()));
                }
            };
        }
        Ok(options)
    }
}

impl FromStr for KeyspaceOptions {
    type Err = Error;

    /// Parses the options of a keyspace: `--structure STRUCTURE` (see [`Structure`]),
    /// `--compression none|lz4|zstd`, `--value-threshold SIZE`, `--merge-operator NAME`,
    /// `--compaction-filter NAME`, `--default-expiry DURATION`.
    fn from_str(text: &str) -> Result<KeyspaceOptions> {
        let mut flags = FlagReader::new(text)?;
        let mut options = KeyspaceOptions::new();
        while let Some(flag) = flags.next(&[])? {
            options = match flag.as_str() {
                "structure" => options.structure(flags.value(str::parse::<Structure>)?),
                "compression" => options.compression(flags.choice(&COMPRESSIONS)?),
                "value-threshold" => options.value_threshold(flags.value(short_length)?),
                "merge-operator" => options.merge_operator(&flags.value(number::<String>)?),
                "compaction-filter" => options.compaction_filter(&flags.value(number::<String>)?),
                "default-expiry" => options.default_expiry(flags.value(parse_duration)?),
                other => {
                    let flags = [
                        "structure",
                        "compression",
                        "value-threshold",
                        "merge-operator",
                        "compaction-filter",
                        "default-expiry",
                    ];
                    return Err(unknown(other, &flags));
                }
            };
        }
        Ok(options)
    }
}

impl FromStr for TransactionOptions {
    type Err = Error;

    /// Parses the options of a transaction: `--isolation serializable|snapshot`, `--locking`,
    /// `--durability memory|process|disk`, `--lock-timeout DURATION`, `--timeout DURATION`,
    /// `--max-tracked NUMBER`, `--memory SIZE`, `--max-write-bytes SIZE`, `--max-tries NUMBER`,
    /// `--frees-space`.
    fn from_str(text: &str) -> Result<TransactionOptions> {
        let mut flags = FlagReader::new(text)?;
        let mut options = TransactionOptions::new();
        while let Some(flag) = flags.next(&[])? {
            options = match flag.as_str() {
                "isolation" => options.isolation(flags.choice(&ISOLATIONS)?),
                "locking" => options.concurrency(Concurrency::Locking),
                "durability" => options.durability(flags.choice(&DURABILITIES)?),
                "lock-timeout" => options.lock_timeout(flags.value(parse_duration)?),
                "timeout" => options.timeout(flags.value(parse_duration)?),
                "max-tracked" => options.max_tracked(flags.value(number)?),
                "memory" => options.memory(flags.value(length)?),
                "max-write-bytes" => options.max_write_bytes(flags.value(length)?),
                "max-tries" => options.max_tries(flags.value(number)?),
                "frees-space" => options.frees_space(),
                other => {
                    let flags = "isolation locking durability lock-timeout timeout max-tracked memory \
                                 max-write-bytes max-tries frees-space";
                    return Err(unknown(other, &flags.split_whitespace().collect::<Vec<_>>()));
                }
            };
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn options_are_read_as_on_the_command_line() {
        let text = "--memory 64M --durability=disk --sync-interval 250ms --mode existing --workers 3 \
                    --tier \"/mnt/a b,bytes=64M\" --tier /mnt/c --background-bytes 2M --background-percent 25";
        let read: Options = text.parse().unwrap();
        let built = Options::new()
            .memory(64 << 20)
            .durability(Durability::Disk)
            .sync_interval(Duration::from_millis(250))
            .mode(OpenMode::Existing)
            .workers(3)
            .tier("/mnt/a b", TierOptions::new().max_bytes(64 << 20))
            .tier("/mnt/c", TierOptions::new())
            .background(BackgroundLimits::new().bytes_per_second(2 << 20).cpu_percent(25));
        assert_eq!(format!("{read:?}"), format!("{built:?}"));
        let text = "--page-size 8K --log-limit 64M --keep-log 1M --max-bytes 1G --fast-bytes 2M --copy-hot 3M \
                    --record-memory 4M --measured-device";
        let read: Options = text.parse().unwrap();
        let built = Options::new()
            .page_size(8192)
            .log_limit(64 << 20)
            .keep_log(1 << 20)
            .max_bytes(1 << 30)
            .fast_bytes(2 << 20)
            .copy_hot(3 << 20)
            .record_memory(4 << 20)
            .measured_device();
        assert_eq!(format!("{read:?}"), format!("{built:?}"));
        assert_eq!(read.takes_measured, built.takes_measured);
    }

    #[test]
    fn options_of_keyspaces_and_transactions_are_read() {
        let text = "--structure levels,k=8 --compression zstd --value-threshold 2K --merge-operator add \
                    --compaction-filter old --default-expiry 90s";
        let built = KeyspaceOptions::new()
            .structure("levels,k=8".parse().unwrap())
            .compression(Compression::Zstd)
            .value_threshold(2048)
            .merge_operator("add")
            .compaction_filter("old")
            .default_expiry(Duration::from_secs(90));
        assert_eq!(text.parse::<KeyspaceOptions>().unwrap(), built);
        let text = "--isolation snapshot --locking --durability process --lock-timeout 5s --timeout 1m \
                    --max-tracked 9 --memory 1M --max-write-bytes 2M --max-tries 3 --frees-space";
        let built = TransactionOptions::new()
            .isolation(Isolation::Snapshot)
            .concurrency(Concurrency::Locking)
            .durability(Durability::Process)
            .lock_timeout(Duration::from_secs(5))
            .timeout(Duration::from_secs(60))
            .max_tracked(9)
            .memory(1 << 20)
            .max_write_bytes(2 << 20)
            .max_tries(3)
            .frees_space();
        assert_eq!(text.parse::<TransactionOptions>().unwrap(), built);
        assert_eq!(
            "".parse::<TransactionOptions>().unwrap(),
            TransactionOptions::new()
        );
        assert_eq!("disk".parse::<Durability>().unwrap(), Durability::Disk);
        assert!("dish".parse::<Durability>().is_err());
    }

    #[test]
    fn what_is_no_option_is_refused_with_the_reason() {
        for (text, why) in [
            ("memory 64M", "is not a flag: flags begin with --"),
            ("--memory", "--memory needs a value"),
            ("--memory 64X", "--memory: \"X\" is not a unit"),
            ("--memory 1M --memory 2M", "--memory is given twice"),
            ("--measured-device=yes", "--measured-device takes no value"),
            ("--durability dish", "is none of memory, process, disk"),
            ("--mode", "needs a value"),
            ("--workers -1", "is not a number in range"),
            ("--page-size 8G", "is too large"),
            ("--tier \"", "is opened and never closed"),
            ("--tier ,bytes=4M", "name a directory"),
            ("--tier \\xff", "is not UTF-8"),
            (
                "--colour red",
                "there is no flag --colour: the flags are --memory, --durability",
            ),
        ] {
            let error = text.parse::<Options>().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument, "{text}");
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
        let error = "--structure levels,k=1".parse::<KeyspaceOptions>().unwrap_err();
        assert!(error.to_string().contains("k is 1"), "{error}");
        assert!("--locking=no".parse::<TransactionOptions>().is_err());
        assert!("--value-threshold 8G".parse::<KeyspaceOptions>().is_err());
        assert!("--lock-timeout soon".parse::<TransactionOptions>().is_err());
    }

    #[test]
    fn no_text_is_a_panic() {
        let mut random = fastrand::Rng::with_seed(62);
        let parts = [
            "--",
            "memory",
            "tier",
            "=",
            " ",
            "\"",
            "\\",
            "\\x",
            "64M",
            "é",
            ",bytes=",
            "durability",
            "\0",
        ];
        for _ in 0..20_000 {
            let text: String = (0..random.usize(..9))
                .map(|_| parts[random.usize(..parts.len())])
                .collect();
            let _ = text.parse::<Options>();
            let _ = text.parse::<KeyspaceOptions>();
            let _ = text.parse::<TransactionOptions>();
        }
    }
}
