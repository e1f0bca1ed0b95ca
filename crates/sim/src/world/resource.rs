//! Doing and seeing resources: what a step about them sends, and what everybody is shown of them, byte for byte.

use super::client::{Frame, operator};
use super::oracle::{Held, Input, Wrong, wrong};
use super::script::{RESOURCES, RULES, Res};
use super::{Net, World};
use rialto_model::{ErrorCode, Fault};
use rialto_node::{Caller, Network, ResourceFilter};
use rialto_store::Store;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The context a workspace begins with.
const OWN: &str = "resource/context/skill-md";

type Said = (&'static str, String, Value, Map<String, Value>);

impl World {
    /// Sends what a step about a resource means.
    pub(crate) async fn resource(&mut self, n: usize, who: usize, act: Res, calm: bool) -> Result<(), Wrong> {
        let c = match act {
            Res::CleanUp => return self.clean_up().await,
            Res::Upload { which, named } => return self.upload(n, who, which, named).await,
            Res::Result { by, nth, .. } => {
                let call = self.nets[n].oracle.call_from_newest(nth).cloned();
                let Some(c) = self.nets[n].actor(by, call.as_ref()) else { return Ok(()) };
                c
            }
            Res::Register { .. }
            | Res::Write { .. }
            | Res::Permit { .. }
            | Res::Unregister { .. }
            | Res::Invoke { .. } => who,
        };
        let k = self.nets[n].oracle.next_input();
        let Some(said) = said(&self.nets[n], act, k) else { return Ok(()) };
        self.say(n, c, said, calm).await
    }

    async fn say(
        &mut self,
        n: usize,
        c: usize,
        (kind, target, payload, metadata): Said,
        calm: bool,
    ) -> Result<(), Wrong> {
        if self.nets[n].clients[c].session.is_none() {
            return Ok(());
        }
        let sent_at = self.now();
        let net = &mut self.nets[n];
        let k = net.oracle.next_input();
        let lane = net.clients[c].lane();
        let id = Some(format!("r-{k}"));
        let input =
            Input { id, metadata, ..Input::new(net.clients[c].address, kind, &target, &payload, sent_at, lane) };
        if let Some(content) = payload["content"].as_str() {
            net.oracle.bringing(content.as_bytes(), sent_at);
        }
        self.deliver(n, c, vec![(Frame::Event(0), input)], calm).await
    }

    /// Brings content first and names it by an event later, or never.
    async fn upload(&mut self, n: usize, c: usize, which: usize, named: bool) -> Result<(), Wrong> {
        self.observe().await?;
        let (network, caller) = (self.nets[n].handle.clone(), self.nets[n].caller_of_present(c));
        let (Some(network), Some(caller)) = (network, caller.filter(|_| !self.trouble)) else { return Ok(()) };
        let k = self.nets[n].oracle.next_input();
        let address = RESOURCES[which % 4];
        let bytes = format!("brought {k} ").repeat(1 + k % 40).into_bytes();
        let now = self.now();
        self.nets[n].oracle.bringing(&bytes, now);
        let brought = bytes.clone();
        let stored = self.drive(async move {
            let (mut upload, _) = network.session(&caller).upload(address, None).await?;
            upload.write(&brought).await?;
            Ok::<_, Fault>(upload.finish().await?)
        });
        match stored.await? {
            Ok(stored) => {
                let hash = rialto_model::hex::text(&stored.hash);
                self.note(&format!("brought {hash}"));
                if !named {
                    return Ok(());
                }
                let payload = json!({ "k": k, "address": address, "blob": { "sha256": hash } });
                let said = ("network.resource.register", "core".to_owned(), payload, Map::new());
                self.say(n, c, said, true).await
            }
            Err(fault) => {
                self.note(&format!("not brought: {}", fault.code.as_str()));
                Ok(())
            }
        }
    }

    /// Everything nobody names is removed, and nothing else.
    async fn clean_up(&mut self) -> Result<(), Wrong> {
        self.observe().await?;
        let (Some(node), Some(store)) = (self.node.clone().filter(|_| !self.trouble), self.store.clone()) else {
            return Ok(());
        };
        let cleaned = self.drive(async move { node.blobs().clean_up().await }).await?;
        self.note(&format!("cleaned up: {cleaned:?}"));
        if !cleaned.is_ok_and(|cleaned| !cleaned.held_back && cleaned.failed == 0) {
            return Ok(());
        }
        let blobs = store.list_blobs().map_err(|error| Wrong { check: "blobs", what: error.to_string() })?;
        let now = self.now();
        let own = self.own_content().await?;
        for blob in &blobs {
            let named = own.contains(&blob.hash) || self.nets.iter().any(|net| net.oracle.names_blob(&blob.hash));
            let brought = || {
                let content = content_of(store.as_ref(), &blob.hash);
                content.is_none_or(|content| self.nets.iter().any(|net| net.oracle.may_have_content(&content, now)))
            };
            if !named && !brought() {
                return wrong("blobs", format!("{} is still there, which nobody names", blob.hash));
            }
        }
        let named = self.nets.iter().flat_map(|net| net.oracle.named_blobs());
        for hash in named.chain(own) {
            if !blobs.iter().any(|blob| blob.hash == hash) {
                return wrong("blobs", format!("{hash} is gone, which somebody names"));
            }
        }
        Ok(())
    }

    /// What workspaces themselves keep: the context they begin with, which no step of a world touches.
    async fn own_content(&mut self) -> Result<Vec<String>, Wrong> {
        let workspaces = self.nets.iter().filter(|net| net.oracle.is_workspace());
        let handles: Vec<Network> = workspaces.filter_map(|net| net.handle.clone()).collect();
        let mut out = Vec::new();
        for network in handles {
            let found = self.drive(async move { network.session(&operator()).resource(OWN, None).await }).await?;
            let content = found.ok().and_then(|found| found.content);
            let content = content.ok_or_else(|| Wrong { check: "resources", what: format!("{OWN} is gone") })?;
            out.push(rialto_model::hex::text(&content.blob));
        }
        Ok(out)
    }

    /// Compares what everybody is shown of resources with what there is.
    pub(crate) async fn compare_resources(&mut self, n: usize) -> Result<(), Wrong> {
        let Some(network) = self.nets[n].handle.clone() else { return Ok(()) };
        if !self.nets[n].oracle.had_resources() {
            return Ok(());
        }
        for c in 0..self.nets[n].clients.len() {
            let Some(caller) = self.nets[n].caller_of_present(c) else { continue };
            let list = self.listed(&network, &caller).await?;
            let address = self.nets[n].clients[c].address;
            self.note(&format!("resources of {address}: {list:?}"));
            self.nets[n].oracle.resources_listed(address, &list)?;
        }
        for (address, version) in self.nets[n].oracle.contents() {
            let got = self.content(&network, &operator(), &address, version).await?;
            self.nets[n].oracle.content_is(&address, version, &got)?;
        }
        self.clean_up().await
    }

    async fn listed(&mut self, network: &Network, caller: &Arc<Caller>) -> Result<Vec<Held>, Wrong> {
        let (network, caller) = (network.clone(), caller.clone());
        let filter = ResourceFilter { limit: Some(500), ..ResourceFilter::default() };
        let list = self.drive(async move { network.session(&caller).resources(filter).await }).await?;
        let list = list.map_err(|fault| Wrong { check: "resources", what: format!("not listed: {fault}") })?;
        let entries = list.resources.into_iter().map(|entry| Held {
            address: entry.address.into(),
            owner: entry.owner.into(),
            version: entry.version,
            yours: entry.your_permissions.iter().map(|operation| operation.as_str().to_owned()).collect(),
        });
        // What the network owns is no member's doing.
        Ok(entries.filter(|held| (held.address.as_str(), held.owner.as_str()) != (OWN, "core")).collect())
    }

    async fn content(
        &mut self,
        network: &Network,
        caller: &Arc<Caller>,
        address: &str,
        version: u64,
    ) -> Result<Result<Vec<u8>, ErrorCode>, Wrong> {
        let (network, caller, address) = (network.clone(), caller.clone(), address.to_owned());
        let got = self.drive(async move {
            let found = network.session(&caller).resource(&address, Some(version)).await?;
            let content = found.content.ok_or(ErrorCode::ResourceNotFound)?;
            let mut download = network.download(&content, 0..content.size).await?;
            let mut bytes = Vec::new();
            while let Some(piece) = download.next().await? {
                bytes.extend_from_slice(&piece);
            }
            Ok::<_, Fault>(bytes)
        });
        Ok(got.await?.map_err(|fault| fault.code))
    }
}

/// The bytes of a blob; none if they cannot be read.
fn content_of(store: &impl Store, hash: &str) -> Option<Vec<u8>> {
    let blob = store.open_blob(hash).ok()??;
    let (mut content, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match blob.read_at(&mut piece, content.len() as u64).ok()? {
            0 => return Some(content),
            read => content.extend_from_slice(piece.get(..read)?),
        }
    }
}

/// Type, target, payload and metadata of an act.
fn said(net: &Net, act: Res, k: usize) -> Option<Said> {
    let rule = |which: usize| serde_json::from_str::<Value>(RULES[which % 7]).unwrap_or_default();
    let permissions = |which: usize, (read, other): (usize, usize)| {
        let uses = if RESOURCES[which % 4].contains("/tool/") { "invoke" } else { "write" };
        json!({ "read": rule(read), uses: rule(other) })
    };
    let (core, metadata) = ("core".to_owned(), Map::new());
    Some(match act {
        Res::CleanUp | Res::Upload { .. } => return None,
        Res::Register { which, rules } => {
            let address = RESOURCES[which % 4];
            let mut payload = json!({ "k": k, "address": address });
            if address.contains("/tool/") {
                payload["schema"] = json!({ "input": { "k": "integer" } });
            } else {
                payload["content"] = json!(format!("content {k} ").repeat(1 + k % 9));
            }
            if let Some(rules) = rules {
                payload["permissions"] = permissions(which, rules);
            }
            ("network.resource.register", core, payload, metadata)
        }
        Res::Write { which, append, expects } => {
            let address = RESOURCES[which % 4];
            let mut payload = json!({ "k": k, "content": format!("more {k} "), "append": append });
            if let Some(off) = expects {
                payload["if_version"] = json!(net.oracle.version_of(address).unwrap_or(1) + off);
            }
            ("network.resource.update", address.to_owned(), payload, metadata)
        }
        Res::Permit { which, rules } => {
            let payload = json!({ "k": k, "permissions": permissions(which, rules) });
            ("network.resource.update", RESOURCES[which % 4].to_owned(), payload, metadata)
        }
        Res::Unregister { which } => {
            ("network.resource.unregister", core, json!({ "k": k, "address": RESOURCES[which % 4] }), metadata)
        }
        Res::Invoke { which, waits, timeout_ms } => {
            let mut metadata = metadata;
            metadata.extend(waits.then(|| ("wait_for_owner".to_owned(), json!(true))));
            metadata.extend(timeout_ms.map(|ms| ("timeout_ms".to_owned(), json!(ms))));
            ("network.resource.invoke", RESOURCES[which % 4].to_owned(), json!({ "k": k }), metadata)
        }
        Res::Result { nth, fails, .. } => {
            let call = net.oracle.call_from_newest(nth)?;
            let mut metadata = metadata;
            metadata.insert("in_reply_to".into(), json!(call.request));
            metadata.extend(fails.then(|| ("is_error".to_owned(), json!(true))));
            let target = net.oracle.address(call.requester)?.to_owned();
            ("network.resource.invoke.result", target, json!({ "k": k, "sum": 4 }), metadata)
        }
    })
}
