//! Seeing: letting things run, gathering what came out, and comparing it with the oracle.

use super::client::{Acked, Call, Client, Frame, Heard, operator};
use super::oracle::{Letter, Wrong, wrong};
use super::{Net, World, script};
use rialto_model::{ErrorCode, Fault, limits};
use rialto_node::command::Answered;
use rialto_node::{Network, Session, UnitFilter};
use rialto_store::Store;
use std::sync::Arc;
use std::time::Duration;

/// Rounds after which a quiet world should have been quiet.
const ROUNDS: usize = 400;
/// Rounds without time passing.
const PATIENT: usize = 24;

impl World {
    /// Lets tasks run until they wait for something.
    pub(crate) async fn breathe() {
        for _ in 0..6 {
            tokio::task::yield_now().await;
        }
    }

    /// Time passes for everybody.
    pub(crate) async fn pass(&mut self, ms: u64) {
        self.clock.pass(ms);
        let wall = self.clock.now().wall;
        self.nets.iter_mut().for_each(|net| net.oracle.wall_is(wall));
        tokio::time::advance(Duration::from_millis(ms)).await;
        Self::breathe().await;
    }

    /// The log commits what waits.
    pub(crate) fn pump(&self) -> usize {
        self.store.as_ref().and_then(|store| store.pump().ok()).unwrap_or(0)
    }

    /// Runs something to its end, with the log committing and time passing as needed.
    pub(crate) async fn drive<T: Send + 'static>(
        &mut self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Wrong> {
        let handle = tokio::spawn(work);
        for round in 0..ROUNDS {
            Self::breathe().await;
            if handle.is_finished() {
                return match handle.await {
                    Ok(value) => Ok(value),
                    Err(error) => wrong("no panic", error.to_string()),
                };
            }
            self.pump();
            if round > PATIENT {
                self.pass(100).await;
            }
        }
        handle.abort();
        wrong("liveness", "a call is not answered")
    }

    /// Lets everything in flight come to its end.
    pub(crate) async fn settle(&mut self) -> Result<(), Wrong> {
        let mut quiet = 0;
        // One event after the other may have to wait for its mods.
        let asks = self.nets.iter().any(|n| n.oracle.had_mods());
        for round in 0..if asks { ROUNDS * 4 } else { ROUNDS } {
            Self::breathe().await;
            self.collect().await?;
            let pumped = self.pump();
            while self.host.run_errand() {
                self.counts.snapshots += 1;
            }
            let ready = self.nets.iter().all(|n| n.handle.as_ref().is_some_and(Network::is_ready));
            let calls = self.nets.iter().flat_map(|n| &n.clients).any(|c| !c.calls.is_empty());
            let frames = self.nets.iter().flat_map(|n| &n.clients).filter_map(|c| c.stream.as_ref());
            let frames = frames.filter(|s| s.listening).any(|s| !s.waiting.is_empty());
            let busy = self.store.as_ref().is_some_and(|s| s.health().logs.iter().any(|l| l.waiting > 0));
            if pumped == 0 && !calls && !frames && !busy && (ready || self.lasting) {
                quiet += 1;
                if quiet > 1 {
                    return Ok(());
                }
            } else {
                quiet = 0;
            }
            if round > PATIENT {
                self.pass(100).await;
            }
        }
        let ready = self.nets.iter().all(|n| n.handle.as_ref().is_some_and(Network::is_ready));
        if ready {
            wrong("liveness", "something is not answered")
        } else {
            wrong("recovery", "writes are still refused")
        }
    }

    /// Gathers what streams were handed and which calls were answered.
    pub(crate) async fn collect(&mut self) -> Result<(), Wrong> {
        for n in 0..self.nets.len() {
            for c in 0..self.nets[n].clients.len() {
                self.collect_calls(n, c).await?;
                self.collect_stream(n, c).await?;
            }
            let unready = self.nets[n].handle.as_ref().is_some_and(|h| !h.is_ready());
            if unready && !self.nets[n].shaky {
                self.counts.recoveries += 1;
            }
            self.nets[n].shaky |= unready;
            self.collect_mods(n).await?;
        }
        self.collected = self.now();
        Ok(())
    }

