//! Random batches, random crashes and failures on the fault disk: what was promised is there, and nothing that was never written.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::DIRECT;
use crate::budget::Budget;
use crate::class::Class;
use crate::disk::fault::{Call, FaultDisk};
use crate::log::*;
use crate::record::EVENT_KIND;

const DIR: &str = "/log/std";

#[derive(Debug, Clone)]
enum Step {
    /// A group of batches: network, records, body size, whether it asks for a flush.
    Commit(Vec<(u32, u8, u16, bool)>),
    Tidy,
    /// Power cut.
    Crash,
    /// Process killed.
    Kill,
    /// Clean stop and start.
    Restart,
    /// A failure of a later call. When it bites the log is reopened, or (`stays`) left as it is until the next stop.
    Fail {
        call: Call,
        skip: u8,
        stays: bool,
    },
    /// One bit of one file turns while nobody runs: after a stop in order, or after a power cut.
    Rot {
        stop: bool,
        file: u16,
        byte: u32,
        bit: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let batch = (1..4_u32, 1..5_u8, 0..600_u16, any::<bool>());
    let call = prop_oneof![
        Just(Call::Write),
        Just(Call::Sync),
        Just(Call::SyncDir),
        Just(Call::Rename),
        Just(Call::Create),
        Just(Call::Preallocate)
    ];
    prop_oneof![
        12 => proptest::collection::vec(batch, 1..5).prop_map(Step::Commit),
        2 => Just(Step::Tidy),
        2 => Just(Step::Crash),
        1 => Just(Step::Kill),
        1 => Just(Step::Restart),
        2 => (call, 0..4_u8, any::<bool>()).prop_map(|(call, skip, stays)| Step::Fail { call, skip, stays }),
        2 => (any::<bool>(), any::<u16>(), any::<u32>(), 0..8_u8)
            .prop_map(|(stop, file, byte, bit)| Step::Rot { stop, file, byte, bit }),
    ]
}

/// What the log was given, and what it promised.
#[derive(Debug, Default)]
struct Oracle {
    /// Per LSN what was written there; a later life may write another over a lost one.
    written: BTreeMap<Lsn, Vec<u8>>,
    /// Promised to survive a power cut.
    synced: Lsn,
    /// Promised to survive the end of the process.
    given: Lsn,
    next: u64,
}

fn disk_of(seed: u64) -> FaultDisk {
    FaultDisk::new(seed).allow_direct(DIRECT)
}

struct World {
    disk: FaultDisk,
    log: Option<Log<FaultDisk>>,
    oracle: Oracle,
    lives: u64,
    /// Whether a log that breaks is left so.
    stays: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let (disk, oracle) = (disk_of(seed), Oracle::default());
        let mut world = Self { disk, log: None, oracle, lives: 0, stays: false };
        world.start();
        world
    }

    fn start(&mut self) {
        let opened = self.open();
        self.log = Some(opened.expect("opens after whatever happened").log);
    }

    fn open(&mut self) -> Result<OpenedLog<FaultDisk>, StoreError> {
        self.lives += 1;
        self.stays = false;
        let options = LogOptions {
            first_segment: 4096,
            max_segment: 8192,
            free_floor: 0,
            seed: self.lives,
            durable: 0,
            direct: true,
        };
        let budget = Arc::new(Budget::new(None));
        Log::open(self.disk.clone(), Path::new(DIR), Class::STD, options, budget)
    }

    fn log(&mut self) -> &mut Log<FaultDisk> {
        self.log.as_mut().unwrap()
    }

