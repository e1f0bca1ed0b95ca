//! `/health`, `/ready`, `/metrics` and the doctor's report.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rialto_carrier::state::{is_listed, listen_is_plain};
use rialto_carrier::{FaceState, Refusal, answer, credentials};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// The process lives.
pub(crate) async fn health() -> Response {
    axum::Json(json!({ "status": "ok" })).into_response()
}

/// 200 when every network takes writes, else 503. A damaged network is named and does not count while others run.
pub(crate) async fn ready(State(state): State<FaceState>) -> Response {
    let health = state.node.store().health();
    let store = state.node.is_ready() && health.logs.iter().all(|l| l.broken.is_none());
    let ready = store;
    let queue = health.logs.iter().map(|l| l.waiting).sum::<u64>();
    let mut body = json!({ "ready": ready, "checks": { "store": store, "listeners": true, "queue": queue } });
    if let (Some(damaged), Some(body)) = (damaged(&state), body.as_object_mut()) {
        body.insert("damaged".to_owned(), damaged);
    }
    (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, axum::Json(body)).into_response()
}

/// How many networks are damaged, and which. Where the damage is, is for the operator (`doctor`); networks that are not listed, too.
fn damaged(state: &FaceState) -> Option<Value> {
    let damaged: Vec<_> = state.node.networks().into_iter().filter(|network| network.damage().is_some()).collect();
    let count = damaged.len() + state.node.lost_networks().len();
    let listed = damaged.iter().filter(|network| is_listed(network));
    let listed: Vec<Value> = listed.map(|network| json!({ "network": network.id(), "read_only": true })).collect();
    (count > 0).then(|| json!({ "count": count, "networks": listed }))
}

