//! Resources, calls of tools and kept content (sheet, section 10).

use super::{Entry, Input, Member, Oracle, Place, Who, Wrong, wrong};
use rialto_model::{ErrorCode, Event};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Content that was brought waits so long for somebody to name it.
const STAGED_MS: u64 = 3_600_000;
/// A call waits so long if its caller does not say.
const TIMEOUT_MS: u64 = 30_000;
/// Earlier contents that can still be read.
const OLDER_KEPT: usize = 8;

/// One resource as it must be.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) address: String,
    owner: Who,
    version: u64,
    rules: Map<String, Value>,
    /// Contents, each with the version that brought it.
    contents: Vec<(u64, Vec<u8>)>,
}

/// A resource as somebody is listed it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the sheet's own names")]
pub struct Held {
    pub address: String,
    pub owner: String,
    pub version: u64,
    /// What the viewer may do.
    pub yours: Vec<String>,
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_tool(address: &str) -> bool {
    address.starts_with("resource/tool/")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

impl Oracle {
    pub(crate) fn found(&self, address: &str) -> Option<&Resource> {
        self.resources.iter().find(|r| r.address == address)
    }

    /// Whether the network is a workspace.
    pub fn is_workspace(&self) -> bool {
        self.rules.workspace
    }

    /// Whether there is or was any.
    pub fn had_resources(&self) -> bool {
        !self.resources.is_empty() || !self.brought.is_empty()
    }

    /// The version a resource is at.
    pub fn version_of(&self, address: &str) -> Option<u64> {
        self.found(address).map(|r| r.version)
    }

    /// A call of a tool counted from the newest.
    pub fn call_from_newest(&self, nth: usize) -> Option<&super::Unit> {
        self.units.iter().rev().filter(|u| u.call.is_some()).nth(nth)
    }

    /// What a deleted member owned is gone with it.
    pub(crate) fn resources_of_gone(&mut self, who: Who) {
        self.resources.retain(|r| r.owner != who);
    }

    /// Rules that name a member follow it.
    pub(crate) fn resources_renamed(&mut self, old: &str, name: &str) {
        let lists = self.resources.iter_mut().flat_map(|r| r.rules.values_mut()).filter_map(Value::as_array_mut);
        lists.flatten().filter(|one| one.as_str() == Some(old)).for_each(|one| *one = Value::from(name));
    }

    /// The table of section 10.
    fn passes(&self, rule: &Value, who: Who) -> bool {
        let Some(member) = self.members.get(who).filter(|m| m.present()) else { return false };
        if let Some(many) = rule.as_array() {
            return many.iter().any(|one| match one.as_str() {
                Some(address) if address.contains(':') && !address.contains('[') && !address.starts_with("role:") => {
                    member.address == address
                }
                _ => self.passes(one, who),
            });
        }
        match rule.as_str().unwrap_or_default() {
            "network" => true,
            "role:master" => member.is_master(),
            "role:member" => !member.is_master() && !member.is_observer(),
            "role:observer" => member.is_observer(),
            group if group.starts_with("group/") => {
                let group = self.group(group.trim_start_matches("group/")).and_then(|g| self.groups.get(g));
                group.is_some_and(|g| g.members.contains(&member.address))
            }
            _ => false,
        }
    }

    fn may(&self, resource: &Resource, operation: &str, who: Who) -> bool {
        if resource.owner == who {
            return true;
        }
        let default = if matches!(operation, "read" | "invoke") { "network" } else { "owner" };
        let free = !self.rules.workspace && operation != "admin";
        let present = self.members.get(who).is_some_and(Member::present);
        free && present || !free && self.passes(resource.rules.get(operation).unwrap_or(&Value::from(default)), who)
    }

    /// What speaks against an act on a resource.
    pub(crate) fn resource_refusals(&self, input: &Input, source: Who) -> Vec<ErrorCode> {
        let payload = json(&input.payload);
        let address = payload.get("address").and_then(Value::as_str).unwrap_or(&input.target);
        let known = self.found(address);
        let mut codes = Vec::new();
        let mut need = |what: bool, code: ErrorCode| codes.extend((!what).then_some(code));
        match (input.kind.as_str(), known) {
            ("network.resource.register", known) => {
                need(known.is_none_or(|r| r.owner == source), ErrorCode::AlreadyExists);
            }
            ("network.resource.invoke.result", _) => {
                need(self.resources.iter().any(|r| r.owner == source), ErrorCode::ReservedType);
                let call = self.awaited(input, source);
                need(call.is_some(), ErrorCode::NoPendingRequest);
                let requester = call.and_then(|no| self.units.get(no)).map(|u| u.requester);
                need(self.place(&input.target).ok() == requester.map(Place::Inbox), ErrorCode::InvalidEvent);
                codes.extend(requester.and_then(|to| self.no_room(to, &input.payload)));
            }
            (_, None) => need(false, ErrorCode::ResourceNotFound),
            ("network.resource.unregister", Some(r)) => {
                need(self.may(r, "admin", source), ErrorCode::PermissionDenied);
            }
            ("network.resource.update", Some(r)) => {
                let says = |key: &str| payload.get(key).is_some();
                need(!says("content") || self.may(r, "write", source), ErrorCode::PermissionDenied);
                need(!says("permissions") || self.may(r, "admin", source), ErrorCode::PermissionDenied);
                let expected = payload.get("if_version").and_then(Value::as_u64);
                need(expected.is_none_or(|v| v == r.version), ErrorCode::VersionConflict);
            }
            ("network.resource.invoke", Some(r)) => {
                need(is_tool(address), ErrorCode::InvalidArgument);
                need(self.may(r, "invoke", source), ErrorCode::PermissionDenied);
                need(r.owner != source, ErrorCode::InvalidArgument);
                let there = self.members.get(r.owner).is_some_and(Member::present);
                need(there, ErrorCode::UnknownTarget);
                let waits = input.metadata.get("wait_for_owner") == Some(&Value::Bool(true));
                // Whether the owner was heard of lately is not known here.
                need(waits, ErrorCode::OwnerUnavailable);
                codes.extend(self.no_room(r.owner, &input.payload));
            }
            _ => {}
        }
        codes
    }

    fn no_room(&self, to: Who, payload: &str) -> Option<ErrorCode> {
        let full = self.rules.at_least_once && self.may_be_full(to, payload);
        full.then_some(ErrorCode::RecipientQueueFull)
    }

    /// The call a result is for: its owner's, while it waits.
    fn awaited(&self, input: &Input, source: Who) -> Option<usize> {
        let request = input.metadata.get("in_reply_to").and_then(Value::as_str)?;
        let waits = |u: &super::Unit| {
            u.call.is_some() && u.ended.is_none() && u.request == request && u.executor == Some(source)
        };
        self.units.iter().rposition(waits)
    }

    /// What a committed act on a resource does.
    pub(crate) fn resource_act(
        &mut self,
        input: &Input,
        event: &Event,
        source: Who,
        (born, now): (u64, u64),
    ) -> Result<(), Wrong> {
        let payload = json(&input.payload);
        let address = payload.get("address").and_then(Value::as_str).unwrap_or(&input.target).to_owned();
        let mut place = Place::Nowhere;
        let call = self.awaited(input, source);
        let owner = self.found(&address).map(|r| r.owner);
        match input.kind.as_str() {
            "network.resource.invoke" => place = owner.map_or(Place::Nowhere, Place::Inbox),
            "network.resource.invoke.result" => {
                place = call.and_then(|no| self.units.get(no)).map_or(Place::Nowhere, |u| Place::Inbox(u.requester));
            }
            _ => {}
        }
        self.post(Entry { event: event.clone(), source: Some(source), place }, None, born, now, input.ttl_ms);
        match input.kind.as_str() {
            "network.resource.register" => {
                let old = self.resources.iter().position(|r| r.address == address).map(|at| self.resources.remove(at));
                let version = old.as_ref().map_or(1, |r| r.version + 1);
                let rules = payload.get("permissions").and_then(Value::as_object).cloned().unwrap_or_default();
                let contents = old.map(|r| r.contents).unwrap_or_default();
                self.resources.push(Resource { address: address.clone(), owner: source, version, rules, contents });
                self.keep(&address, &payload, event)
            }
            "network.resource.update" => {
                if let Some(resource) = self.resources.iter_mut().find(|r| r.address == address) {
                    resource.version += 1;
                    let rules = payload.get("permissions").and_then(Value::as_object).cloned().unwrap_or_default();
                    resource.rules.extend(rules);
                }
                self.keep(&address, &payload, event)
            }
            "network.resource.unregister" => {
                self.resources.retain(|r| r.address != address);
                Ok(())
            }
            "network.resource.invoke" => {
                let wait = input.metadata.get("timeout_ms").and_then(Value::as_u64).unwrap_or(TIMEOUT_MS);
                self.opened(input, None, place, event, (born, now))?;
                if let Some(unit) = self.units.last_mut() {
                    unit.call = Some(address);
                    unit.wait_ms = wait;
                }
                Ok(())
            }
            _ => {
                let fails = input.metadata.get("is_error") == Some(&Value::Bool(true));
                if let Some(unit) = call.and_then(|no| self.units.get_mut(no)) {
                    unit.log.push(event.seq);
                    unit.state = if fails { "failed" } else { "completed" }.to_owned();
                    unit.ended = Some(born);
                }
                Ok(())
            }
        }
    }

    /// The content a committed event brought: its stored form names it by the hash of its bytes.
    fn keep(&mut self, address: &str, payload: &Value, event: &Event) -> Result<(), Wrong> {
        let named =
            json(event.payload()).get("blob").and_then(|b| b.get("sha256")).and_then(Value::as_str).map(str::to_owned);
        let brought = &self.brought;
        let Some(resource) = self.resources.iter_mut().find(|r| r.address == address) else { return Ok(()) };
        let append = payload.get("append") == Some(&Value::Bool(true));
        let bytes = match (payload.get("content").and_then(Value::as_str), &named) {
            (Some(text), _) => {
                let mut bytes = resource.contents.last().map(|c| c.1.clone()).filter(|_| append).unwrap_or_default();
                bytes.extend_from_slice(text.as_bytes());
                bytes
            }
            (None, Some(named)) => {
                brought.iter().find(|b| hash(&b.1) == *named).map(|b| b.1.clone()).unwrap_or_default()
            }
            (None, None) => return Ok(()),
        };
        if named.as_deref() != Some(hash(&bytes).as_str()) {
            return wrong("blobs", format!("{} names other content than was brought", event.json()));
        }
        let same = resource.contents.last().is_some_and(|(_, last)| *last == bytes);
        if !same {
            self.kept.push(bytes.clone());
            resource.contents.push((resource.version, bytes));
            let surplus = resource.contents.len().saturating_sub(OLDER_KEPT + 1);
            resource.contents.drain(..surplus);
        }
        Ok(())
    }

    /// Content that a redacted event brought reads as empty, and so does what was made by appending to it.
    pub(crate) fn content_redacted(&mut self, seq: u64) {
        let Some(entry) = self.tape.iter().find(|entry| entry.event.seq == seq) else { return };
        let payload = json(entry.event.payload());
        let named = payload.get("blob").and_then(|blob| blob.get("sha256")).and_then(Value::as_str);
        let address = payload.get("address").and_then(Value::as_str).unwrap_or_else(|| entry.event.target());
        let gone = self.kept.iter().find(|bytes| Some(hash(bytes).as_str()) == named && !bytes.is_empty()).cloned();
        let (Some(gone), true) = (gone, entry.event.kind().starts_with("network.resource.")) else { return };
        for resource in self.resources.iter_mut().filter(|r| r.address == address) {
            let held = resource.contents.iter_mut().filter(|(_, bytes)| bytes.starts_with(&gone));
            held.for_each(|(_, bytes)| bytes.clear());
        }
    }

    /// Content is on its way; it may be kept without a name for a while.
    pub fn bringing(&mut self, bytes: &[u8], now: u64) {
        self.brought.push((now, bytes.to_vec()));
    }

    /// A start forgets what was brought and not named.
    pub(crate) fn forget_brought(&mut self) {
        self.brought.clear();
    }

    /// Hashes of all content that resources name.
    pub fn named_blobs(&self) -> impl Iterator<Item = String> {
        self.resources.iter().flat_map(|r| &r.contents).map(|(_, bytes)| hash(bytes))
    }

    /// Whether a resource names the content.
    pub fn names_blob(&self, blob: &str) -> bool {
        self.named_blobs().any(|named| named == blob)
    }

    /// Whether content that nobody names may be there: it was brought lately, alone or appended to other content, which
    /// may itself have been appended to. It is kept whole, whatever became of the events that brought its parts.
    pub fn may_have_content(&self, content: &[u8], now: u64) -> bool {
        let lately = |at: u64| now.saturating_sub(at) < STAGED_MS + 60_000;
        let known = |base: &[u8]| self.kept.iter().chain(self.brought.iter().map(|(_, b)| b)).any(|b| b == base);
        self.brought.iter().filter(|(at, bytes)| lately(*at) && !bytes.is_empty()).any(|(_, bytes)| {
            let base = content.strip_suffix(bytes.as_slice());
            base.is_some_and(|base| base.is_empty() || known(base) || self.may_have_content(base, now))
        })
    }

    /// Every content that can be read, with a version that has it.
    pub fn contents(&self) -> Vec<(String, u64)> {
        let of = |r: &Resource| r.contents.iter().map(|(version, _)| (r.address.clone(), *version)).collect::<Vec<_>>();
        self.resources.iter().flat_map(of).collect()
    }

    /// Content reads back as it was brought.
    pub fn content_is(&self, address: &str, version: u64, got: &Result<Vec<u8>, ErrorCode>) -> Result<(), Wrong> {
        let contents = self.found(address).map(|r| r.contents.as_slice()).unwrap_or_default();
        let Some((_, bytes)) = contents.iter().find(|(v, _)| *v == version) else { return Ok(()) };
        if got.as_ref() != Ok(bytes) {
            return wrong("blobs", format!("version {version} of {address} reads back as {got:?}"));
        }
        Ok(())
    }

    /// The resources a member is listed: those it may read, with what it may do.
    pub fn resources_listed(&self, address: &str, list: &[Held]) -> Result<(), Wrong> {
        let Some(who) = self.who(address) else { return Ok(()) };
        let meant = |r: &Resource| {
            let operations: &[&str] =
                if is_tool(&r.address) { &["read", "invoke", "admin"] } else { &["read", "write", "admin"] };
            let yours = operations.iter().filter(|o| self.may(r, o, who)).map(|o| (*o).to_owned()).collect();
            let owner = self.address(r.owner).unwrap_or_default().to_owned();
            Held { address: r.address.clone(), owner, version: r.version, yours }
        };
        let mut expected: Vec<Held> = self.resources.iter().filter(|r| self.may(r, "read", who)).map(meant).collect();
        expected.sort_unstable_by(|a, b| a.address.cmp(&b.address));
        if list == expected {
            return Ok(());
        }
        let foreign =
            list.iter().any(|held| !expected.iter().any(|e| e.address == held.address && e.yours == held.yours));
        let check = if foreign { "borders" } else { "resources" };
        wrong(check, format!("{address} is listed {list:?} for {expected:?}"))
    }

    /// A `network.event.error` of the network: a call that ends without a result.
    pub(crate) fn call_ended_by_network(&mut self, event: &Event, now: u64) -> Result<Place, Wrong> {
        let request = json(event.metadata()).get("in_reply_to").and_then(Value::as_str).unwrap_or_default().to_owned();
        let code = json(event.payload()).get("code").and_then(Value::as_str).unwrap_or_default().to_owned();
        let waits = |u: &super::Unit| u.call.is_some() && u.ended.is_none() && u.request == request;
        let Some(no) = self.units.iter().rposition(waits) else {
            return wrong("work", format!("{} ends what does not wait", event.json()));
        };
        let Some(unit) = self.units.get(no) else { return Ok(Place::Nowhere) };
        let silent = now.saturating_sub(unit.heard.0);
        let away = !unit.executor.and_then(|e| self.members.get(e)).is_some_and(Member::present);
        let dead = |e: Who| {
            ["ttl", "max_attempts", "queue_full"].iter().any(|why| self.may_die(unit.request_seq, e, why, now).is_ok())
        };
        let alone = self.members.get(unit.requester).is_none_or(|m| m.removed);
        let fine = match code.as_str() {
            "timeout" => silent >= unit.wait_ms,
            "owner_unavailable" => away || alone || unit.executor.is_some_and(dead),
            "resource_not_found" => unit.call.as_deref().is_none_or(|address| self.found(address).is_none()),
            _ => false,
        };
        if !fine {
            return wrong(
                "work",
                format!("{} though nothing speaks for it: silent for {silent} ms of {}", event.json(), unit.wait_ms),
            );
        }
        let (requester, born) = (unit.requester, self.looked.min(now));
        if let Some(unit) = self.units.get_mut(no) {
            unit.log.push(event.seq);
            unit.ended = Some(born);
            unit.state = if alone { "canceled" } else { "failed" }.to_owned();
        }
        Ok(Place::Inbox(requester))
    }
}
