//! `rialto bridge`: carries chosen events from one network to another, as a member of both, as long as it runs.

use crate::context::{self, Context};
use crate::env;
use crate::exit::CliError;
use crate::place::{self, RunFile};
use clap::Args;
use rialto_client::{
    Bridge as Carrying, BridgeChoice, BridgeDoor, BridgeEnd, BridgeNews, ClientError, Http, JoinOptions, Secret,
};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Arguments of `bridge`.
#[derive(Debug, Args)]
#[command(
    after_help = "An end is a network of this node (id or name), a name under [networks] in rialto.toml, or a URL such as \
    https://node.example/v1/ws/ID. The same event is never taken over twice, and one that has been in the other network stays."
)]
pub(crate) struct Bridge {
    /// The network to read from
    #[arg(long, value_name = "NETWORK")]
    from: String,
    /// The network to send to
    #[arg(long, value_name = "NETWORK")]
    to: String,
    /// Which events: a type (`workspace.*`) or a target (`channel/general`), with * ? […]; repeatable. All that it gets without
    #[arg(long = "match", value_name = "PATTERN")]
    matching: Vec<String>,
    /// Send everything to this target there, instead of to the same as here
    #[arg(long, value_name = "TARGET", conflicts_with = "both")]
    into: Option<String>,
    /// The other direction too
    #[arg(long)]
    both: bool,
    /// Token of the network to read from (RIALTO_FROM_TOKEN)
    #[arg(long, value_name = "TOKEN")]
    from_token: Option<Secret>,
    /// Token of the network to send to (RIALTO_TO_TOKEN)
    #[arg(long, value_name = "TOKEN")]
    to_token: Option<Secret>,
    /// Stop when at least this many events went over; 0 joins both networks, so that mail waits from then on
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
}

/// One end: where it is, and which network it is.
struct BridgePlace {
    named: String,
    door: BridgeDoor,
    id: String,
}

impl Bridge {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let choice = BridgeChoice::parse(&self.matching).map_err(|error| CliError::usage(error.to_string()))?;
        let into = self.into.as_deref().map(context::address).transpose()?;
        if into.as_ref().is_some_and(rialto_model::Address::is_foreign) {
            return Err(CliError::usage("--into names a target in the other network itself")
                .next("leave out the part before ::"));
        }
        let from = place(cx, &self.from, cx.token_of(self.from_token.as_ref(), env::FROM_TOKEN)).await?;
        let to = place(cx, &self.to, cx.token_of(self.to_token.as_ref(), env::TO_TOKEN)).await?;
        if from.id == to.id {
            return Err(CliError::usage(format!("{} and {} are the same network", self.from, self.to)));
        }
        let locks = self.locks(cx, &from, &to)?;
        let (here, there) = (self.end(cx, &from, &to)?, self.end(cx, &to, &from)?);
        let into = into.map(|address| address.to_string());
        let forth = Carrying::new(here.clone(), there.clone(), choice.clone(), into);
        let back = self.both.then(|| Carrying::new(there, here, choice, None));
        let teller =
            Teller { out: RefCell::new(cx), over: RefCell::new(0), until: self.count, failed: RefCell::new(None) };
        let ended = carry(&forth, back.as_ref(), &teller, &self).await;
        drop(locks);
        match (teller.failed.into_inner(), ended) {
            (Some(error), _) | (None, Err(error)) => Err(error),
            (None, Ok(())) => Ok(()),
        }
    }

    /// The member that the bridge is in one network. Its name says where the other end is, so that two bridges are two members.
    fn end(&self, cx: &Context, at: &BridgePlace, other: &BridgePlace) -> Result<BridgeEnd, CliError> {
        let address = self.name(cx, other)?;
        let what = if self.both { "Bridge to and from" } else { "Bridge with" };
        let options = JoinOptions {
            description: Some(format!("{what} the network {} ({})", other.named, other.id)),
            ..JoinOptions::new(address)
        };
        Ok(BridgeEnd::new(at.named.clone(), at.door.clone(), options))
    }

    fn name(&self, cx: &Context, other: &BridgePlace) -> Result<String, CliError> {
        match cx.global.speak_as.as_deref().or_else(|| cx.env.get(env::AGENT)) {
            Some(name) => context::speaker_address(name),
            None => Ok(format!("agent:bridge-{}", other.id)),
        }
    }

    /// Two bridges that read the same inbox would take each other's mail.
    fn locks(&self, cx: &Context, from: &BridgePlace, to: &BridgePlace) -> Result<Vec<File>, CliError> {
        let data = cx.data_dir()?;
        let mut locks = vec![lock(&data, from, &self.name(cx, to)?)?];
        if self.both {
            locks.push(lock(&data, to, &self.name(cx, from)?)?);
        }
        Ok(locks)
    }
}

fn lock(data: &Path, at: &BridgePlace, address: &str) -> Result<File, CliError> {
    let folder = data.join("bridges");
    place::private_dir(&folder)?;
    let name: String = address.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let path = folder.join(format!("{}-{name}.lock", at.id));
    let fail = |error: &std::io::Error| CliError::file("open", &path, error);
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(|error| fail(&error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            let message = format!("another bridge reads {} as {address} already", at.named);
            Err(CliError::conflict(message).next("stop it, or give this one a name of its own with --as"))
        }
        Err(std::fs::TryLockError::Error(error)) => Err(fail(&error)),
    }
}

