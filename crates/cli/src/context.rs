//! What every command starts from: the options, the node it talks to, and the voice it talks with.
//!
//! Rule of voices: `--as NAME` speaks as NAME, else a command is `human:<user>` on the machine of the node and asks for a name
//! elsewhere. Looking at the network as a whole (history, search, who) is done as the operator when the run file gives us its
//! secret and nobody handed us a token or a name. With the operator's secret a command speaks beside the live session of a
//! member and ends nothing; `--takeover` ends it.

use crate::args::Global;
use crate::env::{self, Env};
use crate::exit::{CliError, Exit};
use crate::out::Out;
use crate::place::{self, RunFile};
use crate::session::{KeptSession, SessionFile};
use crate::settings::keys;
use jiff::tz::TimeZone;
use rialto_client::{ClientError, Http, JoinOptions, Secret};
use rialto_model::{Address, ErrorCode};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Options, environment and output of one command.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) global: Global,
    pub(crate) env: Env,
    pub(crate) out: Out,
    pub(crate) zone: TimeZone,
}

/// The node a command talks to.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) url: String,
    /// What was handed to us: a network token, a session, an admin secret.
    token: Option<Secret>,
    /// The running node's own secret, for the user who started it.
    admin: Option<Secret>,
    /// The network chosen by option, else the run file's default.
    network: Option<String>,
    run: Option<RunFile>,
}

impl Context {
    /// `--network` or its variable.
    pub(crate) fn network_option(&self) -> Option<String> {
        self.global.network.clone().or_else(|| self.env.get(env::NETWORK).map(str::to_owned))
    }

    /// The configuration file, if there is one.
    pub(crate) fn config_file(&self) -> Result<Option<(PathBuf, String)>, CliError> {
        place::config_file(self.global.config.as_deref(), &self.env)
    }

    /// The data directory.
    pub(crate) fn data_dir(&self) -> Result<PathBuf, CliError> {
        let file = self.config_file()?;
        let from_env = keys::find("store.data").and_then(|key| self.env.get(&key.env()).map(PathBuf::from));
        let configured = from_env.or_else(|| file.as_ref().and_then(|(_, text)| data_of_config(text)));
        place::data_dir(self.global.data.as_deref(), configured.as_deref(), &self.env)
    }

    /// The node to talk to: `--url`, else the run file.
    pub(crate) fn node(&self) -> Result<Node, CliError> {
        let token = self.global.token.clone().or_else(|| self.env.get(env::TOKEN).map(Secret::from));
        let network = self.network_option();
        if let Some(url) = self.global.url.clone().or_else(|| self.env.get(env::URL).map(str::to_owned)) {
            return Ok(Node { url, token, admin: None, network, run: None });
        }
        let data = self.data_dir()?;
        let Some(run) = RunFile::read(&data)? else {
            let message = format!("no node is running on {}", data.display());
            return Err(CliError::unavailable(message).next("start one with `rialto up`, or name one with RIALTO_URL"));
        };
        if !run.is_alive() {
            let message = format!("the node on {} has stopped (process {} is gone)", data.display(), run.pid);
            return Err(CliError::unavailable(message).next("start it again with `rialto up`"));
        }
        let network = network.or_else(|| Some(run.network.id.clone()));
        let admin = Some(run.admin_secret.clone());
        Ok(Node { url: run.url.clone(), token, admin, network, run: Some(run) })
    }

    /// The operator's door, for calls only the operator may make.
    pub(crate) fn operator(&self) -> Result<Http, CliError> {
        let node = self.node()?;
        let secret = node.admin.clone().or_else(|| node.token.clone());
        let http = node.http()?;
        match secret {
            Some(secret) => Ok(http.with_bearer(secret.expose())),
            None => Err(CliError::denied("this needs the operator's rights")
                .next("run it where the node runs, or give its admin secret in RIALTO_TOKEN")),
        }
    }

    /// The operator's door, and the id or name of the network it is about.
    pub(crate) async fn operator_of_network(&self) -> Result<(Http, String), CliError> {
        let http = self.operator()?;
        let network = match http.network() {
            Some(network) => network.to_owned(),
            None => network_id(&http).await?,
        };
        Ok((http, network))
    }

