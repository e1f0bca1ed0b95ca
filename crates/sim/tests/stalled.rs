//! A thousand subscribers that stop reading: each costs the node a bounded number of bytes, and whoever reads receives everything in time.
//! How much slower others get is a measurement: `cargo run --release -p rialto-sim --example stalled_readers`.

use rialto_sim::crowd::{Readers, stall};
use rialto_sim::harness::{Server, raise_file_limit};
use std::time::Duration;

const STALLED: usize = 1000;
/// Bytes a stalled reader may cost the node: a window of marks and one write, never the events that wait for it.
const STALLED_READER_BYTES_MAX: u64 = 64 << 10;
/// Others are far below a second, even in a debug build on a busy machine.
const OTHERS_WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn stalled_readers_cost_little_and_others_receive_everything() {
    raise_file_limit();
    let server = Server::start().await;
    let mut readers = Readers::join(&server, 8).await;
    let (stalled, bytes) = stall(&server, &mut readers, STALLED).await;
    eprintln!("{STALLED} stalled readers: {bytes} bytes each");
    assert!(bytes <= STALLED_READER_BYTES_MAX, "a stalled reader costs {bytes} bytes");
    let latency = readers.run(100, 256).await;
    eprintln!("others: p50 {:?}, p99 {:?}", latency.quantile(0.5), latency.quantile(0.99));
    assert!(latency.quantile(0.99) < OTHERS_WITHIN, "others wait {:?}", latency.quantile(0.99));
    assert_eq!(stalled.len(), STALLED);
    assert!(!server.told().contains("panicked"), "{}", server.told());
}
