//! Reading: inboxes and histories page by page, and the state as the log, the snapshot and the process have it.

use super::World;
use super::oracle::{Reader, Want, Wrong, wrong};
use super::rights::{bearer, local_secret};
use rialto_model::{ErrorCode, Fault};
use rialto_node::{Caller, Filter, Network, Query, View, verify};
use std::sync::Arc;

impl World {
    /// A member's whole inbox.
    pub(crate) async fn poll(&mut self, n: usize, c: usize) -> Result<(), Wrong> {
        let (Some(network), Some(caller)) = (self.nets[n].handle.clone(), self.nets[n].clients[c].caller()) else {
            return Ok(());
        };
        let address = self.nets[n].clients[c].address;
        if !self.nets[n].oracle.rules.at_least_once || !self.nets[n].oracle.is_present(address) {
            return Ok(());
        }
        self.counts.polls += 1;
        let polled = self.pages(&network, &caller, View::Inbox, &Want::default(), 5).await?;
        match polled {
            Ok(events) => {
                let seqs: Vec<u64> = events.iter().map(|(seq, _)| *seq).collect();
                self.note(&format!("inbox of {address}: {seqs:?}"));
                self.nets[n].clients[c].seen.extend(events);
                self.nets[n].oracle.inbox(address, &seqs)
            }
            Err(fault) => wrong("sessions", format!("{address} cannot poll: {fault}")),
        }
    }

    /// A reader's whole history, page by page.
    pub(crate) async fn read_history(
        &mut self,
        n: usize,
        c: usize,
        bare: bool,
        want: &Want,
        page: usize,
    ) -> Result<(), Wrong> {
        let Some(network) = self.nets[n].handle.clone() else { return Ok(()) };
        let address = self.nets[n].clients[c].address;
        let caller = match self.nets[n].clients[c].caller() {
            _ if bare => bearer(&local_secret(n)),
            Some(caller) if self.nets[n].oracle.is_present(address) => caller,
            _ => return Ok(()),
        };
        self.counts.reads += 1;
        let got = self.pages(&network, &caller, View::Log, want, page).await?;
        let oracle = &self.nets[n].oracle;
        match got {
            Ok(events) if oracle.rules.persistence => {
                let seqs: Vec<u64> = events.iter().map(|(seq, _)| *seq).collect();
                oracle.read(if bare { Reader::Bare } else { Reader::Member(address) }, want, &seqs)
            }
            Err(fault) if fault.code == ErrorCode::HistoryUnavailable && !oracle.rules.persistence => Ok(()),
            Ok(_) => wrong("rules", "a network without history showed one"),
            Err(fault) => wrong("sessions", format!("{address} cannot read: {fault}")),
        }
    }

    /// Reads page after page by cursor.
    pub(crate) async fn pages(
        &mut self,
        network: &Network,
        caller: &Arc<Caller>,
        view: View,
        want: &Want,
        page: usize,
    ) -> Result<Result<Vec<(u64, String)>, Fault>, Wrong> {
        let mut out = Vec::new();
        let cursor = |at: u64| Some(format!("seq:{at}"));
        let mut query = Query {
            view: Some(view),
            limit: i64::try_from(page).ok(),
            after: want.after.and_then(cursor),
            before: want.before.and_then(cursor),
            filter: Filter {
                kind: want.kind.clone(),
                channel: want.channel.clone(),
                source: want.source.clone(),
                target: want.target.clone(),
                descending: want.descending,
                ..Filter::default()
            },
            // A phrase: its words stand together.
            search: want.text.as_ref().map(|text| format!("\"{text}\"")),
            ..Query::default()
        };
        for _ in 0..500 {
            let (network, caller, ask) = (network.clone(), caller.clone(), query.clone());
            let result = match self.drive(async move { network.session(&caller).query(&ask).await }).await? {
                Ok(result) => result,
                Err(fault) => return Ok(Err(fault)),
            };
            out.extend(result.events.iter().map(|r| (r.event.seq, r.event.id().to_owned())));
            if !result.has_more {
                return Ok(Ok(out));
            }
            if want.descending {
                query.before = cursor(result.next);
            } else {
                query.after = cursor(result.next);
            }
        }
        wrong("cursors", "paging never ends")
    }

    /// The live state, the state from the snapshot and the state from the whole log are the same.
    pub(crate) async fn compare_states(&mut self) -> Result<(), Wrong> {
        let mut live = verify::LiveStates::new();
        for n in 0..self.nets.len() {
            let Some(network) = self.nets[n].handle.clone() else { continue };
            let number = network.number();
            match self.drive(async move { network.state_hash().await }).await? {
                Ok(state) => drop(live.insert(number, state)),
                Err(fault) => return wrong("liveness", format!("no state hash: {fault}")),
            }
            // Everything decided is in the log now.
            self.nets[n].lazy.clear();
        }
        self.note(&format!("{live:?}"));
        let Some(store) = self.store.clone() else { return Ok(()) };
        let report = verify::verify(store.as_ref(), &live, &mut |_, _| {});
        let problems = match report {
            Ok(report) => serde_json::json!(report.problems).to_string(),
            Err(error) => error.to_string(),
        };
        if problems != "[]" {
            return wrong("state equals log", problems);
        }
        Ok(())
    }

    /// After rot that nobody named: whatever can be read is right.
    pub(crate) async fn compare_rotten(&mut self) -> Result<(), Wrong> {
        for n in 0..self.nets.len() {
            let Some(network) = self.nets[n].handle.clone() else { continue };
            let head = *network.head().borrow();
            let damaged = network.damage().is_some();
            if !damaged {
                self.nets[n].oracle.nothing_lost(head)?;
            }
            let known = self.nets[n].oracle.head();
            let seqs: Vec<u64> = (1..=if damaged { head.min(known) } else { known }).collect();
            match network.read(seqs).await {
                Ok(records) => {
                    for record in records {
                        self.nets[n].oracle.same_event(&record.event)?;
                    }
                }
                Err(fault) => self.note(&format!("the rot is named: {}", fault.code.as_str())),
            }
        }
        Ok(())
    }
}