    /// The voice for reading.
    pub(crate) async fn reader(&mut self) -> Result<Voice, CliError> {
        let node = self.node()?;
        match &node.admin {
            Some(admin) if self.spoken_name().is_none() && node.token.is_none() => Ok(Voice {
                http: node.http()?.with_bearer(admin.expose()),
                speaker: None,
                data: Some(self.data_dir()?),
            }),
            Some(_) | None => self.member().await,
        }
    }

    /// The voice of a member: `--as NAME`, else `human:<user>`.
    pub(crate) async fn member(&mut self) -> Result<Voice, CliError> {
        let node = self.node()?;
        let address = self.speaker_address()?;
        let http = node.http()?;
        let network = match node.known_network_id() {
            Some(id) => id.to_owned(),
            None => network_id(&node.with_credential(http.clone())).await?,
        };
        // A session says nothing of its network, so from here on every call names it.
        let http = if http.network().is_none() { http.with_network(Some(network.clone())) } else { http };
        let file = SessionFile::of(&self.data_dir()?, &network, &address, &http.endpoint().base());
        let by_choice = self.spoken_name().is_some();
        let takeover = self.global.takeover;
        let options = JoinOptions {
            // A person at a shell reads history; only a name that was chosen has an inbox that fills.
            receive: (!by_choice).then(|| "log".to_owned()),
            takeover: Some(takeover),
            invite: self.invite(),
            ..JoinOptions::new(address)
        };
        let operator = node.token.is_none() && node.admin.is_some() && options.invite.is_none();
        let mut speaker =
            Speaker { door: node.with_credential(http), options, file, beside: !takeover && self.invite().is_none() };
        let http = match speaker.file.read().filter(|_| !takeover) {
            Some(kept) => speaker.door.clone().with_bearer(kept.session_id.expose()),
            None => {
                let (http, told) = speaker.enter(None).await?;
                told.iter().for_each(|text| self.out.hint(text));
                http
            }
        };
        // Once is enough: whoever takes the name back keeps it.
        speaker.options.takeover = Some(false);
        Ok(Voice { http, speaker: Some(speaker), data: operator.then(|| self.data_dir()).transpose()? })
    }

    /// The canonical address this command speaks as: on another machine the name of this one's user means nothing.
    pub(crate) fn speaker_address(&self) -> Result<String, CliError> {
        match self.spoken_name() {
            Some(name) => speaker_address(&name),
            None if self.node()?.is_here() => Ok(format!("human:{}", place::user_name(&self.env))),
            None => Err(CliError::usage("a node on another machine needs a name to speak as")
                .next("give a name with --as NAME or RIALTO_AGENT")),
        }
    }

    /// The code of an invitation to join with.
    pub(crate) fn invite(&self) -> Option<Secret> {
        self.global.invite.clone().or_else(|| self.env.get(env::INVITE).map(Secret::from))
    }

    /// The address to speak as in a network that somebody else told us of.
    pub(crate) fn speaker_elsewhere(&self) -> Result<String, CliError> {
        match self.spoken_name() {
            Some(name) => speaker_address(&name),
            None => Err(CliError::usage("another network needs a name to speak as")
                .next("give a name with --as NAME or RIALTO_AGENT")),
        }
    }

    fn spoken_name(&self) -> Option<String> {
        self.global.speak_as.clone().or_else(|| self.env.get(env::AGENT).map(str::to_owned))
    }
}

impl Node {
    /// Whether it is on this machine.
    fn is_here(&self) -> bool {
        self.run.is_some() || rialto_client::Endpoint::parse(&self.url).is_ok_and(|endpoint| endpoint.is_loopback())
    }

    /// An HTTP client without credential.
    fn http(&self) -> Result<Http, CliError> {
        Ok(Http::new(&self.url)?.with_network(self.network.clone()))
    }

    fn with_credential(&self, http: Http) -> Http {
        match self.token.as_ref().or(self.admin.as_ref()) {
            Some(secret) => http.with_bearer(secret.expose()),
            None => http,
        }
    }

    /// Whether the run file of the data directory says where it is.
    pub(crate) fn is_of_run_file(&self) -> bool {
        self.run.is_some()
    }

    /// What opens the network to a joining member.
    pub(crate) fn credential(&self) -> Option<&Secret> {
        self.token.as_ref().or(self.admin.as_ref())
    }

