//! Whether an event may be sent, who it goes to, and what the `network.*` acts do (sheet sections 1.5, 4.3, 5 and 7).

use super::ephemeral::is_ephemeral;
use super::{Channel, Entry, Input, Mail, Member, Oracle, Place, Row, Who, Wrong, wrong};
use rialto_model::{ErrorCode, Event, Visibility};
use serde_json::Value;

/// What an act does after its event is committed.
type Later = Box<dyn FnOnce(&mut Oracle)>;

impl Oracle {
    /// Every reason to refuse the event now; none means that it must be accepted.
    pub fn refusals(&self, input: &Input) -> Vec<ErrorCode> {
        let mut codes = Vec::new();
        match self.rules.status {
            "paused" if input.kind != "network.agent.leave" => codes.push(ErrorCode::NetworkPaused),
            "archived" => codes.push(ErrorCode::NetworkArchived),
            _ => {}
        }
        let Some(source) = self.who(&input.source).filter(|w| self.members.get(*w).is_some_and(Member::present)) else {
            codes.extend([ErrorCode::NotAMember, ErrorCode::SessionRevoked, ErrorCode::SessionExpired]);
            return codes;
        };
        let acts = input.kind.starts_with("network.");
        let own_acts = ["network.agent.leave", "network.channel.join", "network.channel.leave"];
        if self.members.get(source).is_some_and(|m| m.is_observer()) && !own_acts.contains(&input.kind.as_str()) {
            codes.push(ErrorCode::ObserverReadOnly);
        }
        if input.kind.starts_with("network.resource.") {
            codes.extend(self.resource_refusals(input, source));
            return codes;
        }
        if acts {
            codes.extend(self.act_refusals(input, source));
            return codes;
        }
        if input.kind.starts_with("rialto.") {
            codes.push(ErrorCode::ReservedType);
        }
        codes.extend(self.invitation_refusal(input));
        let place = match self.aim(input, source) {
            Ok((place, _)) => place,
            Err(code) => {
                codes.push(code);
                return codes;
            }
        };
        codes.extend(self.nobody_has_room(input, source));
        codes.extend(self.talk_refusals(input, place, source));
        if let Place::Channel(c) = place
            && let Some(channel) = self.channels.get(c).filter(|c| !c.seats.contains(&source))
        {
            if channel.private {
                codes.push(ErrorCode::UnknownTarget);
            } else if !self.rules.workspace {
                codes.push(ErrorCode::NotAChannelMember);
            }
        }
        if self.visibility(input, place).is_none() {
            codes.push(ErrorCode::InvalidVisibility);
        }
        if let Place::Inbox(to) = place
            && to != source
            && self.rules.at_least_once
            && !is_ephemeral(input)
            && self.may_be_full(to, &input.payload)
        {
            codes.push(ErrorCode::RecipientQueueFull);
        }
        codes
    }

    fn act_refusals(&self, input: &Input, source: Who) -> Vec<ErrorCode> {
        let payload: Value = serde_json::from_str(&input.payload).unwrap_or_default();
        let text = |key: &str| payload.get(key).and_then(Value::as_str);
        let mut codes = Vec::new();
        let named = text("agent").map(|a| self.who(a));
        if named == Some(None) {
            codes.push(ErrorCode::UnknownTarget);
        }
        let other = named.flatten().filter(|who| *who != source);
        if other.is_some() && self.members.get(source).is_some_and(|m| m.is_observer()) {
            codes.push(ErrorCode::ObserverReadOnly);
        }
        match input.kind.as_str() {
            "network.agent.join" | "network.agent.leave" => {}
            "network.mod.serve" => codes.extend(self.serve_refusals(&payload, source)),
            "network.agent.remove" => {
                if !self.member_manages(source) {
                    codes.push(ErrorCode::Forbidden);
                }
                if text("address").is_none_or(|address| self.who(address).is_none()) {
                    codes.push(ErrorCode::UnknownTarget);
                }
            }
            "network.channel.create" => {
                if text("name").is_some_and(|n| self.channel(n).is_some()) {
                    codes.push(ErrorCode::AlreadyExists);
                }
                let guests = payload.get("participants").and_then(Value::as_array).into_iter().flatten();
                if guests.filter_map(Value::as_str).any(|a| self.who(a).is_none()) {
                    codes.push(ErrorCode::UnknownTarget);
                }
            }
            kind => {
                let name = text("channel").unwrap_or_default();
                let master = self.members.get(source).is_some_and(|m| m.is_master());
                let seen = |c: &&Channel| !c.private || master || c.seats.contains(&source);
                let Some(channel) = self.channel(name).and_then(|c| self.channels.get(c)).filter(seen) else {
                    codes.push(ErrorCode::UnknownTarget);
                    return codes;
                };
                let manages = master || channel.master == Some(source) || channel.creator == Some(source);
                let human = input.source.starts_with("human:");
                let sits = channel.private && channel.seats.contains(&source);
                let allowed = match kind {
                    "network.channel.delete" => manages,
                    "network.channel.join" => other.is_none() || human || manages || sits,
                    _ => other.is_none() || manages,
                };
                if !allowed {
                    codes.push(ErrorCode::Forbidden);
                }
            }
        }
        codes
    }