/// Picks labelled values out of a network's counters.
type Pick<'a> = &'a dyn Fn(&[(&'static str, u64)]) -> Vec<(String, f64)>;

/// What came of asking mods that run elsewhere.
fn mods(networks: &[rialto_node::Network], out: &mut String) {
    let all: Vec<_> = networks
        .iter()
        .flat_map(|n| n.mod_counters().read().into_iter().map(move |(name, counts)| (n.id(), name, counts)))
        .collect();
    let _ = writeln!(out, "# TYPE rialto_mod_checks_total counter");
    for (network, name, counts) in &all {
        for (outcome, count) in &counts.outcomes {
            let labels = format!("network=\"{network}\",mod=\"{name}\",outcome=\"{}\"", outcome.as_str());
            let _ = writeln!(out, "rialto_mod_checks_total{{{labels}}} {count}");
        }
    }
    let _ = writeln!(out, "# TYPE rialto_mod_seconds_total counter");
    for (network, name, counts) in &all {
        let seconds = counts.millis as f64 / 1e3;
        let _ = writeln!(out, "rialto_mod_seconds_total{{network=\"{network}\",mod=\"{name}\"}} {seconds}");
    }
}

/// Prometheus text.
pub(crate) async fn metrics(State(state): State<FaceState>, headers: HeaderMap) -> Response {
    let mut out = String::new();
    // Networks that are not listed are the operator's to know of.
    let operator = credentials::operator(&state.node, &headers).is_ok();
    let networks: Vec<_> = state.node.networks().into_iter().filter(|n| operator || is_listed(n)).collect();
    let mut row = |name: &str, kind: &str, pick: Pick<'_>| {
        let _ = writeln!(out, "# TYPE rialto_{name} {kind}");
        for network in &networks {
            for (extra, value) in pick(&network.counters().read()) {
                let sep = if extra.is_empty() { "" } else { "," };
                let _ = writeln!(out, "rialto_{name}{{network=\"{}\"{sep}{extra}}} {value}", network.id());
            }
        }
    };
    let get =
        |all: &[(&'static str, u64)], key: &str| all.iter().find(|(k, _)| *k == key).map_or(0.0, |(_, v)| *v as f64);
    row("events_total", "counter", &|c| {
        ["accepted", "refused", "duplicates"].iter().map(|k| (format!("result=\"{k}\""), get(c, k))).collect()
    });
    row("deliveries_total", "counter", &|c| {
        ["delivered", "redelivered", "acked"].iter().map(|k| (format!("outcome=\"{k}\""), get(c, k))).collect()
    });
    row("signals_total", "counter", &|c| vec![(String::new(), get(c, "signals"))]);
    row("dead_letters", "gauge", &|c| vec![(String::new(), get(c, "dead"))]);
    row("sessions", "gauge", &|c| vec![("transport=\"stream\"".to_owned(), get(c, "streams"))]);
    row("members", "gauge", &|c| {
        let (all, online) = (get(c, "members"), get(c, "online"));
        vec![("status=\"online\"".to_owned(), online), ("status=\"offline\"".to_owned(), (all - online).max(0.0))]
    });
    row("commits_total", "counter", &|c| vec![(String::new(), get(c, "commits"))]);
    row("commit_seconds_total", "counter", &|c| vec![(String::new(), get(c, "commit_micros") / 1e6)]);
    row("clock_behind_seconds", "gauge", &|c| vec![(String::new(), get(c, "clock_behind_ms") / 1e3)]);
    let _ = writeln!(out, "# TYPE rialto_search_lag_events gauge");
    for (network, lag) in networks.iter().filter_map(|n| Some((n.id(), n.search_lag()?))) {
        let _ = writeln!(out, "rialto_search_lag_events{{network=\"{network}\"}} {lag}");
    }
    mods(&networks, &mut out);
    crate::analytics::lines(&networks, operator, &mut out).await;
    // Whether content was there already shows in how the store grows: for the operator's eyes only.
    let health = state.node.store().health();
    let sizes = [("store_free_bytes", health.free_bytes), ("store_used_bytes", Some(health.used_bytes))];
    let sizes = sizes.into_iter().filter_map(|(name, value)| Some((name, value?)));
    for (name, value) in sizes.chain(state.node.blobs().metrics()).filter(|_| operator) {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        let _ = writeln!(out, "# TYPE rialto_{name} {kind}\nrialto_{name} {value}");
    }
    let _ =
        writeln!(out, "# TYPE rialto_uptime_seconds counter\nrialto_uptime_seconds {}", state.node.uptime().as_secs());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], out).into_response()
}

/// What came since the start as a rate; none before there is an hour of it, because the first minutes say nothing of a day.
fn per_day(amount: u64, uptime: Duration) -> Option<u64> {
    const DAY_S: u128 = 24 * 3600;
    let seconds = uptime.as_secs();
    (seconds >= 3600).then(|| u64::try_from(u128::from(amount) * DAY_S / u128::from(seconds)).unwrap_or(u64::MAX))
}

/// Live probes and growth.
pub(crate) async fn doctor(State(state): State<FaceState>, headers: HeaderMap) -> Result<Response, Refusal> {
    let caller = credentials::operator(&state.node, &headers)?;
    let health = state.node.store().health();
    let mut checks: Vec<Value> = Vec::new();
    let mut check =
        |name: &str, ok: bool, detail: String| checks.push(json!({ "name": name, "ok": ok, "detail": detail }));
    for log in &health.logs {
        let written = match log.direct {
            None => "",
            Some(true) => ", direct writes",
            Some(false) => ", written through the page cache: this file system or setting takes no direct writes",
        };
        let detail = log.broken.clone().unwrap_or_else(|| {
            format!("lsn {}, durable {}, {} segments{written}", log.last_lsn, log.durable_lsn, log.segments)
        });
        check(&format!("log {}", log.class), log.broken.is_none(), detail);
    }
    check(
        "free space",
        health.free_bytes.is_none_or(|free| free > 256 << 20),
        match health.free_bytes {
            Some(free) => format!("{free} bytes free, {} used by this node", health.used_bytes),
            None => format!("{} bytes used by this node", health.used_bytes),
        },
    );
    check(
        "damage",
        health.notes.is_empty(),
        health.notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    );
    let suspended: Vec<String> = state
        .node
        .networks()
        .iter()
        .flat_map(|n| n.mod_counters().read().into_iter().map(move |(name, counts)| (n.id().to_owned(), name, counts)))
        .filter(|(.., counts)| counts.suspended)
        .map(|(network, name, _)| format!("mod/{name} of network {network} does not answer and is suspended"))
        .collect();
    check("mods", suspended.is_empty(), suspended.join("; "));
    let behind = state.node.networks().iter().map(rialto_node::Network::clock_behind_ms).max().unwrap_or(0);
    let detail = match behind {
        0 => "not behind the last event".to_owned(),
        ms => format!("{} s behind the last event: new events keep its time stamp until then", ms.div_ceil(1000)),
    };
    check("clock", behind <= rialto_node::task::CLOCK_BEHIND_MS, detail);
    for network in state.node.networks() {
        let started = Instant::now();
        let answer = network.session(&caller).network_view().await;
        let took = started.elapsed();
        let detail = match &answer {
            Ok(info) => format!("answers in {} µs, {} events, {} members", took.as_micros(), info.head, info.members),
            Err(fault) => fault.to_string(),
        };
        let detail = match network.damage() {
            Some(damage) => format!("damaged, read-only until `rialto repair`: {damage}; {detail}"),
            None => detail,
        };
        check(&format!("network {}", network.id()), answer.is_ok() && network.is_ready(), detail);
    }
    for lost in state.node.lost_networks() {
        let detail = format!("nothing of it can be read, see `rialto repair`: {}", lost.damage);
        check(&format!("network number {}", lost.number), false, detail);
    }
    let listen = &state.settings.listen;
    let plain = listen_is_plain(listen, state.settings.tls);
    let detail = match (plain, state.settings.tls) {
        (true, _) => format!(
            "{listen} is reached from outside without TLS: tokens and mail can be read on the way; give tls_cert and tls_key, or let a proxy have TLS and listen on loopback"
        ),
        (false, true) => format!("{listen}, TLS"),
        (false, false) => format!("{listen}, this machine only"),
    };
    checks.push(json!({ "name": "listener", "ok": true, "warning": plain, "detail": detail }));
    let accepted: u64 = state
        .node
        .networks()
        .iter()
        .flat_map(|n| n.counters().read())
        .filter(|(k, _)| *k == "accepted")
        .map(|(_, v)| v)
        .sum();
    let ok = checks.iter().all(|c| c.get("ok").and_then(Value::as_bool) == Some(true));
    let uptime = state.node.uptime();
    let grown = health.used_bytes.saturating_sub(state.node.used_bytes_at_start());
    let data = json!({
        "ok": ok, "checks": checks, "uptime_s": uptime.as_secs(),
        "growth": {
            "bytes_used": health.used_bytes, "events_per_day": per_day(accepted, uptime), "bytes_per_day": per_day(grown, uptime),
        },
    });
    Ok(answer::ok(&data))
}

/// Bytes handed to the client at once.
const PIECE: usize = 64 << 10;

/// Turns blocking writes into pieces of a response body.
pub(crate) struct Pipe {
    tx: tokio::sync::mpsc::Sender<Result<bytes::Bytes, std::io::Error>>,
    buf: Vec<u8>,
}

impl std::io::Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.buf.extend_from_slice(bytes);
        if self.buf.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.buf.is_empty() {
            return Ok(());
        }
        let piece = bytes::Bytes::from(std::mem::take(&mut self.buf));
        self.tx.blocking_send(Ok(piece)).map_err(|_| std::io::Error::from(std::io::ErrorKind::BrokenPipe))
    }
}

