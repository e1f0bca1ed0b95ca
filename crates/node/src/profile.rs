//! Bringing workspaces to today's profile: at their making, and at the start of a node that has older ones.

use crate::blobs::{Blobs, Staging};
use crate::network::Network;
use rialto_engine::AdminOp;
use rialto_engine::input::Content;
use rialto_model::Fault;
use std::sync::Arc;

/// `resource/context/skill-md` of a new workspace.
const SKILL: &str = include_str!("skill.md");
/// Whom the network's own content is staged for: no member has this number.
const NOBODY: u32 = u32::MAX;

/// Keeps the text that a workspace begins with. It is the network's own: no quota stands against it.
pub(crate) async fn skill(blobs: &Arc<Blobs>, network: u32) -> Result<Content, Fault> {
    let mut upload = blobs.stage(Staging::new(network, NOBODY, u64::MAX)).await?;
    upload.write(SKILL.as_bytes()).await?;
    let stored = upload.finish().await?;
    Ok(Content { blob: stored.hash, size: stored.size })
}

/// Gives an older workspace what it never had. Where the disk refuses, the next start tries again.
pub(crate) async fn catch_up(blobs: &Arc<Blobs>, network: &Network) {
    let revised = match skill(blobs, network.number()).await {
        Ok(skill) => network.admin(AdminOp::ReviseProfile { skill, mods_chosen: false }).await,
        Err(fault) => Err(fault),
    };
    match revised {
        Ok(_) => tracing::info!(network = network.id(), "the workspace has today's profile"),
        Err(fault) => tracing::warn!(network = network.id(), %fault, "the workspace keeps its older profile"),
    }
}
