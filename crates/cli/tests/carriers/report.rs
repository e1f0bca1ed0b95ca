//! The page `docs/interop.md`.

use super::member::{RECEIVING, SENDING};

/// What each pair is put through, in order.
pub const PAIR: [(&str, &str); 5] = [
    ("direct", "a direct message arrives exactly once, and its nine fields are the sender's, payload bytes included"),
    ("channel", "a message to a channel arrives exactly once, and every receiver's copy is the same"),
    ("again", "what was not acked comes again on a new connection"),
    ("acked", "what was acked does not come again on a new connection"),
    ("reply", "a request is answered over the receiver's own carrier, and `in_reply_to` links the two"),
];

/// What each sending carrier is refused, and the code.
pub const REFUSALS: [(&str, &str); 3] = [
    ("an observer's message", "observer_read_only"),
    ("somebody else's `source`", "source_mismatch"),
    ("a target that is not there", "unknown_target"),
];

/// Results by sender, receiver and scenario; by sender and refusal.
#[derive(Debug, Default)]
pub struct Report {
    pub pairs: Vec<(usize, usize, &'static str, Result<(), String>)>,
    pub refusals: Vec<(usize, &'static str, Result<(), String>)>,
}

impl Report {
    fn cell(&self, sender: usize, receiver: usize) -> String {
        let mine: Vec<_> = self.pairs.iter().filter(|(s, r, ..)| (*s, *r) == (sender, receiver)).collect();
        let failed: Vec<&str> =
            mine.iter().filter(|(.., result)| result.is_err()).map(|(_, _, what, _)| *what).collect();
        match (mine.len() == PAIR.len(), failed.is_empty()) {
            (true, true) => "yes".to_owned(),
            (_, false) => format!("no: {}", failed.join(", ")),
            (false, true) => "not tried".to_owned(),
        }
    }

    /// Everything that went wrong, one line each.
    pub fn faults(&self) -> Vec<String> {
        let pairs = self.pairs.iter().filter_map(|(s, r, what, result)| {
            let why = result.as_ref().err()?;
            Some(format!("{} to {}, {what}: {why}", SENDING[*s].1, RECEIVING[*r].1))
        });
        let refusals = self
            .refusals
            .iter()
            .filter_map(|(s, what, result)| Some(format!("{}, {what}: {}", SENDING[*s].1, result.as_ref().err()?)));
        pairs.chain(refusals).collect()
    }

    /// The page.
    pub fn page(&self) -> String {
        let mut out = String::from(
            "# Interop\n\nWhoever sends over the carrier of a row is heard over the carrier of a column. \
             The test [`carriers.rs`](../crates/cli/tests/carriers.rs)\nruns every pair against the real binary and \
             keeps this page: `UPDATE_EXPECT=1 cargo test -p rialto-cli --test carriers`.\n\n",
        );
        out.push_str("| from \\ to |");
        RECEIVING.iter().for_each(|(_, name)| out.push_str(&format!(" {name} |")));
        out.push_str(&format!("\n|---|{}\n", "---|".repeat(RECEIVING.len())));
        for (s, (_, name)) in SENDING.iter().enumerate() {
            out.push_str(&format!("| {name} |"));
            (0..RECEIVING.len()).for_each(|r| out.push_str(&format!(" {} |", self.cell(s, r))));
            out.push('\n');
        }
        out.push_str("\n\"Yes\" means that all of these hold for the pair:\n\n");
        PAIR.iter().for_each(|(name, what)| out.push_str(&format!("- {name}: {what}\n")));
        out.push_str("\nRefused alike on every carrier that sends, with nothing stored:\n\n| |");
        SENDING.iter().for_each(|(_, name)| out.push_str(&format!(" {name} |")));
        out.push_str(&format!("\n|---|{}\n", "---|".repeat(SENDING.len())));
        for (what, code) in REFUSALS {
            out.push_str(&format!("| {what} |"));
            for s in 0..SENDING.len() {
                let fine = self.refusals.iter().any(|(i, w, result)| (*i, *w) == (s, what) && result.is_ok());
                out.push_str(if fine { " `" } else { " not `" });
                out.push_str(&format!("{code}` |"));
            }
            out.push('\n');
        }
        out.push_str(
            "\nA reader of the log acks by moving its cursor; SSE acks by `Last-Event-ID`; HTTP by `POST /v1/ack`; \
             gRPC Poll by `ack_ids`; the\nstreams by `network.event.ack`.\n",
        );
        out
    }
}