    async fn collect_calls(&mut self, n: usize, c: usize) -> Result<(), Wrong> {
        let calls = std::mem::take(&mut self.nets[n].clients[c].calls);
        let (done, open): (Vec<Call>, Vec<Call>) = calls.into_iter().partition(Call::is_finished);
        self.nets[n].clients[c].calls = open;
        for call in done {
            match call {
                Call::Emit(handle, frames) => match handle.await {
                    Ok(Ok(answers)) => {
                        for (frame, answer) in frames.into_iter().zip(answers) {
                            self.answered(n, c, frame, &answer)?;
                        }
                    }
                    Ok(Err(fault)) => {
                        self.note(&format!("call refused: {}", fault.code.as_str()));
                        frames.into_iter().for_each(|frame| self.nets[n].lost(frame));
                    }
                    Err(error) => return wrong("no panic", error.to_string()),
                },
                Call::Ack(handle, acked) => match handle.await {
                    Ok(Ok(count)) => {
                        self.note(&format!("{count} acked"));
                        self.nets[n].lazy.push(acked);
                    }
                    Ok(Err(fault)) => {
                        self.note(&format!("ack refused: {}", fault.code.as_str()));
                        if is_open_whether(fault.code) {
                            self.nets[n].doubts.push(acked);
                        }
                    }
                    Err(error) => return wrong("no panic", error.to_string()),
                },
            }
        }
        Ok(())
    }

    async fn collect_stream(&mut self, n: usize, c: usize) -> Result<(), Wrong> {
        let Some(stream) = self.nets[n].clients[c].stream.as_mut().filter(|s| s.listening) else { return Ok(()) };
        let heard = stream.heard();
        let mut left = false;
        for item in heard {
            match item {
                Heard::Answer(frame, answer) => {
                    left |= matches!(frame, Frame::Leave(_)) && answer.result.is_ok();
                    self.answered(n, c, frame, &answer)?;
                }
                Heard::Push(record, attempt) => self.pushed(n, c, record, attempt)?,
                Heard::Stored(attempts) => {
                    let Some(network) = self.nets[n].handle.clone() else { continue };
                    let seqs = attempts.iter().map(|a| a.seq).collect();
                    match network.read(seqs).await {
                        Ok(records) => {
                            for record in records {
                                let attempt =
                                    attempts.iter().find(|a| a.seq == record.event.seq).map_or(1, |a| a.attempt);
                                self.pushed(n, c, record, attempt)?;
                            }
                        }
                        Err(fault) => self.note(&format!("mail cannot be read: {}", fault.code.as_str())),
                    }
                }
                Heard::Signal(event) => {
                    if !event.json().contains(&format!("\"network\":\"{}\"", self.nets[n].id)) {
                        return wrong("borders", format!("a signal of another network: {}", event.json()));
                    }
                    self.note(&format!("signal {} {}", event.kind(), event.target()));
                    if event.kind() == "rialto.mod.check" {
                        self.check_came(n, c, &event)?;
                    } else if event.kind() == "network.event.ack" {
                        let net = &mut self.nets[n];
                        net.receipts.push((net.clients[c].address, event));
                    } else if !event.kind().starts_with("rialto.") {
                        let net = &mut self.nets[n];
                        net.signals.push((net.clients[c].address, event));
                    }
                }
                Heard::Closed(code) => {
                    self.note(&format!("closed: {}", code.as_str()));
                    self.hang_up(n, c);
                }
                Heard::Gone => self.hang_up(n, c),
            }
        }
        if left {
            // A carrier ends a stream whose member has left: what was sent behind its goodbye may never be answered.
            self.hang_up(n, c);
        }
        Ok(())
    }

    /// The stream is over: what it had in flight is never answered.
    pub(crate) fn hang_up(&mut self, n: usize, c: usize) {
        let net = &mut self.nets[n];
        if let Some(stream) = net.clients[c].stream.take() {
            stream.waiting.into_iter().for_each(|frame| net.lost(frame));
        }
    }

    fn pushed(&mut self, n: usize, c: usize, record: Arc<rialto_node::EventRecord>, attempt: u32) -> Result<(), Wrong> {
        self.counts.pushes += 1;
        let client = &mut self.nets[n].clients[c];
        client.seen.insert(record.event.seq, record.event.id().to_owned());
        let what = format!("push {} to {} ({attempt})", record.event.seq, client.address);
        if let Some(stream) = &mut client.stream {
            stream.pushes.push((record, attempt));
        }
        self.note(&what);
        Ok(())
    }

