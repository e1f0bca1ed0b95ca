//! Connections that are opened and say nothing, or next to nothing.

use crate::node_with_places;
use rialto_sim::harness::{Server, raise_file_limit};
use rialto_sim::load::{Attacker, Watch, times};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Opens connections that each say this much and no more; keeps those that the node let in.
async fn say(server: &Server, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        if let Ok(mut stream) = TcpStream::connect(server.address()).await
            && stream.write_all(bytes).await.is_ok()
        {
            held.push(stream);
        }
    }
    held
}

/// More of them than there are places, with what once was enough to be left alone: the beginning of HTTP/2, its whole preface, a request
/// that breaks off, one that is answered, an upgrade without a join, nothing at all.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_never_ask_leave_room_for_those_that_do() {
    const PLACES: usize = 40;
    raise_file_limit();
    let upgrade = "GET /ws/main HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                   sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let beginnings: [&[u8]; 6] = [
        b"PRI",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-a: ",
        b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n",
        upgrade.as_bytes(),
        b"",
    ];
    let dir = tempfile::tempdir().unwrap();
    let server = node_with_places(dir.path(), times(PLACES)).await;
    let watch = Watch::begin(&server, Attacker::Stranger).await;
    let mut held = Vec::new();
    for bytes in beginnings {
        held.extend(say(&server, times(2 * PLACES), bytes).await);
    }
    let released = watch.held("connections that never ask").await;
    drop(held);
    released.await_release(&server).await;
}
