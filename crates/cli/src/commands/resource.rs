//! `rialto resource …`: tools, files and contexts of the network.

use crate::context::Context;
use crate::exit::CliError;
use crate::render::table::table;
use crate::render::{bytes, value};
use clap::{Args, Subcommand};
use rialto_client::{ResourceQuery, Upload};
use rialto_model::{Address, limits};
use serde_json::{Map, Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Verbs of `resource`.
#[derive(Debug, Subcommand)]
pub(crate) enum Resource {
    /// List what you may read
    List {
        /// tool, file or context
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// Only of this owner
        #[arg(long)]
        owner: Option<String>,
        /// Only addresses that begin so, such as file/docs/
        #[arg(long)]
        prefix: Option<String>,
        /// Only those whose address or description has this text
        #[arg(long)]
        query: Option<String>,
    },
    /// What is known of one resource
    Show {
        /// file/PATH, context/NAME or tool/NAME
        address: String,
    },
    /// Register a tool, or a file or context that you keep yourself
    Register {
        /// file/PATH, context/NAME or tool/NAME
        address: String,
        #[command(flatten)]
        said: ResourceArgs,
        /// What a tool takes: JSON Schema or {"name": "string", "limit": "integer?"}
        #[arg(long, value_name = "JSON")]
        input: Option<String>,
        /// What a tool gives
        #[arg(long, value_name = "JSON")]
        output: Option<String>,
    },
    /// Put a file into the network, as a new resource or a new version
    Put {
        /// file/PATH or context/NAME
        address: String,
        /// The file; `-` reads standard input
        file: PathBuf,
        #[command(flatten)]
        said: ResourceArgs,
        /// Media type of the content
        #[arg(long, value_name = "TYPE")]
        content_type: Option<String>,
        /// Only if this is the version that is there; 0 if nothing may be there
        #[arg(long, value_name = "N")]
        if_version: Option<u64>,
    },
    /// Read the content of a file or context
    Get {
        /// file/PATH or context/NAME
        address: String,
        /// Write it to this file instead of standard output
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// An earlier version
        #[arg(long, value_name = "N")]
        version: Option<u64>,
        /// A part: FROM-TO, FROM- or -LAST, in bytes
        #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
        range: Option<String>,
    },
    /// Say who may do what
    Permit {
        /// file/PATH, context/NAME or tool/NAME
        address: String,
        /// OPERATION=RULE: read, write, invoke or admin; network, owner, role:…, group/…, agents:[…] or a JSON list
        #[arg(required = true, value_name = "OPERATION=RULE")]
        rules: Vec<String>,
    },
    /// Take a resource away
    Remove {
        /// file/PATH, context/NAME or tool/NAME
        address: String,
    },
}

/// What may be said of any resource.
#[derive(Debug, Args)]
pub(crate) struct ResourceArgs {
    /// What it is, for people and agents
    #[arg(long)]
    description: Option<String>,
    /// Who may do what, as for `permit`
    #[arg(long = "permit", value_name = "OPERATION=RULE")]
    rules: Vec<String>,
}

const MISSING: &str = "`rialto resource list` shows what there is";

impl Resource {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        match self {
            Resource::List { kind, owner, prefix, query } => {
                list(cx, ResourceQuery { kind, owner, prefix, query, ..ResourceQuery::default() }).await
            }
            Resource::Show { address } => show(cx, &address).await,
            Resource::Register { address, said, input, output } => {
                register(cx, &address, &said, input.as_deref(), output.as_deref()).await
            }
            Resource::Put { address, file, said, content_type, if_version } => {
                let upload = Upload {
                    content_type: content_type.or_else(|| guess(&file)),
                    description: said.description,
                    permissions: rules(&said.rules)?.map(|rules| rules.to_string()),
                    if_version,
                };
                put(cx, &address, &file, &upload).await
            }
            Resource::Get { address, output, version, range } => {
                get(cx, &address, output.as_deref(), version, range.as_deref()).await
            }
            Resource::Permit { address, rules: said } => {
                let payload = json!({ "permissions": rules(&said)? });
                let address = full(&address)?;
                let mut voice = cx.member().await?;
                let changed = voice.call(async |http| http.change_resource(&address, &payload).await).await;
                done(cx, &changed.map_err(|e| e.if_missing(MISSING))?)
            }
            Resource::Remove { address } => {
                let address = full(&address)?;
                let mut voice = cx.member().await?;
                let removed = voice.call(async |http| http.remove_resource(&address).await).await;
                let removed = removed.map_err(|e| e.if_missing(MISSING))?;
                cx.out.show(&removed, |_, _| format!("{address} removed"))
            }
        }
    }
}

