//! Looking at conversations and work inside the task: positions and counts, no bodies.

use super::read::{PendingAnswer, ReadContext};
use super::{Task, Then};
use crate::files::FoundFile;
use crate::work::FoundArtifact;
use rialto_engine::record::Change;
use rialto_engine::work::{Unit, UnitNo};
use rialto_engine::{Caller, Clock, MemberId, StreamKey, Viewer, Wishes};
use rialto_model::view::{ChannelView, InvitationList, MeView, RoomView, WorkView};
use rialto_model::{Address, ErrorCode, Fault, Seq};
use tokio::sync::oneshot;

/// What an upload needs to know: who brings it, how much the network may keep, and what is there now.
#[derive(Debug)]
pub(crate) struct UploadTerms {
    /// Who brings it, if that is known.
    pub(crate) member: Option<MemberId>,
    /// Bytes of content that all resources of the network may have together.
    pub(crate) quota: u64,
    /// The version of the resource, if it exists.
    pub(crate) version: Option<u64>,
}

/// A file, and what its reader may do about it.
#[derive(Debug)]
pub(crate) struct SeenFile {
    /// The file.
    pub(crate) found: FoundFile,
    /// Its address.
    pub(crate) address: String,
    /// The reader is a member.
    pub(crate) is_member: bool,
    /// The reader arranges conversations here.
    pub(crate) arranges: bool,
}

/// The refusal of content that nobody brings who could own it.
pub(crate) fn no_uploader() -> Fault {
    Fault::new(ErrorCode::NotAMember, "only members may bring content: join first")
}

fn no_unit(id: &str) -> Fault {
    Fault::new(ErrorCode::UnknownTarget, format!("no work unit {id:?} is known here"))
}

impl Task {
    /// A room that the viewer may know of.
    pub(crate) fn room(&self, viewer: Viewer, id: &str) -> Result<RoomView, Fault> {
        let state = &self.engine.state;
        let found = state.room_seen(viewer, id).and_then(|number| state.room_view(viewer, number));
        found.ok_or_else(|| Fault::new(ErrorCode::UnknownTarget, format!("no direct room {id:?} is known here")))
    }

    pub(super) fn open_room(
        &mut self,
        caller: &Caller,
        peer: &str,
        channel: Option<&str>,
        reply: oneshot::Sender<Result<RoomView, Fault>>,
        now: Clock,
    ) {
        let opened = self.member_of(caller, now).and_then(|member| {
            let number = self.engine.open_room(member, peer, channel, now, &mut self.fx);
            Ok((member, self.decided(number)?))
        });
        let result = opened.and_then(|(member, number)| {
            let room = self.engine.state.room_view(Viewer::Member(member), number);
            room.ok_or_else(|| Fault::from(ErrorCode::Internal))
        });
        self.urgent = true;
        self.then.push(Then::Pending(PendingAnswer::new(reply, result)));
    }

    /// What an upload to this address needs to know.
    pub(crate) fn may_write(&self, by: &ReadContext<'_>, address: &str) -> Result<UploadTerms, Fault> {
        let Viewer::Member(member) = by.viewer else { return Err(no_uploader()) };
        let version = self.engine.state.may_write(member, address)?;
        let quota = self.engine.state.book.settings.blob_bytes_max;
        Ok(UploadTerms { member: Some(member), quota, version })
    }

    /// What an upload needs to know before it is known who brings it.
    pub(crate) fn may_bring(&self, by: &ReadContext<'_>) -> Result<UploadTerms, Fault> {
        let state = &self.engine.state;
        let member = match by.viewer {
            Viewer::Operator => return Err(no_uploader()),
            Viewer::Member(id) => Some(id),
            Viewer::Reader { .. } => None,
        };
        state.may_bring(member)?;
        Ok(UploadTerms { member, quota: state.book.settings.blob_bytes_max, version: None })
    }

    /// A file the reader may read, and what it may do about it.
    pub(crate) fn file(&self, by: &ReadContext<'_>, id: &str) -> Result<SeenFile, Fault> {
        let state = &self.engine.state;
        let file = state.file(by.viewer, id)?;
        let content = file.content.ok_or(ErrorCode::Internal)?;
        Ok(SeenFile {
            found: FoundFile { entry: state.file_view(file), version: file.version, content },
            address: file.address.to_string(),
            is_member: matches!(by.viewer, Viewer::Member(_)),
            arranges: state.may_arrange(by.caller, by.now),
        })
    }

    pub(super) fn change_own(
        &mut self,
        caller: &Caller,
        wishes: &Wishes,
        reply: oneshot::Sender<Result<MeView, Fault>>,
        now: Clock,
    ) {
        let changed = self.member_of(caller, now).and_then(|member| {
            let decided = self.engine.change_own(member, wishes, now, &mut self.fx);
            self.decided(decided).map(|()| member)
        });
        let result = changed.and_then(|member| self.me_view(member, now));
        self.urgent = true;
        self.then.push(Then::Pending(PendingAnswer::new(reply, result)));
    }

