//! Doing: what each step of a script means.

use super::client::{ACK_ID, Acked, Call, Frame};
use super::joins::JoinWish;
use super::life::End;
use super::oracle::{Input, Want, Wrong, wrong};
use super::script::{ADDRESSES, Act, CHANNELS, GROUPS, Step, Target, Trouble, What, Which};
use super::{Net, World};
use rialto_model::{ErrorCode, Visibility};
use rialto_node::Texts;
use rialto_store::disk::fault::Call as DiskCall;
use serde_json::{Value, json};
use std::io::ErrorKind;

/// Simulated time after which committed events are read at the latest.
const UNREAD_MS_MAX: u64 = 6 * 3_600_000;
/// Sessions without a stream end after this long.
const SESSION_IDLE_MS: u64 = 24 * 3_600_000;

impl World {
    /// Does one step; gives why the process ended, if it did.
    pub(crate) async fn step(&mut self, step: Step) -> Result<Option<End>, Wrong> {
        let nets = self.nets.len();
        match step {
            Step::Join { net, who, stream, keep, window, observer, resume, replay, named, compat } => {
                let (resume, replay) = (resume && stream, replay && stream);
                let wish = JoinWish { stream, keep, observer, resume, replay, named, compat };
                self.join(net % nets, who % 6, wish, window).await?;
            }
            Step::Leave { net, who, forget } => {
                let (n, c) = (net % nets, who % 6);
                let k = self.nets[n].oracle.next_input();
                self.act(n, c, "network.agent.leave", json!({ "forget": forget, "k": k }), false).await?;
            }
            Step::Hangup { net, who } => self.close(net % nets, who % 6).await,
            Step::Vanish { net, who } => self.hang_up(net % nets, who % 6),
            Step::Listen { net, who, on } => {
                if let Some(stream) = self.nets[net % nets].clients[who % 6].stream.as_mut() {
                    stream.listening = on;
                    stream.view.attentive &= on;
                }
            }
            Step::Send { net, who, to, which, count, calm, form } => {
                self.send(net % nets, who % 6, to, which, (count, calm, form)).await?;
            }
            Step::Channel { net, who, act, channel, calm } => {
                self.channel(net % nets, who % 6, act, channel % 4, calm).await?;
            }
            Step::Ack { net, who, what, stream } => self.ack(net % nets, who % 6, what, stream).await,
            Step::Admin { net, op } => self.admin(net % nets, op).await?,
            Step::Manage { net, by, deed } => self.manage(net % nets, by, deed).await?,
            Step::Guest { net, who, act, calm } => self.guest(net % nets, who % 6, act, calm).await?,
            Step::Resource { net, who, act, calm } => self.resource(net % nets, who % 6, act, calm).await?,
            Step::Talk { net, who, talk, calm } => self.talk(net % nets, who % 6, talk, calm).await?,
            Step::Work { net, by, act, nth, calm } => self.work(net % nets, by, act, nth, calm).await?,
            Step::Mods { net, who, act, calm } => self.mods(net % nets, who % 6, act, calm).await?,
            Step::Read { net, who, form, page } => self.read(net % nets, who % 6, form, page).await?,
            Step::Fact { net, face, key, value, sure } => {
                self.change_fact(net % nets, (face, key), value, sure).await?;
            }
            Step::Pump => drop(self.pump()),
            Step::Errand => {
                self.host.run_errand();
                self.follow_search();
            }
            Step::Settle => self.observe().await?,
            Step::Look => self.look().await?,
            Step::Pass { ms } => self.time(ms).await?,
            Step::Leap { ms } => self.leap(ms).await?,
            Step::Recycle => self.recycle().await?,
            Step::Trouble { what, skip, lasting } => self.trouble(what, skip, lasting),
            Step::Heal => self.heal(),
            Step::PowerCut => {
                self.peek().await;
                return Ok(Some(End::PowerCut));
            }
            Step::Kill => {
                self.peek().await;
                return Ok(Some(End::Kill));
            }
            Step::Fall { calls, power, starting } => {
                self.peek().await;
                if starting {
                    self.falls = Some((calls, power));
                } else {
                    self.disk.cut_after(calls);
                    self.until_gone(calls).await;
                }
                return Ok(Some(if power { End::PowerCut } else { End::Kill }));
            }
            Step::Restart => {
                self.stop().await?;
                return Ok(Some(End::Stopped));
            }
            Step::Rot { file, byte, bit } => {
                self.stop().await?;
                // A bit of what a broken log did not flush looks like a torn tail, and is cut as one (ADR 2).
                let rots = !self.has_unflushed();
                return Ok(Some(if rots { End::Rot { file, byte, bit } } else { End::Stopped }));
            }
        }
        Ok(None)
    }

