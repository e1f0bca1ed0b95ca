//! One life of the process: open, run steps until something ends it, and what happens between two lives.

use super::checks::Desk;
use super::client::{Client, Frame};
use super::facts::FactBook;
use super::oracle::{Oracle, Wrong, wrong};
use super::script::ADDRESSES;
use super::{DIR, Net, Rot, World, rules};
use rialto_model::network::{Delivery, Policy, Preset};
use rialto_node::{AdminOp, CreateNetwork, Node, NodeParts};
use rialto_store::disk::{Disk, DiskFile as _};
use rialto_store::{LocalOptions, LocalStore, Store as _, StoreError};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    PowerCut,
    Kill,
    Stopped,
    Rot { file: u64, byte: u64, bit: u8 },
}

impl World {
    /// One life.
    pub(crate) async fn live(&mut self) -> Result<End, Wrong> {
        if let Some((calls, power)) = self.falls.take() {
            self.disk.cut_after(calls);
            // Whatever comes of it, nobody sees it.
            let _ = self.open().await;
            self.until_gone(calls).await;
            return Ok(if power { End::PowerCut } else { End::Kill });
        }
        if !self.open().await? {
            return Ok(End::Stopped);
        }
        if self.rot.is_some() {
            self.compare_rotten().await?;
            self.stop().await?;
            return Ok(End::Stopped);
        }
        if self.nets.is_empty() {
            self.create().await?;
        } else {
            self.start_processes().await;
            self.look().await?;
            for net in &mut self.nets {
                let running: Vec<&str> = net.desk.ports.keys().copied().collect();
                net.oracle.owed_are_taken_up(&running)?;
            }
        }
        while let Some(step) = self.script.steps.get(self.at).copied() {
            self.note(&step.to_string());
            let end = self.step(step).await?;
            if end.is_none() {
                self.collect().await?;
            }
            if let Some(end) = end {
                self.at += 1;
                return Ok(end);
            }
            self.at += 1;
        }
        self.heal();
        self.look().await?;
        Ok(End::Done)
    }

    /// Lets the node go on until it is in the middle of a change of the disk, or has nothing to do. Nobody hears its answers.
    pub(crate) async fn until_gone(&mut self, calls: u64) {
        for _ in 0..calls + 4 {
            Self::breathe().await;
            self.pump();
            while !self.disk.is_cut() && self.host.run_errand() {}
            if self.disk.is_cut() {
                return;
            }
        }
    }

    /// Opens the store and the node; false if rot was found and named.
    async fn open(&mut self) -> Result<bool, Wrong> {
        let options = LocalOptions {
            first_segment_bytes: self.script.segment_bytes,
            max_segment_bytes: self.script.segment_bytes * 2,
            free_floor_bytes: 0,
            seed: Some(self.script.seed ^ (self.counts.restarts << 32)),
            manual: true,
            ..LocalOptions::default()
        };
        let store = match LocalStore::open_on(self.disk.clone(), DIR, options) {
            Ok(store) => Arc::new(store),
            Err(error) if self.rot.is_some() => return self.named(&error),
            Err(error) => return wrong("opens again", format!("the store does not open: {error}")),
        };
        self.store = Some(store.clone());
        let (host, snapshot_bytes) = (self.host.clone(), self.script.snapshot_bytes);
        let parts = NodeParts { host, snapshot_bytes, index: self.search_index()?, ..NodeParts::over(store) };
        match Node::open_with(parts).await {
            Ok(node) => self.node = Some(node),
            Err(error) if self.rot.is_some() => {
                self.note(&format!("the rot is named: {error}"));
                return Ok(false);
            }
            Err(error) => return wrong("opens again", format!("the node does not open: {error}")),
        }
        let lost = self.node.as_ref().map_or(0, |node| node.lost_networks().len());
        for net in &mut self.nets {
            net.handle = self.node.as_ref().and_then(|node| node.network(&net.id));
            if net.handle.is_none() && (self.rot.is_none() || lost == 0) {
                return wrong("nothing lost", format!("network {} is gone", net.id));
            }
        }
        self.damage_is_of_one(lost)?;
        Ok(true)
    }

