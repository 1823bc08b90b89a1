//! An incremental parser of requests.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::number::integer;
use std::fmt;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Bytes of all its arguments.
    pub bytes: usize,
    /// Bytes of the longest argument.
    pub argument: usize,
    pub arguments: usize,
    /// Bytes of an incomplete line: an inline request or a length. A line that is complete when the
    /// limit is reached may be longer, by up to what Redis receives at once.
    pub line: usize,
}

impl RequestLimits {
    /// Limits for unauthenticated clients. Those on arguments are the limits of Redis.
    pub const STRANGER: RequestLimits = RequestLimits {
        bytes: 64 << 10,
        argument: 16 << 10,
        arguments: 10,
        line: 64 << 10,
    };
}

/// A protocol error. The connection must be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadRequest {
    /// A line that is too long.
    LongLine {
        /// Whether it is an inline request, a count or a length.
        what: &'static str,
    },
    /// An invalid number of arguments.
    Count,
    /// An invalid length of an argument.
    Length,
    /// A byte other than `$` before an argument's length.
    NoLength(u8),
    /// A quoted word that has no end, or continues after it.
    Quotes,
    /// A request that exceeds the limits for unauthenticated clients.
    Stranger(&'static str),
    /// The total length of the arguments exceeds the limit.
    TooLong {
        /// The limit in bytes: [`RequestLimits::bytes`].
        most: usize,
    },
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            BadRequest::LongLine { what } => write!(f, "too big {what}"),
            BadRequest::Count => f.write_str("invalid multibulk length"),
            BadRequest::Length => f.write_str("invalid bulk length"),
            BadRequest::NoLength(found) => write!(f, "expected '$', got '{}'", char::from(*found)),
            BadRequest::Quotes => f.write_str("unbalanced quotes in request"),
            BadRequest::Stranger(what) => write!(f, "unauthenticated {what} length"),
            BadRequest::TooLong { most } => write!(f, "request exceeds {most} bytes"),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct IncompleteRequest {
    /// Number of arguments that are missing.
    missing: usize,
    /// Position of the next argument, relative to the request.
    at: usize,
    bytes: usize,
}

/// A refused request whose bytes are being skipped.
#[derive(Clone, Copy, Debug, Default)]
struct SkippedRequest {
    /// Bytes to skip before the next argument's length.
    left: usize,
    /// Arguments whose length has not arrived yet.
    missing: usize,
}

/// A parser of requests in a growing buffer.
#[derive(Debug, Default)]
pub struct RequestParser {
    begun: Option<IncompleteRequest>,
    skip: Option<SkippedRequest>,
    /// Total size of the incomplete request, as far as it is known.
    announced: usize,
    /// Position up to which the end of a line was searched, relative to the request.
    searched: usize,
}

/// Parsed requests, as positions in the buffer.
#[derive(Debug, Default)]
pub struct ParsedRequests {
    places: Vec<(usize, usize)>,
    ends: Vec<usize>,
    consumed: usize,
}

/// The arguments of a request, beginning with its name.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    buffer: &'a [u8],
    places: &'a [(usize, usize)],
}

impl fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|word| word.escape_ascii().to_string()))
            .finish()
    }
}

impl<'a> Args<'a> {
    /// Creates arguments from positions that must be within the buffer.
    pub(crate) fn new(buffer: &'a [u8], places: &'a [(usize, usize)]) -> Args<'a> {
        Args { buffer, places }
    }

    /// Returns the number of arguments, including the name.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether there are no arguments. Every request has at least one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns an argument; empty if there are fewer arguments.
    #[must_use]
    pub fn at(&self, index: usize) -> &'a [u8] {
        let place = self.places.get(index);
        place
            .and_then(|&(start, end)| self.buffer.get(start..end))
            .unwrap_or_default()
    }

    /// Returns an argument, if it exists.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.len()).then(|| self.at(index))
    }

    /// Returns an iterator over the arguments.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator + Clone + use<'a> {
        let buffer = self.buffer;
        self.places
            .iter()
            .map(move |&(start, end)| buffer.get(start..end).unwrap_or_default())
    }

    /// Returns the arguments from an index on.
    #[must_use]
    pub fn from(&self, index: usize) -> Args<'a> {
        Args {
            buffer: self.buffer,
            places: self.places.get(index..).unwrap_or_default(),
        }
    }

    /// Returns the range of the buffer that the arguments span.
    #[inline]
    pub(crate) fn place(&self) -> Range<usize> {
        match (self.places.first(), self.places.last()) {
            (Some(&(start, _)), Some(&(_, end))) => start..end,
            _ => 0..0,
        }
    }

    /// Compares an argument with a word, ignoring case.
    #[must_use]
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.at(index).eq_ignore_ascii_case(word.as_bytes())
    }
}

