//! The client limits among the settings of the CONFIG command.

use crate::error::{CommandError, CommandResult};
use crate::net::LEAST_BUDGET;
use crate::redis::args::integer;
use crate::shared::StoreContext;

const BAD_MEMORY: CommandError = CommandError::say(
    "argument must be a memory value of 1mb or more, or a percentage of maxmemory such as 25%",
);
const BAD_CLASS: CommandError = CommandError::say(
    "argument must be `normal <memory value> 0 0` or `pubsub <hard limit> <soft limit> <seconds>`: normal clients \
     have no soft limit",
);
const BAD_SECONDS: CommandError = CommandError::say("argument must be a number of seconds, or 0 to disable");

/// Parses a size in bytes in the syntax of Redis settings: a number and an optional unit.
pub(super) fn memory(text: &[u8]) -> Result<i64, CommandError> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unit = match &lower[digits..] {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return Err(CommandError::say("argument must be a memory value")),
    };
    integer(&lower[..digits])?
        .checked_mul(unit)
        .ok_or(CommandError::NOT_INTEGER)
}

/// Returns the limit on the total memory of all connections in bytes.
pub(crate) fn client_memory(shared: &StoreContext) -> String {
    shared.budget.limit().to_string()
}

/// Sets the limit on the total memory of all connections. The text is a size, a percentage of the
/// store's memory, or 0 for the default.
pub(crate) fn set_client_memory(shared: &StoreContext, text: &[u8]) -> CommandResult {
    let bytes = match text.strip_suffix(b"%") {
        Some(digits) => {
            let percent = integer(digits).ok().filter(|percent| (1..=100).contains(percent));
            let percent = percent.ok_or(BAD_MEMORY)? as u128;
            let budget = u128::from(shared.store.db.stats().memory.budget);
            usize::try_from(budget * percent / 100).map_err(|_| BAD_MEMORY)?
        }
        None => usize::try_from(memory(text)?).map_err(|_| BAD_MEMORY)?,
    };
    if bytes != 0 && bytes < LEAST_BUDGET {
        return Err(BAD_MEMORY);
    }
    shared.set_client_memory(bytes);
    Ok(())
}

/// Returns the limit on a client's unread output, in the syntax of Redis.
pub(super) fn client_output(shared: &StoreContext) -> String {
    let (hard, soft, seconds) = shared.subscriptions.limits();
    format!(
        "normal {} 0 0 slave 0 0 0 pubsub {hard} {soft} {seconds}",
        shared.config.max_output()
    )
}

pub(super) fn set_client_output(shared: &StoreContext, text: &[u8]) -> CommandResult {
    let words: Vec<&[u8]> = text
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .collect();
    let bytes = |text| usize::try_from(memory(text)?).map_err(|_| BAD_CLASS);
    if words.is_empty() {
        return Err(BAD_CLASS);
    }
    let (mut normal, mut messages) = (None, None);
    for four in words.chunks(4) {
        let [class, hard, soft, seconds] = *four else {
            return Err(BAD_CLASS);
        };
        let limits = (bytes(hard)?, bytes(soft)?, bytes(seconds)? as u64);
        match (class.to_ascii_lowercase().as_slice(), limits) {
            (b"normal", (hard, 0, 0)) => normal = Some(hard),
            (b"pubsub", limits) => messages = Some(limits),
            // There are no replicas.
            (b"slave" | b"replica", _) => {}
            _ => return Err(BAD_CLASS),
        }
    }
    if let Some(bytes) = normal {
        // As in Redis, the value 0 removes the limit.
        shared
            .config
            .set_max_output(if bytes == 0 { usize::MAX } else { bytes });
    }
    if let Some(limits) = messages {
        shared.subscriptions.set_limits(limits);
    }
    Ok(())
}

fn seconds(text: &[u8]) -> Result<u64, CommandError> {
    let seconds = integer(text)
        .ok()
        .filter(|seconds| (0..=i64::from(i32::MAX)).contains(seconds));
    seconds.map(|seconds| seconds as u64).ok_or(BAD_SECONDS)
}

/// Returns the connections' idle timeout in seconds.
pub(crate) fn idle_timeout(shared: &StoreContext) -> String {
    shared.config.idle_timeout().as_secs().to_string()
}

pub(crate) fn set_idle_timeout(shared: &StoreContext, text: &[u8]) -> CommandResult {
    shared.config.set_idle_timeout(seconds(text)?);
    // Wake the reaper, which otherwise sleeps until a connection could reach the previous timeout.
    shared.budget.wake_reaper();
    Ok(())
}

/// Returns the idle time in seconds after which a connection sends TCP keepalive probes. A change
/// applies only to connections accepted afterwards.
pub(crate) fn keepalive(shared: &StoreContext) -> String {
    shared.config.keepalive().as_secs().to_string()
}

pub(crate) fn set_keepalive(shared: &StoreContext, text: &[u8]) -> CommandResult {
    shared.config.set_keepalive(seconds(text)?);
    Ok(())
}

/// Returns for how many milliseconds a script may run.
pub(super) fn script_time(shared: &StoreContext) -> String {
    shared.scripts.time_limit_ms().to_string()
}

pub(super) fn set_script_time(shared: &StoreContext, text: &[u8]) -> CommandResult {
    let milliseconds = u64::try_from(integer(text)?).map_err(|_| CommandError::NOT_INTEGER)?;
    shared.scripts.set_time_limit_ms(milliseconds);
    Ok(())
}