    /// The network as it was named, by option or by the URL.
    pub(crate) fn network(&self) -> Option<String> {
        let by_url = || rialto_client::Endpoint::parse(&self.url).ok()?.network().map(str::to_owned);
        self.network.clone().or_else(by_url)
    }

    /// The id of the chosen network, when the run file tells it.
    fn known_network_id(&self) -> Option<&str> {
        let run = self.run.as_ref()?;
        let named = self.network.as_deref()?;
        (named == run.network.id || named == run.network.name).then_some(run.network.id.as_str())
    }
}

/// Somebody's voice at the node. A credential that has ended is replaced once.
#[derive(Debug)]
pub(crate) struct Voice {
    pub(crate) http: Http,
    speaker: Option<Speaker>,
    /// Where a restarted node tells the operator its new secret.
    data: Option<PathBuf>,
}

#[derive(Debug)]
struct Speaker {
    /// The node, presenting what lets this name join.
    door: Http,
    options: JoinOptions,
    file: SessionFile,
    /// What opens the door may speak for the member beside its own session.
    beside: bool,
}

impl Voice {
    /// Speaks with a session that is kept elsewhere.
    pub(crate) fn of(http: Http) -> Voice {
        Voice { http, speaker: None, data: None }
    }

    /// Makes a call, and once more after joining again if the session turned out to be over.
    pub(crate) async fn call<T>(&mut self, call: impl AsyncFn(&Http) -> Result<T, ClientError>) -> Result<T, CliError> {
        match call(&self.http).await {
            Ok(value) => Ok(value),
            Err(error) => {
                self.after(error).await?;
                Ok(call(&self.http).await?)
            }
        }
    }

    /// Joins again, or reads the secret of a restarted node, if that can mend the error; gives it back if not.
    pub(crate) async fn after(&mut self, error: ClientError) -> Result<(), CliError> {
        if !session_is_over(&error) {
            return Err(error.into());
        }
        let run = self.data.as_deref().map(RunFile::read).transpose()?.flatten();
        if let Some(speaker) = &mut self.speaker {
            if let Some(run) = run {
                let door = Http::new(&run.url)?.with_network(speaker.door.network().map(str::to_owned));
                speaker.door = door.with_bearer(run.admin_secret.expose());
            }
            let stale = self.http.bearer().cloned();
            self.http = speaker.enter(stale.as_ref()).await?.0;
            return Ok(());
        }
        match run {
            Some(run) if Some(&run.admin_secret) != self.http.bearer() => {
                let network = self.http.network().map(str::to_owned);
                self.http = Http::new(&run.url)?.with_network(network).with_bearer(run.admin_secret.expose());
                Ok(())
            }
            Some(_) | None => Err(error.into()),
        }
    }
}

impl Voice {
    /// The member has another address now: its kept session follows. What else speaks for it is kept nowhere.
    pub(crate) fn renamed(&self, address: &str) -> Result<(), CliError> {
        let Some((speaker, kept)) = self.speaker.as_ref().and_then(|speaker| Some((speaker, speaker.file.read()?)))
        else {
            return Ok(());
        };
        speaker.file.rename(&KeptSession { address: address.to_owned(), ..kept })
    }

    /// The session spoken with, unless the operator speaks for the member.
    pub(crate) fn session(&self) -> Option<Secret> {
        let kept = self.speaker.as_ref()?.file.read()?;
        (self.http.bearer() == Some(&kept.session_id)).then_some(kept.session_id)
    }
}

impl Speaker {
    /// A way to speak as this name: beside whoever has it if that is allowed, else with a session of its own.
    /// Gives also what there is to tell about it.
    async fn enter(&self, stale: Option<&Secret>) -> Result<(Http, Option<String>), CliError> {
        if self.beside {
            let http = self.door.clone().with_agent(Some(self.options.address.clone()));
            match http.me().await {
                Ok(me) if me.get("left").and_then(Value::as_bool) != Some(true) => return Ok((http, None)),
                Ok(_) => {}
                Err(error) if !session_is_over(&error) => return Err(error.into()),
                Err(_) => {}
            }
        }
        self.join(stale).await
    }

