//! What looking at a whole store finds: the reports of verifying and of repairing it.

use crate::{Millis, Seq};
use schemars::JsonSchema;
use serde::Serialize;

/// Something that is wrong in a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// The file it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Where in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Number of the network it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<u32>,
    /// Hash of the blob it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// What is wrong.
    pub what: String,
}

/// What was found of a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum VerifiedNetwork {
    /// Its state was rebuilt.
    Rebuilt {
        /// Its number.
        network: u32,
        /// Its id.
        id: Box<str>,
        /// Position of its last event.
        events: Seq,
        /// Hash of its state.
        state: String,
        /// Blobs that its state names.
        blobs: u64,
        /// The state was also rebuilt from the start of the log.
        from_start: bool,
        /// The state was compared with that of a running node.
        compared_with_live: bool,
    },
    /// Its state cannot be rebuilt; a problem says why.
    Failed {
        /// Its number.
        network: u32,
        /// False.
        ok: bool,
    },
    /// It is what is left of an import that came to nothing.
    Unfinished {
        /// Its number.
        network: u32,
        /// True.
        unfinished_import: bool,
    },
}

/// What verifying a store found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VerificationReport {
    /// Nothing is wrong.
    pub ok: bool,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// Records whose checksum was right.
    pub records: u64,
    /// Segments that were read.
    pub segments: u64,
    /// Snapshots that were read.
    pub snapshots: u64,
    /// Blobs that were read.
    pub blobs: u64,
    /// The networks; none where records are damaged.
    pub networks: Vec<VerifiedNetwork>,
    /// What was wrong and counts as gone since a repair.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub written_off: Vec<String>,
}

impl VerificationReport {
    /// Adds what is wrong with a file.
    pub fn found(&mut self, file: &str, what: String) {
        self.ok = false;
        self.problems.push(Problem { file: Some(file.to_owned()), what, ..Problem::default() });
    }
}

/// A place of the log that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DamagedPlace {
    /// The file.
    pub file: String,
    /// Where in the file.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
    /// How many records are lost there.
    pub records: u64,
    /// Number of the network they were of, if that can be told.
    pub network: Option<u32>,
}

/// The state that a network goes back to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KeptState {
    /// Its id.
    pub id: Box<str>,
    /// Its name.
    pub name: String,
    /// Position of its last event then.
    pub events_kept: Seq,
}

/// Events that go although they can be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LostEvents {
    /// How many.
    pub events_lost: u64,
    /// When the first of them was sent.
    pub first_lost: Option<Millis>,
    /// When the last of them was sent.
    pub last_lost: Option<Millis>,
}

/// What a repair does to a network that lost something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RepairedNetwork {
    /// Its number.
    pub number: u32,
    /// What becomes of it.
    pub fate: String,
    /// What it goes back to, if it does.
    #[serde(flatten)]
    pub kept: Option<KeptState>,
    /// What is wrong, if its state is concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// What goes with that.
    #[serde(flatten)]
    pub lost: Option<LostEvents>,
}

/// What damage has cost, and what a repair does about it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RepairReport {
    /// There is nothing to repair.
    pub ok: bool,
    /// Where the log cannot be read.
    pub damage: Vec<DamagedPlace>,
    /// Networks that lost something.
    pub networks: Vec<RepairedNetwork>,
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn a_report_of_verifying() {
        let problem = Problem { file: Some("log/1".to_owned()), offset: Some(7), ..Problem::default() };
        let problem = Problem { what: "bad checksum".to_owned(), ..problem };
        let blob =
            Problem { network: Some(1), blob: Some("ab".to_owned()), what: "missing".to_owned(), ..Problem::default() };
        let networks = vec![
            VerifiedNetwork::Rebuilt {
                network: 1,
                id: "home".into(),
                events: 9,
                state: "cd".to_owned(),
                blobs: 2,
                from_start: true,
                compared_with_live: false,
            },
            VerifiedNetwork::Failed { network: 2, ok: false },
            VerifiedNetwork::Unfinished { network: 3, unfinished_import: true },
        ];
        let report = VerificationReport {
            problems: vec![problem, blob],
            records: 4,
            segments: 1,
            snapshots: 2,
            blobs: 3,
            networks,
            written_off: vec!["log/0 at offset 1".to_owned()],
            ..VerificationReport::default()
        };
        let json = r#"{"ok":false,"problems":[{"file":"log/1","offset":7,"what":"bad checksum"},
            {"network":1,"blob":"ab","what":"missing"}],"records":4,"segments":1,"snapshots":2,"blobs":3,
            "networks":[{"network":1,"id":"home","events":9,"state":"cd","blobs":2,"from_start":true,
            "compared_with_live":false},{"network":2,"ok":false},{"network":3,"unfinished_import":true}],
            "written_off":["log/0 at offset 1"]}"#;
        check(&report, json);
    }

    #[test]
    fn a_report_of_repairing() {
        let place = DamagedPlace {
            file: "log/1".to_owned(),
            offset: 7,
            what: "bad checksum".to_owned(),
            records: 2,
            network: None,
        };
        let history = RepairedNetwork { number: 1, fate: "goes on".to_owned(), kept: None, damage: None, lost: None };
        let cut = RepairedNetwork {
            number: 2,
            fate: "goes back".to_owned(),
            kept: Some(KeptState { id: "home".into(), name: "Home".to_owned(), events_kept: 3 }),
            damage: Some("bad checksum".to_owned()),
            lost: Some(LostEvents::default()),
        };
        let report = RepairReport { ok: false, damage: vec![place], networks: vec![history, cut] };
        let json = r#"{"ok":false,
            "damage":[{"file":"log/1","offset":7,"what":"bad checksum","records":2,"network":null}],
            "networks":[{"number":1,"fate":"goes on"},{"number":2,"fate":"goes back","id":"home","name":"Home",
            "events_kept":3,"damage":"bad checksum","events_lost":0,"first_lost":null,"last_lost":null}]}"#;
        check(&report, json);
    }
}
