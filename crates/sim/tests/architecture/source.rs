//! Rust sources, told apart into what is shipped and what is test. It reads lines and relies on `cargo fmt`: an item
//! under `#[cfg(test)]` ends at the first closing brace with the indentation of its attribute.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::files_in;

/// One `.rs` file.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    text: String,
    /// For each line: does it belong to a test?
    test: Vec<bool>,
}

impl Source {
    /// Every `.rs` file below `folder`.
    pub(crate) fn all_in(folder: &Path) -> Vec<Self> {
        let files = files_in(folder).into_iter();
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
        let mut sources: Vec<_> = files.map(Self::read).collect();
        let test_modules: BTreeSet<_> = sources.iter().flat_map(Self::test_modules).collect();
        for source in &mut sources {
            let inside = source.path.strip_prefix(folder).unwrap();
            let in_tests_folder = inside.components().any(|part| part.as_os_str() == "tests");
            let of_test_module = source.path.ancestors().any(|path| test_modules.contains(&path.with_extension("")));
            if in_tests_folder || of_test_module {
                source.test.fill(true);
            }
        }
        sources
    }

    /// Numbered lines that are shipped, without comments.
    pub(crate) fn production(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines(false).map(|(number, line)| (number, without_comment(line)))
    }

    /// Numbered lines of tests, with their comments.
    pub(crate) fn tests(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines(true)
    }

    /// Whether the whole file is test.
    pub(crate) fn is_test(&self) -> bool {
        self.test.iter().all(|test| *test)
    }

    fn lines(&self, of_test: bool) -> impl Iterator<Item = (usize, &str)> {
        let numbered = (1..).zip(self.text.lines()).zip(&self.test);
        numbered.filter(move |(_, test)| **test == of_test).map(|(line, _)| line)
    }

    fn read(path: PathBuf) -> Self {
        let text = std::fs::read_to_string(&path).unwrap();
        let test = mark(&text);
        Self { path, text, test }
    }

    /// The paths, without extension, of modules that this file declares for tests only.
    fn test_modules(&self) -> Vec<PathBuf> {
        let folder = self.path.parent().unwrap();
        let own = match self.path.file_stem().and_then(|stem| stem.to_str()).unwrap() {
            "lib" | "main" | "mod" => folder.to_owned(),
            stem => folder.join(stem),
        };
        let modules = self.tests().filter_map(|(_, line)| {
            let line = line.trim();
            let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
            line.strip_prefix("mod ")?.strip_suffix(';')
        });
        modules.map(|module| own.join(module)).collect()
    }
}

/// Says of each line whether it is part of an item under `#[cfg(test)]`.
fn mark(text: &str) -> Vec<bool> {
    let mut marks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let is_test = line.trim() == "#[cfg(test)]";
        marks.push(is_test);
        if is_test {
            let indent = line.len() - line.trim_start().len();
            let end = format!("{}}}", &line[..indent]);
            let mut in_attributes = true;
            for line in lines.by_ref() {
                marks.push(true);
                let start = line.trim_start();
                let attribute = in_attributes && (start.starts_with("#[") || start.starts_with("//"));
                let one_liner = in_attributes && !attribute && (line.ends_with(';') || line.ends_with('}'));
                in_attributes = attribute;
                if line == end || one_liner {
                    break;
                }
            }
        }
    }
    marks
}

fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with("//") {
        return "";
    }
    line.split(" // ").next().unwrap_or(line)
}

/// Whether `word` stands in `line` with no letter, digit or `_` right before or after it.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let letter = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, found)| {
        let before = line[..at].chars().next_back();
        let after = line[at + found.len()..].chars().next();
        !before.is_some_and(letter) && !after.is_some_and(letter)
    })
}

#[test]
fn test_items_are_told_from_shipped_ones() {
    let text = "\
fn a() {}
#[cfg(test)]
#[path = \"x.rs\"]
mod x;
fn b() {}
impl C {
    #[cfg(test)]
    fn d() {
        e();
    }
    fn f() {}
}
#[cfg(test)]
mod tests {
    fn g() {}
}
";
    let shipped: Vec<_> = text.lines().zip(mark(text)).filter(|(_, test)| !test).map(|(line, _)| line).collect();
    assert_eq!(shipped, ["fn a() {}", "fn b() {}", "impl C {", "    fn f() {}", "}"]);
}

#[test]
fn words_have_borders() {
    assert!(has_word("use std::env;", "std::env") && has_word("rand::random()", "rand"));
    assert!(!has_word("operand", "rand") && !has_word("MEMBERS_MAX_X", "MEMBERS_MAX"));
    assert_eq!(without_comment("    // tokio"), "");
    assert_eq!(without_comment("a(); // tokio"), "a();");
}
