//! The oracle: what a network must look like, written from the specification (sections 7 and 8 and what they lean on)
//! as naively as possible: a list of members with a row per delivery, a list of channels, a list of events.
//!
//! It never looks into the engine. It is told what clients sent and what they were answered, reads the committed events
//! in order (the *tape*), decides for itself whether each may be there and who it goes to, and is then compared with
//! what members are pushed, what they poll and what history shows them.
//! Of what was in flight at a fault it knows that it does not know: the tape after recovery decides.

mod admin;
mod checks;
mod ephemeral;
mod input;
mod judge;
mod mail;
mod mods;
mod owed;
mod reads;
mod replay;
mod resources;
mod rights;
mod talk;
mod work;

pub use checks::Said;
pub use input::Input;
pub use mail::{Delivered, Letter};
pub use mods::{Mode, ServedMod};
pub use reads::{Reader, Want};
pub use resources::Held;
pub use rights::{CREATED, Doer, Invitation, Standing};
pub use talk::Listed;
pub use work::{Shown, Unit};

pub(crate) use input::numbered;
use input::{is_old, is_same_payload, number_of};
use rialto_model::{ErrorCode, Event};
use std::collections::{BTreeMap, BTreeSet};

/// A contradiction between the network and its specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Which check saw it.
    pub check: &'static str,
    /// What is wrong.
    pub what: String,
}

/// Shorthand for a contradiction.
pub fn wrong<T>(check: &'static str, what: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { check, what: what.into() })
}

/// Number of a member's incarnation: removed and joined again is somebody else.
pub type Who = usize;

/// What is known of an input.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fate {
    /// Sendings without an answer.
    pub(crate) open: u32,
    /// A sending whose answer was lost, or said that nobody knows.
    pub(crate) unknown: bool,
    /// Acknowledged at this position.
    pub(crate) accepted: Option<u64>,
    /// Where it stands on the tape.
    pub(crate) taped: Option<u64>,
    /// A mod that runs elsewhere refused it, or something came of what one made of it.
    pub(crate) by_mod: bool,
}

/// Where an event goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Nowhere,
    Inbox(Who),
    Channel(usize),
    Group(usize),
    Everybody,
}

/// One committed event.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) event: Event,
    pub(crate) source: Option<Who>,
    pub(crate) place: Place,
}

/// How a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Row {
    Pending,
    /// An ack of it may be lost.
    Maybe,
    Acked,
    Dead,
}

#[derive(Debug, Clone)]
pub(crate) struct Mail {
    pub(crate) row: Row,
    /// It was committed at this steady time or later.
    pub(crate) born: u64,
    /// It was committed at this steady time or earlier.
    pub(crate) known: u64,
    pub(crate) ttl_ms: u64,
    /// The look at which it was over.
    pub(crate) ended: u64,
    /// An ack of it was lost, or may have been: what came of that nobody knows.
    pub(crate) doubted: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) address: String,
    pub(crate) left: bool,
    pub(crate) removed: bool,
    /// What the network lets it do.
    pub(crate) granted: &'static str,
    /// Its session asked to be an observer's.
    pub(crate) capped: bool,
    /// Its session came by an invitation, which makes nobody a master.
    pub(crate) guest: bool,
    /// Its name is its own: it was taken with more than the network's token.
    pub(crate) owned: bool,
    /// It last joined as clients of workspace servers do.
    pub(crate) lax: bool,
    /// Nothing is pushed to it.
    pub(crate) quiet: bool,
    /// What it says it can do.
    pub(crate) skills: Vec<String>,
    pub(crate) mail: BTreeMap<u64, Mail>,
}

impl Member {
    pub(crate) fn is_observer(&self) -> bool {
        self.capped || self.granted == "observer"
    }

    pub(crate) fn is_master(&self) -> bool {
        !self.capped && !self.guest && self.granted == "master"
    }

