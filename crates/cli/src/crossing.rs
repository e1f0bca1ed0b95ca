//! `rialto send net::entity`: from a name in an address to a voice in that network.
//!
//! Where the user said where the network is (an option, `[networks.NAME]`, the same node), the command speaks there as it speaks
//! anywhere. What somebody else said is followed through the guarded client, and no credential of ours goes there.

use crate::context::{Context, Voice};
use crate::env;
use crate::exit::CliError;
use crate::session::{KeptSession, SessionFile};
use crate::settings::{Flags, Settings};
use rialto_client::{ClientError, Crossing, Draft, Emitted, Endpoint, JoinOptions, Secret};
use rialto_model::{Address, ErrorCode};
use serde_json::Value;
use std::time::Duration;

/// Where the other network is and what it lets us in by, as options said it.
#[derive(Debug, Clone, Default)]
pub(crate) struct OtherNetwork {
    pub(crate) url: Option<String>,
    pub(crate) token: Option<Secret>,
}

impl Context {
    /// What is configured, for commands that need more than the node's place.
    pub(crate) fn settings(&self) -> Result<Settings, CliError> {
        let file = self.config_file()?;
        let file = file.as_ref().map(|(path, text)| (path.as_path(), text.as_str()));
        Settings::merge(self.data_dir()?, file, &self.env, &Flags::default())
    }

    /// `--to-token`, or its variable.
    pub(crate) fn token_of(&self, option: Option<&Secret>, variable: &str) -> Option<Secret> {
        option.cloned().or_else(|| self.env.get(variable).map(Secret::from))
    }
}

/// Sends an event over the border: finds the network of the target, and speaks there. Gives the voice too, for what follows.
pub(crate) async fn send(
    cx: &mut Context,
    target: &Address,
    draft: &Draft,
    elsewhere: &OtherNetwork,
    wait: Option<Duration>,
) -> Result<(Voice, Emitted), CliError> {
    let network = target.network().unwrap_or_default().to_owned();
    let there = Draft { target: target.entity_text().to_owned(), ..draft.clone() };
    let mut voice = match find(cx, target, &network, draft, elsewhere, wait).await? {
        FoundVoice::Sent(sent) => return Ok(*sent),
        FoundVoice::There(voice) => *voice,
    };
    let emitted = voice.call(async |http| http.emit(&there, wait).await).await?;
    Ok((voice, emitted))
}

/// A way to speak in the network of the target, unless it turned out to be this one.
enum FoundVoice {
    There(Box<Voice>),
    Sent(Box<(Voice, Emitted)>),
}

async fn find(
    cx: &mut Context,
    target: &Address,
    network: &str,
    draft: &Draft,
    elsewhere: &OtherNetwork,
    wait: Option<Duration>,
) -> Result<FoundVoice, CliError> {
    let token = cx.token_of(elsewhere.token.as_ref(), env::TO_TOKEN);
    let settings = cx.settings()?;
    let configured = settings.networks.iter().find(|known| known.name == network);
    if let Some(url) = elsewhere.url.clone().or_else(|| configured.map(|known| known.url.clone())) {
        let token = match (token, configured) {
            (Some(token), _) => Some(token),
            (None, Some(known)) => known.token()?,
            (None, None) => None,
        };
        let named = Endpoint::parse(&url)?.network().is_none().then(|| network.to_owned());
        return Ok(FoundVoice::There(Box::new(speak(cx, Some(url), named, token).await?)));
    }
    let hint = match asked_at_home(cx, draft, wait).await? {
        HomeAnswer::Sent(sent) => return Ok(FoundVoice::Sent(sent)),
        HomeAnswer::Hint(hint) => hint,
    };
    if let Some(id) = hint.as_deref().and_then(|hint| on_this_node(cx, hint)) {
        return Ok(FoundVoice::There(Box::new(speak(cx, None, Some(id), token).await?)));
    }
    let crossing = Crossing::new(settings.outbound.client()?).with_credential(token);
    let found = crossing.find(target, hint.as_deref()).await.map_err(|error| not_found(error, network))?;
    let address = cx.speaker_elsewhere()?;
    let file = SessionFile::of(&cx.data_dir()?, &found.id, &address, &found.endpoint);
    if let Some(kept) = file.read() {
        let http = found.http().clone().with_bearer(kept.session_id.expose());
        if http.me().await.is_ok() {
            return Ok(FoundVoice::There(Box::new(Voice::of(http))));
        }
    }
    let options = JoinOptions { takeover: Some(false), invite: cx.invite(), ..JoinOptions::new(address.clone()) };
    let http = found.join(&options).await?;
    if let Some(session_id) = http.bearer().cloned() {
        file.write(&KeptSession { address, network: found.id.clone(), url: found.endpoint.clone(), session_id })?;
    }
    Ok(FoundVoice::There(Box::new(Voice::of(http))))
}

/// What the home network says to an address of another one.
enum HomeAnswer {
    /// It is its own, and the event is sent.
    Sent(Box<(Voice, Emitted)>),
    /// It is another's; perhaps with where that is.
    Hint(Option<String>),
}

/// The home network knows its own id and its neighbours. Where there is no node at home, nobody is asked.
async fn asked_at_home(cx: &mut Context, draft: &Draft, wait: Option<Duration>) -> Result<HomeAnswer, CliError> {
    if cx.node().is_err() {
        return Ok(HomeAnswer::Hint(None));
    }
    let mut voice = cx.member().await?;
    match voice.call(async |http| http.emit(draft, wait).await).await {
        Ok(emitted) => Ok(HomeAnswer::Sent(Box::new((voice, emitted)))),
        Err(error) if error.code.as_deref() == Some(ErrorCode::CrossNetwork.as_str()) => {
            let url = error.details.as_ref().and_then(|details| details.get("profile_url")).and_then(Value::as_str);
            Ok(HomeAnswer::Hint(url.map(str::to_owned)))
        }
        Err(error) => Err(error),
    }
}

/// The id of the network whose profile this is, if it is one of the node that is spoken to.
fn on_this_node(cx: &Context, profile: &str) -> Option<String> {
    let node = cx.node().ok()?;
    let (home, there) = (Endpoint::parse(&node.url).ok()?, Endpoint::parse(profile.strip_suffix("/profile")?).ok()?);
    home.same_host(&there).then(|| there.network().map(str::to_owned)).flatten()
}

/// Speaks in another network by the same rules as in this one.
async fn speak(
    cx: &mut Context,
    url: Option<String>,
    network: Option<String>,
    token: Option<Secret>,
) -> Result<Voice, CliError> {
    let here = cx.global.clone();
    // A token of this network is nobody's business there.
    cx.global.token = token;
    cx.global.network = network;
    if url.is_some() {
        cx.global.url = url;
    }
    let env = std::mem::take(&mut cx.env);
    cx.env = env.without(&[env::TOKEN, env::NETWORK]);
    let voice = cx.member().await;
    cx.global = here;
    cx.env = env;
    voice
}

fn not_found(error: ClientError, network: &str) -> CliError {
    let error = CliError::from(error);
    error.next(format!("say where it is with --to-url URL, or in rialto.toml under [networks.{network}]"))
}
