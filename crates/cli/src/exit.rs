//! How a command ends: one exit code per kind of failure, and a line that says what to do next.

use rialto_client::ClientError;
use rialto_model::{ErrorCode, ErrorKind};
use serde_json::{Value, json};

/// The exit codes of every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Internal = 1,
    Usage = 2,
    NotFound = 3,
    Denied = 4,
    Conflict = 5,
    Unavailable = 6,
    Timeout = 7,
}

impl Exit {
    /// The one table from kinds of failure to exit codes.
    fn of(kind: ErrorKind) -> Exit {
        match kind {
            ErrorKind::BadInput => Exit::Usage,
            ErrorKind::Unauthenticated | ErrorKind::Forbidden => Exit::Denied,
            ErrorKind::NotFound => Exit::NotFound,
            ErrorKind::Conflict => Exit::Conflict,
            ErrorKind::Exhausted | ErrorKind::Unavailable => Exit::Unavailable,
            ErrorKind::Timeout => Exit::Timeout,
            ErrorKind::Internal => Exit::Internal,
        }
    }
}

/// A failed command: what happened, and what to do next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CliError {
    pub(crate) exit: Exit,
    /// The registry's code, where the node gave one.
    pub(crate) code: Option<String>,
    pub(crate) message: String,
    pub(crate) next: Option<String>,
    pub(crate) details: Option<Value>,
    /// The reader of our output went away: nobody is there to be told.
    pub(crate) silent: bool,
}

impl CliError {
    fn new(exit: Exit, message: impl Into<String>) -> CliError {
        CliError { exit, code: None, message: message.into(), next: None, details: None, silent: false }
    }

