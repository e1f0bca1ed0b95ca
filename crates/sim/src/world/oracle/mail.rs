//! Deliveries (sheet section 8): who has what pending, what may be pushed to whom and in which order, and how mail dies.

use super::replay::was_over;
use super::{Entry, Member, Oracle, Place, Row, Who, Wrong, wrong};
use rialto_model::Event;
use serde_json::Value;
use std::collections::BTreeSet;

/// A dead letter as the operator's list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Position of the event.
    pub seq: u64,
    /// Whom it did not reach.
    pub recipient: String,
    /// Why.
    pub reason: String,
}

/// What one stream of a member was pushed so far.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// Whose stream.
    pub address: String,
    /// Unacked events it may have.
    pub window: usize,
    /// Nothing up to here is sent.
    pub from: u64,
    /// Positions sent.
    pub sent: BTreeSet<u64>,
    /// It has always read what came.
    pub attentive: bool,
    /// It asked for what it has acked, too.
    pub replay: bool,
    /// How often everything had been compared when it was opened.
    pub opened: u64,
}

/// An unacked delivery comes again after this long at the earliest.
const RETRY_MS: u64 = 30_000;
/// Mail is dead so long after its time at the latest, while the network runs.
const LATE_MS: u64 = 5_000;
/// Lives of mail from here on are long.
const LONG_MS: u64 = 3_600_000;

impl Oracle {
    pub(crate) fn entry(&self, seq: u64) -> Option<&Entry> {
        usize::try_from(seq).ok()?.checked_sub(1).and_then(|at| self.tape.get(at))
    }

    pub(crate) fn pending_at_most(&self, who: Who) -> u64 {
        let waits = |row: Row| matches!(row, Row::Pending | Row::Maybe);
        self.members.get(who).map_or(0, |m| m.mail.values().filter(|mail| waits(mail.row)).count() as u64)
    }

    /// The same at any time since the last look: acks since then may have come after what was decided.
    fn pending_lately(&self, who: Who) -> u64 {
        let lately = |mail: &&super::Mail| mail.row == Row::Acked && mail.ended == self.looks;
        let over = self.members.get(who).map_or(0, |m| m.mail.values().filter(lately).count() as u64);
        self.pending_at_most(who) + over
    }

    /// KiB a member has pending at most.
    fn kib_at_most(&self, who: Who) -> u64 {
        let waits = |row: Row| matches!(row, Row::Pending | Row::Maybe);
        let Some(member) = self.members.get(who) else { return 0 };
        member.mail.iter().filter(|(_, mail)| waits(mail.row)).map(|(seq, _)| self.kib_of(*seq)).sum()
    }

    /// The same at any time since the last look.
    fn kib_lately(&self, who: Who) -> u64 {
        let Some(member) = self.members.get(who) else { return 0 };
        let lately = |mail: &super::Mail| mail.row == Row::Acked && mail.ended == self.looks;
        let over: u64 = member.mail.iter().filter(|(_, mail)| lately(mail)).map(|(seq, _)| self.kib_of(*seq)).sum();
        self.kib_at_most(who) + over
    }

    /// What an event counts for: all its texts, in whole KiB.
    fn kib_of(&self, seq: u64) -> u64 {
        self.entry(seq).map_or(1, |entry| {
            let event = &entry.event;
            let texts = [event.id(), event.kind(), event.source(), event.target(), event.payload(), event.metadata()];
            texts.map(str::len).iter().sum::<usize>().div_ceil(1024) as u64
        })
    }

    /// Whether a member's queue may refuse an event with this payload: by their number, or by their bytes. What the network
    /// adds to an event takes less than a KiB.
    pub(crate) fn may_be_full(&self, who: Who, payload: &str) -> bool {
        let (count, kib) = (self.pending_at_most(who), payload.len().div_ceil(1024) as u64 + 1);
        count >= self.rules.max_pending || count > 0 && self.kib_at_most(who) + kib > self.rules.max_pending_kib
    }

    /// A member acked: these, and everything up to a position. `kept` says whether the ack is known to be durable.
    pub fn acked(&mut self, address: &str, seqs: &[u64], up_to: u64, kept: bool) {
        let mail = self.members.iter_mut().filter(|m| m.address == address).flat_map(|m| &mut m.mail);
        for (seq, mail) in mail {
            if (*seq <= up_to || seqs.contains(seq)) && matches!(mail.row, Row::Pending | Row::Maybe) {
                mail.row = if kept { Row::Acked } else { Row::Maybe };
                mail.ended = self.looks;
            }
        }
    }

