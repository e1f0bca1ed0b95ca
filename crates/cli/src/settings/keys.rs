//! The one table of settings: name, kind, default, documentation, and where the value goes.

use super::Settings;
use rialto_model::limits;
use std::net::SocketAddr;

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Text,
    Flag,
    /// A whole number; `KiB`, `MiB`, `GiB` and `TiB` may follow it in text.
    Number,
    /// A list of texts; separated by commas in the environment.
    List,
}

/// A value before it found its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Raw {
    Text(String),
    Flag(bool),
    Number(u64),
    List(Vec<String>),
}

/// One setting.
pub(crate) struct Key {
    /// `section.key`.
    pub(crate) name: &'static str,
    pub(crate) kind: KeyKind,
    /// The default as TOML; empty when the key is absent by default.
    pub(crate) default: &'static str,
    /// An example for keys without a default.
    pub(crate) example: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) set: fn(&mut Settings, Raw) -> Result<(), String>,
}

impl Key {
    pub(crate) fn section(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(section, _)| section)
    }

    pub(crate) fn key(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, key)| key)
    }

    /// Its name in the environment.
    pub(crate) fn env(&self) -> String {
        format!("RIALTO_{}", self.name.replace('.', "_").to_uppercase())
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The key of this name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Section names in the order of the table.
pub(crate) fn sections() -> Vec<&'static str> {
    let mut out: Vec<&'static str> = KEYS.iter().map(Key::section).collect();
    out.dedup();
    out
}

impl Raw {
    /// A value of the environment or the command line.
    pub(crate) fn from_text(key: &Key, text: &str) -> Result<Raw, String> {
        match key.kind {
            KeyKind::Text => Ok(Raw::Text(text.to_owned())),
            KeyKind::Flag => match text {
                "true" | "1" | "yes" | "on" => Ok(Raw::Flag(true)),
                "false" | "0" | "no" | "off" => Ok(Raw::Flag(false)),
                _ => Err("expected true or false".to_owned()),
            },
            KeyKind::Number => number(text).map(Raw::Number),
            KeyKind::List => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Ok(Raw::List(items.map(str::to_owned).collect()))
            }
        }
    }

    /// A value of the configuration file.
    pub(crate) fn from_toml(key: &Key, value: &toml::Value) -> Result<Raw, String> {
        let wrong = || {
            let expected = match key.kind {
                KeyKind::Text => "expected text",
                KeyKind::Flag => "expected true or false",
                KeyKind::Number => "expected a whole number",
                KeyKind::List => "expected a list of texts",
            };
            expected.to_owned()
        };
        match key.kind {
            KeyKind::Text => value.as_str().map(|text| Raw::Text(text.to_owned())).ok_or_else(wrong),
            KeyKind::Flag => value.as_bool().map(Raw::Flag).ok_or_else(wrong),
            KeyKind::Number => match value.as_str() {
                Some(text) => number(text).map(Raw::Number),
                None => value.as_integer().and_then(|n| u64::try_from(n).ok()).map(Raw::Number).ok_or_else(wrong),
            },
            KeyKind::List => {
                let items = value.as_array().ok_or_else(wrong)?;
                let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
                texts.map(Raw::List).ok_or_else(wrong)
            }
        }
    }

    fn text(self) -> Result<String, String> {
        match self {
            Raw::Text(text) if !text.trim().is_empty() => Ok(text),
            Raw::Text(_) | Raw::Flag(_) | Raw::Number(_) | Raw::List(_) => Err("expected text".to_owned()),
        }
    }

    fn flag(self) -> Result<bool, String> {
        match self {
            Raw::Flag(flag) => Ok(flag),
            Raw::Text(_) | Raw::Number(_) | Raw::List(_) => Err("expected true or false".to_owned()),
        }
    }

    fn number(self) -> Result<u64, String> {
        match self {
            Raw::Number(number) => Ok(number),
            Raw::Text(_) | Raw::Flag(_) | Raw::List(_) => Err("expected a whole number".to_owned()),
        }
    }

    fn list(self) -> Result<Vec<String>, String> {
        match self {
            Raw::List(list) => Ok(list),
            Raw::Text(_) | Raw::Flag(_) | Raw::Number(_) => Err("expected a list of texts".to_owned()),
        }
    }

    fn between_1_and(self, max: usize) -> Result<usize, String> {
        match usize::try_from(self.number()?) {
            Ok(number) if (1..=max).contains(&number) => Ok(number),
            Ok(_) | Err(_) => Err(format!("must be between 1 and {max}")),
        }
    }
}

