//! Power cuts under load on every carrier at once: what was acknowledged is there afterwards, at the same position; what is
//! pending is what was acknowledged minus what was acked; a re-send by id commits once. `RIALTO_KILL_ROUNDS` says how often.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail as the test does"
)]

mod ackers;
mod book;
mod check;
mod senders;

use ackers::Acking;
use book::{Place, Round};
use rialto_sim::harness::{Chance, Server, rialto, seed, until};
use senders::Sending;
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;

const ROUNDS: u64 = 200;

fn rounds() -> u64 {
    std::env::var("RIALTO_KILL_ROUNDS").map_or(ROUNDS, |text| text.parse().expect("RIALTO_KILL_ROUNDS is a number"))
}

/// Every carrier in every round, each on another network than in the round before; two of them on all networks.
fn start_load(server: &Server, places: &[Place], round: &Round, chance: &mut Chance) -> JoinSet<()> {
    let mut load = JoinSet::new();
    let count = places.len() as u64;
    for (place, at) in places.iter().zip(0..) {
        for (sending, number) in Sending::ALL.into_iter().zip(0..) {
            let everywhere = matches!(sending, Sending::Http | Sending::WebSocket);
            if everywhere || (round.number + number) % count == at {
                load.spawn(senders::send(sending, server.address(), place.side(round), chance.draw()));
            }
        }
        let acking = Acking::ALL[((round.number + at) % Acking::ALL.len() as u64) as usize];
        load.spawn(ackers::ack(acking, server.address(), place.side(round), chance.draw()));
    }
    load
}

/// Mostly too short for a program to start and join; in every fourth round until each carrier was answered at least once.
async fn some_time(round: &Round, load: &JoinSet<()>, chance: &mut Chance) {
    tokio::time::sleep(Duration::from_millis(20 + chance.below(80))).await;
    if round.number % 4 == 3 {
        let all = load.len() as u64;
        until("an answer on every carrier", || {
            std::future::ready((round.going.load(Ordering::Relaxed) >= all).then_some(()))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn power_cuts_lose_nothing_that_was_acknowledged() {
    let (seed, rounds) = (seed(), rounds());
    let mut chance = Chance::new(seed);
    let mut server = Server::start().await;
    let second = server.network(&json!({ "name": "second" })).await;
    let forgetful = server.network(&json!({ "name": "forgetful", "mods": ["auth"] })).await;
    let mut places = vec![
        Place::of(&server, server.main(), true).await,
        Place::of(&server, second, true).await,
        Place::of(&server, forgetful, false).await,
    ];
    for round in 0..rounds {
        let this = Round { number: round, ..Round::default() };
        let mut load = start_load(&server, &places, &this, &mut chance);
        some_time(&this, &load, &mut chance).await;
        server.kill();
        this.over.cancel();
        while let Some(done) = load.join_next().await {
            done.unwrap_or_else(|e| panic!("seed {seed}, round {round}: {e}"));
        }
        if chance.below(8) == 0 {
            // The next start is cut short as well.
            server.spawn();
            tokio::time::sleep(Duration::from_millis(chance.below(60))).await;
            server.kill();
        }
        server.restart().await;
        for place in &mut places {
            place.check(&server, &mut chance, round % 40 == 39 || round + 1 == rounds).await;
        }
        if round % 20 == 19 {
            // A stop in order now and then: it leaves a snapshot, so that starts stay short and begin from one.
            eprintln!("{} of {rounds} power cuts", round + 1);
            assert!(server.stop().success(), "seed {seed}, round {round}");
            server.restart().await;
        }
    }
    let told = server.told();
    assert!(!told.contains("panicked"), "seed {seed}: {told}");
    assert!(server.stop().success());
    let verified = Server::client().arg("verify").arg("--data").arg(server.data()).output().unwrap();
    assert!(verified.status.success(), "seed {seed}: {} verify: {verified:?}", rialto().display());
    report(&places, rounds);
}

fn report(places: &[Place], rounds: u64) {
    let (mut told, mut again, mut acked) = (0, 0, 0);
    for sending in Sending::ALL {
        let of = |place: &Place| place.book().told.keys().filter(|id| Sending::of(id) == sending).count();
        let sent: usize = places.iter().map(of).sum();
        eprintln!("{sent} events over {sending:?}");
        assert!(sent as u64 > rounds, "too little went over {sending:?} to mean anything");
    }
    for acking in Acking::ALL {
        let acked: usize = places.iter().filter_map(|place| place.book().acked_by.get(&acking).copied()).sum();
        eprintln!("{acked} acks over {acking:?}");
        assert!(rounds < 100 || acked as u64 > rounds / 8, "too little was acked over {acking:?} to mean anything");
    }
    for place in places {
        let book = place.book();
        told += book.told.len();
        again += book.sent_again;
        acked += book.gone.len();
    }
    eprintln!(
        "{rounds} power cuts, {told} events acknowledged, {again} unanswered and sent again, {acked} acked for good"
    );
}
