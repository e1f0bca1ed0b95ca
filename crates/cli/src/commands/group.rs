//! `rialto group …`: named lists of members, kept by the operator.

use crate::context::{Context, address, group_name};
use crate::exit::CliError;
use crate::render::table::table;
use crate::render::value;
use clap::Subcommand;
use rialto_client::ClientError;
use serde_json::Value;

/// Verbs of `group`.
#[derive(Debug, Subcommand)]
pub(crate) enum Group {
    /// Make a group, or replace its members
    Set {
        /// Group name
        name: String,
        /// Its members
        #[arg(value_name = "ADDRESS")]
        members: Vec<String>,
    },
    /// List groups
    List,
    /// Show one group
    Show {
        /// Group name
        name: String,
    },
    /// Delete a group
    Delete {
        /// Group name
        name: String,
    },
}

impl Group {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let (http, network) = cx.operator_of_network().await?;
        let zone = cx.zone.clone();
        match self {
            Group::Set { name, members } => {
                let name = group_name(&name)?;
                let members: Result<Vec<String>, CliError> =
                    members.iter().map(|text| address(text).map(|a| a.to_string())).collect();
                let group = http.set_group(&network, &name, &members?).await?;
                cx.out.show(&group, |_, _| format!("group/{name} is set"))
            }
            Group::List => {
                let groups = http.groups(&network).await?;
                cx.out.show(&groups, |groups, _| {
                    let row = |group: &Value| {
                        vec![value::text_of(group, "name", &zone), value::text_of(group, "members", &zone)]
                    };
                    let rows: Vec<Vec<String>> = value::list(groups, "groups").iter().map(row).collect();
                    table(&["name", "members"], &rows)
                })
            }
            Group::Show { name } => {
                let group = http.group(&network, &group_name(&name)?).await.map_err(missing)?;
                cx.out.show(&group, |group, _| value::lines(group, &zone))
            }
            Group::Delete { name } => {
                let name = group_name(&name)?;
                let answer = http.delete_group(&network, &name).await.map_err(missing)?;
                cx.out.show(&answer, |_, _| format!("group/{name} is deleted"))
            }
        }
    }
}

fn missing(error: ClientError) -> CliError {
    CliError::from(error).if_missing("`rialto group list` shows what there is")
}