    fn answered(&mut self, n: usize, c: usize, frame: Frame, answer: &Answered) -> Result<(), Wrong> {
        let said = match &answer.result {
            Ok(accepted) => format!("ok {:?} {}", accepted.seq, accepted.duplicate),
            Err(fault) => format!("refused {}", fault.code.as_str()),
        };
        self.note(&format!("answer {frame:?}: {said}"));
        if answer.result.is_err() {
            self.counts.refusals += 1;
        }
        let promised = self.script.nets.get(n).map(script::NetPlan::durability);
        if answer.result.is_ok() && promised != Some(answer.durability) {
            return wrong("durability", format!("{promised:?} is acknowledged as {:?}", answer.durability));
        }
        let session = answer.session_id.as_deref().map(str::to_owned);
        let net = &mut self.nets[n];
        match frame {
            Frame::Event(k) => {
                net.hears_code(answer);
                net.known(k, &answer.result)
            }
            Frame::Leave(k) => {
                if answer.result.is_ok() {
                    net.clients[c].session = None;
                    net.clients[c].seen.clear();
                }
                net.known(k, &answer.result)
            }
            Frame::Join { k, resume, named } => {
                let since = net.oracle.next_input();
                let invited = net.invitation_of_join(k);
                let client = &mut net.clients[c];
                match &answer.result {
                    Ok(_) => {
                        // A session that goes on is what it was made with.
                        if session.is_some() && session != client.session {
                            client.named_session = named;
                            client.invited = invited;
                        }
                        client.session = session.or(client.session.take());
                        if let Some(stream) = client.stream.as_mut() {
                            stream.joined = true;
                            stream.since = since;
                        }
                        let address = client.address.to_owned();
                        net.lazy.extend((resume > 0).then(|| Acked::resuming(address, resume)));
                    }
                    Err(fault) => {
                        client.stream = None;
                        let unknown = resume > 0 && is_open_whether(fault.code);
                        let address = client.address.to_owned();
                        net.doubts.extend(unknown.then(|| Acked::resuming(address, resume)));
                    }
                }
                net.known(k, &answer.result)
            }
            Frame::Ack(acked) => {
                match &answer.result {
                    Ok(_) => net.lazy.push(acked),
                    Err(fault) if is_open_whether(fault.code) => net.doubts.push(acked),
                    Err(_) => {}
                }
                Ok(())
            }
            Frame::Verdict(ticket, index) => {
                let refused = answer.result.as_ref().err().map(|fault| fault.code);
                self.verdict_answered(n, &ticket, index, refused)
            }
        }
    }

    /// Somebody lists channels and work while commits are held back. A read that is answered although the log does
    /// nothing shows what is committed, whatever happens next.
    pub(crate) async fn peek(&mut self) {
        for n in 0..self.nets.len() {
            for lists_work in [false, true] {
                let Some(network) = self.nets[n].handle.clone() else { continue };
                let listing = tokio::spawn(async move {
                    let session = network.session(&operator());
                    if lists_work {
                        let list = session.works(UnitFilter::default(), Some(100)).await?;
                        return Ok::<Vec<String>, Fault>(list.works.into_iter().map(|unit| unit.id.into()).collect());
                    }
                    let list = session.channels(None, limits::LIST_ROWS_MAX).await?;
                    Ok(list.channels.into_iter().map(|channel| channel.name.into()).collect())
                });
                Self::breathe().await;
                if !listing.is_finished() {
                    listing.abort();
                    continue;
                }
                let Ok(Ok(names)) = listing.await else { continue };
                self.nets[n].oracle.shown(names.into_iter());
            }
        }
    }

    /// Settles and compares what the log, the streams and the lists say.
    pub(crate) async fn observe(&mut self) -> Result<(), Wrong> {
        self.settle().await?;
        for n in 0..self.nets.len() {
            let ready = self.nets[n].handle.as_ref().is_some_and(Network::is_ready);
            if !ready {
                continue;
            }
            self.nets[n].shaky |= self.trouble;
            if self.nets[n].shaky {
                self.nets[n].oracle.begins_again();
            }
            self.read_tape(n).await?;
            self.guests_end(n).await?;
            self.nets[n].oracle.shown_is_committed()?;
            self.read_letters(n).await?;
            self.compare_pushes(n)?;
            self.nets[n].oracle.emits_that_passed_are_there()?;
            for (to, event) in std::mem::take(&mut self.nets[n].signals) {
                self.nets[n].oracle.passed(to, &event)?;
            }
            let now = self.now();
            self.nets[n].oracle.looked(now);
            if !self.trouble && !self.nets[n].shaky {
                self.nets[n].oracle.recorded = now;
            }
        }
        Ok(())
    }