/// `4096`, `64KiB`, `10 GiB`.
fn number(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let factor: u64 = match unit.trim() {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err("expected a whole number".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a whole number".to_owned())?;
    number.checked_mul(factor).ok_or_else(|| "the number is too large".to_owned())
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    text.parse().map_err(|_| "expected an address such as 127.0.0.1:8700".to_owned())
}

fn public_url(text: String) -> Result<String, String> {
    if !text.starts_with("http://") && !text.starts_with("https://") {
        return Err("expected a URL such as https://rialto.example".to_owned());
    }
    match rialto_client::Endpoint::parse(&text) {
        Ok(endpoint) => Ok(endpoint.base()),
        Err(error) => Err(error.to_string()),
    }
}

fn one_of(text: String, words: &[&str]) -> Result<String, String> {
    if words.contains(&text.as_str()) { Ok(text) } else { Err(format!("expected one of {}", words.join(", "))) }
}

fn network_name(text: String) -> Result<String, String> {
    let chars = text.chars().count();
    if chars > limits::NETWORK_NAME_CHARS_MAX || text.chars().any(char::is_control) {
        return Err("a name has 1 to 128 characters".to_owned());
    }
    Ok(text)
}

fn proxies(list: Vec<String>) -> Result<Vec<rialto_carrier::Subnet>, String> {
    list.iter().map(|text| text.parse().map_err(|e: rialto_carrier::BadSubnet| e.to_string())).collect()
}

fn mod_names(list: Vec<String>) -> Result<Vec<String>, String> {
    list.iter().try_for_each(|name| super::mods::known(name).map(drop))?;
    Ok(list)
}

/// Every setting, in the order it is documented.
pub(crate) const KEYS: &[Key] = &[
    Key {
        name: "server.listen",
        kind: KeyKind::Text,
        default: "\"127.0.0.1:8700\"",
        example: "",
        doc: "Address and port of the one listener. Port 0 takes a free one and writes it to the run file. Beyond loopback it needs TLS, or `insecure`.",
        set: |s, raw| listen(&raw.text()?).map(|value| s.server.listen = value),
    },
    Key {
        name: "server.public_url",
        kind: KeyKind::Text,
        default: "",
        example: "\"https://rialto.example\"",
        doc: "The URL others reach this node by, for profiles and links. Without it the request's own host is used.",
        set: |s, raw| public_url(raw.text()?).map(|value| s.server.public_url = Some(value)),
    },
    Key {
        name: "server.allowed_origins",
        kind: KeyKind::List,
        default: "[]",
        example: "",
        doc: "Web origins that may call this node from a browser, besides its own host and loopback.",
        set: |s, raw| raw.list().map(|value| s.server.allowed_origins = value),
    },
    Key {
        name: "server.allowed_hosts",
        kind: KeyKind::List,
        default: "[]",
        example: "",
        doc: "Host names this node answers to, besides loopback, the listen address and the host of `public_url`.",
        set: |s, raw| raw.list().map(|value| s.server.allowed_hosts = value),
    },
    Key {
        name: "server.trusted_proxies",
        kind: KeyKind::List,
        default: "[]",
        example: "",
        doc: "Addresses and ranges (`10.0.0.0/8`) of proxies before this node. Only their `Forwarded` and `X-Forwarded-For`, `-Host` and `-Proto` are believed.",
        set: |s, raw| proxies(raw.list()?).map(|value| s.server.trusted_proxies = value),
    },
    Key {
        name: "server.tls_cert",
        kind: KeyKind::Text,
        default: "",
        example: "\"/etc/rialto/cert.pem\"",
        doc: "Certificate chain in PEM. Goes together with `tls_key`.",
        set: |s, raw| raw.text().map(|value| s.server.tls_cert = Some(value.into())),
    },
    Key {
        name: "server.tls_key",
        kind: KeyKind::Text,
        default: "",
        example: "\"/etc/rialto/key.pem\"",
        doc: "Private key in PEM.",
        set: |s, raw| raw.text().map(|value| s.server.tls_key = Some(value.into())),
    },
    Key {
        name: "server.insecure",
        kind: KeyKind::Flag,
        default: "false",
        example: "",
        doc: "Listen beyond loopback without TLS, for instance behind a proxy that has it.",
        set: |s, raw| raw.flag().map(|value| s.server.insecure = value),
    },
    Key {
        name: "store.data",
        kind: KeyKind::Text,
        default: "",
        example: "\"/var/lib/rialto\"",
        doc: "Data directory. Without it: `RIALTO_DATA`, else the platform's data directory (`~/.local/share/rialto`).",
        set: |s, raw| raw.text().map(|value| s.store.data = value.into()),
    },
    Key {
        name: "store.disk_budget_bytes",
        kind: KeyKind::Number,
        default: "0",
        example: "",
        doc: "How much the data directory may hold before writes are refused; 0 is no budget. `\"20GiB\"` is understood.",
        set: |s, raw| raw.number().map(|value| s.store.disk_budget_bytes = value),
    },
    Key {
        name: "store.free_space_floor_bytes",
        kind: KeyKind::Number,
        default: "\"512MiB\"",
        example: "",
        doc: "Writes are refused before less than this is free on the disk.",
        set: |s, raw| raw.number().map(|value| s.store.free_space_floor_bytes = value),
    },
    Key {
        name: "network.name",
        kind: KeyKind::Text,
        default: "\"main\"",
        example: "",
        doc: "Name of the network made at the first start.",
        set: |s, raw| network_name(raw.text()?).map(|value| s.network.name = value),
    },
    Key {
        name: "network.open",
        kind: KeyKind::Flag,
        default: "false",
        example: "",
        doc: "Make that network open: nobody needs a token. Loopback listeners only.",
        set: |s, raw| raw.flag().map(|value| s.network.open = value),
    },
    Key {
        name: "mods.load",
        kind: KeyKind::List,
        default: "[]",
        example: "",
        doc: "Mods that the default network has loaded after a start. Those it has besides stay.",
        set: |s, raw| mod_names(raw.list()?).map(|value| s.mods.load = value),
    },
    Key {
        name: "workspaces.open_creation",
        kind: KeyKind::Flag,
        default: "",
        example: "true",
        doc: "Whether anybody who reaches this node may make workspaces; otherwise it takes the admin secret. Not set, who is on this machine may, as long as the listener is on loopback and neither a public URL nor a trusted proxy is set.",
        set: |s, raw| raw.flag().map(|value| s.workspaces.open_creation = Some(value)),
    },
    Key {
        name: "log.level",
        kind: KeyKind::Text,
        default: "\"info\"",
        example: "",
        doc: "Least severity that is logged: error, warn, info, debug or trace.",
        set: |s, raw| {
            one_of(raw.text()?, &["error", "warn", "info", "debug", "trace"]).map(|value| s.log.level = value)
        },
    },
    Key {
        name: "log.format",
        kind: KeyKind::Text,
        default: "\"text\"",
        example: "",
        doc: "`text` for people or `json` for programs. The log goes to standard error.",
        set: |s, raw| one_of(raw.text()?, &["text", "json"]).map(|value| s.log.json = value == "json"),
    },
    Key {
        name: "search.enabled",
        kind: KeyKind::Flag,
        default: "true",
        example: "",
        doc: "Keep the full-text index. Without it `search` reads the log.",
        set: |s, raw| raw.flag().map(|value| s.search.enabled = value),
    },
    Key {
        name: "limits.connections_max",
        kind: KeyKind::Number,
        default: "20000",
        example: "",
        doc: "Open connections at a time.",
        set: |s, raw| raw.between_1_and(limits::CONNECTIONS_MAX).map(|value| s.limits.connections_max = value),
    },
    Key {
        name: "limits.members_max",
        kind: KeyKind::Number,
        default: "10000",
        example: "",
        doc: "Members of one network.",
        set: |s, raw| raw.between_1_and(limits::MEMBERS_MAX).map(|value| s.limits.members_max = value),
    },
    Key {
        name: "outbound.allow_private_hosts",
        kind: KeyKind::Flag,
        default: "false",
        example: "",
        doc: "Let what is fetched from others come from private hosts too: this machine, private networks, names without a dot, and plain http there. Metadata services of clouds are never asked.",
        set: |s, raw| raw.flag().map(|value| s.outbound.allow_private_hosts = value),
    },
    Key {
        name: "outbound.extra_ca_file",
        kind: KeyKind::Text,
        default: "",
        example: "\"/etc/rialto/ca.pem\"",
        doc: "Certificates in PEM by which hosts are trusted as well, besides those of the platform or of `SSL_CERT_FILE`.",
        set: |s, raw| raw.text().map(|value| s.outbound.extra_ca_file = Some(value.into())),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_of_the_table_are_the_defaults_of_the_code() {
        let expected = Settings::defaults("/data".into());
        let mut settings = expected.clone();
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            let table: toml::Table = format!("value = {}", key.default).parse().unwrap();
            (key.set)(&mut settings, Raw::from_toml(key, &table["value"]).unwrap()).unwrap();
        }
        assert_eq!(settings, expected);
    }

    #[test]
    fn every_key_has_a_default_or_an_example_and_a_sentence() {
        for key in KEYS {
            assert!(key.default.is_empty() != key.example.is_empty(), "{key:?}");
            assert!(key.doc.ends_with('.'), "{key:?}");
            if !key.example.is_empty() {
                let table: toml::Table = format!("value = {}", key.example).parse().unwrap();
                let mut settings = Settings::defaults("/data".into());
                (key.set)(&mut settings, Raw::from_toml(key, &table["value"]).unwrap()).unwrap();
            }
        }
    }

    #[test]
    fn numbers_with_and_without_units() {
        assert_eq!(number("4096"), Ok(4096));
        assert_eq!(number("64KiB"), Ok(65536));
        assert_eq!(number("10 GiB"), Ok(10 << 30));
        for bad in ["", "KiB", "-1", "1.5", "1GB", "99999999TiB"] {
            assert!(number(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_are_judged_by_their_key() {
        let mut settings = Settings::defaults("/data".into());
        let mut set = |name: &str, text: &str| {
            let key = find(name).unwrap();
            Raw::from_text(key, text).and_then(|raw| (key.set)(&mut settings, raw))
        };
        assert!(set("log.level", "loud").is_err());
        assert!(set("limits.members_max", "0").is_err());
        assert!(set("server.public_url", "ftp://x").is_err());
        assert!(set("network.name", &"x".repeat(limits::NETWORK_NAME_CHARS_MAX + 1)).is_err());
        assert!(set("server.allowed_hosts", "a, b ,").is_ok());
        assert!(set("server.listen", "[::1]:0").is_ok());
        assert_eq!(settings.server.allowed_hosts, ["a", "b"]);
    }
}