    /// An ack of these is on its way.
    pub fn acking(&mut self, address: &str, seqs: &[u64], up_to: u64) {
        self.acked(address, seqs, up_to, false);
    }

    /// An ack of these may be lost, or may not.
    pub fn doubt(&mut self, address: &str, seqs: &[u64], up_to: u64) {
        for member in self.members.iter_mut().filter(|m| m.address == address) {
            for (seq, mail) in &mut member.mail {
                let tracked = matches!(mail.row, Row::Pending | Row::Acked);
                if (*seq <= up_to || seqs.contains(seq)) && self.rules.at_least_once {
                    mail.doubted = true;
                    if tracked {
                        mail.row = Row::Maybe;
                    }
                }
            }
        }
    }

    /// The last event behind this one that has the same id.
    pub fn newest_namesake(&self, seq: u64) -> Option<u64> {
        let id = self.entry(seq)?.event.id();
        self.tape.iter().rev().find(|e| e.event.id() == id).map(|e| e.event.seq).filter(|newest| *newest > seq)
    }

    /// An event is what was committed at its position.
    pub fn same_event(&self, event: &Event) -> Result<(), Wrong> {
        match self.entry(event.seq) {
            Some(entry) if entry.event.json() == event.json() || self.redacted.contains(&event.seq) => Ok(()),
            _ => wrong("tape", format!("{} is not what was committed", event.json())),
        }
    }

    /// A committed event of the server.
    pub(crate) fn server_event(&mut self, event: &Event, now: u64) -> Result<(), Wrong> {
        let born = self.looked.min(now);
        let place = match event.kind() {
            "rialto.network.status" => Place::Everybody,
            "rialto.delivery.dead" => self.notice(event)?,
            "work.update" => self.ended_by_network(event, now)?,
            "network.event.error" => self.call_ended_by_network(event, now)?,
            "workspace.invitation.accepted" | "workspace.invitation.rejected" => self.maker_is_told(event)?,
            kind => return wrong("tape", format!("the server makes no {kind}")),
        };
        self.post(Entry { event: event.clone(), source: None, place }, None, born, now, None);
        Ok(())
    }

    /// A receipt is mail of a sender that asked for it, from a recipient that acked, once.
    pub(crate) fn receipt(&mut self, event: &Event, now: u64) -> Result<(), Wrong> {
        let (seq, by, to) = self.receipted_event(event)?;
        // It is committed with the ack it tells of: that is not in doubt any more.
        if let Some(mail) = self.members.get_mut(by).and_then(|m| m.mail.get_mut(&seq)) {
            mail.row = Row::Acked;
            mail.ended = self.looks;
        }
        self.receipted.insert((seq, by));
        let entry = Entry { event: event.clone(), source: Some(by), place: Place::Inbox(to) };
        self.post(entry, None, self.looked.min(now), now, None);
        Ok(())
    }

    /// A sender that is there hears of an ack by its stream.
    pub fn receipt_signal(&mut self, address: &str, event: &Event) -> Result<(), Wrong> {
        // Its sender and its recipient may have been removed, or have come back as somebody else, by the time it is looked
        // at: it is about an event of an incarnation of the one that an incarnation of the other had as mail.
        let metadata: Value = serde_json::from_str(event.metadata()).unwrap_or_default();
        let answered = metadata.get("in_reply_to").and_then(Value::as_str).unwrap_or_default();
        let is = |who: Who, name: &str| self.address(who) == Some(name) || self.who(name) == Some(who);
        let about = self.tape.iter().rev().filter(|e| e.event.id() == answered && wants_receipt(&e.event));
        let about = about.filter(|e| e.source.is_some_and(|to| is(to, event.target()) && is(to, address)));
        let holders = |e: &Entry| {
            let holds = |who: &Who| self.members.get(*who).is_some_and(|m| m.mail.contains_key(&e.event.seq));
            (0..self.members.len()).filter(holds).filter(|who| is(*who, event.source())).collect::<Vec<_>>()
        };
        let acked: Vec<(u64, Who)> = about.flat_map(|e| holders(e).into_iter().map(|by| (e.event.seq, by))).collect();
        if acked.is_empty() {
            return wrong("receipts", format!("{address} was sent {}, which was not asked for", event.json()));
        }
        let Some(fresh) = acked.into_iter().find(|key| !self.receipted.contains(key)) else {
            return wrong("receipts", format!("{} came before", event.json()));
        };
        self.receipted.insert(fresh);
        Ok(())
    }