    /// Hands one event over, on the client's stream or as a call.
    pub(crate) async fn hand(&mut self, n: usize, c: usize, frames: Vec<(Frame, String)>) {
        let net = &mut self.nets[n];
        let Some(network) = net.handle.clone() else { return };
        let client = &mut net.clients[c];
        let (notes, texts): (Vec<Frame>, Vec<String>) = frames.into_iter().unzip();
        let texts: Texts = texts.into_iter().collect();
        if let Some(stream) = client.stream.as_mut().filter(|s| s.joined) {
            stream.waiting.extend(notes);
            stream.send(&network, texts).await;
            return;
        }
        let Some(caller) = client.caller() else {
            notes.into_iter().for_each(|frame| net.lost(frame));
            return;
        };
        let handle = tokio::spawn(async move { network.session(&caller).emit(texts).await });
        client.calls.push(Call::Emit(handle, notes));
    }

    /// One `network.*` act of a client.
    pub(crate) async fn act(
        &mut self,
        n: usize,
        c: usize,
        kind: &str,
        payload: Value,
        calm: bool,
    ) -> Result<(), Wrong> {
        if self.nets[n].clients[c].session.is_none() {
            return Ok(());
        }
        let sent_at = self.now();
        let net = &mut self.nets[n];
        let k = net.oracle.next_input();
        let lane = net.clients[c].lane();
        let input = Input {
            id: Some(format!("act-{k}")),
            ..Input::new(net.clients[c].address, kind, "core", &payload, sent_at, lane)
        };
        let note = if kind == "network.agent.leave" { Frame::Leave(k) } else { Frame::Event(k) };
        self.deliver(n, c, vec![(note, input)], calm).await
    }

    async fn channel(&mut self, n: usize, c: usize, act: Act, channel: usize, calm: bool) -> Result<(), Wrong> {
        let k = self.nets[n].oracle.next_input();
        let name = CHANNELS[channel];
        let address = |guest: Option<usize>| guest.map(|g| ADDRESSES[g % 6]);
        let (kind, mut payload) = match act {
            Act::Create { private, guest } => {
                let guests: Vec<&str> = address(guest).into_iter().collect();
                ("create", json!({ "name": name, "private": private, "participants": guests }))
            }
            Act::Join { guest } => ("join", json!({ "channel": name, "agent": address(guest) })),
            Act::Leave { guest } => ("leave", json!({ "channel": name, "agent": address(guest) })),
            Act::Delete => ("delete", json!({ "channel": name })),
        };
        if let Some(map) = payload.as_object_mut() {
            map.insert("k".into(), json!(k));
            map.retain(|_, v| !v.is_null());
        }
        self.act(n, c, &format!("network.channel.{kind}"), payload, calm).await
    }