impl ParsedRequests {
    /// Returns the number of complete requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no complete requests.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the arguments of a request, given the buffer from which it was parsed.
    #[must_use]
    #[allow(
        clippy::indexing_slicing,
        reason = "the index is that of a request which was read"
    )]
    pub fn get<'a>(&'a self, index: usize, buffer: &'a [u8]) -> Args<'a> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Args::new(buffer, &self.places[start..self.ends[index]])
    }

    /// Returns the total length of the complete requests.
    #[must_use]
    pub fn consumed(&self) -> usize {
        self.consumed
    }

    /// Returns their memory in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.places.capacity() * size_of::<(usize, usize)>() + self.ends.capacity() * size_of::<usize>()
    }

    /// Removes the complete requests, whose bytes have been removed from the buffer.
    pub fn forget(&mut self) {
        let done = self.ends.last().copied().unwrap_or(0);
        if done == self.places.len() {
            self.places.clear();
        } else {
            self.places.drain(..done);
            for place in &mut self.places {
                place.0 -= self.consumed;
                place.1 -= self.consumed;
            }
        }
        self.ends.clear();
        self.consumed = 0;
        if self.places.capacity() > KEPT_PLACES && self.places.len() < KEPT_PLACES / 2 {
            self.places.shrink_to(KEPT_PLACES / 2);
        }
    }
}

/// Bytes that Redis receives at once.
const AT_ONCE: usize = 16 << 10;

/// Largest capacity for positions that is kept for the next requests.
const KEPT_PLACES: usize = 4096;

/// The result of a parsing step.
enum ParseStep {
    /// The request is complete and has this length in bytes.
    Done(usize),
    /// More input is needed to complete the request.
    Wait,
}

impl RequestParser {
    /// Parses complete requests until there are `most`. Quoted words are decoded in place.
    ///
    /// # Errors
    /// The input after the parsed requests is invalid.
    pub fn parse(
        &mut self,
        buffer: &mut [u8],
        requests: &mut ParsedRequests,
        limits: &RequestLimits,
        most: usize,
    ) -> Result<(), BadRequest> {
        self.announced = 0;
        while requests.len() < most {
            if self.skip.is_some() && !self.pass_over(buffer, requests, limits)? {
                return Ok(());
            }
            let start = requests.consumed;
            let Some(&first) = buffer.get(start) else {
                return Ok(());
            };
            let before = requests.ends.last().copied().unwrap_or(0);
            let step = if self.begun.is_some() || first == b'*' {
                self.array(buffer, start, requests, limits)?
            } else {
                self.inline(buffer, start, requests, limits)?
            };
            let ParseStep::Done(taken) = step else {
                return Ok(());
            };
            self.begun = None;
            self.searched = 0;
            requests.consumed = start + taken;
            if requests.places.len() > before {
                requests.ends.push(requests.places.len());
            }
        }
        Ok(())
    }

    /// Returns the total size of the incomplete request, as far as it is known; 0 if there is none
    /// or it has been refused.
    #[must_use]
    pub fn announced(&self) -> usize {
        self.announced
    }

    /// Refuses the incomplete request: its parsed part is discarded, and the rest is skipped as it
    /// arrives. Returns whether there was one.
    pub fn refuse(&mut self, requests: &mut ParsedRequests) -> bool {
        let Some(begun) = self.begun.take() else {
            return false;
        };
        self.skip = Some(SkippedRequest {
            left: begun.at,
            missing: begun.missing,
        });
        (self.announced, self.searched) = (0, 0);
        let complete = requests.ends.last().copied().unwrap_or(0);
        requests.places.truncate(complete);
        requests.places.shrink_to(complete);
        true
    }

    /// Skips the bytes of a refused request that have arrived. Returns whether it is complete.
    fn pass_over(
        &mut self,
        buffer: &[u8],
        requests: &mut ParsedRequests,
        limits: &RequestLimits,
    ) -> Result<bool, BadRequest> {
        while let Some(mut skip) = self.skip {
            let rest = buffer.get(requests.consumed..).unwrap_or_default();
            let passed = skip.left.min(rest.len());
            skip.left -= passed;
            requests.consumed += passed;
            self.skip = Some(skip);
            if skip.left > 0 {
                return Ok(false);
            }
            if skip.missing == 0 {
                self.skip = None;
                break;
            }
            self.searched = 0;
            let rest = rest.get(passed..).unwrap_or_default();
            let Some((end, body)) = self.line(rest, 0, limits.line, "bulk count string")? else {
                self.searched = 0;
                return Ok(false);
            };
            let length = length(rest.get(..end).unwrap_or_default(), limits)?;
            requests.consumed += body;
            self.skip = Some(SkippedRequest {
                left: length + 2,
                missing: skip.missing - 1,
            });
        }
        self.searched = 0;
        Ok(true)
    }

