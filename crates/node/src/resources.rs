//! Resources as members see them: lists, content in and out, and calls that wait for their answer.

use crate::blobs::{Download, Staging, Upload};
use crate::command::Answered;
use crate::network::Network;
use crate::session::Session;
use crate::task::Task;
use crate::task::nouns::no_uploader;
use crate::task::read::ReadContext;
use crate::texts::Texts;
use crate::work::{WorkSight, ends_work};
use rialto_engine::EventRecord;
use rialto_engine::input::Content;
use rialto_model::payload::ResourceFilter;
use rialto_model::view::{ResourceList, ResourceView};
use rialto_model::{ErrorCode, Fault};
use std::ops::Range;
use std::sync::Arc;

/// A resource that may be read.
#[derive(Debug, Clone)]
pub struct FoundResource {
    /// As listings show it.
    pub entry: ResourceView,
    /// Its content, if the network keeps it.
    pub content: Option<Content>,
}

/// What came of a request that somebody else answers.
#[derive(Debug, Clone)]
pub(crate) struct Called {
    /// The request.
    pub(crate) answered: Answered,
    /// What ended it; nothing if it was answered at once.
    pub(crate) end: Option<Arc<EventRecord>>,
}

impl Session {
    /// Resources the caller may read.
    pub async fn resources(&self, filter: ResourceFilter) -> Result<ResourceList, Fault> {
        let read = move |task: &mut Task, by: &ReadContext<'_>| {
            task.engine.state.resources(&task.engine.live, by.asker()?, &filter, by.now)
        };
        self.view(read).await
    }

    /// One resource, and where its content is.
    pub async fn resource(&self, address: &str, version: Option<u64>) -> Result<FoundResource, Fault> {
        let address = address.to_owned();
        let read = move |task: &mut Task, by: &ReadContext<'_>| {
            task.engine.state.readable(&task.engine.live, by.asker()?, &address, version, by.now)
        };
        let (entry, content) = self.view(read).await?;
        Ok(FoundResource { entry, content })
    }

    /// Begins an upload of content that an event of the caller's will name.
    pub async fn stage(&self, expected: Option<u64>) -> Result<Upload, Fault> {
        let terms = self.view(|task, by| task.may_bring(by)).await?;
        let member = terms.member.ok_or_else(no_uploader)?;
        let staging = Staging { expected, ..Staging::new(self.network.number(), member, terms.quota) };
        Ok(self.network.handle.blobs.stage(staging).await?)
    }

    /// Begins an upload for a resource that the caller may write, or that does not exist yet. Gives its version.
    pub async fn upload(&self, address: &str, expected: Option<u64>) -> Result<(Upload, Option<u64>), Fault> {
        let address = address.to_owned();
        let terms = self.view(move |task, by| task.may_write(by, &address)).await?;
        let member = terms.member.ok_or(ErrorCode::NotAMember)?;
        let staging = Staging { expected, ..Staging::new(self.network.number(), member, terms.quota) };
        Ok((self.network.handle.blobs.stage(staging).await.map_err(Fault::from)?, terms.version))
    }

    /// Sends a request and waits for what ends it: a result, an answer, an error, its time-out.
    pub(crate) async fn call(&self, event: Texts) -> Result<Called, Fault> {
        let answers = self.emit(event).await?;
        let answered = answers.into_iter().next().ok_or(ErrorCode::Internal)?;
        let result = answered.result.as_ref().ok().and_then(|accepted| accepted.result.as_ref());
        let unit = result.and_then(|r| r.get("work")?.get("id")?.as_str()).map(str::to_owned);
        let Some(unit) = unit else { return Ok(Called { answered, end: None }) };
        // What ended it may have happened before the watch begins: then it is the last of the unit's events.
        let mut watch = self.watch_work(&unit).await?;
        let mut end = None;
        while let Some(seen) = watch.next().await? {
            if let WorkSight::Event(record) = seen {
                end = ends_work(&record).then_some(record);
            }
        }
        if end.is_none() {
            let page = self.work_page(&unit, 0, 64).await?;
            end = page.events.into_iter().rfind(|record| ends_work(record));
        }
        Ok(Called { answered, end })
    }
}

impl Network {
    /// The bytes of content that the caller has been shown.
    pub async fn download(&self, content: &Content, range: Range<u64>) -> Result<Download, Fault> {
        let found = self.handle.blobs.open(&content.blob, range).await.map_err(Fault::from)?;
        found.ok_or_else(|| {
            tracing::error!(network = %self.id(), "content that is named is not there");
            Fault::new(ErrorCode::StorageUnavailable, "the content cannot be read; the log of the node has the cause")
        })
    }
}
