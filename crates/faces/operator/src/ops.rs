//! The table of HTTP operations of this face.

use crate::api::answers::*;
use crate::api::requests::*;
use crate::{Operator, admin, browser, mods, operations, transfer};
use rialto_carrier::describe::{AnyBytes, Data, Download, Json, Lines, NoBody, NoQuery, Plain, Text, YesOrNo};
use rialto_model::ErrorCode;
use rialto_model::view::{
    AuditList, DeadLetterList, DroppedLetters, GroupList, GroupView, LettersRetried, MembersList, ModList, ModView,
    NetworkView, RedactionView, TokenList,
};

/// Refusals of what names something of a network.
const NAMED: &[ErrorCode] = &[
    ErrorCode::NetworkNotFound,
    ErrorCode::UnknownTarget,
    ErrorCode::ModNotFound,
    ErrorCode::StorageUnavailable,
    ErrorCode::Timeout,
];
/// Refusals of what changes something.
const ACT: &[ErrorCode] = &[
    ErrorCode::InvalidAddress,
    ErrorCode::InvalidEvent,
    ErrorCode::InvalidPayload,
    ErrorCode::InvalidToken,
    ErrorCode::NetworkNotFound,
    ErrorCode::UnknownTarget,
    ErrorCode::ModNotFound,
    ErrorCode::AlreadyExists,
    ErrorCode::AddressTaken,
    ErrorCode::HistoryUnavailable,
    ErrorCode::NetworkArchived,
    ErrorCode::NetworkFull,
    ErrorCode::TooLarge,
    ErrorCode::NetworkPaused,
    ErrorCode::StorageUnavailable,
    ErrorCode::Timeout,
];

