//! Random uploads, names, times and clean-ups against a model that keeps lists and counts them each time.

use super::*;
use proptest::prelude::*;
use rialto_node::blobs::{Hold, STAGED_MS, Upload};
use std::collections::{BTreeMap, BTreeSet};

const NETWORKS: u32 = 3;
const MEMBERS: u32 = 3;
const CONTENTS: usize = 5;

#[derive(Debug, Clone)]
enum Step {
    Upload {
        network: u32,
        member: u32,
        content: usize,
    },
    /// An upload that begins, and ends at a later `Settle`.
    Begin {
        network: u32,
        content: usize,
    },
    Settle {
        finish: bool,
    },
    Name {
        network: u32,
        member: u32,
        content: usize,
    },
    Refer {
        network: u32,
        content: usize,
    },
    Release {
        network: u32,
        content: usize,
    },
    Pass(u64),
    Doubt(u32),
    /// The network is rebuilt from its book.
    Load(u32),
    Hold,
    Unhold,
    CleanUp,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let (n, m, c) = (1..=NETWORKS, 1..=MEMBERS, 0..CONTENTS);
    prop_oneof![
        6 => (n.clone(), m.clone(), c.clone()).prop_map(|(network, member, content)| Step::Upload { network, member, content }),
        2 => (n.clone(), c.clone()).prop_map(|(network, content)| Step::Begin { network, content }),
        2 => any::<bool>().prop_map(|finish| Step::Settle { finish }),
        5 => (n.clone(), m, c.clone()).prop_map(|(network, member, content)| Step::Name { network, member, content }),
        4 => (n.clone(), c.clone()).prop_map(|(network, content)| Step::Refer { network, content }),
        5 => (n.clone(), c).prop_map(|(network, content)| Step::Release { network, content }),
        5 => prop_oneof![1..STAGED_MS, Just(STAGED_MS), Just(STAGED_MS / 2)].prop_map(Step::Pass),
        1 => n.clone().prop_map(Step::Doubt),
        2 => n.prop_map(Step::Load),
        1 => Just(Step::Hold),
        2 => Just(Step::Unhold),
        6 => Just(Step::CleanUp),
        1 => Just(Step::Restart),
    ]
}

fn content(n: usize) -> Vec<u8> {
    noise(100 * (n + 1), n as u64)
}

/// What should be.
#[derive(Default)]
struct Model {
    now: u64,
    on_disk: BTreeSet<usize>,
    /// One entry for each place that names it.
    names: Vec<(u32, usize)>,
    /// Network, member, content: nameable until, kept until.
    staged: BTreeMap<(u32, u32, usize), (u64, u64)>,
    doubted: BTreeSet<u32>,
}

impl Model {
    fn stage(&mut self, network: u32, member: u32, content: usize) {
        self.on_disk.insert(content);
        let until = self.now + STAGED_MS;
        let kept = self.staged.get(&(network, member, content)).map_or(0, |(_, kept)| *kept);
        self.staged.insert((network, member, content), (until, kept.max(until)));
    }

    fn holds(&self, network: u32) -> BTreeSet<usize> {
        let named = self.names.iter().filter(|(n, _)| *n == network).map(|(_, content)| *content);
        let staged = self.staged.iter().filter(|((n, ..), (_, kept))| *n == network && self.now < *kept);
        named.chain(staged.map(|((_, _, content), _)| *content)).collect()
    }

    fn bytes(&self, network: u32) -> u64 {
        self.holds(network).iter().map(|n| content(*n).len() as u64).sum()
    }
}

