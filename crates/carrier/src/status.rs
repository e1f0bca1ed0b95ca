//! One table from error codes to statuses for each kind of carrier: HTTP, gRPC, WebSocket (sheet section 13).

use rialto_model::ErrorCode;

/// The HTTP status of a code.
pub fn http_status(code: ErrorCode) -> u16 {
    http_and_grpc(code).0
}

/// The number of a code's gRPC status.
pub fn grpc_status(code: ErrorCode) -> i32 {
    http_and_grpc(code).1
}

/// Both in one table: codes that share a row on one carrier mostly share it on the other.
fn http_and_grpc(code: ErrorCode) -> (u16, i32) {
    use ErrorCode as C;
    const INVALID_ARGUMENT: i32 = 3;
    const DEADLINE_EXCEEDED: i32 = 4;
    const NOT_FOUND: i32 = 5;
    const ALREADY_EXISTS: i32 = 6;
    const PERMISSION_DENIED: i32 = 7;
    const RESOURCE_EXHAUSTED: i32 = 8;
    const FAILED_PRECONDITION: i32 = 9;
    const ABORTED: i32 = 10;
    const OUT_OF_RANGE: i32 = 11;
    const UNIMPLEMENTED: i32 = 12;
    const INTERNAL: i32 = 13;
    const UNAVAILABLE: i32 = 14;
    const UNAUTHENTICATED: i32 = 16;
    match code {
        C::InvalidJson
        | C::InvalidEvent
        | C::InvalidAddress
        | C::InvalidType
        | C::InvalidPayload
        | C::InvalidVisibility
        | C::InvalidArgument
        | C::NetworkMismatch
        | C::UnknownRegistrar
        | C::NoDidForm => (400, INVALID_ARGUMENT),
        C::Unauthenticated
        | C::TokenRequired
        | C::InvalidToken
        | C::VerificationRequired
        | C::VerificationFailed
        | C::ChallengeExpired
        | C::DidRequired
        | C::SessionRevoked
        | C::SessionExpired => (401, UNAUTHENTICATED),
        C::Forbidden
        | C::SourceMismatch
        | C::ObserverReadOnly
        | C::NotAMember
        | C::NotAChannelMember
        | C::PermissionDenied
        | C::InviteRequired
        | C::InviteInvalid
        | C::ReservedType
        | C::OriginForbidden
        | C::Rejected => (403, PERMISSION_DENIED),
        C::NetworkNotFound | C::UnknownTarget | C::ResourceNotFound | C::ModNotFound => (404, NOT_FOUND),
        C::AlreadyExists | C::AddressTaken | C::IdConflict => (409, ALREADY_EXISTS),
        C::VersionConflict => (409, ABORTED),
        C::JoinRequired | C::NoPendingRequest | C::HistoryUnavailable => (409, FAILED_PRECONDITION),
        C::CursorUnknown => (410, OUT_OF_RANGE),
        C::NetworkArchived => (410, FAILED_PRECONDITION),
        C::TooLarge => (413, RESOURCE_EXHAUSTED),
        C::CrossNetwork => (421, FAILED_PRECONDITION),
        C::RateLimited | C::RecipientQueueFull | C::NetworkFull | C::TooManySessions => (429, RESOURCE_EXHAUSTED),
        C::ModFailed | C::Internal => (500, INTERNAL),
        C::Unsupported => (501, UNIMPLEMENTED),
        C::NetworkPaused | C::OwnerUnavailable | C::StorageUnavailable | C::RegistrarUnavailable | C::ShuttingDown => {
            (503, UNAVAILABLE)
        }
        C::Timeout => (504, DEADLINE_EXCEEDED),
    }
}

/// WebSocket close code of a code: some have their own, the rest go by HTTP status.
pub fn close_code(code: ErrorCode) -> u16 {
    const OWN: &[(ErrorCode, u16)] = &[
        (ErrorCode::SessionRevoked, 4409),
        (ErrorCode::SessionExpired, 4409),
        (ErrorCode::NetworkArchived, 4410),
        (ErrorCode::NetworkNotFound, 4404),
        (ErrorCode::ShuttingDown, 1001),
        (ErrorCode::JoinRequired, 4408),
        (ErrorCode::TooLarge, 1009),
        (ErrorCode::RateLimited, 4429),
    ];
    let own = OWN.iter().find(|(c, _)| *c == code).map(|(_, close)| *close);
    own.unwrap_or(match http_status(code) {
        401 => 4401,
        403 => 4403,
        400 => 4400,
        _ => 1011,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_follow_the_sheet() {
        for (code, http, grpc) in [
            (ErrorCode::InvalidJson, 400, 3),
            (ErrorCode::SessionRevoked, 401, 16),
            (ErrorCode::SourceMismatch, 403, 7),
            (ErrorCode::UnknownTarget, 404, 5),
            (ErrorCode::IdConflict, 409, 6),
            (ErrorCode::VersionConflict, 409, 10),
            (ErrorCode::HistoryUnavailable, 409, 9),
            (ErrorCode::CursorUnknown, 410, 11),
            (ErrorCode::TooLarge, 413, 8),
            (ErrorCode::CrossNetwork, 421, 9),
            (ErrorCode::RateLimited, 429, 8),
            (ErrorCode::Unsupported, 501, 12),
            (ErrorCode::StorageUnavailable, 503, 14),
            (ErrorCode::Timeout, 504, 4),
        ] {
            assert_eq!((http_status(code), grpc_status(code)), (http, grpc), "{code}");
        }
    }
}
