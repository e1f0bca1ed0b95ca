//! Thousands of seeded worlds: the real node and store on a simulated disk, clock and machine, watched by an oracle that
//! knows only the specification (`rialto_sim::world`).
//!
//! `RIALTO_SIM_SEEDS=20000 cargo nextest run -p rialto-sim --test simulator` runs more of them, `RIALTO_SIM_FIRST` says
//! where to begin, `RIALTO_SIM_SEED=n` replays one, `RIALTO_SIM_SCRIPT=file` replays a saved script (and
//! `RIALTO_SIM_TRACE=1` prints everything that is seen).

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use rialto_sim::world::saved::SavedScript;
use rialto_sim::world::script::{Mods, NetPlan, Target, Terms, Trouble, Which, Word};
use rialto_sim::world::shrink::shrink;
use rialto_sim::world::{Script, Step, run};

/// Seeds of an ordinary run.
const SEEDS: u64 = 3000;
/// Runs a shrinking may take.
const TRIES: usize = 600;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.trim().parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Runs one of four shares of the seeds, so that all cores have something to do.
fn share(part: u64) {
    if let Some(seed) = number("RIALTO_SIM_SEED") {
        if part == 0 {
            check(seed);
        }
        return;
    }
    let first = number("RIALTO_SIM_FIRST").unwrap_or(0);
    let count = number("RIALTO_SIM_SEEDS").unwrap_or(SEEDS);
    (first..first + count).filter(|seed| seed % 4 == part).for_each(check);
}

/// Runs a seed; a failing one is made short and printed.
fn check(seed: u64) {
    let script = Script::of(seed);
    if run(&script).wrong.is_none() {
        return;
    }
    let (short, outcome) = shrink(&script, TRIES);
    let (step, wrong) = outcome.wrong.unwrap();
    panic!(
        "seed {seed} contradicts the specification ({}): {}\nafter step {step} of this script, made short:\n{short}\n\
         replay: RIALTO_SIM_SEED={seed} cargo nextest run -p rialto-sim --test simulator",
        wrong.check, wrong.what
    );
}

#[test]
fn seeds_of_the_first_share() {
    share(0);
}

#[test]
fn seeds_of_the_second_share() {
    share(1);
}

#[test]
fn seeds_of_the_third_share() {
    share(2);
}

#[test]
fn seeds_of_the_fourth_share() {
    share(3);
}

/// The scripts that once contradicted the specification hold, each of them, whatever the generator makes of their seeds
/// today. With `RIALTO_SIM_SCRIPT=file` only that one is replayed.
#[test]
fn saved_scripts_hold() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/simulator");
    let one = std::env::var_os("RIALTO_SIM_SCRIPT").map(std::path::PathBuf::from);
    let all = || std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let scripts = || all().filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    let mut paths: Vec<_> = one.map_or_else(scripts, |path| vec![path]);
    paths.sort();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let saved = SavedScript::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if let Some(wrong) = saved.replay() {
            panic!("{}: {wrong}", path.display());
        }
    }
}

/// What is saved is read back as it was, for every kind of step that the generator makes.
#[test]
fn a_script_survives_its_file() {
    for seed in 0..400 {
        let saved =
            SavedScript { check: "order".to_owned(), seed, what: "\"1\" after 2".to_owned(), script: Script::of(seed) };
        let text = saved.to_text().unwrap();
        assert_eq!(SavedScript::parse(&text).unwrap(), saved, "{text}");
    }
    let wrong = r#"{"check":"","seed":1,"what":"","script":{"seed":1,"segment_bytes":1,"snapshot_bytes":1,"nets":[],
        "steps":[{"Admin":{"net":0,"op":{"Status":"asleep"}}}]}}"#;
    let error = SavedScript::parse(wrong).unwrap_err().to_string();
    assert!(error.contains("no step holds the word `asleep`"), "{error}");
}

fn join(who: usize, stream: bool) -> Step {
    Step::Join {
        net: 0,
        who,
        stream,
        keep: false,
        window: 4,
        observer: false,
        resume: false,
        replay: false,
        named: false,
        compat: false,
    }
}

/// A world of one plain network, and what happens in it.
fn world(persistence: bool, steps: Vec<Step>) -> Script {
    let plan = NetPlan {
        workspace: false,
        persistence,
        at_least_once: true,
        ttl_ms: None,
        max_pending: None,
        max_pending_kib: None,
        max_attempts: None,
        max_events: None,
        os: false,
        closed: false,
        token_manages: false,
        guests: false,
    };
    Script {
        seed: 1,
        segment_bytes: 4096,
        snapshot_bytes: 1 << 20,
        search: false,
        direct: false,
        nets: vec![plan],
        steps,
    }
}

fn holds(script: &Script) {
    assert_eq!(run(script).wrong, None, "{script}");
}

