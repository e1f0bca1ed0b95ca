//! What a run found: goals with their gates, rows beside them, and a verdict.

use crate::stats::median;
use serde::Serialize;

/// What became of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Holds the gate.
    Pass,
    /// Reaches the stretch as well.
    Stretch,
    /// Below the gate.
    Fail,
    /// Could not be measured here.
    Skip,
}

/// Which way a number should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// The more the better.
    Higher,
    /// The less the better.
    Lower,
}

/// A bar to clear.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bar {
    pub(crate) gate: f64,
    pub(crate) stretch: f64,
    pub(crate) better: Better,
}

impl Bar {
    /// The more the better.
    pub(crate) const fn at_least(gate: f64, stretch: f64) -> Bar {
        Bar { gate, stretch, better: Better::Higher }
    }

    /// The less the better.
    pub(crate) const fn at_most(gate: f64, stretch: f64) -> Bar {
        Bar { gate, stretch, better: Better::Lower }
    }

    fn judge(&self, value: f64) -> Verdict {
        let clears = |bar: f64| match self.better {
            Better::Higher => value >= bar,
            Better::Lower => value <= bar,
        };
        match (clears(self.stretch), clears(self.gate)) {
            (true, _) => Verdict::Stretch,
            (false, true) => Verdict::Pass,
            (false, false) => Verdict::Fail,
        }
    }
}

/// Which row it is: a goal's number, or the name of a row beside the goals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RowId {
    /// A goal.
    Goal(u32),
    /// Another row.
    Row(String),
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub id: RowId,
    /// In words.
    pub name: String,
    /// Bytes of one event, where it matters.
    pub size: Option<u64>,
    /// What was measured, the median of the passes.
    pub measured: Option<f64>,
    /// Its unit.
    pub unit: &'static str,
    /// What it is compared with, in the same unit.
    pub peer: Option<f64>,
    /// The median of the passes' ratios.
    pub ratio: Option<f64>,
    /// What must be reached: by the ratio, or by what was measured where there is no peer.
    pub gate: Option<f64>,
    /// What should be reached.
    pub stretch: Option<f64>,
    /// Which way the judged number should go.
    pub better: Option<Better>,
    /// The judgement; none for a row without a gate.
    pub verdict: Option<Verdict>,
    /// How often it was measured.
    pub passes: usize,
    /// Every pass's ratio, or what it measured.
    pub spread: Vec<f64>,
    /// What else is to be known.
    pub note: Option<String>,
}

impl Row {
    fn blank(id: RowId, name: &str, unit: &'static str) -> Row {
        Row {
            id,
            name: name.to_owned(),
            size: None,
            measured: None,
            unit,
            peer: None,
            ratio: None,
            gate: None,
            stretch: None,
            better: None,
            verdict: None,
            passes: 0,
            spread: Vec::new(),
            note: None,
        }
    }

    /// A goal that compares: pairs of what was measured and the peer's, one per pass.
    pub(crate) fn compared(goal: u32, name: &str, unit: &'static str, bar: Bar, pairs: &[(f64, f64)]) -> Row {
        let mut row = Row::beside(name, unit, pairs);
        row.id = RowId::Goal(goal);
        row.judged(bar)
    }

    /// A goal with a bar of its own unit.
    pub(crate) fn absolute(goal: u32, name: &str, unit: &'static str, bar: Bar, values: &[f64]) -> Row {
        let mut row = Row::plain(name, unit, values);
        row.id = RowId::Goal(goal);
        row.judged(bar)
    }

    /// A row that compares without being judged.
    pub(crate) fn beside(name: &str, unit: &'static str, pairs: &[(f64, f64)]) -> Row {
        let ratios: Vec<f64> = pairs.iter().map(|(ours, peer)| ours / peer.max(1e-12)).collect();
        Row {
            measured: median(&pairs.iter().map(|p| p.0).collect::<Vec<_>>()),
            peer: median(&pairs.iter().map(|p| p.1).collect::<Vec<_>>()),
            ratio: median(&ratios),
            passes: pairs.len(),
            spread: ratios,
            ..Row::blank(RowId::Row(slug(name)), name, unit)
        }
    }

    /// A row that only tells.
    pub(crate) fn plain(name: &str, unit: &'static str, values: &[f64]) -> Row {
        let blank = Row::blank(RowId::Row(slug(name)), name, unit);
        Row { measured: median(values), passes: values.len(), spread: values.to_vec(), ..blank }
    }

    /// A goal that could not be measured.
    pub(crate) fn skipped(goal: u32, name: &str, unit: &'static str, bar: Bar, why: &str) -> Row {
        Row::blank(RowId::Goal(goal), name, unit).judged(bar).noted(why)
    }

    /// A row whose measurement failed.
    pub(crate) fn failed(id: RowId, why: &str) -> Row {
        Row { verdict: Some(Verdict::Fail), ..Row::blank(id, "could not be measured", "") }.noted(why)
    }

    /// Judges the ratio, or what was measured where there is no peer.
    pub(crate) fn judged(mut self, bar: Bar) -> Row {
        let value = self.ratio.or(self.measured);
        self.verdict = Some(value.map_or(Verdict::Skip, |value| bar.judge(value)));
        (self.gate, self.stretch, self.better) = (Some(bar.gate), Some(bar.stretch), Some(bar.better));
        self
    }

    pub(crate) fn sized(mut self, size: usize) -> Row {
        self.size = Some(size as u64);
        self
    }

