//! The table of HTTP operations of this face.

use crate::{Operator, admin, browser, mods, operations, transfer};

rialto_carrier::operations! {
    for Operator;
    get "/v1/admin/networks" "admin_networks" Operator plain &[], &[], admin::list, "All networks";
    post "/v1/admin/networks" "admin_create_network" Operator plain &[], &["name", "policy", "profile", "delivery", "durability", "retention", "min_verification", "mods"], admin::create, "Make a network";
    get "/v1/admin/networks/{id}" "admin_network" Operator plain &[], &[], admin::show, "One network";
    patch "/v1/admin/networks/{id}" "admin_change_network" Operator plain &[], &["name", "status", "policy", "delivery", "metadata"], admin::change, "Change settings or status";
    get "/v1/admin/networks/{id}/tokens" "admin_tokens" Operator plain &[], &[], admin::tokens, "Tokens, without their secrets";
    post "/v1/admin/networks/{id}/tokens" "admin_new_token" Operator plain &[], &["label", "role", "agent", "expires_at"], admin::new_token, "Make a token; shown this once";
    delete "/v1/admin/networks/{id}/tokens/{label}" "admin_revoke_token" Operator plain &[], &[], admin::revoke_token, "Revoke a token";
    get "/v1/admin/networks/{id}/groups" "admin_groups" Operator plain &[], &[], admin::groups, "Groups";
    get "/v1/admin/networks/{id}/groups/{name}" "admin_group" Operator plain &[], &[], admin::group, "One group";
    put "/v1/admin/networks/{id}/groups/{name}" "admin_set_group" Operator plain &[], &["members"], admin::set_group, "Set a group's members";
    delete "/v1/admin/networks/{id}/groups/{name}" "admin_delete_group" Operator plain &[], &[], admin::delete_group, "Delete a group";
    patch "/v1/admin/networks/{id}/members/{address}" "admin_change_member" Operator plain &[], &["role", "mute", "unmute", "dnd", "name"], admin::change_member, "Set a member's role, name, or what it mutes";
    delete "/v1/admin/networks/{id}/members/{address}" "admin_remove_member" Operator plain &[], &[], admin::remove_member, "Remove a member";
    get "/v1/admin/networks/{id}/members" "admin_members" Operator plain &[], &[], admin::members, "Members with what holds their names, and their sessions";
    post "/v1/admin/networks/{id}/members/{address}/release" "admin_release_member" Operator plain &[], &[], admin::release_member, "Free a name: nobody owns it any more";
    delete "/v1/admin/networks/{id}/members/{address}/sessions" "admin_end_sessions" Operator plain &["session"], &[], admin::end_sessions, "End a member's sessions, or one of them";
    get "/v1/admin/networks/{id}/audit" "admin_audit" Operator plain &["since", "actor"], &[], admin::audit, "Who managed the network: when, what, from where, before and after";
    post "/v1/admin/browser" "admin_browser" Operator plain &[], &[], browser::another_link, "Another link for the operator's browser; it works once, for ten minutes";
    get "/v1/admin/networks/{id}/mods" "admin_mods" Operator plain &[], &[], mods::list, "Loaded mods in pipeline order";
    post "/v1/admin/networks/{id}/mods" "admin_load_mod" Operator plain &[], &["name", "config", "intercepts", "priority", "enabled"], mods::load, "Load a mod that is not loaded";
    post "/v1/admin/networks/{id}/mods/order" "admin_order_mods" Operator plain &[], &["names", "mode"], mods::order, "Put the mods of one mode in order";
    get "/v1/admin/networks/{id}/mods/{name}" "admin_mod" Operator plain &[], &[], mods::show, "One mod with its settings";
    put "/v1/admin/networks/{id}/mods/{name}" "admin_set_mod" Operator plain &[], &["config", "intercepts", "priority", "enabled"], mods::set, "Load a mod or replace it whole";
    patch "/v1/admin/networks/{id}/mods/{name}" "admin_change_mod" Operator plain &[], &["config", "intercepts", "priority", "enabled", "on_error", "deadline_ms"], mods::change, "Change a loaded mod";
    post "/v1/admin/networks/{id}/mods/{name}/approve" "admin_approve_mod" Operator plain &[], &["address", "approved"], mods::approve, "Let a member serve a mod, or no longer";
    delete "/v1/admin/networks/{id}/mods/{name}" "admin_remove_mod" Operator plain &[], &[], mods::unload, "Unload a mod";
    get "/v1/admin/networks/{id}/dead-letters" "admin_dead_letters" Operator plain &["event_id", "recipient", "limit"], &[], admin::dead_letters, "Deliveries that ended undelivered, the newest first";
    post "/v1/admin/networks/{id}/dead-letters/retry" "admin_retry_dead_letters" Operator plain &[], &["event_id", "recipient", "all", "limit"], admin::retry_dead_letters, "Send dead letters again, each to its recipient";
    post "/v1/admin/networks/{id}/dead-letters/drop" "admin_drop_dead_letters" Operator plain &[], &["event_id", "recipient", "all", "limit"], admin::drop_dead_letters, "Put dead letters away";
    post "/v1/admin/networks/{id}/redact" "admin_redact" Operator plain &[], &["event_id"], admin::redact, "Redact an event: tombstone, payload overwritten, search row removed";
    post "/v1/admin/networks/{id}/export" "admin_export_network" Operator plain &[], &[], transfer::export, "One network as a file";
    post "/v1/admin/import" "admin_import_network" Operator plain &["name"], &[], transfer::import, "Make a network of such a file";
    post "/v1/admin/backup" "admin_backup" Operator plain &[], &[], operations::backup, "A backup of the whole node as one file";
    post "/v1/admin/verify" "admin_verify" Operator plain &[], &[], operations::verify, "Check everything: progress as NDJSON, then the report";
    get "/v1/admin/doctor" "admin_doctor" Operator plain &[], &[], operations::doctor, "Health of the node, with live probes";
    get "/health" "health" Public plain &[], &[], operations::health, "The process lives";
    get "/ready" "ready" Public plain &[], &[], operations::ready, "The node takes writes";
    get "/metrics" "metrics" Public plain &[], &[], operations::metrics, "Prometheus metrics";
    post "/v1/browser" "browser" Public plain &[], &["code"], browser::session, "A session of the operator for the code of the browser link";
}
