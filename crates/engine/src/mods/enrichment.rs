//! mod/enrichment: adds who sent it and when it came in, and never overwrites what the sender said.

use super::{ModConfig, PipelineInput};
use crate::state::State;
use serde_json::json;

/// Its name.
pub(crate) const NAME: &str = "enrichment";

/// Adds the configured keys to the metadata.
pub(crate) fn enrich(state: &State, config: &ModConfig, draft: &mut PipelineInput<'_, '_>) {
    if config.flag("agent_info", true)
        && let Some(member) = draft.source.and_then(|id| state.member(id))
    {
        let mut info = json!({ "role": member.role().as_str(), "verification": member.verification });
        if let (Some(kind), Some(map)) = (&member.profile.agent_type, info.as_object_mut()) {
            map.insert("agent_type".into(), json!(kind));
        }
        draft.metadata.set("source_info", info.to_string());
    }
    if config.flag("timestamps", true) {
        draft.metadata.set("received_at", draft.stamp.to_string());
    }
    if config.flag("trace", true) && draft.metadata.get("traceparent").is_none() {
        draft.metadata.set("traceparent", format!("\"{}\"", traceparent(state, draft)));
    }
    if let Some(fixed) = config.config.get("static").and_then(|v| v.as_object()) {
        for (key, value) in fixed {
            if draft.metadata.get(key).is_none() {
                draft.metadata.set_owned(key.clone(), value.to_string());
            }
        }
    }
}

/// A trace id that is the same for the same state and input: hashed from network, position and sender.
fn traceparent(state: &State, draft: &PipelineInput<'_, '_>) -> String {
    let text = format!("{}/{}/{}/{}", state.book.id, state.next_seq(), draft.stamp, draft.address);
    let trace = xxhash_rust::xxh3::xxh3_128(text.as_bytes()) | 1;
    let parent = xxhash_rust::xxh3::xxh3_64(text.as_bytes()) | 1;
    format!("00-{trace:032x}-{parent:016x}-00")
}