    async fn send(
        &mut self,
        n: usize,
        c: usize,
        to: Target,
        which: Which,
        (count, calm, form): (usize, bool, u8),
    ) -> Result<(), Wrong> {
        if self.nets[n].clients[c].session.is_none() {
            return Ok(());
        }
        let sent_at = self.now();
        let net = &mut self.nets[n];
        let lane = net.clients[c].lane();
        let client = &net.clients[c];
        // Mods that run elsewhere are shown what is committed; ephemeral events keep out of their way.
        let ephemeral = matches!(form, 16..) && !net.oracle.had_mods();
        // Who posts to a channel of a workspace is seated by it: when, is known only if nothing else happens.
        let hurries = !calm || count > 1 || self.trouble;
        // Nor does it come from who does not hear that it was taken, and with it a seat.
        let deaf = client.stream.as_ref().is_some_and(|stream| !stream.listening);
        let seats = net.oracle.rules.workspace && matches!(to, Target::Channel(_));
        let ephemeral = ephemeral && !((hurries || deaf) && seats);
        // Nobody remembers its id.
        let which = if ephemeral && which != Which::Unnamed { Which::Fresh } else { which };
        let earlier = |nth: usize| client.sent.len().checked_sub(nth + 1).and_then(|at| client.sent.get(at)).copied();
        if let Which::Again(nth) = which {
            let Some(k) = earlier(nth) else { return Ok(()) };
            let named = net.oracle.input(k).is_some_and(|i| i.id.is_some());
            let Some(text) = client.bytes.get(&k).cloned().filter(|_| named) else { return Ok(()) };
            net.oracle.sending_again(k);
            self.hand(n, c, vec![(Frame::Event(k), text)]).await;
            return if calm { self.observe().await } else { Ok(()) };
        }
        let taken = match which {
            Which::Clash(nth) => earlier(nth).and_then(|k| net.oracle.input(k)).and_then(|i| i.id.clone()),
            Which::Fresh | Which::Unnamed | Which::Again(_) => None,
        };
        let mut inputs = Vec::new();
        for i in 0..count {
            let k = net.oracle.next_input() + i;
            let id = taken.clone().filter(|_| i == 0).or((which != Which::Unnamed).then(|| format!("e-{k}")));
            let kind = ["app.note", "workspace.message.posted", "app.task.done"][k % 3];
            let kind = if form == 15 { "rialto.note" } else { kind };
            let large = if net.oracle.rules.max_pending_kib < 1024 { k % 5 } else { 0 };
            let payload = json!({ "k": k, "content": format!("text {k}{}", " and more".repeat(large * 150)) });
            inputs.push(Input {
                id,
                visibility: match form {
                    8 => Some(Visibility::Public),
                    9 => Some(Visibility::Channel),
                    13 => Some(Visibility::Direct),
                    14 => Some(Visibility::ModOnly),
                    _ => None,
                },
                to: matches!(form, 10 | 17).then(|| vec![ADDRESSES[k % 6].to_owned()]),
                ttl_ms: (form == 11).then_some(15_000),
                metadata: if ephemeral { ephemeral_metadata() } else { Default::default() },
                ..Input::new(client.address, kind, &address(net, to), &payload, sent_at, lane)
            });
        }
        let inputs = inputs.into_iter().map(|input| (Frame::Event(0), input)).collect();
        self.deliver(n, c, inputs, calm).await
    }

    /// Sends new events; alone, their answers are compared with what the sheet says.
    pub(crate) async fn deliver(
        &mut self,
        n: usize,
        c: usize,
        inputs: Vec<(Frame, Input)>,
        calm: bool,
    ) -> Result<(), Wrong> {
        let calm = calm && inputs.len() == 1 && !self.trouble;
        if calm {
            self.observe().await?;
            // Nobody may know any more whether it is a member.
            if self.nets[n].clients[c].session.is_none() {
                return Ok(());
            }
        }
        let net = &mut self.nets[n];
        let mut frames = Vec::new();
        let mut expected = None;
        for (note, input) in inputs {
            let mut codes = net.oracle.refusals(&input);
            if let Some(taken) = input.id.as_deref().and_then(|id| net.oracle.taken(id)) {
                // Another event under an id that is in use.
                codes = vec![taken, ErrorCode::InvalidVisibility];
            }
            expected = Some(codes);
            let receipt = input.payload.len() % 7 == 0;
            let text = frame(&input, Some(receipt));
            let plain = !input.kind.starts_with("network.") && !input.metadata.contains_key("ephemeral");
            let k = net.oracle.sending(input);
            let client = &mut net.clients[c];
            if plain {
                client.sent.push(k);
                client.bytes.insert(k, text.clone());
            }
            let note = if let Frame::Leave(_) = note { Frame::Leave(k) } else { Frame::Event(k) };
            frames.push((note, text));
        }
        let k = net.oracle.next_input().saturating_sub(1);
        let listens = net.clients[c].stream.as_ref().is_none_or(|s| s.listening);
        self.hand(n, c, frames).await;
        if !calm {
            return Ok(());
        }
        self.observe().await?;
        let net = &self.nets[n];
        let codes = expected.unwrap_or_default();
        if !listens || net.shaky {
            return Ok(());
        }
        if net.oracle.input(k).is_some_and(|input| input.metadata.contains_key("ephemeral")) {
            let there =
                net.clients.iter().filter(|client| client.is_there_since(k as u64)).map(|client| client.address);
            return net.oracle.passed_by_the_rules(k, &codes, &there.collect::<Vec<_>>());
        }
        match (net.oracle.is_taped(k), codes.as_slice()) {
            (true, []) | (false, [_, ..]) => Ok(()),
            (true, _) => Ok(()),
            (false, []) if net.oracle.is_mods_doing(k) => Ok(()),
            // While it waited for a mod, a queue may have filled.
            (false, []) if net.oracle.is_refused_by_now(k) => Ok(()),
            // Without a flush per commit a disk that failed is noticed by the next one who writes.
            (false, []) if self.script.nets[n].os && net.oracle.is_unknown(k) => Ok(()),
            (false, []) => {
                wrong("rules", format!("nothing speaks against {:?}, but it was refused", net.oracle.input(k)))
            }
        }
    }