async fn run(steps: Vec<Step>) {
    let mut world = World::in_memory();
    let mut model = Model::default();
    let mut open: Vec<(u32, usize, Upload)> = Vec::new();
    let mut holds: Vec<Hold> = Vec::new();
    let hashes: Vec<Hash> = (0..CONTENTS).map(|n| sha256(&content(n))).collect();
    let size = |n: usize| content(n).len() as u64;
    for step in steps {
        match step.clone() {
            Step::Upload { network, member, content: n } => {
                let stored = put(&world.blobs, staging(network, member), &content(n)).await.unwrap();
                assert_eq!((stored.hash, stored.size), (hashes[n], size(n)));
                model.stage(network, member, n);
            }
            Step::Begin { network, content: n } => {
                if open.len() < 8 {
                    let mut upload = world.blobs.stage(staging(network, 1)).await.unwrap();
                    upload.write(&content(n)).await.unwrap();
                    open.push((network, n, upload));
                }
            }
            Step::Settle { finish } => match open.pop() {
                Some((network, n, upload)) if finish => {
                    upload.finish().await.unwrap();
                    model.stage(network, 1, n);
                }
                _ => while world.host.run_errand() {},
            },
            Step::Name { network, member, content: n } => {
                let (now, staged) = (model.now, model.staged.get_mut(&(network, member, n)));
                let may = match staged {
                    Some((until, kept)) if now < *until => {
                        *kept = (*kept).max(now + STAGED_MS);
                        true
                    }
                    _ => false,
                };
                let said = world.blobs.may_name(network, member, &hashes[n]);
                assert_eq!(said, may.then(|| size(n)), "{step:?}");
            }
            // Only what is held can come to be named: it may be named, or is read already.
            Step::Refer { network, content: n } => {
                if model.holds(network).contains(&n) {
                    world.blobs.refer(network, &hashes[n], size(n));
                    model.names.push((network, n));
                }
            }
            Step::Release { network, content: n } => {
                world.blobs.release(network, &hashes[n]);
                if let Some(at) = model.names.iter().position(|name| *name == (network, n)) {
                    model.names.remove(at);
                }
            }
            Step::Pass(ms) => {
                world.clock.pass(ms);
                model.now += ms;
            }
            Step::Doubt(network) => {
                world.blobs.doubt(network);
                model.doubted.insert(network);
            }
            Step::Load(network) => {
                let named = model.names.iter().filter(|(n, _)| *n == network);
                world.blobs.load(network, named.map(|(_, n)| (hashes[*n], size(*n))));
                model.doubted.remove(&network);
            }
            Step::Hold => holds.push(world.blobs.hold()),
            Step::Unhold => drop(holds.pop()),
            Step::CleanUp => {
                let cleaned = world.blobs.clean_up().await.unwrap();
                let held = !holds.is_empty() || !model.doubted.is_empty();
                let kept: BTreeSet<usize> = (1..=NETWORKS).flat_map(|network| model.holds(network)).collect();
                let gone: BTreeSet<usize> = if held { BTreeSet::new() } else { &model.on_disk - &kept };
                let removed: BTreeSet<Hash> = cleaned.removed.iter().copied().collect();
                assert_eq!(removed, gone.iter().map(|n| hashes[*n]).collect());
                assert_eq!((cleaned.held_back, cleaned.failed), (held, 0));
                assert_eq!(cleaned.bytes, gone.iter().map(|n| size(*n)).sum::<u64>());
                model.on_disk = &model.on_disk - &gone;
            }
            Step::Restart => {
                open.clear();
                holds.clear();
                while world.host.forget_errand() {}
                world = World::over(world.store);
                model.staged.clear();
                for network in 1..=NETWORKS {
                    let named = model.names.iter().filter(|(n, _)| *n == network);
                    world.blobs.load(network, named.map(|(_, n)| (hashes[*n], size(*n))));
                }
                model.doubted.clear();
            }
        }
        while world.host.run_errand() {}
        let there: BTreeSet<Hash> = world.stored().into_iter().collect();
        assert_eq!(there, model.on_disk.iter().map(|n| hashes[*n]).collect(), "{step:?}");
        for network in 1..=NETWORKS {
            let usage = world.blobs.usage(network);
            let arriving: u64 = open.iter().filter(|(n, ..)| *n == network).map(|(_, n, _)| size(*n)).sum();
            let wanted = (model.bytes(network), arriving, model.holds(network).len() as u64);
            assert_eq!((usage.bytes, usage.arriving, usage.blobs), wanted, "{step:?}");
            // The point of it all.
            for (_, n) in model.names.iter().filter(|(named_in, _)| *named_in == network) {
                assert!(get(&world.blobs, &hashes[*n]).await.is_some(), "{step:?} lost a named blob");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn the_registry_agrees_with_lists(steps in proptest::collection::vec(step(), 1..80)) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run(steps));
    }
}
