//! The filters of `GET /v1/events` and of the event stream (sheet sections 12.5 and 12.6).

use crate::endpoint::encode;

/// Which events to read. Everything absent is left to the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the query parameters, by their names")]
pub struct EventQuery {
    /// Cursor (event id or `seq:n`): only what follows. For a member this also acks, unless `ack` is false.
    pub after: Option<String>,
    /// Cursor: only what precedes.
    pub before: Option<String>,
    /// 1 to 500.
    pub limit: Option<u32>,
    /// Newest first.
    pub newest_first: bool,
    /// Prefix of the type, or a glob if it has a `*`.
    pub kind: Option<String>,
    pub channel: Option<String>,
    pub thread: Option<String>,
    /// A direct room, by id.
    pub room: Option<String>,
    pub target: Option<String>,
    pub source: Option<String>,
    pub target_agents: Option<String>,
    pub member: Option<String>,
    /// Two addresses: what they said to each other.
    pub conversation: Option<(String, String)>,
    pub in_reply_to: Option<String>,
    pub search: Option<String>,
    /// Not older than this (Unix ms).
    pub since: Option<u64>,
    /// Older than this (Unix ms).
    pub until: Option<u64>,
    /// `inbox` or `log`.
    pub view: Option<&'static str>,
    /// False: reading acks nothing.
    pub ack: Option<bool>,
    /// Long poll, at most 60 s.
    pub wait_s: Option<u64>,
}

impl EventQuery {
    /// The visible history, without acking anything.
    pub fn log() -> EventQuery {
        EventQuery { view: Some("log"), ack: Some(false), ..EventQuery::default() }
    }

    /// What was delivered to the caller and is not acked, without acking it.
    pub fn inbox() -> EventQuery {
        EventQuery { view: Some("inbox"), ack: Some(false), ..EventQuery::default() }
    }

    /// The query string, with its `?` when there is anything to say.
    pub(crate) fn to_query(&self) -> String {
        let number = |n: Option<u64>| n.map(|n| n.to_string());
        let pairs = [
            ("after", self.after.clone()),
            ("before", self.before.clone()),
            ("limit", number(self.limit.map(u64::from))),
            ("sort", self.newest_first.then(|| "desc".to_owned())),
            ("type", self.kind.clone()),
            ("channel", self.channel.clone()),
            ("thread", self.thread.clone()),
            ("room", self.room.clone()),
            ("target", self.target.clone()),
            ("source", self.source.clone()),
            ("target_agents", self.target_agents.clone()),
            ("member", self.member.clone()),
            ("conversation", self.conversation.as_ref().map(|(a, b)| format!("{a},{b}"))),
            ("in_reply_to", self.in_reply_to.clone()),
            ("search", self.search.clone()),
            ("since", number(self.since)),
            ("until", number(self.until)),
            ("view", self.view.map(str::to_owned)),
            ("ack", self.ack.map(|a| a.to_string())),
            ("wait", number(self.wait_s)),
        ];
        query_string(pairs)
    }
}

/// `?a=b&c=d` from the pairs that have a value.
pub(crate) fn query_string<const N: usize>(pairs: [(&str, Option<String>); N]) -> String {
    let mut out = String::new();
    for (name, value) in pairs {
        if let Some(value) = value {
            out.push(if out.is_empty() { '?' } else { '&' });
            out.push_str(name);
            out.push('=');
            out.push_str(&encode(&value));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_said_is_asked() {
        assert_eq!(EventQuery::default().to_query(), "");
        assert_eq!(EventQuery::inbox().to_query(), "?view=inbox&ack=false");
        let query = EventQuery {
            kind: Some("workspace.*".into()),
            channel: Some("general".into()),
            conversation: Some(("human:a+b@c.d".into(), "agent:x".into())),
            limit: Some(10),
            newest_first: true,
            ..EventQuery::default()
        };
        assert_eq!(
            query.to_query(),
            "?limit=10&sort=desc&type=workspace.%2A&channel=general&conversation=human:a%2Bb%40c.d%2Cagent:x"
        );
    }
}
