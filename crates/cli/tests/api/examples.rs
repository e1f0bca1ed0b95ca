//! The examples of `docs/api.md`, in the order in which they are typed. `$NAME` in them is what an answer before gave.

use rialto_carrier::operations::Op;

/// The body of an example.
#[derive(Debug, Clone, Copy)]
pub enum Body {
    /// There is none.
    None,
    /// This text.
    Text(&'static str),
    /// A form with a file of this text.
    Form(&'static str),
    /// The file that was downloaded last.
    File,
}

/// An operation as it is typed.
#[derive(Debug, Clone, Copy)]
pub struct Example {
    /// The operation.
    pub id: &'static str,
    /// The credential it shows, by its name; empty for none.
    pub who: &'static str,
    /// Path and query.
    pub path: &'static str,
    /// More headers.
    pub headers: &'static [(&'static str, &'static str)],
    /// The body.
    pub body: Body,
    /// The status of the answer.
    pub status: u16,
    /// What of the answer has a name afterwards, as JSON pointers.
    pub keeps: &'static [(&'static str, &'static str)],
    /// What happens before, unseen.
    pub before: &'static str,
}

impl Example {
    /// The operation.
    pub fn op(&self) -> &'static Op {
        super::operations()
            .into_iter()
            .find(|op| op.id == self.id)
            .unwrap_or_else(|| panic!("no operation {}", self.id))
    }
}

const fn get(id: &'static str, who: &'static str, path: &'static str) -> Example {
    Example { id, who, path, headers: &[], body: Body::None, status: 200, keeps: &[], before: "" }
}

const fn send(id: &'static str, who: &'static str, path: &'static str, body: &'static str) -> Example {
    Example { body: Body::Text(body), ..get(id, who, path) }
}

const HANDSHAKE: &[(&str, &str)] = &[
    ("connection", "upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// Every operation once.
pub const EXAMPLES: &[Example] = &[
    get("openapi", "", "/openapi.json"),
    get("well_known", "", "/.well-known/openagents.json"),
    get("health", "", "/health"),
    get("ready", "", "/ready"),
    get("metrics", "", "/metrics"),
    Example {
        keeps: &[("SESSION", "/data/session_id")],
        ..send(
            "join",
            "TOKEN",
            "/v1/join",
            r#"{"agent_id":"agent:ana","description":"writes summaries","capabilities":["write"]}"#,
        )
    },
    send("heartbeat", "SESSION", "/v1/heartbeat", "{}"),
    get("me", "SESSION", "/v1/me"),
    send("change_me", "SESSION", "/v1/me", r#"{"dnd":false,"mute":["general"]}"#),
    get("discover", "SESSION", "/v1/discover?include=agents,channels"),
    get("profile", "", "/v1/profile"),
    get("network_profile", "", "/v1/ws/$NETWORK"),
    get("channels", "SESSION", "/v1/channels"),
    send(
        "emit",
        "SESSION",
        "/v1/events",
        r#"{"id":"hello","type":"app.note","target":"channel/general","payload":{"text":"hello"},"metadata":{"thread":"thread_0001"}}"#,
    ),
    Example { before: "ben writes", ..get("events", "SESSION", "/v1/events?view=inbox&source=agent:ben&limit=1") },
    get("stream", "SESSION", "/v1/events/stream?view=log"),
    send("ack", "SESSION", "/v1/ack", r#"{"ids":["direct-1"]}"#),
    get("conversations", "SESSION", "/v1/events/conversations"),
    get("latest_per_channel", "SESSION", "/v1/events/latest-per-channel?type=app.note"),
    get("explain", "SESSION", "/v1/events/direct-1/explain"),
    get("threads", "SESSION", "/v1/threads?channel=general"),
    get("thread", "SESSION", "/v1/threads/general/thread_0001"),
    Example {
        keeps: &[("ROOM", "/data/room")],
        ..send("open_room", "SESSION", "/v1/rooms", r#"{"peer":"agent:ben"}"#)
    },
    get("rooms", "SESSION", "/v1/rooms"),
    get("room", "SESSION", "/v1/rooms/$ROOM"),
    Example {
        keeps: &[("WORK", "/data/id")],
        ..send(
            "open_work",
            "SESSION",
            "/v1/work",
            r#"{"target":"agent:ben","content":"Summarise the plan.","name":"job"}"#,
        )
    },
    Example { before: "ben works", ..get("works", "SESSION", "/v1/work?role=requester") },
    get("work", "SESSION", "/v1/work/$WORK"),
    get("work_events", "SESSION", "/v1/work/$WORK/events?limit=1"),
    get("work_artifact", "SESSION", "/v1/work/$WORK/artifacts/summary"),
    get("work_stream", "SESSION", "/v1/work/$WORK/stream"),
    send(
        "register_resource",
        "SESSION",
        "/v1/resources",
        r#"{"address":"resource/context/plan","description":"what comes next","content":"first the summary"}"#,
    ),
    get("resources", "SESSION", "/v1/resources?type=context"),
    Example {
        headers: &[("content-type", "text/plain")],
        ..send("put_resource", "SESSION", "/v1/resources/file/notes?description=notes", "hello")
    },
    Example {
        headers: &[("range", "bytes=0-1")],
        status: 206,
        ..get("resource", "SESSION", "/v1/resources/file/notes")
    },
    send("change_resource", "SESSION", "/v1/resources/file/notes", r#"{"description":"older notes","if_version":1}"#),
    get("remove_resource", "SESSION", "/v1/resources/file/notes"),
    send("stage_blob", "SESSION", "/v1/blobs", "some content"),
    Example {
        before: "ben serves",
        ..send("invoke", "SESSION", "/v1/invoke/add?timeout_ms=10000", r#"{"a":1,"b":2}"#)
    },
    Example {
        body: Body::Form("hello"),
        keeps: &[("NOTES", "/data/id")],
        ..get("upload_file", "SESSION", "/v1/files")
    },
    Example {
        keeps: &[("FILE", "/data/id")],
        ..send(
            "upload_file_base64",
            "SESSION",
            "/v1/files/base64",
            r#"{"filename":"hello.txt","content_base64":"aGVsbG8=","content_type":"text/plain"}"#,
        )
    },
    get("files", "SESSION", "/v1/files?limit=1"),
    get("file", "SESSION", "/v1/files/$FILE"),
    get("file_info", "SESSION", "/v1/files/$FILE/info"),
    get("delete_file", "SESSION", "/v1/files/$FILE"),
    send("composing", "SESSION", "/v1/composing", r#"{"channel":"general"}"#),
    Example {
        keeps: &[("INVITATION", "/data/invitation_id"), ("CODE", "/data/code")],
        ..send("invite", "ADMIN", "/v1/invitations", r#"{"role":"member","message":"come in","max_uses":2}"#)
    },
    get("invitations", "ADMIN", "/v1/invitations"),
    get("revoke_invitation", "ADMIN", "/v1/invitations/$INVITATION"),
    Example {
        keeps: &[("INVITATION", "/data/invitation_id"), ("CODE", "/data/code")],
        ..send("invite", "ADMIN", "/v1/invitations", r#"{"role":"member","message":"come in","max_uses":2}"#)
    },
    send("reject_invitation", "", "/v1/invitations/$INVITATION/reject", r#"{"code":"$CODE"}"#),
    get("asyncapi", "", "/asyncapi.json"),
    get("network_asyncapi", "", "/v1/ws/$NETWORK/asyncapi.json"),
    Example { headers: HANDSHAKE, status: 101, ..get("websocket", "SESSION", "/ws/$NETWORK") },
    // Workspaces.
    Example {
        keeps: &[
            ("WORKSPACE", "/data/workspaceId"),
            ("WORKSPACE_TOKEN", "/data/token"),
            ("FIRST", "/data/channel/name"),
        ],
        ..send(
            "create_workspace",
            "ADMIN",
            "/v1/workspaces",
            r#"{"name":"team","agent_name":"writer","creator_email":"ana@example.org"}"#,
        )
    },
    get("workspaces", "WORKSPACE_TOKEN", "/v1/workspaces"),
    get("workspace", "WORKSPACE_TOKEN", "/v1/workspaces/$WORKSPACE"),
    send("change_workspace", "WORKSPACE_TOKEN", "/v1/workspaces/$WORKSPACE", r#"{"settings":{"theme":"dark"}}"#),
    get("workspace_channels", "WORKSPACE_TOKEN", "/v1/workspaces/$WORKSPACE/channels"),
    Example {
        keeps: &[("CHANNEL", "/data/name")],
        ..send("create_session", "WORKSPACE_TOKEN", "/v1/workspaces/$WORKSPACE/channels", r#"{"title":"Plan"}"#)
    },
    get("workspace_channel", "WORKSPACE_TOKEN", "/v1/workspaces/$WORKSPACE/channels/$CHANNEL"),
    send("change_channel", "WORKSPACE_TOKEN", "/v1/workspaces/$WORKSPACE/channels/$CHANNEL", r#"{"starred":true}"#),
    get("archive_channel", "WORKSPACE_TOKEN", "/v1/workspaces/$WORKSPACE/channels/$CHANNEL"),
    send("change_member", "WORKSPACE_TOKEN", "/v1/workspaces/$WORKSPACE/members/writer", r#"{"role":"observer"}"#),
    send(
        "skill_status",
        "WORKSPACE_TOKEN",
        "/v1/workspaces/$WORKSPACE/members/writer/skills/status",
        r#"{"skill_id":"review","state":"installed"}"#,
    ),
    get("browser_tabs", "WORKSPACE_TOKEN", "/v1/browser/tabs"),
    get("browser_contexts", "WORKSPACE_TOKEN", "/v1/browser/contexts"),
    get("todos", "WORKSPACE_TOKEN", "/v1/todos"),
    get("timers", "WORKSPACE_TOKEN", "/v1/timers"),
    get("routines", "WORKSPACE_TOKEN", "/v1/routines"),
    get("notifications", "WORKSPACE_TOKEN", "/v1/notifications"),
    get("knowledge", "WORKSPACE_TOKEN", "/v1/knowledge"),
    send("resolve_token", "", "/v1/token/resolve", r#"{"token":"$WORKSPACE_TOKEN"}"#),
    Example {
        keeps: &[("WORKSPACE_TOKEN", "/data/token")],
        ..get("rotate_token", "WORKSPACE_TOKEN", "/v1/workspaces/$WORKSPACE/rotate-token")
    },
    get("archive_workspace", "WORKSPACE_TOKEN", "/v1/workspaces/$WORKSPACE"),
    // The operator.
    Example {
        keeps: &[("LAB", "/data/id")],
        ..send("admin_create_network", "ADMIN", "/v1/admin/networks", r#"{"name":"lab","policy":"token"}"#)
    },
    get("admin_networks", "ADMIN", "/v1/admin/networks"),
    get("admin_network", "ADMIN", "/v1/admin/networks/$NETWORK"),
    send(
        "admin_change_network",
        "ADMIN",
        "/v1/admin/networks/$LAB",
        r#"{"metadata":{"description":"for trying things"}}"#,
    ),
    send("admin_new_token", "ADMIN", "/v1/admin/networks/$NETWORK/tokens", r#"{"label":"ci","role":"observer"}"#),
    get("admin_tokens", "ADMIN", "/v1/admin/networks/$NETWORK/tokens"),
    get("admin_revoke_token", "ADMIN", "/v1/admin/networks/$NETWORK/tokens/ci"),
    send("admin_set_group", "ADMIN", "/v1/admin/networks/$NETWORK/groups/writers", r#"{"members":["agent:ana"]}"#),
    get("admin_groups", "ADMIN", "/v1/admin/networks/$NETWORK/groups"),
    get("admin_group", "ADMIN", "/v1/admin/networks/$NETWORK/groups/writers"),
    get("admin_delete_group", "ADMIN", "/v1/admin/networks/$NETWORK/groups/writers"),
    Example { before: "a member goes", ..get("admin_members", "ADMIN", "/v1/admin/networks/$NETWORK/members") },
    send("admin_change_member", "ADMIN", "/v1/admin/networks/$NETWORK/members/agent:carl", r#"{"role":"observer"}"#),
    get("admin_end_sessions", "ADMIN", "/v1/admin/networks/$NETWORK/members/agent:carl/sessions"),
    get("admin_release_member", "ADMIN", "/v1/admin/networks/$NETWORK/members/agent:carl/release"),
    get("admin_remove_member", "ADMIN", "/v1/admin/networks/$NETWORK/members/agent:carl"),
    get("admin_audit", "ADMIN", "/v1/admin/networks/$NETWORK/audit?actor=operator"),
    Example { keeps: &[("BROWSER_CODE", "/data/url")], ..get("admin_browser", "ADMIN", "/v1/admin/browser") },
    send("browser", "", "/v1/browser", r#"{"code":"$BROWSER_CODE"}"#),
    send("admin_load_mod", "ADMIN", "/v1/admin/networks/$NETWORK/mods", r#"{"name":"analytics"}"#),
    get("analytics", "SESSION", "/v1/analytics"),
    get("admin_mods", "ADMIN", "/v1/admin/networks/$NETWORK/mods"),
    get("admin_mod", "ADMIN", "/v1/admin/networks/$NETWORK/mods/analytics"),
    send("admin_set_mod", "ADMIN", "/v1/admin/networks/$NETWORK/mods/analytics", r#"{"config":{"top_n":5}}"#),
    send("admin_change_mod", "ADMIN", "/v1/admin/networks/$NETWORK/mods/analytics", r#"{"enabled":false}"#),
    send("admin_order_mods", "ADMIN", "/v1/admin/networks/$NETWORK/mods/order", r#"{"names":["analytics"]}"#),
    send("admin_approve_mod", "ADMIN", "/v1/admin/networks/$NETWORK/mods/lint/approve", r#"{"address":"agent:ben"}"#),
    get("admin_remove_mod", "ADMIN", "/v1/admin/networks/$NETWORK/mods/analytics"),
    get("admin_dead_letters", "ADMIN", "/v1/admin/networks/$NETWORK/dead-letters?limit=1"),
    send("admin_retry_dead_letters", "ADMIN", "/v1/admin/networks/$NETWORK/dead-letters/retry", r#"{"all":true}"#),
    send("admin_drop_dead_letters", "ADMIN", "/v1/admin/networks/$NETWORK/dead-letters/drop", r#"{"all":true}"#),
    send("admin_redact", "ADMIN", "/v1/admin/networks/$NETWORK/redact", r#"{"event_id":"hello"}"#),
    get("admin_doctor", "ADMIN", "/v1/admin/doctor"),
    get("admin_verify", "ADMIN", "/v1/admin/verify"),
    get("admin_backup", "ADMIN", "/v1/admin/backup"),
    get("admin_export_network", "ADMIN", "/v1/admin/networks/$LAB/export"),
    Example {
        body: Body::File,
        keeps: &[("COPY", "/data/id")],
        ..get("admin_import_network", "ADMIN", "/v1/admin/import?name=copy")
    },
    // Agents of the SDK.
    get("sdk_health", "", "/api/health"),
    Example {
        keeps: &[("SECRET", "/secret")],
        ..send(
            "sdk_register",
            "",
            "/api/register",
            r#"{"agent_id":"echo","metadata":{"description":"repeats"},"password_hash":"$PASSWORD"}"#,
        )
    },
    send(
        "sdk_send_event",
        "",
        "/api/send_event",
        r#"{"event_name":"agent.message","source_id":"echo","target_agent_id":"ben","payload":{"text":"hello"},"secret":"$SECRET"}"#,
    ),
    get("sdk_poll", "", "/api/poll?agent_id=echo&secret=$SECRET"),
    send("sdk_unregister", "", "/api/unregister", r#"{"agent_id":"echo","secret":"$SECRET"}"#),
    send("remove", "ADMIN", "/v1/remove", r#"{"agent_name":"ben"}"#),
    send("leave", "SESSION", "/v1/leave", r#"{"reason":"done for today"}"#),
];
