//! Commands on the expiry times of keys.

use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::{OptionParser, integer, is};
use crate::redis::string_store::StringStore;
use crate::store::model::TypedValue;
use std::borrow::Cow;

/// The unit of an expiry time, and whether the time is absolute or relative to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpiryUnit {
    InSeconds,
    InMilliseconds,
    AtSecond,
    AtMillisecond,
}

impl ExpiryUnit {
    /// Returns the unit of a SET or GETEX expiry option (EX, PX and so on), or `None` for any other
    /// word.
    pub(super) fn of_option(word: &[u8]) -> Option<ExpiryUnit> {
        [
            ("EX", ExpiryUnit::InSeconds),
            ("PX", ExpiryUnit::InMilliseconds),
            ("EXAT", ExpiryUnit::AtSecond),
            ("PXAT", ExpiryUnit::AtMillisecond),
        ]
        .into_iter()
        .find_map(|(name, unit)| is(word, name).then_some(unit))
    }

    /// Converts an expiry time to milliseconds since 1970. Returns `None` on overflow.
    fn moment(self, value: i64, now_ms: u64) -> Option<i64> {
        let now_ms = i64::try_from(now_ms).ok()?;
        match self {
            ExpiryUnit::InSeconds => value.checked_mul(1000)?.checked_add(now_ms),
            ExpiryUnit::InMilliseconds => value.checked_add(now_ms),
            ExpiryUnit::AtSecond => value.checked_mul(1000),
            ExpiryUnit::AtMillisecond => Some(value),
        }
    }
}

fn invalid(command: &str) -> CommandError {
    CommandError::Refused(Cow::Owned(format!(
        "ERR invalid expire time in '{command}' command"
    )))
}

/// Parses a new value's expiry time and converts it to milliseconds since 1970. Fails if the number
/// is not positive.
pub(crate) fn moment(
    value: &[u8],
    unit: ExpiryUnit,
    now_ms: u64,
    command: &str,
) -> Result<u64, CommandError> {
    let value = integer(value)?;
    let moment = unit.moment(value, now_ms).filter(|_| value > 0);
    moment
        .and_then(|moment| u64::try_from(moment).ok())
        .ok_or_else(|| invalid(command))
}

/// The conditions under which EXPIRE changes the expiry time: NX, XX, GT and LT, in the order of
/// the fields.
#[derive(Default)]
struct ExpiryConditions {
    if_never: bool,
    if_ever: bool,
    if_later: bool,
    if_earlier: bool,
}

fn conditions(args: Args<'_>) -> Result<ExpiryConditions, CommandError> {
    let mut conditions = ExpiryConditions::default();
    let mut options = OptionParser::new(args, 3);
    while let Some(word) = options.next() {
        let flag = if is(word, "NX") {
            &mut conditions.if_never
        } else if is(word, "XX") {
            &mut conditions.if_ever
        } else if is(word, "GT") {
            &mut conditions.if_later
        } else if is(word, "LT") {
            &mut conditions.if_earlier
        } else {
            let word = String::from_utf8_lossy(word);
            return Err(CommandError::Refused(Cow::Owned(format!(
                "ERR Unsupported option {word}"
            ))));
        };
        *flag = true;
    }
    if conditions.if_never && (conditions.if_ever || conditions.if_later || conditions.if_earlier) {
        return Err(CommandError::say(
            "ERR NX and XX, GT or LT options at the same time are not compatible",
        ));
    }
    if conditions.if_later && conditions.if_earlier {
        return Err(CommandError::say(
            "ERR GT and LT options at the same time are not compatible",
        ));
    }
    Ok(conditions)
}

impl ExpiryConditions {
    /// Returns whether the conditions permit changing a key's expiry time from `now` (0 if it never
    /// expires) to `then`, both in milliseconds since 1970.
    fn hold(&self, now: u64, then: i64) -> bool {
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let never = now == 0;
        !((self.if_never && !never)
            || (self.if_ever && never)
            || (self.if_later && (never || then <= now))
            || (self.if_earlier && !never && then >= now))
    }
}

fn set_expiry(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
    unit: ExpiryUnit,
    command: &str,
) -> CommandResult {
    // Check for errors in the same order as Redis.
    let conditions = conditions(args)?;
    let value = integer(args.at(2))?;
    let now_ms = transaction.now_ms();
    let then = unit.moment(value, now_ms).ok_or_else(|| invalid(command))?;
    let Some(expires_ms) = transaction.entry(args.at(1))?.map(|entry| entry.expires_ms()) else {
        reply.integer(0);
        return Ok(());
    };
    let holds = conditions.hold(expires_ms, then);
    if holds {
        match u64::try_from(then) {
            Ok(then) if then > now_ms => transaction.expire(args.at(1), then)?,
            _ => transaction.remove(args.at(1))?,
        };
    }
    reply.truth(holds);
    Ok(())
}

pub(crate) fn expire(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    set_expiry(transaction, args, reply, ExpiryUnit::InSeconds, "expire")
}

pub(crate) fn pexpire(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    set_expiry(transaction, args, reply, ExpiryUnit::InMilliseconds, "pexpire")
}

pub(crate) fn expire_at(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    set_expiry(transaction, args, reply, ExpiryUnit::AtSecond, "expireat")
}

pub(crate) fn pexpire_at(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    set_expiry(transaction, args, reply, ExpiryUnit::AtMillisecond, "pexpireat")
}

pub(crate) fn persist(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let expires = transaction
        .entry(args.at(1))?
        .is_some_and(|entry| entry.expires_ms() != 0);
    if expires {
        transaction.expire(args.at(1), 0)?;
    }
    reply.truth(expires);
    Ok(())
}

/// Writes the reply to TTL and related commands: -2 if the key does not exist, and -1 if it never
/// expires.
fn report(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
    shown: impl Fn(i64, i64) -> i64,
) -> CommandResult {
    let now_ms = transaction.now_ms() as i64;
    let value = match transaction
        .entry(args.at(1))?
        .as_ref()
        .map(TypedValue::expires_ms)
    {
        None => -2,
        Some(0) => -1,
        Some(expires_ms) => shown(i64::try_from(expires_ms).unwrap_or(i64::MAX), now_ms),
    };
    reply.integer(value);
    Ok(())
}

pub(crate) fn ttl(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    report(transaction, args, reply, |then, now| (then - now + 500) / 1000)
}

pub(crate) fn pttl(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    report(transaction, args, reply, |then, now| then - now)
}

pub(crate) fn expire_time(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    report(transaction, args, reply, |then, _| {
        (then.saturating_add(500)) / 1000
    })
}

pub(crate) fn pexpire_time(
    transaction: &mut impl StringStore,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    report(transaction, args, reply, |then, _| then)
}