    pub(crate) fn present(&self) -> bool {
        !self.left && !self.removed
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Channel {
    pub(crate) name: String,
    pub(crate) private: bool,
    pub(crate) creator: Option<Who>,
    pub(crate) master: Option<Who>,
    pub(crate) seats: Vec<Who>,
    /// Who sits there and gets no mail from it.
    pub(crate) muted: Vec<Who>,
    pub(crate) deleted: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) members: BTreeSet<String>,
    pub(crate) deleted: bool,
}

/// The rules a network was made with.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Its id.
    pub network: String,
    /// History is kept.
    pub persistence: bool,
    /// Unacked deliveries are repeated.
    pub at_least_once: bool,
    /// The workspace preset: everybody sits in `general`, who posts to a channel is seated.
    pub workspace: bool,
    /// Life of mail.
    pub ttl_ms: u64,
    /// Mail a member may have pending.
    pub max_pending: u64,
    /// KiB of mail a member may have pending; an event counts in whole KiB.
    pub max_pending_kib: u64,
    /// Deadlines that may pass.
    pub max_attempts: Option<u32>,
    /// Events history keeps.
    pub max_events: Option<u64>,
    /// Whether it takes part: active, paused or archived.
    pub status: &'static str,
    /// Whoever holds the network's token manages it.
    pub token_manages: bool,
    /// Members invite.
    pub guests: bool,
}

/// One network as it must be.
#[derive(Debug, Clone)]
pub struct Oracle {
    /// Its rules now.
    pub rules: Rules,
    pub(crate) members: Vec<Member>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) groups: Vec<Group>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) fates: Vec<Fate>,
    pub(crate) tape: Vec<Entry>,
    /// Dead letters by (position, incarnation).
    pub(crate) dead: BTreeMap<(u64, Who), String>,
    /// Letters named in notices to their sources.
    pub(crate) noticed: BTreeSet<(u64, String)>,
    /// Acks that are mail of the sender who asked for them: (position, recipient).
    pub(crate) receipted: BTreeSet<(u64, Who)>,
    pub(crate) purged: u64,
    pub(crate) redacted: BTreeSet<u64>,
    /// Those of them of which nothing is left for sure.
    pub(crate) erased: BTreeSet<u64>,
    /// Steady time of the last look, when everything was quiet.
    pub(crate) looked: u64,
    /// The committed end at that time.
    pub(crate) looked_at: u64,
    /// The next input at that time.
    pub(crate) looked_input: usize,
    /// How often everything was compared.
    pub(crate) looks: u64,
    /// How much later than its time something may end: a crash takes the time that was not recorded.
    pub(crate) late_ms: u64,
    /// When the time could last be recorded: nothing was wrong below.
    pub(crate) recorded: u64,
    /// The same for mail that lives long, for which time is recorded less often.
    pub(crate) late_long_ms: u64,
    /// Bytes have rotted: what cannot be read is named by its position instead of its id.
    pub rotten: bool,
    /// The last committed input of each lane.
    pub(crate) lanes: BTreeMap<u64, usize>,
    /// Removals and archivings that explain dead letters.
    pub(crate) excused: BTreeMap<Who, &'static str>,
    /// Names that members had before.
    pub(crate) former: BTreeMap<String, Who>,
    /// Somebody was called otherwise once: a name may mean more than one member.
    pub(crate) renamed: bool,
    pub(crate) resources: Vec<resources::Resource>,
    /// Content that was brought since the last start, and when.
    pub(crate) brought: Vec<(u64, Vec<u8>)>,
    /// All content a resource ever had.
    pub(crate) kept: Vec<Vec<u8>>,
    /// Threads by channel and name, with their events.
    pub(crate) threads: BTreeMap<(usize, String), Vec<u64>>,
    pub(crate) rooms: Vec<talk::Room>,
    /// Mods that run elsewhere, as they are and were.
    pub(crate) mods: Vec<mods::Loaded>,
    /// Who may serve which mod.
    pub(crate) approved: BTreeSet<(String, Who)>,
    /// What mods were asked.
    pub(crate) tickets: Vec<checks::Ticket>,
    /// What mods sent and waited for another mod when the last life ended.
    pub(crate) owed: BTreeSet<usize>,
    /// Work units, in the order in which they were opened.
    pub(crate) units: Vec<work::Unit>,
    /// The network has been running undisturbed since this steady time.
    pub(crate) running_since: u64,
    /// Channels and work that somebody was shown and that were not looked for yet.
    pub(crate) shown: Vec<String>,
    /// It begins to run again with the next look.
    pub(crate) rested: bool,
    /// It was last seen paused or archived at this steady time.
    pub(crate) rested_until: u64,
    /// What members that joined with `replay` are owed by that.
    pub(crate) replays: BTreeMap<Who, BTreeSet<u64>>,
    /// Ephemeral events, by input.
    pub(crate) passing: BTreeMap<usize, ephemeral::Passing>,
    /// Invitations of members, in the order in which they were made.
    pub(crate) invitations: Vec<Invitation>,
    /// Ids of invitations by their codes.
    pub(crate) codes: BTreeMap<String, String>,
    /// The latest time that the wall clock has shown.
    pub(crate) latest_wall: u64,
}