    /// The event a receipt is about, who acked it and who sent it: one whose sender asked for receipts, and had none yet
    /// from this recipient, whose mail it is.
    fn receipted_event(&self, receipt: &Event) -> Result<(u64, Who, Who), Wrong> {
        let metadata: Value = serde_json::from_str(receipt.metadata()).unwrap_or_default();
        let answered = metadata.get("in_reply_to").and_then(Value::as_str).unwrap_or_default();
        let (by, to) = (self.who(receipt.source()), self.who(receipt.target()));
        let (Some(by), Some(to)) = (by, to) else {
            return wrong("receipts", format!("{} is between who is gone", receipt.json()));
        };
        let asked = |e: &&Entry| e.event.id() == answered && e.source == Some(to) && wants_receipt(&e.event);
        let entries = self.tape.iter().rev().filter(asked).map(|e| e.event.seq);
        let Some(seq) = entries.clone().find(|seq| !self.receipted.contains(&(*seq, by))) else {
            let what = if entries.count() == 0 { "was not asked for" } else { "came before" };
            return wrong("receipts", format!("{} {what}", receipt.json()));
        };
        match self.members.get(by).and_then(|m| m.mail.get(&seq)).map(|mail| mail.row) {
            Some(Row::Pending | Row::Maybe | Row::Acked) => Ok((seq, by, to)),
            other => wrong("receipts", format!("{} says acked of {other:?}", receipt.json())),
        }
    }

    /// A member acked for sure: senders that asked for receipts and can be reached have them.
    pub fn receipts_given(&self, by: &str, seqs: &[u64], up_to: u64, reachable: &[&str]) -> Result<(), Wrong> {
        let members = self.members.iter().enumerate().filter(|(_, m)| m.address == by);
        for (who, (seq, mail)) in members.flat_map(|(who, m)| m.mail.iter().map(move |mail| (who, mail))) {
            let waits = matches!(mail.row, Row::Pending | Row::Maybe) && !mail.doubted;
            let Some(entry) = self.entry(*seq).filter(|_| waits && (*seq <= up_to || seqs.contains(seq))) else {
                continue;
            };
            let Some(source) = entry.source.filter(|_| wants_receipt(&entry.event)) else { continue };
            let sender = self.members.get(source).filter(|m| m.present() && !self.came_lately(source));
            let there = sender.is_some_and(|m| reachable.contains(&m.address.as_str()));
            if there && !self.receipted.contains(&(*seq, who)) {
                return wrong("receipts", format!("{by} acked {seq}, and {} was not told", entry.event.source()));
            }
        }
        Ok(())
    }

    /// A notice names letters of its addressee, each once.
    fn notice(&mut self, event: &Event) -> Result<Place, Wrong> {
        let payload: Value = serde_json::from_str(event.payload()).unwrap_or_default();
        let recipient = payload.get("recipient").and_then(Value::as_str).unwrap_or_default().to_owned();
        let more = payload.get("more").and_then(Value::as_array).into_iter().flatten();
        for id in payload.get("event_id").into_iter().chain(more).filter_map(Value::as_str) {
            // An id may have been forgotten and used again: the notice means the younger one, unless that is told already.
            let position = id.strip_prefix("seq:").filter(|_| self.rotten).and_then(|n| n.parse().ok());
            let named = |e: &&Entry| (e.event.id() == id || Some(e.event.seq) == position) && e.event.seq < event.seq;
            let told = |e: &&Entry| self.noticed.contains(&(e.event.seq, recipient.clone()));
            let fresh = self.tape.iter().rev().find(|e| named(e) && !told(e));
            let Some(entry) = fresh.or_else(|| self.tape.iter().rev().find(named)) else {
                return wrong("dead letters", format!("a notice names {id}, which nobody knows"));
            };
            if entry.source.is_none() || entry.source != self.named(event.target()) {
                return wrong("borders", format!("{} is told of a letter of {}", event.target(), entry.event.source()));
            }
            if !self.noticed.insert((entry.event.seq, recipient.clone())) {
                return wrong("dead letters", format!("{id} to {recipient} is named in two notices"));
            }
        }
        let Some(who) = self.who(event.target()) else {
            return wrong("dead letters", format!("a notice goes to {}, who is gone", event.target()));
        };
        Ok(Place::Inbox(who))
    }

