//! Bit operations on strings. Bit 0 of a string is the most significant bit of its first byte.

use super::strings::to_change;
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::{OptionParser, integer, is, name};
use crate::redis::string_store::{fits, room_to_grow};
use crate::store::{CommandTransaction, WorkingMemory};

const BAD_OFFSET: CommandError = CommandError::say("ERR bit offset is not an integer or out of range");
const BAD_BIT: CommandError = CommandError::say("ERR bit is not an integer or out of range");

/// Maximum string length in Redis, in bytes. Bits may be read up to this length, although this
/// server's strings are shorter.
const MOST_BYTES_OF_REDIS: usize = 512 << 20;

/// Parses the index of a bit to read. Returns the index of its byte and a mask for the bit.
fn readable_place(text: &[u8]) -> Result<(usize, u8), CommandError> {
    let number = integer(text).map_err(|_| BAD_OFFSET)?;
    let number = u64::try_from(number).map_err(|_| BAD_OFFSET)?;
    let byte = usize::try_from(number / 8)
        .ok()
        .filter(|&byte| byte < MOST_BYTES_OF_REDIS);
    Ok((byte.ok_or(BAD_OFFSET)?, 0x80 >> (number % 8)))
}

/// Parses the index of a bit to write. Returns the index of its byte and a mask for the bit.
fn place(text: &[u8]) -> Result<(usize, u8), CommandError> {
    let (byte, mask) = readable_place(text)?;
    fits(byte.saturating_add(1)).map_err(|_| BAD_OFFSET)?;
    Ok((byte, mask))
}

pub(crate) fn get_bit(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (byte, mask) = readable_place(args.at(2))?;
    let text = transaction.text(args.at(1))?;
    let byte = text.and_then(|text| text.get(byte).copied()).unwrap_or(0);
    reply.truth(byte & mask != 0);
    Ok(())
}

pub(crate) fn set_bit(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let key = name(args.at(1))?;
    let (byte, mask) = place(args.at(2))?;
    let on = match args.at(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(BAD_BIT),
    };
    let mut string = to_change(transaction, key, |_| byte + 1)?;
    let text = &mut string.text;
    let grows = text.len() <= byte;
    if grows {
        text.resize(byte + 1, 0);
    }
    let was_on = text[byte] & mask != 0;
    if grows || was_on != on {
        text[byte] = if on { text[byte] | mask } else { text[byte] & !mask };
        transaction.overwrite_text(key, &[text], string.expires_ms);
    }
    reply.truth(was_on);
    Ok(())
}

/// A half-open range of bit indexes within a string.
#[derive(Clone, Copy)]
struct BitRange {
    start: u64,
    end: u64,
}

/// The unit of a range's positions.
#[derive(Clone, Copy)]
enum BitRangeUnit {
    Byte,
    Bit,
}

fn unit(word: Option<&[u8]>) -> Result<BitRangeUnit, CommandError> {
    match word {
        None => Ok(BitRangeUnit::Byte),
        Some(word) if is(word, "BYTE") => Ok(BitRangeUnit::Byte),
        Some(word) if is(word, "BIT") => Ok(BitRangeUnit::Bit),
        Some(_) => Err(CommandError::SYNTAX),
    }
}

/// Converts an inclusive range of positions to a bit range. Negative positions count from the end
/// of the string. Returns `None` if the range is empty.
fn span(start: i64, end: i64, unit: BitRangeUnit, bytes: usize) -> Option<BitRange> {
    let width = match unit {
        BitRangeUnit::Byte => 8,
        BitRangeUnit::Bit => 1,
    };
    let total = bytes as i64 * 8 / width;
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let from_end = |index: i64| match index {
        index if index < 0 => index.saturating_add(total).max(0),
        index => index,
    };
    let (start, end) = (from_end(start), from_end(end).min(total - 1));
    (start <= end).then(|| BitRange {
        start: (start * width) as u64,
        end: ((end + 1) * width) as u64,
    })
}

/// Calls `each` with every byte of a range and the index of its first bit, until `each` returns a
/// value, and returns that value. Bits outside the range are replaced by `filler`.
fn bytes_of<T>(
    text: &[u8],
    span: BitRange,
    filler: bool,
    mut each: impl FnMut(u64, u8) -> Option<T>,
) -> Option<T> {
    let (first, last) = (span.start / 8, (span.end - 1) / 8);
    for index in first..=last {
        let mut byte = *text.get(index as usize)?;
        let mut inside = 0xffu8;
        if index == first {
            inside &= 0xff >> (span.start % 8);
        }
        if index == last {
            inside &= 0xffu8 << (7 - (span.end - 1) % 8);
        }
        byte = if filler { byte | !inside } else { byte & inside };
        if let Some(found) = each(index * 8, byte) {
            return Some(found);
        }
    }
    None
}