    /// The reader as it sees itself.
    pub(crate) fn me(&self, by: &ReadContext<'_>) -> Result<MeView, Fault> {
        match by.viewer {
            Viewer::Member(id) => self.me_view(id, by.now),
            Viewer::Operator | Viewer::Reader { .. } => {
                Err(Fault::new(ErrorCode::NotAMember, "only members have settings of their own: join first"))
            }
        }
    }

    fn me_view(&self, member: MemberId, now: Clock) -> Result<MeView, Fault> {
        let me = self.engine.state.me_view(&self.engine.live, member, now);
        me.ok_or_else(|| Fault::from(ErrorCode::Internal))
    }

    /// Counts a call as presence of the member that calls; gives its address.
    pub(crate) fn heartbeat(&mut self, caller: &Caller, now: Clock) -> Result<Box<str>, Fault> {
        let member = self.member_of(caller, now)?;
        let address = self.engine.state.member(member).map(|m| m.address.clone());
        address.ok_or_else(|| Fault::from(ErrorCode::Internal))
    }

    /// What a change means for those that are connected.
    pub(super) fn heed(&mut self, change: &Change) {
        if let Change::Quiet { member, until: None } = change {
            self.sessions.wake(&self.engine.state, *member);
            // Readers that follow by cursor look again.
            let _ = self.head.send(self.committed);
        }
    }

    /// The unit of an id, if the viewer may see it.
    fn unit_seen(&self, viewer: Viewer, id: &str) -> Result<(UnitNo, &Unit), Fault> {
        let state = &self.engine.state;
        let found = match viewer {
            Viewer::Operator => state.unit_named(id, None),
            Viewer::Member(me) => state.unit_named(id, Some(me)).filter(|(_, unit)| state.sees_unit(unit, me)),
            Viewer::Reader { .. } => None,
        };
        found.ok_or_else(|| no_unit(id))
    }

    pub(crate) fn work(&self, by: &ReadContext<'_>, id: &str) -> Result<WorkView, Fault> {
        let (_, unit) = self.unit_seen(by.viewer, id)?;
        Ok(self.engine.state.unit_view(&self.engine.live, unit, by.now))
    }

    /// An artifact of a unit the viewer may see, and the position of the unit's last event.
    pub(crate) fn artifact(&self, viewer: Viewer, id: &str, artifact: &str) -> Result<(FoundArtifact, Seq), Fault> {
        let (_, unit) = self.unit_seen(viewer, id)?;
        let found = unit.artifacts.iter().find(|known| known.id.as_ref() == artifact);
        let missing = || Fault::new(ErrorCode::UnknownTarget, format!("{} has no artifact {artifact:?}", unit.id));
        let found = found.ok_or_else(missing)?;
        if !found.is_content() {
            let text = format!("the parts of {artifact:?} are in the events of {}", unit.id);
            return Err(Fault::new(ErrorCode::ResourceNotFound, text));
        }
        let content = FoundArtifact {
            name: found.name.as_deref().map(str::to_owned),
            content_type: found.content_type.as_deref().map(str::to_owned),
            seq: found.blobs.last().map_or(0, |chunk| chunk.seq),
            contents: found.blobs.iter().map(|chunk| chunk.content).collect(),
        };
        Ok((content, unit.last_seq))
    }

    /// Committed events of a unit after a position.
    pub(crate) fn work_log(&self, viewer: Viewer, id: &str, after: Seq, limit: usize) -> Result<Vec<Seq>, Fault> {
        let (no, _) = self.unit_seen(viewer, id)?;
        let list = self.engine.state.lists.stream(StreamKey::Work(no));
        let mut seqs = list.into_iter().flat_map(|list| {
            let mut seqs = list.iter();
            seqs.advance_to(after.saturating_add(1));
            seqs
        });
        let committed = self.committed;
        Ok(seqs.by_ref().take_while(|seq| *seq <= committed).take(limit).collect())
    }

    /// A channel by name, if the viewer may know of it.
    pub(crate) fn channel(&self, viewer: Viewer, name: &str) -> Result<ChannelView, Fault> {
        let state = &self.engine.state;
        let name = name.trim_start_matches("channel/");
        let found = state.channel_id(name).filter(|id| state.may_see_channel(viewer, *id));
        let missing = || Fault::new(ErrorCode::UnknownTarget, format!("channel/{name}: no such channel"));
        found.and_then(|id| state.channel_view(id)).ok_or_else(missing)
    }

    /// Invitations the viewer may see: the operator all, a member its own.
    pub(crate) fn invitations(&self, viewer: Viewer, agent: Option<&str>) -> Result<InvitationList, Fault> {
        let state = &self.engine.state;
        let canonical = |text: &str| {
            let address = Address::parse_in(text, &state.network);
            address.map(|a| a.as_str().to_owned()).map_err(|e| Fault::new(ErrorCode::InvalidAddress, e.to_string()))
        };
        let asked = agent.map(canonical).transpose()?;
        let own = match viewer {
            Viewer::Operator => asked,
            Viewer::Member(id) => state.member(id).map(|m| m.address.to_string()),
            Viewer::Reader { .. } => {
                return Err(Fault::new(
                    ErrorCode::Unauthenticated,
                    "who asks is not known: show a session id as Bearer",
                ));
            }
        };
        Ok(state.invitations(own.as_deref()))
    }
}
