//! The one registry of error codes (OpenAgents sheet, section 13) and the value that carries a refusal.
//!
//! Every face maps [`ErrorCode`] in one exhaustive table of its own; [`ErrorKind`] serves logs and exit codes only.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $kind:ident, $retry:literal;)*) => {
        /// A reason for refusing, by the name it has on every wire.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ErrorCode { $($(#[$doc])* $name,)* }

        impl ErrorCode {
            /// Every code, in the order of the registry.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$name,)*];

            /// The name on the wire.
            pub fn as_str(self) -> &'static str { match self { $(Self::$name => $text,)* } }

            /// The coarse kind, for logs and exit codes.
            pub fn kind(self) -> ErrorKind { match self { $(Self::$name => ErrorKind::$kind,)* } }

            /// Whether the same request may succeed later without a change.
            pub fn retryable(self) -> bool { match self { $(Self::$name => $retry,)* } }

            /// The code of this wire name.
            pub fn from_wire(text: &str) -> Option<ErrorCode> { match text { $($text => Some(Self::$name),)* _ => None } }
        }
    };
}

codes! {
    /// Not JSON at all.
    InvalidJson = "invalid_json", BadInput, false;
    /// A field is missing, ill-typed or not allowed here.
    InvalidEvent = "invalid_event", BadInput, false;
    /// An address does not follow the grammar.
    InvalidAddress = "invalid_address", BadInput, false;
    /// An event type does not follow the grammar.
    InvalidType = "invalid_type", BadInput, false;
    /// The payload is not an object, or does not fit its schema.
    InvalidPayload = "invalid_payload", BadInput, false;
    /// This visibility does not go with this target.
    InvalidVisibility = "invalid_visibility", BadInput, false;
    /// A query, rule or option is malformed.
    InvalidArgument = "invalid_argument", BadInput, false;
    /// The event names another network.
    NetworkMismatch = "network_mismatch", BadInput, false;
    /// No registrar is configured for the address prefix.
    UnknownRegistrar = "unknown_registrar", BadInput, false;
    /// The address has no DID form.
    NoDidForm = "no_did_form", BadInput, false;
    /// No usable credential was presented.
    Unauthenticated = "unauthenticated", Unauthenticated, false;
    /// The network wants a token.
    TokenRequired = "token_required", Unauthenticated, false;
    /// The token is unknown, expired or revoked.
    InvalidToken = "invalid_token", Unauthenticated, false;
    /// A higher verification level is needed.
    VerificationRequired = "verification_required", Unauthenticated, false;
    /// A presented proof does not verify.
    VerificationFailed = "verification_failed", Unauthenticated, false;
    /// The challenge was answered too late.
    ChallengeExpired = "challenge_expired", Unauthenticated, false;
    /// The network admits proven DIDs only.
    DidRequired = "did_required", Unauthenticated, false;
    /// A newer join took this address.
    SessionRevoked = "session_revoked", Unauthenticated, false;
    /// The session ended by time.
    SessionExpired = "session_expired", Unauthenticated, false;
    /// Not yours to do.
    Forbidden = "forbidden", Forbidden, false;
    /// The event's source is not the caller.
    SourceMismatch = "source_mismatch", Forbidden, false;
    /// Observers do not emit.
    ObserverReadOnly = "observer_read_only", Forbidden, false;
    /// The caller is not a member of the network.
    NotAMember = "not_a_member", Forbidden, false;
    /// The caller has no seat in the channel.
    NotAChannelMember = "not_a_channel_member", Forbidden, false;
    /// An access rule says no.
    PermissionDenied = "permission_denied", Forbidden, false;
    /// The network admits invited addresses only.
    InviteRequired = "invite_required", Forbidden, false;
    /// The invitation is expired, used up, revoked or for somebody else.
    InviteInvalid = "invite_invalid", Forbidden, false;
    /// The type belongs to the protocol or to the server.
    ReservedType = "reserved_type", Forbidden, false;
    /// The Origin or Host is not allowed.
    OriginForbidden = "origin_forbidden", Forbidden, false;
    /// A guard refused; it may name a code of its own.
    Rejected = "rejected", Forbidden, false;
    /// No such network.
    NetworkNotFound = "network_not_found", NotFound, false;
    /// No such member, channel or group.
    UnknownTarget = "unknown_target", NotFound, false;
    /// No such resource.
    ResourceNotFound = "resource_not_found", NotFound, false;
    /// No such mod.
    ModNotFound = "mod_not_found", NotFound, false;
    /// The name is in use.
    AlreadyExists = "already_exists", Conflict, false;
    /// The address belongs to a live member.
    AddressTaken = "address_taken", Conflict, false;
    /// The id was used for other content.
    IdConflict = "id_conflict", Conflict, false;
    /// The version is not the current one.
    VersionConflict = "version_conflict", Conflict, true;
    /// A stream must begin with a join.
    JoinRequired = "join_required", Conflict, false;
    /// Nothing waits for this result.
    NoPendingRequest = "no_pending_request", Conflict, false;
    /// The network keeps no history.
    HistoryUnavailable = "history_unavailable", Conflict, false;
    /// The cursor names an unknown or purged event.
    CursorUnknown = "cursor_unknown", NotFound, false;
    /// The network is archived.
    NetworkArchived = "network_archived", Unavailable, false;
    /// Larger than the limit.
    TooLarge = "too_large", BadInput, false;
    /// The target lives in another network: the sender must go there.
    CrossNetwork = "cross_network", BadInput, false;
    /// Too fast.
    RateLimited = "rate_limited", Exhausted, true;
    /// The recipient's queue is full.
    RecipientQueueFull = "recipient_queue_full", Exhausted, true;
    /// The network has all the members it may have.
    NetworkFull = "network_full", Exhausted, true;
    /// The person has all the sessions it may have.
    TooManySessions = "too_many_sessions", Exhausted, true;
    /// A guard mod failed.
    ModFailed = "mod_failed", Internal, true;
    /// Our fault; the log has the cause.
    Internal = "internal", Internal, false;
    /// Not offered here.
    Unsupported = "unsupported", BadInput, false;
    /// The network is paused.
    NetworkPaused = "network_paused", Unavailable, true;
    /// The owner of the resource is not there.
    OwnerUnavailable = "owner_unavailable", Unavailable, true;
    /// The disk refuses.
    StorageUnavailable = "storage_unavailable", Unavailable, true;
    /// The registrar cannot be reached.
    RegistrarUnavailable = "registrar_unavailable", Unavailable, true;
    /// The node is stopping.
    ShuttingDown = "shutting_down", Unavailable, true;
    /// No result in time.
    Timeout = "timeout", Timeout, true;
}

