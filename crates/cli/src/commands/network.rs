//! `rialto network …`: the operator's calls on networks and their tokens.

use crate::commands::network_file::{Export, Import};
use crate::commands::now_ms;
use crate::context::{Context, speaker_address};
use crate::exit::CliError;
use crate::render::table::table;
use crate::render::value;
use crate::since;
use clap::{Args, Subcommand};
use rialto_client::{NewNetwork, NewToken};
use serde_json::{Value, json};

/// Verbs of `network`.
#[derive(Debug, Subcommand)]
pub(crate) enum Network {
    /// Make a network and print its token
    Create(Create),
    /// List the networks of the node
    List,
    /// Show one network
    Show(NetworkArg),
    /// Refuse new events; reading and acks go on
    Pause(NetworkArg),
    /// Open a paused or archived network again
    Resume(NetworkArg),
    /// Close a network; its history stays readable
    Archive(NetworkArg),
    /// Write a network to a file, with everything it has
    Export(Export),
    /// Make a network of such a file
    Import(Import),
    /// Change a setting, such as takeover, names, token_manages or max_members
    Set(Set),
    /// Invite somebody and print the code, this once; list and revoke
    #[command(args_conflicts_with_subcommands = true)]
    Invite(Invite),
    /// Tokens of a network
    #[command(subcommand)]
    Token(Token),
}

/// The network a verb is about.
#[derive(Debug, Args)]
pub(crate) struct NetworkArg {
    /// Id or name; the chosen or default network when absent
    #[arg(value_name = "ID|NAME")]
    network: Option<String>,
}

/// Arguments of `network create`.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Name of the network
    name: String,
    /// Who may join
    #[arg(long, value_parser = ["token", "open", "invite", "did-verify"])]
    policy: Option<String>,
    /// Preset
    #[arg(long, value_parser = ["plain", "workspace"])]
    profile: Option<String>,
    /// What happens to events nobody has acked
    #[arg(long, value_parser = ["at-least-once", "at-most-once"])]
    delivery: Option<String>,
    /// When a sender is answered
    #[arg(long, value_parser = ["sync", "os", "memory"])]
    durability: Option<String>,
    /// How long events are kept: a span such as 30d, or `ever`
    #[arg(long, value_name = "SPAN")]
    retention: Option<String>,
    /// Lowest verification level that may join
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=3))]
    min_verification: Option<u8>,
}

/// Arguments of `network set`.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The setting; `rialto network show` lists all
    key: String,
    /// Its value: JSON, or a plain word
    value: String,
}

/// Verbs of `network invite`.
#[derive(Debug, Subcommand)]
pub(crate) enum InviteVerb {
    /// List invitations that can still be used
    List,
    /// Take an invitation back; who joined with it has to join again
    Revoke {
        /// Its id
        id: String,
    },
}

/// Arguments of `network invite`.
#[derive(Debug, Args)]
pub(crate) struct Invite {
    #[command(subcommand)]
    verb: Option<InviteVerb>,
    /// The one address that may use it; whoever has the code when absent
    #[arg(value_name = "ADDRESS")]
    invitee: Option<String>,
    /// Role it gives
    #[arg(long, value_parser = ["member", "observer"])]
    role: Option<String>,
    /// A channel to be seated in
    #[arg(long)]
    channel: Option<String>,
    /// A word to the invited
    #[arg(long)]
    message: Option<String>,
    /// How often it can be used
    #[arg(long, value_name = "TIMES")]
    uses: Option<u32>,
    /// Ends after this span, such as 7d
    #[arg(long, value_name = "SPAN")]
    expires: Option<String>,
}

/// Verbs of `network token`.
#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make a token and print it, this once
    New(New),
    /// List tokens by label
    List,
    /// End a token
    Revoke {
        /// Its label
        label: String,
    },
}

/// Arguments of `network token new`.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// What to call it
    #[arg(long)]
    label: Option<String>,
    /// Highest role it gives
    #[arg(long, value_parser = ["master", "member", "observer"])]
    role: Option<String>,
    /// The one agent that may use it
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Ends after this span, such as 30d
    #[arg(long, value_name = "SPAN")]
    expires: Option<String>,
}

