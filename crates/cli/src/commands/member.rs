//! `rialto member …`: who belongs to the network, in which role, and whose each name is.

use crate::context::{Context, speaker_address};
use crate::exit::CliError;
use crate::render::table::table;
use crate::render::value;
use clap::Subcommand;
use rialto_client::ClientError;
use serde_json::{Value, json};

/// Verbs of `member`.
#[derive(Debug, Subcommand)]
pub(crate) enum Member {
    /// List members with their roles and what holds their names
    List,
    /// Set what a member may do
    Role {
        /// Name or address
        name: String,
        /// master manages the network, observer only reads
        #[arg(value_parser = ["master", "member", "observer"])]
        role: String,
    },
    /// Remove a member: its sessions end, and the invitations it made
    Remove {
        /// Name or address
        name: String,
    },
    /// Free a name that belongs to a member, or that a renamed one had before
    Release {
        /// Name or address
        name: String,
    },
    /// Give a member another name; its mail, rooms and work follow it
    Rename {
        /// Name or address
        name: String,
        /// The new name
        new: String,
    },
}

fn missing(error: ClientError) -> CliError {
    CliError::from(error).if_missing("`rialto member list` shows who is a member")
}

impl Member {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let (http, network) = cx.operator_of_network().await?;
        let zone = cx.zone.clone();
        match self {
            Member::List => {
                let members = http.members(&network).await?;
                cx.out.show(&members, |members, _| {
                    let row = |member: &Value| {
                        let text = |name: &str| value::text_of(member, name, &zone);
                        let sessions = value::list(member, "sessions").len().to_string();
                        vec![
                            text("address"),
                            text("role"),
                            text("online"),
                            text("owned"),
                            sessions,
                            text("last_seen_at"),
                        ]
                    };
                    let rows: Vec<Vec<String>> = value::list(members, "members").iter().map(row).collect();
                    table(&["address", "role", "online", "owned", "sessions", "last seen"], &rows)
                })
            }
            Member::Role { name, role } => {
                let address = speaker_address(&name)?;
                let done = http.change_member(&network, &address, &json!({ "role": role })).await.map_err(missing)?;
                cx.out.show(&done, |_, _| format!("{address} is {role}"))
            }
            Member::Remove { name } => {
                let address = speaker_address(&name)?;
                let done = http.remove_member(&network, &address).await.map_err(missing)?;
                cx.out.show(&done, |_, _| format!("{address} is removed"))
            }
            Member::Release { name } => {
                let address = speaker_address(&name)?;
                let done = http.release_member(&network, &address).await.map_err(missing)?;
                cx.out.show(&done, |_, _| {
                    format!("{address} belongs to nobody: whoever joins with the token may have it")
                })
            }
            Member::Rename { name, new } => {
                let address = speaker_address(&name)?;
                let done = http.change_member(&network, &address, &json!({ "name": new })).await.map_err(missing)?;
                cx.out.show(&done, |done, _| format!("{address} is {}", value::text_of(done, "address", &zone)))
            }
        }
    }
}
