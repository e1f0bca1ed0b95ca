//! What a node is measured by while somebody attacks it: its memory, its connections, and how long an honest member waits.
//!
//! A test begins a [`Watch`] on a node at rest, attacks, and asks it [`Watch::held`] while the attackers are still there; when they have
//! left, [`Released::await_release`] waits until the node has given back what they took.
//!
//! ```ignore
//! let server = Server::start().await;
//! let watch = Watch::begin(&server, Attacker::Stranger).await;
//! let attackers = attack(&server, times(100)).await;
//! let released = watch.held("half-sent bodies").await;
//! drop(attackers);
//! released.await_release(&server).await;
//! ```

use crate::harness::{Http, Server, note, open_sockets, resident_bytes};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Bytes a node may grow by whoever attacks it without a credential.
const STRANGER_BYTES_MAX: u64 = 64 << 20;
/// Bytes a node may grow by a member that attacks it.
const MEMBER_BYTES_MAX: u64 = 256 << 20;
/// Bytes above rest that a node may keep after the attackers have left. They are not in use: the system's allocator holds back what was
/// freed in small pieces, and gives it to whoever comes next.
const LEFT_BYTES_MAX: u64 = 64 << 20;
/// Connections above rest that may be left: those of the measurement itself.
const LEFT_SOCKETS_MAX: usize = 4;
/// All is released this long after the attackers have left.
const RELEASED_WITHIN: Duration = Duration::from_secs(10);
/// What 99 of 100 sends and reads of an honest member stay below during an attack. A debug build is about ten times slower than a release build, and
/// shares the machine with other tests: there the bound only shows that nothing stalls.
const P99_MAX: Duration = Duration::from_millis(if cfg!(debug_assertions) { 1500 } else { 250 });
/// And so many times what they take before the attack, with every core as busy: attackers on the same machine take their share of it, which
/// is not the node's doing.
const TIMES_QUIET_MAX: u32 = if cfg!(debug_assertions) { 40 } else { 10 };
/// A quiet machine may be quicker than this; nobody notices that.
const QUIET_MIN: Duration = Duration::from_millis(2);
/// Sends from which the quiet value is made.
const QUIET_SENDS: u64 = 100;
/// Sends from which a 99th percentile is made.
const SENDS_MIN: usize = 200;
/// Every so many sends the honest member comes anew: whoever holds all places shuts it out.
const SENDS_PER_CONNECTION: usize = 10;
/// Between two sends, so that the measurement is no load itself.
const BETWEEN_SENDS: Duration = Duration::from_millis(5);
/// Between two looks at the node's memory.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// How much larger than in a quick run the numbers are: `RIALTO_LOAD`, else 1.
pub fn factor() -> usize {
    std::env::var("RIALTO_LOAD").ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1)
}

/// A number of a quick run, as large as this run wants it.
pub fn times(small: usize) -> usize {
    small * factor()
}

/// Who attacks, which says how much memory it may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attacker {
    /// Somebody who shows no credential.
    Stranger,
    /// Somebody with a credential.
    Member,
}

impl Attacker {
    fn bytes_max(self) -> u64 {
        match self {
            Attacker::Stranger => STRANGER_BYTES_MAX,
            Attacker::Member => MEMBER_BYTES_MAX,
        }
    }
}

/// A node under watch: its memory is looked at all the time, and an honest member sends all the time.
#[derive(Debug)]
pub struct Watch {
    pid: u32,
    attacker: Attacker,
    rest: Rest,
    peak: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    looking: JoinHandle<()>,
    honest: JoinHandle<Vec<Duration>>,
    quiet: Duration,
    sends: Arc<AtomicU64>,
}

/// The node before the attack.
#[derive(Debug, Clone, Copy)]
struct Rest {
    bytes: u64,
    sockets: usize,
}

/// What was measured during an attack.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Bytes the node grew by at most.
    pub growth: u64,
    /// What 99 of 100 sends and reads of the honest member stayed below.
    pub p99: Duration,
    /// The same before the attack, with as many cores busy.
    pub quiet: Duration,
    /// Sends and reads of the honest member.
    pub requests: usize,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measured { growth, p99, quiet, requests } = self;
        write!(f, "{} MiB more, honest p99 {p99:?} of {requests} requests ({quiet:?} before)", growth >> 20)
    }
}

/// An attack was withstood; what it took is still to be given back.
#[derive(Debug, Clone, Copy)]
pub struct Released {
    rest: Rest,
    /// What was measured.
    pub measured: Measured,
}