/// While something is due soon, time is recorded this often; a tick may be late.
const TIME_RECORDED_MS: u64 = 62_000;
/// While only long times run, time is recorded this often; a tick may be late.
const TIME_RECORDED_SELDOM_MS: u64 = 602_000;

impl Oracle {
    /// A network just made.
    pub fn new(rules: Rules, now: u64) -> Oracle {
        let general = Channel {
            name: "general".to_owned(),
            private: false,
            creator: None,
            master: None,
            seats: Vec::new(),
            muted: Vec::new(),
            deleted: false,
        };
        Oracle {
            rules,
            members: Vec::new(),
            channels: vec![general],
            groups: Vec::new(),
            inputs: Vec::new(),
            fates: Vec::new(),
            tape: Vec::new(),
            dead: BTreeMap::new(),
            noticed: BTreeSet::new(),
            receipted: BTreeSet::new(),
            purged: 0,
            redacted: BTreeSet::new(),
            erased: BTreeSet::new(),
            looked: now,
            looked_at: 0,
            looked_input: 0,
            looks: 0,
            late_ms: 0,
            recorded: now,
            late_long_ms: 0,
            rotten: false,
            lanes: BTreeMap::new(),
            excused: BTreeMap::new(),
            former: BTreeMap::new(),
            renamed: false,
            resources: Vec::new(),
            brought: Vec::new(),
            kept: Vec::new(),
            threads: BTreeMap::new(),
            rooms: Vec::new(),
            mods: Vec::new(),
            approved: BTreeSet::new(),
            tickets: Vec::new(),
            owed: BTreeSet::new(),
            units: Vec::new(),
            running_since: now,
            shown: Vec::new(),
            rested: false,
            rested_until: 0,
            replays: BTreeMap::new(),
            passing: BTreeMap::new(),
            invitations: Vec::new(),
            codes: BTreeMap::new(),
            latest_wall: 0,
        }
    }

    /// Takes note of an event about to be sent; gives its number, which the payload has to carry.
    pub fn next_input(&self) -> usize {
        self.inputs.len()
    }

    /// An event goes out for the first time.
    pub fn sending(&mut self, input: Input) -> usize {
        self.inputs.push(input);
        self.fates.push(Fate { open: 1, ..Fate::default() });
        let k = self.inputs.len() - 1;
        self.passing(k);
        k
    }

    /// The same bytes go out again.
    pub fn sending_again(&mut self, k: usize) {
        if let (Some(fate), Some(input)) = (self.fates.get_mut(k), self.inputs.get_mut(k)) {
            fate.open += 1;
            // Whichever of the two is committed: its place in the old lane means nothing any more.
            input.lane = u64::MAX - k as u64;
        }
    }

    /// The input with this number.
    pub fn input(&self, k: usize) -> Option<&Input> {
        self.inputs.get(k)
    }

    /// Whether the input is committed.
    pub fn is_taped(&self, k: usize) -> bool {
        self.fates.get(k).is_some_and(|f| f.taped.is_some())
    }

    /// The refusal that a new event under this id must meet.
    pub fn taken(&self, id: &str) -> Option<ErrorCode> {
        self.tape.iter().any(|e| e.event.id() == id).then_some(ErrorCode::IdConflict)
    }

    /// The answer was lost, or said that nobody knows.
    pub fn unanswered(&mut self, k: usize) {
        if let Some(fate) = self.fates.get_mut(k) {
            fate.open = fate.open.saturating_sub(1);
            fate.unknown = true;
        }
    }

    /// Whether the answer to an input was lost, or said that nobody knows.
    pub fn is_unknown(&self, k: usize) -> bool {
        self.fates.get(k).is_some_and(|fate| fate.unknown)
    }