    fn commit(&mut self, batches: &[(u32, u8, u16, bool)]) {
        if self.log().broken().is_some() {
            return;
        }
        let mut group = Vec::new();
        let mut bodies = Vec::new();
        for (network, records, size, sync) in batches {
            let mut batch = Batch::new(*network);
            let mut of_batch = Vec::new();
            for _ in 0..*records {
                self.oracle.next += 1;
                let seq = self.oracle.next;
                let mut body = seq.to_le_bytes().to_vec();
                body.resize(8 + usize::from(*size), u8::try_from(seq % 251).unwrap());
                batch.push(EVENT_KIND, 1, seq, seq, &body).unwrap();
                of_batch.push(body);
            }
            bodies.push(of_batch);
            let flush = if *sync { Flush::Sync } else { Flush::Os };
            group.push(WaitingBatch::new(batch, 1, flush));
        }
        let before = self.log().view.read_inner().open.last_lsn;
        self.log().commit(&mut group);
        let mut lsn = before;
        for (waiting, of_batch) in group.iter().zip(&bodies) {
            if let Some(Ok((first, last))) = &waiting.outcome {
                assert_eq!((*first, *last), (lsn + 1, lsn + of_batch.len() as u64));
                self.oracle.given = *last;
                if group.iter().any(|w| w.flush == Flush::Sync) {
                    self.oracle.synced = *last;
                }
            }
            // A failed batch may have reached the disk, under the LSNs that were next.
            for body in of_batch {
                lsn += 1;
                self.oracle.written.insert(lsn, body.clone());
            }
        }
        if self.log().broken().is_some() && !self.stays {
            self.disk.heal();
            self.log().reopen().expect("reopens on a healed disk");
            batches.iter().for_each(|(network, ..)| self.log().resume(*network));
            self.check(self.oracle.given);
        }
    }

    /// Everything up to `promised` is there, and all that is there was written.
    fn check(&mut self, promised: Lsn) {
        let seen = self.read_all().expect("reads");
        assert!(seen >= promised, "{promised} promised, {seen} there");
    }

    /// Reads everything in every way and compares it with what was written. Returns the last LSN.
    fn read_all(&mut self) -> Result<Lsn, StoreError> {
        let mut seen = 0;
        let view = self.log().view();
        let mut events = Vec::new();
        let last = view.replay(None, 0, &mut |record| {
            seen += 1;
            assert_eq!(record.lsn, seen);
            events.push((record.network, record.seq, record.lsn));
            ControlFlow::Continue(())
        })?;
        assert_eq!(last, seen);
        for (network, seq, lsn) in events {
            let mut got = Vec::new();
            let mut visit = |record: crate::record::RecordRef<'_>| {
                got.push(record.body.to_vec());
                ControlFlow::Continue(())
            };
            let _ = view.read(network, &mut std::iter::once(seq), &mut visit)?;
            assert_eq!(got.len(), 1, "seq {seq} of {network}");
            assert_eq!(got.first(), self.oracle.written.get(&lsn), "LSN {lsn}");
            assert_eq!(view.find(network, seq)?, vec![seq]);
        }
        Ok(last)
    }

    /// Ends the life of the log by a stop, which must succeed unless the log was broken. Returns what is promised to be
    /// there at the next start.
    fn stop(&mut self) -> Lsn {
        self.disk.heal();
        let broken = self.log().broken().is_some();
        let closed = self.log().close();
        assert_eq!(closed.is_ok(), !broken, "{closed:?}");
        self.disk.crash();
        self.log = None;
        if broken { self.oracle.synced } else { self.oracle.given }
    }

    /// One bit turns between two lives. What was promised is there or the damage is named: by a refusal or by an error of
    /// a read, and after a power cut at least by a note, for there an unfinished write may look the same.
    fn rot(&mut self, stop: bool, file: u16, byte: u32, bit: u8) {
        let promised = if stop {
            self.stop()
        } else {
            self.disk.crash();
            self.log = None;
            self.oracle.synced
        };
        let dir = Path::new(DIR);
        let entries: Vec<_> = self.disk.list(dir).unwrap().into_iter().filter(|e| !e.is_dir && e.len > 0).collect();
        let entry = &entries[usize::from(file) % entries.len()];
        // The beginnings of files are where things are.
        let reach = if byte.is_multiple_of(3) { entry.len } else { entry.len.min(2048) };
        let (path, offset, mask) = (dir.join(&entry.name), u64::from(byte / 3) % reach, 1 << bit);
        self.disk.flip(&path, offset, mask).unwrap();
        let rotten = self.byte(&path, offset);
        match self.open() {
            Err(StoreError::Damaged(_)) => {}
            Err(error) => panic!("{error}"),
            Ok(opened) => {
                let noted = !opened.notes.is_empty();
                self.log = Some(opened.log);
                match self.read_all() {
                    Ok(seen) => assert!(
                        seen >= promised || !stop && noted,
                        "bit {bit} of byte {offset} of {} turned: {promised} promised, {seen} there, nothing named",
                        path.display()
                    ),
                    Err(StoreError::Damaged(_)) => {}
                    Err(error) => panic!("{error}"),
                }
                self.disk.kill();
                self.log = None;
            }
        }
        // Whatever was not written anew is made whole again.
        if path.extension().is_some_and(|ext| ext == "seg") && self.byte(&path, offset) == rotten {
            self.disk.flip(&path, offset, mask).unwrap();
        }
        self.start();
        self.settle();
    }

    fn byte(&self, path: &Path, offset: u64) -> Option<u8> {
        let mut byte = [0];
        let got = self.disk.open(path, false).and_then(|file| file.read_at(&mut byte, offset)).ok()?;
        (got == 1).then_some(byte[0])
    }

    /// After a start: what is there is what there is, and new LSNs follow it.
    fn settle(&mut self) {
        let last = self.log().view.read_inner().open.last_lsn;
        self.oracle.given = last;
        self.oracle.synced = last;
        self.oracle.written.retain(|lsn, _| *lsn <= last);
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Commit(batches) => self.commit(batches),
            Step::Tidy => {
                let _ = self.log().view.tidy();
            }
            Step::Crash => {
                self.disk.crash();
                self.log = None;
                self.start();
                self.check(self.oracle.synced);
                self.settle();
            }
            Step::Kill => {
                self.disk.kill();
                self.log = None;
                self.start();
                self.check(self.oracle.given);
                self.settle();
            }
            Step::Restart => {
                let promised = self.stop();
                self.start();
                self.check(promised);
                self.settle();
            }
            Step::Rot { stop, file, byte, bit } => self.rot(*stop, *file, *byte, *bit),
            Step::Fail { call, skip, stays } => {
                self.stays = *stays;
                self.disk.fail(*call, u32::from(*skip), io::ErrorKind::Other, false);
            }
        }
    }
}