    /// Compares the operator's whole list with what may and must have died by now.
    pub fn dead_letters(&mut self, letters: &[Letter], now: u64) -> Result<(), Wrong> {
        let mut seen = BTreeSet::new();
        let mut fresh: Vec<(u64, Who, String)> = Vec::new();
        for letter in letters {
            let holder = |m: &Member| m.address == letter.recipient && m.mail.contains_key(&letter.seq);
            let Some(who) = self.members.iter().position(holder) else {
                return wrong("dead letters", format!("{letter:?} was never {}'s mail", letter.recipient));
            };
            if !seen.insert((letter.seq, who)) {
                return wrong("dead letters", format!("{letter:?} is listed twice"));
            }
            if !self.dead.contains_key(&(letter.seq, who)) {
                fresh.push((letter.seq, who, letter.reason.clone()));
            }
        }
        if let Some((seq, who)) = self.dead.keys().find(|key| !seen.contains(key)) {
            return wrong("dead letters", format!("{seq} to member {who} was dead and is not listed any more"));
        }
        for (seq, who, reason) in &fresh {
            self.may_die(*seq, *who, reason, now)?;
        }
        for (seq, who, reason) in fresh {
            self.must_be_told(seq, who, &reason)?;
            if let Some(mail) = self.members.get_mut(who).and_then(|m| m.mail.get_mut(&seq)) {
                mail.row = Row::Dead;
                mail.ended = self.looks;
            }
            self.dead.insert((seq, who), reason);
        }
        for (seq, recipient) in &self.noticed {
            let listed = |((s, w), _): (&(u64, Who), &String)| {
                s == seq && self.members.get(*w).is_some_and(|m| &m.address == recipient)
            };
            if !self.dead.iter().any(listed) {
                return wrong("dead letters", format!("{seq} to {recipient} was told dead and is not listed"));
            }
        }
        self.notices_may_have_ended(now);
        Ok(())
    }

    pub(crate) fn may_die(&self, seq: u64, who: Who, reason: &str, now: u64) -> Result<(), Wrong> {
        let Some(member) = self.members.get(who) else { return Ok(()) };
        let Some(mail) = member.mail.get(&seq) else { return Ok(()) };
        if !matches!(mail.row, Row::Pending | Row::Maybe) {
            return wrong(
                "dead letters",
                format!("{seq} to {} was {:?} and died of {reason}", member.address, mail.row),
            );
        }
        let age = now.saturating_sub(mail.born);
        let fine = match reason {
            "ttl" => age >= mail.ttl_ms,
            "queue_full" => {
                self.pending_lately(who) > self.rules.max_pending || self.kib_lately(who) > self.rules.max_pending_kib
            }
            "max_attempts" => self.rules.max_attempts.is_some() && age >= RETRY_MS,
            "recipient_left" | "archived" => self.excused.get(&who).is_some_and(|why| *why == reason),
            _ => false,
        };
        if !fine {
            let what = format!("{seq} to {} died of {reason} at the age of {age} ms", member.address);
            return wrong(if reason == "ttl" { "mail dies in time" } else { "dead letters" }, what);
        }
        Ok(())
    }

    /// The source of a dead letter hears of it, if it takes part; archiving is told to nobody.
    fn must_be_told(&self, seq: u64, who: Who, reason: &str) -> Result<(), Wrong> {
        let (Some(member), Some(entry)) = (self.members.get(who), self.entry(seq)) else {
            return Ok(());
        };
        let there = entry.source.and_then(|s| self.members.get(s)).is_some_and(Member::present);
        let told = self.noticed.contains(&(seq, member.address.clone()));
        let lately = entry.source.is_some_and(|s| self.came_lately(s));
        if there && !told && !lately && reason != "archived" {
            return wrong(
                "dead letters",
                format!("nobody told the source of {seq} that {} did not get it", member.address),
            );
        }
        Ok(())
    }