/// Coarse kinds: for logs and the command line's exit codes, never for a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum ErrorKind {
    BadInput,
    Unauthenticated,
    Forbidden,
    NotFound,
    Conflict,
    Exhausted,
    Unavailable,
    Timeout,
    Internal,
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

/// A refusal: a code of the registry, English text without secrets, and optional details.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}: {message}", self.wire_code())]
pub struct Fault {
    /// The registry's code.
    pub code: ErrorCode,
    /// What is wrong, for people.
    pub message: String,
    /// The mod that refused, if one did.
    pub by_mod: Option<Box<str>>,
    /// A guard's own dotted code, shown instead of `rejected`.
    pub custom_code: Option<Box<str>>,
    /// Machine-readable details; `field` names the offending member.
    pub details: Option<Box<Value>>,
    /// What the engine found, for faces whose protocol has a word of its own for it. Never on this model's wire: what
    /// an outsider is told must not differ from what it would hear of nothing at all.
    pub verdict: Option<Verdict>,
}

/// A refusal as it is shown: the payload of `network.event.error` and the `error` member of HTTP answers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ErrorView {
    /// The registry's code, or a guard's own dotted one.
    pub code: String,
    /// What is wrong, for people.
    pub message: String,
    /// Id of the event it is about, if that could be read.
    pub event_id: Option<String>,
    /// Whether the same may be accepted later.
    pub retryable: bool,
    /// The mod that refused, if one did.
    #[serde(rename = "mod", skip_serializing_if = "Option::is_none")]
    pub by_mod: Option<Box<str>>,
    /// Machine-readable details; `field` names the offending member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// Findings about work units that other protocols name apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The sender is neither requester nor executor.
    NotParticipant,
    /// The unit has ended.
    WorkClosed,
    /// The unit lives in another channel, thread or room.
    ContainerMismatch,
    /// Somebody else took it first.
    Taken,
}

