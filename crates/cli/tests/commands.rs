//! The command line against a real node, as somebody at a shell would use it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(unreachable_pub, clippy::wildcard_enum_match_arm, reason = "tests")]

mod support;

#[path = "commands/archive.rs"]
mod archive;
#[path = "commands/dead.rs"]
mod dead;
#[path = "commands/ladder.rs"]
mod ladder;
#[path = "commands/mods.rs"]
mod mods;
#[path = "commands/network.rs"]
mod network;
#[path = "commands/proxy.rs"]
mod proxy;
#[path = "commands/redact.rs"]
mod redact;
#[path = "commands/repair.rs"]
mod repair;
#[path = "commands/resources.rs"]
mod resources;
#[path = "commands/rooms.rs"]
mod rooms;
#[path = "commands/start.rs"]
mod start;
#[path = "commands/stdio.rs"]
mod stdio;
#[path = "commands/talk.rs"]
mod talk;
#[path = "commands/transfer.rs"]
mod transfer;
#[path = "commands/verify.rs"]
mod verify;
#[path = "commands/work.rs"]
mod work;

use serde_json::Value;
use support::Ran;

/// Ids of the events of a page or of lines.
#[track_caller]
fn ids(ran: &Ran) -> Vec<String> {
    let page = ran.json();
    let events = page["events"].as_array().unwrap_or_else(|| panic!("{page}"));
    events.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}

/// The rung of one recipient in an explanation.
fn rung<'e>(explained: &'e Value, recipient: &str) -> &'e Value {
    let list = explained["recipients"].as_array().unwrap_or_else(|| panic!("{explained}"));
    let found = list.iter().find(|entry| entry["recipient"] == recipient);
    &found.unwrap_or_else(|| panic!("{recipient} is not in {explained}"))["rung"]
}
