//! `system.*`: questions and wishes of the SDK that are answered at once and never stored as they are.

use super::SdkState;
use super::map;
use super::ops::{GUESTS, SdkTaken, tell_core};
use super::wire::SdkEvent;
use rialto_model::view::Presence;
use rialto_model::{ErrorCode, Event, EventType, FaceName, Fault, hex, limits};
use rialto_node::{AdminOp, RosterFilter, Session, standard_mod};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// What an agent wants to be given: nothing else, once it has said so.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Subscription {
    event_patterns: Vec<String>,
    channels: Vec<String>,
}

impl Subscription {
    /// Whether an event is one that was asked for, by the name it goes out under.
    pub(super) fn wants(&self, event: &Event, shown: &RawValue) -> bool {
        #[derive(Deserialize)]
        struct EventName<'e> {
            #[serde(borrow)]
            event_name: std::borrow::Cow<'e, str>,
        }
        let Ok(EventName { event_name }) = serde_json::from_str(shown.get()) else { return false };
        let matches = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => event_name.starts_with(prefix),
            None => event_name == pattern.as_str(),
        };
        let channel = event.target().strip_prefix("channel/").filter(|_| !self.channels.is_empty());
        self.event_patterns.iter().any(matches)
            && channel
                .is_none_or(|channel| self.channels.iter().any(|wanted| wanted.trim_start_matches('#') == channel))
    }
}

fn face() -> Result<FaceName, Fault> {
    FaceName::parse("sdk")
}

fn subscriptions_of(address: &str) -> String {
    format!("subscription/{address}/")
}

/// What an agent subscribed to.
pub(super) async fn subscriptions(session: &Session, address: &str) -> Result<Vec<Subscription>, Fault> {
    let facts = session.network().facts(face()?);
    let page = facts.list(&subscriptions_of(address), None, limits::SDK_SUBSCRIPTIONS_MAX).await?;
    Ok(page.facts.iter().filter_map(|(_, text)| serde_json::from_str(text).ok()).collect())
}

/// Ends all subscriptions of an agent.
pub(super) async fn forget_subscriptions(session: &Session, address: &str) -> Result<(), Fault> {
    let facts = session.network().facts(face()?);
    let page = facts.list(&subscriptions_of(address), None, limits::SDK_SUBSCRIPTIONS_MAX).await?;
    for (key, _) in &page.facts {
        facts.remove(key).await?;
    }
    Ok(())
}

/// The answer to a command.
fn answer(command: &str, data: Value) -> SdkTaken {
    let mut whole = Map::new();
    whole.insert("type".into(), "system_response".into());
    whole.insert("command".into(), command.into());
    if let Value::Object(data) = data {
        whole.extend(data);
    }
    SdkTaken { data: Some(whole.into()), ..SdkTaken::default() }
}

fn missing(name: &str) -> Fault {
    Fault::new(ErrorCode::InvalidPayload, format!("payload.{name} is required")).field(&format!("payload.{name}"))
}

/// What a command says.
struct CommandPayload(Value);

impl CommandPayload {
    fn text(&self, name: &str) -> Result<&str, Fault> {
        self.maybe(name).ok_or_else(|| missing(name))
    }

