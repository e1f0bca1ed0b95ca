//! What the node's own registrar does for those who ask (OpenAgents sheet, section 3.6), and who may ask for what.

use super::challenges::Purpose;
use super::registrar::{self, Account, NameRecord, NewName};
use super::{Identities, Passport, Registration, is_signed};
use crate::node::Node;
use rialto_engine::AdminOp;
use rialto_identity::did::document::NetworkService;
use rialto_identity::{Algorithm, KeySet, PublicKey, Secret};
use rialto_model::view::ChallengeView;
use rialto_model::{ErrorCode, Fault, Millis};
use rialto_store::AdminEntry;
use serde_json::Value;
use std::sync::Arc;

const PREFIX: &str = "openagents";

/// How somebody shows that a registered name is its own.
#[derive(Debug, Clone)]
pub enum NameProof {
    /// The operator acts.
    Operator,
    /// The name's API key, or a token of this registrar.
    Bearer(Secret),
    /// A challenge, signed with the name's key.
    Signed {
        /// The challenge.
        nonce: String,
        /// Base64 or base64url.
        signature: String,
    },
}

/// A token of a registrar that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedToken {
    /// The address it proves.
    pub address: Box<str>,
    /// How well.
    pub level: u8,
    /// Until when, milliseconds.
    pub expires_at: Millis,
}

fn purpose(name: &str) -> Purpose {
    Purpose::Registrar { prefix: PREFIX.into(), name: name.into() }
}