    async fn ack(&mut self, n: usize, c: usize, what: What, on_stream: bool) {
        let net = &mut self.nets[n];
        let Some(network) = net.handle.clone() else { return };
        let client = &mut net.clients[c];
        let Some(caller) = client.caller() else { return };
        let seen: Vec<(u64, String)> = client.seen.iter().map(|(s, id)| (*s, id.clone())).collect();
        let from_end = |nth: usize| seen.len().checked_sub(nth + 1).and_then(|at| seen.get(at)).cloned();
        let (seqs, ids, up_to): (Vec<u64>, Vec<String>, Option<(u64, String)>) = match what {
            What::UpTo(nth) => (vec![], vec![], from_end(nth)),
            What::One(nth) => from_end(nth).into_iter().unzip_with_none(),
            What::Scattered => seen.iter().step_by(2).cloned().unzip_with_none(),
            What::Foreign(seq) => {
                let seq = seq.min(net.oracle.head());
                (vec![seq], vec![format!("seq:{seq}")], None)
            }
        };
        if ids.is_empty() && up_to.is_none() {
            return;
        }
        let acked = Acked {
            address: client.address.to_owned(),
            seqs,
            up_to: up_to.as_ref().map_or(0, |(s, _)| *s),
            told: false,
        };
        let up_to = up_to.map(|(_, id)| id);
        net.oracle.acking(&acked.address, &acked.seqs, acked.up_to);
        match client.stream.as_mut().filter(|s| on_stream && s.joined) {
            Some(stream) => {
                let payload = match &up_to {
                    Some(id) => json!({ "up_to": id }),
                    None => json!({ "ids": ids }),
                };
                let text = json!({ "id": ACK_ID, "type": "network.event.ack", "target": "core", "payload": payload });
                let text = text.to_string();
                stream.waiting.push_back(Frame::Ack(acked));
                stream.send(&network, Texts::from(text)).await;
            }
            None => {
                let handle = tokio::spawn(async move { network.session(&caller).ack(ids, up_to).await });
                client.calls.push(Call::Ack(handle, acked));
            }
        }
    }

    async fn read(&mut self, n: usize, c: usize, form: u8, page: usize) -> Result<(), Wrong> {
        self.observe().await?;
        if self.trouble {
            return Ok(());
        }
        let mut want = Want { descending: form >> 4 & 3 == 2, ..Want::default() };
        want.kind =
            [None, Some("app."), Some("network."), Some("workspace.")][usize::from(form & 3)].map(str::to_owned);
        match form >> 2 & 3 {
            1 => want.channel = Some(CHANNELS[page % 4].to_owned()),
            // Who wrote under another name is asked for by its new one, which is another question.
            2 if !self.nets[n].oracle.has_former() => want.source = Some(ADDRESSES[page % 6].to_owned()),
            3 => want.after = Some(page as u64 % (self.nets[n].oracle.head() + 1)),
            _ => {}
        }
        self.read_history(n, c, form >> 4 & 3 == 3, &want, page).await
    }