/// After a flush that failed the operating system shows bytes that are not on the medium and calls them clean. A node
/// that started again took them for committed, and lost them with the next power cut.
#[test]
fn a_start_after_a_failed_flush_trusts_no_page() {
    let flush_fails = Step::Trouble { what: Trouble::FlushFails, skip: 0, lasting: true };
    for end in [Step::Restart, Step::Kill] {
        for seed in 0..20 {
            let steps = vec![join(0, true), flush_fails, join(1, true), end, join(2, false), Step::PowerCut];
            holds(&Script { seed, ..world(true, steps) });
        }
    }
}

/// Without history nothing was kept of an event that nobody waited for, not even whom it was narrowed to: everybody who
/// was there was pushed it.
#[test]
fn what_is_narrowed_to_somebody_absent_is_pushed_to_nobody() {
    let send =
        |form| Step::Send { net: 0, who: 0, to: Target::Broadcast, which: Which::Fresh, count: 6, calm: false, form };
    holds(&world(false, vec![join(0, true), join(1, true), send(10), Step::Look]));
}

/// The second member serves a mod that looks at everything, or at some types, and is slow to answer.
fn serves(which: usize, patterns: usize) -> Step {
    let terms = Terms { patterns, deadline: 0, rejects: true, prompt: false };
    Step::Mods { net: 0, who: 1, act: Mods::Serve { which, terms, approved: true }, calm: true }
}

fn answers(word: Word) -> Step {
    Step::Mods { net: 0, who: 1, act: Mods::Answer { nth: 0, word, emits: 0 }, calm: false }
}

fn sends(count: usize) -> Step {
    Step::Send { net: 0, who: 0, to: Target::Member(1), which: Which::Fresh, count, calm: false, form: 0 }
}

/// The server of a mod heard of the next event when the one before it was committed; the time it has ran already.
#[test]
fn a_mod_is_asked_at_once() {
    let steps = vec![
        join(0, false),
        join(1, true),
        serves(0, 3),
        sends(3),
        answers(Word::Pass),
        Step::Pass { ms: 1500 },
        answers(Word::Pass),
        Step::Look,
    ];
    holds(&world(true, steps));
}

/// What waited for a mod when the node stopped was refused before the answers to what was committed before it.
#[test]
fn a_stop_answers_in_the_order_of_sending() {
    // The first of the three is of a type that the mod does not look at.
    let joins = (0..4).map(|who| join(who, true));
    holds(&world(true, joins.chain([serves(0, 2), sends(3), Step::Restart]).collect()));
}

/// Tickets were numbered anew after a start, and told apart by the millisecond of it only.
#[test]
fn a_ticket_of_an_earlier_life_is_nothing() {
    let steps = vec![
        join(0, true),
        join(1, true),
        serves(0, 0),
        sends(1),
        answers(Word::Pass),
        Step::PowerCut,
        join(0, true),
        join(1, true),
        sends(1),
        answers(Word::Pass),
        Step::Look,
    ];
    holds(&world(true, steps));
}

/// A mod that was the only one of its kind and was unloaded while it was asked had no say any more.
#[test]
fn a_mod_that_is_unloaded_has_its_say_about_what_it_was_asked() {
    for (which, word) in [(0, Word::Reject), (2, Word::Modify)] {
        let unload = Step::Mods { net: 0, who: 1, act: Mods::Unload { which }, calm: false };
        let ask = Step::Mods { net: 0, who: 1, act: Mods::Usurp { nth: 9, word }, calm: false };
        let steps =
            vec![join(0, true), join(1, true), serves(which, 3), sends(1), ask, unload, answers(word), Step::Look];
        holds(&world(true, steps));
    }
}

#[test]
fn a_seed_is_a_run() {
    let mut traces = std::collections::BTreeSet::new();
    for seed in 0..12 {
        let script = Script::of(seed);
        let (first, second) = (run(&script), run(&script));
        assert_eq!(first, second, "seed {seed} gave two runs");
        traces.insert(first.trace);
    }
    assert_eq!(traces.len(), 12, "different seeds are different runs");
}

/// The table of deliberate bugs in `docs/reliability.md` names the bugs there are.
#[test]
fn the_page_names_every_deliberate_bug() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reliability.md");
    let text = std::fs::read_to_string(page).unwrap();
    let (_, section) = text.split_once("### Deliberate bugs").unwrap();
    let section = section.split("\n### ").next().unwrap();
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows: Vec<(String, String)> = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(cells)
        .filter_map(|row| Some((row.get(1)?.clone(), row.get(2)?.clone())))
        .filter(|(bug, _)| bug != "bug")
        .collect();
    let known: Vec<(String, String)> =
        rialto_sim::world::bugs::BUGS.iter().map(|(bug, place)| ((*bug).to_owned(), (*place).to_owned())).collect();
    assert_eq!(rows, known);
}
