//! A Rust file split into tokens and comments, so that checks can tell code from comments and
//! strings, and test code from other code.

use std::ops::RangeInclusive;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A name, keyword, number or lifetime.
    Word(String),
    /// The contents of a string, byte string or character literal.
    Text(String),
    /// One punctuation character: `::` is two marks.
    Mark(char),
}

/// A token with its line range.
#[derive(Clone, Debug)]
pub struct SourceToken {
    pub kind: TokenKind,
    /// First line, counted from 1.
    pub line: usize,
    /// Last line, inclusive. Differs from `line` in a multi-line literal.
    pub last_line: usize,
}

impl SourceToken {
    /// Returns the text of a word token, or `None` for other tokens.
    #[must_use]
    pub fn word(&self) -> Option<&str> {
        match &self.kind {
            TokenKind::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Returns whether the token is this punctuation character.
    #[must_use]
    pub fn is(&self, mark: char) -> bool {
        self.kind == TokenKind::Mark(mark)
    }
}

/// One line of a comment, without its comment marker.
#[derive(Clone, Debug)]
pub struct CommentLine {
    pub line: usize,
    pub text: String,
    /// Width of the whole line in columns, including any code before the comment.
    pub width: usize,
}

#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Path relative to the workspace, with forward slashes.
    pub path: String,
    /// Tokens of the code, in order.
    pub tokens: Vec<SourceToken>,
    /// Comments, one element per line.
    pub comments: Vec<CommentLine>,
    test_regions: Vec<RangeInclusive<usize>>,
    code_lines: Vec<usize>,
}

impl SourceFile {
    /// Parses a file into tokens and comments.
    #[must_use]
    pub fn new(path: &str, text: &str) -> SourceFile {
        let (tokens, mut comments) = super::lexer::tokenize(text);
        let lines: Vec<&str> = text.lines().collect();
        for comment in &mut comments {
            comment.width = lines.get(comment.line - 1).map_or(0, |line| line.chars().count());
        }
        let blank = |line: &usize| lines.get(line - 1).is_none_or(|line| line.trim().is_empty());
        let mut code_lines: Vec<usize> = tokens
            .iter()
            .flat_map(|token| token.line..=token.last_line)
            .collect();
        code_lines.dedup();
        code_lines.retain(|line| !blank(line));
        let test_regions = test_regions(&tokens);
        SourceFile {
            path: path.to_owned(),
            tokens,
            comments,
            test_regions,
            code_lines,
        }
    }

    /// Returns the number of lines with code (neither blank nor only comment) in a range of lines.
    #[must_use]
    pub fn code_lines_in(&self, lines: RangeInclusive<usize>) -> usize {
        let before = |line: usize| self.code_lines.partition_point(|&at| at < line);
        before(lines.end() + 1) - before(*lines.start())
    }

    /// Returns the number of lines with code in the file.
    #[must_use]
    pub fn code_len(&self) -> usize {
        self.code_lines.len()
    }

    /// Returns the lines where a piece of Rust code begins. Compares tokens, so comments and
    /// strings never match.
    ///
    /// ```
    /// let source = xtask::tidy::SourceFile::new("a.rs", "// std::fs\nuse std :: fs;");
    /// assert_eq!(source.find("std::fs"), [2]);
    /// ```
    #[must_use]
    pub fn find(&self, code: &str) -> Vec<usize> {
        let (wanted, _) = super::lexer::tokenize(code);
        let same = |window: &[SourceToken]| {
            window
                .iter()
                .zip(&wanted)
                .all(|(found, wanted)| found.kind == wanted.kind)
        };
        self.tokens
            .windows(wanted.len())
            .filter(|window| same(window))
            .map(|window| window[0].line)
            .collect()
    }

    /// Returns whether a line is test code: in a test file, or in an item under `#[cfg(test)]`.
    #[must_use]
    pub fn is_test(&self, line: usize) -> bool {
        let test_file = self.file_name() == "tests.rs"
            || self
                .path
                .split('/')
                .any(|part| ["tests", "benches", "examples", "fuzz_targets"].contains(&part));
        test_file || self.test_regions.iter().any(|region| region.contains(&line))
    }

    /// Returns the last component of the path.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns the lines with a comment `tidy: allow <rule>: <why>`.
    pub fn allowances<'a>(&'a self, rule: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.comments
            .iter()
            .filter(move |comment| allowance(&comment.text) == Some(rule))
            .map(|comment| comment.line)
    }

