//! mod/rate-limiter: token buckets per source. Volatile: a restart fills them.

use super::{Draft, ModConfig};
use crate::glob;
use crate::input::Clock;
use rialto_model::{ErrorCode, Fault, Millis};
use serde_json::Value;
use std::collections::BTreeMap;

/// Buckets nobody drew from for this long are dropped.
const IDLE_MS: Millis = 10 * 60 * 1000;
/// Types that cost nothing unless configured otherwise.
const EXEMPT: &[&str] = &["network.ping", "network.event.ack", "network.agent.leave"];

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Millis,
}

/// All buckets of one network: (source, which) to what is left.
#[derive(Debug, Default)]
pub struct Buckets {
    buckets: BTreeMap<(String, String), Bucket>,
}

impl Buckets {
    /// Drops what nobody used lately.
    pub fn sweep(&mut self, now: Clock) {
        self.buckets.retain(|_, b| now.steady < b.at + IDLE_MS);
    }
}

struct Limit<'a> {
    name: &'a str,
    rate: f64,
    burst: f64,
}

fn limit<'a>(name: &'a str, value: Option<&Value>, rate: f64, burst: f64) -> Limit<'a> {
    let number = |key: &str, default| {
        value.and_then(|v| v.get(key)).and_then(Value::as_f64).filter(|n| *n > 0.0).unwrap_or(default)
    };
    Limit { name, rate: number("rate", rate), burst: number("burst", burst) }
}

/// Takes one token from every bucket that applies, or from none.
pub(crate) fn check(buckets: &mut Buckets, config: &ModConfig, draft: &Draft<'_, '_>, now: Clock) -> Result<(), Fault> {
    let exempt = match config.config.get("exempt") {
        Some(_) => config.list("exempt").any(|p| glob::matches(p, draft.kind)),
        None => EXEMPT.contains(&draft.kind),
    };
    if exempt {
        return Ok(());
    }
    let (rate, burst) = (config.number("rate").unwrap_or(20.0), config.number("burst").unwrap_or(60.0));
    let mut limits = vec![Limit { name: "", rate, burst }];
    if draft.broadcast {
        limits.push(limit("broadcast", config.config.get("broadcast"), 2.0, 10.0));
    }
    if let Some(per_type) = config.config.get("per_type").and_then(Value::as_object) {
        limits.extend(
            per_type.iter().filter(|(p, _)| glob::matches(p, draft.kind)).map(|(p, v)| limit(p, Some(v), rate, burst)),
        );
    }
    let mut filled = Vec::with_capacity(limits.len());
    for l in &limits {
        let key = (draft.address.to_owned(), l.name.to_owned());
        let before = buckets.buckets.get(&key).copied().unwrap_or(Bucket { tokens: l.burst, at: now.steady });
        let seconds = now.steady.saturating_sub(before.at) as f64 / 1000.0;
        let tokens = (before.tokens + seconds * l.rate).min(l.burst);
        if tokens < 1.0 {
            let wait = ((1.0 - tokens) / l.rate * 1000.0).ceil();
            let details = serde_json::json!({ "retry_after_ms": wait as u64 });
            return Err(Fault::new(ErrorCode::RateLimited, format!("too fast: wait {wait} ms")).details(details));
        }
        filled.push((key, Bucket { tokens: tokens - 1.0, at: now.steady }));
    }
    buckets.buckets.extend(filled);
    Ok(())
}
