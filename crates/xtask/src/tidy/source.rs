//! One Rust file as tokens and comments: enough to tell code from words about code, and test code
//! from the rest.

use std::ops::RangeInclusive;

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name, keyword, number or lifetime.
    Word(String),
    /// The contents of a string, byte string or character literal.
    Text(String),
    /// One punctuation character.
    Mark(char),
}

/// A token and the lines it covers.
#[derive(Clone, Debug)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// The line on which it begins, from 1.
    pub line: usize,
    /// The line on which it ends.
    pub last_line: usize,
}

impl Token {
    /// Returns the word, if it is one.
    #[must_use]
    pub fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Returns whether it is this punctuation character.
    #[must_use]
    pub fn is(&self, mark: char) -> bool {
        self.kind == Kind::Mark(mark)
    }
}

/// A line of comment, without what marks it as one.
#[derive(Clone, Debug)]
pub struct Comment {
    /// The line, from 1.
    pub line: usize,
    /// What it says, from behind the slashes.
    pub text: String,
    /// Columns of the whole line, code before the comment included.
    pub width: usize,
}

/// A Rust file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where it is, relative to the workspace, with forward slashes.
    pub path: String,
    /// The code.
    pub tokens: Vec<Token>,
    /// The comments, one element a line.
    pub comments: Vec<Comment>,
    test_regions: Vec<RangeInclusive<usize>>,
    code_lines: Vec<usize>,
}

impl Source {
    /// Cuts a file into tokens.
    #[must_use]
    pub fn new(path: &str, text: &str) -> Source {
        let (tokens, mut comments) = super::lexer::cut(text);
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
        Source {
            path: path.to_owned(),
            tokens,
            comments,
            test_regions,
            code_lines,
        }
    }

    /// Returns how many lines hold code (not blank, not only comment), from one line to another.
    #[must_use]
    pub fn code_lines_in(&self, lines: RangeInclusive<usize>) -> usize {
        let before = |line: usize| self.code_lines.partition_point(|&at| at < line);
        before(lines.end() + 1) - before(*lines.start())
    }

    /// Returns how many lines of the file hold code.
    #[must_use]
    pub fn code_len(&self) -> usize {
        self.code_lines.len()
    }

    /// Returns the lines where a piece of Rust begins, compared token by token, so that neither
    /// comments nor strings match.
    ///
    /// ```
    /// let source = xtask::tidy::Source::new("a.rs", "// std::fs\nuse std :: fs;");
    /// assert_eq!(source.find("std::fs"), [2]);
    /// ```
    #[must_use]
    pub fn find(&self, code: &str) -> Vec<usize> {
        let (wanted, _) = super::lexer::cut(code);
        let same = |window: &[Token]| {
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

    /// Returns whether a line is test code: in a file of tests, or in an item under `#[cfg(test)]`.
    #[must_use]
    pub fn is_test(&self, line: usize) -> bool {
        let test_file = self.file_name() == "tests.rs"
            || self
                .path
                .split('/')
                .any(|part| ["tests", "benches", "examples", "fuzz_targets"].contains(&part));
        test_file || self.test_regions.iter().any(|region| region.contains(&line))
    }

    /// Returns the last part of the path.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns the lines that say `tidy: allow <rule>: <why>`.
    pub fn allowances<'a>(&'a self, rule: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.comments
            .iter()
            .filter(move |comment| allowance(&comment.text) == Some(rule))
            .map(|comment| comment.line)
    }

    /// Returns whether a comment on the line, or directly above it, allows what the rule forbids.
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

    /// Functions with a body: name, first line, last line.
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

/// Returns what a comment allows, if it says so with a reason.
fn allowance(comment: &str) -> Option<&str> {
    let (rule, why) = comment.trim().strip_prefix("tidy: allow ")?.split_once(':')?;
    (why.trim().len() >= 20).then_some(rule.trim())
}

/// Returns the index of the token that ends the item around `at`: its `;`, or the brace that closes
/// its body.
fn end_of_item(tokens: &[Token], at: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.kind {
            Kind::Mark('(' | '[' | '{') => depth += 1,
            Kind::Mark(')' | ']' | '}') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 && token.is('}') {
                    return Some(index);
                }
            }
            Kind::Mark(';') if depth == 0 => return Some(index),
            _ => {}
        }
    }
    None
}

/// Returns the lines of items under `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn test_regions(tokens: &[Token]) -> Vec<RangeInclusive<usize>> {
    let starts = |pattern: &str, at: usize| {
        let (wanted, _) = super::lexer::cut(pattern);
        tokens.len() >= at + wanted.len() && tokens[at..].iter().zip(&wanted).all(|(a, b)| a.kind == b.kind)
    };
    let mut regions = Vec::new();
    for at in 0..tokens.len() {
        if starts("#[cfg(test)]", at) || starts("#[cfg(all(test", at) {
            // Behind the attribute's closing bracket the item begins; more attributes in between do
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
        let source = Source::new(
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
        let source = Source::new("crates/base/src/a.rs", text);
        let tests: Vec<usize> = (1..=10).filter(|&line| source.is_test(line)).collect();
        assert_eq!(tests, [2, 3, 4, 5, 6, 8, 9]);
        assert!(Source::new("crates/base/tests/it/a.rs", text).is_test(1));
        assert!(Source::new("crates/base/src/a/tests.rs", text).is_test(1));
    }

    #[test]
    fn an_allowance_needs_a_reason_and_covers_the_next_line_of_code() {
        let text = "// tidy: allow format: these bytes never leave memory\n// (as above)\na();\nb();\n// tidy: allow format: no\nc();";
        let source = Source::new("a.rs", text);
        assert!(source.allows("format", 3) && !source.allows("format", 4) && !source.allows("format", 6));
        assert!(!source.allows("io", 3));
    }

    #[test]
    fn functions_without_a_body_and_types_of_functions_are_not_functions() {
        let source = Source::new(
            "a.rs",
            "trait T { fn a(&self); fn b() { } }\nstruct S { f: fn(u8) -> [u8; 4] }",
        );
        assert_eq!(source.functions(), [("b", 1, 1)]);
    }
}
