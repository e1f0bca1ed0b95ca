//! `[networks.NAME]`: networks of other nodes that commands speak to by `NAME::entity`.

use crate::exit::CliError;
use rialto_client::{Endpoint, Secret};
use std::path::PathBuf;

/// A network that is configured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConfiguredNetwork {
    pub(crate) name: String,
    pub(crate) url: String,
    /// A file with the token: a secret has no place in a file of settings.
    pub(crate) token_file: Option<PathBuf>,
}

/// What each takes: name, default, documentation.
pub(crate) const KEYS: [(&str, &str, &str); 2] = [
    (
        "url",
        "none",
        "The network's endpoint, such as `https://node.example/v1/ws/ID`, or its node, where `NAME` is its id or name.",
    ),
    ("token_file", "none", "A file with the token that lets you in. It is sent to that URL only."),
];

impl ConfiguredNetwork {
    /// Reads one section; what is wrong is told with the rest.
    pub(crate) fn from_toml(name: &str, value: &toml::Value) -> Result<ConfiguredNetwork, String> {
        let table = value.as_table().ok_or("is not a section")?;
        if let Some(unknown) = table.keys().find(|key| KEYS.iter().all(|(known, ..)| known != key)) {
            return Err(format!("there is no key {unknown}{}", super::suggestion(unknown, KEYS.map(|(key, ..)| key))));
        }
        let text = |key: &str| match table.get(key) {
            None => Ok(None),
            Some(toml::Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
            Some(_) => Err(format!("{key}: expected text")),
        };
        let url = text("url")?.ok_or("url: say where the network is")?;
        Endpoint::parse(&url).map_err(|error| format!("url: {error}"))?;
        Ok(ConfiguredNetwork { name: name.to_owned(), url, token_file: text("token_file")?.map(PathBuf::from) })
    }

    /// What the network lets us in by.
    pub(crate) fn token(&self) -> Result<Option<Secret>, CliError> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let text = std::fs::read_to_string(path).map_err(|error| CliError::file("read", path, &error))?;
        Ok(Some(text.trim().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_read_and_its_faults_are_told() {
        let read = |text: &str| ConfiguredNetwork::from_toml("beta", &toml::Value::Table(text.parse().unwrap()));
        let beta = read("url = \"https://node.example/v1/ws/b1\"\ntoken_file = \"/run/beta\"").unwrap();
        assert_eq!((beta.url.as_str(), beta.token_file), ("https://node.example/v1/ws/b1", Some("/run/beta".into())));
        for (text, fault) in [
            ("", "url: say where"),
            ("url = 1", "url: expected text"),
            ("url = \"node.example\"", "usable URL"),
            ("url = \"https://x.example\"\ntoken = \"t\"", "there is no key token"),
        ] {
            assert!(read(text).unwrap_err().contains(fault), "{text}");
        }
    }
}
