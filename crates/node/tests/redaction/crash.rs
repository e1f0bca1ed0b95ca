//! The power is cut at every step of a redaction: the next start finishes it, and nothing else is lost.

use crate::scenes::{ALL, Scene};
use crate::world::{abandon, check, holding_on, open_on};
use rialto_store::disk::fault::FaultDisk;
use std::path::Path;

/// Cuts the power after so many steps; gives whether the redaction was over by then.
async fn cut(scene: Scene, steps: u64) -> bool {
    let disk = FaultDisk::new(steps);
    let (node, network) = open_on(&disk).await;
    scene.play(&network).await;
    let head = *network.head().borrow();
    disk.cut_after(steps);
    let done = network.redact("said").await.is_ok();
    abandon(node, network, &disk).await;
    let (node, network) = open_on(&disk).await;
    assert!(*network.head().borrow() >= head, "{scene:?}, {steps} steps: events are lost");
    check(&node, &network).await;
    // Before the tombstone nothing was promised.
    let marked = network.find("said").await.unwrap().unwrap().event.payload().trim_matches(['{', '}', ' ']).is_empty();
    assert!(marked || !done, "{scene:?}, {steps} steps: it was acknowledged");
    if !marked {
        network.redact("said").await.unwrap();
        check(&node, &network).await;
    }
    node.stop().await;
    assert_eq!(holding_on(&disk, Path::new("/data")), [""; 0], "{scene:?}, {steps} steps");
    done
}

#[tokio::test]
async fn wherever_the_power_is_cut() {
    for scene in ALL {
        let mut steps = 0;
        while !cut(scene, steps).await {
            steps += 1;
            assert!(steps < 500, "{scene:?} never ends");
        }
    }
}