rialto_carrier::operations! {
    for Operator;
    get "/v1/admin/networks" "admin_networks" Operator plain (NoQuery, NoBody) -> Data<NetworkList>, &[], admin::list, "All networks";
    post "/v1/admin/networks" "admin_create_network" Operator plain (NoQuery, Json<CreateNetworkBody>) -> Data<CreatedNetwork>, ACT, admin::create, "Make a network";
    get "/v1/admin/networks/{id}" "admin_network" Operator plain (NoQuery, NoBody) -> Data<NetworkView>, NAMED, admin::show, "One network";
    patch "/v1/admin/networks/{id}" "admin_change_network" Operator plain (NoQuery, Json<ChangeSettingsBody>) -> Data<ChangedSettings>, ACT, admin::change, "Change settings or status";
    get "/v1/admin/networks/{id}/tokens" "admin_tokens" Operator plain (NoQuery, NoBody) -> Data<TokenList>, NAMED, admin::tokens, "Tokens, without their secrets";
    post "/v1/admin/networks/{id}/tokens" "admin_new_token" Operator plain (NoQuery, Json<NewTokenBody>) -> Data<NewToken>, ACT, admin::new_token, "Make a token; shown this once";
    delete "/v1/admin/networks/{id}/tokens/{label}" "admin_revoke_token" Operator plain (NoQuery, NoBody) -> Data<RevokedToken>, ACT, admin::revoke_token, "Revoke a token";
    get "/v1/admin/networks/{id}/groups" "admin_groups" Operator plain (NoQuery, NoBody) -> Data<GroupList>, NAMED, admin::groups, "Groups";
    get "/v1/admin/networks/{id}/groups/{name}" "admin_group" Operator plain (NoQuery, NoBody) -> Data<GroupView>, NAMED, admin::group, "One group";
    put "/v1/admin/networks/{id}/groups/{name}" "admin_set_group" Operator plain (NoQuery, Json<SetGroupBody>) -> Data<SetGroup>, ACT, admin::set_group, "Set a group's members";
    delete "/v1/admin/networks/{id}/groups/{name}" "admin_delete_group" Operator plain (NoQuery, NoBody) -> Data<DeletedGroup>, ACT, admin::delete_group, "Delete a group";
    patch "/v1/admin/networks/{id}/members/{address}" "admin_change_member" Operator plain (NoQuery, Json<ChangeMemberBody>) -> Data<ManagedMember>, ACT, admin::change_member, "Set a member's role, name, or what it mutes";
    delete "/v1/admin/networks/{id}/members/{address}" "admin_remove_member" Operator plain (NoQuery, NoBody) -> Data<MemberRemoved>, ACT, admin::remove_member, "Remove a member";
    get "/v1/admin/networks/{id}/members" "admin_members" Operator plain (NoQuery, NoBody) -> Data<MembersList>, NAMED, admin::members, "Members with what holds their names, and their sessions";
    post "/v1/admin/networks/{id}/members/{address}/release" "admin_release_member" Operator plain (NoQuery, NoBody) -> Data<ManagedMember>, ACT, admin::release_member, "Free a name: nobody owns it any more";
    delete "/v1/admin/networks/{id}/members/{address}/sessions" "admin_end_sessions" Operator plain (SessionsQuery, NoBody) -> Data<EndedSessions>, ACT, admin::end_sessions, "End a member's sessions, or one of them";
    get "/v1/admin/networks/{id}/audit" "admin_audit" Operator plain (AuditQuery, NoBody) -> Data<AuditList>, NAMED, admin::audit, "Who managed the network: when, what, from where, before and after";
    post "/v1/admin/browser" "admin_browser" Operator plain (NoQuery, NoBody) -> Data<BrowserLink>, ACT, browser::another_link, "Another link for the operator's browser; it works once, for ten minutes";
    get "/v1/admin/networks/{id}/mods" "admin_mods" Operator plain (NoQuery, NoBody) -> Data<ModList>, NAMED, mods::list, "Loaded mods in pipeline order";
    post "/v1/admin/networks/{id}/mods" "admin_load_mod" Operator plain (NoQuery, Json<LoadModBody>) -> Data<ModView>, ACT, mods::load, "Load a mod that is not loaded";
    post "/v1/admin/networks/{id}/mods/order" "admin_order_mods" Operator plain (NoQuery, Json<OrderModsBody>) -> Data<OrderedMods>, ACT, mods::order, "Put the mods of one mode in order";
    get "/v1/admin/networks/{id}/mods/{name}" "admin_mod" Operator plain (NoQuery, NoBody) -> Data<ModView>, NAMED, mods::show, "One mod with its settings";
    put "/v1/admin/networks/{id}/mods/{name}" "admin_set_mod" Operator plain (NoQuery, Json<ModBody>) -> Data<ModView>, ACT, mods::set, "Load a mod or replace it whole";
    patch "/v1/admin/networks/{id}/mods/{name}" "admin_change_mod" Operator plain (NoQuery, Json<ModBody>) -> Data<ModView>, ACT, mods::change, "Change a loaded mod";
    post "/v1/admin/networks/{id}/mods/{name}/approve" "admin_approve_mod" Operator plain (NoQuery, Json<ApproveModBody>) -> Data<ApprovedServer>, ACT, mods::approve, "Let a member serve a mod, or no longer";
    delete "/v1/admin/networks/{id}/mods/{name}" "admin_remove_mod" Operator plain (NoQuery, NoBody) -> Data<UnloadedMod>, ACT, mods::unload, "Unload a mod";
    get "/v1/admin/networks/{id}/dead-letters" "admin_dead_letters" Operator plain (DeadLettersQuery, NoBody) -> Data<DeadLetterList>, NAMED, admin::dead_letters, "Deliveries that ended undelivered, the newest first";
    post "/v1/admin/networks/{id}/dead-letters/retry" "admin_retry_dead_letters" Operator plain (NoQuery, Json<DeadLettersBody>) -> Data<LettersRetried>, ACT, admin::retry_dead_letters, "Send dead letters again, each to its recipient";
    post "/v1/admin/networks/{id}/dead-letters/drop" "admin_drop_dead_letters" Operator plain (NoQuery, Json<DeadLettersBody>) -> Data<DroppedLetters>, ACT, admin::drop_dead_letters, "Put dead letters away";
    post "/v1/admin/networks/{id}/redact" "admin_redact" Operator plain (NoQuery, Json<RedactBody>) -> Data<RedactionView>, ACT, admin::redact, "Redact an event: tombstone, payload overwritten, search row removed";
    post "/v1/admin/networks/{id}/export" "admin_export_network" Operator plain (NoQuery, NoBody) -> Download, ACT, transfer::export, "One network as a file";
    post "/v1/admin/import" "admin_import_network" Operator plain (ImportQuery, AnyBytes) -> Data<ImportedNetwork>, ACT, transfer::import, "Make a network of such a file";
    post "/v1/admin/backup" "admin_backup" Operator plain (NoQuery, NoBody) -> Download, ACT, operations::backup, "A backup of the whole node as one file";
    post "/v1/admin/verify" "admin_verify" Operator plain (NoQuery, NoBody) -> Lines<VerifyLine>, ACT, operations::verify, "Check everything: progress as NDJSON, then the report";
    get "/v1/admin/doctor" "admin_doctor" Operator plain (NoQuery, NoBody) -> Data<DoctorReport>, &[], operations::doctor, "Health of the node, with live probes";
    get "/health" "health" Public plain (NoQuery, NoBody) -> Plain<Health>, &[], operations::health, "The process lives";
    get "/ready" "ready" Public plain (NoQuery, NoBody) -> YesOrNo<Readiness>, &[], operations::ready, "The node takes writes";
    get "/metrics" "metrics" Public plain (NoQuery, NoBody) -> Text, &[], operations::metrics, "Prometheus metrics";
    post "/v1/browser" "browser" Public plain (NoQuery, Json<BrowserBody>) -> Data<BrowserSession>, ACT, browser::session, "A session of the operator for the code of the browser link";
}