/// The whole address: `resource/` may be left out.
pub(crate) fn full(text: &str) -> Result<String, CliError> {
    let kinds = ["tool/", "file/", "context/"];
    let rest = text.trim_start_matches("resource/");
    if !kinds.iter().any(|kind| rest.starts_with(kind)) {
        let what = CliError::usage(format!("{text:?} is no resource"));
        return Err(what.next("write file/PATH, context/NAME or tool/NAME"));
    }
    let parsed = Address::parse(&format!("resource/{rest}"));
    Ok(parsed.map_err(|e| CliError::usage(format!("{text:?}: {e}")))?.to_string())
}

/// `OPERATION=RULE…` as JSON.
fn rules(said: &[String]) -> Result<Option<Value>, CliError> {
    let mut out = Map::new();
    for text in said {
        let (operation, rule) = text.split_once('=').ok_or_else(|| {
            CliError::usage(format!("{text:?} is no rule")).next("write read=network, write='group/team' …")
        })?;
        let rule = if rule.starts_with('[') {
            serde_json::from_str(rule).map_err(|e| CliError::usage(format!("{rule:?} is no JSON list: {e}")))?
        } else {
            json!(rule)
        };
        out.insert(operation.to_owned(), rule);
    }
    Ok((!out.is_empty()).then(|| out.into()))
}

/// A media type by the file's name, for the few that people read.
pub(crate) fn guess(file: &Path) -> Option<String> {
    let kind = match file.extension()?.to_str()? {
        "md" => "text/markdown",
        "txt" | "log" => "text/plain",
        "json" => "application/json",
        "csv" => "text/csv",
        "html" => "text/html",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "pdf" => "application/pdf",
        _ => return None,
    };
    Some(kind.to_owned())
}

