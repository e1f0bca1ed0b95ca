//! From what a person types to what the index is asked: words (or quoted phrases) that must all occur, folded to lower case.
//! Not here: ranking; answers are ordered by position.

/// Words beyond this number are ignored.
pub(crate) const TERMS_MAX: usize = 16;
/// Bytes of a query beyond this number are ignored.
pub(crate) const QUERY_BYTES_MAX: usize = 1024;
/// Bytes of a text beyond this number are not indexed.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
const GRAM: usize = 3;

/// Lower case character by character (so that a part of a text folds as the whole does), controls as spaces, cut to `limit` bytes.
pub(crate) fn fold(text: &str, limit: usize) -> String {
    if text.len() <= limit && text.bytes().all(|b| b.is_ascii() && !b.is_ascii_control()) {
        return text.to_ascii_lowercase();
    }
    let mut out = String::with_capacity(text.len().min(limit));
    for c in text.chars() {
        if out.len() + c.len_utf8() > limit {
            break;
        }
        if c.is_control() { out.push(' ') } else { out.extend(c.to_lowercase()) }
    }
    out
}

/// The words of a query.
pub(crate) fn terms(query: &str) -> Vec<String> {
    let folded = fold(query, QUERY_BYTES_MAX);
    // Every second part between quotes is a phrase.
    let mut terms: Vec<String> = Vec::new();
    for (n, part) in folded.split('"').enumerate() {
        if n % 2 == 1 {
            terms.push(part.trim().to_owned());
        } else {
            terms.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    terms.retain(|term| !term.is_empty());
    terms.truncate(TERMS_MAX);
    terms
}

/// The words of a query, for judging a text that is not in the index yet as the index would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(Vec<String>);

impl Words {
    /// Reads a query as [`super::SearchIndex::query`] does.
    pub fn of(query: &str) -> Words {
        Words(terms(query))
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every word occurs in the part of the text that would be indexed.
    pub fn occur_in(&self, text: &str) -> bool {
        let text = fold(text, TEXT_BYTES_MAX);
        self.0.iter().all(|word| text.contains(word.as_str()))
    }
}

/// The full-text question for these words: all their runs of three characters. `None` if every word is shorter.
pub(crate) fn grams(terms: &[String]) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for term in terms {
        let chars: Vec<char> = term.chars().collect();
        all.extend(chars.windows(GRAM).map(|gram| gram.iter().collect()));
    }
    all.sort_unstable();
    all.dedup();
    if all.is_empty() {
        return None;
    }
    let quoted: Vec<String> = all.iter().map(|gram| format!("\"{}\"", gram.replace('"', "\"\""))).collect();
    Some(quoted.join(" "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_and_phrases() {
        assert_eq!(terms("  Hello \"Big World\" 你好 "), vec!["hello", "big world", "你好"]);
        assert_eq!(terms("say \"unclosed phrase"), vec!["say", "unclosed phrase"]);
        assert_eq!(terms(" \"\" "), Vec::<String>::new());
        assert_eq!(terms(&"word ".repeat(100)).len(), TERMS_MAX);
    }

    #[test]
    fn a_text_is_judged_as_the_index_would() {
        assert!(Words::of("纪要").occur_in("会议纪要 第二版"));
        assert!(!Words::of("abd").occur_in("abc"));
        assert!(Words::of("\" Big World \" x").occur_in("x: the BIG world"));
        assert!(!Words::of("end").occur_in(&format!("{}end", "x".repeat(TEXT_BYTES_MAX))), "it is not indexed either");
        assert!(Words::of(" \"\" ").is_empty());
    }

    #[test]
    fn grams_need_three_characters() {
        assert_eq!(grams(&terms("ab 你好")), None);
        assert_eq!(grams(&terms("abcd ab")).as_deref(), Some("\"abc\" \"bcd\""));
        assert_eq!(grams(&terms("数据库")).as_deref(), Some("\"数据库\""));
    }

    proptest! {
        #[test]
        fn never_panics_and_stays_bounded(query in ".{0,2000}") {
            let found = terms(&query);
            prop_assert!(found.len() <= TERMS_MAX);
            let _ = grams(&found);
            prop_assert!(fold(&query, 100).len() <= 103);
        }
    }
}
