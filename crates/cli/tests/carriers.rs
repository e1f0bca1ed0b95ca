//! Every ordered pair of carriers: what is sent over one is received over the other, the same and exactly once.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout, reason = "tests")]
#![allow(clippy::wildcard_enum_match_arm, unreachable_pub, reason = "tests")]

mod support;

use expect_test::expect_file;
use rialto_sim::contract::{Matrix, doors};
use support::Node;

#[tokio::test(flavor = "multi_thread")]
async fn every_pair_of_carriers() {
    let node = Node::start();
    let matrix = Matrix::run(&node.place(), &doors()).await.unwrap();
    let page = matrix.page();
    println!("{page}");
    assert_eq!(matrix.faults(), Vec::<String>::new());
    expect_file![concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/interop.md")].assert_eq(&page);
}
