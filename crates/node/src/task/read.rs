//! Reads inside the task, with answers of whatever type the reader asks for.
//!
//! Invariant: an answer is given when everything it shows is committed.
//! Not here: what is read; that stands with its noun.

use super::{Task, Then};
use rialto_engine::{Caller, Clock, MemberId, Viewer};
use rialto_model::{ErrorCode, Fault};
use tokio::sync::oneshot;

/// An answer that waits for the commit of what it shows. If that fails, the fault is the answer.
pub(crate) struct PendingAnswer(Box<dyn FnOnce(Result<(), Fault>) + Send>);

impl PendingAnswer {
    /// The answer to give through `reply` once it is committed.
    pub(super) fn new<T: Send + 'static>(
        reply: oneshot::Sender<Result<T, Fault>>,
        answer: Result<T, Fault>,
    ) -> PendingAnswer {
        PendingAnswer(Box::new(move |committed| drop(reply.send(committed.and(answer)))))
    }

    /// Gives the answer, or the fault for which nothing was committed.
    pub(super) fn give(self, committed: Result<(), Fault>) {
        (self.0)(committed);
    }
}

/// What is read in the task: it gets the task, or why that does not read.
type ReadInTask = dyn FnOnce(Result<(&mut Task, Clock), Fault>) -> PendingAnswer + Send;

/// A read that waits for its turn in the task.
pub(crate) struct TaskRead(Box<ReadInTask>);

impl std::fmt::Debug for TaskRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskRead").finish_non_exhaustive()
    }
}

impl TaskRead {
    /// A read whose answer goes to `reply`.
    pub(crate) fn new<T: Send + 'static>(
        reply: oneshot::Sender<Result<T, Fault>>,
        read: impl FnOnce(&mut Task, Clock) -> Result<T, Fault> + Send + 'static,
    ) -> TaskRead {
        TaskRead(Box::new(move |task| PendingAnswer::new(reply, task.and_then(|(task, now)| read(task, now)))))
    }

    /// Answers with a fault instead of reading.
    pub(super) fn refuse(self, fault: Fault) {
        (self.0)(Err(fault)).give(Ok(()));
    }
}

/// Who reads, and when.
#[derive(Debug)]
pub(crate) struct ReadContext<'a> {
    /// What the reader shows of itself.
    pub(crate) caller: &'a Caller,
    /// Who that is here.
    pub(crate) viewer: Viewer,
    /// The time in the task.
    pub(crate) now: Clock,
}

impl ReadContext<'_> {
    /// Who asks for resources: a member, or nobody for the operator, whom no rule stops.
    pub(crate) fn asker(&self) -> Result<Option<MemberId>, Fault> {
        match self.viewer {
            Viewer::Operator => Ok(None),
            Viewer::Member(id) => Ok(Some(id)),
            Viewer::Reader { .. } => {
                Err(Fault::new(ErrorCode::NotAMember, "only members may use resources: join first"))
            }
        }
    }

    /// Refuses everybody but the operator.
    pub(crate) fn operator_only(&self) -> Result<(), Fault> {
        match self.viewer {
            Viewer::Operator => Ok(()),
            Viewer::Member(_) | Viewer::Reader { .. } => {
                Err(Fault::new(ErrorCode::Forbidden, "only the operator may read this"))
            }
        }
    }
}

impl Task {
    /// Reads for a caller: refuses those who may not read here, and counts the call as presence of a member.
    pub(crate) fn read_for<T>(
        &mut self,
        caller: &Caller,
        now: Clock,
        read: impl FnOnce(&mut Task, &ReadContext<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.token_shown(caller.bearer.as_ref(), now);
        let viewer = self.viewer_of(caller, now)?;
        read(self, &ReadContext { caller, viewer, now })
    }

    /// Does a read, and answers when what it saw is committed.
    pub(super) fn answer_task_read(&mut self, read: TaskRead, now: Clock) {
        let answer = (read.0)(Ok((self, now)));
        self.answer_read(Then::Pending(answer), now);
    }
}