async fn list(cx: &mut Context, mut query: ResourceQuery) -> Result<(), CliError> {
    let mut voice = cx.member().await?;
    let mut all = Vec::new();
    loop {
        let page = voice.call(async |http| http.resources(&query).await).await?;
        all.extend_from_slice(value::list(&page, "resources"));
        query.after = page.get("next").and_then(Value::as_str).map(str::to_owned);
        if query.after.is_none() {
            break;
        }
    }
    let text = |r: &Value, key: &str| r.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let row = |r: &Value| {
        let yours: Vec<&str> = value::list(r, "your_permissions").iter().filter_map(Value::as_str).collect();
        let size = r.get("size").and_then(Value::as_u64).map(bytes).unwrap_or_default();
        let version = r.get("version").and_then(Value::as_u64).unwrap_or(0).to_string();
        let address = text(r, "address").trim_start_matches("resource/").to_owned();
        vec![address, text(r, "owner"), version, size, yours.join(","), text(r, "description")]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    cx.out.show(&json!({ "resources": all }), |_, _| {
        table(&["RESOURCE", "OWNER", "VERSION", "SIZE", "YOU MAY", "DESCRIPTION"], &rows)
    })
}

async fn show(cx: &mut Context, address: &str) -> Result<(), CliError> {
    let address = full(address)?;
    let mut voice = cx.member().await?;
    let found = voice.call(async |http| http.resource(&address).await).await.map_err(|e| e.if_missing(MISSING))?;
    let zone = cx.zone.clone();
    cx.out.show(&found, |found, _| value::lines(found, &zone))
}

async fn register(
    cx: &mut Context,
    address: &str,
    said: &ResourceArgs,
    input: Option<&str>,
    output: Option<&str>,
) -> Result<(), CliError> {
    let mut payload = Map::new();
    payload.insert("address".into(), json!(full(address)?));
    if let Some(text) = &said.description {
        payload.insert("description".into(), json!(text));
    }
    if let Some(rules) = rules(&said.rules)? {
        payload.insert("permissions".into(), rules);
    }
    if let Some(schema) = schema(input, output)? {
        payload.insert("schema".into(), schema);
    }
    let payload = Value::Object(payload);
    let mut voice = cx.member().await?;
    let made = voice.call(async |http| http.register_resource(&payload).await).await?;
    done(cx, &made)
}

/// {input, output} of a tool.
pub(crate) fn schema(input: Option<&str>, output: Option<&str>) -> Result<Option<Value>, CliError> {
    let mut out = Map::new();
    for (key, text) in [("input", input), ("output", output)] {
        if let Some(text) = text {
            let schema = serde_json::from_str(text);
            out.insert(key.to_owned(), schema.map_err(|e| CliError::usage(format!("--{key} is not JSON: {e}")))?);
        }
    }
    Ok((!out.is_empty()).then(|| out.into()))
}

fn done(cx: &mut Context, made: &Value) -> Result<(), CliError> {
    let zone = cx.zone.clone();
    cx.out.show(made, |made, _| {
        format!("{} version {}", value::text_of(made, "address", &zone), value::text_of(made, "version", &zone))
    })
}

async fn put(cx: &mut Context, address: &str, file: &Path, upload: &Upload) -> Result<(), CliError> {
    let address = full(address)?;
    let mut voice = cx.member().await?;
    // A session that has ended is found out before the bytes are sent.
    voice
        .call(async |http| http.resources(&ResourceQuery { limit: Some(1), ..ResourceQuery::default() }).await)
        .await?;
    let made = if file == Path::new("-") {
        voice.http.put_resource(&address, upload, None, std::io::stdin()).await?
    } else {
        let opened = std::fs::File::open(file).map_err(|e| CliError::file("read", file, &e))?;
        let length = opened.metadata().map_err(|e| CliError::file("read", file, &e))?.len();
        // The node refuses it too; while bytes are on their way its refusal may come behind a broken connection.
        if length > limits::FILE_BYTES_MAX {
            let text = format!(
                "too_large: {} has {length} bytes, and a resource has at most {} (limit)",
                file.display(),
                limits::FILE_BYTES_MAX
            );
            return Err(CliError::usage(text).next("split it into parts"));
        }
        voice.http.put_resource(&address, upload, Some(length), opened.take(length)).await?
    };
    done(cx, &made)
}

async fn get(
    cx: &mut Context,
    address: &str,
    output: Option<&Path>,
    version: Option<u64>,
    range: Option<&str>,
) -> Result<(), CliError> {
    let address = full(address)?;
    let mut voice = cx.member().await?;
    let found = voice.call(async |http| http.resource(&address).await).await.map_err(|e| e.if_missing(MISSING))?;
    if found.get("backing").and_then(Value::as_str) == Some("owner") {
        let owner = found.get("owner").and_then(Value::as_str).unwrap_or_default();
        let text = format!("{address} is kept by its owner, {owner}");
        return Err(CliError::usage(text)
            .next(format!("ask for it: rialto send {address} --type network.resource.read --payload '{{}}' --wait")));
    }
    let mut body = voice.call(async |http| http.resource_content(&address, version, range).await).await?;
    let mut file = match output {
        Some(path) => Some((path, std::fs::File::create(path).map_err(|e| CliError::file("write", path, &e))?)),
        None => None,
    };
    while let Some(piece) = body.chunk().await? {
        match &mut file {
            Some((path, file)) => {
                std::io::Write::write_all(file, &piece).map_err(|e| CliError::file("write", path, &e))?;
            }
            None => cx.out.bytes(&piece)?,
        }
    }
    Ok(())
}
