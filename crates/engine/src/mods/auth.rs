//! mod/auth: per event, is the credential still good and the level high enough, and is the sender welcome?

use super::{ModConfig, PipelineInput};
use crate::glob;
use crate::input::Clock;
use crate::state::State;
use rialto_model::{ErrorCode, Fault};

/// Refuses when the member's token was revoked, its level is too low, or a list says no.
pub(crate) fn check(state: &State, config: &ModConfig, draft: &PipelineInput<'_, '_>, now: Clock) -> Result<(), Fault> {
    let denied = config.list("deny").any(|p| glob::matches(p, draft.address));
    let mut allow = config.list("allow").peekable();
    let unlisted = allow.peek().is_some() && !allow.any(|p| glob::matches(p, draft.address));
    if denied || unlisted {
        return Err(Fault::new(
            ErrorCode::Forbidden,
            format!("mod/auth lets {} send nothing in this network: its operator keeps the lists", draft.address),
        ));
    }
    // Whoever joins has just shown its credential.
    let member = draft.source.and_then(|id| state.member(id));
    let good = |label: &String| {
        state.book.tokens.iter().any(|t| &t.label == label && t.expires_at.is_none_or(|end| now.wall < end))
    };
    if config.flag("recheck", true)
        && let Some(member) = member
        && let Some(label) = &member.token
        && (member.token_revoked || !good(label))
    {
        return Err(Fault::new(
            ErrorCode::InvalidToken,
            "the token this member joined with was revoked or has expired: join again with another",
        ));
    }
    let per_type = config.config.get("require_level").and_then(|v| v.as_object()).into_iter().flatten();
    let wanted = per_type
        .filter(|(pattern, _)| glob::matches(pattern, draft.kind))
        .filter_map(|(_, level)| level.as_u64())
        .max()
        .unwrap_or(0)
        .max(u64::from(state.book.settings.min_verification));
    if u64::from(draft.verification) < wanted {
        let details = serde_json::json!({ "required": wanted, "presented": draft.verification });
        let text = format!("{} needs verification level {wanted}", draft.kind);
        return Err(Fault::new(ErrorCode::VerificationRequired, text).details(details));
    }
    Ok(())
}
