//! The commands BITFIELD and BITFIELD_RO, which access integers of arbitrary width in strings.

use super::strings::to_change;
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::{OptionParser, integer, is, name};
use crate::redis::string_store::fits;
use crate::store::CommandTransaction;

const BAD_TYPE: CommandError = CommandError::say(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
);
const BAD_OFFSET: CommandError = CommandError::say("ERR bit offset is not an integer or out of range");
const READ_ONLY: CommandError = CommandError::say("ERR BITFIELD_RO only supports the GET subcommand");

/// What to do if an operation's result does not fit into the integer.
#[derive(Clone, Copy)]
enum OverflowPolicy {
    Wrap,
    /// Use the nearest representable value.
    Saturate,
    /// Write nothing, and reply null.
    Fail,
}

/// The location of an integer in a string.
#[derive(Clone, Copy)]
struct BitField {
    is_signed: bool,
    bits: u32,
    /// Index of the integer's first bit in the string.
    offset: u64,
}

impl BitField {
    fn read(kind: &[u8], offset: &[u8]) -> Result<BitField, CommandError> {
        let (is_signed, most) = match kind.first() {
            Some(b'i') => (true, 64),
            Some(b'u') => (false, 63),
            _ => return Err(BAD_TYPE),
        };
        let bits = integer(&kind[1..]).map_err(|_| BAD_TYPE)?;
        let bits = u32::try_from(bits).ok().filter(|bits| (1..=most).contains(bits));
        let bits = bits.ok_or(BAD_TYPE)?;
        let (digits, unit) = match offset.strip_prefix(b"#") {
            Some(digits) => (digits, u64::from(bits)),
            None => (offset, 1),
        };
        let number = u64::try_from(integer(digits).map_err(|_| BAD_OFFSET)?).map_err(|_| BAD_OFFSET)?;
        let offset = number.checked_mul(unit).ok_or(BAD_OFFSET)?;
        let field = BitField {
            is_signed,
            bits,
            offset,
        };
        fits(field.end()?).map_err(|_| BAD_OFFSET)?;
        Ok(field)
    }

    /// Returns the minimum length in bytes of a string that contains the whole field.
    fn end(&self) -> Result<usize, CommandError> {
        let bits = self.offset.checked_add(u64::from(self.bits)).ok_or(BAD_OFFSET)?;
        usize::try_from(bits.div_ceil(8)).map_err(|_| BAD_OFFSET)
    }

    /// Returns the minimum and maximum values of the field.
    fn range(&self) -> (i128, i128) {
        match self.is_signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        }
    }

    /// Converts the field's bits to an integer, sign-extending it if the field is signed.
    fn with_sign(&self, bits: u64) -> i128 {
        let value = i128::from(bits);
        match self.is_signed && bits >> (self.bits - 1) & 1 == 1 {
            true => value - (1 << self.bits),
            false => value,
        }
    }

    /// Reads the field's value from a string. Bits beyond the end of the string are zero.
    fn get(&self, text: &[u8]) -> i128 {
        let mut bits = 0;
        for at in self.offset..self.offset + u64::from(self.bits) {
            let byte = text.get((at / 8) as usize).copied().unwrap_or(0);
            bits = bits << 1 | u64::from(byte >> (7 - at % 8) & 1);
        }
        self.with_sign(bits)
    }

    /// Writes a value to a string, which must contain the whole field.
    fn set(&self, text: &mut [u8], value: i128) {
        for index in 0..u64::from(self.bits) {
            let at = self.offset + index;
            let mask = 0x80 >> (at % 8);
            let is_on = value >> (u64::from(self.bits) - 1 - index) & 1 == 1;
            let byte = &mut text[(at / 8) as usize];
            *byte = if is_on { *byte | mask } else { *byte & !mask };
        }
    }

    /// Applies the overflow policy to a result. Returns the value to store, or `None` to store
    /// nothing.
    fn fitted(&self, value: i128, overflow: OverflowPolicy) -> Option<i128> {
        let (least, most) = self.range();
        if (least..=most).contains(&value) {
            return Some(value);
        }
        match overflow {
            OverflowPolicy::Wrap => {
                let mask = (1i128 << self.bits) - 1;
                Some(self.with_sign((value & mask) as u64))
            }
            OverflowPolicy::Saturate => Some(value.clamp(least, most)),
            OverflowPolicy::Fail => None,
        }
    }
}

/// An operation on an integer in a string.
#[derive(Clone, Copy)]
enum BitFieldOperation {
    Get,
    Set(i64),
    Add(i64),
}