    /// One turned bit is the damage of one network at most: all others run.
    fn damage_is_of_one(&mut self, lost: usize) -> Result<(), Wrong> {
        let handles = self.nets.iter().filter_map(|net| net.handle.as_ref());
        let damaged: Vec<String> = handles.filter_map(rialto_node::Network::damage).collect();
        let hurt = damaged.len() + lost;
        if self.rot.is_none() && hurt > 0 {
            return wrong("opens again", format!("damaged though nothing rotted: {damaged:?} and {lost} lost"));
        }
        if hurt > 1 {
            return wrong("damage", format!("one bit has turned and {hurt} networks stand still: {damaged:?}"));
        }
        damaged.iter().for_each(|what| self.note(&format!("the rot is named: {what}")));
        Ok(())
    }

    fn named(&mut self, error: &StoreError) -> Result<bool, Wrong> {
        self.note(&format!("the rot is named: {error}"));
        Ok(false)
    }

    /// Makes the networks of the plan.
    async fn create(&mut self) -> Result<(), Wrong> {
        for (n, plan) in self.script.nets.clone().iter().enumerate() {
            let Some(node) = self.node.clone() else { return Ok(()) };
            let preset = if plan.workspace { Preset::Workspace } else { Preset::Plain };
            // Workspaces keep to the rules of resources, plain networks are open.
            let guard = plan.workspace.then_some("access-control");
            let mods = ["auth"].into_iter().chain(guard).chain(plan.persistence.then_some("persistence"));
            let wish = CreateNetwork {
                policy: if plan.closed { Policy::Token } else { Policy::Open },
                durability: plan.durability(),
                delivery: if plan.at_least_once { Delivery::AtLeastOnce } else { Delivery::AtMostOnce },
                mods: Some(mods.map(str::to_owned).collect()),
                token_manages: plan.token_manages,
                ..CreateNetwork::named(&format!("net{n}"), preset)
            };
            let made = self.drive(async move { node.create_network(wish).await }).await?;
            let handle = match made {
                Ok((network, _)) => network,
                Err(fault) => return wrong("world", format!("no network: {fault}")),
            };
            let mut patch = serde_json::Map::new();
            if let Some(ms) = plan.ttl_ms {
                patch.insert("ttl_ms".into(), json!(ms));
            }
            if let Some(max) = plan.max_pending {
                patch.insert("max_pending".into(), json!(max));
            }
            if let Some(kib) = plan.max_pending_kib {
                patch.insert("max_pending_bytes".into(), json!(kib << 10));
            }
            if let Some(max) = plan.max_attempts {
                patch.insert("max_attempts".into(), json!(max));
            }
            let mut ops = vec![AdminOp::Settings(patch.into())];
            ops.extend(World::tokens(n));
            if let (Some(max), true) = (plan.max_events, plan.persistence) {
                let mut config = rialto_node::standard_mod("persistence")
                    .map_err(|fault| Wrong { check: "world", what: fault.to_string() })?;
                config.config.insert("max_events".into(), json!(max));
                config.config.insert("purge_interval_s".into(), json!(60));
                ops.push(AdminOp::SetMod(config));
            }
            if plan.guests {
                // It is there for invitations, and for nothing else of a workspace.
                let mut config = rialto_node::standard_mod("workspace")
                    .map_err(|fault| Wrong { check: "world", what: fault.to_string() })?;
                config.intercepts = vec!["workspace.invitation.*".to_owned()];
                ops.push(AdminOp::SetMod(config));
            }
            for op in ops {
                let network = handle.clone();
                if let Err(fault) = self.drive(async move { network.admin(op).await }).await? {
                    return wrong("world", format!("settings: {fault}"));
                }
            }
            let id = handle.id().to_owned();
            let oracle = Oracle::new(rules(plan, &id), self.now());
            let clients = (0..).zip(ADDRESSES).map(|(number, address)| Client::new(number, address)).collect();
            self.nets.push(Net {
                id,
                handle: Some(handle),
                oracle,
                clients,
                lazy: Vec::new(),
                doubts: Vec::new(),
                shaky: false,
                desk: Desk::default(),
                facts: FactBook::default(),
                receipts: Vec::new(),
                signals: Vec::new(),
            });
        }
        Ok(())
    }

