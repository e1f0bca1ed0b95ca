//! The goals, one module per kind of measurement.

pub(crate) mod end_to_end;
pub(crate) mod fan_out;
pub(crate) mod publish;

use crate::budget::Sample;
use crate::error::BenchError;
use crate::lab::Lab;
use crate::plan::Part;
use crate::report::{Bar, Row};

/// Unpaired messages on their way at most: publishes without an ack, deliveries not yet received.
pub(crate) const WINDOW: u64 = 4096;

/// A goal in words, its unit and its bar.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) bar: Bar,
}

impl Goal {
    pub(crate) fn compared(&self, pairs: &[(f64, f64)]) -> Row {
        Row::compared(self.number, self.name, self.unit, self.bar, pairs)
    }

    pub(crate) fn skipped(&self, why: &str) -> Row {
        Row::skipped(self.number, self.name, self.unit, self.bar, why)
    }
}

/// Runs everything that was asked for.
pub(crate) async fn run(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    lab.total = steps(lab);
    if lab.options.wants(Part::Goal(1)) {
        rows.extend(publish::run(lab).await?);
    }
    if lab.options.wants(Part::Goal(3)) {
        rows.extend(end_to_end::run(lab).await?);
    }
    if lab.options.wants(Part::Goal(5)) {
        rows.extend(fan_out::run(lab).await?);
    }
    lab.clear();
    Ok(rows)
}

/// Measurements ahead, about.
fn steps(lab: &Lab<'_>) -> u64 {
    let (passes, sizes) = (lab.options.passes() as u64, lab.options.sizes().len() as u64);
    let each = |part, n: u64| if lab.options.wants(part) { n } else { 0 };
    each(Part::Goal(1), 3 * passes * sizes)
        + each(Part::Goal(3), 2 * passes * sizes)
        + each(Part::Goal(5), 4 * passes * sizes)
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