    /// Returns the line that begins at `from`, without its end, and the position of the next line;
    /// both are relative to the request. A line with a zero byte is treated as incomplete, because
    /// Redis does not search beyond it.
    #[allow(
        clippy::indexing_slicing,
        reason = "what was searched lies within the request"
    )]
    fn line(
        &mut self,
        request: &[u8],
        from: usize,
        most: usize,
        what: &'static str,
    ) -> Result<Option<(usize, usize)>, BadRequest> {
        let search = self.searched.max(from);
        let rest = request.get(search..).unwrap_or_default();
        match rest.iter().position(|&byte| matches!(byte, b'\n' | 0)) {
            Some(at) if rest[at] == 0 && request.len() - from <= most => {
                self.searched = search + at;
                Ok(None)
            }
            Some(at) if rest[at] != 0 && search + at - from < most.saturating_add(AT_ONCE) => {
                let end = search + at;
                let trimmed = if end > from && request[end - 1] == b'\r' {
                    end - 1
                } else {
                    end
                };
                // If the bytes after the line are missing, the line is parsed again later.
                self.searched = from;
                Ok(Some((trimmed, end + 1)))
            }
            None if request.len() - from <= most => {
                self.searched = request.len();
                Ok(None)
            }
            _ => Err(BadRequest::LongLine { what }),
        }
    }

    #[allow(
        clippy::indexing_slicing,
        reason = "a request begins and its lines end within the buffer"
    )]
    fn array(
        &mut self,
        buffer: &[u8],
        start: usize,
        requests: &mut ParsedRequests,
        limits: &RequestLimits,
    ) -> Result<ParseStep, BadRequest> {
        let request = &buffer[start..];
        let mut begun = match self.begun {
            Some(begun) => begun,
            None => {
                let (count, next) = match usual_header(request, b'*', limits) {
                    Some((count, next)) => (count as i64, next),
                    None => {
                        let Some((end, next)) = self.line(request, 0, limits.line, "mbulk count string")?
                        else {
                            return Ok(ParseStep::Wait);
                        };
                        (integer(&request[1..end]).ok_or(BadRequest::Count)?, next)
                    }
                };
                if count <= 0 {
                    return Ok(ParseStep::Done(next));
                }
                if count as u64 > limits.arguments as u64 {
                    return Err(refusal(limits, "multibulk", BadRequest::Count));
                }
                IncompleteRequest {
                    missing: count as usize,
                    at: next,
                    bytes: 0,
                }
            }
        };
        while begun.missing > 0 {
            let rest = request.get(begun.at..).unwrap_or_default();
            let (length, body) = match usual_header(rest, b'$', limits) {
                Some((length, _)) if length > limits.argument => {
                    return Err(refusal(limits, "bulk", BadRequest::Length));
                }
                Some((length, taken)) => (length, begun.at + taken),
                None => {
                    self.begun = Some(begun);
                    let Some((end, body)) = self.line(request, begun.at, limits.line, "bulk count string")?
                    else {
                        return Ok(ParseStep::Wait);
                    };
                    let header = request.get(begun.at..end).unwrap_or_default();
                    (length(header, limits)?, body)
                }
            };
            if begun.bytes + length > limits.bytes {
                return Err(BadRequest::TooLong { most: limits.bytes });
            }
            if request.len() < body + length + 2 {
                // The line is parsed again when more bytes arrive.
                (self.begun, self.searched) = (Some(begun), begun.at);
                self.announced = body + length + 2;
                return Ok(ParseStep::Wait);
            }
            requests.places.push((start + body, start + body + length));
            begun.missing -= 1;
            begun.at = body + length + 2;
            begun.bytes += length;
        }
        Ok(ParseStep::Done(begun.at))
    }

    #[allow(clippy::indexing_slicing, reason = "a request begins within the buffer")]
    fn inline(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        requests: &mut ParsedRequests,
        limits: &RequestLimits,
    ) -> Result<ParseStep, BadRequest> {
        let Some((end, next)) = self.line(&buffer[start..], 0, limits.line, "inline request")? else {
            return Ok(ParseStep::Wait);
        };
        let mut at = start;
        let end = start + end;
        while let Some((from, to, behind)) = word(buffer, at, end)? {
            requests.places.push((from, to));
            at = behind;
        }
        Ok(ParseStep::Done(next))
    }
}

