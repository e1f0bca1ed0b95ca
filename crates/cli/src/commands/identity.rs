//! `rialto identity …`: keys of one's own, names at a node's registrar, and what they prove.

use crate::context::Context;
use crate::exit::CliError;
use crate::keyring;
use clap::Subcommand;
use rialto_node::identity::{KeyPair, Secret};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Verbs of `identity`.
#[derive(Debug, Subcommand)]
pub(crate) enum Identity {
    /// Make a key for a name, in a file that only you can read
    New {
        /// The name; openagents:NAME proves itself with it
        name: String,
        /// How it signs
        #[arg(long, value_parser = ["ed25519", "p256"], default_value = "ed25519")]
        algorithm: String,
        /// Take a key that exists: PEM (PKCS #8), Ed25519, P-256 or RSA
        #[arg(long, value_name = "FILE")]
        import: Option<PathBuf>,
    },
    /// List names that have keys
    List,
    /// Show the public half of a key
    Show {
        /// The name
        name: String,
    },
    /// Register a name with its key at the node's registrar
    Register {
        /// The name
        name: String,
        /// The key of an account, where registering takes one
        #[arg(long, value_name = "KEY")]
        account: Option<String>,
    },
    /// Sign a challenge to join, and print the credentials
    Prove {
        /// The name
        name: String,
        /// The address to join under; openagents:NAME if it is not said
        #[arg(long)]
        address: Option<String>,
    },
    /// Get a token from the node's registrar
    Token {
        /// The name
        name: String,
        /// For whom: the id of a network
        #[arg(long)]
        audience: Option<String>,
    },
    /// Replace the key of a registered name: whoever came in with the old one is out
    Rotate {
        /// The name
        name: String,
        /// How the new key signs
        #[arg(long, value_parser = ["ed25519", "p256"], default_value = "ed25519")]
        algorithm: String,
    },
    /// Revoke a registered name: nobody proves it any more, and nobody gets it again
    Revoke {
        /// The name
        name: String,
    },
    /// Show the DID document of a registered name
    Did {
        /// The name, or a DID
        name: String,
    },
    /// Accounts that may register names: list, add NAME, remove NAME
    #[command(subcommand)]
    Account(Account),
}

/// Verbs of `identity account`.
#[derive(Debug, Subcommand)]
pub(crate) enum Account {
    /// List accounts
    List,
    /// Make an account; its key is shown this once
    Add {
        /// Its name
        name: String,
    },
    /// Take an account away; names that it registered stay
    Remove {
        /// Its name
        name: String,
    },
}

fn public(name: &str, key: &KeyPair) -> Result<Value, CliError> {
    let pem = key.public().to_pem().map_err(|error| CliError::internal(error.to_string()))?;
    let did = key.public().to_multikey().map(|multikey| format!("did:key:{multikey}"));
    Ok(json!({
        "name": name, "algorithm": key.public().algorithm().name(), "thumbprint": key.public().thumbprint(),
        "did": did, "public_key_pem": pem,
    }))
}

fn lines(value: &Value) -> String {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or("none").to_owned();
    format!(
        "{}  {}  {}\n{}\n{}",
        text("name"),
        text("algorithm"),
        text("thumbprint"),
        text("did"),
        text("public_key_pem").trim_end()
    )
}

fn made(word: &str) -> Result<KeyPair, CliError> {
    KeyPair::generate(keyring::algorithm(word)).map_err(|error| CliError::internal(error.to_string()))
}

