//! mod/rate-limiter: token buckets per source. Volatile: a restart fills them.

use super::{ModConfig, PipelineInput};
use crate::glob;
use crate::input::Clock;
use rialto_model::{ErrorCode, EventType, Fault, Millis};
use serde_json::Value;
use std::collections::BTreeMap;

/// Its name.
pub(crate) const NAME: &str = "rate-limiter";
/// Buckets nobody drew from for this long are dropped.
const IDLE_MS: Millis = 10 * 60 * 1000;
/// Types that cost nothing unless configured otherwise.
const EXEMPT: [EventType<'static>; 3] = [EventType::Ping, EventType::EventAck, EventType::AgentLeave];

/// Tokens are counted in billionths, so that refilling is exact to the millisecond.
const TOKEN: u64 = 1_000_000_000;

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: u64,
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
        self.buckets.retain(|_, b| now.steady < b.at.saturating_add(IDLE_MS));
    }
}

struct Limit {
    name: String,
    /// Billionths of a token per millisecond, at least one.
    refill: u64,
    burst: u64,
}

fn limit(name: String, value: Option<&Value>, rate: f64, burst: f64) -> Limit {
    let number = |key: &str, default| {
        value.and_then(|v| v.get(key)).and_then(Value::as_f64).filter(|n| *n > 0.0).unwrap_or(default)
    };
    let refill = (number("rate", rate) * 1_000_000.0).round().max(1.0) as u64;
    Limit { name, refill, burst: (number("burst", burst) * TOKEN as f64).round() as u64 }
}

/// Takes one token from every bucket that applies, or from none.
pub(crate) fn check(
    buckets: &mut Buckets,
    config: &ModConfig,
    draft: &PipelineInput<'_, '_>,
    now: Clock,
) -> Result<(), Fault> {
    let drawn = draw(buckets, config, draft, now)?;
    buckets.buckets.extend(drawn);
    Ok(())
}

/// Whether every bucket that applies has a token; takes none.
pub(crate) fn peek(
    buckets: &Buckets,
    config: &ModConfig,
    draft: &PipelineInput<'_, '_>,
    now: Clock,
) -> Result<(), Fault> {
    draw(buckets, config, draft, now).map(drop)
}

type Drawn = Vec<((String, String), Bucket)>;

/// The buckets that apply, each with one token less.
fn draw(buckets: &Buckets, config: &ModConfig, draft: &PipelineInput<'_, '_>, now: Clock) -> Result<Drawn, Fault> {
    let exempt = match config.config.get("exempt") {
        Some(_) => config.list("exempt").any(|p| glob::matches(p, draft.kind)),
        None => EXEMPT.contains(&EventType::of(draft.kind)),
    };
    if exempt {
        return Ok(Vec::new());
    }
    let positive = |key: &str, default| config.number(key).filter(|n| *n > 0.0).unwrap_or(default);
    let (rate, burst) = (positive("rate", 20.0), positive("burst", 60.0));
    let mut limits = vec![limit(String::new(), None, rate, burst)];
    if draft.broadcast {
        limits.push(limit("broadcast".to_owned(), config.config.get("broadcast"), 2.0, 10.0));
    }
    if let Some(per_type) = config.config.get("per_type").and_then(Value::as_object) {
        let matching = per_type.iter().filter(|(p, _)| glob::matches(p, draft.kind));
        limits.extend(matching.map(|(p, v)| limit(format!("type {p}"), Some(v), rate, burst)));
    }
    let mut filled = Vec::with_capacity(limits.len());
    for l in limits {
        let key = (draft.address.to_owned(), l.name);
        let before = buckets.buckets.get(&key).copied().unwrap_or(Bucket { tokens: l.burst, at: now.steady });
        let gained = now.steady.saturating_sub(before.at).saturating_mul(l.refill);
        let tokens = before.tokens.saturating_add(gained).min(l.burst);
        let Some(left) = tokens.checked_sub(TOKEN) else {
            let wait = (TOKEN - tokens).div_ceil(l.refill);
            let details = serde_json::json!({ "retry_after_ms": wait });
            return Err(Fault::new(
                ErrorCode::RateLimited,
                format!("too many events from this source: its rate limit is used up; send again in {wait} ms"),
            )
            .details(details));
        };
        filled.push((key, Bucket { tokens: left, at: now.steady }));
    }
    Ok(filled)
}
