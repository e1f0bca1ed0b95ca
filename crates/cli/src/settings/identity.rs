//! `[registrar]` and `[registrars.PREFIX]`: who registers names here, and where names of other prefixes are verified.

use super::suggestion;
use rialto_node::identities::{IdentitySettings, KeySource, RegistrarPlace, RegistrarSettings, Registration};

/// Prefixes that need no registrar, or can have none.
const NOT_REGISTRARS: [&str; 15] = [
    "key", "web", "system", "agent", "human", "core", "channel", "mod", "group", "resource", "local", "did", "http",
    "https", "role",
];
const KEYS: [(&str, &str, &str); 5] = [
    (
        "base_url",
        "none",
        "Where its records and DID documents are. `\"local\"` is this node. Without it nobody proves a key or a DID of it; tokens verify.",
    ),
    ("issuer", "`base_url`", "What its tokens say as `iss`."),
    ("jwks_url", "`base_url`/.well-known/jwks.json", "Where its keys are."),
    ("jwks_file", "none", "A file with its keys, instead of `jwks_url`."),
    ("did_method", "none", "The method of the DIDs that its names are, for instance `acme` for `did:acme:NAME`."),
];

/// What is configured of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Identity {
    /// Who registers names; by the listener if it is not said.
    pub(crate) registration: Option<Registration>,
    pub(crate) registrars: Vec<RegistrarSettings>,
}

impl Identity {
    /// Reads one section; what is wrong is told with the rest.
    pub(crate) fn add(&mut self, prefix: &str, value: &toml::Value) -> Result<(), String> {
        let registrar = registrar(prefix, value)?;
        self.registrars.retain(|known| known.prefix != registrar.prefix);
        self.registrars.push(registrar);
        Ok(())
    }

    /// As the node is told, which registers openly where nobody else reaches it.
    pub(crate) fn of_listener(&self, is_loopback: bool) -> IdentitySettings {
        let by_listener = if is_loopback { Registration::Open } else { Registration::Account };
        let registration = self.registration.unwrap_or(by_listener);
        let mut settings = IdentitySettings { registration, ..IdentitySettings::default() };
        settings.registrars.retain(|own| self.registrars.iter().all(|registrar| registrar.prefix != own.prefix));
        settings.registrars.extend(self.registrars.iter().cloned());
        settings
    }
}

/// The word for who registers names.
pub(crate) fn registration(text: &str) -> Result<Registration, String> {
    match text {
        "open" => Ok(Registration::Open),
        "account" => Ok(Registration::Account),
        _ => Err("expected one of open, account".to_owned()),
    }
}

fn registrar(prefix: &str, value: &toml::Value) -> Result<RegistrarSettings, String> {
    let table = value.as_table().ok_or("is not a section")?;
    let names = || KEYS.iter().map(|(name, ..)| *name);
    if let Some(unknown) = table.keys().find(|key| !names().any(|name| name == key.as_str())) {
        return Err(format!("there is no key {unknown}{}", suggestion(unknown, names())));
    }
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let starts = prefix.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    if !(2..=32).contains(&prefix.len()) || !starts || !prefix.bytes().all(legal) || NOT_REGISTRARS.contains(&prefix) {
        return Err(
            "a prefix is 2 to 32 of a-z 0-9 -, begins with a letter, and is none that has a meaning already".to_owned()
        );
    }
    let text = |key: &str| {
        table.get(key).map(|v| v.as_str().map(str::to_owned).ok_or(format!("{key}: expected text"))).transpose()
    };
    let url = |key: &str| -> Result<Option<String>, String> {
        let said = text(key)?;
        match said.as_deref() {
            Some(url) if !url.starts_with("https://") && !url.starts_with("http://") => {
                Err(format!("{key}: expected a URL such as https://id.example"))
            }
            Some(url) => Ok(Some(url.trim_end_matches('/').to_owned())),
            None => Ok(None),
        }
    };
    let (issuer, did_method) = (text("issuer")?, text("did_method")?);
    if text("base_url")?.as_deref() == Some("local") {
        if prefix != "openagents" {
            return Err("base_url: this node gives out names of openagents: alone".to_owned());
        }
        let did_method = did_method.or_else(|| Some("openagents".to_owned()));
        return Ok(RegistrarSettings { prefix: prefix.to_owned(), place: RegistrarPlace::Local, issuer, did_method });
    }
    let base_url = url("base_url")?;
    let keys = match (url("jwks_url")?, text("jwks_file")?, &base_url) {
        (Some(_), Some(_), _) => return Err("jwks_url and jwks_file: give one of them".to_owned()),
        (Some(url), None, _) => KeySource::Url(url),
        (None, Some(file), _) => KeySource::File(file.into()),
        (None, None, Some(base)) => KeySource::Url(format!("{base}/.well-known/jwks.json")),
        (None, None, None) => return Err("give base_url, jwks_url or jwks_file".to_owned()),
    };
    let issuer = issuer.or_else(|| base_url.clone()).ok_or("issuer: without base_url it has to be said")?;
    let own = prefix == "openagents" && did_method.is_none();
    let did_method = if own { Some("openagents".to_owned()) } else { did_method };
    Ok(RegistrarSettings {
        prefix: prefix.to_owned(),
        place: RegistrarPlace::Remote { base_url, keys },
        issuer: Some(issuer),
        did_method,
    })
}

/// The section as the documentation has it.
pub(crate) fn doc() -> String {
    let mut out = String::from(
        "\n## `[registrars.PREFIX]`\n\n\
         Where names of a prefix are verified, such as `[registrars.acme]` for `acme:NAME`. `openagents:` is this node unless a section\n\
         says otherwise; `key:` and `web:` prove themselves. [Identity](identity.md) says what is proved how.\n\n\
         | key | default | what it does |\n|---|---|---|\n",
    );
    for (key, default, doc) in KEYS {
        out.push_str(&format!("| `{key}` | {default} | {doc} |\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Identity, String> {
        let mut identity = Identity::default();
        let table: toml::Table = text.parse().unwrap();
        table.iter().try_for_each(|(prefix, value)| identity.add(prefix, value))?;
        Ok(identity)
    }

    #[test]
    fn registrars_are_read_and_their_faults_told() {
        let acme = read("[acme]\nbase_url = \"https://id.acme.example/\"\ndid_method = \"acme\"\n").unwrap();
        let place = RegistrarPlace::Remote {
            base_url: Some("https://id.acme.example".to_owned()),
            keys: KeySource::Url("https://id.acme.example/.well-known/jwks.json".to_owned()),
        };
        assert_eq!(acme.registrars[0].place, place);
        assert_eq!(acme.registrars[0].issuer.as_deref(), Some("https://id.acme.example"));
        let settings = acme.of_listener(false);
        assert_eq!(settings.registrars.len(), 2);
        assert_eq!(settings.registration, Registration::Account);
        for (text, fault) in [
            ("[acme]\n", "give base_url"),
            ("[acme]\njwks_file = \"k.json\"\n", "issuer"),
            ("[acme]\nbase_url = \"acme.example\"\n", "expected a URL"),
            ("[acme]\nbase_url = \"https://a.example\"\njwks_fil = \"x\"\n", "did you mean jwks_file?"),
            ("[key]\nbase_url = \"https://a.example\"\n", "a prefix is"),
            ("[acme]\nbase_url = \"local\"\n", "openagents: alone"),
        ] {
            let told = read(text).unwrap_err();
            assert!(told.contains(fault), "{text}: {told}");
        }
    }
}
