//! The administrative face: networks, tokens, groups, mods, audit, dead letters, backup and doctor for the operator, health
//! and metrics for whoever watches the node. It is apart from the wire of any protocol that agents speak.
//!
//! Not here: who may manage what, and the record of it (`rialto-node`).

pub mod api;
pub mod ops;

mod admin;
mod analytics;
mod browser;
mod mods;
mod operations;
mod request;
mod transfer;

use axum::Router;
use axum::extract::FromRef;
use axum::http::Method;
use browser::BrowserCodes;
use rialto_carrier::body::BodyUse;
use rialto_carrier::openapi::ApiPart;
use rialto_carrier::{Face, FaceState, operations as tables};

/// The face. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Operator {
    state: FaceState,
    /// One-time codes for the browser link.
    codes: BrowserCodes,
}

impl Operator {
    /// The face on a listener.
    pub fn new(state: FaceState) -> Operator {
        Operator { state, codes: BrowserCodes::default() }
    }

    /// A link that opens the operator's browser at this URL once, within ten minutes. The secret stands in the fragment,
    /// which no server and no log ever sees.
    pub fn browser_link(&self, url: &str) -> Option<String> {
        self.codes.link(url)
    }
}

impl FromRef<Operator> for FaceState {
    fn from_ref(operator: &Operator) -> FaceState {
        operator.state.clone()
    }
}

impl FromRef<Operator> for BrowserCodes {
    fn from_ref(operator: &Operator) -> BrowserCodes {
        operator.codes.clone()
    }
}

impl Face for Operator {
    fn routes(&self) -> Router {
        tables::routes(ops::OPS, ops::HANDLERS).with_state(self.clone())
    }

    fn openapi(&self) -> ApiPart {
        ApiPart::of(ops::OPS)
    }

    fn body_use(&self, method: &Method, path: &str) -> Option<BodyUse> {
        (method == Method::POST && path == "/v1/admin/import").then_some(BodyUse::Pieces)
    }
}
