//! Steps about one noun, woven into a plain script of which fewer steps are left.

use super::{Step, mods, one_in, pick, rename, resource, rights, talk, work};
use crate::harness::Chance;

/// Adds a step about a noun in a network, or a few that belong together.
type Noun = fn(&mut Chance, usize, &mut Vec<Step>);

/// What scripts are about, in turn; rights are the last.
const NOUNS: [Noun; 6] = [work::steps, talk::steps, resource::steps, rename::steps, mods::steps, rights::steps];

/// Steps at the beginning that are left together: somebody has to be there.
const BEGINNING: usize = 9;

/// The noun of the n-th script, by its place.
fn turn(n: u64) -> usize {
    usize::try_from(n).unwrap_or(0) % NOUNS.len()
}

/// Whether the n-th script is about rights.
pub(super) fn is_about_rights(n: u64) -> bool {
    turn(n) == NOUNS.len() - 1
}

/// The n-th script about a noun.
pub(super) fn nouns(n: u64, nets: u64, steps: Vec<Step>) -> Vec<Step> {
    let Some(noun) = NOUNS.get(turn(n)) else { return steps };
    let mut c = Chance::new(n ^ 0x0400_5EED);
    // Fewer steps than without: those about nouns are longer.
    let count = steps.len() * 2 / 3;
    let mut woven = Vec::with_capacity(count);
    for (at, step) in steps.into_iter().enumerate() {
        while at >= BEGINNING && woven.len() < count && !one_in(&mut c, 3) {
            let net = pick(&mut c, nets);
            noun(&mut c, net, &mut woven);
        }
        if woven.len() < count {
            woven.push(step);
        }
    }
    woven
}