pub(crate) fn bit_count(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    // As in Redis, an invalid range is an error only if the string exists.
    let Some(text) = transaction.text(args.at(1))? else {
        reply.integer(0);
        return Ok(());
    };
    let (start, end, unit) = match args.len() {
        2 => (0, -1, BitRangeUnit::Byte),
        4 | 5 => match (integer(args.at(2))?, integer(args.at(3))?) {
            // The range is empty in any unit. As in Redis, the unit is not parsed in this case.
            (start, end) if start < 0 && end < 0 && start > end => (start, end, BitRangeUnit::Byte),
            (start, end) => (start, end, unit(args.get(4))?),
        },
        _ => return Err(CommandError::SYNTAX),
    };
    let mut count = 0;
    if let Some(span) = span(start, end, unit, text.len()) {
        bytes_of(&text, span, false, |_, byte| {
            count += i64::from(byte.count_ones());
            None::<()>
        });
    }
    reply.integer(count);
    Ok(())
}

pub(crate) fn bit_pos(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let wanted = match integer(args.at(2))? {
        0 => false,
        1 => true,
        _ => return Err(CommandError::say("ERR The bit argument must be 1 or 0.")),
    };
    // As in Redis, an invalid range is an error only if the string exists.
    let Some(text) = transaction.text(args.at(1))? else {
        // A nonexistent string counts as an infinite sequence of zero bits.
        reply.integer(if wanted { -1 } else { 0 });
        return Ok(());
    };
    if args.len() > 6 {
        return Err(CommandError::SYNTAX);
    }
    let start = args.get(3).map(integer).transpose()?.unwrap_or(0);
    let unit = unit(args.get(5))?;
    let end = args.get(4).map(integer).transpose()?;
    let Some(span) = span(start, end.unwrap_or(-1), unit, text.len()) else {
        reply.integer(-1);
        return Ok(());
    };
    let found = bytes_of(&text, span, !wanted, |at, byte| {
        let lead = if wanted {
            byte.leading_zeros()
        } else {
            byte.leading_ones()
        };
        (lead < 8).then(|| at + u64::from(lead))
    });
    reply.integer(match found {
        Some(at) => at as i64,
        // Unless the command names an end, zero bits follow the string.
        None if !wanted && end.is_none() => text.len() as i64 * 8,
        None => -1,
    });
    Ok(())
}

pub(crate) fn bit_op(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let join: fn(u8, u8) -> u8 = match args.at(1).to_ascii_uppercase().as_slice() {
        b"AND" => |one, other| one & other,
        b"OR" => |one, other| one | other,
        b"XOR" => |one, other| one ^ other,
        b"NOT" if args.len() == 4 => |one, _| !one,
        b"NOT" => {
            return Err(CommandError::say(
                "ERR BITOP NOT must be called with a single source key.",
            ));
        }
        _ => return Err(CommandError::SYNTAX),
    };
    let key = name(args.at(2))?;
    // Read one source at a time, so that a string named several times is in memory only once.
    let mut made = Vec::new();
    let store = transaction.store;
    let mut _working = WorkingMemory::new(store);
    for (index, source) in args.from(3).iter().enumerate() {
        let source = transaction.text(source)?;
        let bytes = source.as_deref().unwrap_or_default();
        if bytes.len() > made.len() {
            // Charge the new result's memory before releasing the previous result's charge.
            _working = room_to_grow(store, bytes.len())?;
        }
        if index == 0 {
            made = bytes.to_vec();
            continue;
        }
        made.resize(made.len().max(bytes.len()), 0);
        for (index, byte) in made.iter_mut().enumerate() {
            *byte = join(*byte, bytes.get(index).copied().unwrap_or(0));
        }
    }
    if args.is(1, "NOT") {
        made.iter_mut().for_each(|byte| *byte = join(*byte, 0));
    }
    let length = made.len();
    if made.is_empty() {
        transaction.remove(key)?;
    } else {
        transaction.remove(key)?;
        transaction.overwrite_text(key, &[&made], 0);
    }
    reply.count(length);
    Ok(())
}

/// Maximum size of LCS's table in cells of four bytes.
const MOST_CELLS: usize = 64 << 20;