impl Watch {
    /// Looks at a node at rest, and lets an honest member of its main network send from now on. It sends and reads over HTTP, an
    /// event at a time, and on a new connection now and then; an error of its connection ends the test.
    pub async fn begin(server: &Server, attacker: Attacker) -> Watch {
        let (network, pid) = (server.main(), server.pid());
        let session = server.join(&network, "agent:honest").await;
        let path = format!("/v1/ws/{}/events", network.id);
        // A few sends first: what a node needs once is not charged to the attackers.
        let mut http = server.http();
        for n in 0..20 {
            send(&mut http, &path, &session, &format!("warm-{n}")).await;
        }
        let quiet = quiet_p99(server.address(), &path, &session).await;
        let rest = Rest { bytes: resident_bytes(pid), sockets: open_sockets(pid) };
        let (peak, over, sends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)), Arc::default());
        let looking = tokio::spawn({
            let (peak, over) = (Arc::clone(&peak), Arc::clone(&over));
            async move {
                while !over.load(Ordering::Acquire) {
                    peak.fetch_max(resident_bytes(pid), Ordering::AcqRel);
                    tokio::time::sleep(BETWEEN_LOOKS).await;
                }
            }
        });
        let honest = tokio::spawn({
            let (address, over, sends) = (server.address(), Arc::clone(&over), Arc::clone(&sends));
            async move { honest(address, (&path, &session), "honest", &over, &sends).await }
        });
        Watch { pid, attacker, rest, peak, over, looking, honest, quiet, sends }
    }

    /// Sends of the honest member so far: a test that wants to go on for a while awaits more of them.
    pub fn sends(&self) -> u64 {
        self.sends.load(Ordering::Acquire)
    }

    /// Bytes the node has grown by so far, at most.
    pub fn growth(&self) -> u64 {
        self.peak.load(Ordering::Acquire).max(resident_bytes(self.pid)).saturating_sub(self.rest.bytes)
    }

    /// Ends the measurement while the attackers are still there, and fails if the node grew too much or the honest member waited too long.
    /// Waits until there are enough sends to judge by.
    pub async fn held(self, attack: &str) -> Released {
        crate::harness::until("the honest member's sends", || async {
            (self.sends() >= SENDS_MIN as u64 || self.honest.is_finished()).then_some(())
        })
        .await;
        self.over.store(true, Ordering::Release);
        let growth = self.growth();
        let mut took = self.honest.await.unwrap_or_else(|e| panic!("{attack}: the honest member was shut out: {e}"));
        let _ = self.looking.await;
        let measured = Measured { growth, p99: p99(&mut took), quiet: self.quiet, requests: took.len() };
        eprintln!("{attack}: {measured}");
        assert!(growth <= self.attacker.bytes_max(), "{attack}: {measured}");
        assert!(measured.p99 <= P99_MAX, "{attack}: {measured}");
        assert!(measured.p99 <= self.quiet.max(QUIET_MIN) * TIMES_QUIET_MAX, "{attack}: {measured}");
        Released { rest: self.rest, measured }
    }
}

impl Released {
    /// Waits until memory and connections are given back, now that the attackers have left; fails after ten seconds.
    pub async fn await_release(self, server: &Server) {
        let began = Instant::now();
        loop {
            let bytes = resident_bytes(server.pid()).saturating_sub(self.rest.bytes);
            let sockets = open_sockets(server.pid()).saturating_sub(self.rest.sockets);
            if bytes <= LEFT_BYTES_MAX && sockets <= LEFT_SOCKETS_MAX {
                break;
            }
            let left = format!("{} MiB and {sockets} connections are left after {:?}", bytes >> 20, began.elapsed());
            assert!(began.elapsed() <= RELEASED_WITHIN, "{left}");
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        let told = server.told();
        assert!(!told.contains("panicked"), "{told}");
    }
}

fn p99(took: &mut [Duration]) -> Duration {
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

/// How long 99 of 100 sends and reads take while nobody attacks, but every core is as busy as attackers on the same machine keep it.
async fn quiet_p99(address: std::net::SocketAddr, path: &str, session: &str) -> Duration {
    let (over, sends) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let busy: Vec<_> = (0..cores)
        .map(|_| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                while !over.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    let sending = async {
        while sends.load(Ordering::Acquire) < QUIET_SENDS {
            tokio::time::sleep(BETWEEN_SENDS).await;
        }
        over.store(true, Ordering::Release);
    };
    let (mut took, ()) = tokio::join!(honest(address, (path, session), "quiet", &over, &sends), sending);
    busy.into_iter().for_each(|thread| drop(thread.join()));
    p99(&mut took)
}

async fn honest(
    address: std::net::SocketAddr,
    (path, session): (&str, &str),
    ids: &str,
    over: &AtomicBool,
    sends: &AtomicU64,
) -> Vec<Duration> {
    let mut took = Vec::new();
    let mut http = Http::new(address);
    while !over.load(Ordering::Acquire) {
        if took.len() % (2 * SENDS_PER_CONNECTION) == 0 {
            http = Http::new(address);
        }
        // A send and a read, each measured: neither may wait for the attackers.
        let began = Instant::now();
        send(&mut http, path, session, &format!("{ids}-{}", took.len())).await;
        took.push(began.elapsed());
        let began = Instant::now();
        read(&mut http, path, session).await;
        took.push(began.elapsed());
        sends.fetch_add(1, Ordering::AcqRel);
        tokio::time::sleep(BETWEEN_SENDS).await;
    }
    took
}

async fn send(http: &mut Http, path: &str, session: &str, id: &str) {
    let answer = http.post(path).bearer(session).json(&note(id, "agent:honest", "x")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

async fn read(http: &mut Http, path: &str, session: &str) {
    let answer = http.get(&format!("{path}?view=inbox&ack=false&limit=10"), session).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}