/// Parses a command's operations. Returns each with its field and overflow policy, in order.
fn steps(args: Args<'_>) -> Result<Vec<(BitField, BitFieldOperation, OverflowPolicy)>, CommandError> {
    let (mut steps, mut overflow) = (Vec::new(), OverflowPolicy::Wrap);
    let mut options = OptionParser::new(args, 2);
    while let Some(word) = options.next() {
        let (left, is_set, is_add) = (options.left(), is(word, "SET"), is(word, "INCRBY"));
        if is(word, "OVERFLOW") && left >= 1 {
            overflow = match options.value()? {
                word if is(word, "WRAP") => OverflowPolicy::Wrap,
                word if is(word, "SAT") => OverflowPolicy::Saturate,
                word if is(word, "FAIL") => OverflowPolicy::Fail,
                _ => return Err(CommandError::say("ERR Invalid OVERFLOW type specified")),
            };
        } else if is(word, "GET") && left >= 2 {
            steps.push((
                BitField::read(options.value()?, options.value()?)?,
                BitFieldOperation::Get,
                overflow,
            ));
        } else if (is_set || is_add) && left >= 3 {
            let field = BitField::read(options.value()?, options.value()?)?;
            let number = integer(options.value()?)?;
            let act = if is_set {
                BitFieldOperation::Set(number)
            } else {
                BitFieldOperation::Add(number)
            };
            steps.push((field, act, overflow));
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    Ok(steps)
}

pub(crate) fn bit_field(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let steps = steps(args)?;
    let key = name(args.at(1))?;
    let mut end = 0;
    for (field, act, _) in &steps {
        if !matches!(act, BitFieldOperation::Get) {
            end = end.max(field.end()?);
        }
    }
    if end == 0 {
        return read_all(transaction, key, &steps, reply);
    }
    let mut string = to_change(transaction, key, |_| end)?;
    let text = &mut string.text;
    let mut is_changed = text.len() < end;
    text.resize(end.max(text.len()), 0);
    reply.array(steps.len());
    for (field, act, overflow) in steps {
        let old = field.get(text);
        let wanted = match act {
            BitFieldOperation::Get => {
                reply.integer(old as i64);
                continue;
            }
            // As in Redis, a negative number written to an unsigned field is reinterpreted as
            // unsigned.
            BitFieldOperation::Set(number) if field.is_signed => i128::from(number),
            BitFieldOperation::Set(number) => i128::from(number as u64),
            BitFieldOperation::Add(number) => old + i128::from(number),
        };
        let Some(new) = field.fitted(wanted, overflow) else {
            reply.null();
            continue;
        };
        let told = if matches!(act, BitFieldOperation::Set(_)) {
            old
        } else {
            new
        };
        reply.integer(told as i64);
        is_changed |= new != old;
        field.set(text, new);
    }
    if is_changed {
        transaction.overwrite_text(key, &[text], string.expires_ms);
    }
    Ok(())
}

pub(crate) fn bit_field_ro(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let steps = steps(args)?;
    if steps
        .iter()
        .any(|(_, act, _)| !matches!(act, BitFieldOperation::Get))
    {
        return Err(READ_ONLY);
    }
    read_all(transaction, args.at(1), &steps, reply)
}

/// Returns whether a command contains only read operations.
pub(crate) fn only_reads(args: Args<'_>) -> bool {
    steps(args).is_ok_and(|steps| {
        steps
            .iter()
            .all(|(_, act, _)| matches!(act, BitFieldOperation::Get))
    })
}

fn read_all(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
    steps: &[(BitField, BitFieldOperation, OverflowPolicy)],
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let text = transaction.text(key)?;
    reply.array(steps.len());
    for (field, _, _) in steps {
        reply.integer(field.get(text.as_deref().unwrap_or_default()) as i64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_holds_what_was_put_into_it_and_its_neighbours_keep_theirs() {
        for is_signed in [true, false] {
            for bits in 1..=if is_signed { 64 } else { 63 } {
                for offset in 0..9 {
                    let field = BitField {
                        is_signed,
                        bits,
                        offset,
                    };
                    let (least, most) = field.range();
                    for value in [least, -1, 0, 1, most / 3, most] {
                        let Some(value) = field.fitted(value, OverflowPolicy::Fail) else {
                            continue;
                        };
                        let mut text = vec![0xa5; 10];
                        field.set(&mut text, value);
                        assert_eq!(field.get(&text), value, "{bits} bits at {offset}");
                        let outside = |at: u64| at < offset || at >= offset + u64::from(bits);
                        for at in (0..80).filter(|&at| outside(at)) {
                            let bit = |byte: u8| byte >> (7 - at % 8) & 1;
                            assert_eq!(bit(text[(at / 8) as usize]), bit(0xa5));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_wraps_or_stops_or_is_refused() {
        let field = |is_signed, bits| BitField {
            is_signed,
            bits,
            offset: 0,
        };
        let all = |field: BitField, value| {
            [
                OverflowPolicy::Wrap,
                OverflowPolicy::Saturate,
                OverflowPolicy::Fail,
            ]
            .map(|how| field.fitted(value, how))
        };
        assert_eq!(all(field(false, 8), 257), [Some(1), Some(255), None]);
        assert_eq!(all(field(false, 8), -1), [Some(255), Some(0), None]);
        assert_eq!(all(field(true, 8), 128), [Some(-128), Some(127), None]);
        assert_eq!(
            all(field(true, 64), i128::from(i64::MAX) + 1),
            [Some(i128::from(i64::MIN)), Some(i128::from(i64::MAX)), None]
        );
        assert_eq!(all(field(true, 5), -16), [Some(-16); 3]);
    }
}