    fn maybe(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, Fault> {
        let list = match self.0.get(name) {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(_) => {
                return Err(Fault::new(ErrorCode::InvalidPayload, format!("{name} is a list of texts")).field(name));
            }
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        list.iter()
            .map(|value| {
                text(value)
                    .ok_or_else(|| Fault::new(ErrorCode::InvalidPayload, format!("{name} holds texts")).field(name))
            })
            .collect()
    }

    /// The channel that `channel_id` names.
    fn channel(&self) -> Result<String, Fault> {
        let said = self.text("channel_id")?;
        Ok(map::channel(said.trim_start_matches("channel:")).trim_start_matches("channel/").to_owned())
    }
}

impl SdkState {
    pub(super) async fn command(
        &self,
        session: &Session,
        command: &str,
        event: &SdkEvent,
        place: Option<&str>,
    ) -> Result<SdkTaken, Fault> {
        let said = CommandPayload(event.payload());
        let mut handover = None;
        let data = match command {
            "poll_messages" => {
                let mail = self.mail(session).await?;
                handover = Some(mail.handover);
                json!({ "messages": mail.messages })
            }
            "heartbeat" | "ping_agent" => {
                session.heartbeat().await?;
                json!({ "timestamp": said.0.get("timestamp").cloned().unwrap_or_else(|| (crate::wire::now_ms() / 1000).into()) })
            }
            "list_agents" => json!({ "agents": agents(session).await? }),
            "list_mods" => json!({ "mods": mods(session).await? }),
            "get_mod_manifest" => {
                let name = said.text("mod_name")?;
                let found = mods(session)
                    .await?
                    .into_iter()
                    .find(|found| found.get("name").and_then(Value::as_str) == Some(name));
                let unknown = || Fault::new(ErrorCode::ModNotFound, format!("mod/{name} is not loaded"));
                json!({ "mod_name": name, "manifest": found.ok_or_else(unknown)? })
            }
            "get_network_info" => network_info(session).await?,
            "list_channels" => {
                let list = session.channels(None, limits::LIST_ROWS_MAX).await?;
                json!({ "channels": list.channels.iter().map(|channel| &channel.name).collect::<Vec<_>>() })
            }
            "get_channel_members" => {
                let name = said.channel()?;
                let channel = session.channel(&name).await?;
                json!({ "channel_id": name, "members": map::names(&channel.participants) })
            }
            "add_channel_member" => seat(session, EventType::ChannelJoin, &said).await?,
            "remove_channel_member" => seat(session, EventType::ChannelLeave, &said).await?,
            "remove_channel" => {
                let name = said.channel()?;
                tell_core(session, EventType::ChannelDelete, &json!({ "channel": name })).await?.result?;
                json!({ "channel_id": name })
            }
            "subscribe_events" => subscribe(session, &said).await?,
            "unsubscribe_events" => unsubscribe(session, &said).await?,
            "verify_password" => {
                session.heartbeat().await?;
                let network = session.network();
                let hash = hex::hash(&said.text("password_hash")?.to_ascii_lowercase());
                let valid = hash.is_some_and(|hash| network.has_token(&hash));
                json!({
                    "valid": valid, "default_group": GUESTS, "requires_password": !network.is_open(),
                    "group_name": valid.then_some(GUESTS),
                })
            }
            "kick_agent" => {
                let target = said.text("target_agent_id")?;
                session.act(place.map(str::to_owned), AdminOp::Remove(map::agent(target))).await?;
                json!({ "target_agent_id": target })
            }
            "update_agent_groups" => groups(session, &said, place).await?,
            "mod.enable" | "mod.disable" => {
                let path = said.text("mod_path")?;
                let name = path.trim_start_matches("mod:").trim_start_matches("mod/");
                let op = match command {
                    "mod.enable" => AdminOp::LoadMod(standard_mod(name)?),
                    _ => AdminOp::RemoveMod(name.to_owned()),
                };
                session.act(place.map(str::to_owned), op).await?;
                json!({ "mod_path": path })
            }
            other => {
                let text = format!("system.{other} is not offered here");
                return Err(Fault::new(ErrorCode::Unsupported, text));
            }
        };
        let mut taken = answer(command.trim_start_matches("mod."), data);
        if let (Some(id), Some(Value::Object(data))) = (said.0.get("request_id"), &mut taken.data) {
            data.insert("request_id".into(), id.clone());
        }
        taken.handover = handover;
        Ok(taken)
    }
}

async fn agents(session: &Session) -> Result<Vec<Value>, Fault> {
    let members = session.members().await?;
    let agents = members.iter().filter(|member| !member.address.starts_with("human:"));
    Ok(agents
        .map(|member| {
            let name = map::shown(&member.address);
            json!({
                "agent_id": name, "name": name, "connected": member.status == Presence::Online,
                "metadata": {
                    "name": name, "description": member.profile.description, "agent_type": member.profile.agent_type,
                    "capabilities": member.profile.capabilities, "role": member.role, "address": member.address,
                },
            })
        })
        .collect())
}

/// The mods that work, without an adapter that agents would have to have.
async fn mods(session: &Session) -> Result<Vec<Value>, Fault> {
    let filter = RosterFilter { include: Some(vec!["mods".to_owned()]), ..RosterFilter::default() };
    let mods = session.discover(filter).await?.mods.unwrap_or_default();
    let entry = |address: &String| {
        let name = address.trim_start_matches("mod/");
        json!({
            "name": name, "version": env!("CARGO_PKG_VERSION"), "requires_adapter": false, "capabilities": [],
            "description": format!("{name}, at work in the network"),
        })
    };
    Ok(mods.iter().map(entry).collect())
}

async fn network_info(session: &Session) -> Result<Value, Fault> {
    let names: Vec<Value> = mods(session).await?.iter().filter_map(|found| found.get("name").cloned()).collect();
    let members = session.members().await?;
    let profile = session.profile().await?;
    Ok(json!({ "network_info": {
        "name": profile.name, "node_id": profile.id, "mode": "centralized", "mods": names, "agent_count": members.len(),
    } }))
}

/// Seats somebody in a channel, or takes the seat away.
async fn seat(session: &Session, kind: EventType<'_>, said: &CommandPayload) -> Result<Value, Fault> {
    let (channel, agent) = (said.channel()?, said.text("agent_id")?);
    tell_core(session, kind, &json!({ "channel": channel, "agent": map::agent(agent) })).await?.result?;
    Ok(json!({ "channel_id": channel, "agent_id": agent }))
}

async fn subscribe(session: &Session, said: &CommandPayload) -> Result<Value, Fault> {
    let wish = Subscription { event_patterns: said.texts("event_patterns")?, channels: said.texts("channels")? };
    if wish.event_patterns.is_empty() {
        return Err(missing("event_patterns"));
    }
    let me = session.me().await?.member.address;
    let (facts, prefix) = (session.network().facts(face()?), subscriptions_of(&me));
    let have = facts.list(&prefix, None, limits::SDK_SUBSCRIPTIONS_MAX).await?.facts;
    if have.len() >= limits::SDK_SUBSCRIPTIONS_MAX {
        let most = limits::SDK_SUBSCRIPTIONS_MAX;
        let text = format!("an agent has at most {most} subscriptions: end one (system.unsubscribe_events)");
        return Err(Fault::new(ErrorCode::RateLimited, text).details(json!({ "limit": most })));
    }
    let free = (1..=have.len() + 1).map(|n| format!("sub-{n}")).find(|id| {
        let key = format!("{prefix}{id}");
        !have.iter().any(|(taken, _)| **taken == *key)
    });
    let id = free.ok_or(ErrorCode::Internal)?;
    let text = serde_json::to_string(&wish).map_err(|_| Fault::from(ErrorCode::Internal))?;
    facts.set(&format!("{prefix}{id}"), &text).await?;
    Ok(json!({
        "subscription_id": id, "agent_id": map::shown(&me), "event_patterns": wish.event_patterns,
        "channels": wish.channels,
    }))
}

async fn unsubscribe(session: &Session, said: &CommandPayload) -> Result<Value, Fault> {
    let me = session.me().await?.member.address;
    let Some(id) = said.maybe("subscription_id") else {
        forget_subscriptions(session, &me).await?;
        return Ok(json!({ "agent_id": map::shown(&me) }));
    };
    let (facts, key) = (session.network().facts(face()?), format!("{}{id}", subscriptions_of(&me)));
    let known = id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') && facts.get(&key).await?.is_some();
    if !known {
        let text = format!("there is no subscription {id:?}");
        return Err(Fault::new(ErrorCode::UnknownTarget, text).field("payload.subscription_id"));
    }
    facts.remove(&key).await?;
    Ok(json!({ "subscription_id": id, "agent_id": map::shown(&me) }))
}

/// Groups are lists of names here; passwords and permissions of groups are nothing this node has.
async fn groups(session: &Session, said: &CommandPayload, place: Option<&str>) -> Result<Value, Fault> {
    let (action, name) = (said.text("action")?, said.text("group_name")?);
    let config = CommandPayload(said.0.get("group_config").cloned().unwrap_or_default());
    let op = match action {
        "create" | "update" => {
            if let Some(what) = ["password", "password_hash", "permissions"].into_iter().find(|key| {
                config.0.get(key).is_some_and(|value| !value.is_null() && *value != json!([]) && *value != json!(""))
            }) {
                let text = format!("groups have no {what} here: they are lists of names (group_config.members)");
                return Err(Fault::new(ErrorCode::Unsupported, text));
            }
            let members = config.texts("members")?.iter().map(|name| map::agent(name)).collect();
            AdminOp::SetGroup(name.to_owned(), members)
        }
        "delete" => AdminOp::DeleteGroup(name.to_owned()),
        other => return Err(Fault::new(ErrorCode::Unsupported, format!("groups cannot be asked to {other:?} here"))),
    };
    session.act(place.map(str::to_owned), op).await?;
    Ok(json!({ "action": action, "group_name": name }))
}
