//! Every bound of the system, unit in the name. Each has a test that fills it and sees the documented error.

/// Whole event, serialised; more is `too_large`.
pub const EVENT_BYTES_MAX: usize = 1 << 20;
/// Metadata of one event; more is `too_large` with field `metadata`.
pub const METADATA_BYTES_MAX: usize = 16 << 10;
/// Top-level metadata keys; more is `too_large` with field `metadata`.
pub const METADATA_KEYS_MAX: usize = 64;
/// Nesting of a payload; deeper is `invalid_payload`.
pub const PAYLOAD_DEPTH_MAX: usize = 64;
/// Events in one batch; more is `too_large`.
pub const BATCH_EVENTS_MAX: usize = 4096;
/// Bytes of one batch, HTTP body, WebSocket frame or stdio line; more is `too_large`.
pub const BATCH_BYTES_MAX: usize = 4 << 20;
/// Characters of an event id.
pub const EVENT_ID_CHARS_MAX: usize = 128;
/// Characters of an event type; more is `invalid_type`.
pub const EVENT_TYPE_CHARS_MAX: usize = 128;
/// Characters of an idempotency key; more is `invalid_argument`.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 128;
/// Members of one network; more is `network_full`.
pub const MEMBERS_MAX: usize = 10_000;
/// Members of one network that faces carry (`via`), which do not count as its own; more is `network_full`.
pub const CARRIED_MEMBERS_MAX: usize = 100_000;
/// Events one carried member may be sent before it acks; more waits in its queue.
pub const CARRIED_WINDOW: usize = 16;
/// Events all members of one face in one network may be sent before they ack; the others' mail waits in their queues.
pub const CARRIED_UNACKED_MAX: usize = 4096;
/// Members up to which a network tells everybody at once of each one that comes or goes; a larger one tells once a second, all together.
pub const PRESENCE_EACH_MEMBERS_MAX: usize = 256;
/// Members named in one such notice; how many more there were is said.
pub const PRESENCE_NAMED_MAX: usize = 32;
/// Sessions one human may hold; more is `too_many_sessions`.
pub const HUMAN_SESSIONS_MAX: usize = 16;
/// Percent of what a network may hold of a kind (channels, threads, direct rooms, resources, invitations, open work) that one member may
/// make, unless the network's `member_share_percent` says otherwise; more is `network_full` with `details.scope` `member`.
pub const MEMBER_SHARE_PERCENT_DEFAULT: u8 = 25;
/// Percent of each of them that is kept for the operator.
pub const OPERATOR_PERCENT: usize = 5;
/// Channels of one network; more is `network_full`.
pub const CHANNELS_MAX: usize = 100_000;
/// Groups of one network; more is `network_full`.
pub const GROUPS_MAX: usize = 10_000;
/// Networks on one node; more is `network_full`.
pub const NETWORKS_MAX: usize = 1_000;
/// Workspaces on one node that were made without a credential; more is `network_full` with `details.scope` `node`.
pub const OPEN_WORKSPACES_MAX: usize = 100;
/// Workspaces made without a credential within a minute; more is `rate_limited`.
pub const OPEN_WORKSPACES_PER_MINUTE_MAX: usize = 10;
/// Tokens of one network; more is `network_full`.
pub const TOKENS_MAX: usize = 1_000;
/// Pending events per member, unless the network's `max_pending` is lower; a direct send beyond is `recipient_queue_full`.
pub const PENDING_EVENTS_MAX: u64 = 1_000_000;
/// Bytes of pending events per member, unless the network's `max_pending_bytes` is lower; a direct send that does not fit is
/// `recipient_queue_full`. An event counts in whole KiB, and an empty queue takes any event.
pub const PENDING_BYTES_MAX: u64 = 1 << 30;
/// KiB that one event counts for in a queue at most.
pub const PENDING_EVENT_KIB_MAX: u64 = 2047;
/// Tracked unacked events per session by default.
pub const WINDOW_DEFAULT: usize = 256;
/// Tracked unacked events per session at most; a larger wish is `invalid_argument`.
pub const WINDOW_MAX: usize = 4096;
/// Ids in one ack; more is `too_large`.
pub const ACK_IDS_MAX: usize = 4096;
/// Members of one network whose acks are being looked up in the store; acks of others are `rate_limited` then.
pub const ACKS_LOOKED_UP_MAX: usize = 256;
/// Events a client may have unanswered on one stream before the server stops reading.
pub const UNANSWERED_EVENTS_MAX: usize = 8192;
/// Inputs waiting for one network; more is refused `rate_limited`.
pub const INPUT_QUEUE_MAX: usize = 1024;
/// Bytes of large inputs (more than [`INPUT_SMALL_BYTES`]) that wait for one network; a request waits for room, and is `rate_limited` after
/// ten seconds.
pub const INPUT_BYTES_MAX: usize = 16 << 20;
/// The same for all networks of a node; the last quarter is for networks for which nothing waits.
pub const INPUT_ALL_BYTES_MAX: usize = 32 << 20;
/// Inputs up to this size are bounded by their number alone.
pub const INPUT_SMALL_BYTES: usize = 32 << 10;
/// Ephemeral and direct answers waiting in one session; more are dropped (ephemeral) or end the session.
pub const OUTBOX_FRAMES_MAX: usize = 4096;
/// Memory ring of at-most-once events per member that polls.
pub const RING_EVENTS_MAX: usize = 1000;
/// Page size of history reads; outside 1..=this is `invalid_argument`.
pub const PAGE_EVENTS_MAX: usize = 500;
/// Bytes of events in one page, about: a page that would be larger ends early and says that there is more.
pub const PAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes of answers that wait to be read on one connection, for one credential; a request waits for room, and is `rate_limited` if
/// nothing is read for ten seconds.
pub const UNREAD_PER_CONNECTION_BYTES_MAX: usize = 16 << 20;
/// The same for all connections with one credential.
pub const UNREAD_PER_MEMBER_BYTES_MAX: usize = 32 << 20;
/// The same for the whole node. The last quarter is for clients that hold nothing; while the node is that full, connections that have read
/// nothing for a second are ended.
pub const UNREAD_BYTES_MAX: usize = 64 << 20;
/// Bytes of mail on their way to all streams of a node; more waits in the log until it is read.
pub const UNREAD_MAIL_BYTES_MAX: usize = 64 << 20;
/// Bytes of its newest events that one network keeps at hand; older ones are read from the log.
pub const RECENT_BYTES_MAX: usize = 16 << 20;
/// The same for all networks of a node, but for the megabyte that each may keep.
pub const RECENT_ALL_BYTES_MAX: usize = 64 << 20;
/// Bytes of the responses in one answer to a batch; what is read beyond them is `too_large`.
pub const BATCH_RESPONSE_BYTES_MAX: usize = 4 << 20;
/// Bytes of mail on their way to one stream; more waits in the log until the stream has read on.
pub const OUTBOX_BYTES_MAX: usize = 4 << 20;
/// Page size when none is asked for.
pub const PAGE_EVENTS_DEFAULT: usize = 50;
/// Events looked at by one filtered read before it returns with `has_more`.
pub const SCAN_EVENTS_MAX: usize = 20_000;
/// Rows of a list that has no page on the wire, and of one piece of any other; what is behind them is said (`has_more`), with a cursor.
pub const LIST_ROWS_MAX: usize = 1_000;
/// Bytes of one piece of such a list, about: a piece that would be larger ends early and says that there is more.
pub const LIST_BYTES_MAX: usize = 1 << 20;
/// Rows looked at for one piece; where a filter passes few of them, the piece ends there and says that there is more.
pub const LIST_LOOKS_MAX: usize = 10_000;
/// Seconds a long poll or `wait` may last; more is `invalid_argument`.
pub const WAIT_SECONDS_MAX: u64 = 60;
/// Refusals remembered for `explain`; older ones are forgotten.
pub const REFUSALS_KEPT_MAX: usize = 1024;
/// Bad frames in a row before a stream is closed.
pub const BAD_FRAMES_MAX: u32 = 10;
/// Network metadata; more is `too_large`.
pub const NETWORK_METADATA_BYTES_MAX: usize = 16 << 10;
/// Characters of a network name.
pub const NETWORK_NAME_CHARS_MAX: usize = 128;
/// What a member says of itself in the roster, serialised; more is `too_large`.
pub const PROFILE_BYTES_MAX: usize = 16 << 10;
/// Characters of a channel's title; more is `invalid_payload`.
pub const CHANNEL_TITLE_CHARS_MAX: usize = 512;
/// Networks in `metadata.via`; more is `invalid_event`.
pub const VIA_NETWORKS_MAX: usize = 8;
/// Addresses in `metadata.to`; more is `invalid_event`.
pub const TO_ADDRESSES_MAX: usize = 256;
/// Content of one message in a network with mod/workspace; more is `too_large`.
pub const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// Names one message can mention; those after them are not looked at.
pub const MENTIONS_MAX: usize = 64;
/// One file, or other content of a resource; more is `too_large`.
pub const FILE_BYTES_MAX: u64 = 2 << 30;
/// Content of all resources of a network together, unless its setting `blob_bytes_max` says otherwise; more is `too_large`.
pub const BLOB_BYTES_DEFAULT: u64 = 16 << 30;
/// One file of a workspace, as its clients bring it; more is `too_large`.
pub const UPLOAD_BYTES_MAX: u64 = 50 << 20;
/// Uploads on their way into a node; more is `rate_limited`.
pub const UPLOADS_MAX: usize = 512;
/// Uploads of one network on their way in; more is `rate_limited`. It is also refused its next one when that would leave fewer places of
/// [`UPLOADS_MAX`] than it has itself, so that others always find room.
pub const UPLOADS_PER_NETWORK_MAX: usize = 128;
/// Uploads of one member on their way in; more is `rate_limited`.
pub const UPLOADS_PER_MEMBER_MAX: usize = 16;
/// Uploads of one member that nothing names yet; more is `rate_limited`.
pub const STAGED_PER_MEMBER_MAX: usize = 1024;
/// Names mod/analytics shows by type and by source (`top_n`); a larger wish is `invalid_argument`.
pub const ANALYTICS_TOP_MAX: usize = 1000;
/// Connections one node serves at once; more are closed at accept.
pub const CONNECTIONS_MAX: usize = 20_000;
/// Per cent of a node's connections that may have proved no credential; with more, the one that came first is closed for the one that comes.
pub const UNPROVED_CONNECTIONS_PERCENT_MAX: usize = 25;
/// Seconds from the first byte of a request to the end of its headers, and from a connection to its first request; then it is closed.
pub const HEADER_SECONDS_MAX: u64 = 10;
/// Seconds a connection may wait for its next request; then it is closed.
pub const IDLE_SECONDS_MAX: u64 = 75;
/// Seconds a client may take nothing of what waits for it; then the connection is closed.
pub const UNREAD_SECONDS_MAX: u64 = 60;
/// Seconds a body may come as slowly as it likes …
pub const BODY_GRACE_SECONDS: u64 = 10;
/// … and the bytes a second it must come by on average after them; slower is `timeout` (408).
pub const BODY_BYTES_PER_SECOND_MIN: u64 = 1 << 10;
/// Bytes of body one connection may send before a credential is proved; more is `unauthenticated`.
pub const UNPROVED_BODY_BYTES_MAX: usize = 64 << 10;
/// Bytes of all bodies that are waited for and show no credential; more is `rate_limited`.
pub const UNPROVED_BODIES_BYTES_MAX: usize = 8 << 20;
/// Bytes of bodies under one credential that are waited for; more is `rate_limited`.
pub const BODIES_PER_CREDENTIAL_BYTES_MAX: usize = 16 << 20;
/// Bytes of all bodies under credentials that are waited for; more is `rate_limited`.
pub const BODIES_BYTES_MAX: usize = 20 << 20;
/// Bytes one HTTP/2 stream may send ahead of whoever reads it.
pub const STREAM_AHEAD_BYTES_MAX: u32 = 256 << 10;
/// Bytes all streams of one HTTP/2 connection may send ahead; half as much may be the cost of small frames, which one stream alone never
/// reaches.
pub const CONNECTION_AHEAD_BYTES_MAX: u32 = 32 << 20;
/// Bytes of one HTTP request's headers; more is 431.
pub const HEADER_BYTES_MAX: usize = 64 << 10;
/// Dead letters listed for the operator; older ones are forgotten.
pub const DEAD_LETTERS_KEPT_MAX: usize = 10_000;
/// Dead letters listed, sent again or put away by one call; the answer says whether there are more.
pub const DEAD_LETTERS_PER_CALL_MAX: usize = 1_000;
/// Work units of one network that have not ended; more is `network_full`.
pub const WORK_OPEN_MAX: usize = 20_000;
/// Open work units one member may have to do; more is `recipient_queue_full`.
pub const WORK_PER_EXECUTOR_MAX: usize = 10_000;
/// How deep work may be handed on; deeper is `invalid_argument`.
pub const WORK_DEPTH_MAX: u8 = 8;
/// Work units below one root; more is `network_full`.
pub const WORK_PER_ROOT_MAX: u32 = 256;
/// Work units that have ended and are still known; the oldest are forgotten.
pub const WORK_CLOSED_KEPT_MAX: usize = 20_000;
/// Artifacts of one work unit; more is `too_large`.
pub const ARTIFACTS_MAX: usize = 256;
/// Chunks of one artifact; more is `too_large`.
pub const ARTIFACT_CHUNKS_MAX: u32 = 10_000;
/// Chunks of one work unit that are kept as content of their own; more is `too_large`.
pub const WORK_BLOBS_PER_UNIT_MAX: usize = 1024;
/// Chunks of all work units of a network that are kept as content of their own; more is `network_full`.
pub const WORK_BLOBS_MAX: usize = 100_000;
/// Characters of an id, context, skill or artifact name a client gives to work; more is `invalid_event`.
pub const WORK_TEXT_CHARS_MAX: usize = 128;
/// Shortest silence that who asks for work may allow, in milliseconds.
pub const WORK_DEADLINE_MS_MIN: u64 = 1_000;
/// Longest silence that who asks for work may allow, in milliseconds; another is `invalid_event`.
pub const WORK_DEADLINE_MS_MAX: u64 = 7 * 24 * 3_600_000;
/// Characters of what a resource says of itself; more is `invalid_argument`.
pub const RESOURCE_DESCRIPTION_CHARS_MAX: usize = 4096;
/// Characters of a content type; more is `invalid_argument`.
pub const CONTENT_TYPE_CHARS_MAX: usize = 128;
/// Threads of one network that something is left of; another one is `network_full`.
pub const THREADS_MAX: usize = 100_000;
/// Invitations of one network that can still be used; more are `network_full`.
pub const INVITES_MAX: usize = 10_000;
/// Times one invitation can be used; a larger wish is `invalid_payload`.
pub const INVITE_USES_MAX: u32 = 10_000;
/// Seconds an invitation can be valid; a larger wish is `invalid_payload`.
pub const INVITE_SECONDS_MAX: u64 = 365 * 24 * 3600;
/// Characters of the message of an invitation; more is `invalid_payload`.
pub const INVITE_MESSAGE_CHARS_MAX: usize = 1000;
/// Direct rooms of one network; opening another is `network_full`, and direct events are in no room.
pub const ROOMS_MAX: usize = 100_000;
/// Events of one source that wait behind one that needs an answer from outside; more are `rate_limited`.
pub const PARKED_EVENTS_MAX: usize = 256;
/// Bytes of them; more are `rate_limited`.
pub const PARKED_BYTES_MAX: usize = 4 << 20;
/// Bytes of all events of a network that wait for an answer from outside; more are `rate_limited`.
pub const PARKED_ALL_BYTES_MAX: usize = 64 << 20;
/// Resources of one network; more is `network_full`.
pub const RESOURCES_MAX: usize = 10_000;
/// Bytes of a tool's schemas; more is `invalid_argument`.
pub const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// Calls of resources one member may wait for; more is `rate_limited`.
pub const CALLS_PER_CALLER_MAX: usize = 1024;
/// Calls of resources one owner may have to answer; more is `recipient_queue_full`.
pub const CALLS_PER_OWNER_MAX: usize = 4096;
/// Addresses of before that are known of a member; the oldest are forgotten.
pub const FORMER_NAMES_MAX: usize = 8;
/// How long mail waits at most for a member that does not say "until I say otherwise"; more is `invalid_argument`.
pub const QUIET_MS_MAX: u64 = 30 * 24 * 3_600_000;
/// Mods of one network that run elsewhere: as a process, or served by a member; more is `network_full`.
pub const MODS_OUTSIDE_MAX: usize = 32;
/// Milliseconds such a mod may take for one event; a larger wish is `invalid_payload`.
pub const MOD_DEADLINE_MS_MAX: u64 = 30_000;
/// Events in a row that such a mod may leave unanswered; then it is suspended: it is not asked, and counts as failed at once, until it
/// answers a probe.
pub const MOD_TIMEOUTS_MAX: u32 = 3;
/// Patterns on types such a mod may name; more are `invalid_payload`.
pub const MOD_PATTERNS_MAX: usize = 64;
/// Events one verdict may send; more is `invalid_payload`.
pub const MOD_EMITS_MAX: usize = 16;
/// How far events of mods may follow from one another; what is deeper is dropped and counted.
pub const MOD_EMIT_DEPTH_MAX: u8 = 8;
/// Events of mods that may follow from one event; more are dropped and counted.
pub const MOD_EMITS_PER_CAUSE_MAX: u32 = 256;
/// Members an operator may let serve mods, counted with every mod; more is `network_full`.
pub const MOD_APPROVALS_MAX: usize = 1024;
/// Events shown to observers elsewhere that they have not answered; more are not shown, and counted.
pub const MOD_OBSERVING_MAX: usize = 1024;
/// Checks that wait for a member that polls; the oldest are dropped, and fail.
pub const MOD_CHECKS_WAITING_MAX: usize = 256;
/// Characters of the name of a face.
pub const FACE_NAME_CHARS_MAX: usize = 32;
/// Facts of one face in one network; more is `network_full`.
pub const FACTS_PER_FACE_MAX: usize = 20_000;
/// Bytes of all facts of one face in one network, keys included; more is `network_full`.
pub const FACTS_PER_FACE_BYTES_MAX: usize = 16 << 20;
/// Bytes of a fact's key; a longer one is `invalid_argument`.
pub const FACT_KEY_BYTES_MAX: usize = 256;
/// Bytes of a fact; a larger one is `too_large`.
pub const FACT_BYTES_MAX: usize = 64 << 10;
/// Bytes of a URL that a node fetches; a longer one is not fetched.
pub const OUTBOUND_URL_BYTES_MAX: usize = 2048;
/// Addresses of one host that are tried, one after the other.
pub const OUTBOUND_ADDRESSES_MAX: usize = 4;
/// Fetches on their way at a time; the next one waits, within its own time.
pub const OUTBOUND_CALLS_MAX: usize = 64;
/// Look-ups of names on their way at a time.
pub const OUTBOUND_LOOKUPS_MAX: usize = 16;
/// Seconds until a connection to another host stands, unless the fetch has bounds of its own.
pub const OUTBOUND_CONNECT_SECONDS_MAX: u64 = 4;
/// Seconds until another host begins its answer, unless the fetch has bounds of its own.
pub const OUTBOUND_HEAD_SECONDS_MAX: u64 = 8;
/// Seconds that a whole fetch takes, unless it has bounds of its own.
pub const OUTBOUND_WHOLE_SECONDS_MAX: u64 = 10;
/// Bytes of a fetched document, unless the fetch has bounds of its own.
pub const OUTBOUND_ANSWER_BYTES_DEFAULT: usize = 64 << 10;
/// Bytes of what is sent with a fetch.
pub const OUTBOUND_BODY_BYTES_MAX: usize = 4 << 20;
/// Headers that are sent with a fetch, besides the client's own.
pub const OUTBOUND_HEADERS_MAX: usize = 64;
/// Headers of an answer from another host.
pub const OUTBOUND_ANSWER_HEADERS_MAX: usize = 128;
/// Bytes of the head of an answer from another host.
pub const OUTBOUND_HEAD_BYTES_MAX: usize = 64 << 10;
/// Events that one poll of an agent of the SDK is given.
pub const SDK_POLL_EVENTS_MAX: usize = 100;
/// Sessions of the SDK whose last poll is remembered; what is forgotten is given again.
pub const SDK_POLLS_MAX: usize = 10_000;
/// Subscriptions of an agent of the SDK; more is `rate_limited`.
pub const SDK_SUBSCRIPTIONS_MAX: usize = 16;
/// Characters of a reaction; more is `invalid_payload`.
pub const SDK_REACTION_CHARS_MAX: usize = 64;