    pub(crate) fn noted(mut self, note: impl Into<String>) -> Row {
        self.note = Some(note.into());
        self
    }
}

fn slug(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.ends_with('-') {
            out.push('-');
        }
    }
    out.trim_matches('-').to_owned()
}

/// The machine it was measured on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Host {
    /// Operating system and kernel.
    pub system: String,
    /// Processor.
    pub cpu: String,
    /// Processors this program may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The file system below the data.
    pub file_system: String,
    /// Load when the run began.
    pub load: String,
    /// Our version, and whether it was built for speed.
    pub rialto: String,
    /// The peer's version.
    pub nats: Option<String>,
}

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Of this form.
    pub version: u32,
    /// Where.
    pub host: Host,
    /// Rows with a gate.
    pub goals: Vec<Row>,
    /// Rows beside them.
    pub rows: Vec<Row>,
    /// Whether gates decide how the command ends.
    pub enforced: bool,
    /// Every goal that was asked for was measured and holds its gate.
    pub ok: bool,
}

impl Report {
    pub(crate) fn new(host: Host, all: Vec<Row>, enforced: bool) -> Report {
        let (goals, rows): (Vec<Row>, Vec<Row>) = all.into_iter().partition(|row| matches!(row.id, RowId::Goal(_)));
        let ok = goals.iter().chain(&rows).all(Row::holds);
        Report { version: 1, host, goals, rows, enforced, ok }
    }

    /// Rows that do not hold their gate or could not be measured.
    pub fn wrong(&self) -> impl Iterator<Item = &Row> {
        self.goals.iter().chain(&self.rows).filter(|row| !row.holds())
    }
}

impl Row {
    /// Goal 2 needs a newer peer than most machines have: it may be left out.
    fn may_be_skipped(&self) -> bool {
        self.id == RowId::Goal(2)
    }

    fn holds(&self) -> bool {
        match self.verdict {
            None | Some(Verdict::Pass | Verdict::Stretch) => true,
            Some(Verdict::Fail) => false,
            Some(Verdict::Skip) => self.may_be_skipped(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn host() -> Host {
        Host {
            system: "Linux".into(),
            cpu: "x".into(),
            cores: 2,
            memory_bytes: 1,
            file_system: "ext4".into(),
            load: "0.1".into(),
            rialto: "0.1.0".into(),
            nats: None,
        }
    }

    #[test]
    fn verdicts_both_ways() {
        let more = Bar::at_least(4.0, 8.0);
        assert_eq!([3.9, 4.0, 7.9, 8.0].map(|v| more.judge(v)), {
            use Verdict::{Fail, Pass, Stretch};
            [Fail, Pass, Pass, Stretch]
        });
        let less = Bar::at_most(1.3, 0.9);
        assert_eq!([1.4, 1.3, 0.9].map(|v| less.judge(v)), [Verdict::Fail, Verdict::Pass, Verdict::Stretch]);
    }

    #[test]
    fn ratios_are_made_per_pass() {
        // The medians of both sides would give 3; the passes say 2, 2 and 30.
        let pairs = [(20.0, 10.0), (60.0, 2.0), (200.0, 100.0)];
        let row = Row::compared(1, "a", "/cpu-s", Bar::at_least(1.5, 9.0), &pairs);
        assert_eq!((row.ratio, row.measured, row.peer, row.passes), (Some(2.0), Some(60.0), Some(10.0), 3));
        assert_eq!(row.verdict, Some(Verdict::Pass));
    }

    #[test]
    fn the_json_has_the_agreed_form() {
        let goal = Row::compared(1, "durable publish", "/cpu-s", Bar::at_least(4.0, 8.0), &[(50.0, 10.0)]).sized(256);
        let limit = Row::plain("loopback one way", "msg/s", &[7.0]);
        let report = Report::new(host(), vec![goal, limit], true);
        let value = serde_json::to_value(&report).unwrap();
        assert_eq!(value["version"], 1);
        assert_eq!((&value["enforced"], &value["ok"]), (&json!(true), &json!(true)));
        let goal = &value["goals"][0];
        for key in ["id", "name", "size", "measured", "unit", "peer", "ratio", "gate", "stretch", "verdict", "passes"] {
            assert!(goal.get(key).is_some(), "{key}");
        }
        assert_eq!((&goal["id"], &goal["verdict"], &goal["passes"]), (&json!(1), &json!("pass"), &json!(1)));
        assert_eq!(value["rows"][0]["id"], "loopback-one-way");
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        let bar = Bar::at_least(1.0, 2.0);
        let skipped = |goal| Report::new(host(), vec![Row::skipped(goal, "x", "/s", bar, "no peer")], true);
        assert!(!skipped(1).ok);
        assert_eq!(skipped(1).wrong().count(), 1);
        assert!(skipped(2).ok, "goal 2 is only for machines that have the newer peer");
        let failed = Report::new(host(), vec![Row::compared(1, "x", "/s", bar, &[(1.0, 2.0)])], false);
        assert!(!failed.ok);
        let broken = Report::new(host(), vec![Row::failed(RowId::Goal(2), "the disk is full")], false);
        assert_eq!((broken.ok, broken.goals[0].note.as_deref()), (false, Some("the disk is full")));
        let slow_row = Row::plain("search", "/cpu-s", &[1.0]).judged(Bar::at_least(60.0, 150.0));
        assert!(!Report::new(host(), vec![slow_row], false).ok);
    }
}
