//! `--since`: a time span, a local date, or an event id.

use jiff::civil;
use jiff::tz::TimeZone;

/// Where to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Since {
    /// At this time (Unix ms).
    At(u64),
    /// After this event (its id, or `seq:n`).
    After(String),
}

/// Reads `90s`, `30m`, `2h`, `7d`, `1w`, `1h30m`, a local date or time, or else a cursor.
pub(crate) fn parse(text: &str, now_ms: u64, zone: &TimeZone) -> Result<Since, String> {
    if let Some(span_ms) = span(text) {
        return Ok(Since::At(now_ms.saturating_sub(span_ms)));
    }
    if let Some(at) = local_time(text, zone) {
        return Ok(Since::At(at));
    }
    let cursor = text.strip_prefix("seq:").is_some_and(|n| n.parse::<u64>().is_ok());
    if cursor || rialto_model::EventId::is_legal(text) {
        return Ok(Since::After(text.to_owned()));
    }
    Err(format!("{text:?} is neither a span (2h, 30m, 7d), a date (2026-01-31), nor an event id"))
}

/// Milliseconds of a span such as `1h30m`.
pub(crate) fn span(text: &str) -> Option<u64> {
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, tail) = rest.split_at_checked(digits)?;
        let units = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, after) = tail.split_at_checked(units)?;
        let unit_ms: u64 = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(unit_ms)?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

fn local_time(text: &str, zone: &TimeZone) -> Option<u64> {
    let at = match text.parse::<civil::DateTime>() {
        Ok(at) => at,
        Err(_) => text.parse::<civil::Date>().ok()?.to_datetime(civil::Time::midnight()),
    };
    // An event id of 26 digits never has the dashes of a date.
    if !text.contains('-') {
        return None;
    }
    let at = zone.to_zoned(at).ok()?.timestamp().as_millisecond();
    u64::try_from(at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_767_225_600_000; // 2026-01-01T00:00:00Z

    fn at(text: &str) -> Result<Since, String> {
        parse(text, NOW, &TimeZone::UTC)
    }

    #[test]
    fn spans_go_back_from_now() {
        for (text, ms) in [
            ("90s", 90_000),
            ("2h", 7_200_000),
            ("1h30m", 5_400_000),
            ("1w", 604_800_000),
            ("5min", 300_000),
            ("0s", 0),
        ] {
            assert_eq!(at(text), Ok(Since::At(NOW - ms)), "{text}");
        }
        assert_eq!(at("99999d"), Ok(Since::At(0)));
    }

    #[test]
    fn dates_are_local() {
        assert_eq!(at("2026-01-01"), Ok(Since::At(NOW)));
        assert_eq!(at("2026-01-01T01:00"), Ok(Since::At(NOW + 3_600_000)));
        assert_eq!(at("2026-01-01 01:00:30"), Ok(Since::At(NOW + 3_630_000)));
        let tokyo = TimeZone::fixed(jiff::tz::offset(9));
        assert_eq!(parse("2026-01-01T09:00", NOW, &tokyo), Ok(Since::At(NOW)));
    }

    #[test]
    fn the_rest_are_cursors_or_errors() {
        for id in ["01K0A", "seq:41", "my-event_1", "2x"] {
            assert_eq!(at(id), Ok(Since::After(id.to_owned())));
        }
        for bad in ["", "two hours", "-1h", "~", "99999999999999999999999999d!"] {
            assert!(at(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn never_panics() {
        for text in ["1", "s", "1ss", "1é", "é1s", "18446744073709551615w", "2026-13-99", "--"] {
            let _ = at(text);
        }
    }
}
