//! Steps about one noun, woven into a plain script of which fewer steps are left.

use super::{Step, mods, one_in, pick, rename, resource, talk, work};
use crate::harness::Chance;

/// Adds a step about a noun in a network, or a few that belong together.
type Noun = fn(&mut Chance, usize, &mut Vec<Step>);

/// What scripts are about, in turn.
const NOUNS: [Noun; 5] = [work::steps, talk::steps, resource::steps, rename::steps, mods::steps];

/// Steps at the beginning that are left together: somebody has to be there.
const BEGINNING: usize = 9;

/// The n-th script about a noun.
pub(super) fn nouns(n: u64, nets: u64, steps: Vec<Step>) -> Vec<Step> {
    let turn = usize::try_from(n).unwrap_or(0) % NOUNS.len();
    let Some(noun) = NOUNS.get(turn) else { return steps };
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