    pub(crate) fn internal(message: impl Into<String>) -> CliError {
        CliError::new(Exit::Internal, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> CliError {
        CliError::new(Exit::Usage, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> CliError {
        CliError::new(Exit::NotFound, message)
    }

    pub(crate) fn denied(message: impl Into<String>) -> CliError {
        CliError::new(Exit::Denied, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> CliError {
        CliError::new(Exit::Conflict, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> CliError {
        CliError::new(Exit::Unavailable, message)
    }

    pub(crate) fn timeout(message: impl Into<String>) -> CliError {
        CliError::new(Exit::Timeout, message)
    }

    /// A failure to read or write a file.
    pub(crate) fn file(what: &str, path: &std::path::Path, error: &std::io::Error) -> CliError {
        use std::io::ErrorKind as Io;
        let message = format!("cannot {what} {}: {error}", path.display());
        let exit = if error.kind() == Io::NotFound {
            Exit::NotFound
        } else if error.kind() == Io::PermissionDenied {
            Exit::Denied
        } else if error.kind() == Io::AlreadyExists {
            Exit::Conflict
        } else {
            Exit::Internal
        };
        CliError::new(exit, message)
    }

    /// The same failure with a line that says what to do.
    pub(crate) fn next(mut self, next: impl Into<String>) -> CliError {
        self.next = Some(next.into());
        self
    }

    /// The same failure; when something was not found, with this line instead of the usual one.
    pub(crate) fn if_missing(self, next: &str) -> CliError {
        if self.exit == Exit::NotFound { self.next(next) } else { self }
    }

    /// For people: one or two lines.
    pub(crate) fn text(&self) -> String {
        let message = match &self.code {
            Some(code) if !self.message.is_empty() => format!("{} ({code})", self.message),
            Some(code) => code.clone(),
            None => self.message.replace('\n', "\nrialto: "),
        };
        match &self.next {
            Some(next) => format!("rialto: {message}\n  {next}"),
            None => format!("rialto: {message}"),
        }
    }

    /// For programs: one line of JSON.
    pub(crate) fn json(&self) -> String {
        json!({"error": {
            "code": self.code, "message": self.message, "next": self.next, "details": self.details, "exit": self.exit as u8,
        }})
        .to_string()
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> CliError {
        let mut out = CliError::new(Exit::of(error.kind()), error.to_string());
        match error {
            ClientError::Api(api) => {
                out.next = api.known().and_then(next_step).map(str::to_owned);
                if let Some(url) = api.details.as_ref().and_then(|d| d.get("profile_url")).and_then(Value::as_str) {
                    out.next = Some(format!("that network says how to join it at {url}"));
                }
                out.message = api.message;
                out.code = Some(api.code);
                out.details = api.details;
            }
            ClientError::Unreachable { .. } => {
                out.next = Some("is the node running? `rialto up` starts one; RIALTO_URL names another".to_owned());
            }
            ClientError::Timeout { .. } => {
                out.next = Some("the node is there but slow: `rialto doctor` looks at it".to_owned());
            }
            ClientError::Protocol(_) => {
                out.next = Some("is that a Rialto node? `rialto doctor` looks at it".to_owned());
            }
            ClientError::BadUrl { .. } | ClientError::Closed(_) => {}
        }
        out
    }
}

impl From<std::io::Error> for CliError {
    /// Errors of our own output; files go through [`CliError::file`].
    fn from(error: std::io::Error) -> CliError {
        let silent = error.kind() == std::io::ErrorKind::BrokenPipe;
        CliError { silent, ..CliError::internal(format!("cannot write the output: {error}")) }
    }
}

/// What usually helps. No `_` arm: a new code is placed here, or said to need nothing.
fn next_step(code: ErrorCode) -> Option<&'static str> {
    use ErrorCode as E;
    match code {
        E::InvalidAddress => {
            Some("addresses look like agent:NAME, human:NAME, channel/NAME, group/NAME or agent:broadcast")
        }
        E::InvalidType => Some("types look like myapp.task.assigned"),
        E::InvalidPayload => Some("give the payload as a JSON object: --payload '{\"key\":1}'"),
        E::Unauthenticated | E::TokenRequired | E::InvalidToken => {
            Some("give the network token in RIALTO_TOKEN; `rialto network token new` makes one")
        }
        E::VerificationRequired | E::VerificationFailed | E::ChallengeExpired | E::DidRequired => {
            Some("this network wants a proven identity; `rialto network show` says which level")
        }
        E::SessionRevoked => Some("another program joined with this name; choose another with --as"),
        E::SessionExpired => Some("run the command again: it joins anew"),
        E::Forbidden | E::PermissionDenied => {
            Some("speak as somebody who may with --as; what is the operator's is done where the node runs")
        }
        E::SourceMismatch => Some("an event's source is whoever sends it; choose with --as"),
        E::ObserverReadOnly => Some("observers only read; the operator can change the role"),
        E::NotAMember => Some("join by speaking: any command with --as NAME does"),
        E::NotAChannelMember => Some("take a seat first: rialto channel join NAME"),
        E::InviteRequired | E::InviteInvalid => Some("ask a member for an invitation"),
        E::ReservedType => Some("network.* and rialto.* belong to the protocol; use a name of your own"),
        E::NetworkNotFound => Some("`rialto network list` shows what this node has"),
        E::UnknownTarget => Some("`rialto who` and `rialto channel list` show who and what is there"),
        E::AddressTaken => Some("choose another name with --as"),
        E::IdConflict => Some("an id is used once; leave it out to get a fresh one"),
        E::HistoryUnavailable => Some("this network keeps no history: load mod/persistence"),
        E::CursorUnknown => Some("that event is unknown or was purged; try --since 2h"),
        E::NetworkArchived => Some("rialto network resume NAME brings it back"),
        E::NetworkPaused => Some("rialto network resume NAME opens it again"),
        E::TooLarge => Some("an event is at most 1 MiB; put large things into a file"),
        E::CrossNetwork => Some("join that network yourself and send there, with --network or --url"),
        E::RateLimited | E::RecipientQueueFull | E::NetworkFull | E::TooManySessions => Some("try again later"),
        E::StorageUnavailable => Some("the disk refuses: `rialto doctor` says why"),
        E::Internal | E::ModFailed => Some("the node's log has the cause"),
        E::ShuttingDown => Some("the node is stopping; try again when it is back"),
        E::OriginForbidden => {
            Some("the node does not answer to that host name: see server.allowed_hosts in `rialto config`")
        }
        E::InvalidJson
        | E::InvalidEvent
        | E::InvalidVisibility
        | E::InvalidArgument
        | E::NetworkMismatch
        | E::UnknownRegistrar
        | E::NoDidForm
        | E::Rejected
        | E::ResourceNotFound
        | E::ModNotFound
        | E::AlreadyExists
        | E::VersionConflict
        | E::JoinRequired
        | E::NoPendingRequest
        | E::Unsupported
        | E::OwnerUnavailable
        | E::RegistrarUnavailable
        | E::Timeout => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use rialto_client::ApiError;

    fn exit_of(code: ErrorCode) -> u8 {
        CliError::from(ClientError::from(ApiError::of(code, "x"))).exit as u8
    }

    #[test]
    fn codes_and_their_exits() {
        let mut lines = String::new();
        for exit in 1..=7 {
            let codes: Vec<&str> =
                ErrorCode::ALL.iter().filter(|code| exit_of(**code) == exit).map(|code| code.as_str()).collect();
            lines.push_str(&format!("{exit}: {}\n", codes.join(" ")));
        }
        expect![[r#"
            1: mod_failed internal
            2: invalid_json invalid_event invalid_address invalid_type invalid_payload invalid_visibility invalid_argument network_mismatch unknown_registrar no_did_form too_large cross_network unsupported
            3: network_not_found unknown_target resource_not_found mod_not_found cursor_unknown
            4: unauthenticated token_required invalid_token verification_required verification_failed challenge_expired did_required session_revoked session_expired forbidden source_mismatch observer_read_only not_a_member not_a_channel_member permission_denied invite_required invite_invalid reserved_type origin_forbidden rejected
            5: already_exists address_taken id_conflict version_conflict join_required no_pending_request history_unavailable
            6: network_archived rate_limited recipient_queue_full network_full too_many_sessions network_paused owner_unavailable storage_unavailable registrar_unavailable shutting_down
            7: timeout
        "#]]
        .assert_eq(&lines);
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let error =
            CliError::from(ClientError::from(ApiError::of(ErrorCode::UnknownTarget, "agent:bob is not a member")));
        expect![[r#"
            rialto: agent:bob is not a member (unknown_target)
              `rialto who` and `rialto channel list` show who and what is there"#]]
        .assert_eq(&error.text());
        expect![[r#"{"error":{"code":"unknown_target","details":null,"exit":3,"message":"agent:bob is not a member","next":"`rialto who` and `rialto channel list` show who and what is there"}}"#]]
        .assert_eq(&error.json());
    }

    #[test]
    fn nobody_there_is_unavailable() {
        let error =
            CliError::from(ClientError::Unreachable { url: "http://h".into(), reason: "Connection refused".into() });
        assert_eq!(error.exit, Exit::Unavailable);
        assert!(error.text().contains("rialto up"));
    }
}