    /// Compares everything: also every inbox, the state with the log, and that nothing is overdue or stuck.
    pub(crate) async fn look(&mut self) -> Result<(), Wrong> {
        self.observe().await?;
        if self.trouble {
            return Ok(());
        }
        // Two ticks: one may only notice that the clock leapt.
        for _ in 0..2 {
            self.pass(1_100).await;
            self.observe().await?;
        }
        self.counts.comparisons += 1;
        for n in 0..self.nets.len() {
            let now = self.now();
            self.nets[n].oracle.nothing_overdue(now)?;
            for c in 0..self.nets[n].clients.len() {
                self.poll(n, c).await?;
            }
            for client in &self.nets[n].clients {
                if let Some(stream) = client.stream.as_ref().filter(|s| s.listening && s.joined) {
                    self.nets[n].oracle.nothing_stuck(&stream.view)?;
                }
            }
            self.compare_mods(n).await?;
            self.compare_talk(n).await?;
            self.compare_resources(n).await?;
            if self.nets[n].oracle.units().next().is_some() {
                self.compare_work(n).await?;
            }
            self.compare_search(n).await?;
            self.compare_facts(n).await?;
            self.try_names(n).await?;
            self.guests_go_on(n).await?;
        }
        self.index_catches_up().await?;
        self.compare_states().await
    }

    /// Committed events since the last look.
    async fn read_tape(&mut self, n: usize) -> Result<(), Wrong> {
        let Some(network) = self.nets[n].handle.clone() else { return Ok(()) };
        let head = *network.head().borrow();
        self.nets[n].oracle.nothing_lost(head)?;
        let seqs: Vec<u64> = (self.nets[n].oracle.head() + 1..=head).collect();
        if !seqs.is_empty() {
            let events = match network.read(seqs).await {
                Ok(events) => events,
                Err(fault) => return wrong("nothing lost", format!("committed events cannot be read: {fault}")),
            };
            for record in events {
                self.counts.events += 1;
                self.note(&format!("event {} {}", record.event.seq, record.event.json()));
                let now = self.now();
                self.nets[n].oracle.committed(&record.event, now)?;
            }
            if self.nets[n].oracle.head() != head {
                return wrong("nothing lost", format!("{} of {head} events are there", self.nets[n].oracle.head()));
            }
        }
        self.nets[n].oracle.work_is_whole()?;
        self.nets[n].oracle.makers_were_told()?;
        self.nets[n].oracle.observers_saw_what_is()?;
        self.nets[n].oracle.all_acknowledged_is_there()
    }