    pub(crate) fn channel(&self, name: &str) -> Option<usize> {
        self.channels.iter().position(|c| c.name == name && !c.deleted)
    }

    pub(crate) fn group(&self, name: &str) -> Option<usize> {
        self.groups.iter().position(|g| g.name == name && !g.deleted)
    }

    /// Section 7: where a target goes.
    pub(crate) fn place(&self, target: &str) -> Result<Place, ErrorCode> {
        let own = format!("{}::", self.rules.network);
        let target = target.strip_prefix(&own).or_else(|| target.strip_prefix("local::")).unwrap_or(target);
        if target.contains("::") {
            return Err(ErrorCode::CrossNetwork);
        }
        if target == "core" {
            return Ok(Place::Nowhere);
        }
        if target == "agent:broadcast" {
            return Ok(Place::Everybody);
        }
        if let Some(name) = target.strip_prefix("channel/") {
            return self.channel(name).map(Place::Channel).ok_or(ErrorCode::UnknownTarget);
        }
        if let Some(name) = target.strip_prefix("group/") {
            return self.group(name).map(Place::Group).ok_or(ErrorCode::UnknownTarget);
        }
        if let Some(name) = target.strip_prefix("mod/") {
            let loaded = name == "auth" || name == "persistence" && self.rules.persistence || self.is_mod(name);
            return if loaded { Ok(Place::Nowhere) } else { Err(ErrorCode::ModNotFound) };
        }
        if target.starts_with("resource/") {
            return Err(ErrorCode::ResourceNotFound);
        }
        if !target.starts_with("agent:") && !target.starts_with("human:") {
            return Err(ErrorCode::InvalidAddress);
        }
        let there = self.who(target).filter(|w| self.members.get(*w).is_some_and(Member::present));
        there.map(Place::Inbox).ok_or(ErrorCode::UnknownTarget)
    }

    /// Section 4.3: the visibility an event gets, if its pair is allowed.
    pub(crate) fn visibility(&self, input: &Input, place: Place) -> Option<Visibility> {
        use Visibility::{Channel, Direct, ModOnly, Public};
        let to_mod = input.target.starts_with("mod/");
        let (default, others): (Visibility, &[Visibility]) = match place {
            Place::Nowhere if to_mod => (ModOnly, &[]),
            Place::Nowhere => (Direct, &[ModOnly]),
            Place::Inbox(_) => (Direct, &[Public]),
            Place::Channel(_) | Place::Group(_) => (Channel, &[Public]),
            Place::Everybody => (Public, &[]),
        };
        match input.visibility {
            None => Some(default),
            Some(said) if said == default || others.contains(&said) => Some(said),
            // The flat default of compat clients.
            Some(Channel) if matches!(place, Place::Inbox(_)) => Some(Direct),
            Some(_) => None,
        }
    }

    /// Who receives an event that goes to a place now; its source never does.
    pub(crate) fn recipients(&self, place: Place, source: Option<Who>, to: Option<&[String]>) -> Vec<Who> {
        let behind: Vec<Who> = match place {
            Place::Nowhere => Vec::new(),
            Place::Inbox(who) => vec![who],
            Place::Channel(c) => {
                let channel = self.channels.get(c);
                let hears = |c: &Channel| c.seats.iter().copied().filter(|who| !c.muted.contains(who)).collect();
                channel.map(hears).unwrap_or_default()
            }
            Place::Group(g) => {
                let members = self.groups.get(g).map(|g| g.members.clone()).unwrap_or_default();
                members.iter().filter_map(|a| self.who(a)).collect()
            }
            Place::Everybody => (0..self.members.len()).collect(),
        };
        let named = |to: &[String]| to.iter().filter_map(|address| self.who(address)).collect::<Vec<Who>>();
        let narrow = to.filter(|_| !matches!(place, Place::Inbox(_))).map(named);
        let wanted = |who: &Who| {
            let Some(member) = self.members.get(*who) else { return false };
            member.present() && Some(*who) != source && narrow.as_ref().is_none_or(|to| to.contains(who))
        };
        behind.into_iter().filter(wanted).collect()
    }

