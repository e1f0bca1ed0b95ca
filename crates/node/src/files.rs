//! Files of a workspace: content on its way in before it is known who brings it, and files by their ids.

use crate::blobs::{Staging, Upload};
use crate::session::Session;
use crate::task::nouns::SeenFile;
use rialto_engine::AdminOp;
use rialto_engine::input::Content;
use rialto_engine::resources::{FileFilter, file_address};
use rialto_model::view::{FileList, FileView};
use rialto_model::{ErrorCode, EventType, Fault, hex, limits};
use serde_json::{Map, Value, json};

/// Whom content is counted for until it is known who brings it: no member has this number.
const NOBODY: u32 = u32::MAX;

/// What is said of a file that was brought.
#[derive(Debug, Clone, Default)]
pub struct NewFile {
    /// Its name, without a path.
    pub name: String,
    /// Its content type.
    pub content_type: Option<String>,
    /// The channel it is for.
    pub channel: Option<String>,
}

/// A file that may be read.
#[derive(Debug, Clone)]
pub struct FoundFile {
    /// As its readers see it.
    pub entry: FileView,
    /// Its version.
    pub version: u64,
    /// Where its bytes are.
    pub content: Content,
}

impl Session {
    /// Takes the content of a file in, at most [`limits::UPLOAD_BYTES_MAX`] of it, for somebody who may join here at least.
    pub async fn begin_file(&self) -> Result<Upload, Fault> {
        let terms = self.view(|task, by| task.may_bring(by)).await?;
        let staging = Staging {
            size_max: limits::UPLOAD_BYTES_MAX,
            ..Staging::new(self.network.number(), terms.member.unwrap_or(NOBODY), terms.quota)
        };
        Ok(self.network.handle.blobs.stage(staging).await?)
    }

    /// Keeps what was taken in as a file of the caller's, and gives the file. Where the network joins whoever speaks, this
    /// is speaking.
    pub async fn keep_file(&self, mut upload: Upload, file: &NewFile) -> Result<FileView, Fault> {
        let id = self.free_file_id().await?;
        let address = file_address(&id, &file.name);
        let asked = || {
            let address = address.clone();
            self.view(move |task, by| task.may_write(by, &address))
        };
        let terms = match asked().await {
            Err(fault) if fault.code == ErrorCode::NotAMember && self.caller.capabilities.joins_by_speaking => {
                let ping = json!({ "type": EventType::Ping.as_str(), "target": "core", "payload": {} });
                for answered in self.emit(ping.to_string().into()).await? {
                    answered.result?;
                }
                asked().await?
            }
            answer => answer?,
        };
        upload.is_brought_by(terms.member.ok_or(ErrorCode::NotAMember)?);
        let stored = upload.finish().await?;
        let mut payload = Map::new();
        payload.insert("address".into(), json!(address));
        payload.insert("blob".into(), json!({ "sha256": hex::text(&stored.hash), "size": stored.size }));
        if let Some(kind) = &file.content_type {
            payload.insert("content_type".into(), json!(kind));
        }
        if let Some(channel) = &file.channel {
            payload.insert("metadata".into(), json!({ "channel_name": channel.trim_start_matches("channel/") }));
        }
        self.told(EventType::ResourceRegister, payload.into()).await?;
        Ok(self.file(&id).await?.entry)
    }

    /// Sends an event to `core` and sees that it was accepted.
    async fn told(&self, kind: EventType<'_>, payload: Value) -> Result<(), Fault> {
        let event = json!({ "type": kind.as_str(), "target": "core", "payload": payload });
        for answered in self.emit(event.to_string().into()).await? {
            answered.result?;
        }
        Ok(())
    }

    async fn free_file_id(&self) -> Result<String, Fault> {
        loop {
            let [a, b, c, d, ..] =
                self.network.handle.host.secret().map_err(|_| Fault::from(ErrorCode::Internal))?.sha256();
            let id = format!("{a:02x}{b:02x}{c:02x}{d:02x}");
            let named = id.clone();
            if !self.view(move |task, _| Ok(task.engine.state.has_file(&named))).await? {
                return Ok(id);
            }
        }
    }

    /// A file that the caller may read.
    pub async fn file(&self, id: &str) -> Result<FoundFile, Fault> {
        Ok(self.seen_file(id).await?.found)
    }

    async fn seen_file(&self, id: &str) -> Result<SeenFile, Fault> {
        let id = id.to_owned();
        self.view(move |task, by| task.file(by, &id)).await
    }

    /// Files the caller may read, the newest first.
    pub async fn files(&self, filter: FileFilter) -> Result<FileList, Fault> {
        self.view(move |task, by| task.engine.state.files_seen(by.viewer, &filter)).await
    }

    /// Takes a file away: its owner does, and whoever manages the workspace without being a member.
    pub async fn delete_file(&self, id: &str) -> Result<(), Fault> {
        let SeenFile { address, is_member, arranges, .. } = self.seen_file(id).await?;
        match (is_member, arranges) {
            (true, _) => self.told(EventType::ResourceUnregister, json!({ "address": address })).await,
            (false, true) => self.network.admin(AdminOp::Unregister(address)).await.map(drop),
            (false, false) => Err(Fault::new(
                ErrorCode::Unauthenticated,
                "who deletes the file is not known: give its source, and show its session id as Bearer",
            )),
        }
    }
}
