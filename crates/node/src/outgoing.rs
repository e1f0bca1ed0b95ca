//! Committed events on their way out: runs that go to the same recipients, encoded once for all of them.

use crate::budget::{Account, Charge};
use bytes::Bytes;
use rialto_engine::{EventRecord, Route};
use rialto_model::{Event, Seq};
use std::any::TypeId;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Events in one run at most: a reader that stalls on one holds the whole run in memory.
const RUN_EVENTS_MAX: usize = 256;
/// Bytes in one run, about.
const RUN_BYTES_MAX: usize = 64 << 10;

/// A decided event and what was true of the network when it was applied.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) record: Arc<EventRecord>,
    /// Deliveries expect acks.
    pub(crate) tracked: bool,
    /// Counts changes of the book: events with the same number saw the same members.
    pub(crate) book: u64,
}

/// An event that is never stored, for all who are there.
#[derive(Debug)]
pub struct Signal {
    event: Arc<Event>,
    text: OnceLock<String>,
}

impl Signal {
    pub(crate) fn new(event: &Arc<Event>) -> Arc<Signal> {
        Arc::new(Signal { event: event.clone(), text: OnceLock::new() })
    }

    /// The event.
    pub fn event(&self) -> &Arc<Event> {
        &self.event
    }

    /// Its JSON, written once for all.
    pub fn text(&self) -> &str {
        self.text.get_or_init(|| self.event.json())
    }
}

/// Committed events that follow each other and go to the same recipients.
#[derive(Debug)]
pub struct EventRun {
    records: Vec<Arc<EventRecord>>,
    tracked: bool,
    book: u64,
    framings: Framings,
    /// Bytes of its events, about.
    bytes: usize,
    /// Counts them for as long as a reader holds the run.
    held: Option<Charge>,
}

/// How a carrier marks where a text begins. The type names the framing: blocks are shared among those who use the same one.
pub trait Framing: 'static {
    /// Writes what goes before a text of so many bytes.
    fn push_head(text_bytes: usize, out: &mut Vec<u8>);
}

/// The blocks of a run, one for each framing that was asked for.
#[derive(Debug, Default)]
struct Framings {
    first: OnceLock<(TypeId, Framed)>,
    others: OnceLock<Box<Framings>>,
}

impl Framings {
    /// Returns the block of a framing; whoever asks first makes it.
    fn get_or_make<F: Framing>(&self, make: impl FnOnce() -> Framed) -> &Framed {
        let mut make = Some(make);
        let mut here = self;
        loop {
            let made = || (TypeId::of::<F>(), make.take().map_or_else(Framed::default, |make| make()));
            let (framing, framed) = here.first.get_or_init(made);
            if *framing == TypeId::of::<F>() {
                return framed;
            }
            here = here.others.get_or_init(Box::default);
        }
    }
}

/// The texts of a run as a carrier sends them, and where each ends.
#[derive(Debug, Default)]
struct Framed {
    bytes: Bytes,
    ends: Vec<u32>,
}

/// Some events of a run, for one recipient.
#[derive(Debug, Clone)]
pub struct RunPart {
    run: Arc<EventRun>,
    range: Range<usize>,
}

impl EventRun {
    /// Where its events go.
    pub(crate) fn route(&self) -> Route {
        self.records.first().map(|r| r.route.clone()).unwrap_or_default()
    }

