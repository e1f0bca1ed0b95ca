//! Who a text mentions: `@name` outside code spans and fences (OpenAgents sheet, section 6.2).
//!
//! Invariant: pure text in, names out; the time is linear in the text but for a logarithm, whatever the text.
//! Not here: whether anybody has that name, and what follows from it.
//!
//! Code is told apart as in CommonMark: a fence is three or more backticks or tildes at the start of a line (after
//! indentation, quote marks or a list marker) and lasts until its like, or to the end of the text; a span lies between
//! two runs of equally many backticks in one paragraph, and a run without its like is plain text.

use rialto_model::limits::MENTIONS_MAX;
use std::collections::BTreeMap;
use std::ops::Range;

/// The longest name there is; what is longer names nobody.
const NAME_CHARS_MAX: usize = 128;

/// The names mentioned, in order of appearance, each once (case aside) as it was first written; at most
/// [`MENTIONS_MAX`].
pub fn mentions(text: &str) -> Vec<&str> {
    let mut found = FoundMentions::default();
    if text.contains('@') {
        for paragraph in paragraphs(text) {
            if found.is_full() {
                break;
            }
            in_paragraph(paragraph, &mut found);
        }
    }
    found.names
}

#[derive(Default)]
struct FoundMentions<'t> {
    names: Vec<&'t str>,
}

impl<'t> FoundMentions<'t> {
    fn is_full(&self) -> bool {
        self.names.len() >= MENTIONS_MAX
    }

    fn add(&mut self, name: &'t str) {
        let new = || !self.names.iter().any(|known| known.eq_ignore_ascii_case(name));
        if !self.is_full() && name.len() <= NAME_CHARS_MAX && new() {
            self.names.push(name);
        }
    }
}

/// A fence that is open: its mark, how often, and how deep in quotes it stands.
struct Fence {
    mark: u8,
    count: usize,
    depth: usize,
}

/// The runs of lines in which a code span may reach from one line to the next: fences and empty lines part them.
fn paragraphs(text: &str) -> Vec<&str> {
    let (mut all, mut fence, mut start, mut at) = (Vec::new(), None::<Fence>, 0, 0);
    for line in text.split_inclusive('\n') {
        let (begin, end) = (at, at + line.len());
        at = end;
        let (depth, inner) = unquoted(line);
        if let Some(open) = &fence {
            if depth >= open.depth {
                if closes(inner, open) {
                    fence = None;
                }
                start = end;
                continue;
            }
            // Its quote has ended, and so has the fence: this line is text again.
            start = begin;
        }
        let opened = opens(inner, depth);
        if opened.is_some() || inner.trim().is_empty() {
            all.extend(text.get(start..begin));
            start = end;
        }
        fence = opened;
    }
    all.extend(text.get(start..));
    all
}

/// How many quote marks stand before the line's own text, and that text without indentation.
fn unquoted(line: &str) -> (usize, &str) {
    let (mut depth, mut rest) = (0, line.trim_start());
    while let Some(inner) = rest.strip_prefix('>') {
        (depth, rest) = (depth + 1, inner.trim_start());
    }
    (depth, rest)
}

fn opens(inner: &str, depth: usize) -> Option<Fence> {
    let inner = after_list_marker(inner);
    let mark = *inner.as_bytes().first().filter(|c| matches!(c, b'`' | b'~'))?;
    let count = inner.bytes().take_while(|c| *c == mark).count();
    let info = inner.get(count..)?;
    // "```x```" on one line is a span.
    (count >= 3 && !(mark == b'`' && info.contains('`'))).then_some(Fence { mark, count, depth })
}

fn closes(inner: &str, open: &Fence) -> bool {
    let line = inner.trim_end();
    line.len() >= open.count && line.bytes().all(|c| c == open.mark)
}

