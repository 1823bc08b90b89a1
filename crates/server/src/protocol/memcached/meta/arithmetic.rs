//! `ma`: arithmetic on items.

use super::super::items::{self, Change, Items};
use super::super::request::{Request, number};
use super::{BAD_DELTA, Done, Flags, Got, line, meta_key};
use crate::error::Failure;
use crate::observe::item_counts::{Counts, Direction, count};
use crate::store::model::format::{Item, encode_item};

/// The flags of an arithmetic command.
struct Sum {
    wanted: Option<u64>,
    given: Option<u64>,
    delta: u64,
    initial: u64,
    vivify: Option<i64>,
    seconds: Option<i64>,
    adds: bool,
}

impl Sum {
    fn direction(&self) -> Direction {
        if self.adds { Direction::Up } else { Direction::Down }
    }

    fn new(flags: &Flags<'_>) -> Result<Sum, Failure> {
        flags.check_briefly()?;
        let delta = flags.value(b'D').map_or(Some(1), number);
        let mode = flags
            .value(b'M')
            .and_then(|mode| mode.first().copied())
            .unwrap_or(b'I');
        Ok(Sum {
            wanted: flags.number(b'C')?,
            given: flags.number(b'E')?,
            delta: delta.ok_or(BAD_DELTA)?,
            initial: flags.number(b'J')?.unwrap_or(0),
            vivify: flags.number(b'N')?,
            seconds: flags.number(b'T')?,
            adds: match mode.to_ascii_uppercase() {
                b'I' | b'+' => true,
                b'D' | b'-' => false,
                _ => return Err(Failure::say("CLIENT_ERROR invalid mode for ma M token")),
            },
        })
    }

    fn apply(
        &self,
        items: &impl Items,
        old: Option<Item<'_>>,
    ) -> Result<(Change, (&'static str, Option<Got>)), Failure> {
        let cas = self.given.unwrap_or_else(|| items.next_cas());
        let Some(old) = old else {
            let Some(seconds) = self.vivify else {
                return Ok((Change::Nothing, ("NF", None)));
            };
            let text = self.initial.to_string();
            let item = Item {
                flags: 0,
                cas,
                expires_ms: items.expiry(seconds),
                touched: items.now_s(),
                staleness: 0,
                value: text.as_bytes(),
            };
            let got = Got::new(items, &item, true);
            return Ok((Change::Put(encode_item(&item)), ("HD", Some(got))));
        };
        if self.wanted.is_some_and(|wanted| wanted != old.cas) {
            return Ok((Change::Nothing, ("EX", None)));
        }
        let sum = items::arithmetic(old.value, self.delta, self.adds);
        let (new, value) = sum.ok_or(Failure::say(
            "CLIENT_ERROR cannot increment or decrement non-numeric value",
        ))?;
        let item = Item {
            cas,
            expires_ms: self
                .seconds
                .map_or(old.expires_ms, |seconds| items.expiry(seconds)),
            staleness: items::staleness_after(&old, &value),
            value: &value,
            ..old
        };
        let mut got = Got::new(items, &item, false);
        got.value = Some(new.to_string().into_bytes());
        Ok((Change::Put(encode_item(&item)), ("HD", Some(got))))
    }
}

pub(in super::super) fn arithmetic(
    request: &Request<'_>,
    items: &mut impl Items,
    counts: &Counts,
    output: &mut Vec<u8>,
) -> Done {
    let flags = Flags::new(request, 2);
    let sum = Sum::new(&flags)?;
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
