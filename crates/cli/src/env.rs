//! The environment, read once. Every variable the binary knows is named here or derived from the settings' keys.

use std::collections::BTreeMap;

/// Where the node is.
pub(crate) const URL: &str = "RIALTO_URL";
/// The credential for it.
pub(crate) const TOKEN: &str = "RIALTO_TOKEN";
/// Whom commands speak as.
pub(crate) const AGENT: &str = "RIALTO_AGENT";
/// The code of an invitation to join with.
pub(crate) const INVITE: &str = "RIALTO_INVITE";
/// The data directory.
pub(crate) const DATA: &str = "RIALTO_DATA";
/// The network to speak to.
pub(crate) const NETWORK: &str = "RIALTO_NETWORK";
/// The configuration file.
pub(crate) const CONFIG: &str = "RIALTO_CONFIG";
/// The credential for the network that a bridge reads from.
pub(crate) const FROM_TOKEN: &str = "RIALTO_FROM_TOKEN";
/// The credential for another network that is sent to.
pub(crate) const TO_TOKEN: &str = "RIALTO_TO_TOKEN";
/// Variables that are not settings.
pub(crate) const NAMED: &[&str] = &[URL, TOKEN, AGENT, INVITE, DATA, NETWORK, CONFIG, FROM_TOKEN, TO_TOKEN];

/// A copy of the environment; tests make their own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Env(BTreeMap<String, String>);

impl Env {
    /// The process's environment; values that are not text are left out.
    pub(crate) fn of_process() -> Env {
        let text = |s: std::ffi::OsString| s.into_string().ok();
        Env(std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect())
    }

    /// The value of a variable; empty counts as unset.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The same without these variables.
    pub(crate) fn without(&self, names: &[&str]) -> Env {
        Env(self
            .0
            .iter()
            .filter(|(name, _)| !names.contains(&name.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect())
    }

    /// Every variable whose name begins so.
    pub(crate) fn starting(&self, prefix: &str) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter().filter(move |(name, value)| name.starts_with(prefix) && !value.is_empty());
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Env {
    fn from(pairs: [(&str, &str); N]) -> Env {
        Env(pairs.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
    }
}