/// Whose limit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Scope {
    Member,
    Network,
    Node,
}

impl Scope {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Member => "member",
            Scope::Network => "network",
            Scope::Node => "node",
        }
    }
}

impl Fault {
    /// A refusal without details.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Fault {
        Fault { code, message: message.into(), by_mod: None, custom_code: None, details: None, verdict: None }
    }

    /// A refusal of one more where there are as many as there may be; the text says how room is made.
    pub fn full(scope: Scope, limit: usize, message: impl Into<String>) -> Fault {
        let details = serde_json::json!({ "scope": scope.as_str(), "limit": limit });
        Fault::new(ErrorCode::NetworkFull, message).details(details)
    }

    /// The same refusal, naming the offending field beside what it says already.
    pub fn field(mut self, field: &str) -> Fault {
        match self.details.as_deref_mut() {
            Some(Value::Object(map)) => drop(map.insert("field".to_owned(), field.into())),
            _ => self = self.details(serde_json::json!({ "field": field })),
        }
        self
    }

    /// The same refusal with these details.
    pub fn details(mut self, details: Value) -> Fault {
        self.details = Some(Box::new(details));
        self
    }

    /// The same refusal, naming the mod that decided it.
    pub fn by(mut self, name: &str) -> Fault {
        self.by_mod = Some(name.into());
        self
    }

    /// The same refusal with the engine's finding, for faces.
    pub fn finding(mut self, verdict: Verdict) -> Fault {
        self.verdict = Some(verdict);
        self
    }

    /// The code shown on the wire.
    pub fn wire_code(&self) -> &str {
        self.custom_code.as_deref().unwrap_or_else(|| self.code.as_str())
    }

    /// What is shown of it, with the id of the event it is about.
    pub fn view(&self, event_id: Option<&str>) -> ErrorView {
        ErrorView {
            code: self.wire_code().to_owned(),
            message: self.message.clone(),
            event_id: event_id.map(str::to_owned),
            retryable: self.code.retryable(),
            by_mod: self.by_mod.clone(),
            details: self.details.as_deref().cloned(),
        }
    }

    /// The payload of `network.event.error`, also the `error` member of HTTP answers.
    pub fn payload(&self, event_id: Option<&str>) -> Value {
        serde_json::to_value(self.view(event_id)).unwrap_or_default()
    }
}

impl From<ErrorCode> for Fault {
    fn from(code: ErrorCode) -> Fault {
        Fault::new(code, code.as_str().replace('_', " "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_by_its_wire_name() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_wire(code.as_str()), Some(*code));
        }
        assert_eq!(ErrorCode::from_wire("nonsense"), None);
    }

    #[test]
    fn payload_names_event_mod_and_details() {
        let fault = Fault::new(ErrorCode::RateLimited, "slow down")
            .by("mod/rate-limiter")
            .details(serde_json::json!({"retry_after_ms": 50}));
        assert_eq!(
            fault.payload(Some("e1")),
            serde_json::json!({"code":"rate_limited","message":"slow down","event_id":"e1","retryable":true,"mod":"mod/rate-limiter","details":{"retry_after_ms":50}})
        );
    }
}