/// A body written by a blocking function. If it fails, the body breaks off, so that nobody takes it for whole.
pub(crate) fn piped(work: impl FnOnce(&mut Pipe) -> Result<(), String> + Send + 'static) -> Body {
    let (tx, rx) = tokio::sync::mpsc::channel(4);
    tokio::task::spawn_blocking(move || {
        let mut pipe = Pipe { tx: tx.clone(), buf: Vec::new() };
        let done = work(&mut pipe).and_then(|()| std::io::Write::flush(&mut pipe).map_err(|e| e.to_string()));
        if let Err(error) = done {
            tracing::warn!(%error, "a long answer broke off");
            let _ = tx.blocking_send(Err(std::io::Error::other(error)));
        }
    });
    Body::from_stream(futures_util::stream::unfold(rx, |mut rx| async move { rx.recv().await.map(|item| (item, rx)) }))
}

/// `POST /v1/admin/backup`: everything durable now, as one file.
pub(crate) async fn backup(request: crate::request::OperatorRequest) -> Result<Response, Refusal> {
    let node = request.state.node.clone();
    if let Some(network) = node.default_network().filter(|network| network.damage().is_none()) {
        let noted = rialto_node::AdminOp::Noted("node.backup", None);
        network.session(&request.caller).act(request.client.place(), noted).await?;
    }
    let records = node.identities().entries_to_save()?;
    let body = piped(move |pipe| {
        // The books are read first and the content they name last.
        let _content_stays = node.blobs().hold();
        rialto_node::archive::save_with(node.store().as_ref(), &records, pipe).map(|_| ()).map_err(|e| e.to_string())
    });
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

/// `POST /v1/admin/verify`: lines of progress, then the report.
pub(crate) async fn verify(State(state): State<FaceState>, headers: HeaderMap) -> Result<Response, Refusal> {
    credentials::operator(&state.node, &headers)?;
    let mut live = rialto_node::verify::LiveStates::new();
    for network in state.node.networks() {
        live.insert(network.number(), network.state_hash().await?);
    }
    let store = state.node.store().clone();
    let identities = state.node.identities().clone();
    let body = piped(move |pipe| {
        use std::io::Write;
        let mut told = 0;
        let report = rialto_node::verify::verify(store.as_ref(), &live, &mut |done, total| {
            if done.saturating_sub(told) > 4 << 20 {
                told = done;
                let _ = writeln!(pipe, "{}", json!({ "progress": { "done": done, "total": total } }));
                let _ = pipe.flush();
            }
        });
        let mut report = report.map_err(|e| e.to_string())?;
        if let Some(what) = identities.verify_records() {
            report.found(rialto_node::ADMIN_DB, what);
        }
        writeln!(pipe, "{}", json!({ "report": report })).map_err(|e| e.to_string())
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rate_before_an_hour() {
        assert_eq!(per_day(1000, Duration::from_secs(0)), None);
        assert_eq!(per_day(1000, Duration::from_secs(3599)), None);
        assert_eq!(per_day(1000, Duration::from_secs(3600)), Some(24_000));
        assert_eq!(per_day(1000, Duration::from_secs(172_800)), Some(500));
        assert_eq!(per_day(u64::MAX, Duration::from_secs(3600)), Some(u64::MAX));
    }
}