    /// An event was refused for good.
    pub fn refused(&mut self, k: usize, code: ErrorCode) -> Result<(), Wrong> {
        let Some(fate) = self.fates.get_mut(k) else { return Ok(()) };
        fate.open = fate.open.saturating_sub(1);
        let accepted = fate.accepted.is_some();
        self.passing_answered(k, false, None)?;
        // Who resends what was accepted may have lost the right to, but never meets its own event as another one, unless
        // it was forgotten after its time and its id is another's by now.
        let input = self.inputs.get(k).filter(|i| is_old(&self.rules, i, self.looked));
        let last = input.and_then(|i| self.tape.iter().rev().find(|e| Some(e.event.id()) == i.id.as_deref()));
        let replaced = last.is_some_and(|e| number_of(e.event.payload()) != Some(k));
        if accepted && !replaced && code == ErrorCode::IdConflict {
            return wrong("duplicates", format!("the same event again (k={k}) was called another one"));
        }
        Ok(())
    }

    /// An event was acknowledged.
    pub fn accepted(&mut self, k: usize, seq: Option<u64>, duplicate: bool) -> Result<(), Wrong> {
        let Some(fate) = self.fates.get_mut(k) else { return Ok(()) };
        fate.open = fate.open.saturating_sub(1);
        self.passing_answered(k, true, seq)?;
        let Some(fate) = self.fates.get_mut(k) else { return Ok(()) };
        let Some(seq) = seq else { return Ok(()) };
        let old = self.inputs.get(k).is_some_and(|i| is_old(&self.rules, i, self.looked));
        if old && !duplicate {
            *fate = Fate { accepted: Some(seq), ..Fate::default() };
            return Ok(());
        }
        let again = fate.accepted.is_some() && !duplicate;
        if let Some(before) = fate.accepted.or(fate.taped).filter(|before| again || *before != seq) {
            return wrong("duplicates", format!("k={k} was accepted at {before} and again at {seq} ({duplicate})"));
        }
        fate.accepted = Some(seq);
        Ok(())
    }

    /// Everything in flight is lost: its answers will never come.
    pub fn power_cut(&mut self) {
        self.begins_again();
        self.tickets_void(true);
        self.forget_brought();
        for fate in &mut self.fates {
            fate.unknown |= fate.open > 0;
            fate.open = 0;
        }
    }

    /// The network was started, or had to be put together again: it begins to run with the next look.
    pub fn begins_again(&mut self) {
        self.rested = true;
    }

    /// Everything was compared: the next look begins here.
    pub fn looked(&mut self, now: u64) {
        self.forget_replays();
        self.passing_looked();
        self.looked = now;
        self.looks += 1;
        self.looked_at = self.head();
        self.looked_input = self.inputs.len();
        if self.rules.status != "active" {
            self.rested_until = now;
        }
        if std::mem::take(&mut self.rested) || self.rules.status != "active" {
            self.running_since = now;
        }
    }

    /// The number of the first input since the last look.
    pub fn looked_input(&self) -> u64 {
        self.looked_input as u64
    }

    pub(crate) fn looked_head(&self) -> u64 {
        self.looked_at
    }

    /// Somebody was shown channels of these names, or work with these ids.
    pub fn shown(&mut self, names: impl Iterator<Item = String>) {
        self.shown.extend(names);
    }

    /// Everything that was shown is committed: no power cut took it back.
    pub fn shown_is_committed(&mut self) -> Result<(), Wrong> {
        for name in std::mem::take(&mut self.shown) {
            let channel = self.channels.iter().any(|channel| channel.name == name);
            if !channel && !self.units.iter().any(|unit| unit.id == name) {
                return wrong("reads", format!("somebody was shown {name}, which a crash took back"));
            }
        }
        Ok(())
    }

    /// The last committed position the oracle knows.
    pub fn head(&self) -> u64 {
        self.tape.len() as u64
    }

    /// The member that has the address now, or had it before it was renamed, until somebody takes it.
    pub fn who(&self, address: &str) -> Option<Who> {
        self.named(address).or_else(|| self.former.get(address).copied())
    }

    /// The member that is called so now.
    pub(crate) fn named(&self, address: &str) -> Option<Who> {
        self.members.iter().rposition(|m| m.address == address && !m.removed)
    }

