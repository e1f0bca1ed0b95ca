//! Scripts as a person reads them.

use super::{ADDRESSES, Admin, CHANNELS, Script, Step};
use std::fmt;

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |who: &usize| ADDRESSES.get(who % ADDRESSES.len()).copied().unwrap_or_default();
        let room = |c: &usize| CHANNELS.get(c % CHANNELS.len()).copied().unwrap_or_default();
        match self {
            Step::Join { net, who, stream, keep, window, observer, resume, replay, named, compat } => {
                write!(f, "net {net}: {} joins", name(who))?;
                let marks = [
                    (*stream, "with a stream"),
                    (*keep, "keeping its session"),
                    (*observer, "as observer"),
                    (*resume, "resuming"),
                    (*replay, "with a replay"),
                    (*named, "with a token of its own"),
                    (*compat, "as clients of workspace servers do"),
                ];
                for (_, mark) in marks.iter().filter(|(on, _)| *on) {
                    write!(f, ", {mark}")?;
                }
                if *stream { write!(f, ", window {window}") } else { Ok(()) }
            }
            Step::Leave { net, who, forget: false } => write!(f, "net {net}: {} leaves", name(who)),
            Step::Leave { net, who, forget: true } => write!(f, "net {net}: {} leaves for good", name(who)),
            Step::Hangup { net, who } => write!(f, "net {net}: {} closes its stream", name(who)),
            Step::Vanish { net, who } => write!(f, "net {net}: {} vanishes", name(who)),
            Step::Listen { net, who, on: true } => write!(f, "net {net}: {} reads again", name(who)),
            Step::Listen { net, who, on: false } => write!(f, "net {net}: {} stops reading", name(who)),
            Step::Send { net, who, to, which, count, calm, form } => {
                write!(f, "net {net}: {} sends {count} x {which:?} to {to:?}, form {form}", name(who))?;
                if *calm { write!(f, ", alone") } else { Ok(()) }
            }
            Step::Channel { net, who, act, channel, calm } => {
                write!(f, "net {net}: {} {act:?} channel {}", name(who), room(channel))?;
                if *calm { write!(f, ", alone") } else { Ok(()) }
            }
            Step::Ack { net, who, what, stream } => {
                write!(f, "net {net}: {} acks {what:?}{}", name(who), if *stream { " on its stream" } else { "" })
            }
            Step::Admin { net, op: Admin::Role(who, role) } => {
                write!(f, "net {net}: operator makes {} {role}", name(who))
            }
            Step::Admin { net, op: Admin::Remove(who) } => write!(f, "net {net}: operator removes {}", name(who)),
            Step::Admin { net, op } => write!(f, "net {net}: operator {op:?}"),
            Step::Manage { net, by, deed } => write!(f, "net {net}: by hand of {by:?} {deed:?}"),
            Step::Guest { net, who, act, calm } => {
                write!(f, "net {net}: {} {act:?}", name(who))?;
                if *calm { write!(f, ", alone") } else { Ok(()) }
            }
            Step::Resource { net, who, act, calm } => {
                write!(f, "net {net}: {} {act:?}", name(who))?;
                if *calm { write!(f, ", alone") } else { Ok(()) }
            }
            Step::Talk { net, who, talk, calm } => {
                write!(f, "net {net}: {} {talk:?}", name(who))?;
                if *calm { write!(f, ", alone") } else { Ok(()) }
            }
            Step::Work { net, by, act, nth, calm } => {
                write!(f, "net {net}: {by} {act} (unit {nth} from the newest)")?;
                if *calm { write!(f, ", alone") } else { Ok(()) }
            }
            Step::Mods { net, who, act, calm } => {
                write!(f, "net {net}: {} {act:?}", name(who))?;
                if *calm { write!(f, ", alone") } else { Ok(()) }
            }
            Step::Read { net, who, form, page } => {
                write!(f, "net {net}: {} reads history, form {form}, {page} a page", name(who))
            }
            Step::Fact { net, face, key, value, sure } => {
                write!(f, "net {net}: face {face} sets fact {key} to {value:?}")?;
                if *sure { write!(f, ", if it is as known") } else { Ok(()) }
            }
            Step::Pump => write!(f, "the log commits one group"),
            Step::Errand => write!(f, "one background errand is done"),
            Step::Settle => write!(f, "everything settles"),
            Step::Look => write!(f, "everything settles and everything is compared, the state with the log too"),
            Step::Pass { ms } => write!(f, "{ms} ms pass"),
            Step::Leap { ms } => write!(f, "the wall clock is set {ms} ms"),
            Step::Recycle => write!(f, "old segments are recycled"),
            Step::Trouble { what, skip, lasting } => {
                write!(f, "{what:?} after {skip} calls{}", if *lasting { ", until healed" } else { ", once" })
            }
            Step::Heal => write!(f, "the disk is healed"),
            Step::PowerCut => write!(f, "power cut, start"),
            Step::Kill => write!(f, "kill -9, start"),
            Step::Fall { calls, power, starting } => {
                let end = if *power { "the power goes" } else { "kill -9" };
                let when = if *starting { "of the next start" } else { "from now" };
                write!(f, "{end} in the middle of change {} of the disk {when}, start", calls + 1)
            }
            Step::Restart => write!(f, "clean stop, start"),
            Step::Rot { file, byte, bit } => write!(f, "stop, bit {bit} of byte {byte} of file {file} rots, start"),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "chance {}, segments of {} bytes, a snapshot every {}",
            self.seed, self.segment_bytes, self.snapshot_bytes
        )?;
        if self.search {
            writeln!(f, "with a search index")?;
        }
        if self.direct {
            writeln!(f, "with direct writes")?;
        }
        for (n, net) in self.nets.iter().enumerate() {
            let words = [
                (net.workspace, "workspace", "plain"),
                (net.persistence, "history", "no history"),
                (net.at_least_once, "at least once", "at most once"),
                (net.os, "durability os", "durability sync"),
                (net.closed, "closed", "open"),
                (net.token_manages, "the token manages", "the token joins"),
                (net.guests, "members invite", "the operator invites"),
            ];
            let words: Vec<&str> = words.iter().map(|(on, yes, no)| if *on { *yes } else { *no }).collect();
            let limits = (net.ttl_ms, net.max_pending, net.max_pending_kib, net.max_attempts, net.max_events);
            writeln!(f, "net {n}: {}, (ttl, pending, KiB, attempts, events) {limits:?}", words.join(", "))?;
        }
        for (n, step) in self.steps.iter().enumerate() {
            writeln!(f, "{:>3}  {step}", n + 1)?;
        }
        Ok(())
    }
}