/// Finds an end: a URL, a configured name, or a network of the node that commands talk to.
async fn place(cx: &Context, named: &str, token: Option<Secret>) -> Result<BridgePlace, CliError> {
    let settings = cx.settings()?;
    let door: BridgeDoor = if named.contains("://") {
        away(named.to_owned(), None, token)
    } else if let Some(known) = settings.networks.iter().find(|known| known.name == named) {
        let token = match token {
            Some(token) => Some(token),
            None => known.token()?,
        };
        away(known.url.clone(), Some(named.to_owned()), token)
    } else {
        at_home(cx, named, token)?
    };
    let profile: Value = door()?.profile().await.map_err(|error| {
        let error = CliError::from(error);
        CliError { message: format!("{named}: {}", error.message), ..error }
    })?;
    match profile.get("id").and_then(Value::as_str) {
        Some(id) => Ok(BridgePlace { named: named.to_owned(), door, id: id.to_owned() }),
        None => Err(CliError::internal(format!("the profile of {named} names no network"))),
    }
}

fn away(url: String, network: Option<String>, token: Option<Secret>) -> BridgeDoor {
    Arc::new(move || {
        let http = Http::new(&url)?;
        let http = if http.network().is_none() { http.with_network(network.clone()) } else { http };
        Ok(match &token {
            Some(token) => http.with_bearer(token.expose()),
            None => http,
        })
    })
}

/// The node may be started again meanwhile, at another address and with another secret: the run file knows.
fn at_home(cx: &Context, network: &str, token: Option<Secret>) -> Result<BridgeDoor, CliError> {
    let node = cx.node()?;
    let token = token.or_else(|| cx.global.token.clone()).or_else(|| cx.env.get(env::TOKEN).map(Secret::from));
    if !node.is_of_run_file() {
        return Ok(away(node.url, Some(network.to_owned()), token));
    }
    let (data, network) = (cx.data_dir()?, network.to_owned());
    Ok(Arc::new(move || {
        let run = running(&data)?;
        let secret = token.as_ref().unwrap_or(&run.admin_secret);
        Ok(Http::new(&run.url)?.with_network(Some(network.clone())).with_bearer(secret.expose()))
    }))
}

fn running(data: &Path) -> Result<RunFile, ClientError> {
    let nobody =
        || ClientError::Unreachable { url: data.display().to_string(), reason: "no node is running there".to_owned() };
    RunFile::read(data).ok().flatten().ok_or_else(nobody)
}

/// Both directions side by side, until one ends.
async fn carry(
    forth: &Carrying,
    back: Option<&Carrying>,
    teller: &Teller<'_>,
    bridge: &Bridge,
) -> Result<(), CliError> {
    forth.open(&mut |news| teller.tell(&news)).await?;
    if let Some(back) = back {
        back.open(&mut |news| teller.tell(&news)).await?;
    }
    teller.ready(bridge);
    let returning = async {
        match back {
            Some(back) => back.walk(|news| teller.tell(&news), || teller.is_done()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = forth.walk(|news| teller.tell(&news), || teller.is_done()) => Ok(ended?),
        ended = returning => Ok(ended?),
    }
}

/// Says what happens, for people and for programs.
struct Teller<'c> {
    out: RefCell<&'c mut Context>,
    over: RefCell<u64>,
    until: Option<u64>,
    failed: RefCell<Option<CliError>>,
}

impl Teller<'_> {
    fn ready(&self, bridge: &Bridge) {
        let arrow = if bridge.both { "<->" } else { "->" };
        let mut cx = self.out.borrow_mut();
        cx.out.say(&format!("rialto: the bridge {} {arrow} {} is open", bridge.from, bridge.to));
    }

    fn is_done(&self) -> bool {
        self.failed.borrow().is_some() || self.until.is_some_and(|until| *self.over.borrow() >= until)
    }

    fn tell(&self, news: &BridgeNews) {
        let mut cx = self.out.borrow_mut();
        let told = match news {
            BridgeNews::Passed { from, to, id, new_id, duplicate } => {
                *self.over.borrow_mut() += 1;
                let value = json!({
                    "passed": id, "from": from, "to": to, "as": new_id, "duplicate": duplicate,
                });
                cx.out.show(&value, |_, _| {
                    let again = if *duplicate { " (it was there)" } else { "" };
                    format!("{from} {id} -> {to} {new_id}{again}")
                })
            }
            BridgeNews::Left { from, id, why } => {
                let value = json!({ "left": id, "from": from, "why": why.as_str() });
                cx.out.show(&value, |_, _| String::new())
            }
            BridgeNews::Refused { from, to, id, error } => {
                cx.out.say(&format!("rialto: {to} refuses {id} of {from}: {error}"));
                let value = json!({ "refused": id, "from": from, "to": to, "error": error });
                cx.out.show(&value, |_, _| String::new())
            }
            BridgeNews::Waiting { end, reason } => {
                cx.out.say(&format!("rialto: waiting for {end}: {reason}"));
                Ok(())
            }
        };
        if let Err(error) = told {
            *self.failed.borrow_mut() = Some(error);
        }
    }
}
