//! Text for people: pure functions from values to lines.

pub(crate) mod bench;
pub(crate) mod event;
pub(crate) mod start;
pub(crate) mod table;
pub(crate) mod value;
pub(crate) mod work;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A time for people: local, to the second.
pub(crate) fn local_time(ms: u64, zone: &TimeZone) -> String {
    let at = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    match at {
        Some(at) => at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        None => ms.to_string(),
    }
}

/// Text from other agents on a terminal: control characters are shown, not obeyed.
pub(crate) fn safe(text: &str) -> String {
    text.chars()
        .map(|c| if (c.is_control() && c != '\n' && c != '\t') || is_reordering(c) { '\u{fffd}' } else { c })
        .collect()
}

/// The same on one line.
pub(crate) fn safe_line(text: &str) -> String {
    safe(text).replace(['\n', '\t'], " ")
}

/// Characters that change the direction of what follows, and so what a line seems to say.
fn is_reordering(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Bytes for people.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut size = count as f64;
    let mut unit = "B";
    for name in UNITS {
        unit = name;
        if size < 1024.0 {
            break;
        }
        if name != "TiB" {
            size /= 1024.0;
        }
    }
    if unit == "B" { format!("{count} B") } else { format!("{size:.1} {unit}") }
}

/// `1 event`, `2 events`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_not_commanded() {
        assert_eq!(safe("a\x1b[31mb\u{202e}c\nd"), "a\u{fffd}[31mb\u{fffd}c\nd");
        assert_eq!(safe_line("a\nb\tc\r"), "a b c\u{fffd}");
    }

    #[test]
    fn sizes_and_counts() {
        assert_eq!((bytes(0), bytes(1023), bytes(1536)), ("0 B".into(), "1023 B".into(), "1.5 KiB".into()));
        assert_eq!(bytes(5 << 30), "5.0 GiB");
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
        assert_eq!((count(1, "event"), count(0, "event")), ("1 event".into(), "0 events".into()));
    }

    #[test]
    fn times_are_local() {
        let tokyo = TimeZone::fixed(jiff::tz::offset(9));
        assert_eq!(local_time(1_767_225_600_000, &tokyo), "2026-01-01 09:00:00");
        assert_eq!(local_time(u64::MAX, &tokyo), u64::MAX.to_string());
    }
}
