//! Doing and seeing work: what a step about a unit sends, and what everybody is shown of every unit.

use super::client::{Frame, operator};
use super::oracle::{Input, Shown, Unit, Wrong};
use super::script::{ADDRESSES, By, Target, Work};
use super::steps::address;
use super::{Net, World};
use rialto_model::{ErrorCode, Fault};
use rialto_node::{Caller, UnitFilter};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Units looked at one by one at each look, newest first.
const SHOWN_MAX: usize = 4;
/// More events than any unit of a script has.
const LOG_MAX: usize = 500;

impl World {
    /// Sends what a step about a unit means.
    pub(crate) async fn work(&mut self, n: usize, by: By, act: Work, nth: usize, calm: bool) -> Result<(), Wrong> {
        let unit = self.nets[n].oracle.unit_from_newest(nth).cloned();
        let Some(c) = self.nets[n].actor(by, unit.as_ref()) else { return Ok(()) };
        if self.nets[n].clients[c].session.is_none() {
            return Ok(());
        }
        let sent_at = self.now();
        let net = &mut self.nets[n];
        let k = net.oracle.next_input();
        let lane = net.clients[c].lane();
        let Some((kind, target, payload, metadata)) = said(net, c, act, unit.as_ref(), k) else { return Ok(()) };
        let input = Input {
            id: (!k.is_multiple_of(4)).then(|| format!("w-{k}")),
            metadata,
            ..Input::new(net.clients[c].address, kind, &target, &payload, sent_at, lane)
        };
        self.deliver(n, c, vec![(Frame::Event(0), input)], calm).await
    }

    /// Compares what everybody is shown of work with what there is.
    pub(crate) async fn compare_work(&mut self, n: usize) -> Result<(), Wrong> {
        let now = self.now();
        let oracle = &self.nets[n].oracle;
        oracle.no_work_overdue(now)?;
        let units: Vec<(usize, String)> =
            oracle.units().take(SHOWN_MAX).map(|(no, unit)| (no, unit.id.clone())).collect();
        for (no, id) in units {
            let shown = self.shown(n, &operator(), &id).await?;
            self.nets[n].oracle.unit_shown(no, None, &shown, now)?;
            for c in 0..self.nets[n].clients.len() {
                let Some(caller) = self.nets[n].caller_of_present(c) else { continue };
                let shown = self.shown(n, &caller, &id).await?;
                let address = self.nets[n].clients[c].address;
                self.nets[n].oracle.unit_shown(no, Some(address), &shown, now)?;
            }
        }
        for c in 0..self.nets[n].clients.len() {
            let Some(caller) = self.nets[n].caller_of_present(c) else { continue };
            let Some(network) = self.nets[n].handle.clone() else { continue };
            let list = self
                .drive(async move { network.session(&caller).works(UnitFilter::default(), Some(500)).await })
                .await?;
            let list = list.map_err(|fault| refused("works", &fault))?;
            let ids: Vec<&str> = list.works.iter().map(|unit| unit.id.as_ref()).collect();
            let address = self.nets[n].clients[c].address;
            self.nets[n].oracle.units_listed(address, &ids, now)?;
        }
        Ok(())
    }

    /// A unit and its log as a caller is shown them.
    async fn shown(&mut self, n: usize, caller: &Arc<Caller>, id: &str) -> Result<Option<Shown>, Wrong> {
        let Some(network) = self.nets[n].handle.clone() else { return Ok(None) };
        let (caller, id) = (caller.clone(), id.to_owned());
        let looked = self.drive(async move {
            let unit = network.session(&caller).work(&id).await?;
            let page = network.session(&caller).work_page(&id, 0, LOG_MAX).await?;
            Ok::<_, Fault>((unit, page))
        });
        match looked.await? {
            Ok((unit, page)) => {
                let shown = Shown {
                    state: unit.state.to_string(),
                    requester: unit.requester.map(String::from).unwrap_or_default(),
                    executor: unit.executor.map(String::from),
                    chunks: unit.artifacts.iter().map(|artifact| u64::from(artifact.chunks)).sum(),
                    log: page.events.iter().map(|record| record.event.seq).collect(),
                };
                self.note(&format!("work {:?} {shown:?}", unit.id));
                Ok(Some(shown))
            }
            Err(fault) if fault.code == ErrorCode::UnknownTarget => Ok(None),
            Err(fault) => Err(refused("work", &fault)),
        }
    }
}

