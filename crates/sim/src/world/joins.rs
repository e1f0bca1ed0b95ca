//! Joining: what a client shows for its name, and how its streams begin and end.

use super::World;
use super::client::{Call, Frame, Stream, host, stranger};
use super::oracle::{Delivered, Input, Wrong, numbered};
use super::rights::{self, Shown};
use super::script::skills;
use super::steps::frame;
use rialto_node::{Caller, Capabilities, Texts};
use serde_json::json;
use std::sync::Arc;

/// How somebody joins.
#[derive(Clone, Copy)]
pub(crate) struct JoinWish {
    pub(crate) stream: bool,
    pub(crate) keep: bool,
    pub(crate) observer: bool,
    pub(crate) resume: bool,
    pub(crate) replay: bool,
    pub(crate) named: bool,
    pub(crate) compat: bool,
}

impl World {
    pub(crate) async fn join(&mut self, n: usize, c: usize, wish: JoinWish, window: usize) -> Result<(), Wrong> {
        // A client has one stream at a time.
        self.hang_up(n, c);
        let Some(network) = self.nets[n].handle.clone() else { return Ok(()) };
        let address = self.nets[n].clients[c].address;
        let named = !address.starts_with("human:") && (wish.named || self.nets[n].clients[c].named);
        if named && !self.has_own_token(n, c, &network).await? {
            return Ok(());
        }
        let own =
            || Shown { label: address, credentials: json!({ "token": rights::own_secret(address) }), observer: false };
        self.join_with(n, c, wish, window, named.then(own)).await
    }

    /// A client begins another session with what it shows for its own name.
    pub(crate) async fn join_showing(&mut self, n: usize, c: usize, shown: Shown) -> Result<(), Wrong> {
        self.hang_up(n, c);
        let wish = JoinWish {
            stream: true,
            keep: false,
            observer: false,
            resume: false,
            replay: false,
            named: true,
            compat: false,
        };
        self.join_with(n, c, wish, 4, Some(shown)).await
    }

    async fn join_with(
        &mut self,
        n: usize,
        c: usize,
        wish: JoinWish,
        window: usize,
        shown: Option<Shown>,
    ) -> Result<(), Wrong> {
        let Some(network) = self.nets[n].handle.clone() else { return Ok(()) };
        let named = shown.is_some();
        let sent_at = self.now();
        let net = &mut self.nets[n];
        // A name that a renamed member had is nobody's to join under.
        if net.oracle.leads_elsewhere(net.clients[c].address) {
            return Ok(());
        }
        let person = net.clients[c].address.starts_with("human:");
        // What an observer's session may do stays so while it goes on: its client begins another one.
        let capped = net.clients[c].capped;
        // A session that was made with less than its own token, or as a guest's, is not what it wants to go on with.
        let guest = net.clients[c].invited.is_some();
        let keep = wish.keep && !capped && !guest && named == net.clients[c].named_session.is_some();
        let wish = JoinWish { observer: wish.observer && !person, keep, ..wish };
        net.clients[c].named = named;
        net.clients[c].capped = wish.observer || shown.as_ref().is_some_and(|shown| shown.observer);
        // A person's name is the person's from its first session on: the operator's word brings her back.
        let by = if person { host() } else { stranger() };
        let by =
            if wish.compat { Arc::new(Caller { capabilities: Capabilities::ALL, ..Caller::clone(&by) }) } else { by };
        let client = &mut net.clients[c];
        let lane = client.lane();
        let k = net.oracle.next_input();
        let last = client.seen.keys().next_back().copied().filter(|_| wish.resume).unwrap_or(0);
        let mut payload =
            json!({ "description": numbered(k), "window": window, "capabilities": skills(client.address) });
        let map = payload.as_object_mut();
        if let Some(map) = map {
            if wish.compat {
                // Clients of workspace servers read the log, unless they say that they want mail.
                map.insert("receive".into(), json!("queue"));
            }
            if wish.observer {
                map.insert("role".into(), json!("observer"));
            }
            if !person {
                let credentials = shown.as_ref().map(|shown| shown.credentials.clone());
                map.insert("credentials".into(), credentials.unwrap_or_else(|| json!({ "token": rights::TOKEN })));
            }
            if let Some(session) = client.session.as_ref().filter(|_| wish.keep) {
                map.insert("session_id".into(), json!(session));
            }
            if last > 0 {
                map.insert("resume_after".into(), json!(format!("seq:{last}")));
            }
            if wish.replay {
                map.insert("replay".into(), json!(true));
            }
        }
        let input = Input {
            id: Some(format!("join-{k}")),
            compat: wish.compat,
            ..Input::new(client.address, "network.agent.join", "core", &payload, sent_at, lane)
        };
        let text = frame(&input, None);
        net.oracle.sending(input);
        let note = Frame::Join { k, resume: last, named: shown.map(|shown| shown.label) };
        if wish.stream {
            let view = Delivered {
                address: client.address.to_owned(),
                window,
                from: last,
                sent: Default::default(),
                attentive: true,
                replay: wish.replay,
                opened: net.oracle.looks,
            };
            let mut opened = Stream::new(&network, view);
            opened.waiting.push_back(note);
            opened.send_as(&by, &network, Texts::from(text)).await;
            client.stream = Some(opened);
            client.had_stream = true;
        } else {
            let handle = tokio::spawn(async move { network.session(&by).emit(Texts::from(text)).await });
            client.calls.push(Call::Emit(handle, vec![note]));
        }
        self.settle().await
    }

    /// Closes a stream and says so.
    pub(crate) async fn close(&mut self, n: usize, c: usize) {
        let connection = self.nets[n].clients[c].stream.as_ref().map(|s| s.connection);
        self.hang_up(n, c);
        if let (Some(connection), Some(network)) = (connection, self.nets[n].handle.clone()) {
            network.close_stream(connection).await;
        }
    }
}