impl Network {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        match self {
            Network::Create(create) => create.run(cx).await,
            Network::List => list(cx).await,
            Network::Show(which) => {
                let (http, network) = which.find(cx).await?;
                let shown = http.show_network(&network).await?;
                let zone = cx.zone.clone();
                cx.out.show(&shown, |shown, _| value::lines(shown, &zone))
            }
            Network::Pause(which) => which.change(cx, "paused").await,
            Network::Resume(which) => which.change(cx, "active").await,
            Network::Archive(which) => which.change(cx, "archived").await,
            Network::Export(export) => export.run(cx).await,
            Network::Import(import) => import.run(cx).await,
            Network::Set(set) => set.run(cx).await,
            Network::Invite(invite) => invite.run(cx).await,
            Network::Token(token) => token.run(cx).await,
        }
    }
}

impl Invite {
    fn wish(&self) -> Result<Value, CliError> {
        let mut wish = serde_json::Map::new();
        let mut put = |key: &str, value: Option<Value>| drop(value.map(|value| wish.insert(key.to_owned(), value)));
        put("invitee", self.invitee.as_deref().map(speaker_address).transpose()?.map(Value::from));
        put("role", self.role.clone().map(Value::from));
        put("channel", self.channel.clone().map(Value::from));
        put("message", self.message.clone().map(Value::from));
        put("max_uses", self.uses.map(Value::from));
        let span = |text: &String| {
            let ms = since::span(text).filter(|ms| *ms >= 1000);
            ms.map(|ms| ms / 1000).ok_or_else(|| CliError::usage("--expires takes a span such as 12h or 7d"))
        };
        put("expires_in_s", self.expires.as_ref().map(span).transpose()?.map(Value::from));
        Ok(Value::Object(wish))
    }

    async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let wish = self.wish()?;
        let (http, network) = cx.operator_of_network().await?;
        match self.verb {
            Some(InviteVerb::List) => {
                let invitations = http.invitations(&network).await?;
                let zone = cx.zone.clone();
                return cx.out.show(&invitations, |all, _| {
                    let names = ["invitation_id", "inviter", "invitee", "role", "uses_left", "expires_at"];
                    let row = |one: &Value| names.iter().map(|name| value::text_of(one, name, &zone)).collect();
                    let rows: Vec<Vec<String>> = value::list(all, "invitations").iter().map(row).collect();
                    table(&["id", "made by", "for", "role", "uses left", "ends"], &rows)
                });
            }
            Some(InviteVerb::Revoke { id }) => {
                let ended = http.revoke_invitation(&network, &id).await.map_err(|error| {
                    CliError::from(error).if_missing("`rialto network invite list` shows what there is")
                })?;
                return cx.out.show(&ended, |_, _| format!("invitation {id} is revoked"));
            }
            None => {}
        }
        let made = http.invite(&network, &wish).await?;
        let zone = cx.zone.clone();
        cx.out.show(&made, |made, _| value::text_of(made, "code", &zone))?;
        cx.out
            .hint("the code is shown this once; who joins with it gives it as --invite CODE, or as credentials.invite");
        Ok(())
    }
}

impl NetworkArg {
    async fn find(self, cx: &Context) -> Result<(rialto_client::Http, String), CliError> {
        match self.network {
            Some(network) => Ok((cx.operator()?, network)),
            None => cx.operator_of_network().await,
        }
    }

    async fn change(self, cx: &mut Context, status: &str) -> Result<(), CliError> {
        let (http, network) = self.find(cx).await?;
        let changed = http.change_network(&network, &json!({ "status": status })).await?;
        cx.out.show(&changed, |_, _| format!("{network} is {status}"))
    }
}

