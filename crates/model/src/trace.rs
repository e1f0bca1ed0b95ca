//! W3C trace context: which trace an event belongs to. It comes with a request or in the event's own metadata, stays with the event,
//! and goes out with every delivery of it (OpenAgents sheet, section 4.4).
//!
//! What is malformed is ignored, as the recommendation says: it never refuses an event.

use crate::json::push_string;
use crate::metadata::Metadata;

/// Metadata key of the trace and its parent span.
pub const TRACEPARENT: &str = "traceparent";
/// Metadata key of what tracing systems add to it.
pub const TRACESTATE: &str = "tracestate";
/// Characters of a `tracestate`; a longer one is dropped.
pub const TRACESTATE_CHARS_MAX: usize = 512;
/// Members of a `tracestate`; one with more is dropped.
pub const TRACESTATE_MEMBERS_MAX: usize = 32;

/// A valid trace context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    parent: Box<str>,
    state: Option<Box<str>>,
}

impl TraceContext {
    /// Reads what a request brought. Nothing without a valid `traceparent`; a bad `tracestate` is left out.
    pub fn parse(parent: &str, state: Option<&str>) -> Option<TraceContext> {
        let state = state.filter(|state| is_tracestate(state)).map(Box::from);
        is_traceparent(parent).then(|| TraceContext { parent: parent.into(), state })
    }

    /// The value of `traceparent`.
    pub fn parent(&self) -> &str {
        &self.parent
    }

    /// Puts the trace into the metadata of an event that names none itself.
    pub fn fill(&self, metadata: &mut Metadata<'_>) {
        if metadata.get(TRACEPARENT).is_some() {
            return;
        }
        metadata.set(TRACEPARENT, quoted(&self.parent));
        if let Some(state) = &self.state {
            metadata.set(TRACESTATE, quoted(state));
        }
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_string(&mut out, text);
    out
}

/// `00-<32 hex>-<16 hex>-<2 hex>`, ids not all zero. A later version may have more behind these; version `ff` is none.
pub fn is_traceparent(text: &str) -> bool {
    let hex = |part: &str, len: usize| {
        part.len() == len && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let mut parts = text.splitn(5, '-');
    let mut next = || parts.next().unwrap_or_default();
    let (version, trace, parent, flags) = (next(), next(), next(), next());
    let more = parts.next();
    hex(version, 2)
        && version != "ff"
        && (version != "00" || more.is_none())
        && hex(trace, 32)
        && hex(parent, 16)
        && hex(flags, 2)
        && trace.bytes().any(|b| b != b'0')
        && parent.bytes().any(|b| b != b'0')
}

/// A list of at most 32 `key=value` members in printable ASCII.
pub fn is_tracestate(text: &str) -> bool {
    let mut members = text.split(',').map(str::trim).filter(|member| !member.is_empty());
    text.len() <= TRACESTATE_CHARS_MAX
        && text.bytes().all(|b| b == b'\t' || (b' '..=b'~').contains(&b))
        && members.clone().count() <= TRACESTATE_MEMBERS_MAX
        && members.all(|member| member.split_once('=').is_some_and(|(key, value)| !key.is_empty() && !value.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_is_a_traceparent() {
        assert!(is_traceparent(GOOD));
        assert!(is_traceparent(&GOOD.replacen("00", "cc", 1)), "a later version is read as far as it is known");
        assert!(is_traceparent(&format!("{}-what-the-future-brings", GOOD.replacen("00", "cc", 1))));
        for bad in [
            "",
            "00",
            &format!("{GOOD}-more"),
            &GOOD.replacen("00", "ff", 1),
            &GOOD.to_uppercase(),
            &GOOD.replace("4bf9", "4bfg"),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.x",
        ] {
            assert!(!is_traceparent(bad), "{bad}");
        }
    }

    #[test]
    fn what_is_a_tracestate() {
        for good in ["", "a=1", "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7", "a=1, ,b=2"] {
            assert!(is_tracestate(good), "{good}");
        }
        let many = vec!["a=1"; TRACESTATE_MEMBERS_MAX + 1].join(",");
        let long = format!("a={}", "x".repeat(TRACESTATE_CHARS_MAX));
        for bad in ["a", "=1", "a=", "a=\u{e9}", "a=\n", &many, &long] {
            assert!(!is_tracestate(bad), "{bad}");
        }
    }

    #[test]
    fn a_request_names_the_trace_of_events_that_do_not() {
        let trace = TraceContext::parse(GOOD, Some("a=1")).unwrap();
        let mut plain = Metadata::parse(r#"{"k":1}"#).unwrap();
        trace.fill(&mut plain);
        assert_eq!(plain.to_json(), format!(r#"{{"k":1,"traceparent":"{GOOD}","tracestate":"a=1"}}"#));
        let own = format!(r#"{{"traceparent":"{}"}}"#, GOOD.replace("4bf9", "aaaa"));
        let mut named = Metadata::parse(&own).unwrap();
        trace.fill(&mut named);
        assert_eq!(named.to_json(), own);
        assert_eq!(TraceContext::parse("junk", Some("a=1")), None);
        assert_eq!(TraceContext::parse(GOOD, Some("junk")), TraceContext::parse(GOOD, None));
    }

    proptest! {
        #[test]
        fn never_panics(text: String, state: String) {
            if let Some(trace) = TraceContext::parse(&text, Some(&state)) {
                prop_assert_eq!(trace.parent(), text.as_str());
            }
            let _ = is_tracestate(&state);
        }
    }
}
