//! Where the networks of this node are found, for a sender that addressed another one than its own (OpenAgents sheet, section 7).
//!
//! Not here: networks of other nodes; the sender resolves those itself.

use crate::budget::Accounts;
use crate::identities::Identities;
use crate::network::Shared;
use rialto_model::network::Status;
use rialto_model::{ErrorCode, Fault};
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock, Weak};

/// See above.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    base_url: RwLock<Option<String>>,
    networks: RwLock<Vec<Weak<Shared>>>,
    /// No network admits who shows nothing, unless it was opened for this run.
    pub(crate) closed: AtomicBool,
    /// What is held for clients that have not read it yet.
    pub(crate) accounts: Arc<Accounts>,
    /// Who is who.
    pub(crate) identities: Identities,
}

impl Shared {
    /// Whether anybody may know of it.
    pub(crate) fn is_listed(&self) -> bool {
        let settings = self.settings.read().unwrap_or_else(PoisonError::into_inner);
        settings.metadata.get("listed").and_then(Value::as_bool).unwrap_or(true)
    }

    fn is_called(&self, name: &str) -> bool {
        *self.id == *name || self.settings.read().unwrap_or_else(PoisonError::into_inner).name == name
    }

    fn is_archived(&self) -> bool {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).status == Status::Archived
    }
}

impl Directory {
    pub(crate) fn of(identities: Identities) -> Directory {
        Directory { identities, ..Directory::default() }
    }

    pub(crate) fn set_base_url(&self, url: &str) {
        self.identities.set_base_url(url);
        *self.base_url.write().unwrap_or_else(PoisonError::into_inner) = Some(url.trim_end_matches('/').to_owned());
    }

    pub(crate) fn add(&self, network: &Arc<Shared>) {
        self.networks.write().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(network));
    }

    /// The profile of a network of this node that may be known to anybody.
    fn profile_url(&self, name: &str) -> Option<String> {
        let base = self.base_url.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        let networks = self.networks.read().unwrap_or_else(PoisonError::into_inner);
        let mut shown = networks.iter().filter_map(Weak::upgrade).filter(|n| n.is_listed() && !n.is_archived());
        let found = shown.find(|network| network.is_called(name))?;
        Some(format!("{base}/v1/ws/{}/profile", found.id))
    }

    /// Adds to a `cross_network` refusal where that network is, if it is one of this node that may be known.
    pub(crate) fn locate(&self, fault: Fault) -> Fault {
        if fault.code != ErrorCode::CrossNetwork {
            return fault;
        }
        let name = fault.details.as_ref().and_then(|d| d.get("network")).and_then(Value::as_str);
        let Some(url) = name.and_then(|name| self.profile_url(name)) else { return fault };
        let mut details = fault.details.as_deref().cloned().unwrap_or_else(|| json!({}));
        if let Some(map) = details.as_object_mut() {
            map.insert("profile_url".to_owned(), json!(url));
        }
        fault.details(details)
    }
}
