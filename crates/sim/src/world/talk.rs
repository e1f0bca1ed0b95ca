//! Doing and seeing conversations: what a step about them sends, and the threads and rooms everybody is listed.

use super::World;
use super::client::Frame;
use super::oracle::{Input, Listed, Wrong};
use super::script::{ADDRESSES, CHANNELS, Talk};
use rialto_model::view::{ConversationCounts, ThreadView};
use rialto_model::{ErrorCode, Fault};
use serde_json::{Map, json};

/// Names of threads; the last is none.
const THREADS: [&str; 4] = ["thread_plan", "thread_plan", "thread_ops-1", "thread_x"];

impl World {
    /// Sends what a step about conversations means.
    pub(crate) async fn talk(&mut self, n: usize, c: usize, talk: Talk, calm: bool) -> Result<(), Wrong> {
        if self.nets[n].clients[c].session.is_none() {
            return Ok(());
        }
        let scope = |channel: Option<usize>| channel.map(|channel| CHANNELS[channel % 4]);
        let (target, metadata, narrow, count) = match talk {
            Talk::Thread { channel, thread, narrow, count } => {
                let metadata = Map::from_iter([("thread".to_owned(), json!(THREADS[usize::from(thread) % 4]))]);
                let target = if thread == 2 && count == 2 {
                    ADDRESSES[channel % 6].to_owned()
                } else {
                    format!("channel/{}", CHANNELS[channel % 4])
                };
                (target, metadata, narrow.map(|who| vec![ADDRESSES[who % 6].to_owned()]), count)
            }
            Talk::Direct { to, channel } => {
                let scope = scope(channel).map(|name| ("room_channel".to_owned(), json!(format!("channel/{name}"))));
                (ADDRESSES[to % 6].to_owned(), Map::from_iter(scope), None, 1)
            }
            Talk::OpenRoom { with, channel } => return self.open_room(n, c, ADDRESSES[with % 6], scope(channel)).await,
        };
        let sent_at = self.now();
        let net = &mut self.nets[n];
        let lane = net.clients[c].lane();
        let inputs = (0..count).map(|i| {
            let k = net.oracle.next_input() + i;
            let payload = json!({ "k": k, "content": format!("said {k}") });
            let input = Input {
                id: Some(format!("t-{k}")),
                to: narrow.clone(),
                metadata: metadata.clone(),
                ..Input::new(net.clients[c].address, "workspace.message.posted", &target, &payload, sent_at, lane)
            };
            (Frame::Event(0), input)
        });
        let inputs = inputs.collect();
        self.deliver(n, c, inputs, calm).await
    }

    async fn open_room(&mut self, n: usize, c: usize, peer: &'static str, channel: Option<&str>) -> Result<(), Wrong> {
        self.observe().await?;
        let (network, caller) = (self.nets[n].handle.clone(), self.nets[n].clients[c].caller());
        let (Some(network), Some(caller)) = (network, caller.filter(|_| !self.trouble)) else { return Ok(()) };
        let (with, scope) = (peer.to_owned(), channel.map(str::to_owned));
        let opened = self.drive(async move { network.session(&caller).open_room(with, scope).await }).await?;
        self.note(&format!("room with {peer}: {:?}", opened.as_ref().map_err(|f| f.code.as_str())));
        let me = self.nets[n].clients[c].address;
        let id = opened.as_ref().map(|room| room.room.as_ref()).map_err(|fault| fault.code);
        self.nets[n].oracle.room_opened(me, peer, channel, id)?;
        self.observe().await
    }

    /// Compares the conversations everybody is listed with those there are.
    pub(crate) async fn compare_talk(&mut self, n: usize) -> Result<(), Wrong> {
        if !self.nets[n].oracle.has_talk() {
            return Ok(());
        }
        for c in 0..self.nets[n].clients.len() {
            let Some(caller) = self.nets[n].caller_of_present(c) else { continue };
            let Some(network) = self.nets[n].handle.clone() else { continue };
            let looked = self.drive(async move {
                let threads = network.session(&caller).threads(None, None, Some(500)).await?;
                let rooms = network.session(&caller).rooms(None, Some(500)).await?;
                Ok::<_, Fault>((threads, rooms))
            });
            let (threads, rooms) = looked.await?.map_err(refused)?;
            let name =
                |thread: &ThreadView| format!("{} {}", thread.channel.as_deref().unwrap_or_default(), thread.thread);
            let threads: Vec<Listed> = threads.threads.iter().map(|t| listed(&t.counts, name(t))).collect();
            let rooms: Vec<Listed> = rooms.rooms.iter().map(|r| listed(&r.counts, r.room.to_string())).collect();
            let address = self.nets[n].clients[c].address;
            self.note(&format!("conversations of {address}: {threads:?} {rooms:?}"));
            self.nets[n].oracle.conversations_listed(address, &threads, &rooms)?;
        }
        Ok(())
    }
}

fn listed(counts: &ConversationCounts, name: String) -> Listed {
    Listed { name, messages: counts.message_count, unread: counts.unread, last: counts.last_seq.unwrap_or(0) }
}

fn refused(fault: Fault) -> Wrong {
    let check = if fault.code == ErrorCode::StorageUnavailable { "recovery" } else { "conversations" };
    Wrong { check, what: format!("conversations are not listed: {fault}") }
}
