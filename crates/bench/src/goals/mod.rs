//! The goals, one module per kind of measurement.

pub(crate) mod carriers;
pub(crate) mod disk;
pub(crate) mod end_to_end;
pub(crate) mod fan_out;
pub(crate) mod growth;
pub(crate) mod limits;
pub(crate) mod nouns;
pub(crate) mod publish;
pub(crate) mod search;
pub(crate) mod start;
pub(crate) mod unread;

use crate::budget::Sample;
use crate::error::{BenchError, Doing};
use crate::lab::Lab;
use crate::plan::{LAST_GOAL, Part};
use crate::report::{Bar, Row, RowId};

/// Unpaired messages on their way at most: publishes without an ack, deliveries not yet received.
pub(crate) const WINDOW: u64 = 4096;

/// A goal in words, its unit and its bar.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) bar: Bar,
    /// Bars of events that are larger than [`SIZE`].
    pub(crate) larger: &'static [(usize, Bar)],
}

impl Goal {
    pub(crate) fn compared(&self, pairs: &[(f64, f64)]) -> Row {
        Row::compared(self.number, self.name, self.unit, self.bar, pairs)
    }

    /// Judged at the sizes the goal is about, only told at others.
    pub(crate) fn compared_at(&self, size: usize, pairs: &[(f64, f64)]) -> Row {
        let larger = || self.larger.iter().find(|(at, _)| *at == size).map(|(_, bar)| *bar);
        let bar = if size == SIZE { Some(self.bar) } else { larger() };
        let row = match bar {
            Some(bar) => Goal { bar, ..*self }.compared(pairs),
            None => Row::beside(self.name, self.unit, pairs),
        };
        row.sized(size)
    }

    pub(crate) fn skipped(&self, why: &str) -> Row {
        Row::skipped(self.number, self.name, self.unit, self.bar, why)
    }
}

/// Bytes of an event that goals are about.
const SIZE: usize = 256;

/// Runs everything that was asked for, each goal with fresh servers.
pub(crate) async fn run(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    lab.total = steps(lab);
    for number in 1..=LAST_GOAL {
        // The limits stand beside the goal that is made of them.
        if lab.options.wants(Part::Goal(number)) || number == LIMITS && lab.options.wants(Part::Limits) {
            let found = goal(lab, number).await;
            rows.extend(or_why_not(lab, RowId::Goal(number), found));
        }
    }
    if lab.options.wants(Part::Search) {
        let found = search::run(lab).await;
        rows.extend(or_why_not(lab, RowId::Row("search".to_owned()), found));
    }
    if let Some(file) = &lab.options.curves {
        let curves = growth::curves(lab).await?;
        std::fs::write(file, crate::svg::draw(&curves)).doing(format!("write {}", file.display()))?;
        rows.extend(curves.rows());
    }
    Ok(rows)
}

/// The goal that is made of the machine's limits.
const LIMITS: u32 = 4;

async fn goal(lab: &mut Lab<'_>, number: u32) -> Result<Vec<Row>, BenchError> {
    match number {
        1 => publish::run(lab).await,
        2 => publish::always(lab).await,
        3 => end_to_end::run(lab).await,
        LIMITS => {
            let with_goal = lab.options.wants(Part::Goal(LIMITS));
            limits::run(lab, with_goal).await
        }
        5 => fan_out::run(lab).await,
        6 => carriers::core(lab).await,
        7 => carriers::http(lab).await,
        8 => carriers::grpc(lab).await,
        9 => start::memory(lab).await,
        10 => start::after_a_kill(lab).await,
        11 => disk::run(lab).await,
        12 => start::cold(lab).await,
        13 => growth::run(lab).await,
        14 => nouns::invoke(lab).await,
        15 => nouns::content(lab).await,
        16 => unread::run(lab).await,
        _ => Ok(Vec::new()),
    }
}

/// What failed is a row that says why, so that the rest of a long run is not lost.
fn or_why_not(lab: &mut Lab<'_>, id: RowId, found: Result<Vec<Row>, BenchError>) -> Vec<Row> {
    lab.clear();
    found.unwrap_or_else(|error| vec![Row::failed(id, &error.to_string())])
}

/// Measurements ahead, about.
fn steps(lab: &Lab<'_>) -> u64 {
    let (passes, sizes) = (lab.options.passes() as u64, lab.options.sizes().len() as u64);
    let goals = [
        (1, 3 * passes * sizes),
        (2, 2 * passes),
        (3, 2 * passes * sizes),
        (4, passes * (1 + sizes)),
        (5, 4 * passes * sizes),
        (6, 2 * passes),
        (7, 2 * passes),
        (8, 2 * passes),
        (9, 2),
        (10, 1 + passes),
        (11, 3),
        (12, passes),
        (13, 2 + 4 * passes),
        (14, passes),
        (15, passes),
        (16, 1 + passes),
    ];
    let goals = goals.iter().filter(|(goal, _)| lab.options.wants(Part::Goal(*goal))).map(|(_, n)| n).sum::<u64>();
    let search = if lab.options.wants(Part::Search) { passes } else { 0 };
    goals + search + lab.options.curves.as_ref().map_or(0, |_| 20)
}

/// What both sides did, as rates per CPU second.
pub(crate) fn per_cpu(pairs: &[(Sample, Sample)]) -> Vec<(f64, f64)> {
    pairs.iter().map(|(ours, peer)| (ours.per_cpu_second(), peer.per_cpu_second())).collect()
}

/// Wall rates of both sides, for people who want to know.
pub(crate) fn wall(pairs: &[(Sample, Sample)]) -> String {
    let of = |pick: fn(&(Sample, Sample)) -> &Sample| {
        let rates: Vec<f64> = pairs.iter().map(|pair| pick(pair).per_second()).collect();
        crate::stats::median(&rates).unwrap_or_default()
    };
    format!("wall {:.0}/s against {:.0}/s", of(|p| &p.0), of(|p| &p.1))
}
