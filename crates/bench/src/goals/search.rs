//! The search row: events with text per CPU second of everything, until the index has caught up.

use super::start::publish_these;
use crate::budget::{Budget, Length};
use crate::error::BenchError;
use crate::lab::Lab;
use crate::report::{Bar, Row};
use crate::rialto::{Network, Rialto, text_event};
use std::time::{Duration, Instant};

const BAR: Bar = Bar::at_least(60_000.0, 150_000.0);
/// The index has caught up after this long, or never will.
const WITHIN: Duration = Duration::from_secs(300);

pub(crate) async fn run(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let many = lab.options.scaled(200_000, 40_000, 500);
    let mut rates = Vec::new();
    for pass in 1..=lab.options.passes() {
        lab.step(format!("search: {many} events with text, pass {pass}"));
        let network = lab.network().await?;
        rates.push(indexed(lab.rialto().await?, &network, many).await?);
    }
    let row = Row::plain("search: events with text, index caught up", "events/cpu-s", &rates);
    Ok(vec![row.sized(256).judged(BAR)])
}

/// Events with text per CPU second of everything, the index included.
pub(crate) async fn indexed(node: &Rialto, network: &Network, many: u64) -> Result<f64, BenchError> {
    while node.metric("rialto_search_lag_events", network).await? > 0.0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let text = text_event(256, "agent:by", "channel/general")?;
    let budget = Budget::begin(node.pid(), Length { cpu: Duration::MAX, wall: Duration::MAX })?;
    publish_these(node, network, "by", &text, many).await?;
    let began = Instant::now();
    while node.metric("rialto_search_lag_events", network).await? > 0.0 {
        if began.elapsed() > WITHIN {
            return Err(BenchError::Timeout("the search index".to_owned()));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(budget.end_with_everything(many)?.per_cpu_second())
}