    /// Position of its first event; the others follow without a gap.
    pub(crate) fn first(&self) -> Seq {
        self.records.first().map_or(0, |r| r.event.seq)
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether its events can be read from the log later.
    pub(crate) fn is_stored(&self) -> bool {
        self.records.iter().all(|record| record.stored)
    }

    pub(crate) fn is_tracked(&self) -> bool {
        self.tracked
    }

    /// It is the first delivery of its events, which counts where acks are expected.
    fn attempt(&self) -> Option<u32> {
        self.tracked.then_some(1)
    }

    /// How often the book had changed when its events were decided.
    pub(crate) fn book(&self) -> u64 {
        self.book
    }

    pub(crate) fn records(&self) -> &[Arc<EventRecord>] {
        &self.records
    }

    /// The first `count` events.
    pub(crate) fn part(self: &Arc<EventRun>, count: usize) -> RunPart {
        RunPart { run: self.clone(), range: 0..count.min(self.records.len()) }
    }

    /// All texts, each behind the head its framing gives to a text of its length. Made once for each framing.
    fn framed<F: Framing>(&self) -> &Framed {
        self.framings.get_or_make::<F>(|| {
            let size = self.records.iter().map(|r| r.event.json_len() + 64).sum();
            let (mut bytes, mut ends) = (Vec::with_capacity(size), Vec::with_capacity(self.records.len()));
            let attempt = self.attempt();
            for record in &self.records {
                F::push_head(record.event.json_len_as(attempt), &mut bytes);
                record.event.push_json(attempt, &mut bytes);
                ends.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
            }
            Framed { bytes: bytes.into(), ends }
        })
    }
}

impl RunPart {
    /// How many events it has.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Its events.
    pub fn records(&self) -> &[Arc<EventRecord>] {
        self.run.records.get(self.range.clone()).unwrap_or_default()
    }

    /// Which delivery of its events this is, if acks are expected.
    pub fn attempt(&self) -> Option<u32> {
        self.run.attempt()
    }

    /// Bytes that whoever holds it keeps in memory, about.
    pub(crate) fn held_bytes(&self) -> usize {
        self.run.bytes
    }

    /// Bytes of its texts, about.
    pub fn bytes(&self) -> usize {
        self.records().iter().map(|r| r.event.json_len()).sum()
    }

    /// The texts with delivery marks (plain in at-most-once networks), for a carrier that frames each itself.
    pub fn texts(&self) -> impl Iterator<Item = Bytes> {
        self.records().iter().map(|r| Bytes::from(r.event.json_as(self.attempt())))
    }

    /// The texts as one block that all recipients with this framing share, each behind its head.
    pub fn framed<F: Framing>(&self) -> Bytes {
        let framed = self.run.framed::<F>();
        let end = |i: usize| i.checked_sub(1).and_then(|i| framed.ends.get(i)).map_or(0, |end| *end as usize);
        let (from, to) = (end(self.range.start), end(self.range.end));
        if from <= to && to <= framed.bytes.len() { framed.bytes.slice(from..to) } else { Bytes::new() }
    }
}

/// Puts committed events together into runs, in order. They are charged to `account` for as long as anybody holds them.
pub(crate) fn runs(events: Vec<Outgoing>, account: &Arc<Account>) -> Vec<Arc<EventRun>> {
    let mut runs: Vec<EventRun> = Vec::new();
    for Outgoing { record, tracked, book } in events {
        let size = record.event.weight();
        let open = runs.last_mut().filter(|run| {
            (run.tracked, run.book) == (tracked, book)
                && run.len() < RUN_EVENTS_MAX
                && run.bytes < RUN_BYTES_MAX
                && run.records.last().is_some_and(|last| goes_on(last, &record))
        });
        match open {
            Some(run) => {
                run.records.push(record);
                run.bytes += size;
            }
            None => {
                let framings = Framings::default();
                runs.push(EventRun { records: vec![record], tracked, book, framings, bytes: size, held: None });
            }
        }
    }
    for run in &mut runs {
        let mut held = account.owe();
        held.resize(run.bytes);
        run.held = Some(held);
    }
    runs.into_iter().map(Arc::new).collect()
}

/// Whether an event directly follows another and has the same recipients.
fn goes_on(last: &EventRecord, next: &EventRecord) -> bool {
    let (a, b) = (&last.route, &next.route);
    next.event.seq == last.event.seq + 1 && a.stream == b.stream && a.source == b.source && a.to == b.to
}

#[cfg(test)]
mod tests {
    use super::*;
    use rialto_engine::StreamKey;
    use rialto_model::{EventParts, Visibility};

    fn event(seq: Seq, to: u32, from: u32, size: usize, book: u64) -> Outgoing {
        let parts = EventParts {
            id: "e",
            kind: "a.b",
            source: "agent:a",
            target: "agent:b",
            payload: &format!("{{\"p\":\"{}\"}}", "x".repeat(size)),
            metadata: "{}",
            timestamp: 1,
            network: "n",
            visibility: Visibility::Direct,
        };
        let route = Route { stream: Some(StreamKey::Inbox(to)), source: Some(from), ..Route::default() };
        let record = EventRecord {
            event: Event::new(seq, &parts),
            route,
            received: None,
            receipt: false,
            stored: true,
            dies_at: None,
            verdicts: Vec::new(),
            more: None,
        };
        Outgoing { record: Arc::new(record), tracked: true, book }
    }

