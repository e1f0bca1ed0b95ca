//! The face contract: what every face has to keep, as scenarios that are written once and run over each door.
//!
//! A face brings a [`Driver`] and is named in [`doors`]; the scenarios, the interop matrix and their tables follow from that.
//! `docs/faces.md` tells how. Not here: what is special about one protocol; that is tested beside its face.

mod conversation;
mod driver;
mod event;
mod host;
mod matrix;
mod member;
mod page;
mod place;
mod scenarios;
mod stage;

pub use driver::{Answer, Carries, Door, Driver, Guest, Receipt};
pub use event::{Draft, Got, Refused};
pub use matrix::Matrix;
pub use member::{Carrier, Member, bearing, ids_of};
pub use page::{keep_section, table};
pub use place::Place;
pub use scenarios::{SCENARIOS, Scenario};
pub use stage::{Failure, Stage};

/// Every door there is. A new face is named here.
pub fn doors() -> Vec<Door> {
    let member = |carrier| move |name: &str, role| Member::new(carrier, name, role);
    vec![
        Door::new("HTTP inbox", member(Carrier::HttpInbox)).sending("HTTP"),
        Door::new("HTTP log", member(Carrier::HttpLog)),
        Door::new("SSE inbox", member(Carrier::SseInbox)),
        Door::new("SSE log", member(Carrier::SseLog)),
        Door::new("WebSocket", member(Carrier::WebSocket)).sending("WebSocket"),
        Door::new("gRPC Poll", member(Carrier::GrpcUnary)).sending("gRPC Send"),
        Door::new("gRPC Connect", member(Carrier::GrpcConnect)).sending("gRPC Connect"),
        Door::new("stdio", member(Carrier::Stdio)).sending("stdio"),
    ]
}
