//! What the two sides of a work unit do to it, and calling a tool: each is one event, sent by the caller.
//!
//! Not here: opening a unit (`order`), and looking at one (`work`).

use crate::draft::{Draft, Receipt};
use crate::resources::Called;
use crate::session::Session;
use crate::texts::Texts;
use rialto_engine::EventRecord;
use rialto_model::{ErrorCode, Fault, WorkState};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;
use std::time::Duration;

/// News of a unit by who does it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct WorkNews {
    /// The state that it is in from now on; as it is, or `working` if nobody had begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<WorkState>,
    /// What is to be said about it, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Box<RawValue>>,
    /// How far it is, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Box<RawValue>>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<WorkFailure>,
}

/// Why work failed.
#[derive(Debug, Clone, Serialize)]
pub struct WorkFailure {
    /// A short code.
    pub code: String,
}

/// An artifact, or a chunk of one. It has parts or the content of an upload.
#[derive(Debug, Clone, Default, Serialize)]
pub struct MadeArtifact {
    /// What it is called within its unit.
    pub id: String,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it says: a JSON list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<Box<RawValue>>,
    /// Content that the caller uploaded before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<UploadedContent>,
}

/// Content that the caller uploaded before.
#[derive(Debug, Clone, Serialize)]
pub struct UploadedContent {
    /// SHA-256 of the content, in hex digits.
    pub sha256: String,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// Whether a chunk of an artifact goes on from the one before, and whether another follows.
#[derive(Debug, Clone, Copy, Default)]
pub struct ArtifactChunking {
    /// It goes on where the chunk before ended.
    pub append: bool,
    /// Another chunk follows.
    pub more: bool,
}

/// How a tool is called.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolCallOptions {
    /// How long the caller waits for the result; half a minute if nothing is said.
    pub deadline: Option<Duration>,
    /// Wait for an owner that is not there.
    pub wait_for_owner: bool,
}

/// What came of calling a tool.
#[derive(Debug, Clone)]
pub struct ToolOutcome {
    /// The id of the request.
    pub request: String,
    /// The result.
    pub result: Arc<EventRecord>,
    /// The tool says that it failed; its result says why.
    pub is_error: bool,
    /// The result is not what the tool's schema says.
    pub schema_warning: bool,
}

#[derive(Serialize)]
struct AboutUnit<'a, T> {
    work: &'a str,
    #[serde(flatten)]
    said: T,
}

impl Session {
    /// Says how a unit goes on. Whoever may do it and nobody does yet takes it with this.
    pub async fn update_work(&self, unit: &str, news: &WorkNews) -> Result<Receipt, Fault> {
        self.send_about(unit, "work.update", news).await
    }

    /// Takes a unit that nobody does yet. Of several who try, one gets it and the others are refused.
    pub async fn take_work(&self, unit: &str) -> Result<Receipt, Fault> {
        self.update_work(unit, &WorkNews { state: Some(WorkState::Working), ..WorkNews::default() }).await
    }

    /// Hands something over that the work has made, or a chunk of it.
    pub async fn add_artifact(
        &self,
        unit: &str,
        artifact: &MadeArtifact,
        chunk: ArtifactChunking,
    ) -> Result<Receipt, Fault> {
        #[derive(Serialize)]
        struct Chunk<'a> {
            artifact: &'a MadeArtifact,
            append: bool,
            last: bool,
        }
        let said = Chunk { artifact, append: chunk.append, last: !chunk.more };
        self.send_about(unit, "work.artifact", &said).await
    }

    /// Answers what the executor of the caller's unit asked, in JSON.
    pub async fn answer_work(&self, unit: &str, message: &RawValue) -> Result<Receipt, Fault> {
        #[derive(Serialize)]
        struct Answer<'a> {
            message: &'a RawValue,
        }
        self.send_about(unit, "work.answer", &Answer { message }).await
    }

    /// Calls the caller's unit off.
    pub async fn cancel_work(&self, unit: &str, reason: Option<&str>) -> Result<Receipt, Fault> {
        #[derive(Serialize)]
        struct Reason<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            reason: Option<&'a str>,
        }
        self.send_about(unit, "work.cancel", &Reason { reason }).await
    }

    /// Sent to core, which passes it on to the other side.
    async fn send_about(&self, unit: &str, kind: &str, said: &impl Serialize) -> Result<Receipt, Fault> {
        self.send(&Draft::new(kind, "core", &AboutUnit { work: unit, said })?).await
    }

    /// Calls a tool, by its address, and waits for its result. A call that nobody answered is refused with what ended it.
    pub async fn call_tool(
        &self,
        tool: &str,
        input: &RawValue,
        options: ToolCallOptions,
    ) -> Result<ToolOutcome, Fault> {
        let mut draft = Draft::new("network.resource.invoke", tool, &input)?;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let timeout = options.deadline.map(|time| to_raw_value(&millis(time)));
        let waits = options.wait_for_owner.then(|| to_raw_value(&true));
        for (name, value) in [("timeout_ms", timeout), ("wait_for_owner", waits)] {
            if let Some(value) = value {
                draft.metadata.push((name.to_owned(), value.map_err(|_| ErrorCode::Internal)?));
            }
        }
        let Called { answered, end } = self.call(Texts::one(draft.frame()?)).await?;
        let accepted = answered.result?;
        let result = end.ok_or_else(|| Fault::new(ErrorCode::Internal, "the call ended without an event"))?;
        if let Some(refused) = refusal(&result) {
            return Err(refused);
        }
        let said = |name: &str| metadata_says(&result, name);
        Ok(ToolOutcome {
            request: accepted.event_id().to_owned(),
            is_error: said("is_error"),
            schema_warning: said("rialto.schema_warning"),
            result,
        })
    }
}

/// The refusal that ended a call, if it did not end with a result.
fn refusal(end: &EventRecord) -> Option<Fault> {
    #[derive(serde::Deserialize)]
    struct Ended {
        code: String,
        #[serde(default)]
        message: String,
    }
    if end.event.kind() != "network.event.error" {
        return None;
    }
    let ended: Option<Ended> = serde_json::from_str(end.event.payload()).ok();
    let code = ended.as_ref().and_then(|ended| ErrorCode::from_wire(&ended.code)).unwrap_or(ErrorCode::Internal);
    Some(Fault::new(code, ended.map(|ended| ended.message).unwrap_or_default()))
}

fn metadata_says(record: &EventRecord, name: &str) -> bool {
    let metadata: Option<std::collections::BTreeMap<String, &RawValue>> =
        serde_json::from_str(record.event.metadata()).ok();
    metadata.is_some_and(|members| members.get(name).is_some_and(|value| value.get() == "true"))
}