fn refused(what: &str, fault: &Fault) -> Wrong {
    Wrong { check: "work", what: format!("{what} is not shown: {fault}") }
}

impl Net {
    /// The client that acts.
    pub(crate) fn actor(&self, by: By, unit: Option<&Unit>) -> Option<usize> {
        let address = match by {
            By::Member(who) => return Some(who % ADDRESSES.len()),
            By::Requester => self.oracle.address(unit?.requester),
            By::Executor => self.oracle.address(unit?.executor?),
        };
        self.clients.iter().position(|client| Some(client.address) == address)
    }

    pub(crate) fn caller_of_present(&self, c: usize) -> Option<Arc<Caller>> {
        let client = self.clients.get(c)?;
        client.caller().filter(|_| self.oracle.is_present(client.address))
    }
}

type Said = (&'static str, String, Value, Map<String, Value>);

/// Type, target, payload and metadata of an act.
fn said(net: &Net, c: usize, act: Work, unit: Option<&Unit>, k: usize) -> Option<Said> {
    let me = net.clients[c].address;
    let mut metadata = Map::new();
    let text = json!({ "k": k, "content": format!("work {k}") });
    if let Work::Open { to, deadline_ms, part } = act {
        let mut wish = Map::new();
        if k.is_multiple_of(2) {
            wish.insert("id".into(), json!(format!("job-{k}")));
        }
        if let Some(ms) = deadline_ms {
            wish.insert("deadline_ms".into(), json!(ms));
        }
        if let Some(whole) = unit.filter(|_| part) {
            wish.insert("parent".into(), json!(whole.id));
        }
        if to == Target::Core {
            wish.insert("skill".into(), json!(["plan", "code", "none"][k % 3]));
        }
        metadata.insert("work".into(), Value::Object(wish));
        return Some(("workspace.message.posted", address(net, to), text, metadata));
    }
    let unit = unit?;
    let address = |who: Option<usize>| who.and_then(|who| net.oracle.address(who));
    let other = if address(Some(unit.requester)) == Some(me) { unit.executor } else { Some(unit.requester) };
    let other = address(other).unwrap_or("core").to_owned();
    // Once in a while to somebody who has no part in it.
    let core = match k % 13 {
        3 => ADDRESSES[k % 6].to_owned(),
        odd if odd % 2 == 1 => other.clone(),
        _ => "core".to_owned(),
    };
    let place = unit.channel.and_then(|channel| net.oracle.channel_name(channel)).filter(|_| !k.is_multiple_of(3));
    let place = place.map_or(other, |name| format!("channel/{name}"));
    let name = unit.alias.as_deref().filter(|_| k.is_multiple_of(5)).unwrap_or(&unit.id);
    Some(match act {
        Work::Open { .. } => return None,
        Work::Update(state) => ("work.update", core, json!({ "k": k, "work": name, "state": state }), metadata),
        Work::Artifact { append, last } => {
            let artifact = json!({ "id": format!("a{}", k % 2), "parts": [{ "text": format!("part {k}") }] });
            let payload = json!({ "k": k, "work": name, "artifact": artifact, "append": append, "last": last });
            ("work.artifact", core, payload, metadata)
        }
        Work::Answer => ("work.answer", core, json!({ "k": k, "work": name, "message": "so" }), metadata),
        Work::Cancel => ("work.cancel", core, json!({ "k": k, "work": name }), metadata),
        Work::Reply { state, fails, latest } => {
            let last = unit.asked.as_ref().or(unit.answered.as_ref()).filter(|_| latest);
            metadata.insert("in_reply_to".into(), json!(last.unwrap_or(&unit.request)));
            metadata.extend(state.map(|state| ("work_state".to_owned(), json!(state))));
            metadata.extend(fails.then(|| ("is_error".to_owned(), json!(true))));
            ("workspace.message.posted", place, text, metadata)
        }
        Work::Note { state } => {
            metadata.insert("work".into(), json!({ "id": unit.id }));
            metadata.extend(state.map(|state| ("work_state".to_owned(), json!(state))));
            ("workspace.message.posted", place, text, metadata)
        }
    })
}