/// Number of header digits that the fast path accepts.
const USUAL_DIGITS: usize = 9;

/// Fast path: parses a complete line that begins with `mark` and has the form that clients usually
/// send. Returns the number and the length of the line. `RequestParser::line` handles all other
/// lines.
#[inline]
fn usual_header(line: &[u8], mark: u8, limits: &RequestLimits) -> Option<(usize, usize)> {
    let (&first, digits) = line.split_first()?;
    if first != mark || limits.line < USUAL_DIGITS + 3 {
        return None;
    }
    let mut value = 0;
    for (index, &byte) in digits.iter().enumerate().take(USUAL_DIGITS + 1) {
        match byte {
            // A number other than zero has no leading zero.
            b'0'..=b'9' if index == 0 || value > 0 => value = 10 * value + usize::from(byte - b'0'),
            b'\r' if index > 0 && digits.get(index + 1) == Some(&b'\n') => return Some((value, index + 3)),
            _ => return None,
        }
    }
    None
}

/// Parses the length of an argument from its header line.
fn length(header: &[u8], limits: &RequestLimits) -> Result<usize, BadRequest> {
    let length = match header.split_first() {
        Some((b'$', digits)) => integer(digits).ok_or(BadRequest::Length)?,
        Some((&other, _)) => return Err(BadRequest::NoLength(other)),
        None => return Err(BadRequest::NoLength(b'\r')),
    };
    let length = usize::try_from(length).map_err(|_| BadRequest::Length)?;
    if length > limits.argument {
        return Err(refusal(limits, "bulk", BadRequest::Length));
    }
    Ok(length)
}

fn refusal(limits: &RequestLimits, what: &'static str, otherwise: BadRequest) -> BadRequest {
    if *limits == RequestLimits::STRANGER {
        BadRequest::Stranger(what)
    } else {
        otherwise
    }
}

/// Returns whether a byte is white space in C.
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// Parses the next word of a line: returns the start and the end of the decoded word, and the start
/// of the rest. Any white space may precede a word, but only some of it ends an unquoted one.
#[allow(
    clippy::indexing_slicing,
    reason = "the line ends within the buffer, and what is decoded is no longer"
)]
fn word(buffer: &mut [u8], mut at: usize, end: usize) -> Result<Option<(usize, usize, usize)>, BadRequest> {
    while at < end && is_blank(buffer[at]) {
        at += 1;
    }
    if at == end {
        return Ok(None);
    }
    let start = at;
    let mut out = at;
    while at < end && !matches!(buffer[at], b' ' | b'\t' | b'\r') {
        match buffer[at] {
            quote @ (b'"' | b'\'') => {
                at = quoted(buffer, at + 1, end, quote, &mut out)?;
                if at < end && !is_blank(buffer[at]) {
                    return Err(BadRequest::Quotes);
                }
                break;
            }
            byte => {
                buffer[out] = byte;
                out += 1;
                at += 1;
            }
        }
    }
    Ok(Some((start, out, at)))
}

/// Decodes up to the closing quote and returns the start of the rest. Decoded text is never longer
/// than its source.
#[allow(
    clippy::indexing_slicing,
    reason = "the line ends within the buffer, and what is decoded is no longer"
)]
fn quoted(
    buffer: &mut [u8],
    mut at: usize,
    end: usize,
    quote: u8,
    out: &mut usize,
) -> Result<usize, BadRequest> {
    while at < end {
        let mut byte = buffer[at];
        at += 1;
        if byte == quote {
            return Ok(at);
        }
        let next = if at < end { buffer[at] } else { 0 };
        if byte == b'\\' && quote == b'\'' && next == b'\'' {
            byte = b'\'';
            at += 1;
        } else if byte == b'\\' && quote == b'"' && at < end {
            let digit = |index: usize| {
                let digit = (index < end).then(|| char::from(buffer[index]).to_digit(16));
                digit.flatten().map(|digit| digit as u8)
            };
            (byte, at) = match (next, digit(at + 1), digit(at + 2)) {
                (b'x', Some(high), Some(low)) => (high << 4 | low, at + 3),
                (b'n', ..) => (b'\n', at + 1),
                (b'r', ..) => (b'\r', at + 1),
                (b't', ..) => (b'\t', at + 1),
                (b'b', ..) => (8, at + 1),
                (b'a', ..) => (7, at + 1),
                (other, ..) => (other, at + 1),
            };
        }
        buffer[*out] = byte;
        *out += 1;
    }
    Err(BadRequest::Quotes)
}

#[cfg(test)]
mod tests;