    /// Returns whether a comment on the line, or directly above it, allows a violation of the rule.
    #[must_use]
    pub fn allows(&self, rule: &str, line: usize) -> bool {
        let mut top = line;
        while self.comments.iter().any(|comment| comment.line == top - 1)
            && self.code_lines_in(top - 1..=top - 1) == 0
        {
            top -= 1;
        }
        self.allowances(rule).any(|at| (top..=line).contains(&at))
    }

    /// Returns the functions with a body: name, first line, last line.
    #[must_use]
    pub fn functions(&self) -> Vec<(&str, usize, usize)> {
        let mut found = Vec::new();
        for (at, pair) in self.tokens.windows(2).enumerate() {
            if let (Some("fn"), Some(name)) = (pair[0].word(), pair[1].word())
                && let Some(end) = end_of_item(&self.tokens, at)
                && self.tokens[end].is('}')
            {
                found.push((name, pair[0].line, self.tokens[end].last_line));
            }
        }
        found
    }
}

/// Returns the rule that a comment allows to be violated. A reason of at least 20 characters is
/// required.
fn allowance(comment: &str) -> Option<&str> {
    let (rule, why) = comment.trim().strip_prefix("tidy: allow ")?.split_once(':')?;
    (why.trim().len() >= 20).then_some(rule.trim())
}

/// Returns the index of the last token of the item around `at`: its `;`, or the closing brace of
/// its body.
fn end_of_item(tokens: &[SourceToken], at: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.kind {
            TokenKind::Mark('(' | '[' | '{') => depth += 1,
            TokenKind::Mark(')' | ']' | '}') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 && token.is('}') {
                    return Some(index);
                }
            }
            TokenKind::Mark(';') if depth == 0 => return Some(index),
            _ => {}
        }
    }
    None
}

/// Returns the line ranges of items under `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn test_regions(tokens: &[SourceToken]) -> Vec<RangeInclusive<usize>> {
    let starts = |pattern: &str, at: usize| {
        let (wanted, _) = super::lexer::tokenize(pattern);
        tokens.len() >= at + wanted.len() && tokens[at..].iter().zip(&wanted).all(|(a, b)| a.kind == b.kind)
    };
    let mut regions = Vec::new();
    for at in 0..tokens.len() {
        if starts("#[cfg(test)]", at) || starts("#[cfg(all(test", at) {
            // The item begins after the attribute's closing bracket. More attributes in between do
            // no harm.
            let close = (at..tokens.len()).find(|&index| tokens[index].is(']'));
            if let Some(end) = close.and_then(|close| end_of_item(tokens, close + 1)) {
                regions.push(tokens[at].line..=tokens[end].last_line);
            }
        }
    }
    regions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_code_leave_out_blanks_and_comments() {
        let source = SourceFile::new(
            "a.rs",
            "// one\n\nfn f() {\n    /* two\n three */\n    g(\"x\n\ny\");\n}\n",
        );
        assert_eq!(source.code_len(), 4);
        assert_eq!(source.functions(), [("f", 3, 9)]);
        assert_eq!(source.code_lines_in(3..=6), 2);
    }

    #[test]
    fn items_under_cfg_test_are_tests_and_the_rest_is_not() {
        let text = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nuse d;\nfn e() {}";
        let source = SourceFile::new("crates/base/src/a.rs", text);
        let tests: Vec<usize> = (1..=10).filter(|&line| source.is_test(line)).collect();
        assert_eq!(tests, [2, 3, 4, 5, 6, 8, 9]);
        assert!(SourceFile::new("crates/base/tests/it/a.rs", text).is_test(1));
        assert!(SourceFile::new("crates/base/src/a/tests.rs", text).is_test(1));
    }

    #[test]
    fn an_allowance_needs_a_reason_and_covers_the_next_line_of_code() {
        let text = "// tidy: allow format: these bytes never leave memory\n// (as above)\na();\nb();\n// tidy: allow format: no\nc();";
        let source = SourceFile::new("a.rs", text);
        assert!(source.allows("format", 3) && !source.allows("format", 4) && !source.allows("format", 6));
        assert!(!source.allows("io", 3));
    }

    #[test]
    fn functions_without_a_body_and_types_of_functions_are_not_functions() {
        let source = SourceFile::new(
            "a.rs",
            "trait T { fn a(&self); fn b() { } }\nstruct S { f: fn(u8) -> [u8; 4] }",
        );
        assert_eq!(source.functions(), [("b", 1, 1)]);
    }
}