impl Identities {
    async fn write<T: Send + 'static>(
        &self,
        act: impl FnOnce(&registrar::Registrar, Millis) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let (identities, now) = (self.clone(), self.now().wall);
        let done = self.0.host.blocking(move || act(identities.registrar(), now)).await;
        done.map_err(|_| Fault::from(ErrorCode::Internal))?
    }

    /// Registers a name; gives its API key, which is known nowhere else.
    pub async fn register(
        &self,
        operator: bool,
        bearer: Option<[u8; 32]>,
        new: NewName,
    ) -> Result<(Arc<NameRecord>, Secret), Fault> {
        let account = bearer.and_then(|hash| self.registrar().account_of(&hash));
        if !operator && account.is_none() {
            if bearer.is_some() {
                let text = "this is the key of no account: leave it out, or show another (the operator makes accounts)";
                return Err(Fault::new(ErrorCode::Unauthenticated, text));
            }
            if self.settings().registration == Registration::Account {
                let text = "registering takes the key of an account as Bearer: the operator makes accounts";
                return Err(Fault::new(ErrorCode::Unauthenticated, text));
            }
        }
        self.write(move |registrar, now| registrar.register(new, account.as_deref(), now)).await
    }

    /// A name as it was registered.
    pub fn name_record(&self, name: &str) -> Result<Arc<NameRecord>, Fault> {
        self.registrar().record(name)
    }

    /// All names.
    pub fn names(&self) -> Vec<Arc<NameRecord>> {
        self.registrar().names()
    }

    /// A challenge to act at the registrar under a name.
    pub fn name_challenge(&self, name: &str, algorithm: &str) -> Result<ChallengeView, Fault> {
        let (_, key) = self.registrar().record(name).and_then(|_| self.registrar().key_of(name))?;
        if Algorithm::from_name(algorithm) != Some(key.algorithm()) {
            let text = format!("the key of {name} signs with {}", key.algorithm());
            return Err(Fault::new(ErrorCode::InvalidArgument, text).field("algorithm"));
        }
        Ok((&self.issue(purpose(name), key.algorithm())?).into())
    }

    /// The key that a signed challenge proves.
    fn signed_by(&self, name: &str, nonce: &str, signature: &str) -> Result<PublicKey, Fault> {
        let challenge = self.take(nonce, &purpose(name))?;
        let (_, key) = self.registrar().key_of(name).map_err(super::not_told)?;
        is_signed(&challenge, &key, signature)?;
        Ok(key)
    }

    /// A token for who answers a challenge.
    pub async fn name_token(
        &self,
        name: String,
        nonce: &str,
        signature: &str,
        audience: Option<String>,
    ) -> Result<String, Fault> {
        let key = self.signed_by(&name, nonce, signature)?;
        let issuer = self.issuer();
        self.write(move |registrar, now| registrar.token(&name, &key, (&issuer, audience.as_deref()), now)).await
    }

    /// Whether a token holds, whatever network it is for.
    pub async fn verify_token(&self, token: &Secret) -> Result<VerifiedToken, Fault> {
        let Passport { proved, .. } = self.passport(token).await?;
        let expires_at = proved.ends_at.unwrap_or_default().saturating_sub(super::AFTER_EXP_MS);
        Ok(VerifiedToken { address: proved.address.clone(), level: proved.level, expires_at })
    }

    /// The name that an API key is of.
    pub fn verify_key(&self, sha256: &[u8; 32]) -> Option<String> {
        self.registrar().by_api_key(sha256).map(|record| record.name.clone())
    }

    /// The DID document of a name; with endpoints as objects if the seed's form is asked for.
    pub fn document(&self, did: &str, objects: bool) -> Result<Value, Fault> {
        self.registrar().document(&registrar::name_of(did)?, objects)
    }

    /// The keys that tokens of this registrar verify with.
    pub async fn keys(&self) -> Result<KeySet, Fault> {
        self.write(|registrar, now| registrar.keys(now)).await
    }

    /// Refuses who does not show that a name is its own. A token is enough only where nothing is changed that outlives it.
    async fn owns(&self, name: &str, proof: &NameProof, takes_tokens: bool) -> Result<(), Fault> {
        let secret = match proof {
            NameProof::Operator => return Ok(()),
            NameProof::Signed { nonce, signature } => return self.signed_by(name, nonce, signature).map(drop),
            NameProof::Bearer(secret) => secret,
        };
        if let Some(record) = self.registrar().by_api_key(&secret.sha256()) {
            return match record.name == name {
                true => Ok(()),
                false => {
                    Err(Fault::new(ErrorCode::Forbidden, format!("this is the API key of another name than {name}")))
                }
            };
        }
        let verified = match self.verify_token(secret).await {
            Ok(verified) => verified,
            Err(_) => {
                return Err(Fault::new(
                    ErrorCode::Unauthenticated,
                    "show the name's API key, or a token of it, as Bearer",
                ));
            }
        };
        if *verified.address != *format!("{PREFIX}:{name}") {
            return Err(Fault::new(ErrorCode::Forbidden, format!("this token is of another name than {name}")));
        }
        if takes_tokens {
            return Ok(());
        }
        let text = "a token is not enough for this: show the API key, or sign a challenge with the key in use";
        Err(Fault::new(ErrorCode::Forbidden, text))
    }

    /// Says where a DID can be met.
    pub async fn set_services(
        &self,
        did: &str,
        proof: &NameProof,
        services: Vec<NetworkService>,
    ) -> Result<Value, Fault> {
        let name = registrar::name_of(did)?;
        self.registrar().record(&name)?;
        self.owns(&name, proof, true).await?;
        let whose = name.clone();
        self.write(move |registrar, _| registrar.set_services(&whose, services)).await?;
        self.registrar().document(&name, false)
    }

    /// Makes an account; gives its key.
    pub async fn add_account(&self, name: String) -> Result<(Account, Secret), Fault> {
        self.write(move |registrar, now| registrar.add_account(&name, now)).await
    }

    /// Takes an account away.
    pub async fn remove_account(&self, name: String) -> Result<(), Fault> {
        self.write(move |registrar, _| registrar.remove_account(&name)).await
    }

    /// All accounts.
    pub fn accounts(&self) -> Vec<Account> {
        self.registrar().accounts()
    }

    /// Replaces the key that tokens are signed with; the one before verifies for another day.
    pub async fn rotate_signing_key(&self) -> Result<String, Fault> {
        self.write(|registrar, now| registrar.rotate_signing_key(now)).await
    }

    /// The registrar's records as a backup has them, private keys included.
    pub fn entries_to_save(&self) -> Result<Vec<AdminEntry>, Fault> {
        let read = match self.registrar().damage() {
            Some(_) => return Err(Fault::new(ErrorCode::StorageUnavailable, "the registrar's records cannot be read")),
            None => self.registrar().db().entries(),
        };
        read.map_err(|error| {
            tracing::error!(%error, "the registrar's records cannot be read");
            ErrorCode::StorageUnavailable.into()
        })
    }

    /// Reads all records again and has them checked; says what is wrong with them.
    pub fn verify_records(&self) -> Option<String> {
        self.registrar().damage().or_else(|| self.registrar().db().verify().err().map(|error| error.to_string()))
    }

    /// Tells where a member can be met, or no longer.
    pub(crate) fn publish(&self, network: &str, address: &str, on: bool) {
        let Some(name) = address.strip_prefix("openagents:").filter(|_| self.has_key(address)).map(str::to_owned)
        else {
            return;
        };
        let endpoint = self.base_url().map(|base| format!("{base}/v1/ws/{network}"));
        if on && endpoint.is_none() {
            return;
        }
        let (identities, network, address) = (self.clone(), network.to_owned(), address.to_owned());
        self.0.host.errand(move || {
            let endpoint = endpoint.as_deref().filter(|_| on);
            let told = identities.registrar().publish(&name, &network, &address, endpoint);
            if let Err(fault) = told {
                tracing::warn!(%fault, name, "where a member can be met is not told");
            }
        });
    }
}