    /// A session for this name: one that another command has made meanwhile, else a new one.
    async fn join(&self, stale: Option<&Secret>) -> Result<(Http, Option<String>), CliError> {
        let lock = self.file.lock()?;
        if let Some(kept) = self.file.read()
            && Some(&kept.session_id) != stale
            && self.options.takeover != Some(true)
        {
            return Ok((self.door.clone().with_bearer(kept.session_id.expose()), None));
        }
        let joined = self.door.join(&self.options).await.map_err(|error| in_use(error, &self.options.address))?;
        let told = joined.took_over.as_ref().map(|ended| {
            let with = ended.get("token").and_then(Value::as_str).map(|label| format!(", made with token {label}"));
            format!("this ended the live session of {}{}", joined.address, with.unwrap_or_default())
        });
        self.file.write(&KeptSession {
            address: joined.address,
            network: joined.network_id,
            url: self.door.endpoint().base(),
            session_id: joined.session_id.clone(),
        })?;
        drop(lock);
        Ok((self.door.clone().with_bearer(joined.session_id.expose()), told))
    }
}

/// Says how to go on when a name is somebody's who is there.
fn in_use(error: ClientError, address: &str) -> CliError {
    let taken = matches!(&error, ClientError::Api(api) if api.known() == Some(ErrorCode::AddressTaken));
    let error = CliError::from(error);
    if !taken {
        return error;
    }
    error.next(format!("speak as somebody else with --as, or end the session of {address} with --takeover"))
}

fn session_is_over(error: &ClientError) -> bool {
    match error {
        ClientError::Api(api) => api.status == 401 || api.known() == Some(ErrorCode::NotAMember),
        ClientError::Unreachable { .. }
        | ClientError::Timeout { .. }
        | ClientError::Protocol(_)
        | ClientError::BadUrl { .. }
        | ClientError::Closed(_) => false,
    }
}

async fn network_id(http: &Http) -> Result<String, CliError> {
    let profile = http.profile().await?;
    match profile.get("id").and_then(Value::as_str) {
        Some(id) => Ok(id.to_owned()),
        None => Err(CliError::internal("the node's profile names no network").next("choose one with --network")),
    }
}

/// `store.data` of a configuration file; faults of the file are told by the commands that need all of it.
fn data_of_config(text: &str) -> Option<PathBuf> {
    let table: toml::Table = text.parse().ok()?;
    table.get("store")?.get("data")?.as_str().map(PathBuf::from)
}

/// A target or member address, canonical.
pub(crate) fn address(text: &str) -> Result<Address, CliError> {
    Address::from_str(text).map_err(|error| {
        let message = format!("{text:?} is no address: {error}");
        let next = "addresses look like agent:NAME, human:NAME, channel/NAME, group/NAME or agent:broadcast";
        CliError { code: Some(ErrorCode::InvalidAddress.as_str().to_owned()), ..CliError::usage(message).next(next) }
    })
}

/// An address somebody can speak as.
pub(crate) fn speaker_address(name: &str) -> Result<String, CliError> {
    let parsed = address(name)?;
    if !parsed.is_principal() || parsed.is_foreign() {
        return Err(CliError::usage(format!(
            "nobody can speak as {parsed}: it is neither an agent nor a person of this network"
        ))
        .next("give a name such as --as helper"));
    }
    Ok(parsed.to_string())
}

/// A channel by bare name or address, as an address.
pub(crate) fn channel(text: &str) -> Result<String, CliError> {
    let full = if text.starts_with("channel/") { text.to_owned() } else { format!("channel/{text}") };
    Ok(address(&full)?.to_string())
}

/// The name of a group, with or without its prefix.
pub(crate) fn group_name(text: &str) -> Result<String, CliError> {
    let name = text.strip_prefix("group/").unwrap_or(text);
    address(&format!("group/{name}"))?;
    Ok(name.to_owned())
}

/// Whether the running node of this data directory answers for itself.
pub(crate) fn running(data: &Path) -> Result<Option<RunFile>, CliError> {
    Ok(RunFile::read(data)?.filter(RunFile::is_alive))
}

impl CliError {
    /// Whether waiting or starting a node may help.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.exit == Exit::Unavailable
    }
}

#[cfg(test)]
mod tests;