/// `CRASH_CASES=20000 cargo test --release -p rialto-store crash` for a long walk.
fn cases() -> u32 {
    std::env::var("CRASH_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]
    #[test]
    fn what_was_promised_survives(seed: u64, steps in proptest::collection::vec(step(), 1..40)) {
        let mut world = World::new(seed);
        for step in &steps {
            world.run(step);
        }
        world.disk.heal();
        let given = world.oracle.given;
        world.check(given);
    }
}

/// The power is cut at every step while records that span sectors are overwritten: each is what it was or what it was to be.
#[test]
fn an_overwrite_is_whole_or_not_there() {
    for steps in 0..100 {
        let mut world = World::new(steps);
        world.commit(&[(1, 2, 1500, true), (2, 1, 600, true)]);
        world.disk.cut_after(steps);
        let done = world.log().view.rewrite(1, &(1..=2), &mut |record| Some(vec![b'#'; record.body.len()])).is_ok();
        world.disk.crash();
        world.start();
        let mut seen = Vec::new();
        let visit = &mut |record: crate::record::RecordRef<'_>| {
            let overwritten = record.body.iter().all(|byte| *byte == b'#');
            assert!(overwritten || world.oracle.written.get(&record.lsn).is_some_and(|body| body == record.body));
            seen.push(overwritten);
            ControlFlow::Continue(())
        };
        world.log.as_ref().unwrap().view.replay(None, 0, visit).unwrap();
        if done {
            assert_eq!(seen, [true, true, false], "{steps} steps");
            assert!(steps > 5, "it takes some steps");
            return;
        }
    }
    panic!("it never ends");
}
