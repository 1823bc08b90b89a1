//! Glob patterns for names. They support `*`, `?`, `[a-z]`, `[^a]`, and `\` before a literal
//! character.

/// Returns whether the pattern matches the whole text by the rules of Redis.
#[must_use]
pub(crate) fn fits(pattern: &[u8], text: &[u8]) -> bool {
    // Where matching resumes in the pattern and the text after extending the last `*` by one byte.
    // Backtracking to the last star is enough, because a longer match of an earlier star would not
    // match any further texts.
    let mut retry: Option<(usize, usize)> = None;
    let (mut p, mut t) = (0, 0);
    loop {
        let step = match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
                continue;
            }
            None if t == text.len() => return true,
            None => None,
            Some(_) => text.get(t).and_then(|&byte| one(pattern, p, byte)),
        };
        match (step, retry) {
            (Some(next), _) => {
                p = next;
                t += 1;
            }
            (None, Some((behind, from))) if from < text.len() => {
                retry = Some((behind, from + 1));
                p = behind;
                t = from + 1;
            }
            (None, _) => return false,
        }
    }
}

/// Returns the position after the pattern element at `p` if the element matches `byte`, otherwise
/// `None`.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match pattern[p] {
        b'?' => Some(p + 1),
        b'[' => class(pattern, p + 1, byte),
        b'\\' if p + 1 < pattern.len() => (pattern[p + 1] == byte).then_some(p + 2),
        other => (other == byte).then_some(p + 1),
    }
}

/// Matches a byte against a bracketed character class. Without a closing bracket, the class extends
/// to the end of the pattern.
fn class(pattern: &[u8], mut p: usize, byte: u8) -> Option<usize> {
    let is_negated = pattern.get(p) == Some(&b'^');
    if is_negated {
        p += 1;
    }
    let mut is_in = false;
    loop {
        match pattern.get(p..) {
            None | Some([]) => break,
            Some([b']', ..]) => {
                p += 1;
                break;
            }
            Some([b'\\', escaped, ..]) => {
                is_in |= *escaped == byte;
                p += 2;
            }
            Some([low, b'-', high, ..]) => {
                is_in |= (*low.min(high)..=*low.max(high)).contains(&byte);
                p += 3;
            }
            Some([only, ..]) => {
                is_in |= *only == byte;
                p += 1;
            }
        }
    }
    (is_in != is_negated).then_some(p)
}

/// Returns the pattern's longest literal prefix, with which every matching text begins.
#[must_use]
pub(crate) fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| b"*?[\\".contains(byte));
    &pattern[..end.unwrap_or(pattern.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_what_redis_says() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeello", true),
            ("h*l*o", "hello world o", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("[\\]]", "]", true),
            ("[ab", "b", true),
            ("*a*b", "aaab", true),
            ("*a*b", "aaaba", false),
            ("a*", "b", false),
        ] {
            assert_eq!(
                fits(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = b"*a".repeat(50);
        assert!(!fits(&[&pattern[..], b"b"].concat(), &[b'a'; 5_000]));
    }

    #[test]
    fn what_stands_before_the_first_sign_is_a_prefix() {
        assert_eq!(literal_prefix(b"user:*"), b"user:");
        assert_eq!(literal_prefix(b"user"), b"user");
        assert_eq!(literal_prefix(b"\\*"), b"");
    }
}