impl Identity {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let ring = cx.keyring()?;
        match self {
            Identity::New { name, algorithm, import } => {
                let key = match import {
                    None => made(&algorithm)?,
                    Some(file) => {
                        let read = std::fs::read_to_string(&file);
                        let text = read.map_err(|error| CliError::usage(format!("{}: {error}", file.display())))?;
                        KeyPair::from_pem(&text)
                            .map_err(|error| CliError::usage(format!("{}: {error}", file.display())))?
                    }
                };
                let path = ring.add(&name, &key)?;
                let mut told = public(&name, &key)?;
                if let Some(map) = told.as_object_mut() {
                    map.insert("file".into(), json!(path.display().to_string()));
                }
                cx.out.show(&told, |told, _| format!("{}\nkept in {}", lines(told), path.display()))
            }
            Identity::List => {
                let names: Vec<Value> = ring
                    .names()?
                    .into_iter()
                    .map(|name| public(&name, &ring.get(&name)?))
                    .collect::<Result<_, CliError>>()?;
                cx.out.show(&json!({ "identities": names }), |_, _| {
                    let line = |one: &Value| {
                        format!(
                            "{}  {}",
                            one["name"].as_str().unwrap_or_default(),
                            one["algorithm"].as_str().unwrap_or_default()
                        )
                    };
                    names.iter().map(line).collect::<Vec<_>>().join("\n")
                })
            }
            Identity::Show { name } => {
                let told = public(&name, &ring.get(&name)?)?;
                cx.out.show(&told, |told, _| lines(told))
            }
            Identity::Register { name, account } => {
                let key = ring.get(&name)?;
                let node = cx.stranger()?;
                let http = match account {
                    Some(account) => node.with_bearer(account),
                    None => node,
                };
                let pem = key.public().to_pem().map_err(|error| CliError::internal(error.to_string()))?;
                let done = http.register_name(&json!({ "agent_name": name, "public_key_pem": pem })).await?;
                cx.out.show(&done, |done, _| {
                    let text = |member: &str| done.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
                    format!("{} is registered\nits API key, shown this once: {}", text("agent_id"), text("api_key"))
                })
            }
            Identity::Prove { name, address } => {
                let key = ring.get(&name)?;
                let address = address.unwrap_or_else(|| format!("openagents:{name}"));
                let challenge = cx.stranger()?.challenge(&address, key.public().algorithm().name()).await?;
                let proof = keyring::answer(&key, &challenge)?;
                let proves = address.strip_prefix("key:").or(address.strip_prefix("web:")).is_some();
                let credentials = if proves {
                    json!({ "did": { "did": format!("did:{address}"), "nonce": proof.nonce, "signature": proof.signature } })
                } else {
                    json!({ "key": proof })
                };
                let told = json!({ "agent_id": address, "credentials": credentials });
                cx.out.show(&told, |told, _| told.to_string())
            }
            Identity::Token { name, audience } => {
                let key = ring.get(&name)?;
                let http = cx.stranger()?;
                let challenge = http.name_challenge(&name, key.public().algorithm().name()).await?;
                let proof = keyring::answer(&key, &challenge)?;
                let told = http.name_token(&name, &proof, audience.as_deref()).await?;
                cx.out.show(&told, |told, _| {
                    told.get("accessToken").and_then(Value::as_str).unwrap_or_default().to_owned()
                })
            }
            Identity::Rotate { name, algorithm } => {
                let (old, new) = (ring.get(&name)?, made(&algorithm)?);
                let pem = new.public().to_pem().map_err(|error| CliError::internal(error.to_string()))?;
                // The new key is kept before the registrar knows it: whatever happens in between, none is lost.
                let aside = format!("{name}.next");
                let _ = ring.add(&aside, &new)?;
                let done = act(cx, &old, "rotate", &name, Some(&pem)).await;
                match done {
                    Ok(done) => {
                        ring.replace(&name, &new)?;
                        ring.remove(&aside)?;
                        cx.out.show(&done, |_, _| {
                            format!("{name} has a new key; whoever came in with the old one is out")
                        })
                    }
                    Err(error) => {
                        if error.code.is_some() {
                            ring.remove(&aside)?;
                        }
                        Err(error)
                    }
                }
            }
            Identity::Revoke { name } => {
                let key = ring.get(&name)?;
                let done = act(cx, &key, "revoke", &name, None).await?;
                cx.out.show(&done, |_, _| {
                    format!("{name} is revoked: nobody proves it any more, and nobody gets it again")
                })
            }
            Identity::Did { name } => {
                let did = if name.starts_with("did:") { name } else { format!("did:openagents:{name}") };
                let told = cx.stranger()?.did(&did).await?;
                cx.out.show(&told, |told, _| serde_json::to_string_pretty(told).unwrap_or_default())
            }
            Identity::Account(verb) => verb.run(cx).await,
        }
    }
}

/// Acts on a registered name with the key in use.
async fn act(cx: &mut Context, key: &KeyPair, act: &str, name: &str, new: Option<&str>) -> Result<Value, CliError> {
    let http = cx.stranger()?;
    let challenge = http.name_challenge(name, key.public().algorithm().name()).await?;
    let proof = keyring::answer(key, &challenge)?;
    Ok(http.change_name(act, name, new, &proof).await?)
}

impl Account {
    async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let http = cx.operator()?;
        match self {
            Account::List => {
                let told = http.registrar_accounts().await?;
                cx.out.show(&told, |told, _| {
                    let accounts = told.get("accounts").and_then(Value::as_array).cloned().unwrap_or_default();
                    accounts.iter().filter_map(|one| one["name"].as_str()).collect::<Vec<_>>().join("\n")
                })
            }
            Account::Add { name } => {
                let told = http.add_registrar_account(&name).await?;
                let key = Secret::presented(told.get("key").and_then(Value::as_str).unwrap_or_default());
                cx.out.show(&told, |_, _| {
                    format!("{name} may register names\nits key, shown this once: {}", key.expose())
                })
            }
            Account::Remove { name } => {
                let told = http.remove_registrar_account(&name).await?;
                cx.out.show(&told, |_, _| format!("{name} is removed; names that it registered stay"))
            }
        }
    }
}
