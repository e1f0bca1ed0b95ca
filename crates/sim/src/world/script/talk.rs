//! Steps about conversations: threads inside channels, direct rooms between two.

use super::{Step, one_in, pick};
use crate::harness::Chance;
use serde::{Deserialize, Serialize};

/// What is said where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields say what they are")]
pub enum Talk {
    /// Messages in a thread of a channel, perhaps for some of its members only.
    Thread { channel: usize, thread: u8, narrow: Option<usize>, count: usize },
    /// A message to one member, perhaps scoped by a channel.
    Direct { to: usize, channel: Option<usize> },
    /// The room with somebody, without a word.
    OpenRoom { with: usize, channel: Option<usize> },
}

/// Steps about conversations in a network.
pub(super) fn steps(c: &mut Chance, net: usize, out: &mut Vec<Step>) {
    let who = pick(c, 4);
    let scope = |c: &mut Chance| one_in(c, 3).then(|| pick(c, 4));
    let talk = match c.below(16) {
        0..6 => {
            let narrow = one_in(c, 3).then(|| pick(c, 6));
            Talk::Thread {
                channel: pick(c, 2),
                thread: u8::try_from(c.below(4)).unwrap_or(0),
                narrow,
                count: 1 + pick(c, 2),
            }
        }
        6..10 => Talk::Direct { to: pick(c, 4), channel: scope(c) },
        10..12 => Talk::OpenRoom { with: pick(c, 4), channel: scope(c) },
        12 => return out.push(Step::Ack { net, who, what: super::What::One(pick(c, 3)), stream: one_in(c, 2) }),
        13 => return out.push(Step::Channel { net, who, act: channel_act(c), channel: pick(c, 2), calm: true }),
        14 => return out.push(Step::Settle),
        _ => return out.push(Step::Look),
    };
    out.push(Step::Talk { net, who, talk, calm: one_in(c, 2) });
}

fn channel_act(c: &mut Chance) -> super::Act {
    match c.below(4) {
        0 | 1 => super::Act::Join { guest: None },
        2 => super::Act::Leave { guest: None },
        _ => super::Act::Create { private: one_in(c, 2), guest: Some(pick(c, 4)) },
    }
}
