//! Steps about members that are called otherwise from some time on.

use super::{Admin, Step, Target, Which, one_in, pick};
use crate::harness::Chance;

/// Steps about names in a network.
pub(super) fn steps(c: &mut Chance, net: usize, out: &mut Vec<Step>) {
    let (who, to) = (pick(c, 3), Target::Member(pick(c, 3)));
    out.push(match c.below(8) {
        0..2 => Step::Admin { net, op: Admin::Rename(who, pick(c, 5)) },
        2..5 => {
            let count = 1 + pick(c, 2);
            Step::Send {
                net,
                who,
                to,
                which: Which::Fresh,
                count,
                calm: one_in(c, 2),
                form: u8::try_from(c.below(12)).unwrap_or(0),
            }
        }
        5 => Step::Join {
            net,
            who,
            stream: !one_in(c, 3),
            keep: one_in(c, 2),
            window: 4,
            observer: false,
            resume: one_in(c, 3),
            replay: one_in(c, 3),
            named: one_in(c, 6),
            compat: false,
        },
        6 => Step::Admin { net, op: Admin::Group(pick(c, 2), u8::try_from(c.below(64)).unwrap_or(0)) },
        _ => Step::Look,
    });
}
