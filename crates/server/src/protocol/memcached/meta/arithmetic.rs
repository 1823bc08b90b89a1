//! The `ma` command, which does arithmetic on items.

use super::super::items::{self, ItemChange, ItemStore};
use super::super::request::{MemcachedRequest, number};
use super::{BAD_DELTA, CommandResult, MetaFlags, MetaGetResult, line, meta_key};
use crate::error::CommandError;
use crate::observe::item_counts::{ArithmeticDirection, ItemCounters, count};
use crate::store::model::format::{MemcachedItem, encode_item};

/// An arithmetic command's decoded flags.
struct MetaArithmeticFlags {
    wanted: Option<u64>,
    given: Option<u64>,
    delta: u64,
    initial: u64,
    vivify: Option<i64>,
    seconds: Option<i64>,
    adds: bool,
}

impl MetaArithmeticFlags {
    fn direction(&self) -> ArithmeticDirection {
        if self.adds {
            ArithmeticDirection::Up
        } else {
            ArithmeticDirection::Down
        }
    }

    fn new(flags: &MetaFlags<'_>) -> Result<MetaArithmeticFlags, CommandError> {
        flags.check_briefly()?;
        let delta = flags.value(b'D').map_or(Some(1), number);
        let mode = flags
            .value(b'M')
            .and_then(|mode| mode.first().copied())
            .unwrap_or(b'I');
        Ok(MetaArithmeticFlags {
            wanted: flags.number(b'C')?,
            given: flags.number(b'E')?,
            delta: delta.ok_or(BAD_DELTA)?,
            initial: flags.number(b'J')?.unwrap_or(0),
            vivify: flags.number(b'N')?,
            seconds: flags.number(b'T')?,
            adds: match mode.to_ascii_uppercase() {
                b'I' | b'+' => true,
                b'D' | b'-' => false,
                _ => return Err(CommandError::say("CLIENT_ERROR invalid mode for ma M token")),
            },
        })
    }

    fn apply(
        &self,
        items: &impl ItemStore,
        old: Option<MemcachedItem<'_>>,
    ) -> Result<(ItemChange, (&'static str, Option<MetaGetResult>)), CommandError> {
        let cas = self.given.unwrap_or_else(|| items.next_cas());
        let Some(old) = old else {
            let Some(seconds) = self.vivify else {
                return Ok((ItemChange::Nothing, ("NF", None)));
            };
            let text = self.initial.to_string();
            let item = MemcachedItem {
                flags: 0,
                cas,
                expires_ms: items.expiry(seconds),
                touched: items.now_s(),
                staleness: 0,
                value: text.as_bytes(),
            };
            let got = MetaGetResult::new(items, &item, true);
            return Ok((ItemChange::Put(encode_item(&item)), ("HD", Some(got))));
        };
        if self.wanted.is_some_and(|wanted| wanted != old.cas) {
            return Ok((ItemChange::Nothing, ("EX", None)));
        }
        let sum = items::arithmetic(old.value, self.delta, self.adds);
        let (new, value) = sum.ok_or(CommandError::say(
            "CLIENT_ERROR cannot increment or decrement non-numeric value",
        ))?;
        let item = MemcachedItem {
            cas,
            expires_ms: self
                .seconds
                .map_or(old.expires_ms, |seconds| items.expiry(seconds)),
            staleness: items::staleness_after(&old, &value),
            value: &value,
            ..old
        };
        let mut got = MetaGetResult::new(items, &item, false);
        got.value = Some(new.to_string().into_bytes());
        Ok((ItemChange::Put(encode_item(&item)), ("HD", Some(got))))
    }
}

pub(in super::super) fn arithmetic(
    request: &MemcachedRequest<'_>,
    items: &mut impl ItemStore,
    counts: &ItemCounters,
    output: &mut Vec<u8>,
) -> CommandResult {
    let flags = MetaFlags::new(request, 2);
    let sum = MetaArithmeticFlags::new(&flags)?;
    let key = meta_key(request, &flags)?;
    count(&counts.meta);
    let (code, got) = items.change(&key, |items, old| {
        counts.changed(sum.direction(), old.is_some());
        sum.apply(items, old)
    })?;
    if flags.has(b'q') && code == "HD" {
        return Ok(());
    }
    let value = got
        .as_ref()
        .and_then(|got| got.value.as_deref())
        .filter(|_| flags.has(b'v'));
    let code = value.map_or_else(|| code.to_owned(), |value| format!("VA {}", value.len()));
    line(output, &code, request, &flags, |letter| match (letter, &got) {
        (b'c' | b't', Some(got)) => got.letter(items, letter),
        _ => None,
    });
    if let Some(value) = value {
        output.extend_from_slice(value);
        output.extend_from_slice(b"\r\n");
    }
    Ok(())
}