    /// Whether the address takes part now.
    pub fn is_present(&self, address: &str) -> bool {
        self.who(address).and_then(|w| self.members.get(w)).is_some_and(Member::present)
    }

    /// The process ended without recording the time.
    pub fn crashed(&mut self, now: u64) {
        let unseen = now.saturating_sub(self.recorded);
        self.late_ms += unseen + TIME_RECORDED_MS;
        self.late_long_ms += unseen + TIME_RECORDED_SELDOM_MS;
    }

    /// Nothing that was acknowledged is beyond the end of the log.
    pub fn nothing_lost(&self, head: u64) -> Result<(), Wrong> {
        if head < self.head() {
            return wrong("nothing lost", format!("{} events were seen committed, {head} are left", self.head()));
        }
        for (k, fate) in self.fates.iter().enumerate() {
            if let Some(seq) = fate.accepted.filter(|seq| *seq > head) {
                return wrong("nothing lost", format!("k={k} was acknowledged at {seq}, but the log ends at {head}"));
            }
        }
        Ok(())
    }

    /// One more committed event, in order.
    pub fn committed(&mut self, event: &Event, now: u64) -> Result<(), Wrong> {
        let seq = self.head() + 1;
        if event.seq != seq {
            return wrong("order", format!("position {} follows {}", event.seq, self.head()));
        }
        if let Some(last) = self.tape.last()
            && event.timestamp < last.event.timestamp
        {
            return wrong("stamps", format!("the stamp of {seq} is lower than that of the event before"));
        }
        if !event.json().contains(&format!("\"network\":\"{}\"", self.rules.network)) {
            return wrong("borders", format!("{} is not of network {}", event.json(), self.rules.network));
        }
        if event.source() == "core" {
            return self.server_event(event, now);
        }
        if event.kind() == "network.event.ack" {
            return self.receipt(event, now);
        }
        let Some(k) = number_of(event.payload()).filter(|k| *k < self.inputs.len()) else {
            return wrong("tape", format!("nobody sent {}", event.json()));
        };
        self.is_not_passing(k, event)?;
        let input = self.past_mods(k, event)?;
        self.is_what_was_sent(k, &input, event)?;
        self.apply(k, &input, event, now)?;
        self.forget_replays();
        self.passing_may_reach();
        Ok(())
    }

    /// A committed event is one that was sent, as it was sent, and not one that was refused.
    fn is_what_was_sent(&mut self, k: usize, input: &Input, event: &Event) -> Result<(), Wrong> {
        let seq = event.seq;
        let Some(fate) = self.fates.get_mut(k) else {
            return wrong("tape", format!("nobody sent k={k}"));
        };
        let old = is_old(&self.rules, input, self.looked);
        if let Some(before) = fate.taped.replace(seq).filter(|_| !old) {
            return wrong("duplicates", format!("k={k} is committed at {before} and at {seq}"));
        }
        if fate.open == 0 && !fate.unknown && fate.accepted.is_none() {
            return wrong("refusals", format!("k={k} was refused and is committed at {seq}"));
        }
        if let Some(accepted) = fate.accepted.filter(|accepted| *accepted != seq && !old) {
            return wrong("nothing lost", format!("k={k} was acknowledged at {accepted} and stands at {seq}"));
        }
        let same = (input.source == event.source() || self.who(&input.source) == self.named(event.source()))
            && input.kind == event.kind()
            && input.id.as_deref().is_none_or(|id| id == event.id())
            && (input.kind.starts_with("network.") || is_same_payload(input, event));
        if !same {
            return wrong("tape", format!("k={k} was {input:?} and is committed as {}", event.json()));
        }
        if let Some(before) = self.lanes.insert(input.lane, k).filter(|before| *before > k) {
            return wrong("order", format!("k={before} was sent after k={k} and is committed before it"));
        }
        Ok(())
    }

    /// Nothing is called acknowledged that is not committed.
    pub fn all_acknowledged_is_there(&self) -> Result<(), Wrong> {
        for (k, fate) in self.fates.iter().enumerate() {
            if let Some(seq) = fate.accepted.filter(|_| fate.taped.is_none()) {
                return wrong(
                    "nothing lost",
                    format!("k={k} was acknowledged at {seq}, and another event stands there"),
                );
            }
        }
        Ok(())
    }
}
