//! Shell globs over event types: `*` any run, `?` one character, `[…]` a class (sheet section 9.1).

/// Whether the whole `text` matches the pattern.
pub fn matches(pattern: &str, text: &str) -> bool {
    let p: Vec<char> = pattern.chars().collect();
    let t: Vec<char> = text.chars().collect();
    let (mut pi, mut ti) = (0, 0);
    // Where to go back to: pattern after the last star, and the text it has eaten so far.
    let mut back: Option<(usize, usize)> = None;
    while let Some(c) = t.get(ti) {
        match p.get(pi) {
            Some('*') => {
                back = Some((pi + 1, ti));
                pi += 1;
                continue;
            }
            Some('?') => {
                pi += 1;
                ti += 1;
                continue;
            }
            Some('[') => {
                if let Some((hit, next)) = class(&p, pi, *c) {
                    if hit {
                        pi = next;
                        ti += 1;
                        continue;
                    }
                } else if *c == '[' {
                    pi += 1;
                    ti += 1;
                    continue;
                }
            }
            Some(l) if l == c => {
                pi += 1;
                ti += 1;
                continue;
            }
            _ => {}
        }
        let Some((after, eaten)) = back else { return false };
        back = Some((after, eaten + 1));
        pi = after;
        ti = eaten + 1;
    }
    p.get(pi..).unwrap_or_default().iter().all(|c| *c == '*')
}

/// Reads the class that opens at `at`: whether it holds `c`, and where it ends. `None` if it never closes.
fn class(p: &[char], at: usize, c: char) -> Option<(bool, usize)> {
    let mut i = at + 1;
    let negated = matches!(p.get(i), Some('!' | '^'));
    i += usize::from(negated);
    let (mut hit, start) = (false, i);
    loop {
        let low = *p.get(i)?;
        if low == ']' && i > start {
            return Some((hit != negated, i + 1));
        }
        let range_end = p.get(i + 2).filter(|e| **e != ']');
        match (p.get(i + 1), range_end) {
            (Some('-'), Some(high)) => {
                hit |= (low..=*high).contains(&c);
                i += 3;
            }
            _ => {
                hit |= low == c;
                i += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;
    use proptest::prelude::*;

    #[test]
    fn globs() {
        for (pattern, text, expected) in [
            ("workspace.message.*", "workspace.message.posted", true),
            ("workspace.message.*", "workspace.message.posted.x", true),
            ("workspace.message.*", "workspace.messages.x", false),
            ("*", "", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("[", "[", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(pattern: String, text: String) {
            let _ = matches(&pattern, &text);
        }

        #[test]
        fn a_text_without_marks_matches_itself(text in "[a-z.]{0,20}") {
            prop_assert!(matches(&text, &text));
            prop_assert!(matches("*", &text));
        }
    }
}
