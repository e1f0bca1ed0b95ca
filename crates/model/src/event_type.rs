//! Event types: every type the core knows by name, and any other as [`EventType::Custom`].
//!
//! Invariant: a type is lower-case dotted words ([`is_event_type`]); [`EventType::parse`] refuses everything else. One name has one
//! variant, so code that matches on a variant cannot be surprised by a second spelling. Nothing here allocates.
//! Not here: what a type means, where it may go and who may send it (`rialto-engine`).

use crate::{ErrorCode, Fault, limits};

/// Declares the types of each namespace once: the variant, its name, and how it is found again.
macro_rules! event_types {
    ($($(#[$section:meta])* $namespace:literal { $($(#[$doc:meta])* $variant:ident = $rest:literal,)+ })+) => {
        /// The type of an event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventType<'a> {
            $($($(#[$doc])* #[doc = concat!("`", $namespace, $rest, "`")] $variant,)+)+
            /// A type the core has no name for: an extension's, or one in a reserved namespace that does not exist. Made by
            /// [`EventType::of`] and [`EventType::parse`] alone: wrapping a name by hand would hide a type that is known.
            Custom(&'a str),
        }

        impl EventType<'static> {
            /// Every type the core knows by name, in the order of the specification.
            pub const KNOWN: &[EventType<'static>] = &[$($(EventType::$variant,)+)+];
        }

        impl<'a> EventType<'a> {
            /// The name on the wire.
            pub fn as_str(self) -> &'a str {
                match self {
                    $($(EventType::$variant => concat!($namespace, $rest),)+)+
                    EventType::Custom(name) => name,
                }
            }

            /// The type of a name that was checked before, as those of an [`Envelope`](crate::Envelope) and an
            /// [`Event`](crate::Event) are. A name the core does not know is custom, whatever it looks like.
            pub fn of(name: &'a str) -> EventType<'a> {
                $(if let Some(rest) = name.strip_prefix($namespace) {
                    return match rest {
                        $($rest => EventType::$variant,)+
                        _ => EventType::Custom(name),
                    };
                })+
                EventType::Custom(name)
            }
        }
    };
}

event_types! {
    "network." {
        /// A member arrives.
        AgentJoin = "agent.join",
        /// A member leaves.
        AgentLeave = "agent.leave",
        /// Who and what is here is asked.
        AgentDiscover = "agent.discover",
        /// The roster.
        AgentDiscoverResponse = "agent.discover.response",
        /// A member tells what it can.
        AgentAnnounce = "agent.announce",
        /// A member is removed.
        AgentRemove = "agent.remove",
        /// A channel is made.
        ChannelCreate = "channel.create",
        /// A channel ends.
        ChannelDelete = "channel.delete",
        /// A member takes a seat.
        ChannelJoin = "channel.join",
        /// A member gives its seat up.
        ChannelLeave = "channel.leave",
        /// A resource is made or replaced.
        ResourceRegister = "resource.register",
        /// A resource ends.
        ResourceUnregister = "resource.unregister",
        /// Resources are asked for.
        ResourceDiscover = "resource.discover",
        /// Resources that were found.
        ResourceDiscoverResponse = "resource.discover.response",
        /// A tool is called.
        ResourceInvoke = "resource.invoke",
        /// What a tool gave.
        ResourceInvokeResult = "resource.invoke.result",
        /// A resource's content is asked for.
        ResourceRead = "resource.read",
        /// A resource's content.
        ResourceReadResponse = "resource.read.response",
        /// A resource changes.
        ResourceUpdate = "resource.update",
        /// A sign of life.
        Ping = "ping",
        /// The answer to a sign of life.
        Pong = "pong",
        /// An event was received.
        EventAck = "event.ack",
        /// An event was refused.
        EventError = "event.error",
        /// History is asked for.
        EventsQuery = "events.query",
        /// A page of history.
        EventsResponse = "events.response",
        /// A member serves a mod.
        ModServe = "mod.serve",
        /// What a served mod decided.
        ModVerdict = "mod.verdict",
    }
    "workspace." {
        /// Somebody says something.
        MessagePosted = "message.posted",
        /// Somebody tells what it is doing.
        MessageStatus = "message.status",
        /// A session began.
        SessionCreated = "session.created",
        /// A session changes.
        SessionUpdated = "session.updated",
        /// Somebody is invited.
        InvitationCreated = "invitation.created",
        /// An invitation was used.
        InvitationAccepted = "invitation.accepted",
        /// An invitation was turned down.
        InvitationRejected = "invitation.rejected",
        /// A file came.
        FileUploaded = "file.uploaded",
        /// A file went.
        FileDeleted = "file.deleted",
    }
    "work." {
        /// How work gets on.
        WorkUpdate = "update",
        /// Something that work made.
        WorkArtifact = "artifact",
        /// The answer that work waits for.
        WorkAnswer = "answer",
        /// Work is called off.
        WorkCancel = "cancel",
    }
    "rialto." {
        /// A member came or went.
        MemberStatus = "member.status",
        /// A member changed its own profile, name or rest.
        MemberUpdate = "member.update",
        /// A member has another address.
        MemberRenamed = "member.renamed",
        /// The network runs, rests or is archived.
        NetworkStatus = "network.status",
        /// A resource was made, changed or removed.
        ResourceChanged = "resource.changed",
        /// The pipeline changed.
        ModChanged = "mod.changed",
        /// A served mod is shown an event.
        ModCheck = "mod.check",
        /// A mod that did not answer is asked whether it does again.
        ModProbe = "mod.probe",
        /// Mail was given up.
        DeliveryDead = "delivery.dead",
    }
}

/// Who decides which types exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespace {
    /// `network.`: the types of the specification and no others.
    Network,
    /// `workspace.`: mod/workspace, where it is loaded.
    Workspace,
    /// `work.`: acts on work units.
    Work,
    /// `rialto.`: the server alone.
    Rialto,
    /// Extensions: open to everybody.
    Extension,
}

impl Namespace {
    /// The namespace of a type's name.
    pub fn of(name: &str) -> Namespace {
        let named = [
            ("network.", Namespace::Network),
            ("workspace.", Namespace::Workspace),
            ("work.", Namespace::Work),
            ("rialto.", Namespace::Rialto),
        ];
        named.into_iter().find(|(start, _)| name.starts_with(start)).map_or(Namespace::Extension, |(_, found)| found)
    }
}

impl<'a> EventType<'a> {
    /// The type of a name that comes from outside. Refuses what [`is_event_type`] refuses.
    pub fn parse(name: &'a str) -> Result<EventType<'a>, Fault> {
        if is_event_type(name) {
            return Ok(EventType::of(name));
        }
        let text = "type must be lower-case dotted words such as myapp.task.assigned";
        Err(Fault::new(ErrorCode::InvalidType, text).field("type"))
    }

    /// Who decides which types like this exist.
    pub fn namespace(self) -> Namespace {
        Namespace::of(self.as_str())
    }

    /// Whether members may send only those types of its namespace that the specification lists.
    pub fn is_reserved(self) -> bool {
        matches!(self.namespace(), Namespace::Network | Namespace::Rialto)
    }

    /// Whether it is one of `network.resource.*`.
    pub fn is_about_resources(self) -> bool {
        self.as_str().starts_with("network.resource.")
    }

    /// Whether it is one of `network.*`, or would be if it existed.
    pub fn is_network(self) -> bool {
        self.namespace() == Namespace::Network
    }
}

impl std::fmt::Display for EventType<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a text is a legal type: `[a-z][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)+`, at most 128 characters.
pub fn is_event_type(text: &str) -> bool {
    let (mut words, mut first) = (1, true);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' => first = false,
            b'0'..=b'9' if !first || words > 1 => first = false,
            b'_' | b'-' if !first => {}
            b'.' if !first => {
                words += 1;
                first = true;
            }
            _ => return false,
        }
    }
    words > 1 && !first && text.len() <= limits::EVENT_TYPE_CHARS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_known_name_reads_back_as_itself_and_is_legal() {
        for known in EventType::KNOWN {
            assert_eq!(EventType::parse(known.as_str()).as_ref(), Ok(known));
            assert_eq!(known.to_string(), known.as_str());
            assert_ne!(known.namespace(), Namespace::Extension, "{known}");
        }
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = EventType::KNOWN.iter().map(|known| known.as_str()).collect();
        assert_eq!(names.len(), EventType::KNOWN.len());
    }

    #[test]
    fn what_the_core_does_not_know_is_custom() {
        for name in ["myapp.task.assigned", "network.agent.joined", "workspace.agent.control", "work.x", "rialto.x"] {
            assert_eq!(EventType::parse(name), Ok(EventType::Custom(name)));
        }
        for (name, namespace) in [
            ("network.x", Namespace::Network),
            ("network.", Namespace::Network),
            ("networks.x", Namespace::Extension),
            ("workspace.x", Namespace::Workspace),
            ("work.x", Namespace::Work),
            ("works.x", Namespace::Extension),
            ("rialto.x", Namespace::Rialto),
            ("", Namespace::Extension),
        ] {
            assert_eq!(EventType::Custom(name).namespace(), namespace, "{name}");
        }
    }

    #[test]
    fn refusals_name_the_code_and_the_field() {
        for name in ["", "ab", "A.b", "a..b", ".a", "a.", "1a.b", "a.-b", "a b.c"] {
            let fault = EventType::parse(name).unwrap_err();
            assert_eq!(
                (fault.code, fault.payload(None)["details"]["field"].as_str()),
                (ErrorCode::InvalidType, Some("type"))
            );
        }
    }

    #[test]
    fn event_type_chars_max_is_enforced() {
        let name = format!("a.{}", "b".repeat(limits::EVENT_TYPE_CHARS_MAX - 2));
        assert!(EventType::parse(&name).is_ok());
        assert!(EventType::parse(&format!("{name}b")).is_err());
    }

    proptest! {
        #[test]
        fn parse_accepts_what_the_grammar_accepts_and_keeps_the_text(name in "\\PC{0,12}|[a-z0-9._-]{0,20}|(network|work)\\.[a-z.]{0,9}") {
            prop_assert_eq!(EventType::parse(&name).is_ok(), is_event_type(&name));
            prop_assert_eq!(EventType::of(&name).as_str(), name.as_str());
        }
    }
}
