//! What is shown of a network as a whole: its public profile, and its settings, tokens, groups and dead letters for the operator.

use crate::input::{Caller, Clock};
use crate::listing::ListPiece;
use crate::presence::VolatileState;
use crate::state::{DeadLetter, State};
use rialto_model::network::{Policy, Token};
use rialto_model::view::{
    AccessView, DeadLetterLedger, DeadLetterView, GroupList, GroupView, NetworkView, ProfileView, TokenList, TokenView,
    WorkspaceView,
};
use serde_json::Value;

impl From<&DeadLetter> for DeadLetterView {
    fn from(letter: &DeadLetter) -> DeadLetterView {
        let DeadLetter { seq, recipient, reason, at, .. } = letter;
        DeadLetterView { seq: *seq, recipient: recipient.clone(), reason: reason.clone(), at: *at }
    }
}

impl State {
    /// The public profile of the network, of whose members so many are there.
    pub fn profile_view(&self, agents_online: usize) -> ProfileView {
        let (book, settings) = (&self.book, &self.book.settings);
        let mut capabilities = vec!["network.agent", "network.channel", "network.resource", "work"];
        if self.has_mod("persistence") {
            capabilities.push("network.events");
        }
        if self.has_mod("workspace") {
            capabilities.extend(["workspace.message", "workspace.session", "workspace.invitation"]);
        }
        let policy = if self.is_open() { Policy::Open } else { settings.policy };
        ProfileView {
            id: book.id.clone(),
            slug: book.id.clone(),
            name: settings.name.clone(),
            description: settings.metadata.get("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
            access: AccessView { policy, min_verification: settings.min_verification },
            capabilities: capabilities.into_iter().map(str::to_owned).collect(),
            agents_online,
            status: settings.status,
            delivery: settings.delivery,
            durability: settings.durability,
            profile: settings.profile,
            onm_version: "1.0".to_owned(),
            listed: settings.metadata.get("listed").and_then(Value::as_bool).unwrap_or(true),
        }
    }

    /// The network as its operator sees it.
    pub fn network_view(&self) -> NetworkView {
        let book = &self.book;
        NetworkView {
            id: book.id.clone(),
            settings: book.settings.clone(),
            created_at: book.created_at,
            created_by: book.created_by.clone(),
            members: self.roster().count(),
            channels: self.channel_count(),
            head: book.head,
            purged: book.purged,
            mods: book.mods.iter().map(|config| serde_json::to_value(config).unwrap_or_default()).collect(),
        }
    }

    /// The tokens of the network, without their hashes.
    pub fn tokens(&self, live: &VolatileState) -> TokenList {
        let shown = |token: &Token| TokenView {
            label: token.label.clone(),
            role: token.role,
            agent: token.agent.clone(),
            expires_at: token.expires_at,
            created_at: token.created_at,
            last_used_at: live.last_use(token),
        };
        TokenList { tokens: self.book.tokens.iter().map(shown).collect() }
    }

    /// The groups of the network.
    pub fn groups(&self) -> GroupList {
        let shown = self.book.groups.iter().map(|(name, group)| GroupView {
            group: format!("group/{name}"),
            name: name.to_string(),
            members: group.members.clone(),
        });
        GroupList { groups: shown.collect() }
    }

    /// Every dead letter that is remembered, dealt with or not.
    pub fn dead_letter_ledger(&self) -> DeadLetterLedger {
        DeadLetterLedger { dead_letters: self.book.dead_letters.iter().map(Into::into).collect() }
    }

    /// The network as a workspace, and what the caller may do to it; with its agents if they are asked for.
    pub fn workspace_view(&self, live: &VolatileState, caller: &Caller, agents: bool, now: Clock) -> WorkspaceView {
        let book = &self.book;
        let agents = if agents { self.agent_views(live, now) } else { ListPiece::default() };
        WorkspaceView {
            id: book.id.clone(),
            name: book.settings.name.clone(),
            metadata: book.settings.metadata.clone(),
            status: book.settings.status,
            created_at: book.created_at,
            last_activity_at: if book.head == 0 { book.created_at } else { book.last_stamp },
            has_more: agents.next.is_some(),
            agents: agents.rows,
            manages: self.may_manage(caller, now),
            arranges: self.may_arrange(caller, now),
        }
    }
}