impl Set {
    async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        // A plain word need not be quoted as JSON wants it.
        let new = serde_json::from_str(&self.value).unwrap_or_else(|_| Value::from(self.value.as_str()));
        let (http, network) = cx.operator_of_network().await?;
        let key = self.key.replace('-', "_");
        let changed = http.change_network(&network, &json!({ key.as_str(): new })).await?;
        let zone = cx.zone.clone();
        cx.out.show(&changed, |changed, _| format!("{key} is {}", value::text_of(changed, &key, &zone)))
    }
}

impl Create {
    async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let new = NewNetwork {
            name: self.name,
            policy: self.policy.clone(),
            profile: self.profile,
            delivery: self.delivery,
            durability: self.durability,
            retention: self.retention,
            min_verification: self.min_verification,
        };
        let mut made = cx.operator()?.create_network(&new).await?;
        if let Some(map) = made.as_object_mut() {
            let policy = self.policy.unwrap_or_else(|| "token".to_owned());
            map.entry("policy").or_insert_with(|| json!(policy));
            map.entry("token").or_insert(Value::Null);
        }
        let zone = cx.zone.clone();
        cx.out.show(&made, |made, _| {
            let text = |name: &str| value::text_of(made, name, &zone);
            format!(
                "id     {}\nname   {}\npolicy {}\ntoken  {}",
                text("id"),
                text("name"),
                text("policy"),
                text("token")
            )
        })?;
        if made.get("token").is_some_and(Value::is_string) {
            cx.out.hint("the token is shown this once; `rialto network token new` makes another");
        }
        Ok(())
    }
}

async fn list(cx: &mut Context) -> Result<(), CliError> {
    let networks = cx.operator()?.networks().await?;
    let zone = cx.zone.clone();
    cx.out.show(&networks, |networks, _| {
        let row = |network: &Value| {
            let policy = network.pointer("/access/policy").or_else(|| network.get("policy")).unwrap_or(&Value::Null);
            let text = |name: &str| value::text_of(network, name, &zone);
            vec![
                text("id"),
                text("name"),
                text("status"),
                value::cell(policy, &zone, "policy"),
                text("delivery"),
                text("created_at"),
            ]
        };
        let rows: Vec<Vec<String>> = value::list(networks, "networks").iter().map(row).collect();
        table(&["id", "name", "status", "policy", "delivery", "created"], &rows)
    })
}

impl Token {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let (http, network) = cx.operator_of_network().await?;
        match self {
            Token::New(new) => {
                let made = http.create_token(&network, &new.request()?).await?;
                let zone = cx.zone.clone();
                cx.out.show(&made, |made, _| value::text_of(made, "token", &zone))?;
                let label = value::text_of(&made, "label", &zone);
                cx.out.hint(&format!(
                    "token {label} of {network}: shown this once; `rialto network token revoke {label}` ends it"
                ));
                Ok(())
            }
            Token::List => {
                let tokens = http.tokens(&network).await?;
                let zone = cx.zone.clone();
                cx.out.show(&tokens, |tokens, _| {
                    let names = ["label", "role", "agent", "created_at", "expires_at", "last_used_at"];
                    let row = |token: &Value| names.iter().map(|name| value::text_of(token, name, &zone)).collect();
                    let rows: Vec<Vec<String>> = value::list(tokens, "tokens").iter().map(row).collect();
                    table(&["label", "role", "agent", "made", "ends", "last used"], &rows)
                })
            }
            Token::Revoke { label } => {
                let answer = http.revoke_token(&network, &label).await.map_err(|error| {
                    CliError::from(error).if_missing("`rialto network token list` shows what there is")
                })?;
                cx.out.show(&answer, |_, _| format!("token {label} is revoked"))
            }
        }
    }
}

impl New {
    fn request(self) -> Result<NewToken, CliError> {
        let expires_at = match &self.expires {
            None => None,
            Some(span) => {
                let span = since::span(span).filter(|ms| *ms > 0);
                let span = span.ok_or_else(|| CliError::usage("--expires takes a span such as 12h or 30d"))?;
                Some(now_ms().saturating_add(span))
            }
        };
        let agent = self.agent.as_deref().map(speaker_address).transpose()?;
        Ok(NewToken { label: self.label, role: self.role, agent, expires_at })
    }
}