    /// A clean stop: everything is committed and answered first.
    pub(crate) async fn stop(&mut self) -> Result<(), Wrong> {
        self.heal();
        let Some(node) = self.node.clone() else { return Ok(()) };
        self.drive(async move { node.stop().await }).await?;
        self.collect().await?;
        // What was decided is in the log, unless it was refused on the way.
        self.nets.iter_mut().filter(|n| !n.shaky).for_each(|n| n.lazy.retain(|acked| !acked.told));
        Ok(())
    }

    /// Whether a log that stopped has acknowledged what it did not flush: of networks of durability `os`, before the disk failed.
    pub(crate) fn has_unflushed(&self) -> bool {
        let logs = self.store.as_ref().map(|store| store.health().logs).unwrap_or_default();
        logs.iter().any(|log| log.durable_lsn < log.last_lsn)
    }

    /// The process is gone, and with it every connection.
    pub(crate) fn end_life(&mut self) {
        self.node = None;
        let (now, trouble) = (self.now(), self.trouble);
        self.trouble = false;
        self.lasting = false;
        while self.host.forget_errand() {}
        for net in &mut self.nets {
            net.handle = None;
            if !trouble && !net.shaky {
                let running: Vec<&str> = net.desk.ports.keys().copied().collect();
                net.oracle.life_ends(&running, now);
            }
            net.desk.clear();
            let lost: Vec<Frame> = net.clients.iter_mut().flat_map(Client::forget_all).collect();
            lost.into_iter().for_each(|frame| net.lost(frame));
            net.oracle.power_cut();
            net.doubts.append(&mut net.lazy);
        }
    }

    /// What happens while nobody runs.
    pub(crate) fn between(&mut self, end: End) {
        self.counts.restarts += 1;
        self.index_may_be_gone(end);
        let rotten = self.rot.take();
        self.rotted.extend(rotten.clone());
        for Rot { path, offset, mask, around } in self.rotted.clone() {
            // A file that was written anew is whole without this; one that was set aside has another name.
            for path in [path.with_extension("damaged"), path] {
                if bytes_around(&self.disk, &path, offset).as_ref() == Some(&around) {
                    let _ = self.disk.flip(&path, offset, mask);
                }
            }
        }
        // A power cut may bring back a snapshot that was removed or set aside, as rotten as it was. Other names are used
        // again for other bytes.
        self.rotted.retain(|rot| rot.path.extension().is_some_and(|e| e == "snap"));
        if rotten.is_some() {
            return;
        }
        let End::Rot { file, byte, bit } = end else { return };
        let files = files(&self.disk, Path::new(DIR));
        let Some((path, len)) = usize::try_from(file).ok().and_then(|n| files.get(n % files.len().max(1))) else {
            return;
        };
        // The beginnings of files are where things are.
        let reach = if byte % 3 == 0 { *len } else { (*len).min(1024) };
        let offset = (byte / 3) % reach.max(1);
        if self.disk.flip(path, offset, 1 << bit).is_ok()
            && let Some(around) = bytes_around(&self.disk, path, offset)
        {
            self.note(&format!("{} rots at {offset}", path.display()));
            self.rot = Some(Rot { path: path.clone(), offset, mask: 1 << bit, around });
            self.nets.iter_mut().for_each(|net| net.oracle.rotten = true);
        }
    }
}

/// A few bytes before and behind an offset, as far as the file has them.
fn bytes_around<D: Disk>(disk: &D, path: &Path, offset: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 32];
    let got = disk.open(path, false).and_then(|file| file.read_at(&mut bytes, offset.saturating_sub(16))).ok()?;
    bytes.truncate(got);
    Some(bytes)
}

/// Every file with bytes, by name.
fn files<D: Disk>(disk: &D, dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut out = Vec::new();
    for entry in disk.list(dir).unwrap_or_default() {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            out.extend(files(disk, &path));
        } else if entry.len > 0 {
            out.push((path, entry.len));
        }
    }
    out
}