fn after_list_marker(inner: &str) -> &str {
    let digits = inner.bytes().take_while(u8::is_ascii_digit).count();
    let rest = inner.get(digits..).unwrap_or_default();
    let after = if digits == 0 { rest.strip_prefix(['-', '*', '+']) } else { rest.strip_prefix(['.', ')']) };
    match after {
        Some(after) if digits <= 9 && after.starts_with([' ', '\t']) => after.trim_start(),
        _ => inner,
    }
}

fn in_paragraph<'t>(text: &'t str, found: &mut FoundMentions<'t>) {
    let mut from = 0;
    for span in code_spans(text) {
        in_plain(text, from..span.start, found);
        from = span.end;
    }
    in_plain(text, from..text.len(), found);
}

/// The code spans of a paragraph, in order.
fn code_spans(text: &str) -> Vec<Range<usize>> {
    let runs = backtick_runs(text.as_bytes());
    // Looking ahead from every run for its like would take time by the square.
    let mut by_length: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for run in &runs {
        by_length.entry(run.len()).or_default().push(run.start);
    }
    let (mut spans, mut from) = (Vec::new(), 0);
    for run in runs {
        if run.start < from {
            continue;
        }
        // A backslash makes one backtick plain. Inside of a span it would be a backslash, so only openings look.
        let start = run.start + usize::from(is_escaped(text.as_bytes(), run.start));
        let length = run.end - start;
        let Some(starts) = by_length.get(&length) else { continue };
        let next = starts.partition_point(|s| *s < run.end);
        if let Some(close) = starts.get(next) {
            from = close + length;
            spans.push(start..from);
        }
    }
    spans
}

