//! The deliberate bugs, by name, and where each sits. They exist in builds with the feature `deliberate-bugs` only, which
//! one test turns on to see that every one of them is found.

/// A bug and the room it sits in.
pub const BUGS: &[(&str, &str)] = &[
    ("flush skipped", "store: log"),
    ("failed flush tried again", "store: log"),
    ("torn write accepted", "store: log format"),
    ("stale record of a recycled segment", "store: log format"),
    ("segment recycled too early", "store: recycling"),
    ("segment named before it has a header", "store: log"),
    ("ack before commit", "node: commit path"),
    ("read of what is not committed", "node: reads"),
    ("engine kept after a failed flush", "node: recovery"),
    ("snapshot ahead of the log", "node: snapshots"),
    ("dedup forgotten on restart", "node: id look-up"),
    ("batch reordered", "node: intake"),
    ("cursor by timestamp", "node: history"),
    ("redelivery of what is over", "node: delivery"),
    ("visibility unchecked in history", "engine: history"),
    ("off by one in ranges", "engine: acks"),
    ("ack floor too high", "engine: acks"),
    ("no receipt for who is away", "engine: receipts"),
    ("receipt twice", "engine: receipts"),
    ("apply differs from decide", "engine: decide"),
    ("dead letter twice", "engine: tick"),
    ("clock set ahead ends what waits", "engine: deadlines"),
    ("clock set back delays deadlines", "engine: deadlines"),
    ("clock jump ends sessions", "engine: tick"),
    ("stamp follows the wall clock", "engine: stamps"),
    ("mail queued for who left", "engine: apply"),
    ("narrowing forgotten", "engine: routing"),
    ("second end of work", "engine: work"),
    ("two takers win", "engine: work"),
    ("progress resets no deadline", "engine: work"),
    ("outsider sees work", "engine: work"),
    ("purge under open work", "engine: apply"),
    ("peers of a room unsorted", "engine: rooms"),
    ("narrowed mail is unread", "engine: conversations"),
    ("thread of a channel one has left", "engine: conversations"),
    ("result of a stranger", "engine: calls"),
    ("call outlives its owner", "engine: calls"),
    ("rule of members lets observers in", "engine: access"),
    ("clean-up takes what is named", "node: blobs"),
    ("orphans stay", "node: blobs"),
    ("blob not flushed", "store: blobs"),
    ("old name leads nowhere", "engine: names"),
    ("renamed without its mail", "engine: names"),
    ("parked event acked", "node: questions"),
    ("later event overtakes a parked one", "node: questions"),
    ("verdict applied to the wrong event", "node: checks"),
    ("verdict of a stranger", "node: checks"),
    ("second verdict acknowledged", "node: checks"),
    ("late verdict applied", "node: checks"),
    ("unloaded mod leaves events waiting", "node: checks"),
    ("what a mod sends comes twice", "node: checks"),
    ("owed emit forgotten at the start", "node: owed emits"),
    ("guard that fails lets through", "engine: mods"),
    ("only the first guard is asked", "engine: mods"),
    ("changed event unguarded", "engine: mods"),
    ("unloaded mod has no say", "engine: mods"),
];

/// Switches one bug on and all others off; an empty name switches all off.
#[cfg(feature = "deliberate-bugs")]
pub fn switch(name: &'static str) {
    rialto_node::bugs::switch(name);
    rialto_store::bugs::switch(name);
}
