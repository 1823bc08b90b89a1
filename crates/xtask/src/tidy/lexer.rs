//! Splits Rust text into tokens and comments. It accepts everything that the compiler accepts and
//! never fails: invalid text yields tokens that no check matches.

use super::source::{CommentLine, SourceToken, TokenKind};

/// Returns the tokens and comments of a text.
pub(super) fn tokenize(text: &str) -> (Vec<SourceToken>, Vec<CommentLine>) {
    let mut cutter = TokenScanner {
        rest: text,
        line: 1,
        tokens: Vec::new(),
        comments: Vec::new(),
    };
    while let Some(first) = cutter.rest.chars().next() {
        cutter.step(first);
    }
    (cutter.tokens, cutter.comments)
}

struct TokenScanner<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<SourceToken>,
    comments: Vec<CommentLine>,
}

impl<'a> TokenScanner<'a> {
    fn step(&mut self, first: char) {
        if first.is_whitespace() {
            let len = self.rest.len() - self.rest.trim_start().len();
            self.take(len);
        } else if self.rest.starts_with("//") {
            let len = self.rest.find('\n').unwrap_or(self.rest.len());
            self.comment(len);
        } else if self.rest.starts_with("/*") {
            self.comment(block_comment_len(self.rest));
        } else if let Some((len, from, to)) = literal(self.rest) {
            let kind = TokenKind::Text(self.rest[from..to].to_owned());
            self.token(kind, len);
        } else if is_word(first) || first == '\'' {
            let raw = if self.rest.starts_with("r#") {
                2
            } else {
                first.len_utf8()
            };
            let len = self.rest[raw..]
                .find(|c: char| !is_word(c))
                .map_or(self.rest.len(), |len| raw + len);
            self.token(
                TokenKind::Word(self.rest[..len].trim_start_matches("r#").to_owned()),
                len,
            );
        } else {
            self.token(TokenKind::Mark(first), first.len_utf8());
        }
    }

    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        self.line += taken.matches('\n').count();
        taken
    }

    fn token(&mut self, kind: TokenKind, len: usize) {
        let line = self.line;
        self.take(len);
        let last_line = self.line;
        self.tokens.push(SourceToken {
            kind,
            line,
            last_line,
        });
    }

    fn comment(&mut self, len: usize) {
        let first = self.line;
        let text = self.take(len);
        let text = text
            .strip_prefix("//")
            .or_else(|| text.strip_prefix("/*"))
            .unwrap_or(text);
        for (index, text) in text.lines().enumerate() {
            let (line, text, width) = (first + index, text.to_owned(), 0);
            self.comments.push(CommentLine { line, text, width });
        }
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Returns the length of a block comment. Block comments nest.
fn block_comment_len(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if text[at..].starts_with("*/") {
            (at, depth) = (at + 2, depth - 1);
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Parses a quoted literal at the start of a text. Returns its length, and the start and end of its
/// contents.
fn literal(text: &str) -> Option<(usize, usize, usize)> {
    if !text.starts_with(['"', '\'', 'b', 'c', 'r']) {
        return None;
    }
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        let rest = text.strip_prefix(prefix);
        rest.is_some_and(|rest| {
            rest.starts_with(['"', '\'']) || (prefix.ends_with('r') && rest.starts_with('#'))
        })
    })?;
    let rest = &text[prefix.len()..];
    if prefix.ends_with('r') {
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        rest[hashes..].strip_prefix('"')?; // `r#name` is a word
        let from = prefix.len() + hashes + 1;
        let close = format!("\"{}", "#".repeat(hashes));
        let to = text[from..].find(&close).map_or(text.len(), |len| from + len);
        return Some(((to + close.len()).min(text.len()), from, to));
    }
    let quote = rest.chars().next()?;
    if quote == '\'' && !is_character(rest) {
        return None;
    }
    let from = prefix.len() + 1;
    let mut escaped = false;
    for (at, c) in text[from..].char_indices() {
        if !escaped && c == quote {
            return Some((from + at + 1, from, from + at));
        }
        escaped = !escaped && c == '\\';
    }
    Some((text.len(), from, text.len()))
}

/// Returns whether a text that starts with an apostrophe starts with a character literal. Otherwise
/// it is a lifetime.
fn is_character(text: &str) -> bool {
    let mut chars = text.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => true,
        (Some(c), _) => !is_word(c),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> String {
        let (tokens, comments) = tokenize(text);
        let tokens = tokens.iter().map(|token| match &token.kind {
            TokenKind::Word(word) => word.clone(),
            TokenKind::Text(text) => format!("<{text}>"),
            TokenKind::Mark(mark) => mark.to_string(),
        });
        let comments = comments
            .iter()
            .map(|comment| format!("{}:{}", comment.line, comment.text));
        tokens.chain(comments).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn strings_characters_and_lifetimes_are_told_apart() {
        assert_eq!(
            show(r#"a("x \" y", 'z', '\'', b'q', b"w")"#),
            r#"a ( <x \" y> , <z> , <\'> , <q> , <w> )"#
        );
        assert_eq!(
            show("fn f<'a>(x: &'a str, y: &'static u8)"),
            "fn f < 'a > ( x : & 'a str , y : & 'static u8 )"
        );
        assert_eq!(
            show(r###"r#"a " b"# r"\" br##"c"## r#type"###),
            r##"<a " b> <\> <c> type"##
        );
    }

    #[test]
    fn comments_are_kept_apart_from_code_and_know_their_lines() {
        assert_eq!(
            show("a // b \"\n/* c /* d\n */ e */ f"),
            "a f 1: b \" 2: c /* d 3: */ e */"
        );
        assert_eq!(show("\"// no\""), "<// no>");
    }

    #[test]
    fn text_that_ends_early_is_cut_too() {
        for text in ["\"abc", "r#\"abc", "/* abc", "'", "b'", "é 'é' \"é"] {
            let _ = show(text);
        }
    }
}