    /// Puts a committed event where it belongs.
    pub(crate) fn post(&mut self, entry: Entry, to: Option<&[String]>, born: u64, now: u64, ttl_ms: Option<u64>) {
        let ttl_ms = ttl_ms.unwrap_or(u64::MAX).min(self.rules.ttl_ms);
        let seq = entry.event.seq;
        // What is sent at most once is nobody's pending mail.
        let row = if self.rules.at_least_once { Row::Pending } else { Row::Acked };
        for who in self.recipients(entry.place, entry.source, to) {
            if let Some(member) = self.members.get_mut(who) {
                member.mail.insert(seq, Mail { row, born, known: now, ttl_ms, ended: self.looks, doubted: false });
            }
        }
        self.tape.push(entry);
    }

    /// What a committed client event does.
    pub(crate) fn apply(&mut self, k: usize, input: &Input, event: &Event, now: u64) -> Result<(), Wrong> {
        if input.source.starts_with("mod/") {
            return self.mod_event(k, input, event, now);
        }
        let born = input.sent_at.max(self.looked).min(now);
        if input.kind == "network.agent.join" {
            return self.join(input, event, born, now);
        }
        let codes: Vec<ErrorCode> = self.refusals(input).into_iter().filter(|c| self.is_sure(*c)).collect();
        let source = self.who(&input.source);
        if codes == [ErrorCode::ModNotFound] && self.had_mod_for(k, &input.target) {
            self.post(Entry { event: event.clone(), source, place: Place::Nowhere }, None, born, now, input.ttl_ms);
            return Ok(());
        }
        if let Some(code) = codes.first() {
            return wrong("rules", format!("{} was accepted though it is {}", event.json(), code.as_str()));
        }
        if let (Some(source), true) = (source, input.kind.starts_with("network.resource.")) {
            return self.resource_act(input, event, source, (born, now));
        }
        if input.kind.starts_with("network.") {
            return self.act(input, event, source, born, now);
        }
        let Some(by) = source else { return Ok(()) };
        let Ok((mut place, meaning)) = self.aim(input, by) else { return Ok(()) };
        if let Some(chosen) = self.chosen(input, event)? {
            place = chosen;
        }
        if let (Place::Channel(c), Some(source)) = (place, source)
            && let Some(channel) = self.channels.get_mut(c).filter(|c| !c.seats.contains(&source))
        {
            channel.seats.push(source);
        }
        if self.visibility(input, place) != Some(event.visibility) {
            return wrong("rules", format!("the visibility of {} is not the sheet's", event.json()));
        }
        let entry = Entry { event: event.clone(), source, place };
        self.post(entry, input.to.as_deref(), born, now, input.ttl_ms);
        self.talked(input, by, place, event.seq);
        self.invites(input, event, by)?;
        self.work_happens(input, meaning, place, event, (born, now))
    }

    /// How full a queue was when the event was decided is not sure: acks and dead letters leave no position. Nor is
    /// whether somebody was there.
    fn is_sure(&self, code: ErrorCode) -> bool {
        !matches!(code, ErrorCode::RecipientQueueFull | ErrorCode::OwnerUnavailable)
    }

    fn join(&mut self, input: &Input, event: &Event, born: u64, now: u64) -> Result<(), Wrong> {
        if self.rules.status != "active" {
            return wrong("rules", format!("{} joined a network that is {}", input.source, self.rules.status));
        }
        let payload: Value = serde_json::from_str(&input.payload).unwrap_or_default();
        let credentials = payload.get("credentials").cloned().unwrap_or_default();
        let observer = payload.get("role").and_then(Value::as_str) == Some("observer");
        let observer = self.came_by(&credentials, &input.source)? || observer;
        let skills = payload.get("capabilities").and_then(Value::as_array).into_iter().flatten();
        let skills: Vec<String> = skills.filter_map(Value::as_str).map(str::to_owned).collect();
        let who = match self.named(&input.source) {
            Some(who) => who,
            None => {
                self.former.remove(&input.source);
                self.members.push(Member {
                    address: input.source.clone(),
                    left: false,
                    removed: false,
                    granted: "member",
                    capped: false,
                    guest: false,
                    owned: false,
                    lax: false,
                    quiet: false,
                    skills: Vec::new(),
                    mail: Default::default(),
                });
                let who = self.members.len() - 1;
                if self.rules.workspace
                    && let Some(channel) = self.channel("general").and_then(|c| self.channels.get_mut(c))
                {
                    channel.seats.push(who);
                }
                who
            }
        };
        if let Some(member) = self.members.get_mut(who) {
            member.left = false;
            member.skills = skills;
            // It holds for the session; no join changes what the network lets a member do.
            member.capped = observer;
        }
        self.takes_name(who, input, &credentials);
        let entry = Entry { event: event.clone(), source: Some(who), place: Place::Nowhere };
        self.post(entry, None, born, now, None);
        self.owe_replay(who, input);
        Ok(())
    }