fn backtick_runs(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, _) in bytes.iter().enumerate().filter(|(_, c)| **c == b'`') {
        match runs.last_mut() {
            Some(last) if last.end == at => last.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

fn is_escaped(bytes: &[u8], at: usize) -> bool {
    let before = bytes.get(..at).unwrap_or_default();
    before.iter().rev().take_while(|c| **c == b'\\').count() % 2 == 1
}

fn in_plain<'t>(text: &'t str, range: Range<usize>, found: &mut FoundMentions<'t>) {
    let plain = text.get(range.clone()).unwrap_or_default();
    for (at, _) in plain.match_indices('@') {
        if found.is_full() {
            return;
        }
        let before = text.get(..range.start + at).and_then(|head| head.chars().next_back());
        let name = plain.get(at + 1..).map(name_at_start).unwrap_or_default();
        if !name.is_empty() && !before.is_some_and(joins) {
            found.add(name);
        }
    }
}

/// Characters after which an `@` belongs to the word before it, as in an e-mail address. "Letter" is read as letter of
/// a script with upper and lower case: in Chinese, Japanese or Thai text, which puts no space between words, and after
/// the one-letter words of Arabic and Hebrew, a mention follows the word before it directly.
fn joins(before: char) -> bool {
    before.is_ascii_digit() || matches!(before, '_' | '@' | '.') || before.is_lowercase() || before.is_uppercase()
}

/// The name a text begins with; empty if it begins with none.
fn name_at_start(text: &str) -> &str {
    let inside = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-');
    if text.starts_with(['.', '-']) {
        return "";
    }
    let length = text.bytes().take_while(|c| inside(c)).count();
    text.get(..length).unwrap_or_default().trim_end_matches(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Text, and the names it mentions.
    const TABLE: &[(&str, &[&str])] = &[
        // Where a name begins and ends.
        ("", &[]),
        ("no names", &[]),
        ("@bob", &["bob"]),
        ("hi @bob, @carol and (@dave)!", &["bob", "carol", "dave"]),
        ("@bob\n@carol\r\n@dave", &["bob", "carol", "dave"]),
        ("@", &[]),
        ("@ bob", &[]),
        ("@-bob @.bob", &[]),
        ("@_ @_x @9", &["_", "_x", "9"]),
        ("@a.b @a-b @a_b", &["a.b", "a-b", "a_b"]),
        ("ask @bob. Or @carol... or @dave-.- now", &["bob", "carol", "dave"]),
        ("@bob's @bob: @carol/@dave", &["bob", "carol", "dave"]),
        ("*@bob* **@carol** [@dave](x) \"@eve\"", &["bob", "carol", "dave", "eve"]),
        ("https://example.org/@bob", &["bob"]),
        ("-@bob", &["bob"]),
        // Not a mention: the middle of a word, an address, a decorator after a dot.
        ("mail ana@example.org or x_@y or 1@b", &[]),
        ("@@bob @@@bob", &[]),
        (".@bob", &[]),
        ("@bob@example.org", &["bob"]),
        ("jos\u{e9}@example.org \u{414}@bob", &[]),
        // Each once, as first written, in order.
        ("@Bob @carol @BOB @bob", &["Bob", "carol"]),
        ("@bob. @bob- @bob", &["bob"]),
        // Scripts without spaces between words.
        ("请@bob看一下", &["bob"]),
        ("@bob你好，@carol。", &["bob", "carol"]),
        ("こんにちは@bobさん", &["bob"]),
        ("안녕 @bob님", &["bob"]),
        ("و@bob", &["bob"]),
        ("＠bob", &[]),
        ("@名", &[]),
        ("\u{1f600}@bob\u{1f600}", &["bob"]),
        // Code spans.
        ("`@bob` @carol", &["carol"]),
        ("``@bob ` @carol`` @dave", &["dave"]),
        ("`` `@bob` `` @carol", &["carol"]),
        ("`x`@bob`y`", &["bob"]),
        ("a ` b @bob", &["bob"]),
        ("`` @bob ` @carol", &["bob", "carol"]),
        ("`one\n@bob\ntwo` @carol", &["carol"]),
        ("`one\n\n@bob` @carol", &["bob", "carol"]),
        ("\\`@bob\\` @carol", &["bob", "carol"]),
        ("\\\\`@bob` @carol", &["carol"]),
        ("\\``@bob` @carol", &["carol"]),
        ("`@bob\\` @carol`", &["carol"]),
        ("```@bob``` @carol", &["carol"]),
        // Fences.
        ("```\n@bob\n```\n@carol", &["carol"]),
        ("```rust\n@bob\n```", &[]),
        ("``` @info\n@bob\n``` \n@carol", &["carol"]),
        ("~~~\n@bob\n```\n@carol\n~~~\n@dave", &["dave"]),
        ("````\n```\n@bob\n````\n@carol", &["carol"]),
        ("```\n@bob\n`````\n@carol", &["carol"]),
        ("```\n@bob\n``` x\n@carol\n```\n@dave", &["dave"]),
        ("@carol\n   ```\n@bob\n   ```", &["carol"]),
        ("```\n\n@bob\n\n```\n@carol", &["carol"]),
        ("@carol\n```\n@bob", &["carol"]),
        // A fence begins a line, so here it is the third one that opens, as in CommonMark.
        ("@carol ```\n@bob\n```\n@dave", &["carol", "bob"]),
        ("~~@bob~~", &["bob"]),
        ("`` \n```\n@bob\n```\n`` @carol", &["carol"]),
        ("> ```\n> @bob\n> ```\n> @carol", &["carol"]),
        ("> ```\n> @bob\n@carol", &["carol"]),
        ("> @bob\n>> @carol", &["bob", "carol"]),
        ("- ```\n  @bob\n\n  @bob\n  ```\n- @carol", &["carol"]),
        ("1. ~~~\n   @bob\n   ~~~\n2. @carol", &["carol"]),
        ("```\r\n@bob\r\n```\r\n@carol", &["carol"]),
    ];

    #[test]
    fn mentions_follow_the_table() {
        for (text, names) in TABLE {
            assert_eq!(mentions(text), *names, "{text:?}");
        }
    }

    #[test]
    fn no_more_names_than_the_limit() {
        let names: Vec<String> = (0..MENTIONS_MAX + 10).map(|n| format!("a{n}")).collect();
        let text: String = names.iter().map(|name| format!("@{name} ")).collect();
        assert_eq!(mentions(&text), names.iter().take(MENTIONS_MAX).collect::<Vec<_>>());
        let last = format!("@a0 {}", "@a0 @A0 ".repeat(1000)) + "@b";
        assert_eq!(mentions(&last), ["a0", "b"], "a name said again takes no room");
    }

    #[test]
    fn a_name_nobody_can_have_is_left_out() {
        let longest = "a".repeat(NAME_CHARS_MAX);
        assert_eq!(mentions(&format!("@{longest} @{longest}b @{longest}...")), [longest.as_str()]);
    }

    /// Runs of backticks of every length never find their like; text of this kind must not take time by the square.
    #[test]
    fn hostile_text_ends_soon() {
        let mut text = String::from("@bob ");
        for length in 1.. {
            if text.len() > 256 << 10 {
                break;
            }
            text.push_str(&"`".repeat(length));
            text.push('x');
        }
        assert_eq!(mentions(&text), ["bob"]);
        assert_eq!(mentions(&format!("@bob {}", "` ".repeat(128 << 10))), ["bob"]);
        assert_eq!(mentions(&format!("@bob {}`", "\\".repeat(256 << 10))), ["bob"]);
        assert_eq!(mentions(&format!("{} @bob", "@".repeat(256 << 10))), ["bob"]);
    }

    /// The rule on one line without code, said again the slow way.
    fn slowly(text: &str) -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        let mut names: Vec<String> = Vec::new();
        for at in (0..chars.len()).filter(|at| chars[*at] == '@') {
            let joined = at > 0 && (chars[at - 1].is_ascii_alphanumeric() || "_@.".contains(chars[at - 1]));
            let tail: String = chars[at + 1..].iter().collect();
            let end = tail.find(|c: char| !c.is_ascii_alphanumeric() && !"_.-".contains(c)).unwrap_or(tail.len());
            let mut name: String = tail.chars().take(end).collect();
            if joined || name.starts_with('.') || name.starts_with('-') {
                continue;
            }
            while name.ends_with('.') || name.ends_with('-') {
                name.pop();
            }
            if !name.is_empty() && !names.iter().any(|n| n.to_lowercase() == name.to_lowercase()) {
                names.push(name);
            }
        }
        names
    }

    proptest! {
        #[test]
        fn never_panics(text in "(?s)[@`~>\\\\\n\r ab.\u{e9}名1*-]{0,80}") {
            let names = mentions(&text);
            prop_assert!(names.len() <= MENTIONS_MAX);
            for name in names {
                let mention = format!("@{name}");
                prop_assert!(text.contains(&mention));
                prop_assert_eq!(name_at_start(name), name);
            }
        }

        #[test]
        fn never_panics_on_anything(text: String) {
            let _ = mentions(&text);
        }

        #[test]
        fn text_without_code_follows_the_rule(text in "[@abAB19_. 名,-]{0,60}") {
            prop_assert_eq!(mentions(&text), slowly(&text));
        }

        #[test]
        fn a_fence_hides_all_it_holds(inner in "[@ab` \n]{0,60}", count in 3usize..6) {
            let fence = "~".repeat(count);
            let text = format!("@x\n{fence}\n{inner}\n{fence}\n@y");
            prop_assert_eq!(mentions(&text), ["x", "y"]);
        }

        #[test]
        fn a_span_hides_all_it_holds(inner in "[@ab ]{0,60}", count in 1usize..3) {
            let mark = "`".repeat(count);
            let text = format!("@x {mark}{inner} {mark} @y");
            prop_assert_eq!(mentions(&text), ["x", "y"]);
        }
    }
}
