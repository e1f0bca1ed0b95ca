//! Goal 16: members who never read what is said in their channel, a thousand of them, cost the others nothing.

use super::Goal;
use super::growth::{cost, crowded, short};
use super::start::publish_many;
use crate::error::BenchError;
use crate::lab::Lab;
use crate::report::{Bar, Row};

const GOAL: Goal = Goal {
    number: 16,
    name: "cost of a channel event, 1,000 members who never read and 1M events vs none of them",
    unit: "cpu µs",
    bar: Bar::at_most(1.3, 1.05),
    larger: &[],
};

pub(crate) async fn run(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let length = short(lab.options.length());
    let (members, events) = (lab.options.scaled(1_000, 1_000, 10), lab.options.scaled(1_000_000, 1_000_000, 1_000));
    lab.step(format!("goal 16: {members} members and {events} events that they do not read"));
    let (silent, alone) = (lab.network().await?, lab.network().await?);
    let node = lab.rialto().await?;
    crowded(node, &silent, members).await?;
    publish_many(node, &silent, events).await?;
    publish_many(node, &alone, events).await?;
    let mut pairs = Vec::new();
    for pass in 1..=lab.options.passes() {
        lab.step(format!("goal 16: channel events, pass {pass}"));
        let node = lab.rialto().await?;
        let base = cost(node, &alone, "channel/general", length).await?;
        pairs.push((cost(node, &silent, "channel/general", length).await?, base));
    }
    let row = GOAL.compared(&pairs).sized(256);
    Ok(vec![if events < 1_000_000 { row.noted(format!("{events} events only")) } else { row }])
}