pub(crate) fn lcs(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (mut length_alone, mut places, mut with_lengths, mut least) = (false, false, false, 0);
    let mut options = OptionParser::new(args, 3);
    while let Some(word) = options.next() {
        if is(word, "LEN") {
            length_alone = true;
        } else if is(word, "IDX") {
            places = true;
        } else if is(word, "WITHMATCHLEN") {
            with_lengths = true;
        } else if is(word, "MINMATCHLEN") && options.left() >= 1 {
            least = usize::try_from(integer(options.value()?)?.max(0)).unwrap_or(0);
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    if length_alone && places {
        return Err(CommandError::say(
            "ERR If you want both the length and indexes, please just use IDX.",
        ));
    }
    const NOT_TEXT: CommandError = CommandError::say("ERR The specified keys must contain string values");
    let mut working = WorkingMemory::new(transaction.store);
    let mut text = |key: &[u8]| match transaction.text(key) {
        Ok(None) => Ok(Vec::new()),
        Ok(Some(text)) => {
            working.add(2 * text.len())?;
            Ok(text.to_vec())
        }
        Err(CommandError::Refused(_)) => Err(NOT_TEXT),
        Err(other) => Err(other),
    };
    let (one, other) = (text(args.at(1))?, text(args.at(2))?);
    let cells = (one.len() + 1).saturating_mul(other.len() + 1);
    if cells > MOST_CELLS {
        return Err(CommandError::say("ERR String too long for LCS"));
    }
    working.add(cells * size_of::<u32>())?;
    let found = CommonSubsequence::of(&one, &other);
    if length_alone {
        reply.count(found.text.len());
    } else if !places {
        reply.bulk(&found.text);
    } else {
        let shown: Vec<&SubstringMatch> = found
            .matches
            .iter()
            .filter(|found| found.length >= least)
            .collect();
        reply.map(2);
        reply.bulk(b"matches");
        reply.array(shown.len());
        for found in shown {
            reply.array(if with_lengths { 3 } else { 2 });
            for start in [found.one, found.other] {
                reply.array(2);
                reply.count(start);
                reply.count(start + found.length - 1);
            }
            if with_lengths {
                reply.count(found.length);
            }
        }
        reply.bulk(b"len");
        reply.count(found.text.len());
    }
    Ok(())
}

/// A common substring of two strings, with its position in each.
struct SubstringMatch {
    one: usize,
    other: usize,
    length: usize,
}

/// The longest common subsequence of two strings, and the common substrings that form it, last one
/// first.
struct CommonSubsequence {
    text: Vec<u8>,
    matches: Vec<SubstringMatch>,
}

impl CommonSubsequence {
    fn of(one: &[u8], other: &[u8]) -> CommonSubsequence {
        let width = other.len() + 1;
        let mut table = vec![0u32; (one.len() + 1) * width];
        for (row, a) in one.iter().enumerate() {
            for (column, b) in other.iter().enumerate() {
                let at = (row + 1) * width + column + 1;
                table[at] = if a == b {
                    table[at - width - 1] + 1
                } else {
                    table[at - 1].max(table[at - width])
                };
            }
        }
        let (mut text, mut matches): (Vec<u8>, Vec<SubstringMatch>) = (Vec::new(), Vec::new());
        let (mut row, mut column) = (one.len(), other.len());
        while row > 0 && column > 0 {
            if one[row - 1] == other[column - 1] {
                (row, column) = (row - 1, column - 1);
                text.push(one[row]);
                match matches.last_mut() {
                    Some(last) if last.one == row + 1 && last.other == column + 1 => {
                        (last.one, last.other) = (row, column);
                        last.length += 1;
                    }
                    _ => matches.push(SubstringMatch {
                        one: row,
                        other: column,
                        length: 1,
                    }),
                }
            } else if table[(row - 1) * width + column] > table[row * width + column - 1] {
                row -= 1;
            } else {
                column -= 1;
            }
        }
        text.reverse();
        CommonSubsequence { text, matches }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_common_subsequence_has_its_stretches_from_the_end() {
        let found = CommonSubsequence::of(b"ohmytext", b"mynewtext");
        assert_eq!(found.text, b"mytext");
        let places: Vec<_> = found
            .matches
            .iter()
            .map(|found| (found.one, found.other, found.length))
            .collect();
        assert_eq!(places, [(4, 5, 4), (2, 0, 2)]);
    }

    #[test]
    fn bits_of_a_range_are_counted_whatever_bytes_it_begins_and_ends_in() {
        let text = [0b1111_0000, 0b1010_1010, 0xff];
        for start in 0..24i64 {
            for end in start..24 {
                let span = span(start, end, BitRangeUnit::Bit, text.len()).unwrap();
                let mut count = 0;
                bytes_of(&text, span, false, |_, byte| {
                    count += byte.count_ones();
                    None::<()>
                });
                let bit = |at: i64| u32::from(text[at as usize / 8] >> (7 - at % 8) & 1);
                assert_eq!(count, (start..=end).map(bit).sum::<u32>(), "{start} {end}");
            }
        }
    }
}
