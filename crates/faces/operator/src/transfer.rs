//! One network as a file, out of the node and into it (`rialto network export` and `import`).

use crate::operations::piped;
use crate::request::OperatorRequest;
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use rialto_carrier::{Refusal, answer};
use rialto_model::{ErrorCode, Fault};
use rialto_node::AdminOp;
use serde_json::json;
use tokio::sync::mpsc;

/// Pieces of an import that wait for the disk.
const PIECES_AHEAD: usize = 4;

/// `POST /v1/admin/networks/{id}/export`: the network as it is durable now, as one file.
pub(crate) async fn export(request: OperatorRequest) -> Result<Response, Refusal> {
    let (node, network) = (request.state.node.clone(), request.network()?);
    if network.damage().is_none() {
        network.session(&request.caller).act(request.client.place(), AdminOp::Noted("network.export", None)).await?;
    }
    let body = piped(move |pipe| node.export_network(&network, pipe).map(|_| ()).map_err(|e| e.to_string()));
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

/// `POST /v1/admin/import?name=`: the body is such a file.
pub(crate) async fn import(request: OperatorRequest, body: Body) -> Result<Response, Refusal> {
    let (node, name) = (request.state.node.clone(), request.params.get("name").cloned());
    let (feed, pieces) = mpsc::channel(PIECES_AHEAD);
    // It comes to its end, good or bad, also when the caller goes away; what was not sent to the end is refused.
    let importing = tokio::spawn(async move { node.import_network(pieces, name.as_deref()).await });
    let mut body = body.into_data_stream();
    let mut broke_off = false;
    while let Some(piece) = body.next().await {
        broke_off = piece.is_err();
        let Ok(piece) = piece else { break };
        if feed.send(piece).await.is_err() {
            break;
        }
    }
    drop(feed);
    let imported = importing.await.map_err(|_| Fault::from(ErrorCode::Internal))?;
    if broke_off {
        return Err(Fault::new(ErrorCode::InvalidArgument, "the body broke off; nothing was imported").into());
    }
    let imported = imported?;
    let (network, counts) = (imported.network, imported.counts);
    network.session(&request.caller).act(request.client.place(), AdminOp::Noted("network.import", None)).await?;
    let mut data = json!({
        "id": network.id(), "name": network.settings().name, "events": counts.records, "blobs": counts.blobs,
        "bytes": counts.bytes,
    });
    if let (Some(token), Some(map)) = (imported.token, data.as_object_mut()) {
        map.insert("token".into(), json!(token.expose()));
    }
    Ok(answer::ok(&data))
}