    fn act(&mut self, input: &Input, event: &Event, source: Option<Who>, born: u64, now: u64) -> Result<(), Wrong> {
        let payload: Value = serde_json::from_str(&input.payload).unwrap_or_default();
        let text = |key: &str| payload.get(key).and_then(Value::as_str).map(str::to_owned);
        let Some(by) = source else { return Ok(()) };
        let who = text("agent").and_then(|a| self.who(&a)).unwrap_or(by);
        let channel = text("channel").and_then(|name| self.channel(&name));
        let is_agent = |o: &Oracle, w: Who| o.members.get(w).is_some_and(|m| !m.address.starts_with("human:"));
        let mut place = channel.map_or(Place::Nowhere, Place::Channel);
        let mut after: Option<Later> = None;
        match (input.kind.as_str(), channel) {
            ("network.agent.leave", _) => {
                place = Place::Nowhere;
                let forget = payload.get("forget").and_then(Value::as_bool).unwrap_or(false);
                after = Some(Box::new(move |o| if forget { o.remove(by) } else { o.leave(by) }));
            }
            ("network.agent.remove", _) => {
                let removed = text("address").and_then(|address| self.who(&address));
                after = Some(Box::new(move |o| removed.into_iter().for_each(|who| o.remove(who))));
            }
            ("network.mod.serve", _) => after = Some(Box::new(move |o| o.serves(&payload, by))),
            ("network.channel.create", _) => {
                let mut seats = vec![by];
                let guests = payload.get("participants").and_then(Value::as_array).into_iter().flatten();
                for guest in guests.filter_map(Value::as_str).filter_map(|a| self.who(a)) {
                    if !seats.contains(&guest) {
                        seats.push(guest);
                    }
                }
                let master = seats.iter().copied().find(|w| is_agent(self, *w));
                let private = payload.get("private").and_then(Value::as_bool).unwrap_or(false);
                let name = text("name").unwrap_or_default();
                self.channels.push(Channel {
                    name,
                    private,
                    creator: Some(by),
                    master,
                    seats,
                    muted: Vec::new(),
                    deleted: false,
                });
                place = Place::Channel(self.channels.len() - 1);
            }
            ("network.channel.join", Some(c)) => {
                let agent = is_agent(self, who);
                if let Some(channel) = self.channels.get_mut(c).filter(|c| !c.seats.contains(&who)) {
                    channel.seats.push(who);
                    channel.master = channel.master.or(Some(who).filter(|_| agent));
                }
            }
            ("network.channel.leave", Some(c)) => {
                if self.channels.get(c).is_some_and(|c| c.seats.contains(&who)) {
                    after = Some(Box::new(move |o| o.unseat(c, who)));
                } else {
                    place = Place::Nowhere;
                }
            }
            ("network.channel.delete", Some(c)) => {
                after = Some(Box::new(move |o| {
                    if let Some(channel) = o.channels.get_mut(c) {
                        channel.deleted = true;
                    }
                }));
            }
            _ => return wrong("tape", format!("{} is no act that was sent", event.json())),
        }
        self.post(Entry { event: event.clone(), source: Some(by), place }, None, born, now, None);
        if let Some(after) = after {
            after(self);
        }
        Ok(())
    }

    pub(crate) fn unseat(&mut self, channel: usize, who: Who) {
        let agents: Vec<Who> = (0..self.members.len())
            .filter(|w| self.members.get(*w).is_some_and(|m| !m.address.starts_with("human:")))
            .collect();
        if let Some(channel) = self.channels.get_mut(channel) {
            channel.seats.retain(|s| *s != who);
            channel.muted.retain(|s| *s != who);
            if channel.master == Some(who) {
                channel.master = channel.seats.iter().copied().find(|s| agents.contains(s));
            }
        }
    }
}