impl Node {
    /// Replaces the key of a registered name. Whoever came in with the old one is out at once, on every carrier.
    pub async fn rotate_name(&self, name: &str, proof: &NameProof, key: String) -> Result<Arc<NameRecord>, Fault> {
        let identities = self.identities();
        identities.registrar().record(name)?;
        identities.owns(name, proof, false).await?;
        let whose = name.to_owned();
        let record = identities.write(move |registrar, _| registrar.rotate(&whose, &key)).await?;
        self.end_proofs(&format!("{PREFIX}:{name}")).await;
        Ok(record)
    }

    /// Revokes a registered name. Whoever came in with it is out at once, on every carrier, and nobody gets it again.
    pub async fn revoke_name(&self, name: &str, proof: &NameProof) -> Result<Arc<NameRecord>, Fault> {
        let identities = self.identities();
        identities.registrar().record(name)?;
        identities.owns(name, proof, false).await?;
        let whose = name.to_owned();
        let record = identities.write(move |registrar, _| registrar.revoke(&whose)).await?;
        self.end_proofs(&format!("{PREFIX}:{name}")).await;
        Ok(record)
    }

    /// Ends what was proved for an address with another key than the one that is good now.
    async fn end_proofs(&self, address: &str) {
        let identities = self.identities();
        identities.forget_tokens();
        let Some(good) = identities.good_key(address) else { return };
        let serial = identities.serial();
        for network in self.networks() {
            let good = good.as_deref().map(Into::into);
            let op = AdminOp::EndProofs { address: address.into(), good, serial };
            if let Err(fault) = network.admin(op).await {
                tracing::error!(%fault, network = network.id(), address, "sessions of a revoked key could not be ended");
            }
        }
    }

    /// Ends what was revoked while the node was not there to end it: between the registrar's record and the networks', it may have died.
    pub(crate) async fn end_revoked_proofs(&self) {
        // Nothing was revoked where no name was given out, and then no start waits for a network's first commit.
        if !self.identities().registrar().has_names() {
            return;
        }
        for network in self.networks() {
            for (address, key) in network.proved_sessions().await.unwrap_or_default() {
                let Some(good) = self.identities().good_key(&address) else { continue };
                if good.as_deref() == Some(key.as_ref()) {
                    continue;
                }
                let good = good.as_deref().map(Into::into);
                let op = AdminOp::EndProofs { address, good, serial: self.identities().serial() };
                if let Err(fault) = network.admin(op).await {
                    tracing::error!(%fault, network = network.id(), "sessions of a revoked key could not be ended");
                }
            }
        }
    }

    /// A challenge to join a network.
    pub async fn join_challenge(
        &self,
        network: &crate::Network,
        address: &str,
        algorithm: Option<&str>,
    ) -> Result<ChallengeView, Fault> {
        let own = rialto_model::NetworkId::parse(network.id()).map_err(|_| Fault::from(ErrorCode::Internal))?;
        let parsed = rialto_model::Address::parse_in(address, &own).map_err(|error| {
            Fault::new(ErrorCode::InvalidAddress, format!("{address:?}: {error}")).field("agent_id")
        })?;
        let pinned = network.pinned_key(parsed.as_str()).await?;
        self.identities().challenge(network.id(), &parsed, pinned.as_deref(), algorithm).await
    }
}
