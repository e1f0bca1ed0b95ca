//! Several faces on one listener: none takes another's place, and one document lists what all of them serve.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use rialto_carrier::operations::{Op, scoped_path};
use std::collections::BTreeSet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Every operation of every room.
fn operations() -> Vec<&'static Op> {
    let tables = [
        rialto_carrier::service::OPS,
        rialto_openagents::ops::OPS,
        rialto_openagents::docs::OPS,
        rialto_openagents::sdk::OPS,
        rialto_operator::ops::OPS,
    ];
    tables.into_iter().flatten().collect()
}

#[test]
fn every_operation_has_its_own_name_and_place() {
    let ops = operations();
    for (i, op) in ops.iter().enumerate() {
        let twin = ops.iter().skip(i + 1).find(|o| o.id == op.id || o.method == op.method && o.path == op.path);
        assert!(twin.is_none(), "{} is listed twice", op.id);
    }
}

#[tokio::test]
async fn one_document_lists_the_operations_of_all_faces() {
    let server = common::server(100).await;
    let mut connection = TcpStream::connect(server.addr).await.unwrap();
    let request = format!("GET /openapi.json HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.addr);
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    let document: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let listed: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| item.as_object().unwrap().keys().map(move |method| (path.clone(), method.clone())))
        .collect();
    let served: BTreeSet<(String, String)> = operations()
        .into_iter()
        .flat_map(|op| [Some(op.path.to_owned()), scoped_path(op)].into_iter().flatten().map(move |path| (path, op)))
        .map(|(path, op)| (path.replace("{*", "{"), op.method.to_owned()))
        .collect();
    assert_eq!(listed, served);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in ["Refusal", "Event", "EventDraft", "NetworkList", "RoomView"] {
        assert!(schemas.contains_key(name), "no schema {name}");
    }
    server.stop.cancel();
    server.node.stop().await;
}
