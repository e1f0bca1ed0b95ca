//! Views: what whoever may look is shown of each noun. One type per noun; its JSON and its schema come from the type.
//!
//! Invariant: a view has no secret and nothing its viewer may not know; whoever makes it has decided that (`rialto-engine`).
//! Addresses and names are canonical text, stamps are Unix milliseconds.
//! Not here: the words and shapes of single protocols, which the faces write.

mod admin;
mod analytics;
mod audit;
mod channel;
mod conversation;
mod dead_letter;
mod explanation;
mod file;
mod identity;
mod invitation;
mod member;
mod mods;
mod network;
mod report;
mod resource;
mod roster;
mod work;
mod workspace;

pub use admin::{AdminOutcome, Done, RedactionView};
pub use analytics::{AnalyticsView, CountsView, RefusalCount, SourceCount, TargetCount, TypeCount};
pub use audit::{AuditEntry, AuditList};
pub use channel::{ChannelList, ChannelView};
pub use conversation::{
    ConversationCounts, ConversationList, ConversationView, LastMessage, LatestEvent, RoomList, RoomView, ThreadList,
    ThreadRoot, ThreadView,
};
pub use dead_letter::{
    DeadLetterLedger, DeadLetterList, DeadLetterView, DroppedLetters, LetterEvent, LettersRetried, OpenLetter,
    RefusedRetry, RetriedLetter,
};
pub use explanation::{ExplainedWork, Explanation, Refused, Rung, Step, Stored, Verdicts};
pub use file::{FileList, FileView};
pub use identity::ChallengeView;
pub use invitation::{InvitationIssued, InvitationList, InvitationView};
pub use member::{MeView, MemberSessions, MemberView, MembersList, Presence, SessionView, bare_name};
pub use mods::{ApprovedMod, ModKind, ModList, ModSetting, ModView};
pub use network::{AccessView, GroupList, GroupView, NetworkView, ProfileView, TokenList, TokenView};
pub use report::{
    DamagedPlace, KeptState, LostEvents, Problem, RepairReport, RepairedNetwork, VerificationReport, VerifiedNetwork,
};
pub use resource::{Backing, ResourceList, ResourceSummary, ResourceView};
pub use roster::{ChannelSection, Roster, Section};
pub use work::{ArtifactView, ExecutorStatus, WorkList, WorkView};
pub use workspace::WorkspaceView;

/// Whether a flag is off: such flags are left out.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_off(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Serialize;
    use serde_json::Value;

    /// The JSON of an example, and that its schema knows every member of it.
    #[track_caller]
    pub(super) fn check<T: Serialize + JsonSchema>(example: &T, json: &str) {
        let shown = serde_json::to_value(example).unwrap();
        let wanted: Value = serde_json::from_str(json).unwrap();
        assert_eq!(shown, wanted);
        let schema = schemars::schema_for!(T).to_value().to_string();
        for key in shown.as_object().into_iter().flatten().map(|(key, _)| key) {
            assert!(schema.contains(&format!("\"{key}\":")), "the schema does not know {key}: {schema}");
        }
    }
}
