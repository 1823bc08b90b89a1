//! Words of a line of text.

/// Splits a line into words, which are separated by whitespace, except in double quotes. A `\`
/// begins an escape sequence like those that `alluvium scan` prints. A word that starts with `#`
/// begins a comment.
///
/// ```
/// use alluvium::text::split_words;
/// let words = split_words(br#"put "river Elbe" a\x00 # long"#).unwrap();
/// assert_eq!(words, [&b"put"[..], b"river Elbe", b"a\0"]);
/// ```
///
/// # Errors
/// The reason, if a quote or an escape sequence is incomplete.
pub fn split_words(line: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace();
    let mut words = Vec::new();
    let mut rest = line.trim_ascii();
    while let Some((&first, behind)) = rest.split_first() {
        if first == b'#' {
            break;
        }
        let (raw, after) = if first == b'"' {
            let end = closing(behind).ok_or("a double quote is opened and never closed")?;
            let (raw, after) = behind.split_at(end);
            let after = &after[1..];
            if after.first().is_some_and(|byte| !is_blank(byte)) {
                return Err("a closing quote must end the word; write a quote inside as \\\"".to_owned());
            }
            (raw, after)
        } else {
            rest.split_at(rest.iter().position(is_blank).unwrap_or(rest.len()))
        };
        words.push(unescape(raw)?);
        rest = after.trim_ascii_start();
    }
    Ok(words)
}

/// Returns the position of the closing quote, or `None` if there is none.
fn closing(text: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    text.iter().position(|&byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

/// Decodes a text in which unprintable bytes are escaped, as in `\n`, `\\` or `\xff`. Also accepts
/// `\"`, which a quoted text needs.
///
/// # Errors
/// The reason, if a backslash does not begin a known escape sequence.
pub fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        if byte != b'\\' {
            bytes.push(byte);
            rest = behind;
            continue;
        }
        let (meant, length) =
            match behind {
                [b'n', ..] => (b'\n', 1),
                [b'r', ..] => (b'\r', 1),
                [b't', ..] => (b'\t', 1),
                [same @ (b'\\' | b'"'), ..] => (*same, 1),
                [b'x', high, low, ..] => {
                    let digit = |byte: u8| char::from(byte).to_digit(16);
                    match (digit(*high), digit(*low)) {
                        (Some(high), Some(low)) => ((high * 16 + low) as u8, 3),
                        _ => return Err("\\x must be followed by two hexadecimal digits".to_owned()),
                    }
                }
                _ => return Err(
                    r#"a backslash must begin one of \\, \", \n, \r, \t, or \x with two hexadecimal digits"#
                        .to_owned(),
                ),
            };
        bytes.push(meant);
        rest = &behind[length..];
    }
    Ok(bytes)
}
