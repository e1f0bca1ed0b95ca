//! What a pattern costs, told from its text.

use regex_syntax::hir::{Class, Hir, HirKind};

use super::limits::SCHEMA_PATTERN_STATES_MAX;

/// About how many states a pattern's automaton has: what one byte of text costs at worst. `Err` says why it is refused.
pub(super) fn states(pattern: &str) -> Result<u64, String> {
    let unusable = || "is not a regular expression that is matched in linear time (no look-around, no back-references)";
    let translated = jsonschema_regex::to_rust_regex(pattern).map_err(|()| unusable().to_owned())?;
    let mut parser = regex_syntax::ParserBuilder::new().nest_limit(64).build();
    let hir = parser.parse(&translated).map_err(|_| unusable().to_owned())?;
    match size(&hir) {
        states if states <= SCHEMA_PATTERN_STATES_MAX => Ok(states),
        _ => Err(format!("has more than {SCHEMA_PATTERN_STATES_MAX} states")),
    }
}

/// Recursion ends at the parser's limit of nesting.
fn size(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        // Of a class few states are live at once, however many ranges it has.
        HirKind::Class(Class::Unicode(class)) => 1 + class.ranges().len() as u64 / 16,
        HirKind::Class(Class::Bytes(class)) => 1 + class.ranges().len() as u64 / 16,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min.saturating_add(1));
            size(&repetition.sub).saturating_add(1).saturating_mul(u64::from(times.max(1)))
        }
        HirKind::Capture(capture) => size(&capture.sub).saturating_add(1),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().map(size).fold(1, u64::saturating_add),
    }
}