    async fn time(&mut self, ms: u64) -> Result<(), Wrong> {
        self.collect().await?;
        if ms >= 3_600_000 {
            self.observe().await?;
        }
        // Long times pass in pieces, so that ticks see them.
        let piece = (ms / 8).clamp(1_000, 3_600_000).min(ms);
        let (mut left, mut unread) = (ms, 0);
        while left > 0 {
            let now = piece.min(left);
            self.pass(now).await;
            self.pump();
            self.collect().await?;
            left -= now;
            unread += now;
            // What history does not keep is freed after a day: it is read before.
            if unread >= UNREAD_MS_MAX {
                self.observe().await?;
                unread = 0;
            }
        }
        if ms >= SESSION_IDLE_MS {
            self.observe().await?;
            for (n, c) in (0..self.nets.len()).flat_map(|n| (0..6).map(move |c| (n, c))) {
                // Without a stream a day is too long, and who does not read may have lost his.
                if self.nets[n].clients[c].stream.as_ref().is_none_or(|s| !s.listening) {
                    self.hang_up(n, c);
                    self.nets[n].clients[c].session = None;
                }
            }
        }
        Ok(())
    }

    async fn leap(&mut self, ms: i64) -> Result<(), Wrong> {
        self.clock.leap(ms);
        self.pass(1_100).await;
        self.observe().await
    }

    fn trouble(&mut self, what: Trouble, skip: u32, lasting: bool) {
        let (call, kind) = match what {
            Trouble::DiskFull => (DiskCall::Write, ErrorKind::StorageFull),
            Trouble::WriteFails => (DiskCall::Write, ErrorKind::Other),
            Trouble::FlushFails => (DiskCall::Sync, ErrorKind::Other),
            Trouble::DirFlushFails => (DiskCall::SyncDir, ErrorKind::Other),
            Trouble::RenameFails => (DiskCall::Rename, ErrorKind::Other),
        };
        self.disk.fail(call, skip, kind, lasting);
        self.trouble = true;
        self.lasting |= lasting;
        self.nets.iter_mut().for_each(|n| n.shaky = true);
    }

    pub(crate) fn heal(&mut self) {
        self.disk.heal();
        if self.trouble {
            // What failed may have been put together again without anybody seeing it.
            self.nets.iter_mut().for_each(|n| n.shaky = true);
        }
        self.trouble = false;
        self.lasting = false;
    }
}

/// The bytes of an event.
pub(crate) fn frame(input: &Input, receipt: Option<bool>) -> String {
    let mut metadata = Value::Object(input.metadata.clone());
    if let Some(map) = metadata.as_object_mut() {
        if let Some(to) = &input.to {
            map.insert("to".into(), json!(to));
        }
        if let Some(ttl) = input.ttl_ms {
            map.insert("ttl_ms".into(), json!(ttl));
        }
        if receipt == Some(true) {
            map.insert("receipt".into(), json!(true));
        }
    }
    let mut event = json!({
        "type": input.kind, "source": input.source, "target": input.target, "metadata": metadata,
    });
    if let Some(map) = event.as_object_mut() {
        if let Some(id) = &input.id {
            map.insert("id".into(), json!(id));
        }
        if let Some(visibility) = input.visibility {
            map.insert("visibility".into(), json!(visibility.as_str()));
        }
        map.insert("payload".into(), serde_json::from_str(&input.payload).unwrap_or_default());
    }
    event.to_string()
}

/// What makes an event ephemeral.
fn ephemeral_metadata() -> serde_json::Map<String, Value> {
    [("ephemeral".to_owned(), Value::Bool(true))].into_iter().collect()
}

/// The address of a target.
pub(crate) fn address(net: &Net, to: Target) -> String {
    match to {
        Target::Member(who) => ADDRESSES[who % 6].to_owned(),
        Target::Broadcast => "agent:broadcast".to_owned(),
        Target::Channel(c) => format!("channel/{}", CHANNELS[c % 4]),
        Target::Group(g) => format!("group/{}", GROUPS[g % 2]),
        Target::Core => "core".to_owned(),
        Target::ModLoaded => "mod/auth".to_owned(),
        Target::ModUnknown => "mod/absent".to_owned(),
        Target::Resource => "resource/tool/absent".to_owned(),
        Target::Foreign => format!("{}x::agent:ann", net.id),
        Target::Nobody => "agent:nobody".to_owned(),
        Target::Malformed => "channel/a/b".to_owned(),
    }
}

/// Positions and ids of acks by name.
trait Names {
    fn unzip_with_none(self) -> (Vec<u64>, Vec<String>, Option<(u64, String)>);
}

impl<I: Iterator<Item = (u64, String)>> Names for I {
    fn unzip_with_none(self) -> (Vec<u64>, Vec<String>, Option<(u64, String)>) {
        let (seqs, ids) = self.unzip();
        (seqs, ids, None)
    }
}