    /// Whether the member joined since the last look: it may have been away when something happened.
    fn came_lately(&self, who: Who) -> bool {
        let joined = |e: &&Entry| e.source == Some(who) && e.event.kind() == "network.agent.join";
        self.tape.iter().rev().take_while(|e| e.event.seq > self.looked_head()).any(|e| joined(&e))
    }

    /// Whoever was removed, and everybody in an archived network, has nothing pending any more.
    pub fn all_excused_died(&mut self) -> Result<(), Wrong> {
        for (who, why) in std::mem::take(&mut self.excused) {
            let Some(member) = self.members.get_mut(who) else { continue };
            for (seq, mail) in &mut member.mail {
                // What tells everybody of the archiving comes after it.
                // A notice ends without a word.
                let kind =
                    usize::try_from(*seq).ok().and_then(|s| self.tape.get(s.wrapping_sub(1))).map(|e| e.event.kind());
                match mail.row {
                    Row::Pending if kind == Some("rialto.delivery.dead") => mail.row = Row::Maybe,
                    Row::Pending if why != "archived" || kind != Some("rialto.network.status") => {
                        return wrong("dead letters", format!("{seq} to {} outlived {why}", member.address));
                    }
                    Row::Maybe => (mail.row, mail.ended) = (Row::Acked, self.looks),
                    Row::Pending | Row::Acked | Row::Dead => {}
                }
            }
        }
        Ok(())
    }

    fn notices(&self) -> BTreeSet<u64> {
        self.tape.iter().filter(|e| e.event.kind() == "rialto.delivery.dead").map(|e| e.event.seq).collect()
    }

    /// Notices of dead letters are never dead letters themselves: past their life, or beyond what a queue holds, they
    /// just end. A queue that was too full since the last look may have room by now; its oldest mail ended first, so a
    /// notice can have ended only if the queue was full of younger mail.
    fn notices_may_have_ended(&mut self, now: u64) {
        let notices = self.notices();
        let (looks, max_pending, max_kib) = (self.looks, self.rules.max_pending, self.rules.max_pending_kib);
        let sizes: Vec<u64> = (1..=self.tape.len() as u64).map(|seq| self.kib_of(seq)).collect();
        let kib_of = |seq: u64| usize::try_from(seq - 1).ok().and_then(|at| sizes.get(at)).copied().unwrap_or(1);
        let tries = self.rules.max_attempts.is_some();
        for member in &mut self.members {
            let (mut younger, mut younger_kib) = (0, 0);
            for (seq, mail) in member.mail.iter_mut().rev() {
                let full = younger >= max_pending || younger > 0 && younger_kib + kib_of(*seq) > max_kib;
                let waits = matches!(mail.row, Row::Pending | Row::Maybe);
                if waits || mail.ended == looks {
                    younger += 1;
                    younger_kib += kib_of(*seq);
                }
                let age = now.saturating_sub(mail.born);
                let over = full || age >= mail.ttl_ms || tries && age >= RETRY_MS;
                if mail.row == Row::Pending && over && notices.contains(seq) {
                    mail.row = Row::Maybe;
                }
            }
        }
    }

    /// Whether mail that is past its life is still there, though the network had time to see it.
    pub fn nothing_overdue(&self, now: u64) -> Result<(), Wrong> {
        for member in self.members.iter().filter(|m| !m.removed) {
            for (seq, mail) in member.mail.iter().filter(|(_, mail)| mail.row == Row::Pending) {
                let lost = if mail.ttl_ms < LONG_MS { self.late_ms } else { self.late_long_ms };
                let late = now.saturating_sub(mail.known).saturating_sub(lost);
                if late > mail.ttl_ms.saturating_add(LATE_MS) {
                    let what = format!("{seq} to {} is pending after {late} ms of {}", member.address, mail.ttl_ms);
                    return wrong("mail dies in time", what);
                }
            }
        }
        Ok(())
    }