    /// Dead letters, what history forgot, and the acks since the last look.
    async fn read_letters(&mut self, n: usize) -> Result<(), Wrong> {
        let Some(network) = self.nets[n].handle.clone() else { return Ok(()) };
        let ledger = |session: Session| async move { session.dead_letter_ledger().await };
        let book = |session: Session| async move { session.network_view().await };
        let mut letters = self.look_at(&network, ledger).await?;
        let mut purged = self.look_at(&network, book).await?.purged;
        // While they are asked for, the log goes on: letters are compared with the tape of their own time.
        while *network.head().borrow() != self.nets[n].oracle.head() {
            self.read_tape(n).await?;
            letters = self.look_at(&network, ledger).await?;
            purged = self.look_at(&network, book).await?.purged;
        }
        let letters: Vec<Letter> = letters
            .dead_letters
            .into_iter()
            .map(|l| Letter { seq: l.seq, recipient: l.recipient.into(), reason: l.reason.into() })
            .collect();
        self.counts.dead_letters = self.counts.dead_letters.max(letters.len() as u64);
        let now = self.now();
        let net = &mut self.nets[n];
        let shaky = std::mem::take(&mut net.shaky);
        let mut doubts = std::mem::take(&mut net.doubts);
        if shaky {
            doubts.append(&mut net.lazy);
        }
        let waiting = net.clients.iter().filter_map(|c| c.stream.as_ref()).flat_map(|s| &s.waiting);
        doubts.extend(waiting.filter_map(|frame| match frame {
            Frame::Ack(acked) => Some(acked.clone()),
            Frame::Event(_) | Frame::Join { .. } | Frame::Leave(_) | Frame::Verdict(..) => None,
        }));
        for acked in &doubts {
            net.oracle.doubt(&acked.address, &acked.seqs, acked.up_to);
        }
        net.oracle.dead_letters(&letters, now)?;
        net.oracle.purged(purged)?;
        for (to, receipt) in std::mem::take(&mut net.receipts) {
            net.oracle.receipt_signal(to, &receipt)?;
        }
        // Who reads its stream hears of a receipt, who has none finds it in its inbox; who vanished may miss it.
        let looked_at = net.oracle.looked_input();
        let reachable = |c: &&Client| c.is_there_since(looked_at) || !c.had_stream;
        let reachable: Vec<&str> = net.clients.iter().filter(reachable).map(|c| c.address).collect();
        for acked in net.lazy.iter_mut().filter(|acked| !acked.told) {
            acked.told = true;
            net.oracle.receipts_given(&acked.address, &acked.seqs, acked.up_to, &reachable)?;
            net.oracle.acked(&acked.address, &acked.seqs, acked.up_to, true);
            // An ack names events by id, and an id that is forgotten may come again: then the newer event may be the one that is acked.
            let newer: Vec<u64> = acked.seqs.iter().filter_map(|seq| net.oracle.newest_namesake(*seq)).collect();
            let up_to = net.oracle.newest_namesake(acked.up_to).unwrap_or(0);
            net.oracle.doubt(&acked.address, &newer, up_to);
        }
        net.oracle.all_excused_died()
    }

    /// What the operator sees of a network.
    pub(crate) async fn look_at<T: Send + 'static, F>(
        &mut self,
        network: &Network,
        look: impl FnOnce(Session) -> F,
    ) -> Result<T, Wrong>
    where
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let looked = self.drive(look(network.session(&operator()))).await?;
        looked.map_err(|fault| Wrong { check: "liveness", what: format!("the operator sees nothing: {fault}") })
    }

    fn compare_pushes(&mut self, n: usize) -> Result<(), Wrong> {
        let net = &mut self.nets[n];
        for client in &mut net.clients {
            let Some(stream) = client.stream.as_mut() else { continue };
            for (record, attempt) in std::mem::take(&mut stream.pushes) {
                net.oracle.pushed(&mut stream.view, &record.event, attempt)?;
            }
        }
        Ok(())
    }
}

/// Whether who hears this does not know what became of what it asked for.
fn is_open_whether(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::StorageUnavailable | ErrorCode::ShuttingDown)
}

impl Net {
    /// A frame that will never be answered.
    pub(crate) fn lost(&mut self, frame: Frame) {
        match frame {
            Frame::Event(k) => self.oracle.unanswered(k),
            Frame::Join { k, resume, .. } => {
                self.oracle.unanswered(k);
                self.forget_session(k);
                let address = self.oracle.input(k).map(|input| input.source.clone()).unwrap_or_default();
                self.doubts.push(Acked::resuming(address, resume));
            }
            Frame::Leave(k) => {
                self.oracle.unanswered(k);
                self.forget_session(k);
            }
            Frame::Ack(acked) => self.doubts.push(acked),
            // Nobody knows whether it was heard.
            Frame::Verdict(..) => {}
        }
    }

    /// Nobody knows whether a join or a leave happened: the session may be over.
    fn forget_session(&mut self, k: usize) {
        let who = self.oracle.input(k).map(|input| input.source.clone());
        for client in self.clients.iter_mut().filter(|c| Some(c.address) == who.as_deref()) {
            client.session = None;
        }
    }

    fn known(&mut self, k: usize, result: &Result<rialto_node::Accepted, Fault>) -> Result<(), Wrong> {
        match result {
            Ok(accepted) => self.oracle.accepted(k, accepted.seq, accepted.duplicate),
            Err(fault) if is_open_whether(fault.code) => {
                self.oracle.unanswered(k);
                if self.oracle.input(k).is_some_and(|i| i.kind.starts_with("network.agent.")) {
                    self.forget_session(k);
                }
                Ok(())
            }
            Err(fault) => {
                self.refused_by(k, fault);
                self.oracle.refused(k, fault.code)
            }
        }
    }
}