    fn account() -> Arc<Account> {
        crate::budget::Accounts::default().mail().clone()
    }

    struct Angles;

    impl Framing for Angles {
        fn push_head(text_bytes: usize, out: &mut Vec<u8>) {
            out.extend_from_slice(format!("<{text_bytes}>").as_bytes());
        }
    }

    struct Dashes;

    impl Framing for Dashes {
        fn push_head(text_bytes: usize, out: &mut Vec<u8>) {
            out.extend_from_slice(&vec![b'-'; text_bytes % 7 + 1]);
        }
    }

    struct Nothing;

    impl Framing for Nothing {
        fn push_head(_: usize, _: &mut Vec<u8>) {}
    }

    #[test]
    fn each_framing_gets_its_own_bytes_and_shares_them() {
        let run = runs((1..=3).map(|s| event(s, 1, 2, usize::try_from(s).unwrap(), 0)).collect(), &account()).remove(0);
        let all = run.part(3);
        let texts: Vec<String> = all.texts().map(|t| String::from_utf8(t.to_vec()).unwrap()).collect();
        let angles: String = texts.iter().map(|t| format!("<{}>{t}", t.len())).collect();
        let dashes: String = texts.iter().map(|t| format!("{}{t}", "-".repeat(t.len() % 7 + 1))).collect();
        for _ in 0..2 {
            assert_eq!(all.framed::<Angles>(), angles.as_bytes());
            assert_eq!(all.framed::<Dashes>(), dashes.as_bytes());
            assert_eq!(all.framed::<Nothing>(), texts.concat().as_bytes());
        }
        // The front of a run ends where its texts end in that framing.
        let front = texts.first().unwrap();
        assert_eq!(run.part(1).framed::<Dashes>(), format!("{}{front}", "-".repeat(front.len() % 7 + 1)).as_bytes());
        assert_eq!(run.part(1).framed::<Nothing>(), front.as_bytes());
        assert_eq!(all.framed::<Dashes>().as_ptr(), run.part(2).framed::<Dashes>().as_ptr(), "the block is shared");
    }

    #[test]
    fn a_run_ends_where_recipients_may_differ_and_where_it_is_large() {
        let lens = |events: Vec<Outgoing>| runs(events, &account()).iter().map(|r| r.len()).collect::<Vec<_>>();
        assert_eq!(lens((1..=3).map(|s| event(s, 1, 2, 1, 0)).collect()), [3]);
        assert_eq!(lens(vec![event(1, 1, 2, 1, 0), event(2, 3, 2, 1, 0), event(3, 3, 4, 1, 0)]), [1, 1, 1]);
        assert_eq!(lens(vec![event(1, 1, 2, 1, 0), event(2, 1, 2, 1, 1)]), [1, 1]);
        assert_eq!(lens((1..=600).map(|s| event(s, 1, 2, 1, 0)).collect()), [256, 256, 88]);
        assert_eq!(lens((1..=3).map(|s| event(s, 1, 2, 70_000, 0)).collect()), [1, 1, 1]);
        assert_eq!(lens(Vec::new()), [0; 0]);
    }

    #[test]
    fn a_part_is_the_front_of_the_shared_block() {
        let run = runs((1..=3).map(|s| event(s, 1, 2, 1, 0)).collect(), &account()).remove(0);
        let all = run.part(3);
        let texts: Vec<String> = all.texts().map(|t| String::from_utf8(t.to_vec()).unwrap()).collect();
        let expected: String = texts.iter().map(|t| format!("<{}>{t}", t.len())).collect();
        assert_eq!(all.framed::<Angles>(), expected.as_bytes());
        let two: String = texts.iter().take(2).map(|t| format!("<{}>{t}", t.len())).collect();
        assert_eq!(run.part(2).framed::<Angles>(), two.as_bytes());
        assert!(run.part(0).framed::<Angles>().is_empty());
        assert!(texts[0].contains(r#""seq":1,"attempt":1"#));
    }
}