    /// An inbox as its member polled it: exactly what is pending.
    pub fn inbox(&mut self, address: &str, polled: &[u64]) -> Result<(), Wrong> {
        let notices = self.notices();
        let Some(member) = self.who(address).and_then(|w| self.members.get_mut(w)) else { return Ok(()) };
        if !polled.is_sorted_by(|a, b| a < b) {
            return wrong("order", format!("the inbox of {address} is out of order: {polled:?}"));
        }
        if let Some(seq) = polled.iter().find(|seq| !member.mail.contains_key(seq)) {
            return wrong("borders", format!("{address} has {seq} in its inbox, which is not its mail"));
        }
        for (seq, mail) in &mut member.mail {
            let there = polled.binary_search(seq).is_ok();
            match (mail.row, there) {
                (Row::Pending, true) | (Row::Acked | Row::Dead, false) => {}
                (Row::Maybe, true) => {
                    mail.row = Row::Pending;
                    mail.doubted = false;
                }
                (Row::Maybe, false) => {
                    // Nobody knows whether its member knows.
                    mail.row = if notices.contains(seq) { Row::Dead } else { Row::Acked };
                    mail.ended = self.looks;
                }
                (Row::Pending, false) => {
                    return wrong("pending sets", format!("{seq} is pending for {address} and not in its inbox"));
                }
                (Row::Acked | Row::Dead, true) => {
                    return wrong("pending sets", format!("{seq} to {address} is {:?} and in its inbox", mail.row));
                }
            }
        }
        Ok(())
    }

    /// One push to a stream of a member.
    pub fn pushed(&self, stream: &mut Delivered, event: &Event, attempt: u32) -> Result<(), Wrong> {
        let (seq, address) = (event.seq, &stream.address);
        let Some(entry) = self.entry(seq) else {
            return wrong("order", format!("{address} was pushed {seq}, beyond the committed end {}", self.head()));
        };
        if entry.event.json() != event.json() && !self.redacted.contains(&seq) {
            return wrong("tape", format!("{address} was pushed {} for {}", event.json(), entry.event.json()));
        }
        let holder = |m: &&Member| &m.address == address && m.mail.contains_key(&seq);
        let member = self.members.iter().find(holder);
        let Some((member, mail)) = member.and_then(|m| Some((m, m.mail.get(&seq)?))) else {
            return wrong("borders", format!("{address} was pushed {seq}, which is not its mail"));
        };
        if member.quiet && stream.attentive {
            return wrong("quiet", format!("{address} was pushed {seq} though its mail waits"));
        }
        if attempt > 1 {
            if !stream.sent.contains(&seq) {
                return wrong("order", format!("{address} was pushed {seq} again without a first time"));
            }
            let over = matches!(mail.row, Row::Acked | Row::Dead) && mail.ended < self.looks;
            if stream.attentive && over && self.rules.at_least_once {
                return wrong("pending sets", format!("{address} was pushed {seq} again though it is {:?}", mail.row));
            }
            return Ok(());
        }
        if let Some(last) = stream.sent.last().filter(|last| **last >= seq) {
            return wrong("order", format!("{address} was pushed {seq} after {last}"));
        }
        self.may_be_first_push(stream, seq, was_over(mail, stream))?;
        stream.sent.insert(seq);
        Ok(())
    }

    /// A member that reads has been pushed all it has pending, as far as its window goes.
    pub fn nothing_stuck(&self, stream: &Delivered) -> Result<(), Wrong> {
        let Some(member) =
            self.who(&stream.address).and_then(|w| self.members.get(w)).filter(|m| m.present() && !m.quiet)
        else {
            return Ok(());
        };
        let pending = || member.mail.iter().filter(|(seq, m)| m.row == Row::Pending && **seq > stream.from);
        // What died after it was pushed is unacked all the same.
        let unacked = |(seq, mail): &(&u64, &super::Mail)| {
            mail.row != Row::Acked && !was_over(mail, stream) && stream.sent.contains(seq)
        };
        if member.mail.iter().filter(unacked).count() >= stream.window {
            return Ok(());
        }
        if let Some((seq, _)) = pending().find(|(seq, _)| !stream.sent.contains(seq)) {
            let what = format!("{seq} waits for {} though its window of {} has room", stream.address, stream.window);
            return wrong("nothing stuck", what);
        }
        self.replay_is_whole(stream)
    }
}

/// Whether its sender wants to know who acked it.
fn wants_receipt(event: &Event) -> bool {
    let metadata: Value = serde_json::from_str(event.metadata()).unwrap_or_default();
    metadata.get("receipt") == Some(&Value::Bool(true))
}
